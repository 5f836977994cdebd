//! Loop to the kernel over io_uring (`Documentation/filesystems/fuse-io-uring.rst`, Linux 6.14).
//!
//! The kernel has a queue for each processor, and puts a program's request in that of the processor
//! on which it runs. Each thread here serves one queue, with a ring and one [entry](entry::RingEntry)
//! of its own: by one system call it gives an answer and waits for the next request. Inodes that
//! programs no longer need (`FORGET`) and signals (`INTERRUPT`) still come by `/dev/fuse`, so they
//! overtake requests for which no entry is free.
//!
//! An entry is free again when its request is answered, and cannot be taken from the kernel. So a
//! request that waits for long keeps its thread and its entry, and the queue gets others in place of
//! them, which stay: each queue has as many that do not wait for long as there were at the start.
//!
//! A request that comes when all entries of its queue are taken waits in the kernel, which looks for
//! it when one is answered, but not when a further one is registered. So the thread that registers
//! one has the kernel send a request by which it finds that out (`Notifier::ask_back`): otherwise
//! an unlock would wait behind locks that wait for it. It is one about a regular file: that of the
//! lock, or else the last one of which the kernel was told. If it knows neither any more, what waits
//! in the kernel goes on with the next request or answer of the same processor.
//!
//! An answer before its time ([`Pending::answer_early`](crate::Pending::answer_early)) is given by
//! a new thread, which keeps the entry; the one that goes on with the request ends with it. That
//! needs the request to be elsewhere than in the entry: small ones are copied. One that writes more
//! than [`COPIED_REQUEST_BYTES`](crate::limits::COPIED_REQUEST_BYTES) is not answered early.

mod commands;
mod entry;
mod processors;
mod slot;
mod worker;

pub(crate) use commands::Ring;
pub(crate) use entry::RingEntry;
use processors::possible;
pub(crate) use slot::Slot;
pub(crate) use worker::First;

use crate::device::Device;
use crate::limits::MIN_QUEUE_THREADS;
use crate::session::Threads;
use crate::spares::{Spares, Thread};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The queues of one mount.
#[derive(Debug)]
pub(crate) struct Rings {
    device: Arc<Device>,
    /// Bytes of an entry's payload.
    payload: usize,
    /// By the number of the queue: its threads beside those from the start.
    spares: Vec<Spares>,
    slots: Mutex<Vec<Weak<Slot>>>,
    /// A regular file that the kernel was told of last.
    regular: Arc<AtomicU64>,
    is_over: AtomicBool,
    has_fallen_back: AtomicBool,
    /// The number of the next request that the kernel is asked to send.
    asked_back: AtomicU64,
}

/// Rings for the threads from the start. They are made before the kernel is told that they will be
/// used: from then on it waits for them.
#[derive(Debug)]
pub(crate) struct Prepared {
    rings: Vec<Ring>,
    queues: u16,
    spare: usize,
}

impl Prepared {
    /// Makes the rings.
    ///
    /// # Errors
    /// The reason why this mount cannot do with them.
    pub(crate) fn new(device: &Arc<Device>, threads: Threads) -> Result<Prepared, String> {
        let queues =
            possible().map_err(|error| format!("the processors are not known: {error}"))?;
        let (each, spare) = shares(threads, usize::from(queues)).ok_or_else(|| {
            format!("there are {queues} possible processors, too many for its threads")
        })?;
        let rings = (0..queues).flat_map(|queue| std::iter::repeat_n(queue, each));
        let rings = rings.map(|queue| Ring::new(Arc::clone(device), queue));
        let rings = rings.collect::<io::Result<Vec<Ring>>>();
        Ok(Prepared {
            rings: rings.map_err(|error| format!("io_uring cannot be used: {error}"))?,
            queues,
            spare,
        })
    }

    /// The rings with what their threads share; `payload`: bytes of the largest request or answer.
    pub(crate) fn begin(self, device: &Arc<Device>, payload: usize) -> (Rings, Vec<Ring>) {
        let spares = (0..self.queues).map(|_| Spares::at_most(self.spare));
        let rings = Rings {
            device: Arc::clone(device),
            payload,
            spares: spares.collect(),
            slots: Mutex::default(),
            regular: Arc::default(),
            is_over: AtomicBool::new(false),
            has_fallen_back: AtomicBool::new(false),
            asked_back: AtomicU64::new(0),
        };
        (rings, self.rings)
    }
}

/// Threads of each queue from the start, and in place of those that wait for long. `None` if there
/// are not enough.
fn shares(threads: Threads, queues: usize) -> Option<(usize, usize)> {
    let each = (threads.regular / queues).max(MIN_QUEUE_THREADS);
    let more = (each * queues).saturating_sub(threads.regular);
    Some((each, threads.spare.checked_sub(more)?))
}

impl Rings {
    fn slot(&self, queue: u16) -> Arc<Slot> {
        let slot = Arc::new(Slot::of_queue(queue, Arc::clone(&self.regular)));
        let mut slots = self.slots();
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        drop(slots);
        // The thread that sets it looks at the slots afterwards.
        if self.is_over.load(Ordering::SeqCst) {
            slot.close();
        }
        slot
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spares_of(&self, slot: &Slot) -> &Spares {
        &self.spares[usize::from(slot.queue())]
    }

    /// The file system is unmounted: no thread need wait for answers any longer.
    pub(crate) fn end(&self) {
        if self.is_over.swap(true, Ordering::SeqCst) {
            return;
        }
        let slots: Vec<_> = self.slots().iter().filter_map(Weak::upgrade).collect();
        for slot in slots {
            slot.close();
        }
    }

    pub(crate) fn take_thread(&self) -> Option<Thread> {
        self.spares.iter().find_map(Spares::take_thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_dealt_to_the_queues() {
        let threads = Threads {
            regular: 16,
            spare: 256,
        };
        assert_eq!(shares(threads, 1), Some((16, 256)));
        assert_eq!(shares(threads, 2), Some((8, 256)));
        assert_eq!(shares(threads, 64), Some((2, 144)));
        assert_eq!(shares(threads, 136), Some((2, 0)));
        assert_eq!(shares(threads, 137), None);
    }
}
