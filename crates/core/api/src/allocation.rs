//! Kinds of allocation of fallocate(2).

use serde::{Deserialize, Serialize};

/// Change of a range of a file, or of the part of it that is in one data object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Allocation {
    /// Has space, so that writing there does not fail for want of it; bytes stay as they are. Without
    /// `keep_size` the file ends no sooner than the range.
    Reserve {
        /// The size stays, even if the range ends past it.
        keep_size: bool,
    },
    /// Reads as zeros, and its space is given back (`FALLOC_FL_PUNCH_HOLE`). The size stays.
    Punch,
    /// Reads as zeros, and has space (`FALLOC_FL_ZERO_RANGE`). `keep_size` as in `Reserve`.
    Zero {
        /// The size stays, even if the range ends past it.
        keep_size: bool,
    },
}

impl Allocation {
    /// Whether the file is to end no sooner than the range.
    pub fn extends(self) -> bool {
        match self {
            Allocation::Reserve { keep_size } | Allocation::Zero { keep_size } => !keep_size,
            Allocation::Punch => false,
        }
    }

    /// Whether the range reads as zeros afterwards, whatever it held.
    pub fn zeroes(self) -> bool {
        matches!(self, Allocation::Punch | Allocation::Zero { .. })
    }

    /// Whether the range has space afterwards.
    pub fn reserves(self) -> bool {
        !matches!(self, Allocation::Punch)
    }
}
