//! All images of a session.

use crate::execute::{Chosen, Executed, execute, victims};
use crate::image::Image;
use crate::limits::{FEW_NUMBERS, MAX_IMAGE_BYTES, RENEW_BEFORE};
use crate::queue::{Lost, Queue};
use crate::wishes::Wishes;
use hashbrown::{HashMap, HashSet};
use pandofs_api::op::{Batch, Change, Early, EarlyOperation, Operation};
use pandofs_api::{BatchReply, GrantTerms, Granted, InodeReply, Refusal, Reply, Request};
use pandofs_namespace::{Choices, ops};
use pandofs_placement::ClusterMap;
use pandofs_session::Boottime;
use pandofs_types::limits::LEASE;
use pandofs_types::{Credentials, Ino, LeaseKey, Name, Position, SessionId, ShardId, Term, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The session's images, queues and wishes.
#[derive(Debug)]
pub struct Deputy {
    session: SessionId,
    map: Arc<ClusterMap>,
    is_on: bool,
    shards: BTreeMap<ShardId, OfShard>,
    wishes: Wishes,
    /// Directories of which a grant is asked for, and whether something was heard since that makes the answer old.
    asking: HashMap<Ino, bool>,
    /// Directories and inodes that requests are about which are under way to servers, and may change them.
    asked: HashMap<Ino, u32>,
    /// Requests under way that may remove or move any directory.
    moving: u32,
    executed: u64,
    /// Operations that had ended of the queues that are no more, at most of one.
    ended: u64,
}

/// What the session has of one shard.
#[derive(Debug)]
struct OfShard {
    image: Image,
    queue: Queue,
    incarnation: u64,
    /// The grants' end.
    until: Boottime,
    /// The server has forgotten the grants, or may have: what is queued goes out, and nothing more is executed.
    is_lost: bool,
    /// Directories that are to be let go of once the queue is sent.
    recalled: HashSet<Ino>,
    /// Serials from one to before another.
    numbers: VecDeque<(u64, u64)>,
    is_taking_numbers: bool,
    terms: GrantTerms,
    terms_at: Boottime,
    last_time: Time,
    used: Boottime,
}

/// A request that a program asks for.
#[derive(Clone, Copy)]
pub struct Offer<'a> {
    pub caller: &'a Credentials,
    pub request: &'a Request,
    pub now: Boottime,
    /// Drawn by the caller.
    pub random: u64,
    /// Whether the session has the inode open.
    pub is_open: &'a dyn Fn(Ino) -> bool,
}

/// What is to be done with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// This is the answer.
    Answered(Result<Reply, Refusal>),
    /// A server is to be asked. Afterwards [`Deputy::was_asked`].
    Ask(Asked),
    /// So many operations of the shard's queue are to end; then it is to be offered again.
    Drain { shard: ShardId, until: u64 },
    /// A request is to end that is under way ([`Deputy::was_asked`]); then it is to be offered again.
    Wait,
    /// A grant of the directory is to be asked for ([`Deputy::granted`]); then it is to be offered again.
    WantsGrant { dir: Ino },
    /// Inode numbers are to be taken of the shard ([`Deputy::took_numbers`]); then it is to be offered again.
    WantsNumbers { shard: ShardId },
}

/// Directories and inodes that a request may change which is under way to a server.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Asked {
    subjects: Vec<Ino>,
    /// It takes or moves a name, and does not tell of what: perhaps a granted directory.
    moves: bool,
}

/// What is to be done before a recall is answered.
#[derive(Debug, PartialEq, Eq)]
pub enum Recalled {
    /// Nothing.
    Over,
    /// So many operations of the shard's queue are to end; then [`Deputy::let_go`].
    Drain { shard: ShardId, until: u64 },
}

impl Deputy {
    /// Without any grant. None is asked for before [`Deputy::begin`].
    pub fn new(session: SessionId, map: Arc<ClusterMap>) -> Deputy {
        Deputy {
            session,
            map,
            is_on: false,
            shards: BTreeMap::new(),
            wishes: Wishes::default(),
            asking: HashMap::new(),
            asked: HashMap::new(),
            moving: 0,
            executed: 0,
            ended: 0,
        }
    }

