//! Attributes of directories that are being changed.
//!
//! Whenever something is made or removed in a directory, the kernel forgets all of the directory's
//! attributes, its permissions too, and asks for them before it lets anyone make or remove the next
//! thing (Linux 6.18, `fuse_dir_changed` and `fuse_permission`, which checks permissions because of
//! `default_permissions`). For PandoFS that is the dearest question of all: the answer is gathered
//! from every shard that carries a part of the directory. So a thousand creations would ask a
//! thousand times what each of them answered already.
//!
//! Here a directory's attributes in the last answer of servers are remembered, and what this mount
//! did to the directory since, and from the two the question is answered, for as long as the kernel
//! might have cached the servers' answer itself (`attr_timeout`, or the rest of a lease, which ends
//! when another mount changes the directory): what other mounts do is seen no later than without,
//! and what this one does at once.
//!
//! Two things are only nearly right, and for that long only:
//!
//! - The times after a removal are this machine's, as the answer to a removal tells none.
//! - When servers are asked while the directory is being changed, their answer may have that change
//!   in it or not: then the number of entries may be off by as many changes as were under way. Such
//!   attributes are only given out while the changing goes on; once nothing has happened for
//!   [`QUIET`], servers are asked again. The number of links, which counts subdirectories, is never
//!   too low: programs stop looking for directories when they have seen that many (find, fts).
//!
//! After a renaming servers are asked, as its answer does not say whether a name was replaced.

use crate::convert;
use pandofs_types::{Attr, FileKind, Ino, Time};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Locks over which directories are spread.
const STRIPES: usize = 16;
/// The time after its last change in which a directory is taken for still being changed.
const QUIET: Duration = Duration::from_millis(20);

/// The effect of one change on a directory's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has one more, since the time its server says.
    Added { directory: bool, at: Time },
    /// It has one less.
    Removed { directory: bool },
    /// It has what it had.
    Nothing,
    /// Whatever: ask.
    Unclear,
}

/// The moment of a question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// In numbers of changes.
    changes: u64,
    /// In numbers of questions.
    order: u64,
}

#[derive(Debug)]
pub(crate) struct DirAttrs {
    /// Directories that are remembered at the same lock.
    most: usize,
    /// Questions that were asked.
    questions: AtomicU64,
    /// Changes that ended, of any directory.
    changes: AtomicU64,
    stripes: [Mutex<Stripe>; STRIPES],
}

#[derive(Debug, Default)]
struct Stripe {
    /// The number of the last change that ended.
    last: u64,
    /// Of these, the last that made or removed a directory.
    last_directory: u64,
    /// Changes that have not ended.
    under_way: usize,
    known: HashMap<Ino, Known>,
}

#[derive(Debug)]
struct Known {
    attr: Attr,
    /// Answers to an earlier question are older.
    order: u64,
    until: Instant,
    changed: Instant,
    /// No change was under way while servers were asked.
    exact: bool,
}

/// A change of a directory that is under way; ends when dropped.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    attrs: &'a DirAttrs,
    dir: Ino,
    outcome: Outcome,
}

impl DirAttrs {
    /// Of no more than this many directories.
    pub(crate) fn within(most: usize) -> DirAttrs {
        DirAttrs {
            most: most / STRIPES,
            questions: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            stripes: Default::default(),
        }
    }

