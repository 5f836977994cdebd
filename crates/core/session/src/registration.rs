//! Registration of what a session has open and locked with one server.
//!
//! A server keeps both in memory. A process of it that does not know them has to hear them before anything else:
//! first what is open, on each of its shards, then the locks. The driver sends one request after the other and hands
//! the answers in.

use pandofs_api::{Refusal, Reply, Request, op};
use pandofs_types::limits::{MAX_LOCKS_PER_MESSAGE, MAX_RELEASES_PER_MESSAGE};
use pandofs_types::{FileLock, Ino, ShardId};
use std::collections::VecDeque;

/// Knowledge that a server has of the session; `K` tells its processes apart, and their acquaintances with the session.
#[derive(Debug)]
pub struct Registration<K> {
    /// All is registered with the process that gave this.
    with: Option<K>,
    /// It was registered with an earlier one, or that was begun.
    before: bool,
    telling: Option<Telling<K>>,
}

#[derive(Debug)]
struct Telling<K> {
    to: K,
    left: VecDeque<(ShardId, Request)>,
    /// To hear of locks, after the rest.
    shards: Vec<ShardId>,
    /// The last request sent, and not answered yet.
    told: Option<(ShardId, Kind)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Opens,
    Locks,
}

/// The server has not taken the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotTaken;

impl<K> Default for Registration<K> {
    fn default() -> Registration<K> {
        Registration {
            with: None,
            before: false,
            telling: None,
        }
    }
}

impl<K: Copy + PartialEq> Registration<K> {
    /// Returns whether all is registered with this process.
    pub fn is_with(&self, process: K) -> bool {
        self.with == Some(process)
    }

    /// The process that is being told.
    pub fn under_way(&self) -> Option<K> {
        self.telling.as_ref().map(|telling| telling.to)
    }

    /// There is a process that knows of nothing. Returns whether another one did: what was open may be
    /// gone. The opens are counted ([`Closes::register`](crate::Closes::register)) after this.
    pub fn lapses(&mut self) -> bool {
        self.with = None;
        self.telling = None;
        std::mem::replace(&mut self.before, true)
    }

    /// That process is to hear of these opens, and, on these shards, of locks.
    pub fn begin(
        &mut self,
        process: K,
        opens: &[(ShardId, Vec<(Ino, u32)>)],
        shards: Vec<ShardId>,
    ) {
        let mut left = VecDeque::new();
        for (shard, opens) in opens {
            for opens in opens.chunks(MAX_RELEASES_PER_MESSAGE) {
                let opens = opens.to_vec();
                left.push_back((*shard, Request::Reopen(op::Reopen { opens })));
            }
        }
        self.telling = Some(Telling {
            to: process,
            left,
            shards,
            told: None,
        });
    }

    /// The next to tell, and the shard; `None` when all is registered. `locks` is asked for the session's locks when
    /// opens have been told, and not before: one that is given up meanwhile is not to be told. With `None` there never
    /// was one.
    pub fn next(
        &mut self,
        locks: impl FnOnce() -> Option<Vec<(Ino, FileLock)>>,
    ) -> Option<(ShardId, Request)> {
        let telling = self.telling.as_mut()?;
        if telling.left.is_empty() {
            let shards = std::mem::take(&mut telling.shards);
            if !shards.is_empty()
                && let Some(locks) = locks()
            {
                for shard in shards {
                    telling.left.extend(relock(shard, &locks));
                }
            }
        }
        match telling.left.pop_front() {
            Some((shard, request)) => {
                telling.told = Some((shard, kind(&request)));
                Some((shard, request))
            }
            None => {
                self.with = Some(telling.to);
                self.telling = None;
                None
            }
        }
    }

    /// The answer to the last request. Returns the locks that the server has given to others.
    ///
    /// # Errors
    /// It did not take it. A refusal is rare (the shard may be starting): the whole registration begins anew.
    pub fn answered(
        &mut self,
        answer: &Result<Reply, Refusal>,
    ) -> Result<Vec<(Ino, FileLock)>, NotTaken> {
        let Some(telling) = &mut self.telling else {
            return Ok(Vec::new());
        };
        let told = telling.told.take();
        match (told, answer) {
            (Some((_, Kind::Locks)), Ok(Reply::LostLocks(lost))) => Ok(lost.clone()),
            (Some((_, Kind::Opens)), Ok(_)) => Ok(Vec::new()),
            // The call that finds the new server of a shard that is not led there (any more) tells that.
            (Some((of, kind_told)), Err(Refusal::WrongServer { .. })) => {
                let is_same = |(shard, request): &(ShardId, Request)| {
                    *shard == of && kind(request) == kind_told
                };
                telling.left.retain(|told| !is_same(told));
                Ok(Vec::new())
            }
            _ => {
                self.given_up();
                Err(NotTaken)
            }
        }
    }

    /// The last request is not answered: the whole registration begins anew.
    pub fn given_up(&mut self) {
        self.telling = None;
    }
}

fn kind(request: &Request) -> Kind {
    match request {
        Request::Relock(_) => Kind::Locks,
        _ => Kind::Opens,
    }
}

