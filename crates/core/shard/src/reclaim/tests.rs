//! Tests of the machine of the reclaim list: each compares all commands.

use super::*;
use crate::port::Proposal;
use pandofs_api::{Layout, RequestKey};
use pandofs_types::limits::TICK_INTERVAL;
use pandofs_types::{SessionId, SlotId};

const SHARD: ShardId = ShardId(0);
const FILE: Ino = Ino(5);
const SESSION: SessionId = SessionId(7);

#[derive(Debug)]
struct Case {
    machine: Reclaims,
    commands: Commands,
    sessions: Sessions,
    locks: Locks,
}

impl Case {
    /// A machine of a shard that was never restarted.
    fn new() -> Case {
        Case {
            machine: Reclaims::default(),
            commands: Commands::after(SHARD, 10),
            sessions: Sessions::default(),
            locks: Locks::default(),
        }
    }

    fn consider(&mut self, ino: Ino, record: ReclaimRecord, before: bool) {
        self.commands.now = Steady(1);
        let (sessions, locks) = (&mut self.sessions, &self.locks);
        self.machine.consider(
            &mut self.commands,
            sessions,
            locks,
            ino,
            Some(record),
            before,
        );
    }

    fn tick(&mut self, now: Steady) {
        self.commands.now = now;
        let (sessions, locks) = (&mut self.sessions, &self.locks);
        self.machine.tick(&mut self.commands, sessions, locks);
    }

    fn close(&mut self) {
        if self.sessions.opens.release(FILE, SESSION) {
            let (sessions, locks) = (&mut self.sessions, &self.locks);
            self.machine
                .closed(&mut self.commands, sessions, locks, FILE);
        }
    }

    /// The records and outputs since the last call.
    fn taken(&mut self) -> (Vec<Proposal>, Vec<Output>) {
        let proposals = std::mem::take(&mut self.commands.proposals);
        (proposals, std::mem::take(&mut self.commands.outputs))
    }
}

fn reclaim(index: u64) -> Proposal {
    let payload = Record::Reclaim { ino: FILE }.encode();
    Proposal { index, payload }
}

/// Two data objects, and a forwarding record on another shard.
fn gone() -> ReclaimRecord {
    let layout = Layout {
        unit: 65_536,
        count: 2,
        first: ServerId(0),
        servers: 2,
    };
    ReclaimRecord::Gone {
        layout: Some(layout),
        trail: vec![ShardId(3)],
    }
}

fn remove(server: u16, ticket: u64) -> Output {
    Output::Data {
        server: ServerId(server),
        ticket,
        request: DataRequest::Remove { ino: FILE },
        durable: true,
    }
}

fn forget() -> Output {
    let (from, to, inos) = (SHARD, ShardId(3), vec![FILE]);
    Output::Send {
        to,
        message: PeerMessage::ForgetForwarding { from, to, inos },
        durable: true,
    }
}

#[test]
fn an_orphan_goes_when_the_last_has_closed_it() {
    let mut case = Case::new();
    case.sessions.opens.add(FILE, SESSION, 2);
    case.consider(FILE, ReclaimRecord::Orphan, false);
    case.close();
    assert_eq!(case.taken(), (vec![], vec![]));
    case.close();
    assert_eq!(case.taken(), (vec![reclaim(11)], vec![]));
    // Opening it has to wait for the record.
    assert!(case.sessions.opens.is_to_close(FILE));
    case.tick(Steady(2));
    assert_eq!(case.taken(), (vec![], vec![]));
}

#[test]
fn an_orphan_that_an_operation_has_locked_or_a_record_opens_is_looked_at_again() {
    let mut case = Case::new();
    let tx = TxId {
        coordinator: SHARD,
        sequence: 3,
    };
    case.locks.acquire(tx, &[Lock::Inode(FILE)]);
    case.consider(FILE, ReclaimRecord::Orphan, false);
    case.tick(Steady(2));
    assert_eq!(case.taken(), (vec![], vec![]));
    case.locks.release(tx);
    case.sessions.opens.will_open(FILE);
    case.tick(Steady(3));
    assert_eq!(case.taken(), (vec![], vec![]));
    case.sessions.opens.all_applied();
    case.tick(Steady(4));
    assert_eq!(case.taken(), (vec![reclaim(11)], vec![]));
}

