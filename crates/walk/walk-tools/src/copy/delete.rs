//! Visitor that removes what a copy has and its original has not.

use crate::copy::copier::report_change;
use crate::copy::wanted::is_excluded_as;
use crate::copy::{pieces, temporary};
use crate::find::glob::Glob;
use crate::mirror::{Mirror, Mirrored, Slot};
use crate::output::Part;
use crate::session::say;

use pandofs_walk_fs::{
    DirState, Entry, FileType, Flow, Leaving, Meter, Problem, ProblemKind, Stat, Unreadable,
    Visitor,
};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A directory of the copy.
#[derive(Debug)]
pub(crate) struct Doomed {
    slot: Slot,
    /// It is to go, with all that is in it.
    goes: bool,
    /// Something in it could not go, or was not to.
    stays: AtomicBool,
    /// Something right in it was not to.
    keeps: AtomicBool,
}

impl DirState for Doomed {
    fn new(seed: [u64; 2]) -> Doomed {
        Doomed {
            slot: Slot::default(),
            goes: seed[0] != 0,
            stays: AtomicBool::new(false),
            keeps: AtomicBool::new(false),
        }
    }

    fn gathered(&self) -> Vec<u8> {
        let both = [&self.stays, &self.keeps];
        both.map(|it| u8::from(it.load(Ordering::Relaxed))).to_vec()
    }

    fn add(&self, gathered: &[u8]) -> Result<(), Unreadable> {
        let &[stays @ 0..=1, keeps @ 0..=1] = gathered else {
            return Err(Unreadable);
        };
        self.stays.fetch_or(stays != 0, Ordering::Relaxed);
        self.keeps.fetch_or(keeps != 0, Ordering::Relaxed);
        Ok(())
    }
}

impl Mirrored for Doomed {
    fn slot(&self) -> &Slot {
        &self.slot
    }
}

/// Walks the copy. Other file systems that are mounted in it stay.
pub(crate) struct Deleter<'d> {
    pub tool: &'static str,
    /// The tree that it is a copy of.
    pub origin: &'d Mirror<Doomed>,
    pub excluded: &'d [(bool, Glob)],
    pub included: &'d [(bool, Glob)],
    /// Names of the copy, and of the other tree, whose paths patterns are of.
    pub called: (&'d OsStr, &'d OsStr),
    /// The other tree's own directory, which does not go wherever it is met.
    pub source: (u64, u64),
    pub dry_run: bool,
    pub verbose: bool,
    /// Output is JSON.
    pub json: bool,
    pub meter: Arc<Meter>,
    pub out: Part,
    pub removed: u64,
}

/// Fate of an entry.
enum Fate {
    Stays,
    Goes,
}

impl Deleter<'_> {
    fn fate(&self, entry: &mut Entry<'_, Doomed>) -> Result<Fate, Errno> {
        if entry.holder().state().goes {
            return Ok(Fate::Goes);
        }
        // The rest of an earlier copy is no part of the tree, whatever the other one has.
        if temporary::is_one(entry.name()) {
            return Ok(match self.is_gone_on_with(entry) {
                true => Fate::Stays,
                false => Fate::Goes,
            });
        }
        let is_directory = entry.kind() == FileType::Directory;
        // If the directory cannot be opened it is not known what is in it, so nothing goes.
        let place = self.origin.place(entry.holder(), entry.name())?;
        match Stat::of(place.dir(), place.name) {
            Ok(stat) if is_directory == (stat.kind() == FileType::Directory) => Ok(Fate::Stays),
            Ok(_) | Err(Errno::NOENT) => Ok(Fate::Goes),
            Err(error) => Err(error),
        }
    }

    /// Returns whether it belongs to a large copy that was interrupted, of a file that is still
    /// what it was.
    fn is_gone_on_with(&self, entry: &Entry<'_, Doomed>) -> bool {
        let copy = temporary::copy(entry.name());
        let Some(name) = pieces::name(entry.dir_fd(), &copy) else {
            return false;
        };
        // No run asks for one that was begun when the tree was called otherwise.
        let root = CString::new(self.called.1.as_bytes()).unwrap_or_default();
        if temporary::of(&root, &name) != copy {
            return false;
        }
        let Ok(place) = self.origin.place(entry.holder(), &name) else {
            return false;
        };
        let of = Stat::of(place.dir(), place.name);
        of.is_ok_and(|of| pieces::left(entry.dir_fd(), &copy, &of).is_some())
    }

    fn done(&mut self, removed: Result<(), Errno>, path: &[u8]) -> bool {
        match removed {
            Ok(()) => {
                self.removed += 1;
                if self.dry_run || self.verbose {
                    report_change("-", path, self.json, &mut self.out);
                }
                true
            }
            Err(Errno::NOENT) => true,
            Err(error) => {
                self.trouble(path, format_args!("cannot be removed: {error}"));
                false
            }
        }
    }

    fn trouble(&mut self, path: &[u8], what: impl std::fmt::Display) {
        self.meter.add_problem();
        say(self.tool, path, what);
    }
}

