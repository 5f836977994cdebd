//! Requests by path: a name at any depth with one request to the shard that the path leads to, where the file system
//! places directories by their paths; see `docs/paths.md`.
//!
//! Whatever such a request does not decide is decided by going through the directories: a path that its shard does not
//! know, one through a symbolic link, one with `..`. What was found that way the shard is told, so that it knows the
//! next time.

use crate::core::Core;
use crate::error::{ClientError, Result};
use crate::inodes::unexpected;
use crate::{Client, Node};
use pandofs_api::{Above, EntryReply, PathName, PathReply, Reply, Request, SearchCondition, op};
use pandofs_session::Target;
use pandofs_types::acl::ACCESS_ACL;
use pandofs_types::{Acl, Acls, Credentials, FileKind, FsError, Ino, Name};

/// Where a path was found to lead.
enum Found {
    /// This is what the directory says of the name.
    Entry(EntryReply),
    /// The name's directory.
    Dir(Ino),
    /// Symbolic links have to be followed, or something has changed meanwhile.
    Undecided,
}

impl Client {
    /// What the name at the end of an absolute path leads to, symbolic links not followed; `None` where requests by
    /// path do not decide it.
    ///
    /// # Errors
    /// As [`Client::resolve`](crate::Client::resolve).
    pub(crate) fn node_by_path(&self, caller: &Credentials, path: &[u8]) -> Result<Option<Node>> {
        let Some((dirs, name)) = plain(path) else {
            return Ok(None);
        };
        let Some(entry) = self.entry_by_path(caller, &dirs, &name)? else {
            return Ok(None);
        };
        match self.core().node(caller, entry) {
            Err(error) if error.is_gone() => Ok(None),
            node => node.map(Some),
        }
    }

    /// The directory that holds, or would hold, the last name of an absolute path, and that name; `None` as in
    /// `node_by_path`, and where it is no directory.
    ///
    /// # Errors
    /// As [`Client::resolve_parent`](crate::Client::resolve_parent).
    pub(crate) fn parent_by_path(
        &self,
        caller: &Credentials,
        path: &[u8],
    ) -> Result<Option<(Ino, Name)>> {
        let Some((mut dirs, name)) = plain(path) else {
            return Ok(None);
        };
        let Some(last) = dirs.pop() else {
            return Ok(None);
        };
        let Some(entry) = self.entry_by_path(caller, &dirs, &last)? else {
            return Ok(None);
        };
        self.core()
            .learn_entry(entry.ino, entry.shard, entry.inode.is_some());
        Ok((entry.kind == FileKind::Dir).then_some((entry.ino, name)))
    }

    /// What the directory that these names lead to says of this one.
    fn entry_by_path(
        &self,
        caller: &Credentials,
        dirs: &[Name],
        name: &Name,
    ) -> Result<Option<EntryReply>> {
        let core = self.core();
        // What this session has executed itself its servers do not know yet, and traces name directories by number.
        if core.grants.is_on() || self.span().is_some() {
            return Ok(None);
        }
        let dir = match core.find(caller, dirs, name)? {
            Found::Entry(entry) => return Ok(Some(entry)),
            Found::Dir(dir) => dir,
            Found::Undecided => return Ok(None),
        };
        match core.entry(caller, dir, name) {
            // The directory may have gone, and another one have its path.
            Err(error) if error.is_gone() => Ok(None),
            entry => entry.map(Some),
        }
    }
}

