//! The table beside clients that believe what it leased to them: messages cross, are late or lost, clients
//! lose their connections, and whatever is changed is believed by nobody else at that moment.

use pandofs_leases::{LeaseTable, Recall, Room, WaitId};
use pandofs_types::limits::{
    BRIEF_LEASE, LEASE, MANY_LEASES_PER_SHARD, MAX_LEASES_PER_SHARD, SHORT_LEASE,
    VERY_MANY_LEASES_PER_SHARD,
};
use pandofs_types::{Ino, LeaseKey, SessionId, Steady, Term};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const SESSIONS: u64 = 3;
const KEYS: u64 = 4;

/// A plan for a run.
#[derive(Clone, Debug)]
enum Event {
    /// A client asks for a key.
    Read {
        session: u64,
        key: u64,
        lasts: bool,
    },
    /// The oldest answer on its way to a client arrives.
    Answer {
        session: u64,
    },
    /// The oldest recall on its way to a client arrives, and its answer goes back.
    Recall {
        session: u64,
    },
    /// The oldest answer to a recall arrives.
    Answered {
        session: u64,
    },
    /// A client loses its connections and what is on its way over them, and begins anew.
    Lost {
        session: u64,
    },
    /// The table hears of that.
    Anew {
        session: u64,
    },
    /// Somebody wants to change keys; of those with `true` it knows itself.
    Change {
        session: u64,
        keys: Vec<(u64, bool)>,
    },
    Pass {
        milliseconds: u64,
    },
    Close,
    Open,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let session = || 0..SESSIONS;
    let event = prop_oneof![
        6 => (session(), 0..KEYS, proptest::bool::ANY)
            .prop_map(|(session, key, lasts)| Event::Read { session, key, lasts }),
        6 => session().prop_map(|session| Event::Answer { session }),
        4 => session().prop_map(|session| Event::Recall { session }),
        4 => session().prop_map(|session| Event::Answered { session }),
        1 => session().prop_map(|session| Event::Lost { session }),
        2 => session().prop_map(|session| Event::Anew { session }),
        4 => (session(), proptest::collection::vec((0..KEYS, proptest::bool::weighted(0.7)), 1..4))
            .prop_map(|(session, keys)| Event::Change { session, keys }),
        2 => (1..6_000_u64).prop_map(|milliseconds| Event::Pass { milliseconds }),
        1 => Just(Event::Close),
        1 => Just(Event::Open),
    ];
    proptest::collection::vec(event, 1..200)
}

/// A value that was read, on its way back.
#[derive(Clone, Copy, Debug)]
struct Reply {
    key: LeaseKey,
    leased: Option<Term>,
    value: u64,
    asked: Steady,
    /// Of the client's events when it asked.
    stamp: u64,
}

#[derive(Default)]
struct Client {
    believed: BTreeMap<LeaseKey, (u64, Steady)>,
    replies: VecDeque<Reply>,
    recalls: VecDeque<Recall>,
    answered: VecDeque<u64>,
    /// When a key was recalled, counted in recalls and losses.
    forgotten: BTreeMap<LeaseKey, u64>,
    events: u64,
    /// Answers to what was asked before are not believed.
    floor: u64,
    /// It has begun anew and the table has not heard of it.
    is_anew: bool,
}

struct World {
    table: LeaseTable,
    clients: Vec<Client>,
    values: BTreeMap<LeaseKey, u64>,
    now: Steady,
    waiting: BTreeMap<WaitId, (u64, Vec<(LeaseKey, bool)>)>,
    changes: u64,
    /// A planted bug: what is in the way is recalled and not waited for.
    is_hasty: bool,
}

fn key(number: u64) -> LeaseKey {
    LeaseKey::Inode(Ino(number))
}

impl World {
    fn new(is_hasty: bool) -> World {
        World {
            // Little enough that some are short, some are brief and some are refused.
            table: LeaseTable::with_room(Room {
                many: 3,
                very_many: 6,
                all: 9,
            }),
            clients: (0..SESSIONS).map(|_| Client::default()).collect(),
            values: BTreeMap::new(),
            now: Steady(1),
            waiting: BTreeMap::new(),
            changes: 0,
            is_hasty,
        }
    }

