//! A line of a recording.

use crate::op::{Kind, escape, is_false};
use pandofs_client::Node;
use pandofs_client::trace::{self, Op, Outcome};
use pandofs_types::{FileKind, Ino, Name};
use serde::{Deserialize, Serialize};

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Footer {
    /// Number of operations.
    pub ended: u64,
}

/// An operation, by the numbers of inodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Nanoseconds since the recording began.
    pub start: u64,
    pub end: u64,
    pub client: u64,
    pub op: Kind,
    /// Its object, if that is asked for by its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ino: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<u64>,
    /// In `dir`; without it, that of an extended attribute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_dir: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_name: Option<String>,
    /// The object that was found, made, moved or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is: Option<u64>,
    /// The object that was exchanged with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<u64>,
    /// Of `is`, as `find -type` writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<char>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// Bytes of what was found; those that a file was cut to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub times: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// A file without a name was made.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unnamed: bool,
    /// Name, inode, kind and size of the entries of a listing with attributes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<(String, u64, char, u64)>,
    /// Its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<i32>,
    /// It takes the place of its client's one before it, which was refused.
    #[serde(default, skip_serializing_if = "is_false")]
    pub again: bool,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// As `find -type` writes it.
pub(super) fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::File => 'f',
        FileKind::Dir => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::Char => 'c',
        FileKind::Block => 'b',
    }
}

impl Event {
    pub(crate) fn new(op: Kind) -> Event {
        Event {
            start: 0,
            end: 0,
            client: 0,
            op,
            ino: None,
            dir: None,
            name: None,
            new_dir: None,
            new_name: None,
            is: None,
            other: None,
            kind: None,
            offset: None,
            bytes: 0,
            size: None,
            mode: None,
            uid: None,
            gid: None,
            times: false,
            exclusive: false,
            unnamed: false,
            told: Vec::new(),
            error: None,
            again: false,
        }
    }

    fn by_name(op: Kind, dir: Ino, name: &Name) -> Event {
        Event {
            dir: Some(dir.0),
            name: Some(escape(name.as_bytes())),
            ..Event::new(op)
        }
    }

    fn by_number(op: Kind, ino: Ino) -> Event {
        Event {
            ino: Some(ino.0),
            ..Event::new(op)
        }
    }

    fn of_xattr(op: Kind, ino: Ino, name: &[u8]) -> Event {
        Event {
            name: Some(escape(name)),
            ..Event::by_number(op, ino)
        }
    }

    fn of_two(op: Kind, from: (Ino, &Name), to: (Ino, &Name)) -> Event {
        Event {
            new_dir: Some(to.0.0),
            new_name: Some(escape(to.1.as_bytes())),
            ..Event::by_name(op, from.0, from.1)
        }
    }

    /// An operation with its outcome, without times and client.
    pub(super) fn of(ended: &trace::Event<'_>) -> Event {
        let mut event = asked(&ended.op);
        event.again = ended.again;
        match &ended.outcome {
            Err(error) => event.error = Some(*error),
            Ok(Outcome::Done) => {}
            Ok(Outcome::Node(node)) => event.found(node),
            Ok(Outcome::Found(node)) => {
                event.op = Kind::Open;
                event.mode = None;
                event.found(node);
            }
            Ok(Outcome::Ino(ino)) => event.is = Some(ino.0),
            Ok(Outcome::Inos(ino, other)) => {
                event.is = Some(ino.0);
                event.other = Some(other.0);
            }
            Ok(Outcome::Offset(offset)) => event.offset = Some(*offset),
            Ok(Outcome::Page(page)) => {
                let told = page.entries.iter().filter_map(|entry| {
                    let attr = entry.attr.as_ref()?;
                    let name = escape(entry.name.as_bytes());
                    Some((name, entry.ino.0, letter(entry.kind), attr.size))
                });
                event.told = told.collect();
            }
        }
        event
    }

    fn found(&mut self, node: &Node) {
        self.is = Some(node.ino.0);
        self.kind = Some(letter(node.kind));
        match self.op {
            Kind::Lookup => self.size = Some(node.attr.size),
            // A new file is empty in any case.
            Kind::Create => self.size = None,
            _ => {}
        }
    }
}

fn asked(op: &Op<'_>) -> Event {
    match *op {
        Op::Lookup { dir, name } => Event::by_name(Kind::Lookup, dir, name),
        Op::Getattr { ino } => Event::by_number(Kind::Stat, ino),
        Op::Setattr { ino, set } => Event {
            mode: set.mode,
            uid: set.uid,
            gid: set.gid,
            size: set.size,
            times: set.atime.is_some() || set.mtime.is_some(),
            ..Event::by_number(Kind::Setattr, ino)
        },
        Op::Readlink { ino } => Event::by_number(Kind::Readlink, ino),
        Op::Open { ino, truncate } => Event {
            size: truncate.then_some(0),
            ..Event::by_number(Kind::Open, ino)
        },
        Op::Create {
            dir,
            name,
            mode,
            truncate,
        } => Event {
            mode: Some(mode),
            size: truncate.then_some(0),
            ..Event::by_name(Kind::Create, dir, name)
        },
        Op::Unnamed { dir } => Event {
            dir: Some(dir.0),
            unnamed: true,
            ..Event::new(Kind::Create)
        },
        Op::Mknod {
            dir,
            name,
            kind,
            mode,
        } => Event {
            mode: Some(mode),
            kind: Some(letter(kind)),
            ..Event::by_name(Kind::Mknod, dir, name)
        },
        Op::Symlink { dir, name, bytes } => Event {
            bytes: bytes as u64,
            ..Event::by_name(Kind::Symlink, dir, name)
        },
        Op::Mkdir { dir, name, mode } => Event {
            mode: Some(mode),
            ..Event::by_name(Kind::Mkdir, dir, name)
        },
        Op::Link { ino, dir, name } => Event {
            ino: Some(ino.0),
            ..Event::by_name(Kind::Link, dir, name)
        },
        Op::Unlink { dir, name } => Event::by_name(Kind::Unlink, dir, name),
        Op::Rmdir { dir, name } => Event::by_name(Kind::Rmdir, dir, name),
        Op::Rename {
            from,
            to,
            no_replace,
        } => Event {
            exclusive: no_replace,
            ..Event::of_two(Kind::Rename, from, to)
        },
        Op::Exchange { from, to } => Event::of_two(Kind::Exchange, from, to),
        Op::Readdir { dir } => Event::by_number(Kind::Readdir, dir),
        Op::Read { ino, offset, bytes } => Event {
            offset: Some(offset),
            bytes: bytes as u64,
            ..Event::by_number(Kind::Read, ino)
        },
        Op::Write { ino, offset, bytes } => Event {
            offset,
            bytes: bytes as u64,
            ..Event::by_number(Kind::Write, ino)
        },
        Op::Allocate { ino, end } => Event {
            size: end,
            ..Event::by_number(Kind::Allocate, ino)
        },
        Op::Getxattr { ino, name } => Event::of_xattr(Kind::Getxattr, ino, name),
        Op::Listxattr { ino } => Event::by_number(Kind::Listxattr, ino),
        Op::Setxattr { ino, name, bytes } => Event {
            bytes: bytes as u64,
            ..Event::of_xattr(Kind::Setxattr, ino, name)
        },
        Op::Removexattr { ino, name } => Event::of_xattr(Kind::Removexattr, ino, name),
    }
}