    fn stripe(&self, dir: Ino) -> MutexGuard<'_, Stripe> {
        let index = dir.serial().wrapping_add(u64::from(dir.birth_shard().0)) as usize % STRIPES;
        // Nothing panics halfway through a change of a stripe.
        self.stripes[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called before servers are asked for attributes that are to be [learnt](Self::learn).
    pub(crate) fn ask(&self) -> Asked {
        Asked {
            order: self.questions.fetch_add(1, Ordering::SeqCst),
            changes: self.changes.load(Ordering::SeqCst),
        }
    }

    /// Servers answered with these attributes, which may be used for so long. Returns how long they
    /// may be cached. Only directories are remembered.
    pub(crate) fn learn(&self, attr: &Attr, asked: Asked, timeout: Duration) -> Duration {
        self.learn_at(attr, asked, timeout, Instant::now())
    }

    fn learn_at(&self, attr: &Attr, asked: Asked, timeout: Duration, now: Instant) -> Duration {
        if attr.kind != FileKind::Dir || timeout.is_zero() {
            return timeout;
        }
        let mut stripe = self.stripe(attr.ino);
        let exact = stripe.under_way == 0 && stripe.last <= asked.changes;
        let later = stripe.known.get(&attr.ino);
        if later.is_some_and(|known| known.order > asked.order) {
            return Duration::ZERO;
        }
        if stripe.last_directory > asked.changes {
            // The links may be too few.
            stripe.known.remove(&attr.ino);
            return Duration::ZERO;
        }
        let mut attr = attr.clone();
        let mut changed = now;
        if let Some(known) = stripe.known.get(&attr.ino)
            && !exact
        {
            // Times do not go back because of a change that the answer has not in it.
            attr.mtime = attr.mtime.max(known.attr.mtime);
            attr.ctime = attr.ctime.max(known.attr.ctime);
            changed = known.changed;
        }
        if stripe.known.len() >= self.most {
            stripe.known.retain(|_, known| known.until > now);
            if stripe.known.len() >= self.most {
                stripe.known.clear();
            }
        }
        stripe.known.insert(
            attr.ino,
            Known {
                attr,
                order: asked.order,
                until: now + timeout,
                changed,
                exact,
            },
        );
        // The kernel may not keep what is not exact: it would, until the directory changes again.
        if exact { timeout } else { timeout.min(QUIET) }
    }

    /// The directory's attributes, and the time for which they may be cached; `None`: ask servers.
    pub(crate) fn known(&self, dir: Ino) -> Option<(Attr, Duration)> {
        self.known_at(dir, Instant::now())
    }

    /// The directory's attributes in the last answer of servers, as far as it is remembered.
    pub(crate) fn last_told(&self, dir: Ino) -> Option<Attr> {
        let stripe = self.stripe(dir);
        stripe.known.get(&dir).map(|known| known.attr.clone())
    }

    fn known_at(&self, dir: Ino, now: Instant) -> Option<(Attr, Duration)> {
        let stripe = self.stripe(dir);
        let known = stripe.known.get(&dir)?;
        let left = known.until.saturating_duration_since(now);
        let busy = now.saturating_duration_since(known.changed) < QUIET;
        match (known.exact, busy) {
            _ if left.is_zero() => None,
            (true, _) => Some((known.attr.clone(), left)),
            (false, true) => Some((known.attr.clone(), left.min(QUIET))),
            (false, false) => None,
        }
    }

    /// To be called before servers are asked to change the directory's entries. The outcome is
    /// [unclear](Outcome::Unclear) until said.
    pub(crate) fn change(&self, dir: Ino) -> Change<'_> {
        self.stripe(dir).under_way += 1;
        Change {
            attrs: self,
            dir,
            outcome: Outcome::Unclear,
        }
    }

    /// The directory was changed otherwise: ask servers the next time.
    pub(crate) fn forget(&self, dir: Ino) {
        drop(self.change(dir));
    }

    fn end(&self, dir: Ino, outcome: Outcome, now: Instant, clock: Time) {
        let mut stripe = self.stripe(dir);
        assert!(stripe.under_way > 0, "a change ended that never began");
        stripe.under_way -= 1;
        // Counted while the stripe is locked: a question that is asked from here on sees this
        // change, and no answer to a question from before can be taken in without seeing it in
        // `last`.
        stripe.last = self.changes.fetch_add(1, Ordering::SeqCst) + 1;
        let (entries, directory, at) = match outcome {
            Outcome::Added { directory, at } => (1, directory, at),
            Outcome::Removed { directory } => (-1, directory, clock),
            Outcome::Nothing => return,
            Outcome::Unclear => {
                stripe.last_directory = stripe.last;
                stripe.known.remove(&dir);
                return;
            }
        };
        if directory {
            stripe.last_directory = stripe.last;
        }
        let Some(known) = stripe.known.get_mut(&dir) else {
            return;
        };
        known.changed = now;
        let attr = &mut known.attr;
        attr.size = attr.size.saturating_add_signed(entries);
        // Attributes that are not exact may have lost the link already.
        if directory && (entries > 0 || known.exact) {
            attr.nlink = attr.nlink.saturating_add_signed(entries as i32);
        }
        // As servers do: a time that lies ahead stays.
        attr.mtime = attr.mtime.max(at);
        attr.ctime = attr.ctime.max(at);
    }
}

