//! `pandofs rebalance`

use super::dir::path_inside;
use crate::backend;
use crate::exit::Outcome;
use crate::source::Source;
use crate::units;
use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pandofs_api::DirPart;
use pandofs_client::{Client, ClientError, DirInfo};
use pandofs_placement::{
    ClusterMap, PartitionIndex, is_to_spread, is_to_stay, least_to_spread, partitions_allowed,
    renewed_slots,
};
use pandofs_types::{Credentials, FileKind, Ino, ShardId};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long servers may be away before the command gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at a directory that splits.
const PAUSE: Duration = Duration::from_millis(100);
/// After which the shards of a directory that splits are told again to do so, and how fast.
const RENEWAL: Duration = Duration::from_secs(1);
/// How long a directory may go without a split of its own coming to its end, beyond what copying takes at the rate, before
/// the next one's turn comes.
const STALL: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  pandofs rebalance --data /var/tmp/pando
      after 'pandofs server add': have all large directories spread to the new servers now
  pandofs rebalance --rate 2000 /mnt/pando/projects
      those below one directory, slowly, so that others hardly notice
  pandofs rebalance --data /var/tmp/pando --json | jq .moved

Nothing has to be rebalanced for things to work: a large directory also splits when something is
added to it. Only directories that have split before and are not spread evenly are touched, one
after the other, and what is on the right server stays there. They serve all the while. Ctrl-C
ends it; splits that have begun go on, ten seconds later at full speed.";

/// Have large directories split to servers that were added
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rebalance {
    #[command(flatten)]
    source: Source,
    /// Entries a second that may move; 0 for no limit. At least one does from each shard that has some to give
    #[arg(long, value_name = "N", default_value_t = 0)]
    rate: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The directory to begin at: below a mount point, or a path inside the file system
    #[arg(default_value = "/")]
    path: PathBuf,
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Report {
    /// Directories that were looked at.
    directories: u64,
    /// Of these, that have more partitions now.
    split: u64,
    /// Partitions that were made.
    partitions: u64,
    /// Entries that went to another shard.
    moved: u64,
    /// Directories that could not be read or asked.
    failed: u64,
    /// Directories that still have partitions to split, and did not get on with it.
    unfinished: u64,
    seconds: f64,
}

impl Report {
    /// This, and what has become of a directory.
    fn with(self, before: &DirInfo, after: &DirInfo) -> Report {
        let (had, has) = (before.map.active_count(), after.map.active_count());
        let made = has.saturating_sub(had);
        Report {
            split: self.split + u64::from(made > 0),
            partitions: self.partitions + u64::from(made),
            moved: self.moved + moved(before, after),
            ..self
        }
    }
}

impl Rebalance {
    /// # Errors
    /// When there is no such directory, or its servers cannot be asked.
    pub(crate) fn run(&self) -> Result<Outcome> {
        // The root is of the only file system there is, or of the one that was named.
        let within = (self.path != Path::new("/")).then_some(self.path.as_path());
        let cluster = self.source.find(within)?;
        let inside = match within {
            Some(path) => path_inside(cluster.map.fs, path)?,
            None => self.path.clone(),
        };
        let client = backend::connect_within(&cluster, Some(PATIENCE))?;
        let caller = backend::caller();
        let shown = inside.display();
        let node = client
            .resolve(&caller, inside.as_os_str().as_bytes())
            .with_context(|| format!("{shown} in {}", cluster.map.name))?;
        let mut work = Work {
            client: &client,
            caller,
            map: &cluster.map,
            rate: self.rate,
            begun: Instant::now(),
            bar: bar(),
            report: Report::default(),
        };
        work.all(inside, node.ino);
        work.bar.finish_and_clear();
        let mut report = work.report;
        report.seconds = work.begun.elapsed().as_secs_f64();
        if self.json {
            let json = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
            crate::print(&format!("{json}\n"))?;
        } else {
            crate::print(&format!("{}\n", text(&report)))?;
        }
        Ok(match report.failed + report.unfinished {
            0 => Outcome::Done,
            _ => Outcome::Failed,
        })
    }
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "{} looked at, {} split into {} more, {} moved",
        units::plural(report.directories, "directory", "directories"),
        units::count(report.split),
        units::plural(report.partitions, "partition", "partitions"),
        units::plural(report.moved, "entry", "entries"),
    );
    if report.unfinished > 0 {
        text.push_str(&format!(", {} unfinished", units::count(report.unfinished)));
    }
    text
}

/// Drawn on a terminal only.
fn bar() -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(4);
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

struct Work<'w> {
    client: &'w Client,
    caller: Credentials,
    map: &'w ClusterMap,
    rate: u32,
    begun: Instant,
    bar: ProgressBar,
    report: Report,
}

