//! The oracles. Each takes the tables and reports `(subject, text)` of what must not be.

mod counts;
mod data;
mod entries;
mod forwarding;
mod inodes;
mod links;
mod objects;
mod once;
mod owners;
mod partitions;
mod paths;
pub(crate) mod routes;
mod splits;
mod transactions;
mod tree;
mod xattrs;

use crate::problem::Problem;
use crate::tables::Tables;
use std::time::Duration;

/// Takes what one oracle finds.
pub(crate) struct Report<'p> {
    pub oracle: &'static str,
    pub problems: &'p mut Vec<Problem>,
}

impl Report<'_> {
    /// Something that must not be.
    pub(crate) fn add(&mut self, subject: String, text: String) {
        self.add_if_it_lasts(Duration::ZERO, subject, text);
    }

    /// Something that may be, but for no longer than `patience` while the servers run.
    pub(crate) fn add_if_it_lasts(&mut self, patience: Duration, subject: String, text: String) {
        let oracle = self.oracle;
        self.problems.push(Problem {
            oracle,
            subject,
            text,
            patience,
        });
    }
}

type Oracle = fn(&Tables, &mut Report<'_>);

/// Those that hold at every moment, also while operations are under way, if all that is looked at is of the same moment.
pub(crate) const ALWAYS: [(&str, Oracle); 2] = [("owners", owners::check), ("once", once::check)];

/// All of them, with the names under which they report.
pub(crate) const ALL: [(&str, Oracle); 16] = [
    ("partitions", partitions::check),
    ("entries", entries::check),
    ("inodes", inodes::check),
    ("links", links::check),
    ("tree", tree::check),
    ("counts", counts::check),
    ("forwarding", forwarding::check),
    ("xattrs", xattrs::check),
    ("data", data::check),
    ("splits", splits::check),
    ("transactions", transactions::check),
    ("objects", objects::check),
    ("owners", owners::check),
    ("once", once::check),
    ("routes", routes::check),
    ("paths", paths::check),
];
