//! Members as they are listed, in the columns of GNU tar or as JSON.

use crate::find::permissions::letters;
use crate::output::Part;
use crate::tar::args::quote;
use crate::tar::header::{Kind, Member};
use crate::text::{JsonPath, json_line};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use std::borrow::Cow;
use std::io::Write;

/// Characters that the owner and the size take together, until something takes more.
const OWNER_AND_SIZE: usize = 19;

/// Detail about each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    Nothing,
    Name,
    All,
}

/// Form of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// As GNU tar does, with names of owners.
    Names,
    /// With their numbers.
    Numbers,
    /// All that there is, an object in each line.
    Json,
}

/// Lists members.
#[derive(Debug)]
pub(crate) struct Listing {
    out: Part,
    detail: Detail,
    says: Says,
    width: usize,
}

/// A member in JSON. Fields may be added; none goes or changes its meaning.
#[derive(Serialize)]
struct Row<'r> {
    #[serde(flatten)]
    path: JsonPath<'r>,
    kind: &'static str,
    size: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    user: &'r str,
    group: &'r str,
    mtime: f64,
    /// Nanoseconds since 1970.
    mtime_ns: i128,
    /// Of links.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Cow<'r, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_hex: Option<String>,
}

impl Listing {
    pub(crate) fn new(out: Part, detail: Detail, says: Says) -> Listing {
        Listing {
            out,
            detail,
            says,
            width: OWNER_AND_SIZE,
        }
    }

    /// A member, in a line of its own.
    pub(crate) fn show(&mut self, member: &Member) {
        if self.detail == Detail::Nothing {
            return;
        }
        if self.says == Says::Json {
            json_line(&row(member), self.out.bytes());
            return self.out.end_record();
        }
        let mut line = Vec::new();
        if self.detail == Detail::All {
            self.columns(member, &mut line);
        }
        quote(&member.path, &mut line);
        if self.detail == Detail::All {
            let arrow: &[u8] = match member.kind {
                Kind::Symlink => b" -> ",
                Kind::HardLink => b" link to ",
                _ => b"",
            };
            if !arrow.is_empty() {
                line.extend_from_slice(arrow);
                quote(&member.target, &mut line);
            }
        }
        line.push(b'\n');
        self.out.bytes().extend_from_slice(&line);
        self.out.end_record();
    }

    fn columns(&mut self, member: &Member, line: &mut Vec<u8>) {
        let kind = match member.kind {
            Kind::File | Kind::HardLink => 0o100_000,
            Kind::Symlink => 0o120_000,
            Kind::CharacterDevice => 0o020_000,
            Kind::BlockDevice => 0o060_000,
            Kind::Directory => 0o040_000,
            Kind::Fifo => 0o010_000,
        };
        let mut mode = letters(kind | member.mode);
        if member.kind == Kind::HardLink {
            mode.replace_range(..1, "h");
        }
        let owner = |name: &str, id: u32| {
            if self.says == Says::Numbers || name.is_empty() {
                id.to_string()
            } else {
                name.to_owned()
            }
        };
        let (user, group) = (
            owner(&member.user, member.uid),
            owner(&member.group, member.gid),
        );
        let size = match member.kind {
            Kind::CharacterDevice | Kind::BlockDevice => {
                format!("{},{}", member.device.0, member.device.1)
            }
            Kind::File => member.size.to_string(),
            _ => "0".to_owned(),
        };
        let owner = format!("{user}/{group}");
        self.width = self.width.max(owner.len() + 1 + size.len());
        let room = self.width - owner.len();
        // A vector takes everything.
        let _ = write!(
            line,
            "{mode} {owner}{size:>room$} {} ",
            local(member.seconds)
        );
    }
}

fn row(member: &Member) -> Row<'_> {
    let is_link = matches!(member.kind, Kind::Symlink | Kind::HardLink);
    let target = is_link.then(|| JsonPath::new(&member.target));
    let (target, target_hex) = target.map_or((None, None), |it| (Some(it.path), it.path_hex));
    Row {
        path: JsonPath::new(&member.path),
        // As `walk` calls them, which knows no other names of a file.
        kind: match member.kind {
            Kind::File => "file",
            Kind::HardLink => "hard link",
            Kind::Symlink => "link",
            Kind::CharacterDevice => "character device",
            Kind::BlockDevice => "block device",
            Kind::Directory => "directory",
            Kind::Fifo => "fifo",
        },
        size: member.size,
        mode: member.mode & 0o7777,
        uid: member.uid,
        gid: member.gid,
        user: &member.user,
        group: &member.group,
        mtime: member.seconds as f64 + f64::from(member.nanoseconds) / 1e9,
        mtime_ns: i128::from(member.seconds) * 1_000_000_000 + i128::from(member.nanoseconds),
        target,
        target_hex,
    }
}

/// A time in the zone where we are, to the minute.
fn local(seconds: i64) -> String {
    match Timestamp::from_second(seconds) {
        Ok(at) => {
            let local = at.to_zoned(TimeZone::system());
            local.strftime("%Y-%m-%d %H:%M").to_string()
        }
        Err(_) => seconds.to_string(),
    }
}
