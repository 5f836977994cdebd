//! Functions for batches.

use crate::abi::{Fs, Item, PANDOFS_PATH_MAX, Stat};
use crate::call::{Call, count};
use crate::failure::{Failure, Result};
use crate::last_error;
use crate::pointers::{Out, Room, bytes, text};
use pandofs_handles::{Failure as CallFailure, Mount};
use pandofs_types::FsError;
use std::ffi::c_void;
use std::ptr::{addr_of, addr_of_mut};

/// As stat(2) of many paths, with as many requests under way at once as may be. The attributes of items[n] are in stats[n] if
/// its result is 0; its data and size mean nothing. Answers how many items have failed, each with its error as result;
/// pandofs_strerror_last() has words for the first of them. An error of the call itself leaves all results alone.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_stat_many(
    fs: Fs,
    items: *mut Item,
    item_count: usize,
    stats: *mut Stat,
) -> i64 {
    count("pandofs_stat_many", |call| {
        // SAFETY: as C gives them.
        let items = unsafe { Items::new(items, item_count) }?;
        if stats.is_null() && item_count > 0 {
            return Err(Failure::Null("stats"));
        }
        let mount = call.mount(fs)?;
        let stat = |asked: &[Asked<Out<Stat>>]| {
            let paths: Vec<&[u8]> = asked.iter().map(|asked| &asked.path[..]).collect();
            mount.stat_many(&paths, true)
        };
        Ok(items.each(
            call,
            // SAFETY: there are as many as items.
            |given| unsafe { Out::new(stats.add(given.place), "stats") },
            stat,
            |stat, attr| {
                stat.set(Stat::from(&attr));
                0
            },
        ))
    })
}

/// Reads the first bytes of many regular files, as many as each item has room for, as pandofs_stat_many() looks at them; the
/// result is how many they are. Nothing is left open. Rooms do not overlap.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_read_many(fs: Fs, items: *mut Item, item_count: usize) -> i64 {
    count("pandofs_read_many", |call| {
        // SAFETY: as C gives them.
        let items = unsafe { Items::new(items, item_count) }?;
        let mount = call.mount(fs)?;
        let read = |asked: &[Asked<Room>]| {
            let files = asked.iter().map(|asked| (&asked.path[..], asked.with.size));
            mount.read_many(&files.collect::<Vec<_>>())
        };
        Ok(items.each(
            call,
            // SAFETY: as C gives it.
            |given| unsafe { Room::new(given.data(), given.size()?, "data") },
            read,
            |mut room, data| {
                room.put(0, &data);
                data.len() as i64
            },
        ))
    })
}

/// Makes many files with their bytes, and leaves them closed, as pandofs_stat_many() looks at them. One that is there is
/// -EEXIST; one that could not be given all of its bytes is there all the same, unless somebody else has removed it.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_create_many(
    fs: Fs,
    items: *mut Item,
    item_count: usize,
    mode: u32,
) -> i64 {
    count("pandofs_create_many", |call| {
        // SAFETY: as C gives them.
        let items = unsafe { Items::new(items, item_count) }?;
        let mount = call.mount(fs)?;
        let create = |asked: &[Asked<&[u8]>]| {
            let files = asked.iter().map(|asked| (&asked.path[..], asked.with));
            mount.create_many(&files.collect::<Vec<_>>(), mode)
        };
        Ok(items.each(
            call,
            // SAFETY: as C gives it.
            |given| unsafe { bytes(given.data().cast::<u8>(), given.size()?, "data") },
            create,
            |_, ()| 0,
        ))
    })
}

/// As unlink(2) of many paths, as pandofs_stat_many() looks at them.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_unlink_many(fs: Fs, items: *mut Item, item_count: usize) -> i64 {
    count("pandofs_unlink_many", |call| {
        // SAFETY: as C gives them.
        let items = unsafe { Items::new(items, item_count) }?;
        let mount = call.mount(fs)?;
        let unlink = |asked: &[Asked<()>]| {
            let paths: Vec<&[u8]> = asked.iter().map(|asked| &asked.path[..]).collect();
            Mount::unlink_many(&mount, &paths)
        };
        Ok(items.each(call, |_| Ok(()), unlink, |(), ()| 0))
    })
}

