//! The leases of one shard.

use crate::grants::Grants;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use pandofs_types::limits::{
    LEASE, MANY_LEASES_PER_SHARD, MAX_GRANT_RECALL, MAX_GRANTS_PER_SHARD, MAX_KEYS_PER_RECALL,
    MAX_LEASES_PER_SHARD, SHORT_LEASE, VERY_MANY_LEASES_PER_SHARD,
};
use pandofs_types::{Ino, LeaseKey, SessionId, Steady, Term};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How much a shard leases, counted in leases that were given.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// With so many further ones are short, if they are not to last.
    pub many: usize,
    /// With so many they are brief.
    pub very_many: usize,
    /// There are no more than these.
    pub all: usize,
}

impl Default for Room {
    fn default() -> Room {
        Room {
            many: MANY_LEASES_PER_SHARD,
            very_many: VERY_MANY_LEASES_PER_SHARD,
            all: MAX_LEASES_PER_SHARD,
        }
    }
}

/// Somebody who waits until keys are clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitId(u64);

/// A message to a session: it is to believe these no longer, and to say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recall {
    /// The session to ask.
    pub session: SessionId,
    /// Higher than that of every earlier recall to the session.
    pub number: u64,
    /// No longer leased to the session once this is sent.
    pub keys: Vec<LeaseKey>,
}

/// One session's lease of one key.
#[derive(Clone, Copy, Debug)]
struct Holder {
    session: SessionId,
    /// Of a grant: when it was given; it ends with all others of the session.
    until: Steady,
    /// The recall that it is in; 0 if it is in none.
    recalled: u64,
}

/// Those who have leases of one key: nearly always one session, for which nothing is allocated.
#[derive(Debug)]
struct Holders {
    first: Holder,
    others: Vec<Holder>,
}

impl Holders {
    fn of(first: Holder) -> Holders {
        let others = Vec::new();
        Holders { first, others }
    }

    fn iter(&self) -> impl Iterator<Item = &Holder> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn of_session(&mut self, session: SessionId) -> Option<&mut Holder> {
        self.iter_mut().find(|holder| holder.session == session)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Holder> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    fn push(&mut self, holder: Holder) {
        self.others.push(holder);
    }

    /// Takes out the one at this place of `iter`; false if it is the only one, which stays.
    fn remove(&mut self, place: usize) -> bool {
        match place.checked_sub(1) {
            Some(place) => {
                self.others.swap_remove(place);
                true
            }
            None => match self.others.pop() {
                Some(other) => {
                    self.first = other;
                    true
                }
                None => false,
            },
        }
    }
}

#[derive(Debug)]
struct Wait {
    keys: Vec<LeaseKey>,
    /// Leases that are in the way.
    left: usize,
}

/// Waits for a key, each with the session whose leases are not in the way.
type Waiting = Vec<(WaitId, Option<SessionId>)>;

/// See the crate.
#[derive(Debug, Default)]
pub struct LeaseTable {
    now: Steady,
    held: HashMap<LeaseKey, Holders>,
    room: Room,
    /// Those of each term in the order in which they end; one that was given again stands here twice.
    ends: [VecDeque<(Steady, SessionId, LeaseKey)>; Term::COUNT],
    /// By session; each is in `held`, too.
    grants: Grants,
    /// Sessions of which grants are over, to be told.
    over: Vec<SessionId>,
    count: usize,
    /// To be sent.
    recalls: BTreeMap<SessionId, Vec<LeaseKey>>,
    /// Sent and not answered.
    sent: BTreeMap<(SessionId, u64), Vec<LeaseKey>>,
    last_number: u64,
    waits: HashMap<WaitId, Wait>,
    waiting: HashMap<LeaseKey, Waiting>,
    last_wait: u64,
    clear: Vec<WaitId>,
    /// No leases are given at all.
    closed: bool,
    recalled: u64,
}

impl LeaseTable {
    /// Empty, with these limits in place of the default ones.
    pub fn with_room(room: Room) -> LeaseTable {
        LeaseTable {
            room,
            ..LeaseTable::default()
        }
    }

    /// Leases over the new limits stay until their end.
    pub fn set_room(&mut self, room: Room) {
        self.room = room;
    }

    /// Time has passed; leases whose time is up are over.
    pub fn tick(&mut self, now: Steady) {
        self.now = self.now.max(now);
        while let Some((until, session, key)) = self.take_ended() {
            // It may have been given again since.
            self.end(key, session, |holder| holder.until <= until);
        }
        while let Some(session) = self.grants.take_over(self.now) {
            self.over.push(session);
        }
    }

    /// Sessions of which the time of all grants is up while somebody else wants one, each once. Nothing is done under these any more, and nobody else is
    /// let in before [`LeaseTable::end_over`].
    pub fn take_over(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.over)
    }

