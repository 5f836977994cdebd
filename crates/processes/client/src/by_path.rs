//! Requests by path: an operation at any depth with one request to the shard that the path leads to, where the file system
//! places directories by their paths; see `docs/paths.md`.
//!
//! The client goes through the directories for a path that such a request does not decide: one that its shard does not
//! know, one through a symbolic link, one with `..`. It tells the shard what it has found, so that that knows the next
//! time.

use crate::call::Call;
use crate::core::Core;
use crate::dirs::{Page, listing};
use crate::error::{ClientError, Failure, Result};
use crate::inodes::unexpected;
use crate::names::{OpenHow, RenameHow, entry_of};
use crate::{Client, Node};
use pandofs_api::op::PathOperation;
use pandofs_api::{
    Above, EntryReply, NewNode, PathName, PathReply, Reply, Request, SearchCondition, op,
};
use pandofs_session::Target;
use pandofs_types::acl::ACCESS_ACL;
use pandofs_types::{
    Acl, Acls, Credentials, FileKind, FsError, Ino, Name, NewMode, Position, ShardId,
};

/// Outcome of a request by path.
enum Asked {
    /// The shard's answer.
    Answered(Reply, Box<Call<'static>>),
    /// The path leads to this directory, which is to be asked for by its number.
    Leads(Ino),
    /// Symbolic links have to be followed, or something has changed meanwhile.
    Undecided,
}

/// The same for an operation on the last name of a path.
enum OfName {
    Answered(Reply, Box<Call<'static>>),
    /// The name's directory, and the name.
    In(Ino, Name),
}

/// # Operations by path
///
/// Each is one request at any depth if the shard of the path knows it. They answer `None` where requests by path do not
/// decide, so that the path is to be [walked](Client::resolve_parent): on a file system that places directories otherwise,
/// for a path with `..`, one that ends in a `/`, one through a symbolic link. Symbolic links at the end are not followed.
///
/// Paths begin at the root. Errors are those of the operation by number, and those of [`Client::resolve`].
impl Client {
    /// As [`Client::mkdir_masked`].
    ///
    /// # Errors
    /// See there.
    pub fn mkdir_by_path(
        &self,
        caller: &Credentials,
        path: &[u8],
        mode: NewMode,
    ) -> Result<Option<Node>> {
        let asked = self.of_name(caller, path, |dir, name| {
            PathOperation::Mkdir(op::Mkdir {
                dir,
                name,
                mode: mode.mode,
                umask: mode.umask,
            })
        })?;
        let node = match asked {
            None => return Ok(None),
            Some(OfName::Answered(reply, _)) => self.core().node(caller, entry_of(reply)?),
            Some(OfName::In(dir, name)) => self.mkdir_masked(caller, dir, &name, mode),
        };
        node.map(Some)
    }

    /// As [`Client::mknod_masked`].
    ///
    /// # Errors
    /// See there.
    pub fn mknod_by_path(
        &self,
        caller: &Credentials,
        path: &[u8],
        node: NewNode,
        mode: NewMode,
    ) -> Result<Option<Node>> {
        let asked = self.of_name(caller, path, |dir, name| {
            PathOperation::Create(op::Create {
                dir,
                name,
                node: node.clone(),
                mode: mode.mode,
                umask: mode.umask,
                open: false,
            })
        })?;
        let node = match asked {
            None => return Ok(None),
            Some(OfName::Answered(reply, _)) => self.core().node(caller, entry_of(reply)?),
            Some(OfName::In(dir, name)) => self.mknod_masked(caller, dir, &name, node, mode),
        };
        node.map(Some)
    }

