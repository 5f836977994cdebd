//! Space of files: reserved, given back (fallocate(2)), searched (`SEEK_DATA`), counted.

use crate::Client;
use crate::call::Call;
use crate::core::Core;
use crate::data::{check_layout, not_about_data, now};
use crate::error::{Failure, Result};
use crate::file::{Body, File, Written};
use crate::inodes::inode_of;
use crate::trace::{Op, Outcome};
use pandofs_api::{Allocation, DataReply, DataRequest, FileBody, InodeReply, Layout, Request, op};
use pandofs_session::Target;
use pandofs_types::limits::{CHECKSUM_BLOCK_BYTES, MAX_FILE_BYTES};
use pandofs_types::{Attr, Credentials, FsError, Ino};
use pandofs_wire::message::AnswerBody;
use std::ops::Range;

/// The target of a seek in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that is not in a hole.
    Data,
    /// Also what lies beyond the file's end.
    Hole,
}

impl Client {
    /// Does this to `offset .. offset + length` of a file. Rights were checked when it was opened.
    ///
    /// # Errors
    /// `Invalid` for what is no file, and if `length` is 0; `FileTooBig`; `NoSpace`, after which
    /// part of the space may be reserved.
    pub fn allocate(
        &self,
        caller: &Credentials,
        ino: Ino,
        offset: u64,
        length: u64,
        allocation: Allocation,
    ) -> Result<()> {
        let end = allocation.extends().then(|| offset.saturating_add(length));
        self.traced(
            || Op::Allocate { ino, end },
            |()| Outcome::Done,
            |client| {
                let core = client.core();
                core.with_file(caller, ino, |file| {
                    core.allocate(caller, file, offset, length, allocation)
                })
            },
        )
    }

    /// The first byte from `offset` on that is what is looked for; `None` if there is none before
    /// the file's end, or `offset` is not before it. The end itself counts as a hole.
    ///
    /// # Errors
    /// `Invalid` for what is no file; `Stale` when there is no such inode.
    pub fn seek(
        &self,
        caller: &Credentials,
        ino: Ino,
        offset: u64,
        what: Seek,
    ) -> Result<Option<u64>> {
        let core = self.core();
        core.with_file(caller, ino, |file| {
            core.write_out(file)?;
            core.seek(caller, file, offset, what)
        })
    }
}

impl Core {
    fn allocate(
        &self,
        caller: &Credentials,
        file: &File,
        offset: u64,
        length: u64,
        allocation: Allocation,
    ) -> Result<()> {
        if length == 0 {
            return Err(FsError::Invalid.into());
        }
        let end = offset
            .checked_add(length)
            .filter(|&end| end <= MAX_FILE_BYTES)
            .ok_or(FsError::FileTooBig)?;
        self.write_out(file)?;
        file.await_write_behind(&(offset..end))?;
        loop {
            match file.snapshot().body {
                Body::None => return Err(FsError::Invalid.into()),
                Body::Inline(_) => {
                    if self.allocate_inline(caller, file, offset, length, allocation)? {
                        return Ok(());
                    }
                }
                Body::Striped(layout) => {
                    let calls = |truncations| {
                        allocate_calls(file.ino, &layout, truncations, offset..end, allocation)
                    };
                    let truncations = self.change_objects(caller, file, &layout, calls)?;
                    let grown = if allocation.extends() { end } else { 0 };
                    file.wrote(Written::Space { end: grown }, truncations, now(), caller);
                    return Ok(());
                }
            }
        }
    }

    /// False when the file is striped now.
    fn allocate_inline(
        &self,
        caller: &Credentials,
        file: &File,
        offset: u64,
        length: u64,
        allocation: Allocation,
    ) -> Result<bool> {
        let token = file.token();
        let request = Request::Allocate(op::Allocate {
            ino: file.ino,
            offset,
            length,
            allocation,
        });
        match self.ask(caller, Target::Inode(file.ino), request) {
            Ok(reply) => {
                file.learn(token, &inode_of(reply)?);
                Ok(true)
            }
            Err(failure) => self.out_of_inode(caller, file, failure).map(|()| false),
        }
    }

