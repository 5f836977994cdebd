//! Values of the store: postcard encodings of these structs, fields in this order
//! (`docs/data-layout.md`).

use crate::Stop;
use pandofs_api::{Above, DirSettings, Layout, PathName, Refusal, Reply, SplitId};
use pandofs_placement::{DirMap, GrainState, PartitionIndex};
use pandofs_types::{Acls, Attr, FileKind, Ino, ShardId, Time, TxId};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// An inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InodeRecord {
    /// Fixed when the inode is made.
    pub kind: FileKind,
    /// Permission bits, 0o7777 at most.
    pub mode: u16,
    /// Number of the owning user.
    pub uid: u32,
    /// Number of the owning group.
    pub gid: u32,
    /// Names that lead to it; for a directory always 1 (subdirectories count in its parts).
    pub nlink: u32,
    /// Device number, in Linux's encoding; 0 of what is no device.
    pub rdev: u32,
    /// Bytes.
    pub size: u64,
    /// Last access, as seldom as the mount's rule has it.
    pub atime: Time,
    /// Of a directory that of its making: later ones are in its parts.
    pub mtime: Time,
    /// Of a directory only that of its attributes: later ones are in its parts.
    pub ctime: Time,
    /// When the inode was made.
    pub btime: Time,
    /// Contents, or where they are.
    pub body: Body,
    /// Extended attributes it has.
    pub xattrs: u16,
    /// Bytes of their names and values.
    pub xattr_bytes: u32,
    /// Shards it was on before, oldest first: they keep forwarding records.
    pub trail: Vec<ShardId>,
    /// Access control lists; the default one only of a directory.
    pub acls: Acls,
    /// It was made without a name and may get one: as long as it has never had any.
    pub may_be_named: bool,
    /// How often it was given a size while it had data objects; begins anew after 2^32 - 1.
    pub truncations: u32,
}

/// Contents of an inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// Fifos, sockets, devices.
    Nothing,
    /// The target's bytes.
    Symlink(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The first bytes of the file are beside the inode, under a key of their own, so that to read or change its
    /// attributes leaves them where they are; what of its size lies beyond is a hole.
    Inline {
        /// So many, at most `MAX_INLINE_BYTES`; without any there is no such key.
        held: u32,
        /// For when it outgrows that.
        layout: Layout,
    },
    /// In data objects, without holes.
    Striped(Layout),
    /// Its names are in the directory's partitions.
    Dir {
        /// The directory that it is in; of the root itself.
        parent: Ino,
    },
    /// As `Striped`, of a file that may have holes or space beyond its end: one that was written to
    /// beyond its end, cut to a larger size, or that [`Allocation`](pandofs_api::Allocation) was used on.
    Sparse(Layout),
}

impl Body {
    /// The layout of a file that has data objects.
    pub fn objects(&self) -> Option<&Layout> {
        match self {
            Body::Striped(layout) | Body::Sparse(layout) => Some(layout),
            _ => None,
        }
    }
}

impl InodeRecord {
    /// Bytes of the file that are kept beside the inode.
    pub fn held(&self) -> u32 {
        match self.body {
            Body::Inline { held, .. } => held,
            _ => 0,
        }
    }

    /// Units of 512 bytes. Holes of a sparse file are not known here and count as data: clients ask the
    /// data objects.
    pub fn blocks(&self) -> u64 {
        match &self.body {
            Body::Inline { held, .. } => u64::from(*held).div_ceil(512),
            Body::Striped(_) | Body::Sparse(_) => self.size.div_ceil(512),
            Body::Symlink(_) | Body::Nothing | Body::Dir { .. } => 0,
        }
    }

    /// As `stat` gives it; for a directory without its parts.
    pub fn attr(&self, ino: Ino) -> Attr {
        Attr {
            ino,
            kind: self.kind,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size: self.size,
            blocks: self.blocks(),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
            has_xattrs: self.xattrs > 0 || !self.acls.is_empty(),
        }
    }
}

