//! `-printf` and `-ls`.

use crate::find::expression::Which;
use crate::find::filesystems::FileSystems;
use crate::find::numbers::{at_least, general};
use crate::find::permissions::letters;
use crate::find::selinux::context;
use crate::find::users::{group_name, user_name};
use crate::session::say;
use anyhow::{Result, bail};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use pandofs_walk_fs::{Entry, FileType, Time};
use rustix::fs::{AtFlags, StatxFlags, readlinkat, statx};
use std::io::Write;
use std::sync::OnceLock;

/// Format of `-printf`.
#[derive(Debug, Default)]
pub(crate) struct Format {
    parts: Vec<Part>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Bytes(Vec<u8>),
    Directive { directive: char, pad: Pad },
    Time { which: Which, field: char, pad: Pad },
}

/// `%-8u`, `%08s`, `%.3p`, `%#m`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pad {
    left: bool,
    zeros: bool,
    /// A 0 before octal digits, and zeros behind a point.
    alternate: bool,
    /// Before a number that has a sign and is not negative.
    sign: Option<char>,
    width: usize,
    most: Option<usize>,
}

impl Format {
    /// # Errors
    /// When it has a directive that is not known here.
    pub(crate) fn parse(text: &[u8]) -> Result<Format> {
        let mut parts = Vec::new();
        let mut plain = Vec::new();
        let mut rest = text;
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            match first {
                b'\\' => {
                    let stop = escape(&mut rest, &mut plain);
                    if stop {
                        break;
                    }
                }
                b'%' => {
                    if !plain.is_empty() {
                        parts.push(Part::Bytes(std::mem::take(&mut plain)));
                    }
                    parts.push(directive(&mut rest)?);
                }
                byte => plain.push(byte),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Bytes(plain));
        }
        Ok(Format { parts })
    }

    /// Returns whether it says when files were made.
    pub(crate) fn needs_birth(&self) -> bool {
        let born = |part: &Part| matches!(part, Part::Time { which, .. } if *which == Which::Born);
        self.parts.iter().any(born)
    }

    /// Appends what it says of the entry.
    pub(crate) fn write(&self, entry: &mut Entry<'_, ()>, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Bytes(bytes) => out.extend_from_slice(bytes),
                Part::Directive { directive, pad } => {
                    let start = out.len();
                    match directive {
                        'd' | 'm' | 'S' => write_number(*directive, *pad, entry, out),
                        _ => {
                            write_directive(*directive, entry, out);
                            pad.apply(start, out);
                        }
                    }
                }
                Part::Time { which, field, pad } => {
                    let start = out.len();
                    if let Ok(stat) = entry.stat() {
                        write_time(which.of(stat), *field, out);
                    }
                    pad.apply(start, out);
                }
            }
        }
    }
}

/// An escape after its backslash. Whether output ends here.
fn escape(rest: &mut &[u8], out: &mut Vec<u8>) -> bool {
    let Some((&letter, after)) = rest.split_first() else {
        out.push(b'\\');
        return false;
    };
    *rest = after;
    match letter {
        b'a' => out.push(7),
        b'b' => out.push(8),
        b'c' => return true,
        b'f' => out.push(12),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'v' => out.push(11),
        b'\\' => out.push(b'\\'),
        b'0'..=b'7' => {
            let mut value = u32::from(letter - b'0');
            for _ in 0..2 {
                let Some((&digit @ b'0'..=b'7', after)) = rest.split_first() else {
                    break;
                };
                value = value * 8 + u32::from(digit - b'0');
                *rest = after;
            }
            out.push(value as u8);
        }
        other => out.extend([b'\\', other]),
    }
    false
}

