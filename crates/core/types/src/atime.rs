//! Rules by which reading changes the time of access.

use crate::attr::Time;
use serde::{Deserialize, Serialize};

/// Nanoseconds after which a time of access is old (Linux).
const OLD: i64 = 24 * 3_600 * 1_000_000_000;

/// Which times of access are worth a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AtimeRule {
    /// The first after a change of data or attributes, and one a day (`relatime`).
    #[default]
    Relative,
    /// Every one (`strictatime`).
    Strict,
}

impl AtimeRule {
    /// Whether a reading `at` that time changes the time of access. One from before the last change of
    /// attributes does not: that may have been the setting of this very time.
    pub fn is_due(self, at: Time, atime: Time, mtime: Time, ctime: Time) -> bool {
        if at <= atime && self == AtimeRule::Strict || at < ctime {
            return false;
        }
        match self {
            AtimeRule::Strict => true,
            AtimeRule::Relative => {
                at != atime
                    && (mtime >= atime || ctime >= atime || at.0.saturating_sub(atime.0) >= OLD)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relative(at: i64, atime: i64, mtime: i64, ctime: i64) -> bool {
        AtimeRule::Relative.is_due(Time(at), Time(atime), Time(mtime), Time(ctime))
    }

    #[test]
    fn the_first_reading_after_a_change_counts() {
        assert!(relative(20, 10, 10, 10), "never read");
        assert!(!relative(30, 20, 10, 10), "read since");
        assert!(relative(50, 20, 40, 40), "written since");
        assert!(relative(50, 20, 10, 40), "its mode was changed since");
        assert!(!relative(10, 10, 10, 10));
    }

    #[test]
    fn one_reading_a_day_counts() {
        assert!(!relative(20 + OLD - 1, 20, 10, 10));
        assert!(relative(20 + OLD, 20, 10, 10));
        assert!(relative(i64::MAX, i64::MIN, i64::MIN, 0));
    }

    #[test]
    fn a_time_that_was_set_after_the_reading_stays() {
        assert!(!relative(30, 5, 5, 40));
        assert!(!AtimeRule::Strict.is_due(Time(30), Time(5), Time(5), Time(40)));
        assert!(relative(50, 45, 90, 40), "written to the future");
    }

    #[test]
    fn strictly_every_reading_counts() {
        let strict = |at| AtimeRule::Strict.is_due(Time(at), Time(20), Time(10), Time(10));
        assert!(strict(21) && !strict(20));
    }
}
