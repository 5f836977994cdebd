//! The shards a lane leads, and how a batch of inputs goes through them.

use crate::error::LaneError;
use crate::faults::{Points, Stage, Subject};
use pandofs_api::ShardStatus;
use pandofs_placement::{ClusterMap, Granularity};
use pandofs_shard::{Environment, Finished, Input, Note, Output, Proposal, Shard, ShardError};
use pandofs_storage::log::{Entry, Log};
use pandofs_storage::store::Overlay;
use pandofs_types::ShardId;
use pandofs_types::limits::MAX_LOG_APPEND_BYTES;
use std::sync::Arc;

/// Bytes that a record takes in the log beside its payload, about.
const RECORD_OVERHEAD_BYTES: u64 = 16;

/// Shards by their numbers.
pub struct Shards {
    /// The place is the shard's number.
    led: Vec<Option<Led>>,
    /// Those that were given something since their outputs were taken; each once.
    touched: Vec<ShardId>,
    /// Of all of them, as policies that adapt count them.
    objects: u64,
}

struct Led {
    shard: Shard,
    /// Index of the last record that was appended, which is also applied between batches.
    appended: u64,
    /// Index of the last record when the sync under way began.
    being_synced: u64,
    /// Index of the last synced record.
    synced: u64,
    /// Index of the last record after which something was said that had waited for the disk.
    promised: u64,
    is_touched: bool,
}

/// Counts of what went into the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    pub records: u64,
    /// Writes to the log.
    pub batches: u64,
    pub bytes: u64,
}

impl Shards {
    /// Shards that have been opened and replayed; the log is synced.
    pub fn new(shards: Vec<(ShardId, Shard)>) -> Shards {
        let mut led = Vec::new();
        let objects = shards.iter().map(|(_, shard)| shard.objects()).sum();
        for (id, shard) in shards {
            let place = usize::from(id.0);
            led.resize_with(led.len().max(place + 1), || None);
            let last = shard.applied();
            assert!(led[place].is_none(), "shard {id} twice");
            led[place] = Some(Led {
                shard,
                appended: last,
                being_synced: last,
                synced: last,
                promised: 0,
                is_touched: false,
            });
        }
        Shards {
            led,
            touched: Vec::new(),
            objects,
        }
    }

    /// Returns whether this lane leads the shard.
    pub fn leads(&self, shard: ShardId) -> bool {
        self.led
            .get(usize::from(shard.0))
            .is_some_and(Option::is_some)
    }

    /// In ascending order.
    pub fn ids(&self) -> Vec<ShardId> {
        self.iter().map(|(id, _)| id).collect()
    }

    /// Goes on by a newer cluster map; see [`Shard::set_map`].
    pub fn set_map(&mut self, map: &Arc<ClusterMap>) {
        for led in self.led.iter_mut().flatten() {
            led.shard.set_map(Arc::clone(map));
        }
    }

    /// Gives an input to its shard.
    ///
    /// # Errors
    /// The shard's; what it holds in memory is in doubt then.
    ///
    /// # Panics
    /// When [`Shards::leads`] would deny it.
    pub fn submit(
        &mut self,
        overlay: &Overlay<'_>,
        environment: &mut Environment<'_>,
        shard: ShardId,
        input: Input,
    ) -> Result<(), LaneError> {
        environment.held = self.objects;
        let led = get(&mut self.led, shard);
        led.shard
            .submit(overlay, environment, input)
            .map_err(|source| failure(shard, source))?;
        if !led.is_touched {
            led.is_touched = true;
            self.touched.push(shard);
        }
        Ok(())
    }

    /// Lets [`Shards::append_and_apply`] and [`Shards::take_outputs`] ask every shard, not only
    /// those that were given something.
    pub fn touch_all(&mut self) {
        for id in self.ids() {
            let led = get(&mut self.led, id);
            if !led.is_touched {
                led.is_touched = true;
                self.touched.push(id);
            }
        }
    }

