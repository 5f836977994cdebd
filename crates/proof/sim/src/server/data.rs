//! Data objects of a server, of which only the size is kept.

use super::Server;
use pandofs_api::{DataReply, DataRequest};
use pandofs_lane::DataOrigin;

/// A data object.
#[derive(Debug, Default)]
pub(crate) struct Object {
    pub size: u64,
    /// Of its file, that it has followed.
    truncations: u32,
}

impl Server {
    /// Does what is wanted of a data object.
    pub(crate) fn data(&mut self, origin: DataOrigin, request: DataRequest) {
        let Some(process) = &mut self.process else {
            return;
        };
        match request {
            DataRequest::Fill { ino, .. } | DataRequest::Truncate { ino, .. }
                if process.removed.has(ino) => {}
            DataRequest::Fill {
                ino,
                truncations,
                data,
                ..
            } => {
                let object = self.objects.entry(ino).or_default();
                if object.truncations < truncations {
                    object.truncations = truncations;
                    object.size = object.size.max(data.len() as u64);
                }
            }
            DataRequest::Truncate {
                ino,
                truncations,
                length,
            } => {
                let object = self.objects.entry(ino).or_default();
                if object.truncations < truncations {
                    object.truncations = truncations;
                    object.size = object.size.min(length);
                }
            }
            DataRequest::Remove { ino } => {
                self.objects.remove(&ino);
                process.removed.note(ino);
            }
            other => unreachable!("shards do not ask for {other:?}"),
        }
        process.lane.data_done(origin, DataReply::Done);
    }
}
