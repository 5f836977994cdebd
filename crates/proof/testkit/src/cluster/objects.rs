//! Data objects of servers.

use super::Cluster;
use crate::bytes::Bytes;
use pandofs_api::{DataReply, DataRequest, FIRST_TRUNCATIONS};
use pandofs_types::{Ino, ServerId};

/// A data object, and how many truncations of its file it has followed.
#[derive(Debug, Default)]
pub(super) struct Object {
    pub bytes: Bytes,
    truncations: u32,
}

impl Cluster {
    /// Does this to a data object.
    pub(super) fn data(&mut self, server: ServerId, request: DataRequest) -> DataReply {
        match request {
            DataRequest::Fill { ino, .. } | DataRequest::Truncate { ino, .. }
                if self.node(server).removed.has(ino) => {}
            DataRequest::Read {
                ino,
                offset,
                length,
            } => {
                let object = self.objects.get(&(server, ino));
                let data = object.map(|object| object.bytes.read(offset, u64::from(length)));
                return DataReply::Data(data.unwrap_or_default());
            }
            DataRequest::Write {
                ino,
                truncations,
                offset,
                data,
            } => {
                if let Some(others) = self.other_truncations(server, ino, truncations) {
                    return others;
                }
                let object = self.objects.entry((server, ino)).or_default();
                object.bytes.write(offset, &data);
            }
            DataRequest::Fill {
                ino,
                truncations,
                data,
                ..
            } => {
                let object = self.objects.entry((server, ino)).or_default();
                if object.truncations < truncations {
                    object.bytes.write(0, &data);
                    object.truncations = truncations;
                }
            }
            DataRequest::Truncate {
                ino,
                truncations,
                length,
            } => {
                let object = self.objects.entry((server, ino)).or_default();
                if object.truncations < truncations {
                    let size = object.bytes.size().min(length);
                    object.bytes.set_size(size);
                    object.truncations = truncations;
                }
            }
            DataRequest::Remove { ino } => {
                self.objects.remove(&(server, ino));
                self.node(server).removed.note(ino);
            }
            DataRequest::Sync { .. } => {}
            DataRequest::Usage { .. } | DataRequest::Space => {
                unreachable!("shards do not ask for {request:?}")
            }
            DataRequest::Allocate {
                ino,
                truncations,
                offset,
                length,
                allocation,
            } => {
                if let Some(others) = self.other_truncations(server, ino, truncations) {
                    return others;
                }
                let end = offset + length;
                if allocation.extends() {
                    let object = self.objects.entry((server, ino)).or_default();
                    let size = object.bytes.size().max(end);
                    object.bytes.set_size(size);
                }
                if allocation.zeroes()
                    && let Some(object) = self.objects.get_mut(&(server, ino))
                {
                    object.bytes.zero(offset, end);
                }
            }
            DataRequest::Seek { ino, offset, data } => {
                let object = self.objects.get(&(server, ino));
                let found = match object.filter(|object| offset < object.bytes.size()) {
                    None => (!data).then_some(offset),
                    Some(object) if data => object.bytes.next_nonzero(offset),
                    Some(object) => Some(object.bytes.next_zero(offset)),
                };
                return DataReply::Found { offset: found };
            }
        }
        DataReply::Done
    }

    /// Returns the answer to a change that goes by another number of truncations than the object.
    fn other_truncations(&self, server: ServerId, ino: Ino, truncations: u32) -> Option<DataReply> {
        let object = self.objects.get(&(server, ino));
        let followed = object
            .map_or(0, |object| object.truncations)
            .max(FIRST_TRUNCATIONS);
        (followed != truncations).then_some(DataReply::OtherTruncations {
            truncations: followed,
        })
    }
}
