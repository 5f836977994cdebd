//! Directories that change so often that a grant of them is asked for.

use crate::limits::{CHANGES_PER_WISH, MAX_WISH_PAUSE, MAX_WISHES, MIN_WISH_PAUSE, WISH_TERM};
use hashbrown::HashMap;
use pandofs_session::Boottime;
use pandofs_types::Ino;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
struct Wish {
    changes: u32,
    last: Boottime,
    /// None is asked for before.
    not_before: Option<Boottime>,
    /// The last pause.
    pause: Duration,
}

/// Directories that are not granted.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    dirs: HashMap<Ino, Wish>,
}

impl Wishes {
    /// A change of the directory's names is asked for; whether to ask for a grant first.
    pub(crate) fn changes(&mut self, dir: Ino, now: Boottime) -> bool {
        self.count(dir, now, 1)
            .is_some_and(|wish| wish.changes >= CHANGES_PER_WISH)
    }

    /// The session has made the directory: it will make something in it.
    pub(crate) fn made(&mut self, dir: Ino, now: Boottime) {
        self.count(dir, now, CHANGES_PER_WISH);
    }

    /// Counts changes; `None` in a pause.
    fn count(&mut self, dir: Ino, now: Boottime, changes: u32) -> Option<Wish> {
        let wish = self.of(dir, now);
        if now.saturating_duration_since(wish.last) > WISH_TERM {
            wish.changes = 0;
        }
        wish.last = now;
        wish.changes = wish.changes.saturating_add(changes);
        let is_pause = wish.not_before.is_some_and(|not_before| now < not_before);
        (!is_pause).then_some(*wish)
    }

    /// A grant was refused, or was recalled: none is asked for some time.
    pub(crate) fn pause(&mut self, dir: Ino, now: Boottime) {
        let wish = self.of(dir, now);
        wish.pause = (wish.pause * 2).clamp(MIN_WISH_PAUSE, MAX_WISH_PAUSE);
        wish.not_before = Some(now + wish.pause);
    }

    /// The directory's wish, made if there is none.
    fn of(&mut self, dir: Ino, now: Boottime) -> &mut Wish {
        self.make_room(now);
        self.dirs.entry(dir).or_insert(Wish {
            changes: 0,
            last: now,
            not_before: None,
            pause: Duration::ZERO,
        })
    }

    fn make_room(&mut self, now: Boottime) {
        if self.dirs.len() < MAX_WISHES {
            return;
        }
        let term = WISH_TERM.max(MAX_WISH_PAUSE);
        self.dirs
            .retain(|_, wish| now.saturating_duration_since(wish.last) < term);
        if self.dirs.len() >= MAX_WISHES {
            self.dirs.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Boottime {
        Boottime::after_start(Duration::from_secs(100) + Duration::from_millis(millis))
    }

    #[test]
    fn the_second_change_asks_and_one_long_after_the_first_does_not() {
        let mut wishes = Wishes::default();
        assert!(!wishes.changes(Ino(5), at(0)));
        assert!(!wishes.changes(Ino(5), at(20_000)));
        assert!(wishes.changes(Ino(5), at(20_001)));
        assert!(!wishes.changes(Ino(6), at(20_001)));
    }

    #[test]
    fn a_new_directory_is_asked_for_at_the_first_change() {
        let mut wishes = Wishes::default();
        wishes.made(Ino(5), at(0));
        assert!(wishes.changes(Ino(5), at(1)));
    }

    #[test]
    fn pauses_become_longer() {
        let mut wishes = Wishes::default();
        wishes.made(Ino(5), at(0));
        wishes.pause(Ino(5), at(0));
        assert!(!wishes.changes(Ino(5), at(249)));
        assert!(wishes.changes(Ino(5), at(250)));
        wishes.pause(Ino(5), at(250));
        assert!(!wishes.changes(Ino(5), at(749)));
        assert!(wishes.changes(Ino(5), at(750)));
    }
}
