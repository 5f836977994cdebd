//! The history of each inode's mode is linearizable, as that of [names](super::linearizable) is. What it was at first is
//! not known.

use super::Finding;
use super::linearizable::instants;
use crate::history::{History, ModeDeed};
use pandofs_types::Ino;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::History as Actions;
use todc_utils::specifications::Specification;

struct ModeSpec;

impl Specification for ModeSpec {
    /// `None`: anything.
    type State = Option<u16>;
    type Operation = ModeDeed;

    fn init() -> Option<u16> {
        None
    }

    fn apply(deed: &ModeDeed, state: &Option<u16>) -> (bool, Option<u16>) {
        match *deed {
            ModeDeed::Read(mode) => (state.is_none_or(|known| known == mode), Some(mode)),
            ModeDeed::Write(mode) => (true, Some(mode)),
            ModeDeed::Forget => (true, None),
        }
    }
}

pub(super) fn check(history: &History) -> Result<(), Finding> {
    for (ino, operations) in history.modes() {
        if !is_linearizable(&operations) {
            return Err(Finding::new("attributes", show(ino, &operations)));
        }
    }
    Ok(())
}

fn is_linearizable(operations: &[(u64, Option<u64>, ModeDeed)]) -> bool {
    let actions = instants(operations.iter().copied());
    actions.is_empty() || WGLChecker::<ModeSpec>::is_linearizable(Actions::from_actions(actions))
}

fn show(ino: Ino, operations: &[(u64, Option<u64>, ModeDeed)]) -> String {
    let line = |(begun, ended, deed): &(u64, Option<u64>, ModeDeed)| {
        let ended = ended.map_or("never".to_owned(), |end| end.to_string());
        format!("{begun}-{ended} {deed:?}")
    };
    let lines: Vec<String> = operations.iter().map(line).collect();
    format!("mode of {ino}: {}", lines.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_read() {
        let set = (1, Some(4), ModeDeed::Write(0o700));
        let read = |at, mode| (at, Some(at + 1), ModeDeed::Read(mode));
        assert!(is_linearizable(&[set, read(2, 0o644), read(5, 0o700)]));
        assert!(!is_linearizable(&[set, read(5, 0o644)]));
        assert!(!is_linearizable(&[read(5, 0o644), read(7, 0o700)]));
        let unknown = (1, None, ModeDeed::Write(0o700));
        let back = [unknown, read(3, 0o700), read(5, 0o644)];
        assert!(!is_linearizable(&back));
        let forget = (8, Some(9), ModeDeed::Forget);
        assert!(is_linearizable(&[set, forget, read(10, 0o644)]));
    }
}
