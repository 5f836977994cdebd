//! Table of file locks, call by call: what it says of itself, limits, deadlocks, and files that go elsewhere.

use pandofs_leases::file_locks::{Asked, Event, FileLocks, LockTable, Outcome, Owner, WaitId};
use pandofs_types::limits::{
    LOCK_PLACE_KEPT, MAX_DEADLOCK_OWNERS, MAX_LOCKS_PER_INODE, MAX_LOCKS_PER_SHARD,
    MAX_WAITING_LOCKS,
};
use pandofs_types::{FileLock, Ino, LockKind, LockMode, LockRange, SessionId, SlotId, Steady};

const FILE: Ino = Ino(5);
const OTHER: Ino = Ino(6);
const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const END: Steady = Steady(10);

/// The first byte, for the owner alone.
fn exclusive(owner: u64) -> FileLock {
    record(owner, LockMode::Exclusive, 0, 0)
}

fn shared(owner: u64) -> FileLock {
    record(owner, LockMode::Shared, 0, 0)
}

fn record(owner: u64, mode: LockMode, first: u64, last: u64) -> FileLock {
    FileLock {
        kind: LockKind::Record,
        owner,
        pid: 1,
        mode,
        range: LockRange { first, last },
    }
}

fn flock(owner: u64, mode: LockMode) -> FileLock {
    FileLock {
        kind: LockKind::Flock,
        range: LockRange::WHOLE,
        ..record(owner, mode, 0, 0)
    }
}

fn owner(session: SessionId, number: u64) -> Owner {
    Owner { session, number }
}

fn asked(session: SessionId, ticket: u64, lock: FileLock) -> Asked<u64> {
    Asked {
        id: WaitId {
            session,
            slot: SlotId(0),
            sequence: ticket,
        },
        lock,
        ticket,
        blocking: true,
        at_once: false,
        until: END,
    }
}

fn unlock(table: &mut LockTable<u64>, ino: Ino, session: SessionId, number: u64) {
    let owner = owner(session, number);
    assert!(table.unlock(ino, owner, LockKind::Record, LockRange::WHOLE));
}

/// Tickets of those that were given their locks, and nothing else came.
fn granted(table: &mut LockTable<u64>) -> Vec<u64> {
    let over = |event| match event {
        Event::Over {
            ticket,
            outcome: Outcome::Granted,
            ..
        } => ticket,
        other => panic!("{other:?}"),
    };
    table.take_events().into_iter().map(over).collect()
}

#[test]
fn a_range_is_held_by_pieces_that_touch_and_are_strong_enough() {
    use LockMode::{Exclusive, Shared};
    let who = owner(A, 1);
    let mut locks = FileLocks::default();
    for (mode, first, last) in [(Exclusive, 0, 4), (Shared, 5, 9), (Shared, 20, 29)] {
        locks.set(who, &record(1, mode, first, last));
    }
    let holds = |mode, first, last| locks.holds(who, &record(1, mode, first, last));
    assert!(holds(Shared, 0, 9) && holds(Shared, 3, 6) && holds(Exclusive, 0, 4));
    assert!(!holds(Exclusive, 0, 5), "the second piece is shared");
    assert!(!holds(Shared, 8, 20) && !holds(Shared, 0, 29), "a gap");
    assert!(!holds(Shared, 25, 30), "beyond the end");
}

#[test]
fn what_is_known_of_a_file_is_told() {
    let mut table: LockTable<u64> = LockTable::default();
    assert!(!table.knows(FILE));
    assert!(table.adopt(FILE, owner(A, 1), &record(1, LockMode::Exclusive, 0, 4)));
    assert!(table.adopt(FILE, owner(A, 1), &record(1, LockMode::Shared, 2, 2)));
    assert_eq!((table.knows(FILE), table.held()), (true, 3));
    let in_the_way = shared(2);
    assert!(!table.adopt(FILE, owner(B, 2), &in_the_way));
    assert_eq!(table.held(), 3);
    assert_eq!(table.in_the_way(FILE, owner(B, 2), &in_the_way), Some(A));
    assert_eq!(table.in_the_way(FILE, owner(A, 1), &in_the_way), None);
    assert_eq!(table.in_the_way(OTHER, owner(B, 2), &in_the_way), None);
    assert!(table.adopt(OTHER, owner(B, 2), &exclusive(2)));
    let pieces = [
        (LockMode::Exclusive, 0, 1),
        (LockMode::Shared, 2, 2),
        (LockMode::Exclusive, 3, 4),
    ];
    let expected = pieces.map(|(mode, first, last)| (FILE, A, record(1, mode, first, last)));
    assert_eq!(table.of(FILE).collect::<Vec<_>>(), expected);
    assert_eq!(
        table.of(OTHER).collect::<Vec<_>>(),
        [(OTHER, B, exclusive(2))]
    );
    assert_eq!(table.of(Ino(7)).count(), 0);
    let holds = [
        (FILE, owner(A, 1), shared(1)),
        (FILE, owner(A, 1), record(1, LockMode::Exclusive, 0, 2)),
        (FILE, owner(B, 2), shared(2)),
        (Ino(7), owner(A, 1), shared(1)),
    ];
    let holds = holds.map(|(ino, who, lock)| table.holds(ino, who, &lock));
    assert_eq!(holds, [true, false, false, false]);
    let counts = [&[FILE][..], &[OTHER], &[OTHER, FILE, Ino(7)], &[Ino(7)]];
    assert_eq!(counts.map(|inos| table.count(inos.iter())), [3, 1, 4, 0]);
}

