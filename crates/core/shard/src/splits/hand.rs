//! The last step of a split, and splits that are given up.

use super::{Copying, Phase, read_names};
use crate::file_locks::FileLocks;
use crate::opens::Opens;
use crate::shard::{Shard, view_of};
use pandofs_api::{Adopt, NewPart, PeerMessage, SplitChunk, SplitId, SplitItem};
use pandofs_namespace::records::SplitRecord;
use pandofs_namespace::{Choices, Stop, View, split};
use pandofs_storage::store::Overlay;
use pandofs_types::limits::{MAX_MOVED_OPENS, SPLIT_CHUNK_BYTES, SPLIT_CHUNK_ENTRIES};
use pandofs_types::{FileLock, Ino, SessionId};
use std::collections::BTreeSet;

impl Shard {
    /// Locks the moving half and hands it over with what changed since it was copied.
    pub(crate) fn apply_hand(
        &mut self,
        overlay: &mut Overlay<'_>,
        dir: Ino,
        id: SplitId,
        chunks: u32,
        choices: &Choices,
    ) -> Result<(), Stop> {
        let done = self.lock_and_hand(overlay, dir, id, chunks, choices);
        // The moving half is locked now, or stays for the moment.
        self.leases.open(dir);
        done
    }

    fn lock_and_hand(
        &mut self,
        overlay: &mut Overlay<'_>,
        dir: Ino,
        id: SplitId,
        chunks: u32,
        choices: &Choices,
    ) -> Result<(), Stop> {
        let view = view_of(&self.config, overlay, false);
        let record = match view.split(dir)? {
            Some(record) if record.split == id => record,
            _ => return Ok(()),
        };
        let Some(parts) = view.parts(dir)? else {
            return Err(Stop::Broken(format!(
                "directory {dir} is split and not here"
            )));
        };
        let mut map = parts.map.clone();
        if record.back {
            map.deactivate(record.child);
        } else {
            map.activate_at(record.child, record.target);
        }
        let part = NewPart {
            dir,
            map,
            mode: parts.mode,
            uid: parts.uid,
            gid: parts.gid,
            grain: parts.grain,
            settings: parts.settings,
            time: parts.mtime,
            acls: parts.acls,
            path: parts.path,
        };
        let (mtime, ctime) = (parts.mtime, parts.ctime);
        let mut has_to_stay = false;
        let (changed, gone, opens, locks) = match self.splits.copying.get(&dir) {
            Some(copying) if !self.commands.replaying => {
                // Taken again if the locks cannot be had now.
                let (changed, gone) = read_names(&view, dir, &copying.dirty)?;
                let moving = InodesThatMove::new(copying, &changed);
                let opens = opens_that_move(&self.sessions.opens, &view, dir, &moving)?;
                let locks = locks_that_move(&self.file_locks, &view, dir, &moving)?;
                has_to_stay = self.have_to_stay(&moving.candidates);
                (changed, gone, opens, locks)
            }
            _ => (Vec::new(), Vec::new(), Vec::new(), Vec::new()),
        };
        let mut adopt = Adopt {
            split: id,
            child: record.child,
            back: record.back,
            part,
            chunks,
            changed,
            gone,
            opens,
            mtime,
            ctime,
            locks,
        };
        let extra = if has_to_stay {
            // Since the last step was proposed too many were opened or locked, or one came that may be open unknown. Opens and
            // locks are in memory alone, and the record has to do the same when it is replayed after a crash: so the last step
            // begins all the same, and is one that the target refuses, as it has not so many chunks.
            (adopt.changed, adopt.gone) = (Vec::new(), Vec::new());
            (adopt.opens, adopt.locks) = (Vec::new(), Vec::new());
            adopt.chunks = u32::MAX;
            Vec::new()
        } else {
            overflow(&mut adopt, dir)
        };
        match self.coordinate_split(overlay, record.target, adopt, chunks, choices) {
            Ok(()) => {
                let from = self.config.shard;
                if !self.commands.replaying {
                    // Ahead of the message that begins the last step, on the same link; should one be
                    // lost, the target finds a chunk missing and refuses.
                    let late: Vec<_> = extra
                        .into_iter()
                        .map(|chunk| crate::port::Output::Send {
                            to: record.target,
                            message: PeerMessage::SplitChunk {
                                from,
                                to: record.target,
                                chunk,
                            },
                            durable: true,
                        })
                        .collect();
                    let last = self.commands.outputs.len().saturating_sub(1);
                    self.commands.outputs.splice(last..last, late);
                }
                Ok(())
            }
            Err(Stop::Locked(_) | Stop::Refuse(_)) => {
                // The next tick tries again; the gate sees to it that the locks go.
                if let Some(copying) = self.splits.copying.get_mut(&dir) {
                    copying.phase = Phase::CatchingUp;
                }
                Ok(())
            }
            Err(stop) => Err(stop),
        }
    }

