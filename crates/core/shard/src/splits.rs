//! Splits and merges under way: copying, the last step, and what is staged here for others. All of it may be lost
//! in a crash: a split that was not handed over is given up and begins again.

mod granted;
mod hand;
mod merge;
mod pace;
mod slots;
mod upkeep;

use crate::coordinate::Origin;
use crate::map_notices::MapNotices;
use crate::port::{Environment, Output};
use crate::record::Record;
use crate::shard::{Shard, view_of};
use crate::splits::hand::InodesThatMove;
use crate::waiting::Until;
use hashbrown::{HashMap, HashSet};
use pandofs_api::{
    Adopt, CommitMessage, PeerMessage, SplitChunk, SplitId, SplitItem, Step, StepResult, step,
};
use pandofs_commit::Decision;
use pandofs_namespace::records::{EntryRecord, PartsRecord, SplitRecord, decode};
use pandofs_namespace::steps::new_file;
use pandofs_namespace::{Choices, Stop, View, keys, split};
use pandofs_placement::{ClusterMap, PartitionIndex, slot_array};
use pandofs_storage::store::Overlay;
use pandofs_types::limits::{GATE_PATIENCE, SPLIT_CHUNK_BYTES, SPLIT_DELTA_ENTRIES};
use pandofs_types::{FileKind, Ino, Name, Position, ShardId, Steady, TxId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Splits {
    copying: HashMap<Ino, Copying>,
    /// Directories for which a `SplitBegin` or `MergeBegin` is on its way through the log.
    beginning: HashSet<Ino>,
    /// Contents of last steps that are under way.
    handing: HashMap<TxId, Adopt>,
    /// Ranges in which no new locks are taken, so that a last step gets its own.
    gates: HashMap<Ino, Gate>,
    /// Splits staged here, and when they last moved.
    staging: HashMap<SplitId, Steady>,
    again: BTreeMap<Steady, BTreeSet<Ino>>,
    paces: pace::Paces,
    /// Directories that somebody wants spread to servers that joined, and until when.
    spreading: BTreeMap<Ino, Steady>,
    /// Directories whose homes were asked for other slots, and when.
    asked: BTreeMap<Ino, Steady>,
    /// Those whose homes have answered, until their partitions are looked at.
    told: BTreeSet<Ino>,
    pub map_notices: MapNotices,
    /// Merges that ended here since the start.
    pub merged: u64,
}

#[derive(Debug)]
struct Copying {
    record: SplitRecord,
    phase: Phase,
    /// Chunks that the target has acknowledged.
    acknowledged: u32,
    in_flight: Option<SplitChunk>,
    sent: Steady,
    /// Copied names that have changed since.
    dirty: BTreeSet<Name>,
    /// Copied names of each inode that is here, by which a change of it is traced to them: also of those
    /// that do not move along because they have other names, as they may lose these.
    names: HashMap<Ino, BTreeSet<Name>>,
    /// Those of them that were copied with their name.
    along: HashSet<Ino>,
    /// Until then the last step does not come, as what it waits for has taken too long.
    put_off_until: Steady,
}

/// Phase of a split or a merge whose beginning was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Entries are copied, chunk after chunk, from this key on; `None` at the start.
    Copying { next: Option<Vec<u8>> },
    /// All were copied once: what changed since goes after them, until little is left.
    CatchingUp,
    /// The last step is proposed.
    Handing,
}

impl Phase {
    /// Whether the entry with this key was copied.
    fn has_copied(&self, key: &[u8]) -> bool {
        match self {
            Phase::Copying { next } => next.as_deref().is_some_and(|next| key < next),
            Phase::CatchingUp | Phase::Handing => true,
        }
    }
}

#[derive(Debug)]
struct Gate {
    start: Position,
    end: Position,
    since: Steady,
}

impl Splits {
    pub(crate) fn hand(&mut self, tx: TxId, adopt: Adopt) {
        self.handing.insert(tx, adopt);
    }

    pub(crate) fn handed(&mut self, tx: TxId) {
        self.handing.remove(&tx);
    }

    pub(crate) fn end(&mut self, dir: Ino, split: SplitId) {
        if let Some(copying) = self.copying.get(&dir)
            && copying.record.split == split
        {
            self.merged += u64::from(copying.record.back);
            self.copying.remove(&dir);
            // Others of the shard's partitions may have waited for it to end.
            self.look_again_later(dir);
        }
    }

