//! Operations by path of random callers, beside changes of directories by number and lookups by path: each does what a
//! traversal and then the operation by number would have done, or is refused as they would have been.

use super::{Answer, Dir, FILES, Id, NAMES, Stage, Travel, Tree, World, callers, path_of};
use crate::support::name;
use pandofs_api::op::PathOperation;
use pandofs_api::{Above, NewNode, PathReply, Refusal, Reply, Request, op};
use pandofs_testkit::rng::Rng;
use pandofs_types::{Credentials, FileKind, FsError, Ino, NewMode, Position, ShardId};
use std::collections::{BTreeMap, BTreeSet};

/// The rights to read a directory, and to change what is in it.
const READ: u16 = 4;
const CHANGE: u16 = 3;

#[derive(Clone, Copy, Debug)]
enum What {
    Mkdir,
    Create,
    Unlink,
    Rmdir,
    Open,
    OpenOrMake,
    List,
    /// To this name, by root.
    Rename(&'static str),
}

/// An operation by path that is under way.
#[derive(Clone, Debug)]
pub(super) struct Operating {
    caller: Credentials,
    /// Of the directory.
    path: Vec<&'static str>,
    /// Of the other one of a rename.
    new_path: Vec<&'static str>,
    name: &'static str,
    what: What,
    /// Of what it makes.
    made: Id,
    ticket: u64,
    /// The first version of the tree that it may go by.
    since: usize,
}

#[derive(Default, Debug)]
pub(super) struct Outcomes {
    done: u32,
    refused: BTreeMap<String, u32>,
    while_changing: u32,
    undecided: u32,
    /// Renames to another directory.
    moved: u32,
}

impl Operating {
    /// The directories that the paths lead to.
    fn find(&self, tree: &Tree) -> Result<(Id, Id), FsError> {
        let find = |path: &[&'static str]| match tree.go(&self.caller, path) {
            Answer::Leads(id) if tree.dirs.contains_key(&id) => Ok(id),
            Answer::Leads(_) => Err(FsError::NotDir),
            Answer::Failed(error) => Err(error),
        };
        let dir = find(&self.path)?;
        Ok((dir, find(&self.new_path)?))
    }

