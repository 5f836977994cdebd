//! A lane over a log and a store in memory: the test does what the lane wants done.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use pandofs_api::{
    Cause, DataReply, DataRequest, NewNode, PeerMessage, Refusal, Reply, Request, RequestKey,
    ShardRequest, op,
};
use pandofs_lane::{
    Command, FaultError, FaultPoints, Heard, Lane, LaneError, LaneParts, MapOutcome, Points,
    Shards, Stage, Subject, configs, flush, recover,
};
use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_shard::{Environment, Shard, Ticket};
use pandofs_storage::log::{Log, MemoryLog};
use pandofs_storage::store::{
    Batch, Cached, KvRead, MemoryStore, Overlay, Store, StoreError, Visit,
};
use pandofs_types::limits::{MAX_SLOTS, SESSION_TIMEOUT, TICK_INTERVAL};
use pandofs_types::{
    Credentials, Epoch, FileLock, FsId, HashKey, Ino, LockKind, LockMode, LockRange, Name,
    ServerId, SessionId, ShardId, SlotId, Steady, Time,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ID: ServerId = ServerId(0);
const NEVER: u64 = u64::MAX;

fn server(id: u16, weight: u32) -> ServerInfo {
    ServerInfo {
        id: ServerId(id),
        addresses: vec![format!("unix:/run/{id}")],
        weight,
        domain: format!("rack {id}"),
    }
}

fn map(flush_interval_ms: u64) -> Arc<ClusterMap> {
    let settings = Settings {
        flush_interval_ms,
        ..Settings::default()
    };
    let made = ClusterMap::create(
        FsId(7),
        "test".to_owned(),
        HashKey(1, 2),
        2,
        vec![server(0, ServerInfo::WEIGHT_ONE)],
        DirPolicy::Random,
        settings,
    );
    Arc::new(made.unwrap())
}

/// A store whose keys can be cold.
#[derive(Default)]
struct ColdStore {
    memory: MemoryStore,
    is_cold: AtomicBool,
}

impl KvRead for ColdStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.memory.get(key)
    }

    fn get_cached(&self, key: &[u8]) -> Result<Cached, StoreError> {
        match self.is_cold.load(Ordering::Relaxed) {
            true => Ok(Cached::Cold),
            false => self.memory.get_cached(key),
        }
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.memory.scan(start, end, visit)
    }
}

impl Store for ColdStore {
    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        self.memory.write(batch)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.memory.flush()
    }

    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }
}

/// Notes the points, and fails at one of them.
#[derive(Debug, Default)]
struct Noted {
    passed: Arc<Mutex<Vec<String>>>,
    fails_at: Arc<Mutex<Option<Stage>>>,
}

impl FaultPoints for Noted {
    fn begin_batch(&mut self) -> Result<(), FaultError> {
        Ok(())
    }

    fn pass(&mut self, stage: Stage, subject: Subject<'_>) -> Result<(), FaultError> {
        let what = match subject {
            Subject::Record(_) => "record",
            Subject::Message(_) => "message",
            Subject::Input(_) => "input",
            Subject::Data(_) => "data",
            Subject::Log => "log",
            Subject::Store => "store",
        };
        self.passed
            .lock()
            .unwrap()
            .push(format!("{stage:?} {what}"));
        match *self.fails_at.lock().unwrap() == Some(stage) {
            true => Err("on purpose".into()),
            false => Ok(()),
        }
    }
}

struct Driver {
    lane: Lane<u8>,
    store: Arc<ColdStore>,
    log: Arc<MemoryLog>,
    now: Steady,
    drawn: u64,
    sequence: u64,
}

impl Driver {
    fn new(flush_interval_ms: u64) -> Driver {
        Driver::with(flush_interval_ms, 64 << 10, Points::default())
    }

