//! New processes and threads.
//!
//! A child process gets what is open, with offsets that stay in common, and connects by itself when it first needs to. One
//! that would share the parent's memory until it calls `exec` (`vfork`, `posix_spawn`) gets a copy in its place: it has
//! descriptors of its own, and so the tables here have to be its own as well.

use crate::calls;
use crate::complain::{self, About};
use crate::cwd;
use crate::entry::Context;
use crate::fds;
use crate::guard;
use crate::memory;
use crate::session;
use crate::sys::{self, Args};
use std::sync::atomic::Ordering;

/// Bytes of the first version of the arguments of `clone3`.
const CLONE3_BYTES: usize = 64;
/// Bytes of them that are known.
const MAX_CLONE3_BYTES: usize = 88;
/// The words of `clone3`'s arguments: flags, stack, its size.
const FLAGS: usize = 0;
const STACK: usize = 5;
const STACK_BYTES: usize = 6;

const THREAD: u64 = libc::CLONE_THREAD as u64;
const MEMORY: u64 = libc::CLONE_VM as u64;

/// A call that makes a process or a thread.
#[derive(Clone, Copy, Debug)]
struct New {
    number: i64,
    flags: u64,
    /// The stack that it begins with, from its start if that is known to its end; 0 for a copy of the caller's.
    stack: usize,
    stack_end: usize,
}

impl New {
    fn of(number: i64, args: Args) -> Option<New> {
        let own = |flags: u64, stack_end: usize| New {
            number,
            flags,
            stack: 0,
            stack_end,
        };
        Some(match number {
            libc::SYS_fork => own(0, 0),
            libc::SYS_vfork => own(libc::CLONE_VFORK as u64 | MEMORY, 0),
            libc::SYS_clone => own(args[0] as u64, args[1]),
            libc::SYS_clone3 => {
                if args[1] < CLONE3_BYTES {
                    return None;
                }
                let words: [u64; CLONE3_BYTES / 8] = memory::get(args[0])?;
                let (stack, bytes) = (words[STACK] as usize, words[STACK_BYTES] as usize);
                New {
                    number,
                    flags: words[FLAGS],
                    stack,
                    stack_end: stack + bytes,
                }
            }
            _ => return None,
        })
    }

    /// Makes the process, with a copy of the caller's memory and stack.
    fn make(self, args: Args) -> isize {
        let flags = self.flags & !MEMORY;
        match self.number {
            libc::SYS_fork => sys::call(libc::SYS_fork, args),
            libc::SYS_vfork => {
                let flags = flags as usize | libc::SIGCHLD as usize;
                sys::call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0])
            }
            libc::SYS_clone => {
                let [_, _, parent, child, local, rest] = args;
                sys::call(
                    libc::SYS_clone,
                    [flags as usize, 0, parent, child, local, rest],
                )
            }
            _ => {
                let bytes = args[1].min(MAX_CLONE3_BYTES);
                let mut words = [0_u64; MAX_CLONE3_BYTES / 8];
                for (index, word) in words.iter_mut().enumerate().take(bytes / 8) {
                    *word = memory::get(args[0] + index * 8).unwrap_or(0);
                }
                words[FLAGS] = flags;
                words[STACK] = 0;
                words[STACK_BYTES] = 0;
                sys::call3(libc::SYS_clone3, words.as_ptr() as usize, bytes, 0)
            }
        }
    }
}

/// A thread is begun from within this library, if the call does that.
pub(crate) fn begins_inside(number: i64, args: Args) {
    if let Some(new) = New::of(number, args).filter(|new| new.flags & THREAD != 0) {
        guard::begins(new.stack, new.stack_end);
    }
}

/// Makes a process; `None` for a thread, which the kernel is to make.
///
/// # Errors
/// Error numbers.
pub(crate) fn fork(number: i64, args: Args, context: &mut Context) -> Result<Option<isize>, i32> {
    let Some(new) = New::of(number, args).filter(|new| new.flags & THREAD == 0) else {
        return Ok(None);
    };
    let mut table = fds::table();
    for (_, file) in table.all() {
        // Who reads it in the child sees what was written here. What cannot be reported now stays to be.
        let _ = file.flush();
        if file.is_locked.load(Ordering::Relaxed) {
            complain::once(
                About::LostLock,
                "locks of flock() and F_OFD_SETLK stay with the process that made them, not with its children",
            );
        }
    }
    table.share()?;
    let mut session = session::lock();
    let cwd = cwd::lock();
    let child = new.make(args);
    if child == 0 {
        // Its threads and sockets are the parent's.
        std::mem::forget(session::take(&mut session));
        table.forked();
        calls::forget_counts();
        if new.stack_end != 0 {
            context.stack = new.stack_end;
        }
    }
    drop(cwd);
    Ok(Some(child))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_from_processes() {
        let thread = [
            (libc::CLONE_VM | libc::CLONE_THREAD) as usize,
            4_096,
            0,
            0,
            0,
            0,
        ];
        let new = New::of(libc::SYS_clone, thread).unwrap();
        assert!(new.flags & THREAD != 0 && new.stack_end == 4_096);
        let spawn: [u64; 8] = [
            MEMORY | libc::CLONE_VFORK as u64,
            0,
            0,
            0,
            17,
            8_192,
            4_096,
            0,
        ];
        let args = [spawn.as_ptr() as usize, CLONE3_BYTES, 0, 0, 0, 0];
        let new = New::of(libc::SYS_clone3, args).unwrap();
        assert!(new.flags & THREAD == 0);
        assert_eq!((new.stack, new.stack_end), (8_192, 12_288));
        assert!(New::of(libc::SYS_clone3, [spawn.as_ptr() as usize, 8, 0, 0, 0, 0]).is_none());
    }
}