#[test]
fn a_file_that_goes_elsewhere_leaves_nothing_behind() {
    let mut table = LockTable::default();
    assert!(table.adopt(FILE, owner(A, 1), &exclusive(1)));
    assert!(table.adopt(OTHER, owner(A, 1), &exclusive(1)));
    for (ino, ticket) in [(FILE, 2), (FILE, 3), (OTHER, 4)] {
        let outcome = table.ask(ino, asked(B, ticket, exclusive(ticket)));
        assert_eq!(outcome, Outcome::Parked);
    }
    table.closing(
        FILE,
        [(LockKind::Record, owner(A, 1))].into_iter(),
        Steady(100),
    );
    assert_eq!(table.take(FILE), [2, 3]);
    assert_eq!(
        (table.knows(FILE), table.held(), table.waiting()),
        (false, 1, 1)
    );
    assert_eq!(table.awaited(), [OTHER]);
    unlock(&mut table, OTHER, A, 1);
    assert_eq!(granted(&mut table), [4]);
    assert!(!table.needs_ticks(), "nobody is waited for");
    // Who was told to ask again has no answer under way.
    assert_eq!(table.ask(OTHER, asked(A, 5, exclusive(5))), Outcome::Parked);
    table.tick(END);
    assert_eq!(table.take_events(), [Event::NotYet { ticket: 5 }]);
    assert_eq!(table.take(OTHER), []);
    assert_eq!((table.held(), table.waiting()), (0, 0));
}

#[test]
fn ticks_are_needed_while_somebody_waits_or_may_unlock() {
    let mut table = LockTable::default();
    assert_eq!(table.ask(FILE, asked(A, 1, exclusive(1))), Outcome::Granted);
    assert!(!table.needs_ticks());
    table.closing(FILE, [(LockKind::Record, owner(A, 1))].into_iter(), END);
    assert!(table.needs_ticks(), "it may unlock");
    table.tick(END);
    assert!(!table.needs_ticks());
    assert_eq!(table.ask(FILE, asked(A, 2, exclusive(2))), Outcome::Parked);
    assert!(table.needs_ticks(), "it waits");
    table.tick(END);
    table.tick(END.after(LOCK_PLACE_KEPT));
    assert_eq!(table.take_events(), [Event::NotYet { ticket: 2 }]);
    assert!(!table.needs_ticks());
}

/// The time of each owner, and of each request, is its own.
#[test]
fn who_may_unlock_later_is_waited_for_longer_and_who_does_not_want_to_is_told() {
    let mut table = LockTable::default();
    for number in [1, 2] {
        assert!(table.adopt(FILE, owner(A, number), &shared(number)));
        let until = Steady(10 * number as i64);
        let of = [(LockKind::Record, owner(A, number))];
        table.closing(FILE, of.into_iter(), until);
    }
    let tries = |ticket, until| Asked {
        blocking: false,
        until: Steady(until),
        ..asked(B, ticket, exclusive(ticket))
    };
    for (ticket, until) in [(3, 5), (4, 30)] {
        assert_eq!(table.ask(FILE, tries(ticket, until)), Outcome::Parked);
    }
    let busy = |ticket| Event::Over {
        id: tries(ticket, 0).id,
        ticket,
        outcome: Outcome::Busy,
    };
    table.tick(Steady(5));
    assert_eq!(table.take_events(), [busy(3)]);
    // One of the two has kept its lock, and is in the way.
    table.tick(END);
    assert_eq!(table.take_events(), [busy(4)]);
    assert!(table.needs_ticks(), "the other one may still unlock");
    table.tick(Steady(20));
    assert!(!table.needs_ticks());
}

