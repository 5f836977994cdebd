//! A disk with a file system that loses what was not synced.
//!
//! Calls of programs come in, and what is there after a loss of power comes out.
//!
//! The model:
//! - Contents as [`super::file`] says; `fsync` and `fdatasync` sync one file, all of it.
//! - Names of one directory reach the disk in order; those of two directories in any order. `fsync` of a
//!   directory syncs its names. A rename from one directory to another, and what came before it in both, is
//!   synced with it, as no journal takes such a thing apart.
//! - `fsync` of something new syncs its name, too, with what came before that in its directory, as ext4 and its like
//!   do; one that was renamed since may have its first name then.
//! - Permissions, owners and times of change are always on the disk.

use super::file::{File, MAX_HELD};
use super::luck::Luck;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) type Ino = u64;
pub(crate) const ROOT: Ino = 1;
/// Inodes that have lost their last name are looked through when there are so many.
const SWEEP_AT: usize = 256;

/// Why something cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotThere,
    Exists,
    NotADirectory,
    IsADirectory,
    NotEmpty,
}

type Names = BTreeMap<Vec<u8>, Ino>;
/// Names that change at once: what each leads to afterwards.
type Renaming = Vec<(Vec<u8>, Option<Ino>)>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    live: Names,
    disk: Names,
    held: VecDeque<Renaming>,
    pub parent: Ino,
}

impl Directory {
    fn change(&mut self, renaming: Renaming) {
        apply(&mut self.live, renaming.clone());
        self.held.push_back(renaming);
        if self.held.len() > MAX_HELD {
            self.sync_first(MAX_HELD / 2);
        }
    }

    fn sync_first(&mut self, count: usize) {
        for renaming in self.held.drain(..count) {
            apply(&mut self.disk, renaming);
        }
    }

    fn mentioned(&self) -> impl Iterator<Item = Ino> + '_ {
        let held = self.held.iter().flatten().filter_map(|(_, ino)| *ino);
        self.live
            .values()
            .chain(self.disk.values())
            .copied()
            .chain(held)
    }
}

fn apply(names: &mut Names, renaming: Renaming) {
    for (name, ino) in renaming {
        match ino {
            Some(ino) => names.insert(name, ino),
            None => names.remove(&name),
        };
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    File(File),
    Directory(Directory),
    Link(Vec<u8>),
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub body: Body,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    /// Nanoseconds since 1970.
    pub changed: u64,
    pub links: u32,
    opens: u32,
    /// The directory that may not have its first name on disk yet.
    new_in: Option<Ino>,
}

/// Syncs, by a disk that lies, of which one is not done, by chance: few, or what a server keeps in several files is
/// never fit to be served.
const SYNCS_OF_A_LIE: u32 = 16;

pub(crate) struct Disk {
    nodes: BTreeMap<Ino, Node>,
    next: Ino,
    unnamed: usize,
    random: StdRng,
    /// Some of the syncs that are answered are not done.
    lies: bool,
}

/// Owner, mode and time of something that is made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Maker {
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub now: u64,
}

/// Counts of what a loss of power met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    pub files: usize,
    pub directories: usize,
}

impl Disk {
    pub(crate) fn new(seed: u64, lies: bool) -> Disk {
        let mut disk = Disk {
            nodes: BTreeMap::new(),
            next: ROOT,
            unnamed: 0,
            random: StdRng::seed_from_u64(seed),
            lies,
        };
        let maker = Maker {
            mode: 0o755,
            ..Maker::default()
        };
        disk.insert(Body::Directory(Directory::default()), maker, ROOT);
        disk
    }

    fn insert(&mut self, mut body: Body, maker: Maker, parent: Ino) -> Ino {
        let ino = self.next;
        self.next += 1;
        if let Body::Directory(directory) = &mut body {
            directory.parent = parent;
        }
        let node = Node {
            body,
            mode: maker.mode,
            uid: maker.uid,
            gid: maker.gid,
            changed: maker.now,
            links: 1,
            opens: 0,
            new_in: (ino != ROOT).then_some(parent),
        };
        self.nodes.insert(ino, node);
        ino
    }

    pub(crate) fn node(&self, ino: Ino) -> Result<&Node, Refusal> {
        self.nodes.get(&ino).ok_or(Refusal::NotThere)
    }

    pub(crate) fn node_mut(&mut self, ino: Ino) -> Result<&mut Node, Refusal> {
        self.nodes.get_mut(&ino).ok_or(Refusal::NotThere)
    }