impl Work<'_> {
    /// The directory and all below it. Only directories that wait for their turn are in memory.
    fn all(&mut self, path: PathBuf, ino: Ino) {
        let mut waiting = vec![(path, ino)];
        while let Some((path, ino)) = waiting.pop() {
            self.report.directories += 1;
            self.tell(&self.report, &path);
            if let Err(error) = self.one(&path, ino).and_then(|()| {
                for entry in self.client.list(&self.caller, ino) {
                    let entry = entry?;
                    if entry.kind == FileKind::Dir {
                        let name = std::ffi::OsStr::from_bytes(entry.name.as_bytes());
                        waiting.push((path.join(name), entry.ino));
                    }
                }
                Ok(())
            }) && !error.is_gone()
            {
                self.report.failed += 1;
                eprintln!("pandofs: {}: {error}", path.display());
            }
        }
    }

    fn tell(&self, report: &Report, path: &Path) {
        self.bar
            .set_message(format!("{}: {}", text(report), path.display()));
        self.bar.tick();
    }

    /// Has one directory split as far as it is to, if it is.
    fn one(&mut self, path: &Path, ino: Ino) -> Result<(), ClientError> {
        let before = self.client.dir_info(&self.caller, ino)?;
        if splitting(self.map, &before) == 0 {
            return Ok(());
        }
        let mut known = before.map.active_count();
        let mut since = Instant::now();
        let mut renewed: Option<Instant> = None;
        let after = loop {
            let now = self.client.dir_info(&self.caller, ino)?;
            let splitting = splitting(self.map, &now);
            if splitting == 0 {
                break now;
            }
            if renewed.is_none_or(|renewed| renewed.elapsed() >= RENEWAL) {
                let rate = share(self.rate, splitting);
                self.client.spread(&self.caller, ino, rate)?;
                renewed = Some(Instant::now());
            }
            if now.map.active_count() != known {
                known = now.map.active_count();
                since = Instant::now();
            } else if since.elapsed() >= patience(&now, share(self.rate, splitting)) {
                self.report.unfinished += 1;
                break now;
            }
            self.tell(&self.report.with(&before, &now), path);
            std::thread::sleep(PAUSE);
        };
        self.report = self.report.with(&before, &after);
        std::thread::sleep(ahead(self.report.moved, self.rate, self.begun.elapsed()));
        Ok(())
    }
}

/// After which a split under way, from a shard that gives so many entries a second, has come to a stop.
fn patience(info: &DirInfo, rate: u32) -> Duration {
    let largest = info.parts.iter().map(|(_, part)| part.entries).max();
    let copying = largest.unwrap_or(0).checked_div(u64::from(rate));
    STALL + Duration::from_secs(copying.unwrap_or(0))
}

/// The part of the rate that is each shard's when so many give entries away.
fn share(rate: u32, splitting: usize) -> u32 {
    match rate {
        0 => 0,
        _ => (rate / u32::try_from(splitting).unwrap_or(u32::MAX)).max(1),
    }
}

/// How long to pause so that no more than `rate` entries a second have moved on average.
fn ahead(moved: u64, rate: u32, elapsed: Duration) -> Duration {
    if rate == 0 {
        return Duration::ZERO;
    }
    Duration::from_secs_f64(moved as f64 / f64::from(rate)).saturating_sub(elapsed)
}

fn partitions_on(info: &DirInfo, shard: ShardId) -> impl Iterator<Item = PartitionIndex> {
    let here = move |index: &PartitionIndex| info.map.shard_of_partition(*index) == shard;
    info.map.active().filter(here)
}

/// Shards that have a partition that is to split: one over the threshold that may (that all partitions of the shard
/// together have more than the threshold allows them says so), or one that is to spread to servers that joined.
fn splitting(map: &ClusterMap, info: &DirInfo) -> usize {
    let settings = &info.settings;
    let set = settings.max_partitions.or(map.settings.max_partitions);
    let initial = settings.initial_partitions.unwrap_or(0);
    let allowed = partitions_allowed(map, settings.max_partitions, &info.map);
    let is_renewed = renewed_slots(map, &info.map, set, (initial, info.ino.0)).is_some();
    let threshold = u64::from(settings.threshold.unwrap_or(map.settings.split_threshold));
    let is_splitting = |(shard, part): &&(ShardId, DirPart)| {
        let here: Vec<PartitionIndex> = partitions_on(info, *shard).collect();
        let may_split = |&index: &PartitionIndex| {
            info.map.next_child(index, allowed).is_some() && !is_to_stay(map, &info.map, set, index)
        };
        let is_over = part.entries > threshold * here.len() as u64 && here.iter().any(may_split);
        // Names are spread evenly, so what a partition has follows from how deep it is; somewhat more than the
        // shards want is asked for, as it follows only about.
        let size =
            |index: PartitionIndex| 1.0 / f64::from(1_u32 << info.map.depth_of(index).min(30));
        let whole: f64 = here.iter().map(|&index| size(index)).sum();
        let least = 1.5 * least_to_spread(threshold) as f64;
        let spreads = |&index: &PartitionIndex| {
            part.entries as f64 * size(index) / whole > least
                && (is_renewed || is_to_spread(map, &info.map, index, allowed))
        };
        is_over || here.iter().any(spreads)
    };
    info.parts.iter().filter(is_splitting).count()
}

