//! Figures of the paper, and the simulated runs behind them.
//!
//! Two processes are on each host, as in the paper's section V; the hybrid has one process a host
//! with two threads.

use crate::kept::Kept;
use anyhow::Result;
use pandofs_walk::{Algorithm, Config, Split, Topology};
use pandofs_walk_bench::sim::{Costs, Grain, Network, Report, Simulation, Tree};

pub(crate) const CP: Algorithm = Algorithm::Cp { keep_one: false };
pub(crate) const DRQS: Algorithm = Algorithm::Distributed(Split::Random);
pub(crate) const DEQS: Algorithm = Algorithm::Distributed(Split::Equal);
pub(crate) const PA: Algorithm = Algorithm::Proximity;
pub(crate) const H: Algorithm = Algorithm::Hybrid(Split::Random);

/// Processes (for the hybrid: threads) of figure 3.
const PROCESSES: [u32; 6] = [4, 8, 16, 24, 32, 40];
/// Processes of figures 4 and 5.
const ALL: u32 = 40;
/// Processes of figure 6.
const SHARING: u32 = 20;
/// Costs of a message at its receiver, in nanoseconds.
const HANDLING_NS: [u64; 6] = [1_000, 5_000, 10_000, 20_000, 40_000, 80_000];
/// Millions of nodes of the paper's file systems.
const MILLIONS: [f64; 3] = [6.5, 12.0, 110.0];

/// Nodes, messages and bytes of a run.
pub(crate) type Traffic = (f64, f64, f64);

/// Of one algorithm: pairs of a number of processes and of seconds.
pub(crate) type Curve = (Algorithm, Vec<(f64, f64)>);

/// Figures 3 to 6, of simulated or of real ranks.
pub(crate) struct Figures {
    /// Figure 3a: seconds by number of processes.
    pub times: Vec<Curve>,
    /// Figure 3b, of the hybrid, by number of processes: seconds of all processes for callback,
    /// lstat, readdir and communication.
    pub components: Vec<(u32, [f64; 4])>,
    /// Figure 4.
    pub traffic: Vec<(Algorithm, Vec<Traffic>)>,
    /// Processes of figures 4 and 5; of figure 3 it is the largest number.
    pub processes: u32,
    /// Figure 5.
    pub exchanges: Vec<(Algorithm, Report)>,
    /// Processes and nodes of figure 6, and the figure.
    pub sharing: (u32, u64),
    pub shares: Vec<(Algorithm, Report)>,
}

pub(crate) struct Simulated {
    pub divide: u64,
    pub seed: u64,
    pub figures: Figures,
    /// Figure 3a with ranks that answer between two items only, as the paper's do.
    pub inattentive: Vec<Curve>,
    /// Cost of a message at its receiver, in nanoseconds, and how many times as long as drqs and
    /// h-drqs the centralized walk takes then.
    pub handling: Vec<(u64, [f64; 2])>,
    /// Of each algorithm seconds, messages and bytes with this project's own items (directories and
    /// slices of them) in place of single nodes.
    pub directories: Vec<(Algorithm, f64, f64, f64)>,
}

/// Simulates what was not simulated before.
struct Simulator<'k> {
    seed: u64,
    kept: &'k mut Kept,
}

impl Simulator<'_> {
    fn run(
        &mut self,
        algorithm: Algorithm,
        processes: u32,
        nodes: u64,
        grain: Grain,
        attentive: bool,
    ) -> Result<Report> {
        self.run_over(
            Network::CLUSTER,
            algorithm,
            processes,
            nodes,
            grain,
            attentive,
        )
    }

    fn run_over(
        &mut self,
        network: Network,
        algorithm: Algorithm,
        processes: u32,
        nodes: u64,
        grain: Grain,
        attentive: bool,
    ) -> Result<Report> {
        let seed = self.seed;
        let mut config = Config::new(algorithm, seed);
        let hosts: Vec<u64> = if algorithm.shares_queue() {
            config.workers = 2;
            (0..u64::from(processes.div_ceil(2))).collect()
        } else {
            (0..u64::from(processes)).map(|rank| rank / 2).collect()
        };
        let simulation = Simulation {
            tree: Tree::with_nodes(nodes, seed),
            grain,
            config,
            topology: Topology::new(&hosts),
            costs: Costs::PARALLEL_FILE_SYSTEM,
            network,
            attentive,
        };
        let manner = if attentive {
            "attentive"
        } else {
            "inattentive"
        };
        let mut run = format!(
            "{algorithm}, {processes} processes, {nodes} nodes, seed {seed}, {grain:?}, {manner}"
        );
        if network != Network::CLUSTER {
            run += &format!(", {} ns a message", network.handling_ns);
        }
        self.kept.run(&run, || {
            eprintln!("{run}");
            pandofs_walk_bench::sim::run(&simulation)
        })
    }

    fn by_processes(
        &mut self,
        algorithms: &[Algorithm],
        nodes: u64,
        attentive: bool,
    ) -> Result<Vec<Curve>> {
        let mut curves = Vec::new();
        for algorithm in algorithms {
            let mut points = Vec::new();
            for processes in PROCESSES {
                let report = self.run(*algorithm, processes, nodes, Grain::Nodes, attentive)?;
                points.push((f64::from(processes), seconds(&report)));
            }
            curves.push((*algorithm, points));
        }
        Ok(curves)
    }
}