#[test]
fn a_request_that_comes_again_takes_the_place_of_the_one_before() {
    let mut table = LockTable::default();
    assert_eq!(table.ask(FILE, asked(A, 1, exclusive(1))), Outcome::Granted);
    for ticket in [2, 3, 4] {
        let outcome = table.ask(FILE, asked(B, ticket, exclusive(ticket)));
        assert_eq!(outcome, Outcome::Parked);
    }
    let again = Asked {
        ticket: 30,
        ..asked(B, 3, exclusive(3))
    };
    assert_eq!(table.ask(FILE, again), Outcome::Parked);
    assert_eq!(table.take_events(), [Event::Dropped { ticket: 3 }]);
    assert_eq!(table.waiting(), 3);
    for (session, number, next) in [(A, 1, 2), (B, 2, 30), (B, 3, 4)] {
        unlock(&mut table, FILE, session, number);
        assert_eq!(granted(&mut table), [next]);
    }
}

#[test]
fn a_session_that_is_gone_leaves_what_others_have() {
    let mut table = LockTable::default();
    for (ino, session, number) in [(FILE, A, 1), (FILE, B, 2), (OTHER, B, 3)] {
        assert!(table.adopt(ino, owner(session, number), &shared(number)));
    }
    assert!(table.adopt(Ino(7), owner(A, 4), &record(4, LockMode::Exclusive, 0, 4)));
    assert!(table.adopt(Ino(7), owner(A, 4), &record(4, LockMode::Shared, 2, 2)));
    for (session, number) in [(B, 5), (A, 6), (B, 7)] {
        let outcome = table.ask(FILE, asked(session, number, exclusive(number)));
        assert_eq!(outcome, Outcome::Parked);
    }
    // One whose answer is not under way is told nothing.
    table.tick(END);
    assert_eq!(table.take_events().len(), 3);
    let again = Asked {
        until: Steady(100),
        ..asked(A, 6, exclusive(6))
    };
    assert_eq!(table.ask(FILE, again), Outcome::Parked);
    assert_eq!(table.drop_session(A), [FILE, Ino(7)]);
    assert_eq!(table.take_events(), [Event::Dropped { ticket: 6 }]);
    assert_eq!((table.held(), table.waiting()), (2, 2));
    assert_eq!((table.knows(FILE), table.knows(Ino(7))), (true, false));
    assert_eq!(table.drop_session(A), []);
    assert_eq!(table.drop_session(B), [FILE, OTHER]);
    assert_eq!(table.take_events(), []);
    assert_eq!((table.held(), table.waiting()), (0, 0));
}

#[test]
fn a_shard_has_as_many_ranges_as_the_limit_says_and_no_more() {
    let mut table = LockTable::default();
    let single = |at: u64| record(1, LockMode::Exclusive, at * 2, at * 2);
    let files = (MAX_LOCKS_PER_SHARD / MAX_LOCKS_PER_INODE) as u64;
    // All but one range of the last file.
    for file in 1..=files {
        let left_out = u64::from(file == files);
        for at in left_out..MAX_LOCKS_PER_INODE as u64 {
            assert!(table.adopt(Ino(file), owner(A, 1), &single(at)));
        }
    }
    assert_eq!(table.held(), MAX_LOCKS_PER_SHARD - 1);
    let new = Ino(files + 1);
    // The middle of one would make three of it.
    let middle = LockRange { first: 1, last: 1 };
    let weaker = record(1, LockMode::Shared, 1, 1);
    let wide = record(1, LockMode::Exclusive, 0, 2);
    assert_eq!(table.ask(new, asked(A, 1, wide)), Outcome::Granted);
    assert_eq!(table.ask(new, asked(A, 2, weaker)), Outcome::Full);
    assert!(!table.unlock(new, owner(A, 1), LockKind::Record, middle));
    let further = record(1, LockMode::Exclusive, 10, 10);
    assert_eq!(table.ask(new, asked(A, 3, further)), Outcome::Full);
    unlock(&mut table, new, A, 1);
    assert_eq!(table.ask(new, asked(A, 4, further)), Outcome::Granted);
}

