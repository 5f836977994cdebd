//! Scrubbing: slow reading of everything that is stored, to find damage that no request has met.
//!
//! That is the store, the log, and the data objects with their checksums.
//!
//! One thread does it, at a limited rate: by itself when the last pass ended long enough ago, or at once
//! and faster when it is asked to. Objects are read past the system's page cache, so that it is the disk
//! that is checked and nothing is pushed out of memory. A block that is read while it is being changed may
//! not fit; the thread that changes the object then has another look at it, between two changes.
//!
//! A pass also ends the doubt about objects that a loss of power has left (`data/sums`), and removes
//! checksums whose object is gone.

mod object;
mod pass;
mod record;

use crate::data::Holdings;
use crate::data::pool::Workers;
use crate::helper;
use crate::mailbox::Mailbox;
use pandofs_api::{ScrubOrder, ScrubReport, ScrubState};
use pandofs_storage::log::Log;
use pandofs_storage::store::Store;
use record::Record;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Faults that are reported; of more there is no need to know.
const MAX_FAULTS: usize = 64;
/// Time owed to the limit of the rate before it is waited for.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

/// When a server scrubs by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// From the end of one pass to the beginning of the next; 0: never.
    pub interval: Duration,
    /// Bytes a second; 0: no limit.
    pub rate: u64,
}

/// The store, log and objects that are scrubbed.
pub(crate) struct Subject {
    pub holdings: Arc<Holdings>,
    pub workers: Workers,
    pub store: Arc<dyn Store>,
    pub log: Arc<dyn Log>,
    /// The log's streams.
    pub streams: Vec<u64>,
}

/// The thread.
#[derive(Debug)]
pub(crate) struct Scrubber {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Scrubber {
    /// # Errors
    /// The system's, when it has no thread to give or the record of earlier passes cannot be read.
    pub(crate) fn start(
        subject: Subject,
        schedule: Schedule,
        mailbox: &Mailbox,
    ) -> io::Result<Scrubber> {
        let record = Record::read(&subject.holdings.root)?;
        let shared = Arc::new(Shared::new(schedule, record.ended));
        let own = Arc::clone(&shared);
        let thread = helper::spawn("scrub", mailbox, move || own.run(&subject, record))?;
        let threads = vec![thread];
        Ok(Scrubber { shared, threads })
    }

    /// Does what an administrator wants.
    pub(crate) fn order(&self, order: ScrubOrder, holdings: &Holdings) -> ScrubReport {
        let mut state = self.shared.state();
        match order {
            ScrubOrder::Look => {}
            ScrubOrder::Pause => state.is_paused = true,
            ScrubOrder::Resume => state.is_paused = false,
            ScrubOrder::Begin { rate } if state.is_asked_for => {
                if rate == 0 || (state.report.rate != 0 && rate > state.report.rate) {
                    state.report.rate = rate;
                }
            }
            ScrubOrder::Begin { rate } => {
                state.is_asked_for = true;
                state.is_to_begin = true;
                state.report.pass += 1;
                state.report.rate = rate;
                state.report.share = 0;
            }
        }
        self.shared.changed.notify_all();
        let mut report = state.report();
        report.damaged = holdings.health.list();
        report.failing = holdings.health.failing_list();
        report.taken = holdings.health.taken();
        report.refused = holdings.health.refused();
        report
    }

    /// Ends the thread where it is.
    pub(crate) fn stop(mut self) {
        self.end();
        helper::join(std::mem::take(&mut self.threads));
    }

    fn end(&self) {
        self.shared.state().ends = true;
        self.shared.changed.notify_all();
    }
}

/// It would wait for its next pass and keep the store open.
impl Drop for Scrubber {
    fn drop(&mut self) {
        self.end();
    }
}

/// Why a pass does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// The server stops.
    Ends,
    /// Another one is wanted, from the beginning.
    BeginsAnew,
}

#[derive(Debug)]
struct Shared {
    schedule: Schedule,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The state in it is not used.
    report: ScrubReport,
    is_running: bool,
    is_paused: bool,
    /// The pass under way, or to begin, was asked for.
    is_asked_for: bool,
    is_to_begin: bool,
    ends: bool,
    /// Since when the rate is measured, and what has been read since.
    since: Instant,
    read: u64,
}

