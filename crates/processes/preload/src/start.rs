//! The start of a program: what the environment says, and the patches.

use crate::complain::{self, About};
use crate::cwd;
use crate::entry;
use crate::exec;
use crate::fds;
use crate::fork;
use crate::mounts;
use crate::patch;
use crate::route::Prefix;
use crate::session::{self, Config};
use crate::sys;
use std::ffi::{OsStr, OsString};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The path below which the file system is; the mount's if it is not set.
const PREFIX: &str = "PANDOFS_PRELOAD_PREFIX";
/// Set to 1: prints at the end which calls went where.
const REPORT: &str = "PANDOFS_PRELOAD_REPORT";
/// Milliseconds for which a call waits for a server that does not answer.
const TIMEOUT: &str = "PANDOFS_PRELOAD_TIMEOUT_MS";
/// Bytes for what is remembered.
const CACHE: &str = "PANDOFS_PRELOAD_CACHE_BYTES";
/// Those of the command: the cluster map or addresses of servers, and the directory of a cluster made by `up`.
const CLUSTER: &str = "PANDOFS_CLUSTER";
const DATA: &str = "PANDOFS_DATA";

/// Called by the dynamic loader before the program begins.
pub(crate) extern "C" fn start() {
    // A panic would end the program.
    let started = std::panic::catch_unwind(begin);
    if let Ok(Err(words)) | Err(words) = started.map_err(|_| "it does not start".to_owned()) {
        complain::once(
            About::Start,
            &format!("{words}; all paths are the kernel's"),
        );
    }
}

fn begin() -> Result<(), String> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
    let inherited = variable(exec::STATE);
    let _inside = crate::guard::enter();
    let mounted = mounts::pandofs();
    let prefix = match variable(PREFIX) {
        Some(prefix) => prefix.into_vec(),
        None => match &mounted[..] {
            [] => return Err(format!("{PREFIX} is not set, and nothing is mounted")),
            [mount] => mount.point.clone(),
            _ => {
                return Err(format!(
                    "several file systems are mounted: {PREFIX} says which"
                ));
            }
        },
    };
    let words = format!("{PREFIX} is to be an absolute path other than /, without '..'");
    let prefix = Prefix::new(&prefix).ok_or(words)?;
    let mount = mounted.iter().rfind(|mount| mount.point == prefix.path());
    let cluster = match (variable(CLUSTER), variable(DATA), mount) {
        (Some(cluster), ..) => absolute(cluster),
        (_, Some(data), _) => map_of(absolute(data)),
        (_, _, Some(mount)) => map_of(mount.source.clone()),
        _ => return Err(format!("which file system? Set {CLUSTER} or {DATA}")),
    };
    let config = Config {
        is_mounted: mount.is_some(),
        prefix,
        cluster,
        timeout_ms: session::timeout_ms(text(TIMEOUT).as_deref()),
        cache_bytes: session::cache_bytes(text(CACHE).as_deref()),
        report: variable(REPORT).is_some_and(|value| value == "1"),
    };
    let umask = sys::call3(libc::SYS_umask, 0o77, 0, 0);
    sys::call3(libc::SYS_umask, umask as usize, 0, 0);
    session::set_umask(umask as u32);
    if !fork::begin() {
        return Err("the C library has no room to tell of new processes".to_owned());
    }
    patch::patch(entry::address())?;
    pandofs_client::place_sockets(|socket| {
        let fd = fds::make_own(socket.into_raw_fd());
        // SAFETY: it is the socket's, and nobody else's.
        unsafe { OwnedFd::from_raw_fd(fd) }
    });
    if config.report && !inherits_standard_error(inherited.as_deref()) {
        complain::keep_standard_error();
    }
    session::configure(config);
    if let Some(value) = inherited {
        exec::inherit(&value.into_vec());
        let name = std::ffi::CString::new(exec::STATE).unwrap_or_default();
        // SAFETY: the program has one thread, which is here.
        unsafe { libc::unsetenv(name.as_ptr()) };
    } else {
        cwd::begin();
    }
    Ok(())
}

/// Whether the standard error is a file of the file system.
fn inherits_standard_error(state: Option<&OsStr>) -> bool {
    let fds = state.and_then(|state| state.as_bytes().split(|&byte| byte == b':').next());
    fds.is_some_and(|fds| fds.split(|&byte| byte == b',').any(|fd| fd == b"2"))
}

/// The path from the root on: the program may change its directory before it is needed.
fn absolute(text: OsString) -> Vec<u8> {
    if pandofs_handles::is_address(text.as_encoded_bytes()) {
        return text.into_vec();
    }
    let path = PathBuf::from(text);
    std::path::absolute(&path)
        .unwrap_or(path)
        .into_os_string()
        .into_vec()
}

/// The cluster map that a path names: itself, or the one in the directory of a cluster made by `up`.
fn map_of(source: Vec<u8>) -> Vec<u8> {
    let path = PathBuf::from(OsString::from_vec(source));
    match Path::is_dir(&path) {
        true => path.join("cluster.json"),
        false => path,
    }
    .into_os_string()
    .into_vec()
}
