//! Dispatch of a request to its operation.

use super::{Choices, Mutation, Plan};
use crate::{Context, Stop, Txn, View};
use pandofs_api::{Refusal, Reply, Request, op};
use pandofs_types::{LeaseKey, ServerId, ShardId};
use std::fmt::Debug;

/// Execution of an operation on a shard's part of the name space.
///
/// A mutation is checked twice: when its request arrives, over state that may be older by the records in flight, and when
/// its record is applied.
pub trait Execute: Debug {
    /// Answers an operation that changes nothing.
    fn read(&self, _view: &View<'_>, _cx: &Context<'_>) -> Result<Reply, Stop> {
        Err(Refusal::Malformed(format!("{self:?} is not a read")).into())
    }

    /// Checks a mutation: refuses it, or says what it is going to be.
    fn check(&self, _view: &View<'_>, _cx: &Context<'_>) -> Result<Checked, Stop> {
        Err(Refusal::Malformed(format!("{self:?} is not a mutation")).into())
    }

    /// Checks a mutation and makes its changes, or plans it if it may touch several shards.
    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let checked = self.check(&txn.view(), cx)?;
        checked
            .plan
            .map(Mutation::Plan)
            .ok_or_else(|| Stop::Broken(format!("{self:?} is neither applied at once nor planned")))
    }

    /// Whether a mutation that was checked leaves more in the store than there was, so that a disk that has none to give
    /// refuses it. An operation that takes some and gives some back, as a rename, does not count, nor does the room that
    /// a record or a slot's answer takes for a while.
    fn needs_space(&self, _view: &View<'_>) -> Result<bool, Stop> {
        Ok(false)
    }

    /// The server whose data object would get what the inode holds.
    fn fills(&self, _view: &View<'_>) -> Result<Option<ServerId>, Stop> {
        Ok(None)
    }

    /// Whether a mutation that was checked leaves everything as it is, so that it needs no record. Such a one may be
    /// repeated.
    fn changes_nothing(&self, _view: &View<'_>, _choices: &Choices) -> Result<bool, Stop> {
        Ok(false)
    }

    /// Leased keys that it changes here besides those of its plan's steps. Its sender knows of them.
    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(Vec::new())
    }

    /// Keys that decide which keys it changes: while any of them is about to change, that is not known.
    fn depends(&self, _view: &View<'_>) -> Vec<LeaseKey> {
        Vec::new()
    }

    /// Whether a policy may place what it makes by the load of servers.
    fn by_load(&self, _view: &View<'_>) -> Option<ByLoad> {
        None
    }
}

/// A mutation that can be done.
#[derive(Debug)]
pub struct Checked {
    /// Its steps, if it is not applied at once.
    pub plan: Option<Plan>,
    /// Whether it was placed by the load of servers.
    pub adapts: bool,
}

impl Checked {
    /// One that is applied at once.
    pub const HERE: Checked = Checked {
        plan: None,
        adapts: false,
    };
}

impl From<Plan> for Checked {
    fn from(plan: Plan) -> Checked {
        Checked {
            plan: Some(plan),
            adapts: false,
        }
    }
}

/// New inode that a policy may place by the load of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByLoad {
    /// The shard of its parent, if it had better be near that.
    pub near: Option<ShardId>,
}

macro_rules! dispatch {
    ($($name:ident),+ $(,)?) => {
        /// The operation of a request.
        pub fn operation(request: &Request) -> &dyn Execute {
            match request {
                $(Request::$name(operation) => operation),+
            }
        }
    };
}

pandofs_api::operations!(dispatch);

macro_rules! dispatch_by_path {
    ($($name:ident),+ $(,)?) => {
        /// The operation in a directory that is named by its path.
        pub(super) fn path_operation(operation: &op::PathOperation) -> &dyn Execute {
            match operation {
                $(op::PathOperation::$name(operation) => operation),+
            }
        }
    };
}

pandofs_api::path_operations!(dispatch_by_path);

// Operations that a shard answers without its name space.
impl Execute for op::Sync {}
impl Execute for op::Release {}
impl Execute for op::Reopen {}
impl Execute for op::Spread {}
impl Execute for op::SetLock {}
impl Execute for op::Unlock {}
impl Execute for op::GetLock {}
impl Execute for op::Closing {}
impl Execute for op::Relock {}
impl Execute for op::Grant {}
impl Execute for op::BeginGrants {}
impl Execute for op::Renew {}
impl Execute for op::Batch {}