    /// Grants are asked for from now on.
    pub fn begin(&mut self) {
        self.is_on = true;
    }

    /// Whether grants are asked for.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Goes on by a newer cluster map, which has every shard.
    pub fn set_map(&mut self, map: Arc<ClusterMap>) {
        self.map = map;
    }

    /// Operations that were executed here, ever.
    pub fn executed(&self) -> u64 {
        self.executed
    }

    /// Directories that are granted.
    pub fn granted_directories(&self) -> usize {
        let granted = self.shards.values().map(|of| of.image.granted.len());
        granted.sum()
    }

    /// Decides what is done with a request.
    pub fn offer(&mut self, offer: Offer<'_>) -> Taken {
        if !self.is_on {
            return Taken::Ask(Asked::default());
        }
        let subjects = subjects(offer.request.operation());
        let concerned = loop {
            let concerned = self.concerned(&subjects);
            match self.end_what_is_over(&concerned, &subjects, offer.now) {
                Ended::Nothing => break concerned,
                Ended::Something => {}
                Ended::Drain { shard, until } => return Taken::Drain { shard, until },
            }
        };
        if concerned.is_empty() {
            return self.none_of_ours(&offer, subjects);
        }
        if let [shard] = concerned[..]
            && let Some(taken) = self.take(shard, &offer, &subjects)
        {
            return taken;
        }
        for shard in &concerned {
            if let Some(drain) = self.shards.get(shard).and_then(OfShard::drain) {
                return drain;
            }
        }
        self.ask(&offer, subjects)
    }

    /// Shards whose images or queues have any of these.
    fn concerned(&self, subjects: &[Ino]) -> Vec<ShardId> {
        let has = |ino: &&Ino| {
            let of = self.shards.get(&ino.birth_shard());
            of.is_some_and(|of| of.image.is_exclusive(**ino) || of.queue.is_about(**ino))
        };
        let shards: BTreeSet<ShardId> = subjects
            .iter()
            .filter(has)
            .map(|ino| ino.birth_shard())
            .collect();
        shards.into_iter().collect()
    }

    /// Lets go of what is over, as far as nothing of it is queued.
    fn end_what_is_over(
        &mut self,
        concerned: &[ShardId],
        subjects: &[Ino],
        now: Boottime,
    ) -> Ended {
        for shard in concerned {
            let Some(of) = self.shards.get_mut(shard) else {
                continue;
            };
            let is_over = of.is_over(now);
            let recalled = subjects
                .iter()
                .find(|ino| of.recalled.contains(*ino))
                .copied();
            if !is_over && recalled.is_none() {
                continue;
            }
            if let Some((shard, until)) = of.left() {
                return Ended::Drain { shard, until };
            }
            match recalled {
                Some(dir) if !is_over => of.let_go(dir),
                _ => self.drop_image(*shard),
            }
            return Ended::Something;
        }
        Ended::Nothing
    }

    /// Drops an image of which nothing is queued. Whoever waits for the end of something in its queue waits by a number,
    /// which the next queue goes on from.
    fn drop_image(&mut self, shard: ShardId) {
        if let Some(of) = self.shards.remove(&shard) {
            assert!(of.queue.is_empty(), "what is queued is dropped");
            self.ended = self.ended.max(of.queue.ended());
        }
    }

    /// A request that is about nothing that is granted.
    fn none_of_ours(&mut self, offer: &Offer<'_>, subjects: Vec<Ino>) -> Taken {
        if !offer.request.is_mutation() {
            return Taken::Ask(Asked::default());
        }
        if EarlyOperation::of(offer.request).is_some() {
            let operation = offer.request.operation();
            let dirs = [operation.dir(), operation.new_name().map(|name| name.dir)];
            for dir in dirs.into_iter().flatten() {
                let is_wanted = self.wishes.changes(dir, offer.now)
                    && !self.asking.contains_key(&dir)
                    && !self.asked.contains_key(&dir);
                if is_wanted {
                    // Of one incarnation at a time.
                    if let Some(of) = self.shards.get(&dir.birth_shard())
                        && of.is_over(offer.now)
                    {
                        if let Some(drain) = of.drain() {
                            return drain;
                        }
                        self.drop_image(dir.birth_shard());
                    }
                    self.asking.insert(dir, false);
                    return Taken::WantsGrant { dir };
                }
            }
        }
        self.under_way(offer, subjects)
    }

