//! Streams of file system operations: made up, run by many clients at once, recorded, and replayed in an
//! order that gives the same result.
//!
//! | file | job |
//! | --- | --- |
//! | `op` | one operation |
//! | `plan`, `plans` | what each client does, phase by phase: mdtest, metarates, postmark, macro1, macro2, tree |
//! | `target` | where it is done: below a directory of any mount, or through PandoFS's library |
//! | `run` | the clients, and the clock over them |
//! | `trace` | operations with what each depends on: recorded, replayed, summed up |
//!
//! Invariant: one seed makes one plan; an operation that fails ends the run with an error, so a figure is never
//! one of operations that did nothing.

mod op;
mod plan;
mod plans;
mod run;
mod target;
mod trace;

pub use op::{Kind, Op};
pub use plan::{Phase, Plan};
pub use plans::{Size, Workload};
pub use run::{PhaseResult, run};
pub use target::{Kernel, Library, Target, TargetError};
pub use trace::{Record, Recorder, Summary, Trace, TraceError, replay, summarize, synthetic};
