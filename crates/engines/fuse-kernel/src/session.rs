//! The session of one mount: the threads that take requests and have them handled.

use crate::Filesystem;
use crate::abi;
use crate::buffer::{Buffer, Buffers};
use crate::device::Device;
use crate::errno::Errno;
use crate::limits::{HANDSHAKE_BYTES, WATCH_STACK_BYTES};
use crate::negotiation::Negotiation;
use crate::notify::Notifier;
use crate::readers::{Readers, Seat};
use crate::reply::{Pending, Reply, Way};
use crate::request::{Header, Init, Malformed, Operation, Request, opcode};
use crate::ring::{First, Prepared, Ring, RingEntry, Rings, Slot};
use crate::spares::{Host, Spares, Thread};
use std::fmt;
use std::io;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::thread;

/// The names of threads that serve mounts begin so.
pub const THREAD_NAMES: &str = "fuse";

/// Numbers of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Those that take requests, one at least, each from an end of its own of the connection. So many
    /// requests may be under way; by `/dev/fuse` as few of them as can do it take requests.
    pub regular: usize,
    /// Those that do so in place of others whose requests wait for long
    /// ([`Pending::waits_long`](crate::Pending::waits_long)), at most.
    pub spare: usize,
}

/// Whether requests are to come over io_uring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UseIoUring {
    /// They come by `/dev/fuse`.
    #[default]
    No,
    /// If the kernel offers it and it can be used; else by `/dev/fuse`.
    IfOffered,
    /// The same, and a warning says why it is not so.
    Wanted,
}

/// The way by which requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// By reading `/dev/fuse`.
    Device,
    /// Over io_uring, but for what no program waits for.
    IoUring,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Device => "/dev/fuse",
            Transport::IoUring => "io_uring",
        })
    }
}

/// A file system that the kernel has agreed to be served by, and is not served yet.
#[derive(Debug)]
pub struct Session<F> {
    shared: Arc<Shared<F>>,
    device: Arc<Device>,
    /// For the threads from the start, if they take requests so.
    rings: Vec<Ring>,
}

#[derive(Debug)]
pub(crate) struct Shared<F> {
    filesystem: F,
    buffers: Buffers,
    /// Of the threads that read the device.
    readers: Readers,
    pub(crate) spares: Spares,
    pub(crate) rings: Option<Rings>,
    /// Threads that read the device, where there are no rings.
    pub(crate) regular: usize,
}

impl<F: Filesystem> Session<F> {
    /// Answers the first request of a file system that was mounted with this device.
    ///
    /// # Errors
    /// When the kernel's version is too old, the file system refuses, or the connection breaks.
    pub fn begin(
        mut filesystem: F,
        device: OwnedFd,
        threads: Threads,
        io_uring: UseIoUring,
    ) -> io::Result<Session<F>> {
        let device = Arc::new(Device::new(device));
        let (negotiation, prepared) =
            shake_hands(&mut filesystem, &device, |kernel| match io_uring {
                UseIoUring::No => None,
                UseIoUring::IfOffered => prepare(kernel, &device, threads)
                    .inspect_err(|why| tracing::info!("requests come by /dev/fuse: {why}"))
                    .ok(),
                UseIoUring::Wanted => prepare(kernel, &device, threads)
                    .inspect_err(|why| tracing::warn!("requests come by /dev/fuse: {why}"))
                    .ok(),
            })?;
        let begun = prepared.map(|prepared| prepared.begin(&device, negotiation.payload()));
        let (shared_rings, rings) = begun.unzip();
        let regular = threads.regular.max(1);
        // A system that does not tell has one at least.
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        Ok(Session {
            shared: Arc::new(Shared {
                filesystem,
                buffers: Buffers::for_writes(negotiation.max_write()),
                readers: Readers::new(regular, processors),
                spares: Spares::at_most(threads.spare),
                rings: shared_rings,
                regular,
            }),
            device,
            rings: rings.unwrap_or_default(),
        })
    }

    /// The way by which its requests come.
    pub fn transport(&self) -> Transport {
        match self.shared.rings {
            Some(_) => Transport::IoUring,
            None => Transport::Device,
        }
    }

