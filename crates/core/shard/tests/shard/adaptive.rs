//! Policies that go by what all servers have.

use crate::support::{Cluster, name};
use pandofs_api::{DirSettings, NewNode, Reply, Request, op};
use pandofs_namespace::keys::{self, Kind};
use pandofs_placement::{
    DirBounds, DirPolicy, FileBounds, FilePolicy, Granularity, ServerLoad, Settings,
};
use pandofs_shard::{Input, Record};
use pandofs_storage::store::KvRead;
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

/// The servers have so much, and all shards hear it.
fn hear(cluster: &mut Cluster, objects: [u64; 4]) {
    cluster.held = (0..).map(ServerId).zip(objects).collect();
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

/// The granularity by which each server places: its shards have all heard the same.
fn granularities(cluster: &Cluster) -> [Granularity; 4] {
    let of_server = |server: u16| {
        let shards = cluster.map.shards_of(ServerId(server)).into_iter();
        let sizes = shards.map(|shard| {
            let node = &cluster.nodes[usize::from(shard.0)];
            node.shard.granularity().expect("it is placed by")
        });
        let sizes: Vec<Granularity> = sizes.collect();
        assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
        sizes[0]
    };
    [0, 1, 2, 3].map(of_server)
}

/// The server of the root directory.
fn busy(cluster: &Cluster) -> usize {
    usize::from(cluster.map.server_of(ShardId(0)).0)
}

const SMALL: Granularity = Granularity {
    dir_depth: BOUNDS.least_depth,
    dir_width: BOUNDS.least_width,
    file_width: FILES.most,
};
const LARGE: Granularity = Granularity {
    dir_depth: BOUNDS.most_depth,
    dir_width: BOUNDS.most_width,
    file_width: FILES.most,
};

fn mkdir(text: &str) -> Request {
    Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name(text),
        mode: 0o755,
        umask: 0,
    })
}

