//! Simulated ranks, all algorithms.

use pandofs_walk::{Algorithm, Config, Split, Topology};
use pandofs_walk_bench::sim::{Costs, Grain, Network, Report, Simulation, Tree, run};

fn simulation(algorithm: Algorithm, ranks: u32, nodes: u64) -> Simulation {
    let hosts: Vec<u64> = (0..ranks).map(|rank| u64::from(rank / 2)).collect();
    let mut config = Config::new(algorithm, 11);
    let mut topology = Topology::new(&hosts);
    if algorithm.shares_queue() {
        config.workers = 2;
        topology = Topology::new(&(0..u64::from(ranks.div_ceil(2))).collect::<Vec<_>>());
    }
    Simulation {
        tree: Tree::with_nodes(nodes, 5),
        grain: Grain::Nodes,
        config,
        topology,
        costs: Costs::PARALLEL_FILE_SYSTEM,
        network: Network::CLUSTER,
        attentive: true,
    }
}

fn speedup(report: &Report) -> f64 {
    let parts = report.components;
    let work = parts.callback_ns + parts.lstat_ns + parts.readdir_ns;
    work as f64 / report.elapsed_ns as f64
}

#[test]
fn every_algorithm_visits_every_node_at_every_size() {
    for algorithm in Algorithm::ALL {
        for ranks in [1, 2, 5, 40] {
            for grain in [Grain::Nodes, Grain::Directories] {
                for attentive in [true, false] {
                    let it = Simulation {
                        grain,
                        attentive,
                        ..simulation(algorithm, ranks, 5_000)
                    };
                    let (directories, files) = it.tree.count();
                    let report = run(&it);
                    let nodes = directories + files;
                    assert_eq!(report.nodes(), nodes, "{algorithm} {ranks} {grain:?}");
                    assert!(speedup(&report) <= f64::from(ranks) + 1.0);
                }
            }
        }
    }
}

#[test]
fn a_seed_gives_one_run() {
    let it = simulation(Algorithm::Distributed(Split::Random), 64, 50_000);
    let report = run(&it);
    assert_eq!(report, run(&it));
    let mut other = it.clone();
    other.config.seed += 1;
    assert_ne!(report, run(&other));
}

#[test]
fn thousands_of_ranks() {
    for algorithm in [
        Algorithm::Distributed(Split::Random),
        Algorithm::Proximity,
        Algorithm::Hybrid(Split::Equal),
    ] {
        let mut it = simulation(algorithm, 2_048, 20_000);
        it.costs.callback_ns = 1_000_000;
        let report = run(&it);
        let (directories, files) = it.tree.count();
        assert_eq!(report.nodes(), directories + files);
        assert!(speedup(&report) > 20.0, "{algorithm}: {}", speedup(&report));
    }
}

/// The paper's claims for messages and bytes, at a size that a test can afford: at 6.5 million
/// nodes the ratios are larger.
#[test]
fn the_distributed_walks_say_less_than_the_centralized() {
    let centralized = run(&simulation(Algorithm::Cp { keep_one: false }, 40, 200_000));
    let hybrid = Algorithm::Hybrid(Split::Random);
    for (algorithm, messages, bytes) in [(Algorithm::Proximity, 3.0, 1.0), (hybrid, 20.0, 2.0)] {
        let report = run(&simulation(algorithm, 40, 200_000));
        let (fewer, less) = (
            centralized.messages() as f64 / report.messages() as f64,
            centralized.sent_bytes() as f64 / report.sent_bytes() as f64,
        );
        assert!(fewer > messages, "{algorithm}: messages {fewer:.1}");
        assert!(less > bytes, "{algorithm}: bytes {less:.1}");
    }
    assert!(
        centralized
            .bytes
            .keys()
            .all(|(from, to)| from.0 == 0 || to.0 == 0),
        "slaves talk to the master alone"
    );
}

/// One directory with nearly everything: slices let all ranks work on it.
#[test]
fn work_is_spread() {
    let it = Simulation {
        grain: Grain::Directories,
        ..simulation(Algorithm::Hybrid(Split::Random), 8, 300_000)
    };
    let report = run(&it);
    assert!(speedup(&report) > 7.0, "{}", speedup(&report));
}

/// Nearly all nodes in one directory: each rank has its share of them, with a queue of its own too.
/// With whole directories, or one slice for each request, the first rank has nearly all.
#[test]
fn one_directory_is_shared_by_all_ranks() {
    for algorithm in [
        Algorithm::Distributed(Split::Equal),
        Algorithm::Distributed(Split::Random),
        Algorithm::Proximity,
    ] {
        let mut it = Simulation {
            grain: Grain::Directories,
            tree: Tree::one_directory(500_000),
            ..simulation(algorithm, 8, 0)
        };
        it.costs = Costs::IN_MEMORY;
        let report = run(&it);
        assert_eq!(report.nodes(), 500_001);
        let shares: Vec<f64> = report
            .ranks
            .iter()
            .map(|rank| rank.nodes as f64 / report.nodes() as f64)
            .collect();
        assert!(
            shares.iter().all(|share| (0.03..0.5).contains(share)),
            "{algorithm}: {shares:.2?}"
        );
    }
}
