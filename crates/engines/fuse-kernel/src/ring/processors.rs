//! Processors of this machine: the kernel's queues, and which of them a thread runs on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Those that there are or may come, by their numbers (cpu(4), `Documentation/admin-guide/cputopology.rst`).
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// The number of processors that this system may have.
///
/// # Errors
/// When the system does not say it, or says something else.
pub(crate) fn possible() -> io::Result<u16> {
    let listed = std::fs::read_to_string(POSSIBLE)?;
    count(listed.trim()).ok_or_else(|| io::Error::other(format!("{POSSIBLE}: {listed}")))
}

/// Of a list as `0-3,8,10-11`.
fn count(list: &str) -> Option<u16> {
    let mut all = 0_u16;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        all = all.checked_add(last.checked_sub(first)?)?.checked_add(1)?;
    }
    Some(all)
}

/// Does something on one processor.
///
/// # Errors
/// When this thread may not run there.
pub(super) fn run_on<T>(processor: u16, run: impl FnOnce() -> T) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    let mut only = CpuSet::new();
    only.set(usize::from(processor));
    sched_setaffinity(None, &only)?;
    let result = run();
    sched_setaffinity(None, &before)?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted() {
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("0-1"), Some(2));
        assert_eq!(count("0-3,8,10-11"), Some(7));
        for wrong in ["", "a", "3-1", "0-65535", "1,"] {
            assert_eq!(count(wrong), None, "{wrong}");
        }
        assert!(possible().unwrap() >= 1);
    }

    #[test]
    fn a_thread_is_where_it_was_afterwards() {
        let before = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU)
            .find(|&number| before.is_set(number))
            .unwrap();
        let within = run_on(first as u16, || sched_getaffinity(None).unwrap()).unwrap();
        assert!(within.is_set(first) && within.count() == 1);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
