//! PandoFS's client library: the file system's operations as blocking calls.
//!
//! ```
//! # mod cluster { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/cluster/mod.rs")); }
//! # let cluster = cluster::Cluster::start()?;
//! # let cluster_file = cluster.file();
//! use pandofs_client::{Client, Credentials, Options};
//!
//! let client = Client::open(&cluster_file, Options::default())?;
//! let me = Credentials::user(1000, 1000, vec![]);
//! let root = client.resolve(&me, b"/")?;
//! for entry in client.list(&me, root.ino) {
//!     println!("{}", entry?.name);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`guide`] has the rest in a page: connect, create, walk, batches, lock, striping, and what errors
//! mean. The rest of this page says how it works.
//!
//! It drives the step machines of [`pandofs_session`] with sockets, threads and clocks.
//! A [`Client`] finds the shard of each request from what it remembers of directories and inodes,
//! is put right by the shards where that is stale, and repeats unanswered requests so that each is
//! executed exactly once. Threads share one client: each call takes a connection from the pool,
//! writes its request, reads the answer, and puts the connection back.
//!
//! Invariant: no answer depends on the client's caches being current, but for entries and
//! attributes that servers have leased: those they recall before they change.
//!
//! | file | job |
//! | --- | --- |
//! | `pool`, `cluster`, `first_contact` | connections, servers, the cluster map in force |
//! | `call`, `slots`, `route`, `react` | one request: its key, its way, reactions to refusals |
//! | `cache_limits`, `limits` | limits of the caches and of the library |
//! | `maps`, `file`, `write_behind`, `opens`, `held`, `accesses` | directories' maps, files' data, writes under way, open files, reads |
//! | `lease_cache`, `recalls`, `boottime` | leased entries and attributes, their recalls and clock |
//! | `unsynced`, `sync` | acknowledged changes that may not be on disk, and syncing them |
//! | `core`, `background`, `threads`, `stay` | the session at its servers, and open files if one of them lets go of it |
//! | `cancellation` | the caller of a thread's calls, and its end |
//! | `trace`, `spans`, `levels` | events of every operation; spans of every request; what there is and is waited for |
//! | `many` | batches |
//! | `names`, `inodes`, `dirs`, `data`, `damage`, `append`, `space`, `stripes`, `layout`, `xattrs`, `locks`, `lock_turns`, `admin`, `path` | the operations |

mod accesses;
mod admin;
mod append;
mod background;
pub mod boottime;
mod brought;
mod by_path;
mod cache_limits;
mod call;
mod cancellation;
mod cluster;
mod core;
mod damage;
mod data;
mod dirs;
mod error;
mod file;
mod first_bytes;
mod first_contact;
mod grants;
mod held;
mod inodes;
mod layout;
mod lease_cache;
mod levels;
mod limits;
mod lock_turns;
mod locks;
mod many;
mod maps;
mod names;
mod opens;
mod path;
mod pool;
mod react;
mod recalls;
mod route;
mod slots;
mod space;
pub mod spans;
mod stay;
mod stripes;
mod sync;
mod threads;
pub mod trace;
mod unsynced;
mod waited;
mod write_behind;
mod xattrs;

#[doc = include_str!("guide.md")]
pub mod guide {}

pub use crate::admin::Space;
pub use crate::cache_limits::CacheLimits;
pub use crate::cancellation::{Caller, Cancellation, set_cancellation};
pub use crate::dirs::{DirInfo, Entry, Listing, Page};
pub use crate::error::{ClientError, Result};
pub use crate::layout::{LAYOUT_XATTR, LayoutOf, chosen, layout_text, parse_layout, parse_unit};
pub use crate::levels::Levels;
pub use crate::locks::{Holder, LockWait, Tried};
pub use crate::many::{FileToRead, NewFile};
pub use crate::names::{Found, OpenHow, RenameHow};
pub use crate::recalls::Recall;
pub use crate::space::Seek;
pub use crate::waited::waited_for_servers;
pub use pandofs_api::{Allocation, DirSettings, Layout, LayoutChoice, NewNode, XattrMode};
pub use pandofs_types::{
    Attr, Capabilities, Credentials, FileKind, FileLock, FsError, Ino, LockKind, LockMode,
    LockRange, Name, NewMode, Position, SetAttr, SetTime, Time,
};
pub use pandofs_wire::address::place_sockets;

use crate::cluster::Source;
use crate::core::Core;
use pandofs_placement::ClusterMap;
use pandofs_types::limits::CONNECT_TIMEOUT;
use pandofs_wire::address::Address;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Options of a client.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Time limit for a server that does not answer, after which a call fails with
    /// [`ClientError::Unavailable`] or [`ClientError::Unknown`]. `None`: for ever.
    pub soft: Option<Duration>,
    /// Limits of its caches.
    pub cache_limits: CacheLimits,
}

