//! A directory of a mounted file system as a subject, through system calls.
//!
//! Each caller has a thread of its own, which took on the caller's user and groups with raw system
//! calls: unlike those of the C library they change one thread and not the whole process.

use crate::op::{Answer, Failure, HandleId, Op, Outcome, Path, Special, Stat, Step, XattrMode};
use crate::op::{callers, filling};
use crate::subject::{Subject, Traits};
use pandofs_api::Allocation;
use pandofs_types::{Capabilities, Credentials, FileKind, FsError, SetTime, Time};
use rustix::fs::{
    AtFlags, Dir, FallocateFlags, FileType, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid,
    XattrFlags,
};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities};
use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

/// Numbers the directories that subjects work in.
static SUBJECTS: AtomicU64 = AtomicU64::new(0);

/// A new directory of a mounted file system.
pub struct Mounted {
    workers: Vec<Worker>,
    traits: Traits,
}

struct Worker {
    steps: Sender<Step>,
    outcomes: Receiver<Outcome>,
    thread: JoinHandle<()>,
}

/// State that the threads of one subject share.
struct Shared {
    root: OwnedFd,
    handles: Mutex<HashMap<HandleId, OwnedFd>>,
}

impl Mounted {
    /// Works in a new directory below `place`. Callers that this process may not act for are left out
    /// of `traits`. Takes away the process's umask.
    ///
    /// # Panics
    /// Panics if the directory cannot be made.
    pub fn new(place: &std::path::Path, mut traits: Traits) -> Mounted {
        rustix::process::umask(Mode::empty());
        if !rustix::process::geteuid().is_root() {
            // Then the only caller there is is not the superuser, which the tests need.
            panic!("acting for several users takes the superuser");
        }
        traits.protected_hardlinks = std::fs::read("/proc/sys/fs/protected_hardlinks")
            .is_ok_and(|text| text.starts_with(b"1"));
        let number = SUBJECTS.fetch_add(1, Ordering::Relaxed);
        let path: PathBuf = place.join(format!("tree-{}-{number}", std::process::id()));
        rustix::fs::mkdir(&path, Mode::from_raw_mode(0o777)).expect("a directory can be made");
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&path, flags, Mode::empty()).expect("it can be opened");
        let shared = Arc::new(Shared {
            root,
            handles: Mutex::new(HashMap::new()),
        });
        // Not every local file system does.
        let unnamed = shared.unnamed(&Path::ROOT, mode_of(0o600), false);
        traits.makes_unnamed &= unnamed.is_ok();
        traits.makes_whiteouts &= makes_whiteouts(&shared.root);
        let callers = callers().into_iter().take(traits.callers);
        let workers = callers
            .map(|caller| Worker::start(caller, Arc::clone(&shared)))
            .collect();
        Mounted { workers, traits }
    }
}

fn makes_whiteouts(root: &OwnedFd) -> bool {
    let (from, to) = ("white-out", "renamed");
    let mode = Mode::from_raw_mode(0o600);
    let made = rustix::fs::openat(root, from, OFlags::CREATE | OFlags::WRONLY, mode);
    made.expect("a file can be made");
    let renamed =
        rustix::fs::renameat_with(root, from, root, to, rustix::fs::RenameFlags::WHITEOUT);
    let _ = rustix::fs::unlinkat(root, to, AtFlags::empty());
    rustix::fs::unlinkat(root, from, AtFlags::empty()).expect("what was made can be removed");
    renamed.is_ok()
}

impl Drop for Mounted {
    /// Waits until nothing of the mount is open any more, so that it can be unmounted.
    fn drop(&mut self) {
        for worker in self.workers.drain(..) {
            drop(worker.steps);
            // If it panicked, it said so.
            let _ = worker.thread.join();
        }
    }
}

impl Subject for Mounted {
    fn run(&mut self, step: &Step) -> Outcome {
        let worker = &self.workers[step.caller];
        let gone = |_| Failure::Other("the caller's thread is gone".to_owned());
        worker.steps.send(step.clone()).map_err(|_| gone(()))?;
        worker.outcomes.recv().map_err(|_| gone(()))?
    }

