//! An operation as a sequence of requests: the way down each path, then what it is about.

pub(crate) mod data;

use crate::history::XATTRS;
use crate::scenario::{Op, Path, User};
use data::DataJob;
use pandofs_api::{NewNode, Reply, Request, op};
use pandofs_session::{KnownPlaces, Target};
use pandofs_types::{
    Credentials, FileKind, FileLock, FsError, HashKey, Ino, LockKind, LockMode, LockRange, Name,
    Position, SetAttr, SetTime, ShardId, Time,
};

/// Entries of one page: listings go over many.
const PAGE_ENTRIES: u32 = 3;
const PAGE_BYTES: u32 = 1 << 16;
/// Length of the value of an extended attribute.
const VALUE_BYTES: usize = 3;
/// Time that a request for a lock waits: its answer is there before the client takes it for lost.
const LOCK_WAIT_MS: u32 = 100;

/// Next step of a job.
#[derive(Debug)]
pub(crate) enum Next {
    Ask(Target, Request),
    /// It is about contents, and goes on as this.
    Data(Box<DataJob>),
    Done(String),
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Job {
    op: Op,
    by: User,
    hash_key: HashKey,
    /// The names still to go down, of each path.
    ways: Vec<Vec<Name>>,
    /// Inodes to which the way has led so far, for each path.
    found: Vec<Ino>,
    /// The last names, of paths whose parent is wanted.
    last: Vec<Name>,
    state: State,
    /// Position at which a listing goes on.
    from: Position,
    /// The open file that it is about.
    held: Option<Ino>,
    owner: u64,
    /// The lock was tried for, and somebody else's is in the way.
    has_tried: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is asked.
    Ready,
    /// Finds out whether a name leads to a directory.
    Walking,
    Acting,
}

fn names(path: &Path) -> Vec<Name> {
    let name = |part: &String| Name::new(part.as_bytes()).expect("scenarios have proper names");
    path.0.iter().map(name).collect()
}

impl Job {
    /// `held`: what is open; `owner`: whose locks it sets, nobody else's at the same time.
    pub(crate) fn new((by, op): (User, Op), hash_key: HashKey, held: &[Ino], owner: u64) -> Job {
        let (whole, parents): (Vec<&Path>, Vec<&Path>) = match &op {
            Op::Create(path) | Op::Mkdir(path) | Op::Unlink(path) | Op::Rmdir(path) => {
                (vec![], vec![path])
            }
            Op::Link(file, path) => (vec![file], vec![path]),
            Op::Rename { from, to, .. } | Op::Exchange(from, to) => (vec![], vec![from, to]),
            other => (other.paths(), vec![]),
        };
        let held = match op {
            Op::StatOpen(place)
            | Op::WriteOpen(place)
            | Op::Lock { place, .. }
            | Op::Unlock { place, .. }
                if !held.is_empty() =>
            {
                Some(held[place % held.len()])
            }
            _ => None,
        };
        let mut ways: Vec<Vec<Name>> = whole.into_iter().map(names).collect();
        let mut last = Vec::new();
        for path in parents {
            let mut way = names(path);
            last.push(way.pop().expect("the root has no name"));
            ways.push(way);
        }
        for way in &mut ways {
            way.reverse();
        }
        Job {
            found: vec![Ino::ROOT; ways.len()],
            op,
            by,
            hash_key,
            ways,
            last,
            state: State::Ready,
            from: Position::FIRST,
            held,
            owner,
            has_tried: false,
        }
    }

    /// In whose name it is done.
    pub(crate) fn caller(&self) -> Credentials {
        self.by.credentials()
    }

    /// Which of the open files it closes, as soon as it begins.
    pub(crate) fn closes(&self) -> Option<usize> {
        match self.op {
            Op::Close(place) => Some(place),
            _ => None,
        }
    }

    /// Returns the inode that it is about to sync, or is syncing.
    pub(crate) fn syncs(&self) -> Option<Ino> {
        match self.op {
            Op::Sync(_) if self.state == State::Acting => self.found.first().copied(),
            _ => None,
        }
    }

