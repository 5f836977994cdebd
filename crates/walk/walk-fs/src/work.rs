//! Work on one item, by one thread.

use crate::claims::Claim;
use crate::descriptors::{Descriptors, Handle};
use crate::dir::{Dir, DirState, Origin};
use crate::entry::Entry;
use crate::limits::{LEAST_SLICE_ENTRIES, LISTING_BYTES, SLICE_ENTRIES};
use crate::options::{Follow, Options};
use crate::paths::Paths;
use crate::post_order::Leaving;
use crate::saved::Saved;
use crate::slice::{self, Item};
use crate::stat::Stat;
use crate::task::Task;
use crate::visit::{Flow, Problem, ProblemKind, Visitor};
use pandofs_walk::limits::GIVEN_ITEMS;
use rustix::fd::AsFd;
use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Entries between two looks at what others could do with.
const LOOK_ENTRIES: usize = 64;
/// Entries of a slice if each takes long.
const SLOW_SLICE_ENTRIES: usize = 4;

/// The other side of a thread: where its findings go.
pub(crate) trait Desk<D> {
    /// Returns how many parts of this item others could do with.
    fn wanted(&self) -> usize;
    /// Takes items while this one goes on.
    fn hand_over(&mut self, items: Vec<Item<D>>);
    /// Takes claims, which are parts of their directories until they are answered.
    fn claim(&mut self, claims: Vec<Claim<D>>);
    /// Gives back a part of another process's directory: it is done, or was written in place of
    /// that if it is unfinished.
    fn give_back(&mut self, origin: Origin, gathered: Vec<u8>, unfinished: bool);
}

/// One thread's part of a walk.
pub(crate) struct Worker<'w, V: Visitor> {
    options: &'w Options,
    descriptors: &'w Descriptors<V::Dir>,
    visitor: V,
    paths: Paths<V::Dir>,
    found: Vec<Item<V::Dir>>,
    claims: Vec<Claim<V::Dir>>,
    listing: Box<[MaybeUninit<u8>]>,
}

/// A directory whose entries are being visited.
struct Place<'p, D> {
    dir: &'p Arc<Dir<D>>,
    handle: &'p Handle,
    /// Whether it is kept open for what was found in it.
    kept: bool,
    visited: u64,
}

/// An entry as the directory has it.
#[derive(Clone, Copy)]
struct Listed<'l> {
    kind: FileType,
    ino: u64,
    name: &'l CStr,
}