    /// The answer that it gets in directories that were found.
    fn check(&self, tree: &Tree, (dir, new_dir): (Id, Id)) -> Result<(), FsError> {
        let at = tree.dirs.get(&dir).ok_or(FsError::NotFound)?;
        let may = |rights| {
            let (mode, uid, gid, access) = &at.condition;
            let owned = (*mode, *uid, *gid);
            let caller = &self.caller;
            match caller.may_by_acl(rights, FileKind::Dir, owned, access.as_ref()) {
                true => Ok(()),
                false => Err(FsError::Access),
            }
        };
        if let What::List = self.what {
            return may(READ);
        }
        may(1)?;
        let found = at.children.get(self.name).copied();
        match self.what {
            What::Mkdir | What::Create => match found {
                Some(_) => Err(FsError::Exists),
                None => may(CHANGE),
            },
            What::List => Ok(()),
            What::Open => found.map(|_| ()).ok_or(FsError::NotFound),
            What::OpenOrMake => match found {
                Some(_) => Ok(()),
                None => may(CHANGE),
            },
            What::Unlink | What::Rmdir | What::Rename(_) => {
                let (id, is_dir) = found.ok_or(FsError::NotFound)?;
                may(CHANGE)?;
                match self.what {
                    What::Unlink if is_dir => Err(FsError::IsDir),
                    What::Rmdir if !is_dir => Err(FsError::NotDir),
                    What::Rmdir if !tree.dirs[&id].children.is_empty() => Err(FsError::NotEmpty),
                    What::Rename(to) => {
                        let new = tree.dirs.get(&new_dir).ok_or(FsError::NotFound)?;
                        if is_dir && tree.contains(id, new_dir) {
                            return Err(FsError::Invalid);
                        }
                        match new.children.contains_key(to) {
                            true => Err(FsError::Exists),
                            false => Ok(()),
                        }
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Does it, without a look at rights.
    fn perform(&self, tree: &mut Tree, (dir, new_dir): (Id, Id)) {
        let condition = (0o755, self.caller.uid, self.caller.gid, None);
        let Some(at) = tree.dirs.get_mut(&dir) else {
            return;
        };
        match self.what {
            What::Mkdir => {
                at.children.insert(self.name, (self.made, true));
                let children = BTreeMap::new();
                let new = Dir {
                    condition,
                    children,
                };
                tree.dirs.insert(self.made, new);
            }
            What::Create => {
                at.children.insert(self.name, (self.made, false));
            }
            What::OpenOrMake => {
                at.children.entry(self.name).or_insert((self.made, false));
            }
            What::Unlink | What::Rmdir => {
                if let Some((id, _)) = at.children.remove(self.name) {
                    tree.dirs.remove(&id);
                }
            }
            What::Rename(to) => {
                if let Some(moved) = at.children.remove(self.name)
                    && let Some(new) = tree.dirs.get_mut(&new_dir)
                {
                    new.children.insert(to, moved);
                }
            }
            What::Open | What::List => {}
        }
    }

    fn changes_structure(&self) -> bool {
        !matches!(self.what, What::Open | What::List)
    }

    /// Whether it concerns what another change does: the outcome of both would depend on their order in more ways than
    /// the model follows.
    pub(super) fn conflicts(&self, before: &Tree, after: &Tree) -> bool {
        let root = Operating {
            caller: Credentials::ROOT,
            ..self.clone()
        };
        let found = [root.find(before), root.find(after)];
        if let [Ok(one), Ok(other)] = found
            && one != other
        {
            return true;
        }
        let changed = |id: &Id| {
            let children = |tree: &Tree| tree.dirs.get(id).map(|dir| dir.children.clone());
            children(before) != children(after)
        };
        let dirs = found.into_iter().flatten();
        let mut touched: BTreeSet<Id> = dirs.flat_map(|(dir, new)| [dir, new]).collect();
        for tree in [before, after] {
            let here = touched.iter().filter_map(|id| tree.dirs.get(id));
            let child = |dir: &Dir| dir.children.get(self.name).map(|(id, _)| *id);
            let children: Vec<Id> = here.filter_map(child).collect();
            touched.extend(children);
        }
        let is_structural = before.dirs.keys().chain(after.dirs.keys()).any(changed);
        match self.what {
            // Two renames may close a circle, of which one is refused.
            What::Rename(_) => is_structural,
            _ => touched.iter().any(changed),
        }
    }

    /// The request, and the shard that it goes to; `None` if two paths lead to two.
    fn request(&self, shard_of: impl Fn(&[u8]) -> ShardId) -> Option<(ShardId, Request)> {
        let (dir, name) = (op::ByPath::UNKNOWN, name(self.name));
        let mode = 0o755;
        let path = path_of(&self.path);
        let shard = shard_of(path.as_bytes());
        let mut new_path = None;
        let operation = match self.what {
            What::Mkdir => PathOperation::Mkdir(op::Mkdir {
                dir,
                name,
                mode,
                umask: 0,
            }),
            What::Create => PathOperation::Create(op::Create {
                dir,
                name,
                node: NewNode::File,
                mode: 0o644,
                umask: 0,
                open: false,
            }),
            What::Unlink => PathOperation::Unlink(op::Unlink { dir, name }),
            What::Rmdir => PathOperation::Rmdir(op::Rmdir { dir, name }),
            What::Open | What::OpenOrMake => PathOperation::OpenName(op::OpenName {
                dir,
                name,
                access: READ,
                create: matches!(self.what, What::OpenOrMake).then_some(NewMode {
                    mode: 0o644,
                    umask: 0,
                }),
            }),
            What::List => PathOperation::ReadDir(op::ReadDir {
                dir,
                from: Position::FIRST,
                plus: false,
                max_entries: 100,
                max_bytes: 10_000,
            }),
            What::Rename(to) => {
                let path = path_of(&self.new_path);
                if shard_of(path.as_bytes()) != shard {
                    return None;
                }
                new_path = Some(path);
                PathOperation::Rename(op::Rename {
                    dir,
                    name,
                    new_dir: dir,
                    new_name: crate::support::name(to),
                    new_shard: ShardId(0),
                    no_replace: true,
                    whiteout: false,
                })
            }
        };
        let request = Request::ByPath(op::ByPath {
            path,
            new_path,
            operation,
        });
        Some((shard, request))
    }
}

impl World {
    /// A path of a directory that is there, as a rule.
    fn existing(&self, rng: &mut Rng) -> Vec<&'static str> {
        let mut paths = vec![(Vec::new(), 0)];
        let mut at = 0;
        while let Some((path, id)) = paths.get(at).cloned() {
            let children = self.tree().dirs[&id].children.iter();
            let below = children.filter(|(_, (_, is_dir))| *is_dir);
            paths.extend(below.map(|(name, (id, _))| ([&path[..], &[*name]].concat(), *id)));
            at += 1;
        }
        match paths.len() == 1 || rng.chance(1, 8) {
            true => self.directory(rng),
            false => rng.pick(&paths[1..]).0.clone(),
        }
    }

    /// Begins an operation by path.
    pub(super) fn operate(&mut self, rng: &mut Rng) {
        let path = self.existing(rng);
        let new_name = *rng.pick(&NAMES);
        let what = match rng.below(12) {
            0 | 1 => What::Mkdir,
            2 | 3 => What::Create,
            4 => What::Unlink,
            5 => What::Rmdir,
            6 if rng.chance(1, 2) => What::Open,
            6 => What::OpenOrMake,
            7 => What::List,
            _ => What::Rename(new_name),
        };
        let is_about_file = match what {
            What::Mkdir | What::Rmdir => rng.chance(1, 8),
            What::Rename(_) => false,
            What::Create | What::OpenOrMake => true,
            _ => !rng.chance(1, 8),
        };
        let caller = match what {
            What::Rename(_) => Credentials::ROOT,
            _ if rng.chance(1, 3) => Credentials::ROOT,
            _ => rng.pick(&callers()).clone(),
        };
        let new_path = match what {
            What::Rename(_) if rng.chance(3, 4) => self.existing(rng),
            _ => path.clone(),
        };
        let names: &[&'static str] = if is_about_file { &FILES } else { &NAMES };
        let name = *rng.pick(names);
        let mut operating = Operating {
            caller,
            path,
            new_path,
            name,
            what,
            made: self.next_id,
            ticket: 0,
            since: self.versions.len() - 1,
        };
        if let Some((next, ..)) = &self.changing
            && operating.conflicts(self.tree(), next)
        {
            return;
        }
        let map = &self.net.cluster.map;
        let shard_of = |path: &[u8]| map.path_shard(path).unwrap();
        let Some((shard, request)) = operating.request(shard_of) else {
            return;
        };
        self.next_id += 1;
        let session = self.session();
        operating.ticket = self.net.post(session, &operating.caller, shard.0, request);
        self.operating = Some(operating);
    }

    /// The tree as the operation under way may leave it, made from one as it was before.
    pub(super) fn after_operation(&self, tree: &Tree) -> Option<Tree> {
        let operating = self.operating.as_ref()?;
        let changing = self.changing.as_ref().map(|(next, ..)| next);
        let mut versions = self.versions[operating.since..].iter().chain(changing);
        let dirs = versions.find_map(|version| operating.find(version).ok())?;
        let mut after = tree.clone();
        operating.perform(&mut after, dirs);
        Some(after)
    }

    /// Looks whether the operation by path has been answered.
    pub(super) fn operated(&mut self) {
        let Some(operating) = self.operating.take() else {
            return;
        };
        let Some(answer) = self.net.answers.remove(&operating.ticket) else {
            self.operating = Some(operating);
            return;
        };
        match &answer {
            Err(Refusal::TryAgain | Refusal::ByPath(PathReply::LeadsTo { .. })) => {
                self.outcomes.undecided += 1;
                return;
            }
            &Err(Refusal::ByPath(PathReply::Unknown { seen })) => {
                self.outcomes.undecided += 1;
                self.go_through(&operating.path, seen);
                if operating.new_path != operating.path {
                    self.go_through(&operating.new_path, seen);
                }
                return;
            }
            Err(Refusal::Fs(_)) | Ok(_) => {}
            Err(other) => panic!("{operating:?}: {other:?}"),
        }
        let changing = self.changing.as_ref().map(|(next, ..)| next);
        let versions: Vec<&Tree> = self.versions[operating.since..]
            .iter()
            .chain(changing)
            .collect();
        let mut expected = Vec::new();
        let mut fits = None;
        // The path is looked at before the name, as on a walk.
        for (at, before) in versions.iter().enumerate() {
            let found = operating.find(before);
            for after in &versions[at..] {
                let outcome = found.and_then(|dirs| operating.check(after, dirs));
                let agrees = match (&outcome, &answer) {
                    (Ok(()), Ok(reply)) => {
                        found.is_ok_and(|dirs| self.agrees(&operating, after, dirs.0, reply))
                    }
                    // Whether a name is taken and whether a directory would be in itself two shards say, in any order.
                    (Err(FsError::Invalid), Err(Refusal::Fs(FsError::Exists))) => true,
                    (Err(error), Err(Refusal::Fs(found))) => error == found,
                    _ => false,
                };
                if agrees {
                    fits = fits.or(Some(found));
                }
                expected.push(outcome);
            }
        }
        let Some(found) = fits else {
            panic!("{operating:?}: {answer:?}, not one of {expected:?}");
        };
        self.outcomes.while_changing += u32::from(self.changing.is_some());
        let reply = match answer {
            Ok(reply) => reply,
            Err(refusal) => {
                let refused = &mut self.outcomes.refused;
                *refused.entry(format!("{refusal:?}")).or_default() += 1;
                return;
            }
        };
        self.outcomes.done += 1;
        if !operating.changes_structure() {
            return;
        }
        let Ok(dirs) = found else {
            unreachable!("it was done where no path led");
        };
        if let (What::Mkdir | What::Create | What::OpenOrMake, Reply::Entry(entry)) =
            (operating.what, &reply)
        {
            self.inos.insert(operating.made, entry.ino);
        }
        self.outcomes.moved += u32::from(dirs.0 != dirs.1);
        let mut now = self.tree().clone();
        operating.perform(&mut now, dirs);
        if let Some((next, ..)) = &mut self.changing {
            // Lookups that are answered at the same time may have been before it.
            self.versions.push(next.clone());
            operating.perform(next, dirs);
        }
        self.versions.push(now);
    }

    /// Has a path kept that was not known.
    fn go_through(&mut self, path: &[&'static str], seen: u64) {
        let (at, level, above) = (Ino::ROOT, 0, Above::default());
        let session = self.session();
        let attributes = Request::GetAttr(op::GetAttr { ino: at });
        let ticket = self.net.ask(session, &Credentials::ROOT, 0, attributes);
        self.travels.push(Travel {
            caller: Credentials::ROOT,
            path: [path, &[FILES[0]]].concat(),
            ticket,
            since: self.versions.len() - 1,
            stage: Stage::Attributes {
                at,
                level,
                above,
                seen,
            },
        });
    }

    fn agrees(&self, operating: &Operating, tree: &Tree, dir: Id, reply: &Reply) -> bool {
        let children = &tree.dirs[&dir].children;
        match (operating.what, reply) {
            (What::List, Reply::Entries(listed)) => {
                let mut names: Vec<String> =
                    listed.entries.iter().map(|e| e.name.to_string()).collect();
                names.sort();
                let expected = children.keys();
                names.iter().map(String::as_str).eq(expected.copied())
            }
            (What::OpenOrMake, Reply::Entry(entry)) if !children.contains_key(operating.name) => {
                entry.inode.is_some()
            }
            (What::Open | What::OpenOrMake, Reply::Entry(entry)) => {
                let (id, is_dir) = children[operating.name];
                let is_opened = entry.inode.is_some();
                is_opened != is_dir && self.inos.get(&id).is_none_or(|ino| *ino == entry.ino)
            }
            (What::Mkdir | What::Create, Reply::Entry(_))
            | (What::Unlink | What::Rmdir, Reply::Removed { .. })
            | (What::Rename(_), Reply::Renamed { .. }) => true,
            _ => false,
        }
    }

    /// Has everything come to its end, and compares all directories with the model's.
    fn check_all(&mut self, rng: &mut Rng) {
        while self.changing.is_some() || self.operating.is_some() {
            self.net.advance(rng);
            self.changed();
            self.operated();
        }
        for (id, dir) in self.tree().dirs.clone() {
            let ino = self.inos[&id];
            let list = Request::ReadDir(op::ReadDir {
                dir: ino,
                from: Position::FIRST,
                plus: false,
                max_entries: 100,
                max_bytes: 10_000,
            });
            let session = self.session();
            let shard = ino.birth_shard().0;
            let ticket = self.net.ask(session, &Credentials::ROOT, shard, list);
            let Ok(Reply::Entries(listed)) = self.net.finish(rng, ticket) else {
                panic!("directory {ino} is not listed");
            };
            let listed: BTreeMap<String, _> = listed
                .entries
                .iter()
                .map(|entry| (entry.name.to_string(), entry.ino))
                .collect();
            let expected: BTreeMap<String, _> = dir
                .children
                .iter()
                .map(|(name, (id, _))| ((*name).to_string(), self.inos[id]))
                .collect();
            assert_eq!(listed, expected, "directory {ino}");
        }
    }
}

#[test]
fn an_operation_by_path_is_a_traversal_and_the_operation_by_number() {
    let mut all = Outcomes::default();
    for seed in 0..40 {
        let mut rng = Rng::new(1_000 + seed);
        let mut world = World::new();
        world.is_calm = true;
        for _ in 0..3_000 {
            if world.operating.is_none() && rng.chance(1, 8) {
                world.operate(&mut rng);
                world.operated();
            }
            world.step(&mut rng);
        }
        world.check_all(&mut rng);
        let outcomes = std::mem::take(&mut world.outcomes);
        all.done += outcomes.done;
        all.while_changing += outcomes.while_changing;
        all.undecided += outcomes.undecided;
        all.moved += outcomes.moved;
        for (refusal, count) in outcomes.refused {
            *all.refused.entry(refusal).or_default() += count;
        }
    }
    let least = [all.done, all.while_changing, all.undecided];
    assert!(least.iter().all(|&count| count > 100), "{all:?}");
    assert!(all.moved > 15, "{all:?}");
    // Those of rights, of names that are taken or missing, and of kinds.
    assert!(all.refused.len() >= 6, "{all:?}");
}