    /// Takes the answer to what was asked last, and goes on.
    pub(crate) fn next(
        &mut self,
        result: Option<Result<Reply, FsError>>,
        places: &dyn KnownPlaces,
    ) -> Next {
        let reply = match result {
            // A lock of `flock()` that was to be changed is given up by trying, and known to be before it is waited for.
            Some(Err(FsError::WouldBlock | FsError::Interrupted))
                if matches!(self.op, Op::Lock { waits: true, .. }) && !self.has_tried =>
            {
                self.has_tried = true;
                None
            }
            Some(Err(error)) => return Next::Done(format!("{error:?}")),
            Some(Ok(reply)) => Some(reply),
            None => None,
        };
        match (self.state, reply) {
            (State::Walking, Some(Reply::Entry(entry))) => {
                let way = self.ways.iter().position(|way| !way.is_empty());
                let way = way.expect("a way was gone");
                self.ways[way].pop();
                self.found[way] = entry.ino;
                let goes_on = !self.ways[way].is_empty() || self.wants_directory(way);
                if goes_on && entry.kind != FileKind::Dir {
                    return Next::Done("NotDir".to_owned());
                }
                // Directories are not kept because somebody has them open.
                let opens = DataJob::of(&self.op, entry.ino).is_some()
                    || matches!(self.op, Op::Open { .. });
                if opens && !goes_on && entry.kind != FileKind::File {
                    return Next::Done("no file".to_owned());
                }
            }
            (State::Acting, Some(Reply::Entries(page))) if page.next < Position::END => {
                assert!(page.next > self.from, "a listing goes on where it was");
                self.from = page.next;
            }
            (State::Acting, Some(reply)) => return Next::Done(short(&reply)),
            (State::Walking, Some(other)) => return Next::Done(format!("answered {other:?}")),
            (_, None) | (State::Ready, _) => {}
        }
        let walks = self.ways.iter().position(|way| !way.is_empty());
        if let Some(walks) = walks
            && let Some(name) = self.ways[walks].last().cloned()
        {
            self.state = State::Walking;
            let dir = self.found[walks];
            return Next::Ask(
                self.place(dir, &name),
                Request::Lookup(op::Lookup { dir, name }),
            );
        }
        self.act(places)
    }

    /// Returns whether the path with this number leads to a directory in which something is to be done.
    fn wants_directory(&self, way: usize) -> bool {
        match &self.op {
            Op::List(_) => true,
            Op::Link(..) => way == 1,
            Op::Lookup(_)
            | Op::Stat(_)
            | Op::Chmod(..)
            | Op::Chown { .. }
            | Op::SetXattr { .. }
            | Op::RemoveXattr(..)
            | Op::GetXattr(..)
            | Op::ListXattr(_)
            | Op::Truncate(..)
            | Op::Write { .. }
            | Op::Utimens(..)
            | Op::Stripe(_)
            | Op::Open { .. }
            | Op::Close(_)
            | Op::StatOpen(_)
            | Op::WriteOpen(_)
            | Op::Lock { .. }
            | Op::Unlock { .. }
            | Op::ReadData(_)
            | Op::WriteData { .. }
            | Op::TruncateData(..)
            | Op::SyncData(_)
            | Op::Sync(_) => false,
            _ => true,
        }
    }

    fn place(&self, dir: Ino, name: &Name) -> Target {
        Target::Name {
            dir,
            position: self.hash_key.position(name.as_bytes()),
        }
    }

