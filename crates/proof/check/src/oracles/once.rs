//! A request was executed by one shard at most: no two shards keep an answer to the same one.

use super::Report;
use crate::tables::Tables;
use pandofs_types::{SessionId, ShardId, SlotId};
use std::collections::BTreeMap;

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    let mut executed: BTreeMap<(SessionId, SlotId, u64), ShardId> = BTreeMap::new();
    for (&(shard, session, slot), &sequence) in &tables.slots {
        if let Some(other) = executed.insert((session, slot, sequence), shard) {
            report.add(
                format!("request {sequence} on slot {} of session {session}", slot.0),
                format!("shards {other} and {shard} have both executed it"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, found};
    use pandofs_types::{SessionId, ShardId, SlotId};

    #[test]
    fn a_request_that_two_shards_executed_is_found() {
        let mut tables = testing::sound();
        let mut executed = |shard, sequence| {
            let slot = (ShardId(shard), SessionId(9), SlotId(3));
            tables.slots.insert(slot, sequence);
        };
        executed(0, 7);
        executed(1, 8);
        executed(2, 7);
        let subject = format!("request 7 on slot 3 of session {}", SessionId(9));
        assert!(found(&tables, "once", &subject).contains("shards 0 and 2"));
        tables.slots.remove(&(ShardId(2), SessionId(9), SlotId(3)));
        assert!(testing::problems(&tables, "once").is_empty());
    }
}
