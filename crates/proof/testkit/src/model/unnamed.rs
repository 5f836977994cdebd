//! Files that are made without a name, and names for what is open.

use super::{Body, CHANGE, Checked, Errors, Expected, Model, Stop};
use crate::bytes::Bytes;
use crate::op::{HandleId, Path};
use pandofs_types::{Credentials, FileKind, FsError};

impl Model {
    pub(super) fn create_unnamed(
        &mut self,
        by: &Credentials,
        caller: usize,
        dir: &Path,
        mode: u16,
        handle: HandleId,
        may_be_named: bool,
    ) -> Checked<Expected> {
        if self.handles.contains_key(&handle) || !self.traits.makes_unnamed {
            return Err(Stop::Unspecified);
        }
        let dir = self.find(by, dir)?;
        match self.node(dir).kind {
            FileKind::Dir => {}
            // Linux says that it is none, or that it is a link.
            FileKind::Symlink => return Err(Stop::Unspecified),
            _ => return Err(FsError::NotDir.into()),
        }
        let mut errors = Errors::default();
        errors.none_if(self.may(by, CHANGE, dir), FsError::Access);
        errors.finish()?;
        let body = Body::File(Bytes::default());
        let id = self.make_unnamed(by, dir, FileKind::File, mode, body);
        self.node_mut(id).may_be_named = may_be_named;
        self.keep(handle, caller, id);
        Ok(Expected::Done)
    }

    pub(super) fn link_open(&mut self, handle: HandleId, to: &Path) -> Checked<Expected> {
        let handle = *self.handle(handle)?;
        let by = self.callers[handle.caller].clone();
        self.link_found(&by, Ok(handle.node), to)
    }
}
