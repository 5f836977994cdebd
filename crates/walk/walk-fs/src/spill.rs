//! Items that do not fit in memory, in a file without a name.
//!
//! Pieces are written and read whole, the last one first; another process gets the first one. Their
//! directories stay in memory: a queue becomes long where directories have many others in them, so
//! those are few. The format is for this process alone.

use crate::dir::{Dir, DirState};
use crate::slice::Item;
use rustix::fs::{FallocateFlags, fallocate};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Spill<D> {
    file: Option<File>,
    pieces: VecDeque<Piece<D>>,
    end: u64,
}

#[derive(Debug)]
struct Piece<D> {
    /// Its place in the file.
    start: u64,
    bytes: usize,
    /// Directories that the items are in, or are parts of.
    dirs: Vec<Arc<Dir<D>>>,
}

const DIRECTORY: u8 = 0;
const SLICE: u8 = 1;
const TASK: u8 = 2;

impl<D: DirState> Spill<D> {
    pub(crate) fn new() -> Spill<D> {
        Spill {
            file: None,
            pieces: VecDeque::new(),
            end: 0,
        }
    }

    /// # Errors
    /// When the file cannot be made or written.
    pub(crate) fn push(&mut self, items: Vec<Item<D>>, directory: &Path) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut dirs: Vec<Arc<Dir<D>>> = Vec::new();
        for item in items {
            let (kind, of, seed, content) = match &item {
                Item::Directory(dir) => {
                    let above = dir.above().ok_or(ErrorKind::InvalidInput)?;
                    (DIRECTORY, above, dir.seed(), dir.name().to_bytes_with_nul())
                }
                Item::Slice(dir, entries) => (SLICE, dir, [0, 0], &**entries),
                Item::Task(dir, what) => (TASK, dir, [0, 0], &**what),
            };
            // Items of one directory mostly come one after the other.
            if !dirs.last().is_some_and(|last| Arc::ptr_eq(last, of)) {
                dirs.push(Arc::clone(of));
            }
            bytes.push(kind);
            bytes.extend_from_slice(&(dirs.len() as u64 - 1).to_le_bytes());
            for number in [seed[0], seed[1], content.len() as u64] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(content);
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(directory)?),
        };
        file.write_all_at(&bytes, self.end)?;
        let start = self.end;
        self.end += bytes.len() as u64;
        self.pieces.push_back(Piece {
            start,
            bytes: bytes.len(),
            dirs,
        });
        Ok(())
    }

    /// The piece that was spilled last.
    ///
    /// # Errors
    /// When the file cannot be read, or holds something else than was written.
    pub(crate) fn pop(&mut self) -> io::Result<Vec<Item<D>>> {
        let piece = self.pieces.pop_back().ok_or(ErrorKind::NotFound)?;
        self.end = piece.start;
        self.read(&piece)
    }

    /// The piece that was spilled first.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    pub(crate) fn pop_first(&mut self) -> io::Result<Vec<Item<D>>> {
        let piece = self.pieces.pop_front().ok_or(ErrorKind::NotFound)?;
        let items = self.read(&piece)?;
        match &self.file {
            _ if self.pieces.is_empty() => self.end = 0,
            Some(file) => {
                // Its place is not used again as long as there are others: the file would grow with
                // all that was ever given away. Some file systems cannot do it, and take more room.
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = fallocate(file, mode, piece.start, piece.bytes as u64);
            }
            None => {}
        }
        Ok(items)
    }

    fn read(&self, piece: &Piece<D>) -> io::Result<Vec<Item<D>>> {
        let file = self.file.as_ref().ok_or(ErrorKind::NotFound)?;
        let mut bytes = vec![0; piece.bytes];
        file.read_exact_at(&mut bytes, piece.start)?;
        let mut rest = &bytes[..];
        let mut items = Vec::new();
        while !rest.is_empty() {
            items.push(take(&mut rest, &piece.dirs).ok_or(ErrorKind::InvalidData)?);
        }
        Ok(items)
    }
}

