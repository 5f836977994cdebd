//! The bytes in which items wait to be done later: what [`Saved`](crate::Saved) writes, [`Merge`](crate::Merge) makes one of,
//! and [`go_on`](crate::go_on) reads. Numbers are little-endian.
//!
//! - For each item one byte, 0 for a directory, 1 for a slice, 2 for a task; four bytes, the number of the directory that
//!   it is in or is a part of; two numbers of eight bytes, a directory's seed, or zeros; four bytes, a length; and so many
//!   bytes: a directory's name, what `slice.rs` says of a slice, or what a visitor has put off.
//! - The directories above them, in postcard's encoding, in which numbers are varints (seven bits a byte, the lowest first, the
//!   eighth says that more follow): how many there are, and for each the number of the one that it is in, the two numbers
//!   of its seed, the length of its name and the name, and the length of what was
//!   [gathered](crate::DirState::gathered) and that. They are numbered from 0, which is what the roots are in and has no
//!   name, and come after those that they are in.
//! - Eight bytes: the length of these.
//!
//! Nothing at all is written when there is nothing to go on with.

use crate::dir::Unreadable;
use serde::{Deserialize, Serialize};

/// Bytes of the length at the end.
pub const LENGTH_BYTES: usize = 8;
/// Bytes of an item before its content.
pub const HEAD_BYTES: usize = 25;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory = 0,
    Slice = 1,
    Task = 2,
}

/// What comes before an item's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub kind: Kind,
    pub dir: u32,
    pub seed: [u64; 2],
    pub length: u32,
}

impl Head {
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.kind as u8);
        bytes.extend_from_slice(&self.dir.to_le_bytes());
        bytes.extend(self.seed.iter().flat_map(|it| it.to_le_bytes()));
        bytes.extend_from_slice(&self.length.to_le_bytes());
    }

    /// The head that these bytes begin with, and the rest.
    pub fn read(bytes: &[u8]) -> Option<(Head, &[u8])> {
        let (&kind, rest) = bytes.split_first()?;
        let (dir, rest) = rest.split_first_chunk::<4>()?;
        let (first, rest) = rest.split_first_chunk::<8>()?;
        let (second, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let head = Head {
            kind: match kind {
                0 => Kind::Directory,
                1 => Kind::Slice,
                2 => Kind::Task,
                _ => return None,
            },
            dir: u32::from_le_bytes(*dir),
            seed: [u64::from_le_bytes(*first), u64::from_le_bytes(*second)],
            length: u32::from_le_bytes(*length),
        };
        Some((head, rest))
    }
}

/// A directory above items.
#[derive(Debug, Serialize, Deserialize)]
pub struct Written<'w> {
    pub above: u32,
    pub seed: [u64; 2],
    #[serde(with = "serde_bytes")]
    pub name: &'w [u8],
    #[serde(with = "serde_bytes")]
    pub gathered: &'w [u8],
}

/// The directories' bytes, and their length behind them.
pub fn table(dirs: &[Written<'_>]) -> Vec<u8> {
    let mut bytes = match postcard::to_stdvec(dirs) {
        Ok(bytes) => bytes,
        Err(error) => unreachable!("a vector takes everything: {error}"),
    };
    let length = bytes.len() as u64;
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes
}

/// The directories in these bytes, without the length. Each is in one before it, but for the first.
pub fn read_table(bytes: &[u8]) -> Result<Vec<Written<'_>>, Unreadable> {
    let (dirs, rest): (Vec<Written<'_>>, &[u8]) =
        postcard::take_from_bytes(bytes).map_err(|_| Unreadable)?;
    let mut numbered = (0..).zip(&dirs);
    let is_first = |dir: &Written<'_>| dir.above == 0 && dir.name.is_empty();
    let begins = numbered.next().is_some_and(|(_, top)| is_first(top));
    if !begins || !rest.is_empty() || !numbered.all(|(number, dir)| dir.above < number) {
        return Err(Unreadable);
    }
    Ok(dirs)
}
