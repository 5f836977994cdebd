//! Requests by path against the traversal: random trees, callers and changes of directories, whose messages come in any
//! order. Whenever a shard answers a request by path, the answer is what a traversal would have found at one moment while
//! it was under way.

mod operations;

use super::{Net, SHARDS, by_path};
use crate::support::{create_file, name};
use operations::{Operating, Outcomes};
use pandofs_api::op::PathOperation;
use pandofs_api::{
    Above, PathName, PathReply, Refusal, Reply, Request, SearchCondition, XattrMode, op,
};
use pandofs_testkit::rng::Rng;
use pandofs_types::acl::ACCESS_ACL;
use pandofs_types::{Acl, AclEntry, Acls, Credentials, FileKind, FsError, Ino, SetAttr};
use std::collections::{BTreeMap, HashMap};

const NAMES: [&str; 3] = ["a", "b", "c"];
const FILES: [&str; 2] = ["f", "g"];

/// A directory or file of the model, known by a number that is not its inode's.
type Id = usize;

#[derive(Clone, Debug)]
struct Dir {
    condition: (u16, u32, u32, Option<Acl>),
    children: BTreeMap<&'static str, (Id, bool)>,
}

/// The tree as a traversal sees it.
#[derive(Clone, Debug)]
struct Tree {
    dirs: BTreeMap<Id, Dir>,
}

#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Leads(Id),
    Failed(FsError),
}

impl Tree {
    fn take_child(&mut self, dir: Id, name: &str) -> (Id, bool) {
        let children = &mut self.dirs.get_mut(&dir).unwrap().children;
        children.remove(name).unwrap()
    }

    fn search(&self, dir: Id, caller: &Credentials) -> bool {
        let (mode, uid, gid, access) = self.dirs[&dir].condition.clone();
        let kind = FileKind::Dir;
        caller.may_by_acl(1, kind, (mode, uid, gid), access.as_ref())
    }

    fn go(&self, caller: &Credentials, path: &[&'static str]) -> Answer {
        let mut at = 0;
        for (level, part) in path.iter().enumerate() {
            if !self.dirs.contains_key(&at) {
                return Answer::Failed(FsError::NotDir);
            }
            if !self.search(at, caller) {
                return Answer::Failed(FsError::Access);
            }
            match self.dirs[&at].children.get(part) {
                None => return Answer::Failed(FsError::NotFound),
                Some((_, false)) if level + 1 < path.len() => {
                    return Answer::Failed(FsError::NotDir);
                }
                Some((id, _)) => at = *id,
            }
        }
        Answer::Leads(at)
    }

    fn contains(&self, dir: Id, other: Id) -> bool {
        dir == other
            || self.dirs[&dir]
                .children
                .values()
                .any(|&(child, is_dir)| is_dir && self.contains(child, other))
    }
}

/// A request by path that has not come to its end.
struct Travel {
    caller: Credentials,
    path: Vec<&'static str>,
    ticket: u64,
    /// The first version of the tree that it may tell of.
    since: usize,
    stage: Stage,
}

enum Stage {
    ByPath,
    /// Goes through the directories, to have the path kept.
    Attributes {
        at: Ino,
        level: usize,
        above: Above,
        seen: u64,
    },
    AccessList {
        at: Ino,
        level: usize,
        above: Above,
        seen: u64,
        attr: (u16, u32, u32),
    },
    Entry {
        level: usize,
        above: Above,
        seen: u64,
    },
    Keep,
}

#[derive(Default, Debug)]
struct Counts {
    answered: u32,
    while_changing: u32,
    unknown: u32,
    led_on: u32,
    refused: u32,
    waited: u32,
}

struct World {
    net: Net,
    versions: Vec<Tree>,
    /// The next version, and the request that makes it.
    changing: Option<(Tree, u64, u16, Request)>,
    inos: HashMap<Id, Ino>,
    made: Option<Id>,
    next_id: Id,
    travels: Vec<Travel>,
    sessions: u64,
    counts: Counts,
    /// Beside the change by number.
    operating: Option<Operating>,
    /// Less happens at a time, so that more paths are known.
    is_calm: bool,
    outcomes: Outcomes,
}

fn path_of(parts: &[&str]) -> PathName {
    let join = |path: PathName, part: &&str| path.join(&name(part)).unwrap();
    parts.iter().fold(PathName::ROOT, join)
}

fn callers() -> Vec<Credentials> {
    vec![
        Credentials::ROOT,
        Credentials::user(1, 1, vec![]),
        Credentials::user(2, 2, vec![1]),
        Credentials::user(3, 3, vec![]),
    ]
}

impl World {
    fn new() -> World {
        let root = Dir {
            condition: (0o755, 0, 0, None),
            children: BTreeMap::new(),
        };
        World {
            net: Net::new(),
            versions: vec![Tree {
                dirs: BTreeMap::from([(0, root)]),
            }],
            changing: None,
            inos: HashMap::from([(0, Ino::ROOT)]),
            made: None,
            next_id: 1,
            travels: Vec::new(),
            sessions: 1_000,
            counts: Counts::default(),
            operating: None,
            is_calm: false,
            outcomes: Outcomes::default(),
        }
    }

