//! PandoFS as a mounted file system, by FUSE.
//!
//! Invariant: nothing but the kernel's view is in here. The meaning of a request to servers, where
//! it goes, and what is repeated or waited for is the client library's; a mount whose servers are
//! away waits in it.
//!
//! Requests of the kernel for a program's call (Linux 6.18, seen with `examples/memfs` and
//! `RUST_LOG=pandofs_fuse_kernel=debug`), and those that reach a server:
//!
//! | call | requests | to servers |
//! | --- | --- | --- |
//! | `open(O_CREAT)` of a new name | `GETATTR` of the directory, `LOOKUP`, `CREATE` | `LOOKUP`, `CREATE` (see `dir_attrs`) |
//! | the same after a `stat` that found nothing | `GETATTR` of the directory, `CREATE` | `CREATE` |
//! | `write`, the first since attributes were asked for | `GETXATTR` of `security.capability`, `WRITE` | `WRITE` (see `xattr`) |
//! | `write`, further ones | `WRITE` | `WRITE` |
//! | `close` after writing | `FLUSH`; `RELEASE`, which is not waited for | what the client has pending |
//! | `close` after reading | `FLUSH`; `RELEASE`, which is not waited for | none |
//! | `stat` within the time-outs | none | none |
//! | `stat` after | `LOOKUP` | `LOOKUP` |
//! | `unlink` | `GETATTR` of the directory, `LOOKUP` after the time-out, `UNLINK` | all but `GETATTR` |
//! | `opendir`, `readdir`, `closedir` | `OPENDIR`, `READDIRPLUS` or `READDIR` for each 32 KiB and once more, `RELEASEDIR` | one for each 32 KiB (see `listing`) |
//!
//! `FLUSH` is answered even if there is nothing to do, as "not implemented" would end it for every
//! file. It is also what tells that a process has closed one of its descriptors of a file (see
//! `locks`); with local locks, files opened only to be read ask the kernel to leave it out.
//!
//! Times of access: the kernel leaves them to this mount (`S_NOATIME`), and asks for them again
//! after each `READ`, `READLINK` and `READDIR`. Such a request is noted as an access, unless
//! `noatime`, `nodiratime`, a read-only mount or `O_NOATIME` forbid it; the client library tells
//! the shards once a second, and they see by `relatime` or `strictatime` whether that changes
//! anything. So reading costs no request more, and this mount sees the time at once, others within
//! a second or two and the time of their caches. Answers of the kernel out of its own memory
//! (pages, links) are no accesses, and neither is an `mmap`.
//!
//! Known limits: what is written through a descriptor that got `O_APPEND` after it was opened
//! (`F_SETFL`) goes to the end of the file as the kernel knows it, so two mounts that append so
//! within `attr_timeout` may overwrite one another; after an append the position of the descriptor
//! is where the kernel takes the end to be, which another mount may have moved. Of the kernel's
//! interrupts only those of waits for locks are heeded; a program that waits for a server and is
//! killed is noticed otherwise (`cancellation`, `abandoned`).

mod abandoned;
mod call;
mod cancellation;
mod convert;
mod credentials;
mod dead_dirs;
mod dir_attrs;
mod errno;
mod filesystem;
mod invalidations;
mod kernel;
mod kernel_cache;
mod leases;
mod limits;
mod listing;
mod locks;
mod memory;
mod mount;
mod name_changes;
mod no_xattrs;
mod open_dirs;
mod ops;
mod options;
mod pages;
mod panic;
mod read_ahead;
mod remount;
mod reply;
mod request_times;
mod set_attr;
mod slow;
mod space;
mod stale;
mod traces;
mod xattr;

pub use credentials::own_capabilities;
pub use memory::{Memory, TooLittle};
pub use mount::{MountError, Mounted, mount, serve};
pub use options::{Atime, Cache, FS_TYPE, KernelFlags, LocalLocks, Options, negotiate};
pub use pandofs_fuse_kernel::{Transport, UseIoUring};
pub use remount::{RemountError, Setting, remount};
pub use request_times::RequestTimes;
