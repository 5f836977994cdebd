//! Call: one request on its way to its answer for good.
//!
//! Its driver sends the request, tells [`Call::on`] how that went, and does what the step says.

use crate::router::{KnownPlaces, Reaction, Router, Target, leaves_doubt};
use pandofs_api::{Layout, PathReply, Refusal, ShardRequest};
use pandofs_placement::DirMap;
use pandofs_types::limits::{
    MAX_RECONNECT_PAUSE, MAX_REDIRECTS, MAX_RETRY_PAUSE, MIN_RECONNECT_PAUSE, MIN_RETRY_PAUSE,
};
use pandofs_types::{Epoch, FsError, Ino, ShardId};
use std::time::Duration;

/// Redirections after which a pause is made before the next: whatever is being moved takes a
/// moment.
const REDIRECTS_AT_ONCE: usize = 4;

/// A request on its way.
#[derive(Debug)]
pub struct Call {
    /// Where it goes; changed by redirections.
    pub target: Target,
    /// Go on asking when the answer is "not yet".
    pub waits: bool,
    /// Doing it changes something.
    is_mutation: bool,
    /// Sent, and whether it was executed is not known. It is then repeated to the same shard,
    /// whatever is learnt meanwhile: the shard remembers its answer and another one does not. (The
    /// answer of a creation is lost, the partition splits, the client learns of it and asks the new
    /// shard: the name is taken.)
    in_doubt: bool,
    /// It was sent more than once because an answer was lost.
    is_resent: bool,
    /// Connections that were lost with it.
    lost: u32,
    /// Redirections that taught nothing, and those to another shard for one inode.
    redirects: usize,
    /// Since when its server has not answered.
    away_since: Option<Duration>,
    /// Since when the answer is "try again".
    busy_since: Option<Duration>,
    away_pause: Pause,
    busy_pause: Pause,
}

/// The outcome of an attempt, or of what a step asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was not sent.
    Unreachable,
    /// The connection was lost; `sent`: the server may have got the request.
    Lost {
        /// False if no byte of it was written.
        sent: bool,
    },
    /// A shard refused it.
    Refused(Refusal),
    /// After [`Step::AskHome`]: the directory's map, `None` if it is no directory.
    Home {
        /// The directory that was asked for.
        dir: Ino,
        /// The home's answer; an error if the home could not be asked or refused.
        map: Result<Option<DirMap>, FsError>,
    },
    /// After [`Step::FindMap`]: whether there is a newer map now than the request went by.
    MapLookedFor {
        /// Whether a map with a higher epoch is known now.
        is_newer: bool,
    },
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send it again after this pause.
    Again {
        /// Zero right after a connection was lost for the first time.
        after: Duration,
    },
    /// The same, unless the caller does not want to wait any longer.
    Wait(Wait),
    /// Ask the directory's home for its map, and go on with [`Event::Home`].
    AskHome(Ino),
    /// Look for a newer cluster map than that of this epoch, by which the request went; `asks_server`: the server that
    /// answered has one. Then go on with [`Event::MapLookedFor`].
    FindMap {
        /// Epoch that the request named.
        used: Epoch,
        /// False if the server did not answer, so that the map has to come from elsewhere.
        asks_server: bool,
    },
    /// Over without an answer.
    Ended(End),
}

/// A pause in which something is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Zero or more, drawn around a mean that doubles.
    pub after: Duration,
    /// For how long it was waited before.
    pub waited: Duration,
    /// The server may have got another address, or its shards another server: the cluster map is read again.
    pub rereads_map: bool,
}

/// The end of a call, but for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The operation failed; the program is told.
    Fs(FsError),
    /// As [`Refusal::NotInline`].
    NotInline {
        /// Where the data is to go, or is.
        layout: Layout,
        /// As in [`Refusal::NotInline`].
        striped: bool,
    },
    /// The shard has nothing of the directory.
    NoPart,
    /// The shard does not decide a request by path; what it knows of the path.
    ByPath(PathReply),
    /// The caller does not want to wait until the shard gives locks again.
    NotYet,
    /// The server has not answered for long enough; `in_doubt`: it may have happened.
    Away {
        /// Then the program is not told that it failed, but that this is not known.
        in_doubt: bool,
    },
    /// The shard only says to try again, and has for long enough.
    Busy,
    /// Shards sent the request to one another [`MAX_REDIRECTS`] times.
    SentAround,
    /// Client and servers do not understand one another.
    Broken(String),
}

