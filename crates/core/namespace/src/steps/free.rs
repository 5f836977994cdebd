//! An inode dies.

use crate::ops::xattr;
use crate::records::{Body, InodeRecord, ReclaimRecord};
use crate::{Stop, Txn};
use pandofs_types::Ino;

/// Deletes an inode with its attributes and what is kept inline. Data objects and forwarding records elsewhere stay on the
/// reclaim list until they are gone, so that a crash leaks nothing.
pub fn forget_inode(txn: &mut Txn<'_, '_>, ino: Ino, inode: InodeRecord) -> Result<(), Stop> {
    if inode.xattrs > 0 {
        let mut names = Vec::new();
        xattr::for_each(&txn.view(), ino, &mut |name, _| names.push(name.to_vec()))?;
        for name in names {
            txn.delete_xattr(ino, &name);
        }
    }
    txn.forget_inline(ino, inode.held());
    txn.delete_inode(ino);
    let layout = match inode.body {
        Body::Striped(layout) | Body::Sparse(layout) => Some(layout),
        _ => None,
    };
    if layout.is_some() || !inode.trail.is_empty() {
        txn.put_reclaim(
            ino,
            &ReclaimRecord::Gone {
                layout,
                trail: inode.trail,
            },
        );
    } else {
        txn.delete_reclaim(ino);
    }
    Ok(())
}