    fn now(&mut self) -> Time {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("it is after 1970");
        Time(now.as_nanos() as i64)
    }

    fn traits(&self) -> Traits {
        self.traits.clone()
    }
}

impl Worker {
    fn start(caller: Credentials, shared: Arc<Shared>) -> Worker {
        let (steps, work) = channel::<Step>();
        let (done, outcomes) = channel();
        let run = move || {
            become_caller(&caller);
            for step in work {
                if done.send(shared.run(&step.op)).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new()
            .name("caller".to_owned())
            .spawn(run)
            .expect("a thread can be made");
        Worker {
            steps,
            outcomes,
            thread,
        }
    }
}

/// Gives the calling thread, and no other, these rights for good. The superuser keeps what it has.
fn become_caller(caller: &Credentials) {
    let call = |name: &str, result: libc::c_long| {
        assert!(
            result == 0,
            "{name} failed: {}",
            std::io::Error::last_os_error()
        );
    };
    let (uid, gid) = (caller.uid, caller.gid);
    let groups = &caller.groups;
    set_keep_capabilities(true).expect("a thread may say what becomes of its capabilities");
    // SAFETY: the pointer is to as many groups as are named, for the length of the call; the system
    // calls only change the rights of this thread.
    unsafe {
        call(
            "setgroups",
            libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()),
        );
        call(
            "setresgid",
            libc::syscall(libc::SYS_setresgid, gid, gid, gid),
        );
        call(
            "setresuid",
            libc::syscall(libc::SYS_setresuid, uid, uid, uid),
        );
    }
    if caller.capabilities != Capabilities::ALL {
        let set = CAPABILITIES
            .into_iter()
            .filter(|(ours, _)| caller.has(*ours))
            .fold(CapabilitySet::empty(), |all, (_, theirs)| all | theirs);
        let sets = CapabilitySets {
            effective: set,
            permitted: set,
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, sets).expect("capabilities can be given up");
    }
}

const CAPABILITIES: [(Capabilities, CapabilitySet); 8] = [
    (Capabilities::CHOWN, CapabilitySet::CHOWN),
    (Capabilities::DAC_OVERRIDE, CapabilitySet::DAC_OVERRIDE),
    (
        Capabilities::DAC_READ_SEARCH,
        CapabilitySet::DAC_READ_SEARCH,
    ),
    (Capabilities::FOWNER, CapabilitySet::FOWNER),
    (Capabilities::FSETID, CapabilitySet::FSETID),
    (Capabilities::MKNOD, CapabilitySet::MKNOD),
    (Capabilities::SYS_ADMIN, CapabilitySet::SYS_ADMIN),
    (Capabilities::SETFCAP, CapabilitySet::SETFCAP),
];

/// The error as one that file systems answer.
fn failure(errno: Errno) -> Failure {
    match fs_error(errno.raw_os_error()) {
        Some(error) => Failure::Fs(error),
        None => Failure::Other(format!("error number {errno}")),
    }
}

/// The error of this number, if file systems answer with it.
pub fn fs_error(errno: i32) -> Option<FsError> {
    const ALL: [FsError; 18] = [
        FsError::NotFound,
        FsError::Exists,
        FsError::NotDir,
        FsError::IsDir,
        FsError::NotEmpty,
        FsError::Access,
        FsError::NotPermitted,
        FsError::Invalid,
        FsError::NameTooLong,
        FsError::TooManyLinks,
        FsError::NoSpace,
        FsError::NoAttribute,
        FsError::TooBig,
        FsError::FileTooBig,
        FsError::Stale,
        FsError::NotSupported,
        FsError::Busy,
        FsError::Io,
    ];
    ALL.into_iter().find(|error| error.errno() == errno)
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Failure {
        failure(errno)
    }
}

/// Relative to the root's descriptor.
fn relative(path: &Path) -> PathBuf {
    let joined = path.0.join(&b'/');
    PathBuf::from(OsStr::from_bytes(if joined.is_empty() {
        b"."
    } else {
        &joined
    }))
}

fn mode_of(mode: u16) -> Mode {
    Mode::from_raw_mode(u32::from(mode))
}

impl Shared {
    fn run(&self, op: &Op) -> Outcome {
        use rustix::fs as sys;
        let root = &self.root;
        match op {
            Op::Create { path, mode, handle } => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
                let file = sys::openat(root, relative(path), flags, mode_of(*mode))?;
                if let Some(handle) = handle {
                    self.keep(*handle, file);
                }
            }
            Op::Mkdir { path, mode } => sys::mkdirat(root, relative(path), mode_of(*mode))?,
            Op::Mknod {
                path,
                special,
                mode,
            } => {
                let (kind, device) = match special {
                    Special::Fifo => (FileType::Fifo, 0),
                    Special::Socket => (FileType::Socket, 0),
                    Special::Char { rdev } => (FileType::CharacterDevice, u64::from(*rdev)),
                };
                sys::mknodat(root, relative(path), kind, mode_of(*mode), device)?;
            }
            Op::Symlink { path, target } => {
                sys::symlinkat(OsStr::from_bytes(&target.0), root, relative(path))?;
            }
            Op::Link { from, to } => {
                sys::linkat(root, relative(from), root, relative(to), AtFlags::empty())?;
            }
            Op::Unlink { path } => sys::unlinkat(root, relative(path), AtFlags::empty())?,
            Op::Rmdir { path } => sys::unlinkat(root, relative(path), AtFlags::REMOVEDIR)?,
            Op::Rename {
                from,
                to,
                no_replace,
                whiteout,
            } => {
                let mut flags = sys::RenameFlags::empty();
                flags.set(sys::RenameFlags::NOREPLACE, *no_replace);
                flags.set(sys::RenameFlags::WHITEOUT, *whiteout);
                sys::renameat_with(root, relative(from), root, relative(to), flags)?;
            }
            Op::Exchange { from, to } => {
                let flags = sys::RenameFlags::EXCHANGE;
                sys::renameat_with(root, relative(from), root, relative(to), flags)?;
            }
            Op::Stat { path } => {
                let stat = sys::statat(root, relative(path), AtFlags::SYMLINK_NOFOLLOW)?;
                return Ok(Answer::Stat(Box::new(stat_of(&stat)?)));
            }
            Op::Chmod { path, mode } => {
                sys::chmodat(root, relative(path), mode_of(*mode), AtFlags::empty())?;
            }
            Op::Chown { path, uid, gid } => {
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                sys::chownat(root, relative(path), uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Op::Truncate { path, size } => self.truncate(path, *size)?,
            Op::SetTimes { path, atime, mtime } => {
                let times = Timestamps {
                    last_access: time_to_set(*atime),
                    last_modification: time_to_set(*mtime),
                };
                sys::utimensat(root, relative(path), &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Op::ReadDir { path } => return self.read_dir(path),
            Op::ReadLink { path } => {
                let target = sys::readlinkat(root, relative(path), Vec::new())?;
                return Ok(Answer::Link(target.into_bytes()));
            }
            Op::SetXattr {
                path,
                name,
                value,
                mode,
            } => {
                let flags = match mode {
                    XattrMode::Either => XattrFlags::empty(),
                    XattrMode::Create => XattrFlags::CREATE,
                    XattrMode::Replace => XattrFlags::REPLACE,
                };
                sys::lsetxattr(
                    self.whole(path),
                    OsStr::from_bytes(&name.0),
                    &value.0,
                    flags,
                )?;
            }
            Op::GetXattr { path, name } => {
                let mut value = vec![0; 1 << 16];
                let name = OsStr::from_bytes(&name.0);
                let length = sys::lgetxattr(self.whole(path), name, &mut value[..])?;
                value.truncate(length);
                return Ok(Answer::Value(value));
            }
            Op::ListXattr { path } => {
                let mut names = vec![0; 1 << 16];
                let length = sys::llistxattr(self.whole(path), &mut names[..])?;
                let names = names[..length].split(|&byte| byte == 0);
                // SELinux labels files by itself.
                let selinux: &[u8] = b"security.selinux";
                let given = names.filter(|name| !name.is_empty() && *name != selinux);
                return Ok(Answer::Names(given.map(<[u8]>::to_vec).collect()));
            }
            Op::RemoveXattr { path, name } => {
                sys::lremovexattr(self.whole(path), OsStr::from_bytes(&name.0))?;
            }
            Op::Open {
                path,
                handle,
                read,
                write,
                truncate,
            } => {
                let mut flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
                flags |= match (read, write) {
                    (true, true) => OFlags::RDWR,
                    (false, true) => OFlags::WRONLY,
                    _ => OFlags::RDONLY,
                };
                if *truncate {
                    flags |= OFlags::TRUNC;
                }
                let file = sys::openat(root, relative(path), flags, Mode::empty())?;
                self.keep(*handle, file);
            }
            Op::CreateUnnamed {
                dir,
                mode,
                handle,
                may_be_named,
            } => {
                let file = self.unnamed(dir, mode_of(*mode), *may_be_named)?;
                self.keep(*handle, file);
            }
            Op::LinkOpen { handle, to } => {
                let handles = self.handles();
                let file = handles.get(handle).ok_or(Errno::BADF)?;
                // By the descriptor alone only the superuser may.
                let from = format!("/proc/self/fd/{}", file.as_raw_fd());
                sys::linkat(sys::CWD, from, root, relative(to), AtFlags::SYMLINK_FOLLOW)?;
            }
            Op::Close { handle } => {
                let file = self.handles().remove(handle).ok_or(Errno::BADF)?;
                drop(file);
            }
            _ => {
                let handle = op
                    .handle()
                    .unwrap_or_else(|| unreachable!("{op:?} has a handle"));
                let handles = self.handles();
                let file = handles.get(&handle).ok_or(Errno::BADF)?;
                return run_on_file(file, op);
            }
        }
        Ok(Answer::Done)
    }

    fn handles(&self) -> std::sync::MutexGuard<'_, HashMap<HandleId, OwnedFd>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, handle: HandleId, file: OwnedFd) {
        let before = self.handles().insert(handle, file);
        assert!(before.is_none(), "handle {handle} was open");
    }

    fn unnamed(&self, dir: &Path, mode: Mode, may_be_named: bool) -> Result<OwnedFd, Errno> {
        let mut flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        if !may_be_named {
            flags |= OFlags::EXCL;
        }
        rustix::fs::openat(&self.root, relative(dir), flags, mode)
    }

    /// A path for the calls that take no directory's descriptor. A caller that may not search the
    /// directories above the root may still go through this one.
    fn whole(&self, path: &Path) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.root.as_raw_fd())).join(relative(path))
    }

