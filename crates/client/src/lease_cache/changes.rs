//! Keys of the lease cache that a request changes.

use super::LeaseCache;
use pandofs_api::Request;
use pandofs_types::{Ino, LeaseKey, Name};

impl LeaseCache {
    /// The keys that a request changes.
    pub(super) fn changed_by(&self, request: &Request) -> Vec<LeaseKey> {
        let mut keys = Vec::new();
        let mut name = |dir: Ino, name: &Name| {
            keys.push(self.entry_key(dir, name));
            keys.push(LeaseKey::Parts(dir));
        };
        match request {
            Request::Create { dir, name: of, .. }
            | Request::Mkdir { dir, name: of, .. }
            | Request::Unlink { dir, name: of }
            | Request::Rmdir { dir, name: of } => name(*dir, of),
            Request::Link {
                dir, name: of, ino, ..
            } => {
                name(*dir, of);
                keys.push(LeaseKey::Inode(*ino));
            }
            Request::Rename {
                dir,
                name: of,
                new_dir,
                new_name,
                ..
            }
            | Request::Exchange {
                dir,
                name: of,
                new_dir,
                new_name,
                ..
            } => {
                name(*dir, of);
                name(*new_dir, new_name);
            }
            Request::SetAttr { ino, .. }
            | Request::SetLayout { ino, .. }
            | Request::SetXattr { ino, .. }
            | Request::RemoveXattr { ino, .. }
            | Request::SetDirSettings { dir: ino, .. } => {
                keys.extend([LeaseKey::Inode(*ino), LeaseKey::Parts(*ino)]);
            }
            Request::Open { ino, .. }
            | Request::WriteInline { ino, .. }
            | Request::Stripe { ino }
            | Request::WroteData { ino, .. }
            | Request::Allocate { ino, .. }
            | Request::AppendInline { ino, .. }
            | Request::Extend { ino, .. } => keys.push(LeaseKey::Inode(*ino)),
            // Times of access are counted in when they are reported.
            _ => {}
        }
        keys
    }
}

/// Returns whether the request takes its names away from their inodes.
pub(super) fn takes_names(request: &Request) -> bool {
    matches!(
        request,
        Request::Unlink { .. }
            | Request::Rmdir { .. }
            | Request::Rename { .. }
            | Request::Exchange { .. }
    )
}
