//! Tests of the machine of leases: each compares all commands.

use super::*;
use crate::port::{Input, Proposal};
use pandofs_api::RequestKey;
use pandofs_leases::Recall;
use pandofs_types::{Credentials, Epoch, SlotId};

const SHARD: ShardId = ShardId(0);
const DIR: Ino = Ino(1);
const KEY: HashKey = HashKey(1, 2);
const A: SessionId = SessionId(7);
const B: SessionId = SessionId(8);

struct Case {
    machine: Leases,
    commands: Commands,
    locks: Locks,
    reclaims: Reclaims,
}

impl Case {
    fn new(machine: Leases) -> Case {
        Case {
            machine,
            commands: Commands::after(SHARD, 10),
            locks: Locks::default(),
            reclaims: Reclaims::default(),
        }
    }

    /// A machine where these sessions are on disk as ones that may have leases.
    fn with_takers(sessions: impl IntoIterator<Item = SessionId>) -> Case {
        let mut case = Case::new(Leases::default());
        for session in sessions {
            case.machine.holders.add(session);
            case.machine.takes(&mut case.commands, session);
        }
        case
    }

    /// Leases with the answer that there is no name `x`.
    fn look_up(&mut self, session: SessionId) -> Vec<Leased> {
        let lookup = Request::Lookup(op::Lookup {
            dir: DIR,
            name: name(),
        });
        let request = ShardRequest {
            shard: SHARD,
            epoch: Epoch(1),
            key: RequestKey {
                session,
                slot: SlotId(1),
                sequence: 1,
            },
            caller: Credentials::ROOT,
            request: lookup,
        };
        let around = Around {
            shard: SHARD,
            hash_key: KEY,
            applied: 10,
            locks: &self.locks,
            reclaims: &self.reclaims,
        };
        let missing = Err(Refusal::Fs(FsError::NotFound));
        self.machine
            .lease(&mut self.commands, around, &request, &missing)
    }

    /// A change of the name by a session.
    fn change(&mut self, session: SessionId) -> Cleared {
        let (key, is_known) = (entry(), true);
        let touched = [Touched { key, is_known }];
        let cleared = self.machine.clear(&touched, Some(session));
        self.machine.events(&mut self.commands);
        cleared
    }

    /// The records and outputs since the last call.
    fn taken(&mut self) -> (Vec<Proposal>, Vec<Output>) {
        let proposals = std::mem::take(&mut self.commands.proposals);
        (proposals, std::mem::take(&mut self.commands.outputs))
    }
}

fn name() -> Name {
    Name::new(b"x").expect("a name")
}

fn entry() -> LeaseKey {
    let position = KEY.position(name().as_bytes());
    LeaseKey::Entry { dir: DIR, position }
}

fn holder(index: u64, session: SessionId, has: bool) -> Proposal {
    let payload = Record::Leaseholder { session, has }.encode();
    Proposal { index, payload }
}

#[test]
fn a_session_is_on_disk_before_its_first_lease() {
    let mut case = Case::new(Leases::default());
    assert_eq!(case.look_up(A), [], "it takes none");
    case.machine.takes(&mut case.commands, A);
    assert_eq!(case.look_up(A), []);
    assert_eq!(case.look_up(A), []);
    assert_eq!(case.taken(), (vec![holder(11, A, true)], vec![]));
    case.machine.holder_reached_disk(&mut case.commands, A, 10);
    assert_eq!(case.look_up(A), []);
    case.machine.holder_reached_disk(&mut case.commands, A, 11);
    assert_eq!(case.look_up(A), [Leased::ENTRY]);
    assert_eq!(case.taken(), (vec![], vec![]));
    case.machine.session_gone(&mut case.commands, A);
    assert_eq!(case.taken(), (vec![holder(12, A, false)], vec![]));
    assert_eq!(case.machine.held(), 0);
}

#[test]
fn a_change_waits_until_the_leases_of_others_are_answered() {
    let mut case = Case::with_takers([A, B]);
    assert_eq!(case.look_up(A), [Leased::ENTRY]);
    assert_eq!(case.change(A), Cleared::Yes, "of its own it knows");
    let Cleared::Wait(id) = case.change(B) else {
        panic!("another one may believe that there is no such name");
    };
    let recall = Recall {
        session: A,
        number: 1,
        keys: vec![entry()],
    };
    assert_eq!(case.taken(), (vec![], vec![Output::Recall(recall)]));
    // While it waits nobody is given a lease of it.
    assert_eq!(case.look_up(B), []);
    let input = Input::Tick;
    assert_eq!(
        case.commands.waiting.wait(Until::Clear(id), input.clone()),
        None
    );
    case.machine.answered(A, 1);
    case.machine.events(&mut case.commands);
    assert_eq!(case.commands.waiting.take_ready(), [input]);
    assert_eq!(case.change(B), Cleared::Yes);
    assert_eq!(case.taken(), (vec![], vec![]));
}

