//! Plan of a run: the operations of its clients.

use crate::op::{Kind, Op};

/// The work of all clients at a time; the next phase begins when all are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Phases of one name are added up.
    pub name: String,
    /// The operations of each client, in this order.
    pub clients: Vec<Vec<Op>>,
}

impl Phase {
    /// One list for each client, which it does in order.
    pub fn new(name: impl Into<String>, clients: Vec<Vec<Op>>) -> Phase {
        Phase {
            name: name.into(),
            clients,
        }
    }

    /// Deals operations out to clients, in rows as long as can be.
    pub fn dealt(name: impl Into<String>, ops: Vec<Op>, clients: usize) -> Phase {
        let each = ops.len().div_ceil(clients).max(1);
        let mut rest = ops.into_iter().peekable();
        let mut dealt = Vec::new();
        for _ in 0..clients {
            dealt.push(rest.by_ref().take(each).collect());
        }
        Phase::new(name, dealt)
    }
}

/// A whole run; it leaves nothing behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Each begins when the one before has ended.
    pub phases: Vec<Phase>,
}

impl Plan {
    /// Of all phases and clients.
    pub fn operations(&self) -> usize {
        let streams = self.phases.iter().flat_map(|phase| &phase.clients);
        streams.map(Vec::len).sum()
    }

    /// Operations of one kind.
    pub fn count(&self, kind: Kind) -> usize {
        let streams = self.phases.iter().flat_map(|phase| &phase.clients);
        streams.flatten().filter(|op| op.op == kind).count()
    }
}
