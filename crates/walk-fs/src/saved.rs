//! A walk that is interrupted, to go on later.
//!
//! When it is to be interrupted, each thread finishes the item that it is at; items that nobody has begun are written to
//! a file, in place of being done, until none is left. So every entry was shown before, or is in what was written, and
//! none is in both. The file is a letter for each item (`letter.rs`) with its length in front, four bytes,
//! little-endian: a directory, or a slice of one, with the names above it. It is for the version that wrote it.

use crate::dir::{DirState, Unreadable};
use crate::letter::{self, Loans};
use crate::slice::Item;
use pandofs_walk::{Message, RankId};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

    pub(crate) fn save<D: DirState>(&self, item: Item<D>) {
        let message = Message::Work { items: vec![item] };
        let bytes = letter::pack(0, &message, &mut Loans::new(false));
        let mut state = self.lock();
        let length = (bytes.len() as u32).to_le_bytes();
        let file = &mut state.file;
        let written = file
            .write_all(&length)
            .and_then(|()| file.write_all(&bytes));
        state.items += 1;
        if let Err(error) = written {
            state.failure.get_or_insert(error);
        }
    }

    /// How many items were written; with 0 the walk came to its end.
    ///
    /// # Errors
    /// When some could not be written.
    pub fn finish(&self) -> io::Result<u64> {
        let mut state = self.lock();
        if let Some(error) = state.failure.take() {
            return Err(error);
        }
        state.file.flush()?;
        state.file.get_ref().sync_all()?;
        Ok(state.items)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads items that were written.
pub(crate) fn load<D: DirState>(file: &mut impl Read) -> Result<Vec<Item<D>>, Unreadable> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|_| Unreadable)?;
    let mut rest = &bytes[..];
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>().ok_or(Unreadable)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (letter, after) = after.split_at_checked(length).ok_or(Unreadable)?;
        rest = after;
        let letter = letter::read(letter)?;
        match letter::message(letter.body, RankId::ROOT)? {
            Some(Message::Work { items: some }) => items.extend(some),
            _ => return Err(Unreadable),
        }
    }
    Ok(items)
}
