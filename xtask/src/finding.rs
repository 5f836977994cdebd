//! Findings of the rules.

use std::fmt;
use std::path::{Path, PathBuf};

/// One place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// From the root of the workspace.
    pub file: PathBuf,
    /// From 1; 0 when the rule is about the file as a whole.
    pub line: usize,
    pub rule: &'static str,
    /// The fault, and why it is not allowed.
    pub why: String,
}

impl Finding {
    pub(crate) fn new(
        file: &Path,
        line: usize,
        rule: &'static str,
        why: impl Into<String>,
    ) -> Finding {
        Finding {
            file: file.to_owned(),
            line,
            rule,
            why: why.into(),
        }
    }
}

/// As compilers say it, so that editors can jump there.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}: {}", self.rule, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_its_place() {
        let at = |line| Finding::new(Path::new("crates/a/src/lib.rs"), line, "some-rule", "bad");
        assert_eq!(at(7).to_string(), "crates/a/src/lib.rs:7: some-rule: bad");
        assert_eq!(at(0).to_string(), "crates/a/src/lib.rs: some-rule: bad");
    }
}