    /// Executes a request on one image; `None` if it does not say what comes of it.
    fn take(&mut self, shard: ShardId, offer: &Offer<'_>, subjects: &[Ino]) -> Option<Taken> {
        let (session, map) = (self.session, Arc::clone(&self.map));
        let of = self.shards.get_mut(&shard)?;
        of.used = offer.now;
        if !offer.request.is_mutation() {
            let choices = Choices::default();
            let chosen = Chosen {
                session,
                caller: offer.caller,
                choices: &choices,
            };
            return match execute(&of.image, &map, chosen, offer.request) {
                Executed::Read(answer) => {
                    self.executed += 1;
                    Some(Taken::Answered(answer.map_err(Refusal::Fs)))
                }
                Executed::Changed { .. } | Executed::Undecided => None,
            };
        }
        let operation = EarlyOperation::of(offer.request)?;
        if self.moving > 0 {
            return Some(Taken::Wait);
        }
        if of.queue.is_full() {
            let until = of.queue.begun() - of.queue.len() as u64 / 2;
            return Some(Taken::Drain { shard, until });
        }
        if of.terms.is_low && takes_space(&operation) || of.image.bytes() > MAX_IMAGE_BYTES {
            return None;
        }
        let makes = matches!(
            operation,
            EarlyOperation::Create(_) | EarlyOperation::Mkdir(_)
        );
        let ino = match makes {
            true => match of.numbers.front() {
                Some(&(next, _)) => Some(Ino::new(shard, next)),
                None => return Some(Taken::WantsNumbers { shard }),
            },
            false => None,
        };
        let mut closed = victims(&of.image, &map, offer.request);
        closed.retain(|ino| !(offer.is_open)(*ino));
        let choices = Choices {
            time: of.time(offer.now),
            random: offer.random,
            ino,
            closed,
            placing: of.terms.placing,
            ..Choices::default()
        };
        let chosen = Chosen {
            session,
            caller: offer.caller,
            choices: &choices,
        };
        match execute(&of.image, &map, chosen, offer.request) {
            Executed::Undecided => None,
            Executed::Read(answer) => Some(Taken::Answered(answer.map_err(Refusal::Fs))),
            Executed::Changed { reply, batch } => {
                of.image.changed(offer.request, &reply, &batch);
                if makes {
                    of.use_number();
                }
                let early = Early {
                    caller: 0,
                    time: choices.time,
                    random: choices.random,
                    ino,
                    operation,
                };
                of.last_time = choices.time;
                let mut about = subjects.to_vec();
                about.extend(ino_of(&reply));
                of.queue.push(offer.caller, early, choices.placing, about);
                self.executed += 1;
                Some(Taken::Answered(Ok(reply)))
            }
        }
    }

    /// A request that a server decides; nothing that it is about is queued.
    fn ask(&mut self, offer: &Offer<'_>, subjects: Vec<Ino>) -> Taken {
        // Times of access are told later and change nothing that is answered from an image but themselves.
        if !offer.request.is_mutation() || matches!(offer.request, Request::Accessed(_)) {
            return Taken::Ask(Asked::default());
        }
        for ino in &subjects {
            let Some(of) = self.shards.get_mut(&ino.birth_shard()) else {
                continue;
            };
            if of.image.granted.contains(ino) {
                of.let_go(*ino);
                match offer.request {
                    // It was to be placed elsewhere, and the next one is not.
                    Request::Create(_) | Request::Mkdir(_) => {
                        self.wishes.made(*ino, offer.now);
                    }
                    _ => self.wishes.pause(*ino, offer.now),
                }
            }
            of.image.forget_made(*ino);
        }
        self.under_way(offer, subjects)
    }

