//! Words for the last error of each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Keeps these words for the calling thread. A thread that is ending keeps none.
pub(crate) fn set(words: &str) {
    // A path in it may hold anything but a NUL.
    let words = CString::new(words.replace('\0', " ")).unwrap_or_default();
    let _ = LAST.try_with(|last| *last.borrow_mut() = words);
}

/// The words that the calling thread has, until it sets others.
pub(crate) fn get() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}
