//! A client, a cluster of one or more servers in memory, and waiting.

pub(crate) mod held_log;
pub(crate) mod link;

use pandofs_api::{
    AdminReply, AdminRequest, DataReply, DataRequest, Refusal, Reply, Request, ServerStatus,
    ShardRequest, op,
};
use pandofs_api::{NewNode, RequestKey};
use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_server::{Server, ServerHandle};
use pandofs_storage::log::{Log, MemoryLog};
use pandofs_storage::store::{MemoryStore, Store};
use pandofs_types::limits::MAX_SLOTS;
use pandofs_types::{
    Credentials, Epoch, FsId, HashKey, Ino, Name, ServerId, SessionId, ShardId, SlotId,
};
use pandofs_wire::address::{Address, Stream, connect};
use pandofs_wire::buffer::{Progress, ReadBuffer, WriteBuffer};
use pandofs_wire::hello::{Hello, HelloAnswer, HelloRefusal, Peer};
use pandofs_wire::message::{AnswerBody, AnswerFrame, RequestBody, RequestFrame};
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest that a test waits for what has to happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
pub(crate) const FS: FsId = FsId(0x1234);
pub(crate) const ID: ServerId = ServerId(0);
pub(crate) const SHARDS: u16 = 8;

/// The socket on which server `id` listens.
pub(crate) fn socket(dir: &Path, id: u16) -> PathBuf {
    dir.join(format!("server-{id}.sock"))
}

/// A map of `servers` servers with sockets in `dir` and [`SHARDS`] shards. Directories are placed at
/// random, so that a few of them touch every server.
pub(crate) fn map(dir: &Path, servers: u16, flush_interval_ms: u64) -> ClusterMap {
    let info = |id| ServerInfo {
        id: ServerId(id),
        addresses: vec![format!("unix:{}", socket(dir, id).display())],
        weight: ServerInfo::WEIGHT_ONE,
        domain: format!("host-{id}"),
    };
    let settings = Settings {
        flush_interval_ms,
        ..Settings::default()
    };
    let name = "test".to_owned();
    let servers = (0..servers).map(info).collect();
    ClusterMap::create(
        FS,
        name,
        HashKey(1, 2),
        SHARDS,
        servers,
        DirPolicy::Random,
        settings,
    )
    .unwrap()
}

/// One server in memory, whose store and log outlive it.
pub(crate) struct Memory {
    pub dir: Arc<TempDir>,
    pub map: ClusterMap,
    pub id: ServerId,
    pub store: Arc<MemoryStore>,
    pub log: Arc<MemoryLog>,
}

impl Memory {
    /// The only server of its file system. Its log is synced when a request waits for that.
    pub(crate) fn new() -> Memory {
        Memory::with_map(|dir| map(dir, 1, 3_600_000))
    }

    pub(crate) fn with_map(make: impl FnOnce(&Path) -> ClusterMap) -> Memory {
        let dir = Arc::new(TempDir::new().unwrap());
        let map = make(dir.path());
        Memory::server(dir, map, ID)
    }

    /// All servers of one file system.
    pub(crate) fn cluster(servers: u16) -> Vec<Memory> {
        let dir = Arc::new(TempDir::new().unwrap());
        let map = map(dir.path(), servers, 5_000);
        let server = |id| Memory::server(Arc::clone(&dir), map.clone(), ServerId(id));
        (0..servers).map(server).collect()
    }

    fn server(dir: Arc<TempDir>, map: ClusterMap, id: ServerId) -> Memory {
        let store = Arc::new(MemoryStore::new());
        Server::format_store(&map, id, &*store).unwrap();
        let log = Arc::new(MemoryLog::new());
        let memory = Memory {
            dir,
            map,
            id,
            store,
            log,
        };
        std::fs::create_dir(memory.data()).unwrap();
        memory
    }

    /// The folder of its data objects.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join(format!("data-{}", self.id))
    }

    pub(crate) fn start(&self) -> ServerHandle {
        self.start_on(self.store.clone(), self.log.clone())
    }

    pub(crate) fn start_on(&self, store: Arc<dyn Store>, log: Arc<dyn Log>) -> ServerHandle {
        Server::start_on(self.map.clone(), self.id, store, log, &self.data()).unwrap()
    }

    /// Leaves what a kill of the process leaves: all that was written to the log, and of the store
    /// only what was flushed.
    pub(crate) fn crash(&mut self) {
        self.store = Arc::new(self.store.crash(0));
        self.log = Arc::new(self.log.crash(usize::MAX, false));
    }
}

/// Waits until `condition` gives something.
pub(crate) fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        std::thread::yield_now();
    }
}

/// One connection, spoken by hand.
pub(crate) struct Connection {
    pub stream: Stream,
    pub received: ReadBuffer,
    next_id: u64,
    pub session: SessionId,
    sequence: u64,
}

impl Connection {
    /// Connects and says nothing.
    pub(crate) fn silent(address: &Address) -> Connection {
        Connection::over(connect(address, DEADLINE).unwrap())
    }

    pub(crate) fn over(stream: Stream) -> Connection {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Connection {
            received: ReadBuffer::of(&stream),
            stream,
            next_id: 1,
            session: SessionId(0),
            sequence: 0,
        }
    }