    fn run(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Read {
                session,
                key: number,
                lasts,
            } => {
                let client = &mut self.clients[session as usize];
                if client.is_anew {
                    return Ok(());
                }
                let key = key(number);
                if let Some((value, until)) = client.believed.get(&key)
                    && *until > self.now
                {
                    let current = self.values.get(&key).copied().unwrap_or(0);
                    if *value != current {
                        return Err(format!(
                            "session {session} believes {value} of {key:?}, it is {current}"
                        ));
                    }
                    return Ok(());
                }
                let reply = Reply {
                    key,
                    leased: self.table.grant(SessionId(session), key, lasts),
                    value: self.values.get(&key).copied().unwrap_or(0),
                    asked: self.now,
                    stamp: client.events,
                };
                client.replies.push_back(reply);
            }
            Event::Answer { session } => {
                let client = &mut self.clients[session as usize];
                if let Some(reply) = client.replies.pop_front() {
                    let forgotten = client.forgotten.get(&reply.key).copied().unwrap_or(0);
                    if let Some(term) = reply.leased
                        && reply.stamp >= forgotten.max(client.floor)
                    {
                        let until = reply.asked.0 + term.believed_for().as_nanos() as i64;
                        let believed = (reply.value, Steady(until));
                        client.believed.insert(reply.key, believed);
                    }
                }
            }
            Event::Recall { session } => {
                let client = &mut self.clients[session as usize];
                if let Some(recall) = client.recalls.pop_front() {
                    client.events += 1;
                    for key in recall.keys {
                        client.believed.remove(&key);
                        client.forgotten.insert(key, client.events);
                    }
                    client.answered.push_back(recall.number);
                }
            }
            Event::Answered { session } => {
                if let Some(number) = self.clients[session as usize].answered.pop_front() {
                    self.table.answered(SessionId(session), number);
                }
            }
            Event::Lost { session } => {
                let client = &mut self.clients[session as usize];
                client.believed.clear();
                client.recalls.clear();
                client.answered.clear();
                client.events += 1;
                client.floor = client.events;
                client.is_anew = true;
            }
            Event::Anew { session } => {
                let client = &mut self.clients[session as usize];
                if std::mem::take(&mut client.is_anew) {
                    client.recalls.clear();
                    client.events += 1;
                    client.floor = client.events;
                    self.table.drop_session(SessionId(session));
                }
            }
            Event::Change { session, keys } => {
                let keys = keys.into_iter().map(|(number, known)| (key(number), known));
                let keys = keys.collect();
                self.change(session, keys)?;
            }
            Event::Pass { milliseconds } => {
                self.now.0 += milliseconds as i64 * 1_000_000;
                self.table.tick(self.now);
            }
            Event::Close => {
                if self.table.close() {
                    for client in &self.clients {
                        let now = self.now;
                        if client.believed.values().any(|(_, until)| *until > now) {
                            return Err("all is over and somebody believes something".to_owned());
                        }
                    }
                }
            }
            Event::Open => self.table.open(),
        }
        self.carry_out()
    }

    fn change(&mut self, session: u64, keys: Vec<(LeaseKey, bool)>) -> Result<(), String> {
        let own = |known: bool| known.then_some(SessionId(session));
        let wanted: Vec<_> = keys.iter().map(|&(key, known)| (key, own(known))).collect();
        match self.table.clear(&wanted) {
            Some(id) if !self.is_hasty => {
                self.waiting.insert(id, (session, keys));
                return Ok(());
            }
            _ => {}
        }
        self.changes += 1;
        for &(key, _) in &keys {
            // The session is told of a change that it does not know, like all others.
            let is_known = keys.iter().all(|&(other, known)| other != key || known);
            for (other, client) in self.clients.iter_mut().enumerate() {
                if other as u64 == session && is_known {
                    // It knows what it changes: neither what it has nor what is on its way holds any more.
                    client.events += 1;
                    client.believed.remove(&key);
                    client.forgotten.insert(key, client.events);
                } else if client
                    .believed
                    .get(&key)
                    .is_some_and(|(_, until)| *until > self.now)
                {
                    return Err(format!(
                        "{key:?} is changed and session {other} believes in it"
                    ));
                }
            }
            self.values.insert(key, self.changes);
        }
        Ok(())
    }

    fn carry_out(&mut self) -> Result<(), String> {
        for recall in self.table.take_recalls() {
            let client = &mut self.clients[recall.session.0 as usize];
            // A recall to a session that begins anew is lost.
            if !client.is_anew {
                client.recalls.push_back(recall);
            }
        }
        for id in self.table.take_clear() {
            if let Some((session, keys)) = self.waiting.remove(&id) {
                self.change(session, keys)?;
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn what_is_changed_is_believed_by_nobody_else(events in events()) {
        let mut world = World::new(false);
        for event in events {
            let ran = world.run(event);
            prop_assert!(ran.is_ok(), "{ran:?}");
        }
        // A silent session holds nobody up for longer than a lease.
        for _ in 0..3 {
            let milliseconds = LEASE.as_millis() as u64;
            let ran = world.run(Event::Pass { milliseconds });
            prop_assert!(ran.is_ok(), "{ran:?}");
        }
        prop_assert_eq!(world.table.len(), 0);
        prop_assert_eq!(world.table.waiting(), 0);
        prop_assert!(world.waiting.is_empty());
    }
}

#[test]
fn a_change_that_does_not_wait_is_found_out() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let found = runner.run(&events(), |events| {
        let mut world = World::new(true);
        for event in events {
            let ran = world.run(event);
            prop_assert!(ran.is_ok());
        }
        Ok(())
    });
    assert!(found.is_err(), "nobody noticed");
}

#[test]
fn a_late_answer_to_an_old_recall_ends_no_new_lease() {
    let mut table = LeaseTable::default();
    let (a, b) = (SessionId(1), SessionId(2));
    assert!(table.grant(a, key(1), true).is_some());
    assert!(table.clear(&[(key(1), Some(b))]).is_some());
    assert!(
        table.grant(a, key(1), true).is_none() && table.grant(b, key(1), true).is_none(),
        "it is wanted"
    );
    let recall = table.take_recalls().remove(0);
    assert_eq!((recall.session, &recall.keys[..]), (a, &[key(1)][..]));
    table.tick(Steady(LEASE.as_nanos() as i64));
    assert_eq!(table.take_clear().len(), 1);
    assert!(table.grant(a, key(1), true).is_some());
    table.answered(a, recall.number);
    assert!(table.is_held(key(1), None));
    table.answered(a, recall.number);
    table.answered(b, 77);
    assert!(table.is_held(key(1), Some(b)) && !table.is_held(key(1), Some(a)));
}

#[test]
fn there_is_an_end_to_what_is_leased() {
    let mut table = LeaseTable::default();
    let session = SessionId(1);
    let mut grant = |number, lasts| table.grant(session, key(number), lasts);
    let (many, very_many, most) = (
        MANY_LEASES_PER_SHARD as u64,
        VERY_MANY_LEASES_PER_SHARD as u64,
        MAX_LEASES_PER_SHARD as u64,
    );
    assert!((0..many).all(|number| grant(number, false) == Some(Term::Long)));
    assert_eq!(grant(many, true), Some(Term::Long));
    assert!((many + 1..very_many).all(|number| grant(number, false) == Some(Term::Short)));
    assert!((very_many..most).all(|number| grant(number, false) == Some(Term::Brief)));
    assert_eq!((grant(most, false), grant(most, true)), (None, None));
    // Those that are brief make room, then those that are short, and what was leased long before is not over.
    let after = |how_long: Duration| Steady(how_long.as_nanos() as i64);
    table.tick(after(BRIEF_LEASE));
    assert_eq!(table.len() as u64, very_many);
    assert_eq!(table.grant(session, key(most), false), Some(Term::Brief));
    table.tick(after(SHORT_LEASE));
    assert_eq!(table.len() as u64, many + 1);
    assert_eq!(table.grant(session, key(most), false), Some(Term::Short));
    assert!(table.is_held(key(0), None));
    table.tick(Steady(LEASE.as_nanos() as i64));
    assert!(table.is_empty());
    assert_eq!(table.grant(session, key(1), false), Some(Term::Long));
}

#[test]
fn what_is_leased_already_is_not_counted_again_where_there_are_many() {
    let (many, very_many, all) = (8, 10, 12);
    let mut table = LeaseTable::with_room(Room {
        many,
        very_many,
        all,
    });
    let session = SessionId(1);
    // With few it is given anew, and lasts from then.
    assert_eq!(table.grant(session, key(1), false), Some(Term::Long));
    table.tick(Steady(1));
    assert_eq!(table.grant(session, key(1), false), Some(Term::Long));
    for number in 2..=3 {
        assert_eq!(table.grant(session, key(number), false), Some(Term::Long));
    }
    // With half as many as are many it is not, as often as it is asked for.
    table.tick(Steady(2));
    for _ in 0..2 * all {
        assert_eq!(table.grant(session, key(3), false), Some(Term::Short));
    }
    let (of_another, of_all) = (SessionId(2), (4..=7).map(key));
    for key in of_all {
        assert_eq!(table.grant(of_another, key, false), Some(Term::Long));
    }
    assert_eq!(table.grant(of_another, key(1), false), Some(Term::Short));
    assert_eq!(table.grant(session, key(1), true), Some(Term::Long));
    // One that is over sooner than a short one is given anew.
    table.tick(Steady((LEASE - SHORT_LEASE).as_nanos() as i64 + 2));
    assert_eq!(table.grant(session, key(3), false), Some(Term::Short));
    for number in [2, 8, 9] {
        assert_eq!(table.grant(session, key(number), false), Some(Term::Brief));
    }
    assert_eq!(table.grant(session, key(10), false), None, "that is all");
}
