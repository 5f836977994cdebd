//! Addresses of servers, and the sockets under the protocol: TCP and Unix sockets.

use crate::frame::Covered;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{
    Timeout, set_socket_send_buffer_size, set_socket_timeout, socket_error, socket_peercred,
};
use rustix::net::{
    self, AddressFamily, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pandofs_types::limits::MAX_IO_BYTES;

/// Connections that wait at one listener to be taken; Linux cuts it to `net.core.somaxconn`.
const LISTEN_BACKLOG: i32 = 4_096;

/// Bytes that a Unix socket takes without a reader, if the system allows: a message full of file data.
const UNIX_SEND_BUFFER_BYTES: usize = MAX_IO_BYTES + (64 << 10);

/// Bytes of a Unix socket's path that fit into `sockaddr_un` with the NUL after them.
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// How long it may take to find out whether a process listens on a Unix socket. The answer is
/// immediate but where the queue of a living server is full.
const PROBE_TIMEOUT: Duration = Duration::from_millis(20);

/// Where a server listens. In text `tcp:HOST:PORT` (an IPv6 address in brackets) or `unix:/PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// Over a network.
    Tcp {
        /// A name or an IP address, the latter without brackets.
        host: String,
        /// 0 lets the system choose one, to listen at only.
        port: u16,
    },
    /// On one machine: an absolute path, at most `MAX_SOCKET_PATH_BYTES` long.
    Unix(PathBuf),
}

/// Why a text is no [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It begins with neither `tcp:` nor `unix:`.
    #[error("'{0}' is no address: write tcp:HOST:PORT or unix:/PATH")]
    UnknownKind(String),
    /// Host or port are missing or no such thing.
    #[error(
        "'{0}' is no TCP address: write tcp:HOST:PORT, as in tcp:10.0.0.1:7400 or tcp:[::1]:7400"
    )]
    BadTcp(String),
    /// The path is relative, or has a NUL.
    #[error("'{0}' is no path of a socket: it must begin with '/' and hold no NUL")]
    BadPath(String),
    /// The system has no room for the path.
    #[error(
        "'{path}' is too long for a socket ({bytes} bytes, the system's limit is \
         {MAX_SOCKET_PATH_BYTES}): choose a directory with a shorter path"
    )]
    LongPath {
        /// As it was written.
        path: String,
        /// Of the path.
        bytes: usize,
    },
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        if let Some(rest) = text.strip_prefix("tcp:") {
            return parse_tcp(rest).ok_or_else(|| AddressError::BadTcp(text.to_owned()));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') || path.contains('\0') {
                return Err(AddressError::BadPath(path.to_owned()));
            }
            if path.len() > MAX_SOCKET_PATH_BYTES {
                return Err(AddressError::LongPath {
                    path: path.to_owned(),
                    bytes: path.len(),
                });
            }
            return Ok(Address::Unix(PathBuf::from(path)));
        }
        Err(AddressError::UnknownKind(text.to_owned()))
    }
}

fn parse_tcp(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|inner| inner.contains(':'))?,
        // Without brackets it is open where the address ends and the port begins.
        None if host.contains(':') => return None,
        None => host,
    };
    let usable = |c: char| c.is_ascii_graphic() && !matches!(c, '[' | ']' | '/');
    if host.is_empty() || !host.chars().all(usable) {
        return None;
    }
    Some(Address::Tcp {
        host: host.to_owned(),
        port: port.parse().ok()?,
    })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A connection. TCP ones send at once what is written (`TCP_NODELAY`): frames are coalesced before.
#[derive(Debug)]
pub enum Stream {
    /// Across machines.
    Tcp(TcpStream),
    /// On one machine.
    Unix(UnixStream),
}

/// Connects to `address` within `timeout`; of a name's several addresses each is tried, as long as
/// there is time. Looking up a name is the resolver's business and may take longer.
///
/// # Errors
/// The system's, with the address in the message; `TimedOut` also where a Unix socket's queue of
/// connections to be accepted stays full.
pub fn connect(address: &Address, timeout: Duration) -> io::Result<Stream> {
    connect_while(address, timeout, timeout, &|_| true)
}

