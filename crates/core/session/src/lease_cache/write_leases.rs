//! Write leases: leases under which writes are answered early.
//!
//! A write to data objects that is answered before the servers have it comes before every truncation of
//! the file that begins after the answer. So it is begun under a lease of the inode's attributes.
//! Before a truncation the lease is recalled, and the recall is answered when the writes that began under
//! it have ended. (A write is answered and on its way; B truncates the file to nothing, and gets its
//! answer; the write arrives, is refused for a truncation, and no one knows if that was before it.) Where
//! no lease is given, a write is answered when the data objects have it: with a truncation at the same
//! time either may be first, and the objects count truncations, so that it comes wholly before or wholly
//! after.

use super::{LeaseCache, State};
use crate::boottime::Boottime;
use crate::limits::WRITE_LEASE_RETRY;
use pandofs_api::Reply;
use pandofs_types::{Ino, ServerId};

/// The write lease of one file.
#[derive(Debug, Default)]
pub(super) struct WriteLease {
    held: Option<Held>,
    /// The truncations at this session's last change of its own.
    least: u32,
    /// Requests from before this event lease nothing.
    since: u64,
    /// Writes under way that began while it was held.
    under_way: u32,
    /// A recall waits for the writes under way.
    is_wanted: bool,
    /// It is not asked for before.
    not_before: Option<Boottime>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    truncations: u32,
    until: Boottime,
    server: ServerId,
}

/// A write that began under a lease.
#[derive(Debug)]
#[must_use]
pub struct Hold {
    /// Of the file, when it began.
    pub truncations: u32,
}

/// The permission to begin a write.
#[derive(Debug)]
pub enum Begun {
    /// Under a lease; what it has goes to [`LeaseCache::end_write`] when the write has ended.
    Held(Hold),
    /// Not under a lease: there is none to be had now.
    Without,
    /// Not before a lease was asked for.
    Ask,
}

impl WriteLease {
    /// A lease that takes in answers to requests from this event on.
    fn new(since: u64) -> WriteLease {
        WriteLease {
            since,
            ..WriteLease::default()
        }
    }

    fn let_go(&mut self) {
        self.held = None;
    }
}

impl State {
    /// The answer to what was asked after this event leases the attributes of the inode, which has
    /// been truncated so often.
    ///
    /// This session's lease is not recalled for a truncation of its own, so that an answer may come late
    /// without having been recalled. (A asks, gets 3 truncations, and stands still; B, of the same
    /// session, truncates, and gets 4; A takes in its 3, C writes under that and reports it: the shard
    /// takes what C has written for cut away.)
    pub(super) fn write_lease(
        &mut self,
        ino: Ino,
        events: u64,
        truncations: u32,
        until: Boottime,
        server: ServerId,
    ) {
        if let Some(lease) = self.write_leases.get_mut(&ino)
            && events >= lease.since
            && truncations >= lease.least
        {
            // Answers overtake one another; there are never fewer truncations than there were.
            let known = lease.held.filter(|held| held.server == server);
            lease.held = Some(Held {
                truncations: known.map_or(truncations, |held| held.truncations.max(truncations)),
                until: known.map_or(until, |held| held.until.max(until)),
                server,
            });
        }
    }

    /// This session has changed the inode itself and was answered with `reply`, or not at all,
    /// which is the event. Its lease is not recalled for its own truncation. (A truncates the file, the answer
    /// leases nothing, A writes under the lease from before: the write is reported as older than
    /// the truncation, and what was written is gone.)
    pub(super) fn own_change(&mut self, ino: Ino, event: u64, reply: Option<&Reply>) {
        let Some(lease) = self.write_leases.get_mut(&ino) else {
            return;
        };
        match reply {
            Some(Reply::Inode(inode)) => {
                lease.least = lease.least.max(inode.truncations);
                if lease
                    .held
                    .is_some_and(|held| held.truncations < lease.least)
                {
                    lease.let_go();
                }
            }
            Some(_) => {}
            None => {
                lease.since = event;
                lease.let_go();
            }
        }
    }

