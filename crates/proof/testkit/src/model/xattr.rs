//! Extended attributes.

use super::acl::is_acl;
use super::{Checked, Errors, Expected, Model, NodeId, READ, STICKY, WRITE};
use crate::op::{Path, XattrMode};
use pandofs_types::{Credentials, FileKind, FsError};

impl Model {
    fn check_change(&self, by: &Credentials, id: NodeId, name: &[u8]) -> Errors {
        let node = self.node(id);
        let mut errors = Errors::default();
        if let Some(needed) = Model::needed_for(name) {
            errors.none_if(by.has(needed), FsError::NotPermitted);
            return errors;
        }
        errors.none_if(
            matches!(node.kind, FileKind::File | FileKind::Dir),
            FsError::NotPermitted,
        );
        let sticky = node.kind == FileKind::Dir && node.mode & STICKY != 0;
        errors.none_if(!sticky || self.owns(by, id), FsError::NotPermitted);
        errors.none_if(self.may(by, WRITE, id), FsError::Access);
        errors
    }

    pub(super) fn set_xattr(
        &mut self,
        by: &Credentials,
        path: &Path,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Checked<Expected> {
        let id = self.find(by, path)?;
        if is_acl(name) {
            return self.set_acl(by, id, name, value);
        }
        let mut errors = self.check_change(by, id, name);
        let there = self.node(id).xattrs.contains_key(name);
        errors.none_if(mode != XattrMode::Create || !there, FsError::Exists);
        errors.none_if(mode != XattrMode::Replace || there, FsError::NoAttribute);
        errors.finish()?;
        self.node_mut(id)
            .xattrs
            .insert(name.to_vec(), value.to_vec());
        self.touch_ctime(id);
        Ok(Expected::Done)
    }

    pub(super) fn get_xattr(
        &self,
        by: &Credentials,
        path: &Path,
        name: &[u8],
    ) -> Checked<Expected> {
        let id = self.find(by, path)?;
        if is_acl(name) {
            return self.get_acl(id, name);
        }
        let node = self.node(id);
        let mut errors = Errors::default();
        let there = node.xattrs.contains_key(name) && !Model::unseen(by, name);
        errors.none_if(there, FsError::NoAttribute);
        if Model::needed_for(name).is_none() && matches!(node.kind, FileKind::File | FileKind::Dir)
        {
            errors.none_if(self.may(by, READ, id), FsError::Access);
        }
        errors.finish()?;
        Ok(Expected::Value(node.xattrs[name].clone()))
    }

    pub(super) fn list_xattr(&self, by: &Credentials, path: &Path) -> Checked<Expected> {
        let id = self.find(by, path)?;
        let names = self.node(id).xattrs.keys().cloned();
        let seen = names.filter(|name| !Model::unseen(by, name));
        let all = seen.chain(self.acl_names(id));
        Ok(Expected::Names(all.collect()))
    }

    pub(super) fn remove_xattr(
        &mut self,
        by: &Credentials,
        path: &Path,
        name: &[u8],
    ) -> Checked<Expected> {
        let id = self.find(by, path)?;
        if is_acl(name) {
            return self.set_acl(by, id, name, &[]);
        }
        let mut errors = self.check_change(by, id, name);
        errors.none_if(
            self.node(id).xattrs.contains_key(name),
            FsError::NoAttribute,
        );
        errors.finish()?;
        self.node_mut(id).xattrs.remove(name);
        self.touch_ctime(id);
        Ok(Expected::Done)
    }
}
