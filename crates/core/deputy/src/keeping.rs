//! Grants as they are given, recalled, renewed and lost; batches and inode numbers.

use crate::deputy::{Deputy, Recalled};
use crate::image::Image;
use crate::limits::{FEW_NUMBERS, MIN_WISH_PAUSE, RENEW_BEFORE};
use crate::of_shard::{OfShard, believed_until};
use crate::queue::{Lost, Order, Queue, ToSend};
use hashbrown::HashSet;
use pandofs_api::{BatchReply, Granted, InodeReply, Refusal};
use pandofs_session::Boottime;
use pandofs_types::limits::LEASE;
use pandofs_types::{Ino, LeaseKey, Name, Position, ServerId, ShardId};
use std::collections::{BTreeSet, VecDeque};

impl Deputy {
    /// The answer to a request for a grant that was sent then; `None` if there was no answer, or no grant.
    pub fn granted(&mut self, dir: Ino, sent: Boottime, granted: Option<Granted>, now: Boottime) {
        let is_old = self.asking.remove(&dir).unwrap_or(true);
        let Some(granted) = granted else {
            self.wishes.pause(dir, now);
            return;
        };
        if is_old {
            self.wishes.pause(dir, now);
            return;
        }
        assert!(
            !self.asked.contains_key(&dir),
            "a server changes {dir}, which makes the grant that was asked for old"
        );
        let until = believed_until(sent);
        let of = self.of_grant(dir.birth_shard(), sent, &granted, now);
        if of.incarnation != granted.incarnation {
            // The older ones were lost, and this is told first.
            of.is_lost = true;
            return;
        }
        if of.is_over(now) {
            self.wishes.pause(dir, now);
            return;
        }
        of.until = of.until.max(until);
        of.hear(granted.terms.clone(), sent, now);
        of.image.grant(dir, granted);
    }

    /// The answer to a request to begin grants that was sent then; `None` if there was no answer, or there are none.
    pub fn begun(&mut self, shard: ShardId, sent: Boottime, begun: Option<Granted>, now: Boottime) {
        let is_old = self.beginning.remove(&shard).unwrap_or(true);
        match begun.filter(|_| !is_old) {
            Some(begun) => {
                self.not_begun.remove(&shard);
                let of = self.of_grant(shard, sent, &begun, now);
                of.is_lost |= of.incarnation != begun.incarnation;
            }
            None => {
                self.not_begun.insert(shard, now + MIN_WISH_PAUSE);
            }
        }
    }

    /// The state of the shard, of which the session was granted something.
    fn of_grant(
        &mut self,
        shard: ShardId,
        sent: Boottime,
        granted: &Granted,
        now: Boottime,
    ) -> &mut OfShard {
        let ended = self.ended;
        self.shards.entry(shard).or_insert_with(|| OfShard {
            image: Image::of(shard),
            queue: Queue::after(shard, ended),
            incarnation: granted.incarnation,
            until: believed_until(sent),
            is_lost: false,
            recalled: HashSet::new(),
            numbers: VecDeque::new(),
            unordered: VecDeque::new(),
            is_taking_numbers: false,
            terms: granted.terms.clone(),
            terms_asked: sent,
            terms_came: now,
            last_time: granted.terms.time,
            used: now,
        })
    }

    /// The directory is recalled.
    pub fn recall(&mut self, dir: Ino, now: Boottime) -> Recalled {
        if let Some(is_old) = self.asking.get_mut(&dir) {
            *is_old = true;
        }
        self.wishes.pause(dir, now);
        let shard = self.holds(dir);
        let Some(of) = self.shards.get_mut(&shard) else {
            return Recalled::Over;
        };
        if !of.image.granted.contains(&dir) && !self.removing.contains_key(&dir) {
            return Recalled::Over;
        }
        of.recalled.insert(dir);
        match of.left() {
            Some((shard, until)) => Recalled::Drain { shard, until },
            None => {
                of.let_go(dir);
                Recalled::Over
            }
        }
    }

    /// The shard of which the queue is to be sent before the directory is let go of: its own, or where its name was removed.
    /// (Its home has the removed one until then, and would show it to a session that waits for the recall.)
    fn holds(&self, dir: Ino) -> ShardId {
        let removing = self.removing.get(&dir).copied();
        removing.unwrap_or(dir.birth_shard())
    }

