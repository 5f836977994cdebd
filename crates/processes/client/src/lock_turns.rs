//! Closing of files that may be locked, and the order of one owner's requests about its locks.
//!
//! A program that is killed is gone before its locks are let go, when their server is away, and the
//! next one may be given its owner's number. Requests about one owner's locks of one file are
//! therefore sent in the order in which they came up: a lock of the next program after the
//! unlocking of all that the last one had. Except those that wait for a lock until others unlock:
//! the owner may do so itself.

use crate::Client;
use crate::cancellation;
use crate::core::Core;
use crate::error::{ClientError, Result};
use hashbrown::HashMap;
use pandofs_api::{Request, op};
use pandofs_session::Target;
use pandofs_types::limits::CANCELLATION_INTERVAL;
use pandofs_types::{Credentials, Ino, LockKind, LockRange};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The owner of locks of one file.
type Owner = (Ino, LockKind, u64);

#[derive(Debug, Default)]
pub(crate) struct LockTurns {
    lines: Mutex<Lines>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    last: u64,
    /// Threads that wait for their turns.
    asleep: usize,
    /// The waiters for each owner's turn, by number; the first has it.
    waiting: HashMap<Owner, VecDeque<u64>>,
}

/// A place in an owner's line.
#[derive(Debug)]
#[must_use = "it is given up when it is dropped"]
pub(crate) struct Turn<'a> {
    turns: &'a LockTurns,
    owner: Owner,
    number: u64,
}

impl LockTurns {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place behind those who came before.
    fn line_up(&self, owner: Owner) -> Turn<'_> {
        let mut lines = self.lines();
        lines.last += 1;
        let number = lines.last;
        lines.waiting.entry(owner).or_default().push_back(number);
        Turn {
            turns: self,
            owner,
            number,
        }
    }
}

impl Turn<'_> {
    /// Waits until it is the first.
    ///
    /// # Errors
    /// `Abandoned` when the caller is gone ([`crate::Cancellation`]).
    fn wait(&self) -> Result<()> {
        let since = Instant::now();
        let is_behind = |lines: &mut Lines| {
            let line = lines.waiting.get(&self.owner);
            line.and_then(VecDeque::front) != Some(&self.number)
        };
        if !is_behind(&mut self.turns.lines()) {
            return Ok(());
        }
        cancellation::about_to_wait();
        loop {
            let mut lines = self.turns.lines();
            lines.asleep += 1;
            let (mut lines, waited) = self
                .turns
                .ended
                .wait_timeout_while(lines, CANCELLATION_INTERVAL, is_behind)
                .unwrap_or_else(PoisonError::into_inner);
            lines.asleep -= 1;
            drop(lines);
            if !waited.timed_out() {
                return Ok(());
            }
            if !cancellation::may_wait(since.elapsed()) {
                return Err(ClientError::Abandoned);
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut lines = self.turns.lines();
        let Some(line) = lines.waiting.get_mut(&self.owner) else {
            return;
        };
        line.retain(|&number| number != self.number);
        if line.is_empty() {
            lines.waiting.remove(&self.owner);
        }
        let is_waited_for = lines.asleep > 0;
        drop(lines);
        if is_waited_for {
            self.turns.ended.notify_all();
        }
    }
}

impl Core {
    /// Waits until nothing is asked any more of what came up before about this owner's locks of the
    /// file.
    ///
    /// # Errors
    /// `Abandoned` when the caller is gone.
    pub(crate) fn lock_turn(&self, ino: Ino, kind: LockKind, owner: u64) -> Result<Turn<'_>> {
        let turn = self.lock_turns.line_up((ino, kind, owner));
        turn.wait()?;
        Ok(turn)
    }
}