    fn truncate(&self, path: &Path, size: u64) -> Result<(), Failure> {
        let path = CString::new(self.whole(path).into_os_string().into_encoded_bytes())
            .map_err(|_| Failure::Other("a NUL in a path".to_owned()))?;
        // SAFETY: the path is a NUL-terminated string that lives through the call.
        let result = unsafe { libc::truncate(path.as_ptr(), size as libc::off_t) };
        if result == 0 {
            return Ok(());
        }
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Err(failure(Errno::from_raw_os_error(errno)))
    }

    fn read_dir(&self, path: &Path) -> Outcome {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = rustix::fs::openat(&self.root, relative(path), flags, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in Dir::new(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let kind = kind_of(entry.file_type())
                    .ok_or_else(|| Failure::Other("an entry without a type".to_owned()))?;
                entries.push((name.to_vec(), kind));
            }
        }
        Ok(Answer::Entries(entries))
    }
}

fn run_on_file(file: &OwnedFd, op: &Op) -> Outcome {
    match op {
        Op::Read { offset, length, .. } => {
            let mut data = vec![0; *length as usize];
            let mut filled = 0;
            while filled < data.len() {
                let got = rustix::io::pread(file, &mut data[filled..], offset + filled as u64)?;
                if got == 0 {
                    break;
                }
                filled += got;
            }
            data.truncate(filled);
            return Ok(Answer::Data(data));
        }
        Op::Write {
            offset,
            length,
            fill,
            ..
        } => {
            let data = filling(*fill, *length);
            let mut written = 0;
            while written < data.len() {
                written += rustix::io::pwrite(file, &data[written..], offset + written as u64)?;
            }
        }
        Op::SetSize { size, .. } => rustix::fs::ftruncate(file, *size)?,
        Op::StatOpen { .. } => {
            return Ok(Answer::Stat(Box::new(stat_of(&rustix::fs::fstat(file)?)?)));
        }
        Op::Sync { .. } => rustix::fs::fsync(file)?,
        Op::Allocate {
            offset,
            length,
            allocation,
            ..
        } => {
            let keep = |keep_size| {
                if keep_size {
                    FallocateFlags::KEEP_SIZE
                } else {
                    FallocateFlags::empty()
                }
            };
            let flags = match *allocation {
                Allocation::Reserve { keep_size } => keep(keep_size),
                Allocation::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                Allocation::Zero { keep_size } => FallocateFlags::ZERO_RANGE | keep(keep_size),
            };
            rustix::fs::fallocate(file, flags, *offset, *length)?;
        }
        Op::Seek { offset, data, .. } => {
            let from = if *data {
                SeekFrom::Data(*offset)
            } else {
                SeekFrom::Hole(*offset)
            };
            return match rustix::fs::seek(file, from) {
                Ok(found) => Ok(Answer::Found(Some(found))),
                Err(Errno::NXIO) => Ok(Answer::Found(None)),
                Err(error) => Err(error.into()),
            };
        }
        Op::Append { length, fill, .. } => append(file, &filling(*fill, *length))?,
        _ => unreachable!("{op:?} is no operation on an open file"),
    }
    Ok(Answer::Done)
}