    pub(crate) fn file(&self, ino: Ino) -> Result<&File, Refusal> {
        match &self.node(ino)?.body {
            Body::File(file) => Ok(file),
            _ => Err(Refusal::IsADirectory),
        }
    }

    pub(crate) fn file_mut(&mut self, ino: Ino) -> Result<&mut File, Refusal> {
        match &mut self.node_mut(ino)?.body {
            Body::File(file) => Ok(file),
            _ => Err(Refusal::IsADirectory),
        }
    }

    fn directory_mut(&mut self, ino: Ino) -> Result<&mut Directory, Refusal> {
        match &mut self.node_mut(ino)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Refusal::NotADirectory),
        }
    }

    /// Names and what they lead to, and the directory above.
    pub(crate) fn list(&self, ino: Ino) -> Result<(&Names, Ino), Refusal> {
        match &self.node(ino)?.body {
            Body::Directory(directory) => Ok((&directory.live, directory.parent)),
            _ => Err(Refusal::NotADirectory),
        }
    }

    pub(crate) fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Ino, Refusal> {
        let (names, _) = self.list(parent)?;
        names.get(name).copied().ok_or(Refusal::NotThere)
    }

    fn is_full_directory(&self, ino: Ino) -> bool {
        self.list(ino).is_ok_and(|(names, _)| !names.is_empty())
    }

    pub(crate) fn make(
        &mut self,
        parent: Ino,
        name: &[u8],
        body: Body,
        maker: Maker,
    ) -> Result<Ino, Refusal> {
        if self.list(parent)?.0.contains_key(name) {
            return Err(Refusal::Exists);
        }
        let ino = self.insert(body, maker, parent);
        self.directory_mut(parent)?
            .change(vec![(name.to_vec(), Some(ino))]);
        Ok(ino)
    }

    pub(crate) fn link(&mut self, ino: Ino, parent: Ino, name: &[u8]) -> Result<(), Refusal> {
        if self.list(parent)?.0.contains_key(name) {
            return Err(Refusal::Exists);
        }
        self.node_mut(ino)?.links += 1;
        self.directory_mut(parent)?
            .change(vec![(name.to_vec(), Some(ino))]);
        Ok(())
    }

    pub(crate) fn remove(
        &mut self,
        parent: Ino,
        name: &[u8],
        directory: bool,
    ) -> Result<(), Refusal> {
        let ino = self.lookup(parent, name)?;
        match (&self.node(ino)?.body, directory) {
            (Body::Directory(_), false) => return Err(Refusal::IsADirectory),
            (Body::Directory(_), true) if self.is_full_directory(ino) => {
                return Err(Refusal::NotEmpty);
            }
            (Body::Directory(_), true) => {}
            (_, true) => return Err(Refusal::NotADirectory),
            (_, false) => {}
        }
        self.directory_mut(parent)?
            .change(vec![(name.to_vec(), None)]);
        self.lost_a_name(ino)
    }

    pub(crate) fn rename(
        &mut self,
        from: Ino,
        name: &[u8],
        to: Ino,
        new: &[u8],
    ) -> Result<(), Refusal> {
        let ino = self.lookup(from, name)?;
        let replaced = self.lookup(to, new).ok();
        if replaced == Some(ino) {
            return Ok(());
        }
        if let Some(replaced) = replaced {
            if self.is_full_directory(replaced) {
                return Err(Refusal::NotEmpty);
            }
            self.lost_a_name(replaced)?;
        }
        if from == to {
            let renaming = vec![(name.to_vec(), None), (new.to_vec(), Some(ino))];
            self.directory_mut(from)?.change(renaming);
            return Ok(());
        }
        self.directory_mut(from)?
            .change(vec![(name.to_vec(), None)]);
        self.directory_mut(to)?
            .change(vec![(new.to_vec(), Some(ino))]);
        for directory in [from, to] {
            let directory = self.directory_mut(directory)?;
            directory.sync_first(directory.held.len());
        }
        if let Ok(directory) = self.directory_mut(ino) {
            directory.parent = to;
        }
        Ok(())
    }

    pub(crate) fn opened(&mut self, ino: Ino) -> Result<(), Refusal> {
        self.node_mut(ino)?.opens += 1;
        Ok(())
    }

    pub(crate) fn closed(&mut self, ino: Ino) {
        if let Ok(node) = self.node_mut(ino) {
            node.opens = node.opens.saturating_sub(1);
        }
    }

    fn lost_a_name(&mut self, ino: Ino) -> Result<(), Refusal> {
        let node = self.node_mut(ino)?;
        node.links = node.links.saturating_sub(1);
        self.unnamed += 1;
        if self.unnamed >= SWEEP_AT {
            self.unnamed = 0;
            self.sweep();
        }
        Ok(())
    }

    /// Forgets inodes to which nothing can lead any more.
    fn sweep(&mut self) {
        let mut used = BTreeSet::from([ROOT]);
        for node in self.nodes.values() {
            if let Body::Directory(directory) = &node.body {
                used.extend(directory.mentioned());
            }
        }
        self.nodes
            .retain(|ino, node| node.opens > 0 || used.contains(ino));
    }

    /// Does what fsync(2) does.
    pub(crate) fn sync(&mut self, ino: Ino) -> Result<(), Refusal> {
        if self.lies && self.random.random_ratio(1, SYNCS_OF_A_LIE) {
            return self.node(ino).map(drop);
        }
        let node = self.node_mut(ino)?;
        match &mut node.body {
            Body::File(file) => file.sync(),
            Body::Directory(directory) => directory.sync_first(directory.held.len()),
            Body::Link(_) => {}
        }
        // The name it was made with, and that of its directory, and so on.
        let mut new = node.new_in.take().map(|parent| (parent, ino));
        while let Some((parent, ino)) = new {
            let Ok(directory) = self.directory_mut(parent) else {
                break;
            };
            let names_it = |renaming: &Renaming| renaming.iter().any(|(_, to)| *to == Some(ino));
            if let Some(first) = directory.held.iter().position(names_it) {
                directory.sync_first(first + 1);
            }
            new = (self.node_mut(parent).ok())
                .and_then(|node| node.new_in.take())
                .map(|above| (above, parent));
        }
        Ok(())
    }

    /// Does what sync(2) does, also on a disk that lies: it has time.
    pub(crate) fn sync_all(&mut self) {
        for node in self.nodes.values_mut() {
            match &mut node.body {
                Body::File(file) => file.sync(),
                Body::Directory(directory) => directory.sync_first(directory.held.len()),
                Body::Link(_) => {}
            }
            node.new_in = None;
        }
    }

    /// The power is lost and comes back: what programs see from now on is what was on the disk.
    pub(crate) fn cut(&mut self) -> Cut {
        let mut luck = Luck::new(&mut self.random);
        let mut met = Cut::default();
        for node in self.nodes.values_mut() {
            match &mut node.body {
                Body::File(file) => {
                    met.files += usize::from(file.is_held());
                    file.cut(&mut luck);
                }
                Body::Directory(directory) => {
                    met.directories += usize::from(!directory.held.is_empty());
                    let kept = luck.prefix(directory.held.len());
                    directory.sync_first(kept);
                    directory.held.clear();
                    directory.live = directory.disk.clone();
                }
                Body::Link(_) => {}
            }
            node.links = 0;
            node.new_in = None;
        }
        self.reach();
        met
    }

    /// Counts names from the root on; what has none is gone, unless it is open.
    fn reach(&mut self) {
        let mut to_do = vec![ROOT];
        if let Ok(root) = self.node_mut(ROOT) {
            root.links = 1;
        }
        while let Some(ino) = to_do.pop() {
            let Ok((names, _)) = self.list(ino) else {
                continue;
            };
            for child in names.values().copied().collect::<Vec<Ino>>() {
                let Ok(node) = self.node_mut(child) else {
                    continue;
                };
                node.links += 1;
                if matches!(node.body, Body::Directory(_)) {
                    to_do.push(child);
                }
            }
        }
        self.nodes
            .retain(|_, node| node.links > 0 || node.opens > 0);
    }

    /// Pages and inodes that take room.
    pub(crate) fn used(&self) -> (u64, u64) {
        let pages = self.nodes.values().map(|node| match &node.body {
            Body::File(file) => file.pages(),
            _ => 1,
        });
        (pages.sum(), self.nodes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOW: Maker = Maker {
        mode: 0o644,
        uid: 0,
        gid: 0,
        now: 0,
    };

    fn file(disk: &mut Disk, parent: Ino, name: &str) -> Ino {
        disk.make(parent, name.as_bytes(), Body::File(File::default()), HOW)
            .unwrap()
    }

    fn directory(disk: &mut Disk, parent: Ino, name: &str) -> Ino {
        let body = Body::Directory(Directory::default());
        disk.make(parent, name.as_bytes(), body, HOW).unwrap()
    }

    fn names(disk: &Disk, ino: Ino) -> String {
        let (names, _) = disk.list(ino).unwrap();
        let names: Vec<_> = names
            .keys()
            .map(|name| String::from_utf8_lossy(name))
            .collect();
        names.join(" ")
    }

    /// The root's names after the power was lost, for many seeds.
    fn outcomes(lies: bool, before: impl Fn(&mut Disk)) -> BTreeSet<String> {
        (0..1_000)
            .map(|seed| {
                let mut disk = Disk::new(seed, lies);
                before(&mut disk);
                disk.cut();
                names(&disk, ROOT)
            })
            .collect()
    }

    fn set(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|&one| one.to_owned()).collect()
    }

    #[test]
    fn names_come_in_order() {
        let found = outcomes(false, |disk| {
            for name in ["a", "b", "c"] {
                file(disk, ROOT, name);
            }
            disk.remove(ROOT, b"a", false).unwrap();
            disk.rename(ROOT, b"b", ROOT, b"c").unwrap();
        });
        assert_eq!(found, set(&["", "a", "a b", "a b c", "b c", "c"]));
    }

    #[test]
    fn a_synced_directory_has_its_names_and_a_synced_file_its_first_one() {
        let both = |disk: &mut Disk| (file(disk, ROOT, "a"), file(disk, ROOT, "b"));
        let found = outcomes(false, |disk| {
            both(disk);
            disk.sync(ROOT).unwrap();
            disk.remove(ROOT, b"b", false).unwrap();
        });
        assert_eq!(found, set(&["a", "a b"]));
        let found = outcomes(false, |disk| {
            let (a, _) = both(disk);
            disk.rename(ROOT, b"a", ROOT, b"c").unwrap();
            disk.sync(a).unwrap();
        });
        assert_eq!(found, set(&["a", "a b", "b c"]));
        // With the directories above it.
        let found = outcomes(false, |disk| {
            let above = directory(disk, ROOT, "above");
            let below = directory(disk, above, "below");
            let a = file(disk, below, "a");
            file(disk, ROOT, "b");
            disk.sync(a).unwrap();
        });
        assert_eq!(found, set(&["above", "above b"]));
    }

    #[test]
    fn a_rename_between_directories_is_whole() {
        for seed in 0..20 {
            let mut disk = Disk::new(seed, false);
            let other = directory(&mut disk, ROOT, "other");
            file(&mut disk, ROOT, "a");
            disk.rename(ROOT, b"a", other, b"b").unwrap();
            disk.cut();
            assert_eq!(
                (names(&disk, ROOT), names(&disk, other)),
                ("other".into(), "b".into())
            );
        }
    }

    #[test]
    fn a_disk_that_lies_forgets_what_was_synced() {
        let found = outcomes(true, |disk| {
            let a = file(disk, ROOT, "a");
            disk.sync(a).unwrap();
            disk.sync(ROOT).unwrap();
        });
        assert_eq!(found, set(&["", "a"]));
        let found = outcomes(true, |disk| {
            file(disk, ROOT, "a");
            disk.sync_all();
            file(disk, ROOT, "b");
        });
        assert_eq!(found, set(&["a", "a b"]));
    }

    #[test]
    fn what_nothing_leads_to_is_gone_unless_it_is_open() {
        let mut disk = Disk::new(1, false);
        let inner = directory(&mut disk, ROOT, "d");
        let kept = file(&mut disk, inner, "kept");
        let open = file(&mut disk, inner, "open");
        disk.sync(kept).unwrap();
        disk.sync(inner).unwrap();
        disk.opened(open).unwrap();
        disk.remove(inner, b"kept", false).unwrap();
        disk.remove(inner, b"open", false).unwrap();
        assert_eq!(disk.remove(ROOT, b"d", true), Ok(()));
        assert_eq!(disk.lookup(ROOT, b"d"), Err(Refusal::NotThere));
        disk.sync(ROOT).unwrap();
        disk.cut();
        assert!(disk.node(kept).is_err() && disk.node(inner).is_err());
        assert!(disk.node(open).is_ok());
        disk.closed(open);
        disk.cut();
        assert!(disk.node(open).is_err());
        for number in 0..10_000 {
            file(&mut disk, ROOT, "a");
            disk.remove(ROOT, b"a", false).unwrap();
            assert!(disk.nodes.len() <= MAX_HELD + 2 * SWEEP_AT, "{number}");
        }
    }
}
