//! One golden file: names and bytes, one a line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The environment variable that, set to 1, lets the files be rewritten instead of compared.
pub const BLESS: &str = "PANDOFS_BLESS";

/// Bytes around the first difference that a failure shows.
const SHOWN_BYTES: usize = 16;

/// Values that a test pins, as it goes.
#[derive(Debug, Default)]
pub struct Golden {
    pinned: BTreeMap<String, Vec<u8>>,
    encodings: Vec<(String, Vec<u8>)>,
    wrong: Vec<String>,
}

/// Compares everything that `fill` pins with the golden file at `path`; with [`BLESS`] set to 1 the file
/// is written instead. `rule` says what has to be done before a format may change.
///
/// # Panics
/// When something differs, is missing or is left over, with what that is and the rule.
pub fn check(path: &str, rule: &str, fill: impl FnOnce(&mut Golden)) {
    let bless = std::env::var_os(BLESS).is_some_and(|value| value == "1");
    if let Err(why) = compare(Path::new(path), rule, bless, fill) {
        panic!("{why}");
    }
}

/// Values that a golden file has pinned, by name.
///
/// # Panics
/// When it cannot be read.
pub fn read(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let text = fs::read_to_string(path);
    match text
        .map_err(|error| error.to_string())
        .and_then(|text| parse(&text))
    {
        Ok(pinned) => pinned,
        Err(why) => panic!("{}: {why}", path.display()),
    }
}

impl Golden {
    /// Pins bytes under a name.
    ///
    /// # Panics
    /// When the name is taken, or would not be read back from the file.
    pub fn bytes(&mut self, name: &str, bytes: &[u8]) {
        assert!(
            !name.is_empty() && !name.contains([':', '#', '\n']),
            "'{name}' is no name"
        );
        assert!(
            self.encodings.iter().all(|(other, _)| other != name),
            "'{name}' is pinned twice"
        );
        match self.pinned.remove(name) {
            Some(pinned) if pinned == bytes => {}
            Some(pinned) => self.wrong.push(difference(name, &pinned, bytes)),
            None => self.wrong.push(format!(
                "{name}: is not in the file ({} bytes)",
                bytes.len()
            )),
        }
        self.encodings.push((name.to_owned(), bytes.to_owned()));
    }

    /// Pins a value's encoding, and that the pinned bytes are decoded to the value.
    pub fn value<T, E>(
        &mut self,
        name: &str,
        value: &T,
        encode: impl FnOnce(&T) -> Vec<u8>,
        decode: impl FnOnce(&[u8]) -> Result<T, E>,
    ) where
        T: PartialEq + Debug,
        E: Debug,
    {
        let encoding = encode(value);
        let pinned = self.pinned.get(name).cloned();
        self.bytes(name, &encoding);
        match decode(pinned.as_ref().unwrap_or(&encoding)) {
            Ok(decoded) if decoded == *value => {}
            Ok(decoded) => self
                .wrong
                .push(format!("{name}: {value:?} is read back as {decoded:?}")),
            Err(error) => self
                .wrong
                .push(format!("{name}: cannot be read back: {error:?}")),
        }
    }

    /// Demands that every one of `all` variants has been seen.
    pub fn complete<'n>(&mut self, what: &str, all: &[&str], seen: impl Iterator<Item = &'n str>) {
        let seen: BTreeSet<&str> = seen.collect();
        for variant in all.iter().filter(|variant| !seen.contains(**variant)) {
            self.wrong
                .push(format!("{what}: there is no sample of {variant}"));
        }
    }
}

fn compare(
    path: &Path,
    rule: &str,
    bless: bool,
    fill: impl FnOnce(&mut Golden),
) -> Result<(), String> {
    let shown = path.display();
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("{shown}: {error}")),
    };
    let mut golden = Golden {
        // A file about to be replaced need not be right.
        pinned: if bless {
            BTreeMap::new()
        } else {
            parse(&text).map_err(|why| format!("{shown}: {why}"))?
        },
        ..Golden::default()
    };
    fill(&mut golden);
    let Golden {
        pinned,
        encodings,
        mut wrong,
    } = golden;
    if bless {
        // Only that nothing was pinned before is right now.
        wrong.retain(|why| !why.contains(": is not in the file"));
        if wrong.is_empty() {
            return fs::write(path, write(rule, &encodings))
                .map_err(|error| format!("{shown}: {error}"));
        }
    }
    wrong.extend(
        pinned
            .keys()
            .map(|name| format!("{name}: is in the file and not made any more")),
    );
    if wrong.is_empty() {
        return Ok(());
    }
    let mut message = format!(
        "{shown}: {} of {} encodings differ\n",
        wrong.len(),
        encodings.len()
    );
    for why in &wrong {
        let _ = writeln!(message, "  {why}");
    }
    let _ = write!(
        message,
        "{rule}\nIf the new format is meant: give it the next version number, then run the test with \
         {BLESS}=1 and commit the new file."
    );
    Err(message)
}

