//! The settings of a new file system, as options of `format` and `up`.

use crate::exit::WrongLine;
use crate::units::Time;
use crate::weights::{self, Domain, Weight};
use anyhow::{Context, Result};
use clap::Args;
use pandofs_placement::{
    ClusterMap, DirBounds, DirPolicy, FileBounds, FilePolicy, MapError, Settings,
};
use pandofs_types::limits::{
    DEFAULT_FLUSH_INTERVAL, DEFAULT_INLINE_BYTES, DEFAULT_SHARDS, DEFAULT_SPLIT_THRESHOLD,
    DEFAULT_STRIPE_UNIT_BYTES,
};
use pandofs_types::{CommitProtocol, FsId, HashKey, StoreKind};
use std::time::Duration;

/// Chosen when a file system is made, and fixed from then on.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Of a new file system (fixed once it is made)")]
pub(crate) struct FsOptions {
    /// Name of the file system
    #[arg(long, value_name = "NAME", default_value = "pandofs")]
    pub name: String,
    /// Shards: units of metadata that servers lead, a power of two
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SHARDS)]
    pub shards: u16,
    /// How much each server is to have beside the others, in their order, as in 1,1,2,4: shards are shared out so, and
    /// new directories by them [default: 1 each]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub weights: Vec<Weight>,
    /// Failure domain of each server, in their order, as in rack-a,rack-a,rack-b,rack-b: servers of one name may fail
    /// together [default: each its own]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub domains: Vec<Domain>,
    /// Where new directories go: ddg, ddg:DEPTH,WIDTH, random, subtree, crush-path (by their whole paths, by which they
    /// are found with one request), or adaptive or adaptive:DEPTH-DEPTH,WIDTH-WIDTH, ddg whose figures follow the name space
    /// and the load within these bounds
    #[arg(long, value_name = "POLICY", default_value = "ddg:4,16", value_parser = parse_policy)]
    pub policy: DirPolicy,
    /// Where the inodes of new files go: with-entry; ddg:WIDTH, another shard after every WIDTH files of a
    /// directory; or adaptive or adaptive:WIDTH-WIDTH, which follows the name space within these bounds
    #[arg(long, value_name = "POLICY", default_value = "with-entry", value_parser = parse_file_policy)]
    pub file_policy: FilePolicy,
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
    /// Bytes up to which a file is kept beside its inode, 64 KiB at most, if its stripe unit is not smaller
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_INLINE_BYTES)]
    pub inline_bytes: u32,
    /// How long changes may stay unsynced unless a program asks; 0 syncs every batch
    #[arg(long, value_name = "TIME", default_value_t = Time(DEFAULT_FLUSH_INTERVAL))]
    pub flush_interval: Time,
    /// How operations of several servers are decided: s2pc-mp; or, to compare with it, 2pc or 3pc
    #[arg(long, value_name = "PROTOCOL", default_value_t = CommitProtocol::default())]
    pub commit_protocol: CommitProtocol,
    /// What servers keep their metadata in: rocksdb; or directories, one of the local file system for each partition of a
    /// directory, with a file for each entry and each inode
    #[arg(long, value_name = "STORE", default_value_t = StoreKind::default())]
    pub store: StoreKind,
}

