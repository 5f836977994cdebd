//! The history of each attribute of each inode is linearizable, as that of [names](super::linearizable) is.
//! Its first value is not known.

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
            Told::Grow(end, size) => {
                let grown = state.map(|before| before.max(end));
                let fits = grown.is_none_or(|grown| size.is_none_or(|size| size == grown));
                (fits, grown.or(size))
            }
            Told::Advance(time) => (state.is_none_or(|before| before <= time), Some(time)),
            Told::Forget => (true, None),
        }
    }
}

pub(super) fn check(history: &History) -> Result<(), Finding> {
    for ((ino, field), operations) in history.attributes().all() {
        let oracle = match field {
            Field::Mode | Field::Owner | Field::Group => "attributes",
            Field::Size => "sizes",
            Field::Mtime | Field::Ctime => "times",
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
    fn what_grows_is_as_large_as_it_was_told() {
        let grow = |at, end, size| (at, Some(at + 1), Told::Grow(end, size));
        let write = (1, Some(2), Told::Write(5));
        let read = |at, size| (at, Some(at + 1), Told::Read(size));
        assert!(is_linearizable(&[write, grow(3, 4, Some(5)), read(5, 5)]));
        assert!(is_linearizable(&[write, grow(3, 9, Some(9)), read(5, 9)]));
        assert!(!is_linearizable(&[write, grow(3, 9, Some(9)), read(5, 5)]));
        assert!(!is_linearizable(&[write, grow(3, 4, Some(4))]));
        let unknown = (3, None, Told::Grow(9, None));
        assert!(is_linearizable(&[write, unknown, read(5, 5), read(7, 9)]));
        assert!(!is_linearizable(&[write, unknown, read(5, 9), read(7, 5)]));
    }

    #[test]
    fn what_advances_does_not_go_back() {
        let advance = |at, end, time| (at, Some(end), Told::Advance(time));
        assert!(is_linearizable(&[advance(1, 2, 7), advance(3, 4, 7)]));
        assert!(!is_linearizable(&[advance(1, 2, 7), advance(3, 4, 6)]));
        assert!(is_linearizable(&[advance(1, 5, 7), advance(3, 4, 6)]));
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
