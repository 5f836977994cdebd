//! Answers out of the lease cache.

use super::LeaseCache;
use crate::boottime::Boottime;
use crate::router::Target;
use pandofs_api::{DirPart, EntryReply, InodeReply, Refusal, Reply, Request, ShardRequest, op};
use pandofs_types::{Attr, Capabilities, Credentials, FsError, Ino, LeaseKey, Name, ShardId};

impl LeaseCache {
    /// The answer to a question, if it is cached.
    pub fn answer(
        &mut self,
        target: Target,
        asked: &ShardRequest,
        now: Boottime,
    ) -> Option<Result<Reply, Refusal>> {
        if !self.is_on {
            return None;
        }
        let answer = match &asked.request {
            Request::Lookup(op::Lookup { dir, name }) => {
                if !self.for_all && !searches_all(&asked.caller) {
                    return None;
                }
                self.find_entry(*dir, name, now)?
            }
            Request::GetAttr(op::GetAttr { ino }) => {
                let inode = self.state.inodes.get(ino)?;
                let is_over = inode.until <= now;
                (!is_over).then(|| Ok(Reply::Inode(inode.reply.clone())))?
            }
            Request::DirPart(op::DirPart { dir }) => {
                let Target::Shard(shard) = target else {
                    return None;
                };
                let part = self
                    .state
                    .parts
                    .get(dir)?
                    .iter()
                    .find(|part| part.shard == shard)?;
                let is_over = part.until <= now;
                (!is_over).then(|| Ok(Reply::Part(part.part.clone())))?
            }
            _ => return None,
        };
        self.answered += 1;
        Some(answer)
    }

    fn find_entry(&self, dir: Ino, name: &Name, now: Boottime) -> Option<Result<Reply, Refusal>> {
        let position = self.hash_key.position(name.as_bytes());
        let state = &self.state;
        let entry = state.entries.get(&(dir, position))?;
        if entry.until <= now || entry.name != *name {
            return None;
        }
        let Some(found) = &entry.leads_to else {
            return Some(Err(FsError::NotFound.into()));
        };
        let inode = state
            .inodes
            .get(&found.ino)
            .filter(|inode| inode.until > now);
        Some(Ok(Reply::Entry(EntryReply {
            ino: found.ino,
            kind: found.kind,
            shard: found.shard,
            inode: inode.map(|inode| inode.reply.clone()),
        })))
    }

    /// The end of the lease that the name leads to `ino`, or to nothing.
    pub fn entry_until(&self, key: LeaseKey, name: &Name, ino: Option<Ino>) -> Option<Boottime> {
        let LeaseKey::Entry { dir, position } = key else {
            return None;
        };
        let state = &self.state;
        let entry = state.entries.get(&(dir, position))?;
        let leads_to = entry.leads_to.as_ref().map(|found| found.ino);
        (entry.name == *name && leads_to == ino).then_some(entry.until)
    }

    /// Until when others ask before they change what these shards have of the directory's
    /// attributes.
    pub fn dir_until(&self, dir: Ino, shards: &[ShardId]) -> Option<Boottime> {
        let state = &self.state;
        let leases = state.dirs.get(&dir)?;
        let of = |shard: &ShardId| leases.iter().find(|lease| lease.shard == *shard);
        let untils = shards
            .iter()
            .map(|shard| of(shard).map(|lease| lease.until));
        untils.collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    /// The inode as it is cached; if it is a directory, on these shards, its parts on others than
    /// its own; and until when.
    pub fn inode(
        &self,
        ino: Ino,
        shards: &[ShardId],
    ) -> Option<(InodeReply, Vec<DirPart>, Boottime)> {
        let state = &self.state;
        let inode = state.inodes.get(&ino)?;
        let mut until = inode.until;
        let mut others = Vec::new();
        if inode.reply.dir.is_some() {
            for &shard in shards {
                if shard != ino.birth_shard() {
                    let parts = state.parts.get(&ino)?;
                    let part = parts.iter().find(|part| part.shard == shard)?;
                    others.push(part.part.clone());
                    until = until.min(part.until);
                }
            }
        }
        Some((inode.reply.clone(), others, until))
    }

    /// The cached attributes of an inode that is no directory, and the end of their lease.
    pub fn attr(&self, ino: Ino) -> Option<(Attr, Boottime)> {
        let state = &self.state;
        let inode = state.inodes.get(&ino)?;
        let is_whole = inode.reply.dir.is_none();
        is_whole.then(|| (inode.reply.attr.clone(), inode.until))
    }
}

/// Returns whether the caller may look up names in every directory.
pub fn searches_all(caller: &Credentials) -> bool {
    caller.has(Capabilities::DAC_READ_SEARCH) || caller.has(Capabilities::DAC_OVERRIDE)
}