    fn with(flush_interval_ms: u64, unwritten_bytes: usize, points: Points) -> Driver {
        let map = map(flush_interval_ms);
        let (store, log) = (Arc::new(ColdStore::default()), Arc::new(MemoryLog::new()));
        let mut overlay = Overlay::new(&*store);
        for config in configs(&map, ID, SESSION_TIMEOUT) {
            Shard::create(&config, &mut overlay, Time(1), &Credentials::ROOT).unwrap();
        }
        store.write(&overlay.take_batch()).unwrap();
        store.flush().unwrap();
        let mut environment = Environment {
            now: Time(1),
            steady: Steady(0),
            held: 0,
            random: &mut || 7,
        };
        let configs = configs(&map, ID, SESSION_TIMEOUT);
        let (shards, replayed) = recover(configs, &mut environment, &*store, &*log).unwrap();
        assert_eq!(replayed.records, 0);
        let parts = LaneParts {
            id: ID,
            map,
            shards: Shards::new(shards),
            store: Arc::clone(&store) as Arc<dyn Store>,
            log: Arc::clone(&log) as Arc<dyn Log>,
            points,
            first_data_number: 5,
            recent_reads: 0,
            unwritten_bytes,
            unflushed_bytes: 0,
            session_timeout: SESSION_TIMEOUT,
        };
        let mut driver = Driver {
            lane: Lane::new(parts, Steady(0)),
            store,
            log,
            now: Steady(0),
            drawn: 0,
            sequence: 0,
        };
        driver
            .batch(|lane, environment| lane.begin(environment))
            .unwrap();
        assert!(driver.commands().is_empty());
        driver
    }

    fn batch(
        &mut self,
        run: impl FnOnce(&mut Lane<u8>, &mut Environment<'_>) -> Result<(), LaneError>,
    ) -> Result<(), LaneError> {
        let drawn = &mut self.drawn;
        let mut random = || {
            *drawn += 1;
            *drawn
        };
        let mut environment = Environment {
            now: Time(self.now.0 + 1),
            steady: self.now,
            held: 0,
            random: &mut random,
        };
        run(&mut self.lane, &mut environment)
    }

    fn run(&mut self) -> Result<(), LaneError> {
        self.batch(|lane, environment| lane.run_batch(environment, usize::MAX))
    }

    fn commands(&mut self) -> Vec<Command<u8>> {
        let mut commands = Vec::new();
        self.lane.take_commands(&mut commands);
        commands
    }

    fn work(&mut self, flush_after: u64) -> Vec<Command<u8>> {
        self.lane.begin_work(self.now, flush_after).unwrap();
        self.commands()
    }

    fn request(&mut self, request: Request) -> ShardRequest {
        self.sequence += 1;
        ShardRequest {
            shard: ShardId(0),
            epoch: Epoch(1),
            key: RequestKey {
                session: SessionId(9),
                slot: SlotId(self.sequence as u16 % 8),
                sequence: self.sequence,
            },
            caller: Credentials::ROOT,
            request,
        }
    }

    fn ask(&mut self, ticket: u64, request: Request) {
        let request = self.request(request);
        self.lane.admit(&request).unwrap();
        self.lane.request(Ticket(ticket), request);
    }
}

fn create(name: &str) -> Request {
    Request::Create(op::Create {
        dir: Ino::ROOT,
        name: Name::new(name.as_bytes()).unwrap(),
        node: NewNode::File,
        mode: 0o644,
        umask: 0,
        open: false,
    })
}

fn lookup(name: &str) -> Request {
    Request::Lookup(op::Lookup {
        dir: Ino::ROOT,
        name: Name::new(name.as_bytes()).unwrap(),
    })
}

/// Tickets of those that were answered well.
fn answered(commands: &[Command<u8>]) -> Vec<u64> {
    let answered = commands.iter().filter_map(|command| match command {
        Command::Answer { ticket, result, .. } => {
            assert!(result.is_ok(), "{result:?}");
            Some(ticket.0)
        }
        _ => None,
    });
    answered.collect()
}

fn has_sync(commands: &[Command<u8>]) -> bool {
    let is_sync = |command: &Command<u8>| matches!(command, Command::Sync);
    commands.iter().any(is_sync)
}

#[test]
fn what_must_be_on_disk_is_said_after_a_sync_that_began_after_its_append() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.ask(2, Request::Sync(op::Sync));
    driver.run().unwrap();
    assert_eq!(
        answered(&driver.commands()),
        [1],
        "a create waits for nothing"
    );
    assert!(has_sync(&driver.work(NEVER)));
    // Appended while that one is under way.
    driver.ask(3, create("b"));
    driver.ask(4, Request::Sync(op::Sync));
    driver.run().unwrap();
    assert_eq!(answered(&driver.commands()), [3]);
    assert!(!has_sync(&driver.work(NEVER)), "one sync at a time");
    driver.lane.synced().unwrap();
    let commands = driver.work(NEVER);
    assert_eq!(answered(&commands), [2]);
    assert!(has_sync(&commands));
    driver.lane.synced().unwrap();
    assert_eq!(answered(&driver.commands()), [4]);
    assert_eq!(driver.lane.counters().log_syncs, 2);
    assert!(driver.lane.shards().promised(ShardId(0)) >= 2);
}

