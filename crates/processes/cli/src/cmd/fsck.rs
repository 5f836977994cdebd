//! `pandofs fsck`

use crate::error_text::error_text;
use crate::exit::Outcome;
use crate::source::{Cluster, Source};
use crate::units;
use crate::{damage, dump};
use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pandofs_check::recovery::recover;
use pandofs_check::{ClusterDump, Places, Problem, Tables, check, lasting};
use pandofs_types::Time;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Checks of a file system in use before a problem is reported.
const PASSES: usize = 5;
/// Between two of them.
const PAUSE: Duration = Duration::from_secs(1);
/// Problems that are printed; all of them with --json.
const SHOWN: usize = 50;

const EXAMPLES: &str = "\
Examples:
  pandofs fsck --data /var/tmp/pando
      while it is in use
  pandofs fsck --offline --data /var/tmp/pando
      on the servers' directories, all of them stopped
  pandofs fsck --offline --cluster cluster.json --server-data /srv/0 --server-data /srv/1
  pandofs fsck --json | jq '.problems[]'

It looks at everything that is stored and changes nothing. While the file system is in use, an
operation over several servers may be seen on one of them and not yet on the next, which looks
like a problem and is none: when something is found it is looked for again, up to 5 times with 1 s
between, and only what is found each time in the same words is reported. What changed all the
while is counted as undecided; check again when it is quieter. What a server that was killed or
stopped may leave behind for a while is waited for, up to a minute or so. What is not, because of
--patience or as a server has started again meanwhile, is told and is no problem; so is what the
data of stopped servers has of this kind: what looks wrong there because an operation was under
way is looked at once more as the servers will have it when they have started again and finished
it, which is tried out in memory.

The data of files is not read. What running servers know to be damaged of it is told, with the
files: what somebody has met, and what the last scrub has found. 'pandofs scrub' reads everything.";

/// Check that everything stored is consistent
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Fsck {
    #[command(flatten)]
    source: Source,
    /// Read the directories of stopped servers instead of asking running ones
    #[arg(long)]
    offline: bool,
    /// With --offline: a server's directory, once for each [default: those of --data]
    #[arg(long, value_name = "DIR", requires = "offline")]
    server_data: Vec<PathBuf>,
    /// Do not wait for what a killed server may leave behind for longer than that, as 20s
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, conflicts_with = "offline")]
    patience: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Result of a check.
#[derive(Debug)]
pub(crate) struct Checked {
    pub problems: Vec<Problem>,
    /// Seen each time, but never twice the same.
    pub undecided: Vec<Problem>,
    /// Remains of a killed or stopped server, which the running ones clear away.
    pub passing: Vec<Problem>,
    pub records: u64,
    pub passes: usize,
}

impl Checked {
    pub(crate) fn summary(&self) -> String {
        let passes = units::plural(self.passes as u64, "pass", "passes");
        let found = match self.problems.len() as u64 {
            0 => "no problem".to_owned(),
            count => units::plural(count, "problem", "problems"),
        };
        let undecided = match self.undecided.len() {
            0 => String::new(),
            count => format!(", {count} undecided: they changed all the while"),
        };
        let passing = match self.passing.len() {
            0 => String::new(),
            count => format!(", {count} left behind for a while"),
        };
        format!(
            "{found}{undecided}{passing}; {} records, {passes}",
            units::count(self.records)
        )
    }
}

