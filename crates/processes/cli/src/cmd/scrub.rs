//! `pandofs scrub`

use crate::admin::{AdminConnection, AdminError};
use crate::damage::{Damage, Damaged, Failing};
use crate::dump;
use crate::exit::Outcome;
use crate::source::{Cluster, Source};
use crate::units;
use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pandofs_api::{ScrubOrder, ScrubReport, ScrubState};
use pandofs_check::Places;
use pandofs_placement::{ClusterMap, ServerInfo};
use pandofs_types::{Ino, ServerId};
use serde::Serialize;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two questions how it goes.
const PAUSE: Duration = Duration::from_millis(200);
/// Thousandths of one server's pass.
const WHOLE: u64 = 1_000;
/// Damaged blocks that are printed; all that the servers tell of with --json.
const SHOWN: usize = 100;

const EXAMPLES: &str = "\
Examples:
  pandofs scrub --data /var/tmp/pando
      read everything now, and wait for it
  pandofs scrub --cluster cluster.json --rate 20M
      slowly, while others work
  pandofs scrub --pause
      nothing is scrubbed until --resume, or until a server is started again
  pandofs scrub --json | jq '.damaged[].paths'

Every server reads its store, its log and its data objects from the disk and compares them with
their checksums. Servers do that by themselves from time to time (pandofs serve --scrub-interval).
Nothing is repaired: a damaged block is an error (EIO) to whoever reads it, and the rest of its
file is as it was. A block that is written whole, cut off or removed is damaged no more. Ctrl-C
ends the waiting; the servers go on.";

/// Read everything that is stored and compare it with its checksums
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Scrub {
    #[command(flatten)]
    source: Source,
    /// Bytes a second that each server reads at most, as 500K, 20M or 1G; 0 for no limit
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes, default_value = DEFAULT_RATE)]
    rate: u64,
    /// Let the servers scrub nothing for now
    #[arg(long, conflicts_with_all = ["resume", "rate", "json"])]
    pause: bool,
    /// Let them go on
    #[arg(long, conflicts_with_all = ["rate", "json"])]
    resume: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Bytes a second that each server reads when it is asked to scrub, unless another rate is given.
const DEFAULT_RATE: &str = "100M";

/// Outcome of one server's pass.
#[derive(Debug)]
enum End {
    Report(Box<ScrubReport>),
    /// It does not answer.
    Away(AdminError),
    /// It was started anew meanwhile, so its pass did not end.
    StartedAnew,
}

impl Scrub {
    /// # Errors
    /// When it cannot be said what there is; damage is an outcome.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let cluster = self.source.find(None)?;
        if self.pause {
            return Ok(tell_all(&cluster.map, ScrubOrder::Pause));
        }
        if self.resume {
            return Ok(tell_all(&cluster.map, ScrubOrder::Resume));
        }
        let ends = scrub_all(&cluster.map, self.rate);
        let damage = damage(&cluster, &ends);
        if self.json {
            crate::print(&json(&ends, &damage)?)?;
        } else {
            crate::print(&text(&ends, &damage))?;
        }
        for (server, end) in &ends {
            match end {
                End::Report(_) => {}
                End::Away(error) => eprintln!("pandofs: server {server} is away: {error}"),
                End::StartedAnew => {
                    eprintln!("pandofs: server {server} was started anew meanwhile: scrub again");
                }
            }
        }
        Ok(outcome(&ends))
    }
}

fn outcome(ends: &[(ServerId, End)]) -> Outcome {
    let reports = || ends.iter().filter_map(|(_, end)| end.report());
    let is_sound = |report: &ScrubReport| {
        report.damaged.is_empty() && report.failing.is_empty() && report.faults.is_empty()
    };
    if !reports().all(is_sound) {
        Outcome::ProblemsFound
    } else if reports().count() < ends.len() {
        Outcome::ServerAway
    } else {
        Outcome::Done
    }
}

impl End {
    fn report(&self) -> Option<&ScrubReport> {
        match self {
            End::Report(report) => Some(report),
            End::Away(_) | End::StartedAnew => None,
        }
    }
}

