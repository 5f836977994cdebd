//! Exchange of two names.

use super::{Body, CHANGE, Checked, Errors, Expected, Model, NodeId, Stop, WRITE};
use crate::op::Path;
use pandofs_types::{Credentials, FileKind, FsError};
use std::collections::BTreeSet;

impl Model {
    pub(super) fn exchange(
        &mut self,
        by: &Credentials,
        from: &Path,
        to: &Path,
    ) -> Checked<Expected> {
        let above = |path: &Path| path.0.split_last().map(|(_, above)| above.to_vec());
        let moves = above(from) != above(to);
        let mut errors = BTreeSet::new();
        let mut places = Vec::new();
        for path in [from, to] {
            match self.place(by, path) {
                Ok(place) => {
                    if place.node.is_none() {
                        errors.insert(FsError::NotFound);
                    }
                    if !self.may(by, CHANGE, place.dir) {
                        errors.insert(FsError::Access);
                    }
                    if let Some(id) = place.node {
                        if self.kept_by_sticky(by, place.dir, id) {
                            errors.insert(FsError::NotPermitted);
                        }
                        // Its `..` is written to.
                        let is_dir = self.node(id).kind == FileKind::Dir;
                        if is_dir && moves && !self.may(by, WRITE, id) {
                            errors.insert(FsError::Access);
                        }
                    }
                    places.push(place);
                }
                Err(Stop::Errors(more)) => errors.extend(more),
                Err(Stop::Unspecified) => return Err(Stop::Unspecified),
            }
        }
        // Of two names one of which stands above the other neither can go where the other one is.
        if from != to && (to.0.starts_with(&from.0) || from.0.starts_with(&to.0)) {
            errors.insert(FsError::Invalid);
        }
        let (Some(one), Some(two)) = (places.first(), places.get(1)) else {
            return Err(Stop::Errors(errors));
        };
        let (Some(first), Some(second)) = (one.node, two.node) else {
            return Err(Stop::Errors(errors));
        };
        if first == second {
            // Linux finds that there is nothing to do before it looks at rights.
            return Ok(Expected::NothingOr(errors));
        }
        Errors(errors).finish()?;
        let (one_dir, two_dir) = (one.dir, two.dir);
        let (one_name, two_name) = (one.name.clone(), two.name.clone());
        self.entries_mut(one_dir).insert(one_name, second);
        self.entries_mut(two_dir).insert(two_name, first);
        self.put_below(second, one_dir);
        self.put_below(first, two_dir);
        self.touch_dir(one_dir);
        self.touch_dir(two_dir);
        Ok(Expected::Done)
    }

    /// A name of `dir` leads there now.
    fn put_below(&mut self, id: NodeId, dir: NodeId) {
        if let Body::Dir { parent, .. } = &mut self.node_mut(id).body {
            *parent = dir;
        }
        self.touch_ctime(id);
    }
}
