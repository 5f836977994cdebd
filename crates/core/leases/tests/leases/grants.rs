//! Grants of directories in the table of leases.

use pandofs_leases::{LeaseTable, Recall};
use pandofs_types::limits::{LEASE, MAX_GRANT_RECALL, MAX_GRANTS_PER_SHARD};
use pandofs_types::{Ino, LeaseKey, SessionId, Steady};
use std::time::Duration;

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const DIR: Ino = Ino(9);
const KEY: LeaseKey = LeaseKey::Grant(DIR);

fn recalls(table: &mut LeaseTable, session: SessionId, dirs: &[Ino]) -> u64 {
    let mut recalls = table.take_recalls();
    assert_eq!(recalls.len(), 1, "{recalls:?}");
    let Recall {
        session: to,
        number,
        keys,
    } = recalls.remove(0);
    let wanted: Vec<_> = dirs.iter().map(|&dir| LeaseKey::Grant(dir)).collect();
    assert_eq!((to, keys), (session, wanted));
    number
}

#[test]
fn one_session_has_a_directory_until_it_has_given_it_up() {
    let mut table = LeaseTable::default();
    assert_eq!(table.grant_dir(A, DIR, 5), Some(5));
    assert_eq!(table.grant_dir(A, DIR, 6), Some(5), "it asked again");
    assert_eq!(table.grant_dir(B, DIR, 7), None);
    assert_eq!(table.clear(&[(KEY, Some(A))]), None, "its own");
    let id = table.clear(&[(KEY, Some(B))]).expect("it waits");
    let number = recalls(&mut table, A, &[DIR]);
    assert_eq!(table.grant_dir(A, DIR, 6), None, "it is being recalled");
    table.answered(A, number);
    assert_eq!(
        table.grant_dir(A, DIR, 6),
        None,
        "somebody waits for the end"
    );
    assert_eq!(table.take_clear(), [id]);
    assert_eq!((table.incarnation(A), table.len()), (Some(5), 0));
    assert_eq!(table.grant_dir(B, DIR, 7), Some(7));
}

/// A session gives up a grant when all is sent that it has done under it; a client that waits for a lease does not wait for that.
#[test]
fn grants_are_recalled_by_themselves() {
    let mut table = LeaseTable::default();
    table.grant_dir(A, DIR, 5).expect("a grant");
    let leases = [LeaseKey::Inode(Ino(8)), LeaseKey::Parts(Ino(10))];
    for key in leases {
        table.grant(A, key, true).expect("a lease");
    }
    let wanted = [KEY, leases[1], leases[0]].map(|key| (key, Some(B)));
    table.clear(&wanted).expect("it waits");
    let recalls = table.take_recalls();
    let keys: Vec<_> = recalls.iter().map(|recall| &recall.keys[..]).collect();
    assert_eq!(keys, [&leases[..], &[KEY]]);
    table.answered(A, recalls[0].number);
    assert!(!table.is_held(leases[0], None) && table.is_held(KEY, None));
}

#[test]
fn grants_without_a_directory_last_while_nobody_wants_any() {
    let mut table = LeaseTable::default();
    assert_eq!(table.begin_grants(A, 5), Some(5));
    assert_eq!(table.begin_grants(A, 6), Some(5), "they have begun");
    assert_eq!((table.incarnation(A), table.grants()), (Some(5), 0));
    let half = Steady(LEASE.as_nanos() as i64 / 2);
    table.tick(half);
    assert_eq!(table.renew(A), Some(5));
    table.tick(Steady(0).after(LEASE));
    table.grant_made(A, DIR);
    assert_eq!(table.grants(), 1);
    table.tick(half.after(LEASE));
    assert!(table.take_over().is_empty());
    assert_eq!((table.incarnation(A), table.grants()), (Some(5), 1));
    table.drop_session(A);
    assert_eq!(table.incarnation(A), None);
    table.close();
    assert_eq!(table.begin_grants(A, 9), None);
}

#[test]
fn all_grants_of_a_session_end_together() {
    let mut table = LeaseTable::default();
    let start = Steady(1);
    table.tick(start);
    assert_eq!(table.grant_dir(A, DIR, 5), Some(5));
    let half = Steady(start.0 + LEASE.as_nanos() as i64 / 2);
    table.tick(half);
    assert_eq!(
        table.grant_dir(A, Ino(10), 6),
        Some(5),
        "and the first is renewed"
    );
    assert_eq!(table.grant_dir(B, Ino(11), 7), Some(7));
    table.tick(start.after(LEASE));
    assert_eq!(table.grants(), 3);
    assert_eq!(table.renew(A), Some(5));
    table.tick(half.after(LEASE));
    assert!(table.take_over().is_empty(), "nobody wants any");
    assert_eq!(table.renew(B), Some(7));
    table.tick(half.after(LEASE).after(LEASE));
    table.clear(&[(KEY, None)]).expect("it waits");
    table.tick(half.after(LEASE).after(LEASE));
    assert_eq!(table.take_over(), [A]);
    assert_eq!((table.renew(A), table.incarnation(B)), (None, Some(7)));
    assert_eq!(
        (table.grants(), table.take_clear().len()),
        (3, 0),
        "nobody is let in yet"
    );
    assert_eq!(
        table.begin_grants(A, 8),
        None,
        "the older ones are to end first"
    );
    table.end_over(B);
    table.end_over(A);
    assert_eq!((table.grants(), table.take_clear().len()), (1, 1));
    assert_eq!(
        table.grant_dir(A, DIR, 8),
        Some(8),
        "a new incarnation after all were lost"
    );
}