    fn tree(&self) -> &Tree {
        self.versions.last().unwrap()
    }

    fn session(&mut self) -> u64 {
        self.sessions += 1;
        self.sessions
    }

    /// Begins a random change of the tree.
    fn change(&mut self, rng: &mut Rng) {
        let tree = self.tree().clone();
        let dirs: Vec<Id> = tree.dirs.keys().copied().collect();
        let dir = *rng.pick(&dirs);
        let ino = self.inos[&dir];
        let mut next = tree.clone();
        let taken = |names: &[&'static str]| -> Vec<&'static str> {
            let children = &tree.dirs[&dir].children;
            names
                .iter()
                .copied()
                .filter(|name| children.contains_key(name))
                .collect()
        };
        let made = self.next_id;
        let mut makes = false;
        let request = match rng.below(12) {
            0..=3 => {
                let new = *rng.pick(&NAMES);
                if tree.dirs[&dir].children.contains_key(new) {
                    return;
                }
                makes = true;
                let condition = (0o755, 0, 0, None);
                let children = BTreeMap::new();
                next.dirs.insert(
                    made,
                    Dir {
                        condition,
                        children,
                    },
                );
                next.dirs
                    .get_mut(&dir)
                    .unwrap()
                    .children
                    .insert(new, (made, true));
                Request::Mkdir(op::Mkdir {
                    dir: ino,
                    name: name(new),
                    mode: 0o755,
                    umask: 0,
                })
            }
            4 => {
                let new = *rng.pick(&FILES);
                if tree.dirs[&dir].children.contains_key(new) {
                    return;
                }
                makes = true;
                next.dirs
                    .get_mut(&dir)
                    .unwrap()
                    .children
                    .insert(new, (made, false));
                create_file(ino, name(new))
            }
            5 | 6 => {
                let mode = *rng.pick(&[0o755, 0o700, 0o711, 0o070, 0o007, 0o775]);
                let condition = &mut next.dirs.get_mut(&dir).unwrap().condition;
                condition.0 = mode;
                if let Some(acl) = &mut condition.3 {
                    let mut acls = Acls {
                        access: Some(Box::new(acl.clone())),
                        default: None,
                    };
                    acls.chmod(mode);
                    *acl = *acls.access.unwrap();
                }
                let set = SetAttr {
                    mode: Some(mode),
                    ..SetAttr::default()
                };
                Request::SetAttr(op::SetAttr { ino, set })
            }
            7 => {
                let uid = rng.below(4) as u32;
                next.dirs.get_mut(&dir).unwrap().condition.1 = uid;
                let set = SetAttr {
                    uid: Some(uid),
                    ..SetAttr::default()
                };
                Request::SetAttr(op::SetAttr { ino, set })
            }
            8 => {
                let acl = Acl {
                    owner: 7,
                    group: 0,
                    other: rng.below(2) as u8,
                    mask: Some(rng.below(2) as u8),
                    users: vec![AclEntry {
                        id: 3,
                        rights: rng.below(2) as u8,
                    }],
                    groups: vec![],
                };
                let condition = &mut next.dirs.get_mut(&dir).unwrap().condition;
                condition.0 = acl.permissions();
                condition.3 = Some(acl.clone());
                Request::SetXattr(op::SetXattr {
                    ino,
                    name: ACCESS_ACL.to_vec(),
                    value: acl.to_xattr(),
                    mode: XattrMode::Either,
                })
            }
            9 | 10 => {
                let Some(&old) = taken(&NAMES).first() else {
                    return;
                };
                let (moved, _) = tree.dirs[&dir].children[old];
                let to = *rng.pick(&dirs);
                let new = *rng.pick(&NAMES);
                if tree.contains(moved, to) || tree.dirs[&to].children.contains_key(new) {
                    return;
                }
                let entry = next.take_child(dir, old);
                next.dirs.get_mut(&to).unwrap().children.insert(new, entry);
                let new_dir = self.inos[&to];
                Request::Rename(op::Rename {
                    dir: ino,
                    name: name(old),
                    new_dir,
                    new_name: name(new),
                    new_shard: new_dir.birth_shard(),
                    no_replace: false,
                    whiteout: false,
                })
            }
            _ => {
                let exchanged = taken(&NAMES);
                if let [one, other, ..] = exchanged[..]
                    && rng.chance(1, 2)
                {
                    let children = &mut next.dirs.get_mut(&dir).unwrap().children;
                    let (first, second) = (children[one], children[other]);
                    children.insert(one, second);
                    children.insert(other, first);
                    Request::Exchange(op::Exchange {
                        dir: ino,
                        name: name(one),
                        new_dir: ino,
                        new_name: name(other),
                        new_shard: ino.birth_shard(),
                    })
                } else {
                    let is_empty = |name: &&&str| {
                        let (child, _) = tree.dirs[&dir].children[**name];
                        tree.dirs[&child].children.is_empty()
                    };
                    let Some(&old) = exchanged.iter().find(is_empty) else {
                        return;
                    };
                    let (gone, _) = next.take_child(dir, old);
                    next.dirs.remove(&gone);
                    Request::Rmdir(op::Rmdir {
                        dir: ino,
                        name: name(old),
                    })
                }
            }
        };
        if let Some(operating) = &self.operating
            && operating.conflicts(&tree, &next)
        {
            return;
        }
        if makes {
            self.next_id += 1;
            self.made = Some(made);
        }
        let shard = ino.birth_shard().0;
        let session = self.session();
        let ticket = self
            .net
            .ask(session, &Credentials::ROOT, shard, request.clone());
        self.changing = Some((next, ticket, shard, request));
    }

    /// Looks whether the change has been answered.
    fn changed(&mut self) {
        let Some((next, ticket, shard, request)) = self.changing.take() else {
            return;
        };
        match self.net.answers.remove(&ticket) {
            None => self.changing = Some((next, ticket, shard, request)),
            Some(Err(Refusal::TryAgain)) => {
                let session = self.session();
                let ticket = self
                    .net
                    .ask(session, &Credentials::ROOT, shard, request.clone());
                self.changing = Some((next, ticket, shard, request));
            }
            Some(Ok(reply)) => {
                if let (Some(id), Reply::Entry(entry)) = (self.made.take(), reply) {
                    self.inos.insert(id, entry.ino);
                }
                // A lookup that is answered at the same time may have been before it.
                let after = self.after_operation(self.tree());
                self.versions.extend(after);
                self.versions.push(next);
            }
            Some(other) => panic!("{request:?}: {other:?}"),
        }
    }

    /// A path of a directory that is there, or may be.
    fn directory(&self, rng: &mut Rng) -> Vec<&'static str> {
        // Most go where something is, or was.
        let depth = 1 + rng.below(4) as usize;
        let mut path: Vec<&'static str> = Vec::new();
        let mut at = Some(0);
        for _ in 0..depth {
            let children: Vec<&'static str> = at
                .and_then(|at| self.tree().dirs.get(&at))
                .map(|dir| {
                    dir.children
                        .keys()
                        .copied()
                        .filter(|n| NAMES.contains(n))
                        .collect()
                })
                .unwrap_or_default();
            let next = match children.is_empty() || rng.chance(1, 8) {
                true => *rng.pick(&NAMES),
                false => *rng.pick(&children),
            };
            at = at
                .and_then(|at| self.tree().dirs.get(&at)?.children.get(next))
                .map(|(id, _)| *id);
            path.push(next);
        }
        path
    }

