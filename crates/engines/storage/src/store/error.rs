//! Errors of a store.

use std::path::PathBuf;

/// One variant for each reaction: ask the operator to look at the device, to restore the store, to
/// run another version, to make room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The system refused something; the store's contents are not in doubt.
    #[error("{what}: {reason}")]
    Io {
        /// The action that failed, and its file or directory.
        what: String,
        /// The system's or the engine's own words.
        reason: String,
    },
    /// Bytes that were read are not those that were written.
    #[error("corrupt store: {what}")]
    Corrupt {
        /// Where, and what the engine says about it.
        what: String,
    },
    /// It is no store, or one of another version.
    #[error("{} has format '{found}', this program reads '{expected}'", path.display())]
    WrongFormat {
        /// The store's directory.
        path: PathBuf,
        /// The format written there.
        found: String,
        /// The format that this program writes.
        expected: String,
    },
    /// The device has no room. Earlier writes stand.
    #[error("no space left on the store's device")]
    Full,
}

impl StoreError {
    /// Whether a read that ended with this concerns what it was to read, and nothing else: the rest of the
    /// store may be read as before.
    pub fn is_of_the_place(&self) -> bool {
        matches!(self, StoreError::Corrupt { .. } | StoreError::Io { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_at_one_place_says_nothing_of_others() {
        let text = || "text".to_owned();
        let (what, reason, path) = (text(), text(), PathBuf::from("store"));
        let errors = [
            StoreError::Io { what, reason },
            StoreError::Corrupt { what: text() },
            StoreError::WrongFormat {
                path,
                found: text(),
                expected: text(),
            },
            StoreError::Full,
        ];
        let of_the_place = errors.map(|error| error.is_of_the_place());
        assert_eq!(of_the_place, [true, true, false, false]);
    }
}
