//! Runs of real ranks over MPI.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

pub const ALGORITHMS: [&str; 4] = ["cp", "drqs", "deqs", "h-drqs"];

pub struct Real {
    pub tree: String,
    pub entries: u64,
    pub processors: usize,
    /// Seconds of the walk itself by number of ranks.
    pub times: Vec<(&'static str, Vec<(f64, f64)>)>,
    /// Seconds of all processors, of the launcher too, by number of ranks, for deqs.
    pub processor_times: Vec<(f64, f64)>,
}

/// Of each number of ranks the fastest of so many runs counts.
pub fn run(program: &Path, tree: &Path, ranks: &[u32], runs: usize) -> Result<Real> {
    let mut entries = 0;
    let mut times = Vec::new();
    let mut processor_times = Vec::new();
    for algorithm in ALGORITHMS {
        let mut points = Vec::new();
        for ranks in ranks.iter().copied() {
            let mut best = f64::INFINITY;
            let mut least = f64::INFINITY;
            for _ in 0..runs {
                let before = children_seconds();
                let started = Instant::now();
                let output = Command::new("mpirun")
                    .args(["-n", &ranks.to_string()])
                    .arg(program)
                    .args(["walk", "--json", "--algorithm", algorithm])
                    .arg(tree)
                    .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                    .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
                    .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
                    .output()
                    .context("mpirun")?;
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                ensure!(output.status.success(), "{text}");
                let counts: serde_json::Value = serde_json::from_slice(&output.stdout)?;
                let seconds = counts["seconds"].as_f64().context("no time")?;
                ensure!(seconds <= started.elapsed().as_secs_f64());
                best = best.min(seconds);
                least = least.min(children_seconds() - before);
                let seen = counts["entries"].as_u64().context("no count")?;
                ensure!(
                    entries == 0 || entries == seen,
                    "{entries} entries, then {seen}"
                );
                entries = seen;
            }
            points.push((f64::from(ranks), best));
            if algorithm == "deqs" {
                processor_times.push((f64::from(ranks), least));
            }
        }
        times.push((algorithm, points));
    }
    Ok(Real {
        tree: tree.display().to_string(),
        entries,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        times,
        processor_times,
    })
}

/// What children that have ended took of processors, in seconds: fields 16 and 17 of `/proc/self/stat`, in
/// hundredths.
fn children_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let ticks = fields
        .skip(13)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
