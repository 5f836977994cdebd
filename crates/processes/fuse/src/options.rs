//! Options of a mount, and their negotiation with the kernel.

use crate::limits::MAX_BACKGROUND_REQUESTS;
use crate::memory::Memory;
use crate::remount::Setting;
use pandofs_fuse_kernel::abi::init;
use pandofs_fuse_kernel::mount::Mount;
use pandofs_fuse_kernel::{Negotiation, Threads, UseIoUring};
use pandofs_spans::Spans;
use pandofs_types::AtimeRule;
use pandofs_types::limits::{
    DEFAULT_CACHE_TIMEOUT, DEFAULT_MOUNT_THREADS, DEFAULT_SLOW, MAX_IO_BYTES, MAX_MOUNT_THREADS,
};
use rustix::mount::MountFlags;
use std::time::Duration;

/// The part of its type after `fuse.`.
const SUBTYPE: &str = "pandofs";
/// The kernel's `fuse`, and what mount(8) looks for a helper by (`mount.fuse.pandofs`).
pub const FS_TYPE: &str = "fuse.pandofs";

/// Options of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Threads that take requests from the kernel, 1 to [`MAX_MOUNT_THREADS`]; values outside are
    /// moved to the nearest. One serves one request at a time and mostly waits for a server
    /// meanwhile, so this is how many programs are served at once; it has nothing to do with the
    /// number of cores.
    pub threads: usize,
    /// Whether the kernel is to send requests over io_uring.
    pub io_uring: UseIoUring,
    /// Its shares of memory. The client is to be given its part of it.
    pub memory: Memory,
    /// The source of the times for which the kernel caches something.
    pub cache: Cache,
    /// The time for which the kernel may cache a name and its inode; of no meaning with leases, as
    /// the next two.
    pub entry_timeout: Duration,
    /// The time for which the kernel may cache an inode's attributes.
    pub attr_timeout: Duration,
    /// The time for which the kernel may cache that there is no entry of a name; zero: not at all.
    /// A name that this mount makes is seen at once whatever this is; what another one makes is
    /// seen when it has passed, just as what another one removes is seen when `entry_timeout` has.
    pub negative_timeout: Duration,
    /// Servers are asked for grants of directories, and what is done in these is answered before servers have it; with
    /// leases alone.
    pub early_names: bool,
    /// Others than the user who mounts may use the mount. Users other than root need
    /// `user_allow_other` in `/etc/fuse.conf` for this.
    pub allow_other: bool,
    /// Restrictions by the kernel, whatever the file system says.
    pub kernel: KernelFlags,
    /// The kernel checks permissions besides the servers. Both are needed: a server is not asked
    /// about names that the kernel still caches, so it cannot keep one user out of a directory
    /// in which another was let in a moment ago; and the kernel checks what it caches, which
    /// another mount may have changed. Without it only the servers check.
    pub default_permissions: bool,
    /// The source that `mount` and `df` show.
    pub fs_name: String,
    /// Locks that hold within this mount alone, and cost no server anything.
    pub local_locks: LocalLocks,
    /// More of what the kernel takes as mount data, each as `NAME=VALUE`: the labels of SELinux.
    pub mount_data: Vec<String>,
    /// Settings that stay as they are while it is mounted, for a caller that wants to change them
    /// (see [`remount`](crate::remount())).
    pub settings: Vec<Setting>,
    /// Requests that take longer are logged; zero: none.
    pub slow: Duration,
    /// Makes spans of requests.
    pub spans: Option<Spans>,
}

/// The source of the times for which the kernel caches entries and attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// Servers lease what they tell, and recall it before it changes: what one mount does all
    /// others see as soon as it is done.
    #[default]
    Leases,
    /// Time-outs: what another mount does is seen when they have passed.
    Timeouts,
}

/// Locks that hold within one mount, rather than among all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalLocks {
    /// Those of `flock()`.
    pub flock: bool,
    /// Those of `fcntl()`.
    pub posix: bool,
}

/// Work that the kernel does by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelFlags {
    /// Nothing can be changed through this mount.
    pub read_only: bool,
    /// Set-user-id and set-group-id bits of programs have effect (not `nosuid`).
    pub set_ids: bool,
    /// Device files can be opened (not `nodev`).
    pub devices: bool,
    /// Programs cannot be run (`noexec`).
    pub no_programs: bool,
    /// Each write and each change of names is followed by what fsync(2) does (`sync`).
    pub synced_writes: bool,
    /// Each change of names is followed by what fsync(2) of the directory does (`dirsync`).
    pub synced_names: bool,
    /// Symbolic links are not followed (`nosymfollow`).
    pub no_symlinks: bool,
    /// The effect of reads on times of access. The kernel leaves it to this mount, which takes it
    /// when it is made, and only shows it.
    pub atime: Atime,
    /// Reading directories does not change their times of access (`nodiratime`).
    pub no_dir_atime: bool,
}

/// The effect of reads on times of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atime {
    /// Nothing (`noatime`).
    Kept,
    /// It changes those that are due (`relatime`, `strictatime`).
    Changed(AtimeRule),
}