impl<'w, V: Visitor> Worker<'w, V> {
    pub(crate) fn new(
        options: &'w Options,
        descriptors: &'w Descriptors<V::Dir>,
        visitor: V,
    ) -> Worker<'w, V> {
        Worker {
            options,
            descriptors,
            visitor,
            paths: Paths::new(),
            found: Vec::new(),
            claims: Vec::new(),
            listing: Box::new_uninit_slice(LISTING_BYTES),
        }
    }

    pub(crate) fn into_visitor(self) -> V {
        self.visitor
    }

    /// Does an item to its end; what was found and not handed over.
    pub(crate) fn run(
        &mut self,
        item: Item<V::Dir>,
        desk: &mut impl Desk<V::Dir>,
    ) -> Vec<Item<V::Dir>> {
        if let Some(saved) = self.options.saved.as_ref().filter(|it| it.takes()) {
            saved.save(&item);
            let dir = match item {
                // It was not begun: its own part is not known to anybody.
                Item::Directory(dir) => match dir.above() {
                    Some(above) => Arc::clone(above),
                    None => unreachable!("what the roots are in is no item"),
                },
                Item::Slice(dir, _) | Item::Task(dir, _) => dir,
            };
            dir.set_unfinished();
            self.parts_done(dir, 1, desk);
            return Vec::new();
        }
        // Once the walk is to end, items are dropped.
        let stopped = self.options.meter.is_stopped();
        let dir = match item {
            Item::Directory(dir) => {
                if !stopped {
                    self.list(&dir, desk);
                    self.visitor.pause();
                }
                dir
            }
            Item::Slice(dir, entries) => {
                if !stopped {
                    self.slice(&dir, &entries, desk);
                    self.visitor.pause();
                }
                dir
            }
            Item::Task(dir, what) => {
                if !stopped {
                    self.task(&dir, &what);
                }
                dir
            }
        };
        self.send_claims(desk);
        self.parts_done(dir, 1, desk);
        std::mem::take(&mut self.found)
    }

    fn send_claims(&mut self, desk: &mut impl Desk<V::Dir>) {
        if !self.claims.is_empty() {
            desk.claim(std::mem::take(&mut self.claims));
        }
    }

    fn list(&mut self, dir: &Arc<Dir<V::Dir>>, desk: &mut impl Desk<V::Dir>) {
        self.visitor.reads(true);
        let opened = self.descriptors.open_first(dir);
        self.visitor.reads(false);
        let handle = match opened {
            Ok(handle) => handle,
            Err(kind) => {
                // Between the look at its entry and now.
                let vanished = kind == ProblemKind::Open(Errno::NOENT) && dir.depth() > 0;
                return self.directory_problem(dir, kind, vanished);
            }
        };
        let meter = Arc::clone(&self.options.meter);
        meter.add_directory();
        let mut place = Place {
            dir,
            handle: &handle,
            kept: false,
            visited: 0,
        };
        let mut listing = std::mem::take(&mut self.listing);
        let mut raw = RawDir::new(handle.as_fd(), &mut listing);
        let look = if self.options.slow_entries {
            1
        } else {
            LOOK_ENTRIES
        };
        let mut until_look = look;
        let problem = loop {
            if until_look == 0 {
                until_look = look;
                if meter.is_stopped() {
                    break None;
                }
                self.send_claims(desk);
                let options = self.options;
                if let Some(saved) = options.saved.as_ref().filter(|it| it.is_asked()) {
                    break self.put_off(&mut raw, dir, saved).err();
                }
                let wanted = desk.wanted();
                if wanted > 0 {
                    match self.share(&mut raw, &mut place, wanted) {
                        Err(error) => break Some(error),
                        Ok(false) => break None,
                        Ok(true) => {}
                    }
                }
                // A directory may have more directories in it than fit in memory: the rank spills
                // them.
                if wanted > 0 || self.found.len() >= GIVEN_ITEMS {
                    desk.hand_over(std::mem::take(&mut self.found));
                }
            }
            match next(&mut raw, &mut self.visitor) {
                None => break None,
                Some(Err(Errno::INTR)) => {}
                Some(Err(error)) => break Some(error),
                Some(Ok(entry)) => {
                    let Some(listed) = listed(&entry) else {
                        continue;
                    };
                    until_look -= 1;
                    if !self.visit(&mut place, listed) {
                        break None;
                    }
                }
            }
        };
        meter.add_entries(place.visited);
        self.listing = listing;
        if let Some(error) = problem {
            // A directory that was removed while it was read is empty.
            let vanished = error == Errno::NOENT;
            self.directory_problem(dir, ProblemKind::Read(error), vanished);
        }
    }

    /// Writes the names that are left of a large directory down as slices, rather than that they
    /// are waited for. At once: in a queue they would be as many as the directory has.
    fn put_off(
        &mut self,
        raw: &mut RawDir<'_, rustix::fd::BorrowedFd<'_>>,
        dir: &Arc<Dir<V::Dir>>,
        saved: &Saved,
    ) -> Result<(), Errno> {
        let most = if self.options.slow_entries {
            SLOW_SLICE_ENTRIES
        } else {
            SLICE_ENTRIES
        };
        let (mut slice, mut entries) = (Vec::new(), 0);
        loop {
            let ended = match next(raw, &mut self.visitor) {
                None => Some(Ok(())),
                Some(Err(Errno::INTR)) => None,
                Some(Err(error)) => Some(Err(error)),
                Some(Ok(entry)) => {
                    if let Some(listed) = listed(&entry) {
                        slice::push(&mut slice, listed.kind, listed.ino, listed.name);
                        entries += 1;
                    }
                    None
                }
            };
            if entries == most || entries > 0 && ended.is_some() {
                let names = std::mem::take(&mut slice).into_boxed_slice();
                saved.save(&Item::Slice(Arc::clone(dir), names));
                // The part that is being done, this listing, is done after that.
                dir.set_unfinished();
                entries = 0;
            }
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    /// Makes up to this many slices for others of names that have been read already, without
    /// reading more. Whether the walk goes on.
    fn share(
        &mut self,
        raw: &mut RawDir<'_, rustix::fd::BorrowedFd<'_>>,
        place: &mut Place<'_, V::Dir>,
        slices: usize,
    ) -> Result<bool, Errno> {
        let (least, most) = if self.options.slow_entries {
            (1, SLOW_SLICE_ENTRIES)
        } else {
            (LEAST_SLICE_ENTRIES, SLICE_ENTRIES)
        };
        let mut made = 0;
        while made < slices && (made == 0 || !raw.is_buffer_empty()) {
            made += 1;
            let mut slice = Vec::new();
            let mut entries = 0;
            while entries < most && (entries == 0 || !raw.is_buffer_empty()) {
                match next(raw, &mut self.visitor) {
                    None => break,
                    Some(Err(Errno::INTR)) => {}
                    Some(Err(error)) => return Err(error),
                    Some(Ok(entry)) => {
                        if let Some(listed) = listed(&entry) {
                            slice::push(&mut slice, listed.kind, listed.ino, listed.name);
                            entries += 1;
                        }
                    }
                }
            }
            if entries >= least {
                self.keep(place);
                place.dir.add_part();
                let slice = Item::Slice(Arc::clone(place.dir), slice.into_boxed_slice());
                self.found.push(slice);
            } else {
                for (kind, ino, name) in slice::entries(&slice) {
                    if !self.visit(place, Listed { kind, ino, name }) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    fn slice(&mut self, dir: &Arc<Dir<V::Dir>>, entries: &[u8], desk: &mut impl Desk<V::Dir>) {
        self.visitor.reads(true);
        let opened = self.descriptors.open_again(dir);
        self.visitor.reads(false);
        let handle = match opened {
            Ok(handle) => handle,
            Err(kind) => return self.directory_problem(dir, kind, false),
        };
        let mut place = Place {
            dir,
            handle: &handle,
            // Since the slice was made; if it was closed meanwhile, that is for want of
            // descriptors.
            kept: true,
            visited: 0,
        };
        for (at, (kind, ino, name)) in (1..).zip(slice::entries(entries)) {
            if at % LOOK_ENTRIES == 0 && !self.found.is_empty() && desk.wanted() > 0 {
                desk.hand_over(std::mem::take(&mut self.found));
            }
            if !self.visit(&mut place, Listed { kind, ino, name }) {
                break;
            }
        }
        self.options.meter.add_entries(place.visited);
    }

    fn task(&mut self, dir: &Arc<Dir<V::Dir>>, what: &[u8]) {
        let handle = match self.descriptors.open(dir) {
            Ok(handle) => handle,
            Err(kind) => {
                let kind = match kind {
                    ProblemKind::Open(error) => ProblemKind::Task(error),
                    other => other,
                };
                return self.directory_problem(dir, kind, false);
            }
        };
        self.visitor.task(&mut Task {
            dir,
            fd: handle.as_fd(),
            what,
            paths: &mut self.paths,
        });
    }

    /// Shows an entry to the visitor; whether the walk goes on.
    ///
    /// In line, as all is from the loop over entries to the call that looks at one: with returns
    /// between two system calls a walk took up to a sixth more of the processors. (Perhaps because
    /// the kernel clears what the processor knows of return addresses.)
    #[inline(always)]
    fn visit(&mut self, place: &mut Place<'_, V::Dir>, listed: Listed<'_>) -> bool {
        let options = self.options;
        let mut entry = Entry {
            dir: place.dir,
            fd: place.handle.as_fd(),
            name: listed.name,
            kind: listed.kind,
            ino: listed.ino,
            stat: None,
            paths: &mut self.paths,
            fields: options.fields,
            follow: options.follow,
            tasks: Vec::new(),
            claims: Vec::new(),
        };
        // No visitor sees it, as find(1) has it.
        if options.follow == Follow::Always && leads_back(&mut entry) {
            drop(entry);
            self.entry_problem(place.dir, listed.name, ProblemKind::Loop, false);
            return true;
        }
        // Names that come from a directory are there; roots have to be looked for.
        let mut enters = None;
        if !place.dir.is_top() || entry.stat().is_ok() {
            place.visited += 1;
            match self.visitor.entry(&mut entry) {
                Flow::Quit => {
                    options.meter.stop();
                    return false;
                }
                Flow::Skip => {}
                Flow::Descend(seed) => {
                    if entry.kind() == FileType::Directory {
                        enters = Some(seed);
                    }
                }
            }
        }
        if options.one_file_system && enters.is_some() && entry.is_elsewhere() {
            enters = None;
        }
        let careful = options.one_file_system || options.follow == Follow::Always;
        if careful && enters.is_some() && entry.stat().is_err() {
            enters = None;
        }
        // The needed part of the attributes: all are too large to be moved about for each entry.
        let identity = match &entry.stat {
            Some(Ok(stat)) if enters.is_some() => Some(stat.identity()),
            _ => None,
        };
        let unseen = match &entry.stat {
            Some(Err(error)) => Some(*error),
            _ => None,
        };
        let (tasks, claims) = (entry.tasks, entry.claims);
        for (key, amount) in claims {
            place.dir.add_part();
            let dir = Arc::clone(place.dir);
            self.claims.push(Claim { dir, key, amount });
        }
        if !tasks.is_empty() {
            self.keep(place);
            for what in tasks {
                place.dir.add_part();
                self.found.push(Item::Task(Arc::clone(place.dir), what));
            }
        }
        if let Some(error) = unseen {
            let vanished = error == Errno::NOENT && !place.dir.is_top();
            self.entry_problem(place.dir, listed.name, ProblemKind::Stat(error), vanished);
        }
        if let Some(seed) = enters {
            let child = Dir::child(place.dir, listed.name, seed);
            if let Some(identity) = identity {
                child.set_identity(identity);
            }
            self.keep(place);
            self.found.push(Item::Directory(Arc::new(child)));
        }
        true
    }

    fn keep(&mut self, place: &mut Place<'_, V::Dir>) {
        if !place.kept {
            place.kept = true;
            self.descriptors.keep(place.dir, place.handle);
        }
    }

    /// Parts of a directory are done, and with them maybe the directory, and with that its parent,
    /// and so on.
    pub(crate) fn parts_done(
        &mut self,
        dir: Arc<Dir<V::Dir>>,
        parts: usize,
        desk: &mut impl Desk<V::Dir>,
    ) {
        let mut dir = dir;
        let mut parts = parts;
        while dir.parts_done(parts) {
            let unfinished = dir.is_unfinished();
            if let Some(origin) = dir.origin() {
                desk.give_back(origin, dir.state().gathered(), unfinished);
                return;
            }
            if let Some(saved) = self.options.saved.as_ref().filter(|_| unfinished) {
                saved.note(&dir);
            }
            if dir.is_top() {
                return;
            }
            dir.set_open(None);
            if unfinished {
                if let Some(above) = dir.above() {
                    above.set_unfinished();
                }
            } else if self.options.leaves {
                // Once the walk is stopped, it is not known of a directory whether all below it was
                // visited.
                let mut leaving = Leaving {
                    dir: &dir,
                    paths: &mut self.paths,
                    descriptors: self.descriptors,
                    options: self.options,
                };
                if self.options.meter.is_stopped() {
                    self.visitor.abandon(&mut leaving);
                } else {
                    self.visitor.leave(&mut leaving);
                }
            }
            let Some(above) = dir.above() else { break };
            dir = Arc::clone(above);
            parts = 1;
        }
    }

    fn directory_problem(&mut self, dir: &Arc<Dir<V::Dir>>, kind: ProblemKind, vanished: bool) {
        let Some(above) = dir.above() else { return };
        self.entry_problem(above, dir.name(), kind, vanished);
    }

    fn entry_problem(
        &mut self,
        dir: &Arc<Dir<V::Dir>>,
        name: &CStr,
        kind: ProblemKind,
        vanished: bool,
    ) {
        if vanished {
            self.options.meter.add_vanished();
            return;
        }
        self.options.meter.add_problem();
        let path = self.paths.entry(dir, name.to_bytes());
        self.visitor.problem(Problem { path, kind });
    }

    /// Lets go of what it remembers of directories, while it has nothing to do.
    pub(crate) fn rest(&mut self) {
        self.paths.forget();
    }
}

/// The next entry; a visitor that measures hears when that takes a call.
#[inline(always)]
fn next<'r>(
    raw: &'r mut RawDir<'_, rustix::fd::BorrowedFd<'_>>,
    visitor: &mut impl Visitor,
) -> Option<Result<rustix::fs::RawDirEntry<'r>, Errno>> {
    let calls = raw.is_buffer_empty();
    if calls {
        visitor.reads(true);
    }
    let entry = raw.next();
    if calls {
        visitor.reads(false);
    }
    entry
}

fn listed<'l>(entry: &'l rustix::fs::RawDirEntry<'_>) -> Option<Listed<'l>> {
    let name = entry.file_name();
    if matches!(name.to_bytes(), b"." | b"..") {
        return None;
    }
    Some(Listed {
        kind: entry.file_type(),
        ino: entry.ino(),
        name,
    })
}

/// Returns whether it is one of the directories above it.
fn leads_back<D>(entry: &mut Entry<'_, D>) -> bool {
    if entry.kind() != FileType::Directory {
        return false;
    }
    let mut above = Some(entry.dir);
    let Ok(identity) = entry.stat().map(Stat::identity) else {
        return false;
    };
    while let Some(it) = above {
        if it.identity() == Some(identity) {
            return true;
        }
        above = it.above();
    }
    false
}
