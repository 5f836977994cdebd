//! Servers that join: the next map, and what may follow a map.

use super::{ClusterMap, MapError, ServerInfo};
use pandofs_types::limits::MAX_SHARDS;
use pandofs_types::{Epoch, ServerId};

impl ClusterMap {
    /// The map after these servers joined: its epoch is the next one, and each of them with a weight above 0 leads
    /// shards of its own, with the numbers after those that are there. How many is what servers of its weight have
    /// on the average now, and one at least, so that new directories are spread over all servers by weight. No shard
    /// changes its server: nothing that is stored moves, and what a large directory gives to the new servers it gives by
    /// splitting (see [`renewed_slots`](crate::renewed_slots)).
    ///
    /// # Errors
    /// [`MapError::NothingToAdd`], [`MapError::TooManyShards`], and what [`ClusterMap::validate`] has against the result:
    /// a number that is taken or leaves a gap, an address that is taken, too many servers.
    pub fn with_servers(&self, added: Vec<ServerInfo>) -> Result<ClusterMap, MapError> {
        if added.is_empty() {
            return Err(MapError::NothingToAdd);
        }
        let leading = self.leading_servers();
        let weights = leading.iter().filter_map(|&id| self.server(id));
        let whole: u64 = weights.map(|server| u64::from(server.weight)).sum();
        let each = |weight: u32| {
            let shards = self.shards.len() as u64;
            let of_weight = (shards * u64::from(weight)).checked_div(whole);
            // A map that was written by hand may have leaders of weight 0 alone.
            let of_weight = of_weight.unwrap_or(shards / leading.len().max(1) as u64);
            of_weight.max(1)
        };
        let leaders = added.iter().filter(|server| server.weight > 0);
        let led: Vec<(ServerId, u64)> = leaders
            .map(|server| (server.id, each(server.weight)))
            .collect();
        // Before they are made: very heavy servers would lead more than there is memory for.
        let (there, joining) = (self.shards.len(), led.iter().map(|(_, count)| count).sum());
        if there as u64 + joining > u64::from(MAX_SHARDS) {
            return Err(MapError::TooManyShards { there, joining });
        }
        let mut next = self.clone();
        next.epoch = Epoch(self.epoch.0 + 1);
        let shards = led.into_iter();
        next.shards
            .extend(shards.flat_map(|(id, count)| std::iter::repeat_n(id, count as usize)));
        next.servers.extend(added);
        next.validate()?;
        Ok(next)
    }

    /// Checks that servers which go by this map may go on by `next`: servers joined after those that are there, each
    /// with shards after those that are there or with none, and nothing else is another than it was. Each addition
    /// makes the epoch larger by 1 and brings at least one server, so `next` is at most as many epochs ahead as servers
    /// joined: a server that was away during several additions may go on by the last map, and no map uses up the epochs.
    ///
    /// # Errors
    /// [`MapError::NoSuccessor`].
    pub fn check_successor(&self, next: &ClusterMap) -> Result<(), MapError> {
        self.check_next(next, false)
    }

    /// As [`ClusterMap::check_successor`], of the map in the file that a server is started with: its administrator may have
    /// given servers other addresses, once or more often, as when their directory was moved.
    ///
    /// # Errors
    /// [`MapError::NoSuccessor`].
    pub fn check_successor_at_start(&self, next: &ClusterMap) -> Result<(), MapError> {
        self.check_next(next, true)
    }

