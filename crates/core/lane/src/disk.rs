//! Work of the disk and timers: when to sync, to write and to flush, and who waits for it.

use crate::command::Command;
use crate::error::LaneError;
use crate::faults::{Stage, Subject};
use crate::lane::Lane;
use crate::limits::RECALLS_LOOK_INTERVAL;
use pandofs_api::PeerMessage;
use pandofs_shard::Input;
use pandofs_types::Steady;
use pandofs_types::limits::{LOADS_INTERVAL, TICK_INTERVAL};
use std::sync::Arc;
use std::time::Duration;

/// Moments at which something is due.
#[derive(Debug)]
pub(crate) struct Timers {
    next_tick: Steady,
    /// When to look for clients who have waited for recalls for long, or have been silent.
    next_look: Steady,
    /// When to look at the loads.
    next_loads: Steady,
    /// When changes that no request waits for are synced, if there are any.
    next_sync: Steady,
    /// How long that may wait; 0 for not at all.
    sync_interval: Duration,
}

impl Timers {
    pub(crate) fn new(now: Steady, sync_interval: Duration) -> Timers {
        Timers {
            next_tick: now,
            next_look: now.after(RECALLS_LOOK_INTERVAL),
            next_loads: now,
            next_sync: now,
            sync_interval,
        }
    }

    pub(crate) fn sync_later(&mut self, now: Steady) {
        self.next_sync = now.after(self.sync_interval);
    }
}

/// Bytes that the store has not flushed, and those who wait for a flush. `W`: see [`Command`].
#[derive(Debug)]
pub(crate) struct FlushState<W> {
    /// Bytes of records appended and not known to be flushed.
    unflushed_bytes: u64,
    /// Of these, what the flush under way covers.
    under_way: Option<u64>,
    /// A disk has become low.
    pub for_room: bool,
    /// Those who wait for the flush under way.
    waiting: Vec<W>,
    /// Those who wait for one that begins from now on.
    wanted: Vec<W>,
    /// Bytes appended since that was last asked.
    unasked_bytes: u64,
}

impl<W> FlushState<W> {
    pub(crate) fn new(unflushed_bytes: u64) -> FlushState<W> {
        FlushState {
            unflushed_bytes,
            under_way: None,
            for_room: false,
            waiting: Vec::new(),
            wanted: Vec::new(),
            unasked_bytes: 0,
        }
    }

    pub(crate) fn appended(&mut self, bytes: u64) {
        self.unflushed_bytes += bytes;
        self.unasked_bytes += bytes;
    }
}

impl<W> Lane<W> {
    /// Does what is due by the clock.
    pub fn run_timers(&mut self, now: Steady) {
        self.now = now;
        self.hot.tick(now);
        if self.timers.next_tick <= now {
            self.timers.next_tick = now.after(TICK_INTERVAL);
            self.give_all(|| Input::Tick);
        }
        if self.timers.next_look <= now {
            self.timers.next_look = now.after(RECALLS_LOOK_INTERVAL);
            self.answer_waiting(now);
            self.expire_sessions(now);
        }
        if self.timers.next_loads <= now {
            self.timers.next_loads = now.after(LOADS_INTERVAL);
            self.look_at_loads();
        }
    }

    /// The next moment at which [`Lane::run_timers`] or [`Lane::begin_work`] has something to do, if nothing else happens.
    pub fn next_due(&self) -> Steady {
        let timers = &self.timers;
        let next = timers
            .next_tick
            .min(timers.next_look)
            .min(timers.next_loads);
        if self.durable.is_behind() && !self.durable.is_under_way() {
            next.min(timers.next_sync)
        } else {
            next
        }
    }

