//! Making, starting and stopping a server.

use crate::clock::Clock;
use crate::data::Holdings;
use crate::descriptors::Descriptors;
use crate::directory::{ServerDirectory, keep_map};
use crate::disk::{Disk, Disks, Room, log_file_bytes};
use crate::error::{ServerError, StartError};
use crate::faults::{self, Faults};
use crate::lane::{LaneThread, MapSource, ThreadParts, WAKER};
use crate::mailbox::{Mail, Mailbox};
use crate::memory::Memory;
use crate::observer::Observer;
use crate::scrub::Schedule;
use crate::store;
use crate::times::Times;
use crate::unlogged::{UNLOGGED_VARIABLE, Unlogged};
use pandofs_lane::{FaultPoints, Points, Shards};
use pandofs_log_raft_engine::RaftEngineLog;
use pandofs_placement::ClusterMap;
use pandofs_shard::{Environment, Shard};
use pandofs_spans::Spans;
use pandofs_storage::log::Log;
use pandofs_storage::store::{Overlay, Store};
use pandofs_types::limits::{
    DEFAULT_SCRUB_INTERVAL, DEFAULT_SCRUB_RATE, DEFAULT_SERVER_MEMORY_BYTES, DEFAULT_SLOW,
};
use pandofs_types::{Credentials, ServerId};
use pandofs_wire::address::{Address, Listener};
use rustix::process::{getegid, geteuid};
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Counts of what was applied again at start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records of all shards.
    pub records: u64,
    /// Of their payloads.
    pub bytes: u64,
    /// From the first to the last.
    pub elapsed: Duration,
}

/// How to start a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory that [`Server::format`] made.
    pub dir: PathBuf,
    /// The server may know a newer one: then it goes by that.
    pub map: ClusterMap,
    /// Where the map was read from, to look there for a newer one.
    pub map_file: Option<PathBuf>,
    /// The number in the map, which has to be that of the directory.
    pub id: ServerId,
    /// Bytes of memory for all that can take as much as it is given: see [`Memory`].
    pub memory_bytes: u64,
    /// From the end of one scrub to the beginning of the next; 0: only when it is asked for.
    pub scrub_interval: Duration,
    /// Bytes a second that such a scrub reads at most; 0: as many as can be.
    pub scrub_rate: u64,
    /// Operations that take longer are logged; 0: none.
    pub slow: Duration,
    /// Makes spans of requests that clients follow.
    pub spans: Option<Spans>,
}

impl Options {
    /// With default sizes.
    pub fn new(dir: impl Into<PathBuf>, map: ClusterMap, id: ServerId) -> Options {
        Options {
            dir: dir.into(),
            map,
            map_file: None,
            id,
            memory_bytes: DEFAULT_SERVER_MEMORY_BYTES,
            scrub_interval: DEFAULT_SCRUB_INTERVAL,
            scrub_rate: DEFAULT_SCRUB_RATE,
            slow: DEFAULT_SLOW,
            spans: None,
        }
    }

    fn schedule(&self) -> Schedule {
        Schedule {
            interval: self.scrub_interval,
            rate: self.scrub_rate,
        }
    }
}

