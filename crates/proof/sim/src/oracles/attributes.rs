//! The history of each attribute of each inode is linearizable, as that of [names](super::linearizable) is. What it was at
//! first is not known.

use super::Finding;
use super::linearizable::look;
use crate::history::{Field, History, Told};
use todc_utils::specifications::Specification;

struct ValueSpec;

impl Specification for ValueSpec {
    /// `None`: anything.
    type State = Option<i64>;
    type Operation = Told;

    fn init() -> Option<i64> {
        None
    }

    fn apply(told: &Told, state: &Option<i64>) -> (bool, Option<i64>) {
        match *told {
            Told::Read(value) => (state.is_none_or(|known| known == value), Some(value)),
            Told::Write(value) => (true, Some(value)),
            Told::Forget => (true, None),
        }
    }
}

pub(super) fn check(history: &History) -> Result<(), Finding> {
    for ((ino, field), operations) in history.attributes().all() {
        let oracle = match field {
            Field::Mode | Field::Owner | Field::Group => "attributes",
        };
        let what = || format!("{field:?} of {ino}");
        look::<ValueSpec>(oracle, what, &operations)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Operation;

    fn is_linearizable(operations: &[Operation<Told>]) -> bool {
        look::<ValueSpec>("attributes", String::new, operations).is_ok()
    }

    #[test]
    fn what_was_set_is_read() {
        let set = (1, Some(4), Told::Write(0o700));
        let read = |at, mode| (at, Some(at + 1), Told::Read(mode));
        assert!(is_linearizable(&[set, read(2, 0o644), read(5, 0o700)]));
        assert!(!is_linearizable(&[set, read(5, 0o644)]));
        assert!(!is_linearizable(&[read(5, 0o644), read(7, 0o700)]));
        let unknown = (1, None, Told::Write(0o700));
        let back = [unknown, read(3, 0o700), read(5, 0o644)];
        assert!(!is_linearizable(&back));
        let forget = (8, Some(9), Told::Forget);
        assert!(is_linearizable(&[set, forget, read(10, 0o644)]));
    }
}