    /// After a pause, whether partitions of the directory are to be split or merged.
    pub(crate) fn look_again_later(&mut self, dir: Ino) {
        self.again.entry(Steady(0)).or_default().insert(dir);
    }

    /// Whether the directory splits or merges, or is about to, or is to be spread.
    pub(crate) fn concern(&self, dir: Ino) -> bool {
        self.copying.contains_key(&dir)
            || self.beginning.contains(&dir)
            || self.spreading.contains_key(&dir)
    }

    pub(crate) fn saw_staging(&mut self, split: SplitId, now: Steady) {
        self.staging.insert(split, now);
    }

    pub(crate) fn forget_staging(&mut self, split: SplitId) {
        self.staging.remove(&split);
    }

    /// Puts what is not stored into the message that begins a split's last step.
    pub(crate) fn complete(&self, message: CommitMessage) -> CommitMessage {
        match message {
            CommitMessage::Do {
                tx,
                number,
                step: Step::Adopt(adopt),
                ask,
                age,
            } => {
                let adopt = self.handing.get(&tx).cloned().map_or(adopt, Box::new);
                CommitMessage::Do {
                    tx,
                    number,
                    step: Step::Adopt(adopt),
                    ask,
                    age,
                }
            }
            other => other,
        }
    }
}

/// Whether the partition that is to be split off has a shard, if slots are fixed, and one that this shard has heard of.
fn has_target(map: &ClusterMap, parts: &PartsRecord, child: PartitionIndex) -> bool {
    let slots = &parts.map;
    !slots.has_slots() || slots.has_slot(child) && map.has_shard(slots.shard_of_partition(child))
}

impl Shard {
    /// Whether a partition is on its way from here to another shard: being copied, or in the last step.
    pub fn is_splitting(&self) -> bool {
        let mut coordinated = self.operations.coordinations.values();
        !self.splits.copying.is_empty()
            || coordinated.any(|known| {
                matches!(known.origin, Origin::Split { .. })
                    && known.coordination.decision == Decision::Open
            })
    }

    /// The directory of which a split is waiting to see locks gone, if one of the steps here would take such a lock.
    pub(crate) fn gate_of(&self, steps: &[(ShardId, Step)]) -> Option<Ino> {
        if self.splits.gates.is_empty() {
            return None;
        }
        steps.iter().find_map(|(shard, step)| {
            let (dir, name) = match step {
                Step::Insert(step::Insert { dir, name, .. })
                | Step::Remove(step::Remove { dir, name, .. }) => (dir, name),
                Step::Swap(swap) => (&swap.dir, &swap.name),
                Step::Whiteout(whiteout) => (&whiteout.dir, &whiteout.name),
                _ => return None,
            };
            let position = self.config.map.hash_key.position(name.as_bytes());
            let gate = self.splits.gates.get(dir)?;
            let is_within = gate.start <= position && position < gate.end;
            (*shard == self.config.shard && is_within).then_some(*dir)
        })
    }

    pub(crate) fn lift_gate(&mut self, dir: Ino) {
        self.splits.gates.remove(&dir);
        self.commands.waiting.release(Until::Gate(dir));
    }

    /// Proposes to split the partition if it wants to, or to spread it if the directory is to be spread.
    pub(crate) fn consider_split(
        &mut self,
        overlay: &Overlay<'_>,
        dir: Ino,
        index: PartitionIndex,
    ) -> Result<(), Stop> {
        if self.splits.copying.contains_key(&dir) || self.splits.beginning.contains(&dir) {
            return Ok(());
        }
        let config = self.config.clone();
        let view = view_of(&config, overlay, false);
        let Some(parts) = view.parts(dir)? else {
            return Ok(());
        };
        let wanted = split::child_wanted(&config.map, &parts, index);
        let spreads = self.splits.spreading.contains_key(&dir)
            && split::is_worth_spreading(&config.map, &parts, index);
        if (wanted.is_none() && !spreads) || view.split(dir)?.is_some() {
            return Ok(());
        }
        if self.waits_for_grant(dir, &parts, index) {
            return Ok(());
        }
        let is_home = dir.birth_shard() == config.shard;
        let slots = match split::more_slots(&config.map, dir, &parts) {
            Some(slots) if is_home => slots,
            Some(_) if !self.splits.told.contains(&dir) => {
                self.ask_for_slots(dir);
                return Ok(());
            }
            // Also when the home has been asked and knows no better.
            _ => Vec::new(),
        };
        if slots.is_empty() {
            let to_spread = || split::child_to_spread(&config.map, &parts, index);
            let child = wanted.or_else(|| spreads.then(to_spread).flatten());
            if child.is_none_or(|child| !has_target(&config.map, &parts, child)) {
                return Ok(());
            }
        }
        let slots = if parts.map.has_slots() {
            slots
        } else {
            let settings = &parts.settings;
            let count = split::slot_count(&view, settings.max_partitions)
                .max(settings.initial_partitions.unwrap_or(0));
            slot_array(&config.map, config.shard, count, dir.0)
        };
        self.splits.beginning.insert(dir);
        self.propose(&Record::SplitBegin { dir, index, slots });
        Ok(())
    }

