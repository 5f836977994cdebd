//! `pandofs bench`

use crate::backend;
use crate::exit::Outcome;
use crate::new_cluster::{file_policy_text, policy_text};
use crate::reports::{Report, machine};
use crate::servers_work::ServersWork;
use crate::source::Source;
use crate::table::{Align, Table};
use crate::units;
use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use pandofs_model::report::{Axis, Figure};
use pandofs_placement::ClusterMap;
use pandofs_workload::{Kernel, Library, PhaseResult, Recorder, Size, Target, Workload, run};
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pandofs bench metarates --data /var/tmp/pando --clients 1,8,64
      creations, looks, changes of times and removals in one directory, through the library
  pandofs bench macro1 --on /mnt/pando/scratch --clients 8 --files 100000
      the name space of Xiong et al., below a directory of a mount (of any file system)
  pandofs bench macro2 --data /var/tmp/pando --record macro2.trace
      and write down what was done, for 'pandofs trace replay'
  pandofs bench tree --data /var/tmp/pando --json tree.jsonl --out plots
      with JSON lines and a plot";

/// Measure a running file system with well-known workloads
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    /// Work of the clients
    #[arg(value_enum)]
    workload: What,
    #[command(flatten)]
    target: TargetArgs,
    /// Numbers of clients, each 1 to 256; each is a thread that shares nothing with the others, as a machine of its own: it has sessions,
    /// connections and caches of its own
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 8],
        value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_CLIENTS)))]
    clients: Vec<u16>,
    /// Files of all clients together, about; macro2: operations
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    files: u32,
    /// Seed from which all random choices follow
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also append each measurement to this file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write a plot (SVG) and its table there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write down the operations of the last number of clients
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The commit, for JSON lines
    #[arg(long, value_name = "ID", default_value = "unknown")]
    commit: String,
}

/// Where the work is done.
#[derive(Args, Clone, Debug)]
pub(crate) struct TargetArgs {
    #[command(flatten)]
    source: Source,
    /// Work below this directory of a mount; through the library unless given
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cluster", "data"])]
    on: Option<PathBuf>,
}

impl TargetArgs {
    /// A new directory with this name, and for each client what works in it; on a mount, what `kernel` makes.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn start(
        &self,
        name: &str,
        clients: usize,
        kernel: fn(&Path) -> Kernel,
    ) -> Result<Started> {
        let caller = backend::caller();
        if let Some(on) = &self.on {
            let root = on.join(name);
            std::fs::create_dir(&root)
                .with_context(|| format!("cannot make {}", root.display()))?;
            let targets = (0..clients).map(|_| Box::new(kernel(&root)) as Box<dyn Target>);
            return Ok(Started {
                targets: targets.collect(),
                place: Place::Mount(root),
            });
        }
        let cluster = self.source.find(None)?;
        let mut above = Library::open(&cluster.map_path, caller.clone(), "/")?;
        above.perform(&mkdir(name))?;
        let root = format!("/{name}");
        let mut targets: Vec<Box<dyn Target>> = Vec::new();
        for _ in 0..clients {
            let client = Library::open(&cluster.map_path, caller.clone(), &root);
            targets.push(Box::new(client.context("cannot open a session")?));
        }
        Ok(Started {
            targets,
            place: Place::Inside(above, name.to_owned()),
        })
    }

    /// The map, of a file system that is used through the library.
    fn map(&self) -> Result<Option<ClusterMap>> {
        if self.on.is_some() {
            return Ok(None);
        }
        Ok(Some(self.source.find(None)?.map))
    }

    fn through(&self) -> &'static str {
        if self.on.is_some() {
            "mount"
        } else {
            "library"
        }
    }
}

fn mkdir(name: &str) -> pandofs_workload::Op {
    pandofs_workload::Op::new(pandofs_workload::Kind::Mkdir, name)
}

/// A directory to work in.
pub(crate) struct Started {
    pub targets: Vec<Box<dyn Target>>,
    place: Place,
}

enum Place {
    Mount(PathBuf),
    Inside(Library, String),
}

