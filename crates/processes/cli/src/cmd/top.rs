//! `pandofs top`

use crate::exit::{Outcome, WrongLine};
use crate::source::{Cluster, Source};
use crate::top::{self, Paths, Sampler, View};
use crate::units::Time;
use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use std::io::IsTerminal;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pandofs top --data /var/tmp/pando
      live, until q is pressed; s sorts the servers in another way, p pauses
  pandofs top --cluster cluster.json --once
      the next second as plain text
  pandofs top --json --interval 10s | jq -c '.directories[0]'
      the hottest directory, every ten seconds

'load' is the part of its time that a server's metadata thread works: it does no more than 100 %.
'lag' is the longest that a request had to wait for its turn in the last ten seconds, 'log' what is
not in the store yet. Operations that clients do by themselves are seen once they are sent. To find
the path of a directory, the one above is listed once, which ends what a mount has of it to itself.
A server that does not answer is shown as away, and the exit code of --once is then 3.";

/// Between two samples at least.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
/// How long a server may take for its answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// How long `--once` and `--json` wait for paths.
const PATHS_LIMIT: Duration = Duration::from_secs(1);

/// Show live what servers do: load, hot directories, slow operations, who waits for whom
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    #[command(flatten)]
    source: Source,
    /// Print what there was in one interval as plain text, and end
    #[arg(long, conflicts_with_all = ["json", "count"])]
    once: bool,
    /// Print a JSON document for each interval, one a line
    #[arg(long)]
    json: bool,
    /// End after so many JSON documents
    #[arg(long, value_name = "N", requires = "json", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// From one look at the servers to the next
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: Time,
    /// Show directories by their numbers, and list none to find their paths
    #[arg(long)]
    numbers: bool,
}

impl Top {
    /// # Errors
    /// When the cluster is not found, or there is no terminal to show it on.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let is_live = !self.once && !self.json;
        if is_live && !std::io::stdout().is_terminal() {
            return Err(WrongLine::because(&anyhow!(
                "standard output is no terminal: give --once for plain text or --json"
            )));
        }
        let cluster = self.source.find(None)?;
        let watch = Watch::new(&cluster, self);
        if is_live {
            return watch.live();
        }
        let mut watch = watch;
        let mut left = self.count;
        loop {
            let view = watch.next(PATHS_LIMIT);
            if self.once {
                crate::print(&top::text(&view))?;
                return Ok(outcome(&view));
            }
            let json = serde_json::to_string(&view).context("cannot write JSON")?;
            let has_reader = crate::print_on(&format!("{json}\n"))?;
            left = left.map(|left| left - 1);
            if !has_reader || left == Some(0) {
                return Ok(Outcome::Done);
            }
        }
    }
}

fn outcome(view: &View) -> Outcome {
    match view.is_any_away() {
        true => Outcome::ServerAway,
        false => Outcome::Done,
    }
}

/// Looks at all servers, one after the other.
struct Watch {
    name: String,
    sampler: Sampler,
    paths: Option<Paths>,
    interval: Duration,
    before: Option<(Instant, Vec<top::Sample>)>,
    /// Nobody wants to wait for the end of an interval any more once its sender is gone.
    ended: Option<Receiver<()>>,
}

impl Watch {
    fn new(cluster: &Cluster, options: &Top) -> Watch {
        let paths = (!options.numbers).then(|| Paths::start(cluster)).flatten();
        Watch {
            name: cluster.map.name.clone(),
            sampler: Sampler::new(cluster.map.clone(), ANSWER_LIMIT),
            paths,
            interval: options.interval.0.max(LEAST_INTERVAL),
            before: None,
            ended: None,
        }
    }

    /// The view of an interval, once it is over. Paths are waited for so long at most.
    fn next(&mut self, wait: Duration) -> View {
        let (began, before) = match self.before.take() {
            Some(before) => before,
            None => (Instant::now(), self.sampler.sample()),
        };
        let left = self.interval.saturating_sub(began.elapsed());
        match &self.ended {
            // Nothing is sent.
            Some(ended) => drop(ended.recv_timeout(left)),
            None => std::thread::sleep(left),
        }
        let began = Instant::now();
        let now = self.sampler.sample();
        let mut view = View::new(&self.name, &before, &now);
        self.before = Some((began, now));
        if let Some(paths) = &mut self.paths {
            paths.want(&view.dirs(), wait);
            view.name_dirs(|dir| paths.get(dir));
        }
        view
    }

    /// On the screen; the servers are asked by a thread of its own, so that keys are heard at once.
    fn live(mut self) -> Result<Outcome> {
        let (sender, views) = mpsc::channel();
        let (going_on, ended) = mpsc::channel();
        self.ended = Some(ended);
        let samples = std::thread::Builder::new()
            .name("samples".into())
            .spawn(move || while sender.send(self.next(Duration::ZERO)).is_ok() {})
            .context("cannot start a thread")?;
        let shown = top::show(&views);
        drop((views, going_on));
        // So that what it has begun is ended, and servers do not wait for a client that is gone.
        let is_well = samples.join().is_ok();
        shown?;
        ensure!(is_well, "the thread that asks the servers panicked");
        Ok(Outcome::Done)
    }
}