#[test]
fn changes_that_nobody_waits_for_are_synced_after_a_while() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    assert!(!has_sync(&driver.work(NEVER)));
    driver.now = Steady(0).after(Duration::from_millis(4_999));
    assert!(!has_sync(&driver.work(NEVER)));
    driver.lane.run_timers(driver.now);
    assert_eq!(
        driver.lane.next_due(),
        Steady(0).after(Duration::from_secs(5))
    );
    driver.now = driver.lane.next_due();
    assert!(has_sync(&driver.work(NEVER)));
    // Where every batch is synced, at once.
    let mut driver = Driver::new(0);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    let commands = driver.work(NEVER);
    assert!(has_sync(&commands) && answered(&commands).is_empty());
    driver.lane.synced().unwrap();
    assert_eq!(answered(&driver.commands()), [1]);
}

#[test]
fn the_store_gets_what_is_applied_when_it_is_much_and_before_a_flush() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    assert_eq!(driver.store.memory.unflushed(), 0, "it is kept");
    assert!(driver.lane.unflushed_bytes() > 0);
    assert!(driver.lane.take_appended_bytes() > 0);
    assert_eq!(driver.lane.take_appended_bytes(), 0);
    driver.commands();

    driver.lane.want_flush(3);
    let commands = driver.work(NEVER);
    let [Command::Flush { written }] = &commands[..] else {
        panic!("{commands:?}");
    };
    assert_eq!(driver.store.memory.unflushed(), 1);
    // Of what comes meanwhile the log keeps the record.
    driver.ask(2, create("b"));
    driver.run().unwrap();
    driver.lane.want_flush(4);
    assert_eq!(answered(&driver.work(NEVER)), [2], "one flush at a time");
    let (_, last) = driver.log.span(0).unwrap();
    flush(&*driver.store, &*driver.log, written).unwrap();
    driver.lane.flushed().unwrap();
    let commands = driver.work(NEVER);
    assert!(
        matches!(
            commands[..],
            [Command::FlushDone { to: 3 }, Command::Flush { .. }]
        ),
        "{commands:?}"
    );
    assert_eq!(driver.log.span(0), Some((last, last)));
    driver.lane.flushed().unwrap();
    assert_eq!(driver.lane.unflushed_bytes(), 0);

    let mut driver = Driver::with(5_000, 1, Points::default());
    let before = driver.store.memory.unflushed();
    driver.ask(1, create("a"));
    driver.run().unwrap();
    assert_eq!(driver.store.memory.unflushed(), before + 1);
}

#[test]
fn a_low_disk_has_the_store_flushed() {
    let mut driver = Driver::new(5_000);
    driver.lane.space(true);
    driver.run().unwrap();
    assert!(matches!(driver.work(NEVER)[..], [Command::Flush { .. }]));
    driver.ask(1, create("a"));
    driver.run().unwrap();
    let commands = driver.commands();
    assert!(
        matches!(commands[..], [Command::Answer { result: Err(_), .. }]),
        "{commands:?}"
    );
}

#[test]
fn a_cold_key_is_read_elsewhere_and_its_request_goes_on() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    driver.lane.write_out().unwrap();
    driver.commands();
    driver.store.is_cold.store(true, Ordering::Relaxed);
    driver.ask(2, lookup("a"));
    let mut read = 0;
    loop {
        driver.run().unwrap();
        let mut commands = driver.commands();
        let Some(Command::Warm { shard, keys, input }) = commands.pop() else {
            panic!("it is not answered, and waits for nothing");
        };
        assert!(commands.is_empty(), "{commands:?}");
        // The rest of the lane goes on meanwhile.
        assert!(!driver.lane.has_inputs());
        read += 1;
        driver.store.is_cold.store(read < 2, Ordering::Relaxed);
        driver.lane.warmed(shard, keys, input);
        if read == 2 {
            break;
        }
    }
    driver.run().unwrap();
    assert_eq!(answered(&driver.commands()), [2]);
}

