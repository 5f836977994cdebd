//! One operation.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Makes a directory.
    Mkdir,
    /// Makes a file under a name that is free.
    Create,
    /// Finds what a path leads to, without opening it.
    Lookup,
    /// Asks for attributes.
    Stat,
    /// Sets the times of access and change.
    Utime,
    /// Opens a file and closes it again.
    Open,
    /// Reads `bytes`.
    Read,
    /// Writes `bytes`.
    Write,
    /// Lists a directory to its end.
    Readdir,
    /// Of a file; in traces of format 1 also of a directory.
    Rename,
    /// Takes away a name of what is no directory.
    Unlink,
    /// Takes away an empty directory.
    Rmdir,
    /// The same of a directory.
    Renamedir,
    /// Has two names change places.
    Exchange,
    /// Makes a further name for a file.
    Link,
    /// Makes a symbolic link whose target has `bytes`.
    Symlink,
    /// Reads a symbolic link's target.
    Readlink,
    /// Makes a fifo or a socket.
    Mknod,
    /// Changes mode, owner, group, size or times.
    Setattr,
    /// Has space for a file reserved, zeroed or given back.
    Allocate,
    /// Asks for an extended attribute.
    Getxattr,
    /// Asks for the names of all extended attributes.
    Listxattr,
    /// Sets an extended attribute to `bytes`.
    Setxattr,
    /// Removes an extended attribute.
    Removexattr,
}

impl Kind {
    /// As it stands in traces and tables.
    pub fn name(self) -> &'static str {
        match self {
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
            Kind::Renamedir => "renamedir",
            Kind::Exchange => "exchange",
            Kind::Link => "link",
            Kind::Symlink => "symlink",
            Kind::Readlink => "readlink",
            Kind::Mknod => "mknod",
            Kind::Setattr => "setattr",
            Kind::Allocate => "allocate",
            Kind::Getxattr => "getxattr",
            Kind::Listxattr => "listxattr",
            Kind::Setxattr => "setxattr",
            Kind::Removexattr => "removexattr",
        }
    }

    /// Returns whether it changes what its names lead to.
    pub fn changes_names(self) -> bool {
        matches!(
            self,
            Kind::Mkdir
                | Kind::Create
                | Kind::Unlink
                | Kind::Rmdir
                | Kind::Rename
                | Kind::Renamedir
                | Kind::Exchange
                | Kind::Link
                | Kind::Symlink
                | Kind::Mknod
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An operation on a path: relative to where the work is done, with `/` between names, which are
/// written as [`escape`] does; the empty path is where the work is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// Decides which of the other fields count.
    pub op: Kind,
    /// Below the place of work; may not lead out of it.
    pub path: String,
    /// The other path of a renaming, an exchange or a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Bytes that are read or written; of a link's target, of an extended attribute.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u32,
    /// The offset of a read or write; without it reading begins at the beginning, and writing is
    /// appending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Bytes that the file has afterwards; of an `allocate`, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Permission bits of what is made or changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u16>,
    /// New owner of a `setattr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// New group of a `setattr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// A `setattr` sets times.
    #[serde(default, skip_serializing_if = "is_false")]
    pub times: bool,
    /// A renaming replaces nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// Of an extended attribute, as [`escape`] writes it; `fifo` or `socket` of a `mknod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

fn is_zero(bytes: &u32) -> bool {
    *bytes == 0
}

pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}

impl Op {
    /// Without any of the other fields.
    pub fn new(op: Kind, path: impl Into<String>) -> Op {
        Op {
            op,
            path: path.into(),
            to: None,
            bytes: 0,
            offset: None,
            size: None,
            mode: None,
            uid: None,
            gid: None,
            times: false,
            exclusive: false,
            name: None,
        }
    }

    /// One that reads, writes or sets so much.
    pub fn with_bytes(op: Kind, path: impl Into<String>, bytes: u32) -> Op {
        Op {
            bytes,
            ..Op::new(op, path)
        }
    }

    /// Of a file.
    pub fn rename(path: impl Into<String>, to: impl Into<String>) -> Op {
        Op::with_two(Kind::Rename, path, to)
    }

    /// One of two paths.
    pub fn with_two(op: Kind, path: impl Into<String>, to: impl Into<String>) -> Op {
        Op {
            to: Some(to.into()),
            ..Op::new(op, path)
        }
    }

    /// Returns whether its paths lead to something below where the work is done, whatever is there.
    pub fn stays_below(&self) -> bool {
        let is_name = |name: &str| {
            unescape(name).is_some_and(|name| {
                !matches!(name.as_slice(), b"" | b"." | b"..") && !name.contains(&b'/')
            })
        };
        let mut paths = std::iter::once(&self.path).chain(&self.to);
        paths.all(|path| path.is_empty() || path.split('/').all(is_name))
    }
}

/// The directory of a path and the name in it; the directory is empty at the top.
pub(crate) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// A name as text: what is not UTF-8 as `\xNN`, and a backslash twice.
pub(crate) fn escape(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\\' {
                text.push('\\');
            }
            text.push(character);
        }
        for byte in chunk.invalid() {
            text += &format!("\\x{byte:02x}");
        }
    }
    text
}

/// The name that [`escape`] wrote; `None` for what it does not write, and for a name with a NUL in
/// it.
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (0, _) => return None,
            (b'\\', [b'\\', after @ ..]) => {
                name.push(b'\\');
                rest = after;
            }
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).ok()?;
                let byte = u8::from_str_radix(digits, 16).ok()?;
                if byte.is_ascii() {
                    return None;
                }
                name.push(byte);
                rest = after;
            }
            (b'\\', _) => return None,
            (byte, _) => name.push(byte),
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_can_be_written() {
        for name in [
            &b"plain"[..],
            b"a\\b",
            b"\xff\\x41",
            "ä\u{10ffff}".as_bytes(),
            b"\xc3(",
        ] {
            let text = escape(name);
            assert_eq!(unescape(&text).as_deref(), Some(name), "{text}");
        }
        assert_eq!(escape(b"a\\\xffb"), "a\\\\\\xffb");
        for text in ["\\", "\\y", "\\x4", "\\x41", "\\x+f", "a\0"] {
            assert_eq!(unescape(text), None, "{text}");
        }
    }

    #[test]
    fn no_path_leads_out() {
        for path in ["", "a", "a/b", "a../..b"] {
            assert!(Op::new(Kind::Stat, path).stays_below(), "{path}");
        }
        for path in [
            "/a", "a/", "a//b", "..", "a/../b", ".", "a/./b", "a/\\x2e", "a\0",
        ] {
            assert!(!Op::new(Kind::Stat, path).stays_below(), "{path}");
            assert!(!Op::rename("a", path).stays_below(), "{path}");
        }
    }
}