impl Default for Atime {
    fn default() -> Atime {
        Atime::Changed(AtimeRule::Relative)
    }
}

impl KernelFlags {
    /// As mount(2) takes them.
    pub(crate) fn of_mount(self) -> MountFlags {
        [
            (self.read_only, MountFlags::RDONLY),
            (!self.set_ids, MountFlags::NOSUID),
            (!self.devices, MountFlags::NODEV),
            (self.no_programs, MountFlags::NOEXEC),
            (self.synced_writes, MountFlags::SYNCHRONOUS),
            (self.synced_names, MountFlags::DIRSYNC),
            (self.no_symlinks, MountFlags::NOSYMFOLLOW),
            (self.atime == Atime::Kept, MountFlags::NOATIME),
            (
                self.atime == Atime::Changed(AtimeRule::Relative),
                MountFlags::RELATIME,
            ),
            (
                self.atime == Atime::Changed(AtimeRule::Strict),
                MountFlags::STRICTATIME,
            ),
            (self.no_dir_atime, MountFlags::NODIRATIME),
        ]
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .fold(MountFlags::empty(), |flags, (_, flag)| flags | flag)
    }

    /// As fuse3's helper takes them.
    fn of_helper(self) -> Vec<String> {
        let choose = |is_set, yes, no| if is_set { yes } else { no };
        let options = [
            choose(self.read_only, "ro", "rw"),
            choose(self.set_ids, "suid", "nosuid"),
            choose(self.devices, "dev", "nodev"),
            choose(self.no_programs, "noexec", "exec"),
            choose(self.synced_writes, "sync", "async"),
            choose(self.atime == Atime::Kept, "noatime", "atime"),
        ];
        let more = [
            self.synced_names.then_some("dirsync"),
            self.no_symlinks.then_some("nosymfollow"),
        ];
        let all = options.into_iter().chain(more.into_iter().flatten());
        all.map(str::to_owned).collect()
    }

    /// As a number, for messages.
    pub(crate) fn bits(self) -> u16 {
        let atime = match self.atime {
            Atime::Changed(AtimeRule::Relative) => 0,
            Atime::Changed(AtimeRule::Strict) => 1,
            Atime::Kept => 2,
        };
        let flags = [
            self.read_only,
            self.set_ids,
            self.devices,
            self.no_programs,
            self.synced_writes,
            self.synced_names,
            self.no_symlinks,
            self.no_dir_atime,
        ];
        let bits = flags.into_iter().enumerate();
        bits.fold(atime << 8, |all, (at, is_set)| {
            all | u16::from(is_set) << at
        })
    }

    /// `None` if the number stands for none.
    pub(crate) fn of_bits(bits: u16) -> Option<KernelFlags> {
        let is_set = |at: u16| bits >> at & 1 == 1;
        Some(KernelFlags {
            read_only: is_set(0),
            set_ids: is_set(1),
            devices: is_set(2),
            no_programs: is_set(3),
            synced_writes: is_set(4),
            synced_names: is_set(5),
            no_symlinks: is_set(6),
            no_dir_atime: is_set(7),
            atime: match bits >> 8 {
                0 => Atime::Changed(AtimeRule::Relative),
                1 => Atime::Changed(AtimeRule::Strict),
                2 => Atime::Kept,
                _ => return None,
            },
        })
    }
}

impl Default for Options {
    /// Leases, time-outs of [`DEFAULT_CACHE_TIMEOUT`] where they count, [`DEFAULT_MOUNT_THREADS`];
    /// others are let in when root mounts.
    fn default() -> Options {
        Options {
            threads: DEFAULT_MOUNT_THREADS,
            io_uring: UseIoUring::default(),
            memory: Memory::default(),
            cache: Cache::default(),
            entry_timeout: DEFAULT_CACHE_TIMEOUT,
            attr_timeout: DEFAULT_CACHE_TIMEOUT,
            negative_timeout: DEFAULT_CACHE_TIMEOUT,
            early_names: false,
            allow_other: rustix::process::geteuid().is_root(),
            kernel: KernelFlags::default(),
            default_permissions: true,
            fs_name: "pandofs".to_owned(),
            local_locks: LocalLocks::default(),
            mount_data: Vec::new(),
            settings: Vec::new(),
            slow: DEFAULT_SLOW,
            spans: None,
        }
    }
}

impl Options {
    /// The threads that serve it.
    pub(crate) fn session(&self) -> Threads {
        let spare = self.memory.spare_threads;
        Threads {
            regular: self.threads.clamp(1, MAX_MOUNT_THREADS),
            // Over io_uring what a spare one reads is in the memory that it shares with the kernel,
            // too: it takes half as much again (see `Memory`).
            spare: match self.io_uring {
                UseIoUring::No => spare,
                UseIoUring::IfOffered | UseIoUring::Wanted => spare * 2 / 3,
            },
        }
    }

    /// The mount that the kernel is to make.
    pub(crate) fn mount(&self) -> Mount {
        Mount {
            source: self.fs_name.clone(),
            subtype: SUBTYPE.to_owned(),
            flags: self.kernel.of_mount(),
            helper_options: self.kernel.of_helper(),
            allow_other: self.allow_other,
            default_permissions: self.default_permissions,
            data: self.mount_data.clone(),
        }
    }
}

