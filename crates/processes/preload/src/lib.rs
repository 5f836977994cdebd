//! PandoFS below unmodified programs: `libpandofs-preload.so`, for `LD_PRELOAD`.
//!
//! At the start it leads the system calls of the C library here that may be about files: by patches of its `syscall`
//! instructions, as what the C library calls within itself (`fopen` its open, `opendir`, `glob`) cannot be had otherwise.
//! The client library answers for paths below the prefix and descriptors of these; all else is the kernel's.
//!
//! Invariant: what is not known to be right goes to the kernel, or to the mount, or fails with an error number; no panic gets
//! into the program; and what is done within makes system calls of its own, which never come back here.
//!
//! Elsewhere than with the GNU C library on x86-64 it is empty, and the kernel says what it has not.
//!
//! | file | job |
//! | --- | --- |
//! | `start`, `mounts` | the environment |
//! | `elf`, `code`, `patch`, `entry` | the way from a `syscall` to the hook and back |
//! | `hook`, `calls`, `guard` | which calls are whose |
//! | `route`, `walk`, `at`, `cwd` | paths |
//! | `fds`, `open_file`, `shared` | descriptors |
//! | `open`, `files`, `dirs`, `attributes`, `names`, `locks`, `mapping` | the calls |
//! | `fork`, `waited`, `exec` | processes |
//! | `session`, `memory`, `sys`, `complain` | the client library, the program's memory, the kernel, standard error |

#![cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]

mod at;
mod attributes;
mod calls;
mod code;
mod complain;
mod cwd;
mod dirs;
mod elf;
mod entry;
mod exec;
mod fds;
mod files;
mod fork;
mod guard;
mod hook;
mod locks;
mod mapping;
mod memory;
mod mounts;
mod names;
mod open;
mod open_file;
mod patch;
mod route;
mod session;
mod shared;
mod start;
mod sys;
mod waited;
mod walk;

/// The dynamic loader calls this when it has loaded the library.
// SAFETY: it is the place for such functions, and this is one.
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
#[used]
static START: extern "C" fn() = start::start;
