//! Contents of files, each different from all others.

use crate::cluster::CALLER;
use anyhow::{Context, Result};
use pandofs_client::Client;
use pandofs_types::Ino;

/// Intended contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// Tells files and versions apart.
    pub seed: u64,
    pub bytes: usize,
}

impl Content {
    pub(super) fn make(self) -> Vec<u8> {
        // A linear congruential generator (Knuth's MMIX constants): fast, and no two seeds agree for
        // long.
        let mut state = self.seed;
        let mut data = Vec::with_capacity(self.bytes + 8);
        while data.len() < self.bytes {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            data.extend_from_slice(&state.to_be_bytes());
        }
        data.truncate(self.bytes);
        data
    }

    /// Difference of the file from them, if any.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn compare(self, client: &Client, ino: Ino) -> Result<Option<String>> {
        let found = client
            .read(&CALLER, ino, 0, self.bytes + 1)
            .with_context(|| format!("cannot read inode {ino}"))?;
        let wanted = self.make();
        if found == wanted {
            return Ok(None);
        }
        let same = found
            .iter()
            .zip(&wanted)
            .take_while(|(a, b)| a == b)
            .count();
        let zeros = found[same..].iter().take_while(|&&byte| byte == 0).count();
        Ok(Some(format!(
            "inode {ino} has {} bytes of which the first {same} are right and the next {zeros} are 0, and \
             was to have {}",
            found.len(),
            wanted.len()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_differ_by_seed_and_have_their_length() {
        for bytes in [0, 1, 7, 8, 9, 5_000] {
            let content = Content { seed: 3, bytes };
            assert_eq!(content.make().len(), bytes);
            assert_eq!(content.make(), content.make());
            let other = Content { seed: 4, bytes };
            assert_eq!(content.make() == other.make(), bytes == 0);
        }
    }
}
