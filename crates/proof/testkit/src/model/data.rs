//! Open files.

use super::{Body, Checked, Errors, Expected, Handle, Model, READ, Stop, WRITE};
use crate::op::{HandleId, Path, filling};
use pandofs_types::{Credentials, FileKind, FsError};

impl Model {
    pub(super) fn handle(&self, id: HandleId) -> Checked<&Handle> {
        self.handles.get(&id).ok_or(Stop::Unspecified)
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn open(
        &mut self,
        by: &Credentials,
        caller: usize,
        path: &Path,
        handle: HandleId,
        read: bool,
        write: bool,
        truncate: bool,
    ) -> Checked<Expected> {
        assert!(read || write, "a file is opened for something");
        assert!(write || !truncate, "what is opened to be read is not cut");
        if self.handles.contains_key(&handle) {
            return Err(Stop::Unspecified);
        }
        let id = self.find(by, path)?;
        let mut errors = Errors::default();
        match self.node(id).kind {
            FileKind::File => {}
            FileKind::Dir if write => errors.none_if(false, FsError::IsDir),
            _ => return Err(Stop::Unspecified),
        }
        let wanted = if read { READ } else { 0 } | if write { WRITE } else { 0 };
        errors.none_if(self.may(by, wanted, id), FsError::Access);
        errors.finish()?;
        if truncate {
            self.truncate_node(by, id, 0, true)?;
        }
        self.handles.insert(
            handle,
            Handle {
                node: id,
                caller,
                read,
                write,
            },
        );
        self.node_mut(id).opens += 1;
        Ok(Expected::Done)
    }

    pub(super) fn close(&mut self, handle: HandleId) -> Checked<Expected> {
        let id = self.handle(handle)?.node;
        self.handles.remove(&handle);
        self.node_mut(id).opens -= 1;
        self.forget_if_gone(id);
        Ok(Expected::Done)
    }

    pub(super) fn read(&mut self, handle: HandleId, offset: u64, length: u32) -> Checked<Expected> {
        let handle = *self.handle(handle)?;
        if !handle.read {
            return Err(Stop::Unspecified);
        }
        let now = self.now;
        let node = self.node_mut(handle.node);
        node.atime.may_touch(now);
        let Body::File(bytes) = &node.body else {
            unreachable!("only files are opened");
        };
        Ok(Expected::Data(bytes.read(offset, u64::from(length))))
    }

    pub(super) fn write(
        &mut self,
        handle: HandleId,
        offset: u64,
        length: u32,
        fill: u64,
    ) -> Checked<Expected> {
        assert!(length > 0);
        let handle = *self.handle(handle)?;
        if !handle.write || offset + u64::from(length) > self.traits.max_file_size {
            return Err(Stop::Unspecified);
        }
        let by = self.callers[handle.caller].clone();
        let mode = self.mode_after_write(&by, handle.node);
        let (now, traits) = (self.now, self.traits.clone());
        let node = self.node_mut(handle.node);
        let Body::File(bytes) = &mut node.body else {
            unreachable!("only files are opened");
        };
        bytes.write(offset, &filling(fill, length));
        node.mode = mode;
        node.mtime.touch(now, &traits);
        node.ctime.touch(now, &traits);
        Ok(Expected::Done)
    }

    pub(super) fn set_size(&mut self, handle: HandleId, size: u64) -> Checked<Expected> {
        let handle = *self.handle(handle)?;
        if !handle.write || size > self.traits.max_file_size {
            return Err(Stop::Unspecified);
        }
        let by = self.callers[handle.caller].clone();
        self.truncate_node(&by, handle.node, size, false)?;
        Ok(Expected::Done)
    }
}
