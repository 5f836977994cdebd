//! `pandofs dir`

use crate::backend;
use crate::exit::Outcome;
use crate::mounts;
use crate::new_cluster::{file_policy_text, parse_file_policy, parse_policy, policy_text};
use crate::source::{Cluster, Source, read_cluster};
use crate::table::{Align, Table};
use crate::units;
use anyhow::{Context, Result, ensure};
use clap::Args;
use pandofs_api::DirSettings;
use pandofs_client::DirInfo;
use pandofs_placement::{ClusterMap, DirPolicy, FilePolicy, partitions_allowed};
use pandofs_types::limits::{MAX_PARTITIONS, MIN_SPLIT_THRESHOLD};
use pandofs_types::{FsId, Position, ServerId};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  pandofs dir /mnt/pando/big
      a directory of a mounted file system
  pandofs dir --data /var/tmp/pando /big
      the same by its path inside the file system
  pandofs dir --partitions 4 /mnt/pando/big
      split it to 4 partitions now, and make its future subdirectories with 4
  pandofs dir --threshold 1000 --max-partitions 16 /mnt/pando/big
      let it split earlier and further

Settings are inherited by directories that are made in it from then on.";

/// How long servers may be away before the command gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Show how a directory is spread over the servers, and set how it splits
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dir {
    #[command(flatten)]
    source: Source,
    /// Split it to that many partitions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_PARTITIONS as i64))]
    partitions: Option<u32>,
    /// Entries of a partition before it splits
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(MIN_SPLIT_THRESHOLD)..))]
    threshold: Option<u32>,
    /// Partitions beyond which it does not split
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_PARTITIONS as i64))]
    max_partitions: Option<u32>,
    /// Where its new subdirectories go: ddg, ddg:DEPTH,WIDTH, random, subtree, adaptive or
    /// adaptive:DEPTH-DEPTH,WIDTH-WIDTH
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    policy: Option<DirPolicy>,
    /// Where the inodes of its new files go: with-entry; ddg:WIDTH, another shard after every WIDTH files; or
    /// adaptive or adaptive:WIDTH-WIDTH
    #[arg(long, value_name = "POLICY", value_parser = parse_file_policy)]
    file_policy: Option<FilePolicy>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The directory: below a mount point, or a path inside the file system
    path: PathBuf,
}

impl Dir {
    /// # Errors
    /// When there is no such directory, or its servers cannot be asked.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let cluster = self.source.find(Some(&self.path))?;
        let inside = path_inside(cluster.map.fs, &self.path)?;
        let client = backend::connect_within(&cluster, Some(PATIENCE))?;
        let caller = backend::caller();
        let shown = inside.display();
        let before = client.counters().requests;
        let node = client
            .resolve(&caller, inside.as_os_str().as_bytes())
            .with_context(|| format!("{shown} in {}", cluster.map.name))?;
        let requests = client.counters().requests - before;
        if let Some(settings) = self.settings() {
            client
                .set_dir_settings(&caller, node.ino, settings)
                .with_context(|| format!("cannot set what {shown} is to be"))?;
        }
        let info = client
            .dir_info(&caller, node.ino)
            .with_context(|| shown.to_string())?;
        let mut report = Report::new(&cluster, &inside, &info);
        report.requests = Some(requests);
        if self.json {
            let json = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
            crate::print(&format!("{json}\n"))?;
        } else {
            crate::print(&report.text())?;
        }
        Ok(Outcome::Done)
    }

    /// Settings to be changed, if any.
    fn settings(&self) -> Option<DirSettings> {
        let settings = DirSettings {
            threshold: self.threshold,
            max_partitions: self.max_partitions,
            initial_partitions: self.partitions,
            policy: self.policy,
            layout: None,
            file_policy: self.file_policy,
        };
        (settings != DirSettings::default()).then_some(settings)
    }
}

