//! Children that their parent waits for, as by `vfork` and `posix_spawn`, and what they change on its stack.
//!
//! Such a child is to have the parent's memory, and has a copy of it. Its results are where the parent's thread keeps them,
//! on its stack: the error of `posix_spawn`, or what a program set before `_exit`. Bytes there that it has changed when it
//! ends or calls `exec` are told through a line, and changed in the parent, whose thread waits until the line's other end is
//! gone, as a kernel has it wait. Nothing else may be carried over: memory for allocations and what belongs to threads is in
//! a state of the child's own.

use crate::fds;
use crate::memory;
use crate::sys::{self, Args};
use std::sync::{Mutex, PoisonError};

/// Bytes from the argument of a child on that are carried over: the C library's for `posix_spawn` are about 200, and the
/// frames that they are in, and that call it, go further than this.
const ARGUMENT_BYTES: usize = 256;
/// The argument is in the frames of the caller's callers.
const MAX_ARGUMENT_DISTANCE: usize = 4_096;
/// Bytes of the stack that are carried over from a child that goes on with it.
const STACK_BYTES: usize = 4_096;
const PAGE: usize = 4_096;

/// The line of a child that is waited for, and what it may change in its parent.
#[derive(Debug)]
pub(crate) struct Line {
    parent: i32,
    child: i32,
    start: usize,
    before: Vec<u8>,
}

/// The child's end, in a process that is such a child.
static OWN: Mutex<Option<Line>> = Mutex::new(None);

impl Line {
    /// Begins one, before the child is made. Without one (no descriptors are left) the child is not waited for.
    ///
    /// `stack` is where the caller's goes on, and `argument` what the child gets, if it gets a stack of its own.
    pub(crate) fn new(stack: usize, argument: Option<usize>) -> Option<Line> {
        let (start, bytes) = region(stack, argument);
        let mut pair = [-1_i32; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        let args: Args = [
            libc::AF_UNIX as usize,
            kind as usize,
            0,
            pair.as_mut_ptr() as usize,
            0,
            0,
        ];
        if sys::call(libc::SYS_socketpair, args) != 0 {
            return None;
        }
        Some(Line {
            parent: fds::make_own(pair[0]),
            child: fds::make_own(pair[1]),
            start,
            before: memory::bytes(start, bytes).to_vec(),
        })
    }

    /// The descriptor that the child keeps.
    pub(crate) fn child_end(&self) -> i32 {
        self.child
    }

    /// In the parent: until the child has ended or another program has its place.
    pub(crate) fn wait(mut self) {
        close(self.child);
        let mut now = vec![0_u8; self.before.len().max(1)];
        loop {
            let (place, size) = (now.as_mut_ptr() as usize, now.len());
            let read = sys::call3(libc::SYS_read, self.parent as usize, place, size);
            if read == -libc::EINTR as isize {
                continue;
            }
            if read <= 0 {
                break;
            }
            // Only what differs: another thread may have changed its neighbours.
            for (index, before) in self.before.iter_mut().enumerate() {
                if now[index] != *before {
                    memory::put(self.start + index, now[index]);
                    *before = now[index];
                }
            }
        }
        close(self.parent);
    }

    /// Without a child.
    pub(crate) fn give_up(self) {
        close(self.parent);
        close(self.child);
    }
}

fn close(fd: i32) {
    fds::forget_own(fd);
    sys::close(fd);
}

/// In a child: what it tells by, if it is waited for.
pub(crate) fn begin_child(line: Option<Line>) {
    *OWN.lock().unwrap_or_else(PoisonError::into_inner) = line;
}

/// The process ends or calls `exec`: its parent, if that waits, is told what was changed.
pub(crate) fn tell() {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(line) = own.as_mut() else {
        return;
    };
    let now = memory::bytes(line.start, line.before.len());
    if now != line.before {
        let args: Args = [
            line.child as usize,
            now.as_ptr() as usize,
            now.len(),
            libc::MSG_NOSIGNAL as usize,
            0,
            0,
        ];
        sys::call(libc::SYS_sendto, args);
        line.before = now.to_vec();
    }
}

/// The part of the stack that is carried over, its start and bytes: nothing, where it cannot be told from what belongs to the thread.
fn region(stack: usize, argument: Option<usize>) -> (usize, usize) {
    match argument {
        Some(argument) => {
            let is_near = (stack..stack.saturating_add(MAX_ARGUMENT_DISTANCE)).contains(&argument);
            match is_near {
                true => (argument, ARGUMENT_BYTES),
                false => (stack, 0),
            }
        }
        // Other threads have what belongs to them at the end of their stacks.
        None if sys::is_first_thread() => (stack, mapped(stack, STACK_BYTES)),
        None => (stack, 0),
    }
}

/// Number of the bytes from there on that are mapped; those of the first page are.
fn mapped(start: usize, bytes: usize) -> usize {
    let page = start - start % PAGE;
    let mut pages = [0_u8; STACK_BYTES / PAGE + 1];
    let whole = start + bytes - page;
    match sys::call3(libc::SYS_mincore, page, whole, pages.as_mut_ptr() as usize) {
        0 => bytes,
        _ => bytes.min(page + PAGE - start),
    }
}
