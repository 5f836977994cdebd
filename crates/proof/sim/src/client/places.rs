//! Places of directories and inodes as a client knows them, and what it has open there.

use super::{Call, Client, Todo};
use crate::history::History;
use crate::scenario::Plant;
use pandofs_api::{Reply, Request, op};
use pandofs_placement::DirMap;
use pandofs_session::{DirMaps, Event, InodeShards, KnownPlaces, OpenFiles};
use pandofs_types::{FsError, Ino, Position, ShardId};
use std::cell::RefCell;

#[derive(Debug, Default)]
pub(super) struct Places {
    maps: RefCell<DirMaps>,
    inodes: RefCell<InodeShards>,
    pub files: RefCell<OpenFiles<()>>,
}

impl Places {
    /// All that is known of the directory.
    pub(super) fn map(&self, dir: Ino) -> DirMap {
        self.maps.borrow_mut().map(dir)
    }

    /// The inode is on this shard, says somebody else.
    pub(super) fn learn(&self, ino: Ino, shard: ShardId) {
        self.inodes.borrow_mut().learn(ino, shard);
    }

    /// The directory is gone.
    pub(super) fn forget(&self, dir: Ino) {
        self.maps.borrow_mut().forget(dir);
    }
}

impl KnownPlaces for Places {
    fn shard_of(&self, dir: Ino, position: Position) -> ShardId {
        self.maps.borrow_mut().shard_of(dir, position)
    }

    fn inode_shard(&self, ino: Ino) -> ShardId {
        self.inodes.borrow_mut().shard_of(ino)
    }

    fn merge(&self, dir: Ino, map: &DirMap) -> bool {
        self.maps.borrow_mut().merge(dir, map)
    }

    fn correct(&self, dir: Ino, home: &DirMap) -> bool {
        self.maps.borrow_mut().correct(dir, home)
    }

    fn moved(&self, ino: Ino, shard: ShardId) {
        self.learn(ino, shard);
        self.files.borrow_mut().moved(ino, shard);
    }
}

impl Client {
    /// All that it knows of the directory.
    pub(crate) fn map_of(&self, dir: Ino) -> DirMap {
        self.places.map(dir)
    }

    /// Places that an answer tells.
    pub(super) fn learn(&mut self, call: &Call, reply: &Reply) {
        self.learn_reply(&call.asked.request, reply);
    }

    /// The same of an answer to this request.
    pub(super) fn learn_reply(&mut self, request: &Request, reply: &Reply) {
        match reply {
            Reply::Entry(entry) => {
                self.learn_entry(entry.ino, entry.shard, entry.inode.is_some());
                if let Request::Lookup(op::Lookup { dir, name }) = request
                    && self.plant == Some(Plant::CachesEntries)
                {
                    self.cached.insert((*dir, name.clone()), reply.clone());
                }
            }
            Reply::Entries(page) => {
                if let Request::ReadDir(op::ReadDir { dir, .. }) = request {
                    self.places.merge(*dir, &page.map);
                }
                for entry in &page.entries {
                    self.learn_entry(entry.ino, entry.shard, entry.inode.is_some());
                }
            }
            Reply::Removed { ino } => self.places.forget(*ino),
            _ => {}
        }
    }

    /// An entry says where an inode is; `with_inode`: from the shard that has it.
    fn learn_entry(&mut self, ino: Ino, shard: ShardId, with_inode: bool) {
        if with_inode {
            self.learn_shard(ino, shard);
        } else if self.places.inode_shard(ino) == ino.birth_shard() {
            self.places.learn(ino, shard);
        }
    }

    /// The home of a directory told what it knows, as the outer call's shard did not know better.
    pub(super) fn home_answered(
        &mut self,
        history: &mut History,
        worker: usize,
        inner: &Call,
        result: Result<Reply, FsError>,
        todo: &mut Vec<Todo>,
    ) {
        let outer = self.workers[worker].calls.pop();
        let outer = outer.expect("an inner call is made in the course of another one");
        let Request::GetAttr(op::GetAttr { ino: dir }) = inner.asked.request else {
            unreachable!("homes are asked for attributes");
        };
        let map = match result {
            Ok(Reply::Inode(inode)) => Ok(inode.dir.map(|home| home.map)),
            Err(error @ (FsError::Stale | FsError::NotFound)) => Err(error),
            other => return todo.push(Todo::Broken(format!("a home answered {other:?}"))),
        };
        self.react(history, worker, outer, Event::Home { dir, map }, todo);
    }
}