/// As [`connect`]; each time that it has waited for `interval` more `goes_on` is asked, with how long it has waited.
///
/// # Errors
/// Those of [`connect`]; `Interrupted` when it is not to go on.
pub fn connect_while(
    address: &Address,
    timeout: Duration,
    interval: Duration,
    goes_on: &dyn Fn(Duration) -> bool,
) -> io::Result<Stream> {
    let begun = Instant::now();
    let wait = Wait {
        begun,
        deadline: begun + timeout,
        interval,
        goes_on,
    };
    match address {
        Address::Tcp { host, port } => connect_tcp(host, *port, &wait).map(Stream::Tcp),
        Address::Unix(path) => connect_unix(path, &wait).map(Stream::Unix),
    }
    .map_err(|error| in_context(error, "connect to", address))
}

/// How a connection is waited for.
struct Wait<'a> {
    begun: Instant,
    deadline: Instant,
    interval: Duration,
    goes_on: &'a dyn Fn(Duration) -> bool,
}

impl Wait<'_> {
    /// How long to wait until it is asked next whether to go on.
    fn step(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // The system reads a limit of 0, which a microsecond's fraction becomes, as none.
        if left < Duration::from_micros(1) {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(left.min(self.interval.max(Duration::from_micros(1))))
    }

    /// A step was waited for in vain.
    fn go_on(&self) -> io::Result<()> {
        match (self.goes_on)(self.begun.elapsed()) {
            true => Ok(()),
            false => Err(ErrorKind::Interrupted.into()),
        }
    }
}

/// Lets a Unix socket take a message full of file data at once: with the 208 KiB that it takes
/// otherwise (Linux) a sender of 1 MiB is put to sleep and woken several times. The system may give
/// less (`net.core.wmem_max`). TCP finds its own size.
fn make_room(stream: &UnixStream) -> io::Result<()> {
    Ok(set_socket_send_buffer_size(stream, UNIX_SEND_BUFFER_BYTES)?)
}

/// The kind of the error when this process, or the system, has as many files open as it may.
pub const OUT_OF_FILES: ErrorKind = ErrorKind::QuotaExceeded;

static PLACE: OnceLock<fn(OwnedFd) -> OwnedFd> = OnceLock::new();

/// Has each socket that connects be given another descriptor, by a program in which numbers matter. Answers false if that
/// was said before, and then does nothing.
pub fn place_sockets(place: fn(OwnedFd) -> OwnedFd) -> bool {
    PLACE.set(place).is_ok()
}

fn placed(socket: OwnedFd) -> OwnedFd {
    match PLACE.get() {
        Some(place) => place(socket),
        None => socket,
    }
}

fn connect_tcp(host: &str, port: u16, wait: &Wait<'_>) -> io::Result<TcpStream> {
    let mut last_error = None;
    for candidate in (host, port).to_socket_addrs()? {
        match connect_to(&candidate, wait) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => last_error = Some(error),
        }
    }
    Err(last_error
        .unwrap_or_else(|| io::Error::new(ErrorKind::NotFound, "the name has no address")))
}