/// Counts of a client's work so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests sent, repetitions included.
    pub requests: u64,
    /// Of these, sent to a shard that did not hold what was asked for (any more).
    pub redirects: u64,
    /// Of these, answered with "try again".
    pub busy: u64,
    /// Of these, lost without an answer and sent again.
    pub resent: u64,
    /// Connections made.
    pub connections: u64,
    /// Questions answered from the lease cache.
    pub cache_hits: u64,
    /// Requests answered under grants.
    pub early: u64,
    /// Leases that were recalled.
    pub recalled: u64,
}

/// A name's or number's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The inode's number.
    pub ino: Ino,
    /// Fixed for the inode.
    pub kind: FileKind,
    /// As its shards had them when they were asked.
    pub attr: Attr,
}

impl From<Attr> for Node {
    fn from(attr: Attr) -> Node {
        Node {
            ino: attr.ino,
            kind: attr.kind,
            attr,
        }
    }
}

/// A session with a file system. Clones share it; it ends when the last one is dropped, which waits
/// until what was written is reported unless the client was [closed](Client::close).
#[derive(Clone, Debug)]
pub struct Client {
    session: Arc<Session>,
}

#[derive(Debug)]
struct Session {
    core: Arc<Core>,
    background: Option<JoinHandle<()>>,
    tracer: OnceLock<Arc<dyn trace::Tracer>>,
}

impl Client {
    /// A client of the file system with this map. Servers are connected to when they are first
    /// needed.
    ///
    /// # Errors
    /// `Protocol` when the map is not valid or a server has no usable address.
    pub fn connect(map: ClusterMap, options: Options) -> Result<Client> {
        Client::start(Core::new(map, Source::Nowhere, &options)?)
    }

    /// A client of the file system whose cluster map is in this file. The file is read again when
    /// servers go by a newer map.
    ///
    /// # Errors
    /// `Protocol` when the file cannot be read or holds no valid map.
    pub fn open(cluster_file: &Path, options: Options) -> Result<Client> {
        let map = cluster::read_map(cluster_file)?;
        let source = Source::File(cluster_file.to_owned());
        Client::start(Core::new(map, source, &options)?)
    }

    /// A client of the file system to which the first of these servers belongs that answers:
    /// addresses as in a cluster map (`tcp:HOST:PORT` or `unix:/PATH`). It asks servers for newer
    /// maps.
    ///
    /// # Errors
    /// `Protocol` when an address is none, and when no server answers.
    pub fn connect_to(addresses: &[&str], options: Options) -> Result<Client> {
        let parsed = addresses.iter().map(|text| text.parse::<Address>());
        let addresses = parsed
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let patience = options.soft.unwrap_or(CONNECT_TIMEOUT).min(CONNECT_TIMEOUT);
        let patience = patience.max(Duration::from_millis(1));
        let map = first_contact::map_of_any(&addresses, patience)?;
        Client::start(Core::new(map, Source::Servers, &options)?)
    }

    fn start(core: Core) -> Result<Client> {
        let core = Arc::new(core);
        let background = threads::start("pandofs-client".to_owned(), {
            let core = Arc::clone(&core);
            move || background::run(&core)
        })?;
        Ok(Client {
            session: Arc::new(Session {
                core,
                background: Some(background),
                tracer: OnceLock::new(),
            }),
        })
    }

    /// Stops waiting for servers that do not answer: calls that are in such a wait fail soon, later
    /// ones at the first attempt. For the end of a mount, before the last clone is dropped.
    pub fn close(&self) {
        self.core().closed.store(true, Ordering::Relaxed);
    }

    /// The cluster map in force.
    pub fn cluster_map(&self) -> Arc<ClusterMap> {
        Arc::clone(&self.core().clusters.current().map)
    }

    /// Counts of this client's work so far.
    pub fn counters(&self) -> Counters {
        let core = self.core();
        Counters {
            cache_hits: core.lease_cache.answered(),
            early: core.grants.executed(),
            recalled: core.lease_cache.recalled(),
            ..core.counts.read()
        }
    }

    fn core(&self) -> &Core {
        &self.session.core
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.core.opens.stop();
        if let Some(background) = self.background.take()
            && background.join().is_err()
        {
            tracing::error!("the client's background thread panicked");
        }
        self.core.report_all();
        self.core.tell_accesses(Some(Duration::ZERO));
        self.core.settle_all();
        self.core.grants.stop();
        background::say_goodbye(&self.core);
    }
}
