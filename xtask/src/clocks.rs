//! The clock of the client's leases: one that goes on while the machine is suspended.

use crate::finding::Finding;
use crate::source::{Source, paths};

/// Modules of the client that measure leases.
const LEASE_MODULES: [&str; 4] = [
    "crates/core/session/src",
    "crates/processes/client/src/lease_cache.rs",
    "crates/processes/client/src/recalls.rs",
    "crates/processes/client/src/locks.rs",
];

/// They name no `Instant`: it stands still while the machine is suspended, in which a lease ends.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if !LEASE_MODULES
        .iter()
        .any(|path| source.path.starts_with(path))
    {
        return Vec::new();
    }
    let named = paths(&source.tokens).into_iter().filter(|path| {
        let mut segments = path.segments.iter();
        segments.any(|segment| segment == "Instant" || segment == "SystemTime")
    });
    let why = "leases are measured by `Boottime`, which goes on while the machine is suspended";
    named
        .map(|path| Finding::new(&source.path, path.line, "client-clock", why.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn leases_are_not_measured_by_a_clock_that_stands_still() {
        let lines = |path: &str, text: &str| -> Vec<usize> {
            let source =
                Source::parse(Path::new(path), text).unwrap_or_else(|finding| panic!("{finding}"));
            check(&source).into_iter().map(|found| found.line).collect()
        };
        let text = "use std::time::Duration;\nuse std::time::{Duration, Instant};\nfn f() { Instant::now(); }";
        for path in LEASE_MODULES.map(|path| path.to_owned()) {
            assert_eq!(lines(&path, text), [2, 3]);
        }
        assert_eq!(
            lines("crates/core/session/src/lease_cache/write_leases.rs", text),
            [2, 3]
        );
        assert!(lines("crates/processes/client/src/pool.rs", text).is_empty());
        assert!(
            lines(
                "crates/processes/client/src/locks.rs",
                "use std::time::Duration;"
            )
            .is_empty()
        );
    }
}
