//! Space of files, and writing at their ends, as the client library does it.

use super::Cluster;
use super::files::inode_of;
use super::session::{Refused, Target};
use crate::inodes::Done;
use crate::op::Failure;
use pandofs_api::{Allocation, DataReply, DataRequest, FileBody, Layout, Request, op};
use pandofs_types::{Credentials, Ino};
use std::ops::Range;

impl Cluster {
    pub(super) fn allocate_file(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        range: Range<u64>,
        allocation: Allocation,
    ) -> Done<()> {
        let request = Request::Allocate(op::Allocate {
            ino,
            offset: range.start,
            length: range.end - range.start,
            allocation,
        });
        let refused = match self.ask(client, by, Target::Inode(ino), request) {
            Ok(_) => return Ok(()),
            Err(refused) => refused,
        };
        let layout = self.striped(client, by, ino, refused)?;
        let truncations = self.read_inode(client, by, ino)?.truncations;
        let parts: Vec<_> = layout.object_ranges(range.start, range.end).collect();
        for (server, offset, length) in parts {
            let request = DataRequest::Allocate {
                ino,
                truncations,
                offset,
                length,
                allocation,
            };
            let reply = self.data(server, request);
            assert_eq!(reply, DataReply::Done, "nobody truncations meanwhile");
        }
        let end = if allocation.extends() { range.end } else { 0 };
        self.report(client, by, ino, 0..end, true)
    }

    pub(super) fn seek_file(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        offset: u64,
        data: bool,
    ) -> Done<Option<u64>> {
        let inode = self.read_inode(client, by, ino)?;
        let size = inode.attr.size;
        if offset >= size {
            return Ok(None);
        }
        let found = match inode.body {
            FileBody::Inline { data: held, .. } => {
                let held = held.len() as u64;
                if data {
                    (offset < held).then_some(offset)
                } else {
                    Some(offset.max(held))
                }
            }
            FileBody::Striped(layout) | FileBody::Sparse(layout) => {
                let mut first = None;
                for object in 0..layout.count {
                    let request = DataRequest::Seek {
                        ino,
                        offset: layout.object_size(object, offset),
                        data,
                    };
                    let reply = self.data(layout.server_of(object), request);
                    let DataReply::Found { offset: found } = reply else {
                        unreachable!("a search is answered with what was found");
                    };
                    let found = found.map(|found| layout.file_offset(object, found));
                    first = first.into_iter().chain(found).min();
                }
                first
            }
            FileBody::None => return Err(Failure::Other("a file without a body".to_owned())),
        };
        Ok(if data {
            found.filter(|&found| found < size)
        } else {
            Some(found.map_or(size, |found| found.min(size)))
        })
    }

    pub(super) fn append_file(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        data: &[u8],
    ) -> Done<()> {
        let request = Request::AppendInline(op::AppendInline {
            ino,
            data: data.to_vec(),
        });
        let refused = match self.ask(client, by, Target::Inode(ino), request) {
            Ok(_) => return Ok(()),
            Err(refused) => refused,
        };
        let layout = self.striped(client, by, ino, refused)?;
        let length = data.len() as u64;
        let request = Request::Extend(op::Extend { ino, length });
        let inode = inode_of(self.expect(client, by, Target::Inode(ino), request)?)?;
        let start = inode.attr.size - length;
        self.write_objects(ino, inode.truncations, &layout, start, data);
        self.report(client, by, ino, start..inode.attr.size, false)
    }

    /// The layout of a file that is not kept inline, or no longer.
    fn striped(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        refused: Refused,
    ) -> Done<Layout> {
        match refused {
            Refused::NotInline {
                striped: true,
                layout,
            } => Ok(layout),
            Refused::NotInline { striped: false, .. } => self.stripe(client, by, ino),
            other => Err(other.into()),
        }
    }
}
