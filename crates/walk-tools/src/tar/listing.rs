//! Members as they are listed, in the columns of GNU tar.

use crate::find::permissions::letters;
use crate::output::Part;
use crate::tar::header::{Kind, Member};
use crate::tar::words::quote;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::io::Write;

/// Characters that the owner and the size take together, until something takes more.
const OWNER_AND_SIZE: usize = 19;

/// How much is said of each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    Nothing,
    Name,
    All,
}

/// Lists members.
#[derive(Debug)]
pub struct Listing {
    out: Part,
    detail: Detail,
    numeric: bool,
    width: usize,
}

impl Listing {
    /// With `numeric` owners are shown as numbers.
    pub fn new(out: Part, detail: Detail, numeric: bool) -> Listing {
        Listing {
            out,
            detail,
            numeric,
            width: OWNER_AND_SIZE,
        }
    }

    /// A member, in a line of its own.
    pub fn show(&mut self, member: &Member) {
        if self.detail == Detail::Nothing {
            return;
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
            if self.numeric || name.is_empty() {
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