impl Core {
    fn find(&self, caller: &Credentials, dirs: &[Name], name: &Name) -> Result<Found> {
        let path = dirs
            .iter()
            .try_fold(PathName::ROOT, |path, dir| path.join(dir));
        let Some(path) = path.filter(|_| !dirs.is_empty()) else {
            return Ok(Found::Undecided);
        };
        let Some(shard) = self.clusters.current().map.path_shard(path.as_bytes()) else {
            return Ok(Found::Undecided);
        };
        let lookup = op::LookupPath {
            path: path.clone(),
            name: name.clone(),
        };
        let request = Request::LookupPath(lookup);
        let seen = match self.ask(caller, Target::Shard(shard), request)? {
            Reply::Entry(entry) => {
                self.learn_entry(entry.ino, entry.shard, entry.inode.is_some());
                return Ok(Found::Entry(entry));
            }
            Reply::ByPath(PathReply::LeadsTo { dir }) => return Ok(Found::Dir(dir)),
            Reply::ByPath(PathReply::Unknown { seen }) => seen,
            other => return Err(unexpected(&other)),
        };
        let Some((dir, above)) = self.go_through(caller, dirs)? else {
            return Ok(Found::Undecided);
        };
        if let Some(above) = above {
            let keep = op::KeepPath {
                path,
                dir,
                above,
                seen,
            };
            // The path is found without it as well.
            if let Err(error) = self.ask(caller, Target::Shard(shard), Request::KeepPath(keep)) {
                tracing::debug!("a path is not kept: {}", ClientError::from(error));
            }
        }
        Ok(Found::Dir(dir))
    }

    /// The directory that these names lead to from the root on, and what is above it, unless that is too much to be kept;
    /// `None` if one of them is a symbolic link.
    fn go_through(
        &self,
        caller: &Credentials,
        dirs: &[Name],
    ) -> Result<Option<(Ino, Option<Above>)>> {
        let mut at = Ino::ROOT;
        let mut above = Some(Above::default());
        for name in dirs {
            if let Some(so_far) = above {
                above = so_far.below(at, self.condition(caller, at)?);
            }
            let entry = self.entry(caller, at, name)?;
            self.learn_entry(entry.ino, entry.shard, entry.inode.is_some());
            match entry.kind {
                FileKind::Dir => at = entry.ino,
                FileKind::Symlink => return Ok(None),
                _ => return Err(FsError::NotDir.into()),
            }
        }
        Ok(Some((at, above)))
    }

    /// The attributes by which a directory may be searched.
    fn condition(&self, caller: &Credentials, dir: Ino) -> Result<SearchCondition> {
        let attr = self.inode(caller, dir)?.attr;
        let access = match attr.has_xattrs {
            true => self.access_list(caller, dir)?.map(Box::new),
            false => None,
        };
        let acls = Acls {
            access,
            default: None,
        };
        Ok(SearchCondition::of(attr.mode, attr.uid, attr.gid, &acls))
    }

    fn access_list(&self, caller: &Credentials, dir: Ino) -> Result<Option<Acl>> {
        let request = Request::GetXattr(op::GetXattr {
            ino: dir,
            name: ACCESS_ACL.to_vec(),
        });
        match self.ask(caller, Target::Inode(dir), request) {
            Ok(Reply::Value(value)) => Ok(Acl::from_xattr(&value)?),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => match ClientError::from(error) {
                ClientError::Fs(FsError::NoAttribute) => Ok(None),
                error => Err(error),
            },
        }
    }
}

/// The names of a path's directories and its last one, if it is nothing but names that lead down: no `..`, no end in a
/// `/` or a `.`.
fn plain(path: &[u8]) -> Option<(Vec<Name>, Name)> {
    let ends = path.ends_with(b"/") || path.ends_with(b"/.");
    let names = path
        .split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".");
    let mut names: Vec<Name> = names
        .map(Name::new)
        .collect::<std::result::Result<_, _>>()
        .ok()?;
    let last = names.pop().filter(|_| !ends)?;
    Some((names, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &[u8]) -> Option<String> {
        let (dirs, last) = plain(path)?;
        let dirs: Vec<String> = dirs.iter().map(ToString::to_string).collect();
        Some(format!("{} {last}", dirs.join(",")))
    }

    #[test]
    fn paths_that_lead_nowhere_but_down() {
        assert_eq!(text(b"/a//b/./c").as_deref(), Some("a,b c"));
        assert_eq!(text(b"/c").as_deref(), Some(" c"));
        for path in [&b"/"[..], b"", b"/a/", b"/a/.", b"/a/../b", b"/a/.."] {
            assert_eq!(text(path), None, "{path:?}");
        }
    }
}