fn directive(rest: &mut &[u8]) -> Result<Part> {
    let given = *rest;
    let mut pad = Pad::default();
    let mut next = || {
        let (first, after) = rest.split_first()?;
        *rest = after;
        Some(char::from(*first))
    };
    let mut letter = next();
    while let Some(flag @ ('-' | '0' | '#' | '+' | ' ')) = letter {
        match flag {
            '-' => pad.left = true,
            '0' => pad.zeros = true,
            '#' => pad.alternate = true,
            '+' => pad.sign = Some('+'),
            _ => pad.sign = pad.sign.or(Some(' ')),
        }
        letter = next();
    }
    while let Some(digit) = letter.and_then(|it| it.to_digit(10)) {
        pad.width = (pad.width * 10 + digit as usize).min(4_096);
        letter = next();
    }
    if letter == Some('.') {
        let mut most = 0;
        letter = next();
        while let Some(digit) = letter.and_then(|it| it.to_digit(10)) {
            most = (most * 10 + digit as usize).min(4_096);
            letter = next();
        }
        pad.most = Some(most);
    }
    match letter {
        Some('%') => Ok(Part::Bytes(b"%".to_vec())),
        Some(which @ ('A' | 'B' | 'C' | 'T')) => {
            let Some(field) = next().filter(|field| TIME_FIELDS.contains(*field)) else {
                bail!("%{which} needs one of these behind it: {TIME_FIELDS}");
            };
            let which = match which {
                'A' => Which::Accessed,
                'B' => Which::Born,
                'C' => Which::Changed,
                _ => Which::Modified,
            };
            Ok(Part::Time { which, field, pad })
        }
        Some(time @ ('a' | 'c' | 't')) => {
            let which = match time {
                'a' => Which::Accessed,
                'c' => Which::Changed,
                _ => Which::Modified,
            };
            let field = LONG;
            Ok(Part::Time { which, field, pad })
        }
        Some(directive) if "bdDfFgGhHiklmMnpPsSuUyYZ".contains(directive) => {
            // Other numbers are texts to GNU find.
            pad.zeros &= matches!(directive, 'd' | 'm' | 'S');
            Ok(Part::Directive { directive, pad })
        }
        Some(other @ ('{' | '[' | '(')) => bail!("-printf has no %{other}"),
        Some(other) => {
            // As GNU find, which may know one more some day.
            let text = &given[..given.len() - rest.len()];
            let what = format_args!("warning: there is no %{other}, which is printed as it is");
            say("find", b"-printf", what);
            Ok(Part::Bytes([b"%", text].concat()))
        }
        None => bail!("-printf ends with a '%'"),
    }
}

impl Pad {
    fn apply(self, start: usize, out: &mut Vec<u8>) {
        if let Some(most) = self.most {
            out.truncate(out.len().min(start + most));
        }
        let missing = self.width.saturating_sub(out.len() - start);
        if self.left {
            out.extend(std::iter::repeat_n(b' ', missing));
        } else {
            let fill = if self.zeros { b'0' } else { b' ' };
            out.splice(start..start, std::iter::repeat_n(fill, missing));
        }
    }
}

fn write_directive(directive: char, entry: &mut Entry<'_, ()>, out: &mut Vec<u8>) {
    match directive {
        'p' => out.extend_from_slice(entry.path()),
        'f' => {
            // With the slashes that a root was given with.
            let name = entry.name().to_bytes();
            let end = name
                .iter()
                .rposition(|byte| *byte != b'/')
                .map_or(0, |end| end + 1);
            let start = name[..end].iter().rposition(|byte| *byte == b'/');
            out.extend_from_slice(&name[start.map_or(0, |slash| slash + 1)..]);
        }
        'h' => {
            let path = entry.path();
            let end = path
                .iter()
                .rposition(|byte| *byte != b'/')
                .map_or(0, |end| end + 1);
            match path[..end].iter().rposition(|byte| *byte == b'/') {
                Some(slash) => out.extend_from_slice(&path[..slash]),
                None if end == 0 => {}
                None => out.push(b'.'),
            }
        }
        'P' => {
            let root = root_bytes(entry);
            let path = &entry.path()[root..];
            out.extend_from_slice(path.strip_prefix(b"/").unwrap_or(path));
        }
        'H' => {
            let root = root_bytes(entry);
            out.extend_from_slice(&entry.path()[..root]);
        }
        // Nothing where there is none.
        'Z' => out.extend(context(entry).unwrap_or_default()),
        'y' => out.push(kind_letter(entry.kind())),
        'Y' => {
            let target = statx(
                entry.dir_fd(),
                entry.name(),
                AtFlags::empty(),
                StatxFlags::TYPE,
            );
            out.push(match target {
                Ok(stat) => kind_letter(FileType::from_raw_mode(u32::from(stat.stx_mode))),
                Err(rustix::io::Errno::NOENT) => b'N',
                Err(rustix::io::Errno::LOOP) => b'L',
                Err(_) => b'?',
            });
        }
        'l' => {
            if entry.kind() == FileType::Symlink
                && let Ok(target) = readlinkat(entry.dir_fd(), entry.name(), Vec::new())
            {
                out.extend_from_slice(target.to_bytes());
            }
        }
        _ => {
            let Ok(stat) = entry.stat() else { return };
            match directive {
                's' => written(out, stat.size()),
                'b' => written(out, stat.blocks()),
                'k' => written(out, stat.blocks().div_ceil(2)),
                'i' => written(out, stat.ino()),
                'D' => written(out, stat.dev()),
                'n' => written(out, stat.links()),
                'F' => written(
                    out,
                    mounted().map_or("unknown", |all| all.of(stat.device())),
                ),
                'M' => written(out, letters(stat.mode())),
                'U' => written(out, stat.uid()),
                'G' => written(out, stat.gid()),
                'u' => written(out, user_name(stat.uid())),
                'g' => written(out, group_name(stat.gid())),
                other => unreachable!("%{other} was not read"),
            }
        }
    }
}

