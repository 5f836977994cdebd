//! Bounds of the freed memory that the program's allocator keeps.

use std::ffi::{c_int, c_long};

/// `mi_option_purge_delay` of mimalloc 2 and 3: milliseconds after which unused memory goes back to
/// the system.
const PURGE_DELAY: c_int = 15;

// SAFETY: as mimalloc.h declares it.
unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
}

/// From now on memory that is let go of goes back to the system at once. For programs that end soon and are to take little
/// with many threads; a server would take it anew a moment later.
pub(crate) fn keep_nothing() {
    // SAFETY: the allocator of this program, which is linked in, has this function with these arguments, and it may be
    // called at any time: it stores a number that the allocator reads when it looks what may go back. An option that it
    // does not know it ignores.
    unsafe { mi_option_set(PURGE_DELAY, 0) };
}