    /// Tells the shards what all servers were last heard to have, and asks them again. As long as nothing here is placed
    /// by that, nobody is asked.
    fn look_at_loads(&mut self) {
        self.loads.count(self.counters.requests);
        if self.shards.granularity().is_none() {
            return;
        }
        let load = self.own_load();
        self.loads.report(self.id, load);
        let all = Arc::new(self.loads.all());
        self.give_all(|| Input::Loads(Arc::clone(&all)));
        let wanted = true;
        for server in self.map.leading_servers() {
            if server != self.id {
                let message = PeerMessage::Load { load, wanted };
                self.commands.push(Command::Send { server, message });
            }
        }
    }

    /// Begins a sync of the log and a flush of the store if they are due: a flush when more than `flush_after` bytes of
    /// records are not flushed, when a disk is low, and when somebody wants one.
    ///
    /// # Errors
    /// As [`Lane::run_batch`].
    pub fn begin_work(&mut self, now: Steady, flush_after: u64) -> Result<(), LaneError> {
        let is_due = self.durable.is_behind()
            && (self.timers.sync_interval.is_zero() || self.timers.next_sync <= now);
        if (is_due || self.durable.is_wanted()) && !self.durable.is_under_way() {
            self.points.pass(Stage::Syncing, Subject::Log)?;
            self.durable.begin();
            self.shards.sync_begins();
            self.timers.sync_later(now);
            self.commands.push(Command::Sync);
        }
        let flush = &mut self.flush;
        let is_wanted =
            flush.unflushed_bytes > flush_after || flush.for_room || !flush.wanted.is_empty();
        if is_wanted && flush.under_way.is_none() {
            flush.for_room = false;
            flush.under_way = Some(flush.unflushed_bytes);
            flush.waiting.append(&mut flush.wanted);
            self.write_out()?;
            self.points.pass(Stage::Flushing, Subject::Store)?;
            let written = self.shards.appended();
            self.commands.push(Command::Flush { written });
        }
        Ok(())
    }

    /// The sync that was begun has succeeded.
    ///
    /// # Errors
    /// As [`Lane::run_batch`].
    pub fn synced(&mut self) -> Result<(), LaneError> {
        self.points.pass(Stage::Synced, Subject::Log)?;
        self.counters.log_syncs += 1;
        self.shards.sync_ended();
        for held in self.durable.finish() {
            self.let_go(held)?;
        }
        Ok(())
    }

    /// Syncs the log, and waits for that. A sync under way covers less; its report is not needed any more.
    ///
    /// # Errors
    /// As [`Lane::run_batch`].
    pub fn sync_now(&mut self) -> Result<(), LaneError> {
        self.shards.sync_begins();
        self.log.sync()?;
        self.shards.sync_ended();
        for held in self.durable.finish_all() {
            self.let_go(held)?;
        }
        Ok(())
    }

    /// The flush that was begun has succeeded.
    ///
    /// # Errors
    /// As [`Lane::run_batch`].
    pub fn flushed(&mut self) -> Result<(), LaneError> {
        self.points.pass(Stage::Flushed, Subject::Store)?;
        let Some(flushed) = self.flush.under_way.take() else {
            panic!("a flush ends that did not begin");
        };
        self.flush.unflushed_bytes -= flushed;
        for to in self.flush.waiting.drain(..) {
            self.commands.push(Command::FlushDone { to });
        }
        Ok(())
    }

    /// Has the store flushed; [`Command::FlushDone`] tells when all that is applied now is.
    pub fn want_flush(&mut self, to: W) {
        self.flush.wanted.push(to);
    }

    /// Bytes of records that the store may not have flushed.
    pub fn unflushed_bytes(&self) -> u64 {
        self.flush.unflushed_bytes
    }

    /// Bytes that were appended to the log since this was last asked.
    pub fn take_appended_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.flush.unasked_bytes)
    }

    /// Writes all that is applied to the store: before anybody else reads it.
    ///
    /// # Errors
    /// The store's: the lane is not to be used any more.
    pub fn write_out(&mut self) -> Result<(), LaneError> {
        if !self.overlay.is_empty() {
            self.store.write(&self.overlay.take_batch())?;
        }
        Ok(())
    }
}