fn take<D: DirState>(rest: &mut &[u8], dirs: &[Arc<Dir<D>>]) -> Option<Item<D>> {
    let (&kind, after) = rest.split_first()?;
    *rest = after;
    let mut number = || {
        let (number, after) = rest.split_first_chunk::<8>()?;
        *rest = after;
        Some(u64::from_le_bytes(*number))
    };
    let dir = dirs.get(number()? as usize)?;
    let seed = [number()?, number()?];
    let len = number()? as usize;
    let (content, after) = rest.split_at_checked(len)?;
    *rest = after;
    match kind {
        DIRECTORY => {
            let name = CStr::from_bytes_with_nul(content).ok()?;
            Some(Item::Directory(Arc::new(Dir::unspilled(dir, name, seed))))
        }
        SLICE => Some(Item::Slice(Arc::clone(dir), content.into())),
        TASK => Some(Item::Task(Arc::clone(dir), content.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_back_last_first_as_they_were() {
        let top = Dir::<()>::top();
        let a = Arc::new(Dir::child(&top, c"a", [0, 0]));
        let item = |dir, name| Item::Directory(Arc::new(Dir::child(dir, name, [3, 4])));
        let mut spill = Spill::new();
        let place = std::env::temp_dir();
        let first = vec![item(&a, c"x\n\xff"), item(&top, c"y"), item(&a, c"z")];
        spill.push(first, &place).unwrap();
        let slice = Item::Slice(Arc::clone(&a), (*b"bytes").into());
        let task = Item::Task(Arc::clone(&a), (*b"later").into());
        spill.push(vec![slice, task], &place).unwrap();

        match &spill.pop().unwrap()[..] {
            [Item::Slice(dir, bytes), Item::Task(of, later)] => {
                assert!(Arc::ptr_eq(dir, &a) && Arc::ptr_eq(of, &a));
                assert_eq!((&**bytes, &**later), (&b"bytes"[..], &b"later"[..]));
            }
            other => panic!("{other:?}"),
        }
        let names: Vec<_> = spill
            .pop()
            .unwrap()
            .iter()
            .map(|item| match item {
                Item::Directory(dir) => (dir.name().to_owned(), dir.depth(), dir.seed()),
                Item::Slice(..) | Item::Task(..) => panic!("no directory"),
            })
            .collect();
        let expected = [(c"x\n\xff", 1), (c"y", 0), (c"z", 1)];
        assert_eq!(
            names,
            expected.map(|(name, depth)| (name.to_owned(), depth, [3, 4]))
        );
        assert!(spill.pop().is_err());
    }

    #[test]
    fn the_first_piece_goes_and_its_room_with_it() {
        let top = Dir::<()>::top();
        let mut spill = Spill::new();
        let what = vec![7; 100_000].into_boxed_slice();
        let push = |spill: &mut Spill<()>, number: u8| {
            let items = [number.to_le_bytes().into(), what.clone()];
            let items = items.map(|what| Item::Task(Arc::clone(&top), what));
            spill.push(items.into(), &std::env::temp_dir()).unwrap();
        };
        let number = |items: io::Result<Vec<Item<()>>>| match &items.unwrap()[..] {
            [Item::Task(_, number), Item::Task(..)] => number[0],
            other => panic!("{other:?}"),
        };
        for piece in 0..3 {
            push(&mut spill, piece);
        }
        for piece in 3..100 {
            assert_eq!(number(spill.pop_first()), piece - 3);
            push(&mut spill, piece);
        }
        let file = spill.file.as_ref().unwrap().metadata().unwrap();
        assert!(file.len() > 9_000_000);
        // Where holes can be made, which is on all file systems that temporary files are on.
        assert!(std::os::unix::fs::MetadataExt::blocks(&file) * 512 < 1_000_000);
        assert_eq!(number(spill.pop()), 99);
        assert_eq!(number(spill.pop_first()), 97);
        assert_eq!(number(spill.pop_first()), 98);
        assert_eq!(spill.end, 0);
        assert!(spill.pop_first().is_err());
    }
}
