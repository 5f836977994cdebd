//! Keys of the lease cache that a request changes.

use super::LeaseCache;
use pandofs_api::Request;
use pandofs_api::op::Change;
use pandofs_types::LeaseKey;

impl LeaseCache {
    /// The keys that a request changes. Times of access are counted in when they are reported.
    pub(super) fn changed_by(&self, request: &Request) -> Vec<LeaseKey> {
        let mut keys = Vec::new();
        for change in request.operation().changes() {
            match change {
                Change::Name(dir, name) => {
                    keys.extend([self.entry_key(dir, name), LeaseKey::Parts(dir)]);
                }
                Change::Inode(ino) => keys.push(LeaseKey::Inode(ino)),
                Change::Dir(ino) => keys.extend([LeaseKey::Inode(ino), LeaseKey::Parts(ino)]),
            }
        }
        keys
    }
}
