//! One operation.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Mkdir,
    Create,
    Lookup,
    Stat,
    Utime,
    Open,
    Read,
    Write,
    Readdir,
    Rename,
    Unlink,
    Rmdir,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Mkdir => "mkdir",
            Kind::Create => "create",
            Kind::Lookup => "lookup",
            Kind::Stat => "stat",
            Kind::Utime => "utime",
            Kind::Open => "open",
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Readdir => "readdir",
            Kind::Rename => "rename",
            Kind::Unlink => "unlink",
            Kind::Rmdir => "rmdir",
        })
    }
}

/// An operation on a path: relative to where the work is done, with `/` between names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    pub op: Kind,
    pub path: String,
    /// The new path, of a renaming.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Bytes that are read or written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u32,
}

fn is_zero(bytes: &u32) -> bool {
    *bytes == 0
}

impl Op {
    pub fn new(op: Kind, path: impl Into<String>) -> Op {
        Op {
            op,
            path: path.into(),
            to: None,
            bytes: 0,
        }
    }

    pub fn with_bytes(op: Kind, path: impl Into<String>, bytes: u32) -> Op {
        Op {
            bytes,
            ..Op::new(op, path)
        }
    }

    pub fn rename(path: impl Into<String>, to: impl Into<String>) -> Op {
        Op {
            to: Some(to.into()),
            ..Op::new(Kind::Rename, path)
        }
    }
}

/// The directory of a path and the name in it; the directory is empty at the top.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}
