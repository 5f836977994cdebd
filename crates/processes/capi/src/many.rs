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
        let stat = |asked: &[Asked<'_, Out<Stat>>]| {
            let paths: Vec<&[u8]> = asked.iter().map(|asked| asked.path).collect();
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
/// result is how many they are. Nothing is left open.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_read_many(fs: Fs, items: *mut Item, item_count: usize) -> i64 {
    count("pandofs_read_many", |call| {
        // SAFETY: as C gives them.
        let items = unsafe { Items::new(items, item_count) }?;
        let mount = call.mount(fs)?;
        let read = |asked: &[Asked<'_, Room>]| {
            let paths: Vec<&[u8]> = asked.iter().map(|asked| asked.path).collect();
            let most = asked.iter().map(|asked| asked.with.size).max();
            mount.read_many(&paths, most.unwrap_or(0))
        };
        Ok(items.each(
            call,
            // SAFETY: as C gives it.
            |given| unsafe { Room::new(given.data, given.size()?, "data") },
            read,
            |mut room, data| {
                let data = &data[..data.len().min(room.size)];
                room.put(0, data);
                data.len() as i64
            },
        ))
    })
}

/// Makes many files with their bytes, and leaves them closed, as pandofs_stat_many() looks at them. One that is there is
/// -EEXIST; one that could not be given all of its bytes is there all the same.
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
        let create = |asked: &[Asked<'_, &[u8]>]| {
            let files = asked.iter().map(|asked| (asked.path, asked.with));
            mount.create_many(&files.collect::<Vec<_>>(), mode)
        };
        Ok(items.each(
            call,
            // SAFETY: as C gives it.
            |given| unsafe { bytes(given.data.cast::<u8>(), given.size()?, "data") },
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
        let unlink = |asked: &[Asked<'_, ()>]| {
            let paths: Vec<&[u8]> = asked.iter().map(|asked| asked.path).collect();
            Mount::unlink_many(&mount, &paths)
        };
        Ok(items.each(call, |_| Ok(()), unlink, |(), ()| 0))
    })
}

/// Items that C gave. Results need not be initialized, so there is never a reference to one.
struct Items {
    first: *mut Item,
    count: usize,
}

/// An item's fields, but for its result.
struct Given {
    place: usize,
    data: *mut c_void,
    size: u64,
}

/// An item that is asked about.
struct Asked<'a, W> {
    place: usize,
    path: &'a [u8],
    with: W,
}

impl Given {
    fn size(&self) -> Result<usize> {
        let too_large = |_| CallFailure::Invalid("more bytes than memory can have").into();
        usize::try_from(self.size).map_err(too_large)
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
        ask: impl FnOnce(&[Asked<'_, W>]) -> Vec<pandofs_handles::Result<T>>,
        mut put: impl FnMut(W, T) -> i64,
    ) -> i64 {
        let mut asked = Vec::new();
        let mut failed = Vec::new();
        for place in 0..self.count {
            match self.given(place, &mut with) {
                Ok(item) => asked.push(item),
                Err(failure) => failed.push((place, b"".as_slice(), failure)),
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
    ) -> Result<Asked<'_, W>> {
        assert!(place < self.count);
        // SAFETY: there are so many, and what is read C has filled in.
        let (path, data, size) = unsafe {
            let item = self.first.add(place);
            let (path, data) = (addr_of!((*item).path), addr_of!((*item).data));
            let size = addr_of!((*item).size);
            (
                path.read_unaligned(),
                data.read_unaligned(),
                size.read_unaligned(),
            )
        };
        // SAFETY: as C gives it.
        let path = unsafe { text(path, "path", PANDOFS_PATH_MAX) }?;
        if path.is_empty() {
            return Err(FsError::NotFound.into());
        }
        let with = with(&Given { place, data, size })?;
        Ok(Asked { place, path, with })
    }

    fn set(&self, place: usize, result: i64) {
        assert!(place < self.count);
        // SAFETY: there are so many.
        unsafe { addr_of_mut!((*self.first.add(place)).result).write_unaligned(result) }
    }
}