    /// A sender of messages to the kernel.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(Arc::clone(&self.device))
    }

    /// Serves until the file system is unmounted.
    ///
    /// # Errors
    /// When it ended otherwise, with the first reason.
    pub fn run(self) -> io::Result<()> {
        let Session {
            shared,
            device,
            rings,
        } = self;
        let watch = Shared::start_watch(&shared)?;
        let ended = Session::serve(&shared, device, rings);
        // However it ended: it may be that no thread came to read.
        shared.readers.end();
        ended.and(joined(watch))
    }

    fn serve(shared: &Arc<Shared<F>>, device: Arc<Device>, rings: Vec<Ring>) -> io::Result<()> {
        let mut threads = Vec::new();
        // With rings there is little to read, nothing of which waits.
        let readers = if rings.is_empty() { shared.regular } else { 1 };
        for ring in rings {
            let started = Shared::start_on(shared, ring, First::Begin);
            threads.push(started.map_err(|(error, _)| error)?);
        }
        for number in 1..readers {
            let device = Arc::new(device.another()?);
            threads.push(Shared::start(shared, number.to_string(), device, false)?);
        }
        threads.push(Shared::start(shared, "0".to_owned(), device, false)?);
        let mut ended = Ok(());
        // Only these threads and spares start spares, so that none is left in the end.
        let more = || {
            let of_rings = || shared.rings.as_ref().and_then(Rings::take_thread);
            shared.spares.take_thread().or_else(of_rings)
        };
        while let Some(thread) = threads.pop().or_else(more) {
            ended = ended.and(joined(thread));
        }
        ended
    }
}

fn joined(thread: Thread) -> io::Result<()> {
    match thread.join() {
        Ok(result) => result,
        Err(_) => Err(io::Error::other("a thread of the session panicked")),
    }
}

impl<F: Filesystem> Host for Shared<F> {
    fn give_turn_away(&self, way: &Way) {
        match way {
            Way::Device(seat) => self.readers.give_away(seat),
            // The kernel has the other entries of the queue.
            Way::Ring(_) => {}
        }
    }

    fn begin_wait(self: Arc<Self>, way: &Way) {
        match way {
            Way::Device(seat) => {
                self.spares.begin_wait(|| {
                    let device = Arc::clone(&seat.device);
                    Shared::start(&self, "spare".to_owned(), device, true)
                });
                self.readers.give_away(seat);
            }
            Way::Ring(slot) => Shared::begin_ring_wait(&self, slot),
        }
    }

    fn send_early(self: Arc<Self>, slot: &Slot, entry: RingEntry) {
        Shared::send_early(&self, slot, entry);
    }
}

impl<F: Filesystem> Shared<F> {
    pub(crate) fn start(
        shared: &Arc<Shared<F>>,
        name: String,
        device: Arc<Device>,
        is_spare: bool,
    ) -> io::Result<Thread> {
        let shared = Arc::clone(shared);
        thread::Builder::new()
            .name(format!("{THREAD_NAMES}-{name}"))
            .spawn(move || {
                let mut buffer = shared.buffers.take()?;
                let result = Shared::serve(&shared, &device, &mut buffer, is_spare);
                // Its last use may have filled it.
                let used = buffer.bytes().len();
                shared.buffers.put_back(buffer, used);
                result
            })
    }

    fn start_watch(shared: &Arc<Shared<F>>) -> io::Result<Thread> {
        let shared = Arc::clone(shared);
        thread::Builder::new()
            .name(format!("{THREAD_NAMES}-watch"))
            .stack_size(WATCH_STACK_BYTES)
            .spawn(move || {
                shared.readers.watch();
                Ok(())
            })
    }

    /// Takes requests until there are no more, or this thread is one too many.
    fn serve(
        shared: &Arc<Shared<F>>,
        device: &Arc<Device>,
        buffer: &mut Buffer,
        is_spare: bool,
    ) -> io::Result<()> {
        let mut reader = shared.readers.join(Arc::clone(device), is_spare);
        while reader.take_turn(|| is_spare && shared.spares.ends()) {
            let Some(size) = reader.read(|| device.receive(buffer.bytes()))? else {
                shared.readers.end();
                if let Some(rings) = &shared.rings {
                    rings.end();
                }
                break;
            };
            let bytes = &buffer.bytes()[..size];
            reader.is_asked_by(Header::decode(bytes).map_err(unanswerable)?.pid);
            let way = Way::Device(Arc::clone(&reader.seat));
            let pending = Shared::handle(shared, way, bytes)?;
            if pending.ends() && shared.spares.end_wait() {
                shared.readers.let_spare_look();
            }
            reader.handled();
            if is_spare {
                // There may be many of them, each waiting with what was written to it next.
                buffer.give_back(size);
            }
        }
        Ok(())
    }

