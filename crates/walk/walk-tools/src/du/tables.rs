//! Tables by owner, group, age or size.

use crate::text::{bar, count};
use anyhow::Result;
use clap::ValueEnum;
use pandofs_walk_fs::{FileType, Stat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    /// Owner
    User,
    /// Group
    Group,
    /// When it was modified
    Age,
    /// Size; regular files
    Size,
}

impl By {
    pub(crate) const ALL: [By; 4] = [By::User, By::Group, By::Age, By::Size];
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
#[derive(Serialize)]
pub(crate) struct Report {
    pub by: By,
    /// Whether bytes are what files hold, rather than what they take on disk.
    pub apparent: bool,
    pub entries: u64,
    pub bytes: u64,
    pub groups: Vec<Row>,
}

#[derive(Serialize)]
pub(crate) struct Row {
    pub name: String,
    pub entries: u64,
    pub bytes: u64,
}

/// Entries and bytes of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    pub entries: u64,
    pub bytes: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, other: &Sum) {
        self.entries += other.entries;
        self.bytes += other.bytes;
    }
}

/// The groups of each table that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tables(Vec<BTreeMap<u64, Sum>>);

impl Tables {
    /// Counts an entry in all of them.
    pub(crate) fn count(&mut self, wanted: &[By], groups: &[Option<u64>], bytes: u64) {
        self.0.resize(wanted.len(), BTreeMap::new());
        for (table, group) in self.0.iter_mut().zip(groups) {
            if let Some(group) = group {
                let sum = Sum { entries: 1, bytes };
                table.entry(*group).or_default().add(&sum);
            }
        }
    }

    pub(crate) fn add(&mut self, other: &Tables) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), BTreeMap::new());
        }
        for (table, theirs) in self.0.iter_mut().zip(&other.0) {
            for (group, sum) in theirs {
                table.entry(*group).or_default().add(sum);
            }
        }
    }

    /// The table with this number, which is of these groups.
    pub(crate) fn report(&self, number: usize, by: By, apparent: bool) -> Report {
        let groups = self.0.get(number);
        let mut rows: Vec<Row> = groups
            .into_iter()
            .flatten()
            .map(|(group, sum)| Row {
                name: by.name(*group),
                entries: sum.entries,
                bytes: sum.bytes,
            })
            .collect();
        if matches!(by, By::User | By::Group) {
            rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        }
        Report {
            by,
            apparent,
            bytes: rows.iter().map(|row| row.bytes).sum(),
            entries: rows.iter().map(|row| row.entries).sum(),
            groups: rows,
        }
    }
}

impl Report {
    /// # Errors
    /// Never, as far as anybody knows.
    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// A chart for a terminal.
    pub(crate) fn chart(&self, shown: impl Fn(u64) -> String) -> String {
        let mut text = String::new();
        let most = self.groups.iter().map(|row| row.bytes).max().unwrap_or(0);
        for row in &self.groups {
            let line = format!(
                "{:<22} {:>14} {:>16}  {}",
                row.name,
                count(row.entries),
                shown(row.bytes),
                bar(row.bytes, most, 40)
            );
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let (entries, bytes) = (count(self.entries), shown(self.bytes));
        text + &format!("{:<22} {entries:>14} {bytes:>16}\n", "all")
    }
}

const DAY: i64 = 86_400;
/// Seconds since the last change, and what is younger than that.
const AGES: [(i64, &str); 7] = [
    (DAY, "under a day"),
    (7 * DAY, "under a week"),
    (30 * DAY, "under 30 days"),
    (90 * DAY, "under 90 days"),
    (365 * DAY, "under a year"),
    (730 * DAY, "under two years"),
    (i64::MAX, "older"),
];
/// Bytes, and what has fewer.
const SIZES: [(u64, &str); 9] = [
    (1, "empty"),
    (4 << 10, "under 4 KiB"),
    (64 << 10, "under 64 KiB"),
    (1 << 20, "under 1 MiB"),
    (16 << 20, "under 16 MiB"),
    (256 << 20, "under 256 MiB"),
    (4 << 30, "under 4 GiB"),
    (64 << 30, "under 64 GiB"),
    (u64::MAX, "larger"),
];

impl By {
    /// Returns the group of an entry, if any.
    pub(crate) fn group(self, stat: &Stat, now: i64) -> Option<u64> {
        match self {
            By::User => Some(u64::from(stat.uid())),
            By::Group => Some(u64::from(stat.gid())),
            By::Age => {
                let age = now.saturating_sub(stat.modified().seconds);
                let class = AGES.iter().position(|(below, _)| age < *below);
                Some(class.unwrap_or(AGES.len() - 1) as u64)
            }
            By::Size if stat.kind() != FileType::RegularFile => None,
            By::Size => {
                let class = SIZES.iter().position(|(below, _)| stat.size() < *below);
                Some(class.unwrap_or(SIZES.len() - 1) as u64)
            }
        }
    }

    pub(crate) fn name(self, group: u64) -> String {
        match self {
            By::User => crate::find::users::user_name(group as u32),
            By::Group => crate::find::users::group_name(group as u32),
            By::Age => AGES[group as usize].1.to_owned(),
            By::Size => SIZES[group as usize].1.to_owned(),
        }
    }
}