impl State {
    fn report(&self) -> ScrubReport {
        let state = match (self.is_paused, self.is_running || self.is_to_begin) {
            (true, _) => ScrubState::Paused,
            (false, true) => ScrubState::Running,
            (false, false) => ScrubState::Idle,
        };
        ScrubReport {
            state,
            ..self.report.clone()
        }
    }
}

impl Shared {
    fn new(schedule: Schedule, ended: u64) -> Shared {
        Shared {
            schedule,
            state: Mutex::new(State {
                report: ScrubReport {
                    rate: schedule.rate,
                    ended,
                    ..ScrubReport::default()
                },
                is_running: false,
                is_paused: false,
                is_asked_for: false,
                is_to_begin: false,
                ends: false,
                since: Instant::now(),
                read: 0,
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, subject: &Subject, mut record: Record) {
        while let Ok(anew) = self.wait_for_pass(subject, &record) {
            // After a loss of power the pass looks at everything.
            if anew || subject.holdings.generations.any_lost() {
                record.next = 0;
            }
            if self.pass(subject, &mut record) == Err(Cut::Ends) {
                return;
            }
        }
    }

    /// Until it is time for a pass; whether it has to begin anew.
    fn wait_for_pass(&self, subject: &Subject, record: &Record) -> Result<bool, Cut> {
        let mut state = self.state();
        loop {
            if state.ends {
                return Err(Cut::Ends);
            }
            if state.is_to_begin {
                self.begin(&mut state);
                return Ok(true);
            }
            let wait = self.time_to_own_pass(subject, record, state.report.finished == 0);
            if wait == Some(Duration::ZERO) && !state.is_paused {
                state.report.pass += 1;
                state.report.rate = self.schedule.rate;
                self.begin(&mut state);
                return Ok(false);
            }
            state = match wait.filter(|_| !state.is_paused) {
                None => self.wait(state),
                Some(wait) => self.wait_for(state, wait),
            };
        }
    }

    fn begin(&self, state: &mut State) {
        state.is_running = true;
        state.is_to_begin = false;
        state.report.share = 0;
        state.report.objects = 0;
        state.report.bytes = 0;
        state.report.faults.clear();
        state.since = Instant::now();
        state.read = 0;
    }

    /// `None` when there is none.
    fn time_to_own_pass(
        &self,
        subject: &Subject,
        record: &Record,
        is_first: bool,
    ) -> Option<Duration> {
        if self.schedule.interval.is_zero() {
            return None;
        }
        // Rather at once: until then damage to what was not synced before the machine was started anew
        // cannot be distinguished from what was lost.
        // A pass that could not read everything is not followed by another one at once.
        if record.next > 0 || (is_first && subject.holdings.generations.any_lost()) {
            return Some(Duration::ZERO);
        }
        let due = Duration::from_secs(record.ended) + self.schedule.interval;
        // No later than one that ends now would have it, should the clock have been set back meanwhile.
        Some(due.saturating_sub(now()).min(self.schedule.interval))
    }

    /// More has been read: goes on when the rate allows it.
    ///
    /// # Errors
    /// When the pass is not to go on.
    fn have_read(&self, bytes: u64) -> Result<(), Cut> {
        let mut state = self.state();
        state.report.bytes += bytes;
        state.read += bytes;
        loop {
            if state.ends {
                return Err(Cut::Ends);
            }
            if state.is_to_begin {
                return Err(Cut::BeginsAnew);
            }
            if state.is_paused {
                state = self.wait(state);
                // Reads missed meanwhile are not made up for.
                state.since = Instant::now();
                state.read = 0;
                continue;
            }
            let rate = state.report.rate;
            let due = state.read.saturating_mul(1_000_000).checked_div(rate);
            let due = Duration::from_micros(due.unwrap_or(0));
            let wait = due.saturating_sub(state.since.elapsed());
            if wait < SHORTEST_WAIT {
                // Nor what was read more slowly than it might have been.
                if wait.is_zero() {
                    state.since = Instant::now();
                    state.read = 0;
                }
                return Ok(());
            }
            state = self.wait_for(state, wait);
        }
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for<'s>(&self, state: MutexGuard<'s, State>, time: Duration) -> MutexGuard<'s, State> {
        let waited = self.changed.wait_timeout(state, time);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn fault(&self, text: String) {
        tracing::error!("scrub: {text}");
        let mut state = self.state();
        if state.report.faults.len() < MAX_FAULTS {
            state.report.faults.push(text);
        }
    }
}

/// Since 1970.
fn now() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}
