//! The table beside a naive model: for each byte of a short file, who has it locked and how.

use pandofs_leases::file_locks::{Asked, Event, LockTable, Outcome, Owner, WaitId};
use pandofs_types::limits::{LOCK_PLACE_KEPT, MAX_LOCKS_PER_INODE};
use pandofs_types::{FileLock, Ino, LockKind, LockMode, LockRange, SessionId, SlotId, Steady};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const BYTES: u64 = 12;
const FILE: Ino = Ino(5);

type Who = (u64, u64);

/// Of each kind, for each byte, the modes of those who have it.
#[derive(Default)]
struct Model {
    bytes: BTreeMap<(LockKind, u64), BTreeMap<Who, LockMode>>,
    /// Owners that may be about to unlock.
    closing: BTreeSet<(LockKind, Who)>,
}

impl Model {
    fn bytes_of(lock: &FileLock) -> std::ops::RangeInclusive<u64> {
        lock.range.first..=lock.range.last.min(BYTES)
    }

    fn is_free(&self, who: Who, lock: &FileLock) -> bool {
        Model::bytes_of(lock).all(|byte| {
            let holders = self.bytes.get(&(lock.kind, byte));
            holders.into_iter().flatten().all(|(other, mode)| {
                *other == who || (*mode == LockMode::Shared && lock.mode == LockMode::Shared)
            })
        })
    }

    /// Whether all who are in the way may be about to unlock.
    fn may_be_unlocked(&self, who: Who, lock: &FileLock) -> bool {
        let mut left = Model::default();
        for (&(kind, byte), holders) in &self.bytes {
            let staying = |other: &&Who| !self.closing.contains(&(kind, **other));
            let staying = holders.keys().filter(staying).copied();
            let staying = staying.map(|other| (other, holders[&other])).collect();
            left.bytes.insert((kind, byte), staying);
        }
        !self.is_free(who, lock) && left.is_free(who, lock)
    }

    fn close(&mut self, who: Who, kind: LockKind) {
        let of_kind = |((of, _), holders): (&(LockKind, u64), &BTreeMap<Who, LockMode>)| {
            *of == kind && holders.contains_key(&who)
        };
        if self.bytes.iter().any(of_kind) {
            self.closing.insert((kind, who));
        }
    }

    fn set(&mut self, who: Who, lock: &FileLock) {
        for byte in Model::bytes_of(lock) {
            let holders = self.bytes.entry((lock.kind, byte)).or_default();
            holders.insert(who, lock.mode);
        }
    }

    fn clear(&mut self, who: Who, lock: &FileLock) {
        for byte in Model::bytes_of(lock) {
            self.bytes
                .entry((lock.kind, byte))
                .or_default()
                .remove(&who);
        }
    }