fn stays<D: AsRef<pandofs_walk_fs::Dir<Doomed>>>(dir: Option<&D>) {
    if let Some(dir) = dir {
        dir.as_ref().state().stays.store(true, Ordering::Relaxed);
    }
}

impl Visitor for Deleter<'_> {
    type Dir = Doomed;

    fn entry(&mut self, entry: &mut Entry<'_, Doomed>) -> Flow {
        if entry.depth() == 0 {
            return Flow::Descend([0, 0]);
        }
        let is_directory = entry.kind() == FileType::Directory;
        if is_excluded_as(self.excluded, self.called, entry)
            && !is_excluded_as(self.included, self.called, entry)
        {
            let holder = entry.holder().state();
            if holder.goes {
                holder.keeps.store(true, Ordering::Relaxed);
                stays(entry.dir());
            }
            return Flow::Skip;
        }
        match self.fate(entry) {
            Ok(Fate::Stays) => return Flow::Descend([0, 0]),
            Ok(Fate::Goes) => {}
            Err(error) => {
                self.trouble(
                    entry.path(),
                    format_args!("stays: in the other tree: {error}"),
                );
                return Flow::Skip;
            }
        }
        if is_directory {
            if entry.stat().is_ok_and(Stat::is_mount_root) {
                stays(entry.dir());
                self.trouble(entry.path(), "something is mounted here; it stays");
                return Flow::Skip;
            }
            if entry.stat().is_ok_and(|it| it.identity() == self.source) {
                stays(entry.dir());
                self.trouble(entry.path(), "it is what is copied; it stays");
                return Flow::Skip;
            }
            return Flow::Descend([1, 0]);
        }
        let removed = if self.dry_run {
            Ok(())
        } else {
            unlinkat(entry.dir_fd(), entry.name(), AtFlags::empty())
        };
        if !self.done(removed, entry.path()) {
            stays(entry.dir());
        }
        Flow::Skip
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, Doomed>) {
        let state = leaving.dir().state();
        if !state.goes {
            return;
        }
        if state.stays.load(Ordering::Relaxed) {
            stays(leaving.dir().parent());
            if state.keeps.load(Ordering::Relaxed) {
                say(
                    self.tool,
                    leaving.path(),
                    "stays: what is excluded is in it",
                );
            }
            return;
        }
        let removed = if self.dry_run {
            Ok(())
        } else {
            let gone = leaving.in_parent(|above, name| unlinkat(above, name, AtFlags::REMOVEDIR));
            gone.unwrap_or_else(|problem| match problem {
                ProblemKind::Open(error) => Err(error),
                _ => Err(Errno::STALE),
            })
        };
        if !self.done(removed, leaving.path()) {
            stays(leaving.dir().parent());
        }
    }

    fn problem(&mut self, problem: Problem<'_>) {
        say(self.tool, problem.path, problem.kind);
    }
}