    pub(crate) fn seek(
        &self,
        caller: &Credentials,
        file: &File,
        offset: u64,
        what: Seek,
    ) -> Result<Option<u64>> {
        // The size counts what this client has written.
        self.report(file, None)?;
        let token = file.token();
        let request = Request::ReadInline(op::ReadInline { ino: file.ino });
        let inode = inode_of(self.ask(caller, Target::Inode(file.ino), request)?)?;
        file.learn(token, &inode);
        let size = inode.attr.size;
        if offset >= size {
            return Ok(None);
        }
        let found = match inode.body {
            FileBody::None => return Err(FsError::Invalid.into()),
            FileBody::Inline { data, .. } => {
                // Whole blocks, as on local file systems.
                let end = (data.len() as u64).next_multiple_of(CHECKSUM_BLOCK_BYTES as u64);
                let is_data = offset < end;
                match what {
                    Seek::Data => is_data.then_some(offset),
                    Seek::Hole if is_data => Some(end),
                    Seek::Hole => Some(offset),
                }
            }
            FileBody::Striped(layout) | FileBody::Sparse(layout) => {
                self.seek_objects(file.ino, &layout, offset, what)?
            }
        };
        Ok(match what {
            Seek::Data => found.filter(|&found| found < size),
            Seek::Hole => Some(found.map_or(size, |found| found.min(size))),
        })
    }

    /// The first of what the data objects find.
    fn seek_objects(
        &self,
        ino: Ino,
        layout: &Layout,
        offset: u64,
        what: Seek,
    ) -> Result<Option<u64>> {
        check_layout(layout)?;
        let ask = |object| {
            let request = DataRequest::Seek {
                ino,
                offset: layout.object_size(object, offset),
                data: what == Seek::Data,
            };
            Call::data(layout.server_of(object), request)
        };
        let mut calls: Vec<Call> = (0..layout.count).map(ask).collect();
        let mut first = None;
        for (object, answer) in (0..).zip(self.run_all(&mut calls)) {
            let found = match answer? {
                AnswerBody::Data(DataReply::Found { offset }) => offset,
                other => return Err(not_about_data(&other)),
            };
            let found = found.map(|found| layout.file_offset(object, found));
            first = first.into_iter().chain(found).min();
        }
        Ok(first)
    }

    /// Puts in the blocks of files that may be sparse, which only their data objects know. Where
    /// one cannot be asked the blocks stay what they would be without holes.
    pub(crate) fn count_blocks(&self, files: &mut [(&mut Attr, Layout)]) {
        let mut calls = Vec::new();
        for (attr, layout) in files.iter().filter(|(_, layout)| layout.is_valid()) {
            let usage = |server| Call::data(server, DataRequest::Usage { ino: attr.ino });
            calls.extend(layout.servers().map(usage));
        }
        let mut answers = self.run_all(&mut calls).into_iter();
        for (attr, layout) in files.iter_mut().filter(|(_, layout)| layout.is_valid()) {
            let of_file = answers.by_ref().take(usize::from(layout.count));
            let blocks: Option<Vec<u64>> = of_file
                .map(blocks_of)
                .collect::<Vec<_>>()
                .into_iter()
                .collect();
            match blocks {
                Some(blocks) => attr.blocks = blocks.into_iter().fold(0, u64::saturating_add),
                None => tracing::warn!("the space of inode {} is not known", attr.ino),
            }
        }
    }
}

/// Does this to a range of the file, in data objects that have followed so many truncations.
fn allocate_calls(
    ino: Ino,
    layout: &Layout,
    truncations: u32,
    range: Range<u64>,
    allocation: Allocation,
) -> Vec<Call<'static>> {
    let ask = |(server, offset, length)| {
        let request = DataRequest::Allocate {
            ino,
            truncations,
            offset,
            length,
            allocation,
        };
        Call::data(server, request)
    };
    layout
        .object_ranges(range.start, range.end)
        .map(ask)
        .collect()
}

fn blocks_of(answer: std::result::Result<AnswerBody, Failure>) -> Option<u64> {
    match answer {
        Ok(AnswerBody::Data(DataReply::Usage { blocks })) => Some(blocks),
        _ => None,
    }
}

/// The layout of a file whose blocks are to be counted.
pub(crate) fn sparse_layout(inode: &InodeReply) -> Option<Layout> {
    match inode.body {
        FileBody::Sparse(layout) => Some(layout),
        _ => None,
    }
}