fn connect_to(candidate: &SocketAddr, wait: &Wait<'_>) -> io::Result<TcpStream> {
    let family = match candidate {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = placed(net::socket_with(family, SocketType::STREAM, flags, None)?);
    match net::connect(&socket, candidate) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            loop {
                let step = Timespec::try_from(wait.step()?).ok();
                match poll(&mut [PollFd::new(&socket, PollFlags::OUT)], step.as_ref()) {
                    Ok(0) => wait.go_on()?,
                    Ok(_) => break,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// A blocking `connect` waits for room in the listener's queue, for ever in std. On Linux the time
/// limit for sending bounds that wait.
fn connect_unix(path: &Path, wait: &Wait<'_>) -> io::Result<UnixStream> {
    let peer = SocketAddrUnix::new(path)?;
    let socket = placed(net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?);
    loop {
        set_socket_timeout(&socket, Timeout::Send, Some(wait.step()?))?;
        match net::connect(&socket, &peer) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait.go_on()?,
            Err(error) => return Err(error.into()),
        }
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    let stream = UnixStream::from(socket);
    make_room(&stream)?;
    Ok(stream)
}

fn in_context(error: io::Error, doing: &str, address: &Address) -> io::Error {
    let code = error.raw_os_error();
    let out_of_files = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    let kind = if out_of_files.contains(&code) {
        OUT_OF_FILES
    } else {
        error.kind()
    };
    io::Error::new(kind, format!("cannot {doing} {address}: {error}"))
}

impl Stream {
    /// Part that checksums cover of frames with much file data: both ends know by the kind of
    /// socket.
    pub fn covered(&self) -> Covered {
        match self {
            Stream::Tcp(_) => Covered::All,
            Stream::Unix(_) => Covered::AllButTail,
        }
    }

    /// From where the peer is connected; `None` on a Unix socket, and when the connection is gone.
    pub fn peer_ip(&self) -> Option<IpAddr> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok().map(|peer| peer.ip().to_canonical()),
            Stream::Unix(_) => None,
        }
    }

    /// The effective user of the program that connected a Unix socket; `None` of TCP, which does not tell.
    ///
    /// # Errors
    /// The system's.
    pub fn peer_user(&self) -> io::Result<Option<u32>> {
        match self {
            Stream::Tcp(_) => Ok(None),
            Stream::Unix(stream) => Ok(Some(socket_peercred(stream)?.uid.as_raw())),
        }
    }

    /// The process that connected a Unix socket; `None` of TCP, which does not tell, and of one that this process
    /// does not see.
    pub fn peer_process(&self) -> Option<i32> {
        match self {
            Stream::Tcp(_) => None,
            Stream::Unix(stream) => {
                let peer = socket_peercred(stream).ok()?;
                Some(peer.pid.as_raw_nonzero().get()).filter(|&pid| pid > 0)
            }
        }
    }

    /// Reads once into the room that `bytes` has left, and no more; how many bytes that were.
    ///
    /// # Errors
    /// The system's.
    pub fn read_onto(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        Ok(rustix::io::read(self.as_fd(), spare_capacity(bytes))?)
    }

    /// Whether small writes leave at once; means nothing for Unix sockets, where all do.
    ///
    /// # Errors
    /// The system's.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nodelay(nodelay),
            Stream::Unix(_) => Ok(()),
        }
    }

    /// How long a blocking read waits before it fails with `WouldBlock`; `None` is for ever.
    ///
    /// # Errors
    /// The system's; `InvalidInput` for a limit of 0.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(limit),
            Stream::Unix(stream) => stream.set_read_timeout(limit),
        }
    }

    /// Waits until a blocking read will not, on a Unix socket; returns at once on any other.
    ///
    /// To be called where the peer has to act before there is anything to read. Linux wakes a thread in a
    /// blocking read of a Unix socket also when the peer takes what was sent (`unix_write_space` knows
    /// one queue for all who wait): it finds nothing and goes to sleep again, and each request costs two
    /// more switches of the processor. One in `poll` is not woken for that.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing after `limit`, as from a read with such a limit; the system's.
    pub fn await_input(&self, limit: Duration) -> io::Result<()> {
        let Stream::Unix(stream) = self else {
            return Ok(());
        };
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            // A limit beyond what the system counts is as good as none.
            let timeout = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(stream, PollFlags::IN)], timeout.as_ref()) {
                Ok(0) => return Err(ErrorKind::WouldBlock.into()),
                // Also after an error or the end, which the read will tell.
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether there is something to read, or the end.
    pub fn has_input(&self) -> bool {
        self.has_input_within(Duration::ZERO)
    }

    /// Whether there is, within about this time.
    pub fn has_input_within(&self, limit: Duration) -> bool {
        let fd = match self {
            Stream::Tcp(stream) => PollFd::new(stream, PollFlags::IN),
            Stream::Unix(stream) => PollFd::new(stream, PollFlags::IN),
        };
        // A limit beyond what the system counts is as good as none.
        let limit = Timespec::try_from(limit).ok();
        poll(&mut [fd], limit.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// How long a blocking write waits before it fails with `WouldBlock`; `None` is for ever.
    ///
    /// # Errors
    /// The system's; `InvalidInput` for a limit of 0.
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_write_timeout(limit),
            Stream::Unix(stream) => stream.set_write_timeout(limit),
        }
    }

    /// Whether reads and writes fail with `WouldBlock` where they would wait.
    ///
    /// # Errors
    /// The system's.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(nonblocking),
            Stream::Unix(stream) => stream.set_nonblocking(nonblocking),
        }
    }

    /// Another handle of the same connection, for a second thread.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
        })
    }

    /// Ends one or both directions, for all handles; a thread that waits in a read sees the end of
    /// the stream.
    ///
    /// # Errors
    /// The system's.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(room),
            Stream::Unix(stream) => stream.read(room),
        }
    }
}

