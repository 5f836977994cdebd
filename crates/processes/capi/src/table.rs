//! The table of handles: numbers that say of themselves whether they still lead somewhere.
//!
//! A number has a place, a count of how often the place was taken, and a generation of the table: a process that was
//! forked begins another table when it connects, and numbers of the process that it was forked from belong to none.
//! Nothing of theirs is touched: a thread that is not there any more may have had any of its locks.

use pandofs_handles::{Failure, Mount, OpenDir, OpenFile, Result};
use slotmap::{DefaultKey, Key, KeyData, SlotMap};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bits of a number that are the place, the lowest.
const PLACE_BITS: u32 = 24;
/// Bits above, for the count.
const COUNT_BITS: u32 = 32;
/// The first generation, so that small numbers are no handles.
const FIRST: u8 = 1;
/// The last one, after which the first comes again.
const LAST: u8 = 127;

/// Object that a handle stands for.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Mount(Arc<Mount>),
    File(Arc<OpenFile>),
    Dir(Arc<OpenDir>),
}

impl Entry {
    /// Returns whether it belongs to the session.
    pub(crate) fn is_of(&self, session: u64) -> bool {
        let session_of = match self {
            Entry::Mount(mount) => &mount.session,
            Entry::File(file) => &file.session,
            Entry::Dir(dir) => &dir.mount.session,
        };
        session_of.number == session
    }
}

#[derive(Debug)]
struct Table {
    process: u32,
    generation: u8,
    entries: RwLock<SlotMap<DefaultKey, Entry>>,
}

/// The table of this process, or of the one that it was forked from. Tables stay for ever.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

impl Table {
    fn read(&self) -> RwLockReadGuard<'_, SlotMap<DefaultKey, Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SlotMap<DefaultKey, Entry>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a place; none if there is no room for it in a number.
    fn number(&self, key: DefaultKey) -> Option<u64> {
        let key = key.data().as_ffi();
        let (count, place) = (key >> 32, key & 0xffff_ffff);
        let generation = u64::from(self.generation) << (PLACE_BITS + COUNT_BITS);
        (place < 1 << PLACE_BITS).then_some(generation | count << PLACE_BITS | place)
    }

    /// The place that a number names in this table.
    fn key(&self, number: u64) -> Result<DefaultKey> {
        let generation = number >> (PLACE_BITS + COUNT_BITS);
        if generation != u64::from(self.generation) {
            let was = (u64::from(FIRST)..u64::from(self.generation)).contains(&generation);
            return Err(if was {
                Failure::Forked
            } else {
                Failure::NoHandle
            });
        }
        let place = number & ((1 << PLACE_BITS) - 1);
        let count = number >> PLACE_BITS & 0xffff_ffff;
        let key = KeyData::from_ffi(count << 32 | place).into();
        // Some numbers are made into others to be keys at all.
        match self.number(key) == Some(number) {
            true => Ok(key),
            false => Err(Failure::NoHandle),
        }
    }
}

/// The last table that there was, if any.
fn last() -> Option<&'static Table> {
    // SAFETY: it is null or a table that was leaked.
    unsafe { TABLE.load(Ordering::Acquire).as_ref() }
}

/// The table of this process.
fn own() -> Option<&'static Table> {
    last().filter(|table| table.process == std::process::id())
}

/// The table of this process, which it begins if it has none.
fn begin() -> &'static Table {
    loop {
        let before = TABLE.load(Ordering::Acquire);
        if let Some(table) = own() {
            return table;
        }
        let generation = match last().map(|table| table.generation) {
            Some(generation) if generation < LAST => generation + 1,
            _ => FIRST,
        };
        let table = Box::into_raw(Box::new(Table {
            process: std::process::id(),
            generation,
            entries: RwLock::default(),
        }));
        let exchanged = TABLE.compare_exchange(before, table, Ordering::AcqRel, Ordering::Acquire);
        if exchanged.is_err() {
            // SAFETY: it is from a box, and nobody else has seen it.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

/// The object that the handle stands for.
pub(crate) fn get(number: u64) -> Result<Entry> {
    let (table, key) = find(number)?;
    table.read().get(key).cloned().ok_or(Failure::NoHandle)
}

/// Takes away the handle, if it leads to what is wanted.
pub(crate) fn take(number: u64, wanted: impl FnOnce(&Entry) -> bool) -> Result<Entry> {
    let (table, key) = find(number)?;
    let mut entries = table.write();
    if !entries.get(key).is_some_and(wanted) {
        return Err(Failure::NoHandle);
    }
    entries.remove(key).ok_or(Failure::NoHandle)
}

fn find(number: u64) -> Result<(&'static Table, DefaultKey)> {
    let table = last().ok_or(Failure::NoHandle)?;
    let key = table.key(number)?;
    match table.process == std::process::id() {
        true => Ok((table, key)),
        false => Err(Failure::Forked),
    }
}

/// A new handle.
pub(crate) fn insert(entry: Entry) -> Result<u64> {
    let table = begin();
    let mut entries = table.write();
    let key = entries.insert(entry);
    if let Some(number) = table.number(key) {
        return Ok(number);
    }
    let entry = entries.remove(key);
    drop(entries);
    drop(entry);
    Err(Failure::TooMany)
}

/// Takes away all that the session has left, if no connection is among it.
pub(crate) fn take_rest(session: u64) -> Vec<Entry> {
    let Some(table) = own() else {
        return Vec::new();
    };
    let mut entries = table.write();
    let is_used = |entry: &Entry| matches!(entry, Entry::Mount(_)) && entry.is_of(session);
    if entries.values().any(is_used) {
        return Vec::new();
    }
    let of_session = entries.iter().filter(|(_, entry)| entry.is_of(session));
    let keys: Vec<DefaultKey> = of_session.map(|(key, _)| key).collect();
    keys.into_iter()
        .filter_map(|key| entries.remove(key))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(generation: u8) -> Table {
        Table {
            process: 1,
            generation,
            entries: RwLock::default(),
        }
    }

    #[test]
    fn a_number_leads_to_its_place_in_its_table_alone() {
        let mut places: SlotMap<DefaultKey, u32> = SlotMap::new();
        let (first, third) = (table(1), table(3));
        for round in 0..3 {
            let key = places.insert(round);
            let number = first.number(key).unwrap();
            assert_eq!(first.key(number), Ok(key));
            assert_eq!(third.key(number), Err(Failure::Forked));
            let number = third.number(key).unwrap();
            assert_eq!(third.key(number), Ok(key));
            assert_eq!(first.key(number), Err(Failure::NoHandle));
            assert_eq!(
                number >> 63,
                0,
                "it is a positive number for who takes it for signed"
            );
            places.remove(key);
            assert_eq!(places.get(third.key(number).unwrap()), None);
        }
    }

    #[test]
    fn other_numbers_are_no_handles() {
        let table = table(2);
        for number in [0, 1, 7, 1 << 40, u64::MAX, 3 << 56] {
            assert_eq!(table.key(number), Err(Failure::NoHandle), "{number:#x}");
        }
        let mut places: SlotMap<DefaultKey, u32> = SlotMap::new();
        let number = table.number(places.insert(1)).unwrap();
        for bit in 0..64 {
            let key = table.key(number ^ 1 << bit);
            assert_eq!(key.ok().and_then(|key| places.get(key)), None, "bit {bit}");
        }
    }
}