    pub(crate) fn consider_all_splits(
        &mut self,
        overlay: &Overlay<'_>,
        dir: Ino,
    ) -> Result<(), Stop> {
        let parts = view_of(&self.config, overlay, false).parts(dir)?;
        for part in parts.iter().flat_map(|parts| &parts.parts) {
            self.consider_split(overlay, dir, part.index)?;
        }
        Ok(())
    }

    /// A `SplitBegin` or `MergeBegin` was applied in vain: it is looked at again.
    pub(crate) fn does_not_begin(&mut self, dir: Ino) {
        self.splits.beginning.remove(&dir);
        self.splits.look_again_later(dir);
    }

    /// A `SplitBegin` or `MergeBegin` was applied: starts to copy.
    pub(crate) fn after_begin(&mut self, overlay: &Overlay<'_>, dir: Ino) -> Result<(), Stop> {
        self.splits.beginning.remove(&dir);
        if self.commands.replaying || self.splits.copying.contains_key(&dir) {
            return Ok(());
        }
        let Some(record) = view_of(&self.config, overlay, false).split(dir)? else {
            return Ok(());
        };
        let copying = Copying {
            record,
            phase: Phase::Copying { next: None },
            acknowledged: 0,
            in_flight: None,
            sent: Steady(0),
            dirty: BTreeSet::new(),
            names: HashMap::new(),
            along: HashSet::new(),
            put_off_until: Steady(0),
        };
        self.splits.copying.insert(dir, copying);
        if self.splits.paces.has(dir) {
            // The tick knows the time.
            return Ok(());
        }
        self.copy_on(overlay, dir, None)
    }

