//! Routes: a client with any map of a directory finds the owner of a name with few questions.
//!
//! Two if it knows nothing, since the home knows all that was reported to it, and otherwise two
//! more than the owner's partition is deep, since each wrong shard sends it to a deeper partition
//! or to the home.

use super::Report;
use crate::tables::Tables;
use pandofs_namespace::records::PartsRecord;
use pandofs_placement::DirMap;
use pandofs_types::limits::RESEND_INTERVAL;
use pandofs_types::{FileKind, Ino, Position, ShardId};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a home may take to hear of a split, once it can be reached.
const PATIENCE: Duration = RESEND_INTERVAL.saturating_mul(20);

pub(crate) fn check(tables: &Tables, report: &mut Report<'_>) {
    let holders = tables.holders();
    for (&(home, dir), inode) in &tables.inodes {
        if inode.kind != FileKind::Dir || home != dir.birth_shard() {
            continue;
        }
        let records = holders.get(&dir).map_or(&[][..], Vec::as_slice);
        let mut knowledge = vec![(DirMap::single(home), 2)];
        let maps = records.iter().map(|(_, record)| record.map.clone());
        knowledge.extend(maps.map(|map| (map, usize::MAX)));
        for (map, most) in knowledge {
            if let Err(text) = probe_all(tables, dir, records, &map, most) {
                report.add_if_it_lasts(PATIENCE, format!("directory {dir}"), text);
            }
        }
    }
}

/// Looks for the owner of each partition of the directory with what is in `map`, as a client does, and with at most
/// `most` questions.
///
/// # Errors
/// The mistake on the way.
pub fn probes(tables: &Tables, dir: Ino, map: &DirMap, most: usize) -> Result<(), String> {
    let of_it = tables.parts.iter().filter(|((_, of), _)| *of == dir);
    let records: Vec<_> = of_it.map(|((shard, _), record)| (*shard, record)).collect();
    probe_all(tables, dir, &records, map, most)
}

/// The same, where it is known already which shards have `records` of the directory.
fn probe_all(
    tables: &Tables,
    dir: Ino,
    records: &[(ShardId, &PartsRecord)],
    map: &DirMap,
    most: usize,
) -> Result<(), String> {
    let mut positions = BTreeSet::new();
    for (_, record) in records {
        let starts = record
            .parts
            .iter()
            .filter(|part| record.map.is_active(part.index));
        positions.extend(starts.map(|part| record.map.range_of(part.index).0));
    }
    positions.into_iter().try_for_each(|position| {
        let asked = probe(tables, dir, map.clone(), position)?;
        let owner = asked.last().and_then(|shard| tables.parts.get(&(*shard, dir)));
        let depth = owner.map_or(0, |owner| owner.map.depth_of(owner.map.partition_of(position)));
        let most = most.min(usize::from(depth) + 2);
        if asked.len() > most {
            return Err(format!(
                "the owner of {position:?} is found by asking the shards {asked:?}, where {most} are enough"
            ));
        }
        Ok(())
    })
}

/// The shards that are asked, the owner last.
fn probe(
    tables: &Tables,
    dir: Ino,
    mut map: DirMap,
    position: Position,
) -> Result<Vec<ShardId>, String> {
    let mut asked = Vec::new();
    // More than there are partitions on any way.
    while asked.len() < 64 {
        let shard = map.shard_of(position);
        asked.push(shard);
        let known = tables.parts.get(&(shard, dir));
        if let Some(record) = known {
            let index = record.map.partition_of(position);
            if record.part(index).is_some() {
                return Ok(asked);
            }
        }
        if known.is_some_and(|record| map.merge(&record.map)) {
            continue;
        }
        let home = dir.birth_shard();
        asked.push(home);
        match tables.parts.get(&(home, dir)) {
            Some(record) => {
                if !map.merge(&record.map) {
                    return Err(format!(
                        "the shards {asked:?} were asked for {position:?}, and the home knows no better"
                    ));
                }
            }
            None => return Err("its home knows nothing of it".to_owned()),
        }
    }
    Err(format!(
        "the shards {asked:?} send a client that looks for {position:?} to one another"
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, SHARED, found};
    use pandofs_placement::{DirMap, PartitionIndex};
    use pandofs_types::ShardId;

    #[test]
    fn a_home_that_was_not_told_is_found() {
        let mut tables = testing::sound();
        assert!(testing::problems(&tables, "routes").is_empty());
        assert!(super::probes(&tables, SHARED, &DirMap::single(ShardId(1)), 2).is_ok());
        assert!(super::probes(&tables, SHARED, &DirMap::single(ShardId(1)), 1).is_err());
        // Partition 1 has split, and only the two shards between which it did know.
        let mut split = tables.parts[&(ShardId(2), SHARED)].clone();
        split.map.activate(PartitionIndex(3));
        tables.parts.insert((ShardId(2), SHARED), split.clone());
        split.parts[0].index = PartitionIndex(3);
        tables.parts.insert((ShardId(0), SHARED), split);
        let said = found(&tables, "routes", &format!("directory {SHARED}"));
        assert!(said.contains("where 2 are enough"), "{said}");
    }
}
