//! Headers of members.
//!
//! A member is a header of 512 bytes, and its data, filled up with zeros to a multiple of that.
//! Values that do not fit in a header (long or strange names, large sizes, fractions of seconds,
//! extended attributes, maps of sparse files) is in an extended header before it: a member of type
//! `x` whose data are records `LENGTH KEY=VALUE\n`.

use crate::tar::acl;
use serde::{Deserialize, Serialize};
use std::io::Write;

/// Headers, and everything else, come in multiples of this.
pub(crate) const BLOCK: usize = 512;
/// Archives are multiples of this.
pub(crate) const RECORD: u64 = 10_240;

/// Kinds of members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    #[default]
    File,
    HardLink,
    Symlink,
    CharacterDevice,
    BlockDevice,
    Directory,
    Fifo,
}

impl Kind {
    fn letter(self) -> u8 {
        match self {
            Kind::File => b'0',
            Kind::HardLink => b'1',
            Kind::Symlink => b'2',
            Kind::CharacterDevice => b'3',
            Kind::BlockDevice => b'4',
            Kind::Directory => b'5',
            Kind::Fifo => b'6',
        }
    }
}

/// A member, but for its data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub kind: Kind,
    pub path: Vec<u8>,
    /// Target of a link, or the member of which this is another name.
    pub target: Vec<u8>,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub user: String,
    pub group: String,
    pub seconds: i64,
    pub nanoseconds: u32,
    pub device: (u32, u32),
    /// Bytes of the file.
    pub size: u64,
    /// Segments of data of a sparse file: start and length. None of a file without holes.
    pub sparse: Option<Vec<(u64, u64)>>,
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
    /// Access control lists as text: `access` or `default`, and what it is. They are among the
    /// extended attributes too, but of those some programs take nothing.
    pub acls: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Member {
    /// Headers, up to where the data begin, and the number of bytes that have to follow before the
    /// filling up.
    pub(crate) fn headers(&self) -> (Vec<u8>, u64) {
        let mut map = Vec::new();
        let mut stored = if self.kind == Kind::File {
            self.size
        } else {
            0
        };
        if let Some(segments) = &self.sparse {
            // A vector takes everything; so it is below.
            let _ = writeln!(map, "{}", segments.len());
            for (start, length) in segments {
                let _ = write!(map, "{start}\n{length}\n");
            }
            fill_up(&mut map);
            stored = segments.iter().map(|(_, length)| length).sum();
        }
        let size = map.len() as u64 + stored;
        let records = self.records(size);
        let mut bytes = Vec::new();
        if !records.is_empty() {
            let mut header = Header::new(b'x', b"././@PaxHeader", records.len() as u64);
            header.number(100, 8, 0o644);
            header.finish(&mut bytes);
            bytes.extend_from_slice(&records);
            fill_up(&mut bytes);
        }
        let stand_in = [b"GNUSparseFile.0/", last_name(&self.path)].concat();
        let name = if self.sparse.is_some() {
            &stand_in
        } else {
            &self.path
        };
        let mut header = Header::new(self.kind.letter(), name, size);
        header.number(100, 8, u64::from(self.mode & 0o7777));
        header.number(108, 8, u64::from(self.uid));
        header.number(116, 8, u64::from(self.gid));
        header.number(136, 12, self.seconds.max(0) as u64);
        header.text(157, 100, &self.target);
        header.text(265, 31, self.user.as_bytes());
        header.text(297, 31, self.group.as_bytes());
        header.number(329, 8, u64::from(self.device.0));
        header.number(337, 8, u64::from(self.device.1));
        header.finish(&mut bytes);
        bytes.extend_from_slice(&map);
        (bytes, stored)
    }

    fn records(&self, size: u64) -> Vec<u8> {
        let mut records = Vec::new();
        if let Some(_segments) = &self.sparse {
            record(&mut records, b"GNU.sparse.major", b"1");
            record(&mut records, b"GNU.sparse.minor", b"0");
            record(&mut records, b"GNU.sparse.name", &self.path);
            let real = self.size.to_string();
            record(&mut records, b"GNU.sparse.realsize", real.as_bytes());
        } else if self.path.len() > 100 || !self.path.is_ascii() {
            record(&mut records, b"path", &self.path);
        }
        if self.target.len() > 100 || !self.target.is_ascii() {
            record(&mut records, b"linkpath", &self.target);
        }
        if size >= 1 << 33 {
            record(&mut records, b"size", size.to_string().as_bytes());
        }
        for (key, id) in [(&b"uid"[..], self.uid), (b"gid", self.gid)] {
            if id >= 1 << 21 {
                record(&mut records, key, id.to_string().as_bytes());
            }
        }
        for (key, name) in [(&b"uname"[..], &self.user), (b"gname", &self.group)] {
            if name.len() > 31 {
                record(&mut records, key, name.as_bytes());
            }
        }
        if self.nanoseconds != 0 || !(0..1 << 33).contains(&self.seconds) {
            record(
                &mut records,
                b"mtime",
                &decimal(self.seconds, self.nanoseconds),
            );
        }
        for (name, value) in &self.extended {
            record(&mut records, &[b"SCHILY.xattr.", &name[..]].concat(), value);
        }
        for (scope, text) in &self.acls {
            record(&mut records, &[acl::RECORD, &scope[..]].concat(), text);
        }
        records
    }
}

