//! Places of keys: the folder, the file, and what of the file.
//!
//! ```text
//! 03 shard dir position name   directories/SHARD/DIRECTORY/POSITION.NAME
//! 02 shard ino                 inodes/SHARD/INO…/…INO   the attribute user.pandofs
//! 06 shard ino name                                     the attribute user.pandofs.NAME
//! 16 shard ino                                          the contents
//! any other                    others/kKIND-AND-SHARD/kREST
//! ```
//!
//! Numbers are hexadecimal, of a fixed width. A key that begins like one of the first four and is none of them is one
//! of the last. What a file of an inode cannot hold is in `others`, under its key.

use crate::limits::MAX_ATTRIBUTE_NAME_BYTES;
use crate::names;
use pandofs_types::limits::MAX_NAME_BYTES;

/// Attribute with the value of a file that has one value, and with an inode's record.
pub(crate) const ATTRIBUTE: &str = "user.pandofs";
/// Before the name of an attribute of the inode itself.
pub(crate) const NAMED_ATTRIBUTE: &str = "user.pandofs.";
/// Attribute with checksum and size of an inode's contents.
pub(crate) const DATA_ATTRIBUTE: &str = "user.pandofs-data";

/// The first byte of keys that have a place of their own; see `docs/data-layout.md`.
pub(crate) const RECORD: u8 = 0x02;
pub(crate) const ENTRY: u8 = 0x03;
pub(crate) const NAMED: u8 = 0x06;
pub(crate) const DATA: u8 = 0x16;
/// In their order.
pub(crate) const KINDS: [u8; 4] = [RECORD, ENTRY, NAMED, DATA];

/// Folders in the store's own.
pub(crate) const TOPS: [&str; 3] = ["directories", "inodes", "others"];
/// Bits of an inode number that a file's name has, others are the name of its folder: a folder has 4,096 files at most,
/// of numbers that follow each other.
const FILE_BITS: u32 = 12;
/// Bytes of `kind | shard`.
const PREFIX_BYTES: usize = 3;
/// Bytes of `kind | shard | number`.
const NUMBERED_BYTES: usize = 11;
/// Bytes of `kind | shard | directory | position`.
const POSITIONED_BYTES: usize = 19;
/// Digits of a position and the dot after it.
const POSITION_DIGITS: usize = 16;

/// A folder of the store, of which there is a list in memory or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Folder {
    /// `directories`: shards.
    DirectoryShards,
    /// `directories/SHARD`: directories.
    Directories(u16),
    /// `directories/SHARD/DIRECTORY`: entries, each by its position and name.
    Directory(u16, u64),
    /// `inodes`: shards.
    InodeShards,
    /// `inodes/SHARD`: blocks of inode numbers.
    Blocks(u16),
    /// `inodes/SHARD/BLOCK`: inode numbers, the last bits of each.
    Block(u16, u64),
    /// `others`: the first bytes of keys.
    Prefixes,
    /// `others/kPREFIX`: what comes after those bytes.
    Prefix(Vec<u8>),
}

impl Folder {
    /// Of an inode.
    pub(crate) fn of_inode(shard: u16, ino: u64) -> Folder {
        Folder::Block(shard, ino >> FILE_BITS)
    }

    /// Where it is in the store's folder, without a `/` at either end.
    pub(crate) fn path(&self) -> Vec<u8> {
        match self {
            Folder::DirectoryShards => b"directories".to_vec(),
            Folder::Directories(shard) => format!("directories/{shard:04x}").into_bytes(),
            Folder::Directory(shard, dir) => {
                format!("directories/{shard:04x}/{dir:016x}").into_bytes()
            }
            Folder::InodeShards => b"inodes".to_vec(),
            Folder::Blocks(shard) => format!("inodes/{shard:04x}").into_bytes(),
            Folder::Block(shard, block) => format!("inodes/{shard:04x}/{block:013x}").into_bytes(),
            Folder::Prefixes => b"others".to_vec(),
            Folder::Prefix(prefix) => [b"others/k".as_slice(), &names::hex(prefix)].concat(),
        }
    }