/// The path inside the file system: below a mount point, what follows that.
pub(crate) fn path_inside(fs: FsId, path: &Path) -> Result<PathBuf> {
    let mounted = mounts::all()?;
    let inside = mounts::containing(&mounted, path).filter(|mount| mount.is_pandofs());
    let Some(mount) = inside else {
        return Ok(Path::new("/").join(path));
    };
    // Its map may have been moved since, or be another user's: then what was named is taken to be it.
    if let Some(map) = mount.cluster_map()
        && let Ok(mounted) = read_cluster(&map, None)
    {
        ensure!(
            mounted.map.fs == fs,
            "{} is on the file system of {}, and another one was named",
            path.display(),
            map.display(),
        );
    }
    let path = mounts::absolute(path).with_context(|| path.display().to_string())?;
    let rest = path.strip_prefix(&mount.point).unwrap_or(Path::new(""));
    Ok(Path::new("/").join(rest))
}

/// The shard that a directory's path leads to, if paths lead to shards.
fn path_shard(map: &ClusterMap, path: &Path) -> Option<u16> {
    let path = path.as_os_str().as_bytes();
    let path = path.strip_suffix(b"/").unwrap_or(path);
    Some(map.path_shard(path)?.0)
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    path: String,
    inode: u64,
    entries: u64,
    subdirectories: u64,
    /// How many are active.
    partitions: u32,
    threshold: u32,
    max_partitions: u32,
    initial_partitions: u32,
    policy: String,
    file_policy: String,
    /// The shard that the path leads to, where directories are placed by their paths.
    path_shard: Option<u16>,
    /// Requests that it took to find the directory.
    requests: Option<u64>,
    parts: Vec<PartReport>,
}

/// The partitions that one shard carries.
#[derive(Debug, Serialize)]
struct PartReport {
    server: u16,
    shard: u16,
    partitions: Vec<u32>,
    /// Part of the directory's hash range, 0 to 1.
    share: f64,
    entries: u64,
    subdirectories: u32,
}

impl Report {
    pub(crate) fn new(cluster: &Cluster, path: &Path, info: &DirInfo) -> Report {
        let map = &cluster.map;
        let parts: Vec<PartReport> = info
            .parts
            .iter()
            .filter(|(shard, _)| map.has_shard(*shard))
            .map(|(shard, part)| {
                let here = info
                    .map
                    .active()
                    .filter(|&i| info.map.shard_of_partition(i) == *shard);
                let (mut partitions, mut share) = (Vec::new(), 0.0);
                for index in here {
                    let (start, end) = info.map.range_of(index);
                    share += (end.0 - start.0) as f64 / Position::END.0 as f64;
                    partitions.push(index.0);
                }
                PartReport {
                    server: map.server_of(*shard).0,
                    shard: shard.0,
                    partitions,
                    share,
                    entries: part.entries,
                    subdirectories: part.subdirs,
                }
            })
            .collect();
        let settings = &info.settings;
        Report {
            path: path.display().to_string(),
            inode: info.ino.0,
            entries: parts.iter().map(|part| part.entries).sum(),
            subdirectories: parts
                .iter()
                .map(|part| u64::from(part.subdirectories))
                .sum(),
            partitions: info.map.active_count(),
            threshold: settings.threshold.unwrap_or(map.settings.split_threshold),
            max_partitions: partitions_allowed(map, settings.max_partitions, &info.map),
            initial_partitions: settings
                .initial_partitions
                .unwrap_or(map.settings.initial_partitions),
            policy: policy_text(settings.policy.unwrap_or(map.policy)),
            file_policy: file_policy_text(settings.file_policy.unwrap_or(map.settings.file_policy)),
            path_shard: path_shard(map, path),
            requests: None,
            parts,
        }
    }

    /// How many partitions are active.
    pub(crate) fn partitions(&self) -> u32 {
        self.partitions
    }

    /// Entries of the whole directory.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Entries on one server.
    pub(crate) fn entries_on(&self, server: ServerId) -> u64 {
        let parts = self.parts.iter().filter(|part| part.server == server.0);
        parts.map(|part| part.entries).sum()
    }

