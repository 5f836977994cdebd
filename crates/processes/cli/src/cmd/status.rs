//! `pandofs status`

use crate::admin::{self, ServerView};
use crate::branch_points::BranchPoints;
use crate::exit::Outcome;
use crate::new_cluster::policy_text;
use crate::shares;
use crate::source::{Cluster, Source};
use crate::status_report::{Report, damaged};
use crate::table::{Align, Table};
use crate::units;
use anyhow::{Context, Result};
use clap::Args;
use pandofs_api::{ScrubState, ShardStatus};
use pandofs_placement::ClusterMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pandofs status --data /var/tmp/pando
  pandofs status --cluster cluster.json --watch
      again every second, with the requests of that second
  pandofs status --branch-points
      how many names have their inode on another shard, and what that costs
  pandofs status --json | jq '.servers[] | {id, entries}'
  pandofs status --json | jq '.servers[] | {id, domain, weight, share}'
      what each has of all weight, shards and inodes, as parts of 1

A server that does not answer is shown as away, and the exit code is then 3. Counters count from
the server's start; entries, inodes and splits are of the file system. 'to servers' are messages
that a server sent to others. Where servers were given weights or failure domains a second table
has them, and what each server has of all shards and inodes beside its part of all weight.";

/// Between two questions of `--wait`.
const WAIT_PAUSE: Duration = Duration::from_millis(50);
/// Time that a server has for its answer at least, however little is left of `--wait`.
const LEAST_LIMIT: Duration = Duration::from_millis(500);

/// Show servers, shards, entries, splits, logs and counters
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Status {
    #[command(flatten)]
    source: Source,
    /// Print JSON
    #[arg(long, conflicts_with = "watch")]
    json: bool,
    /// Show it again and again, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
          default_missing_value = "1", value_parser = units::parse_duration)]
    watch: Option<Duration>,
    /// Show every shard
    #[arg(long)]
    shards: bool,
    /// Also count the names whose inode is on another shard, which takes reading all there is
    #[arg(long, conflicts_with = "watch")]
    branch_points: bool,
    /// Wait up to this long until the cluster is there and all its servers answer
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    wait: Option<Duration>,
}

impl Status {
    /// # Errors
    /// When the cluster is not found; a server that is away is an outcome.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let deadline = Instant::now() + self.wait.unwrap_or_default();
        let cluster = self.find(deadline)?;
        if let Some(period) = self.watch {
            return self.watch(&cluster, period.max(Duration::from_millis(100)));
        }
        let views = match self.wait {
            Some(_) => wait_for_all(&cluster.map, deadline),
            None => admin::ask_all(&cluster.map),
        };
        let all_there = outcome(&views) == Outcome::Done;
        let branches = (self.branch_points && all_there).then(|| BranchPoints::count(&cluster));
        let branches = branches.transpose()?;
        if self.json {
            let mut report = Report::new(&cluster, &views);
            report.branch_points = branches.as_ref().map(BranchPoints::report);
            let text = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
            crate::print(&format!("{text}\n"))?;
        } else {
            let mut shown = text(&cluster, &views, None, self.shards);
            if let Some(branches) = &branches {
                shown.push_str(&format!("\n{}", branches.table(&views)));
            }
            crate::print(&shown)?;
        }
        for view in &views {
            if let Err(error) = &view.status {
                eprintln!("pandofs: server {} is away: {error}", view.info.id);
            }
        }
        Ok(outcome(&views))
    }

    /// With `--wait`, also a cluster that is about to be made is found.
    fn find(&self, deadline: Instant) -> Result<Cluster> {
        loop {
            let found = self.source.find(None);
            if found.is_ok() || Instant::now() >= deadline {
                return found;
            }
            std::thread::sleep(WAIT_PAUSE);
        }
    }

    fn watch(&self, cluster: &Cluster, period: Duration) -> Result<Outcome> {
        let clear = if std::io::stdout().is_terminal() {
            "\x1b[H\x1b[2J"
        } else {
            ""
        };
        let mut before: Option<(Instant, Vec<u64>)> = None;
        loop {
            let asked = Instant::now();
            let views = admin::ask_all(&cluster.map);
            let counts: Vec<u64> = views.iter().map(requests).collect();
            let rates = before.as_ref().map(|(at, last)| {
                let seconds = (asked - *at).as_secs_f64();
                let pairs = counts.iter().zip(last);
                pairs
                    .map(|(now, last)| (now.saturating_sub(*last) as f64 / seconds) as u64)
                    .collect()
            });
            let shown = text(cluster, &views, rates, self.shards);
            if !crate::print_on(&format!("{clear}{shown}\n"))? {
                return Ok(Outcome::Done);
            }
            before = Some((asked, counts));
            std::thread::sleep(period.saturating_sub(asked.elapsed()));
        }
    }
}