    /// The folder that it is in, and what it is there; `None` for those that are always there.
    pub(crate) fn above(&self) -> Option<(Folder, Vec<u8>)> {
        Some(match self {
            Folder::DirectoryShards | Folder::InodeShards | Folder::Prefixes => return None,
            Folder::Directories(shard) => (Folder::DirectoryShards, shard.to_be_bytes().to_vec()),
            Folder::Directory(shard, dir) => {
                (Folder::Directories(*shard), dir.to_be_bytes().to_vec())
            }
            Folder::Blocks(shard) => (Folder::InodeShards, shard.to_be_bytes().to_vec()),
            Folder::Block(shard, block) => (Folder::Blocks(*shard), block.to_be_bytes().to_vec()),
            Folder::Prefix(prefix) => (Folder::Prefixes, prefix.clone()),
        })
    }

    /// What the whole text of a name in it stands for; `None` if it is no name of this store.
    pub(crate) fn child(&self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Folder::DirectoryShards | Folder::InodeShards => digits(text, 4, 2),
            Folder::Directories(_) => digits(text, 16, 8),
            Folder::Blocks(_) => digits(text, 13, 8),
            Folder::Block(..) => digits(text, 3, 2),
            Folder::Directory(..) => {
                let (position, name) = text.split_at_checked(POSITION_DIGITS)?;
                let name = names::unescape(name.strip_prefix(b".")?)?;
                (!name.is_empty()).then_some([names::unhex(position)?, name].concat())
            }
            Folder::Prefixes => {
                let prefix = names::unhex(text.strip_prefix(b"k")?)?;
                (prefix.len() <= PREFIX_BYTES).then_some(prefix)
            }
            Folder::Prefix(prefix) => {
                let rest = names::unhex(text.strip_prefix(b"k")?)?;
                (prefix.len() == PREFIX_BYTES || rest.is_empty()).then_some(rest)
            }
        }
    }

    /// Whether names in it may be cut, and go on in folders of its own.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self, Folder::Directory(..) | Folder::Prefix(_))
    }
}

/// A number in this many digits, as so many bytes.
fn digits(text: &[u8], digits: usize, bytes: usize) -> Option<Vec<u8>> {
    if text.len() != digits {
        return None;
    }
    let padded = [vec![b'0'; 16 - digits], text.to_vec()].concat();
    let number = names::unhex(&padded)?;
    Some(number[8 - bytes..].to_vec())
}

/// What of an inode's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Field {
    Record,
    /// By its name.
    Named(Vec<u8>),
    Data,
}

/// A file of the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileAt {
    pub folder: Folder,
    /// What it is in the folder: see [`Folder::child`].
    pub child: Vec<u8>,
}

impl FileAt {
    /// The file of an inode.
    pub(crate) fn of_inode(shard: u16, ino: u64) -> FileAt {
        FileAt {
            folder: Folder::of_inode(shard, ino),
            child: low_bits(ino).to_vec(),
        }
    }

    /// Where it is in the store's folder.
    pub(crate) fn path(&self) -> Vec<u8> {
        let mut path = self.folder.path();
        match &self.folder {
            Folder::Directory(..) => {
                let (position, name) = self.child.split_at(POSITION_DIGITS / 2);
                let mut text = names::hex(position);
                text.push(b'.');
                names::escape(name, &mut text);
                names::push_parts(&mut path, &text);
            }
            Folder::Prefix(_) => {
                let text = [b"k".as_slice(), &names::hex(&self.child)].concat();
                names::push_parts(&mut path, &text);
            }
            Folder::Block(..) => {
                path.push(b'/');
                path.extend_from_slice(&names::hex(&self.child)[1..]);
            }
            other => panic!("{other:?} has no files"),
        }
        path
    }
}