    fn drop_session(&mut self, session: u64) {
        for holders in self.bytes.values_mut() {
            holders.retain(|who, _| who.0 != session);
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Try(Who, FileLock),
    Wait(Who, FileLock),
    Unlock(Who, FileLock),
    Close(Who, LockKind),
    /// A request that waits is repeated without waiting, as when a signal came.
    Cancel(usize),
    Drop(u64),
    Later,
}

fn locks() -> impl Strategy<Value = FileLock> {
    let range = (0..BYTES, 1..5_u64).prop_map(|(first, length)| LockRange {
        first,
        last: if first + length > BYTES {
            LockRange::MAX
        } else {
            first + length - 1
        },
    });
    (any::<bool>(), any::<bool>(), range).prop_map(|(flock, exclusive, range)| FileLock {
        kind: if flock {
            LockKind::Flock
        } else {
            LockKind::Record
        },
        owner: 0,
        pid: 1,
        mode: if exclusive {
            LockMode::Exclusive
        } else {
            LockMode::Shared
        },
        range: if flock { LockRange::WHOLE } else { range },
    })
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let who = (1..3_u64, 1..3_u64);
    let op = (0..12, who, locks(), 0..8_usize).prop_map(|(kind, who, lock, at)| {
        let lock = FileLock {
            owner: who.1,
            ..lock
        };
        match kind {
            0..3 => Op::Try(who, lock),
            3..7 => Op::Wait(who, lock),
            7..9 => Op::Unlock(who, lock),
            9 => Op::Close(who, lock.kind),
            10 => Op::Cancel(at),
            _ if at == 0 => Op::Drop(who.0),
            _ => Op::Later,
        }
    });
    proptest::collection::vec(op, 1..60)
}

struct Run {
    table: LockTable<u64>,
    model: Model,
    /// Owners that wait, in order: ticket, whether it has been told to ask again.
    waiting: Vec<(Asked<u64>, Who, bool)>,
    next: u64,
    now: i64,
    /// The number of those that are about to ask again.
    asking: usize,
}

fn owner(who: Who) -> Owner {
    Owner {
        session: SessionId(who.0),
        number: who.1,
    }
}

impl Run {
    fn asked(&mut self, who: Who, lock: FileLock, blocking: bool) -> Asked<u64> {
        self.next += 1;
        let id = WaitId {
            session: SessionId(who.0),
            slot: SlotId(0),
            sequence: self.next,
        };
        Asked {
            id,
            lock,
            ticket: self.next,
            blocking,
            at_once: false,
            until: Steady(self.now + 100),
        }
    }

    fn ask(&mut self, who: Who, asked: Asked<u64>) {
        let lock = asked.lock;
        self.model.closing.remove(&(lock.kind, who));
        if !self.model.is_free(who, &lock) && lock.kind == LockKind::Flock {
            self.model.clear(who, &lock);
        }
        let outcome = self.table.ask(FILE, asked);
        if outcome == Outcome::Granted && self.model.is_free(who, &lock) {
            // The lock that it had before and gives up by this goes to others after it.
            self.model.set(who, &lock);
        }
        self.take_events();
        match outcome {
            Outcome::Granted => {
                assert!(
                    self.model.is_free(who, &lock),
                    "{lock:?} was somebody else's"
                );
                self.model.set(who, &lock);
            }
            Outcome::Busy => {
                assert!(!asked.blocking && !self.model.is_free(who, &lock));
                assert!(!self.model.may_be_unlocked(who, &lock));
            }
            Outcome::NotYet => panic!("all have time"),
            Outcome::Deadlock => assert!(asked.blocking && lock.kind == LockKind::Record),
            Outcome::Parked => {
                assert!(!self.model.is_free(who, &lock));
                assert!(asked.blocking || self.model.may_be_unlocked(who, &lock));
                self.waiting.push((asked, who, false));
            }
            Outcome::Full => panic!("so few locks"),
        }
        self.grant_by_model();
    }

    /// Takes what the table says of those who wait.
    fn take_events(&mut self) {
        for event in self.table.take_events() {
            match event {
                Event::Over {
                    ticket, outcome, ..
                } => {
                    let at = self.waiting.iter().position(|(a, ..)| a.ticket == ticket);
                    let (asked, who, away) = self.waiting.remove(at.expect("it waits"));
                    assert!(!away, "a lock was given to somebody who is not there");
                    if outcome == Outcome::Busy {
                        assert!(!asked.blocking);
                        continue;
                    }
                    assert_eq!(outcome, Outcome::Granted);
                    assert!(self.model.is_free(who, &asked.lock));
                    self.model.set(who, &asked.lock);
                }
                Event::NotYet { ticket } => {
                    let found = self.waiting.iter_mut().find(|(a, ..)| a.ticket == ticket);
                    found.expect("it waits").2 = true;
                }
                Event::Dropped { ticket } => {
                    self.waiting.retain(|(asked, ..)| asked.ticket != ticket);
                }
            }
        }
    }

    /// Nobody waits for what is free; and the table and the model agree on every byte.
    fn grant_by_model(&mut self) {
        self.take_events();
        for (asked, who, away) in &self.waiting {
            assert!(
                *away || !self.model.is_free(*who, &asked.lock),
                "{asked:?} waits for nothing"
            );
        }
        for who in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            for kind in [LockKind::Flock, LockKind::Record] {
                for byte in 0..=BYTES {
                    for mode in [LockMode::Shared, LockMode::Exclusive] {
                        let last = if byte == BYTES { LockRange::MAX } else { byte };
                        let range = LockRange { first: byte, last };
                        let lock = FileLock {
                            kind,
                            owner: who.1,
                            pid: 1,
                            mode,
                            range,
                        };
                        let has = self
                            .model
                            .bytes
                            .get(&(kind, byte))
                            .and_then(|h| h.get(&who));
                        let holds = has.is_some_and(|&has| has >= mode);
                        assert_eq!(self.table.holds(FILE, owner(who), &lock), holds, "{lock:?}");
                        let blocked = self.table.conflict(FILE, owner(who), &lock).is_some();
                        assert_eq!(blocked, !self.model.is_free(who, &lock), "{lock:?}");
                    }
                }
            }
        }
        assert_eq!(self.table.waiting(), self.waiting.len() + self.asking);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_table_agrees_with_a_map_of_bytes(ops in ops()) {
        let mut run = Run {
            table: LockTable::default(),
            model: Model::default(),
            waiting: Vec::new(),
            next: 0,
            now: 0,
            asking: 0,
        };
        for op in ops {
            match op {
                Op::Try(who, lock) => {
                    let asked = run.asked(who, lock, false);
                    run.ask(who, asked);
                }
                Op::Wait(who, lock) => {
                    let asked = run.asked(who, lock, true);
                    run.ask(who, asked);
                }
                Op::Unlock(who, lock) => {
                    run.model.clear(who, &lock);
                    run.table.unlock(FILE, owner(who), lock.kind, lock.range);
                    run.grant_by_model();
                }
                Op::Close(who, kind) => {
                    run.model.close(who, kind);
                    let of = [(kind, owner(who))].into_iter();
                    run.table.closing(FILE, of, Steady(run.now + 100));
                    run.grant_by_model();
                }
                Op::Cancel(at) => {
                    if let Some(&(asked, who, _)) = run.waiting.get(at) {
                        run.waiting.remove(at);
                        run.next += 1;
                        let again = Asked { ticket: run.next, blocking: false, ..asked };
                        run.ask(who, again);
                    }
                }
                Op::Drop(session) => {
                    run.waiting.retain(|(_, who, _)| who.0 != session);
                    run.model.drop_session(session);
                    for ino in run.table.drop_session(SessionId(session)) {
                        run.table.wake(ino);
                    }
                    run.grant_by_model();
                }
                Op::Later => {
                    run.now += 100;
                    run.model.closing.clear();
                    run.table.tick(Steady(run.now));
                    run.grant_by_model();
                    // They ask again at once, in any order, and keep their places.
                    let away: Vec<_> = run.waiting.extract_if(.., |(.., away)| *away).collect();
                    run.asking = away.len();
                    for (asked, who, _) in away.into_iter().rev() {
                        run.asking -= 1;
                        run.next += 1;
                        let again = Asked { ticket: run.next, until: Steady(run.now + 100), ..asked };
                        run.ask(who, again);
                    }
                }
            }
        }
        for session in 1..3 {
            for ino in run.table.drop_session(SessionId(session)) {
                run.table.wake(ino);
            }
        }
        prop_assert_eq!((run.table.held(), run.table.waiting()), (0, 0));
        prop_assert!(!run.table.knows(FILE));
    }
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

fn ask(table: &mut LockTable<u64>, ino: Ino, ticket: u64, lock: FileLock) -> Outcome {
    let id = WaitId {
        session: SessionId(1),
        slot: SlotId(0),
        sequence: ticket,
    };
    let asked = Asked {
        id,
        lock,
        ticket,
        blocking: true,
        at_once: false,
        until: Steady(10),
    };
    table.ask(ino, asked)
}

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
fn who_waits_longest_gets_it_first_also_after_asking_again() {
    use LockMode::Exclusive;
    let mut table = LockTable::default();
    assert_eq!(
        ask(&mut table, FILE, 1, record(1, Exclusive, 0, 9)),
        Outcome::Granted
    );
    for owner in 2..5 {
        assert_eq!(
            ask(&mut table, FILE, owner, record(owner, Exclusive, 0, 9)),
            Outcome::Parked
        );
    }
    table.tick(Steady(10));
    assert_eq!(table.take_events().len(), 3);
    for owner in [4, 3, 2] {
        assert_eq!(
            ask(&mut table, FILE, owner, record(owner, Exclusive, 0, 9)),
            Outcome::Parked
        );
    }
    for last in 1..4 {
        let owner = Owner {
            session: SessionId(1),
            number: last,
        };
        table.unlock(FILE, owner, LockKind::Record, LockRange::WHOLE);
        assert_eq!(granted(&mut table), [last + 1]);
    }
}

#[test]
fn a_place_is_given_up_when_nobody_asks_for_it() {
    let mut table = LockTable::default();
    let lock = |owner| record(owner, LockMode::Exclusive, 0, 9);
    ask(&mut table, FILE, 1, lock(1));
    ask(&mut table, FILE, 2, lock(2));
    table.tick(Steady(10));
    assert_eq!(table.take_events(), [Event::NotYet { ticket: 2 }]);
    assert_eq!(table.waiting(), 1);
    table.tick(Steady(10 + LOCK_PLACE_KEPT.as_nanos() as i64));
    assert_eq!(table.waiting(), 0);
}

#[test]
fn a_circle_over_three_files_is_a_deadlock() {
    let mut table = LockTable::default();
    let lock = |owner| record(owner, LockMode::Exclusive, 0, 0);
    for owner in 1..4 {
        assert_eq!(
            ask(&mut table, Ino(owner), owner, lock(owner)),
            Outcome::Granted
        );
    }
    assert_eq!(ask(&mut table, Ino(2), 11, lock(1)), Outcome::Parked);
    assert_eq!(ask(&mut table, Ino(3), 12, lock(2)), Outcome::Parked);
    assert_eq!(ask(&mut table, Ino(1), 13, lock(3)), Outcome::Deadlock);
    // An owner that is told so gives up its locks, and the others go on.
    let third = Owner {
        session: SessionId(1),
        number: 3,
    };
    table.unlock(Ino(3), third, LockKind::Record, LockRange::WHOLE);
    assert_eq!(granted(&mut table), [12]);
}

#[test]
fn two_who_make_a_shared_lock_exclusive() {
    let shared = |owner| record(owner, LockMode::Shared, 0, 0);
    let exclusive = |owner| record(owner, LockMode::Exclusive, 0, 0);
    let mut table = LockTable::default();
    ask(&mut table, FILE, 1, shared(1));
    ask(&mut table, FILE, 2, shared(2));
    assert_eq!(ask(&mut table, FILE, 3, exclusive(1)), Outcome::Parked);
    assert_eq!(ask(&mut table, FILE, 4, exclusive(2)), Outcome::Deadlock);

    let flock = |lock: FileLock| FileLock {
        kind: LockKind::Flock,
        range: LockRange::WHOLE,
        ..lock
    };
    let mut table = LockTable::default();
    ask(&mut table, FILE, 1, flock(shared(1)));
    ask(&mut table, FILE, 2, flock(shared(2)));
    assert_eq!(
        ask(&mut table, FILE, 3, flock(exclusive(1))),
        Outcome::Parked
    );
    assert_eq!(
        ask(&mut table, FILE, 4, flock(exclusive(2))),
        Outcome::Granted
    );
    let second = Owner {
        session: SessionId(1),
        number: 2,
    };
    table.unlock(FILE, second, LockKind::Flock, LockRange::WHOLE);
    assert_eq!(granted(&mut table), [3]);
}

#[test]
fn nothing_is_given_while_locks_are_held_back() {
    let mut table = LockTable::default();
    let id = WaitId {
        session: SessionId(1),
        slot: SlotId(0),
        sequence: 1,
    };
    let lock = record(1, LockMode::Shared, 0, 0);
    let asked = Asked {
        id,
        lock,
        ticket: 1,
        blocking: false,
        at_once: false,
        until: Steady(10),
    };
    table.hold(true);
    assert_eq!(table.ask(FILE, asked), Outcome::Parked);
    let other = Owner {
        session: SessionId(2),
        number: 1,
    };
    assert!(table.adopt(FILE, other, &record(1, LockMode::Exclusive, 0, 0)));
    table.wake(FILE);
    assert_eq!(table.take_events(), []);
    table.hold(false);
    assert_eq!(table.awaited(), [FILE]);
    table.wake(FILE);
    let outcome = Outcome::Busy;
    assert_eq!(
        table.take_events(),
        [Event::Over {
            id,
            ticket: 1,
            outcome
        }]
    );
}

fn try_flock(table: &mut LockTable<u64>, owner: u64, at_once: bool) -> Outcome {
    let lock = FileLock {
        kind: LockKind::Flock,
        ..record(owner, LockMode::Exclusive, 0, LockRange::MAX)
    };
    let id = WaitId {
        session: SessionId(1),
        slot: SlotId(owner as u16),
        sequence: 1,
    };
    let asked = Asked {
        id,
        lock,
        ticket: owner,
        blocking: false,
        at_once,
        until: Steady(10),
    };
    table.ask(FILE, asked)
}

#[test]
fn who_tries_is_kept_while_the_holder_may_have_closed_the_file() {
    let owner = |number| Owner {
        session: SessionId(1),
        number,
    };
    let close = |table: &mut LockTable<u64>| {
        table.closing(FILE, [(LockKind::Flock, owner(1))].into_iter(), Steady(10));
    };
    let mut table = LockTable::default();
    assert_eq!(try_flock(&mut table, 1, true), Outcome::Granted);
    assert_eq!(try_flock(&mut table, 2, true), Outcome::Busy);
    close(&mut table);
    assert_eq!(try_flock(&mut table, 2, true), Outcome::NotYet);
    assert_eq!(try_flock(&mut table, 2, false), Outcome::Parked);
    table.unlock(FILE, owner(1), LockKind::Flock, LockRange::WHOLE);
    assert_eq!(granted(&mut table), [2]);

    // It was not the last descriptor: the one that tried is told after a while.
    let mut table = LockTable::default();
    try_flock(&mut table, 1, true);
    close(&mut table);
    assert_eq!(try_flock(&mut table, 2, false), Outcome::Parked);
    table.tick(Steady(9));
    assert_eq!(table.take_events(), []);
    table.tick(Steady(10));
    assert!(
        matches!(
            table.take_events()[..],
            [Event::Over {
                outcome: Outcome::Busy,
                ..
            }]
        ) && !table.needs_ticks()
    );

    // It is in use, so it was not the last one.
    close(&mut table);
    assert_eq!(try_flock(&mut table, 1, true), Outcome::Granted);
    assert_eq!(try_flock(&mut table, 2, true), Outcome::Busy);
    table.unlock(FILE, owner(1), LockKind::Flock, LockRange::WHOLE);
    // Nobody waits for an owner without a lock.
    close(&mut table);
    assert!(!table.needs_ticks() && !table.knows(FILE));
}

#[test]
fn a_file_has_as_many_ranges_as_the_limit_says_and_no_more() {
    const MOST: u64 = MAX_LOCKS_PER_INODE as u64;
    let single = |at: u64| record(1, LockMode::Exclusive, at * 2, at * 2);
    let mut table = LockTable::default();
    for at in 0..MOST {
        assert_eq!(
            ask(&mut table, FILE, at, single(at)),
            Outcome::Granted,
            "{at}"
        );
    }
    assert_eq!(table.held(), MAX_LOCKS_PER_INODE);
    assert_eq!(ask(&mut table, FILE, MOST, single(MOST)), Outcome::Full);
    // Locks that add no range are still given: the same again, a weaker one, one that joins two.
    assert_eq!(ask(&mut table, FILE, MOST + 1, single(7)), Outcome::Granted);
    let weaker = record(1, LockMode::Shared, 14, 14);
    assert_eq!(ask(&mut table, FILE, MOST + 2, weaker), Outcome::Granted);
    let between = record(1, LockMode::Exclusive, 1, 1);
    assert_eq!(ask(&mut table, FILE, MOST + 3, between), Outcome::Granted);
    assert_eq!(table.held(), MAX_LOCKS_PER_INODE - 1);
    // The middle of one makes three of it, or, unlocked, two.
    let first = Owner {
        session: SessionId(1),
        number: 1,
    };
    let wide = record(1, LockMode::Exclusive, MOST * 4, MOST * 4 + 8);
    table.unlock(
        FILE,
        first,
        LockKind::Record,
        LockRange {
            first: 14,
            last: 14,
        },
    );
    assert_eq!(ask(&mut table, FILE, MOST + 4, wide), Outcome::Granted);
    let middle = LockRange {
        first: MOST * 4 + 2,
        last: MOST * 4 + 3,
    };
    let weaker = record(1, LockMode::Shared, middle.first, middle.last);
    assert_eq!(ask(&mut table, FILE, MOST + 5, weaker), Outcome::Full);
    assert!(table.unlock(FILE, first, LockKind::Record, middle));
    assert_eq!(table.held(), MAX_LOCKS_PER_INODE);
    let further = LockRange {
        first: MOST * 4 + 6,
        last: MOST * 4 + 6,
    };
    assert!(!table.unlock(FILE, first, LockKind::Record, further));
    assert_eq!(table.held(), MAX_LOCKS_PER_INODE);
    assert!(table.unlock(FILE, first, LockKind::Record, LockRange::WHOLE));
    assert_eq!(table.held(), 0);
}