#[test]
fn an_end_by_time_lets_those_go_on_who_wait() {
    let mut table = LeaseTable::default();
    assert_eq!(table.grant_dir(A, DIR, 5), Some(5));
    let id = table.clear(&[(KEY, None)]).expect("it waits");
    let number = recalls(&mut table, A, &[DIR]);
    table.tick(Steady(0).after(LEASE));
    assert_eq!(table.take_over(), [A]);
    assert!(table.take_over().is_empty(), "it is told once");
    table.end_over(A);
    assert_eq!(table.take_clear(), [id]);
    assert_eq!(table.grant_dir(A, DIR, 6), Some(6));
    table.answered(A, number);
    assert_eq!(table.grants(), 1, "of an earlier one");
}

#[test]
fn who_begins_anew_has_none() {
    let mut table = LeaseTable::default();
    assert_eq!(table.grant_dir(A, DIR, 5), Some(5));
    assert_eq!(table.grant_dir(B, Ino(10), 6), Some(6));
    table.drop_session(A);
    assert_eq!((table.incarnation(A), table.grants()), (None, 1));
    assert_eq!(table.grant_dir(B, DIR, 7), Some(6));
}

#[test]
fn what_is_made_under_a_grant_is_granted_and_where_there_is_no_room_recalled() {
    let mut table = LeaseTable::default();
    table.grant_made(A, DIR);
    assert_eq!(table.grants(), 0, "it has none");
    assert_eq!(table.grant_dir(A, DIR, 5), Some(5));
    table.grant_made(A, Ino(10));
    assert_eq!(table.grant_dir(B, Ino(10), 7), None);
    assert_eq!(table.take_recalls(), []);
    assert!(!table.close());
    recalls(&mut table, A, &[DIR, Ino(10)]);
    table.grant_made(A, Ino(11));
    let number = recalls(&mut table, A, &[Ino(11)]);
    table.answered(A, number);
    assert_eq!(table.grants(), 2);
    table.open();
    for number in table.grants()..MAX_GRANTS_PER_SHARD {
        let dir = Ino(1_000 + number as u64);
        assert!(table.grant_dir(B, dir, 7).is_some());
    }
    assert_eq!(table.grant_dir(B, Ino(12), 7), None);
    assert_eq!(table.begin_grants(SessionId(3), 8), None);
    assert!(table.take_over().is_empty(), "all are renewed");
    table.grant_made(A, Ino(12));
    recalls(&mut table, A, &[Ino(12)]);
    // For want of room those end that nobody has renewed.
    table.tick(Steady(0).after(LEASE / 2));
    table.renew(A);
    table.tick(Steady(0).after(LEASE));
    assert_eq!(table.grant_dir(A, Ino(13), 7), None);
    assert_eq!(table.take_over(), [B]);
    table.end_over(B);
    assert!(table.grant_dir(A, Ino(13), 7).is_some());
}

/// Its answer to the recall may come after that, and is about the grant that it had before.
#[test]
fn what_is_recalled_is_not_granted_again_before_that_is_answered() {
    let mut table = LeaseTable::default();
    assert_eq!(table.grant_dir(A, DIR, 5), Some(5));
    assert!(!table.close());
    let number = recalls(&mut table, A, &[DIR]);
    table.open();
    assert_eq!(table.grant_dir(A, DIR, 6), None);
    table.answered(A, number);
    assert_eq!(table.grant_dir(A, DIR, 6), Some(5));
}

/// One that renews and never answers would keep others out for ever.
#[test]
fn who_answers_no_recall_keeps_its_grants_for_a_while_only() {
    const OTHER: Ino = Ino(10);
    let mut table = LeaseTable::default();
    assert_eq!(table.grant_dir(A, DIR, 5), Some(5));
    assert_eq!(table.grant_dir(A, OTHER, 6), Some(5));
    // Other recalls that it answers in time do not count.
    let first = table.clear(&[(LeaseKey::Grant(OTHER), None)]);
    let number = recalls(&mut table, A, &[OTHER]);
    let mut now = Steady(0);
    let mut pass = |table: &mut LeaseTable, time| {
        now = now.after(time);
        table.tick(now);
    };
    pass(&mut table, LEASE / 2);
    table.answered(A, number);
    assert_eq!(table.take_clear(), [first.expect("it waits")]);

    let id = table.clear(&[(KEY, None)]).expect("it waits");
    let number = recalls(&mut table, A, &[DIR]);
    let mut passed = Duration::ZERO;
    while passed < MAX_GRANT_RECALL {
        assert_eq!(table.renew(A), Some(5), "what is queued may take a while");
        assert_eq!(table.grant_dir(A, OTHER, 6), Some(5));
        pass(&mut table, LEASE / 2);
        passed += LEASE / 2;
        assert!(table.take_over().is_empty());
    }
    assert_eq!(table.renew(A), None);
    assert_eq!(table.grant_dir(A, OTHER, 6), None);
    assert_eq!(table.begin_grants(A, 6), None);
    assert_eq!(
        table.incarnation(A),
        Some(5),
        "they last as long as it was told"
    );
    pass(&mut table, LEASE / 2);
    assert_eq!(table.take_over(), [A]);
    table.end_over(A);
    assert_eq!(table.take_clear(), [id]);
    table.answered(A, number);
    assert_eq!(table.grant_dir(A, DIR, 8), Some(8));
}

#[test]
fn a_directory_that_is_gone_is_granted_to_nobody() {
    let mut table = LeaseTable::default();
    assert_eq!(table.grant_dir(A, DIR, 5), Some(5));
    table.forget_dir(Ino(10));
    assert_eq!(table.grants(), 1);
    table.forget_dir(DIR);
    assert_eq!((table.grants(), table.incarnation(A)), (0, Some(5)));
}
