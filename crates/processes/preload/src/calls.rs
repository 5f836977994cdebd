//! System calls that may be about the file system, and how often each went where.

use std::sync::atomic::{AtomicU64, Ordering};

/// Arguments of a call that are descriptors or paths, which tell whether it is about the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A descriptor.
    Fd(usize),
    /// Two of them.
    Fds(usize, usize),
    /// A path, from the current directory on.
    Path(usize),
    /// A path, and before it the descriptor of the directory where it begins.
    At(usize),
    /// Two paths.
    Paths(usize, usize),
    /// Two paths with their directories.
    Ats(usize, usize),
    /// Looked at whatever its arguments are.
    Always,
}

/// A system call of the table.
#[derive(Debug)]
pub(crate) struct Entry {
    pub number: i64,
    name: &'static str,
    pub shape: Shape,
}

macro_rules! table {
    ($($name:ident $number:ident $shape:expr;)*) => {
        const TABLE: &[Entry] = &[$(Entry {
            number: libc::$number,
            name: stringify!($name),
            shape: $shape,
        }),*];
    };
}

use Shape::{Always, At, Ats, Fd, Fds, Path, Paths};

table! {
    read SYS_read Fd(0); write SYS_write Fd(0); open SYS_open Path(0); close SYS_close Fd(0);
    stat SYS_stat Path(0); fstat SYS_fstat Fd(0); lstat SYS_lstat Path(0); lseek SYS_lseek Fd(0);
    mmap SYS_mmap Fd(4); rt_sigaction SYS_rt_sigaction Always; ioctl SYS_ioctl Fd(0);
    pread64 SYS_pread64 Fd(0); pwrite64 SYS_pwrite64 Fd(0); readv SYS_readv Fd(0); writev SYS_writev Fd(0);
    access SYS_access Path(0); dup SYS_dup Fd(0); dup2 SYS_dup2 Fds(0, 1); sendfile SYS_sendfile Fds(0, 1);
    socket SYS_socket Always; accept4 SYS_accept4 Always; eventfd2 SYS_eventfd2 Always;
    epoll_create1 SYS_epoll_create1 Always; clone SYS_clone Always; fork SYS_fork Always;
    vfork SYS_vfork Always; execve SYS_execve Always; fcntl SYS_fcntl Fd(0); flock SYS_flock Fd(0);
    fsync SYS_fsync Fd(0); fdatasync SYS_fdatasync Fd(0); truncate SYS_truncate Path(0);
    ftruncate SYS_ftruncate Fd(0); getdents SYS_getdents Fd(0); getcwd SYS_getcwd Always;
    chdir SYS_chdir Always; fchdir SYS_fchdir Always; rename SYS_rename Paths(0, 1); mkdir SYS_mkdir Path(0);
    rmdir SYS_rmdir Path(0); creat SYS_creat Path(0); link SYS_link Paths(0, 1); unlink SYS_unlink Path(0);
    symlink SYS_symlink Path(1); readlink SYS_readlink Path(0); chmod SYS_chmod Path(0); fchmod SYS_fchmod Fd(0);
    chown SYS_chown Path(0); fchown SYS_fchown Fd(0); lchown SYS_lchown Path(0); umask SYS_umask Always;
    setuid SYS_setuid Always; setgid SYS_setgid Always; setreuid SYS_setreuid Always;
    setregid SYS_setregid Always; setgroups SYS_setgroups Always; setresuid SYS_setresuid Always;
    setresgid SYS_setresgid Always; setfsuid SYS_setfsuid Always; setfsgid SYS_setfsgid Always;
    utime SYS_utime Path(0); mknod SYS_mknod Path(0); statfs SYS_statfs Path(0); fstatfs SYS_fstatfs Fd(0);
    chroot SYS_chroot Path(0); setxattr SYS_setxattr Path(0); lsetxattr SYS_lsetxattr Path(0);
    fsetxattr SYS_fsetxattr Fd(0); getxattr SYS_getxattr Path(0); lgetxattr SYS_lgetxattr Path(0);
    fgetxattr SYS_fgetxattr Fd(0); listxattr SYS_listxattr Path(0); llistxattr SYS_llistxattr Path(0);
    flistxattr SYS_flistxattr Fd(0); removexattr SYS_removexattr Path(0);
    lremovexattr SYS_lremovexattr Path(0); fremovexattr SYS_fremovexattr Fd(0); readahead SYS_readahead Fd(0);
    getdents64 SYS_getdents64 Fd(0); fadvise64 SYS_fadvise64 Fd(0); exit_group SYS_exit_group Always;
    epoll_ctl SYS_epoll_ctl Fd(2); utimes SYS_utimes Path(0); inotify_add_watch SYS_inotify_add_watch Path(1);
    openat SYS_openat At(0); mkdirat SYS_mkdirat At(0); mknodat SYS_mknodat At(0); fchownat SYS_fchownat At(0);
    futimesat SYS_futimesat At(0); newfstatat SYS_newfstatat At(0); unlinkat SYS_unlinkat At(0);
    renameat SYS_renameat Ats(0, 2); linkat SYS_linkat Ats(0, 2); symlinkat SYS_symlinkat At(1);
    readlinkat SYS_readlinkat At(0); fchmodat SYS_fchmodat At(0); faccessat SYS_faccessat At(0);
    splice SYS_splice Fds(0, 2); tee SYS_tee Fds(0, 1); sync_file_range SYS_sync_file_range Fd(0);
    utimensat SYS_utimensat At(0); fallocate SYS_fallocate Fd(0); dup3 SYS_dup3 Fds(0, 1);
    preadv SYS_preadv Fd(0); pwritev SYS_pwritev Fd(0); name_to_handle_at SYS_name_to_handle_at At(0);
    syncfs SYS_syncfs Fd(0); renameat2 SYS_renameat2 Ats(0, 2); execveat SYS_execveat Always;
    copy_file_range SYS_copy_file_range Fds(0, 2); preadv2 SYS_preadv2 Fd(0); pwritev2 SYS_pwritev2 Fd(0);
    statx SYS_statx At(0); clone3 SYS_clone3 Always; close_range SYS_close_range Always;
    openat2 SYS_openat2 At(0); faccessat2 SYS_faccessat2 At(0); fchmodat2 SYS_fchmodat2 At(0);
}

