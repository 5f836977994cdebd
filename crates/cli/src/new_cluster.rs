//! The settings of a new file system, as options of `format` and `up`.

use crate::units::Time;
use anyhow::{Context, Result};
use clap::Args;
use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_types::limits::{
    DEFAULT_FLUSH_INTERVAL, DEFAULT_SHARDS, DEFAULT_SPLIT_THRESHOLD, DEFAULT_STRIPE_UNIT_BYTES,
    MAX_INLINE_BYTES,
};
use pandofs_types::{FsId, HashKey, ServerId};

/// Chosen when a file system is made, and fixed from then on.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Of a new file system (fixed once it is made)")]
pub struct FsOptions {
    /// Name of the file system
    #[arg(long, value_name = "NAME", default_value = "pandofs")]
    pub name: String,
    /// Shards: units of metadata that servers lead, a power of two
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SHARDS)]
    pub shards: u16,
    /// Where new directories go: ddg, ddg:DEPTH,WIDTH, random or subtree
    #[arg(long, value_name = "POLICY", default_value = "ddg:4,16", value_parser = parse_policy)]
    pub policy: DirPolicy,
    /// Entries of a directory's partition before it splits
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SPLIT_THRESHOLD)]
    pub threshold: u32,
    /// Partitions of a directory at most [default: the fewest that spread it evenly over the servers]
    #[arg(long, value_name = "N")]
    pub max_partitions: Option<u32>,
    /// Partitions a new directory starts with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub initial_partitions: u32,
    /// Bytes of one stripe unit of a file
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_STRIPE_UNIT_BYTES)]
    pub stripe_unit: u32,
    /// Servers over which a file is striped; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub stripe_count: u16,
    /// Bytes up to which a file is kept inside its inode
    #[arg(long, value_name = "BYTES", default_value_t = MAX_INLINE_BYTES as u32)]
    pub inline_bytes: u32,
    /// How long changes may stay unforced unless a program asks; 0 forces every batch
    #[arg(long, value_name = "TIME", default_value_t = Time(DEFAULT_FLUSH_INTERVAL))]
    pub flush_interval: Time,
}

impl FsOptions {
    /// The first map of a new file system with servers 0, 1, … at these addresses.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn create_map(&self, addresses: Vec<String>) -> Result<ClusterMap> {
        let servers = (0..)
            .zip(addresses)
            .map(|(id, address)| ServerInfo {
                id: ServerId(id),
                domain: format!("server-{id}"),
                addresses: vec![address],
                weight: ServerInfo::WEIGHT_ONE,
            })
            .collect();
        let settings = Settings {
            split_threshold: self.threshold,
            max_partitions: self.max_partitions,
            initial_partitions: self.initial_partitions,
            stripe_unit: self.stripe_unit,
            stripe_count: self.stripe_count,
            inline_bytes: self.inline_bytes,
            flush_interval_ms: u64::try_from(self.flush_interval.0.as_millis())
                .context("--flush-interval is too long")?,
        };
        ClusterMap::create(
            FsId(rand::random()),
            self.name.clone(),
            HashKey(rand::random(), rand::random()),
            self.shards,
            servers,
            self.policy,
            settings,
        )
        .context("no such file system can be made")
    }
}

/// Reads a placement policy.
///
/// # Errors
/// A text that says which there are.
pub fn parse_policy(text: &str) -> Result<DirPolicy, String> {
    let unknown =
        || format!("'{text}' is no policy: write ddg, ddg:DEPTH,WIDTH, random or subtree");
    match text {
        "ddg" => Ok(DirPolicy::default()),
        "random" => Ok(DirPolicy::Random),
        "subtree" => Ok(DirPolicy::Subtree),
        _ => {
            let granularity = text.strip_prefix("ddg:").ok_or_else(unknown)?;
            let (depth, width) = granularity.split_once(',').ok_or_else(unknown)?;
            let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&number| number > 0);
            match (number(depth), number(width)) {
                (Some(dir_depth), Some(dir_width)) => Ok(DirPolicy::Ddg {
                    dir_depth,
                    dir_width,
                }),
                _ => Err(format!(
                    "'{text}': depth and width are to be numbers from 1 on"
                )),
            }
        }
    }
}

/// A policy as it is written.
pub fn policy_text(policy: DirPolicy) -> String {
    match policy {
        DirPolicy::Ddg {
            dir_depth,
            dir_width,
        } => format!("ddg:{dir_depth},{dir_width}"),
        DirPolicy::Random => "random".into(),
        DirPolicy::Subtree => "subtree".into(),
        DirPolicy::CrushPath => "crush-path".into(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        options: FsOptions,
    }

    /// The options when none are given.
    pub fn options() -> FsOptions {
        Alone::parse_from(["test"]).options
    }

    #[test]
    fn the_defaults_make_a_file_system() {
        let map = options()
            .create_map(vec!["unix:/a".into(), "tcp:b:1".into()])
            .unwrap();
        assert_eq!(map.shard_count(), DEFAULT_SHARDS);
        assert_eq!(map.settings, Settings::default());
        assert_eq!(map.policy, DirPolicy::default());
        let other = options().create_map(vec!["unix:/a".into()]).unwrap();
        assert_ne!((map.fs, map.hash_key), (other.fs, other.hash_key));
    }

    #[test]
    fn policies_are_read_as_they_are_written() {
        for policy in [
            DirPolicy::Ddg {
                dir_depth: 4,
                dir_width: 16,
            },
            DirPolicy::Ddg {
                dir_depth: 1,
                dir_width: 1,
            },
            DirPolicy::Random,
            DirPolicy::Subtree,
        ] {
            assert_eq!(parse_policy(&policy_text(policy)), Ok(policy));
        }
        for wrong in ["", "ddg:", "ddg:4", "ddg:0,4", "ddg:4,x", "hash"] {
            assert!(parse_policy(wrong).is_err(), "{wrong}");
        }
    }
}