    /// Lets go of a directory that was recalled, once so many operations of its queue have ended.
    pub fn let_go(&mut self, dir: Ino) {
        if let Some(of) = self.shards.get_mut(&dir.birth_shard())
            && of.recalled.contains(&dir)
        {
            of.let_go(dir);
        }
    }

    /// The conversation is lost in which the server recalls what it has granted of these shards, and with it all grants. None
    /// is asked for before the next one has [begun](Deputy::hears): the server takes that for giving up all that was granted
    /// until then. (Otherwise: the conversation breaks; the session is granted a directory; the next one begins, and the server
    /// lets others in; what was executed under the grant is refused.)
    pub fn lost(&mut self, server: ServerId, shards: impl IntoIterator<Item = ShardId>) {
        let shards: BTreeSet<ShardId> = shards.into_iter().collect();
        for &shard in &shards {
            if let Some(of) = self.shards.get_mut(&shard) {
                of.is_lost = true;
            }
            for (dir, is_old) in &mut self.asking {
                *is_old |= dir.birth_shard() == shard;
            }
            if let Some(is_old) = self.beginning.get_mut(&shard) {
                *is_old = true;
            }
        }
        self.deaf_to.insert(server, shards);
    }

    /// The server has answered in a new conversation: what it grants from now on it recalls there.
    pub fn hears(&mut self, server: ServerId) {
        self.deaf_to.remove(&server);
    }

    /// Whether no recalls are heard of what the shard grants.
    pub(crate) fn is_deaf_to(&self, shard: ShardId) -> bool {
        let mut servers = self.deaf_to.values();
        servers.any(|shards| shards.contains(&shard))
    }

    /// Returns whether inode numbers of the shard are to be taken before the last are used up; true once until
    /// [`Deputy::took_numbers`].
    pub fn wants_numbers(&mut self, shard: ShardId) -> bool {
        let Some(of) = self.shards.get_mut(&shard) else {
            return false;
        };
        let left: u64 = of.numbers.iter().map(|(next, end)| end - next).sum();
        let wants = left < FEW_NUMBERS && !of.is_taking_numbers && !of.is_lost;
        of.is_taking_numbers |= wants;
        wants
    }

    /// Inode numbers of the shard were taken, from the first on, so many to be used in order and so many after them in any
    /// order; or there was no answer.
    pub fn took_numbers(&mut self, shard: ShardId, taken: Option<(Ino, u32, u32)>) {
        let Some(of) = self.shards.get_mut(&shard) else {
            return;
        };
        of.is_taking_numbers = false;
        if let Some((first, count, unordered)) = taken
            && first.birth_shard() == shard
        {
            let next = first.serial();
            let end = next + u64::from(count);
            if count > 0 {
                of.numbers.push_back((next, end));
            }
            of.unordered.extend(end..end + u64::from(unordered));
        }
    }

    /// Shards of which something is to be sent and nothing is under way.
    pub fn to_send(&self) -> Vec<ShardId> {
        let waits = |order: &Order| self.waits(order);
        let ready = self
            .shards
            .iter()
            .filter(|(_, of)| of.queue.is_ready(waits));
        ready.map(|(shard, _)| *shard).collect()
    }

    /// Operations that are queued for the shard.
    pub fn queued(&self, shard: ShardId) -> usize {
        self.shards.get(&shard).map_or(0, |of| of.queue.len())
    }

    /// Returns whether the first operation that is queued for the shard is sent by itself.
    pub fn is_alone(&self, shard: ShardId) -> bool {
        let of = self.shards.get(&shard);
        of.is_some_and(|of| of.queue.is_alone())
    }

    /// The shard's next request, if none is under way.
    pub fn next_to_send(&mut self, shard: ShardId) -> Option<ToSend> {
        let ready = self.shards.get(&shard)?.queue.ready(|of| self.waits(of));
        let of = self.shards.get_mut(&shard)?;
        of.queue.next_to_send(ready, of.incarnation)
    }

    /// Whether an operation waits for what is in another queue.
    fn waits(&self, order: &Order) -> bool {
        let is_unmade = |dir| self.away.contains_key(&dir);
        order.after.is_some_and(is_unmade)
            || order
                .after_queue
                .is_some_and(|(shard, until)| !self.has_ended(shard, until))
    }