fn write(rule: &str, encodings: &[(String, Vec<u8>)]) -> String {
    let mut text = String::new();
    for line in rule.lines() {
        let _ = writeln!(text, "# {line}");
    }
    let _ = writeln!(
        text,
        "# Written by the test with {BLESS}=1; one encoding a line, in hexadecimal.\n"
    );
    for (name, bytes) in encodings {
        let _ = writeln!(text, "{name}: {}", hex(bytes));
    }
    text
}

fn parse(text: &str) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut pinned = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || format!("line {}: not 'name: hexadecimal digits'", number + 1);
        let (name, digits) = line.split_once(':').ok_or_else(wrong)?;
        let bytes = unhex(digits.trim()).ok_or_else(wrong)?;
        if pinned.insert(name.to_owned(), bytes).is_some() {
            return Err(format!("line {}: '{name}' a second time", number + 1));
        }
    }
    Ok(pinned)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !digits.len().is_multiple_of(2) || !is_hex {
        return None;
    }
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).ok())
        .collect()
}

fn difference(name: &str, pinned: &[u8], now: &[u8]) -> String {
    let same = pinned.iter().zip(now).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(SHOWN_BYTES / 2);
    let part = |bytes: &[u8]| {
        let end = bytes.len().min(from + SHOWN_BYTES);
        hex(&bytes[from.min(end)..end])
    };
    format!(
        "{name}: differs from byte {same} on: pinned {} bytes, now {}; from byte {from}: pinned {}, now {}",
        pinned.len(),
        now.len(),
        part(pinned),
        part(now)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants;
    use std::path::PathBuf;

    const RULE: &str = "The format of numbers, version 1.";

    struct Scratch {
        _dir: tempfile::TempDir,
        path: PathBuf,
    }

    fn scratch(text: &str) -> Scratch {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("numbers-1.txt");
        fs::write(&path, text).unwrap();
        Scratch { _dir: dir, path }
    }

    fn encode(number: &u16) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<u16, String> {
        let bytes = bytes
            .try_into()
            .map_err(|_| format!("{} bytes", bytes.len()))?;
        Ok(u16::from_be_bytes(bytes))
    }

    fn numbers(golden: &mut Golden) {
        golden.value("one", &1, encode, decode);
        golden.bytes("raw", &[0xff]);
    }

    #[test]
    fn what_was_blessed_is_right() {
        let scratch = scratch("old: 00\n");
        compare(&scratch.path, RULE, true, numbers).unwrap();
        compare(&scratch.path, RULE, false, numbers).unwrap();
        let text = fs::read_to_string(&scratch.path).unwrap();
        assert!(
            text.starts_with("# The format of numbers, version 1.\n"),
            "{text}"
        );
        assert!(text.ends_with("one: 0001\nraw: ff\n"), "{text}");
    }

    #[test]
    fn a_change_is_named_and_so_is_what_to_do() {
        let scratch = scratch("one: 0100\nraw: ff\n");
        let why = compare(&scratch.path, RULE, false, numbers).unwrap_err();
        for part in [
            "one: differs from byte 0 on: pinned 2 bytes, now 2; from byte 0: pinned 0100, now 0001",
            "one: 1 is read back as 256",
            RULE,
            "next version number",
            BLESS,
        ] {
            assert!(why.contains(part), "{why}");
        }
        assert!(!why.contains("raw"), "{why}");
    }

    #[test]
    fn what_is_missing_or_left_over_is_named() {
        let scratch = scratch("one: 0001\ngone: 00\n");
        let why = compare(&scratch.path, RULE, false, numbers).unwrap_err();
        assert!(why.contains("raw: is not in the file (1 bytes)"), "{why}");
        assert!(
            why.contains("gone: is in the file and not made any more"),
            "{why}"
        );
    }

    #[test]
    fn bytes_that_cannot_be_read_back_are_not_blessed() {
        let scratch = scratch("");
        let broken = |golden: &mut Golden| {
            golden.value("one", &1, |_| vec![1], decode);
        };
        let why = compare(&scratch.path, RULE, true, broken).unwrap_err();
        assert!(why.contains("one: cannot be read back"), "{why}");
        assert_eq!(fs::read_to_string(&scratch.path).unwrap(), "");
    }

    #[test]
    fn a_broken_file_is_said_to_be_one() {
        for text in [
            "one 0001\n",
            "one: 001\n",
            "one: xy\n",
            "one: 00\none: 00\n",
        ] {
            let scratch = scratch(text);
            let why = compare(&scratch.path, RULE, false, |_| {}).unwrap_err();
            assert!(why.contains("line "), "{text:?}: {why}");
        }
    }

    #[test]
    fn a_variant_without_a_sample_is_named() {
        enum Leaf {
            Young,
            Old,
        }
        variants!(name_of, NAMES, Leaf: Young, Old);
        let scratch = scratch("");
        let why = compare(&scratch.path, RULE, false, |golden| {
            let seen = [Leaf::Old];
            golden.complete("Leaf", NAMES, seen.iter().map(name_of));
        });
        assert!(
            why.unwrap_err()
                .contains("Leaf: there is no sample of Young")
        );
        let both = [Leaf::Young, Leaf::Old];
        compare(&scratch.path, RULE, false, |golden| {
            golden.complete("Leaf", NAMES, both.iter().map(name_of));
        })
        .unwrap();
    }
}
