//! Servers join while a large directory is in use.

use crate::support::{Cluster, create_file, name};
use pandofs_api::{DirSettings, PeerMessage, Reply, Request, op};
use pandofs_placement::{DirMap, DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_storage::store::Store;
use pandofs_types::{Ino, ServerId, ShardId};

const FILES: usize = 200;

fn cluster() -> Cluster {
    let settings = Settings {
        split_threshold: 8,
        ..Settings::default()
    };
    let mut cluster = Cluster::new(4, DirPolicy::default(), settings);
    // Of two servers.
    cluster.join();
    cluster
}

fn fill(cluster: &mut Cluster, map: &mut DirMap, from: usize, count: usize) {
    for number in from..from + count {
        let text = format!("file{number}");
        let create = create_file(Ino::ROOT, name(&text));
        let (reply, _) = cluster.call_by_name(map, &name(&text), &create);
        assert!(matches!(reply, Ok(Reply::Entry(_))), "{reply:?}");
    }
}

fn find_all(cluster: &mut Cluster, count: usize) {
    let mut map = DirMap::single(ShardId(0));
    for number in 0..count {
        let text = name(&format!("file{number}"));
        let lookup = Request::Lookup(op::Lookup {
            dir: Ino::ROOT,
            name: text.clone(),
        });
        let (reply, _) = cluster.call_by_name(&mut map, &text, &lookup);
        assert!(matches!(reply, Ok(Reply::Entry(_))), "{reply:?}");
    }
}

/// Entries on each server.
fn entries(cluster: &Cluster) -> Vec<u64> {
    let servers = cluster.map.servers.iter();
    let on = |server: ServerId| {
        let shards = cluster.map.shards_of(server);
        let of = |shard: &ShardId| cluster.nodes[usize::from(shard.0)].shard.status().entries;
        shards.iter().map(of).sum()
    };
    servers.map(|server| on(server.id)).collect()
}

fn servers_of_slots(cluster: &Cluster, map: &DirMap) -> Vec<u16> {
    let slots = map.slots().iter();
    slots.map(|&shard| cluster.map.server_of(shard).0).collect()
}

/// The directory map that the home has.
fn map_of_home(cluster: &mut Cluster) -> DirMap {
    match cluster.call(0, Request::GetAttr(op::GetAttr { ino: Ino::ROOT })) {
        Ok(Reply::Inode(inode)) => inode.dir.unwrap().map,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_directory_splits_to_servers_that_joined_by_use_alone() {
    let mut cluster = cluster();
    let mut map = DirMap::single(ShardId(0));
    fill(&mut cluster, &mut map, 0, FILES);
    cluster.settle();
    let before = map_of_home(&mut cluster);
    assert_eq!(before.active_count(), 2);
    assert_eq!(servers_of_slots(&cluster, &before), [0, 1]);
    cluster.join();
    cluster.join();
    // Nothing moves by that alone.
    cluster.settle();
    assert_eq!(map_of_home(&mut cluster), before);
    assert_eq!(entries(&cluster)[2..], [0, 0]);

    fill(&mut cluster, &mut map, FILES, 20);
    cluster.settle();
    let after = map_of_home(&mut cluster);
    assert_eq!(servers_of_slots(&cluster, &after), [0, 1, 3, 2]);
    assert_eq!(after.slots()[..2], before.slots()[..]);
    assert_eq!(after.active_count(), 4);
    let spread = entries(&cluster);
    assert_eq!(spread.iter().sum::<u64>(), FILES as u64 + 20);
    assert!(spread.iter().all(|&count| count >= 30), "{spread:?}");
    find_all(&mut cluster, FILES + 20);

    // Killed and started again, all shards are where they were.
    for shard in 0..cluster.nodes.len() as u16 {
        let step = cluster.restart(shard);
        cluster.carry(step.outputs, &mut None);
    }
    cluster.settle();
    assert_eq!(entries(&cluster), spread);
    find_all(&mut cluster, FILES + 20);
}

#[test]
fn every_partition_splits_when_it_is_asked_to() {
    let mut cluster = cluster();
    let mut map = DirMap::single(ShardId(0));
    fill(&mut cluster, &mut map, 0, FILES);
    cluster.settle();
    cluster.join();
    cluster.join();
    let request = Request::SetDirSettings(op::SetDirSettings {
        dir: Ino::ROOT,
        settings: DirSettings::default(),
    });
    let reply = cluster.call(0, request);
    assert!(reply.is_ok(), "{reply:?}");
    cluster.settle();
    assert_eq!(map_of_home(&mut cluster).active_count(), 4);
    let spread = entries(&cluster);
    assert!(spread.iter().all(|&count| count >= 30), "{spread:?}");
    find_all(&mut cluster, FILES);
}

/// By ticks alone, as no other time is told to it here.
#[test]
fn a_directory_spreads_as_fast_as_it_is_told_to() {
    const RATE: u32 = 5;
    let second = 1_000_000_000;
    let mut cluster = cluster();
    let mut map = DirMap::single(ShardId(0));
    fill(&mut cluster, &mut map, 0, FILES);
    cluster.settle();
    cluster.join();
    cluster.join();
    let home = map_of_home(&mut cluster);
    let before = entries(&cluster);
    let began = cluster.now;
    let mut told = 0;
    while map_of_home(&mut cluster).active_count() < 4 {
        if cluster.now >= told {
            for shard in home.shards() {
                let request = Request::Spread(op::Spread {
                    dir: Ino::ROOT,
                    entries_per_second: RATE,
                });
                assert_eq!(cluster.call(shard.0, request), Ok(Reply::Done));
            }
            told = cluster.now + second;
        }
        cluster.now += second / 100;
        for shard in 0..cluster.nodes.len() as u16 {
            let outputs = cluster.input(shard, Input::Tick).outputs;
            cluster.carry(outputs, &mut None);
        }
        assert!(cluster.now - began < 60 * second, "it does not end");
    }
    let took = (cluster.now - began) as f64 / second as f64;
    let after = entries(&cluster);
    let gave = before
        .iter()
        .zip(&after)
        .map(|(had, has)| had.saturating_sub(*has));
    let most = gave.max().unwrap_or_default() as f64;
    // The last second's are on their way when the others are counted.
    let least = most / f64::from(RATE) - 1.0;
    assert!(most > 30.0, "{before:?} {after:?}");
    assert!(
        took > least && took < least + 3.0,
        "{most} entries in {took} s"
    );
    find_all(&mut cluster, FILES);
}

/// Of three servers, and a directory that has as many partitions as its entries fill.
fn cluster_of_three(files: usize) -> (Cluster, DirMap) {
    let settings = Settings {
        split_threshold: 64,
        ..Settings::default()
    };
    let mut cluster = Cluster::of_servers(3, 8, DirPolicy::default(), settings);
    let mut map = DirMap::single(ShardId(0));
    fill(&mut cluster, &mut map, 0, files);
    cluster.settle();
    let home = map_of_home(&mut cluster);
    assert_eq!((home.slots().len(), home.active_count()), (18, 16));
    cluster.join();
    cluster.settle();
    assert_eq!(map_of_home(&mut cluster), home, "it moved by that alone");
    (cluster, map)
}

/// Each of the four has a quarter, as far as names are spread evenly.
fn is_even(cluster: &Cluster, files: usize) {
    let spread = entries(cluster);
    assert_eq!(spread.iter().sum::<u64>(), files as u64);
    let fair = files as u64 / 4;
    let range = fair - fair / 5..=fair + fair / 5;
    assert!(
        spread.iter().all(|count| range.contains(count)),
        "{spread:?}"
    );
}

/// No partition is full: by use it would not split.
#[test]
fn a_fourth_server_gets_its_share_when_somebody_has_it_spread() {
    const FILES: usize = 800;
    let (mut cluster, _) = cluster_of_three(FILES);
    let before = map_of_home(&mut cluster);
    for shard in before.shards() {
        let request = Request::Spread(op::Spread {
            dir: Ino::ROOT,
            entries_per_second: 0,
        });
        assert_eq!(cluster.call(shard.0, request), Ok(Reply::Done));
    }
    cluster.settle();
    is_even(&cluster, FILES);
    let after = map_of_home(&mut cluster);
    for index in before.active() {
        assert_eq!(
            after.shard_of_partition(index),
            before.shard_of_partition(index)
        );
    }
    // New partitions went to the new server, or stay where they were.
    for index in after.active().filter(|&index| !before.is_active(index)) {
        let shard = after.shard_of_partition(index);
        let parent = index
            .parent()
            .map(|parent| after.shard_of_partition(parent));
        assert!(cluster.map.server_of(shard).0 == 3 || Some(shard) == parent);
    }
    find_all(&mut cluster, FILES);
    for shard in 0..cluster.nodes.len() as u16 {
        let step = cluster.restart(shard);
        cluster.carry(step.outputs, &mut None);
    }
    cluster.settle();
    is_even(&cluster, FILES);
    find_all(&mut cluster, FILES);
}

#[test]
fn a_fourth_server_gets_its_share_by_use() {
    const FILES: usize = 3_200;
    let (mut cluster, mut map) = cluster_of_three(800);
    fill(&mut cluster, &mut map, 800, FILES - 800);
    cluster.settle();
    is_even(&cluster, FILES);
    find_all(&mut cluster, FILES);
}

/// A shard that has not heard of the new slots splits to where was proposed before; nobody is led astray by that.
#[test]
fn a_split_by_old_slots_is_as_right() {
    const FILES: usize = 1_400;
    let (mut cluster, mut map) = cluster_of_three(800);
    let old = map_of_home(&mut cluster);
    // The home does not know of the fourth server, and says so to everybody who asks.
    let mut late = (*cluster.map).clone();
    late.epoch.0 -= 1;
    late.servers.pop();
    late.shards.truncate(8);
    cluster.nodes[0].shard.set_map(late.into());
    fill(&mut cluster, &mut map, 800, FILES - 800);
    cluster.settle();
    assert_eq!(map_of_home(&mut cluster).version(), old.version());
    assert_eq!(entries(&cluster)[3], 0);
    find_all(&mut cluster, FILES);
    let by_old = map_of_home(&mut cluster);
    assert!(by_old.active_count() > 16);

    let known = std::sync::Arc::clone(&cluster.map);
    cluster.nodes[0].store.flush().unwrap();
    cluster.nodes[0].shard.set_map(known);
    fill(&mut cluster, &mut map, FILES, FILES);
    cluster.settle();
    let after = map_of_home(&mut cluster);
    for index in by_old.active() {
        assert_eq!(
            after.shard_of_partition(index),
            by_old.shard_of_partition(index)
        );
    }
    is_even(&cluster, 2 * FILES);
    find_all(&mut cluster, 2 * FILES);
}

/// The home alone makes another array, and of two servers that become three each old one gives a third away.
#[test]
fn the_home_alone_makes_another_array() {
    let mut cluster = cluster();
    let mut map = DirMap::single(ShardId(0));
    fill(&mut cluster, &mut map, 0, FILES);
    cluster.settle();
    cluster.join();
    let other = map_of_home(&mut cluster).slots()[1];
    // Asked, the home first stores another array, and tells it when it is asked again.
    let ask = PeerMessage::SlotsAsk {
        from: other,
        to: ShardId(0),
        dir: Ino::ROOT,
    };
    let first = cluster.input(0, Input::Peer(ask.clone()));
    assert!(!first.records.is_empty(), "{first:?}");
    let told = |outputs: &[Output]| {
        outputs.iter().any(|output| {
            matches!(output, Output::Send { message: PeerMessage::SlotsTold { map, .. }, durable: true, .. }
                if map.slots().len() == 18 && map.version() == 2)
        })
    };
    assert!(!told(&first.outputs));
    cluster.carry(first.outputs, &mut None);
    let second = cluster.input(0, Input::Peer(ask));
    assert!(told(&second.outputs), "{second:?}");
    cluster.carry(second.outputs, &mut None);
    cluster.settle();
    let map = map_of_home(&mut cluster);
    let servers = servers_of_slots(&cluster, &map);
    // 2 and 3 stay where 0 and 1 are; 4 and 5 are half of what these have left.
    assert_eq!(servers[..6], [0, 1, 0, 1, 2, 2]);
    // A shard that is not the home makes none.
    let astray = PeerMessage::SlotsAsk {
        from: ShardId(0),
        to: other,
        dir: Ino::ROOT,
    };
    let step = cluster.input(other.0, Input::Peer(astray));
    assert!(
        step.records.is_empty() && step.outputs.is_empty(),
        "{step:?}"
    );
    find_all(&mut cluster, FILES);
}
