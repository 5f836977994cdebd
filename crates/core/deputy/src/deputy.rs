//! All images of a session.

use crate::execute::{Chosen, Executed, execute, home_of_new, victims};
use crate::limits::{MAX_IMAGE_BYTES, SOON_QUEUED};
use crate::of_shard::OfShard;
use crate::queue::Order;
use crate::wishes::Wishes;
use hashbrown::HashMap;
use pandofs_api::op::{Change, Early, EarlyOperation, Operation};
use pandofs_api::{InodeReply, Refusal, Reply, Request};
use pandofs_namespace::{Choices, ops};
use pandofs_placement::ClusterMap;
use pandofs_session::Boottime;
use pandofs_types::{Credentials, FileKind, Ino, ServerId, SessionId, ShardId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The session's images, queues and wishes.
#[derive(Debug)]
pub struct Deputy {
    pub(crate) session: SessionId,
    pub(crate) map: Arc<ClusterMap>,
    pub(crate) is_on: bool,
    pub(crate) shards: BTreeMap<ShardId, OfShard>,
    /// Directories that queued operations make on other shards than their names', and in which shard's queue that is.
    pub(crate) away: HashMap<Ino, ShardId>,
    /// The same of directories that queued operations remove there.
    pub(crate) removing: HashMap<Ino, ShardId>,
    pub(crate) wishes: Wishes,
    /// Directories of which a grant is asked for, and whether something was heard since that makes the answer old.
    pub(crate) asking: HashMap<Ino, bool>,
    /// Shards of which grants are to begin without a directory, and the same of the answer; and before when none are asked
    /// for again.
    pub(crate) beginning: HashMap<ShardId, bool>,
    pub(crate) not_begun: HashMap<ShardId, Boottime>,
    /// Servers of which no recalls are heard, and the shards that they led when that began.
    pub(crate) deaf_to: BTreeMap<ServerId, BTreeSet<ShardId>>,
    /// Directories and inodes that requests are about which are under way to servers, and may change them.
    pub(crate) asked: HashMap<Ino, u32>,
    /// Requests under way that may remove or move any directory.
    pub(crate) moving: u32,
    pub(crate) executed: u64,
    /// A shard whose queue has just become so long that it may be time to send of it.
    pub(crate) news: Option<ShardId>,
    /// Operations that had ended of the queues that are no more, at most of one.
    pub(crate) ended: u64,
}

/// A request that a program asks for.
#[derive(Clone, Copy)]
pub struct Offer<'a> {
    /// Whose rights count.
    pub caller: &'a Credentials,
    /// With its second name and inode [aimed](Operation::aim).
    pub request: &'a Request,
    /// Never earlier than before.
    pub now: Boottime,
    /// The client's own clock.
    pub clock: Time,
    /// Drawn by the caller.
    pub random: u64,
    /// Whether the session has the inode open.
    pub opened: &'a dyn Fn(Ino) -> Opened,
}

/// State of an inode's opens in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It is not open.
    No,
    /// Its shard counts each open, or will when what is queued is executed.
    Told,
    /// There are opens of which no shard has heard.
    Untold,
}

/// Next step with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// This is the answer.
    Answered(Result<Reply, Refusal>),
    /// A server is to be asked. Afterwards [`Deputy::was_asked`].
    Ask(Asked),
    /// So many operations of the shard's queue are to end; then it is to be offered again.
    Drain {
        /// The queue's shard.
        shard: ShardId,
        /// For [`Deputy::has_ended`].
        until: u64,
    },
    /// A request is to end that is under way ([`Deputy::was_asked`]); then it is to be offered again.
    Wait,
    /// A grant of the directory is to be asked for ([`Deputy::granted`]); then it is to be offered again.
    WantsGrant {
        /// Its home is asked.
        dir: Ino,
    },
    /// Grants of the shard are to begin ([`Deputy::begun`]); then it is to be offered again.
    WantsBeginning {
        /// The shard to ask.
        shard: ShardId,
    },
    /// The inode's shard is to be told how often it is open, once nothing that is queued is about it: its last name is about
    /// to go. Then it is to be offered again.
    WantsOpens {
        /// A file that was opened under a grant.
        ino: Ino,
    },
    /// Inode numbers are to be taken of the shard ([`Deputy::took_numbers`]); then it is to be offered again.
    WantsNumbers {
        /// The shard to ask.
        shard: ShardId,
        /// Such as may be used in any order.
        unordered: bool,
    },
}

