//! Directories that are made or removed on another shard than their names', on the images of both.

use crate::deputy::{Deputy, Offer, Taken};
use crate::execute::{Chosen, Executed, execute};
use crate::limits::MAX_IMAGE_BYTES;
use crate::queue::{Away, Left, Lost, Order};
use pandofs_api::Refusal;
use pandofs_api::op::{Early, EarlyOperation};
use pandofs_namespace::Choices;
use pandofs_types::{Ino, ShardId};
use std::sync::Arc;

impl Deputy {
    /// Executes a mkdir of which the home is another shard than the name's; `None` if the images do not say what comes of it.
    pub(crate) fn make_away(
        &mut self,
        shard: ShardId,
        home: ShardId,
        offer: &Offer<'_>,
        subjects: &[Ino],
    ) -> Option<Taken> {
        // Without any grant there its server would not know of this one.
        let Some(there) = self.shards.get(&home) else {
            let is_pause = self
                .not_begun
                .get(&home)
                .is_some_and(|not_before| offer.now < *not_before);
            if is_pause || self.is_deaf_to(home) || self.beginning.contains_key(&home) {
                return None;
            }
            self.beginning.insert(home, false);
            return Some(Taken::WantsBeginning { shard: home });
        };
        if there.is_over(offer.now) || there.terms.is_low || there.image.bytes() > MAX_IMAGE_BYTES {
            return None;
        }
        let Some(&serial) = there.unordered.front() else {
            // Those that are in use may be among the oldest, which give way to others.
            let mut in_use = self
                .away
                .iter()
                .filter(|(dir, _)| dir.birth_shard() == home);
            if let Some((_, queue)) = in_use.next() {
                return self.shards.get(queue)?.drain();
            }
            let unordered = true;
            return Some(Taken::WantsNumbers {
                shard: home,
                unordered,
            });
        };
        let away = Away::Made(Ino::new(home, serial));
        self.execute_on_both((shard, home), offer, subjects, (away, None))
    }

    /// Executes a rmdir of a directory whose home is another shard than the name's; `None` if the images do not say what comes
    /// of it.
    ///
    /// It is sent after all that is queued at the home, as what was in the directory goes before it.
    pub(crate) fn remove_away(
        &mut self,
        shard: ShardId,
        (home, dir): (ShardId, Ino),
        offer: &Offer<'_>,
        subjects: &[Ino],
    ) -> Option<Taken> {
        let there = self.shards.get(&home)?;
        if there.is_over(offer.now) || there.recalled.contains(&dir) {
            return None;
        }
        let away = Away::Removed {
            dir,
            incarnation: there.incarnation,
        };
        self.execute_on_both((shard, home), offer, subjects, (away, there.left()))
    }

    /// Executes a request on the images of the name's shard and of the directory's home, and queues it with what it does there.
    fn execute_on_both(
        &mut self,
        (shard, home): (ShardId, ShardId),
        offer: &Offer<'_>,
        subjects: &[Ino],
        (away, after_queue): (Away, Option<(ShardId, u64)>),
    ) -> Option<Taken> {
        let (session, map) = (self.session, Arc::clone(&self.map));
        let there = self.shards.get(&home)?;
        let of = self.shards.get(&shard)?;
        let ino = match away {
            Away::Made(dir) => Some(dir),
            Away::Removed { .. } => None,
        };
        let choices = Choices {
            time: of.time(offer.now, offer.clock),
            random: offer.random,
            ino,
            placing: of.terms.placing,
            ..Choices::default()
        };
        let chosen = Chosen::of(session, offer, &choices);
        let (reply, batches) =
            match execute(&of.image, Some(&there.image), &map, chosen, offer.request) {
                Executed::Undecided => return None,
                Executed::Read(answer) => {
                    return Some(Taken::Answered(answer.map_err(Refusal::Fs)));
                }
                Executed::Changed { reply, batches } => (reply, batches),
            };
        let [own, others] = &batches[..] else {
            panic!("two images have changed {} times", batches.len());
        };
        let operation = EarlyOperation::of(offer.request)?;
        let unmade = subjects.iter().find(|ino| self.away.contains_key(*ino));
        let order = Order {
            after: unmade.copied(),
            after_queue,
            away: Some(away),
        };
        let there = self.shards.get_mut(&home)?;
        there.image.changed(offer.request, &reply, others);
        there.used = offer.now;
        match away {
            Away::Made(dir) => {
                there.unordered.pop_front();
                self.away.insert(dir, shard);
            }
            Away::Removed { dir, .. } => {
                self.removing.insert(dir, shard);
            }
        }
        let of = self.shards.get_mut(&shard)?;
        of.image.apply(own);
        of.last_time = choices.time;
        let early = Early {
            caller: 0,
            time: choices.time,
            random: choices.random,
            ino,
            operation,
        };
        let about = subjects.to_vec();
        of.queue
            .push(offer.caller, early, choices.placing, about, order);
        self.queued_one(shard);
        self.executed += 1;
        Some(Taken::Answered(Ok(reply)))
    }

    /// Operations have left a queue. With a directory that is not made all is lost that was to be done in it, and its removal
    /// with what was to be done before.
    pub(crate) fn has_left(&mut self, left: Left) -> Vec<Lost> {
        let mut lost = Vec::new();
        let mut news = vec![left];
        while let Some(left) = news.pop() {
            for away in left.done.iter().chain(&left.undone) {
                self.is_no_longer_queued(*away);
            }
            let mut unmade = Vec::new();
            for away in left.undone {
                if let Away::Made(dir) = away {
                    unmade.push(dir);
                    if let Some(home) = self.shards.get_mut(&dir.birth_shard()) {
                        home.is_lost = true;
                    }
                }
            }
            lost.extend(left.lost);
            let is_vain = |order: &Order| {
                let is_lost_before = |(shard, until)| {
                    left.lost_after
                        .is_some_and(|(of, first)| of == shard && first < until)
                };
                order.after.is_some_and(|dir| unmade.contains(&dir))
                    || order.after_queue.is_some_and(is_lost_before)
            };
            for of in self.shards.values_mut() {
                let further = of.queue.lose_after(is_vain);
                if !further.lost.is_empty() {
                    of.is_lost = true;
                    news.push(further);
                }
            }
        }
        lost
    }

    fn is_no_longer_queued(&mut self, away: Away) {
        match away {
            Away::Made(dir) => {
                self.away.remove(&dir);
            }
            Away::Removed { dir, .. } => {
                let queue = self.removing.remove(&dir);
                if let Some(of) = queue.and_then(|shard| self.shards.get_mut(&shard)) {
                    of.recalled.remove(&dir);
                }
            }
        }
    }
}
