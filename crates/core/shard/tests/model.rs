//! Shards against the model: servers' lanes in one thread, with directories on all of their shards that split all the time.

use pandofs_testkit::cluster::{Cluster, ClusterConfig, Leasing, Network};
use pandofs_testkit::inodes::{Paths, pandofs_traits};
use pandofs_testkit::{Config, check};
use pandofs_types::CommitProtocol;

const OPERATIONS: usize = 6_000;

fn run(variant: u64, shards: u16, change: impl Fn(&mut ClusterConfig)) {
    let config = Config::from_environment(OPERATIONS).variant(variant);
    let mut cluster = ClusterConfig::scattered(config.seed, shards);
    change(&mut cluster);
    check(config, || {
        Paths::new(Cluster::new(cluster.clone()), "tree", pandofs_traits())
    });
}

#[test]
fn one_shard() {
    run(1, 1, |_| {});
}

#[test]
fn two_shards() {
    run(2, 2, |_| {});
}

#[test]
fn four_shards() {
    run(4, 4, |_| {});
}

#[test]
fn sixteen_shards() {
    run(16, 16, |_| {});
}

#[test]
fn connections_of_different_speed() {
    run(5, 8, |cluster| cluster.network = Network::Connections);
}

#[test]
fn messages_that_are_lost_and_come_twice() {
    run(6, 8, |cluster| cluster.network = Network::Unreliable(20));
}

#[test]
fn shards_that_restart() {
    run(7, 4, |cluster| cluster.restart_every = 200);
}

#[test]
fn shards_that_restart_while_messages_are_lost() {
    run(8, 4, |cluster| {
        cluster.restart_every = 200;
        cluster.network = Network::Unreliable(20);
    });
}

#[test]
fn directories_that_start_with_several_partitions() {
    run(9, 8, |cluster| cluster.settings.initial_partitions = 4);
}

#[test]
fn two_phase_commit() {
    run_protocol(14, CommitProtocol::TwoPhase);
}

#[test]
fn three_phase_commit() {
    run_protocol(17, CommitProtocol::ThreePhase);
}

/// In a network where all goes well, in one with connections of different speed, and with every fault.
fn run_protocol(variant: u64, protocol: CommitProtocol) {
    run(variant, 4, |cluster| {
        cluster.settings.commit_protocol = protocol;
    });
    run(variant + 1, 8, |cluster| {
        cluster.settings.commit_protocol = protocol;
        cluster.network = Network::Connections;
    });
    run(variant + 2, 4, |cluster| {
        cluster.settings.commit_protocol = protocol;
        cluster.restart_every = 200;
        cluster.network = Network::Unreliable(20);
    });
}

#[test]
fn clients_that_take_leases() {
    run(10, 4, |cluster| {
        cluster.leasing = Leasing::On;
        cluster.clients = 3;
    });
}

#[test]
fn leases_of_one_shard() {
    run(11, 1, |cluster| cluster.leasing = Leasing::On);
}

#[test]
fn leases_while_shards_restart_and_messages_are_lost() {
    run(12, 4, |cluster| {
        cluster.leasing = Leasing::On;
        cluster.restart_every = 200;
        cluster.network = Network::Unreliable(20);
    });
}

#[test]
#[should_panic(expected = "subject and model differ")]
fn a_client_that_does_not_heed_recalls_is_found_out() {
    let config = Config {
        shrink: std::time::Duration::ZERO,
        ..Config::from_environment(OPERATIONS).variant(13)
    };
    let mut cluster = ClusterConfig::scattered(config.seed, 4);
    cluster.leasing = Leasing::Deaf;
    check(config, || {
        Paths::new(Cluster::new(cluster.clone()), "tree", pandofs_traits())
    });
}
