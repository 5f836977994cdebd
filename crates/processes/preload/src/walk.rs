//! The walk along a path within the file system, and out of it.
//!
//! The client library takes a symbolic link's `/` for the file system's root, and stays at the root where a path goes above
//! it. A program's `/` is the machine's, and above the root is what the prefix is in.

use crate::route::{Prefix, Side};
use pandofs_types::limits::MAX_NAME_BYTES;
use pandofs_types::{FileKind, Ino, Name};

/// Symbolic links of one path that are followed.
const MAX_LINKS: u32 = 40;

/// Questions of a walk.
pub(crate) trait Tree {
    /// The inode that the name leads to.
    fn entry(&self, dir: Ino, name: &Name) -> Result<(Ino, FileKind), i32>;
    /// The target of a symbolic link.
    fn target(&self, link: Ino) -> Result<Vec<u8>, i32>;
    /// The directory that a directory is in.
    fn parent(&self, dir: Ino) -> Result<Ino, i32>;
    /// Looks whether names of a directory may be looked up.
    fn search(&self, dir: Ino) -> Result<(), i32>;
}

/// A directory, and its path below the file system's root, which is empty for the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub ino: Ino,
    pub path: Vec<u8>,
}

impl Place {
    pub(crate) fn root() -> Place {
        Place {
            ino: Ino::ROOT,
            path: Vec::new(),
        }
    }

    /// The path of a name in it.
    pub(crate) fn join(&self, name: &Name) -> Vec<u8> {
        [&self.path[..], b"/", name.as_bytes()].concat()
    }
}

/// The end of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A name in a directory; whether it is there was not asked.
    Name {
        dir: Place,
        name: Name,
        /// A `/` is behind it.
        slash: bool,
    },
    /// A directory that the path ends in by other means than a name.
    Dir(Place),
    /// A path of the machine.
    Outside(Vec<u8>),
}

/// A walk under way.
pub(crate) struct Walk<'t, T> {
    tree: &'t T,
    prefix: &'t Prefix,
    links: u32,
}

impl<'t, T: Tree> Walk<'t, T> {
    pub(crate) fn new(tree: &'t T, prefix: &'t Prefix) -> Walk<'t, T> {
        Walk {
            tree,
            prefix,
            links: 0,
        }
    }

    /// Walks from a directory along a path to its last name.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn go_to_name(&mut self, from: Place, path: &[u8]) -> Result<End, i32> {
        let mut at = from;
        let mut rest: Vec<u8> = path.to_vec();
        loop {
            let start = rest
                .iter()
                .position(|&byte| byte != b'/')
                .unwrap_or(rest.len());
            let end = rest[start..].iter().position(|&byte| byte == b'/');
            let end = end.map_or(rest.len(), |end| start + end);
            let behind = rest.split_off(end);
            let part = rest.split_off(start);
            let is_last = behind.iter().all(|&byte| byte == b'/');
            match part.as_slice() {
                b"" => return Ok(End::Dir(at)),
                // Between names the next one is looked up there.
                b"." if is_last => self.tree.search(at.ino)?,
                b"." => {}
                b".." if at.ino == Ino::ROOT => {
                    return Ok(End::Outside([self.prefix.parent(), &behind].concat()));
                }
                b".." => {
                    self.tree.search(at.ino)?;
                    at.ino = self.tree.parent(at.ino)?;
                    let end = at.path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                    at.path.truncate(end);
                }
                part => {
                    let name = name(part)?;
                    if is_last {
                        let slash = !behind.is_empty();
                        return Ok(End::Name {
                            dir: at,
                            name,
                            slash,
                        });
                    }
                    let (ino, kind) = self.tree.entry(at.ino, &name)?;
                    match kind {
                        FileKind::Dir => {
                            at = Place {
                                path: at.join(&name),
                                ino,
                            }
                        }
                        FileKind::Symlink => match self.through(at, ino, &behind)? {
                            Ok((on, path)) => {
                                at = on;
                                rest = path;
                                continue;
                            }
                            Err(outside) => return Ok(End::Outside(outside)),
                        },
                        _ => return Err(libc::ENOTDIR),
                    }
                }
            }
            rest = behind;
        }
    }

    /// Where a symbolic link of a directory leads, with what is behind it in the path: on from a directory, or to a path
    /// of the machine.
    #[allow(clippy::type_complexity, reason = "one of two ways on")]
    pub(crate) fn through(
        &mut self,
        dir: Place,
        link: Ino,
        behind: &[u8],
    ) -> Result<Result<(Place, Vec<u8>), Vec<u8>>, i32> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(libc::ELOOP);
        }
        let target = self.tree.target(link)?;
        let path = [&target[..], behind].concat();
        if !target.starts_with(b"/") {
            return Ok(Ok((dir, path)));
        }
        Ok(match self.prefix.side(&path) {
            Side::Inside(rest) => Ok((Place::root(), rest.to_vec())),
            Side::Outside | Side::Unclear => Err(path),
        })
    }
}