/// Messages that tell one shard of these locks: all of them, as an inode may have moved there without this client having
/// heard of it.
fn relock(shard: ShardId, locks: &[(Ino, FileLock)]) -> Vec<(ShardId, Request)> {
    let mut rest = locks;
    let mut messages = Vec::new();
    loop {
        let (now, later) = rest.split_at(rest.len().min(MAX_LOCKS_PER_MESSAGE));
        rest = later;
        let (locks, last) = (now.to_vec(), rest.is_empty());
        messages.push((shard, Request::Relock(op::Relock { locks, last })));
        if last {
            return messages;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::{Epoch, LockKind, LockMode, LockRange};

    const FILE: Ino = Ino(5);

    fn lock(owner: u64) -> (Ino, FileLock) {
        let lock = FileLock {
            kind: LockKind::Record,
            owner,
            pid: 1,
            mode: LockMode::Exclusive,
            range: LockRange::WHOLE,
        };
        (FILE, lock)
    }

    fn reopen(shard: u16, opens: &[(Ino, u32)]) -> (ShardId, Request) {
        let opens = opens.to_vec();
        (ShardId(shard), Request::Reopen(op::Reopen { opens }))
    }

    fn relocks(shard: u16, locks: &[(Ino, FileLock)], last: bool) -> (ShardId, Request) {
        let locks = locks.to_vec();
        (ShardId(shard), Request::Relock(op::Relock { locks, last }))
    }

    fn begun(process: u64) -> Registration<u64> {
        let mut registration = Registration::default();
        assert!(!registration.is_with(process) && !registration.lapses());
        let opens = [1, 2].map(|shard| (ShardId(shard), vec![(FILE, 2)]));
        registration.begin(process, &opens, vec![ShardId(1), ShardId(2)]);
        registration
    }

    /// Tells what is left and answers it so; what was told.
    fn tell(
        registration: &mut Registration<u64>,
        locks: Option<&[(Ino, FileLock)]>,
        answer: impl Fn(&(ShardId, Request)) -> Result<Reply, Refusal>,
    ) -> Result<Vec<(ShardId, Request)>, NotTaken> {
        let mut all = Vec::new();
        while let Some(told) = registration.next(|| locks.map(<[_]>::to_vec)) {
            registration.answered(&answer(&told))?;
            all.push(told);
        }
        Ok(all)
    }

    fn takes((_, request): &(ShardId, Request)) -> Result<Reply, Refusal> {
        Ok(match request {
            Request::Relock(_) => Reply::LostLocks(Vec::new()),
            _ => Reply::Done,
        })
    }

    #[test]
    fn a_process_is_told_of_opens_and_then_of_locks() {
        let mut registration = begun(7);
        assert_eq!(registration.under_way(), Some(7));
        let told = tell(&mut registration, Some(&[lock(1)]), takes);
        let opens = [(FILE, 2)];
        let expected = [
            reopen(1, &opens),
            reopen(2, &opens),
            relocks(1, &[lock(1)], true),
            relocks(2, &[lock(1)], true),
        ];
        assert_eq!(told.as_deref(), Ok(&expected[..]));
        assert!(registration.is_with(7) && registration.under_way().is_none());
        assert!(!registration.is_with(8));
        assert!(registration.lapses() && !registration.is_with(7));
    }

    #[test]
    fn who_never_locked_says_nothing_of_locks() {
        let mut registration = begun(7);
        let told = tell(&mut registration, None, takes).unwrap();
        assert_eq!(told.len(), 2);
        assert!(registration.is_with(7));
        let mut nothing = Registration::default();
        nothing.begin(1, &[], Vec::new());
        assert_eq!(nothing.next(|| None), None);
        assert!(nothing.is_with(1));
    }

    #[test]
    fn many_locks_are_told_in_parts_and_the_last_says_so() {
        let locks: Vec<_> = (0..=MAX_LOCKS_PER_MESSAGE as u64).map(lock).collect();
        let mut registration = Registration::default();
        registration.begin(7, &[], vec![ShardId(1)]);
        let told = tell(&mut registration, Some(&locks), takes);
        let (first, rest) = locks.split_at(MAX_LOCKS_PER_MESSAGE);
        let expected = [relocks(1, first, false), relocks(1, rest, true)];
        assert_eq!(told.as_deref(), Ok(&expected[..]));
    }

    #[test]
    fn a_shard_that_is_led_elsewhere_is_passed_over() {
        let locks: Vec<_> = (0..=MAX_LOCKS_PER_MESSAGE as u64).map(lock).collect();
        let mut registration = begun(7);
        let told = tell(&mut registration, Some(&locks), |told| match told.0 {
            ShardId(1) => Err(Refusal::WrongServer { epoch: Epoch(4) }),
            _ => takes(told),
        });
        let told: Vec<(u16, Kind)> = told
            .unwrap()
            .iter()
            .map(|(shard, request)| (shard.0, kind(request)))
            .collect();
        let (opens, locks) = (Kind::Opens, Kind::Locks);
        assert_eq!(
            told,
            [(1, opens), (2, opens), (1, locks), (2, locks), (2, locks)]
        );
        assert!(registration.is_with(7));
    }

    #[test]
    fn what_is_refused_begins_anew() {
        let mut registration = begun(7);
        let told = tell(&mut registration, None, |_| Err(Refusal::TryAgain));
        assert_eq!(told, Err(NotTaken));
        assert!(!registration.is_with(7) && registration.under_way().is_none());
        assert!(registration.lapses(), "it may know of some");
        registration.begin(7, &[], vec![ShardId(1)]);
        let odd = tell(&mut registration, Some(&[]), |_| Ok(Reply::Done));
        assert_eq!(odd, Err(NotTaken), "that is no answer about locks");
    }

    #[test]
    fn lost_locks_are_told_of() {
        let mut registration = Registration::default();
        registration.begin(7, &[], vec![ShardId(1)]);
        registration.next(|| Some(vec![lock(1)]));
        let lost = registration.answered(&Ok(Reply::LostLocks(vec![lock(1)])));
        assert_eq!(lost, Ok(vec![lock(1)]));
        assert_eq!(registration.next(|| None), None);
    }
}
