//! Calls as strace prints them, taken apart: their arguments and what they returned.

use super::line::{find, fraction_of, number};
use crate::import::Problem;
use nix::errno::Errno;
use std::borrow::Cow;

/// A call that has returned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    pub name: &'a str,
    /// As they are printed, without spaces around them.
    pub arguments: Vec<&'a [u8]>,
    pub returned: Returned<'a>,
    /// Nanoseconds from its beginning to its end, with `-T`.
    pub took: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Returned<'a> {
    /// A number, and with `-y` the path of the descriptor that it is.
    Value(i64, Option<Cow<'a, [u8]>>),
    /// The number of its error.
    Error(i32),
    /// It was interrupted, to be done again; or the process ended in it.
    Nothing,
}

/// # Errors
/// When it is no call, or says nothing of what it returned.
pub(super) fn parse(text: &[u8]) -> Result<Call<'_>, Problem> {
    let open = text.iter().position(|&byte| byte == b'(');
    let (name, rest) = text.split_at(open.ok_or(Problem::NoCall)?);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let name = std::str::from_utf8(name).map_err(|_| Problem::NoCall)?;
    if name.is_empty() || !name.bytes().all(|byte| is_name(&byte)) {
        return Err(Problem::NoCall);
    }
    let (arguments, rest) = arguments(&rest[1..])?;
    let rest = rest
        .trim_ascii_start()
        .strip_prefix(b"=")
        .ok_or(Problem::NoResult)?;
    let (rest, took) = split_took(rest.trim_ascii());
    Ok(Call {
        name,
        arguments,
        returned: returned(rest)?,
        took,
    })
}

/// What stands between commas, up to the bracket that closes; and what follows that.
fn arguments(text: &[u8]) -> Result<(Vec<&[u8]>, &[u8]), Problem> {
    let (mut all, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at = end_of_string(text, at)?,
            // With -y, the path of a descriptor; not a shift of bits.
            b'<' if text.get(at + 1) == Some(&b'<') => at += 1,
            b'<' if is_descriptor(&text[begin..at]) => at = end_of_path(text, at)?,
            b'/' if text[at..].starts_with(b"/*") => {
                at += find(&text[at..], b"*/").ok_or(Problem::NoCall)? + 1;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.checked_sub(1).ok_or(Problem::NoCall)?,
            b')' if depth > 0 => depth -= 1,
            b')' => {
                let last = text[begin..at].trim_ascii();
                if !(last.is_empty() && all.is_empty()) {
                    all.push(last);
                }
                return Ok((all, &text[at + 1..]));
            }
            b',' if depth == 0 => {
                all.push(text[begin..at].trim_ascii());
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    Err(Problem::NoCall)
}

fn is_descriptor(before: &[u8]) -> bool {
    let before = before.trim_ascii_start();
    // Also in the sets of poll and select: fd=3</a>.
    let last = before
        .rsplit(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
        .next();
    last.is_some_and(|last| {
        last == b"AT_FDCWD" || (!last.is_empty() && last.iter().all(u8::is_ascii_digit))
    })
}

/// The place of the quotation mark that ends the string which begins here.
fn end_of_string(text: &[u8], at: usize) -> Result<usize, Problem> {
    let mut at = at + 1;
    loop {
        match text.get(at) {
            Some(b'"') => return Ok(at),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return Err(Problem::NoCall),
        }
    }
}

/// The place of the bracket that ends the path which begins here: others in it are written as numbers, but for those
/// that tell what a device is.
fn end_of_path(text: &[u8], at: usize) -> Result<usize, Problem> {
    let mut depth = 0;
    for (place, byte) in (at..).zip(&text[at..]) {
        match byte {
            b'<' => depth += 1,
            // As in TCP:[1->2].
            b'>' if text[place - 1] == b'-' => {}
            b'>' if depth == 1 => return Ok(place),
            b'>' => depth -= 1,
            _ => {}
        }
    }
    Err(Problem::NoCall)
}

/// Takes off the time that a call took.
fn split_took(text: &[u8]) -> (&[u8], Option<u64>) {
    let took = text.strip_suffix(b">").and_then(|text| {
        let at = text.iter().rposition(|&byte| byte == b'<')?;
        let (before, stamp) = (&text[..at], &text[at + 1..]);
        let point = stamp.iter().position(|&byte| byte == b'.')?;
        let seconds = number(&stamp[..point])?.checked_mul(1_000_000_000)?;
        let took = seconds.checked_add(fraction_of(&stamp[point + 1..])?)?;
        Some((before.trim_ascii_end(), took))
    });
    match took {
        Some((rest, took)) => (rest, Some(took)),
        None => (text, None),
    }
}

fn returned(text: &[u8]) -> Result<Returned<'_>, Problem> {
    if text.starts_with(b"?") {
        return Ok(Returned::Nothing);
    }
    let end = text.iter().position(|byte| matches!(byte, b' ' | b'<'));
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    if digits == b"-1" && rest.starts_with(b" E") {
        let end = rest[1..].iter().position(|&byte| byte == b' ');
        let name = &rest[1..end.map_or(rest.len(), |end| end + 1)];
        return error_number(name)
            .map(Returned::Error)
            .ok_or(Problem::NoResult);
    }
    let value = integer(digits).ok_or(Problem::NoResult)?;
    let path = match rest.first() {
        Some(b'<') => Some(unescaped(&rest[1..end_of_path(rest, 0)?])?),
        _ => None,
    };
    Ok(Returned::Value(value, path))
}

/// Errors of Linux have numbers up to this.
const LAST_ERROR: i32 = 133;

fn error_number(name: &[u8]) -> Option<i32> {
    let is_it = |number: &i32| format!("{:?}", Errno::from_raw(*number)).as_bytes() == name;
    (1..=LAST_ERROR).find(is_it)
}

/// A number as C has it: in tens, with a sign, or with 0 in eights or with 0x in sixteens.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16)
            .ok()
            .map(|number| number as i64);
    }
    match text.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => i64::from_str_radix(digits, 8).ok(),
        // What `rt_sigreturn` returns is a register, of 64 bits without a sign.
        _ => text
            .parse()
            .ok()
            .or_else(|| text.parse::<u64>().ok().map(|number| number as i64)),
    }
}

