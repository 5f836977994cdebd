//! Tests of the machine of file locks: each compares all commands.

use super::*;
use crate::port::Proposal;
use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_storage::store::MemoryStore;
use pandofs_types::{
    Credentials, Epoch, FsId, HashKey, LockKind, LockMode, LockRange, ServerId, TxId,
};

const SHARD: ShardId = ShardId(0);
const FILE: Ino = Ino(5);
const A: SessionId = SessionId(7);
const B: SessionId = SessionId(8);
const LONG: u32 = 1_000;

/// The machine and what is around it.
struct Case {
    machine: FileLocks,
    commands: Commands,
    locks: Locks,
    store: MemoryStore,
    map: ClusterMap,
}

impl Case {
    fn new(machine: FileLocks) -> Case {
        let server = ServerInfo {
            id: ServerId(0),
            addresses: vec![],
            weight: ServerInfo::WEIGHT_ONE,
            domain: "here".to_string(),
        };
        let (policy, settings) = (DirPolicy::default(), Settings::default());
        let key = HashKey(1, 2);
        let map = ClusterMap::create(
            FsId(7),
            "test".to_string(),
            key,
            1,
            vec![server],
            policy,
            settings,
        );
        Case {
            machine,
            commands: Commands::after(SHARD, 10),
            locks: Locks::default(),
            store: MemoryStore::new(),
            map: map.expect("a map of one server"),
        }
    }

    fn ask(&mut self, ticket: u64, request: &ShardRequest) {
        let view = View {
            kv: &self.store,
            shard: SHARD,
            map: &self.map,
            cached_only: false,
        };
        self.machine
            .request(
                &mut self.commands,
                &view,
                &self.locks,
                Ticket(ticket),
                request.clone(),
            )
            .expect("an empty store can be read");
    }

    fn tick(&mut self, now: i64, grace_is_over: bool) {
        let now = Steady(now);
        self.machine
            .tick(&mut self.commands, &self.locks, now, grace_is_over);
    }

    /// The records and outputs since the last call.
    fn taken(&mut self) -> (Vec<Proposal>, Vec<Output>) {
        let proposals = std::mem::take(&mut self.commands.proposals);
        (proposals, std::mem::take(&mut self.commands.outputs))
    }
}

fn request(session: SessionId, sequence: u64, request: Request) -> ShardRequest {
    ShardRequest {
        shard: SHARD,
        epoch: Epoch(1),
        key: RequestKey {
            session,
            slot: SlotId(1),
            sequence,
        },
        caller: Credentials::ROOT,
        request,
    }
}

fn exclusive(owner: u64) -> FileLock {
    FileLock {
        kind: LockKind::Record,
        owner,
        pid: 1,
        mode: LockMode::Exclusive,
        range: LockRange::WHOLE,
    }
}

fn set(session: SessionId, sequence: u64, wait_ms: u32) -> ShardRequest {
    let set = op::SetLock {
        ino: FILE,
        lock: exclusive(1),
        blocking: wait_ms > 0,
        wait_ms,
    };
    request(session, sequence, Request::SetLock(set))
}

fn holder(index: u64, session: SessionId, has: bool) -> Proposal {
    let payload = Record::LockHolder { session, has }.encode();
    Proposal { index, payload }
}

fn answer(ticket: u64, result: Answer) -> Output {
    Output::Answer {
        ticket: Ticket(ticket),
        result,
        leased: Vec::new(),
        durable: false,
    }
}

/// A machine with sessions that may have locks already.
fn with_holders(sessions: impl IntoIterator<Item = SessionId>) -> Case {
    let mut case = Case::new(FileLocks::default());
    for session in sessions {
        case.machine.holders.add(session);
    }
    case
}

#[test]
fn a_session_is_on_disk_before_its_first_lock() {
    let mut case = Case::new(FileLocks::default());
    let (first, second) = (set(A, 1, 0), request(A, 2, unlock()));
    case.ask(1, &first);
    assert_eq!(case.taken(), (vec![holder(11, A, true)], vec![]));
    // Another one waits with it, and makes no record.
    case.ask(2, &set(A, 3, 0));
    assert_eq!(case.taken(), (vec![], vec![]));
    case.machine.holder_reached_disk(&mut case.commands, A, 10);
    assert_eq!(case.commands.waiting.take_ready(), []);
    case.machine.holder_reached_disk(&mut case.commands, A, 11);
    let ready = case.commands.waiting.take_ready();
    assert_eq!(ready.len(), 2);
    case.ask(1, &first);
    case.ask(2, &second);
    let done = |ticket| answer(ticket, Ok(Reply::Done));
    assert_eq!(case.taken(), (vec![], vec![done(1), done(2)]));
}

fn unlock() -> Request {
    Request::Unlock(op::Unlock {
        ino: FILE,
        kind: LockKind::Record,
        owner: 1,
        range: LockRange::WHOLE,
    })
}