/// A server: one process's part of a file system.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Makes the directory of server `id` of a new file system, with the first state of the shards
    /// that it leads.
    ///
    /// # Errors
    /// [`StartError::NotEmpty`] when there is anything in `dir`; and what the map, the system or the
    /// store have against it. The caller then has to remove what was begun.
    pub fn format(dir: &Path, map: &ClusterMap, id: ServerId) -> Result<(), StartError> {
        check_map(map, id)?;
        let directory = ServerDirectory::create(dir)?;
        let kind = map.settings.store;
        let store = store::open(kind, &directory.store(), store::Options::default())?;
        Server::format_store(map, id, &*store)?;
        drop(store);
        drop(RaftEngineLog::open(&directory.log(), log_options(dir)?)?);
        let kept = directory.map();
        keep_map(&kept, map).map_err(|source| StartError::io(kept, source))?;
        directory.mark(map.fs, id)
    }

    /// Writes the first state of the server's shards to an empty store, for use with
    /// [`Server::start_on`]. The root directory belongs to the user of this process, who could not use
    /// the file system otherwise.
    ///
    /// # Errors
    /// The store's.
    pub fn format_store(
        map: &ClusterMap,
        id: ServerId,
        store: &dyn Store,
    ) -> Result<(), StartError> {
        let now = Clock::default().now();
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let owner = Credentials::user(uid, gid, Vec::new());
        let mut overlay = Overlay::new(store);
        for config in pandofs_lane::configs(&Arc::new(map.clone()), id, faults::grace()) {
            Shard::create(&config, &mut overlay, now, &owner).map_err(|source| {
                StartError::Shard {
                    shard: config.shard,
                    source,
                }
            })?;
        }
        store.write(&overlay.take_batch())?;
        Ok(store.flush()?)
    }

    /// Starts a server in the directory that [`Server::format`] made. It serves from before this
    /// returns until it is stopped or has to give up.
    ///
    /// # Errors
    /// [`StartError`]. Nothing is served then.
    pub fn start(options: Options) -> Result<ServerHandle, StartError> {
        check_map(&options.map, options.id)?;
        let directory = ServerDirectory::open(&options.dir, options.map.fs, options.id)?;
        let maps = Maps::of(&directory, options.map.clone(), options.map_file.clone())?;
        check_map(&maps.map, options.id)?;
        let descriptors = Descriptors::raised()?;
        // The log first: unlike it, the store writes files of its own when it is opened, and nothing is
        // to be changed when the log is refused.
        let log: Arc<dyn Log> = if std::env::var_os(UNLOGGED_VARIABLE).is_some() {
            tracing::error!(
                "{UNLOGGED_VARIABLE} is set: server {} has NO LOG, and nothing that it acknowledges survives its \
                 process. This is for measurements only",
                options.id
            );
            Arc::new(Unlogged::default())
        } else {
            let files = log_options(&directory.log())?;
            Arc::new(RaftEngineLog::open(&directory.log(), files)?)
        };
        let store = store::open(
            maps.map.settings.store,
            &directory.store(),
            store::Options::of(Memory::of(options.memory_bytes), descriptors),
        )?;
        let data = directory.data();
        let schedule = options.schedule();
        let disks = [
            (directory.log(), "the log"),
            (directory.store(), "metadata"),
        ];
        let disks = disks.map(|(path, holds)| {
            Disk::new(&path, holds).map_err(|source| StartError::io(&path, source))
        });
        let disks = Disks::new(disks.into_iter().collect::<Result<_, _>>()?);
        serve(
            maps,
            options.id,
            store,
            log,
            &data,
            disks,
            descriptors,
            Memory::of(options.memory_bytes),
            schedule,
            options.slow,
            options.spans,
            Some(directory),
        )
    }

    /// Starts a server on a store and a log of the caller's, with its data objects below the
    /// directory `data`. Keeping others from them is up to the caller.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_on(
        map: ClusterMap,
        id: ServerId,
        store: Arc<dyn Store>,
        log: Arc<dyn Log>,
        data: &Path,
    ) -> Result<ServerHandle, StartError> {
        check_map(&map, id)?;
        let schedule = Schedule {
            interval: DEFAULT_SCRUB_INTERVAL,
            rate: DEFAULT_SCRUB_RATE,
        };
        // Where the caller keeps store and log is not known.
        let disks = Disks::default();
        let descriptors = Descriptors::raised()?;
        let memory = Memory::of(DEFAULT_SERVER_MEMORY_BYTES);
        serve(
            Maps::new(map),
            id,
            store,
            log,
            data,
            disks,
            descriptors,
            memory,
            schedule,
            DEFAULT_SLOW,
            None,
            None,
        )
    }
}

/// For a log in this directory.
///
/// # Errors
/// The system's.
pub(crate) fn log_options(dir: &Path) -> Result<pandofs_log_raft_engine::Options, StartError> {
    let room = Room::of(dir).map_err(|source| StartError::io(dir, source))?;
    Ok(pandofs_log_raft_engine::Options {
        target_file_bytes: log_file_bytes(room.total),
    })
}