/// Seconds with their fraction. Before 1970 the fraction counts down, as it does in decimals.
fn decimal(seconds: i64, nanoseconds: u32) -> Vec<u8> {
    let total = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    let sign = if total < 0 { "-" } else { "" };
    let (whole, rest) = (total.abs() / 1_000_000_000, total.abs() % 1_000_000_000);
    if rest == 0 {
        return format!("{sign}{whole}").into();
    }
    let text = format!("{sign}{whole}.{rest:09}");
    text.trim_end_matches('0').into()
}

/// `LENGTH KEY=VALUE\n`, where the length counts itself.
fn record(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    let _ = write!(records, "{length} ");
    records.extend_from_slice(key);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

/// Zeros up to the next multiple of a block.
pub(crate) fn fill_up(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
}

fn last_name(path: &[u8]) -> &[u8] {
    let start = path
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |at| at + 1);
    &path[start..]
}

struct Header([u8; BLOCK]);

impl Header {
    fn new(kind: u8, name: &[u8], size: u64) -> Header {
        let mut header = Header([0; BLOCK]);
        header.text(0, 100, name);
        for at in [108, 116] {
            header.number(at, 8, 0);
        }
        header.number(124, 12, size);
        header.number(136, 12, 0);
        header.0[156] = kind;
        header.0[257..265].copy_from_slice(b"ustar\x0000");
        header.number(329, 8, 0);
        header.number(337, 8, 0);
        header
    }

    /// As much as there is room for: the extended header has it whole.
    fn text(&mut self, at: usize, room: usize, text: &[u8]) {
        let length = text.len().min(room);
        self.0[at..at + length].copy_from_slice(&text[..length]);
    }

    /// Octal digits and a NUL. A number with more digits is in the extended header.
    fn number(&mut self, at: usize, room: usize, number: u64) {
        let digits = room - 1;
        let number = number & ((1 << (3 * digits)) - 1);
        let text = format!("{number:0digits$o}\0");
        self.0[at..at + room].copy_from_slice(text.as_bytes());
    }

    fn finish(mut self, bytes: &mut Vec<u8>) {
        // The sum is taken with spaces in its own place.
        self.0[148..156].fill(b' ');
        let sum: u64 = self.0.iter().map(|byte| u64::from(*byte)).sum();
        let text = format!("{sum:06o}\0 ");
        self.0[148..156].copy_from_slice(text.as_bytes());
        bytes.extend_from_slice(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_themselves() {
        for (length, text) in [(1, "9 k=v"), (97, "104 k=")] {
            let mut records = Vec::new();
            record(&mut records, b"k", &vec![b'v'; length]);
            let text_of = String::from_utf8(records.clone()).unwrap();
            let number: usize = text_of.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(number, records.len(), "{text}");
        }
        let mut records = Vec::new();
        record(&mut records, b"path", b"abc");
        assert_eq!(records, b"12 path=abc\n");
    }

    #[test]
    fn times_before_1970_count_down() {
        for (seconds, nanoseconds, text) in [
            (1, 500_000_000, "1.5"),
            (7, 0, "7"),
            (10, 0, "10"),
            (-1, 500_000_000, "-0.5"),
            (-2, 0, "-2"),
        ] {
            let got = String::from_utf8(decimal(seconds, nanoseconds)).unwrap();
            assert_eq!(got, text);
        }
    }
}
