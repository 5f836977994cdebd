//! Driver of a lane over a log and a store in memory: the test does what the lane wants done.

use pandofs_api::{NewNode, Request, RequestKey, ShardRequest, op};
use pandofs_lane::{
    Command, FaultError, FaultPoints, Lane, LaneError, LaneParts, Points, Shards, Stage, Subject,
    configs, recover,
};
use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_shard::{Environment, Shard, Ticket};
use pandofs_storage::log::{Log, MemoryLog};
use pandofs_storage::store::{
    Batch, Cached, KvRead, MemoryStore, Overlay, Store, StoreError, Visit,
};
use pandofs_types::limits::SESSION_TIMEOUT;
use pandofs_types::{
    Credentials, Epoch, FsId, HashKey, Ino, Name, ServerId, SessionId, ShardId, SlotId, Steady,
    Time,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) const ID: ServerId = ServerId(0);
pub(crate) const NEVER: u64 = u64::MAX;

pub(crate) fn server(id: u16, weight: u32) -> ServerInfo {
    ServerInfo {
        id: ServerId(id),
        addresses: vec![format!("unix:/run/{id}")],
        weight,
        domain: format!("rack {id}"),
    }
}

pub(crate) fn map(flush_interval_ms: u64) -> Arc<ClusterMap> {
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
pub(crate) struct ColdStore {
    pub memory: MemoryStore,
    pub is_cold: AtomicBool,
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
pub(crate) struct Noted {
    pub passed: Arc<Mutex<Vec<String>>>,
    pub fails_at: Arc<Mutex<Option<Stage>>>,
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

pub(crate) struct Driver {
    pub lane: Lane<u8>,
    pub store: Arc<ColdStore>,
    pub log: Arc<MemoryLog>,
    pub now: Steady,
    drawn: u64,
    sequence: u64,
}

impl Driver {
    pub(crate) fn new(flush_interval_ms: u64) -> Driver {
        Driver::with(flush_interval_ms, 64 << 10, Points::default())
    }

    pub(crate) fn with(flush_interval_ms: u64, unwritten_bytes: usize, points: Points) -> Driver {
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

    pub(crate) fn batch(
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

    pub(crate) fn run(&mut self) -> Result<(), LaneError> {
        self.batch(|lane, environment| lane.run_batch(environment, usize::MAX))
    }

    pub(crate) fn commands(&mut self) -> Vec<Command<u8>> {
        let mut commands = Vec::new();
        self.lane.take_commands(&mut commands);
        commands
    }

    pub(crate) fn work(&mut self, flush_after: u64) -> Vec<Command<u8>> {
        self.lane.begin_work(self.now, flush_after).unwrap();
        self.commands()
    }

    pub(crate) fn request(&mut self, request: Request) -> ShardRequest {
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

    pub(crate) fn ask(&mut self, ticket: u64, request: Request) {
        let request = self.request(request);
        self.lane.admit(&request).unwrap();
        self.lane.request(Ticket(ticket), request);
    }
}

pub(crate) fn create(name: &str) -> Request {
    Request::Create(op::Create {
        dir: Ino::ROOT,
        name: Name::new(name.as_bytes()).unwrap(),
        node: NewNode::File,
        mode: 0o644,
        umask: 0,
        open: false,
    })
}

pub(crate) fn lookup(name: &str) -> Request {
    Request::Lookup(op::Lookup {
        dir: Ino::ROOT,
        name: Name::new(name.as_bytes()).unwrap(),
    })
}

/// Tickets of those that were answered well.
pub(crate) fn answered(commands: &[Command<u8>]) -> Vec<u64> {
    let answered = commands.iter().filter_map(|command| match command {
        Command::Answer { ticket, result, .. } => {
            assert!(result.is_ok(), "{result:?}");
            Some(ticket.0)
        }
        _ => None,
    });
    answered.collect()
}

pub(crate) fn has_sync(commands: &[Command<u8>]) -> bool {
    let is_sync = |command: &Command<u8>| matches!(command, Command::Sync);
    commands.iter().any(is_sync)
}