/// Locks that came from elsewhere are there, whatever the limit.
#[test]
fn what_adds_no_range_is_given_beyond_the_limit() {
    let mut table = LockTable::default();
    let single = |at: u64| record(1, LockMode::Exclusive, at * 2, at * 2);
    for at in 0..=MAX_LOCKS_PER_INODE as u64 {
        assert!(table.adopt(FILE, owner(A, 1), &single(at)));
    }
    assert_eq!(table.ask(FILE, asked(A, 1, single(0))), Outcome::Granted);
    assert_eq!(table.held(), MAX_LOCKS_PER_INODE + 1);
    let further = record(2, LockMode::Exclusive, 1, 1);
    assert_eq!(table.ask(FILE, asked(A, 2, further)), Outcome::Full);
}

#[test]
fn no_more_wait_than_the_limit_says() {
    let mut table = LockTable::default();
    assert_eq!(table.ask(FILE, asked(A, 0, exclusive(0))), Outcome::Granted);
    let most = MAX_WAITING_LOCKS as u64;
    // Of one owner, on files of their own, so that few are looked at each time.
    for ticket in 1..=most {
        let ino = Ino(1_000 + ticket);
        assert!(table.adopt(ino, owner(A, 0), &exclusive(0)));
        let outcome = table.ask(ino, asked(B, ticket, exclusive(1)));
        assert_eq!(outcome, Outcome::Parked);
    }
    let further = asked(B, most + 1, exclusive(1));
    assert_eq!(table.ask(FILE, further), Outcome::Full);
    assert_eq!(table.waiting(), MAX_WAITING_LOCKS);
    unlock(&mut table, Ino(1_001), A, 0);
    assert_eq!(granted(&mut table), [1]);
    assert_eq!(table.ask(FILE, further), Outcome::Parked);
}

/// Answer to owner 1, who has `FILE` and would wait for 2, who has `OTHER`, while this one waits as told.
fn may_wait(told: impl FnOnce(&mut LockTable<u64>)) -> Outcome {
    let mut table = LockTable::default();
    assert_eq!(table.ask(FILE, asked(A, 1, exclusive(1))), Outcome::Granted);
    assert_eq!(
        table.ask(OTHER, asked(A, 2, exclusive(2))),
        Outcome::Granted
    );
    told(&mut table);
    table.take_events();
    table.ask(OTHER, asked(A, 9, exclusive(1)))
}

#[test]
fn a_circle_is_one_of_those_who_wait_for_record_locks_now() {
    let waits = |table: &mut LockTable<u64>, ticket, lock| {
        assert_eq!(table.ask(FILE, asked(A, ticket, lock)), Outcome::Parked);
    };
    let of_record = may_wait(|table| waits(table, 3, exclusive(2)));
    assert_eq!(of_record, Outcome::Deadlock);
    // It looks for itself when it asks again.
    let told_to_ask_again = may_wait(|table| {
        waits(table, 3, exclusive(2));
        table.tick(END);
    });
    assert_eq!(told_to_ask_again, Outcome::Parked);
    let of_flock = may_wait(|table| {
        let whole = flock(1, LockMode::Exclusive);
        assert_eq!(table.ask(FILE, asked(A, 3, whole)), Outcome::Granted);
        waits(table, 4, flock(2, LockMode::Exclusive));
    });
    assert_eq!(of_flock, Outcome::Parked);
    // Owner 3 waits for the first one, on the same file, and the second one for the fourth.
    let of_another = may_wait(|table| {
        let elsewhere = |number| record(number, LockMode::Exclusive, 7, 7);
        let outcome = table.ask(FILE, asked(A, 3, elsewhere(4)));
        assert_eq!(outcome, Outcome::Granted);
        waits(table, 4, exclusive(3));
        waits(table, 5, elsewhere(2));
    });
    assert_eq!(of_another, Outcome::Parked);
    // The second one has another lock that it has waited for, and waits for the first one still.
    let once_given = may_wait(|table| {
        const THIRD: Ino = Ino(7);
        assert!(table.adopt(THIRD, owner(A, 3), &exclusive(3)));
        waits(table, 3, exclusive(2));
        let outcome = table.ask(THIRD, asked(A, 4, exclusive(2)));
        assert_eq!(outcome, Outcome::Parked);
        unlock(table, THIRD, A, 3);
        assert_eq!(granted(table), [4]);
    });
    assert_eq!(once_given, Outcome::Deadlock);
}

/// Requests that come while locks are held back are kept unseen, also those that close a circle.
#[test]
fn a_circle_of_others_is_no_reason_to_refuse() {
    let mut table = LockTable::default();
    for (ino, number) in [(FILE, 1), (OTHER, 2)] {
        assert!(table.adopt(ino, owner(A, number), &exclusive(number)));
    }
    table.hold(true);
    for (ino, ticket, number) in [(FILE, 3, 2), (OTHER, 4, 1)] {
        let outcome = table.ask(ino, asked(A, ticket, exclusive(number)));
        assert_eq!(outcome, Outcome::Parked);
    }
    table.hold(false);
    assert_eq!(table.ask(FILE, asked(A, 5, exclusive(3))), Outcome::Parked);
}

