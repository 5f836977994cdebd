//! A name leads to a white-out instead of to what goes elsewhere (`RENAME_WHITEOUT`).
//!
//! Always its coordinator's own step: the name and what it leads to are here, and so is the white-out's inode, as an
//! inode with one name is where its entry is or was made.

use super::insert::no_longer;
use super::remove::takeable;
use super::{Given, Held, Perform, Prepared, entry_lock};
use crate::ops::create::inode_of;
use crate::ops::{advance, inode_reply};
use crate::records::EntryRecord;
use crate::touches::entry_key;
use crate::{LockSet, Stop, Txn, View};
use pandofs_api::{StepResult, Whiteout};
use pandofs_types::{FileKind, Ino, LeaseKey};

impl Perform for Whiteout {
    /// Fixes the inode number. If the operation is aborted the number is lost, which harms nothing.
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let Whiteout {
            dir,
            name,
            ino,
            new,
            caller,
        } = self;
        let prepared = takeable(&txn.view(), cx, *dir, name, *ino, caller)?;
        let ino = txn.new_ino(cx.choices.ino);
        let view = txn.view();
        let inode = inode_reply(&view, ino, &inode_of(&view, ino, new))?;
        Ok(Prepared {
            result: StepResult {
                inode: Some(Box::new(inode)),
                ..StepResult::default()
            },
            ..prepared
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, given: &Given<'_>) -> Result<(), Stop> {
        let Whiteout { dir, name, new, .. } = self;
        let ino = super::new_file::made(given.own)
            .ok_or_else(|| Stop::Broken("a white-out was made without a number".to_string()))?;
        let owned = txn.view().owned(*dir, name).map_err(no_longer)?;
        let mut parts = owned.parts;
        let old = txn
            .view()
            .entry(*dir, owned.position, name)?
            .ok_or_else(|| Stop::Broken(format!("the name {name} went while it was locked")))?;
        let inode = inode_of(&txn.view(), ino, new);
        txn.add_inode(ino, &inode);
        let entry = EntryRecord {
            ino,
            kind: inode.kind,
            shard: txn.shard,
        };
        txn.put_entry(*dir, owned.position, name, &entry);
        let part = parts
            .part_mut(owned.index)
            .expect("the partition was found by this index");
        part.subdirs -= u32::from(old.kind == FileKind::Dir);
        advance(&mut parts.mtime, new.time);
        advance(&mut parts.ctime, new.time);
        txn.put_parts(*dir, &parts);
        Ok(())
    }

    fn locks(&self, view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(vec![entry_lock(view, self.dir, &self.name)])
    }

    fn touches(&self, view: &View<'_>) -> Vec<LeaseKey> {
        vec![
            entry_key(view, self.dir, &self.name),
            LeaseKey::Parts(self.dir),
        ]
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }
}
