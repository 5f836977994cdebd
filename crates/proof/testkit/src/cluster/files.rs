//! File data: inline as long as it fits, in data objects from then on.

use super::Cluster;
use super::session::{Refused, Target, unexpected};
use crate::inodes::Done;
use crate::op::Failure;
use pandofs_api::{DataReply, DataRequest, FileBody, InodeReply, Layout, Reply, Request, op};
use pandofs_types::{Credentials, Ino};
use std::ops::Range;

pub(super) fn inode_of(reply: Reply) -> Done<InodeReply> {
    match reply {
        Reply::Inode(inode) => Ok(inode),
        other => Err(unexpected(&other)),
    }
}

impl Cluster {
    pub(super) fn read_inode(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
    ) -> Done<InodeReply> {
        inode_of(self.expect(
            client,
            by,
            Target::Inode(ino),
            Request::ReadInline(op::ReadInline { ino }),
        )?)
    }

    pub(super) fn read_file(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        offset: u64,
        length: u32,
    ) -> Done<Vec<u8>> {
        let inode = self.read_inode(client, by, ino)?;
        let end = inode.attr.size.min(offset + u64::from(length));
        if offset >= end {
            return Ok(Vec::new());
        }
        let mut data = vec![0; (end - offset) as usize];
        match inode.body {
            FileBody::Inline { data: inline, .. } => {
                let from = inline.len().min(offset as usize);
                let to = inline.len().min(end as usize);
                data[..to - from].copy_from_slice(&inline[from..to]);
            }
            FileBody::Striped(layout) | FileBody::Sparse(layout) => {
                for extent in layout.extents(offset, end - offset) {
                    let read = DataRequest::Read {
                        ino,
                        offset: extent.object_offset,
                        length: extent.length as u32,
                    };
                    let DataReply::Data(bytes) = self.data(extent.server, read) else {
                        unreachable!("a read is answered with data");
                    };
                    let at = (extent.file_offset - offset) as usize;
                    data[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
            FileBody::None => return Err(Failure::Other("a file without a body".to_owned())),
        }
        Ok(data)
    }

    pub(super) fn write_file(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        offset: u64,
        data: &[u8],
    ) -> Done<()> {
        let request = Request::WriteInline(op::WriteInline {
            ino,
            offset,
            data: data.to_vec(),
        });
        let layout = match self.ask(client, by, Target::Inode(ino), request) {
            Ok(_) => return Ok(()),
            Err(Refused::NotInline {
                striped: true,
                layout,
            }) => layout,
            Err(Refused::NotInline { striped: false, .. }) => self.stripe(client, by, ino)?,
            Err(other) => return Err(other.into()),
        };
        let truncations = self.read_inode(client, by, ino)?.truncations;
        self.write_objects(ino, truncations, &layout, offset, data);
        self.report(client, by, ino, offset..offset + data.len() as u64, false)
    }

    pub(super) fn report(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        written: Range<u64>,
        sparse: bool,
    ) -> Done<()> {
        let truncations = self.read_inode(client, by, ino)?.truncations;
        let request = Request::WroteData(op::WroteData {
            ino,
            start: written.start,
            end: written.end,
            mtime: self.now,
            sparse,
            truncations,
        });
        self.expect(client, by, Target::Inode(ino), request)?;
        Ok(())
    }

    pub(super) fn write_objects(
        &mut self,
        ino: Ino,
        truncations: u32,
        layout: &Layout,
        offset: u64,
        data: &[u8],
    ) {
        for extent in layout.extents(offset, data.len() as u64) {
            let at = (extent.file_offset - offset) as usize;
            let data = data[at..at + extent.length as usize].to_vec();
            let reply = self.data(
                extent.server,
                DataRequest::Write {
                    ino,
                    truncations,
                    offset: extent.object_offset,
                    data,
                },
            );
            assert_eq!(reply, DataReply::Done, "nobody truncations meanwhile");
        }
    }

    /// Has the shard copy inline data into a data object.
    pub(super) fn stripe(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<Layout> {
        self.ask(
            client,
            by,
            Target::Inode(ino),
            Request::Stripe(op::Stripe { ino }),
        )?;
        match self.read_inode(client, by, ino)?.body {
            FileBody::Striped(layout) | FileBody::Sparse(layout) => Ok(layout),
            _ => Err(Failure::Other("a file stayed inline".to_owned())),
        }
    }
}
