//! Operations on directories as wholes: listing, attributes gathered over shards, settings.

use crate::Client;
use crate::call::{Call, Target};
use crate::core::Core;
use crate::error::{ClientError, Failure, Result};
use crate::inodes::{inode_of, unexpected};
use crate::route::reply_of;
use crate::space::sparse_layout;
use pandofs_api::{
    DirEntry, DirPart, DirSettings, EntriesReply, InodeReply, Layout, Reply, Request,
};
use pandofs_placement::DirMap;
use pandofs_types::limits::{MAX_READDIR_BYTES, MAX_READDIR_ENTRIES};
use pandofs_types::{Attr, Credentials, FileKind, FsError, Ino, Name, Position, ShardId};

/// One entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Name,
    pub position: Position,
    pub ino: Ino,
    pub kind: FileKind,
    /// When they were asked for and the inode was still there.
    pub attr: Option<Attr>,
}

/// A part of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// In the order of their positions.
    pub entries: Vec<Entry>,
    /// Where to go on; [`Position::END`] when that was all.
    pub next: Position,
    /// Of a listing from the start: the directory that this one is in.
    pub parent: Option<Ino>,
}

/// A directory as the shards that carry it see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirInfo {
    pub ino: Ino,
    pub parent: Ino,
    pub settings: DirSettings,
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
        let core = self.core();
        let mut from = from;
        let mut parent = None;
        while from < Position::END {
            let reply = core.entries_from(caller, dir, from, plus, max)?;
            let EntriesReply { entries, next, .. } = reply;
            parent = parent.or(reply.parent);
            if !entries.is_empty() {
                return Ok(Page {
                    entries: core.complete(caller, entries, plus),
                    next,
                    parent,
                });
            }
            // Nothing on this shard from there on; it goes on at another one.
            from = next;
        }
        Ok(Page {
            entries: Vec::new(),
            next: Position::END,
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
        let inode = core.inode(caller, dir)?;
        let Some(home) = inode.dir else {
            return Err(FsError::NotDir.into());
        };
        core.maps.correct(dir, &home.map);
        let mut parts = Vec::new();
        core.each_part(caller, &[dir], &[], |_, shard, part| {
            parts.push((shard, part))
        })
        .remove(0)?;
        let map = core.maps.map(dir);
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
    /// `NotPermitted` for who does not own it; `Invalid` for figures out of range.
    pub fn set_dir_settings(
        &self,
        caller: &Credentials,
        dir: Ino,
        settings: DirSettings,
    ) -> Result<()> {
        let core = self.core();
        let request = Request::SetDirSettings { dir, settings };
        let inode = inode_of(core.ask(caller, Target::Inode(dir), request)?)?;
        if let Some(home) = inode.dir {
            core.maps.correct(dir, &home.map);
        }
        Ok(())
    }

    /// Forces to disk what was acknowledged of the directory's entries.
    ///
    /// # Errors
    /// `NotDir`; `Stale` when there is no such inode.
    pub fn fsyncdir(&self, caller: &Credentials, dir: Ino) -> Result<()> {
        let core = self.core();
        // The map as it is now: entries that other clients made may be where this one never was.
        let Some(home) = core.inode(caller, dir)?.dir else {
            return Err(FsError::NotDir.into());
        };
        core.maps.correct(dir, &home.map);
        let sync = |shard| Call::shard(Target::Shard(shard), caller, Request::Sync);
        let mut calls: Vec<Call> = core.maps.map(dir).shards().into_iter().map(sync).collect();
        for answer in core.run_all(&mut calls) {
            reply_of(answer?)?;
        }
        Ok(())
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
        let request = Request::ReadDir {
            dir,
            from,
            plus,
            max_entries: max.clamp(1, MAX_READDIR_ENTRIES) as u32,
            max_bytes: MAX_READDIR_BYTES as u32,
        };
        let answer = match self.ask(caller, target, request)? {
            Reply::Entries(answer) => answer,
            other => return Err(unexpected(&other)),
        };
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

    /// Entries with what is to be known of each. What the answering shard does not have is asked of
    /// the others, all at once; an inode that has gone meanwhile stays without attributes.
    fn complete(&self, caller: &Credentials, entries: Vec<DirEntry>, plus: bool) -> Vec<Entry> {
        for entry in &entries {
            self.learn_entry(entry.ino, entry.shard, entry.inode.is_some());
        }
        let mut attrs: Vec<Option<Attr>> = vec![None; entries.len()];
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
            .filter_map(|(attr, layout)| Some((attr.as_mut()?, layout?)))
            .collect();
        self.count_blocks(&mut files);
        let mut dirs: Vec<&mut Attr> = attrs
            .iter_mut()
            .flatten()
            .filter(|attr| attr.kind == FileKind::Dir)
            .collect();
        let gone: Vec<Ino> = self
            .gather(caller, &mut dirs)
            .into_iter()
            .zip(&dirs)
            .filter(|(gathered, _)| gathered.is_err())
            .map(|(_, attr)| attr.ino)
            .collect();
        for (entry, attr) in listed.iter_mut().zip(attrs) {
            entry.attr = attr.filter(|attr| !gone.contains(&attr.ino));
        }
        listed
    }

    /// A file's attributes, or the home's part of a directory's; its map is learnt.
    fn own_attr(&self, inode: InodeReply) -> Attr {
        let mut attr = inode.attr;
        if let Some(dir) = inode.dir {
            self.maps.correct(attr.ino, &dir.map);
        }
        self.correct(&mut attr);
        attr
    }

    /// Adds to each directory's attributes, which are the home's part, those of its other shards.
    pub fn gather(&self, caller: &Credentials, dirs: &mut [&mut Attr]) -> Vec<Result<()>> {
        let inos: Vec<Ino> = dirs.iter().map(|attr| attr.ino).collect();
        let homes: Vec<ShardId> = inos.iter().map(|ino| ino.birth_shard()).collect();
        self.each_part(caller, &inos, &homes, |index, _, part| {
            let attr = &mut *dirs[index];
            attr.size = attr.size.saturating_add(part.entries);
            attr.nlink = attr.nlink.saturating_add(part.subdirs);
            attr.mtime = attr.mtime.max(part.mtime);
            attr.ctime = attr.ctime.max(part.ctime);
        })
    }

    /// Visits the parts of directories on all their shards but `without` (one for each directory,
    /// or none at all): those that are known at first, then those that the parts tell of.
    fn each_part(
        &self,
        caller: &Credentials,
        dirs: &[Ino],
        without: &[ShardId],
        mut visit: impl FnMut(usize, ShardId, DirPart),
    ) -> Vec<Result<()>> {
        let mut asked: Vec<Vec<ShardId>> = (0..dirs.len())
            .map(|index| without.get(index).copied().into_iter().collect())
            .collect();
        let mut results: Vec<Result<()>> = dirs.iter().map(|_| Ok(())).collect();
        let mut to_ask: Vec<usize> = (0..dirs.len()).collect();
        while !to_ask.is_empty() {
            let mut calls = Vec::new();
            let mut of = Vec::new();
            for &index in &to_ask {
                let dir = dirs[index];
                for shard in self.maps.map(dir).shards() {
                    if !asked[index].contains(&shard) {
                        asked[index].push(shard);
                        let request = Request::DirPart { dir };
                        calls.push(Call::shard(Target::Shard(shard), caller, request));
                        of.push((index, shard));
                    }
                }
            }
            to_ask.clear();
            let answers = self.run_all(&mut calls);
            for ((index, shard), answer) in of.into_iter().zip(answers) {
                match answer.and_then(reply_of) {
                    Ok(Reply::Part(part)) => {
                        if self.maps.merge(dirs[index], &part.map) {
                            to_ask.push(index);
                        }
                        visit(index, shard, part);
                    }
                    // Its partitions were dropped: the directory is being removed.
                    Err(Failure::NoPart) => {}
                    Ok(other) => results[index] = Err(unexpected(&other)),
                    Err(failure) => results[index] = Err(failure.into()),
                }
            }
            to_ask.dedup();
        }
        results
    }
}
