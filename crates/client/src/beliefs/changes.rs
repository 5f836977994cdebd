//! What a request changes of what is believed.

use super::Beliefs;
use pandofs_api::{Request, op};
use pandofs_types::{Ino, LeaseKey, Name};

impl Beliefs {
    /// What a request changes that this session knows of.
    pub(super) fn changed_by(&self, request: &Request) -> Vec<LeaseKey> {
        let mut keys = Vec::new();
        let mut name = |dir: Ino, name: &Name| {
            keys.push(self.entry_key(dir, name));
            keys.push(LeaseKey::Parts(dir));
        };
        match request {
            Request::Create(op::Create { dir, name: of, .. })
            | Request::Mkdir(op::Mkdir { dir, name: of, .. })
            | Request::Unlink(op::Unlink { dir, name: of })
            | Request::Rmdir(op::Rmdir { dir, name: of }) => name(*dir, of),
            Request::Link(op::Link {
                dir, name: of, ino, ..
            }) => {
                name(*dir, of);
                keys.push(LeaseKey::Inode(*ino));
            }
            Request::Rename(op::Rename {
                dir,
                name: of,
                new_dir,
                new_name,
                ..
            })
            | Request::Exchange(op::Exchange {
                dir,
                name: of,
                new_dir,
                new_name,
                ..
            }) => {
                name(*dir, of);
                name(*new_dir, new_name);
            }
            Request::SetAttr(op::SetAttr { ino, .. })
            | Request::SetLayout(op::SetLayout { ino, .. })
            | Request::SetXattr(op::SetXattr { ino, .. })
            | Request::RemoveXattr(op::RemoveXattr { ino, .. })
            | Request::SetDirSettings(op::SetDirSettings { dir: ino, .. }) => {
                keys.extend([LeaseKey::Inode(*ino), LeaseKey::Parts(*ino)]);
            }
            Request::Open(op::Open { ino, .. })
            | Request::WriteInline(op::WriteInline { ino, .. })
            | Request::Stripe(op::Stripe { ino })
            | Request::WroteData(op::WroteData { ino, .. })
            | Request::Allocate(op::Allocate { ino, .. })
            | Request::AppendInline(op::AppendInline { ino, .. })
            | Request::Extend(op::Extend { ino, .. }) => keys.push(LeaseKey::Inode(*ino)),
            // What becomes of times of access is counted in when it is told.
            _ => {}
        }
        keys
    }
}

/// Whether names that the request is about cease to lead to what they led to.
pub(super) fn takes_names(request: &Request) -> bool {
    matches!(
        request,
        Request::Unlink(_) | Request::Rmdir(_) | Request::Rename(_) | Request::Exchange(_)
    )
}
