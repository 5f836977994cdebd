//! A walk that is interrupted, to go on later.
//!
//! When it is to be interrupted, each thread finishes the item that it is at; items that nobody has begun are written to
//! a file, in place of being done, until none is left. So every entry was shown before, or is in what was written, and
//! none is in both. A directory that is not done has such an item in it or below it, so that what is known of it is
//! written as well: directories above items, with what their states have [gathered](DirState::gathered).
//!
//! The file, all numbers little-endian, is for the version that wrote it:
//!
//! - for each item one byte, 0 for a directory, 1 for a slice, 2 for a task; four bytes, the number of the directory that
//!   it is in; two numbers of eight bytes, a directory's seed; four bytes, a length; and so many bytes, a directory's
//!   name or what the slice or task is;
//! - the directories, in postcard's encoding: for each the number of the one that it is in, its seed, its name, and what
//!   was gathered. They are numbered from 0, which is what the roots are in, and come after those that they are in;
//! - eight bytes, the length of these.

use crate::dir::{Dir, DirState, Unreadable};
use crate::slice::Item;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where items go that nobody has begun.
#[derive(Debug)]
pub struct Saved {
    asked: AtomicBool,
    /// Some item was begun: a walk that is interrupted again and again still comes to its end.
    begun: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: BufWriter<File>,
    items: u64,
    failure: Option<io::Error>,
    /// `Above<D>`, once there is an item.
    above: Option<Box<dyn Any + Send>>,
}

/// Directories above items, by their numbers.
struct Above<D> {
    dirs: Vec<Arc<Dir<D>>>,
    /// By their addresses, which stay theirs as long as they are here.
    numbers: HashMap<usize, u32>,
}

fn address<D>(dir: &Arc<Dir<D>>) -> usize {
    Arc::as_ptr(dir).addr()
}

#[derive(Serialize, Deserialize)]
struct Written<'w> {
    above: u32,
    seed: [u64; 2],
    #[serde(with = "serde_bytes")]
    name: &'w [u8],
    #[serde(with = "serde_bytes")]
    gathered: &'w [u8],
}

const DIRECTORY: u8 = 0;
const SLICE: u8 = 1;
const TASK: u8 = 2;

impl Saved {
    /// Into an empty file.
    pub fn new(file: File) -> Saved {
        Saved {
            asked: AtomicBool::new(false),
            begun: AtomicBool::new(false),
            state: Mutex::new(State {
                file: BufWriter::new(file),
                items: 0,
                failure: None,
                above: None,
            }),
        }
    }

    /// Interrupts the walk.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether the next item is to be written in place of being done.
    pub(crate) fn takes(&self) -> bool {
        self.begun.swap(true, Ordering::Relaxed) && self.asked.load(Ordering::Relaxed)
    }

    pub(crate) fn save<D: DirState>(&self, item: &Item<D>) {
        let (kind, dir, seed, content) = match item {
            Item::Directory(dir) => match dir.above() {
                Some(above) => (DIRECTORY, above, dir.seed(), dir.name().to_bytes()),
                None => unreachable!("what the roots are in is no item"),
            },
            Item::Slice(dir, entries) => (SLICE, dir, [0, 0], &**entries),
            Item::Task(dir, what) => (TASK, dir, [0, 0], &**what),
        };
        let mut state = self.lock();
        let above = state.above.get_or_insert_with(|| {
            Box::new(Above::<D> {
                dirs: Vec::new(),
                numbers: HashMap::new(),
            })
        });
        let Some(above) = above.downcast_mut::<Above<D>>() else {
            unreachable!("a walk has directories of one kind");
        };
        let number = above.number(dir);
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend(seed.iter().flat_map(|it| it.to_le_bytes()));
        bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
        bytes.extend_from_slice(content);
        state.items += 1;
        if let Err(error) = state.file.write_all(&bytes) {
            state.failure.get_or_insert(error);
        }
    }