/// Circumstances of an event. Moments are told from any one before the call.
pub struct Circumstances<'d> {
    /// When the attempt ended.
    pub now: Duration,
    /// When the attempt began that came to this.
    pub began: Duration,
    /// For how long a server may not answer; `None` is for ever.
    pub patience: Option<Duration>,
    /// Nothing is waited for any more.
    pub is_closed: bool,
    /// A random number, no larger than this.
    pub draw: &'d mut dyn FnMut(u64) -> u64,
}

impl Circumstances<'_> {
    fn is_enough(&self, since: Duration) -> bool {
        let is_over = |patience| self.now.saturating_sub(since) >= patience;
        self.is_closed || self.patience.is_some_and(is_over)
    }
}

impl Call {
    /// Nothing was sent yet; it waits for locks unless `waits` is taken back.
    pub fn new(target: Target, is_mutation: bool) -> Call {
        Call {
            target,
            waits: true,
            is_mutation,
            in_doubt: false,
            is_resent: false,
            lost: 0,
            redirects: 0,
            away_since: None,
            busy_since: None,
            away_pause: Pause::between(MIN_RECONNECT_PAUSE, MAX_RECONNECT_PAUSE),
            busy_pause: Pause::between(MIN_RETRY_PAUSE, MAX_RETRY_PAUSE),
        }
    }

    /// Returns whether it was sent and may have been executed.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// As if it had not been sent.
    #[cfg(feature = "planted")]
    pub fn forget_doubt(&mut self) {
        self.in_doubt = false;
    }

    /// Returns whether it was sent more than once because an answer was lost.
    pub fn is_resent(&self) -> bool {
        self.is_resent
    }

    /// Fills in the shard that is asked now, as far as is known, and where the request's second inode or name is.
    /// Returns the shard.
    pub fn aim<P: KnownPlaces>(&self, router: &Router<'_, P>, asked: &mut ShardRequest) -> ShardId {
        if !self.in_doubt {
            if let Some(shard) = router.shard_of(self.target) {
                asked.shard = shard;
            }
            router.aim_within(&mut asked.request);
        }
        asked.shard
    }

    /// Its server has answered.
    pub fn answered(&mut self) {
        self.away_since = None;
        self.away_pause.reset();
    }

    /// Takes what has come of it. `asked` is the request, if it is one to a shard, as it was sent.
    pub fn on<P: KnownPlaces>(
        &mut self,
        event: Event,
        router: &Router<'_, P>,
        asked: Option<&ShardRequest>,
        at: &mut Circumstances<'_>,
    ) -> Step {
        match event {
            Event::Unreachable => self.wait_for_server(at),
            Event::Lost { sent } => {
                if sent {
                    self.is_resent = true;
                    self.in_doubt |= self.is_mutation;
                }
                self.lost += 1;
                if self.lost == 1 {
                    // A server that stands still takes a request and never answers: the time that this
                    // took counts.
                    self.away_since.get_or_insert(at.began);
                    // As a rule it was an old connection, lost unnoticed.
                    return Step::AT_ONCE;
                }
                self.wait_for_server(at)
            }
            Event::Refused(refusal) => {
                self.answered();
                self.in_doubt &= leaves_doubt(&refusal);
                let reaction = router.refused(self.target, asked, refusal);
                self.refused(reaction, router, asked, at)
            }
            Event::Home { dir, map } => match map {
                Ok(Some(map)) => {
                    router.places.correct(dir, &map);
                    match asked.is_some_and(|asked| router.knows_better(self.target, asked)) {
                        true => Step::AT_ONCE,
                        false => self.redirected(at),
                    }
                }
                Ok(None) => Step::failed(FsError::NotDir),
                Err(FsError::Stale) => Step::failed(FsError::NotFound),
                Err(error) => Step::failed(error),
            },
            Event::MapLookedFor { is_newer: true } => Step::AT_ONCE,
            // Ours may be the newer one: the server will read it, too.
            Event::MapLookedFor { is_newer: false } => match self.redirected(at) {
                Step::Again { .. } => Step::Again {
                    after: self.away_pause.next(at),
                },
                step => step,
            },
        }
    }