    fn act(&mut self, places: &dyn KnownPlaces) -> Next {
        self.state = State::Acting;
        let found = match (self.found.first(), self.held) {
            (Some(&found), _) => found,
            (None, Some(held)) => held,
            (None, None) => return Next::Done("of what is open".to_owned()),
        };
        if let Some(job) = DataJob::of(&self.op, found) {
            return Next::Data(Box::new(job));
        }
        let request = match &self.op {
            Op::ReadData(_) | Op::WriteData { .. } | Op::TruncateData(..) | Op::SyncData(_) => {
                unreachable!("they are jobs on contents")
            }
            Op::Open { truncate, .. } => Request::Open(op::Open {
                ino: found,
                access: 6,
                truncate: *truncate,
                data: false,
            }),
            Op::Close(_) => return Next::Done("closed".to_owned()),
            Op::StatOpen(_) | Op::Stat(_) => Request::GetAttr(op::GetAttr { ino: found }),
            Op::Lock {
                kind,
                is_exclusive,
                range,
                ..
            } => Request::SetLock(op::SetLock {
                ino: found,
                lock: FileLock {
                    kind: *kind,
                    owner: self.owner,
                    pid: 1,
                    mode: if *is_exclusive {
                        LockMode::Exclusive
                    } else {
                        LockMode::Shared
                    },
                    range: ranged(*kind, *range),
                },
                blocking: self.has_tried,
                wait_ms: if self.has_tried { LOCK_WAIT_MS } else { 0 },
            }),
            Op::Unlock { kind, range, .. } => Request::Unlock(op::Unlock {
                ino: found,
                kind: *kind,
                owner: self.owner,
                range: ranged(*kind, *range),
            }),
            Op::WriteOpen(_) => Request::WriteInline(op::WriteInline {
                ino: found,
                offset: 0,
                data: vec![1; 10],
            }),
            Op::Lookup(_) => return Next::Done(format!("{found}")),
            Op::Create(_) => Request::Create(op::Create {
                dir: found,
                name: self.last[0].clone(),
                node: NewNode::File,
                mode: 0o666,
                umask: self.by.umask(),
                open: false,
            }),
            Op::Mkdir(_) => Request::Mkdir(op::Mkdir {
                dir: found,
                name: self.last[0].clone(),
                mode: 0o777,
                umask: self.by.umask(),
            }),
            Op::Unlink(_) => Request::Unlink(op::Unlink {
                dir: found,
                name: self.last[0].clone(),
            }),
            Op::Rmdir(_) => Request::Rmdir(op::Rmdir {
                dir: found,
                name: self.last[0].clone(),
            }),
            Op::Link(..) => Request::Link(op::Link {
                dir: self.found[1],
                name: self.last[0].clone(),
                ino: found,
                inode_shard: ShardId(0),
            }),
            Op::Rename {
                no_replace,
                whiteout,
                ..
            } => Request::Rename(op::Rename {
                dir: found,
                name: self.last[0].clone(),
                new_dir: self.found[1],
                new_name: self.last[1].clone(),
                new_shard: ShardId(0),
                no_replace: *no_replace,
                whiteout: *whiteout,
            }),
            Op::Exchange(..) => Request::Exchange(op::Exchange {
                dir: found,
                name: self.last[0].clone(),
                new_dir: self.found[1],
                new_name: self.last[1].clone(),
                new_shard: ShardId(0),
            }),
            Op::List(_) => Request::ReadDir(op::ReadDir {
                dir: found,
                from: self.from,
                plus: true,
                max_entries: PAGE_ENTRIES,
                max_bytes: PAGE_BYTES,
            }),
            Op::Chmod(_, mode) => Request::SetAttr(op::SetAttr {
                ino: found,
                set: SetAttr {
                    mode: Some(*mode),
                    ..SetAttr::default()
                },
            }),
            Op::Chown { uid, gid, .. } => Request::SetAttr(op::SetAttr {
                ino: found,
                set: SetAttr {
                    uid: *uid,
                    gid: *gid,
                    ..SetAttr::default()
                },
            }),
            Op::SetXattr {
                name, value, mode, ..
            } => Request::SetXattr(op::SetXattr {
                ino: found,
                name: XATTRS[*name].into(),
                value: vec![*value; VALUE_BYTES],
                mode: *mode,
            }),
            Op::RemoveXattr(_, name) => Request::RemoveXattr(op::RemoveXattr {
                ino: found,
                name: XATTRS[*name].into(),
            }),
            Op::GetXattr(_, name) => Request::GetXattr(op::GetXattr {
                ino: found,
                name: XATTRS[*name].into(),
            }),
            Op::ListXattr(_) => Request::ListXattr(op::ListXattr { ino: found }),
            Op::Truncate(_, size) => Request::SetAttr(op::SetAttr {
                ino: found,
                set: SetAttr {
                    size: Some(*size),
                    ..SetAttr::default()
                },
            }),
            Op::Write { offset, length, .. } => Request::WriteInline(op::WriteInline {
                ino: found,
                offset: *offset,
                data: vec![0; *length],
            }),
            Op::Utimens(_, time) => Request::SetAttr(op::SetAttr {
                ino: found,
                set: SetAttr {
                    mtime: Some(SetTime::At(Time(*time))),
                    ..SetAttr::default()
                },
            }),
            Op::Stripe(_) => Request::Stripe(op::Stripe { ino: found }),
            Op::Sync(_) => Request::Sync(op::Sync),
        };
        let target = match &request {
            Request::Sync(op::Sync) => Target::Shard(places.inode_shard(found)),
            Request::SetAttr(op::SetAttr { ino, .. })
            | Request::Stripe(op::Stripe { ino })
            | Request::SetXattr(op::SetXattr { ino, .. })
            | Request::RemoveXattr(op::RemoveXattr { ino, .. })
            | Request::GetXattr(op::GetXattr { ino, .. })
            | Request::ListXattr(op::ListXattr { ino })
            | Request::Open(op::Open { ino, .. })
            | Request::GetAttr(op::GetAttr { ino })
            | Request::SetLock(op::SetLock { ino, .. })
            | Request::Unlock(op::Unlock { ino, .. })
            | Request::WriteInline(op::WriteInline { ino, .. }) => Target::Inode(*ino),
            Request::ReadDir(op::ReadDir { dir, from, .. }) => Target::Name {
                dir: *dir,
                position: *from,
            },
            Request::Link(op::Link { dir, name, .. }) => self.place(*dir, name),
            _ => self.place(found, &self.last[0]),
        };
        Next::Ask(target, request)
    }
}

/// The bytes that a lock is about: all of the file, or some that overlap with others'.
fn ranged(kind: LockKind, range: Option<u64>) -> LockRange {
    match range {
        Some(first) if kind == LockKind::Record => LockRange {
            first,
            last: first + 10,
        },
        _ => LockRange::WHOLE,
    }
}

/// The part of an answer that is looked at in a trace.
fn short(reply: &Reply) -> String {
    match reply {
        Reply::Entry(entry) => format!("{} on shard {}", entry.ino, entry.shard),
        Reply::Entries(_) => "listed".to_owned(),
        Reply::Inode(inode) => format!("{}", inode.attr.ino),
        other => format!("{other:?}"),
    }
}
