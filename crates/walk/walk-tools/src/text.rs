//! Names and numbers as text for people and programs.

use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write;

/// A path in one line: control characters, backslashes and what is not UTF-8 are written as `\n`,
/// `\t`, `\\` and `\xFF`, so that no two paths look the same.
pub(crate) fn shown(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    show(path, &mut text);
    text
}

/// Appends the same.
pub(crate) fn show(path: &[u8], text: &mut String) {
    for chunk in path.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                control if control.is_control() => {
                    let mut bytes = [0; 4];
                    hexadecimal(control.encode_utf8(&mut bytes).as_bytes(), text);
                }
                letter => text.push(letter),
            }
        }
        hexadecimal(chunk.invalid(), text);
    }
}

fn hexadecimal(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        let _ = write!(text, "\\x{byte:02X}");
    }
}

/// A path in JSON: what is not UTF-8 is there in hexadecimal digits besides.
#[derive(Debug, Serialize)]
pub(crate) struct JsonPath<'p> {
    pub path: Cow<'p, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
}

impl JsonPath<'_> {
    pub(crate) fn new(path: &[u8]) -> JsonPath<'_> {
        let text = String::from_utf8_lossy(path);
        let is_other = matches!(text, Cow::Owned(_));
        let hex = || path.iter().map(|byte| format!("{byte:02x}")).collect();
        JsonPath {
            path: text,
            path_hex: is_other.then(hex),
        }
    }
}

/// Appends an object in a line of its own.
pub(crate) fn json_line(object: &impl Serialize, out: &mut Vec<u8>) {
    // A vector takes everything, and there are no maps whose keys are no texts.
    let _ = serde_json::to_writer(&mut *out, object);
    out.push(b'\n');
}

/// The path of what is in a directory, as a walk has it; of a root in nothing.
pub(crate) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    if !path.is_empty() && path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// `12,345,678`
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes as GNU du's -h has them: rounded up, one decimal below 10 (`1.5M`, `12G`, `0`).
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut scale = 1_u128;
    for unit in UNITS {
        scale *= 1024;
        // Tenths, rounded up.
        let tenths = (u128::from(bytes) * 10).div_ceil(scale);
        if tenths < 100 {
            return format!("{}.{}{unit}", tenths / 10, tenths % 10);
        }
        let whole = u128::from(bytes).div_ceil(scale);
        if whole < 1024 {
            return format!("{whole}{unit}");
        }
    }
    format!("{}E", u128::from(bytes).div_ceil(scale))
}

/// The same by thousands, as `du --si` has it: `1.5k`.
pub(crate) fn human_thousands(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if bytes < 1_000 {
        return bytes.to_string();
    }
    let mut scale = 1_u128;
    for unit in UNITS {
        scale *= 1_000;
        let tenths = (u128::from(bytes) * 10).div_ceil(scale);
        if tenths < 100 {
            return format!("{}.{}{unit}", tenths / 10, tenths % 10);
        }
        let whole = u128::from(bytes).div_ceil(scale);
        if whole < 1_000 {
            return format!("{whole}{unit}");
        }
    }
    format!("{}E", u128::from(bytes).div_ceil(scale))
}

/// A bar of up to `width` characters, in eighths of one; a part that is not 0 is seen.
pub(crate) fn bar(part: u64, whole: u64, width: usize) -> String {
    const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    if whole == 0 || part == 0 {
        return String::new();
    }
    let eighths = u128::from(part.min(whole)) * width as u128 * 8 / u128::from(whole);
    let filled = eighths.max(1) as usize;
    let mut bar = "█".repeat(filled / 8);
    if !filled.is_multiple_of(8) {
        bar.push(EIGHTHS[filled % 8 - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_in_one_line_and_differ() {
        for (path, text) in [
            (&b"plain/gr\xc3\xbcn"[..], "plain/grün"),
            (b"new\nline", "new\\nline"),
            (b"new\\nline", "new\\\\nline"),
            (b"\xff\x01\x7f", "\\xFF\\x01\\x7F"),
        ] {
            assert_eq!(shown(path), text);
        }
    }

    #[test]
    fn paths_in_json_are_whole() {
        for (path, json) in [
            (&b"plain\n"[..], r#"{"path":"plain\n"}"#),
            (b"a\xff", "{\"path\":\"a\u{fffd}\",\"path_hex\":\"61ff\"}"),
            // Its replacement may be there itself.
            ("\u{fffd}".as_bytes(), "{\"path\":\"\u{fffd}\"}"),
        ] {
            let mut out = Vec::new();
            json_line(&JsonPath::new(path), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{json}\n"));
        }
    }

    #[test]
    fn names_are_joined_with_one_slash() {
        for (directory, path) in [("", "a"), ("/", "/a"), ("b", "b/a"), ("b/", "b/a")] {
            assert_eq!(joined(directory.as_bytes(), b"a"), path.as_bytes());
        }
    }

    #[test]
    fn sizes_are_rounded_up_as_gnu_does() {
        for (bytes, text) in [
            (0, "0"),
            (1_023, "1023"),
            (1_024, "1.0K"),
            (1_025, "1.1K"),
            (10_188, "10K"),
            (10_240, "10K"),
            (1_048_575, "1.0M"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(human(bytes), text, "{bytes}");
        }
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn a_bar_is_as_long_as_its_part() {
        assert_eq!(bar(0, 10, 10), "");
        assert_eq!(bar(5, 10, 10), "█████");
        assert_eq!(bar(1, 1_000_000, 4), "▏");
        assert_eq!(bar(1, 0, 4), "");
    }
}
