//! Policies that go by what all servers have.

use crate::support::{Cluster, name};
use pandofs_api::{DirSettings, NewNode, Reply, Request};
use pandofs_namespace::keys::{self, Kind};
use pandofs_placement::{
    DirBounds, DirPolicy, FileBounds, FilePolicy, Granularity, ServerLoad, Settings,
};
use pandofs_shard::{Input, Record};
use pandofs_store::KvRead;
use pandofs_types::{Ino, ServerId, ShardId};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

const SHARDS: u16 = 16;
const BOUNDS: DirBounds = DirBounds {
    least_depth: 2,
    most_depth: 3,
    least_width: 2,
    most_width: 8,
};
const FILES: FileBounds = FileBounds { least: 3, most: 5 };

fn cluster(policy: DirPolicy, file_policy: FilePolicy) -> Cluster {
    let settings = Settings {
        file_policy,
        ..Settings::default()
    };
    Cluster::of_servers(4, SHARDS, policy, settings)
}

fn adaptive() -> Cluster {
    let (policy, file_policy) = (DirPolicy::Adaptive(BOUNDS), FilePolicy::Adaptive(FILES));
    cluster(policy, file_policy)
}

/// All shards hear what the servers have.
fn hear(cluster: &mut Cluster, objects: [u64; 4]) {
    let load = |objects| ServerLoad {
        objects,
        requests: 0,
    };
    let told = (0..).map(ServerId).zip(objects.map(load)).collect();
    let told = Arc::new(told);
    for shard in 0..SHARDS {
        let step = cluster.input(shard, Input::Loads(Arc::clone(&told)));
        assert!(step.records.is_empty(), "hearing changes nothing");
    }
}

fn granularity(cluster: &Cluster) -> Granularity {
    let all = cluster.nodes.iter().map(|node| node.shard.granularity());
    let all: BTreeSet<_> = all.map(|size| format!("{size:?}")).collect();
    assert_eq!(all.len(), 1, "all shards of a server have heard the same");
    let size = cluster.nodes[0].shard.granularity();
    size.expect("it is placed by")
}

fn mkdir(text: &str) -> Request {
    Request::Mkdir {
        dir: Ino::ROOT,
        name: name(text),
        mode: 0o755,
        umask: 0,
    }
}

fn create(text: &str) -> Request {
    Request::Create {
        dir: Ino::ROOT,
        name: name(text),
        node: NewNode::File,
        mode: 0o600,
        umask: 0,
        open: false,
    }
}

/// The shard on which a request to the root directory made something.
fn made(cluster: &mut Cluster, request: Request) -> ShardId {
    match cluster.call(0, request) {
        Ok(Reply::Entry(entry)) => entry.shard,
        other => panic!("{other:?}"),
    }
}

/// Directories and entries as stored.
fn placed(cluster: &Cluster) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    for (shard, node) in (0..).zip(&cluster.nodes) {
        for kind in [Kind::Parts, Kind::Entry, Kind::Inode] {
            let first = keys::prefix(kind, ShardId(shard));
            let visit = &mut |key: &[u8], value: &[u8]| {
                pairs.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            };
            node.store
                .scan(&first, &keys::after(&first), visit)
                .unwrap();
        }
    }
    pairs
}

#[test]
fn the_granularity_stays_within_its_bounds_and_comes_to_rest() {
    let mut cluster = adaptive();
    let begun = granularity(&cluster);
    assert_eq!(
        (begun.dir_depth, begun.dir_width),
        (3, 8),
        "the nearest to 4 and 16"
    );
    let mut all = 0;
    for _ in 0..20 {
        all += 1_000;
        hear(&mut cluster, [all, 10, 10, 10]);
        let size = granularity(&cluster);
        assert!((BOUNDS.least_depth..=BOUNDS.most_depth).contains(&size.dir_depth));
        assert!((BOUNDS.least_width..=BOUNDS.most_width).contains(&size.dir_width));
        assert!((FILES.least..=FILES.most).contains(&size.file_width));
    }
    let least = granularity(&cluster);
    assert_eq!((least.dir_depth, least.dir_width), (2, 2));
    for _ in 0..20 {
        all += 1_000;
        hear(&mut cluster, [all; 4]);
    }
    let most = granularity(&cluster);
    assert_eq!((most.dir_depth, most.dir_width, most.file_width), (3, 8, 5));
    // Neither even nor uneven, and then nothing new.
    for _ in 0..20 {
        all += 1_000;
        hear(&mut cluster, [all + all / 3, all, all, all]);
        assert_eq!(granularity(&cluster), most);
    }
    for _ in 0..20 {
        hear(&mut cluster, [all * 5, 10, 10, 10]);
    }
    let once = granularity(&cluster).dir_width;
    assert_eq!(once, 4, "one step: nothing was made since");
}