/// Inode that a name leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryRecord {
    /// The inode's number.
    pub ino: Ino,
    /// A copy, for listings that do not ask for attributes.
    pub kind: FileKind,
    /// Where the inode is; always right, since an inode only moves along with its one entry.
    pub shard: ShardId,
}

/// The partitions of one directory that are on one shard, and what each of its shards must know of it.
///
/// One record for all of them, so that one lookup tells whether a name belongs here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartsRecord {
    /// All that this shard knows; at the home all that the home was told.
    pub map: DirMap,
    /// Copies of the inode's, changed everywhere before a change is answered.
    pub mode: u16,
    /// A copy, changed as `mode` is.
    pub uid: u32,
    /// A copy, changed as `mode` is.
    pub gid: u32,
    /// Copies; splits of the partitions here go by them.
    pub settings: DirSettings,
    /// Where in its distribution unit the directory is; read at the home, and where files are
    /// placed.
    pub grain: GrainState,
    /// The latest change of a name here.
    pub mtime: Time,
    /// The latest change of a name here, or of the attributes.
    pub ctime: Time,
    /// In ascending order. None once all that were here have been merged into others and until the home
    /// has heard of it: before that the home would send clients here, which would find nothing.
    pub parts: Vec<Part>,
    /// Copies of the inode's, changed as `mode` is.
    pub acls: Acls,
    /// The path that it was placed by, by which its new directories are placed; a rename leaves it. `None` where the
    /// file system does not place by paths, and below a path that is too long.
    pub path: Option<PathName>,
}

/// One partition of a directory, as its shard counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its number in the directory's map.
    pub index: PartitionIndex,
    /// Names in it.
    pub entries: u64,
    /// Of these, directories.
    pub subdirs: u32,
}

impl PartsRecord {
    /// The partition, if it is here.
    pub fn part(&self, index: PartitionIndex) -> Option<&Part> {
        self.parts.iter().find(|part| part.index == index)
    }

    /// The partition, if it is here, to be counted anew.
    pub fn part_mut(&mut self, index: PartitionIndex) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| part.index == index)
    }

    /// Learns what another shard knows of the directory; whether that was anything. Nobody can know of
    /// splits and merges of the partitions here before this shard, but for the child of a `split` under
    /// way: its shard is the one that decides. A map that claims more is wrong, or comes before the end
    /// of a merge, and nothing is learnt from it: names that are here would seem to be elsewhere.
    pub fn learn(&mut self, map: &DirMap, split: Option<&SplitRecord>) -> bool {
        let mut merged = self.map.clone();
        if !merged.merge(map) {
            return false;
        }
        let child = split.filter(|split| !split.back).map(|split| split.child);
        let is_known = self.is_own_unchanged(&merged, child) && still_merges(&merged, split);
        if is_known {
            self.map = merged;
        }
        is_known
    }

    /// Learns that `child` was merged into its parent, which is here, from the shard it was on; whether that
    /// can be. That shard has to know what else the parent has split off and got back: see
    /// [`DirMap`] for what would follow otherwise.
    pub fn learn_merge(
        &mut self,
        map: &DirMap,
        child: PartitionIndex,
        split: Option<&SplitRecord>,
    ) -> bool {
        let Some(parent) = child.parent() else {
            return false;
        };
        let mut merged = self.map.clone();
        let can_be = self.part(parent).is_some()
            && self.map.last_child(parent) == Some(child)
            && map.knows_children(parent, &self.map)
            && merged.merge(map)
            && !merged.is_active(child)
            && self.is_own_unchanged(&merged, Some(child))
            && still_merges(&merged, split);
        if can_be {
            self.map = merged;
        }
        can_be
    }

    /// Whether `map`, which knows all that this one does, says of the partitions here and what they split
    /// off what this one says, but for one change of `child`.
    fn is_own_unchanged(&self, map: &DirMap, child: Option<PartitionIndex>) -> bool {
        let same = |index| map.changes_of(index) == self.map.changes_of(index);
        self.parts.iter().all(|part| {
            same(part.index)
                && part.index.children().all(|index| {
                    same(index)
                        || Some(index) == child
                            && map.changes_of(index) == self.map.changes_of(index) + 1
                })
        })
    }

    /// Names in all partitions that are here.
    pub fn entries(&self) -> u64 {
        self.parts.iter().map(|part| part.entries).sum()
    }

    /// Directories among the names here.
    pub fn subdirs(&self) -> u32 {
        self.parts.iter().map(|part| part.subdirs).sum()
    }
}