    /// Whether there may be one grant more. If not those are over that nobody has renewed in time.
    fn has_room(&mut self) -> bool {
        let has_room = self.grants.len() < MAX_GRANTS_PER_SHARD;
        if !has_room {
            let idle = self.grants.take_idle(self.now);
            self.over.extend(idle);
        }
        has_room
    }

    /// Ends the session's grants, if they are over.
    pub fn end_over(&mut self, session: SessionId) {
        if !self.grants.are_over(session) {
            return;
        }
        for dir in self.grants.dirs(session) {
            self.end(LeaseKey::Grant(dir), session, |_| true);
        }
        self.grants.forget(session);
    }

    fn take_ended(&mut self) -> Option<(Steady, SessionId, LeaseKey)> {
        let now = self.now;
        let ends = self.ends.iter_mut();
        let mut ended = ends.filter(|ends| ends.front().is_some_and(|(until, ..)| *until <= now));
        ended.next()?.pop_front()
    }

    /// For how long one is given when so many were.
    fn term(&self, given: usize, lasts: bool) -> Term {
        if lasts || given < self.room.many {
            Term::Long
        } else if given < self.room.very_many {
            Term::Short
        } else {
            Term::Brief
        }
    }

    /// Gives the session a lease of the key, or a new one for the one that it has, and says for how long; `None`
    /// if it gets none now. With `lasts` it is long also when there are many.
    ///
    /// Where half of many were given, one that the session has for a short term at least is not given anew: a
    /// client that makes files, looks at them and lists them would else have three of each.
    pub fn grant(&mut self, session: SessionId, key: LeaseKey, lasts: bool) -> Option<Term> {
        let given: usize = self.ends.iter().map(VecDeque::len).sum();
        if self.closed || given >= self.room.all {
            return None;
        }
        // Somebody waits to change it.
        if self.waiting.contains_key(&key) {
            return None;
        }
        let term = self.term(given, lasts);
        let until = self.now.after(term.lasts());
        let keeps = !lasts && given >= self.room.many / 2;
        let new = Holder {
            session,
            until,
            recalled: 0,
        };
        match self.held.entry(key) {
            Entry::Vacant(place) => {
                place.insert(Holders::of(new));
                self.count += 1;
            }
            Entry::Occupied(mut known) => {
                let holders = known.get_mut();
                match holders.of_session(session) {
                    // The session was told to drop it, and may do so after it has this answer.
                    Some(holder) if holder.recalled > 0 => return None,
                    // Perhaps from when there were fewer.
                    Some(holder) if holder.until >= until => return Some(term),
                    Some(holder) if keeps && holder.until >= self.now.after(SHORT_LEASE) => {
                        return Some(term.max(Term::Short));
                    }
                    Some(holder) => holder.until = until,
                    None => {
                        holders.push(new);
                        self.count += 1;
                    }
                }
            }
        }
        self.ends[term as usize].push_back((until, session, key));
        Some(term)
    }

    /// Grants the session a directory, if nobody else has it and nobody waits for it, and renews all grants that it has;
    /// returns their incarnation, which is `fresh` if it had none.
    pub fn grant_dir(&mut self, session: SessionId, dir: Ino, fresh: u64) -> Option<u64> {
        let key = LeaseKey::Grant(dir);
        if self.closed || self.waiting.contains_key(&key) || !self.may_renew(session) {
            return None;
        }
        let is_free = !self.held.contains_key(&key);
        if is_free && !self.has_room() {
            return None;
        }
        let incarnation = match self.held.get(&key) {
            // It did not get the answer. (While a grant is recalled it may give it up after it has this one.)
            Some(holders) if holders.first.session == session && holders.first.recalled == 0 => {
                self.grants.incarnation(session)?
            }
            Some(_) => return None,
            None => self.add_grant(session, dir, 0, fresh),
        };
        self.renew(session);
        Some(incarnation)
    }

    /// Begins grants of the session, without a directory, and renews all that it has; returns their incarnation, which is
    /// `fresh` if it had none.
    pub fn begin_grants(&mut self, session: SessionId, fresh: u64) -> Option<u64> {
        if self.closed || !self.has_room() {
            return None;
        }
        let until = self.now.after(LEASE);
        self.grants.begin(session, until, fresh);
        self.renew(session)
    }

    /// Grants a directory that has just been made to the session, which acts as if it were: if it has grants at all. Where
    /// there is no room for it, or nothing is to be leased, it is recalled at once.
    pub fn grant_made(&mut self, session: SessionId, dir: Ino) {
        let Some(incarnation) = self.grants.incarnation(session) else {
            return;
        };
        let has_room = !self.closed && self.has_room();
        if has_room {
            self.add_grant(session, dir, 0, incarnation);
        } else {
            self.add_grant(session, dir, u64::MAX, incarnation);
            self.grants.want(session, dir, self.now);
            let recalls = self.recalls.entry(session).or_default();
            recalls.push(LeaseKey::Grant(dir));
        }
    }

