//! The hook: each system call of the C library that may be about the file system comes by here.

use crate::at::Path;
use crate::attributes::{self, Subject, XattrCall};
use crate::calls::{self, Shape};
use crate::complain::{self, About};
use crate::cwd;
use crate::dirs;
use crate::entry::{Context, SYSCALL_BYTES};
use crate::exec::{self, Exec};
use crate::fds;
use crate::files::{self, Offset};
use crate::fork;
use crate::guard;
use crate::locks;
use crate::mapping;
use crate::memory;
use crate::names;
use crate::open;
use crate::session;
use crate::sys::{self, Args};
use std::panic::{AssertUnwindSafe, catch_unwind};

const CWD: usize = libc::AT_FDCWD as usize;
const NO_FOLLOW: usize = libc::AT_SYMLINK_NOFOLLOW as usize;

/// Takes a system call: either answers it, or has the kernel do so.
///
/// # Safety
/// `context` is the one that the entry has just filled in, on this thread's stack.
// SAFETY: the entry's to keep, as said above.
pub(crate) unsafe extern "C" fn hook(context: *mut Context) {
    // SAFETY: as said above.
    let context = unsafe { &mut *context };
    context.next = context.behind - SYSCALL_BYTES;
    let (number, args) = (context.rax, context.args);
    let Some(entry) = calls::entry(number) else {
        return;
    };
    if guard::is_inside(context) {
        if let Some(answer) = inside(entry.number, args) {
            done(context, answer);
        }
        return;
    }
    if changes_caller(entry.number) {
        // Made here, since what is found until it is done is still the user before.
        let answer = sys::call(entry.number, args);
        session::changed_caller();
        calls::count(number, false);
        done(context, answer);
        return;
    }
    if session::config().is_none() || !concerns(entry.number, entry.shape, args) {
        calls::count(number, false);
        return;
    }
    let answer = {
        let _inside = guard::enter();
        // State that a panic leaves half done is the client library's, whose locks know no poison, or under a lock of
        // ours, which knows none either.
        let answer = catch_unwind(AssertUnwindSafe(|| serve(entry.number, args, context)));
        answer.unwrap_or(Err(libc::EIO))
    };
    let answer = match answer {
        Ok(None) => {
            calls::count(number, false);
            return;
        }
        Ok(Some(answer)) => answer,
        Err(error) => -error as isize,
    };
    calls::count(number, true);
    done(context, answer);
}

fn done(context: &mut Context, answer: isize) {
    context.rax = answer as usize;
    context.next = context.behind;
}

/// Whether the call changes the user or groups.
fn changes_caller(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setgroups
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setfsuid
            | libc::SYS_setfsgid
    )
}

/// A system call of this library: its own descriptors are to be out of the way, and its threads to be known.
fn inside(number: i64, args: Args) -> Option<isize> {
    match number {
        libc::SYS_socket | libc::SYS_accept4 | libc::SYS_eventfd2 | libc::SYS_epoll_create1 => {
            let fd = sys::call(number, args);
            Some(match i32::try_from(fd) {
                Ok(fd) if fd >= 0 => fds::make_own(fd) as isize,
                _ => fd,
            })
        }
        libc::SYS_fcntl
            if args[1] as i32 == libc::F_DUPFD_CLOEXEC && fds::is_own(args[0] as i32) =>
        {
            let least = args[2].max(fds::own_base() as usize);
            let fd = sys::call3(number, args[0], args[1], least);
            Some(match fd {
                0.. => fds::make_own(fd as i32) as isize,
                error => error,
            })
        }
        libc::SYS_close => {
            fds::forget_own(args[0] as i32);
            None
        }
        libc::SYS_clone | libc::SYS_clone3 => {
            fork::begins_inside(number, args);
            None
        }
        _ => None,
    }
}