/// Whether a merge that is under way here may go on. (If the other partition has split again its shard refuses
/// the merge, and what it tells is learnt after that.)
fn still_merges(map: &DirMap, split: Option<&SplitRecord>) -> bool {
    let merging = split.filter(|split| split.back);
    merging.is_none_or(|split| map.merges_into(split.child) == Some(split.index))
}

/// An inode without a name, or what is left of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReclaimRecord {
    /// The inode is kept while somebody has it open.
    Orphan,
    /// The inode is gone; its data objects and forwarding records are to go.
    Gone {
        /// `None` if it has no data objects.
        layout: Option<Layout>,
        /// Shards that have forwarding records of it.
        trail: Vec<ShardId>,
    },
    /// The file was truncated to this many bytes, the last time for the `truncations`th time; its data objects are to follow.
    Truncate {
        /// Tells which servers have its data objects.
        layout: Layout,
        /// Bytes of the file; each object follows to its part of them.
        size: u64,
        /// The count that the objects are told.
        truncations: u32,
    },
    /// The file has outgrown its inode; what the inode held is to be written to the first data object.
    /// Until it is, `tx` locks the inode: a write to the data object must not come before.
    Fill {
        /// Ended once the data is on the server.
        tx: TxId,
        /// Its first data object is the one to fill.
        layout: Layout,
        /// The bytes that the inode held.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
}

/// A split or a merge of which this shard is the source, from the first copied entry to the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitRecord {
    /// Known to the target by it.
    pub split: SplitId,
    /// The partition that stays.
    pub index: PartitionIndex,
    /// The names of its range move.
    pub child: PartitionIndex,
    /// The shard that takes the entries.
    pub target: ShardId,
    /// They move back: `child`, which is here, is merged into `index`, which is at the target.
    pub back: bool,
}

impl SplitRecord {
    /// The partition here, which has the moving names.
    pub fn giver(&self) -> PartitionIndex {
        if self.back { self.child } else { self.index }
    }
}

/// A split of which this shard is the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagingRecord {
    /// The directory that splits.
    pub dir: Ino,
    /// Chunks that have arrived.
    pub chunks: u32,
}

/// The answer to the last request of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// Of the request that was answered.
    pub sequence: u64,
    /// The answer, as it was sent.
    pub result: Result<Reply, Refusal>,
}

/// A directory and the path by which it was found: right as long as no line of the path log that may concern one of its
/// ancestors, or that it has moved itself, is younger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRecord {
    /// Whole, as its key is a hash.
    pub path: PathName,
    /// The directory that it leads to.
    pub dir: Ino,
    /// Its path permissions.
    pub above: Above,
    /// Changes that the path log had seen.
    pub seen: u64,
}

/// Line of the path log: changes of directories that share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathLineRecord {
    /// The path log's count after the last one.
    pub last: u64,
    /// Sum of the changes' random numbers, modulo 2^64, whichever order they came in.
    pub sum: u64,
}

/// Inode numbers that a session has taken and not used yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumbersRecord {
    /// Serials from one to before another, in ascending order; at most `MAX_BLOCKS_PER_SESSION`.
    pub blocks: Vec<(u64, u64)>,
    /// Serials that may be used in any order, in ascending order; at most `MAX_UNORDERED_PER_SESSION`.
    pub unordered: Vec<u64>,
}

/// Encodes a value.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("a record in memory has an encoding")
}

