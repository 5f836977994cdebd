//! Operations that take names away.

use super::tree::Place;
use super::{CHANGE, Checked, Errors, Expected, Model, NodeId};
use crate::op::Path;
use pandofs_types::{Credentials, FileKind, FsError};

impl Model {
    fn removable(&self, by: &Credentials, path: &Path) -> Checked<(Place, NodeId, Errors)> {
        let place = self.place(by, path)?;
        let id = place.node.ok_or(FsError::NotFound)?;
        let mut errors = Errors::default();
        errors.none_if(self.may(by, CHANGE, place.dir), FsError::Access);
        errors.none_if(
            !self.kept_by_sticky(by, place.dir, id),
            FsError::NotPermitted,
        );
        Ok((place, id, errors))
    }

    pub(super) fn unlink(&mut self, by: &Credentials, path: &Path) -> Checked<Expected> {
        let (place, id, mut errors) = self.removable(by, path)?;
        errors.none_if(self.node(id).kind != FileKind::Dir, FsError::IsDir);
        errors.finish()?;
        self.entries_mut(place.dir).remove(&place.name);
        self.touch_dir(place.dir);
        self.lose_name(id);
        Ok(Expected::Done)
    }

    /// One name of what is no directory went.
    pub(super) fn lose_name(&mut self, id: NodeId) {
        self.node_mut(id).names -= 1;
        self.touch_ctime(id);
        self.forget_if_gone(id);
    }

    pub(super) fn rmdir(&mut self, by: &Credentials, path: &Path) -> Checked<Expected> {
        let (place, id, mut errors) = self.removable(by, path)?;
        if self.node(id).kind == FileKind::Dir {
            errors.none_if(self.entries(id).is_empty(), FsError::NotEmpty);
        } else {
            errors.none_if(false, FsError::NotDir);
        }
        errors.finish()?;
        self.entries_mut(place.dir).remove(&place.name);
        self.touch_dir(place.dir);
        self.nodes.remove(&id);
        Ok(Expected::Done)
    }
}
