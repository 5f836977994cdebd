//! Names of files for bytes that a local file system may not hold as they are.
//!
//! A text of any bytes becomes one name or several, one folder in the other:
//!
//! 1. The bytes `00` to `1f`, `7f`, `/` and `%` become `%` and two hexadecimal digits (`0` to `9`, `a` to `f`).
//! 2. What is longer than a name may be is cut. Each part but the last one is the name of a folder and ends with `%`,
//!    which no text does after step 1; each part but the first one begins with `+`, so that none is `.` or `..`.
//!
//! Whoever asks for a name puts something before the text that is neither `.` nor empty.

use crate::limits::MAX_COMPONENT_BYTES;

const ESCAPE: u8 = b'%';
const GOES_ON: u8 = b'%';
const CONTINUED: u8 = b'+';
const DIGITS: &[u8; 16] = b"0123456789abcdef";

fn is_held(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f && byte != b'/' && byte != ESCAPE
}

/// Step 1.
pub(crate) fn escape(bytes: &[u8], text: &mut Vec<u8>) {
    for &byte in bytes {
        if is_held(byte) {
            text.push(byte);
        } else {
            text.push(ESCAPE);
            hex_digits(byte, text);
        }
    }
}

/// The bytes of which [`escape`] makes this text; `None` if there are none.
pub(crate) fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != ESCAPE {
            bytes.push(first);
            if !is_held(first) {
                return None;
            }
            continue;
        }
        let (pair, after) = rest.split_first_chunk::<2>()?;
        rest = after;
        let byte = unhex(pair)?;
        if is_held(byte[0]) {
            return None;
        }
        bytes.push(byte[0]);
    }
    Some(bytes)
}

/// Step 2: puts a text without its name before it into `path`, after a `/` for each part.
pub(crate) fn push_parts(path: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    let mut is_first = true;
    loop {
        path.push(b'/');
        let mut room = MAX_COMPONENT_BYTES;
        if !is_first {
            path.push(CONTINUED);
            room -= 1;
        }
        is_first = false;
        if rest.len() <= room {
            path.extend_from_slice(rest);
            return;
        }
        let (part, after) = rest.split_at(room - 1);
        path.extend_from_slice(part);
        path.push(GOES_ON);
        rest = after;
    }
}

/// The text before this part and in it, and whether that is all; `None` if it is no part of one. `before` is what
/// the parts before this one hold, `None` for the first.
pub(crate) fn join(before: Option<&[u8]>, part: &[u8]) -> Option<(Vec<u8>, bool)> {
    let (before, own) = match before {
        None => (&[][..], part),
        Some(before) => (before, part.strip_prefix(&[CONTINUED])?),
    };
    match own.strip_suffix(&[GOES_ON]) {
        Some(own) if part.len() == MAX_COMPONENT_BYTES => Some(([before, own].concat(), false)),
        Some(_) => None,
        None => Some(([before, own].concat(), true)),
    }
}

/// Two hexadecimal digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(2 * bytes.len());
    for &byte in bytes {
        hex_digits(byte, &mut text);
    }
    text
}

fn hex_digits(byte: u8, text: &mut Vec<u8>) {
    text.push(DIGITS[usize::from(byte >> 4)]);
    text.push(DIGITS[usize::from(byte & 15)]);
}

/// The bytes of which [`hex`] makes this text; `None` if there are none.
pub(crate) fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |digit: u8| {
        DIGITS
            .iter()
            .position(|&known| known == digit)
            .and_then(|value| u8::try_from(value).ok())
    };
    text.chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// The text that a path of parts holds, as a list of folders would be read.
    fn read_back(path: &[u8]) -> Option<Vec<u8>> {
        let mut text: Option<Vec<u8>> = None;
        let parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').skip(1).collect();
        for (number, part) in parts.iter().enumerate() {
            assert!(!part.is_empty() && part.len() <= MAX_COMPONENT_BYTES);
            assert!(part != b"." && part != b"..", "{path:?}");
            let (joined, is_all) = join(text.as_deref(), part)?;
            assert_eq!(is_all, number + 1 == parts.len(), "{path:?}");
            text = Some(joined);
        }
        text
    }

    fn parts_of(bytes: &[u8]) -> Vec<u8> {
        let mut text = b"0.".to_vec();
        escape(bytes, &mut text);
        let mut path = Vec::new();
        push_parts(&mut path, &text);
        path
    }

    #[test]
    fn ordinary_names_stay_as_they_are() {
        assert_eq!(
            parts_of("Größe 1.txt".as_bytes()),
            "/0.Größe 1.txt".as_bytes()
        );
        assert_eq!(parts_of(b"a/b%c\0\n\x7f"), b"/0.a%2fb%25c%00%0a%7f");
        assert_eq!(parts_of(b"."), b"/0..");
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let path = parts_of(&[b'x'; 253]);
        assert_eq!(path.len(), 256, "one name of 255 bytes");
        let path = parts_of(&[b'x'; 254]);
        let cut = [b"/0.".as_slice(), &[b'x'; 252], b"%/+xx"].concat();
        assert_eq!(path, cut);
        // What is left would be a name that means something else.
        let dots = parts_of(&[[b'x'; 252].as_slice(), b".."].concat());
        assert!(dots.ends_with(b"%/+.."));
        // The cut is in the middle of an escape, and leaves its sign before the one that it goes on.
        let path = parts_of(&[[b'x'; 251].as_slice(), b"%y"].concat());
        assert!(path.ends_with(b"x%%/+25y"));
        assert_eq!(read_back(&path).unwrap()[2..253], [b'x'; 251]);
    }

    #[test]
    fn what_nobody_wrote_is_told() {
        for text in [&b"%"[..], b"%4", b"%41", b"%2F", b"%zz", b"a\nb"] {
            assert_eq!(unescape(text), None, "{text:?}");
        }
        assert_eq!(unhex(b"0"), None);
        assert_eq!(unhex(b"0G"), None);
        assert_eq!(join(None, b"short%"), None);
        assert_eq!(join(Some(b"0."), b"no sign"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in vec(any::<u8>(), 0..900)) {
            let text = read_back(&parts_of(&bytes)).unwrap();
            prop_assert_eq!(unescape(&text[2..]).unwrap(), bytes.clone());
            prop_assert_eq!(unhex(&hex(&bytes)).unwrap(), bytes);
        }

        #[test]
        fn what_is_read_is_what_would_be_written(text in "[%a-c0-2/+.]{0,12}") {
            if let Some(bytes) = unescape(text.as_bytes()) {
                let mut again = Vec::new();
                escape(&bytes, &mut again);
                prop_assert_eq!(again, text.as_bytes());
            }
        }
    }
}