/// Features asked of the kernel, besides those that every mount asks for (`ASYNC_READ`,
/// `BIG_WRITES`, `MAX_PAGES`). It leaves out those that it does not have.
///
/// Not in here, on purpose:
/// - `WRITEBACK_CACHE`: the kernel would be the master of sizes and times, which another mount can
///   change.
/// - `ATOMIC_O_TRUNC`: the kernel would ask to open and truncate before it finds that a file may
///   not be written because it is a program that runs (ETXTBSY), and the program would die of it.
/// - `NO_OPENDIR_SUPPORT`: see [`crate::listing`].
/// - `POSIX_LOCKS`, `FLOCK_LOCKS`: see [`crate::locks`].
const ABILITIES: [u64; 10] = [
    // The caller's umask comes with what is made: it counts where no access control list is
    // inherited.
    init::DONT_MASK,
    // Lookups and listings of one directory go on side by side.
    init::PARALLEL_DIROPS,
    // A listing carries attributes if programs look at them.
    init::DO_READDIRPLUS,
    init::READDIRPLUS_AUTO,
    // A file is found by a handle (an NFS client's, `open_by_handle_at`) when the kernel has
    // forgotten it.
    init::EXPORT_SUPPORT,
    init::ASYNC_DIO,
    // A symbolic link never changes, and its number is never another's.
    init::CACHE_SYMLINKS,
    // Servers take set-id bits off what is written, cut or given away, by its caller. The kernel
    // then need not ask for `security.capability` before each write and take the bits off itself,
    // which it would do in the name of a writer who may not change the mode.
    init::HANDLE_KILLPRIV_V2,
    // Cached data is dropped when another mount was seen to have changed the file.
    init::AUTO_INVAL_DATA,
    // A file opened with `O_APPEND` goes past the page cache, and can be mapped all the same.
    init::DIRECT_IO_ALLOW_MMAP,
];

/// The flags that have the kernel check permissions, too, by access control lists as well as by
/// permission bits, and forgets a list when it forgets attributes.
///
/// Since Linux 6.2 lists can also be read and set without it, as any other extended attribute, and
/// servers check them whatever the kernel does. That is right where only servers check. But a
/// kernel that checks (`default_permissions`, and why both are needed is said at
/// [`Options::default_permissions`]) would then go by the permission bits, where a list's mask
/// stands for the group: it would refuse those whom the list lets in. Asking for this turns the
/// kernel's checks on, so it is asked for only where they are.
const KERNEL_CHECKS: u64 = init::POSIX_ACL;

/// Agrees with the kernel on what a mount can do. For the `init` of a file system that is
/// [served](crate::serve) with `default_permissions` or without.
pub fn negotiate(kernel: &mut Negotiation, default_permissions: bool) {
    negotiate_with(kernel, default_permissions, MAX_IO_BYTES);
}

/// As [`negotiate`], with so many bytes of file data in one request.
pub(crate) fn negotiate_with(kernel: &mut Negotiation, default_permissions: bool, io_bytes: usize) {
    let checks = default_permissions.then_some(KERNEL_CHECKS);
    for ability in ABILITIES.into_iter().chain(checks) {
        if !kernel.want(ability) {
            tracing::debug!("this kernel lacks the ability {ability:#x}");
        }
    }
    kernel.set_max_write(io_bytes);
    kernel.set_max_background(MAX_BACKGROUND_REQUESTS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_reach_the_session() {
        let options = Options {
            threads: 0,
            allow_other: false,
            kernel: KernelFlags {
                read_only: true,
                ..KernelFlags::default()
            },
            default_permissions: false,
            fs_name: "here".to_owned(),
            ..Options::default()
        };
        assert_eq!(options.session().regular, 1);
        let mount = options.mount();
        assert!(!mount.allow_other && !mount.default_permissions);
        for option in ["ro", "nosuid", "nodev"] {
            assert!(
                mount.helper_options.contains(&option.to_owned()),
                "{option}"
            );
        }
        assert_eq!((&*mount.source, &*mount.subtype), ("here", "pandofs"));
        let flags = options.kernel.of_mount();
        assert_eq!(
            flags,
            MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RELATIME
        );
        let atimes = [
            (Atime::Kept, MountFlags::NOATIME),
            (Atime::Changed(AtimeRule::Strict), MountFlags::STRICTATIME),
        ];
        for (atime, shown) in atimes {
            let flags = KernelFlags {
                atime,
                no_dir_atime: true,
                set_ids: true,
                devices: true,
                ..KernelFlags::default()
            };
            assert_eq!(flags.of_mount(), shown | MountFlags::NODIRATIME);
        }
        let options = Options {
            threads: 1_000,
            ..Options::default()
        };
        assert_eq!(options.session().regular, MAX_MOUNT_THREADS);
        let mount = options.mount();
        assert!(mount.default_permissions);
        assert!(!mount.helper_options.contains(&"ro".to_owned()));
    }
}
