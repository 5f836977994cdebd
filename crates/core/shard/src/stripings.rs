//! Stripings that a loss of power may take: nobody hears where a file's data objects are before it is on disk that it has some.
//!
//! (Otherwise: a file is striped, a client writes to its data objects, and this machine loses power and with it the record. The
//! file is inline again. It is removed, and its objects are nobody's; or it is striped once more, and shows what was in them.)
//!
//! Only answers wait, each for one sync. A file with something inline is locked until that is in its first data object, which
//! is not asked before the record is on disk; one that has nothing is here.

use crate::commands::Commands;
use crate::port::Input;
use pandofs_api::op::EarlyOperation;
use pandofs_api::{Refusal, Reply, Request};
use pandofs_types::Ino;
use std::collections::BTreeMap;

/// The machine of these: records and their arrival on disk in, [`Commands`] out. Lost with the process: what a log has at a
/// start is synced before anybody is answered.
#[derive(Debug, Default)]
pub(crate) struct Stripings {
    /// Index of the record that striped each.
    unsynced: BTreeMap<Ino, u64>,
}

impl Stripings {
    /// The record with this index has striped the file.
    pub(crate) fn begin(&mut self, commands: &mut Commands, ino: Ino, record: u64) {
        self.unsynced.insert(ino, record);
        commands.when_durable(Input::StripingKept { ino, record });
    }

    /// All up to this record is on disk.
    pub(crate) fn reached_disk(&mut self, ino: Ino, record: u64) {
        if self.unsynced.get(&ino) == Some(&record) {
            self.unsynced.remove(&ino);
        }
    }

    /// Whether an answer tells where data objects are of which nothing is on disk yet.
    pub(crate) fn are_told(&self, request: &Request, result: &Result<Reply, Refusal>) -> bool {
        if self.unsynced.is_empty() {
            return false;
        }
        let is_one = |ino: &Ino| self.unsynced.contains_key(ino);
        match result {
            Ok(Reply::Inode(inode)) => is_one(&inode.attr.ino),
            Ok(Reply::Entry(entry)) => is_one(&entry.ino),
            Ok(Reply::Entries(listed)) => listed.entries.iter().any(|entry| is_one(&entry.ino)),
            // It has the inodes of a directory.
            Ok(Reply::Granted(granted)) => granted.is_some(),
            // A session that striped it early writes to its data objects when that is answered.
            Ok(Reply::Batch(_)) => {
                matches!(request, Request::Batch(batch) if batch.early.iter().any(
                    |early| matches!(&early.operation, EarlyOperation::Stripe(stripe) if is_one(&stripe.ino))
                ))
            }
            Err(Refusal::NotInline { striped: true, .. }) => {
                let ino = request.operation().inode();
                ino.is_none_or(|ino| is_one(&ino))
            }
            _ => false,
        }
    }
}