#[test]
fn no_lease_is_given_of_a_key_that_a_record_is_about_to_change() {
    let mut case = Case::with_takers([A, B]);
    assert_eq!(case.change(B), Cleared::Yes);
    case.machine.propose(12, vec![entry()]);
    assert_eq!(case.look_up(A), []);
    case.machine.begin(11);
    assert_eq!(case.look_up(A), []);
    case.machine.begin(12);
    assert_eq!(case.look_up(A), [Leased::ENTRY]);
}

/// (Records proposed before touched nothing here when they were looked at.)
#[test]
fn nothing_of_what_came_is_leased_before_all_is_applied_that_was_proposed_until_then() {
    let mut case = Case::with_takers([A]);
    case.machine.came_here(11);
    assert_eq!(case.look_up(A), []);
    case.machine.came_here(10);
    assert_eq!(case.look_up(A), [Leased::ENTRY]);
}

#[test]
fn after_a_restart_a_change_waits_for_sessions_to_begin_anew_or_for_their_leases_to_end() {
    let mut case = Case::new(Leases::recovered([A, B].into(), [].into(), Steady(5)));
    assert_eq!(case.change(B), Cleared::Early);
    let input = Input::Tick;
    let early = Until::Leaseholders;
    assert_eq!(case.commands.waiting.wait(early, input.clone()), None);
    case.machine.takes(&mut case.commands, A);
    case.machine.time(Steady(6));
    case.machine.tick(&mut case.commands);
    assert_eq!(case.commands.waiting.take_ready(), []);
    case.machine.time(Steady(5).after(LEASE));
    case.machine.tick(&mut case.commands);
    assert_eq!(case.commands.waiting.take_ready(), [input]);
    assert_eq!(case.taken(), (vec![holder(11, B, false)], vec![]));
    assert_eq!(case.change(B), Cleared::Yes);
}

#[test]
fn while_a_half_is_about_to_move_nothing_is_leased() {
    let mut case = Case::with_takers([A]);
    assert_eq!(case.look_up(A), [Leased::ENTRY]);
    assert!(!case.machine.close(DIR), "one is still held");
    case.machine.events(&mut case.commands);
    let recall = Recall {
        session: A,
        number: 1,
        keys: vec![entry()],
    };
    assert_eq!(case.taken(), (vec![], vec![Output::Recall(recall)]));
    case.machine.answered(A, 1);
    assert_eq!(case.look_up(A), []);
    assert!(case.machine.close(DIR));
    case.machine.open(DIR);
    assert_eq!(case.look_up(A), [Leased::ENTRY]);
}

#[test]
fn a_session_is_on_disk_before_its_first_grant() {
    let mut case = Case::new(Leases::default());
    let asks = |case: &mut Case, fresh| {
        let commands = &mut case.commands;
        case.machine.takes_grants(commands, 10, A, fresh)
    };
    assert_eq!(asks(&mut case, 4), None, "it takes no leases");
    assert_eq!(case.taken(), (vec![], vec![]));
    case.machine.takes(&mut case.commands, A);
    assert_eq!((asks(&mut case, 5), asks(&mut case, 6)), (None, None));
    let (session, incarnation) = (A, Some(5));
    let payload = Record::Grantholder {
        session,
        incarnation,
    }
    .encode();
    let second = Proposal { index: 12, payload };
    assert_eq!(case.taken(), (vec![holder(11, A, true), second], vec![]));
    case.machine
        .grantholder_reached_disk(&mut case.commands, A, 12);
    assert_eq!(asks(&mut case, 7), None);
    case.machine.holder_reached_disk(&mut case.commands, A, 12);
    assert_eq!(asks(&mut case, 8), Some(5));
    assert_eq!(case.taken(), (vec![], vec![]));
}

#[test]
fn a_change_of_anything_in_a_directory_recalls_its_grant() {
    for key in [entry(), LeaseKey::Parts(DIR), LeaseKey::Inode(DIR)] {
        let mut case = Case::with_takers([A, B]);
        assert_eq!(case.machine.grant_dir(A, DIR, 5), Some(5));
        let is_known = true;
        let own = case.machine.clear(&[Touched { key, is_known }], Some(A));
        assert_eq!(own, Cleared::Yes);
        // The sender has to take in first a change that it does not know of.
        let is_known = false;
        for session in [A, B] {
            let touched = [Touched { key, is_known }];
            let cleared = case.machine.clear(&touched, Some(session));
            assert!(matches!(cleared, Cleared::Wait(_)), "{key:?}");
        }
        case.machine.events(&mut case.commands);
        let recall = Recall {
            session: A,
            number: 1,
            keys: vec![LeaseKey::Grant(DIR)],
        };
        assert_eq!(case.taken(), (vec![], vec![Output::Recall(recall)]));
        assert_eq!(case.look_up(B), [], "nothing in it is leased");
    }
}
