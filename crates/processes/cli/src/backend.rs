//! Servers, mounts and clients, started and asked through their libraries.

use crate::daemon::StartedBy;
use crate::exit::Misconfigured;
use crate::metrics::{self, MetricsOptions, MountSource, ServerSource};
use crate::mount_options::{AtimeWord, MountOptions};
use crate::mounts;
use crate::server_options::ServerOptions;
use crate::signals::{self, Signal};
use crate::source::Cluster;
use crate::traces::TracesOptions;
use crate::units;
use crate::unmount::{Unmounted, unmount, users_of};
use anyhow::{Context, Result, bail};
use pandofs_client::Client;
use pandofs_fuse::{Atime, KernelFlags, Memory, Mounted, Transport};
use pandofs_metrics::Endpoint;
use pandofs_placement::ClusterMap;
use pandofs_server::Server;
use pandofs_spans::Spans;
use pandofs_types::limits::OTHER_OPEN_FILES;
use pandofs_types::{AtimeRule, Credentials, ServerId};
use pandofs_workload::{Recorded, Recording};
use rustix::process::{Resource, Rlimit, getegid, geteuid, getgroups, getrlimit, setrlimit};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Files that a mount may have open, if the system lets it: its connections, most of which it can do without.
const MAX_MOUNT_FILES: u64 = 65_536;

/// How long a mount that is to end waits for programs that use it.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two attempts to unmount.
const BUSY_PAUSE: Duration = Duration::from_millis(200);
/// How long programs may go on with a mount that was detached.
const DETACHED_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes a server's directory.
///
/// # Errors
/// The server's, with what to do.
pub(crate) fn format_server(dir: &Path, map: &ClusterMap, id: ServerId) -> Result<()> {
    Server::format(dir, map, id).with_context(|| format!("cannot prepare server {id}"))
}

/// Runs a server until a signal stops it.
///
/// # Errors
/// When it cannot start, or had to stop by itself.
pub(crate) fn serve(
    dir: &Path,
    cluster: &Cluster,
    id: ServerId,
    server_options: &ServerOptions,
    metrics: &MetricsOptions,
    traces: &TracesOptions,
    started_by: &StartedBy,
) -> Result<()> {
    server_options.check()?;
    // First of all: a server of which nobody would hear what was asked for does not start.
    let listening = metrics.listen()?;
    let spans = traces.start(cluster.map.fs, Some(id.0))?;
    let options = pandofs_server::Options {
        scrub_interval: server_options.scrub_interval.0,
        scrub_rate: server_options.scrub_rate,
        memory_bytes: server_options.memory,
        slow: server_options.slow.0,
        map_file: Some(cluster.map_path.clone()),
        spans: spans.clone(),
        ..pandofs_server::Options::new(dir, cluster.map.clone(), id)
    };
    let server = Server::start(options).map_err(|error| {
        let is_misconfigured = error.is_of_configuration();
        let error = anyhow::Error::from(error).context(format!("cannot start server {id}"));
        match is_misconfigured {
            true => Misconfigured::because(&error),
            false => error,
        }
    })?;
    for address in server.addresses() {
        tracing::info!("server {id} serves on {address}");
    }
    let source = ServerSource {
        observer: server.observer(),
        memory_bytes: server_options.memory,
        spans: spans.clone(),
    };
    let _endpoint = metrics::serve(listening, source)?;
    let (sender, events) = mpsc::channel();
    signals::forward(sender)?;
    let stopper = server.stopper();
    std::thread::Builder::new()
        .name("stopper".into())
        .spawn(move || {
            while let Ok(signal) = events.recv() {
                if let Signal::Stop(name) = signal {
                    tracing::info!("{name}: stopping");
                    stopper.stop();
                }
            }
        })
        .context("cannot start a thread")?;
    started_by.report_ready()?;
    let ended = server.join();
    if let Some(spans) = spans {
        spans.flush();
    }
    ended.with_context(|| format!("server {id} had to stop"))?;
    tracing::info!("server {id} stopped");
    Ok(())
}

