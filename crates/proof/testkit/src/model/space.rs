//! The space of open files, and writing at their ends.

use super::{Body, Checked, Expected, Model, Stop};
use crate::op::HandleId;
use pandofs_api::Allocation;

impl Model {
    pub(super) fn allocate(
        &mut self,
        handle: HandleId,
        offset: u64,
        length: u64,
        allocation: Allocation,
    ) -> Checked<Expected> {
        assert!(length > 0);
        let handle = *self.handle(handle)?;
        let end = offset + length;
        if !handle.write || end > self.traits.max_file_size || !self.traits.allocates {
            return Err(Stop::Unspecified);
        }
        let by = self.callers[handle.caller].clone();
        let mode = self.mode_after_write(&by, handle.node);
        let (now, traits) = (self.now, self.traits.clone());
        let node = self.node_mut(handle.node);
        let Body::File(bytes) = &mut node.body else {
            unreachable!("only files are opened");
        };
        if allocation.zeroes() {
            bytes.zero(offset, end);
        }
        if allocation.extends() && end > bytes.size() {
            bytes.set_size(end);
        }
        node.mode = mode;
        node.mtime.touch(now, &traits);
        node.ctime.touch(now, &traits);
        Ok(Expected::Done)
    }

    pub(super) fn seek(&mut self, handle: HandleId, offset: u64, data: bool) -> Checked<Expected> {
        let handle = *self.handle(handle)?;
        let Body::File(bytes) = &self.node(handle.node).body else {
            unreachable!("only files are opened");
        };
        let size = bytes.size();
        if offset >= size {
            return Ok(Expected::Found {
                from: 0,
                by: None,
                or_none: true,
            });
        }
        let nonzero = bytes.next_nonzero(offset);
        Ok(if data {
            // Zeros may be data, too, also those at the end.
            Expected::Found {
                from: offset,
                by: Some(nonzero.unwrap_or(size - 1)),
                or_none: nonzero.is_none(),
            }
        } else {
            Expected::Found {
                // A byte that is not zero is in no hole.
                from: bytes.next_zero(offset),
                by: Some(size),
                or_none: false,
            }
        })
    }

    pub(super) fn append(&mut self, handle: HandleId, length: u32, fill: u64) -> Checked<Expected> {
        let node = self.handle(handle)?.node;
        let Body::File(bytes) = &self.node(node).body else {
            unreachable!("only files are opened");
        };
        let end = bytes.size();
        self.write(handle, end, length, fill)
    }
}
