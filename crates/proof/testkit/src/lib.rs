//! Test bench of the name space: a naive [`model`] of a file system, a [`driver`] that runs random
//! operations on it and on a [`Subject`] and compares every answer, and the subjects. For tests only.
//!
//! Invariant: the model knows nothing of PandoFS and asks nothing of it; it says what POSIX and Linux say.

pub mod bytes;
pub mod client;
pub mod cluster;
pub mod compare;
pub mod driver;
pub mod generate;
pub mod inodes;
pub mod model;
pub mod mount;
pub mod op;
pub mod rng;
pub mod subject;

pub use cluster::{Cluster, ClusterConfig, Network};
pub use driver::{Config, check};
pub use subject::{Census, Subject, Traits};