/// Directories and inodes that a request may change which is under way to a server.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Asked {
    subjects: Vec<Ino>,
    /// It takes or moves a name, and does not tell of what: perhaps a granted directory.
    moves: bool,
}

/// Condition of the answer to a recall.
#[derive(Debug, PartialEq, Eq)]
pub enum Recalled {
    /// Nothing.
    Over,
    /// So many operations of the shard's queue are to end; then [`Deputy::let_go`].
    Drain {
        /// The queue's shard.
        shard: ShardId,
        /// For [`Deputy::has_ended`].
        until: u64,
    },
}

impl Deputy {
    /// Without any grant. None is asked for before [`Deputy::begin`].
    pub fn new(session: SessionId, map: Arc<ClusterMap>) -> Deputy {
        Deputy {
            session,
            map,
            is_on: false,
            shards: BTreeMap::new(),
            away: HashMap::new(),
            removing: HashMap::new(),
            wishes: Wishes::default(),
            asking: HashMap::new(),
            beginning: HashMap::new(),
            not_begun: HashMap::new(),
            deaf_to: BTreeMap::new(),
            asked: HashMap::new(),
            moving: 0,
            executed: 0,
            news: None,
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

    /// Goes on by this cluster map, which has every shard, if it is newer.
    pub fn set_map(&mut self, map: &Arc<ClusterMap>) {
        if map.epoch > self.map.epoch {
            self.map = Arc::clone(map);
        }
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
        let made_by = subjects.iter().filter_map(|ino| self.away.get(ino));
        let removed_by = subjects.iter().filter_map(|ino| self.removing.get(ino));
        for shard in concerned.iter().chain(made_by).chain(removed_by) {
            if let Some(drain) = self.shards.get(shard).and_then(OfShard::drain) {
                return drain;
            }
        }
        self.ask(&offer, subjects)
    }

    /// Shards whose images or queues have any of these.
    fn concerned(&self, subjects: &[Ino]) -> Vec<ShardId> {
        let has = |ino: &Ino| {
            let shard = ino.birth_shard();
            let of = self.shards.get(&shard);
            let is_known =
                of.is_some_and(|of| of.image.is_exclusive(*ino) || of.queue.is_about(*ino));
            is_known
                .then_some(shard)
                .or_else(|| self.away.get(ino).copied())
                .or_else(|| self.removing.get(ino).copied())
        };
        let shards: BTreeSet<ShardId> = subjects.iter().filter_map(has).collect();
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

    /// Drops an image of which nothing is queued. A request that waits for the end of its queue waits by a number, which
    /// the next queue goes on from.
    pub(crate) fn drop_image(&mut self, shard: ShardId) {
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
                    && !self.is_deaf_to(dir.birth_shard())
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
            let chosen = Chosen::of(session, offer, &choices);
            return match execute(&of.image, None, &map, chosen, offer.request) {
                Executed::Read(answer) => {
                    self.executed += 1;
                    Some(Taken::Answered(answer.map_err(Refusal::Fs)))
                }
                Executed::Changed { .. } | Executed::Undecided => None,
            };
        }
        let located = of.image.located(&map, offer.request);
        let offer = &Offer {
            request: located.as_ref().unwrap_or(offer.request),
            ..*offer
        };
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
        if matches!(operation, EarlyOperation::Mkdir(_)) {
            let choices = Choices {
                random: offer.random,
                placing: of.terms.placing,
                ..Choices::default()
            };
            let chosen = Chosen::of(session, offer, &choices);
            let home = home_of_new(&of.image, &map, chosen, offer.request);
            if let Some(home) = home.filter(|home| *home != shard) {
                return self.make_away(shard, home, offer, subjects);
            }
        }
        if let EarlyOperation::Rmdir(rmdir) = &operation
            && let Some((home, dir)) = of.image.removed_elsewhere(&map, rmdir)
        {
            return self.remove_away(shard, (home, dir), offer, subjects);
        }
        let makes = matches!(
            operation,
            EarlyOperation::Create(_) | EarlyOperation::Mkdir(_)
        );
        let ino = match makes {
            true => match of.numbers.front() {
                Some(&(next, _)) => Some(Ino::new(shard, next)),
                None => {
                    let unordered = false;
                    return Some(Taken::WantsNumbers { shard, unordered });
                }
            },
            false => None,
        };
        let victims = victims(&of.image, &map, offer.request);
        let mut closed = victims.clone();
        if let Some(ino) = closed
            .iter()
            .find(|ino| (offer.opened)(**ino) == Opened::Untold)
        {
            return Some(Taken::WantsOpens { ino: *ino });
        }
        closed.retain(|ino| (offer.opened)(*ino) == Opened::No);
        let choices = Choices {
            time: of.time(offer.now, offer.clock),
            random: offer.random,
            ino,
            closed,
            placing: of.terms.placing,
            ..Choices::default()
        };
        let chosen = Chosen::of(session, offer, &choices);
        match execute(&of.image, None, &map, chosen, offer.request) {
            Executed::Undecided => None,
            Executed::Read(answer) => Some(Taken::Answered(answer.map_err(Refusal::Fs))),
            Executed::Changed { reply, batches } => {
                for batch in &batches {
                    of.image.changed(offer.request, &reply, batch);
                }
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
                self.executed += 1;
                if is_of_file(&reply, choices.time)
                    && of.queue.take_up(offer.caller, &early, choices.placing)
                {
                    return Some(Taken::Answered(Ok(reply)));
                }
                let mut about = subjects.to_vec();
                about.extend(ino_of(&reply));
                about.extend(victims);
                let unmade = subjects.iter().find(|ino| self.away.contains_key(*ino));
                let order = Order {
                    after: unmade.copied(),
                    ..Order::default()
                };
                of.queue
                    .push(offer.caller, early, choices.placing, about, order);
                self.queued_one(shard);
                Some(Taken::Answered(Ok(reply)))
            }
        }
    }

    pub(crate) fn queued_one(&mut self, shard: ShardId) {
        if matches!(self.queued(shard), 1 | SOON_QUEUED) {
            self.news = Some(shard);
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

    /// An operation that takes or moves a name may be about any directory that is granted: nothing is queued before it, and
    /// nothing is executed here until it has ended. (A file is made in a directory, and queued; the directory's name is
    /// removed by the server, for which it is empty.)
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
    pub(crate) fn inode(&self, ino: Ino, now: Boottime) -> Option<InodeReply> {
        let of = self.shards.get(&ino.birth_shard())?;
        // Past the grant's end the shard does not have what is queued either.
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
}

/// End of what is over.
enum Ended {
    Nothing,
    Something,
    /// Something that is queued is to end first.
    Drain {
        shard: ShardId,
        until: u64,
    },
}

/// The inode that a reply tells of besides those that were asked for.
fn ino_of(reply: &Reply) -> Option<Ino> {
    match reply {
        Reply::Entry(entry) => Some(entry.ino),
        Reply::Removed { ino } | Reply::Renamed { ino } => Some(*ino),
        _ => None,
    }
}

/// Whether it is about an inode that is no directory, and was changed then, as its shard will have it changed.
fn is_of_file(reply: &Reply, time: Time) -> bool {
    matches!(reply, Reply::Inode(inode) if inode.attr.kind != FileKind::Dir && inode.attr.ctime == time)
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
