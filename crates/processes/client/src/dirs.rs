//! Operations on directories as wholes: listing, attributes gathered over shards, settings.

use crate::Client;
use crate::call::Call;
use crate::core::Core;
use crate::error::{ClientError, Failure, Result};
use crate::inodes::{inode_of, unexpected};
use crate::route::reply_of;
use crate::space::sparse_layout;
use crate::trace::{Op, Outcome};
use pandofs_api::{
    DirEntry, DirPart, DirSettings, EntriesReply, InodeReply, Layout, Reply, Request, op,
};
use pandofs_placement::{DirMap, Gather};
use pandofs_session::Target;
use pandofs_types::limits::{MAX_READDIR_BYTES, MAX_READDIR_ENTRIES};
use pandofs_types::{Attr, Credentials, FileKind, FsError, Ino, Name, Position, ShardId, Time};

/// A directory's map, and each shard's part.
type Gathered = (DirMap, Vec<(ShardId, DirPart)>);

/// Links of a directory without subdirectories.
const OWN_LINKS: u32 = 2;

/// One entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Unique within the directory.
    pub name: Name,
    /// Where a listing goes on behind it: at the next position.
    pub position: Position,
    /// The inode that the name leads to.
    pub ino: Ino,
    /// Of the inode.
    pub kind: FileKind,
    /// When they were asked for and the inode was still there.
    pub attr: Option<Attr>,
}

/// A part of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// In the order of their positions.
    pub entries: Vec<Entry>,
    /// The position to go on from; [`Position::END`] when that was all.
    pub next: Position,
    /// Of a listing from the start: the directory that this one is in.
    pub parent: Option<Ino>,
}

/// A directory as the shards that carry it see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirInfo {
    /// The directory's own number.
    pub ino: Ino,
    /// The directory that it is in; of the root itself.
    pub parent: Ino,
    /// Its own; `None` in one is the file system's default.
    pub settings: DirSettings,
    /// Merged of what its shards know.
    pub map: DirMap,
    /// Of each shard with a partition, in the map's order, the home first.
    pub parts: Vec<(ShardId, DirPart)>,
}

/// Goes through a directory, page by page. After an error it ends.
#[derive(Debug)]
pub struct Listing {
    client: Client,
    caller: Credentials,
    dir: Ino,
    page: std::vec::IntoIter<Entry>,
    next: Position,
}

