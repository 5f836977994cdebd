//! Splits of directories that one session has to itself: they wait for the end of its grant, unless the directory is very large.

use crate::grants::{HOLDER, OTHER, ask, cluster_of, give_up, granted, later, lookup};
use crate::support::{Cluster, create_file, name};
use pandofs_placement::Settings;
use pandofs_shard::{Input, Output, Record};
use pandofs_types::limits::GRANTED_SPLIT_FACTOR as FACTOR;
use pandofs_types::{Ino, LeaseKey};
use std::time::Duration;

const THRESHOLD: u64 = 8;
/// Longer than a shard waits before it looks again at what it has put off.
const LATER: Duration = Duration::from_millis(200);

/// A directory that is granted, in which its holder then makes so many files; and the outputs of that.
fn granted_with(files: u64) -> (Cluster, Ino, Vec<Output>) {
    let settings = Settings {
        split_threshold: THRESHOLD as u32,
        max_partitions: Some(16),
        ..Settings::default()
    };
    let (mut cluster, dir) = cluster_of(2, settings);
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    let mut outputs = Vec::new();
    for number in 0..files {
        let request = create_file(dir, name(&format!("f{number}")));
        outputs.extend(ask(&mut cluster, HOLDER, request).outputs);
    }
    (cluster, dir, outputs)
}

fn splits(cluster: &Cluster) -> u64 {
    cluster.nodes[0].shard.status().splits
}

/// Whether a split begins when the shard looks again at what it has put off.
fn begins_later(cluster: &mut Cluster) -> bool {
    let mut records = Vec::new();
    for _ in 0..3 {
        let step = later(cluster, LATER);
        records.extend(step.records);
        cluster.carry(step.outputs, &mut None);
    }
    let begins = |record: &Record| matches!(record, Record::SplitBegin { .. });
    records.iter().any(begins)
}

#[test]
fn a_granted_directory_splits_when_its_grant_has_ended() {
    let (mut cluster, dir, _) = granted_with(THRESHOLD * FACTOR);
    assert!(!begins_later(&mut cluster), "its holder alone adds to it");
    let step = ask(&mut cluster, OTHER, lookup(dir, "f0"));
    let step = give_up(&mut cluster, &step, &[LeaseKey::Grant(dir)]);
    cluster.carry(step.outputs, &mut None);
    assert!(begins_later(&mut cluster), "nobody has it to itself");
}

#[test]
fn a_granted_directory_that_has_become_too_large_splits() {
    let (mut cluster, dir, mut outputs) = granted_with(THRESHOLD * FACTOR + 1);
    assert_eq!(granted(&mut cluster, HOLDER, dir), None, "it splits");
    let mut recalled = Vec::new();
    while let Some(output) = outputs.pop() {
        match output {
            Output::Recall(recall) => recalled.push(recall),
            Output::Send { to, message, .. } => {
                outputs.extend(cluster.input(to.0, Input::Peer(message)).outputs);
            }
            _ => {}
        }
    }
    assert_eq!(splits(&cluster), 0);
    // Leases of what is in it are recalled apart from it.
    assert_eq!(recalled.len(), 2, "{recalled:?}");
    assert_eq!(recalled[0].keys, [LeaseKey::Grant(dir)]);
    for has_split in [false, true] {
        let recall = recalled.remove(0);
        let (session, number) = (recall.session, recall.number);
        let step = cluster.input(0, Input::Recalled { session, number });
        cluster.carry(step.outputs, &mut None);
        cluster.settle();
        assert_eq!(splits(&cluster) > 0, has_split);
    }
    assert_eq!(granted(&mut cluster, HOLDER, dir), None, "it is not whole");
}