    /// Sends the next chunk, or what changed since, or goes to the last step. Of a directory that has a pace the time is
    /// known.
    fn copy_on(
        &mut self,
        overlay: &Overlay<'_>,
        dir: Ino,
        now: Option<Steady>,
    ) -> Result<(), Stop> {
        let config = self.config.clone();
        let view = view_of(&config, overlay, false);
        let Some(copying) = self.splits.copying.get_mut(&dir) else {
            return Ok(());
        };
        let record = copying.record.clone();
        let (items, gone) = if let Phase::Copying { next: from } = &copying.phase {
            let Some(most) = self.splits.paces.chunk(dir, now) else {
                // The next tick looks again.
                return Ok(());
            };
            let (items, next) = split::read_chunk(&view, dir, &record, from.as_deref(), most)?;
            self.splits.paces.sent(dir, items.len());
            copying.phase = match next {
                Some(_) => Phase::Copying { next },
                None => Phase::CatchingUp,
            };
            (items, Vec::new())
        } else if copying.dirty.len() > SPLIT_DELTA_ENTRIES {
            let mut changed = std::mem::take(&mut copying.dirty);
            // Changes that do not fit this chunk wait for the next.
            if changed.len() > pandofs_types::limits::SPLIT_CHUNK_ENTRIES {
                let last = changed
                    .iter()
                    .nth(pandofs_types::limits::SPLIT_CHUNK_ENTRIES)
                    .cloned();
                copying.dirty = last
                    .map(|last| changed.split_off(&last))
                    .unwrap_or_default();
            }
            let (mut items, gone) = read_names(&view, dir, &changed)?;
            let mut bytes = 0;
            let fits = items.iter().take_while(|item| {
                bytes += split::size(item);
                bytes <= SPLIT_CHUNK_BYTES
            });
            // One always fits a frame, whatever attributes it has.
            let fits = fits.count().max(1).min(items.len());
            copying
                .dirty
                .extend(items.drain(fits..).map(|item| item.name));
            (items, gone)
        } else {
            let Some(copying) = self.splits.copying.get(&dir) else {
                return Ok(());
            };
            // As a rule the first is one that was there before the start: each tick asks, for a minute.
            let mut inos = copying.names.keys();
            if inos.any(|&ino| self.may_be_open_unknown(ino)) {
                self.put_off_hand(dir);
                return Ok(());
            }
            let (changed, _) = read_names(&view, dir, &copying.dirty)?;
            let candidates = InodesThatMove::new(copying, &changed).candidates;
            if self.have_to_stay(&candidates) {
                // The next tick looks again.
                self.put_off_hand(dir);
                return Ok(());
            }
            if copying.put_off_until > self.commands.now {
                return Ok(());
            }
            if self.is_in_the_way(&view, dir, &record)? {
                let split = record.split;
                self.propose(&Record::SplitAbandon { dir, split });
                return Ok(());
            }
            let (start, end) = split::moving_range(&record);
            let since = self.commands.now;
            let gate = self
                .splits
                .gates
                .entry(dir)
                .or_insert(Gate { start, end, since });
            if since.since(gate.since) > GATE_PATIENCE {
                // An operation that holds a lock there may wait for a server that is away.
                if let Some(copying) = self.splits.copying.get_mut(&dir) {
                    copying.put_off_until = since.after(GATE_PATIENCE);
                }
                self.put_off_hand(dir);
                return Ok(());
            }
            // The next tick looks again.
            if self.leases.close(dir) {
                self.propose_hand(dir);
            }
            return Ok(());
        };
        remember(copying, config.shard, &items)?;
        let number = copying.acknowledged;
        let chunk = SplitChunk {
            split: record.split,
            dir,
            number,
            items,
            gone,
        };
        copying.in_flight = Some(chunk.clone());
        let from = self.config.shard;
        let message = PeerMessage::SplitChunk {
            from,
            to: record.target,
            chunk,
        };
        self.send(record.target, message, begins(number));
        Ok(())
    }

    /// The last step cannot come now, and nobody is to wait for it.
    ///
    /// The bad interleaving if the gate stayed: it is there, and a lock of the moving half still has to go; meanwhile a file
    /// that may be open unknown comes to the moving half by a record of this shard alone, which no gate keeps out; so the
    /// half has to stay until the grace is over, and with it, for a minute, requests for locks in it.
    fn put_off_hand(&mut self, dir: Ino) {
        self.lift_gate(dir);
        self.leases.open(dir);
    }

    fn propose_hand(&mut self, dir: Ino) {
        let Some(copying) = self.splits.copying.get_mut(&dir) else {
            return;
        };
        copying.phase = Phase::Handing;
        let (split, chunks) = (copying.record.split, copying.acknowledged);
        self.propose(&Record::SplitHand {
            dir,
            split,
            chunks,
            choices: Choices::default(),
        });
    }

    /// The target has a chunk.
    pub(crate) fn chunk_done(
        &mut self,
        overlay: &Overlay<'_>,
        env: &mut Environment<'_>,
        id: SplitId,
        number: u32,
        accepted: bool,
    ) -> Result<(), Stop> {
        let found = self
            .splits
            .copying
            .iter_mut()
            .find(|(_, c)| c.record.split == id);
        let Some((&dir, copying)) = found else {
            return Ok(());
        };
        let awaited = copying.in_flight.as_ref().map(|chunk| chunk.number);
        if awaited != Some(number) {
            return Ok(());
        }
        copying.in_flight = None;
        copying.sent = env.steady;
        if !accepted {
            self.propose(&Record::SplitAbandon { dir, split: id });
            return Ok(());
        }
        copying.acknowledged += 1;
        self.copy_on(overlay, dir, Some(env.steady))
    }