/// Credentials of the user who runs this program.
pub(crate) fn caller() -> Credentials {
    let groups = getgroups().unwrap_or_default();
    Credentials {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
        groups: groups.into_iter().map(|group| group.as_raw()).collect(),
        capabilities: pandofs_fuse::own_capabilities(),
    }
}

/// A client that waits for servers that are away.
///
/// # Errors
/// The fault in the cluster map.
pub(crate) fn connect(cluster: &Cluster) -> Result<Client> {
    connect_within(cluster, None)
}

/// A client that waits no longer than `patience` for a server that is away.
///
/// # Errors
/// The fault in the cluster map.
pub(crate) fn connect_within(cluster: &Cluster, patience: Option<Duration>) -> Result<Client> {
    let options = pandofs_client::Options {
        soft: patience,
        ..pandofs_client::Options::default()
    };
    connect_with(cluster, options)
}

fn connect_with(cluster: &Cluster, options: pandofs_client::Options) -> Result<Client> {
    Client::open(&cluster.map_path, options)
        .with_context(|| format!("cannot use the cluster map {}", cluster.map_path.display()))
}

enum Event {
    Signal(Signal),
    /// It is not mounted any more.
    Ended(Result<(), pandofs_fuse::MountError>),
}

impl From<Signal> for Event {
    fn from(signal: Signal) -> Event {
        Event::Signal(signal)
    }
}

/// Mounts, and serves until it is unmounted or a signal stops it.
///
/// # Errors
/// When it cannot be mounted, or ended otherwise.
pub(crate) fn mount(
    cluster: &Cluster,
    point: &Path,
    options: &MountOptions,
    started_by: &StartedBy,
) -> Result<()> {
    let running = Running::start(cluster, point, options)?;
    started_by.report_ready()?;
    running.serve(point).map(drop)
}

/// Mounts for as long as a command runs, and records what that and others do through the mount. How the
/// command ended, and how many operations were recorded.
///
/// # Errors
/// When it cannot be mounted, or the command cannot be run; when the recording ended before the mount did.
pub(crate) fn record(
    cluster: &Cluster,
    point: &Path,
    options: &MountOptions,
    mut command: Command,
) -> Result<(ExitStatus, u64)> {
    let running = Running::start(cluster, point, options)?;
    let events = running.sender.clone();
    let name = command.get_program().to_owned();
    let started = command
        .spawn()
        .with_context(|| format!("cannot run {}", name.display()));
    let waiter = started.and_then(|mut child| {
        std::thread::Builder::new()
            .name("command".into())
            .spawn(move || {
                let ended = child.wait();
                let _ = events.send(Event::Signal(Signal::Stop("the command has ended")));
                ended
            })
            .context("cannot start a thread")
    });
    if waiter.is_err() {
        let stop = Event::Signal(Signal::Stop("nothing is recorded"));
        // The receiver is in `running`.
        let _ = running.sender.send(stop);
    }
    let recorded = running.serve(point);
    let status = waiter?
        .join()
        .map_err(|_| anyhow::anyhow!("the thread that waits for the command panicked"))?
        .context("cannot wait for the command")?;
    let recorded = recorded?.context("the recording is cut short: see above")?;
    Ok((status, recorded.operations))
}

/// A mount of this process.
struct Running {
    client: Client,
    recording: Option<Arc<Recording>>,
    spans: Option<Spans>,
    /// As long as there is something to tell.
    _endpoint: Option<Endpoint>,
    sender: mpsc::Sender<Event>,
    events: Receiver<Event>,
}

