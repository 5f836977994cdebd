//! Heartbeat between processes. The run ends when one of them has been silent for too long.
//!
//! A process that dies ends the run by its launcher. A machine that is cut off, or hangs, says
//! nothing, and no process would notice: MPI waits for ever, and launchers ask late or never. So
//! each process tells rank 0 now and then that it is there, and rank 0 tells each. A thread of its
//! own does that, which makes no other call than of MPI: a process whose other threads all wait for
//! a file system that does not answer, or for somebody who reads standard output page by page, is
//! heard of all the same. It speaks in the communicator of all processes, and the walk in another.

use crate::limits::{ABORT_PATIENCE, BEATS_IN_SILENCE, LONGEST_END_POLL};
use crate::watch::Watch;
use mpi::request::{Request, StaticScope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, MatchedReceiveVec, Source};
use pandofs_walk_fs::limits::SHORTEST_POLL;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

static THERE: [u8; 1] = [0];
/// The last message of a process.
static ENDED: [u8; 1] = [1];

/// The thread, as long as there is one.
pub struct Pulse {
    ending: Arc<Ending>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Ending {
    is_asked: Mutex<bool>,
    bell: Condvar,
}

impl Pulse {
    /// Of a process that may call MPI from any thread. All start it, with the names of their hosts,
    /// by rank.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(limit: Duration, hosts: Vec<String>) -> io::Result<Pulse> {
        let ending = Arc::new(Ending::default());
        let thread = {
            let ending = Arc::clone(&ending);
            let thread = std::thread::Builder::new().name("pulse".into());
            thread.spawn(move || Beating::new(limit, hosts).go_on(&ending))?
        };
        Ok(Pulse { ending, thread })
    }

    /// This process has nothing left to do. Waits until those that it watches have not either: no
    /// message is under way then. To be called before MPI ends.
    pub fn end(self) {
        *self.ending.lock() = true;
        self.ending.bell.notify_all();
        // It panics nowhere, and if so the process has ended.
        let _ = self.thread.join();
    }
}

impl Ending {
    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.is_asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps, but for so long at most; whether the end was asked for.
    fn rest(&self, longest: Duration) -> bool {
        let mut is_asked = self.lock();
        if !*is_asked {
            let waited = self.bell.wait_timeout(is_asked, longest);
            is_asked = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_asked
    }
}

/// A send that was begun.
type Sending = Request<'static, [u8], StaticScope>;

struct Beating {
    world: SimpleCommunicator,
    hosts: Vec<String>,
    limit: Duration,
    started: Instant,
    watch: Watch,
    /// Processes that this one speaks with, and the sends under way to each.
    others: Vec<(i32, Vec<Sending>)>,
}

impl Beating {
    fn new(limit: Duration, hosts: Vec<String>) -> Beating {
        let world = SimpleCommunicator::world();
        let (me, ranks) = (world.rank(), world.size());
        let is_other = |rank: i32| if me == 0 { rank != 0 } else { rank == 0 };
        Beating {
            hosts,
            limit,
            started: Instant::now(),
            watch: Watch::new(ranks as u32, |rank| is_other(rank as i32), limit),
            others: (0..ranks)
                .filter(|rank| is_other(*rank))
                .map(|rank| (rank, Vec::new()))
                .collect(),
            world,
        }
    }

    fn go_on(mut self, ending: &Ending) {
        let interval = self.limit / BEATS_IN_SILENCE;
        while !ending.rest(interval) {
            self.send_beat(&THERE);
            self.listen();
        }
        self.send_beat(&ENDED);
        let mut pause = SHORTEST_POLL;
        loop {
            self.listen();
            let is_sent = self.others.iter().all(|(_, sending)| sending.is_empty());
            if is_sent && self.watch.have_all_ended() {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_END_POLL);
        }
    }

    /// Sends a beat to all that it speaks with, but not to those whose last beat is still under
    /// way.
    fn send_beat(&mut self, what: &'static [u8; 1]) {
        self.look_after();
        for (rank, sending) in &mut self.others {
            if sending.is_empty() || what == &ENDED {
                let other = self.world.process_at_rank(*rank);
                sending.push(other.immediate_send(StaticScope, &what[..]));
            }
        }
    }

    /// Lets go of what has been sent.
    fn look_after(&mut self) {
        for (_, sending) in &mut self.others {
            for request in std::mem::take(sending) {
                if let Err(request) = request.test() {
                    sending.push(request);
                }
            }
        }
    }

    /// Takes up what has come, and looks who is missed.
    fn listen(&mut self) {
        self.look_after();
        while let Some(found) = self.world.any_process().immediate_matched_probe() {
            let (said, status) = found.matched_receive_vec::<u8>();
            let rank = status.source_rank() as u32;
            if said == ENDED {
                self.watch.ended(rank);
            } else {
                self.watch.heard(rank, self.started.elapsed());
            }
        }
        if let Some(rank) = self.watch.missed(self.started.elapsed()) {
            self.end_all(rank);
        }
    }

    fn end_all(&self, missed: u32) -> ! {
        let host = self.hosts.get(missed as usize).map_or("?", |it| it);
        eprintln!(
            "pandofs-mpi: nothing has been heard of rank {missed} on {host} for {} s (--silence): it was stopped, or its \
             machine hangs or cannot be reached; the run ends",
            self.limit.as_secs()
        );
        // A launcher that is behind the same network may never answer.
        let patience = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(ABORT_PATIENCE);
            // SAFETY: it ends the process, whatever its other threads do.
            unsafe { libc::_exit(1) }
        });
        drop(patience);
        self.world.abort(1)
    }
}