/// A program that is not Rust's, and uses the client library, has not ignored SIGPIPE, which `writev` would send it
/// when the peer is gone.
impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(net::send(self.as_fd(), bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut nothing_else = SendAncillaryBuffer::default();
        let flags = SendFlags::NOSIGNAL;
        Ok(net::sendmsg(self.as_fd(), parts, &mut nothing_else, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// A socket that takes connections.
#[derive(Debug)]
pub enum Listener {
    /// Across machines.
    Tcp(TcpListener),
    /// On one machine.
    Unix(UnixListener),
}

impl Listener {
    /// Listens on `address`, with a queue of [`LISTEN_BACKLOG`] connections. A Unix socket's file is
    /// made, and stays when the listener is dropped; one left behind by a process that is gone is
    /// replaced. Beside it stays an empty `PATH.lock`.
    ///
    /// # Errors
    /// The system's, with the address in the message. `AddrInUse` when a process listens there, or
    /// when the path is taken by something that is not a socket; nothing is removed then.
    pub fn bind(address: &Address) -> io::Result<Listener> {
        let bound = match address {
            Address::Tcp { host, port } => {
                TcpListener::bind((host.as_str(), *port)).map(Listener::Tcp)
            }
            Address::Unix(path) => bind_unix(path).map(Listener::Unix),
        };
        bound
            .and_then(|listener| {
                // std asks for a queue of 128, too short for all clients that come back at once
                // after a restart. Listening again only changes the length.
                net::listen(&listener, LISTEN_BACKLOG)?;
                Ok(listener)
            })
            .map_err(|error| in_context(error, "listen on", address))
    }

    /// Takes the next connection, which is a blocking one, whether or not the listener is.
    ///
    /// # Errors
    /// The system's: `WouldBlock` from a non-blocking listener with no connection waiting.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                make_room(&stream)?;
                Ok(Stream::Unix(stream))
            }
        }
    }

    /// The address it listens on, with the port the system chose where port 0 was asked for.
    ///
    /// # Errors
    /// The system's.
    pub fn local_address(&self) -> io::Result<Address> {
        match self {
            Listener::Tcp(listener) => {
                let local = listener.local_addr()?;
                Ok(Address::Tcp {
                    host: local.ip().to_string(),
                    port: local.port(),
                })
            }
            Listener::Unix(listener) => {
                let local = listener.local_addr()?;
                let path = local.as_pathname().ok_or(ErrorKind::AddrNotAvailable)?;
                Ok(Address::Unix(path.to_owned()))
            }
        }
    }

    /// Whether `accept` fails with `WouldBlock` where it would wait.
    ///
    /// # Errors
    /// The system's.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.set_nonblocking(nonblocking),
            Listener::Unix(listener) => listener.set_nonblocking(nonblocking),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    // Without the lock: A and B both find the file stale; A removes it and listens; B removes A's new
    // file and listens too. A then waits for connections that no client can make.
    let lock = File::create(lock_path(path))?;
    lock.lock()?;
    match listen_at(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {}
        bound => return bound,
    }
    let kind = fs::symlink_metadata(path)?.file_type();
    if !kind.is_socket() {
        return Err(io::Error::new(
            ErrorKind::AddrInUse,
            "the path is taken, and not by a socket",
        ));
    }
    let begun = Instant::now();
    let probe = Wait {
        begun,
        deadline: begun + PROBE_TIMEOUT,
        interval: PROBE_TIMEOUT,
        goes_on: &|_| true,
    };
    match connect_unix(path, &probe) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        Err(error) if error.kind() != ErrorKind::TimedOut => return Err(error),
        Ok(_) | Err(_) => {
            return Err(io::Error::new(
                ErrorKind::AddrInUse,
                "another process listens there",
            ));
        }
    }
    fs::remove_file(path)?;
    listen_at(path)
}

/// A socket that none but its owner (and root) may connect to, whatever the umask: nobody can before it listens, and by then
/// it has its mode.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    net::listen(&socket, LISTEN_BACKLOG)?;
    Ok(UnixListener::from(socket))
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}