    /// What takes or moves a name may be about any directory that is granted: nothing is queued before it, and nothing is
    /// executed here until it has ended. (A file is made in a directory, and queued; the directory's name is removed by the
    /// server, for which it is empty.)
    fn under_way(&mut self, offer: &Offer<'_>, subjects: Vec<Ino>) -> Taken {
        let takes = matches!(
            offer.request,
            Request::Rmdir(_) | Request::Rename(_) | Request::Exchange(_)
        );
        let moves = takes && !self.shards.is_empty();
        if moves {
            if let Some(drain) = self.shards.values().find_map(OfShard::drain) {
                return drain;
            }
            self.moving += 1;
        }
        for ino in &subjects {
            *self.asked.entry(*ino).or_default() += 1;
            if let Some(is_old) = self.asking.get_mut(ino) {
                *is_old = true;
            }
        }
        Taken::Ask(Asked { subjects, moves })
    }

    /// A request that a server was asked has ended, with this reply; `None`: it was refused, or nobody knows.
    ///
    /// # Panics
    /// When it had not begun.
    pub fn was_asked(&mut self, asked: Asked, reply: Option<&Reply>) {
        if asked.moves {
            self.moving -= 1;
            match reply {
                Some(Reply::Removed { ino } | Reply::Renamed { ino }) => self.has_moved(*ino),
                Some(Reply::Exchanged { ino, other }) => {
                    self.has_moved(*ino);
                    self.has_moved(*other);
                }
                _ => {}
            }
        }
        for ino in asked.subjects {
            let Some(count) = self.asked.get_mut(&ino) else {
                panic!("a request about {ino} ends that has not begun");
            };
            *count -= 1;
            if *count == 0 {
                self.asked.remove(&ino);
            }
        }
    }

    /// A server has removed or moved the inode.
    fn has_moved(&mut self, ino: Ino) {
        let Some(of) = self.shards.get_mut(&ino.birth_shard()) else {
            return;
        };
        if of.image.granted.contains(&ino) {
            of.let_go(ino);
        }
        of.image.forget_made(ino);
    }

    /// Puts what the images know into a server's answer: attributes of inodes that a name leads to, which the request did
    /// not tell. (A directory is granted, files are made in it, and its own name is looked up in one that is not.)
    pub fn correct(&self, reply: &mut Reply, now: Boottime) {
        match reply {
            Reply::Entry(entry) => {
                let known = entry.inode.is_some().then(|| self.inode(entry.ino, now));
                entry.inode = known.flatten().or(entry.inode.take());
            }
            Reply::Entries(listed) => {
                let with_inodes = listed.entries.iter_mut().filter(|e| e.inode.is_some());
                for entry in with_inodes {
                    if let Some(known) = self.inode(entry.ino, now) {
                        entry.inode = Some(known);
                    }
                }
            }
            _ => {}
        }
    }

    /// An exclusive inode as its image has it.
    fn inode(&self, ino: Ino, now: Boottime) -> Option<InodeReply> {
        let of = self.shards.get(&ino.birth_shard())?;
        // What is over and still queued the shard does not have either.
        if !of.image.is_exclusive(ino) || of.is_over(now) && of.queue.is_empty() {
            return None;
        }
        let view = of.image.view(&self.map);
        let inode = view.inode(ino).ok()?;
        ops::inode_reply(&view, ino, &inode).ok()
    }

    /// A server has made a directory for this session.
    pub fn made_elsewhere(&mut self, dir: Ino, now: Boottime) {
        if self.is_on {
            self.wishes.made(dir, now);
        }
    }