/// The number of a descriptor, and with `-y` its path.
pub(super) type Numbered<'a> = (i32, Option<Cow<'a, [u8]>>);

/// A descriptor; -100 is AT_FDCWD.
pub(super) fn descriptor(text: &[u8]) -> Result<Numbered<'_>, Problem> {
    let end = text.iter().position(|&byte| byte == b'<');
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let number = match digits {
        b"AT_FDCWD" => Some(AT_FDCWD),
        _ => integer(digits).and_then(|number| i32::try_from(number).ok()),
    };
    let path = match rest.is_empty() {
        true => None,
        false => Some(unescaped(&rest[1..end_of_path(rest, 0)?])?),
    };
    Ok((number.ok_or(Problem::Argument)?, path))
}

/// The descriptor that stands for the working directory.
pub(super) const AT_FDCWD: i32 = -100;

/// A string, and whether that is all of it. `None` for an address, whose string was not read.
pub(super) fn string(text: &[u8]) -> Result<Option<(Vec<u8>, bool)>, Problem> {
    let Some(rest) = text.strip_prefix(b"\"") else {
        return Ok(None);
    };
    let end = end_of_string(text, 0)? - 1;
    let is_whole = !rest[end + 1..].starts_with(b"...");
    Ok(Some((unescaped(&rest[..end])?.into_owned(), is_whole)))
}

/// Bytes that are written as C writes them.
pub(super) fn unescaped(text: &[u8]) -> Result<Cow<'_, [u8]>, Problem> {
    if !text.contains(&b'\\') {
        return Ok(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (&letter, after) = rest.split_first().ok_or(Problem::Escape)?;
        rest = after;
        bytes.push(match letter {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'\\' | b'"' => letter,
            b'x' => {
                let digits = rest.get(..2).ok_or(Problem::Escape)?;
                rest = &rest[2..];
                radix(digits, 16)?
            }
            b'0'..=b'7' => {
                // Up to three: fewer if what follows is no digit.
                let more = rest
                    .iter()
                    .take(2)
                    .take_while(|byte| (b'0'..=b'7').contains(byte));
                let more = more.count();
                let digits = [&[letter], &rest[..more]].concat();
                rest = &rest[more..];
                radix(&digits, 8)?
            }
            _ => return Err(Problem::Escape),
        });
    }
    Ok(Cow::Owned(bytes))
}

fn radix(digits: &[u8], radix: u32) -> Result<u8, Problem> {
    let is_digit = |byte: &u8| (*byte as char).is_digit(radix);
    let text = std::str::from_utf8(digits).ok();
    let text = text.filter(|text| text.bytes().all(|byte| is_digit(&byte)));
    text.and_then(|text| u8::from_str_radix(text, radix).ok())
        .ok_or(Problem::Escape)
}

/// What stands between bars, as flags do.
pub(super) fn has_flag(text: &[u8], flag: &str) -> bool {
    text.split(|&byte| byte == b'|')
        .any(|word| word == flag.as_bytes())
}

/// The permission bits of `0644`, `S_IFIFO|0644` or `S_IFDIR|S_ISVTX|0777`.
pub(super) fn mode(text: &[u8]) -> Option<u16> {
    let mut mode = 0;
    for word in text.split(|&byte| byte == b'|') {
        mode |= match word {
            b"S_ISUID" => 0o4000,
            b"S_ISGID" => 0o2000,
            b"S_ISVTX" => 0o1000,
            _ if word.starts_with(b"S_IF") => 0,
            _ => u16::try_from(integer(word)?).ok()? & 0o7777,
        };
    }
    Some(mode)
}

/// The field of a structure: what stands behind `name=`, up to a comma or bracket.
pub(super) fn field<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let name = format!("{name}=");
    let mut from = 0;
    loop {
        let at = from + find(&text[from..], name.as_bytes())?;
        let begins = at == 0 || matches!(text[at - 1], b'{' | b' ' | b',');
        from = at + name.len();
        if begins {
            let rest = &text[from..];
            let end = rest
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b' '));
            return Some(&rest[..end.unwrap_or(rest.len())]);
        }
    }
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
