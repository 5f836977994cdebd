//! Operations that only look.

use super::{Body, Checked, Errors, Expected, ExpectedStat, Model, NodeId, READ, Stamp};
use crate::op::{HandleId, Path};
use pandofs_types::{Credentials, FileKind, FsError};

impl Model {
    pub(super) fn stat(&self, by: &Credentials, path: &Path) -> Checked<Expected> {
        let id = self.find(by, path)?;
        Ok(Expected::Stat(Box::new(self.stat_of(id))))
    }

    pub(super) fn stat_open(&self, handle: HandleId) -> Checked<Expected> {
        let id = self.handle(handle)?.node;
        Ok(Expected::Stat(Box::new(self.stat_of(id))))
    }

    pub(super) fn stat_of(&self, id: NodeId) -> ExpectedStat {
        let node = self.node(id);
        let (nlink, size) = match &node.body {
            Body::Dir { entries, .. } => {
                let is_dir = |&&child: &&NodeId| self.node(child).kind == FileKind::Dir;
                let subdirs = entries.values().filter(is_dir).count() as u32;
                let size = self
                    .traits
                    .dir_size_is_entries
                    .then_some(entries.len() as u64);
                (2 + subdirs, size)
            }
            Body::File(bytes) => (node.names, Some(bytes.size())),
            Body::Symlink(target) => (node.names, Some(target.len() as u64)),
            Body::Special => (node.names, Some(0)),
        };
        let mut atime = node.atime.clone();
        if node.kind == FileKind::Symlink {
            // Every path that goes through it may count as an access.
            atime.0.push(Stamp::Since(0));
        }
        ExpectedStat {
            node: id,
            kind: node.kind,
            mode: node.mode,
            nlink,
            uid: node.uid,
            gid: node.gid,
            rdev: node.rdev,
            size,
            atime,
            mtime: node.mtime.clone(),
            ctime: node.ctime.clone(),
        }
    }

    pub(super) fn read_dir(&mut self, by: &Credentials, path: &Path) -> Checked<Expected> {
        let id = self.find(by, path)?;
        let mut errors = Errors::default();
        match self.node(id).kind {
            FileKind::Dir => {}
            FileKind::Symlink => {
                // As a link whose target is not there, or as no directory.
                errors.none_if(false, FsError::NotFound);
                errors.none_if(false, FsError::NotDir);
            }
            _ => errors.none_if(false, FsError::NotDir),
        }
        errors.none_if(self.may(by, READ, id), FsError::Access);
        errors.finish()?;
        let now = self.now;
        self.node_mut(id).atime.may_touch(now);
        let entries = self.entries(id).iter();
        let kinds = entries.map(|(name, &child)| (name.clone(), self.node(child).kind));
        Ok(Expected::Entries(kinds.collect()))
    }

    pub(super) fn read_link(&mut self, by: &Credentials, path: &Path) -> Checked<Expected> {
        let id = self.find(by, path)?;
        let now = self.now;
        let node = self.node_mut(id);
        match &node.body {
            Body::Symlink(target) => {
                let target = target.clone();
                node.atime.may_touch(now);
                Ok(Expected::Link(target))
            }
            _ => Err(FsError::Invalid.into()),
        }
    }
}
