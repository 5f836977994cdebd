//! Time by a clock that nobody sets, for whatever waits or runs out.

use std::time::Duration;

/// Nanoseconds of a clock that goes on evenly, since some moment before the process that reads it began; of no meaning to
/// another process.
///
/// Not [`Time`](crate::Time), which the world agrees on and anybody may set: a server whose clock is set back by an hour
/// would send nothing again for an hour, and one whose clock is set forth by a day would take everybody for gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Steady(pub i64);

impl Steady {
    /// Earlier by so much.
    #[must_use]
    pub fn before(self, span: Duration) -> Steady {
        Steady(self.0.saturating_sub(nanoseconds(span)))
    }

    /// Later by so much.
    #[must_use]
    pub fn after(self, span: Duration) -> Steady {
        Steady(self.0.saturating_add(nanoseconds(span)))
    }

    /// How much has passed since `earlier`; nothing if that is later.
    pub fn since(self, earlier: Steady) -> Duration {
        let passed = self.0.saturating_sub(earlier.0);
        Duration::from_nanos(u64::try_from(passed).unwrap_or(0))
    }
}

fn nanoseconds(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stay_within_what_there_is() {
        let second = Duration::from_secs(1);
        assert_eq!(Steady(5).after(second), Steady(1_000_000_005));
        assert_eq!(Steady(1_000_000_005).before(second), Steady(5));
        assert_eq!(Steady(7).since(Steady(5)), Duration::from_nanos(2));
        assert_eq!(Steady(5).since(Steady(7)), Duration::ZERO);
        assert_eq!(Steady(i64::MAX).after(second), Steady(i64::MAX));
        assert_eq!(Steady(i64::MIN).before(second), Steady(i64::MIN));
        assert_eq!(Steady(0).after(Duration::MAX), Steady(i64::MAX));
    }
}
