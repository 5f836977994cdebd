//! Kinds of stores.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a server keeps its metadata in. All of them keep the same promises, and differ in what that costs and in what one
/// sees of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StoreKind {
    /// A log-structured merge tree: RocksDB.
    #[default]
    #[serde(rename = "rocksdb")]
    RocksDb,
    /// Directories and files of a local file system, as in FPFS (Avilés-González et al., section IV).
    #[serde(rename = "directories")]
    Directories,
}

impl StoreKind {
    /// In the order of their numbers in the formats.
    pub const ALL: [StoreKind; 2] = [StoreKind::RocksDb, StoreKind::Directories];
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoreKind::RocksDb => "rocksdb",
            StoreKind::Directories => "directories",
        })
    }
}

impl FromStr for StoreKind {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreKind, String> {
        let named = StoreKind::ALL
            .into_iter()
            .find(|kind| kind.to_string() == text);
        named.ok_or_else(|| format!("'{text}' is no store: write rocksdb or directories"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for kind in StoreKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("leveldb".parse::<StoreKind>().is_err());
    }
}
