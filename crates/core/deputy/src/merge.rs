//! Merge of two queued changes of attributes of one inode into one operation.
//!
//! `tar` sets owner, permission bits and times of each file that it makes, one after the other: three of five operations,
//! which a shard would execute, log and answer one by one.

use pandofs_api::op::{self, Early, EarlyOperation};
use pandofs_namespace::ops::joined;
use pandofs_types::Credentials;

/// One operation in place of two of this caller, if there may be one.
pub(crate) fn merged(caller: &Credentials, first: &Early, then: &Early) -> Option<Early> {
    let (EarlyOperation::SetAttr(one), EarlyOperation::SetAttr(two)) =
        (&first.operation, &then.operation)
    else {
        return None;
    };
    if one.ino != two.ino {
        return None;
    }
    let set = joined(caller, &one.set, &two.set)?;
    Some(Early {
        time: then.time,
        operation: EarlyOperation::SetAttr(op::SetAttr { ino: one.ino, set }),
        ..first.clone()
    })
}
