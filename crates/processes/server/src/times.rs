//! Times of requests, forces of the log and flushes of the store, filled by the server's threads without a lock.

use pandofs_api::op::{Batch, EarlyOperation};
use pandofs_api::{DataRequest, Request, snake_case};
use pandofs_metrics::{Histogram, Snapshot};
use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

/// The lane and its helper threads fill them, and an observer reads them.
#[derive(Debug)]
pub(crate) struct Times {
    operations: [Histogram; Kind::COUNT],
    early: [AtomicU64; Kind::COUNT],
    data: [Histogram; DataKind::COUNT],
    pub forces: Histogram,
    pub flushes: Histogram,
}

/// [`Times`] at a moment. Of kinds those that there were since the server's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// Requests of clients to shards, by operation (`get_attr`): from their arrival to their answer.
    pub operations: Vec<(String, Snapshot)>,
    /// Operations in batches that clients have executed early, by operation.
    pub early: Vec<(String, u64)>,
    /// Requests of clients to data objects, by kind (`read`).
    pub data: Vec<(String, Snapshot)>,
    /// Forces of the log.
    pub forces: Snapshot,
    /// Flushes of the store.
    pub flushes: Snapshot,
}

macro_rules! kinds {
    ($($name:ident),+ $(,)?) => {
        /// Kind of a request to a shard.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($name),+
        }

        impl Kind {
            const NAMES: &[&str] = &[$(stringify!($name)),+];
            const COUNT: usize = Kind::NAMES.len();

            /// `get_attr`
            pub(crate) fn name(self) -> String {
                snake_case(Kind::NAMES[self as usize])
            }

            pub(crate) fn of(request: &Request) -> Kind {
                match request {
                    $(Request::$name(_) => Kind::$name),+
                }
            }
        }
    };
}

pandofs_api::operations!(kinds);

macro_rules! early_kinds {
    ($($name:ident),+ $(,)?) => {
        impl Kind {
            fn of_early(operation: &EarlyOperation) -> Kind {
                match operation {
                    $(EarlyOperation::$name(_) => Kind::$name),+
                }
            }
        }
    };
}

early_kinds! {
    Create, Mkdir, Unlink, Rmdir, Rename, Link, SetAttr, WriteInline, SetXattr, RemoveXattr, Stripe, WroteData, WriteNew
}

macro_rules! data_kinds {
    ($($name:ident),+ $(,)?) => {
        /// Kind of a request to a data object.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum DataKind {
            $($name),+
        }

        impl DataKind {
            const NAMES: &[&str] = &[$(stringify!($name)),+];
            const COUNT: usize = DataKind::NAMES.len();

            /// `read`
            pub(crate) fn name(self) -> String {
                snake_case(DataKind::NAMES[self as usize])
            }

            pub(crate) fn of(request: &DataRequest) -> DataKind {
                match request {
                    $(DataRequest::$name { .. } => DataKind::$name),+
                }
            }
        }
    };
}

data_kinds! {
    Read, Write, Truncate, Remove, Sync, Usage, Space, Allocate, Seek, Fill
}

impl Default for Times {
    fn default() -> Times {
        Times {
            operations: array::from_fn(|_| Histogram::default()),
            early: array::from_fn(|_| AtomicU64::default()),
            data: array::from_fn(|_| Histogram::default()),
            forces: Histogram::default(),
            flushes: Histogram::default(),
        }
    }
}

impl Times {
    pub(crate) fn operation(&self, kind: Kind) -> &Histogram {
        &self.operations[kind as usize]
    }

    pub(crate) fn data(&self, kind: DataKind) -> &Histogram {
        &self.data[kind as usize]
    }

    /// A batch has come.
    pub(crate) fn count_early(&self, batch: &Batch) {
        for early in &batch.early {
            let kind = Kind::of_early(&early.operation);
            self.early[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The present counts and times.
    pub(crate) fn read(&self) -> Timed {
        let early = self.early.iter().zip(Kind::NAMES);
        let early = early.map(|(count, name)| (snake_case(name), count.load(Ordering::Relaxed)));
        Timed {
            operations: used(&self.operations, Kind::NAMES),
            early: early.filter(|(_, count)| *count > 0).collect(),
            data: used(&self.data, DataKind::NAMES),
            forces: self.forces.snapshot(),
            flushes: self.flushes.snapshot(),
        }
    }
}

/// Those in which there is something.
fn used(histograms: &[Histogram], names: &[&str]) -> Vec<(String, Snapshot)> {
    let all = histograms.iter().zip(names);
    let read = all.map(|(histogram, name)| (snake_case(name), histogram.snapshot()));
    read.filter(|(_, read)| read.count() > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_api::op;
    use pandofs_types::{Ino, Time};
    use std::time::Duration;

    #[test]
    fn times_are_told_by_kind_and_those_of_which_there_are_none_are_left_out() {
        let times = Times::default();
        assert_eq!(times.read().operations, []);
        let look = Request::GetAttr(op::GetAttr { ino: Ino(7) });
        times
            .operation(Kind::of(&look))
            .add(Duration::from_millis(1));
        let space = DataKind::of(&DataRequest::Space);
        times.data(space).add(Duration::from_millis(1));
        let read = times.read();
        let names = |kinds: &[(String, Snapshot)]| -> Vec<String> {
            kinds.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(&read.operations), ["get_attr"]);
        assert_eq!(names(&read.data), ["space"]);
        assert_eq!(read.operations[0].1.count(), 1);
    }

    #[test]
    fn operations_of_a_batch_count_one_by_one() {
        let times = Times::default();
        let early = |operation| op::Early {
            caller: 0,
            time: Time::default(),
            random: 0,
            ino: None,
            operation,
        };
        let wrote = || {
            EarlyOperation::WroteData(op::WroteData {
                ino: Ino(7),
                start: 0,
                end: 1,
                mtime: Time::default(),
                sparse: false,
                truncations: 0,
            })
        };
        times.count_early(&Batch {
            incarnation: 5,
            callers: Vec::new(),
            placing: None,
            early: vec![early(wrote()), early(wrote())],
        });
        assert_eq!(times.read().early, [("wrote_data".to_owned(), 2)]);
    }
}