/// Whether the call may be about the file system. Nothing is allocated or locked to tell: the C library makes system calls
/// in the middle of allocating, too.
fn concerns(number: i64, shape: Shape, args: Args) -> bool {
    let fd = |index: usize| {
        let fd = args[index] as i32;
        fds::is_ours(fd) || fds::is_own(fd)
    };
    let path = |dir: usize, text: usize| Path::new(dir, text).is_some_and(Path::may_be_ours);
    match shape {
        // Of memory without a file the descriptor says nothing.
        Shape::Fd(_) if number == libc::SYS_mmap && args[3] & libc::MAP_ANONYMOUS as usize != 0 => {
            false
        }
        Shape::Fd(index) => fd(index),
        Shape::Fds(first, second) => fd(first) || fd(second),
        Shape::Path(index) => path(CWD, args[index]),
        Shape::Paths(first, second) => path(CWD, args[first]) || path(CWD, args[second]),
        // A descriptor counts of which the path is empty, too.
        Shape::At(index) => fd(index) || path(args[index], args[index + 1]),
        Shape::Ats(first, second) => {
            let at = |index: usize| fd(index) || path(args[index], args[index + 1]);
            at(first) || at(second)
        }
        Shape::Always => match number {
            libc::SYS_rt_sigaction => {
                guard::handles(args[0], args[1]);
                false
            }
            libc::SYS_umask => {
                attributes::set_umask(args[0]);
                false
            }
            libc::SYS_socket | libc::SYS_accept4 | libc::SYS_eventfd2 | libc::SYS_epoll_create1 => {
                false
            }
            libc::SYS_getcwd => cwd::is_inside(),
            libc::SYS_chdir => cwd::is_inside() || path(CWD, args[0]),
            libc::SYS_fchdir => cwd::is_inside() || fd(0),
            // Threads are the kernel's alone, and begin in the middle of anything.
            libc::SYS_clone if args[0] & libc::CLONE_THREAD as usize != 0 => false,
            libc::SYS_clone3 => {
                let flags: Option<u64> = memory::get(args[0]);
                flags.is_some_and(|flags| flags & libc::CLONE_THREAD as u64 == 0)
            }
            _ => true,
        },
    }
}

type Answer = Result<Option<isize>, i32>;

/// Answers a call; `None` if it is the kernel's as it is.
fn serve(number: i64, args: Args, context: &mut Context) -> Answer {
    let [a, b, c, d, e, _] = args;
    match number {
        libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => {
            Ok(fork::fork(number, args, context))
        }
        libc::SYS_execve => exec::exec(Exec {
            path: path(CWD, a)?,
            flags: 0,
            arguments: b,
            environment: c,
        }),
        libc::SYS_execveat => exec::exec(Exec {
            path: path(a, b)?,
            flags: e,
            arguments: c,
            environment: d,
        }),
        libc::SYS_exit_group => {
            exec::exit();
            Ok(None)
        }
        libc::SYS_getcwd => cwd::get(a, b),
        libc::SYS_chdir => cwd::change(path(CWD, a)?),
        libc::SYS_fchdir if fds::is_ours(a as i32) => {
            cwd::change_to(&*fds::get(a as i32)?).map(Some)
        }
        libc::SYS_fchdir => Ok(Some(cwd::change_by_kernel(a as i32))),
        libc::SYS_close => open::close(a as i32).map(Some),
        libc::SYS_close_range => open::close_range(a, b, c).map(Some),
        libc::SYS_dup2 => open::duplicate_to(a as i32, b as i32, 0, true).map(Some),
        libc::SYS_dup3 => open::duplicate_to(a as i32, b as i32, c, false).map(Some),
        _ => match calls::entry(number as usize).map(|entry| entry.shape) {
            Some(Shape::Fd(index)) => of_descriptor(number, args, args[index] as i32),
            Some(Shape::Fds(..)) => match number {
                // Programs then read and write by themselves.
                libc::SYS_copy_file_range => Err(libc::EXDEV),
                _ => Err(libc::EINVAL),
            },
            _ => of_path(number, args),
        },
    }
}

fn path<'p>(dir: usize, text: usize) -> Result<Path<'p>, i32> {
    Path::new(dir, text).ok_or(libc::EFAULT)
}

