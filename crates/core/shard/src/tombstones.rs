//! Retention of steps of others' operations: until their coordinator says that they have ended.

use crate::shard::Shard;
use pandofs_api::{Age, Horizon, StepNumber};
use pandofs_commit::{Participation, ParticipationState};
use pandofs_namespace::keys;
use pandofs_namespace::records::encode;
use pandofs_storage::store::Overlay;
use pandofs_types::{ShardId, Time, TxId};

impl Shard {
    /// Notes what has become of a step that has not come, and may still come: it is not to be taken up then.
    pub(crate) fn put_without_step(
        &mut self,
        overlay: &mut Overlay<'_>,
        (tx, number): (TxId, StepNumber),
        time: Time,
        state: ParticipationState,
    ) {
        let age = Age { time, tx };
        self.put_participation(
            overlay,
            Participation {
                tx,
                number,
                age,
                state,
            },
        );
    }

    pub(crate) fn put_participation(&mut self, overlay: &mut Overlay<'_>, part: Participation) {
        self.store_participation(overlay, &part);
        self.operations.keep(part);
    }

    pub(crate) fn store_participation(&mut self, overlay: &mut Overlay<'_>, part: &Participation) {
        let role = keys::Role::Participant;
        let key = keys::transaction(self.config.shard, role, part.tx, part.number.0);
        overlay.put(key, encode(part));
        self.operations.note_active(part);
    }

    /// Drops the tombstones of operations that have ended everywhere. `this` is the step that has just been dealt with: it
    /// may have become one after its coordinator had said so.
    pub(crate) fn raise_horizon(
        &mut self,
        overlay: &mut Overlay<'_>,
        coordinator: ShardId,
        told: &Horizon,
        this: (TxId, StepNumber),
    ) {
        let known = self.operations.horizons.entry(coordinator).or_default();
        if !pandofs_commit::learn(known, told) {
            if this.0.coordinator == coordinator && known.has_passed(this.0.sequence) {
                self.drop_tombstones(overlay, &[this]);
            }
            return;
        }
        let known = known.clone();
        overlay.put(
            keys::horizon(self.config.shard, coordinator),
            encode(&known),
        );
        self.operations
            .early_votes
            .forget_passed(coordinator, &known);
        let first = TxId {
            coordinator,
            sequence: 0,
        };
        let end = TxId {
            coordinator,
            sequence: known.passed,
        };
        // There are few: what has ended goes from here, and what has not is under way.
        let over: Vec<_> = self
            .operations
            .participations
            .range((first, StepNumber(0))..(end, StepNumber(0)))
            .filter(|((tx, _), _)| known.has_passed(tx.sequence))
            .map(|(key, _)| *key)
            .collect();
        self.drop_tombstones(overlay, &over);
    }

    fn drop_tombstones(&mut self, overlay: &mut Overlay<'_>, of: &[(TxId, StepNumber)]) {
        for key @ (tx, number) in of {
            let part = self.operations.participations.get(key);
            if part.is_some_and(|part| matches!(part.state, ParticipationState::Ended)) {
                self.operations.participations.remove(key);
                let role = keys::Role::Participant;
                overlay.delete(keys::transaction(self.config.shard, role, *tx, number.0));
            }
        }
    }
}
