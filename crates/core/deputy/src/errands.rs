//! Errands: requests that a session makes for the sake of its grants, when it makes them, and what their answers mean.
//!
//! Whoever drives it asks for the [next](Errands::next) errand of each server, runs it as any other request, and tells
//! what came of it. A batch waits a little for further operations, but for nothing once somebody waits for it; what is sent by
//! itself does not wait.

use crate::deputy::{Deputy, Recalled};
use crate::limits::{BATCH_DELAY, MAX_LOST_INODES, NUMBERS_PER_BLOCK, SOON_QUEUED};
use crate::queue::{Lost, ToSend};
use hashbrown::HashSet;
use pandofs_api::op::{self, Change};
use pandofs_api::{Refusal, Reply, Request};
use pandofs_session::{Boottime, Target};
use pandofs_types::limits::MAX_UNORDERED_NUMBERS;
use pandofs_types::{Credentials, FsError, Ino, LeaseKey, ShardId};
use std::collections::BTreeMap;

/// The deputy, and what is to be asked of servers for it.
#[derive(Debug)]
pub struct Errands {
    /// Decides on programs' requests.
    pub deputy: Deputy,
    /// Those who wait for the end of something that is queued.
    waiting: usize,
    /// When the next batch of a shard goes out at the latest.
    due: BTreeMap<ShardId, Boottime>,
    /// Inodes and directories of which something was answered and has not come about, to be told once.
    lost: HashSet<Ino>,
}

/// A request to make.
#[derive(Debug, PartialEq, Eq)]
pub struct Errand {
    /// For [`Errands::ended`].
    pub about: About,
    /// Its shard.
    pub target: Target,
    /// Whose rights count.
    pub caller: Credentials,
    /// For the target.
    pub request: Request,
}

/// Purpose of an errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// A directory is to be granted.
    Grant(Ino),
    /// Grants of a shard are to begin without a directory.
    Beginning(ShardId),
    /// Inode numbers are to be taken.
    Numbers(ShardId),
    /// An operation is to be executed that concerns another shard, too.
    Alone(ShardId),
    /// Operations are to be executed.
    Batch(ShardId),
    /// The grants are to go on. It is not tried for long: it comes again.
    Renewal(ShardId, u64),
}

/// The next errand.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// It is time.
    Now(Errand),
    /// There is one then, or earlier if something happens.
    At(Boottime),
    /// Not before something happens.
    Nothing,
}

/// Consequences of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Answered early and not done: each file and directory that one is about is to say so, for example by [`Errands::lose`].
    pub lost: Vec<Lost>,
    /// A shard that has forgotten the grants and with them what was opened under them, to be told of these files.
    pub forgot: Option<ShardId>,
}

impl Errands {
    /// Without anything to do.
    pub fn new(deputy: Deputy) -> Errands {
        Errands {
            deputy,
            waiting: 0,
            due: BTreeMap::new(),
            lost: HashSet::new(),
        }
    }

    /// Somebody begins to wait for the end of something that is queued.
    pub fn waits(&mut self) {
        self.waiting += 1;
    }

    /// And waits no longer.
    ///
    /// # Panics
    /// When nobody did.
    pub fn has_waited(&mut self) {
        assert!(self.waiting > 0, "nobody waits");
        self.waiting -= 1;
    }

    /// The next errand at one of these shards.
    pub fn next(&mut self, now: Boottime, is_here: impl Fn(ShardId) -> bool) -> Next {
        let mut next: Option<Boottime> = None;
        for shard in self.deputy.to_send() {
            if !is_here(shard) {
                continue;
            }
            let due = *self.due.entry(shard).or_insert(now + BATCH_DELAY);
            let is_wanted = self.waiting > 0
                || self.deputy.queued(shard) >= SOON_QUEUED
                || self.deputy.is_alone(shard)
                || self.deputy.is_recalled(shard);
            if !is_wanted && now < due {
                next = Some(next.map_or(due, |next| next.min(due)));
                continue;
            }
            // The next operations would wait for them.
            if self.deputy.wants_numbers(shard) {
                return Next::Now(numbers_of(shard, false));
            }
            self.due.remove(&shard);
            if let Some(to_send) = self.deputy.next_to_send(shard) {
                let (about, caller, request) = match to_send {
                    ToSend::Batch(batch) => {
                        let request = Request::Batch(batch);
                        (About::Batch(shard), Credentials::ROOT, request)
                    }
                    ToSend::Alone { caller, request } => (About::Alone(shard), caller, request),
                };
                return Next::Now(Errand {
                    about,
                    target: Target::Shard(shard),
                    caller,
                    request,
                });
            }
        }
        next.map_or(Next::Nothing, Next::At)
    }

    /// A shard of which something has just come to be queued that [`Errands::next`] has to know of at once; told once.
    pub fn take_news(&mut self) -> Option<ShardId> {
        self.deputy.news.take()
    }

    /// Asks for a grant that the deputy wants.
    pub fn grant(&self, dir: Ino) -> Errand {
        Errand {
            about: About::Grant(dir),
            target: Target::Inode(dir),
            caller: Credentials::ROOT,
            request: Request::Grant(op::Grant { dir }),
        }
    }

