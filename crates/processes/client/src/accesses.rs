//! Reads of this client, until they are reported to shards.
//!
//! A read asks for no change. It is remembered here, once for each inode, and reported about once a
//! second, many inodes in one request; the shard sees whether it changes the time of access.
//! Meanwhile this client counts it itself where it is asked for attributes. A read that cannot be
//! reported is lost when the client ends: a time of access is not worth waiting for.

use crate::Client;
use crate::call::Call;
use crate::core::Core;
use hashbrown::HashMap;
use pandofs_api::{Reply, Request, op};
use pandofs_session::Target;
use pandofs_session::touch;
use pandofs_types::limits::MAX_ACCESSES_PER_MESSAGE;
use pandofs_types::{AtimeRule, Attr, Credentials, Ino, ShardId, Time};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Accesses {
    untold: Mutex<HashMap<Ino, (Time, AtimeRule)>>,
    /// Inodes that are remembered at most.
    most: usize,
}

impl Accesses {
    /// Of no more than this many inodes.
    pub(crate) fn within(most: usize) -> Accesses {
        Accesses {
            untold: Mutex::default(),
            most,
        }
    }

    fn untold(&self) -> MutexGuard<'_, HashMap<Ino, (Time, AtimeRule)>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, ino: Ino, at: Time, rule: AtimeRule) {
        let mut untold = self.untold();
        if untold.len() < self.most || untold.contains_key(&ino) {
            untold.insert(ino, (at, rule));
        }
    }

    /// Counts a read that is not reported yet.
    pub(crate) fn correct(&self, attr: &mut Attr) {
        if let Some((at, rule)) = self.untold().get(&attr.ino) {
            touch(attr, *at, *rule);
        }
    }

    fn told(&self, inos: &[(Ino, Time)]) {
        let mut untold = self.untold();
        for (ino, at) in inos {
            // It may have been read again since.
            if untold.get(ino).is_some_and(|(last, _)| last == at) {
                untold.remove(ino);
            }
        }
    }
}

impl Client {
    /// Remembers that this was read at that time; its shard gets it a little later.
    pub fn accessed(&self, ino: Ino, at: Time, rule: AtimeRule) {
        self.core().accesses.note(ino, at, rule);
    }

    /// Counts reads that are not reported yet in attributes that another cache has.
    pub fn count_accesses(&self, attr: &mut Attr) {
        self.core().accesses.correct(attr);
    }
}

impl Core {
    /// Reports reads, as far as servers answer within `patience`.
    pub(crate) fn tell_accesses(&self, patience: Option<Duration>) {
        let untold: Vec<_> = self
            .accesses
            .untold()
            .iter()
            .map(|(k, v)| (*k, *v))
            .collect();
        self.tell_of(untold, patience);
    }

    /// Reports a read of this inode, before a change that a later report would look older than.
    pub(crate) fn tell_access(&self, ino: Ino) {
        let untold = self.accesses.untold().get(&ino).copied();
        if let Some(access) = untold {
            self.tell_of(vec![(ino, access)], None);
        }
    }

    fn tell_of(&self, untold: Vec<(Ino, (Time, AtimeRule))>, patience: Option<Duration>) {
        let mut batches: HashMap<(ShardId, AtimeRule), Vec<(Ino, Time)>> = HashMap::new();
        for (ino, (at, rule)) in untold {
            let shard = self.inodes.shard_of(ino);
            batches.entry((shard, rule)).or_default().push((ino, at));
        }
        for ((shard, rule), inos) in batches {
            for inos in inos.chunks(MAX_ACCESSES_PER_MESSAGE) {
                let request = Request::Accessed(op::Accessed {
                    inos: inos.to_vec(),
                    rule,
                });
                let call = Call::shard(Target::Shard(shard), &Credentials::ROOT, request);
                match self.ask_call(&mut call.within(patience)) {
                    Ok(Reply::Done) => {
                        // First: a question meanwhile sees the time either here or there.
                        self.lease_cache.accessed(inos, rule);
                        self.accesses.told(inos);
                    }
                    Ok(other) => {
                        tracing::error!("a report of reads was answered with {other:?}");
                        self.accesses.told(inos);
                    }
                    Err(error) => {
                        let error = crate::ClientError::from(error);
                        tracing::debug!("reads are reported later: {error}");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_UNTOLD_ACCESSES;
    use pandofs_types::FileKind;

    fn attr() -> Attr {
        Attr {
            ino: Ino(1),
            kind: FileKind::File,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: Time(10),
            mtime: Time(10),
            ctime: Time(10),
            btime: Time(10),
            has_xattrs: false,
        }
    }

    #[test]
    fn what_is_not_told_is_counted() {
        let accesses = Accesses::within(MAX_UNTOLD_ACCESSES);
        accesses.note(Ino(1), Time(20), AtimeRule::Relative);
        let mut attr = attr();
        accesses.correct(&mut attr);
        assert_eq!(attr.atime, Time(20));
        accesses.note(Ino(1), Time(30), AtimeRule::Relative);
        accesses.correct(&mut attr);
        assert_eq!(attr.atime, Time(20), "it was read since it was changed");
        accesses.told(&[(Ino(1), Time(20))]);
        assert_eq!(accesses.untold().len(), 1, "it was read again");
        accesses.told(&[(Ino(1), Time(30))]);
        assert!(accesses.untold().is_empty());
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let accesses = Accesses::within(MAX_UNTOLD_ACCESSES);
        for ino in 0..MAX_UNTOLD_ACCESSES as u64 + 5 {
            accesses.note(Ino(ino), Time(1), AtimeRule::Strict);
        }
        accesses.note(Ino(0), Time(2), AtimeRule::Strict);
        assert_eq!(accesses.untold().len(), MAX_UNTOLD_ACCESSES);
        assert_eq!(accesses.untold()[&Ino(0)].0, Time(2));
    }
}
