//! Operations that change attributes.

use super::{
    Body, Checked, Errors, Expected, GROUP_EXECUTE, Model, NodeId, SET_GID, SET_UID, Stamp, Stamps,
    Stop, WRITE,
};
use crate::op::Path;
use pandofs_types::{Capabilities, Credentials, FileKind, FsError, SetTime};

impl Model {
    pub(super) fn chmod(&mut self, by: &Credentials, path: &Path, mode: u16) -> Checked<Expected> {
        let id = self.find(by, path)?;
        if self.node(id).kind == FileKind::Symlink {
            return Err(Stop::Unspecified);
        }
        let mut errors = Errors::default();
        errors.none_if(self.owns(by, id), FsError::NotPermitted);
        errors.finish()?;
        let node = self.node_mut(id);
        node.mode = mode;
        if !by.has(Capabilities::FSETID) && !by.in_group(node.gid) {
            node.mode &= !SET_GID;
        }
        if let Some(acl) = &mut node.access {
            acl.chmod(mode);
        }
        self.touch_ctime(id);
        Ok(Expected::Done)
    }

    pub(super) fn chown(
        &mut self,
        by: &Credentials,
        path: &Path,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Checked<Expected> {
        assert!(uid.is_some() || gid.is_some());
        let id = self.find(by, path)?;
        let node = self.node(id);
        let owner = by.uid == node.uid;
        let mut errors = Errors::default();
        errors.none_if(
            by.has(Capabilities::CHOWN)
                || uid.is_none_or(|uid| owner && uid == node.uid)
                    && gid.is_none_or(|gid| owner && (gid == node.gid || by.in_group(gid))),
            FsError::NotPermitted,
        );
        let mode = self.mode_without_set_id(by, id);
        errors.none_if(
            mode == node.mode || self.owns(by, id),
            FsError::NotPermitted,
        );
        errors.finish()?;
        let node = self.node_mut(id);
        node.mode = mode;
        node.uid = uid.unwrap_or(node.uid);
        node.gid = gid.unwrap_or(node.gid);
        self.touch_ctime(id);
        Ok(Expected::Done)
    }

    /// Permission bits after the set-id bits were taken off. Set-group-id without group-execute (mandatory
    /// locking once) stays for a caller that might set it, since Linux 6.2.
    fn mode_without_set_id(&self, by: &Credentials, id: NodeId) -> u16 {
        let node = self.node(id);
        if node.kind == FileKind::Dir {
            return node.mode;
        }
        let might_set = by.has(Capabilities::FSETID) || by.in_group(node.gid);
        let mode = node.mode & !SET_UID;
        if mode & GROUP_EXECUTE != 0 || !might_set {
            mode & !SET_GID
        } else {
            mode
        }
    }

    /// Writing to a file takes off its set-id bits, unless a capability keeps them.
    pub(super) fn mode_after_write(&self, by: &Credentials, id: NodeId) -> u16 {
        if by.has(Capabilities::FSETID) {
            self.node(id).mode
        } else {
            self.mode_without_set_id(by, id)
        }
    }

    pub(super) fn truncate(
        &mut self,
        by: &Credentials,
        path: &Path,
        size: u64,
    ) -> Checked<Expected> {
        let id = self.find(by, path)?;
        if size > self.traits.max_file_size {
            return Err(Stop::Unspecified);
        }
        let mut errors = Errors::default();
        match self.node(id).kind {
            FileKind::Symlink => return Err(Stop::Unspecified),
            FileKind::File => {}
            FileKind::Dir => errors.none_if(false, FsError::IsDir),
            _ => errors.none_if(false, FsError::Invalid),
        }
        errors.none_if(self.may(by, WRITE, id), FsError::Access);
        errors.finish()?;
        self.truncate_node(by, id, size, false)?;
        Ok(Expected::Done)
    }

    /// `always`: the times change even if the size does not.
    pub(super) fn truncate_node(
        &mut self,
        by: &Credentials,
        id: NodeId,
        size: u64,
        always: bool,
    ) -> Checked<()> {
        let mode = self.mode_after_write(by, id);
        let (now, traits) = (self.now, self.traits.clone());
        let node = self.node_mut(id);
        let Body::File(bytes) = &mut node.body else {
            unreachable!("only files are cut");
        };
        if always || bytes.size() != size {
            node.mtime.touch(now, &traits);
            node.ctime.touch(now, &traits);
        } else {
            node.mtime.may_touch(now);
            node.ctime.may_touch(now);
        }
        bytes.set_size(size);
        node.mode = mode;
        Ok(())
    }

    pub(super) fn set_times(
        &mut self,
        by: &Credentials,
        path: &Path,
        atime: Option<SetTime>,
        mtime: Option<SetTime>,
    ) -> Checked<Expected> {
        let both_now = atime == Some(SetTime::Now) && mtime == Some(SetTime::Now);
        let id = self.find(by, path)?;
        let mut errors = Errors::default();
        if !self.owns(by, id) {
            if both_now {
                errors.none_if(self.may(by, WRITE, id), FsError::Access);
            } else {
                errors.none_if(false, FsError::NotPermitted);
                // A file system that looks at the one that is to be now first.
                let any_now = atime == Some(SetTime::Now) || mtime == Some(SetTime::Now);
                errors.none_if(!any_now || self.may(by, WRITE, id), FsError::Access);
            }
        }
        errors.finish()?;
        let now = self.now;
        let stamps = |set| match set {
            SetTime::Now => Stamps::one(Stamp::During(now)),
            SetTime::At(time) => Stamps::one(Stamp::At(time)),
        };
        let node = self.node_mut(id);
        if let Some(set) = atime {
            node.atime = stamps(set);
        }
        if let Some(set) = mtime {
            node.mtime = stamps(set);
        }
        self.touch_ctime(id);
        Ok(Expected::Done)
    }
}