#[test]
fn a_damaged_key_refuses_a_request_and_stops_everything_else() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    driver.lane.write_out().unwrap();
    driver.commands();
    driver.store.is_cold.store(true, Ordering::Relaxed);
    driver.ask(2, lookup("a"));
    driver.run().unwrap();
    let Some(Command::Warm { shard, input, .. }) = driver.commands().pop() else {
        panic!("nothing is cold");
    };
    let damage = || StoreError::Corrupt {
        what: "block 7".to_owned(),
    };
    driver.lane.unreadable(shard, &input, damage()).unwrap();
    let commands = driver.commands();
    assert!(
        matches!(
            commands[..],
            [Command::Unreadable {
                ticket: Ticket(2),
                ..
            }]
        ),
        "{commands:?}"
    );
    let other = pandofs_shard::Input::Tick;
    let stops = driver.lane.unreadable(shard, &other, damage());
    assert!(matches!(stops, Err(LaneError::Store(_))), "{stops:?}");
}

#[test]
fn requests_by_another_map_are_refused() {
    let mut driver = Driver::new(5_000);
    let request = driver.request(Request::Sync(op::Sync));
    let mut admit = |change: &dyn Fn(&mut ShardRequest)| {
        let mut request = request.clone();
        change(&mut request);
        driver.lane.admit(&request)
    };
    assert_eq!(admit(&|_| ()), Ok(()));
    let wrong = Err(Refusal::WrongServer { epoch: Epoch(1) });
    assert_eq!(admit(&|request| request.shard = ShardId(2)), wrong);
    let later = Err(Refusal::TryAgain);
    assert_eq!(admit(&|request| request.epoch = Epoch(2)), later);
    let slot = admit(&|request| request.key.slot = SlotId(MAX_SLOTS));
    assert!(matches!(slot, Err(Refusal::Malformed(_))), "{slot:?}");
    assert_eq!(driver.lane.counters().requests, 4);
}

#[test]
fn a_map_is_taken_up_when_the_store_has_all_that_was_done_by_the_last_one() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    driver.commands();
    let mut keep = |_: &ClusterMap| Ok(());
    assert!(driver.lane.take_up_map(&mut keep).unwrap().is_none());

    let before = driver.lane.map().clone();
    let next = before.with_servers(vec![server(1, 0)]).unwrap();
    let mut foreign = next.clone();
    foreign.name = "other".to_owned();
    driver.lane.offer_map(Box::new(foreign), Some(1));
    let taken = driver.lane.take_up_map(&mut keep).unwrap().unwrap();
    assert_eq!(taken.waiting, [1]);
    assert!(matches!(taken.outcome, MapOutcome::Unfit(_)), "{taken:?}");

    driver.lane.offer_map(Box::new(next.clone()), None);
    let mut keep_not = |_: &ClusterMap| Err("no space".to_owned());
    let taken = driver.lane.take_up_map(&mut keep_not).unwrap().unwrap();
    assert_eq!(taken.outcome, MapOutcome::NotKept("no space".to_owned()));
    assert_eq!(driver.lane.map().epoch, Epoch(1));

    driver.ask(2, create("b"));
    driver.run().unwrap();
    let (store, log) = (Arc::clone(&driver.store), Arc::clone(&driver.log));
    let mut kept = Vec::new();
    let mut keep = |map: &ClusterMap| {
        assert_eq!((store.memory.unflushed(), log.unsynced()), (0, 0));
        kept.push(map.epoch);
        Ok(())
    };
    driver.lane.offer_map(Box::new(next), Some(2));
    let taken = driver.lane.take_up_map(&mut keep).unwrap().unwrap();
    assert_eq!((taken.waiting, taken.outcome), (vec![2], MapOutcome::New));
    assert_eq!(kept, [Epoch(2)]);
    assert_eq!(driver.lane.map().epoch, Epoch(2));

    driver.lane.offer_map(Box::new((*before).clone()), None);
    let taken = driver.lane.take_up_map(&mut |_| Ok(())).unwrap().unwrap();
    assert_eq!(taken.outcome, MapOutcome::Known);
}

#[test]
fn messages_of_strangers_are_dropped() {
    let mut driver = Driver::new(5_000);
    let ask = |from, to| PeerMessage::SlotsAsk {
        from,
        to,
        dir: Ino::ROOT,
    };
    let mut hear = |from, to| driver.lane.hear(ServerId(1), ask(from, to)).unwrap();
    let other_map = |from, may_be_newer| Heard::OtherMap {
        from,
        to: ShardId(0),
        may_be_newer,
    };
    // Of a shard of this very server, and of one that a later map may have.
    assert_eq!(hear(ShardId(1), ShardId(0)), other_map(ShardId(1), false));
    assert_eq!(hear(ShardId(2), ShardId(0)), other_map(ShardId(2), true));
    assert!(!driver.lane.has_inputs());
}