    /// Whether of these inodes, which go to the target with their names, too many are open or locked, or one may be open
    /// without this shard having been told since it was started. A client tells the server that was started: were the inode
    /// elsewhere by then, nobody there would know that it is open, and free it with its last name.
    pub(super) fn have_to_stay(&self, inos: &BTreeSet<Ino>) -> bool {
        self.sessions.opens.count(inos.iter()) > MAX_MOVED_OPENS
            || self.file_locks.keep(inos.iter())
            || inos.iter().any(|&ino| self.may_be_open_unknown(ino))
    }

    /// Whether a directory is split that was emptied under a grant: its session gives that up once the directory is removed, which
    /// waits for the end of the split, and the split for the grant.
    pub(super) fn is_in_the_way(
        &self,
        view: &View<'_>,
        dir: Ino,
        record: &SplitRecord,
    ) -> Result<bool, Stop> {
        if record.back || !self.leases.is_granted(dir) {
            return Ok(false);
        }
        let parts = view.parts(dir)?;
        Ok(parts.is_some_and(|parts| parts.entries() == 0))
    }

    pub(crate) fn hand_aborted(
        &mut self,
        overlay: &mut Overlay<'_>,
        dir: Ino,
        id: SplitId,
    ) -> Result<(), Stop> {
        split::abandon(&mut self.txn(overlay), dir, id)?;
        self.after_abandon(dir, id)
    }

    /// A split is given up here: forgets the copying, tells the target.
    pub(crate) fn after_abandon(&mut self, dir: Ino, id: SplitId) -> Result<(), Stop> {
        let target = self
            .splits
            .copying
            .get(&dir)
            .map(|copying| copying.record.target);
        self.splits.end(dir, id);
        self.lift_gate(dir);
        self.leases.open(dir);
        if let Some(to) = target
            && !self.commands.replaying
        {
            let from = self.config.shard;
            self.send(
                to,
                PeerMessage::SplitAbandoned {
                    from,
                    to,
                    split: id,
                    dir,
                },
                false,
            );
        }
        self.splits.look_again_later(dir);
        Ok(())
    }
}

/// Inodes that may go to the target with their names.
pub(super) struct InodesThatMove<'a> {
    copying: &'a Copying,
    changed: &'a [SplitItem],
    pub(super) candidates: BTreeSet<Ino>,
}

impl<'a> InodesThatMove<'a> {
    pub(super) fn new(copying: &'a Copying, changed: &'a [SplitItem]) -> InodesThatMove<'a> {
        let of_changed = changed
            .iter()
            .filter_map(|item| Some(item.inode.as_ref()?.ino));
        let candidates = copying.names.keys().copied().chain(of_changed).collect();
        InodesThatMove {
            copying,
            changed,
            candidates,
        }
    }

    /// Whether a candidate does move.
    fn has(&self, view: &View<'_>, dir: Ino, ino: Ino) -> Result<bool, Stop> {
        let moves = |item: &SplitItem| item.inode.as_ref().is_some_and(|inode| inode.ino == ino);
        let mut found = self.changed.iter().any(moves);
        for name in self.copying.names.get(&ino).into_iter().flatten() {
            found = found
                || split::read_item(view, dir, name)?
                    .as_ref()
                    .is_some_and(moves);
        }
        Ok(found)
    }
}

/// Of the inodes that go to the target with their names: who has them open, and how often.
fn opens_that_move(
    opens: &Opens,
    view: &View<'_>,
    dir: Ino,
    inodes: &InodesThatMove<'_>,
) -> Result<Vec<(Ino, SessionId, u32)>, Stop> {
    let mut moving = Vec::new();
    for open in opens.of(inodes.candidates.iter().copied()) {
        if inodes.has(view, dir, open.0)? {
            moving.push(open);
        }
    }
    Ok(moving)
}

/// The same for locks.
fn locks_that_move(
    file_locks: &FileLocks,
    view: &View<'_>,
    dir: Ino,
    inodes: &InodesThatMove<'_>,
) -> Result<Vec<(Ino, SessionId, FileLock)>, Stop> {
    let mut moving = Vec::new();
    for ino in file_locks.locked(inodes.candidates.iter()) {
        if inodes.has(view, dir, ino)? {
            moving.extend(file_locks.of(ino));
        }
    }
    Ok(moving)
}

/// Cuts off what does not fit into one message with the last step, as further chunks.
fn overflow(adopt: &mut Adopt, dir: Ino) -> Vec<SplitChunk> {
    let mut chunks = Vec::new();
    loop {
        let mut bytes = 0;
        let fits = adopt
            .changed
            .iter()
            .take(SPLIT_CHUNK_ENTRIES)
            .take_while(|item| {
                bytes += split::size(item);
                bytes <= SPLIT_CHUNK_BYTES
            })
            .count()
            .max(1);
        if adopt.changed.len() <= fits {
            return chunks;
        }
        let rest = adopt.changed.split_off(fits);
        let items = std::mem::replace(&mut adopt.changed, rest);
        let gone = std::mem::take(&mut adopt.gone);
        chunks.push(SplitChunk {
            split: adopt.split,
            dir,
            number: adopt.chunks,
            items,
            gone,
        });
        adopt.chunks += 1;
    }
}