fn tell_all(map: &ClusterMap, order: ScrubOrder) -> Outcome {
    let mut outcome = Outcome::Done;
    for server in &map.servers {
        let answer = AdminConnection::open(map.fs, server)
            .and_then(|mut connection| connection.scrub(order));
        if let Err(error) = answer {
            eprintln!("pandofs: server {} is away: {error}", server.id);
            outcome = Outcome::ServerAway;
        }
    }
    outcome
}

/// Has all servers scrub at once, and waits.
fn scrub_all(map: &ClusterMap, rate: u64) -> Vec<(ServerId, End)> {
    let progress = Progress::new(map.servers.len());
    let ends = std::thread::scope(|scope| {
        let passes: Vec<_> = (0..)
            .zip(&map.servers)
            .map(|(at, server)| {
                let progress = &progress;
                scope.spawn(move || scrub(map, server, rate, &|report| progress.show(at, report)))
            })
            .collect();
        let servers = map.servers.iter().zip(passes);
        servers
            .map(|(server, pass)| {
                let panicked = |_| {
                    let why = "the thread that asked it panicked".into();
                    End::Away(AdminError::Protocol(why))
                };
                (server.id, pass.join().unwrap_or_else(panicked))
            })
            .collect()
    });
    progress.bar.finish_and_clear();
    ends
}

fn scrub(map: &ClusterMap, server: &ServerInfo, rate: u64, show: &dyn Fn(&ScrubReport)) -> End {
    let pass = || -> Result<Option<ScrubReport>, AdminError> {
        let mut connection = AdminConnection::open(map.fs, server)?;
        let mut now = connection.scrub(ScrubOrder::Begin { rate })?;
        let mine = now.pass;
        loop {
            if now.pass < mine {
                return Ok(None);
            }
            if now.finished >= mine {
                return Ok(Some(now));
            }
            show(&now);
            std::thread::sleep(PAUSE);
            now = connection.scrub(ScrubOrder::Look)?;
        }
    };
    match pass() {
        Ok(Some(report)) => End::Report(Box::new(report)),
        Ok(None) => End::StartedAnew,
        Err(error) => End::Away(error),
    }
}

/// All servers' passes as one bar, drawn on a terminal only.
struct Progress {
    bar: ProgressBar,
    /// Of each server: thousandths, bytes, and whether it is paused.
    parts: Mutex<Vec<(u64, u64, bool)>>,
    /// Whether it was printed, where there is no bar, that it waits for others to let servers go
    /// on.
    is_pause_printed: AtomicBool,
}

impl Progress {
    fn new(servers: usize) -> Progress {
        let whole = WHOLE * servers as u64;
        let target = ProgressDrawTarget::stderr_with_hz(4);
        let bar = ProgressBar::with_draw_target(Some(whole), target);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Progress {
            bar,
            parts: Mutex::new(vec![(0, 0, false); servers]),
            is_pause_printed: AtomicBool::new(false),
        }
    }

    fn show(&self, at: usize, report: &ScrubReport) {
        let Ok(mut parts) = self.parts.lock() else {
            return;
        };
        let is_paused = report.state == ScrubState::Paused;
        if is_paused && self.bar.is_hidden() && !self.is_pause_printed.swap(true, Ordering::Relaxed)
        {
            eprintln!("pandofs: scrubbing is paused: waiting for 'pandofs scrub --resume'");
        }
        parts[at] = (u64::from(report.share), report.bytes, is_paused);
        let bytes = parts.iter().map(|part| part.1).sum();
        let paused = parts.iter().filter(|part| part.2).count() as u64;
        let mut message = format!("{} read", units::bytes(bytes));
        if paused > 0 {
            let servers = units::plural(paused, "server", "servers");
            message.push_str(&format!(", {servers} paused (--resume)"));
        }
        self.bar.set_message(message);
        self.bar.set_position(parts.iter().map(|part| part.0).sum());
    }
}

/// All of it, with what the name space says.
fn damage(cluster: &Cluster, ends: &[(ServerId, End)]) -> Damage {
    let reports = ends
        .iter()
        .filter_map(|(server, end)| Some((*server, end.report()?)));
    Damage::of(reports, || places(cluster))
}

