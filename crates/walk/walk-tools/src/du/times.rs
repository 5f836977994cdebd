//! The times of `--time`.

use crate::find::expression::Which;
use clap::ValueEnum;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use pandofs_walk_fs::{Stat, StatxFlags};

/// Time that `--time` is about.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeOf {
    Mtime,
    #[value(alias = "access", alias = "use")]
    Atime,
    #[value(alias = "status")]
    Ctime,
}

impl TimeOf {
    /// Returns the field of `statx` that it needs.
    pub(crate) fn field(self) -> StatxFlags {
        match self {
            TimeOf::Mtime => StatxFlags::MTIME,
            TimeOf::Atime => StatxFlags::ATIME,
            TimeOf::Ctime => StatxFlags::CTIME,
        }
    }

    /// Nanoseconds since 1970.
    pub(crate) fn of(self, stat: &Stat) -> i64 {
        let which = match self {
            TimeOf::Mtime => Which::Modified,
            TimeOf::Atime => Which::Accessed,
            TimeOf::Ctime => Which::Changed,
        };
        let time = which.of(stat);
        let seconds = time.seconds.saturating_mul(1_000_000_000);
        seconds.saturating_add(i64::from(time.nanoseconds))
    }
}

/// Nanoseconds since 1970, in the zone where we are, in a style of `--time-style`.
pub(crate) fn shown(moment: i64, style: &str) -> String {
    let Ok(at) = Timestamp::from_nanosecond(i128::from(moment)) else {
        return moment.to_string();
    };
    let local = at.to_zoned(TimeZone::system());
    let text = |format: &str| local.strftime(format).to_string();
    match style {
        "full-iso" => {
            let fraction = moment.rem_euclid(1_000_000_000);
            text("%Y-%m-%d %H:%M:%S") + &format!(".{fraction:09}") + &text(" %z")
        }
        "iso" => text("%Y-%m-%d"),
        style => text(style.strip_prefix('+').unwrap_or("%Y-%m-%d %H:%M")),
    }
}
