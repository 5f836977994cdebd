//! Leases that end while somebody waits for them, those that are not given meanwhile, and who is in the way.

use pandofs_leases::{LeaseTable, Room};
use pandofs_types::limits::{BRIEF_LEASE, LEASE, SHORT_LEASE};
use pandofs_types::{Ino, LeaseKey, SessionId, Steady, Term};

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const KEY: LeaseKey = LeaseKey::Inode(Ino(9));

/// Of the session that changes it nobody waits for the lease, and its end is nobody's end.
#[test]
fn the_end_of_a_lease_that_is_excepted_lets_nobody_go_on() {
    let mut table = LeaseTable::default();
    assert_eq!(table.grant(A, KEY, false), Some(Term::Long));
    table.tick(Steady(1));
    assert_eq!(table.grant(B, KEY, false), Some(Term::Long));
    let id = table.clear(&[(KEY, Some(A))]).expect("B has it");
    table.tick(Steady(0).after(LEASE));
    assert_eq!(table.len(), 1, "that of A is over");
    assert_eq!(table.take_clear(), []);
    table.tick(Steady(1).after(LEASE));
    assert_eq!(table.take_clear(), [id]);
}

#[test]
fn nothing_is_leased_while_the_table_is_closed() {
    let mut table = LeaseTable::default();
    assert!(table.close(), "there is nothing to end");
    assert_eq!(table.grant(A, KEY, false), None);
    assert!(table.close());
    table.open();
    assert_eq!(table.grant(A, KEY, false), Some(Term::Long));
}

fn key(number: u64) -> LeaseKey {
    LeaseKey::Inode(Ino(number))
}

#[test]
fn of_those_who_are_in_the_way_one_is_named_and_the_others_are_counted() {
    let (c, other) = (SessionId(3), key(10));
    let mut table = LeaseTable::default();
    for (session, key) in [(A, KEY), (B, KEY), (c, KEY), (B, other)] {
        assert_eq!(table.grant(session, key, false), Some(Term::Long));
    }
    let all = table.clear(&[(KEY, None), (other, None)]).expect("all");
    let but_a = table.clear(&[(KEY, Some(A))]).expect("B and C");
    let of_other = table.clear(&[(other, Some(A))]).expect("B");
    let waits = [all, but_a, of_other];
    assert_eq!(
        waits.map(|wait| table.in_the_way(wait)),
        [Some((A, 2)), Some((B, 1)), Some((B, 0))]
    );
    assert_eq!(table.waiting(), 3);
    table.drop_session(B);
    assert_eq!(
        waits.map(|wait| table.in_the_way(wait)),
        [Some((A, 1)), Some((c, 0)), None]
    );
    assert_eq!(table.take_clear(), [of_other]);
    table.drop_session(c);
    assert_eq!(table.take_clear(), [but_a]);
    assert_eq!(table.in_the_way(but_a), None, "it waits no more");
    assert_eq!((table.in_the_way(all), table.waiting()), (Some((A, 0)), 1));
}

#[test]
fn what_was_recalled_is_counted() {
    let mut table = LeaseTable::default();
    for number in 1..=3 {
        assert!(table.grant(A, key(number), false).is_some());
    }
    assert!(table.clear(&[(key(1), None), (key(2), None)]).is_some());
    assert_eq!(table.recalled(), 0, "it is not sent yet");
    assert_eq!(table.take_recalls().len(), 1);
    assert_eq!((table.recalled(), table.is_empty()), (2, false));
    assert!(table.clear(&[(key(3), None)]).is_some());
    assert_eq!(table.take_recalls().len(), 1);
    assert_eq!(table.recalled(), 3);
}

/// An answer on its way to one session is nothing to the other one.
#[test]
fn a_session_that_begins_anew_leaves_the_recalls_of_others_alone() {
    let mut table = LeaseTable::default();
    for (session, number) in [(A, 1), (B, 2), (B, 3)] {
        assert!(table.grant(session, key(number), false).is_some());
    }
    let first = table.clear(&[(key(1), None), (key(2), None)]).expect("two");
    let recalls = table.take_recalls();
    let sent: Vec<_> = recalls.iter().map(|recall| recall.session).collect();
    assert_eq!(sent, [A, B]);
    let second = table.clear(&[(key(3), None)]).expect("B has it");
    table.drop_session(A);
    table.answered(B, recalls[1].number);
    assert_eq!(table.take_clear(), [first]);
    // One that is still to be sent, too.
    let recalls = table.take_recalls();
    assert_eq!(recalls.len(), 1);
    assert_eq!(recalls[0].keys, [key(3)]);
    table.answered(B, recalls[0].number);
    assert_eq!(table.take_clear(), [second]);
}

