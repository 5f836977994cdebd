//! Memory of this process.

use std::fs;

const KIB: u64 = 1 << 10;

/// Bytes that this process has in use, as the system sees it; `None` if the system does not tell.
pub fn resident_bytes() -> Option<u64> {
    resident_in(&fs::read_to_string("/proc/self/status").ok()?)
}

/// `VmRSS` of a `/proc/PID/status`.
fn resident_in(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_in_bytes() {
        assert_eq!(
            resident_in("VmHWM:\t  8 kB\nVmRSS:\t     12 kB\n"),
            Some(12_288)
        );
        assert_eq!(resident_in("VmRSS:\t 12 pages\n"), None);
        assert_eq!(resident_in(""), None);
    }
}
