//! Operations that make names.

use super::{
    Body, CHANGE, Checked, Errors, Expected, GROUP_EXECUTE, Handle, Model, Node, NodeId, SET_GID,
    SET_UID, Stamp, Stamps, Stop,
};
use crate::bytes::Bytes;
use crate::op::{HandleId, Path, Special};
use pandofs_types::limits::MAX_SYMLINK_BYTES;
use pandofs_types::{Capabilities, Credentials, FileKind, FsError};
use std::collections::{BTreeMap, BTreeSet};

impl Model {
    /// Checks that a name may be made, and says where.
    fn vacant(&self, by: &Credentials, path: &Path) -> Checked<(NodeId, Vec<u8>)> {
        let place = self.place(by, path)?;
        let mut errors = Errors::default();
        errors.none_if(place.node.is_none(), FsError::Exists);
        errors.none_if(self.may(by, CHANGE, place.dir), FsError::Access);
        errors.finish()?;
        Ok((place.dir, place.name))
    }

    pub(super) fn make(
        &mut self,
        by: &Credentials,
        dir: NodeId,
        name: Vec<u8>,
        kind: FileKind,
        mode: u16,
        body: Body,
    ) -> NodeId {
        let id = self.make_unnamed(by, dir, kind, mode, body);
        self.node_mut(id).names = u32::from(kind != FileKind::Dir);
        self.entries_mut(dir).insert(name, id);
        self.touch_dir(dir);
        id
    }

    /// As it is when it is made in the directory, without a name there.
    pub(super) fn make_unnamed(
        &mut self,
        by: &Credentials,
        dir: NodeId,
        kind: FileKind,
        mode: u16,
        body: Body,
    ) -> NodeId {
        let above = self.node(dir);
        let (mut gid, mut mode) = (by.gid, mode);
        if above.mode & SET_GID != 0 {
            gid = above.gid;
            if kind == FileKind::Dir {
                mode |= SET_GID;
            } else if mode & GROUP_EXECUTE != 0
                && !by.has(Capabilities::FSETID)
                && !by.in_group(gid)
            {
                mode &= !SET_GID;
            }
        }
        let (access, default, mode) = self.inherited(dir, kind, mode);
        let born = Stamps::one(Stamp::During(self.now));
        self.add(Node {
            kind,
            mode,
            uid: by.uid,
            gid,
            rdev: 0,
            names: 0,
            may_be_named: false,
            opens: 0,
            atime: born.clone(),
            mtime: born.clone(),
            ctime: born,
            xattrs: BTreeMap::new(),
            access,
            default,
            body,
        })
    }

    pub(super) fn create_file(
        &mut self,
        by: &Credentials,
        caller: usize,
        path: &Path,
        mode: u16,
        handle: Option<HandleId>,
    ) -> Checked<Expected> {
        if handle.is_some_and(|handle| self.handles.contains_key(&handle)) {
            return Err(Stop::Unspecified);
        }
        let (dir, name) = self.vacant(by, path)?;
        let id = self.make(
            by,
            dir,
            name,
            FileKind::File,
            mode,
            Body::File(Bytes::default()),
        );
        if let Some(handle) = handle {
            self.keep(handle, caller, id);
        }
        Ok(Expected::Done)
    }

    /// The file was opened by the client that made it.
    pub(super) fn keep(&mut self, handle: HandleId, caller: usize, node: NodeId) {
        let (read, write) = (true, true);
        let opened = Handle {
            node,
            caller,
            read,
            write,
        };
        self.handles.insert(handle, opened);
        self.node_mut(node).opens += 1;
    }

    pub(super) fn mkdir(&mut self, by: &Credentials, path: &Path, mode: u16) -> Checked<Expected> {
        // Linux drops the set-id bits that are asked for.
        assert!(mode & (SET_UID | SET_GID) == 0, "mkdir with mode {mode:#o}");
        let (dir, name) = self.vacant(by, path)?;
        let body = Body::Dir {
            entries: BTreeMap::new(),
            parent: dir,
        };
        self.make(by, dir, name, FileKind::Dir, mode, body);
        Ok(Expected::Done)
    }