fn name(part: &[u8]) -> Result<Name, i32> {
    match Name::new(part) {
        Ok(name) => Ok(name),
        Err(_) if part.len() > MAX_NAME_BYTES => Err(libc::ENAMETOOLONG),
        Err(_) => Err(libc::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/a/b/c`, and in `/a` links: `up` to `../a/b`, `home` to `/pfs/a`, `out` to `/etc`, `round` to itself.
    struct Few;

    const A: Ino = Ino(10);
    const B: Ino = Ino(11);
    const CLOSED: Ino = Ino(13);

    impl Tree for Few {
        fn entry(&self, dir: Ino, name: &Name) -> Result<(Ino, FileKind), i32> {
            match (dir, name.as_bytes()) {
                (Ino::ROOT, b"a") => Ok((A, FileKind::Dir)),
                (A, b"b") => Ok((B, FileKind::Dir)),
                (A, b"file") => Ok((Ino(12), FileKind::File)),
                (A, b"closed") => Ok((CLOSED, FileKind::Dir)),
                (A, b"up") => Ok((Ino(20), FileKind::Symlink)),
                (A, b"home") => Ok((Ino(21), FileKind::Symlink)),
                (A, b"out") => Ok((Ino(22), FileKind::Symlink)),
                (A, b"round") => Ok((Ino(23), FileKind::Symlink)),
                _ => Err(libc::ENOENT),
            }
        }

        fn target(&self, link: Ino) -> Result<Vec<u8>, i32> {
            let text: &[u8] = match link.0 {
                20 => b"../a/b",
                21 => b"/pfs/a",
                22 => b"/etc",
                _ => b"round",
            };
            Ok(text.to_vec())
        }

        fn parent(&self, dir: Ino) -> Result<Ino, i32> {
            Ok(if dir == B { A } else { Ino::ROOT })
        }

        fn search(&self, dir: Ino) -> Result<(), i32> {
            match dir {
                CLOSED => Err(libc::EACCES),
                _ => Ok(()),
            }
        }
    }

    fn ends(path: &str) -> Result<End, i32> {
        let prefix = Prefix::new(b"/pfs").unwrap();
        Walk::new(&Few, &prefix).go_to_name(Place::root(), path.as_bytes())
    }

    fn named(dir: Ino, path: &str, name: &str, slash: bool) -> Result<End, i32> {
        Ok(End::Name {
            dir: Place {
                ino: dir,
                path: path.as_bytes().to_vec(),
            },
            name: Name::new(name.as_bytes()).unwrap(),
            slash,
        })
    }

    fn outside(path: &str) -> Result<End, i32> {
        Ok(End::Outside(path.as_bytes().to_vec()))
    }

    #[test]
    fn names_are_found_whatever_is_between() {
        assert_eq!(ends("/a/b/c"), named(B, "/a/b", "c", false));
        assert_eq!(ends("a//./b/../b/c//"), named(B, "/a/b", "c", true));
        assert_eq!(ends("/new"), named(Ino::ROOT, "", "new", false));
        assert_eq!(
            ends("/a/../a/b/.."),
            Ok(End::Dir(Place {
                ino: A,
                path: b"/a".to_vec()
            }))
        );
        assert_eq!(ends(""), Ok(End::Dir(Place::root())));
    }

    #[test]
    fn links_lead_on_here_and_elsewhere() {
        assert_eq!(ends("/a/up/c"), named(B, "/a/b", "c", false));
        assert_eq!(ends("/a/home/b/c"), named(B, "/a/b", "c", false));
        assert_eq!(
            ends("/a/up"),
            named(A, "/a", "up", false),
            "the last is not followed"
        );
        assert_eq!(ends("/a/out/passwd"), outside("/etc/passwd"));
        assert_eq!(ends("/a/round/x"), Err(libc::ELOOP));
    }

    #[test]
    fn above_the_root_is_the_machine() {
        assert_eq!(ends("/.."), outside("/"));
        assert_eq!(ends("/a/../../etc/x"), outside("//etc/x"));
    }

    #[test]
    fn dots_are_looked_up_like_names() {
        assert_eq!(ends("/a/closed/"), named(A, "/a", "closed", true));
        for path in ["/a/closed/.", "/a/closed/..", "/a/closed/../b"] {
            assert_eq!(ends(path), Err(libc::EACCES), "{path}");
        }
    }

    #[test]
    fn what_is_no_directory_or_no_name_is_refused() {
        assert_eq!(ends("/a/file/x"), Err(libc::ENOTDIR));
        assert_eq!(ends("/none/x"), Err(libc::ENOENT));
        assert_eq!(
            ends(&format!("/{}", "x".repeat(256))),
            Err(libc::ENAMETOOLONG)
        );
    }
}
