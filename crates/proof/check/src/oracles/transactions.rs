//! Distributed operations: each comes to its end.
//!
//! None stays under way, with its locks, while the servers run.

use super::Report;
use crate::tables::Tables;
use pandofs_types::limits::RESEND_INTERVAL;
use std::time::Duration;

/// How long one may be under way: lost messages are sent again, and operations that met others' locks
/// start again.
const PATIENCE: Duration = Duration::from_millis(20 * RESEND_INTERVAL.as_millis() as u64);

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    for record in &tables.transactions {
        let tx = record.tx;
        if record.coordinates && tx.coordinator != record.shard {
            report.add(
                format!("operation {tx} on shard {}", record.shard),
                "the shard coordinates it, but another one gave it its number".into(),
            );
        } else if record.coordinates {
            report.add_if_it_lasts(
                PATIENCE,
                format!("operation {tx} on shard {}", record.shard),
                "it does not come to an end".into(),
            );
        } else if !record.ended {
            report.add_if_it_lasts(
                PATIENCE,
                format!(
                    "step {} of operation {tx} on shard {}",
                    record.step, record.shard
                ),
                "it does not come to an end".into(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PATIENCE;
    use crate::tables::Transaction;
    use crate::testing::{self, found};
    use pandofs_types::{ShardId, TxId};

    fn record(coordinates: bool) -> Transaction {
        let tx = TxId {
            coordinator: ShardId(2),
            sequence: 7,
        };
        Transaction {
            shard: ShardId(1),
            coordinates,
            tx,
            step: 1,
            ended: false,
        }
    }

    #[test]
    fn an_operation_that_stays_under_way_is_found() {
        let mut tables = testing::sound();
        tables.transactions = vec![
            record(false),
            Transaction {
                shard: ShardId(2),
                ..record(true)
            },
        ];
        found(
            &tables,
            "transactions",
            "step 1 of operation 2:7 on shard 1",
        );
        found(&tables, "transactions", "operation 2:7 on shard 2");
        let mut problems = Vec::new();
        crate::check_tables(&tables, &mut problems);
        assert!(problems.iter().all(|problem| problem.patience == PATIENCE));
    }

    #[test]
    fn what_is_kept_of_an_ended_one_is_no_problem() {
        let mut tables = testing::sound();
        tables.transactions = vec![Transaction {
            ended: true,
            ..record(false)
        }];
        assert!(testing::problems(&tables, "transactions").is_empty());
    }

    #[test]
    fn an_operation_with_anothers_number_is_found() {
        let mut tables = testing::sound();
        tables.transactions = vec![record(true)];
        let said = found(&tables, "transactions", "operation 2:7 on shard 1");
        assert!(said.contains("another one gave it its number"), "{said}");
    }
}
