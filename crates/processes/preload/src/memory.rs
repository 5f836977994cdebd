//! The program's memory, as its system calls point to it.
//!
//! The kernel answers `EFAULT` for what leads nowhere; here that ends the program, as it does in the C library, but for
//! pointers that can lead nowhere: null pointers, and those that are no program's. All that is `unsafe` below rests on the
//! program's having given these pointers to a system call whose manual says what is there.

use std::ffi::{CStr, c_char};
use std::ops::Range;

/// Addresses that a program can have something at: behind the first page, and below the kernel's, however many bits of them
/// the processor has.
const PROGRAMS: Range<usize> = 4_096..1 << 56;

fn leads_nowhere(pointer: usize) -> bool {
    !PROGRAMS.contains(&pointer)
}

/// A text that a system call got.
pub(crate) fn text<'a>(pointer: usize) -> Option<&'a [u8]> {
    if leads_nowhere(pointer) {
        return None;
    }
    // SAFETY: by the module's header.
    Some(unsafe { CStr::from_ptr(pointer as *const c_char) }.to_bytes())
}

/// Looks whether there can be so much where a pointer leads.
///
/// # Errors
/// `EFAULT` for a pointer that leads nowhere, to more than nothing.
pub(crate) fn check(pointer: usize, length: usize) -> Result<(), i32> {
    match length {
        0 => Ok(()),
        _ if leads_nowhere(pointer) => Err(libc::EFAULT),
        _ => Ok(()),
    }
}

/// Bytes that a system call is to read.
pub(crate) fn bytes<'a>(pointer: usize, length: usize) -> &'a [u8] {
    if leads_nowhere(pointer) || length == 0 {
        return &[];
    }
    // SAFETY: by the module's header.
    unsafe { std::slice::from_raw_parts(pointer as *const u8, length) }
}

/// Fills the room that a system call has, from its start.
pub(crate) fn put_bytes(pointer: usize, bytes: &[u8]) {
    if leads_nowhere(pointer) {
        return;
    }
    // SAFETY: by the module's header.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer as *mut u8, bytes.len()) }
}

/// A structure, or number, of the kernel's that a system call is to read.
pub(crate) fn get<T: Copy>(pointer: usize) -> Option<T> {
    if leads_nowhere(pointer) {
        return None;
    }
    // SAFETY: by the module's header; any bytes are such a structure.
    Some(unsafe { (pointer as *const T).read_unaligned() })
}

/// As [`get`], of one that need not be there: by a null pointer.
///
/// # Errors
/// `EFAULT` for another pointer that leads nowhere.
pub(crate) fn get_any<T: Copy>(pointer: usize) -> Result<Option<T>, i32> {
    match pointer {
        0 => Ok(None),
        pointer => get(pointer).map(Some).ok_or(libc::EFAULT),
    }
}

/// Writes a structure where a system call wants it.
pub(crate) fn put<T: Copy>(pointer: usize, value: T) {
    if !leads_nowhere(pointer) {
        // SAFETY: by the module's header.
        unsafe { (pointer as *mut T).write_unaligned(value) }
    }
}

/// The texts of an array that ends with a null pointer, as `execve` has them.
///
/// # Errors
/// `EFAULT` for a pointer among them, or to them, that leads nowhere.
pub(crate) fn texts<'a>(array: usize) -> Result<Vec<&'a [u8]>, i32> {
    let mut texts = Vec::new();
    if array == 0 {
        return Ok(texts);
    }
    loop {
        let place = array.wrapping_add(texts.len() * size_of::<usize>());
        match get(place).ok_or(libc::EFAULT)? {
            0 => return Ok(texts),
            pointer => texts.push(text(pointer).ok_or(libc::EFAULT)?),
        }
    }
}

/// Puts a page at the start of memory that is as large.
pub(crate) fn put_page<T>(address: usize, page: T) {
    // SAFETY: its caller has just mapped it, writable and aligned to a page.
    unsafe { (address as *mut T).write(page) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_at_pointers_that_can_be_no_programs() {
        for nowhere in [0, 1, 4_095, usize::MAX, 1 << 63] {
            assert_eq!(check(nowhere, 1), Err(libc::EFAULT));
            assert_eq!(check(nowhere, 0), Ok(()));
            assert_eq!(text(nowhere), None);
            assert_eq!(get::<u8>(nowhere), None);
        }
        assert_eq!(check(4_096, 1), Ok(()));
        assert_eq!(get_any::<u8>(0), Ok(None));
        assert_eq!(get_any::<u8>(1), Err(libc::EFAULT));
    }

    #[test]
    fn arrays_of_texts_end_with_a_null_pointer() {
        let of = |array: &[usize]| texts(array.as_ptr() as usize);
        let word = c"word".as_ptr() as usize;
        assert_eq!(of(&[word, word, 0]), Ok(vec![&b"word"[..], b"word"]));
        assert_eq!(of(&[word, 1, 0]), Err(libc::EFAULT));
        assert_eq!(texts(0), Ok(Vec::new()));
        assert_eq!(texts(1), Err(libc::EFAULT));
    }
}
