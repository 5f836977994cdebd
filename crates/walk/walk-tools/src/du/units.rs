//! Units of printed sizes.

use crate::text::{human, human_thousands};

/// In what sizes are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// `1.5M`, by 1,024
    Human,
    /// `1.5M`, by 1,000
    Thousands,
    /// So many bytes, rounded up, with this behind it.
    Blocks(u64, String),
}

impl Unit {
    pub(crate) fn shown(&self, bytes: u64) -> String {
        match self {
            Unit::Human => human(bytes),
            Unit::Thousands => human_thousands(bytes),
            Unit::Blocks(size, suffix) => bytes.div_ceil(*size).to_string() + suffix,
        }
    }

    /// As `-B` has it: `512`, `4K`, `1MB`; `M` alone is shown behind the numbers.
    ///
    /// # Errors
    /// When it is no size.
    pub(crate) fn parse(text: &str) -> Result<Unit, String> {
        if text == "human-readable" {
            return Ok(Unit::Human);
        }
        if text == "si" {
            return Ok(Unit::Thousands);
        }
        let size = size(text)?;
        if size == 0 {
            return Err(format!("'{text}' is no size"));
        }
        let bare = text.starts_with(|letter: char| !letter.is_ascii_digit());
        let suffix = if bare { text } else { "" };
        Ok(Unit::Blocks(size, suffix.to_owned()))
    }
}

/// `512`, `4K` (and `4KiB`), `1MB`.
///
/// # Errors
/// When it is no size.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size like 512, 4K or 1MB");
    let digits = text.len()
        - text
            .trim_start_matches(|it: char| it.is_ascii_digit())
            .len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = if number.is_empty() {
        1
    } else {
        number.parse().map_err(|_| wrong())?
    };
    let mut letters = unit.chars();
    let Some(letter) = letters.next() else {
        return if text.is_empty() {
            Err(wrong())
        } else {
            Ok(number)
        };
    };
    let base: u64 = match letters.as_str() {
        "" | "iB" => 1_024,
        "B" => 1_000,
        _ => return Err(wrong()),
    };
    let power = "KMGTPE".find(letter.to_ascii_uppercase());
    let power = power.ok_or_else(wrong)? as u32 + 1;
    number.checked_mul(base.pow(power)).ok_or_else(wrong)
}

/// Sizes that are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Threshold {
    AtLeast(u64),
    AtMost(u64),
}

/// As `-t` has it: a size, with a minus for those that are at most as large.
///
/// # Errors
/// When it is no size.
pub(crate) fn threshold(text: &str) -> Result<Threshold, String> {
    match text.strip_prefix('-') {
        Some(text) => size(text).map(Threshold::AtMost),
        None => size(text).map(Threshold::AtLeast),
    }
}

impl Threshold {
    pub(crate) fn shows(self, bytes: u64) -> bool {
        match self {
            Threshold::AtLeast(least) => bytes >= least,
            Threshold::AtMost(most) => bytes <= most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_gnu_du_does() {
        for (text, bytes, shown) in [
            ("512", 513, "2"),
            ("4K", 4_097, "2"),
            ("K", 4_097, "5K"),
            ("MB", 1_000_001, "2MB"),
            ("1MiB", 1, "1"),
            ("human-readable", 1_536, "1.5K"),
            ("si", 1_500, "1.5k"),
        ] {
            assert_eq!(Unit::parse(text).unwrap().shown(bytes), shown, "{text}");
        }
        for text in ["", "0", "x", "1X", "1KX", "99999999999999999999", "17E"] {
            assert!(Unit::parse(text).is_err(), "{text}");
        }
    }
}
