//! Large files, copied piece by piece by all threads.
//!
//! They are finished when the walk leaves their directory.

use crate::copy::attributes::take_over_with;
use crate::copy::copier::{COPY, Copier, Trouble, Way};
use crate::copy::links::Links;
use crate::copy::twin::{Large, Seen, Twin};
use crate::limits::PIECE_BYTES;
use crate::text::joined;
use pandofs_walk_fs::{Dir, Stat, Task};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, Mode, ftruncate, openat, renameat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// A part of a large file.
#[derive(Serialize, Deserialize)]
struct Piece {
    name: CString,
    /// Temporary name of the copy; none if it has its own.
    temporary: Option<CString>,
    start: u64,
    end: u64,
    sparse: bool,
}

/// Returns whether a file is copied piece by piece.
pub(crate) fn is_large(stat: &Stat) -> bool {
    stat.size() > 2 * PIECE_BYTES
}

/// Returns whether a file is still what it was before it was copied.
pub(super) fn same(before: &Seen, now: &Stat) -> Result<(), Trouble> {
    let now = Seen::of(now);
    if (now.size, now.modified) != (before.size, before.modified) {
        return Err(Trouble::Changed);
    }
    Ok(())
}

impl Copier<'_> {
    /// Makes pieces of a file, but those that are there already, and remembers it until they are
    /// done.
    pub(super) fn put_off(
        &mut self,
        way: &Way<'_>,
        temporary: Option<&CStr>,
        there: &[bool],
        later: &mut Vec<Vec<u8>>,
    ) {
        let (size, sparse) = (way.stat.size(), way.is_sparse());
        for (at, start) in (0..size).step_by(PIECE_BYTES as usize).enumerate() {
            if there.get(at) == Some(&true) {
                continue;
            }
            let piece = Piece {
                name: way.name.to_owned(),
                temporary: temporary.map(CStr::to_owned),
                start,
                end: size.min(start + PIECE_BYTES),
                sparse,
            };
            later.push(postcard::to_stdvec(&piece).unwrap_or_default());
        }
        // It counts when it is complete.
        self.counts.files -= 1;
        way.holder.state().larges().files.push(Large {
            name: way.name.to_owned(),
            temporary: temporary.map(CStr::to_owned),
            key: (temporary.is_none() && way.stat.links() > 1).then(|| Links::key(way.stat)),
            seen: Seen::of(way.stat),
        });
    }

    /// Copies a piece.
    pub(super) fn part(&mut self, task: &mut Task<'_, Twin>) {
        let Ok(piece) = postcard::from_bytes::<Piece>(task.what()) else {
            unreachable!("it was made by a copier");
        };
        if let Err(trouble) = self.piece(task, &piece) {
            let mut larges = task.holder().state().larges();
            let is_first = !larges.failed.contains(&piece.name);
            larges.failed.push(piece.name.clone());
            drop(larges);
            if is_first {
                self.failed(task.path(piece.name.to_bytes()), &trouble);
            }
        }
    }

    fn piece(&mut self, task: &Task<'_, Twin>, piece: &Piece) -> Result<(), Trouble> {
        let mirror = &self.shared.mirror;
        let place = mirror
            .place(task.holder(), &piece.name)
            .map_err(Trouble::Write)?;
        let from = self.shared.open_source(task.dir_fd(), &piece.name)?;
        let name = piece.temporary.as_deref().unwrap_or(place.name);
        let to = openat(place.dir(), name, COPY, Mode::empty()).map_err(Trouble::Write)?;
        let (methods, range) = (&self.shared.methods, piece.start..piece.end);
        self.counts.bytes +=
            self.copying
                .copy(methods, from.as_fd(), to.as_fd(), range, piece.sparse)?;
        if let Some(temporary) = &piece.temporary {
            let pieces = &self.shared.pieces;
            let is_ending = self.meter.is_stopped();
            pieces.made(place.dir(), temporary, to.as_fd(), piece.start, is_ending);
        }
        Ok(())
    }

    /// Finishes the large files of a directory all whose pieces are done.
    pub(super) fn finish(&mut self, from: BorrowedFd<'_>, dir: &Arc<Dir<Twin>>, path: &[u8]) {
        let larges = std::mem::take(&mut *dir.state().larges());
        for large in &larges.files {
            let is_whole = !larges.failed.contains(&large.name);
            let finished = self.finish_one(from, dir, large, is_whole);
            if let Err(trouble) = finished {
                self.failed(&joined(path, large.name.to_bytes()), &trouble);
            }
        }
    }

    fn finish_one(
        &mut self,
        from: BorrowedFd<'_>,
        dir: &Arc<Dir<Twin>>,
        large: &Large,
        is_whole: bool,
    ) -> Result<(), Trouble> {
        let place = self
            .shared
            .mirror
            .place(dir, &large.name)
            .map_err(Trouble::Write)?;
        let name = large.temporary.as_deref().unwrap_or(place.name);
        let pieces = &self.shared.pieces;
        let gone = |trouble| {
            let _ = self.remove_part(place.dir(), name, large);
            trouble
        };
        if !is_whole {
            // Failures were reported, but not of names that were made meanwhile.
            let removed = self.remove_part(place.dir(), name, large);
            return match removed.map_err(Trouble::Write)? {
                0 => Ok(()),
                names => Err(Trouble::OtherNames(names)),
            };
        }
        let source = self.shared.open_source(from, &large.name).map_err(gone)?;
        let stat = Stat::of_open(source.as_fd()).map_err(|it| gone(Trouble::Read(it)))?;
        // Pieces were read for as long as it took: only the time that the file had before any of
        // them says which file the copy is one of.
        let unchanged = same(&large.seen, &stat);
        let to = openat(place.dir(), name, COPY, Mode::empty()).map_err(Trouble::Write)?;
        let taken = take_over_with(source.as_fd(), to.as_fd(), &stat, &large.seen.times());
        if let Some(temporary) = &large.temporary {
            // Before it has its name: no check would find this afterwards.
            pieces.forget(place.dir(), temporary, Some(to.as_fd()));
            renameat(place.dir(), name, place.dir(), place.name)
                .map_err(|it| gone(Trouble::Write(it)))?;
        }
        self.counts.files += 1;
        taken?;
        unchanged
    }

    /// Removes what there is of a copy; how many other names it has. Nothing is in what those lead
    /// to: a file of the right length, with holes, could be taken for the copy. It is not found by
    /// its key any more, so that a thread that comes later with another name does not link to it.
    fn remove_part(&self, dir: BorrowedFd<'_>, name: &CStr, large: &Large) -> Result<u64, Errno> {
        if let Some(temporary) = &large.temporary {
            self.shared.pieces.forget(dir, temporary, None);
            unlinkat(dir, name, AtFlags::empty())?;
            return Ok(0);
        }
        if let (Some(links), Some(key)) = (self.shared.links.dir(), &large.key) {
            let _ = unlinkat(links, &**key, AtFlags::empty());
        }
        let copy = openat(dir, name, COPY, Mode::empty())?;
        ftruncate(&copy, 0)?;
        unlinkat(dir, name, AtFlags::empty())?;
        Ok(Stat::of_open(copy.as_fd())?.links().into())
    }

    /// Gives up the large files of a directory in this run. Removes what there is of them, but for
    /// what another run of the same command goes on with.
    pub(super) fn give_up(&mut self, dir: &Arc<Dir<Twin>>) {
        let larges = std::mem::take(&mut *dir.state().larges());
        for large in larges.files {
            let Ok(place) = self.shared.mirror.place(dir, &large.name) else {
                continue;
            };
            let (pieces, size) = (&self.shared.pieces, large.seen.size);
            let goes_on = self.shared.wanted.update && !larges.failed.contains(&large.name);
            let is_kept = |copy: &CString| goes_on && pieces.keep(place.dir(), copy, size);
            if !large.temporary.as_ref().is_some_and(is_kept) {
                let name = large.temporary.as_deref().unwrap_or(place.name);
                let _ = self.remove_part(place.dir(), name, &large);
            }
        }
    }

    /// Finishes the large files among the roots, after the walk.
    pub(crate) fn finish_roots(&mut self, top: &Arc<Dir<Twin>>) {
        if self.meter.is_stopped() {
            self.give_up(top);
        } else {
            self.finish(CWD, top, b"");
        }
    }
}
