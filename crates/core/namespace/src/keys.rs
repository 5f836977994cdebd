//! Keys of the store, byte by byte (`docs/data-layout.md`). Numbers are big-endian, so that their order
//! is the order of the bytes. Every key starts with `kind (1) | shard (2)`.

use pandofs_types::limits::PATH_POINTERS;
use pandofs_types::{Ino, Name, Position, SessionId, ShardId, SlotId, TxId};

/// Version of keys and values; a store of another one is refused.
pub const FORMAT_VERSION: u16 = 1;

/// The first byte of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// `01 shard`
    Meta = 1,
    /// `02 shard ino(8)`
    Inode = 2,
    /// `03 shard dir(8) position(8) name`
    Entry = 3,
    /// `04 shard dir(8)`
    Parts = 4,
    /// `05 shard ino(8)`
    Forwarding = 5,
    /// `06 shard ino(8) name`
    Xattr = 6,
    /// `07 shard role(1) coordinator(2) sequence(8) step(2)`
    Transaction = 7,
    /// `08 shard session(8) slot(2)`
    Slot = 8,
    /// `09 shard ino(8)`
    Reclaim = 9,
    /// `0a shard dir(8)`: a split of which this shard is the source
    Split = 10,
    /// `0b shard source(2) sequence(8)`: progress of a split of which this shard is the target
    Staging = 11,
    /// `0c shard source(2) sequence(8) name`
    Staged = 12,
    /// `0d shard coordinator(2)`
    Horizon = 13,
    /// `0e shard session(8)`: a session that may have locks here
    LockHolder = 14,
    /// `0f shard session(8)`: a session that may have leases of this shard
    Leaseholder = 15,
    /// `10 shard session(8)`: inode numbers that a session has taken
    Numbers = 16,
    /// `11 shard session(8)`: a session that may have grants of this shard
    Grantholder = 17,
    /// `12 shard hash(8)`: a directory that was placed here by its path
    Path = 18,
    /// `13 shard number(2)`: a path of a directory that was placed by another one
    PathPointer = 19,
    /// `14 shard number(2)`: changes of directories that share a line of the path log
    PathLine = 20,
    /// `15 shard`: the path log's own figures
    PathLog = 21,
    /// `16 shard ino(8)`: the bytes of a file that is kept inline
    Data = 22,
}

impl Kind {
    /// In the order of their bytes.
    pub const ALL: [Kind; 22] = [
        Kind::Meta,
        Kind::Inode,
        Kind::Entry,
        Kind::Parts,
        Kind::Forwarding,
        Kind::Xattr,
        Kind::Transaction,
        Kind::Slot,
        Kind::Reclaim,
        Kind::Split,
        Kind::Staging,
        Kind::Staged,
        Kind::Horizon,
        Kind::LockHolder,
        Kind::Leaseholder,
        Kind::Numbers,
        Kind::Grantholder,
        Kind::Path,
        Kind::PathPointer,
        Kind::PathLine,
        Kind::PathLog,
        Kind::Data,
    ];

