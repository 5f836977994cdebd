//! Rename.

use super::{Body, CHANGE, Checked, Errors, Expected, Model, Stop, WRITE};
use crate::op::Path;
use pandofs_types::{Credentials, FileKind, FsError};

impl Model {
    pub(super) fn rename(
        &mut self,
        by: &Credentials,
        from: &Path,
        to: &Path,
        (no_replace, whiteout): (bool, bool),
    ) -> Checked<Expected> {
        if whiteout && !self.traits.makes_whiteouts {
            return Err(Stop::Unspecified);
        }
        let (old, new) = match (self.place(by, from), self.place(by, to)) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(Stop::Errors(a)), Err(Stop::Errors(b))) => {
                return Err(Stop::Errors(a.union(&b).copied().collect()));
            }
            (Err(Stop::Errors(mut errors)), Ok(new)) => {
                if !self.may(by, CHANGE, new.dir) {
                    errors.insert(FsError::Access);
                }
                return Err(Stop::Errors(errors));
            }
            (Ok(old), Err(Stop::Errors(mut errors))) => {
                match old.node {
                    None => {
                        errors.insert(FsError::NotFound);
                    }
                    Some(id) => {
                        let mut more = Errors::default();
                        more.none_if(self.may(by, CHANGE, old.dir), FsError::Access);
                        more.none_if(!self.kept_by_sticky(by, old.dir, id), FsError::NotPermitted);
                        more.none_if(!to.0.starts_with(&from.0), FsError::Invalid);
                        errors.append(&mut more.0);
                    }
                }
                return Err(Stop::Errors(errors));
            }
            _ => return Err(Stop::Unspecified),
        };
        let id = old.node.ok_or(FsError::NotFound)?;
        let is_dir = self.node(id).kind == FileKind::Dir;

        let mut rights = Errors::default();
        rights.none_if(self.may(by, CHANGE, old.dir), FsError::Access);
        rights.none_if(self.may(by, CHANGE, new.dir), FsError::Access);
        rights.none_if(!self.kept_by_sticky(by, old.dir, id), FsError::NotPermitted);
        if new.node == Some(id) && !no_replace {
            // Linux finds that there is nothing to do before it looks at rights.
            rights.none_if(!self.kept_by_sticky(by, new.dir, id), FsError::NotPermitted);
            return Ok(Expected::NothingOr(rights.0));
        }
        let mut errors = rights;
        if is_dir {
            errors.none_if(!self.is_within(new.dir, id), FsError::Invalid);
            // Its `..` is written to.
            errors.none_if(
                new.dir == old.dir || self.may(by, WRITE, id),
                FsError::Access,
            );
        }
        if let Some(there) = new.node {
            errors.none_if(!no_replace, FsError::Exists);
            errors.none_if(
                !self.kept_by_sticky(by, new.dir, there),
                FsError::NotPermitted,
            );
            let onto_dir = self.node(there).kind == FileKind::Dir;
            errors.none_if(!is_dir || onto_dir, FsError::NotDir);
            errors.none_if(is_dir || !onto_dir, FsError::IsDir);
            if onto_dir {
                errors.none_if(self.entries(there).is_empty(), FsError::NotEmpty);
            }
        }
        if whiteout && self.traits.refused_whiteouts_touch && errors.0.contains(&FsError::NotEmpty)
        {
            return Err(Stop::Unspecified);
        }
        errors.finish()?;

        self.entries_mut(old.dir).remove(&old.name);
        self.entries_mut(new.dir).insert(new.name, id);
        match new.node {
            Some(there) if is_dir => {
                self.nodes.remove(&there);
            }
            Some(there) => self.lose_name(there),
            None => {}
        }
        if let Body::Dir { parent, .. } = &mut self.node_mut(id).body {
            *parent = new.dir;
        }
        if whiteout {
            self.make(by, old.dir, old.name, FileKind::Char, 0, Body::Special);
        }
        self.touch_dir(old.dir);
        self.touch_dir(new.dir);
        self.touch_ctime(id);
        Ok(Expected::Done)
    }
}
