//! Loaded libraries: where the C library's code is, and where its functions begin.
//!
//! Names of functions are not enough, as most that make system calls have none. The table for unwinding the stack
//! (`.eh_frame_hdr`) knows them all: where functions begin, sorted, with how long each is.

use std::ffi::{CStr, c_int, c_void};

/// A library's code.
#[derive(Clone, Debug)]
pub(crate) struct Library {
    /// Of its file.
    pub name: String,
    /// Addresses of its code.
    pub start: usize,
    /// Behind the code.
    pub end: usize,
    table: usize,
}

/// Files whose system calls are led elsewhere.
const NAMES: [&str; 2] = ["libc.so.6", "ld-linux-x86-64.so.2"];
/// Encodings of `.eh_frame_hdr` that binutils and lld write: count in four bytes, entries of four bytes each from the
/// header's start.
const COUNT_ENCODING: u8 = 0x03;
const ENTRY_ENCODING: u8 = 0x3b;
/// Where the text is in what functions have in common that says how they are described.
const AUGMENTATION: usize = 9;

/// Finds the C library and the dynamic loader.
pub(crate) fn libraries() -> Vec<Library> {
    let mut found: Vec<Library> = Vec::new();
    // SAFETY: the function below takes what it is given there.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

/// # Safety
/// `found` is what [`libraries`] gives.
// SAFETY: the C library's to keep, as said above.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: as the C library's manual has it.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Library>>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: it is a text.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy();
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    if !NAMES.contains(&name.as_str()) {
        return 0;
    }
    // SAFETY: there are so many of them.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let base = info.dlpi_addr as usize;
    let code = headers
        .iter()
        .find(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0);
    let table = headers
        .iter()
        .find(|header| header.p_type == libc::PT_GNU_EH_FRAME);
    if let (Some(code), Some(table)) = (code, table) {
        let start = base + code.p_vaddr as usize;
        found.push(Library {
            name,
            start,
            end: start + code.p_memsz as usize,
            table: base + table.p_vaddr as usize,
        });
    }
    0
}

impl Library {
    /// The library's code.
    pub(crate) fn code(&self) -> &'static [u8] {
        crate::memory::bytes(self.start, self.end - self.start)
    }

    /// Where the functions begin, in order, and where what describes each is.
    fn functions(&self) -> Option<Vec<(usize, usize)>> {
        let header: [u8; 4] = crate::memory::get(self.table)?;
        if header[0] != 1 || header[2] != COUNT_ENCODING || header[3] != ENTRY_ENCODING {
            return None;
        }
        let count: u32 = crate::memory::get(self.table + 8)?;
        let entries = self.table + 12;
        (0..count as usize)
            .map(|index| {
                let entry: [i32; 2] = crate::memory::get(entries + index * 8)?;
                let at = |offset: i32| self.table.wrapping_add_signed(offset as isize);
                Some((at(entry[0]), at(entry[1])))
            })
            .collect()
    }

    /// The functions, as ranges of addresses, that have a `syscall` among their bytes.
    pub(crate) fn calling_functions(&self) -> Option<Vec<(usize, usize)>> {
        let functions = self.functions()?;
        let code = self.code();
        let mut found: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        while let Some(offset) = code[at..].windows(2).position(|pair| pair == [0x0f, 0x05]) {
            let address = self.start + at + offset;
            at += offset + 2;
            if found.last().is_some_and(|last| address < last.1) {
                continue;
            }
            let behind = functions.partition_point(|function| function.0 <= address);
            let Some(&(start, description)) = behind.checked_sub(1).and_then(|i| functions.get(i))
            else {
                continue;
            };
            // Length, where what it has in common with others is, start (from its own place), and how many bytes.
            let fields: [i32; 4] = crate::memory::get(description)?;
            let begins = (description + 8).wrapping_add_signed(fields[2] as isize);
            let end = start + fields[3] as u32 as usize;
            // A function that makes threads has no description from its call on, as a thread's stack begins there.
            let end = match functions.get(behind) {
                Some(next) if address >= end => next.0,
                _ => end,
            };
            let common = (description + 4).wrapping_sub(fields[1] as u32 as usize);
            // The frame of a signal begins a byte early, in the middle of nothing.
            let is_signal = crate::memory::text(common + AUGMENTATION)?.contains(&b'S');
            if begins == start && address < end && end <= self.end && !is_signal {
                found.push((start, end));
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_c_library_are_found_that_make_system_calls() {
        let libraries = libraries();
        let library = libraries
            .iter()
            .find(|one| one.name == "libc.so.6")
            .unwrap();
        let functions = library.calling_functions().unwrap();
        let read = libc::read as *const () as usize;
        let found = functions
            .iter()
            .find(|function| function.0 == read)
            .unwrap();
        assert!(found.1 - found.0 > 20, "{found:?}");
        let clone = libc::clone as *const () as usize;
        assert!(functions.iter().any(|function| function.0 == clone));
        assert!(functions.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
}
