//! Nodes, paths and rights.

use super::{Body, Checked, Errors, Model, Node, NodeId, SEARCH, STICKY, Stop};
use crate::bytes::Bytes;
use crate::op::Path;
use crate::rng::Rng;
use pandofs_types::limits::{MAX_NAME_BYTES, MAX_SYMLINK_BYTES};
use pandofs_types::{Capabilities, Credentials, FileKind, FsError};
use std::collections::BTreeMap;

/// Place of a path's last part, whether it is there or not.
pub(super) struct Place {
    pub dir: NodeId,
    pub name: Vec<u8>,
    pub node: Option<NodeId>,
}

impl Model {
    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.nodes
            .get(&id)
            .expect("the model leads to nodes that are there")
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes
            .get_mut(&id)
            .expect("the model leads to nodes that are there")
    }

    pub(super) fn add(&mut self, node: Node) -> NodeId {
        let id = NodeId(self.next);
        self.next += 1;
        self.nodes.insert(id, node);
        id
    }

    pub(super) fn entries(&self, dir: NodeId) -> &BTreeMap<Vec<u8>, NodeId> {
        match &self.node(dir).body {
            Body::Dir { entries, .. } => entries,
            _ => unreachable!("only directories are asked for their entries"),
        }
    }

    pub(super) fn entries_mut(&mut self, dir: NodeId) -> &mut BTreeMap<Vec<u8>, NodeId> {
        match &mut self.node_mut(dir).body {
            Body::Dir { entries, .. } => entries,
            _ => unreachable!("only directories are asked for their entries"),
        }
    }

    pub(super) fn parent(&self, dir: NodeId) -> NodeId {
        match &self.node(dir).body {
            Body::Dir { parent, .. } => *parent,
            _ => unreachable!("only directories are asked for their parent"),
        }
    }

    /// Returns whether `dir` is `top` or below it.
    pub(super) fn is_within(&self, dir: NodeId, top: NodeId) -> bool {
        let mut at = dir;
        loop {
            if at == top {
                return true;
            }
            let parent = self.parent(at);
            if parent == at {
                return false;
            }
            at = parent;
        }
    }

    pub(super) fn owns(&self, by: &Credentials, id: NodeId) -> bool {
        by.has(Capabilities::FOWNER) || by.uid == self.node(id).uid
    }

    /// Returns whether the sticky bit of `dir` keeps the caller from taking away the name of `id`.
    pub(super) fn kept_by_sticky(&self, by: &Credentials, dir: NodeId, id: NodeId) -> bool {
        self.node(dir).mode & STICKY != 0 && !self.owns(by, dir) && !self.owns(by, id)
    }

    /// Goes along the path to its last part.
    ///
    /// # Errors
    /// The obstacle on the way. Of a symbolic link in the middle the target is not there (the
    /// tests make only such).
    pub(super) fn place(&self, by: &Credentials, path: &Path) -> Checked<Place> {
        let Some((name, above)) = path.0.split_last() else {
            return Err(Stop::Unspecified);
        };
        // Longer paths than Linux takes, with room for what a subject puts before them.
        if path.0.iter().map(|part| part.len() + 1).sum::<usize>() > MAX_SYMLINK_BYTES - 100 {
            return Err(Stop::Unspecified);
        }
        let mut dir = self.root;
        for part in above {
            let next = self.named(by, dir, part)?.ok_or(FsError::NotFound)?;
            match self.node(next).kind {
                FileKind::Dir => dir = next,
                FileKind::Symlink => return Err(FsError::NotFound.into()),
                _ => return Err(FsError::NotDir.into()),
            }
        }
        let node = self.named(by, dir, name)?;
        Ok(Place {
            dir,
            name: name.clone(),
            node,
        })
    }

    fn named(&self, by: &Credentials, dir: NodeId, name: &[u8]) -> Checked<Option<NodeId>> {
        let mut errors = Errors::default();
        errors.none_if(name.len() <= MAX_NAME_BYTES, FsError::NameTooLong);
        errors.none_if(self.may(by, SEARCH, dir), FsError::Access);
        errors.finish()?;
        Ok(self.entries(dir).get(name).copied())
    }

    /// Finds the node that the path leads to.
    pub(super) fn find(&self, by: &Credentials, path: &Path) -> Checked<NodeId> {
        if path.0.is_empty() {
            return Ok(self.root);
        }
        Ok(self.place(by, path)?.node.ok_or(FsError::NotFound)?)
    }

    /// Forgets a node that has neither a name nor is open.
    pub(super) fn forget_if_gone(&mut self, id: NodeId) {
        let node = self.node(id);
        if node.kind != FileKind::Dir && node.names == 0 && node.opens == 0 {
            self.nodes.remove(&id);
        }
    }

    /// A name came or went.
    pub(super) fn touch_dir(&mut self, dir: NodeId) {
        let (now, traits) = (self.now, self.traits.clone());
        let node = self.node_mut(dir);
        node.mtime.touch(now, &traits);
        node.ctime.touch(now, &traits);
    }

    pub(super) fn touch_ctime(&mut self, id: NodeId) {
        let (now, traits) = (self.now, self.traits.clone());
        self.node_mut(id).ctime.touch(now, &traits);
    }

    /// Paths of all that has a name, the root first, each directory before what is in it.
    pub fn paths(&self) -> Vec<(Path, FileKind)> {
        let mut paths = vec![(Path::ROOT, FileKind::Dir)];
        let mut ids = vec![self.root];
        let mut at = 0;
        while at < ids.len() {
            if self.node(ids[at]).kind == FileKind::Dir {
                for (name, &id) in self.entries(ids[at]) {
                    paths.push((paths[at].0.child(name), self.node(id).kind));
                    ids.push(id);
                }
            }
            at += 1;
        }
        paths
    }

    /// The contents of a file by its path.
    pub fn bytes(&self, path: &Path) -> Option<&Bytes> {
        match &self.node(self.at(path)?).body {
            Body::File(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Names of the extended attributes of what the path leads to.
    pub fn xattr_names(&self, path: &Path) -> Vec<Vec<u8>> {
        self.at(path).map_or(Vec::new(), |id| {
            let mut names = self.acl_names(id);
            names.extend(self.node(id).xattrs.keys().cloned());
            names
        })
    }

    fn at(&self, path: &Path) -> Option<NodeId> {
        path.0
            .iter()
            .try_fold(self.root, |id, part| match &self.node(id).body {
                Body::Dir { entries, .. } => entries.get(part).copied(),
                _ => None,
            })
    }

    /// A directory, found by going down from the root and stopping here or there.
    pub fn any_dir(&self, rng: &mut Rng) -> Path {
        let (mut id, mut path) = (self.root, Path::ROOT);
        loop {
            let is_dir =
                |&(_, &child): &(&Vec<u8>, &NodeId)| self.node(child).kind == FileKind::Dir;
            let below: Vec<_> = self.entries(id).iter().filter(is_dir).collect();
            if below.is_empty() || rng.chance(1, 3) {
                return path;
            }
            let (name, child) = *rng.pick(&below);
            path = path.child(name);
            id = *child;
        }
    }

    /// A name of the directory, and what it leads to, if it has any.
    pub fn any_name(&self, dir: &Path, rng: &mut Rng) -> Option<(Vec<u8>, FileKind)> {
        let entries: Vec<_> = self.entries(self.at(dir)?).iter().collect();
        if entries.is_empty() {
            return None;
        }
        let (name, id) = *rng.pick(&entries);
        Some((name.clone(), self.node(*id).kind))
    }
}