    /// Finds out which copied entries a record has changed.
    pub(crate) fn track_writes(&mut self, overlay: &Overlay<'_>, mark: usize) -> Result<(), Stop> {
        if self.splits.copying.is_empty() {
            return Ok(());
        }
        for key in overlay.keys_written_since(mark) {
            match key.first().copied().and_then(keys::Kind::from_byte) {
                Some(keys::Kind::Entry) => {
                    let (dir, position, name) = keys::parse_entry(key)
                        .ok_or_else(|| Stop::Broken(format!("entry key {key:02x?}")))?;
                    let Some(copying) = self.splits.copying.get_mut(&dir) else {
                        continue;
                    };
                    let (start, end) = split::moving_range(&copying.record);
                    let is_within = start <= position && position < end;
                    if is_within && copying.phase.has_copied(key) {
                        copying.dirty.insert(name);
                    }
                }
                Some(keys::Kind::Inode | keys::Kind::Xattr) => {
                    let Some(ino) = keys::parse_ino(key) else {
                        continue;
                    };
                    let moves = split::may_move(&view_of(&self.config, overlay, false), ino)?;
                    for copying in self.splits.copying.values_mut() {
                        // Of a file with many names each new one changes the inode, which is no matter to
                        // the names that are there: were they all copied again the split would not end.
                        if let Some(names) = copying.names.get(&ino)
                            && (moves || copying.along.contains(&ino))
                        {
                            copying.dirty.extend(names.iter().cloned());
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A chunk was staged here, or did not fit.
    pub(crate) fn after_stage(&mut self, chunk: &SplitChunk, accepted: bool) {
        if self.commands.replaying {
            return;
        }
        if accepted {
            // A chunk that came again may be staged just after the split was adopted, and be all that is
            // left of it.
            self.splits.staging.entry(chunk.split).or_insert(Steady(0));
        }
        let (from, to) = (self.config.shard, chunk.split.source);
        let (split, number) = (chunk.split, chunk.number);
        self.send(
            to,
            PeerMessage::SplitChunkDone {
                from,
                to,
                split,
                number,
                accepted,
            },
            false,
        );
    }

    /// A step was performed here: of an adoption the opens come along, and a file may be open from the beginning.
    pub(crate) fn performed(&mut self, step: &Step, result: &StepResult) {
        if let Step::NewFile(new) = step
            && let (Some(session), Some(ino)) = (new.opened_by, new_file::made(result))
            && !self.commands.replaying
        {
            self.sessions.opens.add(ino, session, 1);
            // As below.
            self.push_output(Output::Watch { session });
        }
        if let Step::Adopt(adopt) = step {
            self.splits.forget_staging(adopt.split);
            if !self.commands.replaying {
                self.leases.came_here(self.commands.proposed);
                for &(ino, session, count) in &adopt.opens {
                    self.sessions.opens.add(ino, session, count);
                }
                // One that never says anything here would have them open for ever.
                let sessions: BTreeSet<_> = adopt.opens.iter().map(|(_, of, _)| *of).collect();
                for session in sessions {
                    self.push_output(Output::Watch { session });
                }
            }
        }
    }
}

/// Whether a chunk of this number has to wait until the split is on disk: the first one. Were it sent
/// before, and the split's record lost with the source's power, the next split would have the same number,
/// and the target take what it has of the old one for the beginning of the new. Later chunks leave when the
/// first has been answered.
fn begins(number: u32) -> bool {
    number == 0
}

/// Items and missing names, as they are now.
fn read_names(
    view: &View<'_>,
    dir: Ino,
    names: &BTreeSet<Name>,
) -> Result<(Vec<SplitItem>, Vec<Name>), Stop> {
    let (mut items, mut gone) = (Vec::new(), Vec::new());
    for name in names {
        match split::read_item(view, dir, name)? {
            Some(item) => items.push(item),
            None => gone.push(name.clone()),
        }
    }
    Ok((items, gone))
}

fn remember(copying: &mut Copying, here: ShardId, items: &[SplitItem]) -> Result<(), Stop> {
    for item in items {
        let entry: EntryRecord = decode("entry of a split", &item.entry)?;
        if entry.shard == here && entry.kind != FileKind::Dir {
            let names = copying.names.entry(entry.ino).or_default();
            names.insert(item.name.clone());
            if item.inode.is_some() {
                copying.along.insert(entry.ino);
            } else {
                copying.along.remove(&entry.ino);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_says_what_was_copied() {
        let copied = |phase: Phase| [&b"a"[..], b"b", b"c"].map(|key| phase.has_copied(key));
        assert_eq!(copied(Phase::Copying { next: None }), [false; 3]);
        let next = Some(b"b".to_vec());
        assert_eq!(copied(Phase::Copying { next }), [true, false, false]);
        assert_eq!(copied(Phase::CatchingUp), [true; 3]);
        assert_eq!(copied(Phase::Handing), [true; 3]);
    }
}