/// Letters that can be behind `%A`, `%B`, `%C` and `%T`.
const TIME_FIELDS: &str = "@+aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ";
/// `%t` and its like, which have a fraction where `%Tc` has none.
const LONG: char = '\0';

fn mounted() -> Option<&'static FileSystems> {
    static MOUNTED: OnceLock<Option<FileSystems>> = OnceLock::new();
    MOUNTED.get_or_init(|| FileSystems::mounted().ok()).as_ref()
}

/// Writes a number as C's `printf` does for GNU find, with all of its flags: `%d`, `%o` and `%g`.
fn write_number(directive: char, pad: Pad, entry: &mut Entry<'_, ()>, out: &mut Vec<u8>) {
    let depth = entry.depth();
    let (sign, digits) = match directive {
        'd' => (pad.sign, at_least(depth.to_string(), pad.most)),
        _ => {
            let Ok(stat) = entry.stat() else { return };
            if directive == 'm' {
                let digits = at_least(format!("{:o}", stat.mode() & 0o7777), pad.most);
                let is_bare = pad.alternate && !digits.starts_with('0');
                (
                    None,
                    if is_bare {
                        format!("0{digits}")
                    } else {
                        digits
                    },
                )
            } else {
                let value = sparseness(stat.size(), stat.blocks());
                let digits = pad.most.unwrap_or(6);
                (pad.sign, general(value, digits, pad.alternate))
            }
        }
    };
    let mut number = String::from_iter(sign);
    // Digits that are asked for leave spaces before them; so does what is no number.
    let is_whole = directive != 'S';
    let filled = pad.zeros && !pad.left && !(is_whole && pad.most.is_some()) && digits != "inf";
    if filled {
        let missing = pad.width.saturating_sub(number.len() + digits.len());
        number.extend(std::iter::repeat_n('0', missing));
    }
    number.push_str(&digits);
    let start = out.len();
    out.extend_from_slice(number.as_bytes());
    let spaces = Pad {
        zeros: false,
        most: None,
        ..pad
    };
    spaces.apply(start, out);
}

/// Returns the bytes on disk for each byte that a file holds.
fn sparseness(size: u64, blocks: u64) -> f64 {
    match (size, blocks) {
        (0, 0) => 1.0,
        (0, _) => f64::INFINITY,
        _ => blocks as f64 * 512.0 / size as f64,
    }
}

/// Bytes of the path that are the root's.
fn root_bytes(entry: &mut Entry<'_, ()>) -> usize {
    let mut root = entry.dir();
    while let Some(above) = root.and_then(|dir| dir.parent()) {
        root = Some(above);
    }
    root.map(|root| root.name().to_bytes().len())
        .unwrap_or_else(|| entry.path().len())
}

fn written(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    // A vector takes everything.
    let _ = write!(out, "{value}");
}

fn kind_letter(kind: FileType) -> u8 {
    match kind {
        FileType::Directory => b'd',
        FileType::RegularFile => b'f',
        FileType::Symlink => b'l',
        FileType::Fifo => b'p',
        FileType::Socket => b's',
        FileType::CharacterDevice => b'c',
        FileType::BlockDevice => b'b',
        FileType::Unknown => b'U',
    }
}