impl Fsck {
    /// # Errors
    /// When not everything could be read; what is wrong with the file system is an outcome.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let cluster = self.source.find(None)?;
        let shown = progress();
        let checked = if self.offline {
            self.check_offline(&cluster)
        } else {
            let patience = self.patience.unwrap_or(Duration::MAX);
            check_online(&cluster, patience, &mut |records| {
                shown.set_position(records);
            })
        };
        shown.finish_and_clear();
        let checked = match checked {
            Ok(checked) => checked,
            Err(error) if error.downcast_ref::<dump::ServerAway>().is_some() => {
                eprintln!("pandofs: {}", error_text(&error));
                return Ok(Outcome::ServerAway);
            }
            Err(error) => match error.downcast::<dump::Unreadable>() {
                Ok(unreadable) => {
                    let mut checked = damaged(unreadable);
                    // Without the names, which are in what cannot be read.
                    let (reports, away) = damage::reports(&cluster.map);
                    say_untold(&away);
                    let of_data = damage::problems(&reports, Places::default);
                    checked.problems.extend(of_data);
                    checked
                }
                Err(error) => return Err(error),
            },
        };
        if self.json {
            crate::print(&json(&checked)?)?;
        } else {
            let mut text = String::new();
            for problem in checked.problems.iter().take(SHOWN) {
                text.push_str(&format!("{problem}\n"));
            }
            if checked.problems.len() > SHOWN {
                text.push_str(&format!("… and {} more\n", checked.problems.len() - SHOWN));
            }
            for passing in checked.passing.iter().take(SHOWN) {
                text.push_str(&format!("no problem yet: {passing}\n"));
            }
            crate::print(&format!("{text}{}\n", checked.summary()))?;
        }
        Ok(if checked.problems.is_empty() {
            Outcome::Done
        } else {
            Outcome::ProblemsFound
        })
    }

    fn check_offline(&self, cluster: &Cluster) -> Result<Checked> {
        let directories = match (&self.server_data[..], &cluster.data) {
            ([], Some(data)) => {
                if data.is_held()? {
                    bail!(
                        "'pandofs up' runs on {}: stop it, or check without --offline",
                        data.root().display()
                    );
                }
                cluster
                    .map
                    .servers
                    .iter()
                    .map(|server| data.server_data(server.id))
                    .collect()
            }
            ([], None) => bail!(
                "--offline needs the servers' directories: --data of a cluster made by 'pandofs up', \
                 or --server-data once for each server, in the order of their numbers"
            ),
            (given, _) => given.to_vec(),
        };
        if directories.len() != cluster.map.servers.len() {
            bail!(
                "the cluster has {} servers, and {} directories are given with --server-data",
                cluster.map.servers.len(),
                directories.len()
            );
        }
        let picture = dump::offline(&cluster.map, &directories)?;
        let records = picture.records;
        let (mut problems, mut passing): (Vec<_>, Vec<_>) = picture
            .check()
            .into_iter()
            // It goes away by itself once the servers run.
            .partition(|problem| problem.patience.is_zero());
        if !problems.is_empty() && is_unfinished(&picture.tables) {
            let first = problems;
            drop(picture);
            let dump = dump::offline_as_stored(&cluster.map, &directories)?;
            problems = after_recovery(dump, &first);
            let of_operations = first.into_iter().filter(|found| !problems.contains(found));
            passing.extend(of_operations);
        }
        Ok(Checked {
            problems,
            undecided: Vec::new(),
            passing,
            records,
            passes: 1,
        })
    }
}

/// Whether operations over several shards were under way when the servers stopped.
fn is_unfinished(tables: &Tables) -> bool {
    tables.transactions.iter().any(|of| !of.ended)
}

/// Problems that remain when the shards have finished what was under way; if they cannot, all that
/// was `found` and more.
fn after_recovery(dump: ClusterDump, found: &[Problem]) -> Vec<Problem> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = Time(i64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(i64::MAX));
    // A shard panics where what it has stored cannot be.
    let finished = std::thread::Builder::new()
        .name("recovery".to_owned())
        .spawn(move || recover(&dump, now))
        .map(|thread| thread.join());
    let why = match finished {
        Ok(Ok(Ok(finished))) => {
            let mut left = check(&finished);
            left.retain(|problem| problem.patience.is_zero());
            return left;
        }
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(_)) => "a shard stopped on what it has stored".to_owned(),
        Err(error) => format!("no thread can be started for it: {error}"),
    };
    let problem = Problem {
        oracle: "operations",
        subject: "what was under way when the servers stopped".to_owned(),
        text: format!("it cannot be finished: {why}"),
        patience: Duration::ZERO,
    };
    std::iter::once(problem)
        .chain(found.iter().cloned())
        .collect()
}

/// These servers went away while the others were asked.
fn say_untold(away: &[dump::ServerAway]) {
    for error in away {
        let (server, error) = (error.server, &error.error);
        eprintln!(
            "pandofs: server {server} is away, and damage that it knows of is not shown: {error}"
        );
    }
}

/// Reports an unreadable store as a problem, which keeps others from being looked for.
fn damaged(unreadable: dump::Unreadable) -> Checked {
    let problem = Problem {
        oracle: "readable",
        subject: format!("server {}", unreadable.server),
        text: unreadable.why,
        patience: Duration::ZERO,
    };
    Checked {
        problems: vec![problem],
        undecided: Vec::new(),
        passing: Vec::new(),
        records: 0,
        passes: 1,
    }
}

