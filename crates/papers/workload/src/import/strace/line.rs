//! Lines that strace writes.
//!
//! ```text
//! 4711  1732958527.104233 openat(AT_FDCWD</home/u>, "a", O_RDONLY|O_CLOEXEC) = 3</home/u/a> <0.000041>
//! 4711  1732958527.104391 read(3</home/u/a>,  <unfinished ...>
//! 4712  1732958527.104402 +++ exited with 0 +++
//! 4711  1732958527.104455 <... read resumed>"x"..., 4096) = 1 <0.000067>
//! ```
//!
//! Numbers of processes are missing without `-f`, and stand as `[pid 4711]` where strace wrote to a terminal.

use crate::import::Problem;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// 0 without `-f`.
    pub process: u32,
    /// Nanoseconds since 1970.
    pub time: u64,
    pub what: What<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    /// A whole call, from its name on.
    Call(&'a [u8]),
    /// What there is of a call when another process's line came in between.
    Begun(&'a [u8]),
    /// The rest of such a call, and its name.
    Resumed(&'a [u8], &'a [u8]),
    /// The process has ended.
    Ended,
    /// A signal, and whatever else changes nothing here.
    Nothing,
}

/// The time stamp of `-r` is a difference: no trace is from before this, in seconds.
const FIRST_SECOND: u64 = 100_000_000;
const NANOSECONDS: u64 = 1_000_000_000;

/// Returns `None` for a message of strace itself.
///
/// # Errors
/// A line that no call, signal or end is in.
pub(super) fn parse(line: &[u8]) -> Result<Option<Line<'_>>, Problem> {
    if line.starts_with(b"strace: ") || line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let (process, rest) = process_of(line)?;
    let (time, rest) = time_of(rest)?;
    let what = if rest.starts_with(b"--- ") {
        What::Nothing
    } else if rest.starts_with(b"+++ ") {
        What::Ended
    } else if let Some(rest) = rest.strip_prefix(b"<... ") {
        let at = find(rest, b" resumed>").ok_or(Problem::NoCall)?;
        What::Resumed(&rest[..at], &rest[at + b" resumed>".len()..])
    } else if let Some(begun) = rest.trim_ascii_end().strip_suffix(b"<unfinished ...>") {
        What::Begun(begun)
    } else {
        What::Call(rest)
    };
    Ok(Some(Line {
        process,
        time,
        what,
    }))
}

fn process_of(line: &[u8]) -> Result<(u32, &[u8]), Problem> {
    let (digits, rest) = match line.strip_prefix(b"[pid") {
        Some(rest) => {
            let end = find(rest, b"]").ok_or(Problem::NoCall)?;
            (rest[..end].trim_ascii(), &rest[end + 1..])
        }
        None => word(line),
    };
    if !digits.iter().all(u8::is_ascii_digit) || digits.is_empty() {
        return Ok((0, line));
    }
    let process = number(digits).and_then(|number| u32::try_from(number).ok());
    Ok((process.ok_or(Problem::NoCall)?, rest.trim_ascii_start()))
}

fn time_of(text: &[u8]) -> Result<(u64, &[u8]), Problem> {
    let (stamp, rest) = word(text);
    let parts = stamp.iter().position(|&byte| byte == b'.');
    let parts = parts.map(|at| (&stamp[..at], &stamp[at + 1..]));
    let time = parts.and_then(|(seconds, fraction)| {
        let seconds = number(seconds)?;
        (seconds >= FIRST_SECOND).then_some(())?;
        seconds
            .checked_mul(NANOSECONDS)?
            .checked_add(fraction_of(fraction)?)
    });
    Ok((time.ok_or(Problem::NoTime)?, rest.trim_ascii_start()))
}

/// The nanoseconds of what stands behind the point.
pub(super) fn fraction_of(digits: &[u8]) -> Option<u64> {
    let places = u32::try_from(digits.len()).ok()?;
    let scale = 10_u64.pow(9_u32.checked_sub(places)?);
    Some(number(digits)? * scale)
}

pub(super) fn number(digits: &[u8]) -> Option<u64> {
    // No sign.
    let digits = digits.iter().all(u8::is_ascii_digit).then_some(digits)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

pub(super) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| byte == b' ');
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Line<'_> {
        parse(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn lines_of_each_form_are_told_apart() {
        let time = 1_732_958_527_104_233_000;
        let line = |process, what| Line {
            process,
            time,
            what,
        };
        let all = [
            (
                "4711  1732958527.104233 close(3) = 0",
                line(4711, What::Call(b"close(3) = 0")),
            ),
            (
                "1732958527.104233 close(3) = 0",
                line(0, What::Call(b"close(3) = 0")),
            ),
            (
                "[pid   12] 1732958527.104233 close(3) = 0",
                line(12, What::Call(b"close(3) = 0")),
            ),
            (
                "7 1732958527.104233 read(3,  <unfinished ...>",
                line(7, What::Begun(b"read(3,  ")),
            ),
            (
                "7 1732958527.104233 <... read resumed>\"x\", 9) = 1",
                line(7, What::Resumed(b"read", b"\"x\", 9) = 1")),
            ),
            (
                "7 1732958527.104233 +++ exited with 0 +++",
                line(7, What::Ended),
            ),
            (
                "7 1732958527.104233 +++ killed by SIGKILL +++",
                line(7, What::Ended),
            ),
            (
                "7 1732958527.104233 --- SIGCHLD {si_signo=SIGCHLD} ---",
                line(7, What::Nothing),
            ),
        ];
        for (text, wanted) in all {
            assert_eq!(parsed(text), wanted, "{text}");
        }
        assert_eq!(parse(b"strace: Process 12 attached").unwrap(), None);
        assert_eq!(parse(b"").unwrap(), None);
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for (text, wanted) in [
            ("7 close(3) = 0", Problem::NoTime),
            ("7 12:00:01 close(3) = 0", Problem::NoTime),
            ("7 12:00:01.123456 close(3) = 0", Problem::NoTime),
            ("     0.000123 close(3) = 0", Problem::NoTime),
            (
                "99999999999 1732958527.104233 close(3) = 0",
                Problem::NoCall,
            ),
            ("7 1732958527.104233 <... read", Problem::NoCall),
            ("7 1732958527.1234567890 close(3) = 0", Problem::NoTime),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(wanted), "{text}");
        }
    }
}