impl FsOptions {
    /// The first map of a new file system with servers 0, 1, … at these addresses.
    ///
    /// # Errors
    /// The fault in the settings.
    pub(crate) fn create_map(&self, addresses: Vec<String>) -> Result<ClusterMap> {
        let given = (&self.weights[..], &self.domains[..]);
        let servers = weights::servers(0, addresses, given, ["--weights", "--domains"])?;
        let settings = Settings {
            split_threshold: self.threshold,
            max_partitions: self.max_partitions,
            initial_partitions: self.initial_partitions,
            stripe_unit: self.stripe_unit,
            stripe_count: self.stripe_count,
            inline_bytes: self.inline_bytes,
            flush_interval_ms: u64::try_from(self.flush_interval.0.as_millis())
                .context("--flush-interval is too long")?,
            commit_protocol: self.commit_protocol,
            file_policy: self.file_policy,
            path_shards: None,
            store: self.store,
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
        .map_err(|error| match &error {
            MapError::Setting {
                setting,
                allowed,
                found,
            } => {
                let option = option_of(setting);
                WrongLine(format!("--{option} is to be {allowed}, not {found}")).into()
            }
            _ => anyhow::Error::new(error).context("no such file system can be made"),
        })
    }

    /// Whether that is the name of an option of a new file system.
    pub(crate) fn is_one(id: &str) -> bool {
        let all = FsOptions::augment_args(clap::Command::new("all"));
        all.get_arguments().any(|argument| argument.get_id() == id)
    }
}

/// The option by which a setting of the cluster map is given.
fn option_of(setting: &str) -> String {
    match setting {
        "split_threshold" => "threshold".to_owned(),
        setting => setting.replace('_', "-"),
    }
}

impl FsOptions {
    /// How many servers the lists of weights and domains are for, if there are any.
    pub(crate) fn servers_listed(&self) -> Option<usize> {
        [self.weights.len(), self.domains.len()]
            .into_iter()
            .find(|&count| count > 0)
    }

