//! A walk that is interrupted, to go on later: in one process, or in several together.
//!
//! When it is to be interrupted, each thread finishes the item that it is at; items that no thread
//! has begun are written to a file of their process, in place of being done, until none is left. So
//! every entry was shown before, or is in what was written, and none is in both: an item is with
//! one thread of one process, which does one of the two.
//!
//! An item that was written counts as a part of its directory that is done, so that the walk comes
//! to its end as always. But the directory is **unfinished** then: when its last part is done it is
//! not left, and the one that it is in is unfinished as well, before its part there counts. An
//! unfinished directory is written: the names above it, and what its state has
//! [gathered](DirState::gathered).
//!
//! Over several processes a directory has its home where it was listed; other processes have
//! stand-ins of it, for parts that they were given (`message.rs`). A stand-in whose last part is
//! done goes back to its sender, with what was gathered and whether it is unfinished, in any
//! case: so chains and rings of them end at the home, whose last part is done after all of that has
//! come. From this follows, by the parts of a directory, that:
//!
//! - at its home a directory is unfinished if and only if an item in it or below it was written somewhere; otherwise it is
//!   left, there and once, after all that is in it;
//! - what was gathered for it is in the home's state. A file therefore has that of homes, and of stand-ins, whose names
//!   are needed for items, what a state [elsewhere](DirState::elsewhere) begins with, which adds nothing;
//! - all files together ([`Merge`](crate::Merge)) have each unfinished directory, with all that was gathered, and an item
//!   in it or below it.
//!
//! Without [`Options::leaves`](crate::Options::leaves) stand-ins do not go back, and nothing is
//! known of directories but their names. For the bytes see `written.rs`.

use crate::dir::{Dir, DirState, Unreadable};
use crate::limits::LOADED_BYTES;
use crate::slice::Item;
use crate::threads::WalkError;
use crate::written::{
    HEAD_BYTES, Head, Kind, Written, read_item, read_parts, read_table, write_table,
};
use std::any::Any;
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Destination of a process's items that no thread has begun.
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
    /// `Above<D>`, once there is an item or an unfinished directory.
    above: Option<Box<dyn Any + Send>>,
}

/// Directories above items, by their numbers.
struct Above<D> {
    dirs: Vec<Known<D>>,
    /// By the number of the one that they are in, none for what the roots are in, and their names:
    /// of one directory there may be many stand-ins, and only one of them is remembered.
    by_name: HashMap<(Option<u32>, Box<[u8]>), u32>,
    /// Homes by their addresses, which stay theirs as long as they are here.
    homes: HashMap<usize, u32>,
}

struct Known<D> {
    above: Option<u32>,
    seed: [u64; 2],
    name: Box<[u8]>,
    /// None as long as only stand-ins were met.
    home: Option<Arc<Dir<D>>>,
}

fn address<D>(dir: &Arc<Dir<D>>) -> usize {
    Arc::as_ptr(dir).addr()
}

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

    /// Interrupts the walk; over several processes all of it, whichever is asked.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Returns whether the next item is to be written in place of being done.
    pub(crate) fn takes(&self) -> bool {
        self.begun.swap(true, Ordering::Relaxed) && self.asked.load(Ordering::Relaxed)
    }

    /// Returns whether it was asked for; then not even the item that a thread is at has to be done
    /// to its end.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    pub(crate) fn save<D: DirState>(&self, item: &Item<D>) {
        let (kind, dir, seed, content) = match item {
            Item::Directory(dir) => match dir.above() {
                Some(above) => (Kind::Directory, above, dir.seed(), dir.name().to_bytes()),
                None => unreachable!("what the roots are in is no item"),
            },
            Item::Slice(dir, entries) => (Kind::Slice, dir, [0, 0], &**entries),
            Item::Task(dir, what) => (Kind::Task, dir, [0, 0], &**what),
        };
        let mut state = self.lock();
        let head = Head {
            kind,
            dir: state.above().number(dir),
            seed,
            length: content.len() as u32,
        };
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        bytes.extend_from_slice(content);
        state.items += 1;
        if let Err(error) = state.file.write_all(&bytes) {
            state.failure.get_or_insert(error);
        }
    }

    /// A directory is unfinished, at its home, and its last part is done. It is written at the end.
    pub(crate) fn note<D: DirState>(&self, dir: &Arc<Dir<D>>) {
        self.lock().above().number(dir);
    }

    /// To be called when the walk has ended, of whose directories `D` is the state. How many items
    /// were written; with 0 in all processes together the walk came to its end.
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
            above.write_table(&mut state.file)?;
        }
        state.file.flush()?;
        state.file.get_ref().sync_all()?;
        Ok(state.items)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn above<D: DirState>(&mut self) -> &mut Above<D> {
        let above = self.above.get_or_insert_with(|| {
            Box::new(Above::<D> {
                dirs: Vec::new(),
                by_name: HashMap::new(),
                homes: HashMap::new(),
            })
        });
        match above.downcast_mut() {
            Some(above) => above,
            None => unreachable!("a walk has directories of one kind"),
        }
    }
}