/// Through a further open of the same file with `O_APPEND`; a caller that lost the right to open it
/// sets the flag for the while.
fn append(file: &OwnedFd, data: &[u8]) -> Result<(), Failure> {
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
    match rustix::fs::open(&again, flags, Mode::empty()) {
        Ok(appending) => write_all(&appending, data),
        Err(Errno::ACCESS) => {
            let before = rustix::fs::fcntl_getfl(file)?;
            rustix::fs::fcntl_setfl(file, before | OFlags::APPEND)?;
            let done = write_all(file, data);
            rustix::fs::fcntl_setfl(file, before)?;
            done
        }
        Err(error) => Err(error.into()),
    }
}

fn write_all(file: &OwnedFd, data: &[u8]) -> Result<(), Failure> {
    let mut written = 0;
    while written < data.len() {
        written += rustix::io::write(file, &data[written..])?;
    }
    Ok(())
}

fn time_to_set(time: Option<SetTime>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, rustix::fs::UTIME_OMIT),
        Some(SetTime::Now) => (0, rustix::fs::UTIME_NOW),
        Some(SetTime::At(Time(time))) => (
            time.div_euclid(1_000_000_000),
            time.rem_euclid(1_000_000_000),
        ),
    };
    Timespec { tv_sec, tv_nsec }
}

fn kind_of(file_type: FileType) -> Option<FileKind> {
    Some(match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::Char,
        FileType::BlockDevice => FileKind::Block,
        FileType::Unknown => return None,
    })
}

fn stat_of(stat: &rustix::fs::Stat) -> Result<Stat, Failure> {
    let kind = kind_of(FileType::from_raw_mode(stat.st_mode))
        .ok_or_else(|| Failure::Other(format!("a mode without a type: {:#o}", stat.st_mode)))?;
    let time = |seconds: i64, nanoseconds: u64| Time(seconds * 1_000_000_000 + nanoseconds as i64);
    Ok(Stat {
        ino: stat.st_ino,
        kind,
        mode: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        size: stat.st_size as u64,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
    })
}
