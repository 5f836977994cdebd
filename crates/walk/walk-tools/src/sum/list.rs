//! Lists of digests, as b3sum and sha256sum write them.

use anyhow::{Context, Result, bail};
use blake3::Hash;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;

/// Digests of roots, by their names as they were given.
pub(crate) type Digests = BTreeMap<Vec<u8>, [u8; 32]>;

/// A line as b3sum and sha256sum write them.
pub(crate) fn line(name: &[u8], digest: &[u8; 32], out: &mut Vec<u8>) {
    let escaped = name
        .iter()
        .any(|byte| matches!(byte, b'\n' | b'\\' | b'\r'));
    if escaped {
        out.push(b'\\');
    }
    out.extend_from_slice(Hash::from_bytes(*digest).to_hex().as_bytes());
    out.extend_from_slice(b"  ");
    for byte in name {
        match byte {
            b'\n' if escaped => out.extend_from_slice(b"\\n"),
            b'\r' if escaped => out.extend_from_slice(b"\\r"),
            b'\\' if escaped => out.extend_from_slice(b"\\\\"),
            byte => out.push(*byte),
        }
    }
    out.push(b'\n');
}

/// Reads such a list; from standard input for `-`.
///
/// # Errors
/// When it cannot be read, or is none.
pub(crate) fn read_list(path: &OsStr) -> Result<Digests> {
    let mut text = Vec::new();
    let read = if path == "-" {
        std::io::stdin().lock().read_to_end(&mut text).map(drop)
    } else {
        std::fs::read(path).map(|read| text = read)
    };
    read.with_context(|| path.display().to_string())?;
    let mut digests = Digests::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        if line.is_empty() {
            continue;
        }
        let read = parse_line(line);
        let (name, digest) =
            read.with_context(|| format!("{}: line {number} is no digest", path.display()))?;
        digests.insert(name, digest);
    }
    if digests.is_empty() {
        bail!("{}: no digests", path.display());
    }
    Ok(digests)
}

fn parse_line(line: &[u8]) -> Option<(Vec<u8>, [u8; 32])> {
    let (escaped, line) = match line.strip_prefix(b"\\") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (hex, name) = line.split_at_checked(64)?;
    let digest = Hash::from_hex(hex).ok()?;
    let name = name
        .strip_prefix(b"  ")
        .or_else(|| name.strip_prefix(b" *"))?;
    let mut plain = Vec::new();
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' if escaped => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            byte => *byte,
        });
    }
    (!plain.is_empty()).then_some((plain, *digest.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        for name in [
            &b"plain"[..],
            b"new\nline",
            b"back\\slash\r",
            b"\xff two  spaces",
        ] {
            let mut written = Vec::new();
            line(name, &[7; 32], &mut written);
            assert_eq!(written.pop(), Some(b'\n'));
            assert!(!written.contains(&b'\n'));
            assert_eq!(parse_line(&written), Some((name.to_vec(), [7; 32])));
        }
        assert_eq!(parse_line(b"0123  name"), None);
    }
}