impl Running {
    fn start(cluster: &Cluster, point: &Path, options: &MountOptions) -> Result<Running> {
        raise_file_limit()?;
        decline_huge_pages();
        let memory = options.memory()?;
        let listening = options.metrics.listen()?;
        let spans = options.traces.start(cluster.map.fs, None)?;
        let client_options = pandofs_client::Options {
            soft: options.soft.map(|time| time.0),
            cache_limits: memory.cache_limits,
        };
        let client = connect_with(cluster, client_options)?;
        // Before there is a mount that the file could be meant to be in.
        let recording = options
            .trace
            .as_deref()
            .map(|to| start_recording(&client, to));
        let recording = recording.transpose()?;
        let mounted = pandofs_fuse::mount(
            client.clone(),
            point,
            pandofs_fuse::Options {
                spans: spans.clone(),
                ..fuse_options(cluster, options, memory)?
            },
        )
        .with_context(|| format!("cannot mount on {}", point.display()))?;
        tracing::info!(
            "of {} of memory: requests of {}, {} threads for those that wait, {} names and attributes",
            units::bytes(options.memory_bytes()),
            units::bytes(memory.io_bytes as u64),
            memory.spare_threads,
            memory.cache_limits.leases,
        );
        let source = MountSource {
            client: client.clone(),
            times: mounted.request_times(),
            over_io_uring: mounted.transport() == Transport::IoUring,
            memory_bytes: options.memory_bytes(),
            spans: spans.clone(),
        };
        let endpoint = metrics::serve(listening, source)?;
        let (sender, events) = mpsc::channel();
        signals::forward(sender.clone())?;
        watch(mounted, sender.clone())?;
        Ok(Running {
            client,
            recording,
            spans,
            _endpoint: endpoint,
            sender,
            events,
        })
    }

    /// Until it is unmounted or a signal stops it; what was recorded, if the recording did not end before.
    fn serve(self, point: &Path) -> Result<Option<Recorded>> {
        let ended = wait_for_end(&self.events, point, &self.client)?;
        // Servers that are away must not keep the process: what could be written was.
        self.client.close();
        if let Some(spans) = &self.spans {
            spans.flush();
        }
        // Its failure was logged when it failed.
        let recorded = self.recording.and_then(|recording| recording.finish().ok());
        if let Some(recorded) = recorded {
            tracing::info!("{} operations were recorded", recorded.operations);
        }
        match ended {
            Some(ended) => ended.context("the mount broke")?,
            None => tracing::warn!("programs still used the mount on {}", point.display()),
        }
        tracing::info!("unmounted {}", point.display());
        Ok(recorded)
    }
}

fn start_recording(client: &Client, to: &Path) -> Result<Arc<Recording>> {
    let file =
        std::fs::File::create(to).with_context(|| format!("cannot record in {}", to.display()))?;
    let recording =
        Recording::start(file).with_context(|| format!("cannot record in {}", to.display()))?;
    let recording = Arc::new(recording);
    client
        .trace(recording.clone())
        .map_err(|_| anyhow::anyhow!("this session is recorded already"))?;
    Ok(recording)
}

/// Lets a mount have more connections than a process is given files at first. Where it has too few it
/// closes those that it only keeps for later.
///
/// # Errors
/// When it would not even have what it needs besides connections.
fn raise_file_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit
        .maximum
        .map_or(MAX_MOUNT_FILES, |most| most.min(MAX_MOUNT_FILES));
    if wanted < OTHER_OPEN_FILES as u64 {
        bail!(
            "a mount needs {OTHER_OPEN_FILES} open files at least, and may have {wanted}: raise the limit (ulimit -Hn)"
        );
    }
    if limit.current.is_some_and(|current| current < wanted) {
        let new = Rlimit {
            current: Some(wanted),
            maximum: limit.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, new) {
            tracing::warn!("cannot raise the limit of open files: {error}");
        }
    }
    Ok(())
}

/// Has a mount take little memory: with huge pages each of its threads would hold megabytes of which it needs a
/// few pages.
fn decline_huge_pages() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!("cannot switch off huge pages: {error}");
    }
}

/// Tells when the mount has ended.
fn watch(mounted: Mounted, sender: mpsc::Sender<Event>) -> Result<()> {
    std::thread::Builder::new()
        .name("mount".into())
        .spawn(move || {
            // The channel has no receiver when the process is about to end.
            let _ = sender.send(Event::Ended(mounted.join()));
        })
        .context("cannot start a thread")?;
    Ok(())
}

