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
use crate::session::{self, Session};
use crate::sys::{self, Args};
use crate::waited::{self, Line};
use crate::walk::Place;
use std::cell::Cell;
use std::panic::catch_unwind;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// Bytes of the first version of the arguments of `clone3`.
const CLONE3_BYTES: usize = 64;
/// Bytes of them that are known.
const MAX_CLONE3_BYTES: usize = 88;
/// Bytes of the stack of a child that was to have one of its own.
const CHILD_STACK_BYTES: usize = 1 << 20;
/// Bytes left free at its end.
const STACK_END_BYTES: usize = 256;
const STACK_ALIGNMENT: usize = 16;
/// Bytes that `clone` has at the end of a stack.
const CLONE_STACK_BYTES: usize = 16;
/// The register, among those of arguments, in which the C library's `clone3` has what the child's function gets.
const CLONE3_ARGUMENT: usize = 4;
/// The words of `clone3`'s arguments: flags, stack, its size.
const FLAGS: usize = 0;
const STACK: usize = 5;
const STACK_BYTES: usize = 6;

/// Flags by which a process is not another one than by `fork`: handlers of signals end by `exec` anyway.
const PLAIN: u64 = MEMORY | WAITS | CLEAR_HANDLERS;
const CLEAR_HANDLERS: u64 = 1 << 32;
/// The signal at a process's end, of `clone`.
const SIGNAL: u64 = 0xff;
const THREAD: u64 = libc::CLONE_THREAD as u64;
const MEMORY: u64 = libc::CLONE_VM as u64;
const WAITS: u64 = libc::CLONE_VFORK as u64;

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
            libc::SYS_vfork => own(WAITS | MEMORY, 0),
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

    /// Whether it is as by `fork`, but for what the memory of the caller has to do with it.
    fn is_plain(self) -> bool {
        self.number != libc::SYS_clone3 && self.flags & !PLAIN & !SIGNAL == 0
            || self.number == libc::SYS_clone3 && self.flags & !PLAIN == 0
    }

    /// The line to a child that is to be waited for.
    fn line(self, args: Args, context: &Context) -> Option<Line> {
        if self.flags & WAITS == 0 {
            return None;
        }
        // Where the C library keeps what the child's function gets.
        let argument = match self.number {
            _ if self.stack_end == 0 => None,
            libc::SYS_clone => memory::get(self.stack_end + size_of::<usize>()),
            _ => Some(args[CLONE3_ARGUMENT]),
        };
        Line::new(context.stack, argument)
    }

    /// A stack for the child in place of the one that it was to have, which is too small for what is done here: `posix_spawn`
    /// gives it 32 KiB. The bytes at its end come along.
    fn own_stack(self) -> usize {
        let rights = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let args = [0, CHILD_STACK_BYTES, rights, flags, usize::MAX, 0];
        let Ok(start @ 1..) = usize::try_from(sys::call(libc::SYS_mmap, args)) else {
            return self.stack_end;
        };
        let end = start + CHILD_STACK_BYTES - STACK_END_BYTES + self.stack_end % STACK_ALIGNMENT;
        if self.number == libc::SYS_clone {
            // The C library has put there what the child calls, and with what.
            memory::put_bytes(end, memory::bytes(self.stack_end, CLONE_STACK_BYTES));
        }
        end
    }

    /// Makes the process, with a copy of the caller's memory and stack. Its line is what is waited for.
    fn make(self, args: Args) -> isize {
        let flags = self.flags & !(MEMORY | WAITS);
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

/// Locks held while a process is made, so that the child finds all whole.
struct Held {
    table: MutexGuard<'static, fds::Table>,
    session: MutexGuard<'static, Option<Arc<Session>>>,
    _cwd: MutexGuard<'static, Option<Place>>,
    _inside: guard::Inside,
}

thread_local! {
    /// Of the thread that makes a process by the C library's `fork`.
    static HELD: Cell<*mut Held> = const { Cell::new(ptr::null_mut()) };
}

impl Held {
    /// Gets ready for a child. The child learns of a failure when it uses the file.
    fn new() -> Held {
        let inside = guard::enter();
        let mut table = fds::table();
        for (_, file) in table.all() {
            // A read in the child sees the writes from here. Writes that cannot be reported now stay to be.
            let _ = file.flush();
            if file.is_locked.load(Ordering::Relaxed) {
                complain::once(
                    About::LostLock,
                    "locks of flock() and F_OFD_SETLK stay with the process that made them, not with its children",
                );
            }
        }
        if let Err(error) = table.share() {
            let words = format!("open files cannot be passed on to a child: error {error}");
            complain::once(About::NotShared, &words);
        }
        Held {
            table,
            session: session::lock(),
            _cwd: cwd::lock(),
            _inside: inside,
        }
    }

    /// In the child: its threads and sockets were the parent's, but for its end of the line.
    fn begin_child(&mut self, line: Option<Line>) {
        std::mem::forget(session::take(&mut self.session));
        self.table.forked(line.as_ref().map(Line::child_end));
        waited::begin_child(line);
        calls::forget_counts();
    }
}

/// Has the C library's `fork` come by here, before and after. Its system call is too late: the C library allows no memory
/// to be allocated then.
pub(crate) fn begin() -> bool {
    // SAFETY: these are functions without arguments, which stay.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) == 0 }
}

// SAFETY: it takes nothing, and no panic leaves it: what may panic in it is the client library's.
unsafe extern "C" fn before() {
    if guard::is_within() {
        return;
    }
    let held = catch_unwind(Held::new);
    HELD.set(held.map_or(ptr::null_mut(), |held| Box::into_raw(Box::new(held))));
}

fn held() -> Option<Box<Held>> {
    let held = HELD.replace(ptr::null_mut());
    // SAFETY: it is from a box, and the only one that leads to it.
    (!held.is_null()).then(|| unsafe { Box::from_raw(held) })
}

// SAFETY: as above.
unsafe extern "C" fn in_parent() {
    drop(held());
}

// SAFETY: as above.
unsafe extern "C" fn in_child() {
    if let Some(mut held) = held() {
        held.begin_child(None);
    }
}

/// Makes a process; `None` for a thread, which the kernel is to make.
pub(crate) fn fork(number: i64, args: Args, context: &mut Context) -> Option<isize> {
    let new = New::of(number, args).filter(|new| new.flags & THREAD == 0)?;
    let line = new.line(args, context);
    let mut held = Held::new();
    let child = match new.is_plain() {
        // Memory can be allocated in the child then, whatever other threads were doing.
        // SAFETY: the thread is in no function of the C library but the one that makes a process.
        true => match unsafe { libc::fork() } {
            // SAFETY: it is this thread's.
            -1 => -(unsafe { *libc::__errno_location() } as isize),
            child => child as isize,
        },
        false => new.make(args),
    };
    match (child, line) {
        (0, line) => {
            held.begin_child(line);
            if new.stack_end != 0 {
                context.stack = new.own_stack();
            }
        }
        (1.., Some(line)) => {
            // Not while it waits: other threads go on, among them those that answer servers for whom the child waits.
            drop(held);
            line.wait();
        }
        (_, Some(line)) => line.give_up(),
        (_, None) => {}
    }
    Some(child)
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