    fn travel(&mut self, rng: &mut Rng) {
        let mut path = self.directory(rng);
        let last = match rng.chance(1, 2) {
            true => *rng.pick(&FILES),
            false => *rng.pick(&NAMES),
        };
        let caller = rng.pick(&callers()).clone();
        let dir = path_of(&path);
        path.push(last);
        let shard = self.net.cluster.map.path_shard(dir.as_bytes()).unwrap();
        let lookup = PathOperation::Lookup(op::Lookup {
            dir: op::ByPath::UNKNOWN,
            name: name(last),
        });
        let session = self.session();
        let since = self.versions.len() - 1;
        let ticket = self
            .net
            .ask(session, &caller, shard.0, by_path(&dir, lookup));
        self.counts.waited += u32::from(!self.net.answers.contains_key(&ticket));
        self.travels.push(Travel {
            caller,
            path,
            ticket,
            since,
            stage: Stage::ByPath,
        });
    }

    /// A request by path was answered: it has to be what a traversal finds in one of the versions.
    fn judge(&mut self, travel: &Travel, found: &Result<Reply, Refusal>) {
        let changing = self.changing.as_ref().map(|(next, ..)| next);
        let versions = self.versions[travel.since..].iter().chain(changing);
        let mut versions: Vec<Tree> = versions.cloned().collect();
        let after = versions
            .iter()
            .filter_map(|tree| self.after_operation(tree));
        versions.extend(after.collect::<Vec<_>>());
        let expected: Vec<Answer> = versions
            .iter()
            .map(|tree| tree.go(&travel.caller, &travel.path))
            .collect();
        let fits = expected.iter().any(|answer| match (answer, found) {
            (Answer::Leads(id), Ok(Reply::Entry(entry))) => match self.inos.get(id) {
                Some(ino) => *ino == entry.ino,
                None => !self.inos.values().any(|ino| *ino == entry.ino),
            },
            (Answer::Failed(error), Err(Refusal::Fs(found))) => error == found,
            _ => false,
        });
        assert!(
            fits,
            "{:?} of {:?}: {found:?}, not one of {expected:?}",
            travel.caller, travel.path
        );
        self.counts.answered += 1;
        self.counts.while_changing += u32::from(changing.is_some());
        self.counts.refused += u32::from(matches!(found, Err(Refusal::Fs(FsError::Access))));
    }

