//! The process's session with the file system, which begins when it is first needed, and its caller.

use crate::complain::{self, About};
use crate::route::Prefix;
use crate::sys;
use pandofs_client::Client;
use pandofs_handles::{DEFAULT_CACHE_BYTES, DEFAULT_TIMEOUT_MS};
use pandofs_types::Credentials;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Configuration, from the environment.
#[derive(Debug)]
pub(crate) struct Config {
    pub prefix: Prefix,
    /// The path of the cluster map, or addresses of servers.
    pub cluster: Vec<u8>,
    /// Milliseconds for which a call waits for a server that does not answer.
    pub timeout_ms: u32,
    /// Bytes for what is remembered; with 0 nothing is leased.
    pub cache_bytes: u64,
    /// Prints at the end which calls went where.
    pub report: bool,
    /// The file system is mounted at the prefix.
    pub is_mounted: bool,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub client: Client,
}

static CONFIG: OnceLock<Config> = OnceLock::new();
static SESSION: Mutex<Option<Arc<Session>>> = Mutex::new(None);
static IS_BEGUN: AtomicBool = AtomicBool::new(false);
/// Number of changes of a thread's user or groups. The C library has all threads do that, but the kernel knows of threads
/// alone, and some programs have each of theirs act as another user.
static CALLER_CHANGES: AtomicU64 = AtomicU64::new(0);
static UMASK: AtomicU32 = AtomicU32::new(0);

/// Sets what the environment says.
pub(crate) fn configure(config: Config) -> Option<&'static Config> {
    CONFIG.set(config).ok()?;
    CONFIG.get()
}

/// The configuration; `None` before the environment was read, or if it names no file system.
pub(crate) fn config() -> Option<&'static Config> {
    CONFIG.get()
}

/// The milliseconds that a call waits, as the environment has them.
pub(crate) fn timeout_ms(text: Option<&str>) -> u32 {
    text.and_then(|text| text.parse().ok())
        .unwrap_or(DEFAULT_TIMEOUT_MS)
}

/// The bytes for what is remembered, as the environment has them.
pub(crate) fn cache_bytes(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok())
        .unwrap_or(DEFAULT_CACHE_BYTES)
}

/// Returns whether there is a session.
pub(crate) fn is_begun() -> bool {
    IS_BEGUN.load(Ordering::Acquire)
}

/// Takes the session away, to end it or to leave it to the process that has it.
pub(crate) fn take(session: &mut Option<Arc<Session>>) -> Option<Arc<Session>> {
    IS_BEGUN.store(false, Ordering::Release);
    session.take()
}

/// The session's lock.
pub(crate) fn lock() -> MutexGuard<'static, Option<Arc<Session>>> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The session, which begins if there is none.
///
/// # Errors
/// `EIO` when the servers cannot be reached.
pub(crate) fn get() -> Result<Arc<Session>, i32> {
    let mut session = lock();
    if let Some(session) = &*session {
        return Ok(Arc::clone(session));
    }
    let config = config().ok_or(libc::EIO)?;
    match pandofs_handles::connect(&config.cluster, config.timeout_ms, config.cache_bytes) {
        Ok(client) => {
            IS_BEGUN.store(true, Ordering::Release);
            Ok(Arc::clone(session.insert(Arc::new(Session { client }))))
        }
        Err(error) => {
            let prefix = String::from_utf8_lossy(config.prefix.path());
            complain::once(
                About::Connection,
                &format!("{prefix} cannot be reached: {error}"),
            );
            Err(libc::EIO)
        }
    }
}

thread_local! {
    /// The thread as a caller, and how often any had changed before it was asked for.
    static CALLER: Cell<Option<(u64, Arc<Credentials>)>> = const { Cell::new(None) };
}

/// The thread as a caller.
///
/// # Errors
/// `EIO` when its groups are not known.
pub(crate) fn caller() -> Result<Arc<Credentials>, i32> {
    // First: what is found before a change is done is not kept behind it.
    let changes = CALLER_CHANGES.load(Ordering::Acquire);
    // At a thread's end there is nothing any more to remember it by.
    let known = CALLER.try_with(Cell::take).ok().flatten();
    let caller = match known {
        Some((before, caller)) if before == changes => caller,
        _ => Arc::new(thread_caller()?),
    };
    let _ = CALLER.try_with(|known| known.set(Some((changes, Arc::clone(&caller)))));
    Ok(caller)
}

/// The thread as a caller with its real user and group.
///
/// # Errors
/// `EIO` when its groups are not known.
pub(crate) fn real_caller() -> Result<Arc<Credentials>, i32> {
    let caller = caller()?;
    let id = |number: i64| sys::call3(number, 0, 0, 0) as u32;
    let (user, group) = (id(libc::SYS_getuid), id(libc::SYS_getgid));
    if (caller.uid, caller.gid) == (user, group) {
        return Ok(caller);
    }
    let groups = caller.groups.clone();
    Ok(Arc::new(pandofs_handles::caller(user, group, groups)))
}

/// The thread as the kernel has it, with its user and group for the file system.
fn thread_caller() -> Result<Credentials, i32> {
    let own = pandofs_handles::own_caller().ok_or(libc::EIO)?;
    // A number that is no user's changes nothing, and the answer is the one that it is.
    let id = |number: i64| sys::call3(number, usize::MAX, 0, 0) as u32;
    let (user, group) = (id(libc::SYS_setfsuid), id(libc::SYS_setfsgid));
    Ok(pandofs_handles::caller(user, group, own.groups))
}

/// A thread has changed its user or groups.
pub(crate) fn changed_caller() {
    CALLER_CHANGES.fetch_add(1, Ordering::AcqRel);
}

/// The process's umask.
pub(crate) fn umask() -> u16 {
    UMASK.load(Ordering::Relaxed) as u16
}

/// The process sets its umask.
pub(crate) fn set_umask(umask: u32) {
    UMASK.store(umask & 0o777, Ordering::Relaxed);
}
