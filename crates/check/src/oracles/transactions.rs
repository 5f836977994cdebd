//! No distributed operation is left over: a participant keeps nothing of an operation that has ended
//! everywhere.

use super::Report;
use crate::tables::Tables;

pub fn check(tables: &Tables, report: &mut Report<'_>) {
    for record in &tables.transactions {
        let tx = record.tx;
        let horizon = tables
            .horizons
            .get(&(record.shard, tx.coordinator))
            .copied()
            .unwrap_or(0);
        if !record.coordinates && tx.sequence < horizon {
            report(
                format!(
                    "step {} of operation {tx} on shard {}",
                    record.step, record.shard
                ),
                format!("its coordinator has said that all operations before {horizon} have ended"),
            );
        }
        if record.coordinates && tx.coordinator != record.shard {
            report(
                format!("operation {tx} on shard {}", record.shard),
                "the shard coordinates it, but another one gave it its number".into(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tables::Transaction;
    use crate::testing::{self, found};
    use pandofs_types::{ShardId, TxId};

    #[test]
    fn a_step_of_an_ended_operation_is_found() {
        let mut tables = testing::sound();
        let tx = TxId {
            coordinator: ShardId(2),
            sequence: 7,
        };
        tables.transactions.push(Transaction {
            shard: ShardId(1),
            coordinates: false,
            tx,
            step: 1,
        });
        assert!(testing::problems(&tables, "transactions").is_empty());
        tables.horizons.insert((ShardId(1), ShardId(2)), 8);
        assert!(
            found(
                &tables,
                "transactions",
                "step 1 of operation 2:7 on shard 1"
            )
            .contains("ended")
        );
    }

    #[test]
    fn a_stolen_operation_is_found() {
        let mut tables = testing::sound();
        let tx = TxId {
            coordinator: ShardId(2),
            sequence: 7,
        };
        tables.transactions.push(Transaction {
            shard: ShardId(1),
            coordinates: true,
            tx,
            step: 0,
        });
        found(&tables, "transactions", "operation 2:7 on shard 1");
    }
}