    /// Connects as `peer`, which is to be welcomed.
    pub(crate) fn welcomed(address: &Address, peer: Peer) -> Connection {
        let mut connection = Connection::silent(address);
        let answer = connection.hello(&Hello { fs: FS, peer }).unwrap();
        assert!(
            matches!(
                answer,
                HelloAnswer::Welcome {
                    epoch: Epoch(1),
                    ..
                }
            ),
            "{answer:?}"
        );
        if let Peer::Client { session, .. } = peer {
            connection.session = session;
        }
        connection
    }

    pub(crate) fn client(address: &Address, session: u64) -> Connection {
        Connection::of_generation(address, session, 1)
    }

    /// A further connection of a client.
    pub(crate) fn of_generation(address: &Address, session: u64, generation: u64) -> Connection {
        Connection::welcomed(
            address,
            Peer::Client {
                session: SessionId(session),
                generation,
            },
        )
    }

    pub(crate) fn admin(address: &Address) -> Connection {
        Connection::welcomed(address, Peer::Admin)
    }

    pub(crate) fn hello(&mut self, hello: &impl Serialize) -> Result<HelloAnswer, HelloRefusal> {
        self.write_frame(hello);
        HelloAnswer::decode(&self.next_body().expect("an answer"))
    }

    pub(crate) fn write_frame(&mut self, value: &impl Serialize) {
        let mut unsent = WriteBuffer::new();
        unsent.push(value).unwrap();
        assert_eq!(unsent.write_to(&mut self.stream).unwrap(), Progress::Done);
    }

    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The body of the next frame, or `None` when the server has closed the connection.
    pub(crate) fn next_body(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(body) = self.received.next_frame().unwrap() {
                return Some(body.to_vec());
            }
            match self.received.fill_from(&mut self.stream) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// All that the server answers to what was sent before this, but what has to wait.
    ///
    /// A lane takes what comes over one connection in order, and answers a ping when it reads it. So once one is
    /// answered, the round has ended in which the lane took all that was sent before the ping, and what that round or
    /// an earlier one answered comes before the answer to a second ping. No clock has a part in that.
    pub(crate) fn answers_so_far(&mut self) -> Vec<AnswerFrame> {
        let mut answers = Vec::new();
        for _ in 0..2 {
            let ping = self.send(RequestBody::Ping);
            loop {
                let frame = self.answer();
                if frame.id == ping {
                    break;
                }
                answers.push(frame);
            }
        }
        answers
    }

    /// Sends a request; gives its number.
    pub(crate) fn send(&mut self, body: RequestBody) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.write_frame(&RequestFrame { id, body });
        id
    }

    pub(crate) fn answer(&mut self) -> AnswerFrame {
        loop {
            if let Some(frame) = self.received.next_message().unwrap() {
                return frame;
            }
            let count = self.received.fill_from_stream(&mut self.stream).unwrap();
            assert!(count > 0, "an answer");
        }
    }

    /// Sends a request and waits for its answer, the only one.
    pub(crate) fn ask(&mut self, body: RequestBody) -> AnswerBody {
        let id = self.send(body);
        let answer = self.answer();
        assert_eq!(answer.id, id);
        answer.body
    }

    pub(crate) fn shard_request(&mut self, shard: ShardId, request: Request) -> RequestBody {
        self.sequence += 1;
        let slot = SlotId((self.sequence % u64::from(MAX_SLOTS)) as u16);
        let key = RequestKey {
            session: self.session,
            slot,
            sequence: self.sequence,
        };
        let caller = Credentials::ROOT;
        RequestBody::Shard(ShardRequest {
            shard,
            epoch: Epoch(1),
            key,
            caller,
            request,
        })
    }

    pub(crate) fn shard(&mut self, shard: ShardId, request: Request) -> Result<Reply, Refusal> {
        let request = self.shard_request(shard, request);
        match self.ask(request) {
            AnswerBody::Shard(result) => result,
            other => panic!("{other:?}"),
        }
    }

    /// Makes a file in the root directory.
    pub(crate) fn create(&mut self, name: &str) -> Result<Reply, Refusal> {
        self.shard(ShardId(0), create(name))
    }

    pub(crate) fn lookup(&mut self, name: &str) -> Result<Reply, Refusal> {
        let name = Name::new(name.as_bytes()).unwrap();
        self.shard(
            ShardId(0),
            Request::Lookup(op::Lookup {
                dir: Ino::ROOT,
                name,
            }),
        )
    }

    pub(crate) fn data(&mut self, request: DataRequest) -> DataReply {
        match self.ask(RequestBody::Data(request)) {
            AnswerBody::Data(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn administer(&mut self, request: AdminRequest) -> AdminReply {
        match self.ask(RequestBody::Admin(request)) {
            AnswerBody::Admin(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn status(&mut self) -> ServerStatus {
        match self.administer(AdminRequest::Status) {
            AdminReply::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn mkdir(name: &str) -> Request {
    let name = Name::new(name.as_bytes()).unwrap();
    Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name,
        mode: 0o755,
        umask: 0,
    })
}

pub(crate) fn create(name: &str) -> Request {
    let name = Name::new(name.as_bytes()).unwrap();
    Request::Create(op::Create {
        dir: Ino::ROOT,
        name,
        node: NewNode::File,
        mode: 0o644,
        umask: 0,
        open: false,
    })
}