fn write_time(time: Time, field: char, out: &mut Vec<u8>) {
    if time.seconds == i64::MIN {
        return;
    }
    // GNU find writes ten digits of nanoseconds.
    let fraction = format!(".{:09}0", time.nanoseconds);
    if field == '@' {
        return written(out, format_args!("{}{fraction}", time.seconds));
    }
    let Ok(stamp) = Timestamp::from_second(time.seconds) else {
        return written(out, time.seconds);
    };
    let local = stamp.to_zoned(TimeZone::system());
    let text = |format: &str| local.strftime(format).to_string();
    match field {
        '+' => written(out, text("%Y-%m-%d+%H:%M:%S") + &fraction),
        'S' => written(out, text("%S") + &fraction),
        'T' | 'X' => written(out, text("%H:%M:%S") + &fraction),
        LONG => written(out, text("%a %b %e %H:%M:%S") + &fraction + &text(" %Y")),
        // Those that go by the language: as without one.
        'c' => written(out, text("%a %b %e %H:%M:%S %Y")),
        'r' => written(out, text("%I:%M:%S %p")),
        'x' => written(out, text("%m/%d/%y")),
        'n' => out.push(b'\n'),
        't' => out.push(b'\t'),
        other => written(out, text(&format!("%{other}"))),
    }
}

/// A line as `ls -dils` has it, control characters escaped.
pub(crate) fn ls(entry: &mut Entry<'_, ()>, now: Time, out: &mut Vec<u8>) {
    let Ok(stat) = entry.stat().copied() else {
        return;
    };
    let (user, group) = (user_name(stat.uid()), group_name(stat.gid()));
    let modified = stat.modified();
    let date = Timestamp::from_second(modified.seconds).map(|stamp| {
        let half_a_year = 182 * 86_400;
        let recent = (now.seconds - half_a_year..=now.seconds).contains(&modified.seconds);
        let format = if recent { "%b %e %H:%M" } else { "%b %e  %Y" };
        stamp
            .to_zoned(TimeZone::system())
            .strftime(format)
            .to_string()
    });
    written(
        out,
        format_args!(
            "{:>9} {:>6} {} {:>3} {user:<8} {group:<8} {:>8} {} {}",
            stat.ino(),
            stat.blocks().div_ceil(2),
            letters(stat.mode()),
            stat.links(),
            stat.size(),
            date.unwrap_or_else(|_| modified.seconds.to_string()),
            crate::text::shown(entry.path()),
        ),
    );
    if stat.kind() == FileType::Symlink
        && let Ok(target) = readlinkat(entry.dir_fd(), entry.name(), Vec::new())
    {
        written(
            out,
            format_args!(" -> {}", crate::text::shown(target.to_bytes())),
        );
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_pads_are_read() {
        let bytes = |text: &str| Format::parse(text.as_bytes()).unwrap().parts;
        assert_eq!(
            bytes("a\\n\\101\\0\\\\\\q%%"),
            [
                Part::Bytes(b"a\nA\0\\\\q".to_vec()),
                Part::Bytes(b"%".to_vec())
            ]
        );
        assert_eq!(bytes("\\cignored"), []);
        let pad = Pad {
            left: true,
            width: 12,
            most: Some(3),
            ..Pad::default()
        };
        assert_eq!(
            bytes("%-12.3p"),
            [Part::Directive {
                directive: 'p',
                pad
            }]
        );
        assert_eq!(bytes("%-#9q"), [Part::Bytes(b"%-#9q".to_vec())]);
        for wrong in ["%", "%{", "%T", "%Tq", "%-"] {
            assert!(Format::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_short_is_filled_and_what_is_long_cut() {
        for (pad, text, padded) in [
            (
                Pad {
                    width: 5,
                    ..Pad::default()
                },
                "ab",
                "x   ab",
            ),
            (
                Pad {
                    width: 5,
                    left: true,
                    ..Pad::default()
                },
                "ab",
                "xab   ",
            ),
            (
                Pad {
                    width: 4,
                    zeros: true,
                    ..Pad::default()
                },
                "7",
                "x0007",
            ),
            (
                Pad {
                    most: Some(1),
                    ..Pad::default()
                },
                "abc",
                "xa",
            ),
        ] {
            let mut out = format!("x{text}").into_bytes();
            pad.apply(1, &mut out);
            assert_eq!(out, padded.as_bytes());
        }
    }
}
