//! Path names and their objects, for programs that have paths.

use crate::error::{ClientError, Result};
use crate::limits::MAX_SYMLINKS;
use crate::{Client, Node};
use pandofs_types::limits::MAX_NAME_BYTES;
use pandofs_types::{Credentials, FileKind, FsError, Ino, Name, NameError};

/// A path that was walked up to its last component.
enum Last {
    /// It ends in a name; whether that is there was not asked.
    Name { dir: Ino, name: Name },
    /// It ends in `.` or `..`, or is `/`.
    Dir(Ino),
}

/// The walk's state.
struct Walk {
    at: Ino,
    /// Components still to go, the next one last.
    rest: Vec<Vec<u8>>,
    links_followed: usize,
}

impl Client {
    /// Resolves a path, from the root on whether or not it begins with `/`. Symbolic links
    /// within are followed, at most 40, and one at the end is only if a `/` follows it.
    ///
    /// # Errors
    /// `NotFound`; `NotDir` when something within is no directory; `Loop` after too many links.
    pub fn resolve(&self, caller: &Credentials, path: &[u8]) -> Result<Node> {
        self.resolve_at(caller, Ino::ROOT, path, false)
    }

    /// As [`Client::resolve`], of a path that begins in the directory `from`, unless with a `/`.
    /// With `follow` a symbolic link at the end is followed as well.
    ///
    /// # Errors
    /// As [`Client::resolve`].
    pub fn resolve_at(
        &self,
        caller: &Credentials,
        from: Ino,
        path: &[u8],
        follow: bool,
    ) -> Result<Node> {
        if (from == Ino::ROOT || path.starts_with(b"/"))
            && let Some(node) = self.node_by_path(caller, path)?
            && !(follow && node.kind == FileKind::Symlink)
        {
            return Ok(node);
        }
        let mut walk = Walk::new(from);
        if path.ends_with(b"/") {
            walk.rest.push(b".".to_vec());
        }
        walk.push(path);
        loop {
            let (dir, name) = match self.walk(caller, &mut walk)? {
                Last::Dir(dir) => return self.node(caller, dir),
                Last::Name { dir, name } => (dir, name),
            };
            let node = self.lookup(caller, dir, &name)?;
            if !follow || node.kind != FileKind::Symlink {
                return Ok(node);
            }
            self.follow(caller, &mut walk, node.ino)?;
        }
    }

    /// The directory that holds, or would hold, the last component of the path, and that component.
    ///
    /// # Errors
    /// As [`Client::resolve`]; `Invalid` when the path ends in no name.
    pub fn resolve_parent(&self, caller: &Credentials, path: &[u8]) -> Result<(Ino, Name)> {
        self.resolve_parent_at(caller, Ino::ROOT, path)
    }

    /// As [`Client::resolve_parent`], of a path that begins in the directory `from`, unless with a
    /// `/`.
    ///
    /// # Errors
    /// As [`Client::resolve_parent`].
    pub fn resolve_parent_at(
        &self,
        caller: &Credentials,
        from: Ino,
        path: &[u8],
    ) -> Result<(Ino, Name)> {
        if (from == Ino::ROOT || path.starts_with(b"/"))
            && let Some(parent) = self.parent_by_path(caller, path)?
        {
            return Ok(parent);
        }
        let mut walk = Walk::new(from);
        walk.push(path);
        match self.walk(caller, &mut walk)? {
            Last::Name { dir, name } => Ok((dir, name)),
            Last::Dir(_) => Err(FsError::Invalid.into()),
        }
    }

    fn walk(&self, caller: &Credentials, walk: &mut Walk) -> Result<Last> {
        while let Some(component) = walk.rest.pop() {
            match component.as_slice() {
                b"." => continue,
                b".." => {
                    walk.at = self.parent(caller, walk.at)?;
                    continue;
                }
                _ => {}
            }
            let name = Name::new(&component).map_err(bad_name)?;
            if walk.rest.is_empty() {
                return Ok(Last::Name { dir: walk.at, name });
            }
            self.step(caller, walk, &name)?;
        }
        Ok(Last::Dir(walk.at))
    }

    /// Goes into a directory, or through a symbolic link, that is not the end of the path.
    fn step(&self, caller: &Credentials, walk: &mut Walk, name: &Name) -> Result<()> {
        let (ino, kind) = self.entry(caller, walk.at, name)?;
        match kind {
            FileKind::Dir => walk.at = ino,
            FileKind::Symlink => self.follow(caller, walk, ino)?,
            _ => return Err(FsError::NotDir.into()),
        }
        Ok(())
    }

    /// Goes on where a symbolic link of the directory leads.
    fn follow(&self, caller: &Credentials, walk: &mut Walk, link: Ino) -> Result<()> {
        walk.links_followed += 1;
        if walk.links_followed > MAX_SYMLINKS {
            return Err(ClientError::Loop);
        }
        let target = self.readlink(caller, link)?;
        walk.push(&target);
        Ok(())
    }

    /// The inode that a name leads to, without its attributes: one question at most, where those of a directory may
    /// take one to each shard that carries it. For programs that walk paths by themselves.
    ///
    /// # Errors
    /// `NotFound` when there is no such name.
    pub fn entry(&self, caller: &Credentials, dir: Ino, name: &Name) -> Result<(Ino, FileKind)> {
        let entry = self.core().entry(caller, dir, name)?;
        self.core()
            .learn_entry(entry.ino, entry.shard, entry.inode.is_some());
        Ok((entry.ino, entry.kind))
    }

    /// The directory that a directory is in; of the root, the root.
    ///
    /// # Errors
    /// `NotDir` for anything else.
    pub fn parent(&self, caller: &Credentials, dir: Ino) -> Result<Ino> {
        match self.core().inode(caller, dir)?.dir {
            Some(dir) => Ok(dir.parent),
            None => Err(FsError::NotDir.into()),
        }
    }
}

impl Walk {
    fn new(at: Ino) -> Walk {
        Walk {
            at,
            rest: Vec::new(),
            links_followed: 0,
        }
    }

    /// Puts the path's components before what is still to go.
    fn push(&mut self, path: &[u8]) {
        if path.starts_with(b"/") {
            self.at = Ino::ROOT;
        }
        let components = path
            .split(|&byte| byte == b'/')
            .filter(|part| !part.is_empty());
        self.rest.extend(components.rev().map(<[u8]>::to_vec));
    }
}

fn bad_name(error: NameError) -> FsError {
    match error {
        NameError::TooLong(bytes) => {
            assert!(bytes > MAX_NAME_BYTES);
            FsError::NameTooLong
        }
        NameError::Empty | NameError::ForbiddenByte | NameError::Dots => FsError::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_goes_before_the_rest_of_the_path() {
        let mut walk = Walk::new(Ino(7));
        walk.push(b"/a//b/c/");
        assert_eq!(walk.at, Ino::ROOT);
        assert_eq!(walk.rest.pop().unwrap(), b"a");
        walk.push(b"x/../y");
        let order: Vec<Vec<u8>> = std::iter::from_fn(|| walk.rest.pop()).collect();
        assert_eq!(order, [&b"x"[..], b"..", b"y", b"b", b"c"]);
    }

    #[test]
    fn names_that_are_none() {
        assert_eq!(
            bad_name(Name::new(&[b'x'; 256]).unwrap_err()),
            FsError::NameTooLong
        );
        assert_eq!(bad_name(Name::new(b"a\0").unwrap_err()), FsError::Invalid);
    }
}