fn create(text: &str) -> Request {
    Request::Create(op::Create {
        dir: Ino::ROOT,
        name: name(text),
        node: NewNode::File,
        mode: 0o600,
        umask: 0,
        open: false,
    })
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
fn units_are_small_where_a_server_has_too_much_and_large_elsewhere() {
    let mut cluster = adaptive();
    let few = Granularity {
        file_width: FILES.least,
        ..LARGE
    };
    assert_eq!(granularities(&cluster), [few; 4], "nobody has anything");
    for full in 0..4 {
        let mut objects = [10_000; 4];
        objects[full] = 20_000;
        hear(&mut cluster, objects);
        let mut expected = [LARGE; 4];
        expected[full] = SMALL;
        assert_eq!(granularities(&cluster), expected);
    }
    hear(&mut cluster, [10_000, 14_000, 10_000, 14_000]);
    assert_eq!(granularities(&cluster), [LARGE; 4]);
    // Much more of very little is not worth a border.
    hear(&mut cluster, [1, 190, 1, 1]);
    assert_eq!(granularities(&cluster), [few; 4]);
}

#[test]
fn directories_stay_until_their_server_has_too_much() {
    let mut cluster = adaptive();
    let dirs = |cluster: &mut Cluster, numbers: std::ops::Range<u32>| -> Vec<ShardId> {
        numbers
            .map(|number| made(cluster, mkdir(&format!("dir {number}"))))
            .collect()
    };
    // As long as nobody has anything they are spread over all.
    let first = dirs(&mut cluster, 100..108);
    let servers: BTreeSet<ServerId> = first
        .iter()
        .map(|&shard| cluster.map.server_of(shard))
        .collect();
    assert!(servers.len() > 1, "{first:?}");
    hear(&mut cluster, [1_000; 4]);
    dirs(&mut cluster, 110..112);
    assert_eq!(dirs(&mut cluster, 0..15), [ShardId(0); 15]);
    let busy = busy(&cluster);
    let mut objects = [500; 4];
    objects[busy] = 5_000;
    hear(&mut cluster, objects);
    let shards = dirs(&mut cluster, 20..60);
    let away = |shard: &ShardId| usize::from(cluster.map.server_of(*shard).0) != busy;
    let stay = shards.iter().filter(|&shard| !away(shard)).count();
    assert!(
        stay < 10,
        "only where both that are drawn are its own: {shards:?}"
    );
    // Units of two children of a directory, once the one that was begun before is full; the next may be where that was.
    let begun = shards
        .iter()
        .take_while(|&&shard| shard == shards[0])
        .count()
        % BOUNDS.least_width as usize;
    for unit in shards[begun..].chunks_exact(BOUNDS.least_width as usize) {
        assert_eq!(unit[0], unit[1], "{shards:?}");
    }
    // And when the others have caught up, what is made stays again, once the last unit is full.
    hear(&mut cluster, [5_000; 4]);
    let shards = dirs(&mut cluster, 60..80);
    assert_eq!(shards[BOUNDS.least_width as usize..], [ShardId(0); 18]);
}

/// Operations of two servers tell each what the other has, long before servers tell each other.
#[test]
fn messages_say_what_their_server_has() {
    let mut cluster = adaptive();
    let busy = busy(&cluster);
    let mut objects = [10_000; 4];
    objects[busy] = 20_000;
    hear(&mut cluster, objects);
    let made_away = |cluster: &mut Cluster, from: u32| -> ShardId {
        let shards: Vec<ShardId> = (from..from + 40)
            .map(|number| made(cluster, mkdir(&format!("dir {number}"))))
            .collect();
        let is_away = |shard: &&ShardId| usize::from(cluster.map.server_of(**shard).0) != busy;
        *shards
            .iter()
            .find(is_away)
            .expect("the root's has too much")
    };
    let other = made_away(&mut cluster, 0);
    let width = |cluster: &Cluster, shard: ShardId| {
        let node = &cluster.nodes[usize::from(shard.0)];
        node.shard.granularity().map(|size| size.dir_width)
    };
    assert_eq!(width(&cluster, ShardId(0)), Some(SMALL.dir_width));
    assert_eq!(width(&cluster, other), Some(LARGE.dir_width));
    // The other servers have grown meanwhile. The root's shard hears it with the answers to what it gives them.
    for server in 0..4 {
        cluster.held.insert(ServerId(server), 20_000);
    }
    cluster.input(0, Input::Tick);
    assert_eq!(width(&cluster, ShardId(0)), Some(SMALL.dir_width));
    made_away(&mut cluster, 100);
    assert_eq!(width(&cluster, ShardId(0)), Some(LARGE.dir_width));
    // And they hear what the root's has with what it asks of them: with 20,000 here and there, and 10,000 on two others as
    // far as is known there, the other had too much otherwise.
    assert_eq!(width(&cluster, other), Some(LARGE.dir_width));
}

#[test]
fn files_stay_as_directories_do() {
    let mut cluster = adaptive();
    let files = |cluster: &mut Cluster, numbers: std::ops::Range<u32>| -> Vec<ShardId> {
        numbers
            .map(|number| made(cluster, create(&format!("file {number}"))))
            .collect()
    };
    assert_eq!(files(&mut cluster, 0..15), [ShardId(0); 15]);
    let mut objects = [500; 4];
    objects[busy(&cluster)] = 5_000;
    hear(&mut cluster, objects);
    let shards = files(&mut cluster, 30..70);
    assert!(shards.iter().collect::<BTreeSet<_>>().len() > 3);
    // As many as the width in force are kept together: those of a unit end with a change.
    let units: Vec<_> = shards.chunk_by(|one, other| one == other).collect();
    for unit in &units[1..units.len() - 1] {
        assert_eq!(unit.len() % FILES.most as usize, 0, "{shards:?}");
    }
}

/// The log says where each inode was made: a shard that has heard nothing, or something else, makes it there again.
#[test]
fn a_replay_places_everything_where_it_was() {
    let mut cluster = adaptive();
    let mut objects = [200; 4];
    for number in 0..60 {
        objects[number % 2] += 500;
        hear(&mut cluster, objects);
        made(&mut cluster, mkdir(&format!("dir {number}")));
        made(&mut cluster, create(&format!("file {number}")));
    }
    let before = placed(&cluster);
    assert!(before.len() > 200, "{} pairs", before.len());
    cluster.held.clear();
    for shard in 0..SHARDS {
        let outputs = cluster.restart(shard).outputs;
        cluster.carry(outputs, &mut None);
    }
    assert_eq!(placed(&cluster), before);
    // It knows nothing of the others, and takes them to have as much.
    for node in &cluster.nodes {
        let size = node.shard.granularity().expect("it is placed by");
        assert_eq!(size.dir_width, BOUNDS.most_width);
    }
    hear(&mut cluster, objects);
    let least = BOUNDS.least_width;
    let most = BOUNDS.most_width;
    let widths = granularities(&cluster).map(|size| size.dir_width);
    assert_eq!(widths, [least, least, most, most]);
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
        .call(
            0,
            Request::SetDirSettings(op::SetDirSettings { dir, settings }),
        )
        .unwrap();
    assert!(nobody_asks(&cluster), "nothing was placed yet");
    assert_eq!(placing(&mut cluster, mkdir("two")), [true]);
    assert!(cluster.nodes[0].shard.granularity().is_some());
    assert_eq!(placing(&mut cluster, create("other")), [false]);
}
