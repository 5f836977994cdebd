//! Encoding of items that wait to be done later. [`Saved`](crate::Saved) writes it,
//! [`Merge`](crate::Merge) makes one of several, and [`go_on`](crate::go_on) reads it. Numbers are
//! little-endian.
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
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};

/// Bytes of the length at the end.
pub(crate) const LENGTH_BYTES: usize = 8;
/// Bytes of an item before its content.
pub(crate) const HEAD_BYTES: usize = 25;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory = 0,
    Slice = 1,
    Task = 2,
}

/// Header before an item's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    pub dir: u32,
    pub seed: [u64; 2],
    pub length: u32,
}

impl Head {
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.kind as u8);
        bytes.extend_from_slice(&self.dir.to_le_bytes());
        bytes.extend(self.seed.iter().flat_map(|it| it.to_le_bytes()));
        bytes.extend_from_slice(&self.length.to_le_bytes());
    }

    /// The head that these bytes begin with, and the rest.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Head, &[u8])> {
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
pub(crate) struct Written<'w> {
    pub above: u32,
    pub seed: [u64; 2],
    #[serde(with = "serde_bytes")]
    pub name: &'w [u8],
    #[serde(with = "serde_bytes")]
    pub gathered: &'w [u8],
}

/// Writes the directories, of which there are so many, one after the other, and the length of that
/// behind them.
pub(crate) fn write_table<'w>(
    out: &mut impl Write,
    many: usize,
    dirs: impl Iterator<Item = (Written<'w>, Vec<u8>)>,
) -> io::Result<()> {
    // As postcard writes a list: how many elements it has, and these.
    let mut bytes = encoded(&many);
    out.write_all(&bytes)?;
    let mut length = bytes.len() as u64;
    for (dir, gathered) in dirs {
        bytes = encoded(&Written {
            gathered: &gathered,
            ..dir
        });
        out.write_all(&bytes)?;
        length += bytes.len() as u64;
    }
    out.write_all(&length.to_le_bytes())
}

fn encoded(value: &impl Serialize) -> Vec<u8> {
    match postcard::to_stdvec(value) {
        Ok(bytes) => bytes,
        Err(error) => unreachable!("a vector takes everything: {error}"),
    }
}

/// The directories in these bytes, without the length. Each is in one before it, but for the first.
pub(crate) fn read_table(bytes: &[u8]) -> Result<Vec<Written<'_>>, Unreadable> {
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

/// Of what was written, from where the file is to its end: how many bytes items have, and those of
/// the directories, without their length. The file is where it was then.
pub(crate) fn read_parts(file: &mut (impl Read + Seek + ?Sized)) -> io::Result<(u64, Vec<u8>)> {
    let start = file.stream_position()?;
    let end = file.seek(SeekFrom::End(0))?;
    let after = |end: u64, bytes: u64| {
        let at = end.checked_sub(bytes).filter(|it| *it >= start);
        at.ok_or(ErrorKind::InvalidData)
    };
    let table_end = after(end, LENGTH_BYTES as u64)?;
    file.seek(SeekFrom::Start(table_end))?;
    let mut length = [0; LENGTH_BYTES];
    file.read_exact(&mut length)?;
    let items_end = after(table_end, u64::from_le_bytes(length))?;
    file.seek(SeekFrom::Start(items_end))?;
    let mut table = Vec::new();
    let bytes = table_end - items_end;
    file.take(bytes).read_to_end(&mut table)?;
    file.seek(SeekFrom::Start(start))?;
    Ok((items_end - start, table))
}

/// The next item.
pub(crate) fn read_item(from: &mut impl Read) -> io::Result<(Head, Vec<u8>)> {
    let mut head = [0; HEAD_BYTES];
    from.read_exact(&mut head)?;
    let (head, _) = Head::read(&head).ok_or(ErrorKind::InvalidData)?;
    // A false length takes no memory before the bytes are there.
    let mut content = Vec::new();
    from.take(u64::from(head.length))
        .read_to_end(&mut content)?;
    if content.len() != head.length as usize {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok((head, content))
}