    /// The first of the options `given` on the command line that an existing file system contradicts:
    /// the option with its value, and the value there.
    pub(crate) fn contradiction(
        &self,
        given: &[String],
        map: &ClusterMap,
    ) -> Option<(String, String)> {
        let settings = &map.settings;
        let max_partitions =
            |setting: Option<u32>| setting.map_or("the default".into(), |n| n.to_string());
        let options: [(&str, String, String); 15] = [
            ("name", self.name.clone(), map.name.clone()),
            (
                "weights",
                weights::list(&self.weights),
                weights::list(map.servers.iter().map(|server| Weight(server.weight))),
            ),
            (
                "domains",
                weights::list(&self.domains),
                weights::list(map.servers.iter().map(|server| &server.domain)),
            ),
            (
                "shards",
                self.shards.to_string(),
                map.shard_count().to_string(),
            ),
            ("policy", policy_text(self.policy), policy_text(map.policy)),
            (
                "file-policy",
                file_policy_text(self.file_policy),
                file_policy_text(settings.file_policy),
            ),
            (
                "threshold",
                self.threshold.to_string(),
                settings.split_threshold.to_string(),
            ),
            (
                "max-partitions",
                max_partitions(self.max_partitions),
                max_partitions(settings.max_partitions),
            ),
            (
                "initial-partitions",
                self.initial_partitions.to_string(),
                settings.initial_partitions.to_string(),
            ),
            (
                "stripe-unit",
                self.stripe_unit.to_string(),
                settings.stripe_unit.to_string(),
            ),
            (
                "stripe-count",
                self.stripe_count.to_string(),
                settings.stripe_count.to_string(),
            ),
            (
                "inline-bytes",
                self.inline_bytes.to_string(),
                settings.inline_bytes.to_string(),
            ),
            (
                "flush-interval",
                self.flush_interval.to_string(),
                Time(Duration::from_millis(settings.flush_interval_ms)).to_string(),
            ),
            (
                "commit-protocol",
                self.commit_protocol.to_string(),
                settings.commit_protocol.to_string(),
            ),
            ("store", self.store.to_string(), settings.store.to_string()),
        ];
        options
            .into_iter()
            .filter(|(name, _, _)| given.iter().any(|given| given.replace('_', "-") == *name))
            .find(|(_, wanted, there)| wanted != there)
            .map(|(name, wanted, there)| (format!("--{name} {wanted}"), there))
    }
}

/// Reads a placement policy.
///
/// # Errors
/// A text that says which there are.
pub(crate) fn parse_policy(text: &str) -> Result<DirPolicy, String> {
    let unknown = || {
        format!(
            "'{text}' is no policy: write ddg, ddg:DEPTH,WIDTH, random, subtree, crush-path, adaptive or \
             adaptive:DEPTH-DEPTH,WIDTH-WIDTH"
        )
    };
    if let Some(bounds) = text.strip_prefix("adaptive:") {
        let (depths, widths) = bounds.split_once(',').ok_or_else(unknown)?;
        let wrong = || format!("'{text}': the bounds are to be numbers from 1 on, as in 2-6,4-256");
        let (least_depth, most_depth) = parse_range(depths).ok_or_else(wrong)?;
        let (least_width, most_width) = parse_range(widths).ok_or_else(wrong)?;
        return Ok(DirPolicy::Adaptive(DirBounds {
            least_depth,
            most_depth,
            least_width,
            most_width,
        }));
    }
    match text {
        "ddg" => Ok(DirPolicy::default()),
        "random" => Ok(DirPolicy::Random),
        "subtree" => Ok(DirPolicy::Subtree),
        "crush-path" => Ok(DirPolicy::CrushPath),
        "adaptive" => Ok(DirPolicy::Adaptive(DirBounds::default())),
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

/// Bounds that hold a number from 1 on: the least and the largest one.
fn parse_range(text: &str) -> Option<(u32, u32)> {
    let (least, most) = text.split_once('-')?;
    let (least, most) = (least.trim().parse().ok()?, most.trim().parse().ok()?);
    (1..=most).contains(&least).then_some((least, most))
}

/// A policy as it is written.
pub(crate) fn policy_text(policy: DirPolicy) -> String {
    match policy {
        DirPolicy::Ddg {
            dir_depth,
            dir_width,
        } => format!("ddg:{dir_depth},{dir_width}"),
        DirPolicy::Random => "random".into(),
        DirPolicy::Subtree => "subtree".into(),
        DirPolicy::CrushPath => "crush-path".into(),
        DirPolicy::Adaptive(DirBounds {
            least_depth,
            most_depth,
            least_width,
            most_width,
        }) => format!("adaptive:{least_depth}-{most_depth},{least_width}-{most_width}"),
    }
}

/// Reads a policy for the inodes of files.
///
/// # Errors
/// A text that says which there are.
pub(crate) fn parse_file_policy(text: &str) -> Result<FilePolicy, String> {
    match text {
        "with-entry" => return Ok(FilePolicy::WithEntry),
        "adaptive" => return Ok(FilePolicy::Adaptive(FileBounds::default())),
        _ => {}
    }
    if let Some(bounds) = text.strip_prefix("adaptive:") {
        let (least, most) = parse_range(bounds).ok_or_else(|| {
            format!("'{text}': the bounds are to be numbers from 1 on, as in 8000-1000000")
        })?;
        return Ok(FilePolicy::Adaptive(FileBounds { least, most }));
    }
    let width = text.strip_prefix("ddg:").ok_or_else(|| {
        format!(
            "'{text}' is no policy: write with-entry, ddg:WIDTH, adaptive or adaptive:WIDTH-WIDTH"
        )
    })?;
    match width.trim().parse() {
        Ok(file_width) if file_width > 0 => Ok(FilePolicy::Ddg { file_width }),
        _ => Err(format!("'{text}': the width is to be a number from 1 on")),
    }
}

/// A policy for the inodes of files as it is written.
pub(crate) fn file_policy_text(policy: FilePolicy) -> String {
    match policy {
        FilePolicy::WithEntry => "with-entry".into(),
        FilePolicy::Ddg { file_width } => format!("ddg:{file_width}"),
        FilePolicy::Adaptive(FileBounds { least, most }) => format!("adaptive:{least}-{most}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::Parser;
    use pandofs_placement::ServerInfo;
    use pandofs_types::ServerId;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        options: FsOptions,
    }

    /// The options when none are given.
    pub(crate) fn options() -> FsOptions {
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
    fn a_file_system_has_the_weights_and_domains_that_were_given() {
        let line = "test --shards 4096 --weights 1,1,2,4 --domains left,right,left,right";
        let given = Alone::parse_from(line.split(' ')).options;
        assert_eq!(given.servers_listed(), Some(4));
        let addresses = |count| (0..count).map(|id| format!("unix:/{id}")).collect();
        let map = given.create_map(addresses(4)).unwrap();
        for (id, eighths) in [(0, 1), (1, 1), (2, 2), (3, 4)] {
            let led = map.shards_of(ServerId(id)).len();
            assert_eq!(led, eighths * 4_096 / 8, "server {id}");
        }
        let domains: Vec<&str> = map.servers.iter().map(|s| s.domain.as_str()).collect();
        assert_eq!(domains, ["left", "right", "left", "right"]);
        let said = given.create_map(addresses(3)).unwrap_err().to_string();
        assert!(
            said.contains("--weights has 4 values for 3 servers"),
            "{said}"
        );
        assert!(Alone::try_parse_from("test --weights 1,0,2".split(' ')).is_err());
        assert!(Alone::try_parse_from("test --domains a,,b".split(' ')).is_err());
        assert_eq!(options().servers_listed(), None);
    }

    #[test]
    fn only_what_was_given_can_contradict() {
        let map = options().create_map(vec!["unix:/a".into()]).unwrap();
        let mut wanted = options();
        wanted.max_partitions = Some(7);
        wanted.flush_interval = Time(Duration::ZERO);
        let given = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            wanted.contradiction(&given(&["shards", "no_mount"]), &map),
            None
        );
        assert_eq!(
            wanted.contradiction(&given(&["name", "max_partitions"]), &map),
            Some(("--max-partitions 7".into(), "the default".into()))
        );
        assert_eq!(
            wanted.contradiction(&given(&["flush_interval"]), &map),
            Some(("--flush-interval 0s".into(), "5s".into()))
        );
        wanted.store = StoreKind::Directories;
        assert_eq!(
            wanted.contradiction(&given(&["store"]), &map),
            Some(("--store directories".into(), "rocksdb".into()))
        );
        wanted.weights = vec![Weight(ServerInfo::WEIGHT_ONE)];
        assert_eq!(wanted.contradiction(&given(&["weights"]), &map), None);
        wanted.weights = vec!["2.5".parse().unwrap()];
        wanted.domains = vec!["rack-a".parse().unwrap()];
        assert_eq!(
            wanted.contradiction(&given(&["weights"]), &map),
            Some(("--weights 2.5".into(), "1".into()))
        );
        assert_eq!(
            wanted.contradiction(&given(&["domains"]), &map),
            Some(("--domains rack-a".into(), "server-0".into()))
        );
    }

    #[test]
    fn policies_of_files_are_read_as_they_are_written() {
        for policy in [
            FilePolicy::WithEntry,
            FilePolicy::Ddg { file_width: 300 },
            FilePolicy::Adaptive(FileBounds { least: 2, most: 3 }),
        ] {
            assert_eq!(parse_file_policy(&file_policy_text(policy)), Ok(policy));
        }
        let default = FilePolicy::Adaptive(FileBounds::default());
        assert_eq!(parse_file_policy("adaptive"), Ok(default));
        assert_eq!(file_policy_text(default), "adaptive:8000-1048576");
        for wrong in [
            "",
            "ddg",
            "ddg:",
            "ddg:0",
            "ddg:x",
            "ddg:4,16",
            "random",
            "adaptive:",
            "adaptive:0-4",
            "adaptive:5-4",
            "adaptive:5",
        ] {
            assert!(parse_file_policy(wrong).is_err(), "{wrong}");
        }
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
            DirPolicy::CrushPath,
            DirPolicy::Adaptive(DirBounds {
                least_depth: 1,
                most_depth: 2,
                least_width: 3,
                most_width: 3,
            }),
        ] {
            assert_eq!(parse_policy(&policy_text(policy)), Ok(policy));
        }
        let default = DirPolicy::Adaptive(DirBounds::default());
        assert_eq!(parse_policy("adaptive"), Ok(default));
        assert_eq!(policy_text(default), "adaptive:1-6,1-256");
        for wrong in [
            "",
            "ddg:",
            "ddg:4",
            "ddg:0,4",
            "ddg:4,x",
            "hash",
            "adaptive:",
            "adaptive:2-6",
            "adaptive:0-6,4-8",
            "adaptive:2-6,9-8",
            "adaptive:2,4",
        ] {
            assert!(parse_policy(wrong).is_err(), "{wrong}");
        }
    }
}
