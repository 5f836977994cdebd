//! The program's memory, as its system calls point to it.
//!
//! The kernel answers `EFAULT` for what leads nowhere; here that ends the program, as it does in the C library. Null
//! pointers are looked for before. All that is `unsafe` below rests on the program's having given these pointers to a
//! system call whose manual says what is there.

use std::ffi::{CStr, c_char};

/// A text that a system call got.
pub(crate) fn text<'a>(pointer: usize) -> Option<&'a [u8]> {
    if pointer == 0 {
        return None;
    }
    // SAFETY: by the module's header.
    Some(unsafe { CStr::from_ptr(pointer as *const c_char) }.to_bytes())
}

/// Looks whether there can be so much where a pointer leads.
///
/// # Errors
/// `EFAULT` for a null pointer to more than nothing.
pub(crate) fn check(pointer: usize, length: usize) -> Result<(), i32> {
    match pointer {
        0 if length > 0 => Err(libc::EFAULT),
        _ => Ok(()),
    }
}

/// Bytes that a system call is to read.
pub(crate) fn bytes<'a>(pointer: usize, length: usize) -> &'a [u8] {
    if pointer == 0 || length == 0 {
        return &[];
    }
    // SAFETY: by the module's header.
    unsafe { std::slice::from_raw_parts(pointer as *const u8, length) }
}

/// Fills the room that a system call has, from its start.
pub(crate) fn put_bytes(pointer: usize, bytes: &[u8]) {
    if pointer == 0 {
        return;
    }
    // SAFETY: by the module's header.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer as *mut u8, bytes.len()) }
}

/// A structure, or number, of the kernel's that a system call is to read.
pub(crate) fn get<T: Copy>(pointer: usize) -> Option<T> {
    if pointer == 0 {
        return None;
    }
    // SAFETY: by the module's header; any bytes are such a structure.
    Some(unsafe { (pointer as *const T).read_unaligned() })
}

/// Writes a structure where a system call wants it.
pub(crate) fn put<T: Copy>(pointer: usize, value: T) {
    if pointer != 0 {
        // SAFETY: by the module's header.
        unsafe { (pointer as *mut T).write_unaligned(value) }
    }
}

/// The texts of an array that ends with a null pointer, as `execve` has them.
pub(crate) fn texts<'a>(array: usize) -> Vec<&'a [u8]> {
    if array == 0 {
        return Vec::new();
    }
    (0..)
        .map_while(|index| text(get::<usize>(array + index * size_of::<usize>())?))
        .collect()
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
    fn nothing_is_at_a_null_pointer() {
        assert_eq!(check(0, 1), Err(libc::EFAULT));
        assert_eq!(check(0, 0), Ok(()));
        assert_eq!(check(1, 1), Ok(()));
    }
}