/// System calls with higher numbers than these have nothing to do with files.
const NUMBERS: usize = 512;
/// In [`PLACES`], of a call that is not in the table.
const NONE: u8 = u8::MAX;

const _: () = assert!(TABLE.len() < NONE as usize);

/// Where in the table a number is.
static PLACES: [u8; NUMBERS] = {
    let mut places = [NONE; NUMBERS];
    let mut at = 0;
    while at < TABLE.len() {
        places[TABLE[at].number as usize] = at as u8;
        at += 1;
    }
    places
};

/// For each of the table: calls that the kernel got, and those that the file system got.
static COUNTS: [[AtomicU64; 2]; TABLE.len()] =
    [const { [AtomicU64::new(0), AtomicU64::new(0)] }; TABLE.len()];

fn place(number: usize) -> Option<usize> {
    let place = *PLACES.get(number)?;
    (place != NONE).then_some(usize::from(place))
}

/// The call of this number, if it may be about the file system.
pub(crate) fn entry(number: usize) -> Option<&'static Entry> {
    place(number).map(|place| &TABLE[place])
}

/// Returns whether a system call of this number may be about the file system.
pub(crate) fn is_wanted(number: usize) -> bool {
    place(number).is_some()
}

/// Counts a call: one that the file system answered, or one that the kernel gets.
pub(crate) fn count(number: usize, is_ours: bool) {
    if let Some(place) = place(number) {
        COUNTS[place][usize::from(is_ours)].fetch_add(1, Ordering::Relaxed);
    }
}

/// Begins to count anew.
pub(crate) fn forget_counts() {
    for count in COUNTS.iter().flatten() {
        count.store(0, Ordering::Relaxed);
    }
}

/// The counts, in words: `read 3, stat 1`.
pub(crate) fn counted(is_ours: bool) -> String {
    let counts = TABLE.iter().zip(&COUNTS).filter_map(|(entry, counts)| {
        let count = counts[usize::from(is_ours)].load(Ordering::Relaxed);
        (count > 0).then(|| format!("{} {count}", entry.name))
    });
    let text = counts.collect::<Vec<_>>().join(", ");
    match text.is_empty() {
        true => "nothing".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_to_their_calls() {
        for entry in TABLE {
            assert_eq!(
                place(entry.number as usize).map(|at| TABLE[at].name),
                Some(entry.name)
            );
        }
        assert!(!is_wanted(libc::SYS_futex as usize));
        assert!(!is_wanted(usize::MAX));
    }
}