#[test]
fn another_server_is_told_what_became_of_its_data_request() {
    let mut driver = Driver::new(5_000);
    let request = DataRequest::Remove { ino: Ino(5) };
    let (other, ticket) = (ServerId(1), 3);
    let heard = driver
        .lane
        .hear(other, PeerMessage::Data { ticket, request });
    assert_eq!(heard.unwrap(), Heard::Taken);
    let Some(Command::Data { origin, .. }) = driver.commands().pop() else {
        panic!("nothing is to be done");
    };
    driver.lane.data_done(origin, DataReply::Done);
    let commands = driver.commands();
    let [Command::Send { server, message }] = &commands[..] else {
        panic!("{commands:?}");
    };
    let reply = DataReply::Done;
    assert_eq!(*server, other);
    assert_eq!(*message, PeerMessage::DataDone { ticket, reply });
}

#[test]
fn a_client_takes_leases_from_all_shards_before_it_hears_of_recalls() {
    let mut driver = Driver::new(5_000);
    let session = SessionId(9);
    let mut wait = |to, done| {
        let now = Steady(1);
        driver.lane.await_recalls(session, now, to, done, now);
        (driver.commands(), driver.lane.inputs())
    };
    let (commands, inputs) = wait(1, Some(4));
    assert!(matches!(commands[..], [Command::BeginAnew { to: 1 }]));
    assert_eq!(inputs, 0);
    let (commands, inputs) = wait(2, None);
    let begins = |command: &Command<u8>| {
        matches!(
            command,
            Command::Recall {
                to: 2,
                number: 0,
                ..
            }
        )
    };
    assert!(commands.len() == 1 && begins(&commands[0]), "{commands:?}");
    assert_eq!(inputs, 2);
    let (commands, _) = wait(3, Some(0));
    assert!(
        commands.is_empty(),
        "there is nothing to tell: {commands:?}"
    );
    driver.lane.goodbye(session);
    assert!(driver.commands().is_empty(), "it is not known");
    driver.lane.heard(session, Steady(0));
    driver.lane.goodbye(session);
    let commands = driver.commands();
    assert!(
        matches!(commands[..], [Command::Recall { to: 3, .. }]),
        "{commands:?}"
    );
    assert_eq!(driver.lane.inputs(), 4);
}

#[test]
fn time_brings_ticks() {
    let mut driver = Driver::new(5_000);
    driver.lane.run_timers(Steady(0));
    assert_eq!(driver.lane.inputs(), 2, "one for each shard");
    driver.run().unwrap();
    let next = Steady(0).after(TICK_INTERVAL);
    assert_eq!(driver.lane.next_due(), next);
    driver.lane.run_timers(next.before(Duration::from_nanos(1)));
    assert!(!driver.lane.has_inputs());
    driver.lane.run_timers(next);
    assert_eq!(driver.lane.inputs(), 2);
}

#[test]
fn a_batch_takes_as_many_as_it_is_told() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.ask(2, create("b"));
    driver.ask(3, create("c"));
    driver
        .batch(|lane, environment| lane.run_batch(environment, 2))
        .unwrap();
    assert_eq!(answered(&driver.commands()), [1, 2]);
    driver.run().unwrap();
    assert_eq!(answered(&driver.commands()), [3]);
}

#[test]
fn each_record_passes_its_points_and_one_that_fails_stops_the_lane() {
    let noted = Noted::default();
    let (passed, fails_at) = (Arc::clone(&noted.passed), Arc::clone(&noted.fails_at));
    let mut driver = Driver::with(5_000, 64 << 10, Points(Some(Box::new(noted))));
    driver.ask(1, create("a"));
    driver.ask(2, Request::Sync(op::Sync));
    passed.lock().unwrap().clear();
    driver.run().unwrap();
    driver.work(NEVER);
    driver.lane.synced().unwrap();
    driver.work(0);
    driver.lane.flushed().unwrap();
    let expected = [
        "Appending record",
        "Appended record",
        "Applied record",
        "Syncing log",
        "Synced log",
        "Flushing store",
        "Flushed store",
    ];
    assert_eq!(*passed.lock().unwrap(), expected);

    driver.commands();
    *fails_at.lock().unwrap() = Some(Stage::Appended);
    let before = driver.log.next_index(0);
    driver.ask(3, create("b"));
    let error = driver.run().unwrap_err();
    assert!(matches!(error, LaneError::FaultPoint(_)), "{error}");
    let after = driver.log.next_index(0);
    assert_eq!(
        after,
        before.map(|index| index + 1),
        "the log has the record"
    );
    assert!(driver.commands().is_empty(), "nobody is answered");
}

