//! Horizons: the operations of a coordinator that have ended everywhere.

use serde::{Deserialize, Serialize};

/// The word of a coordinator in each message: every one of its operations with a number smaller than `passed` has ended
/// everywhere, but for those in `open`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Horizon {
    /// Number of the first operation that may be under way and is not in `open`.
    pub passed: u64,
    /// In order, each smaller than `passed`; no more than
    /// [`MAX_STRAGGLERS`](pandofs_types::limits::MAX_STRAGGLERS).
    pub open: Vec<u64>,
}

impl Horizon {
    /// Whether the operation with this number has ended everywhere.
    pub fn has_passed(&self, sequence: u64) -> bool {
        sequence < self.passed && self.open.binary_search(&sequence).is_err()
    }
}
