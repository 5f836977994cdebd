//! Forcing data objects, apart from reading and writing them: a forced write takes a thousand times
//! as long as one into memory, and whoever reads another object must not wait for it.

use super::objects;
use super::open::OpenObject;
use super::pool::DataOrigin;
use crate::mailbox::{Mail, Mailbox};
use pandofs_api::DataReply;
use pandofs_types::FsError;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// What is to be forced.
#[derive(Debug)]
pub(crate) enum Work {
    /// An object's data, and its directory entry if that may not be on disk.
    Object(Arc<OpenObject>),
    /// That an object is gone from the directory of those that end with this byte.
    Removal { last_byte: u8 },
}

impl Work {
    /// Waits until it is on disk.
    pub fn force(&self, root: &Path) -> Result<(), FsError> {
        match self {
            Work::Object(object) => force_object(root, object),
            Work::Removal { last_byte } => force_directory(root, *last_byte),
        }
    }
}

/// Forces what arrives until the other end is dropped. Removals that have come together are forced
/// together: one write of the file system's journal serves all of a directory, and usually all
/// directories.
pub(super) fn run(root: &Path, received: &Receiver<(DataOrigin, Work)>, mailbox: &Mailbox) {
    while let Ok(first) = received.recv() {
        let mut removals: BTreeMap<u8, Vec<DataOrigin>> = BTreeMap::new();
        let mut objects = Vec::new();
        for (origin, work) in std::iter::once(first).chain(received.try_iter()) {
            match work {
                Work::Removal { last_byte } => removals.entry(last_byte).or_default().push(origin),
                Work::Object(_) => objects.push((origin, work)),
            }
        }
        for (last_byte, origins) in removals {
            let reply = reply(Work::Removal { last_byte }.force(root));
            for origin in origins {
                mailbox.post(Mail::DataDone {
                    origin,
                    reply: reply.clone(),
                });
            }
        }
        for (origin, work) in objects {
            mailbox.post(Mail::DataDone {
                origin,
                reply: reply(work.force(root)),
            });
        }
    }
}

fn reply(result: Result<(), FsError>) -> DataReply {
    result.map_or_else(DataReply::Failed, |()| DataReply::Done)
}

fn force_object(root: &Path, object: &OpenObject) -> Result<(), FsError> {
    object
        .file
        .sync_data()
        .map_err(|error| objects::failure("force", &objects::path(root, object.ino), &error))?;
    if !object.is_entry_forced() {
        force_directory(root, objects::last_byte(object.ino))?;
        object.set_entry_forced();
    }
    Ok(())
}

fn force_directory(root: &Path, last_byte: u8) -> Result<(), FsError> {
    let directory = objects::directory(root, last_byte);
    objects::force_directory(&directory)
        .map_err(|error| objects::failure("force", &directory, &error))
}