/// Entries on shards that have more partitions than before, beyond those that they had.
fn moved(before: &DirInfo, after: &DirInfo) -> u64 {
    let had = |shard: ShardId| {
        let part = before.parts.iter().find(|(other, _)| *other == shard);
        let entries = part.map_or(0, |(_, part)| part.entries);
        (partitions_on(before, shard).count(), entries)
    };
    let grown = after.parts.iter().filter_map(|(shard, part)| {
        let (partitions, entries) = had(*shard);
        (partitions_on(after, *shard).count() > partitions)
            .then(|| part.entries.saturating_sub(entries))
    });
    grown.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_cluster::tests::options;
    use pandofs_api::DirSettings;
    use pandofs_placement::{DirMap, slot_array};
    use pandofs_types::Time;

    fn info(map: DirMap, entries: &[u64]) -> DirInfo {
        let part = |&entries: &u64| DirPart {
            entries,
            subdirs: 0,
            mtime: Time(0),
            ctime: Time(0),
            map: map.clone(),
        };
        let shards = map.shards();
        assert_eq!(shards.len(), entries.len());
        DirInfo {
            ino: Ino::new(map.home(), 7),
            parent: Ino::ROOT,
            settings: DirSettings {
                threshold: Some(100),
                ..DirSettings::default()
            },
            parts: shards.into_iter().zip(entries.iter().map(part)).collect(),
            map,
        }
    }

    #[test]
    fn a_large_directory_is_to_split_when_servers_joined() {
        let before = options()
            .create_map(vec!["unix:/0".into(), "unix:/1".into()])
            .unwrap();
        let joins = |id: u16| pandofs_placement::ServerInfo {
            id: pandofs_types::ServerId(id),
            addresses: vec![format!("unix:/{id}")],
            weight: pandofs_placement::ServerInfo::WEIGHT_ONE,
            domain: String::new(),
        };
        let after = before.with_servers(vec![joins(2), joins(3)]).unwrap();
        let slots = slot_array(&before, ShardId(0), before.max_partitions(), 1);
        let spread = DirMap::with_slots(slots.clone(), 2);
        let large = info(spread.clone(), &[1_000, 1_000]);
        assert_eq!(splitting(&before, &large), 0);
        assert_eq!(splitting(&after, &large), 2);
        // Full they are not, and a part of them is for the new servers; of a small directory it is not worth it.
        assert_eq!(splitting(&after, &info(spread.clone(), &[100, 100])), 2);
        assert_eq!(splitting(&after, &info(spread, &[30, 30])), 0);

        let mut grown = DirMap::with_slots(slots.clone(), 2);
        let renewed = renewed_slots(&after, &grown, None, (0, 7)).unwrap();
        assert_eq!(renewed.len(), 4);
        assert!(grown.renew_slots(renewed));
        grown.activate(PartitionIndex(2));
        let half = info(grown.clone(), &[500, 1_000, 500]);
        assert_eq!(splitting(&after, &half), 1);
        grown.activate(PartitionIndex(3));
        let whole = info(grown, &[500, 500, 500, 500]);
        assert_eq!(splitting(&after, &whole), 0);
        assert_eq!(moved(&large, &whole), 1_000);
        assert_eq!(moved(&half, &whole), 500);
        let begun = Report {
            split: 1,
            partitions: 3,
            moved: 70,
            ..Report::default()
        };
        assert_eq!(begun.with(&large, &large), begun);
        let half_way = Report {
            split: 2,
            partitions: 4,
            moved: 570,
            ..begun
        };
        assert_eq!(begun.with(&large, &half), half_way);
    }

    #[test]
    fn the_rate_is_kept_on_average() {
        let second = Duration::from_secs(1);
        assert_eq!(ahead(1_000, 0, Duration::ZERO), Duration::ZERO);
        assert_eq!(ahead(1_000, 500, second), second);
        assert_eq!(ahead(1_000, 500, 3 * second), Duration::ZERO);
        let slots = slot_array(
            &options().create_map(vec!["unix:/0".into()]).unwrap(),
            ShardId(0),
            1,
            1,
        );
        let large = info(DirMap::with_slots(slots, 1), &[6_000]);
        assert_eq!(patience(&large, 0), STALL);
        assert_eq!(patience(&large, 100), STALL + 60 * second);
        assert_eq!([share(0, 3), share(1_000, 3), share(2, 3)], [0, 333, 1]);
    }
}
