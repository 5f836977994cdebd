use super::*;
use crate::adaptive::{DirBounds, FileBounds};
use pandofs_types::limits::MAX_DOMAIN_BYTES;

/// A cluster of equal servers, each in its own domain, without addresses.
pub(crate) fn cluster(shards: u16, servers: u16) -> ClusterMap {
    let server = |id| ServerInfo {
        id: ServerId(id),
        addresses: vec![],
        weight: ServerInfo::WEIGHT_ONE,
        domain: format!("host-{id}"),
    };
    ClusterMap::create(
        FsId(1),
        "test".into(),
        HashKey(1, 2),
        shards,
        (0..servers).map(server).collect(),
        DirPolicy::default(),
        Settings::default(),
    )
    .expect("a valid map")
}

fn create(shards: u16, servers: Vec<ServerInfo>) -> Result<ClusterMap, MapError> {
    let (policy, settings) = (DirPolicy::default(), Settings::default());
    ClusterMap::create(
        FsId(1),
        "test".into(),
        HashKey(1, 2),
        shards,
        servers,
        policy,
        settings,
    )
}

#[test]
fn every_shard_has_one_server_and_every_server_its_shards() {
    let map = cluster(64, 4);
    assert_eq!(map.shard_count(), 64);
    assert_eq!(map.epoch, Epoch(1));
    let mut seen = 0;
    for server in &map.servers {
        let shards = map.shards_of(server.id);
        assert!(!shards.is_empty());
        assert!(shards.is_sorted());
        assert!(
            shards
                .iter()
                .all(|&shard| map.server_of(shard) == server.id)
        );
        seen += shards.len();
        assert_eq!(map.server(server.id), Some(server));
    }
    assert_eq!(seen, 64);
    assert_eq!(map.server(ServerId(4)), None);
    assert_eq!(map.shards_of(ServerId(4)), []);
    assert_eq!(map.leading_servers(), [0, 1, 2, 3].map(ServerId));
    assert!(map.has_shard(ShardId(63)) && !map.has_shard(ShardId(64)));
}

#[test]
fn partitions_are_as_set_or_by_the_servers() {
    let mut map = cluster(64, 3);
    assert_eq!(map.max_partitions(), 18);
    let mut other = map.clone();
    other.shards.fill(ServerId(1));
    assert_eq!(other.max_partitions(), 1);
    assert_eq!(map.max_partitions(), 18);
    map.settings.max_partitions = Some(5);
    assert_eq!(map.max_partitions(), 5);
}

#[test]
#[should_panic(expected = "no shard 64")]
fn an_unknown_shard_has_no_server() {
    cluster(64, 1).server_of(ShardId(64));
}

#[test]
fn what_cannot_be_created() {
    let servers = cluster(64, 4).servers;
    for shards in [0, 3, 63, MAX_SHARDS + 1] {
        let refused = create(shards, servers.clone());
        assert_eq!(refused, Err(MapError::ShardCount(usize::from(shards))));
    }
    assert_eq!(create(64, vec![]), Err(MapError::ServerCount(0)));
    let mut weightless = servers.clone();
    for server in &mut weightless {
        server.weight = 0;
    }
    assert_eq!(create(64, weightless), Err(MapError::NoWeight));
    assert_eq!(create(1, servers).map(|map| map.shards.len()), Ok(1));
}

/// Makes the map wrong in one way and returns what is said about it.
fn refusal(spoil: impl FnOnce(&mut ClusterMap)) -> String {
    let mut map = cluster(16, 2);
    assert_eq!(map.validate(), Ok(()));
    spoil(&mut map);
    map.validate()
        .map_or_else(|error| error.to_string(), |()| "valid".into())
}