/// A call about an open file.
fn of_descriptor(number: i64, args: Args, fd: i32) -> Answer {
    let [a, b, c, d, e, _] = args;
    if fds::is_own(fd) {
        // Nothing of the program's was there before.
        return Err(libc::EBADF);
    }
    // A file opened with O_PATH is there to be looked at.
    let looks = [
        libc::SYS_dup,
        libc::SYS_fcntl,
        libc::SYS_fstat,
        libc::SYS_fstatfs,
        libc::SYS_epoll_ctl,
    ];
    if fds::get(fd)?.access == 0 && !looks.contains(&number) {
        return Err(libc::EBADF);
    }
    let xattr = |number: i64, rest: [usize; 4]| XattrCall {
        subject: Subject::fd(fd),
        number,
        rest,
    };
    let no_flags = |flags: usize| match flags {
        0 => Ok(()),
        _ => Err(libc::EOPNOTSUPP),
    };
    let at = |offset: usize| match offset {
        usize::MAX => Offset::Own,
        offset => Offset::At(offset),
    };
    match number {
        libc::SYS_read => files::read(fd, b, c, Offset::Own),
        libc::SYS_write => files::write(fd, b, c, Offset::Own),
        libc::SYS_pread64 => files::read(fd, b, c, Offset::At(d)),
        libc::SYS_pwrite64 => files::write(fd, b, c, Offset::At(d)),
        libc::SYS_readv => files::read_buffers(fd, b, c, Offset::Own),
        libc::SYS_writev => files::write_buffers(fd, b, c, Offset::Own),
        libc::SYS_preadv => files::read_buffers(fd, b, c, Offset::At(d)),
        libc::SYS_pwritev => files::write_buffers(fd, b, c, Offset::At(d)),
        libc::SYS_preadv2 => {
            no_flags(args[5])?;
            files::read_buffers(fd, b, c, at(d))
        }
        libc::SYS_pwritev2 => {
            no_flags(args[5])?;
            files::write_buffers(fd, b, c, at(d))
        }
        libc::SYS_lseek => files::seek(fd, b, c),
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_syncfs | libc::SYS_sync_file_range => {
            files::sync(fd)
        }
        libc::SYS_ftruncate => files::truncate(fd, b),
        libc::SYS_fallocate => files::allocate(fd, b, c, d),
        libc::SYS_fadvise64 | libc::SYS_readahead => Ok(0),
        libc::SYS_getdents64 => dirs::list(fd, b, c),
        libc::SYS_flock => locks::flock(fd, b),
        libc::SYS_mmap => mapping::map(args),
        libc::SYS_dup => open::duplicate(fd, false, 0),
        libc::SYS_fcntl => return control(fd, b as i32, c),
        libc::SYS_ioctl => return ioctl(fd, b, c),
        libc::SYS_epoll_ctl => Err(libc::EPERM),
        libc::SYS_fstat => return attributes::get(Subject::fd(fd), b, 0),
        libc::SYS_fstatfs => return attributes::room(Subject::fd(fd), b),
        libc::SYS_fchmod => return attributes::chmod(Subject::fd(fd), b, 0),
        libc::SYS_fchown => return attributes::chown(Subject::fd(fd), b, c, 0),
        libc::SYS_fgetxattr => return xattr(libc::SYS_getxattr, [b, c, d, 0]).get(),
        libc::SYS_flistxattr => return xattr(libc::SYS_listxattr, [b, c, 0, 0]).list(),
        libc::SYS_fsetxattr => return xattr(libc::SYS_setxattr, [b, c, d, e]).set(),
        libc::SYS_fremovexattr => return xattr(libc::SYS_removexattr, [b, 0, 0, 0]).remove(),
        _ => {
            not_done(number, a);
            Err(libc::ENOSYS)
        }
    }
    .map(Some)
}

fn control(fd: i32, command: i32, argument: usize) -> Answer {
    match command {
        libc::F_DUPFD => open::duplicate(fd, false, argument as i32).map(Some),
        libc::F_DUPFD_CLOEXEC => open::duplicate(fd, true, argument as i32).map(Some),
        _ if locks::is_command(command) => locks::control(fd, command, argument).map(Some),
        _ => files::control(fd, command, argument),
    }
}

fn ioctl(fd: i32, request: usize, argument: usize) -> Answer {
    /// `FICLONE`, after which programs copy by themselves.
    const CLONE: usize = 0x4004_9409;
    const CLONE_RANGE: usize = 0x4020_940d;
    const BYTES_LEFT: usize = libc::FIONREAD as usize;
    const FLAG_CLOSE: usize = libc::FIOCLEX as usize;
    const FLAG_KEEP: usize = libc::FIONCLEX as usize;
    match request {
        FLAG_CLOSE | FLAG_KEEP => Ok(None),
        CLONE | CLONE_RANGE => Err(libc::EOPNOTSUPP),
        BYTES_LEFT => files::bytes_left(fd, argument).map(Some),
        _ => Err(libc::ENOTTY),
    }
}

fn not_done(number: i64, argument: usize) {
    let words = format!(
        "system call {number} ({argument:#x}, ...) is not done for the file system: ENOSYS"
    );
    complain::once(About::NotDone, &words);
}

