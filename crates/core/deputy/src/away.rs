//! Directories that are made on another shard than their names', on the images of both.

use crate::deputy::{Deputy, Offer, Taken};
use crate::execute::{Chosen, Executed, execute};
use crate::limits::MAX_IMAGE_BYTES;
use crate::queue::{Left, Lost, Order};
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
        let (session, map) = (self.session, Arc::clone(&self.map));
        // Without any grant there its server would not know of this one.
        let Some(there) = self.shards.get(&home) else {
            let is_pause = self
                .not_begun
                .get(&home)
                .is_some_and(|not_before| offer.now < *not_before);
            if is_pause || self.beginning.contains_key(&home) {
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
        let ino = Ino::new(home, serial);
        let of = self.shards.get(&shard)?;
        let choices = Choices {
            time: of.time(offer.now, offer.clock),
            random: offer.random,
            ino: Some(ino),
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
        let there = self.shards.get_mut(&home)?;
        there.image.changed(offer.request, &reply, others);
        there.unordered.pop_front();
        there.used = offer.now;
        let operation = EarlyOperation::of(offer.request)?;
        let unmade = subjects.iter().find(|ino| self.away.contains_key(*ino));
        let order = Order {
            after: unmade.copied(),
            makes: Some(ino),
        };
        self.away.insert(ino, shard);
        let of = self.shards.get_mut(&shard)?;
        of.image.apply(own);
        of.last_time = choices.time;
        let early = Early {
            caller: 0,
            time: choices.time,
            random: choices.random,
            ino: Some(ino),
            operation,
        };
        let about = subjects.to_vec();
        of.queue
            .push(offer.caller, early, choices.placing, about, order);
        self.queued_one(shard);
        self.executed += 1;
        Some(Taken::Answered(Ok(reply)))
    }

    /// Operations have left a queue. With a directory that is not made all is lost that was to be done in it.
    pub(crate) fn has_left(&mut self, left: Left) -> Vec<Lost> {
        let Left {
            mut lost,
            made,
            mut unmade,
        } = left;
        for dir in made {
            self.away.remove(&dir);
        }
        while !unmade.is_empty() {
            for dir in &unmade {
                self.away.remove(dir);
                if let Some(home) = self.shards.get_mut(&dir.birth_shard()) {
                    home.is_lost = true;
                }
            }
            let mut further = Vec::new();
            for of in self.shards.values_mut() {
                let left = of.queue.lose_after(&unmade);
                lost.extend(left.lost);
                further.extend(left.unmade);
            }
            unmade = further;
        }
        lost
    }
}
