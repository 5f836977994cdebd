//! Counts and times of a process for its monitoring: a histogram that is filled without a lock, families of
//! figures, and an endpoint that gives them over HTTP in the format of OpenMetrics. A limit to lines of a log, too.
//!
//! Invariant: filling a [`Histogram`] takes no lock and waits for nobody, a reader included; the endpoint has a limit
//! to its connections, to what a request may say, and to the time that any of it takes. It knows nothing of servers,
//! mounts or files: a [`Source`] says what there is.
//!
//! It stands on `prometheus-client` for the format, and on `hyper` for HTTP; no other crate names them.

mod address;
mod endpoint;
mod exposition;
mod family;
mod histogram;
mod http;
pub mod limits;
mod lines;
mod memory;

pub use address::{Address, WrongAddress};
pub use endpoint::{Endpoint, Listening, Source, Unread};
pub use exposition::{Format, exposition};
pub use family::{Family, Number, Sample, Values, sample};
pub use histogram::{Histogram, Snapshot};
pub use lines::LineLimit;
pub use memory::resident_bytes;