/// Decodes a value that this crate has stored.
pub fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, Stop> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(Stop::Broken(format!(
            "{what}: {} bytes too many",
            rest.len()
        ))),
        Err(error) => Err(Stop::Broken(format!("{what}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: [ShardId; 4] = [ShardId(0), ShardId(1), ShardId(2), ShardId(3)];

    fn map(active: &[u32]) -> DirMap {
        let mut map = DirMap::with_slots(SLOTS.to_vec(), 1);
        for &index in active {
            map.activate(PartitionIndex(index));
        }
        map
    }

    /// Partition 0 of a directory of which this shard knows what is in `active`.
    fn parts(active: &[u32]) -> PartsRecord {
        PartsRecord {
            map: map(active),
            mode: 0o755,
            uid: 0,
            gid: 0,
            settings: DirSettings::default(),
            grain: GrainState::root(ShardId(0)),
            mtime: Time(0),
            ctime: Time(0),
            parts: vec![Part {
                index: PartitionIndex(0),
                entries: 9,
                subdirs: 0,
            }],
            acls: Acls::default(),
            path: None,
        }
    }

    fn split_to(child: u32) -> SplitRecord {
        SplitRecord {
            split: SplitId {
                source: ShardId(0),
                sequence: 1,
            },
            index: PartitionIndex(0),
            child: PartitionIndex(child),
            target: SLOTS[child as usize],
            back: false,
        }
    }

    #[test]
    fn what_other_partitions_split_off_is_learnt() {
        let mut parts = parts(&[1]);
        assert!(parts.learn(&map(&[1, 3]), None));
        assert_eq!(parts.map, map(&[1, 3]));
        assert!(!parts.learn(&map(&[1, 3]), None), "nothing new");
    }

    #[test]
    fn nobody_knows_better_what_is_here() {
        let mut parts = parts(&[1]);
        let before = parts.clone();
        assert!(!parts.learn(&map(&[1, 2]), None));
        assert_eq!(parts, before);
    }

    #[test]
    fn what_is_here_is_merged_by_nobody_else() {
        let mut parts = parts(&[1]);
        parts.parts[0].index = PartitionIndex(1);
        let before = parts.clone();
        let mut merged = map(&[1]);
        merged.deactivate(PartitionIndex(1));
        assert!(!parts.learn(&merged, None));
        let back = SplitRecord {
            back: true,
            ..split_to(1)
        };
        assert!(!parts.learn(&merged, Some(&back)), "it is not over here");
        assert_eq!(parts, before);
    }

    #[test]
    fn a_child_comes_back_from_one_who_knows_what_came_back_before() {
        let mut parts = parts(&[1]);
        let mut told = parts.map.clone();
        told.deactivate(PartitionIndex(1));
        // 0 has split again and got that back: the other one has not heard of it.
        parts.map.activate(PartitionIndex(2));
        let splits = parts.clone();
        assert!(!parts.clone().learn_merge(&told, PartitionIndex(1), None));
        parts.map.deactivate(PartitionIndex(2));
        assert!(!parts.clone().learn_merge(&told, PartitionIndex(1), None));
        let mut told = parts.map.clone();
        assert!(
            !parts.clone().learn_merge(&told, PartitionIndex(1), None),
            "still active"
        );
        told.deactivate(PartitionIndex(1));
        assert!(!splits.clone().learn_merge(&told, PartitionIndex(1), None));
        assert!(parts.learn_merge(&told, PartitionIndex(1), None));
        assert_eq!(parts.map, told);
    }

    #[test]
    fn the_child_of_a_split_under_way_may_have_been_adopted() {
        let mut parts = parts(&[1]);
        let split = split_to(2);
        assert!(parts.learn(&map(&[1, 2]), Some(&split)));
        assert!(
            parts.learn(&map(&[1, 2, 3]), Some(&split)),
            "and more later"
        );
        assert_eq!(parts.map, map(&[1, 2, 3]));
    }
}
