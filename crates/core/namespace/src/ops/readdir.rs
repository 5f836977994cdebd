//! Readdir: entries in the order of their positions. Positions do not change when a partition splits,
//! so a listing goes on at its position, whichever shard serves it by then.

use super::{Execute, inode_reply};
use crate::permission::{READ, check_dir};
use crate::records::{Body, EntryRecord, decode};
use crate::{Context, Locks, Stop, View, keys, locks::Lock};
use pandofs_api::{DirEntry, EntriesReply, Refusal, Reply, op};
use pandofs_types::limits::{MAX_NAMES_PER_HASH, MAX_READDIR_BYTES, MAX_READDIR_ENTRIES};
use pandofs_types::{Ino, Name, Position};
use std::ops::ControlFlow;

/// Bytes of an entry on the wire besides its name.
const ENTRY_BYTES: usize = 24;
/// The same with attributes.
const ENTRY_PLUS_BYTES: usize = 144;

impl Execute for op::ReadDir {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        let (dir, from) = (self.dir, self.from);
        if from >= Position::END {
            return Err(Refusal::Malformed(format!("{from:?} is after the end")).into());
        }
        let max_entries = (self.max_entries as usize).clamp(1, MAX_READDIR_ENTRIES);
        let max_bytes = (self.max_bytes as usize).min(MAX_READDIR_BYTES);
        let owned = view.owned_at(dir, from)?;
        check_dir(cx.caller, READ, &owned.parts)?;
        let parts = owned.parts;

        // Further partitions of this shard that follow without a gap.
        let mut end = parts.map.range_of(owned.index).1;
        while end < Position::END {
            let next = parts.map.partition_of(end);
            if parts.part(next).is_none() {
                break;
            }
            end = parts.map.range_of(next).1;
        }

        let mut entries = Vec::new();
        let mut bytes = 0;
        let mut next = end;
        let mut last: Option<Position> = None;
        let start = keys::entry_from(view.shard, dir, from.with_ordinal(0));
        let stop = keys::entry_from(view.shard, dir, end);
        view.scan(&start, &stop, &mut |key, value| {
            let (_, hashed, name) = keys::parse_entry(key)
                .ok_or_else(|| Stop::Broken(format!("entry key {key:02x?}")))?;
            let position = match last {
                Some(last) if last.hash() == hashed.hash() => {
                    // Only who knows the file system's key can make more names than that share a hash; those
                    // then share a position, too.
                    let next = usize::from(last.ordinal()) + 1;
                    last.with_ordinal(next.min(MAX_NAMES_PER_HASH) as u8)
                }
                _ => {
                    // A group of names with one hash is never split: their ordinals count from its start.
                    if entries.len() >= max_entries || bytes >= max_bytes {
                        next = hashed;
                        return Ok(ControlFlow::Break(()));
                    }
                    hashed
                }
            };
            last = Some(position);
            if position >= from {
                bytes += name.as_bytes().len()
                    + if self.plus {
                        ENTRY_PLUS_BYTES
                    } else {
                        ENTRY_BYTES
                    };
                entries.push(entry(self, view, cx.locks, name, position, value)?);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        // The start of a directory is at its home, as its inode is.
        let inode = match from {
            Position::FIRST => view.stored_inode(dir)?,
            _ => None,
        };
        let parent = inode.and_then(|inode| match inode.body {
            Body::Dir { parent } => Some(parent),
            _ => None,
        });
        Ok(Reply::Entries(EntriesReply {
            entries,
            next,
            map: parts.map,
            parent,
            dir,
        }))
    }
}

fn entry(
    listing: &op::ReadDir,
    view: &View<'_>,
    locks: &Locks,
    name: Name,
    position: Position,
    value: &[u8],
) -> Result<DirEntry, Stop> {
    let EntryRecord { ino, kind, shard } = decode("entry", value)?;
    let mut inode = None;
    // Attributes that an operation under way changes are left for the client to ask for.
    if listing.plus && shard == view.shard && locks.check(&Lock::Inode(ino), None).is_ok() {
        inode = match view.stored_inode(ino)? {
            Some(found) => Some(inode_reply(view, ino, &found)?),
            // An operation that replaces the name has freed the inode and not yet changed the name.
            None if is_held(locks, listing.dir, position, &name) => None,
            // The name came here before the outcome of the operation that makes the directory it leads to.
            None if locks.check(&Lock::Made(ino), None).is_err() => None,
            None => {
                let text = format!("an entry leads to inode {ino}, which is not here");
                return Err(Stop::Broken(text));
            }
        };
    }
    Ok(DirEntry {
        name,
        position,
        ino,
        kind,
        shard,
        inode,
    })
}

fn is_held(locks: &Locks, dir: Ino, position: Position, name: &Name) -> bool {
    let lock = Lock::Entry {
        dir,
        position: position.with_ordinal(0),
        name: name.clone(),
    };
    locks.check(&lock, None).is_err()
}