    /// One line for each shard that carries a part of it.
    pub(crate) fn picture(&self) -> Table {
        const BAR: usize = 32;
        let mut table = Table::new(&[
            ("server", Align::Right),
            ("shard", Align::Right),
            ("partitions", Align::Left),
            ("of the names", Align::Right),
            ("entries", Align::Right),
            ("", Align::Left),
        ]);
        let most = self
            .parts
            .iter()
            .map(|part| part.entries)
            .max()
            .unwrap_or(0);
        for part in &self.parts {
            let partitions: Vec<String> = part.partitions.iter().map(u32::to_string).collect();
            table.row(vec![
                part.server.to_string(),
                part.shard.to_string(),
                partitions.join(" "),
                format!("{:.1} %", part.share * 100.0),
                units::count(part.entries),
                units::bar(part.entries, most, BAR),
            ]);
        }
        table
    }

    /// Where the path leads, and what it took to find it.
    fn way(&self) -> String {
        let Some(shard) = self.path_shard else {
            return String::new();
        };
        let home = self.parts.iter().find(|part| part.partitions.contains(&0));
        let stands = match home {
            Some(home) if home.shard == shard => "where it is",
            _ => "and it was placed by another one",
        };
        let requests = self.requests.map_or_else(String::new, |requests| {
            format!(
                "; found with {}",
                units::plural(requests, "request", "requests")
            )
        });
        format!("its path leads to shard {shard}, {stands}{requests}\n")
    }

    fn text(&self) -> String {
        format!(
            "{}: {} ({} of them directories) in {}\n\
             splits over {} entries a partition, up to {}; new subdirectories: {}, {}; new files: {}\n{}\n{}",
            self.path,
            units::plural(self.entries, "entry", "entries"),
            units::count(self.subdirectories),
            units::plural(u64::from(self.partitions), "partition", "partitions"),
            units::count(u64::from(self.threshold)),
            units::plural(u64::from(self.max_partitions), "partition", "partitions"),
            units::plural(
                u64::from(self.initial_partitions),
                "partition",
                "partitions"
            ),
            self.policy,
            self.file_policy,
            self.way(),
            self.picture()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_cluster::tests::options;
    use pandofs_api::DirPart;
    use pandofs_placement::{DirMap, slot_array};
    use pandofs_types::{Ino, ShardId, Time};

    #[test]
    fn a_directory_is_shown_with_all_its_parts() {
        let addresses = (0..4).map(|id| format!("unix:/{id}")).collect();
        let map = options().create_map(addresses).unwrap();
        let slots = slot_array(&map, ShardId(3), 4, 1);
        let dir_map = DirMap::with_slots(slots, 3);
        let part = |entries| DirPart {
            entries,
            subdirs: 1,
            mtime: Time(0),
            ctime: Time(0),
            map: dir_map.clone(),
        };
        let shards = dir_map.shards();
        let info = DirInfo {
            ino: Ino::new(ShardId(3), 7),
            parent: Ino::ROOT,
            settings: DirSettings {
                threshold: Some(100),
                ..DirSettings::default()
            },
            parts: shards
                .iter()
                .copied()
                .zip([1_000, 2_000, 1_000].map(part))
                .collect(),
            map: dir_map,
        };
        let cluster = Cluster {
            map_path: "/map".into(),
            map,
            data: None,
        };
        let report = Report::new(&cluster, Path::new("/big"), &info);
        assert_eq!((report.entries, report.subdirectories), (4_000, 3));
        assert_eq!(
            (report.threshold, report.max_partitions, report.partitions),
            (100, 4, 3)
        );
        let shares: Vec<f64> = report.parts.iter().map(|part| part.share).collect();
        assert_eq!(shares, [0.25, 0.5, 0.25]);
        let text = report.text();
        assert!(text.starts_with("/big: 4,000 entries (3 of them directories) in 3 partitions"));
        assert!(
            text.contains("50.0 %    2,000  ████████████████████████████████"),
            "{text}"
        );
        assert_eq!(
            serde_json::to_value(&report).unwrap()["parts"][1]["entries"],
            2_000
        );
    }

    #[test]
    fn a_path_outside_of_a_mount_is_one_inside_the_file_system() {
        assert_eq!(
            path_inside(FsId(1), Path::new("/big")).unwrap(),
            Path::new("/big")
        );
        assert_eq!(
            path_inside(FsId(1), Path::new("big/x")).unwrap(),
            Path::new("/big/x")
        );
    }
}
