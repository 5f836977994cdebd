//! Telling the homes of directories about splits and merges, and the birth shards of inodes about moves.

use crate::record::Record;
use crate::shard::{Shard, view_of};
use hashbrown::HashMap;
use pandofs_api::PeerMessage;
use pandofs_namespace::Stop;
use pandofs_placement::DirMap;
use pandofs_storage::store::Overlay;
use pandofs_types::limits::{MAX_INOS_PER_NOTICE, RESEND_INTERVAL};
use pandofs_types::{Ino, ShardId, Steady};
use std::collections::BTreeMap;

/// Maps that their homes have not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct MapNotices {
    maps: HashMap<Ino, (DirMap, Option<Steady>)>,
}

impl MapNotices {
    pub(crate) fn add(&mut self, dir: Ino, map: DirMap) {
        self.maps.insert(dir, (map, None));
    }

    /// Whether that was the last one sent.
    fn done(&mut self, dir: Ino, map: &DirMap) -> bool {
        let is_last = self.maps.get(&dir).is_some_and(|(sent, _)| sent == map);
        if is_last {
            self.maps.remove(&dir);
        }
        is_last
    }
}

impl Shard {
    /// A partition here has split or was merged: its directory's home is to know.
    pub(crate) fn notify_home(&mut self, overlay: &Overlay<'_>, dir: Ino) -> Result<(), Stop> {
        let home = dir.birth_shard();
        if home == self.config.shard {
            return Ok(());
        }
        if let Some(parts) = view_of(&self.config, overlay, false).parts(dir)? {
            self.splits.map_notices.add(dir, parts.map.clone());
            let from = self.config.shard;
            self.send(
                home,
                PeerMessage::MapNotice {
                    from,
                    to: home,
                    dir,
                    map: parts.map,
                },
                true,
            );
        }
        Ok(())
    }

    /// The home has heard of it: it sends nobody here any more for what is not here.
    pub(crate) fn map_notice_done(
        &mut self,
        overlay: &Overlay<'_>,
        dir: Ino,
        map: &DirMap,
    ) -> Result<(), Stop> {
        if self.splits.map_notices.done(dir, map)
            && let Some(parts) = view_of(&self.config, overlay, false).parts(dir)?
            && parts.parts.is_empty()
            && dir.birth_shard() != self.config.shard
        {
            self.propose(&Record::ForgetParts { dir });
        }
        Ok(())
    }

    /// A shard tells this home of splits and merges.
    pub(crate) fn map_notice(
        &mut self,
        overlay: &Overlay<'_>,
        from: ShardId,
        dir: Ino,
        map: DirMap,
    ) -> Result<(), Stop> {
        let view = view_of(&self.config, overlay, false);
        if let Some(mut parts) = view.parts(dir)? {
            let split = view.split(dir)?;
            if parts.learn(&map, split.as_ref()) {
                self.propose(&Record::LearnMap {
                    dir,
                    map: map.clone(),
                });
            } else if split.is_some() && parts.map.merge(&map) {
                // It speaks of the end of what is under way here, which is yet to come, and perhaps of
                // more. It will be said again.
                return Ok(());
            }
        }
        let me = self.config.shard;
        self.send(
            from,
            PeerMessage::MapNoticeDone {
                from: me,
                to: from,
                dir,
                map,
            },
            true,
        );
        Ok(())
    }

    pub(crate) fn apply_learn(
        &mut self,
        overlay: &mut Overlay<'_>,
        dir: Ino,
        map: &DirMap,
    ) -> Result<(), Stop> {
        let mut txn = self.txn(overlay);
        if let Some(mut parts) = txn.view().parts(dir)?
            && parts.learn(map, txn.view().split(dir)?.as_ref())
        {
            txn.put_parts(dir, &parts);
        }
        Ok(())
    }

    /// Inodes went to another shard with their entries: shards that forward here shall forward there,
    /// so that chains stay short. If this is lost the chain is longer and still right.
    pub(crate) fn moved_away(&mut self, inos: &[Ino], trails: &[(ShardId, Ino)], now_at: ShardId) {
        self.sessions.opens.forget(inos);
        self.file_locks.moved(&mut self.commands, inos, now_at);
        let mut by_shard: BTreeMap<ShardId, Vec<Ino>> = BTreeMap::new();
        for &(shard, ino) in trails {
            by_shard.entry(shard).or_default().push(ino);
        }
        let from = self.config.shard;
        for (to, inos) in by_shard {
            for inos in inos.chunks(MAX_INOS_PER_NOTICE) {
                let inos = inos.to_vec();
                self.send(
                    to,
                    PeerMessage::Forwarded {
                        from,
                        to,
                        inos,
                        now_at,
                    },
                    true,
                );
            }
        }
    }

    pub(crate) fn tick_map_notices(&mut self, now: Steady) {
        let since = now.before(RESEND_INTERVAL);
        let mut due: Vec<(Ino, DirMap)> = Vec::new();
        for (&dir, (map, sent)) in &mut self.splits.map_notices.maps {
            if sent.is_none_or(|sent| sent < since) {
                if sent.is_some() {
                    due.push((dir, map.clone()));
                }
                *sent = Some(now);
            }
        }
        due.sort_by_key(|(dir, _)| *dir);
        let from = self.config.shard;
        for (dir, map) in due {
            let to = dir.birth_shard();
            self.send(to, PeerMessage::MapNotice { from, to, dir, map }, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_placement::PartitionIndex;

    /// A partition has split twice, and what was said of the second time may be lost.
    #[test]
    fn a_home_that_answers_an_older_notice_is_told_again() {
        let dir = Ino::ROOT;
        let mut older = DirMap::single(ShardId(0));
        older.set_slots(vec![ShardId(0), ShardId(1), ShardId(2)]);
        older.activate_at(PartitionIndex(1), ShardId(1));
        let mut newer = older.clone();
        newer.activate_at(PartitionIndex(2), ShardId(2));
        let mut notices = MapNotices::default();
        notices.add(dir, older.clone());
        notices.add(dir, newer.clone());
        assert!(!notices.done(dir, &older));
        assert!(notices.done(dir, &newer));
        assert!(!notices.done(dir, &newer), "it is answered");
    }
}