impl Change<'_> {
    /// The change came to this.
    pub(crate) fn ended(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.attrs
            .end(self.dir, self.outcome, Instant::now(), convert::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_KNOWN_DIRECTORIES;

    const DIR: Ino = Ino(7);
    const SECOND: Duration = Duration::from_secs(1);

    fn attr(size: u64, mtime: i64) -> Attr {
        Attr {
            ino: DIR,
            kind: FileKind::Dir,
            mode: 0o755,
            nlink: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            size,
            blocks: 0,
            atime: Time(0),
            mtime: Time(mtime),
            ctime: Time(mtime),
            btime: Time(0),
            has_xattrs: false,
        }
    }

    fn added(at: i64) -> Outcome {
        Outcome::Added {
            directory: false,
            at: Time(at),
        }
    }

    /// Size, links and mtime as they would be given out.
    fn shown(attrs: &DirAttrs, now: Instant) -> Option<(u64, u32, i64)> {
        attrs
            .known_at(DIR, now)
            .map(|(attr, _)| (attr.size, attr.nlink, attr.mtime.0))
    }

    #[test]
    fn what_servers_told_is_used_until_the_kernel_would_ask_again() {
        let attrs = DirAttrs::within(MAX_KNOWN_DIRECTORIES);
        let start = Instant::now();
        assert_eq!(shown(&attrs, start), None);
        attrs.learn_at(&attr(3, 10), attrs.ask(), SECOND, start);
        let (known, left) = attrs.known_at(DIR, start + SECOND / 4).unwrap();
        assert_eq!((known, left), (attr(3, 10), SECOND * 3 / 4));
        assert_eq!(attrs.known_at(DIR, start + SECOND), None);
        assert_eq!(attrs.known_at(DIR, start + 2 * SECOND), None);
    }

    #[test]
    fn without_a_timeout_nothing_is_remembered() {
        let attrs = DirAttrs::within(MAX_KNOWN_DIRECTORIES);
        attrs.learn(&attr(3, 10), attrs.ask(), Duration::ZERO);
        assert_eq!(attrs.known(DIR), None);
    }

    #[test]
    fn files_are_not_remembered() {
        let attrs = DirAttrs::within(MAX_KNOWN_DIRECTORIES);
        attrs.learn(
            &Attr {
                kind: FileKind::File,
                ..attr(3, 10)
            },
            attrs.ask(),
            SECOND,
        );
        assert_eq!(attrs.known(DIR), None);
    }

    #[test]
    fn own_changes_show_at_once() {
        let attrs = DirAttrs::within(MAX_KNOWN_DIRECTORIES);
        let start = Instant::now();
        attrs.learn_at(&attr(3, 10), attrs.ask(), SECOND, start);
        attrs.change(DIR).ended(added(20));
        assert_eq!(shown(&attrs, start), Some((4, 2, 20)));
        attrs.change(DIR).ended(Outcome::Added {
            directory: true,
            at: Time(15),
        });
        assert_eq!(
            shown(&attrs, start),
            Some((5, 3, 20)),
            "times do not go back"
        );
        attrs
            .change(DIR)
            .ended(Outcome::Removed { directory: true });
        let (size, nlink, mtime) = shown(&attrs, start).unwrap();
        assert_eq!((size, nlink), (4, 2));
        assert!(
            mtime > 1_600_000_000_000_000_000,
            "a removal is dated by the clock: {mtime}"
        );
        let known = attrs.known_at(DIR, start + SECOND / 2).unwrap();
        assert_eq!(
            known.1,
            SECOND / 2,
            "own changes make other mounts' no older"
        );
    }

    #[test]
    fn after_a_change_of_unclear_outcome_servers_are_asked() {
        let attrs = DirAttrs::within(MAX_KNOWN_DIRECTORIES);
        for change in [
            |attrs: &DirAttrs| attrs.forget(DIR),
            |attrs: &DirAttrs| drop(attrs.change(DIR)),
        ] {
            attrs.learn(&attr(3, 10), attrs.ask(), SECOND);
            assert!(attrs.known(DIR).is_some());
            change(&attrs);
            assert_eq!(attrs.known(DIR), None);
        }
    }

    #[test]
    fn a_refused_change_is_none() {
        let attrs = DirAttrs::within(MAX_KNOWN_DIRECTORIES);
        let start = Instant::now();
        attrs.learn_at(&attr(3, 10), attrs.ask(), SECOND, start);
        attrs.change(DIR).ended(Outcome::Nothing);
        assert_eq!(shown(&attrs, start), Some((3, 2, 10)));
    }

    /// A question overlaps a change when the change is under way at any time between asking and
    /// being taken in: then it is unknown if the answer has it in it.
    #[test]
    fn an_answer_that_overlaps_a_change_is_used_only_while_the_directory_is_busy() {
        type Play = fn(&DirAttrs, Instant);
        let plays: [(&str, Play); 4] = [
            ("within the change", |attrs, now| {
                let change = attrs.change(DIR);
                attrs.learn_at(&attr(4, 20), attrs.ask(), SECOND, now);
                change.ended(Outcome::Nothing);
            }),
            ("around the change", |attrs, now| {
                let asked = attrs.ask();
                attrs.change(DIR).ended(added(20));
                attrs.learn_at(&attr(4, 20), asked, SECOND, now);
            }),
            ("asked before, learnt within", |attrs, now| {
                let asked = attrs.ask();
                let change = attrs.change(DIR);
                attrs.learn_at(&attr(4, 20), asked, SECOND, now);
                change.ended(Outcome::Nothing);
            }),
            ("asked within, learnt after", |attrs, now| {
                let change = attrs.change(DIR);
                let asked = attrs.ask();
                change.ended(added(20));
                attrs.learn_at(&attr(4, 20), asked, SECOND, now);
            }),
        ];
        for (when, play) in plays {
            let attrs = DirAttrs::within(MAX_KNOWN_DIRECTORIES);
            let start = Instant::now();
            play(&attrs, start);
            let (known, left) = attrs.known_at(DIR, start).unwrap();
            assert_eq!((known.size, left), (4, QUIET), "{when}");
            assert_eq!(shown(&attrs, start + QUIET * 10), None, "{when}");
        }
    }

    /// Had the answer not the new directory in it, a program could miss it.
    #[test]
    fn links_are_never_too_few() {
        let attrs = DirAttrs::within(MAX_KNOWN_DIRECTORIES);
        let start = Instant::now();
        let asked = attrs.ask();
        attrs.change(DIR).ended(Outcome::Added {
            directory: true,
            at: Time(20),
        });
        assert_eq!(
            attrs.learn_at(&attr(3, 10), asked, SECOND, start),
            Duration::ZERO
        );
        assert_eq!(shown(&attrs, start), None);

        // Was the removed directory missing from the answer already, it must not be taken off
        // twice.
        let change = attrs.change(DIR);
        attrs.learn_at(&attr(3, 10), attrs.ask(), SECOND, start);
        change.ended(Outcome::Removed { directory: true });
        let (attr, _) = attrs.known_at(DIR, Instant::now()).unwrap();
        assert_eq!(attr.nlink, 2);
    }

    #[test]
    fn an_answer_that_overlaps_no_change_is_exact() {
        let attrs = DirAttrs::within(MAX_KNOWN_DIRECTORIES);
        let start = Instant::now();
        attrs.change(DIR).ended(added(20));
        attrs.learn_at(&attr(4, 20), attrs.ask(), SECOND, start);
        assert_eq!(shown(&attrs, start + QUIET * 10), Some((4, 2, 20)));
    }

    #[test]
    fn an_older_answer_does_not_take_a_change_back() {
        let attrs = DirAttrs::within(MAX_KNOWN_DIRECTORIES);
        let start = Instant::now();
        attrs.learn_at(&attr(3, 10), attrs.ask(), SECOND, start);
        let asked = attrs.ask();
        attrs.change(DIR).ended(added(50));
        attrs.learn_at(&attr(3, 10), asked, SECOND, start);
        let (_, _, mtime) = shown(&attrs, start).unwrap();
        assert_eq!(mtime, 50);
    }

    #[test]
    fn the_number_of_directories_is_bounded() {
        let attrs = DirAttrs::within(MAX_KNOWN_DIRECTORIES);
        for serial in 1..=2 * MAX_KNOWN_DIRECTORIES as u64 {
            attrs.learn(
                &Attr {
                    ino: Ino(serial),
                    ..attr(0, 0)
                },
                attrs.ask(),
                SECOND,
            );
        }
        let known: usize = attrs
            .stripes
            .iter()
            .map(|stripe| stripe.lock().unwrap().known.len())
            .sum();
        assert!(known <= MAX_KNOWN_DIRECTORIES, "{known}");
    }
}