    /// As [`Client::create_masked`], but that it does not say whether the file was there. One that is emptied takes two requests
    /// more.
    ///
    /// # Errors
    /// See there.
    pub fn create_by_path(
        &self,
        caller: &Credentials,
        path: &[u8],
        mode: NewMode,
        how: OpenHow,
    ) -> Result<Option<Node>> {
        if !how.exclusive && !how.truncate {
            return self.open_or_make(caller, path, how.access, Some(mode));
        }
        let before = self.core().registrations();
        let asked = self.of_name(caller, path, |dir, name| {
            PathOperation::Create(op::Create {
                dir,
                name,
                node: NewNode::File,
                mode: mode.mode,
                umask: mode.umask,
                open: true,
            })
        });
        match asked {
            Ok(None) => Ok(None),
            Ok(Some(OfName::Answered(reply, call))) => {
                let node = self.core().made_open(caller, &call, reply, before);
                node.map(Some)
            }
            Ok(Some(OfName::In(dir, name))) => {
                let found = self.create_masked(caller, dir, &name, mode, how);
                found.map(|found| Some(found.node))
            }
            Err(ClientError::Fs(FsError::Exists)) if !how.exclusive => {
                match self.node_by_path(caller, path) {
                    Ok(Some(node)) if node.kind == FileKind::File => {
                        let opened = self.open_node(caller, node.ino, how.access, true);
                        opened.map(Node::from).map(Some)
                    }
                    Ok(_) => Ok(None),
                    // It has gone meanwhile.
                    Err(error) if error.is_gone() => Ok(None),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// As [`Client::open_node`] of what the path leads to, without emptying it; `None` also if that is no regular file. It
    /// is to be released.
    ///
    /// # Errors
    /// See there; `NotFound`.
    pub fn open_by_path(
        &self,
        caller: &Credentials,
        path: &[u8],
        access: u16,
    ) -> Result<Option<Node>> {
        self.open_or_make(caller, path, access, None)
    }

    /// Opens what the path leads to; with a mode a file is made of it where nothing is.
    fn open_or_make(
        &self,
        caller: &Credentials,
        path: &[u8],
        access: u16,
        create: Option<NewMode>,
    ) -> Result<Option<Node>> {
        let core = self.core();
        let before = core.registrations();
        let asked = self.of_name(caller, path, |dir, name| {
            PathOperation::OpenName(op::OpenName {
                dir,
                name,
                access,
                create,
            })
        })?;
        let entry = match (asked, create) {
            (None, _) => return Ok(None),
            (Some(OfName::Answered(reply, call)), _) => {
                let entry = entry_of(reply)?;
                core.learn_entry(entry.ino, entry.shard, entry.inode.is_some());
                if entry.inode.is_some() {
                    let reply = Reply::Entry(entry);
                    return core.made_open(caller, &call, reply, before).map(Some);
                }
                entry
            }
            (Some(OfName::In(dir, name)), Some(mode)) => {
                let how = OpenHow {
                    access,
                    truncate: false,
                    exclusive: false,
                };
                let found = self.create_masked(caller, dir, &name, mode, how);
                return found.map(|found| Some(found.node));
            }
            (Some(OfName::In(dir, name)), None) => {
                let entry = core.entry(caller, dir, &name)?;
                core.learn_entry(entry.ino, entry.shard, entry.inode.is_some());
                entry
            }
        };
        match entry.kind {
            FileKind::File => {
                let opened = self.open_node(caller, entry.ino, access, false);
                match opened {
                    // It has gone meanwhile, and a file is to be made.
                    Err(error) if error.is_gone() && create.is_some() => Ok(None),
                    opened => opened.map(Node::from).map(Some),
                }
            }
            _ => Ok(None),
        }
    }

    /// As [`Client::unlink`].
    ///
    /// # Errors
    /// See there.
    pub fn unlink_by_path(&self, caller: &Credentials, path: &[u8]) -> Result<Option<Ino>> {
        let asked = self.of_name(caller, path, |dir, name| {
            PathOperation::Unlink(op::Unlink { dir, name })
        })?;
        let ino = match asked {
            None => return Ok(None),
            Some(OfName::Answered(reply, _)) => removed(&reply),
            Some(OfName::In(dir, name)) => self.unlink(caller, dir, &name),
        };
        ino.map(Some)
    }

    /// As [`Client::rmdir`].
    ///
    /// # Errors
    /// See there.
    pub fn rmdir_by_path(&self, caller: &Credentials, path: &[u8]) -> Result<Option<Ino>> {
        let asked = self.of_name(caller, path, |dir, name| {
            PathOperation::Rmdir(op::Rmdir { dir, name })
        })?;
        let ino = match asked {
            None => return Ok(None),
            Some(OfName::Answered(reply, _)) => removed(&reply)?,
            Some(OfName::In(dir, name)) => return self.rmdir(caller, dir, &name).map(Some),
        };
        self.core().maps.forget(ino);
        Ok(Some(ino))
    }

    /// As [`Client::readdir`] from the start, and the directory's number.
    ///
    /// # Errors
    /// See there.
    pub fn list_by_path(
        &self,
        caller: &Credentials,
        path: &[u8],
        plus: bool,
        max: usize,
    ) -> Result<Option<(Ino, Page)>> {
        let Some((mut dirs, last)) = plain(path).filter(|_| self.asks_by_path()) else {
            return Ok(None);
        };
        dirs.push(last);
        let from = Position::FIRST;
        let listing = listing(op::ByPath::UNKNOWN, from, plus, max);
        let core = self.core();
        match core.by_path(caller, &dirs, PathOperation::ReadDir(listing))? {
            Asked::Undecided => Ok(None),
            Asked::Answered(reply, _) => {
                let reply = core.entries_of(reply, from)?;
                let dir = reply.dir;
                let page = self.page_from(caller, reply, plus, max)?;
                Ok(Some((dir, page)))
            }
            Asked::Leads(dir) => {
                let page = self.readdir(caller, dir, from, plus, max)?;
                Ok(Some((dir, page)))
            }
        }
    }

    /// As [`Client::rename_how`]. It takes a request more if the two directories' paths lead to different shards.
    ///
    /// # Errors
    /// See there.
    pub fn rename_by_path(
        &self,
        caller: &Credentials,
        path: &[u8],
        new_path: &[u8],
        how: RenameHow,
    ) -> Result<Option<Ino>> {
        let both = plain(path).zip(plain(new_path));
        let Some(((dirs, name), (new_dirs, new_name))) = both.filter(|_| self.asks_by_path())
        else {
            return Ok(None);
        };
        let core = self.core();
        let at = (core.place_of(&dirs), core.place_of(&new_dirs));
        let (new_dir, new_at) = match at {
            (None, _) => return Ok(None),
            (Some(_), None) if new_dirs.is_empty() => (Ino::ROOT, None),
            (Some(at), Some(new_at)) if at.shard == new_at.shard => {
                (op::ByPath::UNKNOWN, Some(new_at.path))
            }
            (Some(_), _) => match self.parent_by_path(caller, new_path) {
                Ok(Some((new_dir, _))) => (new_dir, None),
                // Perhaps the first path is wrong as well, of which the program is to be told first.
                Ok(None) | Err(_) => return Ok(None),
            },
        };
        let operation = PathOperation::Rename(op::Rename {
            dir: op::ByPath::UNKNOWN,
            name: name.clone(),
            new_dir,
            new_name: new_name.clone(),
            // Filled in when it is sent, or by the shard.
            new_shard: ShardId(0),
            no_replace: how.no_replace,
            whiteout: how.whiteout,
        });
        let goes_through = new_at.is_some().then_some(new_dirs.as_slice());
        match core.by_paths(caller, &dirs, (new_at, goes_through), operation)? {
            (Asked::Answered(Reply::Renamed { ino }, _), _) => Ok(Some(ino)),
            (Asked::Answered(other, _), _) => Err(unexpected(&other)),
            (Asked::Leads(dir), new) if new.is_some() || new_dir != op::ByPath::UNKNOWN => {
                let new_dir = new.unwrap_or(new_dir);
                let to = (new_dir, &new_name);
                self.rename_how(caller, (dir, &name), to, how).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// An operation on the last name of an absolute path; `None` where requests by path do not decide it.
    fn of_name(
        &self,
        caller: &Credentials,
        path: &[u8],
        operation: impl FnOnce(Ino, Name) -> PathOperation,
    ) -> Result<Option<OfName>> {
        match plain(path) {
            Some((dirs, name)) => self.of_name_in(caller, &dirs, name, operation),
            None => Ok(None),
        }
    }

    fn of_name_in(
        &self,
        caller: &Credentials,
        dirs: &[Name],
        name: Name,
        operation: impl FnOnce(Ino, Name) -> PathOperation,
    ) -> Result<Option<OfName>> {
        if !self.asks_by_path() {
            return Ok(None);
        }
        let operation = operation(op::ByPath::UNKNOWN, name.clone());
        Ok(match self.core().by_path(caller, dirs, operation)? {
            Asked::Answered(reply, call) => Some(OfName::Answered(reply, call)),
            Asked::Leads(dir) => Some(OfName::In(dir, name)),
            Asked::Undecided => None,
        })
    }

    /// Servers do not know yet what this session has executed itself, and traces name directories by number.
    fn asks_by_path(&self) -> bool {
        !self.core().grants.is_on() && self.span().is_none()
    }

    /// The node at the end of an absolute path, symbolic links not followed; `None` where requests by path do not
    /// decide it.
    ///
    /// # Errors
    /// As [`Client::resolve`](crate::Client::resolve).
    pub fn node_by_path(&self, caller: &Credentials, path: &[u8]) -> Result<Option<Node>> {
        let Some((dirs, name)) = plain(path) else {
            return Ok(None);
        };
        let Some(entry) = self.entry_by_path(caller, &dirs, name)? else {
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
        let entry = self.entry_by_path(caller, &dirs, last)?;
        let dir = entry.filter(|entry| entry.kind == FileKind::Dir);
        Ok(dir.map(|entry| (entry.ino, name)))
    }

    /// The entry of this name in the directory that the others lead to.
    fn entry_by_path(
        &self,
        caller: &Credentials,
        dirs: &[Name],
        name: Name,
    ) -> Result<Option<EntryReply>> {
        let core = self.core();
        let asked = self.of_name_in(caller, dirs, name, |dir, name| {
            PathOperation::Lookup(op::Lookup { dir, name })
        })?;
        let entry = match asked {
            None => return Ok(None),
            Some(OfName::Answered(reply, _)) => entry_of(reply)?,
            Some(OfName::In(dir, name)) => match core.entry(caller, dir, &name) {
                // The directory may have gone, and another one have its path.
                Err(error) if error.is_gone() => return Ok(None),
                entry => entry?,
            },
        };
        core.learn_entry(entry.ino, entry.shard, entry.inode.is_some());
        Ok(Some(entry))
    }
}

/// A path, and the shard that it leads to.
struct Place {
    path: PathName,
    shard: ShardId,
}

impl Core {
    /// The path of these names below the root, where paths lead to shards; `None` of the root, whose shard is known.
    fn place_of(&self, dirs: &[Name]) -> Option<Place> {
        let join = |path: PathName, dir| path.join(dir);
        let path = dirs.iter().try_fold(PathName::ROOT, join)?;
        let shard = self.clusters.current().map.path_shard(path.as_bytes())?;
        (!dirs.is_empty()).then_some(Place { path, shard })
    }

    /// Asks for an operation in the directory that these names lead to.
    fn by_path(
        &self,
        caller: &Credentials,
        dirs: &[Name],
        operation: PathOperation,
    ) -> Result<Asked> {
        let (asked, _) = self.by_paths(caller, dirs, (None, None), operation)?;
        Ok(asked)
    }

    /// The same with the other directory of a rename, and its names if it is named by its path. If the shard does not know
    /// the paths, both were gone through, and the answer is where they lead.
    fn by_paths(
        &self,
        caller: &Credentials,
        dirs: &[Name],
        (new_path, new_dirs): (Option<PathName>, Option<&[Name]>),
        operation: PathOperation,
    ) -> Result<(Asked, Option<Ino>)> {
        let Some(Place { path, shard }) = self.place_of(dirs) else {
            return Ok((Asked::Undecided, None));
        };
        let request = Request::ByPath(op::ByPath {
            path,
            new_path,
            operation,
        });
        let mut call = Call::shard(Target::Shard(shard), caller, request);
        let seen = match self.ask_call(&mut call) {
            Ok(reply) => return Ok((Asked::Answered(reply, Box::new(call)), None)),
            Err(Failure::ByPath(PathReply::LeadsTo { dir, map })) => {
                if let Some(map) = map {
                    self.maps.merge(dir, &map);
                }
                return Ok((Asked::Leads(dir), None));
            }
            Err(Failure::ByPath(PathReply::Unknown { seen })) => seen,
            Err(failure) => return Err(failure.into()),
        };
        let Some(dir) = self.find_and_keep(caller, dirs, seen)? else {
            return Ok((Asked::Undecided, None));
        };
        let new_dir = match new_dirs {
            Some(new_dirs) => self.find_and_keep(caller, new_dirs, seen)?,
            None => None,
        };
        Ok((Asked::Leads(dir), new_dir))
    }

    /// Goes through the directories of a path, and has its shard keep where it leads; `seen`: as that said it before.
    /// `None` if it leads through a symbolic link.
    fn find_and_keep(&self, caller: &Credentials, dirs: &[Name], seen: u64) -> Result<Option<Ino>> {
        let Some((dir, above)) = self.go_through(caller, dirs)? else {
            return Ok(None);
        };
        if let (Some(above), Some(Place { path, shard })) = (above, self.place_of(dirs)) {
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
        Ok(Some(dir))
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

fn removed(reply: &Reply) -> Result<Ino> {
    match reply {
        Reply::Removed { ino } => Ok(*ino),
        other => Err(unexpected(other)),
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