impl Started {
    /// Removes the directory, which is to be empty.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn finish(self) -> Result<()> {
        drop(self.targets);
        match self.place {
            Place::Mount(root) => std::fs::remove_dir(&root)
                .with_context(|| format!("cannot remove {}", root.display())),
            Place::Inside(mut above, name) => {
                let rmdir = pandofs_workload::Op::new(pandofs_workload::Kind::Rmdir, name);
                Ok(above.perform(&rmdir)?)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Each client makes, looks at, touches and removes files in a directory of its own
    Mdtest,
    /// The same, all clients in one directory
    Metarates,
    /// Small files, read, appended to, made and removed at random
    Postmark,
    /// A name space is made, looked at and removed (Xiong et al.)
    Macro1,
    /// A mix of operations on files drawn at random (Xiong et al., table 2)
    Macro2,
    /// An even tree is made, listed and removed
    Tree,
}

impl What {
    fn workload(self) -> Workload {
        match self {
            What::Mdtest => Workload::Mdtest,
            What::Metarates => Workload::Metarates,
            What::Postmark => Workload::Postmark,
            What::Macro1 => Workload::Macro1,
            What::Macro2 => Workload::Macro2,
            What::Tree => Workload::Tree,
        }
    }
}

/// Measurements as `--json` has them. Fields may be added; none goes or changes its meaning.
#[derive(Serialize)]
struct Line<'a, F> {
    #[serde(flatten)]
    context: &'a Context<'a>,
    #[serde(flatten)]
    figures: F,
}

#[derive(Serialize)]
struct Context<'a> {
    commit: &'a str,
    machine: &'a str,
    seed: u64,
    workload: String,
    through: &'a str,
    /// Of the file system; not known of what is mounted.
    servers: Option<usize>,
    policy: Option<String>,
    file_policy: Option<String>,
    clients: u16,
    files: u32,
}

/// A phase.
#[derive(Serialize)]
struct OfPhase<'a> {
    phase: &'a str,
    operations: u64,
    seconds: f64,
    per_second: f64,
    median_us: f64,
    p99_us: f64,
    most_us: f64,
}

/// Of all phases together, as `servers`; missing where the servers cannot be asked.
#[derive(Serialize)]
struct OfServers<'a> {
    phase: &'static str,
    #[serde(flatten)]
    work: &'a ServersWork,
}

