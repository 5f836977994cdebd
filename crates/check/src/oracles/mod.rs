//! The oracles. Each takes the tables and reports `(subject, text)` of what must not be.

mod counts;
mod entries;
mod forwarding;
mod inodes;
mod links;
mod objects;
mod partitions;
mod splits;
mod transactions;
mod tree;
mod xattrs;

use crate::tables::Tables;

/// Takes a problem's subject and text.
pub type Report<'r> = dyn FnMut(String, String) + 'r;

type Oracle = fn(&Tables, &mut Report<'_>);

/// All of them, with the names under which they report.
pub const ALL: [(&str, Oracle); 11] = [
    ("partitions", partitions::check),
    ("entries", entries::check),
    ("inodes", inodes::check),
    ("links", links::check),
    ("tree", tree::check),
    ("counts", counts::check),
    ("forwarding", forwarding::check),
    ("xattrs", xattrs::check),
    ("splits", splits::check),
    ("transactions", transactions::check),
    ("objects", objects::check),
];