#[test]
fn a_lookup_is_answered_with_what_no_store_has() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.ask(2, lookup("a"));
    driver.run().unwrap();
    driver.ask(3, lookup("a"));
    driver.run().unwrap();
    let commands = driver.commands();
    let entries = commands.iter().filter(|command| {
        matches!(
            command,
            Command::Answer {
                result: Ok(Reply::Entry { .. }),
                ..
            }
        )
    });
    assert!(entries.count() >= 2, "{commands:?}");
    assert_eq!(driver.store.memory.unflushed(), 0);
}

#[test]
fn an_answer_says_what_it_has_waited_for_and_hot_directories_are_known() {
    let mut driver = Driver::new(0);
    driver.now = Steady(0).after(Duration::from_secs(1));
    driver.ask(1, create("a"));
    driver.run().unwrap();
    assert!(has_sync(&driver.work(NEVER)));
    let delays = driver.lane.delays(Ticket(1)).unwrap();
    assert_eq!(delays.waits_for(), Some(Cause::Log));
    driver.lane.synced().unwrap();
    let commands = driver.commands();
    let [
        Command::Answer {
            ticket: Ticket(1),
            delays: Some(delays),
            ..
        },
    ] = &commands[..]
    else {
        panic!("{commands:?}");
    };
    let later = driver.now.after(Duration::from_millis(5));
    let waited = [(Cause::Log, Duration::from_millis(5))];
    assert_eq!(delays.parts(later), waited);
    assert_eq!(driver.lane.delays(Ticket(1)), None, "it is answered");
    // A read waits for nothing.
    for ticket in 2..10 {
        driver.ask(ticket, lookup("a"));
    }
    driver.run().unwrap();
    let waited = |command: &Command<u8>| {
        matches!(
            command,
            Command::Answer {
                delays: Some(_),
                ..
            }
        )
    };
    let commands = driver.commands();
    assert!(commands.len() == 8 && !commands.iter().any(waited));
    let hot = driver.lane.hottest(driver.now);
    assert_eq!((hot.len(), hot[0].dir), (1, Ino::ROOT));
}

/// Numbers of inodes that are left out at a start: were the record lost, the next start would give some out again.
#[test]
fn what_a_start_decides_is_on_disk_before_anything_is_asked() {
    let driver = Driver::new(5_000);
    assert!(driver.log.next_index(0).is_some_and(|next| next > 1));
    assert_eq!(driver.log.unsynced(), 0);
}

/// The system may have it only in memory, and whoever starts by it says things that come of it.
#[test]
fn what_was_only_written_is_synced_before_a_start_goes_by_it() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    assert!(driver.log.unsynced() > 0);
    let mut environment = Environment {
        now: Time(1),
        steady: Steady(0),
        held: 0,
        random: &mut || 7,
    };
    let configs = configs(&map(5_000), ID, SESSION_TIMEOUT);
    let (store, log) = (&*driver.store, &*driver.log);
    let (_, replayed) = recover(configs, &mut environment, store, log).unwrap();
    assert!(replayed.records > 0);
    assert_eq!(driver.log.unsynced(), 0);
}

/// It is not given before it is on disk that the session may have some: see `file_locks` of the shard.
#[test]
fn the_first_lock_of_a_session_waits_for_a_sync() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    let made = driver
        .commands()
        .into_iter()
        .find_map(|command| match command {
            Command::Answer {
                result: Ok(Reply::Entry(entry)),
                ..
            } => Some(entry.ino),
            _ => None,
        });
    let lock = FileLock {
        kind: LockKind::Record,
        owner: 1,
        pid: 1,
        mode: LockMode::Exclusive,
        range: LockRange::WHOLE,
    };
    driver.ask(
        2,
        Request::SetLock(op::SetLock {
            ino: made.unwrap(),
            lock,
            blocking: false,
            wait_ms: 1_000,
        }),
    );
    driver.run().unwrap();
    assert!(answered(&driver.commands()).is_empty());
    assert!(has_sync(&driver.work(NEVER)));
    driver.run().unwrap();
    assert!(answered(&driver.commands()).is_empty());
    driver.lane.synced().unwrap();
    driver.run().unwrap();
    assert_eq!(answered(&driver.commands()), [2]);
}
