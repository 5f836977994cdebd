//! The session of one mount: the threads that take requests and have them handled.

use crate::Filesystem;
use crate::abi;
use crate::buffer::{Buffer, Buffers};
use crate::device::Device;
use crate::errno::Errno;
use crate::limits::HANDSHAKE_BYTES;
use crate::negotiation::Negotiation;
use crate::notify::Notifier;
use crate::reply::Reply;
use crate::request::{Header, Init, Malformed, Operation, Request};
use crate::spares::{Host, Spares, Thread};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::thread;

/// The names of threads that serve mounts begin so.
pub const THREAD_NAMES: &str = "fuse";

/// Numbers of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Those that take requests, one at least, each from an end of its own of the connection.
    pub regular: usize,
    /// Those that do so in place of others whose requests wait for long
    /// ([`Pending::waits_long`](crate::Pending::waits_long)), at most.
    pub spare: usize,
}

/// A file system that the kernel has agreed to be served by, and is not served yet.
#[derive(Debug)]
pub struct Session<F> {
    shared: Arc<Shared<F>>,
    device: Arc<Device>,
    regular: usize,
}

#[derive(Debug)]
struct Shared<F> {
    filesystem: F,
    buffers: Buffers,
    spares: Spares,
}

impl<F: Filesystem> Session<F> {
    /// Answers the first request of a file system that was mounted with this device.
    ///
    /// # Errors
    /// When the kernel's version is too old, the file system refuses, or the connection breaks.
    pub fn begin(mut filesystem: F, device: OwnedFd, threads: Threads) -> io::Result<Session<F>> {
        let device = Arc::new(Device::new(device));
        let max_write = shake_hands(&mut filesystem, &device)?;
        Ok(Session {
            shared: Arc::new(Shared {
                filesystem,
                buffers: Buffers::for_writes(max_write),
                spares: Spares::at_most(threads.spare),
            }),
            device,
            regular: threads.regular.max(1),
        })
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
            regular,
        } = self;
        let mut threads = Vec::with_capacity(regular);
        for number in 1..regular {
            let device = Arc::new(device.another()?);
            threads.push(Shared::start(&shared, number.to_string(), device, false)?);
        }
        threads.push(Shared::start(&shared, "0".to_owned(), device, false)?);
        let mut ended = Ok(());
        // Who starts a spare is one of these or a spare itself, so that none is left in the end.
        while let Some(thread) = threads.pop().or_else(|| shared.spares.take_thread()) {
            let result = match thread.join() {
                Ok(result) => result,
                Err(_) => Err(io::Error::other("a thread of the session panicked")),
            };
            ended = ended.and(result);
        }
        ended
    }
}

impl<F: Filesystem> Host for Shared<F> {
    fn begin_wait(self: Arc<Self>, device: &Arc<Device>) {
        self.spares.begin_wait(|| {
            let device = Arc::clone(device);
            Shared::start(&self, "spare".to_owned(), device, true)
        });
    }
}

impl<F: Filesystem> Shared<F> {
    fn start(
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
                // Whatever it was last used for.
                let used = buffer.bytes().len();
                shared.buffers.put_back(buffer, used);
                result
            })
    }

    /// Takes requests until there are no more, or this thread is one too many.
    fn serve(
        shared: &Arc<Shared<F>>,
        device: &Arc<Device>,
        buffer: &mut Buffer,
        is_spare: bool,
    ) -> io::Result<()> {
        while let Some(size) = device.receive(buffer.bytes())? {
            Shared::handle(shared, device, &buffer.bytes()[..size])?;
            if is_spare {
                if shared.spares.ends() {
                    return Ok(());
                }
                // There may be many of them, each waiting with what was written to it next.
                buffer.give_back(size);
            }
        }
        Ok(())
    }

    fn handle(shared: &Arc<Shared<F>>, device: &Arc<Device>, bytes: &[u8]) -> io::Result<()> {
        let header = Header::decode(bytes).map_err(unanswerable)?;
        let weak = Arc::downgrade(shared);
        let host: Weak<dyn Host> = weak;
        let reply = Reply::new(&header, Arc::clone(device), host);
        let pending = reply.pending();
        match Request::decode(bytes) {
            Ok(request) => {
                tracing::debug!(?request);
                match request.operation {
                    Operation::Destroy => reply.ok(),
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
        if pending.ends() {
            shared.spares.end_wait();
        }
        Ok(())
    }
}

/// A request whose number is not known cannot be answered.
fn unanswerable(error: Malformed) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the kernel sent what is no request: {error}"),
    )
}

/// Agrees with the kernel; returns the most bytes that one request writes.
fn shake_hands(filesystem: &mut impl Filesystem, device: &Arc<Device>) -> io::Result<usize> {
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
        let reply = Reply::new(&header, Arc::clone(device), Weak::<Nobody>::new());
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
        tracing::debug!(?negotiation);
        reply.init(&negotiation.answer());
        return Ok(negotiation.max_write());
    }
}

/// The session of the first request: there is none yet.
struct Nobody;

impl Host for Nobody {
    fn begin_wait(self: Arc<Self>, _: &Arc<Device>) {}
}