impl<D: DirState> Above<D> {
    /// The number of a directory, which it and those above it get if they have none.
    fn number(&mut self, dir: &Arc<Dir<D>>) -> u32 {
        let mut missing = Vec::new();
        let mut at = None;
        let mut next = Some(dir);
        while let Some(dir) = next {
            at = self.homes.get(&address(dir)).copied();
            if at.is_some() {
                break;
            }
            missing.push(dir);
            next = dir.above();
        }
        for dir in missing.into_iter().rev() {
            at = Some(self.add(at, dir));
        }
        match at {
            Some(number) => number,
            None => unreachable!("a directory has a number, or is missing one"),
        }
    }

    fn add(&mut self, above: Option<u32>, dir: &Arc<Dir<D>>) -> u32 {
        let key = (above, dir.name().to_bytes().into());
        let known = self.by_name.get(&key).copied();
        // Two homes of one name are roots that were given twice: each has its own state.
        let same = known.filter(|it| !dir.is_home() || self.dirs[*it as usize].home.is_none());
        let number = same.unwrap_or_else(|| {
            let number = self.dirs.len() as u32;
            self.dirs.push(Known {
                above,
                seed: dir.seed(),
                name: dir.name().to_bytes().into(),
                home: None,
            });
            self.by_name.entry(key).or_insert(number);
            number
        });
        if dir.is_home() {
            self.dirs[number as usize].home = Some(Arc::clone(dir));
            self.homes.insert(address(dir), number);
        }
        number
    }

    fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let written = self.dirs.iter().map(|dir| {
            let written = Written {
                above: dir.above.unwrap_or(0),
                seed: dir.seed,
                name: &dir.name,
                gathered: &[],
            };
            let gathered = match &dir.home {
                Some(home) => home.state().gathered(),
                None => D::elsewhere(dir.seed).gathered(),
            };
            (written, gathered)
        });
        write_table(out, self.dirs.len(), written)
    }
}

/// Reads items that were written, from where the file is to its end: by one process, or those of
/// several that are [one](crate::Merge) now. `keep` gets them some at a time, no more than
/// `at_once` and not many more bytes than [`LOADED_BYTES`], but for the last, which are given back
/// with what all roots are in: in memory are directories above items, and these.
pub(crate) fn load<D: DirState>(
    file: &mut (impl Read + Seek + ?Sized),
    at_once: usize,
    mut keep: impl FnMut(Vec<Item<D>>) -> Result<(), WalkError>,
) -> Result<Loaded<D>, WalkError> {
    let (dirs, length) = load_table(file)?;
    let mut from = BufReader::new(file.take(length));
    let (mut some, mut bytes) = (Vec::new(), 0);
    while !from.fill_buf().map_err(|_| UNREADABLE)?.is_empty() {
        if some.len() >= at_once || bytes >= LOADED_BYTES {
            keep(std::mem::take(&mut some))?;
            bytes = 0;
        }
        let (item, length) = take(&mut from, &dirs)?;
        some.push(item);
        bytes += length;
    }
    // One that has nothing in it any more would never be left.
    if dirs.iter().any(|dir| dir.parts() == 0) {
        return Err(UNREADABLE);
    }
    let top = dirs.into_iter().next().ok_or(UNREADABLE)?;
    Ok((top, some))
}

