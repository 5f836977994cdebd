//! Numbers, texts and times in headers of archives.

use anyhow::{Result, bail, ensure};

/// Up to the first NUL.
pub(super) fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0);
    &field[..end.unwrap_or(field.len())]
}

/// Octal digits, or GNU's binary.
pub(super) fn number(field: &[u8]) -> Result<u64> {
    Ok(u64::try_from(signed(field)?)?)
}

pub(super) fn signed(field: &[u8]) -> Result<i64> {
    if field[0] & 0x80 != 0 {
        let start: i128 = if field[0] & 0x40 != 0 { -1 } else { 0 };
        let first = start << 6 | i128::from(field[0] & 0x3f);
        let value = field[1..].iter().fold(first, |value, byte| {
            value.wrapping_shl(8) | i128::from(*byte)
        });
        return Ok(i64::try_from(value)?);
    }
    let digits = std::str::from_utf8(text(field))?.trim_matches([' ', '\0']);
    if digits.is_empty() {
        return Ok(0);
    }
    Ok(i64::from_str_radix(digits, 8)?)
}

pub(super) fn decimal(record: Option<Vec<u8>>) -> Result<Option<u64>> {
    record
        .map(|text| Ok(std::str::from_utf8(&text)?.parse()?))
        .transpose()
}

pub(super) fn pairs<'p>(numbers: impl Iterator<Item = &'p [u8]>) -> Result<Vec<(u64, u64)>> {
    let numbers: Vec<u64> = numbers
        .map(|text| Ok(std::str::from_utf8(text)?.parse()?))
        .collect::<Result<_>>()?;
    ensure!(
        numbers.len().is_multiple_of(2),
        "half a piece of a sparse file"
    );
    Ok(numbers
        .as_chunks::<2>()
        .0
        .iter()
        .map(|pair| (pair[0], pair[1]))
        .collect())
}

pub(super) fn read_time(text: &[u8]) -> Result<(i64, u32)> {
    let text = std::str::from_utf8(text)?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut nanoseconds = 0_i64;
    for at in 0..9 {
        let digit = fraction
            .as_bytes()
            .get(at)
            .map_or(Some(0), |it| (*it as char).to_digit(10));
        let Some(digit) = digit else {
            bail!("'{text}' is no time");
        };
        nanoseconds = nanoseconds * 10 + i64::from(digit);
    }
    let seconds: i64 = if whole == "-" { 0 } else { whole.parse()? };
    if whole.starts_with('-') && nanoseconds > 0 {
        return Ok((seconds - 1, (1_000_000_000 - nanoseconds) as u32));
    }
    Ok((seconds, nanoseconds as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        assert_eq!(number(b"0000644\0").unwrap(), 0o644);
        assert_eq!(number(b"  644 \0\0").unwrap(), 0o644);
        assert_eq!(number(b"\0\0\0\0\0\0\0\0").unwrap(), 0);
        assert_eq!(number(b"\x80\0\0\0\0\0\0\0\x02\0\0\0").unwrap(), 2 << 24);
        assert_eq!(signed(&[0xff; 12]).unwrap(), -1);
        assert!(number(&[0xff; 12]).is_err());
        assert!(number(b"9999999\0").is_err());
    }
}