impl Iterator for Listing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        loop {
            if let Some(entry) = self.page.next() {
                return Some(Ok(entry));
            }
            if self.next == Position::END {
                return None;
            }
            let from = std::mem::replace(&mut self.next, Position::END);
            let max = MAX_READDIR_ENTRIES;
            match self
                .client
                .readdir(&self.caller, self.dir, from, false, max)
            {
                Ok(page) => {
                    self.page = page.entries.into_iter();
                    self.next = page.next;
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Client {
    /// Entries from `from` on (at first [`Position::FIRST`]), at least one unless the directory
    /// ends, and `max` or a few more. `.` and `..` are not among them. With `plus` their attributes
    /// come along.
    ///
    /// A listing that goes on at each page's `next` returns every entry that is there throughout
    /// exactly once, also while partitions split.
    ///
    /// # Errors
    /// `NotFound` when the directory was removed.
    pub fn readdir(
        &self,
        caller: &Credentials,
        dir: Ino,
        from: Position,
        plus: bool,
        max: usize,
    ) -> Result<Page> {
        self.traced(
            || Op::Readdir { dir },
            |page| Outcome::Page(page),
            |client| client.page(caller, dir, from, plus, max),
        )
    }

    fn page(
        &self,
        caller: &Credentials,
        dir: Ino,
        from: Position,
        plus: bool,
        max: usize,
    ) -> Result<Page> {
        if from >= Position::END {
            return Ok(Page {
                entries: Vec::new(),
                next: Position::END,
                parent: None,
            });
        }
        let reply = self.core().entries_from(caller, dir, from, plus, max)?;
        self.page_from(caller, reply, plus, max)
    }

    /// The page that begins with these entries.
    pub(crate) fn page_from(
        &self,
        caller: &Credentials,
        mut reply: EntriesReply,
        plus: bool,
        max: usize,
    ) -> Result<Page> {
        let core = self.core();
        let mut parent = reply.parent;
        // Nothing on this shard from there on; it goes on at another one.
        while reply.entries.is_empty() && reply.next < Position::END {
            reply = core.entries_from(caller, reply.dir, reply.next, plus, max)?;
            parent = parent.or(reply.parent);
        }
        Ok(Page {
            entries: core.complete(caller, reply.entries, plus),
            next: reply.next,
            parent,
        })
    }

    /// All entries, without attributes.
    pub fn list(&self, caller: &Credentials, dir: Ino) -> Listing {
        Listing {
            client: self.clone(),
            caller: caller.clone(),
            dir,
            page: Vec::new().into_iter(),
            next: Position::FIRST,
        }
    }

    /// The directory's map, settings and parts, as they are now.
    ///
    /// # Errors
    /// `NotDir`; `Stale` when there is no such inode.
    pub fn dir_info(&self, caller: &Credentials, dir: Ino) -> Result<DirInfo> {
        let core = self.core();
        let inode = core.inode_now(caller, dir)?;
        let Some(home) = inode.dir else {
            return Err(FsError::NotDir.into());
        };
        core.maps.correct(dir, &home.map);
        let gather = Gather::new(core.maps.map(dir));
        let (map, mut parts) = core.gather_parts(caller, vec![(dir, gather)]).remove(0)?;
        let place = |shard| map.shards().iter().position(|&other| other == shard);
        parts.sort_by_key(|&(shard, _)| place(shard));
        Ok(DirInfo {
            ino: dir,
            parent: home.parent,
            settings: home.settings,
            map,
            parts,
        })
    }

    /// Sets what is `Some`; `initial_partitions` also splits the directory itself up to that
    /// number.
    ///
    /// # Errors
    /// `NotPermitted` for callers that do not own it; `Invalid` for figures out of range.
    pub fn set_dir_settings(
        &self,
        caller: &Credentials,
        dir: Ino,
        settings: DirSettings,
    ) -> Result<()> {
        let core = self.core();
        let request = Request::SetDirSettings(op::SetDirSettings { dir, settings });
        let inode = inode_of(core.ask(caller, Target::Inode(dir), request)?)?;
        if let Some(home) = inode.dir {
            core.maps.correct(dir, &home.map);
        }
        Ok(())
    }

    /// Has the partitions that are over the directory's threshold split now, and for
    /// [`SPREAD_TERM`] keep to so many entries a second, from each shard that has some; 0 for no
    /// limit.
    ///
    /// # Errors
    /// `NotPermitted` for callers that do not own it; `NotDir`; `Stale` when there is no such
    /// inode; `Busy` when too many others have rates.
    ///
    /// [`SPREAD_TERM`]: pandofs_types::limits::SPREAD_TERM
    pub fn spread(&self, caller: &Credentials, dir: Ino, entries_per_second: u32) -> Result<()> {
        let core = self.core();
        let inode = core.inode_now(caller, dir)?;
        let Some(home) = inode.dir else {
            return Err(FsError::NotDir.into());
        };
        // The home's alone to say, and it is not asked otherwise.
        if !caller.owns(inode.attr.uid) {
            return Err(FsError::NotPermitted.into());
        }
        core.maps.correct(dir, &home.map);
        let spread = |shard| {
            let request = Request::Spread(op::Spread {
                dir,
                entries_per_second,
            });
            Call::shard(Target::Shard(shard), caller, request)
        };
        let mut calls: Vec<Call> = core
            .maps
            .map(dir)
            .shards()
            .into_iter()
            .map(spread)
            .collect();
        for answer in core.run_all(&mut calls) {
            reply_of(answer?)?;
        }
        Ok(())
    }

    /// Syncs to disk what was acknowledged of the directory's entries.
    ///
    /// # Errors
    /// `NotDir`; `Stale` when there is no such inode; `Io`, once, when a server's machine has lost
    /// some of it.
    pub fn fsyncdir(&self, caller: &Credentials, dir: Ino) -> Result<()> {
        let core = self.core();
        // The map as it is now: entries that other clients made may be where this one never was.
        let Some(home) = core.inode_now(caller, dir)?.dir else {
            return Err(FsError::NotDir.into());
        };
        core.maps.correct(dir, &home.map);
        let shards = core.maps.map(dir).shards();
        let mut lost = Ok(());
        core.sync_at(caller, dir, Vec::new(), shards, |error| lost = Err(error))?;
        lost
    }
}

/// The request for a page of a listing.
pub(crate) fn listing(dir: Ino, from: Position, plus: bool, max: usize) -> op::ReadDir {
    op::ReadDir {
        dir,
        from,
        plus,
        max_entries: max.clamp(1, MAX_READDIR_ENTRIES) as u32,
        max_bytes: MAX_READDIR_BYTES as u32,
    }
}

/// Adds parts to what is there of a directory's attributes.
pub(crate) fn add_parts(attr: &mut Attr, parts: &[DirPart]) {
    for part in parts {
        attr.size = attr.size.saturating_add(part.entries);
        attr.nlink = attr.nlink.saturating_add(part.subdirs);
        attr.mtime = attr.mtime.max(part.mtime);
        attr.ctime = attr.ctime.max(part.ctime);
    }
}

impl Core {
    /// One shard's entries, checked.
    fn entries_from(
        &self,
        caller: &Credentials,
        dir: Ino,
        from: Position,
        plus: bool,
        max: usize,
    ) -> Result<EntriesReply> {
        let target = Target::Name {
            dir,
            position: from,
        };
        let request = Request::ReadDir(listing(dir, from, plus, max));
        let reply = self.ask(caller, target, request)?;
        let answer = self.entries_of(reply, from)?;
        match answer.dir == dir {
            true => Ok(answer),
            false => Err(ClientError::Protocol(format!(
                "a shard listed directory {} instead of {dir}",
                answer.dir
            ))),
        }
    }

    /// The entries of a shard's listing from there on.
    pub(crate) fn entries_of(&self, reply: Reply, from: Position) -> Result<EntriesReply> {
        let answer = match reply {
            Reply::Entries(answer) => answer,
            other => return Err(unexpected(&other)),
        };
        let dir = answer.dir;
        self.maps.merge(dir, &answer.map);
        // Else a listing would repeat or miss entries, or never end.
        let ascending = answer.entries.is_sorted_by(|a, b| a.position < b.position);
        let first = answer
            .entries
            .first()
            .is_none_or(|entry| entry.position >= from);
        let last = answer
            .entries
            .last()
            .is_none_or(|entry| entry.position < answer.next);
        if !(ascending && first && last && from < answer.next && answer.next <= Position::END) {
            return Err(ClientError::Protocol(format!(
                "a shard's listing of directory {dir} from {from:?} to {:?} is out of order",
                answer.next
            )));
        }
        Ok(answer)
    }

    /// Entries with what is to be known of each. Other shards are asked for the inodes that the answering
    /// one does not have, all at once; an inode that has gone meanwhile stays without attributes.
    fn complete(&self, caller: &Credentials, entries: Vec<DirEntry>, plus: bool) -> Vec<Entry> {
        for entry in &entries {
            self.learn_entry(entry.ino, entry.shard, entry.inode.is_some());
        }
        let mut attrs: Vec<Option<(Attr, Option<DirMap>)>> = vec![None; entries.len()];
        let mut sparse: Vec<Option<Layout>> = vec![None; entries.len()];
        let mut listed = Vec::with_capacity(entries.len());
        let mut missing = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            let DirEntry {
                name,
                position,
                ino,
                kind,
                inode,
                ..
            } = entry;
            listed.push(Entry {
                name,
                position,
                ino,
                kind,
                attr: None,
            });
            match inode {
                Some(inode) => {
                    sparse[index] = sparse_layout(&inode);
                    attrs[index] = Some(self.own_attr(inode));
                }
                None => missing.push(index),
            }
        }
        if !plus {
            return listed;
        }
        let inos: Vec<Ino> = missing.iter().map(|&index| listed[index].ino).collect();
        for (index, inode) in missing.into_iter().zip(self.inodes(caller, &inos)) {
            sparse[index] = inode.as_ref().ok().and_then(sparse_layout);
            attrs[index] = inode.ok().map(|inode| self.own_attr(inode));
        }
        let mut files: Vec<(&mut Attr, Layout)> = attrs
            .iter_mut()
            .zip(sparse)
            .filter_map(|(attr, layout)| Some((&mut attr.as_mut()?.0, layout?)))
            .collect();
        self.count_blocks(&mut files);
        let of_dirs = attrs.iter_mut().flatten();
        let dirs: Vec<(&mut Attr, DirMap)> = of_dirs
            .filter_map(|(attr, map)| Some((attr, map.take()?)))
            .collect();
        let inos: Vec<Ino> = dirs.iter().map(|(attr, _)| attr.ino).collect();
        let gathered = self.gather(caller, dirs).into_iter().zip(inos);
        let gone: Vec<Ino> = gathered
            .filter(|(result, _)| result.is_err())
            .map(|(_, ino)| ino)
            .collect();
        let attrs = attrs.into_iter().map(|attr| attr.map(|(attr, _)| attr));
        for (entry, attr) in listed.iter_mut().zip(attrs) {
            entry.attr = attr.filter(|attr| !gone.contains(&attr.ino));
        }
        listed
    }

    /// A file's attributes, or the home's part of a directory's and the home's map, which is
    /// learnt.
    fn own_attr(&self, inode: InodeReply) -> (Attr, Option<DirMap>) {
        let mut attr = inode.attr;
        let map = inode.dir.map(|dir| dir.map);
        if let Some(map) = &map {
            self.maps.correct(attr.ino, map);
        }
        self.correct(&mut attr);
        (attr, map)
    }

    /// Adds to each directory's attributes, which are the home's part, those of its other shards.
    /// Each comes with the home's map.
    pub(crate) fn gather(
        &self,
        caller: &Credentials,
        dirs: Vec<(&mut Attr, DirMap)>,
    ) -> Vec<Result<()>> {
        let gathers = dirs.iter().map(|(attr, map)| {
            let mut gather = Gather::new(self.maps.map(attr.ino));
            let home = DirPart {
                entries: attr.size,
                subdirs: attr.nlink.saturating_sub(OWN_LINKS),
                mtime: attr.mtime,
                ctime: attr.ctime,
                map: map.clone(),
            };
            gather.answer(attr.ino.birth_shard(), map.clone(), home);
            (attr.ino, gather)
        });
        let gathered = self.gather_parts(caller, gathers.collect());
        let mut results = Vec::with_capacity(dirs.len());
        for ((attr, _), parts) in dirs.into_iter().zip(gathered) {
            results.push(parts.map(|(_, parts)| {
                attr.size = 0;
                attr.nlink = OWN_LINKS;
                attr.mtime = Time(i64::MIN);
                let parts: Vec<DirPart> = parts.into_iter().map(|(_, part)| part).collect();
                add_parts(attr, &parts);
            }));
        }
        results
    }

    /// Asks for the parts of directories, of all of them at once.
    fn gather_parts(
        &self,
        caller: &Credentials,
        mut dirs: Vec<(Ino, Gather<DirPart>)>,
    ) -> Vec<Result<Gathered>> {
        let mut failures: Vec<Option<ClientError>> = dirs.iter().map(|_| None).collect();
        loop {
            let mut calls = Vec::new();
            let mut of = Vec::new();
            for (index, (dir, gather)) in dirs.iter_mut().enumerate() {
                if failures[index].is_some() {
                    continue;
                }
                for shard in gather.ask() {
                    let request = Request::DirPart(op::DirPart { dir: *dir });
                    calls.push(Call::shard(Target::Shard(shard), caller, request));
                    of.push((index, shard));
                }
            }
            if calls.is_empty() {
                break;
            }
            let answers = self.run_all(&mut calls);
            for ((index, shard), answer) in of.into_iter().zip(answers) {
                let (dir, gather) = &mut dirs[index];
                match answer.and_then(reply_of) {
                    Ok(Reply::Part(part)) => {
                        self.maps.merge(*dir, &part.map);
                        gather.answer(shard, part.map.clone(), part);
                    }
                    // Its partitions were merged, or dropped: the directory is being removed.
                    Err(Failure::NoPart) => gather.nothing(shard, Some(&self.maps.map(*dir))),
                    Ok(other) => failures[index] = Some(unexpected(&other)),
                    Err(failure) => failures[index] = Some(failure.into()),
                }
            }
        }
        dirs.into_iter()
            .zip(failures)
            .map(|((_, gather), failure)| failure.map_or_else(|| Ok(gather.finish()), Err))
            .collect()
    }
}
