//! Arguments of tests: numbers, sizes, ages, dates, modes.

use crate::find::expression::{Age, Compare, Permissions, Test};
use crate::find::permissions;
use anyhow::{Context, Result, bail};
use jiff::Zoned;
use pandofs_walk_fs::{FileType, Time};
use parse_datetime::parse_datetime;
use std::cmp::Ordering;

/// The end of today, where we are. GNU find counts from there after `-daystart`.
pub(crate) fn tomorrow() -> Result<Time> {
    let end = Zoned::now().start_of_day().and_then(|day| day.tomorrow());
    let end = end.context("-daystart: today has no end")?;
    Ok(Time {
        seconds: end.timestamp().as_second(),
        nanoseconds: 0,
    })
}

/// A date as GNU's tools take them, in the zone where we are unless it says another; `@` and
/// seconds since 1970.
pub(crate) fn moment(text: &str) -> Option<Time> {
    let at = parse_datetime(text).ok()?;
    Some(Time {
        seconds: at.unix_epoch_second(),
        nanoseconds: u32::try_from(at.subsec_nanosecond()).ok()?,
    })
}

pub(crate) fn just(number: u32) -> Compare {
    Compare {
        sign: Ordering::Equal,
        number: u64::from(number),
    }
}

pub(crate) fn compare(text: &str) -> Option<Compare> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (Ordering::Greater, &text[1..]),
        b'-' => (Ordering::Less, &text[1..]),
        _ => (Ordering::Equal, text),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain)?;
    Some(Compare { sign, number })
}

/// Of units of so many seconds, with up to nine decimals.
pub(crate) fn age(text: &str, unit: i64) -> Option<Age> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let plain = fraction.len() <= 9 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let Compare { sign, number } = compare(whole).filter(|_| plain)?;
    let fraction: i128 = format!("{fraction:0<9}").parse().ok()?;
    let number = (i128::from(number) * 1_000_000_000 + fraction) * i128::from(unit);
    Some(Age { sign, number, unit })
}

pub(crate) fn size(text: &str) -> Result<Test> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "b" | "" => 512,
        "c" => 1,
        "w" => 2,
        "k" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        "P" => 1 << 50,
        _ => bail!("-size: '{text}' has no unit of c, w, b, k, M, G, T and P"),
    };
    let compare = compare(digits);
    Ok(Test::Size(
        compare.with_context(|| format!("-size: '{text}' is no size like 10k, +10M or -1G"))?,
        unit,
    ))
}

pub(crate) fn kinds(text: &str) -> Result<Vec<FileType>> {
    text.split(',')
        .map(|letter| {
            Ok(match letter {
                "f" => FileType::RegularFile,
                "d" => FileType::Directory,
                "l" => FileType::Symlink,
                "p" => FileType::Fifo,
                "s" => FileType::Socket,
                "c" => FileType::CharacterDevice,
                "b" => FileType::BlockDevice,
                _ => bail!("-type: '{letter}' is none of f, d, l, p, s, c and b"),
            })
        })
        .collect()
}

pub(crate) fn permissions_test(text: &str) -> Result<Test> {
    let bits =
        |text| permissions::parse(text).with_context(|| format!("-perm: '{text}' is no mode"));
    Ok(Test::Permissions(
        if let Some(all) = text.strip_prefix('-') {
            Permissions::AllOf(bits(all)?)
        } else if let Some(any) = text.strip_prefix('/') {
            Permissions::AnyOf(bits(any)?)
        } else {
            Permissions::Exactly(bits(text)?)
        },
    ))
}
