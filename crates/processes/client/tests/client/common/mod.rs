//! Servers that speak the real protocol and answer as a test says.

use pandofs_api::{DataReply, DirReply, DirSettings, EntryReply, FileBody, InodeReply, Layout};
use pandofs_api::{Refusal, Reply, ShardRequest};
use pandofs_client::{Client, Options};
use pandofs_placement::{ClusterMap, DirMap, DirPolicy, ServerInfo, Settings};
use pandofs_types::{
    Attr, Credentials, Epoch, FileKind, FsId, HashKey, Ino, Name, Position, ServerId, ShardId, Time,
};
use pandofs_wire::address::{Address, Listener, Stream};
use pandofs_wire::buffer::{ReadBuffer, WriteBuffer};
use pandofs_wire::hello::{Hello, HelloAnswer, Machine, Peer};
use pandofs_wire::message::{AnswerBody, AnswerFrame, RequestBody, RequestFrame};
use std::net::Shutdown;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) const ME: Credentials = Credentials::user(1_000, 1_000, Vec::new());
pub(crate) const KEY: HashKey = HashKey(1, 2);

/// The reaction of a server to a request.
pub(crate) enum Reaction {
    Answer(AnswerBody),
    /// Closes the connection without an answer.
    HangUp,
    /// Takes it and never answers, as a server that stands still.
    Silence,
}

pub(crate) type Script = dyn Fn(&RequestBody) -> Reaction + Send + Sync;

pub(crate) struct Fake {
    address: Address,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    id: ServerId,
    fs: FsId,
    boot: AtomicU64,
    machine: AtomicU64,
    known_since: AtomicU64,
    stopped: AtomicBool,
    script: Box<Script>,
    seen: Mutex<Vec<RequestBody>>,
    greeted: Mutex<Vec<Peer>>,
    streams: Mutex<Vec<Stream>>,
}

impl Fake {
    /// A server that answers by the script; at the address that the map has for it.
    pub(crate) fn start(
        map: &ClusterMap,
        id: u16,
        script: impl Fn(&RequestBody) -> Reaction + Send + Sync + 'static,
    ) -> Fake {
        Fake::start_boxed(map, id, Box::new(script))
    }

    fn start_boxed(map: &ClusterMap, id: u16, script: Box<Script>) -> Fake {
        let info = map.server(ServerId(id)).unwrap();
        let address: Address = info.addresses[0].parse().unwrap();
        let listener = Listener::bind(&address).unwrap();
        let shared = Arc::new(Shared {
            id: ServerId(id),
            fs: map.fs,
            boot: AtomicU64::new(1),
            machine: AtomicU64::new(1),
            known_since: AtomicU64::new(1),
            stopped: AtomicBool::new(false),
            script,
            seen: Mutex::new(Vec::new()),
            greeted: Mutex::new(Vec::new()),
            streams: Mutex::new(Vec::new()),
        });
        let accepting = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Fake {
            address,
            shared,
            accepting: Some(accepting),
        }
    }

    /// As if its process was killed and started again: connections are lost.
    pub(crate) fn restart(&self) {
        self.shared.boot.fetch_add(1, Ordering::SeqCst);
        self.hang_up();
    }

    /// As if its machine had lost power and was started again; what the script remembers is the
    /// test's to change.
    pub(crate) fn restart_machine(&self) {
        self.shared.machine.fetch_add(1, Ordering::SeqCst);
        self.restart();
    }

    /// As if it had heard nothing of the session for too long: it lets go of it and closes its
    /// connections.
    pub(crate) fn expire(&self) {
        self.shared.known_since.fetch_add(1, Ordering::SeqCst);
        self.hang_up();
    }

