//! Threads of the rings.

use super::Rings;
use super::commands::{Outcome, Ring};
use super::entry::RingEntry;
use super::processors::run_on;
use super::slot::{End, Slot};
use crate::Filesystem;
use crate::limits::COPIED_REQUEST_BYTES;
use crate::notify::Notifier;
use crate::reply::Way;
use crate::session::{Shared, THREAD_NAMES, unanswerable};
use crate::spares::Thread;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The first thing that a thread does.
pub(crate) enum First {
    /// Registers an entry, as one of the threads from the start.
    Begin,
    /// Registers an entry of a queue of which others may all be taken.
    /// Of these inodes the kernel knows some.
    Help([u64; 2]),
    /// Sends the answer in this entry.
    Answer(RingEntry),
}

/// The first task of a new thread, until it has begun.
type FirstThing = Arc<Mutex<Option<First>>>;

impl<F: Filesystem> Shared<F> {
    /// Starts a thread of a ring.
    ///
    /// # Errors
    /// With what it would have done first.
    pub(crate) fn start_on(
        shared: &Arc<Shared<F>>,
        ring: Ring,
        first: First,
    ) -> Result<Thread, (io::Error, Option<First>)> {
        let first: FirstThing = Arc::new(Mutex::new(Some(first)));
        let (of_thread, shared) = (Arc::clone(&first), Arc::clone(shared));
        let spawned = thread::Builder::new()
            .name(format!("{THREAD_NAMES}-ring-{}", ring.queue()))
            .spawn(move || match (&shared.rings, take(&of_thread)) {
                (Some(rings), Some(first)) => {
                    let result = Shared::serve_ring(&shared, rings, ring, first);
                    if let Err(error) = &result {
                        tracing::error!(%error, "a thread of a ring has ended");
                    }
                    result
                }
                _ => Ok(()),
            });
        spawned.map_err(|error| (error, take(&first)))
    }

    /// Starts a thread with a further ring of a queue.
    fn start_another(
        shared: &Arc<Shared<F>>,
        rings: &Rings,
        queue: u16,
        first: First,
    ) -> Result<Thread, (io::Error, Option<First>)> {
        match Ring::new(Arc::clone(&rings.device), queue) {
            Ok(ring) => Shared::start_on(shared, ring, first),
            Err(error) => Err((error, Some(first))),
        }
    }

    /// A request of this slot waits for long.
    pub(crate) fn begin_ring_wait(shared: &Arc<Shared<F>>, slot: &Slot) {
        let Some(rings) = &shared.rings else { return };
        rings.spares_of(slot).begin_wait(|| {
            let first = First::Help(slot.known_files());
            let started = Shared::start_another(shared, rings, slot.queue(), first);
            started.map_err(|(error, _)| error)
        });
    }

    /// Sends the answer that is in the entry while the request of the slot goes on.
    pub(crate) fn send_early(shared: &Arc<Shared<F>>, slot: &Slot, entry: RingEntry) {
        let Some(rings) = &shared.rings else { return };
        match Shared::start_another(shared, rings, slot.queue(), First::Answer(entry)) {
            // In place of the one that has the request, which will end with it.
            Ok(thread) => rings.spares_of(slot).add(thread),
            Err((error, first)) => {
                tracing::warn!(%error, "a program that was killed waits for its operation");
                if let Some(First::Answer(entry)) = first {
                    slot.take_back(entry);
                }
            }
        }
    }

    fn serve_ring(
        shared: &Arc<Shared<F>>,
        rings: &Rings,
        mut ring: Ring,
        first: First,
    ) -> io::Result<()> {
        ring.begin()?;
        let slot = rings.slot(ring.queue());
        let is_spare = !matches!(first, First::Begin);
        let mut is_registered = matches!(first, First::Answer(_));
        let mut given = match first {
            First::Begin => ring.register(RingEntry::of_payload(rings.payload)?)?,
            First::Help(files) => {
                let given = ring.register(RingEntry::of_payload(rings.payload)?)?;
                ring.submit()?;
                rings.ask_back(ring.queue(), files);
                given
            }
            First::Answer(entry) => ring.commit(entry)?,
        };
        let mut copy = Vec::new();
        loop {
            if is_spare {
                ring.give_back_memory(&mut given)?;
            }
            let entry = match ring.wait(given)? {
                Outcome::Request(entry) => entry,
                Outcome::Over => {
                    rings.end();
                    return Ok(());
                }
                Outcome::Refused(_, error) if !is_registered => {
                    Shared::fall_back(shared, rings, &error);
                    return Ok(());
                }
                Outcome::Refused(entry, error) => {
                    tracing::error!(%error, "the kernel refuses an answer");
                    is_registered = false;
                    given = ring.register(entry)?;
                    continue;
                }
            };
            is_registered = true;
            match Shared::handle_in(shared, rings, &slot, entry, &mut copy)? {
                End::Answered(entry) => given = ring.commit(entry)?,
                End::GivenAway | End::Over => return Ok(()),
            }
        }
    }

    /// Handles the request in an entry, and waits for its answer.
    fn handle_in(
        shared: &Arc<Shared<F>>,
        rings: &Rings,
        slot: &Arc<Slot>,
        mut entry: RingEntry,
        copy: &mut Vec<u8>,
    ) -> io::Result<End> {
        let way = Way::Ring(Arc::clone(slot));
        let node = entry.node();
        let place = entry.take_request().map_err(unanswerable)?;
        let (pending, own) = if place.len() <= COPIED_REQUEST_BYTES {
            copy.clear();
            copy.extend_from_slice(entry.request(place));
            slot.begin(node, Some(entry));
            (Shared::handle(shared, way, copy)?, None)
        } else {
            slot.begin(node, None);
            let pending = Shared::handle(shared, way, entry.request(place))?;
            (pending, Some(entry))
        };
        if !slot.is_answered() {
            // Somebody else will give it, and this thread has the entry until then.
            pending.waits_long();
        }
        let end = slot.end(own);
        if pending.ends() {
            // Those of rings stay.
            let _ = rings.spares_of(slot).end_wait();
        }
        Ok(end)
    }

    /// The kernel takes no entries: then it sends its requests by `/dev/fuse`.
    fn fall_back(shared: &Arc<Shared<F>>, rings: &Rings, error: &io::Error) {
        if rings.has_fallen_back.swap(true, Ordering::SeqCst) {
            return;
        }
        tracing::warn!(%error, "the kernel refuses io_uring: requests come by /dev/fuse");
        for number in 1..shared.regular {
            match Shared::start(shared, number.to_string(), Arc::clone(&rings.device), false) {
                Ok(thread) => shared.spares.add(thread),
                Err(error) => tracing::warn!(%error, "a thread less takes requests"),
            }
        }
    }
}

impl Rings {
    /// Has the kernel send a request to a queue of which an entry was registered, and with it what
    /// it has put aside there.
    fn ask_back(&self, queue: u16, files: [u64; 2]) {
        // Even, as numbers of the kernel's requests are, and none that it gives.
        let number = self.asked_back.fetch_add(2, Ordering::Relaxed) | 1 << 63;
        let notifier = Notifier::new(Arc::clone(&self.device));
        let ask = || {
            let about = |file| notifier.ask_back(number, file);
            about(files[0]).or_else(|_| about(files[1]))
        };
        match run_on(queue, ask) {
            Ok(Ok(())) => {}
            Ok(Err(error)) | Err(error) => {
                tracing::debug!(%error, queue, "requests of a processor may wait for its next one");
            }
        }
    }
}

fn take(first: &FirstThing) -> Option<First> {
    first.lock().unwrap_or_else(PoisonError::into_inner).take()
}