/// Items that C gave. Fields that a function does not name need not be initialized, so there is never a reference to one.
struct Items {
    first: *mut Item,
    count: usize,
}

/// An item, with the fields of which a function says that they mean something.
struct Given {
    place: usize,
    item: *const Item,
}

/// An item that is asked about.
struct Asked<W> {
    place: usize,
    /// Its own: what is read may go where C has the path.
    path: Vec<u8>,
    with: W,
}

impl Given {
    /// # Safety
    /// C has filled it in.
    // SAFETY: its caller's to keep, as said above.
    unsafe fn data(&self) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { addr_of!((*self.item).data).read_unaligned() }
    }

    /// # Safety
    /// C has filled it in.
    // SAFETY: its caller's to keep, as said above.
    unsafe fn size(&self) -> Result<usize> {
        // SAFETY: the caller's promise.
        let size = unsafe { addr_of!((*self.item).size).read_unaligned() };
        let too_large = |_| CallFailure::Invalid("more bytes than memory can have").into();
        usize::try_from(size).map_err(too_large)
    }
}

impl Items {
    /// # Safety
    /// The crate's rules of C; the items last as long as this.
    // SAFETY: its caller's to keep, as said above.
    unsafe fn new(first: *mut Item, count: usize) -> Result<Items> {
        match first.is_null() && count > 0 {
            true => Err(Failure::Null("items")),
            false => Ok(Items { first, count }),
        }
    }

    /// Asks about all items that are in order, and fills in the results. Answers how many have failed.
    fn each<W, T>(
        &self,
        call: &mut Call,
        mut with: impl FnMut(&Given) -> Result<W>,
        ask: impl FnOnce(&[Asked<W>]) -> Vec<pandofs_handles::Result<T>>,
        mut put: impl FnMut(W, T) -> i64,
    ) -> i64 {
        let mut asked = Vec::new();
        let mut failed = Vec::new();
        for place in 0..self.count {
            match self.given(place, &mut with) {
                Ok(item) => asked.push(item),
                Err(failure) => failed.push((place, Vec::new(), failure)),
            }
        }
        let answers = ask(&asked);
        for (item, answer) in asked.into_iter().zip(answers) {
            match answer {
                Ok(answer) => self.set(item.place, put(item.with, answer)),
                Err(failure) => failed.push((item.place, item.path, failure.into())),
            }
        }
        for (place, _, failure) in &failed {
            self.set(*place, -i64::from(failure.errno()));
        }
        let first = failed.iter().min_by_key(|(place, ..)| *place);
        if let Some((_, path, failure)) = first {
            last_error::set(&call.words_about(path, failure));
        }
        failed.len() as i64
    }

    fn given<W>(
        &self,
        place: usize,
        with: &mut impl FnMut(&Given) -> Result<W>,
    ) -> Result<Asked<W>> {
        assert!(place < self.count);
        // SAFETY: there are so many, and each has a path.
        let (item, path) = unsafe {
            let item = self.first.add(place);
            (item, addr_of!((*item).path).read_unaligned())
        };
        // SAFETY: as C gives it.
        let path = unsafe { text(path, "path", PANDOFS_PATH_MAX) }?.to_vec();
        if path.is_empty() {
            return Err(FsError::NotFound.into());
        }
        let with = with(&Given { place, item })?;
        Ok(Asked { place, path, with })
    }

    fn set(&self, place: usize, result: i64) {
        assert!(place < self.count);
        // SAFETY: there are so many.
        unsafe { addr_of_mut!((*self.first.add(place)).result).write_unaligned(result) }
    }
}