/// The session believes the earlier answer until its end.
#[test]
fn a_lease_for_a_shorter_time_does_not_end_the_longer_one_before_its_time() {
    let mut table = LeaseTable::default();
    assert_eq!(table.grant(A, KEY, false), Some(Term::Long));
    let (many, very_many, all) = (0, 0, 9);
    table.set_room(Room {
        many,
        very_many,
        all,
    });
    // Sooner than a short one would, and later than a brief one does.
    let before = Steady((LEASE - SHORT_LEASE).as_nanos() as i64 + 1);
    table.tick(before);
    assert_eq!(table.grant(A, KEY, false), Some(Term::Brief));
    table.tick(before.after(BRIEF_LEASE));
    assert!(table.is_held(KEY, None));
    table.tick(Steady(0).after(LEASE));
    assert!(table.is_empty());
}

/// Of a session that begins anew nothing counts any more, of others all does.
#[test]
fn who_begins_anew_makes_room_for_others() {
    let (many, very_many, all) = (9, 9, 3);
    let mut table = LeaseTable::default();
    table.set_room(Room {
        many,
        very_many,
        all,
    });
    for (session, number) in [(A, 1), (A, 2), (B, 3)] {
        assert!(table.grant(session, key(number), false).is_some());
    }
    assert_eq!(table.grant(B, key(4), false), None);
    table.drop_session(A);
    assert_eq!((table.len(), table.is_held(key(3), None)), (1, true));
    let given = (4..=6).map(|number| table.grant(B, key(number), false).is_some());
    assert_eq!(given.collect::<Vec<_>>(), [true, true, false]);
    table.tick(Steady(0).after(LEASE));
    assert!(table.is_empty(), "their time ends as it did");
}

#[test]
fn what_nobody_waits_for_is_leased_while_somebody_waits_for_something_else() {
    let mut table = LeaseTable::default();
    assert!(table.grant(A, KEY, false).is_some());
    assert!(table.clear(&[(KEY, None)]).is_some());
    assert_eq!(table.grant(B, KEY, false), None);
    assert_eq!(table.grant(B, key(1), false), Some(Term::Long));
}

/// Its answer to the recall may come after the new lease, and it believes nothing then.
#[test]
fn what_a_session_is_told_to_drop_is_not_leased_to_it_before_it_has_answered() {
    let mut table = LeaseTable::default();
    assert!(table.grant(A, KEY, false).is_some());
    assert!(!table.close());
    table.open();
    assert_eq!(table.grant(A, KEY, false), None, "it is to be recalled");
    let recalls = table.take_recalls();
    let keys: Vec<_> = recalls.iter().map(|recall| &recall.keys[..]).collect();
    assert_eq!(keys, [[KEY]]);
    assert_eq!(table.grant(A, KEY, false), None, "it is recalled");
    assert_eq!(table.grant(B, KEY, false), Some(Term::Long));
    table.answered(A, recalls[0].number);
    assert_eq!((table.len(), table.is_held(KEY, Some(B))), (1, false));
    assert_eq!(table.grant(A, KEY, false), Some(Term::Long));
}

/// The time of the lease was up before it was sent. The session drops the new one, too, and that ends by its time.
#[test]
fn a_recall_that_is_sent_late_ends_no_lease_that_was_given_since() {
    let mut table = LeaseTable::default();
    assert!(table.grant(A, KEY, false).is_some());
    let id = table.clear(&[(KEY, None)]).expect("A has it");
    table.tick(Steady(0).after(LEASE));
    assert_eq!(table.take_clear(), [id]);
    assert_eq!(table.grant(A, KEY, false), Some(Term::Long));
    let recalls = table.take_recalls();
    assert_eq!(recalls.len(), 1);
    table.answered(A, recalls[0].number);
    assert!(table.is_held(KEY, None));
    table.tick(Steady(0).after(LEASE).after(LEASE));
    assert!(table.is_empty());
}

#[test]
fn a_key_that_is_to_be_clear_of_all_is_so_although_it_is_excepted_beside() {
    let mut table = LeaseTable::default();
    for session in [A, B] {
        assert!(table.grant(session, KEY, false).is_some());
    }
    let ways = [
        [(KEY, Some(A)), (KEY, Some(A))],
        [(KEY, Some(A)), (KEY, None)],
        [(KEY, Some(A)), (KEY, Some(B))],
    ];
    let waits = ways.map(|keys| table.clear(&keys).expect("both have it"));
    assert_eq!(
        waits.map(|wait| table.in_the_way(wait)),
        [Some((B, 0)), Some((A, 1)), Some((A, 1))]
    );
    table.drop_session(B);
    assert_eq!(table.take_clear(), [waits[0]]);
    table.drop_session(A);
    assert_eq!(table.take_clear(), waits[1..]);
}
