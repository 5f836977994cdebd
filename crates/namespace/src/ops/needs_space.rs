//! Whether a mutation takes up space: it is refused on a disk that has none to give.

use crate::records::Body;
use crate::{Stop, View};
use pandofs_api::{Request, op};
use pandofs_types::Ino;

/// Whether a mutation that was checked leaves more in the store than there was. What takes some and gives
/// some back, as a rename, does not count, nor does what a record or a slot's answer takes for a while.
pub fn needs_space(view: &View<'_>, request: &Request) -> Result<bool, Stop> {
    Ok(match request {
        Request::Create(_)
        | Request::CreateUnnamed(_)
        | Request::Mkdir(_)
        | Request::Link(_)
        | Request::SetXattr(_) => true,
        Request::WriteInline(op::WriteInline { ino, offset, data }) => {
            let end = offset.saturating_add(data.len() as u64);
            inline_bytes(view, *ino)?.is_some_and(|has| has < end)
        }
        Request::AppendInline(op::AppendInline { data, .. }) => !data.is_empty(),
        // The inode gets smaller; but whoever asks wants to write more than it holds.
        Request::Stripe(op::Stripe { ino }) => inline_bytes(view, *ino)?.is_some(),
        Request::Allocate(op::Allocate {
            ino,
            offset,
            length,
            allocation,
        }) => {
            let end = offset.saturating_add(*length);
            allocation.reserves() && inline_bytes(view, *ino)?.is_some_and(|has| has < end)
        }
        _ => false,
    })
}

/// Bytes that an inode holds of its file, if it does.
fn inline_bytes(view: &View<'_>, ino: Ino) -> Result<Option<u64>, Stop> {
    Ok(match view.inode(ino)?.body {
        Body::Inline { data, .. } => Some(data.len() as u64),
        _ => None,
    })
}
