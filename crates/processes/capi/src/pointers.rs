//! Arguments that C gives as pointers.

use crate::failure::{Failure, Result};
use pandofs_handles::Failure as CallFailure;
use std::ffi::c_char;
use std::slice;

/// A text, without its NUL, which has to be within so many bytes.
///
/// # Safety
/// The crate's rules of C; the text lasts for `'a`.
// SAFETY: its caller's to keep, as said above.
pub(crate) unsafe fn text<'a>(
    text: *const c_char,
    argument: &'static str,
    most: usize,
) -> Result<&'a [u8]> {
    if text.is_null() {
        return Err(Failure::Null(argument));
    }
    // SAFETY: it ends within `most` bytes or has as many, and is read no further.
    let length = unsafe { libc::strnlen(text, most) };
    if length == most {
        return Err(Failure::TooLong(argument, most));
    }
    // SAFETY: so many bytes were just read.
    Ok(unsafe { slice::from_raw_parts(text.cast(), length) })
}

/// Bytes to read; null for none.
///
/// # Safety
/// The crate's rules of C; the bytes last for `'a`.
// SAFETY: its caller's to keep, as said above.
pub(crate) unsafe fn bytes<'a, T>(
    bytes: *const T,
    count: usize,
    argument: &'static str,
) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if bytes.is_null() {
        return Err(Failure::Null(argument));
    }
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(CallFailure::Invalid("more bytes than memory can have").into());
    }
    // SAFETY: they are there, and fit into memory.
    Ok(unsafe { slice::from_raw_parts(bytes, count) })
}

/// A place to write to.
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Safety
    /// The crate's rules of C; the place lasts as long as this.
    // SAFETY: its caller's to keep, as said above.
    pub(crate) unsafe fn new(place: *mut T, argument: &'static str) -> Result<Out<T>> {
        match place.is_null() {
            true => Err(Failure::Null(argument)),
            false => Ok(Out(place)),
        }
    }

    pub(crate) fn set(&self, value: T) {
        // SAFETY: it is a place for one, by the promise to `new`. Nothing was there that has to be dropped.
        unsafe { self.0.write_unaligned(value) }
    }
}

/// Room for bytes, which need not be initialized.
#[derive(Debug)]
pub(crate) struct Room {
    place: *mut u8,
    /// Bytes.
    pub size: usize,
}

impl Room {
    /// Room for nothing may be null.
    ///
    /// # Safety
    /// The crate's rules of C; the room lasts as long as this.
    // SAFETY: its caller's to keep, as said above.
    pub(crate) unsafe fn new<T>(
        place: *mut T,
        size: usize,
        argument: &'static str,
    ) -> Result<Room> {
        let place = place.cast::<u8>();
        match place.is_null() && size > 0 {
            true => Err(Failure::Null(argument)),
            false => Ok(Room { place, size }),
        }
    }

    /// Puts bytes at an offset.
    ///
    /// # Panics
    /// When they do not fit.
    pub(crate) fn put(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset <= self.size && bytes.len() <= self.size - offset);
        if bytes.is_empty() {
            return;
        }
        // SAFETY: they fit, and the room is C's, so that `bytes` is elsewhere.
        unsafe {
            self.place
                .add(offset)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Puts all of it and says how long it is. Room for nothing asks how long it is.
    ///
    /// # Errors
    /// `NoRoom`.
    pub(crate) fn answer(&mut self, bytes: &[u8]) -> Result<i64> {
        if self.size > 0 {
            if bytes.len() > self.size {
                return Err(Failure::NoRoom {
                    room: self.size,
                    needed: bytes.len(),
                });
            }
            self.put(0, bytes);
        }
        Ok(bytes.len() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_no_further_than_it_may_be_long() {
        let bytes = [b'x' as c_char; 8];
        // SAFETY: there are as many bytes as it may be long.
        let read = |most| unsafe { text(bytes.as_ptr(), "path", most) };
        assert_eq!(read(8), Err(Failure::TooLong("path", 8)));
        // SAFETY: it has an end.
        assert_eq!(unsafe { text(c"ab".as_ptr(), "path", 3) }, Ok(&b"ab"[..]));
        // SAFETY: nothing is read.
        let none = unsafe { text(std::ptr::null(), "path", 3) };
        assert_eq!(none, Err(Failure::Null("path")));
    }

    #[test]
    fn room_takes_what_fits() {
        let mut bytes = [0_u8; 4];
        // SAFETY: it is room for four bytes.
        let mut room = unsafe { Room::new(bytes.as_mut_ptr(), 4, "value") }.unwrap();
        assert_eq!(room.answer(b"abcd"), Ok(4));
        let (room_bytes, needed) = (4, 5);
        let failure = Failure::NoRoom {
            room: room_bytes,
            needed,
        };
        assert_eq!(room.answer(b"abcde"), Err(failure));
        assert_eq!(&bytes, b"abcd");
        // SAFETY: nothing is written.
        let mut none = unsafe { Room::new(std::ptr::null_mut::<u8>(), 0, "value") }.unwrap();
        assert_eq!(none.answer(b"abcde"), Ok(5));
        // SAFETY: nothing is written.
        let null = unsafe { Room::new(std::ptr::null_mut::<u8>(), 1, "value") };
        assert_eq!(null.unwrap_err(), Failure::Null("value"));
    }
}