    /// Appends what the shards propose, all with one write, and applies it; again until they propose
    /// nothing more. Each record passes its fault points.
    ///
    /// # Errors
    /// A shard's, the log's or the points'; what the shards hold in memory is in doubt then.
    pub fn append_and_apply(
        &mut self,
        overlay: &mut Overlay<'_>,
        environment: &mut Environment<'_>,
        log: &dyn Log,
        points: &mut Points,
    ) -> Result<Appended, LaneError> {
        let mut total = Appended::default();
        let mut proposals = Vec::new();
        // All records, for the listener to the points.
        let mut passed: Vec<Vec<u8>> = Vec::new();
        loop {
            for &id in &self.touched {
                let led = get(&mut self.led, id);
                for proposal in led.shard.take_proposals() {
                    assert_eq!(
                        proposal.index,
                        led.appended + 1,
                        "a gap in shard {id}'s records"
                    );
                    led.appended = proposal.index;
                    proposals.push((id, proposal));
                }
            }
            if proposals.is_empty() {
                pass_all(points, Stage::Applied, &passed)?;
                return Ok(total);
            }
            let begun = passed.len();
            if points.are_on() {
                passed.extend(
                    proposals
                        .iter()
                        .map(|(_, proposal)| proposal.payload.clone()),
                );
            }
            pass_all(points, Stage::Appending, &passed[begun..])?;
            total.batches += append(log, &proposals)?;
            pass_all(points, Stage::Appended, &passed[begun..])?;
            for (id, proposal) in proposals.drain(..) {
                let led = get(&mut self.led, id);
                let before = led.shard.objects();
                led.shard
                    .apply(overlay, environment, proposal.index, &proposal.payload)
                    .map_err(|source| failure(id, source))?;
                self.objects = self.objects - before + led.shard.objects();
                total.records += 1;
                total.bytes += proposal.payload.len() as u64 + RECORD_OVERHEAD_BYTES;
            }
        }
    }

    /// Outputs of the shards that were given something, in the order in which they were.
    pub fn take_outputs(&mut self) -> Vec<(ShardId, Output)> {
        let mut outputs = Vec::new();
        for id in self.touched.drain(..) {
            let led = get(&mut self.led, id);
            led.is_touched = false;
            outputs.extend(
                led.shard
                    .take_outputs()
                    .into_iter()
                    .map(|output| (id, output)),
            );
        }
        outputs
    }

    /// Gives the notes of what requests wait for, of the shards that were given something.
    pub fn take_notes(&mut self, mut give: impl FnMut(Note)) {
        for &id in &self.touched {
            let notes = get(&mut self.led, id).shard.take_notes();
            notes.into_iter().for_each(&mut give);
        }
    }

    /// Notes that a sync of the log begins.
    pub fn sync_begins(&mut self) {
        for led in self.led.iter_mut().flatten() {
            led.being_synced = led.appended;
        }
    }

    /// Notes that it has succeeded.
    pub fn sync_ended(&mut self) {
        for led in self.led.iter_mut().flatten() {
            led.synced = led.being_synced;
        }
    }

    /// Notes that something is said which waited for this record to be synced. Whether it is.
    pub fn promise(&mut self, shard: ShardId, record: u64) -> bool {
        let led = get(&mut self.led, shard);
        led.promised = led.promised.max(record);
        record <= led.synced
    }

    /// The last record after which something was said that had waited for the disk; 0 if nothing was.
    pub fn promised(&self, shard: ShardId) -> u64 {
        self.led(shard).promised
    }

    /// One shard, to be looked at.
    ///
    /// # Panics
    /// When [`Shards::leads`] would deny it.
    pub fn shard(&self, shard: ShardId) -> &Shard {
        &self.led(shard).shard
    }

    fn led(&self, shard: ShardId) -> &Led {
        match self.led.get(usize::from(shard.0)) {
            Some(Some(led)) => led,
            _ => panic!("shard {shard} is not led here"),
        }
    }

    /// As [`Shards::shard`], for drivers of shards other than a lane.
    ///
    /// # Panics
    /// As there.
    pub fn shard_mut(&mut self, shard: ShardId) -> &mut Shard {
        &mut get(&mut self.led, shard).shard
    }