    fn add_grant(&mut self, session: SessionId, dir: Ino, recalled: u64, fresh: u64) -> u64 {
        let holder = Holder {
            session,
            until: self.now,
            recalled,
        };
        let key = LeaseKey::Grant(dir);
        let known = self.held.insert(key, Holders::of(holder));
        assert!(known.is_none(), "{dir} is granted to two");
        self.count += 1;
        let until = self.now.after(LEASE);
        self.grants.add(session, dir, until, fresh)
    }

    /// Has all grants of the session last for [`LEASE`] from now on; returns their incarnation. `None`: it has none, or goes
    /// on with something that was recalled for longer than [`MAX_GRANT_RECALL`].
    pub fn renew(&mut self, session: SessionId) -> Option<u64> {
        if !self.may_renew(session) {
            return None;
        }
        self.grants.renew(session, self.now.after(LEASE));
        self.grants.incarnation(session)
    }

    /// Whether the session's grants may go on. (Otherwise one that renews them and answers no recall would keep others out
    /// for ever.)
    fn may_renew(&self, session: SessionId) -> bool {
        let since = self.grants.wanted_since(session);
        let is_late = since.is_some_and(|since| since.after(MAX_GRANT_RECALL) <= self.now);
        !is_late && !self.grants.are_over(session)
    }

    /// Incarnation of the session's grants, if it has any.
    pub fn incarnation(&self, session: SessionId) -> Option<u64> {
        self.grants.incarnation(session)
    }

    /// Ends the grant of a directory that is there no more.
    pub fn forget_dir(&mut self, dir: Ino) {
        let key = LeaseKey::Grant(dir);
        if let Some(holders) = self.held.get(&key) {
            let session = holders.first.session;
            self.end(key, session, |_| true);
        }
    }

    /// Directories that are granted.
    pub fn grants(&self) -> usize {
        self.grants.len()
    }

    /// Whether anybody but `except` has a lease of the key.
    pub fn is_held(&self, key: LeaseKey, except: Option<SessionId>) -> bool {
        let holders = self.held.get(&key);
        holders.is_some_and(|holders| {
            let mut holders = holders.iter();
            holders.any(|holder| Some(holder.session) != except)
        })
    }

    /// Sees to it that nobody has leases of these keys; with a session: nobody else. (If a key stands there with
    /// a session and without, or with two: nobody at all.) `None` if that is so;
    /// else leases are recalled, and the wait is [over](LeaseTable::take_clear) when it is.
    pub fn clear(&mut self, keys: &[(LeaseKey, Option<SessionId>)]) -> Option<WaitId> {
        if self.count == 0 || !keys.iter().any(|&(key, except)| self.is_held(key, except)) {
            return None;
        }
        self.last_wait += 1;
        let id = WaitId(self.last_wait);
        let mut left = 0;
        // A key may stand there twice, once with an exception and once without: then there is none.
        let mut wanted: BTreeMap<LeaseKey, Option<SessionId>> = BTreeMap::new();
        for &(key, except) in keys {
            let known = wanted.entry(key).or_insert(except);
            if *known != except {
                *known = None;
            }
        }
        let waited = wanted.keys().copied().collect();
        for (key, except) in wanted {
            self.waiting.entry(key).or_default().push((id, except));
            let holders = self.held.get_mut(&key).into_iter();
            for holder in holders.flat_map(Holders::iter_mut) {
                if Some(holder.session) != except {
                    left += 1;
                    if holder.recalled == 0 {
                        // The number is given when the message is taken.
                        holder.recalled = u64::MAX;
                        self.recalls.entry(holder.session).or_default().push(key);
                        if let LeaseKey::Grant(dir) = key {
                            self.grants.want(holder.session, dir, self.now);
                        }
                    }
                }
            }
        }
        assert!(left > 0, "somebody waits for nothing");
        self.waits.insert(id, Wait { keys: waited, left });
        Some(id)
    }

    /// Gives no leases until it is [opened](LeaseTable::open), and recalls all; whether all are over.
    pub fn close(&mut self) -> bool {
        self.closed = true;
        for (&key, holders) in &mut self.held {
            for holder in holders.iter_mut().filter(|holder| holder.recalled == 0) {
                holder.recalled = u64::MAX;
                self.recalls.entry(holder.session).or_default().push(key);
                if let LeaseKey::Grant(dir) = key {
                    self.grants.want(holder.session, dir, self.now);
                }
            }
        }
        self.count == 0
    }

    /// Gives leases from now on.
    pub fn open(&mut self) {
        self.closed = false;
    }

