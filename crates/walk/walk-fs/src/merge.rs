//! Merger of saved walks: what several processes wrote of one walk ([`Saved`](crate::Saved))
//! becomes one.
//!
//! Directories are the same if they have one name in the same directory; what was gathered for them
//! is added up. So roots that were given twice cannot be distinguished: a caller that lets several
//! processes walk has to refuse them.
//!
//! Files are read one after the other, item by item: in memory are only the directories above
//! items, which the walk that goes on has there as well.

use crate::dir::DirState;
use crate::written::{Head, Written, read_item, read_parts, read_table, write_table};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};

/// One file of several.
#[derive(Debug)]
pub struct Merge<D> {
    out: BufWriter<File>,
    items: u64,
    dirs: Vec<Known<D>>,
    /// By the number of the one that they are in, and their names; without what the roots are in.
    numbers: HashMap<(u32, Box<[u8]>), u32>,
}

#[derive(Debug)]
struct Known<D> {
    above: u32,
    seed: [u64; 2],
    name: Box<[u8]>,
    state: D,
}

impl<D: DirState> Merge<D> {
    /// Into an empty file.
    pub fn new(file: File) -> Merge<D> {
        Merge {
            out: BufWriter::new(file),
            items: 0,
            dirs: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    /// Takes what a process has written, from where the file is to its end; nothing if it has
    /// written nothing.
    ///
    /// # Errors
    /// When it cannot be read, holds something else, or cannot be written again.
    pub fn add(&mut self, from: &mut (impl Read + Seek)) -> io::Result<()> {
        let start = from.stream_position()?;
        if start == from.seek(SeekFrom::End(0))? {
            return Ok(());
        }
        from.seek(SeekFrom::Start(start))?;
        let (length, table) = read_parts(from)?;
        let numbers = self.add_dirs(&table)?;
        self.add_items(from.take(length), &numbers)
    }

    /// Their numbers here, in the order of their numbers there.
    fn add_dirs(&mut self, bytes: &[u8]) -> io::Result<Vec<u32>> {
        let written = read_table(bytes).map_err(|_| ErrorKind::InvalidData)?;
        let mut numbers: Vec<u32> = Vec::with_capacity(written.len());
        for it in written {
            let next = self.dirs.len() as u32;
            // The table was looked at: only the first is not in one before it.
            let above = numbers.get(it.above as usize).copied();
            let number = match above {
                None => 0,
                Some(above) => {
                    let key = (above, it.name.into());
                    *self.numbers.entry(key).or_insert(next)
                }
            };
            if number == next {
                self.dirs.push(Known {
                    above: above.unwrap_or(0),
                    seed: it.seed,
                    name: it.name.into(),
                    state: D::elsewhere(it.seed),
                });
            }
            let state = &self.dirs[number as usize].state;
            state.add(it.gathered).map_err(|_| ErrorKind::InvalidData)?;
            numbers.push(number);
        }
        Ok(numbers)
    }

    fn add_items(&mut self, from: impl Read, numbers: &[u32]) -> io::Result<()> {
        let mut from = BufReader::new(from);
        let mut bytes = Vec::new();
        while !from.fill_buf()?.is_empty() {
            let (head, content) = read_item(&mut from)?;
            let dir = *numbers
                .get(head.dir as usize)
                .ok_or(ErrorKind::InvalidData)?;
            bytes.clear();
            Head { dir, ..head }.write(&mut bytes);
            self.out.write_all(&bytes)?;
            self.out.write_all(&content)?;
            self.items += 1;
        }
        Ok(())
    }

    /// Returns how many items all have written; with 0 the walk came to its end.
    ///
    /// # Errors
    /// When some could not be written, or directories wait for items that no process has written.
    pub fn finish(mut self) -> io::Result<u64> {
        if self.items == 0 && !self.dirs.is_empty() {
            return Err(ErrorKind::InvalidData.into());
        }
        if !self.dirs.is_empty() {
            let written = self.dirs.iter().map(|dir| {
                let written = Written {
                    above: dir.above,
                    seed: dir.seed,
                    name: &dir.name,
                    gathered: &[],
                };
                (written, dir.state.gathered())
            });
            write_table(&mut self.out, self.dirs.len(), written)?;
        }
        self.out.flush()?;
        Ok(self.items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::Dir;
    use crate::saved::Saved;
    use crate::saved::tests::{Bytes, content, known, loaded};
    use crate::slice::Item;
    use std::io::Cursor;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    /// Returns the bytes that one process writes: `walk` makes its directories and saves items.
    fn written(walk: impl FnOnce(&Saved)) -> Vec<u8> {
        let file = tempfile::tempfile().unwrap();
        let saved = Saved::new(file.try_clone().unwrap());
        walk(&saved);
        saved.finish::<Bytes>().unwrap();
        content(file)
    }

    fn merged(parts: &[&[u8]]) -> io::Result<(u64, Vec<u8>)> {
        let file = tempfile::tempfile()?;
        let mut merge = Merge::<Bytes>::new(file.try_clone()?);
        for part in parts {
            // Something else may be in front of it.
            let mut from = Cursor::new([b"head", *part].concat());
            from.set_position(4);
            merge.add(&mut from)?;
        }
        Ok((merge.finish()?, content(file)))
    }

    /// The home of `a`, in which an item was written elsewhere.
    fn home() -> Vec<u8> {
        written(|saved| {
            let top = Dir::<Bytes>::top();
            top.state().0.fetch_add(1, Ordering::Relaxed);
            let a = Arc::new(Dir::child(&top, c"a", [3, 0]));
            a.state().0.fetch_add(10, Ordering::Relaxed);
            saved.note(&a);
        })
    }

    /// A stand-in of `a`, a slice of it, and the home of `b` in it with an item.
    fn elsewhere() -> Vec<u8> {
        written(|saved| {
            let top = Arc::new(Dir::<Bytes>::proxy(None, c"", [0, 0], 0, None));
            let x = Arc::new(Dir::proxy(Some(&top), c"x", [0, 0], 0, None));
            saved.save(&Item::Directory(Arc::new(Dir::unspilled(&x, c"y", [8, 9]))));
            let a = Arc::new(Dir::proxy(Some(&top), c"a", [3, 0], 1, None));
            saved.save(&Item::Slice(Arc::clone(&a), (*b"entries").into()));
            let b = Arc::new(Dir::child(&a, c"b", [5, 6]));
            saved.save(&Item::Task(b, (*b"later").into()));
        })
    }

    #[test]
    fn directories_of_one_name_become_one_with_what_all_have_gathered() {
        let (home, elsewhere) = (home(), elsewhere());
        for parts in [
            [&home[..], &elsewhere, b""],
            [&elsewhere, b"", &home],
            [b"", &elsewhere, &home],
        ] {
            let (items, bytes) = merged(&parts).unwrap();
            assert_eq!(items, 3);
            let (top, items) = loaded(&bytes).unwrap();
            let [
                Item::Directory(y),
                Item::Slice(a, entries),
                Item::Task(b, what),
            ] = &items[..]
            else {
                panic!("{items:?}");
            };
            assert_eq!((&**entries, &**what), (&b"entries"[..], &b"later"[..]));
            assert_eq!((y.name(), y.seed(), y.depth()), (c"y", [8, 9], 1));
            assert_eq!((a.name(), b.name()), (c"a", c"b"));
            assert!(b.above().is_some_and(|above| Arc::ptr_eq(above, a)));
            assert_eq!((known(&top), known(a), known(b)), (1, 13, 5));
            assert!(!a.parts_done(1));
            assert!(b.parts_done(1) && a.parts_done(1), "its slice and b");
            // A single file stays as it is.
            assert_eq!(merged(&[&bytes]).unwrap(), (3, bytes));
        }
    }

    #[test]
    fn who_has_nothing_to_tell_adds_nothing() {
        assert_eq!(merged(&[b"", b""]).unwrap(), (0, Vec::new()));
    }

    #[test]
    fn what_is_damaged_is_refused_or_read_as_something_else() {
        let bytes = elsewhere();
        for cut in 1..bytes.len() {
            assert!(merged(&[&bytes[..cut]]).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                let _ = merged(&[&other]);
            }
        }
        // The home waits for what no process has written.
        assert!(merged(&[&home()]).is_err());
    }
}