    /// The last record of each shard; between batches it is applied.
    pub fn appended(&self) -> Vec<(ShardId, u64)> {
        self.iter().map(|(id, led)| (id, led.appended)).collect()
    }

    /// One for each shard, in ascending order.
    pub fn status(&self) -> Vec<ShardStatus> {
        let status = |led: &Led| ShardStatus {
            synced: led.synced,
            ..led.shard.status()
        };
        self.iter().map(|(_, led)| status(led)).collect()
    }

    /// Of all these shards, as policies that adapt count them.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// Granularity of placement, if a shard places by what all servers have. All of them have heard
    /// the same.
    pub fn granularity(&self) -> Option<Granularity> {
        self.iter().find_map(|(_, led)| led.shard.granularity())
    }

    /// Distributed operations that these shards coordinated and that have ended since the start.
    pub fn finished(&self) -> Finished {
        let mut sum = Finished::default();
        for (_, led) in self.iter() {
            let finished = led.shard.finished();
            sum.committed += finished.committed;
            sum.aborted += finished.aborted;
        }
        sum
    }

    /// Partitions of these shards that went back to those they were split from, since the start.
    pub fn merged(&self) -> u64 {
        self.iter().map(|(_, led)| led.shard.merged()).sum()
    }

    /// Directories that clients are granted.
    pub fn granted(&self) -> u64 {
        self.iter().map(|(_, led)| led.shard.granted() as u64).sum()
    }

    fn iter(&self) -> impl Iterator<Item = (ShardId, &Led)> {
        self.led
            .iter()
            .zip(0..)
            .filter_map(|(led, id)| led.as_ref().map(|led| (ShardId(id), led)))
    }
}

/// # Errors
/// When a point cannot be noted.
fn pass_all(points: &mut Points, stage: Stage, records: &[Vec<u8>]) -> Result<(), LaneError> {
    for record in records {
        points.pass(stage, Subject::Record(record))?;
    }
    Ok(())
}

fn get(led: &mut [Option<Led>], shard: ShardId) -> &mut Led {
    match led.get_mut(usize::from(shard.0)) {
        Some(Some(led)) => led,
        _ => panic!("shard {shard} is not led here"),
    }
}

fn failure(shard: ShardId, source: ShardError) -> LaneError {
    LaneError::Shard { shard, source }
}

/// Appends records in their order, with one write unless they are too many for that. Answers the
/// number of writes.
fn append(log: &dyn Log, proposals: &[(ShardId, Proposal)]) -> Result<u64, LaneError> {
    let (mut entries, mut bytes, mut batches) = (Vec::with_capacity(proposals.len()), 0, 0);
    for (id, proposal) in proposals {
        if bytes + proposal.payload.len() > MAX_LOG_APPEND_BYTES && !entries.is_empty() {
            log.append(&entries)?;
            batches += 1;
            entries.clear();
            bytes = 0;
        }
        bytes += proposal.payload.len();
        entries.push(Entry {
            stream: u64::from(id.0),
            index: proposal.index,
            payload: &proposal.payload,
        });
    }
    log.append(&entries)?;
    Ok(batches + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_storage::log::MemoryLog;

    #[test]
    fn records_of_several_shards_are_one_write_unless_they_are_too_large() {
        let proposal = |index, bytes| Proposal {
            index,
            payload: vec![1; bytes],
        };
        let log = MemoryLog::new();
        let small = [
            (ShardId(2), proposal(1, 10)),
            (ShardId(9), proposal(5, 0)),
            (ShardId(2), proposal(2, 5)),
        ];
        assert_eq!(append(&log, &small).unwrap(), 1);
        assert_eq!(
            (log.unsynced(), log.span(2), log.span(9)),
            (1, Some((1, 2)), Some((5, 5)))
        );

        let third = MAX_LOG_APPEND_BYTES / 3 + 1;
        let large: Vec<_> = (3..=7)
            .map(|index| (ShardId(2), proposal(index, third)))
            .collect();
        assert_eq!(append(&log, &large).unwrap(), 3);
        assert_eq!(log.span(2), Some((1, 7)));
    }
}