/// Until all answer, or the time is over.
fn wait_for_all(map: &ClusterMap, deadline: Instant) -> Vec<ServerView> {
    loop {
        // One that is stopped takes a connection and says nothing: it is not to be waited for longer than was asked.
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = left.clamp(LEAST_LIMIT, admin::ANSWER_TIMEOUT);
        let views = admin::ask_all_within(map, limit);
        if outcome(&views) == Outcome::Done || Instant::now() >= deadline {
            return views;
        }
        std::thread::sleep(WAIT_PAUSE);
    }
}

fn outcome(views: &[ServerView]) -> Outcome {
    if views.iter().all(|view| view.status.is_ok()) {
        Outcome::Done
    } else {
        Outcome::ServerAway
    }
}

fn requests(view: &ServerView) -> u64 {
    view.status.as_ref().map_or(0, |status| status.requests)
}

/// Output for people. `rates`: requests per second since the last time, by server.
fn text(
    cluster: &Cluster,
    views: &[ServerView],
    rates: Option<Vec<u64>>,
    all_shards: bool,
) -> String {
    let map = &cluster.map;
    let mut text = format!(
        "{} ({})  epoch {}  {}  {} shards  policy {}\n\n",
        map.name,
        map.fs,
        map.epoch,
        units::plural(map.servers.len() as u64, "server", "servers"),
        map.shard_count(),
        policy_text(map.policy)
    );
    let mut table = Table::new(&[
        ("server", Align::Left),
        ("shards", Align::Right),
        ("entries", Align::Right),
        ("", Align::Left),
        ("inodes", Align::Right),
        ("splits", Align::Right),
        (
            if rates.is_some() {
                "requests/s"
            } else {
                "requests"
            },
            Align::Right,
        ),
        ("redirected", Align::Right),
        ("distributed", Align::Right),
        ("to servers", Align::Right),
        ("undecided", Align::Right),
        ("locks", Align::Right),
        ("lock waits", Align::Right),
        ("leases", Align::Right),
        ("recalled", Align::Right),
        ("log", Align::Right),
        ("syncs", Align::Right),
        ("store", Align::Right),
        ("pid", Align::Right),
        ("up", Align::Right),
    ]);
    const BAR: usize = 12;
    let most = views
        .iter()
        .map(|view| view.sum(|shard| shard.entries))
        .max()
        .unwrap_or(0);
    for (at, view) in views.iter().enumerate() {
        let entries = view.sum(|shard| shard.entries);
        let Ok(status) = &view.status else {
            let mut row = vec![view.info.id.to_string(), "away".into()];
            row.resize(table.width(), "-".into());
            row[3] = String::new();
            table.row(row);
            continue;
        };
        let rate = rates.as_ref().and_then(|rates| rates.get(at).copied());
        table.row(vec![
            status.id.to_string(),
            units::count(status.shards.len() as u64),
            units::count(entries),
            units::bar(entries, most, BAR),
            units::count(view.sum(|shard| shard.inodes)),
            units::count(view.sum(|shard| shard.splits)),
            units::count(rate.unwrap_or(status.requests)),
            units::count(status.redirected),
            units::count(status.distributed),
            units::count(status.peer_messages),
            units::count(view.sum(|shard| shard.undecided)),
            units::count(view.sum(|shard| shard.locks)),
            units::count(view.sum(|shard| shard.lock_waiters)),
            units::count(view.sum(|shard| shard.leases)),
            units::count(view.sum(|shard| shard.recalled)),
            units::bytes(status.log_bytes),
            units::count(status.log_syncs),
            units::bytes(status.store_bytes),
            status.pid.to_string(),
            units::duration(Duration::from_millis(status.uptime_ms)),
        ]);
    }
    text.push_str(&table.to_string());
    text.push('\n');
    if let Some(shares) = shares::table(map, views) {
        text.push_str(&format!("{shares}\n"));
    }
    for view in views {
        let address = view.info.addresses.join(" ");
        let epoch = match &view.status {
            Ok(status) if status.epoch != map.epoch => {
                format!(
                    "  goes by epoch {} of the map, the file has {}",
                    status.epoch, map.epoch
                )
            }
            _ => String::new(),
        };
        text.push_str(&format!(
            "{}  {address}{epoch}{}{}\n",
            view.info.id,
            placing(view),
            scrubbing(view)
        ));
    }
    if all_shards {
        text.push('\n');
        text.push_str(&shard_table(views).to_string());
    }
    text
}