    /// The answer to a batch that was sent then; `None` if there is none, and nobody knows what was done. Returns what
    /// was answered early and has not come about.
    ///
    /// # Panics
    /// When no batch is under way.
    pub fn batch_answered(
        &mut self,
        shard: ShardId,
        sent: Boottime,
        reply: Option<BatchReply>,
        now: Boottime,
    ) -> Vec<Lost> {
        let Some(of) = self.shards.get_mut(&shard) else {
            panic!("a batch of shard {shard} is answered that was not sent");
        };
        let Some(reply) = reply else {
            of.is_lost = true;
            let left = of.queue.answered(0, None);
            return self.has_left(left);
        };
        let left = of.queue.answered(reply.done as usize, reply.refused);
        of.hear(reply.terms, sent, now);
        if !left.lost.is_empty() || reply.incarnation != Some(of.incarnation) {
            of.is_lost = true;
        } else if !of.is_lost {
            of.until = of.until.max(believed_until(sent));
        }
        self.has_left(left)
    }

    /// The answer to an operation that was sent by itself; `None` if there is none, and nobody knows what was done. Returns
    /// what was answered early and has not come about.
    ///
    /// # Panics
    /// When none is under way.
    pub fn alone_answered(
        &mut self,
        shard: ShardId,
        answer: Option<Result<(), Refusal>>,
    ) -> Vec<Lost> {
        let Some(of) = self.shards.get_mut(&shard) else {
            panic!("an operation of shard {shard} is answered that was not sent");
        };
        let left = match answer {
            Some(Ok(())) => of.queue.answered(1, None),
            Some(Err(refusal)) => of.queue.answered(0, Some(refusal)),
            None => of.queue.answered(0, None),
        };
        of.is_lost |= !left.lost.is_empty();
        self.has_left(left)
    }

    /// Whether so many operations of the shard's queue have ended.
    pub fn has_ended(&self, shard: ShardId, until: u64) -> bool {
        let of = self.shards.get(&shard);
        of.is_none_or(|of| of.queue.ended() >= until)
    }

    /// Returns whether inode numbers of the shard are to be taken as there are none, or none that are `unordered`; true
    /// once until [`Deputy::took_numbers`].
    pub fn lacks_numbers(&mut self, shard: ShardId, unordered: bool) -> bool {
        let Some(of) = self.shards.get_mut(&shard) else {
            return false;
        };
        let has_none = match unordered {
            true => of.unordered.is_empty(),
            false => of.numbers.is_empty(),
        };
        let lacks = has_none && !of.is_taking_numbers;
        of.is_taking_numbers |= lacks;
        lacks
    }

    /// Returns whether something of the shard is recalled, or of one that waits for its queue.
    pub fn is_recalled(&self, shard: ShardId) -> bool {
        let recalled = self.shards.values().filter(|of| !of.recalled.is_empty());
        let mut hurried: Vec<ShardId> = recalled.map(|of| of.image.shard).collect();
        let mut next = 0;
        while let Some(at) = hurried.get(next).copied() {
            if at == shard {
                return true;
            }
            let waits_for = self.shards.get(&at).and_then(|of| self.waits_for(of));
            hurried.extend(waits_for.filter(|other| !hurried.contains(other)));
            next += 1;
        }
        false
    }

    /// The queue that the first operation of this one waits for.
    fn waits_for(&self, of: &OfShard) -> Option<ShardId> {
        let order = of.queue.first()?;
        let makes = order.after.and_then(|dir| self.away.get(&dir)).copied();
        let queue = order
            .after_queue
            .filter(|(shard, until)| !self.has_ended(*shard, *until));
        makes.or(queue.map(|(shard, _)| shard))
    }

    /// Has nothing more executed under the grants of a directory that was recalled, and none renewed, although something is
    /// queued: it may be refused now.
    ///
    /// Of one that is being removed that is its home's grants as well as those of the shard in whose queue its removal is. (The
    /// removal waits; a session that waits for the recall waits at the home, where the grants would be renewed until they were
    /// wanted for too long.)
    pub fn give_up(&mut self, dir: Ino) {
        let shard = self.holds(dir);
        let Some(of) = self.shards.get_mut(&shard) else {
            return;
        };
        if !of.recalled.contains(&dir) {
            return;
        }
        of.is_lost = true;
        if let Some(home) = self.shards.get_mut(&dir.birth_shard()) {
            home.is_lost = true;
        }
    }