    fn check_next(&self, next: &ClusterMap, at_start: bool) -> Result<(), MapError> {
        let refuse = |why| {
            Err(MapError::NoSuccessor {
                epoch: self.epoch,
                next: next.epoch,
                why,
            })
        };
        if next.fs != self.fs || next.hash_key != self.hash_key {
            return refuse("it is another file system's");
        }
        if next.epoch <= self.epoch {
            return refuse("its epoch is not larger");
        }
        if !next.shards.starts_with(&self.shards) {
            return refuse("a shard has gone or has another server");
        }
        let Some((servers, joined)) = next.servers.split_at_checked(self.servers.len()) else {
            return refuse("a server has gone");
        };
        let is_as_before = |(was, is): (&ServerInfo, &ServerInfo)| {
            let mut is = is.clone();
            if at_start {
                is.addresses.clone_from(&was.addresses);
            }
            is == *was
        };
        if !self.servers.iter().zip(servers).all(is_as_before) {
            return refuse("a server that was there has another address, weight or domain");
        }
        // The whole map, so that a field that is added is compared, too.
        let as_before = ClusterMap {
            epoch: self.epoch,
            servers: self.servers.clone(),
            shards: self.shards.clone(),
            ..next.clone()
        };
        if as_before != *self {
            return refuse("its name, policy or settings are others");
        }
        if !at_start && next.epoch.0 - self.epoch.0 > joined.len() as u64 {
            return refuse("it is more epochs ahead than servers joined");
        }
        let mut added = next.shards[self.shards.len()..].iter();
        if added.any(|leader| !joined.iter().any(|server| server.id == *leader)) {
            return refuse("a server that was there has more shards");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::cluster;
    use super::*;
    use crate::policy::{DirPolicy, FilePolicy};
    use pandofs_types::limits::MAX_SERVER_WEIGHT;
    use pandofs_types::{CommitProtocol, ShardId, StoreKind};
    use proptest::prelude::*;

    fn server(id: u16) -> ServerInfo {
        ServerInfo {
            id: ServerId(id),
            addresses: vec![format!("unix:/run/new-{id}")],
            weight: ServerInfo::WEIGHT_ONE,
            domain: format!("new-{id}"),
        }
    }

    #[test]
    fn a_path_keeps_its_shard_when_servers_join() {
        let server = |id| ServerInfo {
            addresses: vec![],
            ..server(id)
        };
        let map = ClusterMap::create(
            pandofs_types::FsId(1),
            "paths".to_owned(),
            pandofs_types::HashKey(1, 2),
            8,
            vec![server(0), server(1)],
            DirPolicy::CrushPath,
            super::super::Settings::default(),
        )
        .unwrap();
        let next = map.with_servers(vec![server(2)]).unwrap();
        assert!(next.shard_count() > 8);
        assert_eq!(map.check_successor(&next), Ok(()));
        let shards = |map: &ClusterMap| map.path_shards().collect::<Vec<_>>();
        assert_eq!(shards(&next), (0..8).map(ShardId).collect::<Vec<_>>());
        for number in 0..100 {
            let path = format!("/directory-{number}");
            let shard = map.path_shard(path.as_bytes());
            assert!(shard.is_some());
            assert_eq!(next.path_shard(path.as_bytes()), shard);
        }
        let mut other = next.clone();
        other.settings.path_shards = Some(9);
        assert!(map.check_successor(&other).is_err());
    }

    #[test]
    fn who_starts_a_server_may_have_given_servers_other_addresses_and_nothing_else() {
        let before = cluster(16, 2);
        let mut moved = before.clone();
        moved.epoch = Epoch(before.epoch.0 + 3);
        moved.servers[0].addresses = vec!["unix:/run/elsewhere".to_owned()];
        assert_eq!(before.check_successor_at_start(&moved), Ok(()));
        assert!(before.check_successor(&moved).is_err());
        moved.servers[1].weight += 1;
        assert!(before.check_successor_at_start(&moved).is_err());
    }

    #[test]
    fn servers_that_join_bring_shards_of_their_own_and_nothing_moves() {
        let before = cluster(16, 2);
        let after = before.with_servers(vec![server(2), server(3)]).unwrap();
        assert_eq!(after.epoch, Epoch(before.epoch.0 + 1));
        assert_eq!(after.shards[..16], before.shards[..]);
        assert_eq!(after.shard_count(), 32);
        assert_eq!(
            after.shards_of(ServerId(2)),
            (16..24).map(ShardId).collect::<Vec<_>>()
        );
        assert_eq!(
            after.shards_of(ServerId(3)),
            (24..32).map(ShardId).collect::<Vec<_>>()
        );
        assert_eq!(after.max_partitions(), 4);
        assert_eq!(before.check_successor(&after), Ok(()));
        // It is a file like any other, and more may join.
        assert_eq!(ClusterMap::from_json(&after.to_json()), Ok(after.clone()));
        let third = after.with_servers(vec![server(4)]).unwrap();
        assert_eq!(third.shard_count(), 40);
        assert_eq!(before.check_successor(&third), Ok(()));
    }

    /// The third of what is there has half the weight, and the fourth twice as much.
    #[test]
    fn servers_that_join_lead_as_many_shards_as_others_of_their_weight() {
        let before = cluster(64, 2);
        let weighing = |id, weight| ServerInfo {
            weight,
            ..server(id)
        };
        let one = ServerInfo::WEIGHT_ONE;
        let joining = vec![weighing(2, one / 2), weighing(3, 2 * one), weighing(4, 1)];
        let after = before.with_servers(joining).unwrap();
        let led = |id| after.shards_of(ServerId(id)).len();
        assert_eq!([led(2), led(3), led(4)], [16, 64, 1]);
        assert_eq!(after.shards[..64], before.shards[..]);
        // A server that joins later goes by those that are there, of any weight: 145 shards of 4.5 and a trace.
        let later = after.with_servers(vec![server(5)]).unwrap();
        assert_eq!(later.shards_of(ServerId(5)).len(), 32);
        // All of weight 0, as only a hand can write it.
        let mut idle = before;
        for there in &mut idle.servers {
            there.weight = 0;
        }
        let after = idle.with_servers(vec![server(2)]).unwrap();
        assert_eq!(after.shards_of(ServerId(2)).len(), 32);
    }

    #[test]
    fn what_cannot_join_is_refused() {
        let map = cluster(16, 2);
        assert_eq!(map.with_servers(Vec::new()), Err(MapError::NothingToAdd));
        assert_eq!(
            map.with_servers(vec![server(1)]),
            Err(MapError::DuplicateServer(ServerId(1)))
        );
        assert!(matches!(
            map.with_servers(vec![server(3)]),
            Err(MapError::ServerId { .. })
        ));
        let full = cluster(MAX_SHARDS, 2);
        assert!(matches!(
            full.with_servers(vec![server(2)]),
            Err(MapError::TooManyShards { .. })
        ));
        let mut heavy = server(2);
        heavy.weight = MAX_SERVER_WEIGHT * ServerInfo::WEIGHT_ONE;
        let too_heavy = map.with_servers(vec![heavy]);
        assert_eq!(
            too_heavy,
            Err(MapError::TooManyShards {
                there: 16,
                joining: 80_000
            })
        );
        let mut idle = server(2);
        idle.weight = 0;
        let after = full.with_servers(vec![idle]).unwrap();
        assert_eq!(after.shards, full.shards);
    }

    #[test]
    fn only_a_larger_map_of_the_same_file_system_follows() {
        let map = cluster(16, 2);
        assert!(map.check_successor(&map).is_err());
        let next = map.with_servers(vec![server(2)]).unwrap();
        assert!(next.check_successor(&map).is_err());
        let mut moved = next.clone();
        moved.shards[0] = ServerId(2);
        assert!(map.check_successor(&moved).is_err());
        let mut foreign = next;
        foreign.fs.0 ^= 1;
        assert!(map.check_successor(&foreign).is_err());
    }

    /// Something of a map that may not change, changed by an amount above 0.
    type Change = fn(&mut ClusterMap, usize, u16);

    /// The second argument is the place of a server that was there.
    const FORBIDDEN: &[(&str, Change)] = &[
        ("format", |map, _, by| map.format += u32::from(by)),
        ("fs", |map, _, by| map.fs.0 ^= u128::from(by)),
        ("name", |map, _, by| map.name.push_str(&by.to_string())),
        ("skipped epochs", |map, _, by| {
            map.epoch.0 += 1 + u64::from(by)
        }),
        ("the last epoch", |map, _, _| map.epoch.0 = u64::MAX),
        ("an old epoch", |map, _, by| map.epoch.0 = u64::from(by % 5)),
        ("first word of the key", |map, _, by| {
            map.hash_key.0 ^= u64::from(by)
        }),
        ("second word of the key", |map, _, by| {
            map.hash_key.1 ^= u64::from(by)
        }),
        ("id of a server", |map, at, by| map.servers[at].id.0 ^= by),
        ("an address more", |map, at, by| {
            map.servers[at].addresses.push(format!("unix:/{by}"))
        }),
        ("another address", |map, at, _| {
            map.servers[at].addresses[0].push('x')
        }),
        ("an address less", |map, at, _| {
            map.servers[at].addresses.truncate(1)
        }),
        ("order of addresses", |map, at, _| {
            map.servers[at].addresses.reverse()
        }),
        ("swapped addresses", |map, at, _| {
            let other = (at + 1) % 2;
            let addresses = map.servers[at].addresses.clone();
            map.servers[at].addresses = map.servers[other].addresses.clone();
            map.servers[other].addresses = addresses;
        }),
        ("weight", |map, at, by| {
            map.servers[at].weight ^= u32::from(by)
        }),
        ("domain", |map, at, by| {
            map.servers[at].domain.push_str(&by.to_string())
        }),
        ("order of servers", |map, at, _| {
            map.servers.swap(at, at + 1)
        }),
        ("a server less", |map, at, _| drop(map.servers.remove(at))),
        ("only one server", |map, _, _| map.servers.truncate(1)),
        ("leader of a shard", |map, _, by| {
            let shard = usize::from(by % 16);
            map.shards[shard] = ServerId((map.shards[shard].0 + 1) % 2);
        }),
        ("a shard for a server that joins", |map, _, by| {
            map.shards[usize::from(by % 16)] = ServerId(2);
        }),
        ("a shard less", |map, _, _| map.shards.truncate(15)),
        ("a shard more for one that was there", |map, at, _| {
            map.shards.push(ServerId(at as u16))
        }),
        ("another policy", |map, _, _| map.policy = DirPolicy::Random),
        ("figures of the policy", |map, _, by| {
            let dir_width = 16 + u32::from(by);
            map.policy = DirPolicy::Ddg {
                dir_depth: 4,
                dir_width,
            };
        }),
        ("split_threshold", |map, _, by| {
            map.settings.split_threshold ^= u32::from(by)
        }),
        ("max_partitions", |map, _, by| {
            map.settings.max_partitions = Some(u32::from(by))
        }),
        ("initial_partitions", |map, _, by| {
            map.settings.initial_partitions ^= u32::from(by)
        }),
        ("stripe_unit", |map, _, by| {
            map.settings.stripe_unit ^= u32::from(by)
        }),
        ("stripe_count", |map, _, by| map.settings.stripe_count ^= by),
        ("inline_bytes", |map, _, by| {
            map.settings.inline_bytes ^= u32::from(by)
        }),
        ("flush_interval_ms", |map, _, by| {
            map.settings.flush_interval_ms ^= u64::from(by)
        }),
        ("commit_protocol", |map, _, _| {
            map.settings.commit_protocol = CommitProtocol::TwoPhase
        }),
        ("file_policy", |map, _, by| {
            let file_width = u32::from(by);
            map.settings.file_policy = FilePolicy::Ddg { file_width };
        }),
        ("store", |map, _, _| {
            map.settings.store = StoreKind::Directories
        }),
    ];

    proptest! {
        /// Each field by itself.
        #[test]
        fn a_map_of_which_anything_else_changed_is_no_successor(
            joining in 1..3u16,
            at in 0..2usize,
            by in 1..u16::MAX,
        ) {
            let mut map = cluster(16, 2);
            for server in &mut map.servers {
                let id = server.id;
                server.addresses = vec![format!("unix:/run/{id}"), format!("tcp:host-{id}:7400")];
            }
            map.epoch = Epoch(10);
            let next = map.with_servers((2..2 + joining).map(server).collect()).unwrap();
            prop_assert_eq!(map.check_successor(&next), Ok(()));
            for (what, change) in FORBIDDEN {
                let mut wrong = next.clone();
                change(&mut wrong, at, by);
                prop_assert_ne!(&wrong, &next, "{}", what);
                prop_assert!(map.check_successor(&wrong).is_err(), "{what}: {wrong:?}");
            }
        }
    }

    /// A server that was away while others were added one after the other goes on by the last map.
    #[test]
    fn an_epoch_for_each_server_that_joined_may_be_skipped() {
        let map = cluster(16, 2);
        let mut next = map.with_servers(vec![server(2), server(3)]).unwrap();
        next.epoch.0 += 1;
        assert_eq!(map.check_successor(&next), Ok(()));
        next.epoch.0 += 1;
        assert!(map.check_successor(&next).is_err());
    }
}