/// The last bits of an inode number, which name its file.
pub(crate) fn low_bits(ino: u64) -> [u8; 2] {
    ((ino & ((1 << FILE_BITS) - 1)) as u16).to_be_bytes()
}

/// The inode number of which a block and its last bits are known.
pub(crate) fn ino_of(block: u64, low: &[u8]) -> u64 {
    let low = low.iter().fold(0, |low, &byte| low << 8 | u64::from(byte));
    block << FILE_BITS | low
}

/// The first inode number after a block; `None` after the last one.
pub(crate) fn after_block(block: u64) -> Option<u64> {
    (block + 1).checked_mul(1 << FILE_BITS)
}

/// Where a key's value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a file that has no other value.
    Alone(FileAt),
    /// In the file of an inode, or, where that does not hold it, in [`general`].
    Inode(FileAt, Field),
}

/// The place of a key.
pub(crate) fn place(key: &[u8]) -> Place {
    let Some((&[kind, high, low], rest)) = key.split_first_chunk::<PREFIX_BYTES>() else {
        return Place::Alone(general(key));
    };
    let shard = u16::from_be_bytes([high, low]);
    let Some((number, rest)) = rest.split_first_chunk::<8>() else {
        return Place::Alone(general(key));
    };
    let number = u64::from_be_bytes(*number);
    let of_inode = |field| Place::Inode(FileAt::of_inode(shard, number), field);
    match kind {
        RECORD if rest.is_empty() => of_inode(Field::Record),
        DATA if rest.is_empty() => of_inode(Field::Data),
        NAMED if is_attribute_name(rest) => of_inode(Field::Named(rest.to_vec())),
        ENTRY if is_positioned_name(rest) => Place::Alone(FileAt {
            folder: Folder::Directory(shard, number),
            child: rest.to_vec(),
        }),
        _ => Place::Alone(general(key)),
    }
}

fn is_attribute_name(name: &[u8]) -> bool {
    (1..=MAX_ATTRIBUTE_NAME_BYTES).contains(&name.len()) && !name.contains(&0)
}

fn is_positioned_name(rest: &[u8]) -> bool {
    let least = POSITIONED_BYTES - NUMBERED_BYTES + 1;
    (least..least + MAX_NAME_BYTES).contains(&rest.len())
}

/// The file in `others` that may have a key's value.
pub(crate) fn general(key: &[u8]) -> FileAt {
    let (prefix, rest) = key.split_at(key.len().min(PREFIX_BYTES));
    FileAt {
        folder: Folder::Prefix(prefix.to_vec()),
        child: rest.to_vec(),
    }
}

/// The key of a file in `others` or of an entry.
pub(crate) fn key_of(file: &FileAt) -> Vec<u8> {
    match &file.folder {
        Folder::Prefix(prefix) => [prefix.as_slice(), &file.child].concat(),
        Folder::Directory(shard, dir) => [&numbered(ENTRY, *shard, *dir)[..], &file.child].concat(),
        other => panic!("a file in {other:?} has no key of its own"),
    }
}

