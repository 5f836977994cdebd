//! Summary of a trace.

use crate::fpfs::TABLE_1;
use crate::op::Kind;
use crate::recording::Schedule;
use crate::trace::{Record, Trace};
use serde::Serialize;
use std::collections::BTreeMap;

/// Counts of a trace, or of its replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Streams that may go on at the same time.
    pub clients: u32,
    /// Operations that only make what is there at the beginning.
    pub prepared: u64,
    /// How many of each kind, without the preparation.
    pub operations: BTreeMap<Kind, u64>,
    /// The operations of FPFS's table I, in its order.
    pub table_1: Vec<Row>,
    /// Those that failed.
    pub failed: BTreeMap<Kind, u64>,
    /// Operations that wait for another client's; of a recording, for any other.
    pub dependent: u64,
    /// Operations of a recording that cannot be replayed; they count as operations.
    pub left_out: BTreeMap<Kind, u64>,
    /// A recording ended before the programs did.
    pub cut_short: bool,
    /// Seconds of the operations without the preparation; 0 for a trace that was not replayed.
    pub seconds: f64,
}

/// A row of table I.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The kind, by this project's name.
    pub operation: Kind,
    /// Operations of the kind.
    pub count: u64,
    /// Of the operations of the table, here and there.
    pub percent: f64,
    /// The share that the paper gives.
    pub percent_of_fpfs: f64,
}

/// Counts.
pub fn summarize(trace: &Trace) -> Summary {
    let mut counted = Counted::new(trace.clients, trace.prepare);
    for record in &trace.records {
        counted.add(record);
    }
    counted.finish()
}

/// Counts of records as they come by.
#[derive(Clone, Debug)]
pub struct Counted {
    summary: Summary,
    /// Records to come that only prepare.
    to_prepare: u32,
}

impl Counted {
    /// Of none so far; the first `prepare` only prepare.
    pub fn new(clients: u32, prepare: u32) -> Counted {
        Counted {
            summary: Summary {
                clients,
                prepared: u64::from(prepare),
                ..Summary::default()
            },
            to_prepare: prepare,
        }
    }

    /// Counts the next one.
    pub fn add(&mut self, record: &Record) {
        if self.to_prepare > 0 {
            self.to_prepare -= 1;
            return;
        }
        *self.summary.operations.entry(record.op.op).or_default() += 1;
        self.summary.dependent += u64::from(!record.after.is_empty());
    }

    /// The counts of all.
    pub fn finish(self) -> Summary {
        Summary {
            table_1: table_1(&self.summary.operations),
            ..self.summary
        }
    }
}

/// Counts of a recording.
pub fn summarize_recording(schedule: &Schedule) -> Summary {
    let mut operations = schedule.left_out.clone();
    let mut failed = BTreeMap::new();
    for step in &schedule.steps {
        *operations.entry(step.op.op).or_default() += 1;
        if step.error.is_some() {
            *failed.entry(step.op.op).or_default() += 1;
        }
    }
    Summary {
        clients: schedule.clients(),
        prepared: schedule.prepare.len() as u64,
        table_1: table_1(&operations),
        operations,
        failed,
        dependent: schedule.dependent(),
        left_out: schedule.left_out.clone(),
        cut_short: schedule.cut_short,
        seconds: 0.0,
    }
}

fn table_1(operations: &BTreeMap<Kind, u64>) -> Vec<Row> {
    let count_of = |kind| operations.get(&kind).copied().unwrap_or(0);
    let all: u64 = TABLE_1.iter().map(|&(kind, _)| count_of(kind)).sum();
    let all_of_fpfs: u64 = TABLE_1.iter().map(|(_, count)| count).sum();
    let percent = |count: u64, all: u64| 100.0 * count as f64 / all.max(1) as f64;
    let row = |(kind, of_fpfs)| Row {
        operation: kind,
        count: count_of(kind),
        percent: percent(count_of(kind), all),
        percent_of_fpfs: percent(of_fpfs, all_of_fpfs),
    };
    TABLE_1.map(row).into()
}
