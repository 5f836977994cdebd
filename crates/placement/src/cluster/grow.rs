//! Servers that join: the next map, and what may follow a map.

use super::{ClusterMap, MapError, ServerInfo};
use pandofs_types::{Epoch, ServerId};

impl ClusterMap {
    /// The map after these servers joined: its epoch is the next one, and each of them with a weight above 0 leads
    /// shards of its own, with the numbers after those that are there. How many is a server's mean now, so that
    /// new directories are spread over all servers alike. No shard changes its server: nothing that is stored
    /// moves, and what a large directory gives to the new servers it gives by splitting (see
    /// [`extended_slots`](crate::extended_slots)).
    ///
    /// # Errors
    /// [`MapError::NothingToAdd`], and what [`ClusterMap::validate`] has against the result: a number that is taken
    /// or leaves a gap, an address that is taken, too many servers or shards.
    pub fn with_servers(&self, added: Vec<ServerInfo>) -> Result<ClusterMap, MapError> {
        if added.is_empty() {
            return Err(MapError::NothingToAdd);
        }
        let each = (self.shards.len() / self.leading_servers().len().max(1)).max(1);
        let mut next = self.clone();
        next.epoch = Epoch(self.epoch.0 + 1);
        let leaders = added.iter().filter(|server| server.weight > 0);
        let shards: Vec<ServerId> = leaders
            .flat_map(|server| std::iter::repeat_n(server.id, each))
            .collect();
        next.shards.extend(shards);
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
    use pandofs_types::limits::MAX_SHARDS;

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
            Err(MapError::Shards(_))
        ));
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
