//! Types of the file systems that are mounted.

use anyhow::{Context, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// The kinds of file systems by their devices, as `Stat::device` has these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileSystems(Arc<HashMap<u64, String>>);

impl FileSystems {
    /// Those that are mounted now.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub(crate) fn mounted() -> Result<FileSystems> {
        let path = "/proc/self/mountinfo";
        let text = std::fs::read_to_string(path).context(path)?;
        Ok(FileSystems::parse(&text))
    }

    fn parse(text: &str) -> FileSystems {
        let kinds = text.lines().filter_map(|line| {
            // 36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw
            let (before, after) = line.split_once(" - ")?;
            let (major, minor) = before.split(' ').nth(2)?.split_once(':')?;
            let device = major.parse::<u64>().ok()? << 32 | minor.parse::<u64>().ok()?;
            Some((device, after.split(' ').next()?.to_owned()))
        });
        FileSystems(Arc::new(kinds.collect()))
    }

    /// `unknown` if it is none of them.
    pub(crate) fn of(&self, device: u64) -> &str {
        self.0.get(&device).map_or("unknown", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_the_kind_that_is_mounted() {
        let all = FileSystems::parse(
            "36 35 98:3 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n\
             24 1 0:22 / /proc rw - proc proc rw\nnonsense\n",
        );
        assert_eq!(all.of(98 << 32 | 3), "ext3");
        assert_eq!(all.of(22), "proc");
        assert_eq!(all.of(7), "unknown");
        assert!(FileSystems::mounted().is_ok());
    }
}