/// A row of owners of which each waits for the next, the last one for the first.
#[test]
fn a_circle_is_found_up_to_the_limit_of_its_owners() {
    let closes = |owners: u64| {
        let mut table = LockTable::default();
        for number in 1..=owners {
            let outcome = table.ask(Ino(number), asked(A, number, exclusive(number)));
            assert_eq!(outcome, Outcome::Granted);
        }
        for number in 2..=owners {
            let wanted = asked(A, owners + number, exclusive(number));
            let next = Ino(number % owners + 1);
            assert_eq!(table.ask(next, wanted), Outcome::Parked);
        }
        table.ask(Ino(2), asked(A, 0, exclusive(1)))
    };
    let most = MAX_DEADLOCK_OWNERS as u64 + 1;
    assert_eq!(closes(most), Outcome::Deadlock);
    assert_eq!(closes(most + 1), Outcome::Parked);
}

#[test]
fn who_does_not_want_to_wait_is_told_so_at_once_and_who_does_is_kept() {
    let mut table = LockTable::default();
    assert!(table.adopt(FILE, owner(A, 1), &exclusive(1)));
    let tries = |at_once| Asked {
        blocking: false,
        at_once,
        ..asked(B, 2, exclusive(2))
    };
    for at_once in [true, false] {
        assert_eq!(table.ask(FILE, tries(at_once)), Outcome::Busy);
    }
    let waits = Asked {
        at_once: true,
        ..asked(B, 3, exclusive(3))
    };
    assert_eq!(table.ask(FILE, waits), Outcome::Parked);
    assert_eq!(table.awaited(), [FILE]);
    // While locks are held back nobody knows whose this one is.
    table.hold(true);
    assert_eq!(table.ask(FILE, tries(false)), Outcome::Parked);
    table.tick(END);
    let not_yet = [3, 2].map(|ticket| Event::NotYet { ticket });
    assert_eq!(table.take_events(), not_yet);
}

#[test]
fn only_the_middle_of_a_lock_splits_it() {
    let who = owner(A, 1);
    let mut locks = FileLocks::default();
    for (first, last) in [(0, 4), (10, 19)] {
        locks.set(who, &record(1, LockMode::Exclusive, first, last));
    }
    let split_by = |first, last| {
        let range = LockRange { first, last };
        let found = locks.split_by(who, LockKind::Record, range)?;
        Some((found.range.first, found.range.last))
    };
    let middle = [(1, 3), (1, 1), (11, 18), (12, 13)];
    let split = middle.map(|(first, last)| split_by(first, last));
    let (one, other) = (Some((0, 4)), Some((10, 19)));
    assert_eq!(split, [one, one, other, other]);
    let ends = [(0, 1), (3, 4), (10, 18), (11, 19), (5, 9), (3, 12), (0, 30)];
    assert_eq!(ends.map(|(first, last)| split_by(first, last)), [None; 7]);
}

#[test]
fn nobody_waits_for_an_owner_who_has_nothing_of_the_file() {
    let mut table = LockTable::default();
    assert_eq!(table.ask(FILE, asked(A, 1, exclusive(1))), Outcome::Granted);
    for of in [
        (LockKind::Record, owner(A, 2)),
        (LockKind::Flock, owner(A, 1)),
    ] {
        table.closing(FILE, [of].into_iter(), END);
    }
    assert!(!table.needs_ticks());
}

/// A lock that was waited for is weaker than the one that was had.
#[test]
fn who_is_given_a_lock_may_let_somebody_go_on_who_came_before() {
    use LockMode::{Exclusive, Shared};
    let mut table = LockTable::default();
    assert_eq!(table.ask(FILE, asked(A, 1, exclusive(1))), Outcome::Granted);
    let last = record(3, Exclusive, 9, 9);
    assert_eq!(table.ask(FILE, asked(A, 2, last)), Outcome::Granted);
    assert_eq!(table.ask(FILE, asked(A, 3, shared(2))), Outcome::Parked);
    let weaker = record(1, Shared, 0, 9);
    assert_eq!(table.ask(FILE, asked(A, 4, weaker)), Outcome::Parked);
    unlock(&mut table, FILE, A, 3);
    assert_eq!(granted(&mut table), [4, 3]);
}