    /// To be called when the walk has ended, of whose directories `D` is the state. How many items were written; with 0
    /// the walk came to its end.
    ///
    /// # Errors
    /// When some could not be written.
    pub fn finish<D: DirState>(&self) -> io::Result<u64> {
        let mut state = self.lock();
        if let Some(error) = state.failure.take() {
            return Err(error);
        }
        if let Some(above) = state.above.take()
            && let Ok(above) = above.downcast::<Above<D>>()
        {
            let bytes = above.written();
            state.file.write_all(&bytes)?;
            state.file.write_all(&(bytes.len() as u64).to_le_bytes())?;
        }
        state.file.flush()?;
        state.file.get_ref().sync_all()?;
        Ok(state.items)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: DirState> Above<D> {
    /// The number of a directory, which it and those above it get if they have none.
    fn number(&mut self, dir: &Arc<Dir<D>>) -> u32 {
        let mut missing = Vec::new();
        let mut next = Some(dir);
        while let Some(dir) = next.filter(|dir| !self.numbers.contains_key(&address(dir))) {
            missing.push(dir);
            next = dir.above();
        }
        for dir in missing.into_iter().rev() {
            self.numbers.insert(address(dir), self.dirs.len() as u32);
            self.dirs.push(Arc::clone(dir));
        }
        self.numbers[&address(dir)]
    }

    fn written(&self) -> Vec<u8> {
        let gathered: Vec<Vec<u8>> = self.dirs.iter().map(|it| it.state().gathered()).collect();
        let dirs: Vec<Written<'_>> = self
            .dirs
            .iter()
            .zip(&gathered)
            .map(|(dir, gathered)| Written {
                above: dir.above().map_or(0, |above| self.numbers[&address(above)]),
                seed: dir.seed(),
                name: dir.name().to_bytes(),
                gathered,
            })
            .collect();
        match postcard::to_stdvec(&dirs) {
            Ok(bytes) => bytes,
            Err(error) => unreachable!("a vector takes everything: {error}"),
        }
    }
}

/// What all roots are in, and items.
pub(crate) type Loaded<D> = (Arc<Dir<D>>, Vec<Item<D>>);

/// Reads items that were written.
pub(crate) fn load<D: DirState>(file: &mut impl Read) -> Result<Loaded<D>, Unreadable> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|_| Unreadable)?;
    let (rest, length) = bytes.split_last_chunk::<8>().ok_or(Unreadable)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| Unreadable)?;
    let start = rest.len().checked_sub(length).ok_or(Unreadable)?;
    let (mut rest, written) = rest.split_at(start);
    let written: Vec<Written<'_>> = postcard::from_bytes(written).map_err(|_| Unreadable)?;
    let mut dirs: Vec<Arc<Dir<D>>> = Vec::new();
    for it in &written {
        let above = match dirs.is_empty() {
            true => None,
            false => Some(dirs.get(it.above as usize).ok_or(Unreadable)?),
        };
        let name = CString::new(it.name).map_err(|_| Unreadable)?;
        let dir = Dir::restored(above, &name, it.seed);
        dir.state().add(it.gathered)?;
        dirs.push(Arc::new(dir));
    }
    let mut items = Vec::new();
    while !rest.is_empty() {
        items.push(take(&mut rest, &dirs).ok_or(Unreadable)?);
    }
    let top = dirs.into_iter().next().ok_or(Unreadable)?;
    Ok((top, items))
}

fn take<D: DirState>(rest: &mut &[u8], dirs: &[Arc<Dir<D>>]) -> Option<Item<D>> {
    let (&kind, after) = rest.split_first()?;
    let (number, after) = after.split_first_chunk::<4>()?;
    let (first, after) = after.split_first_chunk::<8>()?;
    let (second, after) = after.split_first_chunk::<8>()?;
    let (length, after) = after.split_first_chunk::<4>()?;
    let (content, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    let dir = dirs.get(u32::from_le_bytes(*number) as usize)?;
    let seed = [u64::from_le_bytes(*first), u64::from_le_bytes(*second)];
    match kind {
        DIRECTORY => {
            let name = CString::new(content).ok()?;
            Some(Item::Directory(Arc::new(Dir::child(dir, &name, seed))))
        }
        SLICE | TASK => {
            dir.add_part();
            let (dir, content) = (Arc::clone(dir), content.into());
            Some(if kind == SLICE {
                Item::Slice(dir, content)
            } else {
                Item::Task(dir, content)
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Seek;
    use std::sync::atomic::AtomicU64;

    #[derive(Debug)]
    struct Bytes(AtomicU64);

    impl DirState for Bytes {
        fn new(seed: [u64; 2]) -> Bytes {
            Bytes(AtomicU64::new(seed[0]))
        }
        fn elsewhere(_seed: [u64; 2]) -> Bytes {
            Bytes(AtomicU64::new(0))
        }
        fn gathered(&self) -> Vec<u8> {
            vec![self.0.load(Ordering::Relaxed) as u8]
        }
        fn add(&self, gathered: &[u8]) -> Result<(), Unreadable> {
            let [bytes] = gathered else {
                return Err(Unreadable);
            };
            self.0.fetch_add(u64::from(*bytes), Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn directories_come_back_with_what_is_known_of_them_and_end_with_their_last_item() {
        let mut file = tempfile::tempfile().unwrap();
        let saved = Saved::new(file.try_clone().unwrap());
        let top = Dir::<Bytes>::top();
        let a = Arc::new(Dir::child(&top, c"a", [3, 0]));
        let b = Arc::new(Dir::child(&a, c"b\n\xff", [5, 6]));
        a.state().0.fetch_add(10, Ordering::Relaxed);
        a.add_part();
        saved.save(&Item::Slice(Arc::clone(&a), (*b"entries").into()));
        saved.save(&Item::Directory(Arc::clone(&b)));
        assert_eq!(saved.finish::<Bytes>().unwrap(), 2);

        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        let (top, items) = load::<Bytes>(&mut &bytes[..]).unwrap();
        let [Item::Slice(a, entries), Item::Directory(b)] = &items[..] else {
            panic!("{items:?}");
        };
        assert_eq!((a.name(), &**entries), (c"a", &b"entries"[..]));
        assert_eq!((b.name(), b.seed(), b.depth()), (c"b\n\xff", [5, 6], 1));
        let known = |dir: &Dir<Bytes>| dir.state().0.load(Ordering::Relaxed);
        assert_eq!(known(a), 13, "its own three once");
        assert_eq!(known(b), 5, "it was not begun");
        assert!(b.above().is_some_and(|above| Arc::ptr_eq(above, a)));
        assert!(!a.part_done());
        assert!(b.part_done() && a.part_done() && top.part_done());
        for cut in 0..bytes.len() {
            assert!(load::<Bytes>(&mut &bytes[..cut]).is_err(), "{cut}");
        }
    }
}