    /// Handles a request; it may be answered later.
    pub(crate) fn handle(shared: &Arc<Shared<F>>, way: Way, bytes: &[u8]) -> io::Result<Pending> {
        let header = Header::decode(bytes).map_err(unanswerable)?;
        let weak = Arc::downgrade(shared);
        let host: Weak<dyn Host> = weak;
        let reply = Reply::new(&header, way, host);
        let pending = reply.pending();
        match Request::decode(bytes) {
            Ok(request) => {
                tracing::debug!(?request);
                match request.operation {
                    Operation::Destroy => reply.ok(),
                    // The kernel was asked to send it.
                    Operation::Other(opcode::NOTIFY_REPLY) => reply.ok(),
                    // There was one already.
                    Operation::Init(_) => reply.error(Errno::EIO),
                    _ => shared.filesystem.handle(request, reply),
                }
            }
            Err(error) => {
                tracing::error!(?header, %error, "a request of the kernel is not understood");
                reply.error(error.errno());
            }
        }
        Ok(pending)
    }
}

/// A request whose number is not known cannot be answered.
pub(crate) fn unanswerable(error: Malformed) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the kernel sent what is no request: {error}"),
    )
}

/// Rings for a mount, or why there are none.
fn prepare(
    kernel: &Negotiation,
    device: &Arc<Device>,
    threads: Threads,
) -> Result<Prepared, String> {
    if !kernel.offers_io_uring() {
        let why = "the kernel does not offer io_uring: it is older than Linux 6.14, or \
                   /sys/module/fuse/parameters/enable_uring says N";
        return Err(why.to_owned());
    }
    Prepared::new(device, threads)
}

/// Agrees with the kernel. `prepare` makes rings, if there are to be any, before the kernel is told.
fn shake_hands(
    filesystem: &mut impl Filesystem,
    device: &Arc<Device>,
    prepare: impl Fn(&Negotiation) -> Option<Prepared>,
) -> io::Result<(Negotiation, Option<Prepared>)> {
    let mut buffer = Buffer::of_size(HANDSHAKE_BYTES)?;
    loop {
        let Some(size) = device.receive(buffer.bytes())? else {
            return Err(io::Error::new(
                io::ErrorKind::NotConnected,
                "it was unmounted before it was served",
            ));
        };
        let bytes = &buffer.bytes()[..size];
        let header = Header::decode(bytes).map_err(unanswerable)?;
        let way = Way::Device(Seat::of(Arc::clone(device), false));
        let reply = Reply::new(&header, way, Weak::<Nobody>::new());
        let refused = |reply: Reply, errno, why: String| {
            reply.error(errno);
            Err(io::Error::new(io::ErrorKind::Unsupported, why))
        };
        let kernel = match Request::decode(bytes).map(|request| request.operation) {
            Ok(Operation::Init(kernel)) => kernel,
            other => {
                let why = format!("the kernel began with something else: {other:?}");
                return refused(reply, Errno::EIO, why);
            }
        };
        let Init { major, minor, .. } = kernel;
        if major > abi::MAJOR {
            reply.init(&Negotiation::version_alone());
            continue;
        }
        if (major, minor) < (abi::MAJOR, abi::OLDEST_MINOR) {
            let why = format!("the kernel's version {major}.{minor} of FUSE is too old");
            return refused(reply, Errno::EPROTO, why);
        }
        let mut negotiation = Negotiation::with(kernel);
        filesystem.init(&mut negotiation);
        let prepared = prepare(&negotiation);
        if prepared.is_some() {
            negotiation.use_io_uring();
        }
        tracing::debug!(?negotiation);
        reply.init(&negotiation.answer());
        return Ok((negotiation, prepared));
    }
}

/// The session of the first request: there is none yet.
struct Nobody;

impl Host for Nobody {
    fn give_turn_away(&self, _: &Way) {}

    fn begin_wait(self: Arc<Self>, _: &Way) {}

    fn send_early(self: Arc<Self>, _: &Slot, _: RingEntry) {}
}
