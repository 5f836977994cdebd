//! Copying of files with several names, once.
//!
//! The thread that comes first with one of the names copies it, the others link to that.

use crate::copy::copier::{COPY, Copier, NEW, Trouble, Way, in_the_way, make_other, put};
use crate::copy::large::is_large;
use crate::copy::links::Links;
use pandofs_walk_fs::{FileType, Stat};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, ftruncate, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};

impl Copier<'_> {
    /// Sees to it that an unchanged copy has the names that the file has.
    pub(super) fn keep_names(&mut self, way: &Way<'_>, old: &Stat) -> Result<(), Trouble> {
        let Some(dir) = self.shared.links.dir() else {
            return Ok(());
        };
        let key = Links::key(way.stat);
        match linkat(way.to, way.to_name, dir, &*key, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                let known = Stat::of(dir, &key).map_err(Trouble::Write)?;
                if known.identity() == old.identity() {
                    return Ok(());
                }
                self.counts.hard_links += 1;
                put(way, |name| {
                    linkat(dir, &*key, way.to, name, AtFlags::empty())
                })
            }
            Err(_) => {
                self.shared.links.give_up();
                Ok(())
            }
        }
    }

    /// Copies a file with several names, or links to its copy.
    pub(super) fn linked(
        &mut self,
        way: &Way<'_>,
        existing: Option<&Stat>,
        later: &mut Vec<Vec<u8>>,
    ) -> Result<(), Trouble> {
        let key = Links::key(way.stat);
        let is_file = way.stat.kind() == FileType::RegularFile;
        // By one thread if no part of it may be seen.
        let is_in_pieces = is_large(way.stat) && !self.shared.wanted.takes_names();
        loop {
            let Some(dir) = self.shared.links.dir() else {
                return self.make(way, later);
            };
            if let Ok(known) = Stat::of(dir, &key) {
                if existing.is_some_and(|old| old.identity() == known.identity()) {
                    return Ok(());
                }
                match put(way, |name| {
                    linkat(dir, &*key, way.to, name, AtFlags::empty())
                }) {
                    // Another file system is mounted there, or there are too many names.
                    Err(Trouble::Write(Errno::XDEV | Errno::MLINK)) => {
                        return self.make(way, later);
                    }
                    // It failed, and is to be found no more.
                    Err(Trouble::Write(Errno::NOENT)) if Stat::of(dir, &key).is_err() => continue,
                    done => {
                        self.counts.hard_links += 1;
                        self.counts.files -= u64::from(is_file);
                        return done;
                    }
                }
            }
            if is_file && !is_in_pieces {
                if self.first(way, dir, &key, later)? {
                    return Ok(());
                }
                continue;
            }
            // An unreadable file leaves the copy that is there as it is.
            let from = match is_file {
                true => Some(self.shared.open_source(way.from, way.name)?),
                false => None,
            };
            // Made empty under its key first: the next thread links to it. Data follow.
            let made = if from.is_some() {
                openat(dir, &*key, NEW, Mode::RUSR | Mode::WUSR).map(drop)
            } else {
                make_other(way, dir, &key)
            };
            match made {
                Ok(()) => {}
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(Trouble::Write(error)),
            }
            let linked = put(way, |name| {
                linkat(dir, &*key, way.to, name, AtFlags::empty())
            });
            if linked.is_err() {
                // No thread will fill it.
                let _ = unlinkat(dir, &*key, AtFlags::empty());
            }
            match linked {
                Ok(()) => {}
                Err(Trouble::Write(Errno::XDEV | Errno::PERM | Errno::OPNOTSUPP)) => {
                    return self.make(way, later);
                }
                Err(error) => return Err(error),
            }
            let Some(from) = from else {
                return Ok(way.take_over()?);
            };
            let to = openat(way.to, way.to_name, COPY, Mode::empty());
            let to = to.map_err(Trouble::Write).inspect_err(|_| {
                let _ = unlinkat(dir, &*key, AtFlags::empty());
            })?;
            let filled = self.fill(way, &from, &to, None, Some(later));
            if filled.as_ref().is_err_and(Trouble::is_of_data) {
                take_back(way, dir, &key, &to);
            }
            return filled;
        }
    }

    /// Copies a file that has no key yet, and gives it one; whether that was done. It was not if
    /// somebody else has been faster with another name. It has neither key nor name before it is
    /// complete: what fails leaves nothing that others could link to. Until then it is where the
    /// keys are, which the next run clears away, whatever ended this one.
    fn first(
        &mut self,
        way: &Way<'_>,
        dir: BorrowedFd<'_>,
        key: &CStr,
        later: &mut Vec<Vec<u8>>,
    ) -> Result<bool, Trouble> {
        let from = self.shared.open_source(way.from, way.name)?;
        in_the_way(way)?;
        let (own, to) = own(dir, key).map_err(Trouble::Write)?;
        let gone = || {
            let _ = unlinkat(dir, &*own, AtFlags::empty());
        };
        let bytes = self.counts.bytes;
        let filled = self.fill(way, &from, &to, None, None);
        if filled.as_ref().is_err_and(Trouble::is_of_data) {
            gone();
            return filled.map(|()| false);
        }
        // Where it cannot have several names each is copied.
        if let Err(Errno::EXIST) = linkat(dir, &*own, dir, key, AtFlags::empty()) {
            gone();
            self.counts.bytes = bytes;
            return Ok(false);
        }
        match renameat(dir, &*own, way.to, way.to_name) {
            Ok(()) => filled.map(|()| true),
            // Another file system is mounted there.
            Err(Errno::XDEV) => {
                gone();
                self.make(way, later).map(|()| true)
            }
            Err(error) => {
                gone();
                Err(Trouble::Write(error))
            }
        }
    }
}

/// A new file beside a key, for one of those who copy what it is of.
fn own(dir: BorrowedFd<'_>, key: &CStr) -> Result<(CString, OwnedFd), Errno> {
    let mut number = 0_u64;
    loop {
        let mut name = key.to_bytes().to_vec();
        name.extend_from_slice(format!(".{number}").as_bytes());
        let name = CString::new(name).unwrap_or_default();
        match openat(dir, &*name, NEW, Mode::RUSR | Mode::WUSR) {
            Err(Errno::EXIST) => number += 1,
            made => return Ok((name, made?)),
        }
    }
}

/// Takes back a copy that cannot be made. A link made to it meanwhile leads to an empty file, which
/// the next run does not take for the copy.
fn take_back(way: &Way<'_>, dir: BorrowedFd<'_>, key: &CStr, to: &OwnedFd) {
    let _ = unlinkat(dir, key, AtFlags::empty());
    let _ = ftruncate(to.as_fd(), 0);
    let _ = unlinkat(way.to, way.to_name, AtFlags::empty());
}
