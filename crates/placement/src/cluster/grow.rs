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

    /// Checks that servers which go by this map may go on by `next`: the same file system, a larger epoch, and every
    /// shard where it was.
    ///
    /// # Errors
    /// [`MapError::NoSuccessor`].
    pub fn check_successor(&self, next: &ClusterMap) -> Result<(), MapError> {
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
        if next.servers.len() < self.servers.len() {
            return refuse("a server has gone");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::cluster;
    use super::*;
    use pandofs_types::ShardId;
    use pandofs_types::limits::MAX_SERVER_WEIGHT;

    fn server(id: u16) -> ServerInfo {
        ServerInfo {
            id: ServerId(id),
            addresses: vec![format!("unix:/run/new-{id}")],
            weight: ServerInfo::WEIGHT_ONE,
            domain: format!("new-{id}"),
        }
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
        // What joins later goes by those that are there, of any weight: 145 shards of 4.5 and a trace.
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
}