    /// Recalls to be sent, each once: one that is lost is answered by the session's starting anew.
    ///
    /// Grants are in other recalls than leases: a session gives up a grant when all is sent that it has done under it, and
    /// leases at once.
    pub fn take_recalls(&mut self) -> Vec<Recall> {
        let mut recalls = Vec::new();
        for (session, mut keys) in std::mem::take(&mut self.recalls) {
            // Grants are last.
            keys.sort_unstable();
            let leases = keys.partition_point(|key| !matches!(key, LeaseKey::Grant(_)));
            let (leases, grants) = keys.split_at(leases);
            let of_one_kind = [leases, grants].into_iter();
            for keys in of_one_kind.flat_map(|keys| keys.chunks(MAX_KEYS_PER_RECALL)) {
                self.last_number += 1;
                let number = self.last_number;
                for key in keys {
                    let holders = self.held.get_mut(key);
                    for holder in holders.into_iter().flat_map(Holders::iter_mut) {
                        if holder.session == session && holder.recalled == u64::MAX {
                            holder.recalled = number;
                        }
                    }
                }
                self.recalled += keys.len() as u64;
                self.sent.insert((session, number), keys.to_vec());
                recalls.push(Recall {
                    session,
                    number,
                    keys: keys.to_vec(),
                });
            }
        }
        recalls
    }

    /// The session believes nothing any more of what was recalled with this number. A number that is not
    /// known is ignored.
    pub fn answered(&mut self, session: SessionId, number: u64) {
        for key in self.sent.remove(&(session, number)).unwrap_or_default() {
            self.end(key, session, |holder| holder.recalled == number);
        }
    }

    /// The session believes nothing any more.
    pub fn drop_session(&mut self, session: SessionId) {
        self.recalls.remove(&session);
        self.sent.retain(|(of, _), _| *of != session);
        let has = |holders: &Holders| holders.iter().any(|holder| holder.session == session);
        let held = self.held.iter().filter(|(_, holders)| has(holders));
        let mut keys: Vec<LeaseKey> = held.map(|(key, _)| *key).collect();
        keys.sort_unstable();
        for key in keys {
            self.end(key, session, |_| true);
        }
        self.grants.forget(session);
        for ends in &mut self.ends {
            ends.retain(|(_, holder, _)| *holder != session);
        }
    }

    fn end(&mut self, key: LeaseKey, session: SessionId, ends: impl Fn(&Holder) -> bool) {
        let Some(holders) = self.held.get_mut(&key) else {
            return;
        };
        let of_session = |holder: &Holder| holder.session == session && ends(holder);
        let Some(place) = holders.iter().position(of_session) else {
            return;
        };
        if !holders.remove(place) {
            self.held.remove(&key);
        }
        self.count -= 1;
        if let LeaseKey::Grant(dir) = key {
            self.grants.remove(session, dir);
        }
        for &(id, except) in self.waiting.get(&key).into_iter().flatten() {
            if except == Some(session) {
                continue;
            }
            let Some(wait) = self.waits.get_mut(&id) else {
                panic!("a key is waited for by nobody");
            };
            wait.left -= 1;
            if wait.left == 0 {
                self.clear.push(id);
            }
        }
    }

    /// Waits that are over. The change that waited clears its keys again: it may be that others are wanted now.
    pub fn take_clear(&mut self) -> Vec<WaitId> {
        let clear = std::mem::take(&mut self.clear);
        for id in &clear {
            self.forget(*id);
        }
        clear
    }

    fn forget(&mut self, id: WaitId) {
        let Some(wait) = self.waits.remove(&id) else {
            panic!("a wait ends twice");
        };
        for key in wait.keys {
            if let Some(waiting) = self.waiting.get_mut(&key) {
                waiting.retain(|(other, _)| *other != id);
                if waiting.is_empty() {
                    self.waiting.remove(&key);
                }
            }
        }
    }

    /// Leases that are held.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether no session has a lease.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A session whose leases somebody waits for, and how many other sessions there are; `None` if that is over.
    pub fn in_the_way(&self, wait: WaitId) -> Option<(SessionId, u32)> {
        let mut sessions = BTreeSet::new();
        for key in &self.waits.get(&wait)?.keys {
            let waits = self.waiting.get(key).into_iter().flatten();
            let except = waits.filter(|(id, _)| *id == wait).find_map(|(_, of)| *of);
            let holders = self.held.get(key).into_iter().flat_map(Holders::iter);
            let others = holders.filter(|holder| Some(holder.session) != except);
            sessions.extend(others.map(|holder| holder.session));
        }
        let first = sessions.first().copied()?;
        let others = u32::try_from(sessions.len() - 1).unwrap_or(u32::MAX);
        Some((first, others))
    }

    /// Those who wait.
    pub fn waiting(&self) -> usize {
        self.waits.len()
    }

    /// Leases that were recalled, ever.
    pub fn recalled(&self) -> u64 {
        self.recalled
    }
}