    /// Closes all connections.
    pub(crate) fn hang_up(&self) {
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<RequestBody> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// The sessions that have connected so far, in their order.
    pub(crate) fn greeted(&self) -> Vec<Peer> {
        self.shared.greeted.lock().unwrap().clone()
    }

    /// The requests to shards so far.
    pub(crate) fn asked(&self) -> Vec<ShardRequest> {
        let shard_request = |body| match body {
            RequestBody::Shard(request) => Some(request),
            _ => None,
        };
        self.seen().into_iter().filter_map(shard_request).collect()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = pandofs_wire::address::connect(&self.address, Duration::from_secs(1));
        self.accepting.take().unwrap().join().unwrap();
        self.hang_up();
    }
}

fn accept(listener: &Listener, shared: &Arc<Shared>) {
    loop {
        let stream = listener.accept().unwrap();
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        shared
            .streams
            .lock()
            .unwrap()
            .push(stream.try_clone().unwrap());
        let shared = Arc::clone(shared);
        std::thread::spawn(move || serve(stream, &shared));
    }
}

/// Until the client closes the connection, or the script does.
fn serve(mut stream: Stream, shared: &Shared) {
    let mut incoming = ReadBuffer::of(&stream);
    let mut greeted = false;
    loop {
        if !greeted && let Some(body) = incoming.next_frame().unwrap() {
            let answer = greet(body, shared);
            send(&mut stream, &answer);
            greeted = true;
        }
        while greeted && let Some(request) = incoming.next_message::<RequestFrame>().unwrap() {
            shared.seen.lock().unwrap().push(request.body.clone());
            match (shared.script)(&request.body) {
                Reaction::Answer(body) => send(
                    &mut stream,
                    &AnswerFrame {
                        id: request.id,
                        body,
                    },
                ),
                Reaction::HangUp => {
                    let _ = stream.shutdown(Shutdown::Both);
                    return;
                }
                Reaction::Silence => {}
            }
        }
        if !matches!(incoming.fill_from_stream(&mut stream), Ok(1..)) {
            return;
        }
    }
}

fn greet(body: &[u8], shared: &Shared) -> HelloAnswer {
    match Hello::decode(body, shared.fs) {
        Ok(hello) => {
            shared.greeted.lock().unwrap().push(hello.peer);
            HelloAnswer::Welcome {
                server: shared.id,
                boot: shared.boot.load(Ordering::SeqCst),
                epoch: Epoch(1),
                machine: Machine(shared.machine.load(Ordering::SeqCst)),
                known_since: shared.known_since.load(Ordering::SeqCst),
            }
        }
        Err(refusal) => HelloAnswer::Refused(refusal),
    }
}

fn send(stream: &mut Stream, value: &impl serde::Serialize) {
    let mut outgoing = WriteBuffer::new();
    outgoing.push(value).unwrap();
    // The client may have gone.
    let _ = outgoing.write_to(stream);
}

/// A map of this many servers with sockets in the folder; shard `s` is led by server `s % servers`.
pub(crate) fn map(folder: &Path, servers: u16, shards: u16) -> ClusterMap {
    let server = |id: u16| ServerInfo {
        id: ServerId(id),
        addresses: vec![format!("unix:{}/{id}", folder.display())],
        weight: ServerInfo::WEIGHT_ONE,
        domain: format!("rack {id}"),
    };
    let mut map = ClusterMap::create(
        FsId(7),
        "grove".to_owned(),
        KEY,
        shards,
        (0..servers).map(server).collect(),
        DirPolicy::default(),
        Settings::default(),
    )
    .unwrap();
    map.shards = (0..shards).map(|shard| ServerId(shard % servers)).collect();
    map
}

pub(crate) fn client(map: &ClusterMap) -> Client {
    Client::connect(map.clone(), Options::default()).unwrap()
}

/// A client that gives up after this time.
pub(crate) fn soft_client(map: &ClusterMap, soft: Duration) -> Client {
    let options = Options {
        soft: Some(soft),
        ..Options::default()
    };
    Client::connect(map.clone(), options).unwrap()
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// A name whose first radix bit is `bit`: it belongs to partition `bit` of two.
pub(crate) fn name_in(bit: u32) -> Name {
    let names = (0..).map(|number| name(&format!("name {number}")));
    names
        .into_iter()
        .find(|name| position(name).radix_index(1) == bit)
        .unwrap()
}

pub(crate) fn position(name: &Name) -> Position {
    KEY.position(name.as_bytes())
}

pub(crate) fn attr(ino: Ino, kind: FileKind) -> Attr {
    Attr {
        ino,
        kind,
        mode: 0o644,
        nlink: 1,
        uid: 1_000,
        gid: 1_000,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: Time(1),
        mtime: Time(1),
        ctime: Time(1),
        btime: Time(1),
        has_xattrs: false,
    }
}

pub(crate) fn layout(servers: u16) -> Layout {
    Layout {
        unit: 4_096,
        count: servers,
        first: ServerId(0),
        servers,
    }
}

/// An empty file kept inline.
pub(crate) fn file(ino: Ino) -> InodeReply {
    let body = FileBody::Inline {
        data: Vec::new(),
        layout: layout(1),
    };
    InodeReply {
        attr: attr(ino, FileKind::File),
        body,
        dir: None,
        truncations: 0,
    }
}

pub(crate) fn dir(ino: Ino, map: DirMap) -> InodeReply {
    let settings = DirSettings::default();
    let attr = Attr {
        nlink: 2,
        ..attr(ino, FileKind::Dir)
    };
    let dir = Some(Box::new(DirReply {
        map,
        parent: Ino::ROOT,
        settings,
    }));
    InodeReply {
        attr,
        body: FileBody::None,
        dir,
        truncations: 0,
    }
}

/// The entry of a name whose inode is on the answering shard.
pub(crate) fn entry(inode: InodeReply, shard: ShardId) -> Reply {
    let (ino, kind) = (inode.attr.ino, inode.attr.kind);
    Reply::Entry(EntryReply {
        ino,
        kind,
        shard,
        inode: Some(inode),
    })
}

pub(crate) fn ok(reply: Reply) -> Reaction {
    Reaction::Answer(AnswerBody::Shard(Ok(reply)))
}

pub(crate) fn refuse(refusal: impl Into<Refusal>) -> Reaction {
    Reaction::Answer(AnswerBody::Shard(Err(refusal.into())))
}

pub(crate) fn data(reply: DataReply) -> Reaction {
    Reaction::Answer(AnswerBody::Data(reply))
}

/// A request that a test does not expect shows as the client's error.
pub(crate) fn unexpected(request: &RequestBody) -> Reaction {
    match request {
        RequestBody::Ping | RequestBody::Goodbye { .. } => Reaction::Answer(AnswerBody::Done),
        other => refuse(Refusal::Malformed(format!(
            "the test did not expect {other:?}"
        ))),
    }
}

/// Waits until the condition holds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        std::thread::yield_now();
    }
}