#[test]
fn a_session_that_ends_before_it_is_on_disk_gets_no_lock() {
    let mut case = Case::new(FileLocks::default());
    case.ask(1, &set(A, 1, 0));
    case.machine
        .session_gone(&mut case.commands, &case.locks, A);
    let refused = answer(1, Err(Refusal::TryAgain));
    let records = vec![holder(11, A, true), holder(12, A, false)];
    assert_eq!(case.taken(), (records, vec![refused]));
    // It comes back. That its first record is on disk is nothing: the second takes it back.
    case.ask(2, &set(A, 2, 0));
    assert_eq!(case.taken(), (vec![holder(13, A, true)], vec![]));
    case.machine.holder_reached_disk(&mut case.commands, A, 11);
    assert_eq!(case.commands.waiting.take_ready(), []);
    case.machine.holder_reached_disk(&mut case.commands, A, 13);
    assert_eq!(case.commands.waiting.take_ready().len(), 1);
}

#[test]
fn a_request_is_executed_once() {
    let mut case = with_holders([A]);
    let (first, second) = (set(A, 1, 0), request(A, 2, unlock()));
    for (ticket, asked) in [(1, &first), (2, &second), (3, &second), (4, &first)] {
        case.ask(ticket, asked);
    }
    let done = |ticket| answer(ticket, Ok(Reply::Done));
    let stale = answer(4, Err(Refusal::StaleSequence));
    let outputs = vec![done(1), done(2), done(3), stale];
    assert_eq!(case.taken(), (vec![], outputs));
    assert_eq!(case.machine.held(), 0);
}

#[test]
fn after_a_restart_nothing_is_given_until_all_have_come_or_the_grace_is_over() {
    let mut case = Case::new(FileLocks::recovered([A, B].into(), Steady(5)));
    let get = |sequence| {
        let lock = exclusive(9);
        request(
            A,
            sequence,
            Request::GetLock(op::GetLock { ino: FILE, lock }),
        )
    };
    case.ask(1, &get(1));
    let (ino, locks, last) = (FILE, Vec::new(), true);
    case.ask(
        2,
        &request(A, 2, Request::Relock(op::Relock { locks, last })),
    );
    case.ask(3, &set(A, 3, LONG));
    case.tick(6, false);
    let not_yet = answer(1, Err(Refusal::NotYet));
    let nothing_lost = answer(2, Ok(Reply::LostLocks(Vec::new())));
    assert_eq!(case.taken(), (vec![], vec![not_yet, nothing_lost]));
    case.tick(7, true);
    let given = answer(3, Ok(Reply::Done));
    assert_eq!(case.taken(), (vec![holder(11, B, false)], vec![given]));
    assert!(case.machine.locked([ino].iter()) == [ino]);
}

#[test]
fn the_last_that_comes_after_a_restart_lets_the_others_go_on() {
    let mut case = Case::new(FileLocks::recovered([A, B].into(), Steady(5)));
    let relock = |session, sequence| {
        let (locks, last) = (Vec::new(), true);
        request(
            session,
            sequence,
            Request::Relock(op::Relock { locks, last }),
        )
    };
    case.ask(1, &relock(A, 1));
    case.ask(2, &set(A, 2, LONG));
    case.ask(3, &relock(B, 1));
    let told = |ticket| answer(ticket, Ok(Reply::LostLocks(Vec::new())));
    let given = answer(2, Ok(Reply::Done));
    assert_eq!(case.taken(), (vec![], vec![told(1), told(3), given]));
}

#[test]
fn a_lock_of_an_inode_on_its_way_is_given_when_it_stays() {
    let mut case = with_holders([A, B]);
    case.ask(1, &set(A, 1, 0));
    case.ask(2, &set(B, 1, LONG));
    let given = |ticket| answer(ticket, Ok(Reply::Done));
    assert_eq!(case.taken(), (vec![], vec![given(1)]));
    let tx = TxId {
        coordinator: SHARD,
        sequence: 3,
    };
    case.locks.acquire(tx, &[Lock::Inode(FILE)]);
    case.machine
        .session_gone(&mut case.commands, &case.locks, A);
    assert_eq!(case.taken(), (vec![holder(11, A, false)], vec![]));
    case.tick(1, true);
    assert_eq!(case.taken(), (vec![], vec![]));
    case.locks.release(tx);
    case.tick(2, true);
    assert_eq!(case.taken(), (vec![], vec![given(2)]));
}

#[test]
fn who_waits_for_a_lock_of_an_inode_that_moves_is_sent_after_it() {
    let mut case = with_holders([A, B]);
    case.ask(1, &set(A, 1, 0));
    case.ask(2, &set(B, 1, LONG));
    let to = ShardId(3);
    case.machine.moved(&mut case.commands, &[FILE], to);
    let moved = Refusal::Moved {
        ino: FILE,
        shard: to,
    };
    let outputs = vec![answer(1, Ok(Reply::Done)), answer(2, Err(moved))];
    assert_eq!(case.taken(), (vec![], outputs));
    assert_eq!((case.machine.held(), case.machine.waiting()), (0, 0));
}