#[test]
fn after_a_restart_an_orphan_stays_until_the_grace_is_over() {
    let mut case = Case::new();
    let grace = TICK_INTERVAL;
    case.sessions.grace = Grace::new(grace, Steady(0));
    case.consider(FILE, ReclaimRecord::Orphan, true);
    // Somebody says that it is open, and closes it.
    case.sessions.opens.tell_again(FILE, SESSION, 1);
    case.close();
    case.tick(Steady(1));
    assert_eq!(case.taken(), (vec![], vec![]));
    let key = RequestKey {
        session: SESSION,
        slot: SlotId(1),
        sequence: 1,
    };
    case.sessions.opens.open(FILE, key);
    let over = Steady(0).after(grace);
    case.sessions.grace.tick(over);
    case.tick(over);
    assert_eq!(case.taken(), (vec![], vec![]));
    case.close();
    assert_eq!(case.taken(), (vec![reclaim(11)], vec![]));
}

#[test]
fn what_is_gone_is_off_the_list_when_all_have_done_their_part() {
    let mut case = Case::new();
    case.consider(FILE, gone(), false);
    let asked = vec![remove(0, 1), remove(1, 2), forget()];
    assert_eq!(case.taken(), (vec![], asked.clone()));
    // A failure is no part done. All that is still to do is asked for again when it is late.
    let failed = DataReply::Failed(FsError::Io);
    let (machine, commands) = (&mut case.machine, &mut case.commands);
    machine.data_done(commands, 1, &failed);
    machine.data_done(commands, 2, &DataReply::Done);
    case.tick(Steady(2).after(RESEND_INTERVAL));
    let late = vec![remove(0, 1), forget()];
    assert_eq!(case.taken(), (vec![], late));
    let (machine, commands) = (&mut case.machine, &mut case.commands);
    machine.forwarding_forgotten(commands, FILE, ShardId(3));
    machine.data_done(commands, 1, &DataReply::Done);
    // Both come again.
    machine.data_done(commands, 1, &DataReply::Done);
    machine.forwarding_forgotten(commands, FILE, ShardId(3));
    let done = Record::Reclaimed {
        ino: FILE,
        done: gone(),
    };
    let payload = done.encode();
    let index = 11;
    assert_eq!(case.taken(), (vec![Proposal { index, payload }], vec![]));
}

#[test]
fn only_so_much_that_nobody_waits_for_is_under_way_at_once() {
    let mut case = Case::new();
    for number in 0..=MAX_RECLAIMS_IN_FLIGHT as u64 {
        case.consider(Ino(100 + number), gone(), false);
    }
    let (records, outputs) = case.taken();
    assert_eq!(records, []);
    assert_eq!(outputs.len(), 3 * MAX_RECLAIMS_IN_FLIGHT);
    assert_eq!(case.machine.len(), MAX_RECLAIMS_IN_FLIGHT + 1);
    // Clients wait for a truncation.
    let truncate = ReclaimRecord::Truncate {
        layout: Layout {
            unit: 65_536,
            count: 1,
            first: ServerId(1),
            servers: 2,
        },
        size: 10,
        truncations: 4,
    };
    case.consider(FILE, truncate, false);
    let asked = Output::Data {
        server: ServerId(1),
        ticket: 2 * MAX_RECLAIMS_IN_FLIGHT as u64 + 1,
        request: DataRequest::Truncate {
            ino: FILE,
            truncations: 4,
            length: 10,
        },
        durable: true,
    };
    assert_eq!(case.taken(), (vec![], vec![asked]));
    assert!(case.machine.is_truncating(FILE));
}