/// A call about a path.
fn of_path(number: i64, args: Args) -> Answer {
    let [a, b, c, d, e, _] = args;
    let xattr = |number: i64, follow: bool, rest: [usize; 4]| -> Result<XattrCall<'_>, i32> {
        Ok(XattrCall {
            subject: Subject::path(path(CWD, a)?, follow),
            number,
            rest,
        })
    };
    let subject = |follow: bool| path(CWD, a).map(|path| Subject::path(path, follow));
    let at = |flags: usize| match Path::new(a, b) {
        None if flags & libc::AT_EMPTY_PATH as usize == 0 => Err(libc::EFAULT),
        path => Ok(Subject::at(path, a, flags)),
    };
    const CREATES: usize = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as usize;
    match number {
        libc::SYS_open => open::open(path(CWD, a)?, b as i32, c),
        libc::SYS_creat => open::open(path(CWD, a)?, CREATES as i32, b),
        libc::SYS_openat => open::open(path(a, b)?, c as i32, d),
        libc::SYS_truncate => open::truncate(path(CWD, a)?, b),
        libc::SYS_stat => attributes::get(subject(true)?, b, 0),
        libc::SYS_lstat => attributes::get(subject(false)?, b, NO_FOLLOW),
        libc::SYS_newfstatat => attributes::get(at(d)?, c, d),
        libc::SYS_statx => attributes::get_more(at(c)?, c, d, e),
        libc::SYS_access => attributes::access(subject(true)?, b, 0),
        libc::SYS_faccessat => attributes::access(at(0)?, c, 0),
        libc::SYS_faccessat2 => attributes::access(at(d)?, c, d),
        libc::SYS_chmod => attributes::chmod(subject(true)?, b, 0),
        libc::SYS_fchmodat => attributes::chmod(at(0)?, c, 0),
        libc::SYS_fchmodat2 => attributes::chmod(at(d)?, c, d),
        libc::SYS_chown => attributes::chown(subject(true)?, b, c, 0),
        libc::SYS_lchown => attributes::chown(subject(false)?, b, c, NO_FOLLOW),
        libc::SYS_fchownat => attributes::chown(at(e)?, c, d, e),
        libc::SYS_utime => {
            let times: Option<[i64; 2]> = memory::get_any(b)?;
            let times = times.map(|[atime, mtime]| [[atime, 0], [mtime, 0]]);
            attributes::set_times(subject(true)?, times, 0)
        }
        libc::SYS_utimes => {
            attributes::set_times(subject(true)?, attributes::of_microseconds(b)?, 0)
        }
        libc::SYS_futimesat => attributes::set_times(at(0)?, attributes::of_microseconds(c)?, 0),
        libc::SYS_utimensat => {
            // Without a path it is about the descriptor.
            let flags = if b == 0 {
                d | libc::AT_EMPTY_PATH as usize
            } else {
                d
            };
            attributes::set_times(at(flags)?, memory::get_any(c)?, d)
        }
        libc::SYS_statfs => attributes::room(subject(true)?, b),
        libc::SYS_mkdir => names::mkdir(path(CWD, a)?, b),
        libc::SYS_mkdirat => names::mkdir(path(a, b)?, c),
        libc::SYS_mknod => names::mknod(path(CWD, a)?, b, c),
        libc::SYS_mknodat => names::mknod(path(a, b)?, c, d),
        libc::SYS_rmdir => names::unlink(path(CWD, a)?, libc::AT_REMOVEDIR as usize),
        libc::SYS_unlink => names::unlink(path(CWD, a)?, 0),
        libc::SYS_unlinkat => names::unlink(path(a, b)?, c),
        libc::SYS_symlink => names::symlink(a, path(CWD, b)?),
        libc::SYS_symlinkat => names::symlink(a, path(b, c)?),
        libc::SYS_readlink => names::readlink(path(CWD, a)?, b, c),
        libc::SYS_readlinkat => names::readlink(path(a, b)?, c, d),
        libc::SYS_rename => names::rename(path(CWD, a)?, path(CWD, b)?, 0),
        libc::SYS_renameat => names::rename(path(a, b)?, path(c, d)?, 0),
        libc::SYS_renameat2 => names::rename(path(a, b)?, path(c, d)?, e),
        libc::SYS_link => names::link(path(CWD, a)?, path(CWD, b)?, 0),
        libc::SYS_linkat => names::link(path(a, b)?, path(c, d)?, e),
        libc::SYS_getxattr => xattr(number, true, [b, c, d, 0])?.get(),
        libc::SYS_lgetxattr => xattr(number, false, [b, c, d, 0])?.get(),
        libc::SYS_listxattr => xattr(number, true, [b, c, 0, 0])?.list(),
        libc::SYS_llistxattr => xattr(number, false, [b, c, 0, 0])?.list(),
        libc::SYS_setxattr => xattr(number, true, [b, c, d, e])?.set(),
        libc::SYS_lsetxattr => xattr(number, false, [b, c, d, e])?.set(),
        libc::SYS_removexattr => xattr(number, true, [b, 0, 0, 0])?.remove(),
        libc::SYS_lremovexattr => xattr(number, false, [b, 0, 0, 0])?.remove(),
        _ => refuse(number, args),
    }
}

/// A call that there is not for the file system, if it is about that.
fn refuse(number: i64, args: Args) -> Answer {
    use crate::at::Start;
    let path = match calls::entry(number as usize).map(|entry| entry.shape) {
        Some(Shape::Path(index)) => path(CWD, args[index])?,
        Some(Shape::At(index)) => path(args[index], args[index + 1])?,
        _ => return Ok(None),
    };
    match path.start() {
        Ok(Start::Kernel) => Ok(None),
        _ => {
            not_done(number, args[0]);
            Err(libc::ENOSYS)
        }
    }
}
