//! Leases within the shard: its records, and inputs that wait for leases to end.

use super::{Around, Cleared, Leases};
use crate::port::{Input, Output};
use crate::record::Record;
use crate::shard::Shard;
use crate::waiting::Until;
use pandofs_api::step::Holder;
use pandofs_api::{CommitMessage, Horizon, PeerMessage, Refusal, Reply, ShardRequest, Step};
use pandofs_namespace::records::{decode, encode};
use pandofs_namespace::touches::Touched;
use pandofs_namespace::{Stop, View, keys, steps};
use pandofs_storage::store::Overlay;
use pandofs_types::{LeaseKey, Leased, SessionId, ShardId, Steady};

impl Shard {
    /// Puts a change aside.
    pub(crate) fn put_aside(&mut self, cleared: &Cleared, input: Input) {
        match cleared {
            Cleared::Yes => unreachable!("what may be proposed does not wait"),
            Cleared::Wait(id) => self.wait(Until::Clear(*id), input),
            Cleared::Early => self.wait(Until::Leaseholders, input),
        }
    }

    /// Recalls what steps of another shard's operation touch; whether the message may be proposed. If not it
    /// is put aside.
    pub(crate) fn clear_steps<'a>(
        &mut self,
        view: &View<'_>,
        steps: impl Iterator<Item = &'a Step>,
        from: ShardId,
        horizon: &Horizon,
        message: &CommitMessage,
    ) -> Option<Vec<LeaseKey>> {
        if !self.leases.is_used() {
            return Some(Vec::new());
        }
        if self.commands.waiting.has_message(from, message) {
            // It came again.
            return None;
        }
        // Its grant goes with what it has removed, if it is in force still. (Were it recalled, the session would wait for the end
        // of the removal before it gives it up, and the removal for that.)
        let mut holder = None;
        let mut keys: Vec<LeaseKey> = Vec::new();
        for step in steps {
            keys.extend(steps::of(step).touches(view));
            holder = holder.or(step.holder());
        }
        let is_own = holder.is_some_and(|holder: Holder| {
            let (session, incarnation) = (holder.session, holder.incarnation);
            self.leases.are_in_force(session, incarnation)
        });
        let known = |&key| Touched {
            key,
            is_known: is_own,
        };
        let touched: Vec<_> = keys.iter().map(known).collect();
        let cleared = match holder {
            Some(holder) if is_own => self.leases.clear_batch(&touched, holder.session),
            Some(holder) => self.leases.clear_late(&touched, holder.session),
            None => self.leases.clear(&touched, None),
        };
        if cleared == Cleared::Yes {
            return Some(keys);
        }
        let to = self.config.shard;
        let message = PeerMessage::Commit {
            from,
            to,
            horizon: horizon.clone(),
            held: None,
            message: message.clone(),
        };
        self.put_aside(&cleared, Input::Peer(message));
        None
    }

    /// As [`Shard::propose`], for a record that changes these.
    pub(crate) fn propose_change(&mut self, record: &Record, keys: Vec<LeaseKey>) {
        let index = self.commands.propose(record);
        self.leases.propose(index, keys);
    }

    /// Leases of an answer. To be called when the state is what is answered.
    pub(crate) fn lease(
        &mut self,
        request: &ShardRequest,
        result: &Result<Reply, Refusal>,
    ) -> Vec<Leased> {
        let around = Around {
            shard: self.config.shard,
            hash_key: self.config.map.hash_key,
            applied: self.meta.applied,
            locks: &self.operations.locks,
            reclaims: &self.reclaims,
        };
        self.leases
            .lease(&mut self.commands, around, request, result)
    }

    /// Applies that the session may have leases here, or has none any more.
    pub(crate) fn apply_leaseholder(
        &mut self,
        overlay: &mut Overlay<'_>,
        session: SessionId,
        has: bool,
    ) {
        let record = self.meta.applied;
        let kept = Input::LeaseholderKept { session, record };
        let key = keys::leaseholder(self.config.shard, session);
        self.apply_holder(overlay, key, has.then(|| vec![1]), kept);
    }

    /// Applies that the session may have grants of this incarnation here, or has none any more.
    pub(crate) fn apply_grantholder(
        &mut self,
        overlay: &mut Overlay<'_>,
        session: SessionId,
        incarnation: Option<u64>,
    ) {
        let record = self.meta.applied;
        let kept = Input::GrantholderKept { session, record };
        let key = keys::grantholder(self.config.shard, session);
        let value = incarnation.map(|incarnation| encode(&incarnation));
        self.apply_holder(overlay, key, value, kept);
        if incarnation.is_none() && !self.commands.replaying {
            self.commands.when_durable(Input::GrantsOver { session });
        }
    }

    pub(crate) fn recover_leases(
        &mut self,
        overlay: &Overlay<'_>,
        now: Steady,
    ) -> Result<(), Stop> {
        let found = self.stored_holders(overlay, keys::Kind::Leaseholder, |_| Ok(()))?;
        for &session in found.keys() {
            self.commands.outputs.push(Output::Watch { session });
        }
        let granted = self.stored_holders(overlay, keys::Kind::Grantholder, |value| {
            decode("incarnation of grants", value)
        })?;
        self.leases = Leases::recovered(found.into_keys().collect(), granted, now);
        Ok(())
    }
}