pub(crate) fn check_map(map: &ClusterMap, id: ServerId) -> Result<(), StartError> {
    map.validate()?;
    if map.server(id).is_none() {
        Err(StartError::UnknownServer(id))
    } else {
        Ok(())
    }
}

/// The cluster map of a server, and where it is kept.
struct Maps {
    /// The one to go by.
    map: ClusterMap,
    /// The one that the server went by when it last ran, if that is an older one: what is in the log was made by it.
    before: Option<ClusterMap>,
    kept: Option<PathBuf>,
    file: Option<PathBuf>,
}

impl Maps {
    fn new(map: ClusterMap) -> Maps {
        Maps {
            map,
            before: None,
            kept: None,
            file: None,
        }
    }

    fn of(
        directory: &ServerDirectory,
        given: ClusterMap,
        file: Option<PathBuf>,
    ) -> Result<Maps, StartError> {
        let mut maps = Maps::new(given);
        maps.kept = Some(directory.map());
        maps.file = file;
        let Some(kept) = directory.kept_map()? else {
            return Ok(maps);
        };
        if kept.epoch > maps.map.epoch {
            maps.map.check_successor_at_start(&kept)?;
            tracing::info!(
                "going by epoch {} of the cluster map, as before; epoch {} was given",
                kept.epoch,
                maps.map.epoch
            );
            maps.map = kept;
        } else if kept.epoch < maps.map.epoch {
            kept.check_successor_at_start(&maps.map)?;
            maps.before = Some(kept);
        }
        Ok(maps)
    }
}

#[allow(clippy::too_many_arguments)]
fn serve(
    maps: Maps,
    id: ServerId,
    store: Arc<dyn Store>,
    log: Arc<dyn Log>,
    data: &Path,
    disks: Disks,
    descriptors: Descriptors,
    memory: Memory,
    schedule: Schedule,
    slow: Duration,
    spans: Option<Spans>,
    directory: Option<ServerDirectory>,
) -> Result<ServerHandle, StartError> {
    let mut holdings = Holdings::prepare(data).map_err(|source| StartError::io(data, source))?;
    holdings.most_open = descriptors.objects;
    // Before the replay: that an address is taken is known at once, and those who connect meanwhile
    // wait in the system's queue.
    let listeners = listen(&maps.map, id)?;
    let addresses = listeners
        .iter()
        .map(Listener::local_address)
        .collect::<io::Result<Vec<_>>>()
        .map_err(StartError::Listen)?;

    let map = Arc::new(maps.map);
    let mut random = rand::random::<u64>;
    let mut environment = Environment {
        now: Clock::default().now(),
        // The lane's begins there, too: a moment later.
        steady: pandofs_types::Steady(0),
        held: 0,
        random: &mut random,
    };
    // Records do what they do by the map of their time.
    let by = maps.before.map_or_else(|| Arc::clone(&map), Arc::new);
    let configs = pandofs_lane::configs(&by, id, faults::grace());
    let begun = Instant::now();
    let (shards, replayed) = pandofs_lane::recover(configs, &mut environment, &*store, &*log)?;
    for behind in &replayed.behind {
        tracing::info!(
            "shard {}: the store is at record {}, the log ended before {}",
            behind.shard,
            behind.applied,
            behind.next
        );
    }
    let replayed = Replayed {
        records: replayed.records,
        bytes: replayed.bytes,
        elapsed: begun.elapsed(),
    };
    let mut shards = Shards::new(shards);
    if by.epoch != map.epoch {
        store.flush()?;
        shards.set_map(&map);
    }
    if let Some(kept) = &maps.kept {
        keep_map(kept, &map).map_err(|source| StartError::io(kept, source))?;
    }
    tracing::info!(
        "server {id}: {} shards, replayed {} records ({} bytes) in {} ms",
        shards.ids().len(),
        replayed.records,
        replayed.bytes,
        replayed.elapsed.as_millis()
    );

    let points = Faults::from_environment(id)
        .map_err(StartError::System)?
        .map(|faults| Box::new(faults) as Box<dyn FaultPoints>);
    let poll = mio::Poll::new().map_err(StartError::System)?;
    let waker = mio::Waker::new(poll.registry(), WAKER).map_err(StartError::System)?;
    let mailbox = Mailbox::new(waker);
    let times = Arc::new(Times::default());
    let lane = LaneThread::new(ThreadParts {
        id,
        map,
        poll,
        mailbox: mailbox.clone(),
        listeners,
        shards,
        map_source: MapSource {
            kept: maps.kept,
            file: maps.file,
        },
        points: Points(points),
        store,
        log,
        holdings: Arc::new(holdings),
        disks,
        max_connections: descriptors.connections,
        max_owed: memory.requests,
        recent_reads: memory.recent_reads,
        schedule,
        unflushed_bytes: replayed.bytes,
        times: Arc::clone(&times),
        slow,
        spans,
    })
    .map_err(StartError::System)?;
    let thread = thread::Builder::new()
        .name(format!("pandofs-lane-{id}"))
        .spawn(move || {
            let result = lane.run();
            if let Err(error) = &result {
                tracing::error!("server {id} stops: {error}");
            }
            // Only now may another process take the directory.
            drop(directory);
            result
        })
        .map_err(StartError::System)?;
    Ok(ServerHandle {
        addresses,
        replayed,
        mailbox,
        times,
        thread: Some(thread),
    })
}

