//! Streams of file system operations: generated, run by many clients, recorded, and replayed.
//!
//! A replay keeps an order that gives the same result.
//!
//! | file | job |
//! | --- | --- |
//! | `op` | one operation |
//! | `plan`, `plans` | what each client does, phase by phase: mdtest, metarates, postmark, macro1, macro2, tree |
//! | `target` | where it is done: below a directory of any mount, or through PandoFS's library |
//! | `run` | the clients, and the clock over them |
//! | `trace` | operations with what each depends on, as benchmarks did them: recorded, replayed |
//! | `recording` | what real programs did: recorded where the client library is called, and replayed |
//! | `import` | traces of others become recordings |
//! | `fpfs`, `summary` | a trace with the counts of FPFS's; what is in a trace, beside it |
//!
//! Invariant: one seed makes one plan; an operation that fails ends the run with an error, so a
//! figure is never one of operations that did nothing. Of a recording each operation that fails
//! differently is counted and reported.

mod fpfs;
mod import;
mod limits;
mod op;
mod plan;
mod plans;
pub mod recording;
mod run;
mod summary;
mod target;
mod trace;

pub use fpfs::{Fpfs, MAX_DEPTH, TABLE_1, synthetic, synthetic_records};
pub use import::{Form, ImportError, Imported, Problem, StraceOptions, import};
pub use op::{Kind, Op};
pub use plan::{Phase, Plan};
pub use plans::{Size, Workload};
pub use recording::{Recorded, Recording, Replayed, Schedule, Step, replay_recording};
pub use run::{PhaseResult, run};
pub use summary::{Counted, Row, Summary, summarize, summarize_recording};
pub use target::{Kernel, Library, Target, TargetError};
pub use trace::{AnyTrace, Record, Recorder, Trace, TraceError, replay, write_records};