#[test]
fn what_is_wrong_is_named() {
    let said = [
        (
            refusal(|map| map.format = 2),
            "the cluster map has format 2, this program reads format 1",
        ),
        (
            refusal(|map| map.name = "a\nb".into()),
            "the file system's name is to be 1 to 255 bytes without control characters, not \"a\\nb\"",
        ),
        (
            refusal(|map| map.name = String::new()),
            "the file system's name is to be 1 to 255 bytes without control characters, not \"\"",
        ),
        (
            refusal(|map| map.servers.clear()),
            "a cluster has 1 to 10240 servers, this one has 0",
        ),
        (
            refusal(|map| map.servers[0].id = ServerId(1)),
            "there are two servers 1",
        ),
        (
            refusal(|map| map.servers.truncate(1)),
            "shard 2 is led by server 1, which is not in the map",
        ),
        (
            refusal(|map| map.shards.clear()),
            "a file system has 1 to 32768 shards, this one has 0",
        ),
        (
            refusal(|map| map.policy = DirPolicy::CrushPath),
            "path_shards is to be a number of shards that the file system has, for the policy crush-path and no other",
        ),
        (
            refusal(|map| map.settings.path_shards = Some(1)),
            "path_shards is to be a number of shards that the file system has, for the policy crush-path and no other",
        ),
        (
            refusal(|map| {
                map.policy = DirPolicy::CrushPath;
                map.settings.path_shards = Some(map.shard_count() + 1);
            }),
            "path_shards is to be a number of shards that the file system has, for the policy crush-path and no other",
        ),
        (
            refusal(|map| {
                map.policy = DirPolicy::Ddg {
                    dir_depth: 0,
                    dir_width: 1,
                }
            }),
            "the policies ddg and adaptive need depths and widths of 1 or more, the least before the largest",
        ),
        (
            refusal(|map| {
                map.policy = DirPolicy::Ddg {
                    dir_depth: 1,
                    dir_width: 0,
                }
            }),
            "the policies ddg and adaptive need depths and widths of 1 or more, the least before the largest",
        ),
        (
            refusal(|map| {
                map.policy = DirPolicy::Adaptive(DirBounds {
                    least_depth: 7,
                    ..DirBounds::default()
                })
            }),
            "the policies ddg and adaptive need depths and widths of 1 or more, the least before the largest",
        ),
        (
            refusal(|map| {
                map.settings.file_policy = FilePolicy::Adaptive(FileBounds { least: 0, most: 9 })
            }),
            "the policies of files need widths of 1 or more, the least one before the largest",
        ),
        (
            refusal(|map| map.settings.split_threshold = 3),
            "split_threshold is to be 4 to 4294967295, not 3",
        ),
        (
            refusal(|map| map.settings.max_partitions = Some(0)),
            "max_partitions is to be 1 to 1024, not 0",
        ),
        (
            refusal(|map| map.settings.max_partitions = Some(1_025)),
            "max_partitions is to be 1 to 1024, not 1025",
        ),
        (
            refusal(|map| map.settings.initial_partitions = 0),
            "initial_partitions is to be 1 to 1024, not 0",
        ),
        (
            refusal(|map| {
                map.settings.max_partitions = Some(4);
                map.settings.initial_partitions = 5;
            }),
            "initial_partitions is to be 1 to 4, not 5",
        ),
        (
            refusal(|map| map.settings.stripe_unit = 0),
            "stripe_unit is to be 4096 to 4294967295, not 0",
        ),
        (
            refusal(|map| map.settings.inline_bytes = 65_537),
            "inline_bytes is to be 0 to 65536, not 65537",
        ),
    ];
    for (said, expected) in said {
        assert_eq!(said, expected);
    }
}

#[test]
fn what_is_an_address() {
    for good in [
        "tcp:127.0.0.1:7000",
        "tcp:[::1]:7000",
        "tcp:host.example:65535",
        "unix:/run/s",
    ] {
        assert_eq!(
            refusal(|map| map.servers[0].addresses = vec![good.into()]),
            "valid",
            "{good}"
        );
    }
    for bad in [
        "",
        "127.0.0.1:7000",
        "tcp:7000",
        "tcp::7000",
        "tcp:host:0",
        "tcp:host:65536",
        "unix:s",
    ] {
        let said = refusal(|map| map.servers[1].addresses = vec![bad.into()]);
        assert_eq!(
            said,
            format!("server 1: the address {bad:?} is neither tcp:HOST:PORT nor unix:/PATH")
        );
    }
    let twice = refusal(|map| {
        for server in &mut map.servers {
            server.addresses = vec!["unix:/run/s".into()];
        }
    });
    assert_eq!(
        twice,
        "server 1: the address \"unix:/run/s\" is there already"
    );
}

#[test]
fn ten_thousand_servers_have_a_map_and_more_may_join() {
    const SERVERS: u16 = 10_000;
    let server = |id: u16| ServerInfo {
        id: ServerId(id),
        addresses: vec![format!("tcp:server-{id:05}.example.org:7070")],
        weight: ServerInfo::WEIGHT_ONE,
        domain: format!("{:0>MAX_DOMAIN_BYTES$}", id / 40),
    };
    let map = create(MAX_SHARDS / 2, (0..SERVERS).map(server).collect()).unwrap();
    assert_eq!(map.leading_servers().len(), usize::from(SERVERS));
    assert_eq!(ClusterMap::from_json(&map.to_json()), Ok(map.clone()));
    let after = map
        .with_servers((SERVERS..SERVERS + 40).map(server).collect())
        .unwrap();
    assert_eq!(map.check_successor(&after), Ok(()));
    assert_eq!(after.leading_servers().len(), usize::from(SERVERS) + 40);
    // It goes to clients and servers in one frame.
    let bytes = after.to_json().len() + 4_096;
    assert!(bytes < pandofs_types::limits::MAX_FRAME_BYTES, "{bytes}");
    let too_many = (0..=MAX_SERVERS as u16).map(server).collect();
    assert_eq!(
        create(MAX_SHARDS / 2, too_many),
        Err(MapError::ServerCount(MAX_SERVERS + 1))
    );
}
