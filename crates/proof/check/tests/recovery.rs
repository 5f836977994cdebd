//! Offline recovery of a cluster that is stopped at any moment.
//!
//! Nothing is wrong once its shards have finished what was under way, although what is stored at
//! that moment looks wrong often enough.

use pandofs_check::recovery::recover;
use pandofs_check::{Problem, check};
use pandofs_testkit::cluster::{Cluster, ClusterConfig, Network};
use pandofs_testkit::inodes::{Paths, pandofs_traits};
use pandofs_testkit::op::{Outcome, Step};
use pandofs_testkit::{Census, Config, Subject, Traits};
use pandofs_types::{CommitProtocol, Time};
use std::cell::Cell;
use std::rc::Rc;

const OPERATIONS: usize = 1_500;
/// Operations after which the cluster is looked at as if it had stopped there.
const LOOK_EVERY: u64 = 3;

/// A subject that is looked at between two operations, while much goes on in the background.
struct Stopped {
    paths: Paths<Cluster>,
    ran: u64,
    /// Number of times that the stored state looked wrong.
    unfinished: Rc<Cell<u64>>,
}

/// Problems for which there is no excuse.
fn problems(dump: &pandofs_check::ClusterDump) -> Vec<Problem> {
    let mut found = check(dump);
    found.retain(|problem| problem.patience.is_zero());
    found
}

impl Subject for Stopped {
    fn run(&mut self, step: &Step) -> Outcome {
        let outcome = self.paths.run(step);
        self.ran += 1;
        if self.ran.is_multiple_of(LOOK_EVERY) {
            let cluster = self.paths.inodes();
            let dump = cluster.dump();
            let before = problems(&dump);
            if !before.is_empty() {
                self.unfinished.set(self.unfinished.get() + 1);
                let finished = recover(&dump, cluster.now()).expect("the shards go on");
                let left = problems(&finished);
                assert!(
                    left.is_empty(),
                    "after operation {}: {left:#?}\nof {before:#?}",
                    self.ran
                );
            }
        }
        outcome
    }

    fn now(&mut self) -> Time {
        self.paths.now()
    }

    fn traits(&self) -> Traits {
        self.paths.traits()
    }

    fn settle(&mut self) -> Result<Option<Census>, String> {
        self.paths.settle()
    }
}

fn run(variant: u64, change: impl Fn(&mut ClusterConfig)) {
    let config = Config::from_environment(OPERATIONS).variant(variant);
    let mut cluster = ClusterConfig::scattered(config.seed, 8);
    cluster.network = Network::Connections;
    change(&mut cluster);
    let unfinished = Rc::new(Cell::new(0));
    pandofs_testkit::check(config, || Stopped {
        paths: Paths::new(Cluster::new(cluster.clone()), "tree", pandofs_traits()),
        ran: 0,
        unfinished: Rc::clone(&unfinished),
    });
    assert!(
        unfinished.get() >= OPERATIONS as u64 / 500,
        "it looked wrong {} times only, which shows nothing",
        unfinished.get()
    );
}

#[test]
fn stopped_while_messages_are_under_way() {
    run(1, |_| {});
}

#[test]
fn stopped_while_messages_are_lost() {
    run(2, |cluster| cluster.network = Network::Unreliable(20));
}

#[test]
fn stopped_soon_after_shards_were_killed() {
    run(3, |cluster| cluster.restart_every = 100);
}

#[test]
fn stopped_under_two_phase_commit() {
    run(4, |cluster| {
        cluster.settings.commit_protocol = CommitProtocol::TwoPhase;
    });
}

#[test]
fn stopped_under_three_phase_commit() {
    run(5, |cluster| {
        cluster.settings.commit_protocol = CommitProtocol::ThreePhase;
    });
}