#[test]
fn directories_go_where_there_is_less_in_units_of_the_size_in_force() {
    let mut cluster = adaptive();
    let busy = cluster.map.server_of(ShardId(0));
    let mut objects = [10; 4];
    objects[usize::from(busy.0)] = 5_000;
    hear(&mut cluster, objects);
    // The root is on a shard that has too much: units of two children, whatever is in force.
    assert_eq!(granularity(&cluster).dir_width, 4);
    let shards: Vec<ShardId> = (0..40)
        .map(|number| made(&mut cluster, mkdir(&format!("dir {number}"))))
        .collect();
    assert_eq!(shards[..2], [ShardId(0); 2]);
    let first = &shards[2..];
    let units: Vec<_> = first.chunk_by(|one, other| one == other).collect();
    let away = first
        .iter()
        .filter(|shard| cluster.map.server_of(**shard) != busy);
    assert!(away.count() > first.len() * 3 / 4, "{shards:?}");
    assert!(
        units.iter().any(|unit| unit.len() >= 4),
        "elsewhere units are of the size in force: {shards:?}"
    );
}

#[test]
fn files_are_kept_together_up_to_the_width_in_force() {
    let mut cluster = adaptive();
    hear(&mut cluster, [10; 4]);
    let shards: Vec<ShardId> = (0..30)
        .map(|number| made(&mut cluster, create(&format!("file {number}"))))
        .collect();
    assert_eq!(shards[..3], [ShardId(0); 3]);
    for unit in shards.chunks(FILES.least as usize) {
        assert!(unit.iter().all(|shard| *shard == unit[0]), "{shards:?}");
    }
    assert!(shards.iter().collect::<BTreeSet<_>>().len() > 1);
}

/// What was made where is in the log: a shard that has heard nothing, or something else, makes it there again.
#[test]
fn a_replay_places_everything_where_it_was() {
    let mut cluster = adaptive();
    let mut objects = [10; 4];
    for number in 0..60 {
        objects[number % 2] += 500;
        hear(&mut cluster, objects);
        made(&mut cluster, mkdir(&format!("dir {number}")));
        made(&mut cluster, create(&format!("file {number}")));
    }
    let before = placed(&cluster);
    assert!(before.len() > 200, "{} pairs", before.len());
    for shard in 0..SHARDS {
        let outputs = cluster.restart(shard).outputs;
        cluster.carry(outputs, &mut None);
    }
    assert_eq!(placed(&cluster), before);
    // It begins in the middle again, and goes on from there.
    assert_eq!(granularity(&cluster).dir_width, 8);
    hear(&mut cluster, objects);
    assert_eq!(granularity(&cluster).dir_width, 4);
    made(&mut cluster, mkdir("later"));
    let after = placed(&cluster);
    let kept = |pair: &(Vec<u8>, Vec<u8>)| pair.0[0] == Kind::Entry as u8;
    for pair in before.iter().filter(|pair| kept(pair)) {
        assert!(after.contains(pair), "what is placed stays");
    }
}

/// The records of what does not ask for it hold nothing of loads.
#[test]
fn only_directories_that_ask_for_it_are_placed_by_loads() {
    let mut cluster = cluster(DirPolicy::default(), FilePolicy::default());
    let placing = |cluster: &mut Cluster, request: Request| -> Vec<bool> {
        let request = cluster.request(0, request);
        let step = cluster.input(0, request);
        let choices = step.records.iter().filter_map(|record| match record {
            Record::Request { choices, .. } => Some(choices.placing.is_some()),
            _ => None,
        });
        choices.collect()
    };
    assert_eq!(placing(&mut cluster, mkdir("one")), [false]);
    assert_eq!(placing(&mut cluster, create("file")), [false]);
    let nobody_asks = |cluster: &Cluster| {
        let mut all = cluster.nodes.iter();
        all.all(|node| node.shard.granularity().is_none())
    };
    assert!(nobody_asks(&cluster));
    let settings = DirSettings {
        policy: Some(DirPolicy::Adaptive(BOUNDS)),
        ..DirSettings::default()
    };
    let dir = Ino::ROOT;
    cluster
        .call(0, Request::SetDirSettings { dir, settings })
        .unwrap();
    assert!(nobody_asks(&cluster), "nothing was placed yet");
    assert_eq!(placing(&mut cluster, mkdir("two")), [true]);
    assert!(cluster.nodes[0].shard.granularity().is_some());
    assert_eq!(placing(&mut cluster, create("other")), [false]);
}