    /// A recall is to let go of it: whether it has to wait for writes under way.
    pub(super) fn want_write_lease(&mut self, ino: Ino) -> bool {
        let Some(lease) = self.write_leases.get_mut(&ino) else {
            return false;
        };
        lease.is_wanted = true;
        lease.under_way > 0
    }

    pub(super) fn recall_write_lease(&mut self, ino: Ino) {
        if let Some(lease) = self.write_leases.get_mut(&ino) {
            lease.let_go();
            lease.is_wanted = false;
        }
    }

    /// Returns whether there may be one more. With all in use each of them is looked at only every
    /// now and then.
    fn has_room_for_write_lease(&mut self, now: Boottime) -> bool {
        if self.write_leases.len() < self.most_write_leases {
            return true;
        }
        if self.full_until.is_some_and(|until| until > now) {
            return false;
        }
        let is_used = |lease: &WriteLease| {
            lease.under_way > 0 || lease.held.is_some_and(|held| held.until > now)
        };
        self.write_leases.retain(|_, lease| is_used(lease));
        self.full_until = Some(now + WRITE_LEASE_RETRY);
        self.write_leases.len() < self.most_write_leases
    }

    /// As if answers were taken in from before changes by this session.
    #[cfg(feature = "planted")]
    fn forget_own_truncations(&mut self) {
        for lease in self.write_leases.values_mut() {
            (lease.least, lease.since) = (0, 0);
        }
    }

    pub(super) fn lose_write_leases(&mut self, server: ServerId) {
        for lease in self.write_leases.values_mut() {
            // It may come back without the last truncations, which were not synced. No answer is taken in
            // to what was asked before.
            lease.least = 0;
            if lease.held.is_some_and(|held| held.server == server) {
                lease.let_go();
            }
        }
    }
}

impl LeaseCache {
    /// Begins a write to data objects of an inode that this client has open.
    pub fn begin_write(&mut self, ino: Ino, now: Boottime) -> Begun {
        if !self.is_on {
            return Begun::Without;
        }
        let events = self.events;
        let state = &mut self.state;
        if !state.write_leases.contains_key(&ino) && !state.has_room_for_write_lease(now) {
            return Begun::Without;
        }
        let cached = state.inodes.get(&ino).map(|inode| Held {
            truncations: inode.reply.truncations,
            until: inode.until,
            server: inode.server,
        });
        // An answer that is on its way may be from before a truncation of this session's that left no
        // trace here.
        let lease = state
            .write_leases
            .entry(ino)
            .or_insert_with(|| WriteLease::new(events));
        if lease.held.is_none_or(|held| held.until <= now) {
            lease.held = cached;
        }
        if let Some(held) = lease.held
            && held.until > now
            && !lease.is_wanted
        {
            lease.under_way += 1;
            return Begun::Held(Hold {
                truncations: held.truncations,
            });
        }
        let in_vain = lease.not_before.is_some_and(|not_before| not_before > now);
        match lease.is_wanted || in_vain {
            true => Begun::Without,
            false => Begun::Ask,
        }
    }

    /// It has ended.
    pub fn end_write(&mut self, ino: Ino, _: Hold) {
        let Some(lease) = self.state.write_leases.get_mut(&ino) else {
            panic!("a write to inode {ino} ends after the file was closed");
        };
        assert!(lease.under_way > 0, "a write ends that did not begin");
        lease.under_way -= 1;
    }

    /// No lease was given, although one was asked for.
    pub fn asked_in_vain(&mut self, ino: Ino, now: Boottime) {
        if let Some(lease) = self.state.write_leases.get_mut(&ino) {
            lease.not_before = Some(now + WRITE_LEASE_RETRY);
        }
    }

    /// The file is written to no more.
    pub fn forget_write_lease(&mut self, ino: Ino) {
        let state = &mut self.state;
        if state
            .write_leases
            .get(&ino)
            .is_some_and(|lease| lease.under_way == 0)
        {
            state.write_leases.remove(&ino);
        }
    }

    /// As if answers were taken in from before changes by this session.
    #[cfg(feature = "planted")]
    pub fn forget_own_truncations(&mut self) {
        self.state.forget_own_truncations();
    }
}