    /// The kind of keys that begin with this byte; `None` if there is none.
    pub fn from_byte(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// Bytes before the part that depends on the kind.
pub const PREFIX_BYTES: usize = 3;

/// `kind | shard`: every key of that kind starts with it.
pub fn prefix(kind: Kind, shard: ShardId) -> Vec<u8> {
    let mut key = Vec::with_capacity(32);
    key.push(kind as u8);
    key.extend_from_slice(&shard.0.to_be_bytes());
    key
}

/// The first key after all that start with `prefix`.
pub fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    unreachable!("a prefix starts with a kind, which is less than 255")
}

fn with_u64(kind: Kind, shard: ShardId, number: u64) -> Vec<u8> {
    let mut key = prefix(kind, shard);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Key of the shard's own figures.
pub fn meta(shard: ShardId) -> Vec<u8> {
    prefix(Kind::Meta, shard)
}

/// Key of an inode on this shard.
pub fn inode(shard: ShardId, ino: Ino) -> Vec<u8> {
    with_u64(Kind::Inode, shard, ino.0)
}

/// Key of the bytes of a file that is kept inline.
pub fn data(shard: ShardId, ino: Ino) -> Vec<u8> {
    with_u64(Kind::Data, shard, ino.0)
}

/// The first possible key at or after `position` in `dir`.
pub fn entry_from(shard: ShardId, dir: Ino, position: Position) -> Vec<u8> {
    let mut key = with_u64(Kind::Entry, shard, dir.0);
    key.extend_from_slice(&position.0.to_be_bytes());
    key
}

/// `position` must be the name's own, with ordinal 0.
pub fn entry(shard: ShardId, dir: Ino, position: Position, name: &Name) -> Vec<u8> {
    assert!(
        position.ordinal() == 0,
        "entries are stored under their hash"
    );
    let mut key = entry_from(shard, dir, position);
    key.extend_from_slice(name.as_bytes());
    key
}

/// Directory, position and name of an entry's key.
pub fn parse_entry(key: &[u8]) -> Option<(Ino, Position, Name)> {
    let rest = key.get(PREFIX_BYTES..)?;
    let (dir, rest) = rest.split_first_chunk::<8>()?;
    let (position, name) = rest.split_first_chunk::<8>()?;
    let name = Name::new(name).ok()?;
    Some((
        Ino(u64::from_be_bytes(*dir)),
        Position(u64::from_be_bytes(*position)),
        name,
    ))
}

/// The number after the prefix of inode, data, parts, forwarding, reclaim and split keys.
pub fn parse_ino(key: &[u8]) -> Option<Ino> {
    let (ino, _) = key.get(PREFIX_BYTES..)?.split_first_chunk::<8>()?;
    Some(Ino(u64::from_be_bytes(*ino)))
}

/// Key of the partitions of a directory that are on this shard.
pub fn parts(shard: ShardId, dir: Ino) -> Vec<u8> {
    with_u64(Kind::Parts, shard, dir.0)
}

/// Key of where an inode that was here has gone.
pub fn forwarding(shard: ShardId, ino: Ino) -> Vec<u8> {
    with_u64(Kind::Forwarding, shard, ino.0)
}

/// First part of the keys of all extended attributes of an inode.
pub fn xattrs(shard: ShardId, ino: Ino) -> Vec<u8> {
    with_u64(Kind::Xattr, shard, ino.0)
}

/// Key of one extended attribute, by its name with prefix.
pub fn xattr(shard: ShardId, ino: Ino, name: &[u8]) -> Vec<u8> {
    let mut key = xattrs(shard, ino);
    key.extend_from_slice(name);
    key
}

/// Which side of a distributed operation a transaction record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It decided, or will.
    Coordinator = 0,
    /// It has one step of another shard's operation.
    Participant = 1,
}

/// `step` is 0 for the coordinator.
pub fn transaction(shard: ShardId, role: Role, tx: TxId, step: u16) -> Vec<u8> {
    let mut key = prefix(Kind::Transaction, shard);
    key.push(role as u8);
    key.extend_from_slice(&tx.coordinator.0.to_be_bytes());
    key.extend_from_slice(&tx.sequence.to_be_bytes());
    key.extend_from_slice(&step.to_be_bytes());
    key
}

/// First part of the keys of all slots of a session.
pub fn slots(shard: ShardId, session: SessionId) -> Vec<u8> {
    with_u64(Kind::Slot, shard, session.0)
}

/// Key of the last answer of a slot.
pub fn slot(shard: ShardId, session: SessionId, slot: SlotId) -> Vec<u8> {
    let mut key = slots(shard, session);
    key.extend_from_slice(&slot.0.to_be_bytes());
    key
}

/// Key of what is left to do for an inode without a name, or with data objects that lag behind.
pub fn reclaim(shard: ShardId, ino: Ino) -> Vec<u8> {
    with_u64(Kind::Reclaim, shard, ino.0)
}

/// Key of the split or merge of a directory that gives entries away here.
pub fn split(shard: ShardId, dir: Ino) -> Vec<u8> {
    with_u64(Kind::Split, shard, dir.0)
}

/// Key of a directory that was placed here by the path with this hash.
pub fn path(shard: ShardId, hash: u64) -> Vec<u8> {
    with_u64(Kind::Path, shard, hash)
}

/// Key of a pointer from a path with this hash.
pub fn path_pointer(shard: ShardId, hash: u64) -> Vec<u8> {
    with_u16(
        Kind::PathPointer,
        shard,
        (hash % u64::from(PATH_POINTERS)) as u16,
    )
}

/// Key of a line of the path log.
pub fn path_line(shard: ShardId, line: u16) -> Vec<u8> {
    with_u16(Kind::PathLine, shard, line)
}

/// Key of the figures of the path log.
pub fn path_log(shard: ShardId) -> Vec<u8> {
    prefix(Kind::PathLog, shard)
}

fn with_u16(kind: Kind, shard: ShardId, number: u16) -> Vec<u8> {
    let mut key = prefix(kind, shard);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Key of a split that takes entries here.
pub fn staging(shard: ShardId, split: pandofs_api::SplitId) -> Vec<u8> {
    split_key(Kind::Staging, shard, split)
}

/// First part of the keys of all entries that a split has staged here.
pub fn staged_all(shard: ShardId, split: pandofs_api::SplitId) -> Vec<u8> {
    split_key(Kind::Staged, shard, split)
}

/// Key of one staged entry, by its name.
pub fn staged(shard: ShardId, split: pandofs_api::SplitId, name: &Name) -> Vec<u8> {
    let mut key = staged_all(shard, split);
    key.extend_from_slice(name.as_bytes());
    key
}

fn split_key(kind: Kind, shard: ShardId, split: pandofs_api::SplitId) -> Vec<u8> {
    let mut key = prefix(kind, shard);
    key.extend_from_slice(&split.source.0.to_be_bytes());
    key.extend_from_slice(&split.sequence.to_be_bytes());
    key
}

/// The split of a staging or staged key.
pub fn parse_split(key: &[u8]) -> Option<pandofs_api::SplitId> {
    let rest = key.get(PREFIX_BYTES..)?;
    let (source, rest) = rest.split_first_chunk::<2>()?;
    let (sequence, _) = rest.split_first_chunk::<8>()?;
    Some(pandofs_api::SplitId {
        source: ShardId(u16::from_be_bytes(*source)),
        sequence: u64::from_be_bytes(*sequence),
    })
}

/// Key of the newest horizon that a coordinator has told.
pub fn horizon(shard: ShardId, coordinator: ShardId) -> Vec<u8> {
    let mut key = prefix(Kind::Horizon, shard);
    key.extend_from_slice(&coordinator.0.to_be_bytes());
    key
}

/// Key of the note that a session may have leases here.
pub fn leaseholder(shard: ShardId, session: SessionId) -> Vec<u8> {
    with_u64(Kind::Leaseholder, shard, session.0)
}

/// Key of the note that a session may have grants of this shard.
pub fn grantholder(shard: ShardId, session: SessionId) -> Vec<u8> {
    with_u64(Kind::Grantholder, shard, session.0)
}

/// Key of the inode numbers that a session has taken.
pub fn numbers(shard: ShardId, session: SessionId) -> Vec<u8> {
    with_u64(Kind::Numbers, shard, session.0)
}

/// Key of the note that a session may have file locks here.
pub fn lock_holder(shard: ShardId, session: SessionId) -> Vec<u8> {
    with_u64(Kind::LockHolder, shard, session.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_directory_are_in_the_order_of_their_positions() {
        let name = Name::new(b"zz").unwrap();
        let first = entry(ShardId(3), Ino(9), Position::from_hash(1), &name);
        let second = entry(
            ShardId(3),
            Ino(9),
            Position::from_hash(2),
            &Name::new(b"a").unwrap(),
        );
        assert!(first < second);
        assert_eq!(
            parse_entry(&first),
            Some((Ino(9), Position::from_hash(1), name))
        );
        assert_eq!(first[..3], [3, 0, 3]);
    }

    #[test]
    fn after_a_prefix_comes_the_next_one() {
        assert_eq!(after(&[2, 0, 5]), [2, 0, 6]);
        assert_eq!(after(&[2, 0, 255]), [2, 1]);
        assert_eq!(after(&[2, 255, 255]), [3]);
    }
}
