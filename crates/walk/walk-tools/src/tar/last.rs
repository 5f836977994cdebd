//! Last steps of unpacking: hard links, and attributes of directories.
//!
//! Links are made when the files are there. Anything made in directories changes their times, and
//! may need permission.

use crate::tar::header::Member;
use crate::tar::pending::Key;
use crate::tar::resolve_beneath::{Resolver, Spot};
use crate::tar::sorted::Sorted;
use crate::tar::unpack::{Shared, Trouble};
use anyhow::Result;
use pandofs_walk_fs::Stat;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, Mode, linkat, openat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A path, what it is to lead to, and its time in seconds and nanoseconds.
type Link = (Vec<u8>, Vec<u8>, (i64, u32));

/// Paths of links, and of what they lead to, that may wait in one process before the links are
/// made.
const WAITING_PATHS: usize = 1 << 16;

/// Jobs that are kept until then, mostly not in memory.
pub(crate) struct Last {
    /// The deepest first.
    directories: Sorted,
    /// In the order of the archive.
    links: Sorted,
    /// Paths of those links, and of what they lead to.
    linked: HashSet<Key>,
    spill_directory: PathBuf,
}

impl Last {
    /// With files in this directory, if there have to be some.
    pub(crate) fn new(directory: &Path) -> Last {
        Last {
            directories: Sorted::new(directory),
            links: Sorted::new(directory),
            linked: HashSet::new(),
            spill_directory: directory.to_owned(),
        }
    }

    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn add_directory(&mut self, member: &Member) -> Result<()> {
        let key = directory_key(&member.path);
        Ok(self.directories.push(key, postcard::to_stdvec(member)?)?)
    }

    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn add_link(&mut self, member: &Member) -> Result<()> {
        self.linked.insert(Key::of(&member.path));
        self.linked.insert(Key::of(&member.target));
        let link = postcard::to_stdvec(&(
            &member.path,
            &member.target,
            (member.seconds, member.nanoseconds),
        ))?;
        Ok(self.links.push(Vec::new(), link)?)
    }

    /// Returns whether a link waits that has this path, or leads to it.
    pub(crate) fn has_link(&self, key: Key) -> bool {
        self.linked.contains(&key)
    }

    pub(crate) fn has_enough_links(&self) -> bool {
        self.linked.len() >= WAITING_PATHS
    }

    /// Makes the links that wait. The files are there.
    ///
    /// # Errors
    /// When the file cannot be read. Links that could not be made are reported.
    pub(super) fn make_links(
        &mut self,
        shared: &Shared<'_>,
        resolver: &mut Resolver,
    ) -> Result<()> {
        self.linked.clear();
        let links = std::mem::replace(&mut self.links, Sorted::new(&self.spill_directory));
        let mut links = links.finish()?;
        let mut target_resolver = shared.resolver();
        while let Some((_, link)) = links.next()? {
            let (path, target, time): Link = postcard::from_bytes(&link)?;
            let made: Result<(), Trouble> = (|| {
                let target = target_resolver.spot(&target)?;
                let spot = resolver.spot(&path)?;
                let (from, to) = (target.dir(), spot.dir());
                if is_same(&target, &spot) {
                    return Ok(());
                }
                shared.in_place(&spot, time, || {
                    linkat(from, &*target.name, to, &*spot.name, AtFlags::empty())
                })
            })();
            match made {
                Ok(()) => {}
                // It is of a file that was given up.
                Err(Trouble::Os(Errno::NOENT)) if shared.meter.is_stopped() => {}
                Err(trouble) => shared.failed(&path, &trouble),
            }
            shared.meter.count_entries(1);
        }
        Ok(())
    }

    /// Makes the links, then sets attributes of directories, from the bottom up.
    ///
    /// # Errors
    /// When the file cannot be read. Links that could not be made are reported.
    pub(super) fn finish(mut self, shared: &Shared<'_>, mut resolver: Resolver) -> Result<()> {
        self.make_links(shared, &mut resolver)?;
        let mut directories = self.directories.finish()?;
        let mut next = directories.next()?;
        while let Some((key, member)) = next {
            next = directories.next()?;
            // An archive may have the same one twice: the last time counts.
            if next.as_ref().is_some_and(|(after, _)| *after == key) {
                continue;
            }
            let member: Member = postcard::from_bytes(&member)?;
            let done = resolver
                .spot(&member.path)
                .map_err(Trouble::from)
                .and_then(|spot| {
                    let flags = crate::mirror::DIRECTORY;
                    let dir = openat(spot.dir(), &*spot.name, flags, Mode::empty())?;
                    shared.attributes(dir.as_fd(), &member)
                });
            if let Err(trouble) = done {
                shared.failed(&member.path, &trouble);
            }
            shared.meter.count_entries(1);
        }
        Ok(())
    }
}

/// Returns whether both names are of one file already, as after an earlier run.
fn is_same(one: &Spot, other: &Spot) -> bool {
    let stat = |spot: &Spot| Stat::of(spot.dir(), &spot.name).ok();
    let (one, other) = (stat(one), stat(other));
    one.is_some() && one.map(|it| it.identity()) == other.map(|it| it.identity())
}

/// Deeper ones come first; the same one has the same.
fn directory_key(path: &[u8]) -> Vec<u8> {
    let names = path.split(|byte| *byte == b'/');
    let names: Vec<&[u8]> = names.filter(|it| !matches!(*it, b"" | b".")).collect();
    let mut key = (u64::MAX - names.len() as u64).to_be_bytes().to_vec();
    key.extend_from_slice(&names.join(&b'/'));
    key
}