    fn refused<P: KnownPlaces>(
        &mut self,
        reaction: Reaction,
        router: &Router<'_, P>,
        asked: Option<&ShardRequest>,
        at: &mut Circumstances<'_>,
    ) -> Step {
        match reaction {
            Reaction::Fail(error) => Step::failed(error),
            Reaction::NotInline { layout, striped } => {
                Step::Ended(End::NotInline { layout, striped })
            }
            Reaction::NoPart => Step::Ended(End::NoPart),
            Reaction::ByPath(known) => Step::Ended(End::ByPath(known)),
            Reaction::Again => Step::AT_ONCE,
            Reaction::AskHome(dir) => Step::AskHome(dir),
            Reaction::Moved { ino, shard } => {
                router.places.moved(ino, shard);
                self.redirected(at)
            }
            Reaction::WrongServer(theirs) => {
                let used = asked.map_or(Epoch(0), |asked| asked.epoch);
                Step::FindMap {
                    used,
                    asks_server: theirs > used,
                }
            }
            Reaction::TryAgain => {
                let since = *self.busy_since.get_or_insert(at.now);
                match at.is_enough(since) {
                    true => Step::Ended(End::Busy),
                    false => Step::Wait(self.busy(since, at)),
                }
            }
            Reaction::NotYet if at.is_closed => Step::failed(FsError::Interrupted),
            Reaction::NotYet if !self.waits => Step::Ended(End::NotYet),
            Reaction::NotYet => {
                let since = *self.busy_since.get_or_insert(at.now);
                Step::Wait(self.busy(since, at))
            }
            Reaction::Broken(why) => Step::Ended(End::Broken(why)),
        }
    }

    fn busy(&mut self, since: Duration, at: &mut Circumstances<'_>) -> Wait {
        Wait {
            after: self.busy_pause.next(at),
            waited: at.now.saturating_sub(since),
            rereads_map: false,
        }
    }

    /// Sent elsewhere, without having learnt what would make an end of it.
    fn redirected(&mut self, at: &mut Circumstances<'_>) -> Step {
        self.redirects += 1;
        if self.redirects > MAX_REDIRECTS {
            return Step::Ended(End::SentAround);
        }
        match self.redirects <= REDIRECTS_AT_ONCE {
            true => Step::AT_ONCE,
            false => Step::Again {
                after: self.busy_pause.next(at),
            },
        }
    }

    fn wait_for_server(&mut self, at: &mut Circumstances<'_>) -> Step {
        let since = *self.away_since.get_or_insert(at.began);
        if at.is_enough(since) {
            let in_doubt = self.in_doubt;
            return Step::Ended(End::Away { in_doubt });
        }
        let after = self.away_pause.next(at);
        Step::Wait(Wait {
            after,
            waited: at.now.saturating_sub(since),
            rereads_map: after >= MAX_RECONNECT_PAUSE / 2,
        })
    }
}

impl Step {
    const AT_ONCE: Step = Step::Again {
        after: Duration::ZERO,
    };

    fn failed(error: FsError) -> Step {
        Step::Ended(End::Fs(error))
    }
}

/// Pauses that double, each cut at random to between half and the whole, so that clients that were
/// turned away together do not come back together.
#[derive(Debug)]
struct Pause {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pause {
    fn between(first: Duration, longest: Duration) -> Pause {
        Pause {
            first,
            longest,
            next: first,
        }
    }

    fn next(&mut self, at: &mut Circumstances<'_>) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.longest);
        let half = whole / 2;
        // Pauses are far below what is a number of nanoseconds.
        half + Duration::from_nanos((at.draw)(half.as_nanos() as u64))
    }

    fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests;