    pub(super) fn mknod(
        &mut self,
        by: &Credentials,
        path: &Path,
        special: Special,
        mode: u16,
    ) -> Checked<Expected> {
        let (kind, rdev) = match special {
            Special::Fifo => (FileKind::Fifo, 0),
            Special::Socket => (FileKind::Socket, 0),
            Special::Char { rdev } => (FileKind::Char, rdev),
        };
        let device_denied = kind == FileKind::Char && rdev != 0 && !by.has(Capabilities::MKNOD);
        let vacant = match self.vacant(by, path) {
            Err(Stop::Errors(mut errors)) if device_denied => {
                errors.insert(FsError::NotPermitted);
                Err(Stop::Errors(errors))
            }
            Ok(_) if device_denied => Err(FsError::NotPermitted.into()),
            other => other,
        };
        let (dir, name) = vacant?;
        let id = self.make(by, dir, name, kind, mode, Body::Special);
        self.node_mut(id).rdev = rdev;
        Ok(Expected::Done)
    }

    pub(super) fn symlink(
        &mut self,
        by: &Credentials,
        path: &Path,
        target: &[u8],
    ) -> Checked<Expected> {
        let mut bad = BTreeSet::new();
        if target.is_empty() {
            bad.insert(FsError::NotFound);
        }
        if target.len() > MAX_SYMLINK_BYTES {
            bad.insert(FsError::NameTooLong);
        }
        let vacant = match self.vacant(by, path) {
            Err(Stop::Errors(errors)) => Err(Stop::Errors(errors.union(&bad).copied().collect())),
            Ok(_) if !bad.is_empty() => Err(Stop::Errors(bad)),
            other => other,
        };
        let (dir, name) = vacant?;
        self.make(
            by,
            dir,
            name,
            FileKind::Symlink,
            0o777,
            Body::Symlink(target.to_vec()),
        );
        Ok(Expected::Done)
    }

    /// Links to symbolic links themselves.
    pub(super) fn link(&mut self, by: &Credentials, from: &Path, to: &Path) -> Checked<Expected> {
        let found = self.find(by, from);
        self.link_found(by, found, to)
    }

    pub(super) fn link_found(
        &mut self,
        by: &Credentials,
        found: Checked<NodeId>,
        to: &Path,
    ) -> Checked<Expected> {
        let place = self.place(by, to);
        let (file, place) = match (found, place) {
            (Ok(file), Ok(place)) => (file, place),
            (Err(Stop::Errors(a)), Err(Stop::Errors(b))) => {
                return Err(Stop::Errors(a.union(&b).copied().collect()));
            }
            // The other path's own errors may come first.
            (Err(Stop::Errors(mut errors)), Ok(place)) => {
                if place.node.is_some() {
                    errors.insert(FsError::Exists);
                }
                if !self.may(by, CHANGE, place.dir) {
                    errors.insert(FsError::Access);
                }
                return Err(Stop::Errors(errors));
            }
            (Ok(file), Err(Stop::Errors(mut errors))) => {
                if self.node(file).kind == FileKind::Dir || self.protected(by, file) {
                    errors.insert(FsError::NotPermitted);
                }
                return Err(Stop::Errors(errors));
            }
            (Err(Stop::Unspecified), _) | (_, Err(Stop::Unspecified)) => {
                return Err(Stop::Unspecified);
            }
        };
        let is_dir = self.node(file).kind == FileKind::Dir;
        let protected = self.protected(by, file);
        let node = self.node(file);
        let is_there = is_dir || node.names > 0 || node.may_be_named;
        let mut errors = Errors::default();
        errors.none_if(is_there, FsError::NotFound);
        errors.none_if(place.node.is_none(), FsError::Exists);
        errors.none_if(self.may(by, CHANGE, place.dir), FsError::Access);
        errors.none_if(!is_dir, FsError::NotPermitted);
        if protected && !errors.0.is_empty() {
            errors.0.insert(FsError::NotPermitted);
        }
        errors.finish()?;
        if protected {
            return Err(Stop::Unspecified);
        }
        self.entries_mut(place.dir).insert(place.name, file);
        self.node_mut(file).names += 1;
        self.node_mut(file).may_be_named = false;
        self.touch_ctime(file);
        self.touch_dir(place.dir);
        Ok(Expected::Done)
    }

    /// Linux may keep the caller from linking this.
    fn protected(&self, by: &Credentials, file: NodeId) -> bool {
        self.traits.protected_hardlinks && !self.owns(by, file)
    }
}
