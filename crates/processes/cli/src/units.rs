//! Numbers as people read them.

use std::time::Duration;

/// `12,345,678`
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `512 B`, `12.3 MiB`
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `0.42 s`, `12.3 s`, `4 min 02 s`, `3 h 05 min`, `12 d 4 h`
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if time < Duration::from_millis(9_995) {
        format!("{:.2} s", time.as_secs_f64())
    } else if time < Duration::from_millis(99_950) {
        format!("{:.1} s", time.as_secs_f64())
    } else if seconds < 3_600 {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    } else if seconds < 86_400 {
        format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60)
    } else {
        format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24)
    }
}

/// `1 server`, `4 servers`
pub(crate) fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A bar of up to `width` characters, in eighths of one; a part that is not 0 is seen.
pub(crate) fn bar(part: u64, whole: u64, width: usize) -> String {
    const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    if whole == 0 || part == 0 {
        return String::new();
    }
    let filled = (part.min(whole) as u128 * width as u128 * 8 / whole as u128).max(1) as usize;
    let mut bar = "█".repeat(filled / 8);
    if !filled.is_multiple_of(8) {
        bar.push(EIGHTHS[filled % 8 - 1]);
    }
    bar
}

/// Reads a number of bytes: `4096`, `500K`, `20M`, `1G`, `1T`; `KiB` and the like mean the same.
///
/// # Errors
/// A text that says how to write one.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no number of bytes: write 4096, 500K, 20M or 1G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// Reads a length of time: `500ms`, `30s`, `5min`, `1h`, `14d`, or a number of seconds.
///
/// # Errors
/// A text that says how to write one.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds_in_unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => {
            return Err(format!(
                "'{text}' is no length of time: write 500ms, 30s, 5min, 1h or 14d"
            ));
        }
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| format!("'{text}' is no length of time: write 500ms, 30s, 5min, 1h or 14d"))?;
    Duration::try_from_secs_f64(number * seconds_in_unit)
        .map_err(|error| format!("'{text}' is no length of time: {error}"))
}

/// A length of time as it is written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub Duration);

impl std::str::FromStr for Time {
    type Err = String;
    fn from_str(text: &str) -> Result<Time, String> {
        parse_duration(text).map(Time)
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.subsec_nanos() == 0 {
            write!(f, "{}s", self.0.as_secs())
        } else {
            write!(f, "{}ms", self.0.as_millis())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(count(number), text);
        }
        assert_eq!(plural(1, "server", "servers"), "1 server");
        assert_eq!(plural(0, "server", "servers"), "0 servers");
    }

    #[test]
    fn bytes_take_the_unit_that_fits() {
        for (number, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (50 << 20, "50.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn durations_are_read_as_they_are_written() {
        for (time, text) in [
            (Duration::from_millis(420), "0.42 s"),
            (Duration::from_millis(9_996), "10.0 s"),
            (Duration::from_secs(242), "4 min 02 s"),
            (Duration::from_secs(11_100), "3 h 05 min"),
            (Duration::from_secs(86_400 * 12 + 3_600 * 4), "12 d 4 h"),
        ] {
            assert_eq!(duration(time), text);
        }
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("5min"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("14d"), Ok(Duration::from_secs(14 * 86_400)));
        for wrong in ["", "s", "five", "-1s", "1y", "1e400s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_of_bytes_are_read() {
        assert_eq!(parse_bytes("0"), Ok(0));
        assert_eq!(parse_bytes("4096"), Ok(4_096));
        assert_eq!(parse_bytes("500K"), Ok(512_000));
        assert_eq!(parse_bytes("20MiB"), Ok(20 << 20));
        for wrong in ["", "M", "-1", "1.5G", "1X", "99999999999T"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bar_is_as_long_as_its_part() {
        assert_eq!(bar(0, 10, 10), "");
        assert_eq!(bar(5, 10, 10), "█████");
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(20, 10, 4), "████");
        assert_eq!(bar(1, 1_000_000, 4), "▏");
        assert_eq!(bar(3, 16, 4), "▊");
        assert_eq!(bar(1, 0, 4), "");
    }
}
