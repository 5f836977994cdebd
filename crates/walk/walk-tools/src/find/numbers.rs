//! Numbers as C's `printf` writes them.

use std::fmt::Write;

/// Digits, and zeros before them up to so many.
pub(crate) fn at_least(digits: String, count: Option<usize>) -> String {
    let count = count.unwrap_or(1);
    // C writes nothing for 0 in no digits.
    if count == 0 && digits == "0" {
        return String::new();
    }
    format!("{digits:0>count$}")
}

/// A number that is not negative as C's `%g` has it, with so many digits that count.
pub(crate) fn general(value: f64, digits: usize, keeps_zeros: bool) -> String {
    if value.is_infinite() {
        return "inf".to_owned();
    }
    let digits = digits.max(1);
    // Rounded to so many digits, which may be one place more.
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let is_plain = (-4..digits as i64).contains(&exponent);
    let mut text = if is_plain {
        format!("{value:.*}", (digits as i64 - 1 - exponent) as usize)
    } else {
        mantissa.to_owned()
    };
    if keeps_zeros {
        if !text.contains('.') {
            text.push('.');
        }
    } else if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if !is_plain {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(text, "e{sign}{:02}", exponent.unsigned_abs());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_c() {
        // As printf(1) of C's library writes them.
        for (value, digits, zeros, text) in [
            (512.0 / 524_288.0, 6, false, "0.000976562"),
            (4_096.0 / 1_000_001.0, 6, false, "0.004096"),
            (4_096.0 / 1_000_001.0, 6, true, "0.00409600"),
            (4.096e-8, 6, false, "4.096e-08"),
            (2_048.0, 6, true, "2048.00"),
            (2_048.0, 2, false, "2e+03"),
            (2_048.0, 0, true, "2.e+03"),
            (999_999.5, 6, false, "1e+06"),
            (0.99999999, 6, false, "1"),
            (0.0, 6, false, "0"),
            (1.0, 6, false, "1"),
            (f64::INFINITY, 6, true, "inf"),
        ] {
            assert_eq!(general(value, digits, zeros), text, "{value} {digits}");
        }
    }
}