    /// Keys of what is cached of a directory that is recalled: the directory's own, its names' and its files'.
    pub fn keys_of(&self, dir: Ino) -> Vec<LeaseKey> {
        let mut keys = vec![LeaseKey::Inode(dir), LeaseKey::Parts(dir)];
        if let Some(of) = self.shards.get(&dir.birth_shard()) {
            keys.extend(of.image.entry_keys(dir));
        }
        keys
    }

    /// Whether the name leads to the inode, and until when.
    pub fn entry_until(
        &self,
        dir: Ino,
        position: Position,
        name: &Name,
        ino: Ino,
    ) -> Option<Boottime> {
        let until = self.granted_until(dir)?;
        let of = self.shards.get(&dir.birth_shard())?;
        let entry = of.image.view(&self.map).entry(dir, position, name).ok()??;
        (entry.ino == ino).then_some(until)
    }

    /// An exclusive inode, and until when it is.
    pub fn exclusive(&self, ino: Ino, now: Boottime) -> Option<(InodeReply, Boottime)> {
        let until = self.exclusive_until(ino)?;
        Some((self.inode(ino, now)?, until))
    }

    /// Positions up to which the queues are to be sent so that all is that was executed before.
    pub fn all_queued(&self) -> Vec<(ShardId, u64)> {
        let left = self.shards.values().filter_map(OfShard::left);
        left.collect()
    }

    /// The position up to which the queue is to be sent that may have something of this inode.
    pub fn queued_of(&self, ino: Ino) -> Option<(ShardId, u64)> {
        let of = self.shards.get(&ino.birth_shard());
        if let Some(of) = of.filter(|of| of.queue.is_about(ino)) {
            return of.left();
        }
        let queue = self.away.get(&ino).or_else(|| self.removing.get(&ino))?;
        self.shards.get(queue)?.left()
    }

    /// Shards whose grants are to be renewed, and their incarnations: those that were used of late, or are `needed`.
    pub fn to_renew(&self, now: Boottime, needed: impl Fn(ShardId) -> bool) -> Vec<(ShardId, u64)> {
        let is_due = |of: &&OfShard| {
            !of.is_over(now)
                && of.until.saturating_duration_since(now) < RENEW_BEFORE
                && (now.saturating_duration_since(of.used) < LEASE || needed(of.image.shard))
        };
        let due = self.shards.values().filter(is_due);
        due.map(|of| (of.image.shard, of.incarnation)).collect()
    }

    /// The answer to a request to renew them that was sent then.
    pub fn renewed(&mut self, shard: ShardId, incarnation: u64, sent: Boottime, is_done: bool) {
        let Some(of) = self.shards.get_mut(&shard) else {
            return;
        };
        if of.incarnation != incarnation {
            return;
        }
        match is_done {
            true => of.until = of.until.max(believed_until(sent)),
            false => of.is_lost = true,
        }
    }

    /// Drops images whose grants are over and of which nothing is queued.
    pub fn tick(&mut self, now: Boottime) {
        let is_over = |of: &OfShard| of.is_over(now) && of.queue.is_empty();
        let over = self.shards.iter().filter(|(_, of)| is_over(of));
        let over: Vec<ShardId> = over.map(|(shard, _)| *shard).collect();
        for shard in over {
            self.drop_image(shard);
        }
    }

    /// Until when the directory is granted.
    pub fn granted_until(&self, dir: Ino) -> Option<Boottime> {
        let of = self.shards.get(&dir.birth_shard())?;
        let is_granted = of.image.granted.contains(&dir) && !of.recalled.contains(&dir);
        (is_granted && !of.is_lost).then_some(of.until)
    }

    /// Until when nobody else changes the inode.
    pub fn exclusive_until(&self, ino: Ino) -> Option<Boottime> {
        let of = self.shards.get(&ino.birth_shard())?;
        let is_exclusive = of.image.is_exclusive(ino) && of.recalled.is_empty();
        (is_exclusive && !of.is_lost).then_some(of.until)
    }
}
