//! Runs of simulated ranks: two processes on each host, as in the paper's section V; the hybrid has one process a
//! host with two threads.

use pandofs_walk::{Algorithm, Config, Split, Topology};
use pandofs_walk_sim::{Costs, Grain, Network, Report, Simulation, Tree};

pub const CP: Algorithm = Algorithm::Cp { keep_one: false };
pub const DRQS: Algorithm = Algorithm::Distributed(Split::Random);
pub const DEQS: Algorithm = Algorithm::Distributed(Split::Equal);
pub const PA: Algorithm = Algorithm::Proximity;
pub const H: Algorithm = Algorithm::Hybrid(Split::Random);

/// Processes (for the hybrid: threads) of figure 3.
const PROCESSES: [u32; 6] = [4, 8, 16, 24, 32, 40];
/// Processes of the other figures.
pub const ALL: u32 = 40;
/// Millions of nodes of the paper's file systems.
const MILLIONS: [f64; 3] = [6.5, 12.0, 110.0];

/// Nodes, messages and bytes of a run.
pub type Traffic = (f64, f64, f64);

/// Of one algorithm: pairs of a number of processes and of seconds.
pub type Curve = (Algorithm, Vec<(f64, f64)>);

pub struct Simulated {
    pub divide: u64,
    pub seed: u64,
    /// Figure 3a: seconds by number of processes.
    pub times: Vec<Curve>,
    /// The same with ranks that answer between two items only, as the paper's do.
    pub inattentive: Vec<Curve>,
    /// Figure 3b: of the hybrid.
    pub components: Vec<(u32, Report)>,
    /// Figure 4: nodes, messages and bytes.
    pub traffic: Vec<(Algorithm, Vec<Traffic>)>,
    /// Figures 5 and 6, of the smallest tree.
    pub reports: Vec<(Algorithm, Report)>,
    /// This project's own items (directories and slices of them) in place of single nodes.
    pub directories: Vec<(Algorithm, f64, f64, f64)>,
}

fn simulate(
    algorithm: Algorithm,
    processes: u32,
    nodes: u64,
    seed: u64,
    grain: Grain,
    attentive: bool,
) -> Report {
    let mut config = Config::new(algorithm, seed);
    let hosts: Vec<u64> = if algorithm.shares_queue() {
        config.workers = 2;
        (0..u64::from(processes.div_ceil(2))).collect()
    } else {
        (0..u64::from(processes)).map(|rank| rank / 2).collect()
    };
    eprintln!("{algorithm}, {processes} processes, {nodes} nodes");
    pandofs_walk_sim::run(&Simulation {
        tree: Tree::with_nodes(nodes, seed),
        grain,
        config,
        topology: Topology::new(&hosts),
        costs: Costs::PARALLEL_FILE_SYSTEM,
        network: Network::CLUSTER,
        attentive,
    })
}

fn seconds(report: &Report) -> f64 {
    report.elapsed_ns as f64 / 1e9
}

fn by_processes(
    algorithms: &[Algorithm],
    nodes: u64,
    seed: u64,
    attentive: bool,
) -> Vec<(Algorithm, Vec<(f64, f64)>)> {
    algorithms
        .iter()
        .map(|algorithm| {
            let runs = PROCESSES.iter().map(|processes| {
                let report = simulate(*algorithm, *processes, nodes, seed, Grain::Nodes, attentive);
                (f64::from(*processes), seconds(&report))
            });
            (*algorithm, runs.collect())
        })
        .collect()
}

pub fn run(divide: u64, seed: u64) -> Simulated {
    let sizes: Vec<u64> = MILLIONS
        .iter()
        .map(|it| (it * 1e6) as u64 / divide)
        .collect();
    let smallest = sizes[0];
    let times = by_processes(&[CP, DRQS, DEQS, H], smallest, seed, true);
    let inattentive = by_processes(&[CP, DRQS, H], smallest, seed, false);
    let components = PROCESSES
        .iter()
        .map(|processes| {
            (
                *processes,
                simulate(H, *processes, smallest, seed, Grain::Nodes, true),
            )
        })
        .collect();
    let mut reports = Vec::new();
    let mut traffic = Vec::new();
    for algorithm in [CP, PA, H] {
        let mut points = Vec::new();
        for nodes in &sizes {
            let report = simulate(algorithm, ALL, *nodes, seed, Grain::Nodes, true);
            let (messages, bytes) = (report.messages() as f64, report.sent_bytes() as f64);
            points.push((report.nodes() as f64, messages, bytes));
            if *nodes == smallest {
                reports.push((algorithm, report));
            }
        }
        traffic.push((algorithm, points));
    }
    reports.push((
        DRQS,
        simulate(DRQS, ALL, smallest, seed, Grain::Nodes, true),
    ));
    let directories = [CP, DRQS, H]
        .into_iter()
        .map(|algorithm| {
            let report = simulate(algorithm, ALL, smallest, seed, Grain::Directories, true);
            let (messages, bytes) = (report.messages() as f64, report.sent_bytes() as f64);
            (algorithm, seconds(&report), messages, bytes)
        })
        .collect();
    Simulated {
        divide,
        seed,
        times,
        inattentive,
        components,
        traffic,
        reports,
        directories,
    }
}