/// Granularity by which the server places at present, where the policy adapts.
fn placing(view: &ServerView) -> String {
    let granularity = view
        .status
        .as_ref()
        .ok()
        .and_then(|status| status.granularity);
    granularity.map_or(String::new(), |size| {
        format!(
            "  adaptive: depth {}, width {}, {} files",
            size.dir_depth, size.dir_width, size.file_width
        )
    })
}

/// Damage, and the state of scrubbing, in words.
fn scrubbing(view: &ServerView) -> String {
    let Some(scrub) = &view.scrub else {
        return String::new();
    };
    let share = u64::from(scrub.share) / 10;
    let mut text = match scrub.state {
        ScrubState::Idle => String::new(),
        ScrubState::Running => format!("  scrubbing, {share} %"),
        ScrubState::Paused => "  scrubbing is paused".to_owned(),
    };
    if damaged(scrub) > 0 {
        let places = units::plural(damaged(scrub), "place is", "places are");
        text.push_str(&format!("  {places} damaged (see 'pandofs scrub')"));
    }
    text
}

fn shard_table(views: &[ServerView]) -> Table {
    let right = |title| (title, Align::Right);
    let mut table = Table::new(&[
        right("shard"),
        right("server"),
        right("entries"),
        right("inodes"),
        right("partitions"),
        right("splits"),
        right("applied"),
        right("synced"),
        right("undecided"),
        right("waiting"),
        right("reclaiming"),
        right("opens"),
        right("locks"),
        right("lock waits"),
        right("leases"),
    ]);
    let mut shards: Vec<(u16, &ShardStatus)> = Vec::new();
    for view in views {
        if let Ok(status) = &view.status {
            shards.extend(status.shards.iter().map(|shard| (status.id.0, shard)));
        }
    }
    shards.sort_by_key(|(_, shard)| shard.shard);
    for (server, shard) in shards {
        let numbers = [
            shard.entries,
            shard.inodes,
            shard.partitions,
            shard.splits,
            shard.applied,
            shard.synced,
            shard.undecided,
            shard.waiting,
            shard.reclaiming,
            shard.opens,
            shard.locks,
            shard.lock_waiters,
            shard.leases,
        ];
        let mut row = vec![shard.shard.to_string(), server.to_string()];
        row.extend(numbers.map(units::count));
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::AdminError;
    use crate::new_cluster::tests::options;
    use pandofs_api::{ScrubReport, ServerStatus};
    use pandofs_types::{Epoch, ServerId};

    /// Two servers of which the second is away.
    fn views() -> (Cluster, Vec<ServerView>) {
        let map = options()
            .create_map(vec!["unix:/a".into(), "unix:/b".into()])
            .unwrap();
        let shard = |shard, entries| ShardStatus {
            shard,
            entries,
            splits: 1,
            ..Default::default()
        };
        let status = ServerStatus {
            id: ServerId(0),
            fs: map.fs,
            epoch: Epoch(7),
            pid: 12,
            uptime_ms: 2_000,
            shards: vec![shard(0, 1_000), shard(2, 234)],
            connections: 0,
            sessions: 0,
            requests: 5_000,
            redirected: 3,
            data_requests: 0,
            data_read: 0,
            data_written: 0,
            peer_messages: 6_789,
            distributed: 0,
            aborted: 0,
            log_bytes: 4_096,
            log_syncs: 0,
            log_records: 0,
            log_batches: 0,
            store_bytes: 0,
            granularity: None,
        };
        let scrub = ScrubReport {
            state: ScrubState::Running,
            share: 345,
            damaged: vec![(1, 2)],
            faults: vec!["the store".into()],
            ..ScrubReport::default()
        };
        let views = vec![
            ServerView {
                info: map.servers[0].clone(),
                status: Ok(status),
                scrub: Some(scrub),
            },
            ServerView {
                info: map.servers[1].clone(),
                status: Err(AdminError::NoAddress),
                scrub: None,
            },
        ];
        (
            Cluster {
                map_path: "/map".into(),
                map,
                data: None,
            },
            views,
        )
    }

    #[test]
    fn json_has_the_promised_fields() {
        let (cluster, views) = views();
        let report = serde_json::to_value(Report::new(&cluster, &views)).unwrap();
        let up = &report["servers"][0];
        for (field, value) in [
            ("id", 0),
            ("shards", 2),
            ("entries", 1_234),
            ("splits", 2),
            ("requests", 5_000),
            ("redirected", 3),
            ("log_bytes", 4_096),
            ("inodes", 0),
            ("damaged", 2),
            ("scrub_share", 345),
        ] {
            assert_eq!(up[field], value, "{field}");
        }
        assert_eq!(up["address"], "unix:/a");
        assert_eq!(up["scrub"], "running");
        let away = &report["servers"][1];
        assert_eq!(away["state"], "away");
        assert!(away.get("entries").is_none());
        assert_eq!(away["weight"], 1.0);
        assert_eq!(away["domain"], "server-1");
        assert_eq!(away["share"]["weight"], 0.5);
        assert!(away["share"].get("inodes").is_none());
        assert!(away["error"].as_str().unwrap().contains("no address"));
        assert_eq!(outcome(&views), Outcome::ServerAway);
    }

    #[test]
    fn waiting_ends_when_it_is_to_end_also_with_a_server_that_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        // It takes connections, as a stopped server's kernel does.
        let _silent = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let addresses = vec![format!("unix:{}", path.display())];
        let map = options().create_map(addresses).unwrap();
        let began = Instant::now();
        let views = wait_for_all(&map, began + Duration::from_millis(100));
        assert_eq!(outcome(&views), Outcome::ServerAway);
        let error = views[0].status.as_ref().unwrap_err().to_string();
        assert_eq!(error, "no answer within 0.5 s");
        assert!(began.elapsed() < admin::ANSWER_TIMEOUT);
    }

    #[test]
    fn a_person_sees_what_is_away_and_another_epoch() {
        let (cluster, views) = views();
        let text = text(&cluster, &views, None, true);
        let row = text.lines().find(|line| line.starts_with("0 ")).unwrap();
        assert!(
            ["1,234", "5,000", "6,789", "4.0 KiB"]
                .iter()
                .all(|value| row.contains(value)),
            "{row}"
        );
        assert!(
            text.contains("scrubbing, 34 %  2 places are damaged"),
            "{text}"
        );
        let row = text.lines().find(|line| line.starts_with("1 ")).unwrap();
        assert!(row.contains("away"), "{row}");
        assert!(
            text.contains("goes by epoch 7 of the map, the file has 1"),
            "{text}"
        );
        assert!(!text.contains("of all weight"), "{text}");
    }
}