/// The directory that all roots are in, and items.
pub(crate) type Loaded<D> = (Arc<Dir<D>>, Vec<Item<D>>);

const UNREADABLE: WalkError = WalkError::Unreadable(Unreadable);

type Dirs<D> = Vec<Arc<Dir<D>>>;

/// Directories by their numbers, and how many bytes items have, at which the file is then.
fn load_table<D: DirState>(
    file: &mut (impl Read + Seek + ?Sized),
) -> Result<(Dirs<D>, u64), WalkError> {
    let (length, written) = read_parts(file).map_err(|_| UNREADABLE)?;
    let mut dirs = Dirs::<D>::new();
    for it in read_table(&written).map_err(WalkError::Unreadable)? {
        let above = dirs.get(it.above as usize);
        let name = CString::new(it.name).map_err(|_| UNREADABLE)?;
        let dir = Dir::restored(above, &name, it.seed);
        let added = dir.state().add(it.gathered);
        added.map_err(WalkError::Unreadable)?;
        dirs.push(Arc::new(dir));
    }
    Ok((dirs, length))
}

fn take<D: DirState>(
    from: &mut impl Read,
    dirs: &[Arc<Dir<D>>],
) -> Result<(Item<D>, usize), WalkError> {
    let (head, content) = read_item(from).map_err(|_| UNREADABLE)?;
    let bytes = HEAD_BYTES + content.len();
    let dir = dirs.get(head.dir as usize).ok_or(UNREADABLE)?;
    if head.kind == Kind::Directory {
        let name = CString::new(content).map_err(|_| UNREADABLE)?;
        let dir = Arc::new(Dir::child(dir, &name, head.seed));
        return Ok((Item::Directory(dir), bytes));
    }
    dir.add_part();
    let (dir, content) = (Arc::clone(dir), content.into_boxed_slice());
    let item = if head.kind == Kind::Slice {
        Item::Slice(dir, content)
    } else {
        Item::Task(dir, content)
    };
    Ok((item, bytes))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Cursor;
    use std::sync::atomic::AtomicU64;

    #[derive(Debug)]
    pub(crate) struct Bytes(pub AtomicU64);

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

    pub(crate) fn known(dir: &Dir<Bytes>) -> u64 {
        dir.state().0.load(Ordering::Relaxed)
    }

    /// Returns what is in a file, from its beginning.
    pub(crate) fn content(mut file: File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// All of it at once.
    pub(crate) fn loaded(bytes: &[u8]) -> Result<Loaded<Bytes>, WalkError> {
        load(&mut Cursor::new(bytes), usize::MAX, |_| unreachable!())
    }

    #[test]
    fn items_come_some_at_a_time() {
        let file = tempfile::tempfile().unwrap();
        let saved = Saved::new(file.try_clone().unwrap());
        let top = Dir::<Bytes>::top();
        let a = Arc::new(Dir::child(&top, c"a", [0, 0]));
        let large = vec![1; LOADED_BYTES / 3].into_boxed_slice();
        for number in 0..30_u8 {
            let what = if number < 10 {
                large.clone()
            } else {
                [number].into()
            };
            saved.save(&Item::Task(Arc::clone(&a), what));
        }
        assert_eq!(saved.finish::<Bytes>().unwrap(), 30);
        let bytes = content(file);
        let mut some = Vec::new();
        let keep = |items: Vec<Item<Bytes>>| {
            some.push(items.len());
            Ok(())
        };
        let (_, last) = load(&mut Cursor::new(&bytes), 8, keep).unwrap();
        // Four of the large ones are too many, and eight of any.
        assert_eq!((some, last.len()), (vec![3, 3, 3, 8, 8], 5));
        let full = load::<Bytes>(&mut Cursor::new(&bytes), 8, |_| Err(UNREADABLE));
        assert!(full.is_err());
    }

    #[test]
    fn directories_come_back_with_what_is_known_of_them_and_end_with_their_last_item() {
        let file = tempfile::tempfile().unwrap();
        let saved = Saved::new(file.try_clone().unwrap());
        let top = Dir::<Bytes>::top();
        let a = Arc::new(Dir::child(&top, c"a", [3, 0]));
        let b = Arc::new(Dir::child(&a, c"b\n\xff", [5, 6]));
        a.state().0.fetch_add(10, Ordering::Relaxed);
        a.add_part();
        saved.save(&Item::Slice(Arc::clone(&a), (*b"entries").into()));
        saved.save(&Item::Directory(Arc::clone(&b)));
        assert_eq!(saved.finish::<Bytes>().unwrap(), 2);

        let bytes = content(file);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, GOLDEN);
        let (top, items) = loaded(&bytes).unwrap();
        let [Item::Slice(a, entries), Item::Directory(b)] = &items[..] else {
            panic!("{items:?}");
        };
        assert_eq!((a.name(), &**entries), (c"a", &b"entries"[..]));
        assert_eq!((b.name(), b.seed(), b.depth()), (c"b\n\xff", [5, 6], 1));
        assert_eq!(known(a), 13, "its own three once");
        assert_eq!(known(b), 5, "it was not begun");
        assert!(b.above().is_some_and(|above| Arc::ptr_eq(above, a)));
        assert!(!a.parts_done(1));
        assert!(b.parts_done(1) && a.parts_done(1) && top.parts_done(1));
        for cut in 0..bytes.len() {
            assert!(loaded(&bytes[..cut]).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                // Whether it makes sense or not.
                let _ = loaded(&other);
            }
        }
    }

    /// A slice of directory 1, a directory in it with the numbers 5 and 6; what the roots are in,
    /// and directory 1 in it with the numbers 3 and 0, of which 13 are gathered; 12 bytes.
    const GOLDEN: &str = concat!(
        "01",
        "01000000",
        "00000000000000000000000000000000",
        "07000000",
        "656e7472696573",
        "00",
        "01000000",
        "05000000000000000600000000000000",
        "03000000",
        "620aff",
        "02",
        "000000000100",
        "000300016101",
        "0d",
        "0e00000000000000",
    );

    #[test]
    fn one_stand_in_is_remembered_for_all_of_a_directory_and_adds_nothing() {
        let file = tempfile::tempfile().unwrap();
        let saved = Saved::new(file.try_clone().unwrap());
        for number in 0..3 {
            // As three messages have them.
            let top = Arc::new(Dir::<Bytes>::proxy(None, c"", [0, 0], 0, None));
            let a = Arc::new(Dir::proxy(Some(&top), c"a", [3, 0], 1, None));
            a.state().0.fetch_add(7, Ordering::Relaxed);
            saved.save(&Item::Task(a, [number].into()));
        }
        assert_eq!(saved.finish::<Bytes>().unwrap(), 3);
        let (_, items) = loaded(&content(file)).unwrap();
        let [Item::Task(one, _), Item::Task(two, _), Item::Task(three, _)] = &items[..] else {
            panic!("{items:?}");
        };
        assert!(Arc::ptr_eq(one, two) && Arc::ptr_eq(two, three));
        assert_eq!(known(one), 0, "what it has gathered went home");
    }

    #[test]
    fn a_directory_without_an_item_is_refused() {
        let file = tempfile::tempfile().unwrap();
        let saved = Saved::new(file.try_clone().unwrap());
        let top = Dir::<Bytes>::top();
        let a = Arc::new(Dir::child(&top, c"a", [3, 0]));
        saved.save(&Item::Task(Arc::clone(&a), [1].into()));
        saved.note(&Arc::new(Dir::child(&a, c"b", [3, 0])));
        assert_eq!(saved.finish::<Bytes>().unwrap(), 1);
        assert!(loaded(&content(file)).is_err());
    }
}
