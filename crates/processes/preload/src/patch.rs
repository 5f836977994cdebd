//! Patches of the C library's `syscall` instructions, made while the program has one thread.

use crate::calls;
use crate::code;
use crate::complain::{self, About};
use crate::elf::{self, Library};
use crate::sys;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that the trampolines of one library take at most.
const ROOM: usize = 256 << 10;
/// Distances from a library at which room for trampolines is looked for.
const STEP: usize = 1 << 20;
const MAX_STEPS: usize = 1_024;
/// Trampolines begin at multiples of this.
const ALIGNMENT: usize = 16;

/// Numbers of `syscall`s that were, and were not, led to the hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patched {
    /// To the hook.
    pub led: usize,
    /// Left alone.
    pub left: usize,
}

static LED: AtomicUsize = AtomicUsize::new(0);
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// How many there were.
pub(crate) fn patched() -> Patched {
    Patched {
        led: LED.load(Ordering::Relaxed),
        left: LEFT.load(Ordering::Relaxed),
    }
}

/// Leads the system calls of the C library and of the dynamic loader to `entry`.
///
/// # Errors
/// In words, what stands in the way; the library is as it was then.
pub(crate) fn patch(entry: usize) -> Result<(), String> {
    let libraries = elf::libraries();
    if !libraries.iter().any(|library| library.name == "libc.so.6") {
        return Err("the program has no libc.so.6".to_owned());
    }
    for library in &libraries {
        let patched = patch_library(library, entry)?;
        LED.fetch_add(patched.led, Ordering::Relaxed);
        LEFT.fetch_add(patched.left, Ordering::Relaxed);
    }
    let left = patched().left;
    if left > 0 {
        let words = format!(
            "{left} system calls of the C library cannot be led here, and are the kernel's"
        );
        complain::once(About::Left, &words);
    }
    Ok(())
}

fn patch_library(library: &Library, entry: usize) -> Result<Patched, String> {
    let name = &library.name;
    let functions = library
        .calling_functions()
        .ok_or_else(|| format!("{name} does not say where its functions begin"))?;
    let room = room_near(library).ok_or_else(|| format!("there is no room near {name}"))?;
    let mut bytes = (entry as u64).to_le_bytes().to_vec();
    let mut jumps = Vec::new();
    let mut patched = Patched::default();
    for (start, end) in functions {
        let code = &library.code()[start - library.start..end - library.start];
        for site in code::sites(code, start as u64, |number| {
            calls::is_wanted(number as usize)
        }) {
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0xcc);
            let at = room + bytes.len();
            let made = site.ok().and_then(|site| {
                Some((site.start, code::trampoline(&site, at as u64, room as u64)?))
            });
            let Some((place, trampoline)) = made else {
                patched.left += 1;
                continue;
            };
            bytes.extend(&trampoline.bytes);
            jumps.push((place as usize, trampoline.jump));
            patched.led += 1;
        }
    }
    if bytes.len() > ROOM {
        return Err(format!(
            "{name} has more system calls than there is room for"
        ));
    }
    crate::memory::put_bytes(room, &bytes);
    let page = page_bytes();
    let (first, last) = (
        library.start & !(page - 1),
        library.end.next_multiple_of(page),
    );
    let protect = |start: usize, length: usize, rights: i32| {
        sys::call3(libc::SYS_mprotect, start, length, rights as usize)
    };
    let (run, change) = (
        libc::PROT_READ | libc::PROT_EXEC,
        libc::PROT_READ | libc::PROT_WRITE,
    );
    if protect(room, ROOM, run) != 0 || protect(first, last - first, change | run) != 0 {
        return Err(format!("the system does not let {name} be changed"));
    }
    for (place, jump) in jumps {
        crate::memory::put_bytes(place, &jump);
    }
    protect(first, last - first, run);
    Ok(patched)
}

fn page_bytes() -> usize {
    // SAFETY: it only asks.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4_096)
}

/// Memory from which a jump reaches all of the library.
fn room_near(library: &Library) -> Option<usize> {
    let page = page_bytes();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    for step in 1..MAX_STEPS {
        let below = (library.start & !(page - 1)).saturating_sub(step * STEP);
        let above = library.end.next_multiple_of(page) + step * STEP;
        for place in [below, above] {
            let args = [place, ROOM, rights as usize, flags as usize, usize::MAX, 0];
            let got = sys::call(libc::SYS_mmap, args);
            if got == place as isize {
                return Some(place);
            }
            if got > 0 {
                sys::call3(libc::SYS_munmap, got as usize, ROOM, 0);
            }
        }
    }
    None
}
