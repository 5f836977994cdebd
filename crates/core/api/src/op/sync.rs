//! Sync of a shard's log.

use super::Operation;
use serde::{Deserialize, Serialize};

/// Syncs the shard's log: what it acknowledged before is on disk when this is answered.
/// Answers `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sync;

impl Operation for Sync {}
