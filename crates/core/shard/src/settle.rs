//! The outcome of an operation comes to a shard that has prepared steps of it.

use crate::shard::{Shard, view_of};
use pandofs_api::{CommitMessage, StepNumber};
use pandofs_commit::ParticipationState;
use pandofs_namespace::{Choices, Stop, steps};
use pandofs_storage::store::Overlay;
use pandofs_types::{ShardId, TxId};

impl Shard {
    /// The outcome of an operation has come for one of its steps.
    pub(crate) fn settle(
        &mut self,
        overlay: &mut Overlay<'_>,
        from: ShardId,
        tx: TxId,
        number: StepNumber,
        commit: bool,
        choices: &Choices,
    ) -> Result<(), Stop> {
        let has_passed = self.operations.has_passed(tx);
        match self.operations.participations.get_mut(&(tx, number)) {
            Some(part) => {
                let settled = part.settle();
                let part = part.clone();
                if let Some((step, result)) = settled {
                    if commit {
                        let all = std::slice::from_ref(&result);
                        self.execute_step(overlay, &step, &result, all, choices)?;
                        self.performed(&step, &result);
                    }
                    self.store_participation(overlay, &part);
                    self.release_ended(overlay, tx)?;
                } else if !matches!(part.state, ParticipationState::Ended) {
                    // It decided or refused by itself, and is acknowledged, not told.
                    return Ok(());
                }
            }
            None if !has_passed => {
                let state = ParticipationState::Ended;
                self.put_without_step(overlay, (tx, number), choices.time, state);
            }
            None => {}
        }
        self.send_commits(vec![(from, CommitMessage::Finished { tx, number })]);
        Ok(())
    }

    /// Lets go of what steps of the operation that have ended held. Those that are still prepared keep what they
    /// hold, and exactly that: it is what a restart has them hold.
    ///
    /// The bad interleaving if all were kept until the last of the operation's steps here has ended: the outcome of
    /// one step comes, that of another is lost on the way; the store is flushed; somebody else's step is refused
    /// because of what the first one held; a crash. After the restart what the first one held is free, the log is
    /// replayed, and the step that was refused is found prepared, or comes to be performed.
    fn release_ended(&mut self, overlay: &Overlay<'_>, tx: TxId) -> Result<(), Stop> {
        let config = self.config.clone();
        let view = view_of(&config, overlay, false);
        let mut kept = Vec::new();
        let all = (tx, StepNumber(0))..=(tx, StepNumber(u16::MAX));
        for (_, part) in self.operations.participations.range(all) {
            if let ParticipationState::Prepared { step, result, .. } = &part.state {
                kept.extend(steps::of(step).locks(&view, result)?);
            }
        }
        self.release(tx);
        self.operations.locks.acquire(tx, &kept);
        Ok(())
    }
}