fn seconds(report: &Report) -> f64 {
    report.elapsed_ns as f64 / 1e9
}

/// As they are in figure 4.
pub(crate) fn traffic_of(report: &Report) -> Traffic {
    let (messages, bytes) = (report.messages() as f64, report.sent_bytes() as f64);
    (report.nodes() as f64, messages, bytes)
}

pub(crate) fn components_of(report: &Report) -> [f64; 4] {
    let it = report.components;
    let parts = [
        it.callback_ns,
        it.lstat_ns,
        it.readdir_ns,
        it.communication_ns,
    ];
    parts.map(|ns| ns as f64 / 1e9)
}

/// # Errors
/// When runs cannot be kept.
pub(crate) fn run(divide: u64, seed: u64, kept: &mut Kept) -> Result<Simulated> {
    let sizes: Vec<u64> = MILLIONS
        .iter()
        .map(|it| (it * 1e6) as u64 / divide)
        .collect();
    let (smallest, largest) = (sizes[0], sizes[sizes.len() - 1]);
    let mut simulator = Simulator { seed, kept };
    let times = simulator.by_processes(&[CP, DRQS, DEQS, H], smallest, true)?;
    let inattentive = simulator.by_processes(&[CP, DRQS, H], smallest, false)?;
    let mut components = Vec::new();
    for processes in PROCESSES {
        let report = simulator.run(H, processes, smallest, Grain::Nodes, true)?;
        components.push((processes, components_of(&report)));
    }
    let mut exchanges = Vec::new();
    for algorithm in [CP, DRQS, PA, H] {
        let report = simulator.run(algorithm, ALL, smallest, Grain::Nodes, true)?;
        exchanges.push((algorithm, report));
    }
    let mut handling = Vec::new();
    for handling_ns in HANDLING_NS {
        let network = Network {
            handling_ns,
            ..Network::CLUSTER
        };
        let mut took = |algorithm| {
            let grain = Grain::Nodes;
            let report = simulator.run_over(network, algorithm, ALL, smallest, grain, true)?;
            anyhow::Ok(seconds(&report))
        };
        let (cp, drqs, h) = (took(CP)?, took(DRQS)?, took(H)?);
        handling.push((handling_ns, [cp / drqs, cp / h]));
    }
    let mut directories = Vec::new();
    for algorithm in [CP, DRQS, H] {
        let report = simulator.run(algorithm, ALL, smallest, Grain::Directories, true)?;
        let (_, messages, bytes) = traffic_of(&report);
        directories.push((algorithm, seconds(&report), messages, bytes));
    }
    let mut traffic = Vec::new();
    for algorithm in [CP, PA, H] {
        let mut points = Vec::new();
        for nodes in &sizes {
            let report = simulator.run(algorithm, ALL, *nodes, Grain::Nodes, true)?;
            points.push(traffic_of(&report));
        }
        traffic.push((algorithm, points));
    }
    let mut shares = Vec::new();
    for algorithm in [DRQS, DEQS, PA, H] {
        let report = simulator.run(algorithm, SHARING, largest, Grain::Nodes, true)?;
        shares.push((algorithm, report));
    }
    Ok(Simulated {
        divide,
        seed,
        figures: Figures {
            times,
            components,
            traffic,
            processes: ALL,
            exchanges,
            sharing: (SHARING, largest),
            shares,
        },
        inattentive,
        handling,
        directories,
    })
}