fn listen(map: &ClusterMap, id: ServerId) -> Result<Vec<Listener>, StartError> {
    let addresses = map.server(id).map_or(&[][..], |server| &server.addresses);
    if addresses.is_empty() {
        return Err(StartError::NoAddress(id));
    }
    let bind = |text: &String| {
        let address: Address = text.parse().map_err(io::Error::other)?;
        Listener::bind(&address)
    };
    addresses
        .iter()
        .map(bind)
        .collect::<io::Result<_>>()
        .map_err(StartError::Listen)
}

/// A running server. Dropping it stops the server and waits for that.
#[derive(Debug)]
pub struct ServerHandle {
    addresses: Vec<Address>,
    replayed: Replayed,
    mailbox: Mailbox,
    times: Arc<Times>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

/// Stops a server from another thread than the one that waits for it.
#[derive(Clone, Debug)]
pub struct Stopper {
    mailbox: Mailbox,
}

impl Stopper {
    /// As [`ServerHandle::stop`].
    pub fn stop(&self) {
        self.mailbox.post(Mail::Stop);
    }
}

impl ServerHandle {
    /// The first of the addresses where it listens.
    pub fn address(&self) -> &Address {
        &self.addresses[0]
    }

    /// All of them.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Counts of what was replayed at start.
    pub fn replayed(&self) -> Replayed {
        self.replayed
    }

    /// Asks the server to sync and flush everything and to end; [`ServerHandle::join`] waits for that.
    pub fn stop(&self) {
        self.mailbox.post(Mail::Stop);
    }

    /// Ends the server as a kill would: nothing is synced, flushed or answered. For tests of recovery.
    pub fn abandon(&self) {
        self.mailbox.post(Mail::Abandon);
    }

    /// Another way to stop it.
    pub fn stopper(&self) -> Stopper {
        Stopper {
            mailbox: self.mailbox.clone(),
        }
    }

    /// For its monitoring.
    pub fn observer(&self) -> Observer {
        Observer {
            mailbox: self.mailbox.clone(),
            times: Arc::clone(&self.times),
        }
    }

    /// Waits until the server has ended.
    ///
    /// # Errors
    /// Why it ended without an order to stop; the process should end with a non-zero exit code.
    pub fn join(mut self) -> Result<(), ServerError> {
        self.wait()
    }

    fn wait(&mut self) -> Result<(), ServerError> {
        match self.thread.take() {
            None => Ok(()),
            Some(thread) => match thread.join() {
                Ok(result) => result,
                Err(panic) => Err(ServerError::LanePanicked(message(&*panic))),
            },
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.stop();
        // An error has been logged where it happened.
        let _ = self.wait();
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "without a message".to_owned()
    }
}