/// None when it cannot be had: then blocks go by the numbers of their inodes.
fn places(cluster: &Cluster) -> Places {
    match dump::online(&cluster.map, &mut |_| {}) {
        Ok(picture) => Places::new(&picture.tables),
        Err(error) => {
            eprintln!("pandofs: the paths of damaged files are not known: {error}");
            Places::default()
        }
    }
}

/// Output for people.
fn text(ends: &[(ServerId, End)], damage: &Damage) -> String {
    let mut text = String::new();
    for (server, end) in ends {
        let faults = end.report().map_or(&[][..], |report| &report.faults);
        for fault in faults {
            text.push_str(&format!("server {server}: {fault}\n"));
        }
    }
    for object in &damage.objects {
        let (server, file) = (object.server, object.file());
        let (what, ino) = (&object.what, Ino(object.inode));
        text.push_str(&format!("server {server}: {file}: {what} (inode {ino})\n"));
    }
    let damaged = &damage.blocks;
    for block in damaged.iter().take(SHOWN) {
        let (file, bytes) = block.place();
        // Into a string: that cannot fail.
        let _ = writeln!(
            text,
            "server {}: {bytes} of {file} are damaged (inode {}, block {} of its data object)",
            block.server,
            Ino(block.inode),
            block.block,
        );
    }
    if damaged.len() > SHOWN {
        text.push_str(&format!("… and {} more\n", damaged.len() - SHOWN));
    }
    let sum = |of: fn(&ScrubReport) -> u64| -> u64 {
        ends.iter()
            .filter_map(|(_, end)| end.report())
            .map(of)
            .sum()
    };
    let faults = sum(|report| (report.faults.len() + report.failing.len()) as u64);
    let found = match (damaged.len() as u64, faults) {
        (0, 0) => "no damage".to_owned(),
        (0, faults) => units::plural(faults, "fault", "faults"),
        (blocks, 0) => units::plural(blocks, "damaged block", "damaged blocks"),
        (blocks, faults) => format!(
            "{}, {}",
            units::plural(blocks, "damaged block", "damaged blocks"),
            units::plural(faults, "other fault", "other faults")
        ),
    };
    let taken = match sum(|report| report.taken) {
        0 => String::new(),
        blocks => format!(
            ", {} taken as they were (not synced before a machine was started anew)",
            units::plural(blocks, "block", "blocks")
        ),
    };
    let answered = ends
        .iter()
        .filter(|(_, end)| end.report().is_some())
        .count();
    let of_them = match answered == ends.len() {
        true => String::new(),
        false => format!(" by {answered} of {} servers", ends.len()),
    };
    format!(
        "{text}{found}{taken}; {}, {} read{of_them}\n",
        units::plural(sum(|report| report.objects), "data object", "data objects"),
        units::bytes(sum(|report| report.bytes))
    )
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
fn json(ends: &[(ServerId, End)], damage: &Damage) -> Result<String> {
    #[derive(Serialize)]
    struct Server {
        id: u16,
        /// `scrubbed`, `away` or `started anew`.
        state: &'static str,
        objects: u64,
        bytes: u64,
        damaged: usize,
        taken: u64,
        /// Those of data objects, which `failing` has with their files, among them.
        faults: Vec<String>,
    }
    #[derive(Serialize)]
    struct Report<'e> {
        clean: bool,
        servers: Vec<Server>,
        damaged: &'e [Damaged],
        failing: &'e [Failing],
    }
    let servers = ends.iter().map(|(id, end)| {
        let (state, report) = match end {
            End::Report(report) => ("scrubbed", Some(report)),
            End::Away(_) => ("away", None),
            End::StartedAnew => ("started anew", None),
        };
        Server {
            id: id.0,
            state,
            objects: report.map_or(0, |report| report.objects),
            bytes: report.map_or(0, |report| report.bytes),
            damaged: report.map_or(0, |report| report.damaged.len()),
            taken: report.map_or(0, |report| report.taken),
            faults: report.map_or(Vec::new(), |report| {
                let of_objects = report.failing.iter().map(|(_, what)| what);
                report.faults.iter().chain(of_objects).cloned().collect()
            }),
        }
    });
    let report = Report {
        clean: outcome(ends) == Outcome::Done,
        servers: servers.collect(),
        damaged: &damage.blocks,
        failing: &damage.objects,
    };
    Ok(serde_json::to_string_pretty(&report).context("cannot write JSON")? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(damaged: Vec<(u64, u64)>, faults: Vec<String>) -> Vec<(ServerId, End)> {
        let report = ScrubReport {
            objects: 1_234,
            bytes: 5 << 20,
            damaged,
            faults,
            ..ScrubReport::default()
        };
        vec![(ServerId(3), End::Report(Box::new(report)))]
    }

    #[test]
    fn the_default_rate_can_be_read() {
        assert_eq!(units::parse_bytes(DEFAULT_RATE), Ok(100 << 20));
    }

    #[test]
    fn what_was_found_is_summed_up_and_printed() {
        let clean = ends(vec![], vec![]);
        assert_eq!(
            text(&clean, &Damage::default()),
            "no damage; 1,234 data objects, 5.0 MiB read\n"
        );
        assert_eq!(outcome(&clean), Outcome::Done);
        let mut partly = clean;
        partly.push((ServerId(4), End::StartedAnew));
        assert_eq!(
            text(&partly, &Damage::default()),
            "no damage; 1,234 data objects, 5.0 MiB read by 1 of 2 servers\n"
        );

        let ino = Ino(0x5_0000_0000_0007);
        let mut found = ends(vec![(ino.0, 2)], vec!["the store is damaged".into()]);
        let End::Report(report) = &mut found[0].1 else {
            panic!("{found:?}");
        };
        report.failing = vec![(ino.0, "cannot read it".into())];
        let mut damage = Damage {
            blocks: vec![Damaged {
                server: 3,
                inode: ino.0,
                block: 2,
                object_offset: 8_192,
                file_offset: Some(1_056_768),
                paths: vec!["/a/b".into()],
            }],
            objects: vec![Failing {
                server: 3,
                inode: ino.0,
                what: "cannot read it".into(),
                paths: vec!["/a/b".into()],
            }],
        };
        assert_eq!(
            text(&found, &damage),
            format!(
                "server 3: the store is damaged\n\
                 server 3: /a/b: cannot read it (inode {ino})\n\
                 server 3: bytes 1,056,768 to 1,060,863 of /a/b are damaged (inode {ino}, block 2 of its data object)\n\
                 1 damaged block, 2 other faults; 1,234 data objects, 5.0 MiB read\n"
            )
        );
        assert_eq!(outcome(&found), Outcome::ProblemsFound);
        let value: serde_json::Value =
            serde_json::from_str(&json(&found, &damage).unwrap()).unwrap();
        assert_eq!(value["clean"], false);
        assert_eq!(value["servers"][0]["faults"][0], "the store is damaged");
        assert_eq!(value["servers"][0]["faults"][1], "cannot read it");
        assert_eq!(value["failing"][0]["paths"][0], "/a/b");
        assert_eq!(value["damaged"][0]["paths"][0], "/a/b");
        assert_eq!(value["damaged"][0]["file_offset"], 1_056_768);
        damage.blocks[0].paths.clear();
        let text = text(&found, &damage);
        let expected = format!("bytes 8,192 to 12,287 of the data object of inode {ino} are");
        assert!(text.contains(&expected), "{text}");
    }

    #[test]
    fn a_server_that_did_not_end_its_pass_is_not_clean() {
        let mut some = ends(vec![], vec![]);
        some.push((ServerId(4), End::StartedAnew));
        assert_eq!(outcome(&some), Outcome::ServerAway);
        let value: serde_json::Value =
            serde_json::from_str(&json(&some, &Damage::default()).unwrap()).unwrap();
        assert_eq!(value["clean"], false);
        assert_eq!(value["servers"][1]["state"], "started anew");
    }
}