/// `None` when it was detached and programs went on using it.
fn wait_for_end(
    events: &Receiver<Event>,
    point: &Path,
    client: &Client,
) -> Result<Option<Result<(), pandofs_fuse::MountError>>> {
    let mut busy_until = None;
    let mut detached_until = None;
    loop {
        let limit = match (busy_until, detached_until) {
            (_, Some(until)) => until,
            (Some(_), None) => Instant::now() + BUSY_PAUSE,
            (None, None) => match events.recv().context("no more events")? {
                Event::Ended(ended) => return Ok(Some(ended)),
                Event::Signal(Signal::Child) => continue,
                Event::Signal(Signal::Stop(name)) => {
                    tracing::info!("{name}: unmounting {}", point.display());
                    busy_until = Some(Instant::now() + BUSY_TIMEOUT);
                    Instant::now()
                }
            },
        };
        match events.recv_timeout(limit.saturating_duration_since(Instant::now())) {
            Ok(Event::Ended(ended)) => return Ok(Some(ended)),
            Ok(Event::Signal(_)) => continue,
            Err(RecvTimeoutError::Disconnected) => bail!("no more events"),
            Err(RecvTimeoutError::Timeout) if detached_until.is_some() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let give_up = busy_until.is_some_and(|until| Instant::now() >= until);
        if give_up {
            tracing::warn!(
                "{} is in use by {}",
                point.display(),
                users_of(point).join(", ")
            );
        }
        if unmount(point, give_up)? == Unmounted::Done {
            // From here on no new program can use it; those who do get errors instead of waiting for
            // servers that may be away.
            if give_up {
                client.close();
            }
            detached_until = Some(Instant::now() + DETACHED_TIMEOUT);
        }
    }
}

/// Options that the kernel carries out.
pub(crate) fn kernel_flags(options: &MountOptions) -> KernelFlags {
    KernelFlags {
        read_only: options.read_only,
        set_ids: options.flags.suid,
        devices: options.flags.dev,
        no_programs: options.flags.noexec,
        synced_writes: options.flags.sync,
        atime: match options.flags.atime {
            AtimeWord::Relatime => Atime::Changed(AtimeRule::Relative),
            AtimeWord::Strictatime => Atime::Changed(AtimeRule::Strict),
            AtimeWord::Noatime => Atime::Kept,
        },
        no_dir_atime: options.flags.nodiratime,
        synced_names: options.flags.dirsync,
        no_symlinks: options.flags.nosymfollow,
    }
}

fn fuse_options(
    cluster: &Cluster,
    options: &MountOptions,
    memory: Memory,
) -> Result<pandofs_fuse::Options> {
    let fs_name = match &options.shown_as {
        Some(source) => source.clone(),
        None => mounts::source_of(&cluster.map_path)
            .into_string()
            .map_err(|path| anyhow::anyhow!("the path {} is not in UTF-8", path.display()))?,
    };
    let defaults = pandofs_fuse::Options::default();
    let caching = options.caching()?;
    let options = &MountOptions {
        allow_other: options.allow_other || defaults.allow_other,
        ..options.clone()
    };
    Ok(pandofs_fuse::Options {
        threads: options.threads,
        memory,
        cache: caching.cache,
        entry_timeout: caching.entry,
        attr_timeout: caching.attr,
        negative_timeout: caching.negative,
        // Where every change waits for disks, early answers would be work for nothing.
        early_names: !(options.sync_names
            || options.read_only
            || options.flags.sync
            || options.flags.dirsync),
        allow_other: options.allow_other,
        kernel: kernel_flags(options),
        // So that `pandofs dir PATH` finds the cluster by the mount.
        fs_name,
        local_locks: options.local_lock.into(),
        io_uring: options.io_uring.into(),
        mount_data: options.labels.clone(),
        settings: options.settings()?,
        slow: options.slow.map_or(defaults.slow, |slow| slow.0),
        ..defaults
    })
}