impl Bench {
    /// # Errors
    /// When the file system cannot be reached, or an operation fails.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let workload = self.workload.workload();
        let machine = machine();
        let map = self.target.map()?;
        let mut json = self.json.as_deref().map(appended).transpose()?;
        let mut all: Vec<(u16, Vec<PhaseResult>)> = Vec::new();
        let mut of_servers = String::new();
        let mut table = Table::new(&[
            ("clients", Align::Right),
            ("phase", Align::Left),
            ("operations", Align::Right),
            ("seconds", Align::Right),
            ("a second", Align::Right),
            ("median µs", Align::Right),
            ("99 % µs", Align::Right),
            ("longest µs", Align::Right),
        ]);
        for &clients in &self.clients {
            let plan = workload.plan(&Size {
                clients: usize::from(clients),
                files: self.files as usize,
                seed: self.seed,
            });
            let name = format!("pandofs-bench-{}-{workload}-{clients}", std::process::id());
            let mut started = self
                .target
                .start(&name, usize::from(clients), Kernel::new)?;
            let recorder = Recorder::default();
            let recording = self.record.is_some() && Some(&clients) == self.clients.last();
            if recording {
                let watched = (0..).zip(std::mem::take(&mut started.targets));
                started.targets = watched
                    .map(|(client, target)| recorder.record(client, target))
                    .collect();
            }
            let so_far = || map.as_ref().and_then(ServersWork::so_far);
            let before = so_far();
            let results = run(&plan, &mut started.targets)?;
            let work = before.and_then(|before| so_far()?.since(&before));
            started.finish()?;
            let (commit, machine) = (self.commit.as_str(), machine.as_str());
            let context = Context {
                commit,
                machine,
                seed: self.seed,
                workload: workload.to_string(),
                through: self.target.through(),
                servers: map.as_ref().map(|map| map.servers.len()),
                policy: map.as_ref().map(|map| policy_text(map.policy)),
                file_policy: map
                    .as_ref()
                    .map(|map| file_policy_text(map.settings.file_policy)),
                clients,
                files: self.files,
            };
            if let Some(path) = self.record.as_ref().filter(|_| recording) {
                write_trace(path, &recorder.finish(u32::from(clients)))?;
            }
            for phase in &results {
                table.row(vec![
                    clients.to_string(),
                    phase.name.clone(),
                    phase.operations.to_string(),
                    format!("{:.3}", phase.seconds),
                    format!("{:.0}", phase.rate()),
                    format!("{:.0}", phase.median_us),
                    format!("{:.0}", phase.p99_us),
                    format!("{:.0}", phase.most_us),
                ]);
                if let Some(file) = &mut json {
                    let figures = OfPhase {
                        phase: &phase.name,
                        operations: phase.operations,
                        seconds: phase.seconds,
                        per_second: phase.rate(),
                        median_us: phase.median_us,
                        p99_us: phase.p99_us,
                        most_us: phase.most_us,
                    };
                    context.write(file, figures)?;
                }
            }
            if let Some(work) = &work {
                if let Some(file) = &mut json {
                    let phase = "servers";
                    context.write(file, OfServers { phase, work })?;
                }
                of_servers.push_str(&text(clients, work));
            }
            all.push((clients, results));
        }
        let through = self.target.through();
        crate::print(&format!(
            "{workload} through the {through}, {machine}\n{table}{of_servers}"
        ))?;
        if let Some(out) = &self.out {
            let figure = figure(&format!("bench-{workload}-{through}"), &all);
            Report::new(Some(out), false, &self.commit, self.seed)?.keep(&figure)?;
        }
        Ok(Outcome::Done)
    }
}

impl Context<'_> {
    /// With figures, and a line end.
    fn write(&self, file: &mut File, figures: impl Serialize) -> Result<()> {
        let context = self;
        let line = serde_json::to_string(&Line { context, figures })?;
        Ok(writeln!(file, "{line}")?)
    }
}

/// The servers' work for so many clients, in words.
fn text(clients: u16, work: &ServersWork) -> String {
    let requests: Vec<String> = work.requests.iter().copied().map(units::count).collect();
    format!(
        "servers, with {}: {} requests; {} that took more than one shard, {} between servers\n",
        units::plural(u64::from(clients), "client", "clients"),
        requests.join(" + "),
        units::plural(work.distributed, "operation", "operations"),
        units::plural(work.messages, "message", "messages"),
    )
}

fn appended(path: &Path) -> Result<File> {
    let file = File::options().append(true).create(true).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

/// # Errors
/// When it cannot be written.
pub(crate) fn write_trace(path: &Path, trace: &pandofs_workload::Trace) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    trace
        .write(BufWriter::new(file))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn figure(id: &str, all: &[(u16, Vec<PhaseResult>)]) -> Figure {
    let axis = Axis::logarithmic;
    let mut figure = Figure::new(id, id, axis("clients"), axis("operations a second"));
    let names = all.first().map(|(_, results)| results.as_slice());
    for phase in names.unwrap_or_default() {
        let points = all.iter().filter_map(|(clients, results)| {
            let same = results.iter().find(|result| result.name == phase.name)?;
            (same.operations > 0).then(|| (f64::from(*clients), same.rate()))
        });
        let points: Vec<(f64, f64)> = points.collect();
        if !points.is_empty() {
            figure.add(phase.name.clone(), points);
        }
    }
    figure
}

/// Clients of a benchmark or a replay, as the papers have them at most. Each is a thread, and through the library some more
/// that sleep.
pub(crate) const MAX_CLIENTS: u32 = 256;

/// # Errors
/// When the number is of no use.
pub(crate) fn check_clients(clients: u32) -> Result<()> {
    ensure!(
        (1..=MAX_CLIENTS).contains(&clients),
        "1 to {MAX_CLIENTS} clients, not {clients}"
    );
    Ok(())
}