/// Checks a file system in use; `progress` gets the number of records read so far. Leftovers of a killed server that may
/// stay for longer than `patience` are not waited for. Data that is known to be damaged is among the problems.
///
/// # Errors
/// [`dump::ServerAway`] when a server does not answer, [`dump::Unreadable`] when it cannot read its store.
pub(crate) fn check_online(
    cluster: &Cluster,
    patience: Duration,
    progress: &mut dyn FnMut(u64),
) -> Result<Checked> {
    let started = Instant::now();
    let mut pids = dump::pids(&cluster.map)?;
    let mut all_ran_since = started;
    let mut checks = Vec::new();
    let mut records = 0;
    loop {
        let picture = dump::online(&cluster.map, &mut |read| progress(records + read))?;
        records += picture.records;
        let (awaited, mut passing): (Vec<_>, Vec<_>) = picture
            .check()
            .into_iter()
            .partition(|problem| problem.patience <= patience);
        checks.push(awaited);
        let pids_now = dump::pids(&cluster.map)?;
        if pids_now != pids {
            // The time that it takes to clear away begins again with a server's start.
            (pids, all_ran_since) = (pids_now, Instant::now());
        }
        let found = lasting(&checks);
        let enough = checks.len() >= PASSES;
        let waits = |problem: &Problem| problem.patience > started.elapsed();
        if (enough && !found.problems.iter().any(waits))
            || (found.problems.is_empty() && found.changing.is_empty())
        {
            let (young, mut problems): (Vec<_>, Vec<_>) = found
                .problems
                .into_iter()
                .partition(|problem| problem.patience > all_ran_since.elapsed());
            passing.extend(young);
            let (reports, mut away) = damage::reports(&cluster.map);
            let places = || Places::new(&picture.tables);
            problems.extend(damage::problems(&reports, places));
            // Problems found are shown nevertheless.
            match problems.is_empty() {
                true if !away.is_empty() => return Err(away.swap_remove(0).into()),
                _ => say_untold(&away),
            }
            return Ok(Checked {
                problems,
                undecided: found.changing,
                passing,
                records,
                passes: checks.len(),
            });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Drawn on a terminal, and only when it takes a while.
fn progress() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
    if let Ok(style) = ProgressStyle::with_template("{spinner} {human_pos} records read") {
        bar.set_style(style);
    }
    bar
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
fn json(checked: &Checked) -> Result<String> {
    #[derive(Serialize)]
    struct Found<'c> {
        check: &'c str,
        subject: &'c str,
        text: &'c str,
    }
    #[derive(Serialize)]
    struct Report<'c> {
        clean: bool,
        records: u64,
        passes: usize,
        problems: Vec<Found<'c>>,
        undecided: Vec<Found<'c>>,
        passing: Vec<Found<'c>>,
    }
    fn list(problems: &[Problem]) -> Vec<Found<'_>> {
        problems
            .iter()
            .map(|p| Found {
                check: p.oracle,
                subject: &p.subject,
                text: &p.text,
            })
            .collect()
    }
    let report = Report {
        clean: checked.problems.is_empty(),
        records: checked.records,
        passes: checked.passes,
        problems: list(&checked.problems),
        undecided: list(&checked.undecided),
        passing: list(&checked.passing),
    };
    Ok(serde_json::to_string_pretty(&report).context("cannot write JSON")? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_summed_up_and_printed() {
        let problem = |subject: &str| Problem {
            oracle: "links",
            subject: subject.into(),
            text: "it counts 2 links and has 1 names".into(),
            patience: Duration::ZERO,
        };
        let mut checked = Checked {
            problems: vec![],
            undecided: vec![],
            passing: vec![],
            records: 1_234,
            passes: 1,
        };
        assert_eq!(checked.summary(), "no problem; 1,234 records, 1 pass");
        checked.problems = vec![problem("inode 0.5 on shard 0")];
        checked.undecided = vec![problem("inode 0.6 on shard 0")];
        checked.passes = 5;
        assert_eq!(
            checked.summary(),
            "1 problem, 1 undecided: they changed all the while; 1,234 records, 5 passes"
        );
        checked.problems.clear();
        checked.passing = checked.undecided.clone();
        assert_eq!(
            checked.summary(),
            "no problem, 1 undecided: they changed all the while, 1 left behind for a while; 1,234 records, 5 passes"
        );
        let sound: serde_json::Value = serde_json::from_str(&json(&checked).unwrap()).unwrap();
        assert_eq!(sound["clean"], true);
        assert_eq!(sound["passing"][0]["subject"], "inode 0.6 on shard 0");
        checked.problems = vec![problem("inode 0.5 on shard 0")];
        let json: serde_json::Value = serde_json::from_str(&json(&checked).unwrap()).unwrap();
        assert_eq!(json["clean"], false);
        assert_eq!(json["problems"][0]["check"], "links");
        assert_eq!(json["undecided"][0]["subject"], "inode 0.6 on shard 0");
    }
}
