//! Syncing of data objects, apart from reading and writing them.
//!
//! A synced write takes a thousand times as long as one into memory, and readers of other objects
//! must not wait for it.

use super::health::is_of_the_disk;
use super::objects::{self, Holdings};
use super::open::OpenObject;
use super::pool::DataOrigin;
use super::worker::Job;
use crate::mailbox::{Mail, Mailbox};
use pandofs_api::DataReply;
use pandofs_lane::data;
use pandofs_types::{FsError, Ino};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// Object or directory to be synced.
#[derive(Debug)]
pub(crate) enum Work {
    /// An object's data, and its directory entries if these may not be on disk.
    Object(Arc<OpenObject>),
    /// An object's data and its checksums.
    Settling(Arc<OpenObject>),
    /// The header of its checksums.
    Header(Arc<OpenObject>),
    /// That an object is gone from the directory of those that end with this byte.
    Removal { last_byte: u8 },
}

/// Purpose for which a thread has synced something by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To settle an object that was not.
    Settle,
    /// For requests that wait for it.
    Requests(data::Purpose),
}

/// Request that waits for a sync.
#[derive(Debug)]
pub(super) enum Waiter {
    Request(DataOrigin),
    /// The thread that changes the object, which goes on with [`Job::Synced`].
    Thread(Sender<Job>, Purpose),
}

impl Work {
    /// Waits until it is on disk.
    pub(super) fn sync(&self, holdings: &Holdings) -> Result<(), FsError> {
        let root = &holdings.root;
        match self {
            Work::Object(object) => sync_object(holdings, object),
            Work::Settling(object) => sync_bytes(holdings, object, OpenObject::sync_all),
            // Its page is written again by the next attempt.
            Work::Header(object) => object.sync_header().map_err(|error| {
                failed(
                    holdings,
                    object.ino,
                    &objects::sums_path(root, object.ino),
                    &error,
                )
            }),
            Work::Removal { last_byte } => sync_directory(root, *last_byte),
        }
    }
}

/// Syncs what arrives until the other end is dropped. Removals that have come together are synced
/// together: one write of the file system's journal serves all of a directory, and usually all
/// directories.
pub(super) fn run(holdings: &Holdings, received: &Receiver<(Waiter, Work)>, mailbox: &Mailbox) {
    while let Ok(first) = received.recv() {
        let mut removals: BTreeMap<u8, Vec<Waiter>> = BTreeMap::new();
        let mut objects = Vec::new();
        for (waiter, work) in std::iter::once(first).chain(received.try_iter()) {
            match work {
                Work::Removal { last_byte } => removals.entry(last_byte).or_default().push(waiter),
                Work::Object(_) | Work::Settling(_) | Work::Header(_) => {
                    objects.push((waiter, work));
                }
            }
        }
        for (last_byte, waiters) in removals {
            let work = Work::Removal { last_byte };
            let result = work.sync(holdings);
            for waiter in waiters {
                tell(mailbox, waiter, &work, result);
            }
        }
        for (waiter, work) in objects {
            let result = work.sync(holdings);
            tell(mailbox, waiter, &work, result);
        }
    }
}

fn tell(mailbox: &Mailbox, waiter: Waiter, work: &Work, result: Result<(), FsError>) {
    match (waiter, work) {
        (Waiter::Request(origin), _) => {
            let reply = result.map_or_else(DataReply::Failed, |()| DataReply::Done);
            mailbox.post(Mail::DataDone { origin, reply });
        }
        (
            Waiter::Thread(thread, purpose),
            Work::Object(object) | Work::Settling(object) | Work::Header(object),
        ) => {
            let object = Arc::clone(object);
            // Where it is gone, so is the server.
            let _ = thread.send(Job::Synced {
                object,
                purpose,
                result,
            });
        }
        (Waiter::Thread(..), Work::Removal { .. }) => panic!("a thread waits for a removal"),
    }
}

fn sync_object(holdings: &Holdings, object: &OpenObject) -> Result<(), FsError> {
    sync_bytes(holdings, object, OpenObject::sync_data)?;
    if !object.is_entry_synced() {
        sync_directory(&holdings.root, objects::last_byte(object.ino))?;
        object.set_entry_synced();
    }
    Ok(())
}

/// Syncs what an object has.
fn sync_bytes(
    holdings: &Holdings,
    object: &OpenObject,
    sync: impl Fn(&OpenObject) -> io::Result<()>,
) -> Result<(), FsError> {
    // One that was under way when this was ordered failed: of what that was for, the system says nothing any more.
    if holdings.rewrites.is_still_wanted(object.ino) {
        return Err(FsError::Io);
    }
    let path = objects::path(&holdings.root, object.ino);
    sync(object).map_err(|error| failed(holdings, object.ino, &path, &error))
}

fn failed(holdings: &Holdings, ino: Ino, path: &Path, error: &io::Error) -> FsError {
    holdings.rewrites.want(ino);
    if is_of_the_disk(error) {
        let what = format!("cannot sync {}: {error}", path.display());
        holdings.health.fails(ino, what);
    }
    objects::failure("sync", path, error)
}

fn sync_directory(root: &Path, last_byte: u8) -> Result<(), FsError> {
    let directory = objects::directory(root, last_byte);
    objects::sync_directory(&directory)
        .map_err(|error| objects::failure("sync", &directory, &error))
}