/// The first bytes of keys of a directory or an inode.
pub(crate) fn numbered(kind: u8, shard: u16, number: u64) -> [u8; NUMBERED_BYTES] {
    let mut key = [0; NUMBERED_BYTES];
    key[0] = kind;
    key[1..PREFIX_BYTES].copy_from_slice(&shard.to_be_bytes());
    key[PREFIX_BYTES..].copy_from_slice(&number.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(key: &[u8]) -> String {
        let (Place::Alone(file) | Place::Inode(file, _)) = place(key);
        String::from_utf8(file.path()).unwrap()
    }

    #[test]
    fn keys_lead_to_files() {
        let ino = 0x0003_0000_0000_1234_u64;
        for (key, expected) in [
            (
                [&numbered(ENTRY, 3, 9)[..], &7_u64.to_be_bytes(), b"a/.b"].concat(),
                "directories/0003/0000000000000009/0000000000000007.a%2f.b",
            ),
            (
                numbered(RECORD, 3, ino).to_vec(),
                "inodes/0003/0003000000001/234",
            ),
            (
                numbered(DATA, 3, ino).to_vec(),
                "inodes/0003/0003000000001/234",
            ),
            (
                [&numbered(NAMED, 3, ino)[..], b"user.x"].concat(),
                "inodes/0003/0003000000001/234",
            ),
            (vec![1, 0, 3], "others/k010003/k"),
            (vec![], "others/k/k"),
            (b"a".to_vec(), "others/k61/k"),
            (vec![8, 0, 3, 0xab, 0xcd], "others/k080003/kabcd"),
        ] {
            assert_eq!(path(&key), expected);
        }
    }

    #[test]
    fn a_key_of_another_shape_is_one_of_the_others() {
        let record = numbered(RECORD, 3, 9);
        let entry = numbered(ENTRY, 3, 9);
        let named = numbered(NAMED, 3, 9);
        for key in [
            &record[..10],
            &[&record[..], b"x"].concat(),
            &entry,
            &[&entry[..], &[0; 8]].concat(),
            &[&entry[..], &[b'x'; 8 + MAX_NAME_BYTES + 1]].concat(),
            &named,
            &[&named[..], b"user\0x"].concat(),
            &[&named[..], &[b'x'; MAX_ATTRIBUTE_NAME_BYTES + 1]].concat(),
        ] {
            assert_eq!(place(key), Place::Alone(general(key)), "{key:?}");
            assert_eq!(key_of(&general(key)), key);
        }
    }

    #[test]
    fn names_in_folders_are_read_as_they_are_written() {
        let folder = Folder::Directory(3, 9);
        let file = FileAt {
            folder: folder.clone(),
            child: [&7_u64.to_be_bytes()[..], b"caf\xc3\xa9\n"].concat(),
        };
        let whole = file.path();
        let text = whole.rsplit(|&byte| byte == b'/').next().unwrap();
        assert_eq!(folder.child(text), Some(file.child.clone()));
        assert_eq!(key_of(&file)[..11], numbered(ENTRY, 3, 9));
        assert_eq!(folder.child(b"0000000000000007."), None);
        assert_eq!(folder.child(b"000000000000000g.x"), None);
        assert_eq!(Folder::Block(3, 9).child(b"0ff"), Some(vec![0, 0xff]));
        assert_eq!(Folder::Block(3, 9).child(b"0FF"), None);
        assert_eq!(
            Folder::Blocks(3)
                .child(b"0003000000001")
                .map(|b| b[6..].to_vec()),
            Some(vec![0, 1])
        );
        assert_eq!(Folder::Prefixes.child(b"k01000300"), None);
        assert_eq!(Folder::Prefix(vec![1]).child(b"k00"), None);
        assert_eq!(Folder::Prefix(vec![1, 0, 3]).child(b"k00"), Some(vec![0]));
    }

    #[test]
    fn folders_lead_up() {
        for folder in [
            Folder::Directory(3, 9),
            Folder::Directories(3),
            Folder::Block(3, 0x000f_ffff_ffff_ffff),
            Folder::Blocks(3),
            Folder::Prefix(vec![1, 0, 3]),
            Folder::Prefix(vec![]),
        ] {
            let (above, child) = folder.above().unwrap();
            let path = folder.path();
            let name = path.rsplit(|&byte| byte == b'/').next().unwrap();
            assert_eq!(above.child(name), Some(child), "{folder:?}");
            assert!(path.starts_with(&above.path()));
        }
        let last = u64::MAX >> FILE_BITS;
        assert_eq!(after_block(last), None);
        assert_eq!(ino_of(last, &low_bits(u64::MAX)), u64::MAX);
    }
}
