//! The three times of an inode, and which of them a call changes.
//!
//! No clock but the file system's own is looked at: between the look before and the call, the file
//! system's clock is made to go on past all times seen, so that a time that the call changes
//! differs.

use crate::case::{Failure, Outcome, same};
use crate::process::wait_until;
use crate::sys::*;
use rustix::fd::OwnedFd;
use rustix::fs::StatVfsMountFlags as Flags;
use std::path::Path;

/// Seconds since 1970 and nanoseconds.
pub(crate) type Time = (i64, i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
}

impl Times {
    pub(crate) fn of(stat: &Stat) -> Times {
        Times {
            atime: (stat.st_atime, stat.st_atime_nsec as i64),
            mtime: (stat.st_mtime, stat.st_mtime_nsec as i64),
            ctime: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }

    fn latest(&self) -> Time {
        self.atime.max(self.mtime).max(self.ctime)
    }
}

pub(crate) fn times(path: &str) -> Outcome<Times> {
    Ok(Times::of(&lstat(path).ok()?))
}

/// Beside each case's directory.
pub(crate) const CLOCK: &str = "clock";

/// Reads the file system's clock: the change time of a file that is changed to ask for it.
pub(crate) fn now() -> Outcome<Time> {
    utimens(Path::new("..").join(CLOCK).as_path(), NOW, NOW).ok()?;
    Ok(Times::of(&lstat(Path::new("..").join(CLOCK).as_path()).ok()?).ctime)
}

/// Waits until the file system's clock is past this.
pub(crate) fn tick(past: Time) -> Outcome {
    wait_until("the file system's clock to go on", || {
        now().is_ok_and(|now| now > past)
    })
}

/// Effect of reading on times of access on the mount where the case runs (mount(8)).
pub(crate) struct Reading(Flags);

impl Reading {
    pub(crate) fn here() -> Outcome<Reading> {
        Ok(Reading(statvfs(".").ok()?.f_flag))
    }

    /// For `changes`: of a file or link whose time of access is not later than its others.
    pub(crate) fn when_due(&self) -> &'static str {
        if self.0.contains(Flags::NOATIME) {
            ""
        } else {
            "a"
        }
    }

    /// The same of a directory.
    pub(crate) fn when_due_of_a_directory(&self) -> &'static str {
        if self.0.contains(Flags::NODIRATIME) {
            ""
        } else {
            self.when_due()
        }
    }

    /// Returns whether only the first reading after a change counts, and one a day.
    pub(crate) fn is_relative(&self) -> bool {
        self.0.contains(Flags::RELATIME)
    }
}

/// Makes the call, and checks which times it changed: for each path, `a`, `m` and `c` for those
/// that had to be set to now, `C` for a ctime that may have been, all others had to stay as they
/// were. The inodes are those that the paths led to before, symbolic links themselves.
pub(crate) fn changes(expected: &[(&str, &str)], call: impl FnOnce() -> Outcome) -> Outcome {
    let mut watched: Vec<(&str, &str, OwnedFd, Times)> = Vec::new();
    let is_relative = Reading::here()?.is_relative();
    for (path, letters) in expected {
        // Under relatime (mount(8)) a read changes an access time that is not later than the
        // others.
        if letters.contains('a') && is_relative {
            let mtime = times(path)?.mtime;
            utimens_link(*path, at((mtime.0 - 1, 0)), at(mtime)).ok()?;
        }
    }
    for (path, letters) in expected {
        let fd = open(*path, O::PATH | O::NOFOLLOW, 0).ok()?;
        let before = Times::of(&fstat(&fd).ok()?);
        watched.push((path, letters, fd, before));
    }
    let latest = watched.iter().map(|it| it.3.latest()).max();
    let start = latest.unwrap_or_default();
    tick(start)?;
    call()?;
    for (path, letters, fd, before) in watched {
        let after = Times::of(&fstat(&fd).ok()?);
        let each = [
            ('a', "atime", before.atime, after.atime),
            ('m', "mtime", before.mtime, after.mtime),
            ('c', "ctime", before.ctime, after.ctime),
        ];
        for (letter, name, before, after) in each {
            let what = format!("{name} of {path} after the call");
            let may_stay = letters.contains(letter.to_ascii_uppercase());
            if may_stay && after == before {
                continue;
            }
            if !may_stay && !letters.contains(letter) {
                same(&format!("{what}, which does not change it"), after, before)?;
            } else if after <= start || after > now()? {
                let found = if after == before {
                    "as before".to_owned()
                } else {
                    format!("{after:?}")
                };
                return Err(Failure::wrong(what, "set to now", found));
            }
        }
    }
    Ok(())
}