    /// The answer to a request for a grant that was sent then; `None` if there was no answer, or no grant.
    pub fn granted(&mut self, dir: Ino, sent: Boottime, granted: Option<Granted>, now: Boottime) {
        let is_old = self.asking.remove(&dir).unwrap_or(true);
        let Some(granted) = granted else {
            self.wishes.pause(dir, now);
            return;
        };
        if is_old || self.asked.contains_key(&dir) {
            self.wishes.pause(dir, now);
            return;
        }
        let shard = dir.birth_shard();
        let until = believed_until(sent);
        let of = self.shards.entry(shard).or_insert_with(|| OfShard {
            image: Image::of(shard),
            queue: Queue::after(self.ended),
            incarnation: granted.incarnation,
            until,
            is_lost: false,
            recalled: HashSet::new(),
            numbers: VecDeque::new(),
            is_taking_numbers: false,
            terms: granted.terms.clone(),
            terms_at: sent,
            last_time: granted.terms.time,
            used: now,
        });
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
        of.hear(granted.terms.clone(), sent);
        of.image.grant(dir, granted);
    }

    /// The directory is recalled.
    pub fn recall(&mut self, dir: Ino, now: Boottime) -> Recalled {
        if let Some(is_old) = self.asking.get_mut(&dir) {
            *is_old = true;
        }
        self.wishes.pause(dir, now);
        let shard = dir.birth_shard();
        let Some(of) = self.shards.get_mut(&shard) else {
            return Recalled::Over;
        };
        if !of.image.granted.contains(&dir) {
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

    /// Lets go of a directory that was recalled, once so many operations of its queue have ended.
    pub fn let_go(&mut self, dir: Ino) {
        if let Some(of) = self.shards.get_mut(&dir.birth_shard())
            && of.recalled.contains(&dir)
        {
            of.let_go(dir);
        }
    }

    /// The server of these shards may have forgotten all grants.
    pub fn lost(&mut self, shards: impl IntoIterator<Item = ShardId>) {
        for shard in shards {
            if let Some(of) = self.shards.get_mut(&shard) {
                of.is_lost = true;
            }
            for (dir, is_old) in &mut self.asking {
                *is_old |= dir.birth_shard() == shard;
            }
        }
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

    /// Inode numbers of the shard were taken, from the first on; or there was no answer.
    pub fn took_numbers(&mut self, shard: ShardId, taken: Option<(Ino, u32)>) {
        let Some(of) = self.shards.get_mut(&shard) else {
            return;
        };
        of.is_taking_numbers = false;
        if let Some((first, count)) = taken
            && first.birth_shard() == shard
        {
            let next = first.serial();
            of.numbers.push_back((next, next + u64::from(count)));
        }
    }

    /// Shards of which something is to be sent and no batch is under way.
    pub fn to_send(&self) -> Vec<ShardId> {
        let ready = self
            .shards
            .iter()
            .filter(|(_, of)| !of.queue.is_empty() && !of.queue.is_under_way());
        ready.map(|(shard, _)| *shard).collect()
    }

    /// Operations that are queued for the shard.
    pub fn queued(&self, shard: ShardId) -> usize {
        self.shards.get(&shard).map_or(0, |of| of.queue.len())
    }

    /// The shard's next batch, if none is under way.
    pub fn next_batch(&mut self, shard: ShardId) -> Option<Batch> {
        self.shards.get_mut(&shard)?.queue.next_batch()
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
    ) -> Vec<Lost> {
        let Some(of) = self.shards.get_mut(&shard) else {
            panic!("a batch of shard {shard} is answered that was not sent");
        };
        let Some(reply) = reply else {
            of.is_lost = true;
            return of.queue.answered(0, None);
        };
        let lost = of.queue.answered(reply.done as usize, reply.refused);
        of.hear(reply.terms, sent);
        if !lost.is_empty() || reply.incarnation != Some(of.incarnation) {
            of.is_lost = true;
        } else if !of.is_lost {
            of.until = of.until.max(believed_until(sent));
        }
        lost
    }

    /// Whether so many operations of the shard's queue have ended.
    pub fn has_ended(&self, shard: ShardId, until: u64) -> bool {
        let of = self.shards.get(&shard);
        of.is_none_or(|of| of.queue.ended() >= until)
    }

    /// Returns whether there are no inode numbers of the shard.
    pub fn lacks_numbers(&self, shard: ShardId) -> bool {
        self.shards
            .get(&shard)
            .is_some_and(|of| of.numbers.is_empty())
    }

    /// Gives up a directory that was recalled although something is queued: it may be refused now.
    pub fn give_up(&mut self, dir: Ino) {
        if let Some(of) = self.shards.get_mut(&dir.birth_shard()) {
            of.is_lost |= of.recalled.contains(&dir);
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
        self.shards.get(&ino.birth_shard())?.left()
    }

    /// Shards whose grants are to be renewed, and their incarnations: those that were used of late.
    pub fn to_renew(&self, now: Boottime) -> Vec<(ShardId, u64)> {
        let is_due = |of: &&OfShard| {
            !of.is_over(now)
                && of.until.saturating_duration_since(now) < RENEW_BEFORE
                && now.saturating_duration_since(of.used) < LEASE
        };
        let due = self.shards.values().filter(is_due);
        due.map(|of| (of.image.shard, of.incarnation)).collect()
    }

    /// The answer to a request to renew them that was sent then.
    pub fn renewed(&mut self, shard: ShardId, incarnation: u64, sent: Boottime, is_done: bool) {
        let Some(of) = self.shards.get_mut(&shard) else {
            return;
        };
        if of.incarnation != incarnation || of.is_lost {
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

/// What is over.
enum Ended {
    Nothing,
    Something,
    /// Something that is queued is to end first.
    Drain {
        shard: ShardId,
        until: u64,
    },
}

impl OfShard {
    fn is_over(&self, now: Boottime) -> bool {
        self.is_lost || self.until <= now
    }

    /// The position up to which the queue is to be sent, if there is anything in it.
    fn left(&self) -> Option<(ShardId, u64)> {
        (!self.queue.is_empty()).then(|| (self.image.shard, self.queue.begun()))
    }

    fn drain(&self) -> Option<Taken> {
        let (shard, until) = self.left()?;
        Some(Taken::Drain { shard, until })
    }

    fn let_go(&mut self, dir: Ino) {
        self.recalled.remove(&dir);
        if self.image.let_go(dir).is_err() {
            // What an image has it has decoded before.
            self.is_lost = true;
        }
    }

    fn hear(&mut self, terms: GrantTerms, at: Boottime) {
        self.terms = terms;
        self.terms_at = at;
    }

    /// The server's clock, as far as is known; never earlier than it was.
    fn time(&self, now: Boottime) -> Time {
        let passed = now.saturating_duration_since(self.terms_at);
        let nanos = i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX);
        Time(self.terms.time.0.saturating_add(nanos)).max(self.last_time)
    }

    fn use_number(&mut self) {
        if let Some((next, end)) = self.numbers.front_mut() {
            *next += 1;
            if next == end {
                self.numbers.pop_front();
            }
        }
    }
}

fn believed_until(sent: Boottime) -> Boottime {
    sent + Term::Long.believed_for()
}

/// The inode that a reply tells of besides those that were asked for.
fn ino_of(reply: &Reply) -> Option<Ino> {
    match reply {
        Reply::Entry(entry) => Some(entry.ino),
        Reply::Removed { ino } | Reply::Renamed { ino } => Some(*ino),
        _ => None,
    }
}

/// Directories and inodes that an operation is about, as far as its request tells.
fn subjects(operation: &dyn Operation) -> Vec<Ino> {
    let mut subjects: Vec<Ino> = Vec::with_capacity(4);
    let mut add = |ino: Ino| {
        if !subjects.contains(&ino) {
            subjects.push(ino);
        }
    };
    operation.dir().into_iter().for_each(&mut add);
    operation.dirs().into_iter().flatten().for_each(&mut add);
    operation.inode().into_iter().for_each(&mut add);
    for change in operation.changes() {
        match change {
            Change::Name(ino, _) | Change::Inode(ino) | Change::Dir(ino) => add(ino),
        }
    }
    subjects
}

fn takes_space(operation: &EarlyOperation) -> bool {
    !matches!(
        operation,
        EarlyOperation::Unlink(_) | EarlyOperation::Rmdir(_) | EarlyOperation::Rename(_)
    )
}