    /// Asks for grants of a shard that the deputy wants to begin.
    pub fn beginning(&self, shard: ShardId) -> Errand {
        Errand {
            about: About::Beginning(shard),
            target: Target::Shard(shard),
            caller: Credentials::ROOT,
            request: Request::BeginGrants(op::BeginGrants),
        }
    }

    /// Asks for inode numbers that the deputy has none of; `None` if they are asked for, or are there.
    pub fn numbers(&mut self, shard: ShardId, unordered: bool) -> Option<Errand> {
        let lacks = self.deputy.lacks_numbers(shard, unordered);
        lacks.then(|| numbers_of(shard, unordered))
    }

    /// Asks for what is to go on of grants, and drops what is over. To be called every second.
    pub fn renewals(&mut self, now: Boottime, needed: impl Fn(ShardId) -> bool) -> Vec<Errand> {
        self.deputy.tick(now);
        let due = self.deputy.to_renew(now, needed).into_iter();
        due.map(|(shard, incarnation)| Errand {
            about: About::Renewal(shard, incarnation),
            target: Target::Shard(shard),
            caller: Credentials::ROOT,
            request: Request::Renew(op::Renew { incarnation }),
        })
        .collect()
    }

    /// An errand that was begun then has ended with this answer; `None`: nobody knows with which.
    pub fn ended(
        &mut self,
        about: About,
        sent: Boottime,
        answer: Option<Result<Reply, FsError>>,
        now: Boottime,
    ) -> Ended {
        let mut ended = Ended::default();
        match about {
            About::Grant(dir) => {
                let granted = match answer {
                    Some(Ok(Reply::Granted(granted))) => granted.map(|granted| *granted),
                    _ => None,
                };
                self.deputy.granted(dir, sent, granted, now);
            }
            About::Beginning(shard) => {
                let begun = match answer {
                    Some(Ok(Reply::Granted(begun))) => begun.map(|begun| *begun),
                    _ => None,
                };
                self.deputy.begun(shard, sent, begun, now);
            }
            About::Numbers(shard) => {
                let taken = match answer {
                    Some(Ok(Reply::Numbers {
                        first,
                        count,
                        unordered,
                    })) => Some((first, count, unordered)),
                    _ => None,
                };
                self.deputy.took_numbers(shard, taken);
            }
            About::Batch(shard) => {
                let reply = match answer {
                    Some(Ok(Reply::Batch(reply))) => Some(*reply),
                    _ => None,
                };
                ended.lost = self.deputy.batch_answered(shard, sent, reply, now);
            }
            About::Alone(shard) => {
                let answer = answer.map(|answer| answer.map(drop).map_err(Refusal::Fs));
                ended.lost = self.deputy.alone_answered(shard, answer);
            }
            About::Renewal(shard, incarnation) => match answer {
                Some(Ok(_)) => self.deputy.renewed(shard, incarnation, sent, true),
                Some(Err(FsError::Stale)) => {
                    self.deputy.renewed(shard, incarnation, sent, false);
                    ended.forgot = Some(shard);
                }
                // It is tried again, until they are over.
                _ => {}
            },
        }
        ended
    }

    /// Directories are recalled. Their queue goes out first: `None`, and it is to be asked again. Unless it
    /// `waits` nothing more is executed meanwhile under any grant of their shards, and none is renewed. Returns the keys of
    /// what is cached of them.
    ///
    /// A recall is never answered while something is queued: its batch may be with the server, where other grants of the
    /// session are in force, and would be executed over what others do in the directory by then. If the queue comes to no
    /// end the grants do, as their time is up, and the batch is refused.
    pub fn recall(&mut self, dirs: &[Ino], waits: bool, now: Boottime) -> Option<Vec<LeaseKey>> {
        let of = |dir: &Ino| self.deputy.keys_of(*dir);
        let cached = dirs.iter().flat_map(of).collect();
        let mut is_over = true;
        for dir in dirs {
            is_over &= self.deputy.recall(*dir, now) == Recalled::Over;
        }
        if !is_over && !waits {
            for dir in dirs {
                self.deputy.give_up(*dir);
            }
        }
        is_over.then_some(cached)
    }

    /// Files and directories that a lost operation was about are to say so, once each: see [`Errands::take_loss`].
    pub fn lose(&mut self, inos: impl IntoIterator<Item = Ino>) {
        for ino in inos {
            if self.lost.len() < MAX_LOST_INODES {
                self.lost.insert(ino);
            }
        }
    }

    /// Takes the loss of something that was answered, to be told once.
    pub fn take_loss(&mut self, ino: Ino) -> bool {
        self.lost.remove(&ino)
    }
}

impl Lost {
    /// Files and directories that it is about.
    pub fn inos(&self) -> Vec<Ino> {
        let changes = self.request.operation().changes().into_iter();
        let inos = changes.map(|change| match change {
            Change::Name(ino, _) | Change::Inode(ino) | Change::Dir(ino) => ino,
        });
        inos.collect()
    }
}

fn numbers_of(shard: ShardId, unordered: bool) -> Errand {
    let (count, unordered) = match unordered {
        true => (0, MAX_UNORDERED_NUMBERS),
        false => (NUMBERS_PER_BLOCK, 0),
    };
    Errand {
        about: About::Numbers(shard),
        target: Target::Shard(shard),
        caller: Credentials::ROOT,
        request: Request::TakeNumbers(op::TakeNumbers { count, unordered }),
    }
}