    /// Goes on with a request by path whose answer is there.
    fn go_on(&mut self, at: usize) {
        let Some(answer) = self.net.answers.remove(&self.travels[at].ticket) else {
            return;
        };
        let mut travel = self.travels.swap_remove(at);
        let dirs = travel.path[..travel.path.len() - 1].to_vec();
        let root = Credentials::ROOT;
        let attributes = |at: Ino| Request::GetAttr(op::GetAttr { ino: at });
        let (shard, request, stage) = match (travel.stage, answer) {
            (_, Err(Refusal::TryAgain)) => return,
            (Stage::ByPath, Err(Refusal::ByPath(PathReply::Unknown { seen }))) => {
                self.counts.unknown += 1;
                let (at, level, above) = (Ino::ROOT, 0, Above::default());
                let stage = Stage::Attributes {
                    at,
                    level,
                    above,
                    seen,
                };
                (0, attributes(at), stage)
            }
            (Stage::ByPath, Err(Refusal::ByPath(PathReply::LeadsTo { dir, .. }))) => {
                self.counts.led_on += 1;
                let fits = |tree: &Tree| match tree.go(&travel.caller, &dirs) {
                    Answer::Leads(id) => self.inos.get(&id).is_none_or(|ino| *ino == dir),
                    Answer::Failed(_) => false,
                };
                let changing = self.changing.as_ref().map(|(next, ..)| next);
                // A path may lead to one that is removed: the shard that is asked for something in it says so.
                let is_gone = !self
                    .tree()
                    .dirs
                    .keys()
                    .any(|id| self.inos.get(id) == Some(&dir));
                let mut versions = self.versions[travel.since..].iter().chain(changing);
                assert!(
                    is_gone || versions.any(fits),
                    "{:?} leads to {dir}",
                    travel.path
                );
                return;
            }
            (Stage::ByPath, found) => {
                travel.stage = Stage::ByPath;
                return self.judge(&travel, &found);
            }
            (
                Stage::Attributes {
                    at,
                    level,
                    above,
                    seen,
                },
                Ok(Reply::Inode(inode)),
            ) => {
                let attr = (inode.attr.mode, inode.attr.uid, inode.attr.gid);
                let list = Request::GetXattr(op::GetXattr {
                    ino: at,
                    name: ACCESS_ACL.to_vec(),
                });
                let stage = Stage::AccessList {
                    at,
                    level,
                    above,
                    seen,
                    attr,
                };
                (at.birth_shard().0, list, stage)
            }
            (
                Stage::AccessList {
                    at,
                    level,
                    above,
                    seen,
                    attr,
                },
                found,
            ) => {
                let access = match found {
                    Ok(Reply::Value(value)) => Acl::from_xattr(&value).unwrap().map(Box::new),
                    _ => None,
                };
                let acls = Acls {
                    access,
                    default: None,
                };
                let condition = SearchCondition::of(attr.0, attr.1, attr.2, &acls);
                let above = above.below(at, condition).unwrap();
                let lookup = op::Lookup {
                    dir: at,
                    name: name(dirs[level]),
                };
                let stage = Stage::Entry {
                    level: level + 1,
                    above,
                    seen,
                };
                (at.birth_shard().0, Request::Lookup(lookup), stage)
            }
            (Stage::Entry { level, above, seen }, Ok(Reply::Entry(entry))) => {
                let at = entry.ino;
                if entry.kind != FileKind::Dir {
                    return;
                }
                if level < dirs.len() {
                    let stage = Stage::Attributes {
                        at,
                        level,
                        above,
                        seen,
                    };
                    (at.birth_shard().0, attributes(at), stage)
                } else {
                    let path = path_of(&dirs);
                    let shard = self.net.cluster.map.path_shard(path.as_bytes()).unwrap();
                    let keep = op::KeepPath {
                        path,
                        dir: at,
                        above,
                        seen,
                    };
                    (shard.0, Request::KeepPath(keep), Stage::Keep)
                }
            }
            _ => return,
        };
        let session = self.session();
        travel.ticket = self.net.ask(session, &root, shard, request);
        travel.stage = stage;
        self.travels.push(travel);
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(10) {
            0 if self.changing.is_none() && (!self.is_calm || rng.chance(1, 10)) => {
                self.change(rng)
            }
            1 | 2 if !self.is_calm || rng.chance(1, 6) => self.travel(rng),
            3 | 4 if !self.travels.is_empty() => {
                let at = rng.below(self.travels.len() as u64) as usize;
                self.go_on(at);
            }
            _ => self.net.advance(rng),
        }
        // An answer counts from when it is there.
        self.changed();
        self.operated();
        for at in (0..self.travels.len()).rev() {
            if self.is_calm || matches!(self.travels[at].stage, Stage::ByPath) {
                self.go_on(at);
            }
        }
    }
}

#[test]
fn a_path_is_answered_as_a_traversal_would_at_one_moment() {
    let mut all = Counts::default();
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut world = World::new();
        for _ in 0..1_500 {
            world.step(&mut rng);
        }
        let counts = &world.counts;
        all.answered += counts.answered;
        all.while_changing += counts.while_changing;
        all.unknown += counts.unknown;
        all.led_on += counts.led_on;
        all.refused += counts.refused;
        all.waited += counts.waited;
    }
    // So the cases are met that this is about.
    let Counts {
        answered,
        while_changing,
        unknown,
        led_on,
        refused,
        waited,
    } = all;
    let least = [answered, while_changing, unknown, led_on, refused, waited];
    assert!(least.iter().all(|&count| count > 50), "{all:?}");
}

/// Replay: what shards keep of paths follows from their records.
#[test]
fn paths_are_replayed() {
    let mut rng = Rng::new(3);
    let mut world = World::new();
    for _ in 0..1_500 {
        world.step(&mut rng);
    }
    for shard in 0..SHARDS {
        let [stored, replayed] = world.net.cluster.stored_and_replayed(shard);
        assert!(stored == replayed, "shard {shard}");
    }
}