impl Client {
    /// A process closes a descriptor of the open file. Writes are reported, as by
    /// [`Client::flush`], and its locks of `fcntl()` through any descriptor of the file are
    /// unlocked, also if it is killed meanwhile. Locks of the open file itself may be unlocked
    /// next, and locks meanwhile are kept waiting until that is known.
    ///
    /// # Errors
    /// Those of [`Client::flush`] and of [`Client::unlock`].
    pub fn close_descriptor(&self, ino: Ino, handle: u64, owner: u64) -> Result<()> {
        let core = self.core();
        if !core.locks.is_used() {
            return self.flush_through(ino, handle);
        }
        // Before anything is waited for: what comes next is not to be unlocked by this.
        let turn = (core.lock_turns).line_up((ino, LockKind::Record, owner));
        let flushed = self.flush_through(ino, handle);
        let unlocked = cancellation::suppressed(|| {
            turn.wait()?;
            self.unlock_process(ino, handle, owner)
        });
        flushed.and(unlocked)
    }

    fn unlock_process(&self, ino: Ino, handle: u64, owner: u64) -> Result<()> {
        let core = self.core();
        let result = core.unlock(ino, LockKind::Record, owner, LockRange::WHOLE);
        core.locks.closed_by(ino, owner);
        let owners = core.locks.owners_through(ino, handle);
        if !owners.is_empty() {
            let request = Request::Closing(op::Closing { ino, owners });
            // Its outcome says nothing of whether the lock is kept.
            if let Err(failure) = core.ask(&Credentials::ROOT, Target::Inode(ino), request) {
                tracing::debug!(
                    ?failure,
                    "the server was not told that inode {ino} is being closed"
                );
            }
        }
        self.check_locks(ino, handle).and(result)
    }

    /// An open file is closed by all who had it, which unlocks what was locked in its own name, and
    /// ends what [`Client::open_handle`] began.
    ///
    /// # Errors
    /// Those of [`Client::unlock`].
    pub fn unlock_handle(&self, ino: Ino, handle: u64) -> Result<()> {
        let core = self.core();
        if let Some(file) = core.opens.file(ino) {
            file.close_handle(handle);
        }
        if !core.locks.is_used() {
            return Ok(());
        }
        let mut result = Ok(());
        // Processes have closed it before. Only the open file's own locks are left.
        for (kind, owner) in core.locks.closed(ino, handle) {
            // With its turn: from here on it is not known any more that there is something to
            // unlock.
            let unlocked = cancellation::suppressed(|| {
                let _turn = core.lock_turn(ino, kind, owner)?;
                core.unlock(ino, kind, owner, LockRange::WHOLE)
            });
            result = result.and(unlocked);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancellation::of_killed;
    use std::thread;
    use std::time::Duration;

    const OWNER: Owner = (Ino(5), LockKind::Record, 7);

    #[test]
    fn an_owners_turns_come_in_order() {
        let turns = LockTurns::default();
        let first = turns.line_up(OWNER);
        first.wait().unwrap();
        let second = turns.line_up(OWNER);
        let third = turns.line_up(OWNER);
        turns
            .line_up((OWNER.0, LockKind::Flock, OWNER.2))
            .wait()
            .unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                third.wait().unwrap();
                turns.lines().waiting[&OWNER].len()
            });
            let begun = Instant::now();
            while turns.lines().asleep == 0 {
                assert!(!waits.is_finished(), "it did not wait");
                assert!(begun.elapsed() < Duration::from_secs(60), "no thread waits");
                thread::yield_now();
            }
            drop(first);
            second.wait().unwrap();
            drop(second);
            assert_eq!(waits.join().unwrap(), 1, "it did not wait");
        });
        drop(third);
        assert!(turns.lines().waiting.is_empty());
    }

    #[test]
    fn who_is_killed_leaves_the_line() {
        let turns = LockTurns::default();
        let first = turns.line_up(OWNER);
        let second = turns.line_up(OWNER);
        crate::set_cancellation(Some(of_killed(|| true)));
        assert_eq!(second.wait(), Err(ClientError::Abandoned));
        crate::set_cancellation(None);
        drop(second);
        assert_eq!(turns.lines().waiting[&OWNER].len(), 1);
        drop(first);
    }
}
