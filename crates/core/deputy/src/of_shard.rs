//! Image, queue and grants of one shard.

use crate::deputy::Taken;
use crate::image::Image;
use crate::queue::Queue;
use hashbrown::HashSet;
use pandofs_api::GrantTerms;
use pandofs_session::Boottime;
use pandofs_types::{Ino, ShardId, Term, Time};
use std::collections::VecDeque;

/// Image, queue and terms of one shard.
#[derive(Debug)]
pub(crate) struct OfShard {
    pub image: Image,
    pub queue: Queue,
    pub incarnation: u64,
    /// The grants' end.
    pub until: Boottime,
    /// The server has forgotten the grants, or may have: what is queued goes out, and nothing more is executed.
    pub is_lost: bool,
    /// Directories that are to be let go of once the queue is sent.
    pub recalled: HashSet<Ino>,
    /// Serials from one to before another.
    pub numbers: VecDeque<(u64, u64)>,
    /// Serials for directories whose names are on other shards, in any order.
    pub unordered: VecDeque<u64>,
    pub is_taking_numbers: bool,
    pub terms: GrantTerms,
    /// When they were asked for, and when they came: the server said them in between.
    pub terms_asked: Boottime,
    pub terms_came: Boottime,
    pub last_time: Time,
    pub used: Boottime,
}

impl OfShard {
    pub(crate) fn is_over(&self, now: Boottime) -> bool {
        self.is_lost || self.until <= now
    }

    /// The position up to which the queue is to be sent, if there is anything in it.
    pub(crate) fn left(&self) -> Option<(ShardId, u64)> {
        (!self.queue.is_empty()).then(|| (self.image.shard, self.queue.begun()))
    }

    pub(crate) fn drain(&self) -> Option<Taken> {
        let (shard, until) = self.left()?;
        Some(Taken::Drain { shard, until })
    }

    pub(crate) fn let_go(&mut self, dir: Ino) {
        self.recalled.remove(&dir);
        if self.image.let_go(dir).is_err() {
            // An image cannot fail to decode what it has: it was decoded when it came.
            self.is_lost = true;
        }
    }

    pub(crate) fn hear(&mut self, terms: GrantTerms, asked: Boottime, came: Boottime) {
        self.terms = terms;
        self.terms_asked = asked;
        self.terms_came = came;
    }

    /// The server's clock, as far as is known; never earlier than it was. It is between what it would be if the server had
    /// said it at the end of the wait for its answer and at the beginning: the client's own clock if that is, too.
    pub(crate) fn time(&self, now: Boottime, clock: Time) -> Time {
        let since = |at: Boottime| {
            let passed = now.saturating_duration_since(at);
            let nanos = i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX);
            Time(self.terms.time.0.saturating_add(nanos))
        };
        let (earliest, latest) = (since(self.terms_came), since(self.terms_asked));
        clock.clamp(earliest, latest).max(self.last_time)
    }

    pub(crate) fn use_number(&mut self) {
        if let Some((next, end)) = self.numbers.front_mut() {
            *next += 1;
            if next == end {
                self.numbers.pop_front();
            }
        }
    }
}

/// The end of grants that a server has renewed at a request sent then.
pub(crate) fn believed_until(sent: Boottime) -> Boottime {
    sent + Term::Long.believed_for()
}
