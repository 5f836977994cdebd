//! Merge of two queued changes of one inode into one operation.
//!
//! `tar` sets owner, permission bits and times of each file that it makes, one after the other: three of five operations,
//! which a shard would execute, log and answer one by one. A log is written to line by line.

use pandofs_api::op::{self, Early, EarlyOperation};
use pandofs_namespace::ops::joined;
use pandofs_types::Credentials;

/// One operation in place of two of this caller, if there may be one.
pub(crate) fn merged(caller: &Credentials, first: &Early, then: &Early) -> Option<Early> {
    let operation = match (&first.operation, &then.operation) {
        (EarlyOperation::SetAttr(one), EarlyOperation::SetAttr(two)) if one.ino == two.ino => {
            let set = joined(caller, &one.set, &two.set)?;
            EarlyOperation::SetAttr(op::SetAttr { ino: one.ino, set })
        }
        (EarlyOperation::WriteInline(one), EarlyOperation::WriteInline(two)) => {
            EarlyOperation::WriteInline(written(one, two)?)
        }
        _ => return None,
    };
    Some(Early {
        time: then.time,
        operation,
        ..first.clone()
    })
}

/// One write in place of two, of which the second goes on where the first ends. (It is as short as what is kept inline.)
fn written(one: &op::WriteInline, two: &op::WriteInline) -> Option<op::WriteInline> {
    let end = one.offset.checked_add(one.data.len() as u64)?;
    (one.ino == two.ino && two.offset == end).then(|| op::WriteInline {
        ino: one.ino,
        offset: one.offset,
        data: [&one.data[..], &two.data[..]].concat(),
    })
}
