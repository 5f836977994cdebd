//! Splits after a restart, and as time passes.

use super::{Phase, begins};
use crate::port::Environment;
use crate::record::Record;
use crate::shard::{Shard, view_of};
use pandofs_api::PeerMessage;
use pandofs_namespace::records::{SplitRecord, StagingRecord, decode};
use pandofs_namespace::{Stop, keys};
use pandofs_storage::store::Overlay;
use pandofs_types::Steady;
use pandofs_types::limits::{RESEND_INTERVAL, STAGING_TIMEOUT};
use std::ops::ControlFlow;

/// How long a split that was given up pauses before it is looked at again.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

impl Shard {
    /// Splits that were being copied when the process stopped are given up.
    pub(crate) fn recover_splits(&mut self, overlay: &Overlay<'_>) -> Result<(), Stop> {
        let config = self.config.clone();
        let view = view_of(&config, overlay, false);
        let mut found = Vec::new();
        view.scan_prefix(
            &keys::prefix(keys::Kind::Split, config.shard),
            &mut |key, value| {
                let dir = keys::parse_ino(key)
                    .ok_or_else(|| Stop::Broken("a split's key is short".to_string()))?;
                found.push((dir, decode::<SplitRecord>("split", value)?));
                Ok(ControlFlow::Continue(()))
            },
        )?;
        for (dir, record) in found {
            let handing = self.operations.coordinations.values().any(|coordinated| {
                matches!(&coordinated.origin,
                    crate::coordinate::Origin::Split { split, .. } if *split == record.split)
            });
            if !handing {
                self.propose(&Record::SplitAbandon {
                    dir,
                    split: record.split,
                });
                let (from, to) = (config.shard, record.target);
                let split = record.split;
                self.send(
                    to,
                    PeerMessage::SplitAbandoned {
                        from,
                        to,
                        split,
                        dir,
                    },
                    false,
                );
            }
        }
        let prefix = keys::prefix(keys::Kind::Staging, config.shard);
        let splits = &mut self.splits;
        view.scan_prefix(&prefix, &mut |key, value| {
            let _: StagingRecord = decode("staging", value)?;
            let id = keys::parse_split(key)
                .ok_or_else(|| Stop::Broken("a staging key is short".to_string()))?;
            splits.staging.insert(id, Steady(0));
            Ok(ControlFlow::Continue(()))
        })
    }

    pub(crate) fn tick_splits(
        &mut self,
        overlay: &Overlay<'_>,
        env: &mut Environment<'_>,
    ) -> Result<(), Stop> {
        let now = env.steady;
        let since = now.before(RESEND_INTERVAL);
        let mut late = Vec::new();
        let mut hand = Vec::new();
        for (&dir, copying) in &mut self.splits.copying {
            match &copying.in_flight {
                // A chunk that was just sent carries no time yet.
                Some(_) if copying.sent == Steady(0) => copying.sent = now,
                Some(chunk) if copying.sent < since => {
                    copying.sent = now;
                    late.push((copying.record.target, chunk.clone()));
                }
                None if copying.phase != Phase::Handing => hand.push(dir),
                _ => {}
            }
        }
        late.sort_by_key(|(_, chunk)| chunk.split);
        hand.sort();
        let from = self.config.shard;
        for (to, chunk) in late {
            let durable = begins(chunk.number);
            self.send(to, PeerMessage::SplitChunk { from, to, chunk }, durable);
        }
        for dir in hand {
            self.copy_on(overlay, dir, Some(now))?;
        }
        let limit = now.before(STAGING_TIMEOUT);
        let mut stale = Vec::new();
        for (&split, moved) in &mut self.splits.staging {
            if *moved == Steady(0) {
                *moved = now;
            } else if *moved < limit {
                stale.push(split);
            }
        }
        stale.sort();
        for split in stale {
            self.splits.staging.remove(&split);
            self.propose(&Record::SplitDrop { split });
        }
        self.splits.paces.forget_before(now);
        self.splits.spreading.retain(|_, until| *until > now);
        self.tick_slots(overlay, now)?;
        self.look_again(overlay, env)
    }

    /// Directories of which a split or merge has ended or was given up a while ago.
    fn look_again(&mut self, overlay: &Overlay<'_>, env: &mut Environment<'_>) -> Result<(), Stop> {
        if let Some(fresh) = self.splits.again.remove(&Steady(0)) {
            let due = env.steady.after(PAUSE);
            self.splits.again.entry(due).or_default().extend(fresh);
        }
        let later = self.splits.again.split_off(&Steady(env.steady.0 + 1));
        let due = std::mem::replace(&mut self.splits.again, later);
        for dir in due.into_values().flatten() {
            self.consider_all_splits(overlay, dir)?;
            self.splits.told.remove(&dir);
            self.consider_all_merges(overlay, dir)?;
        }
        Ok(())
    }
}
