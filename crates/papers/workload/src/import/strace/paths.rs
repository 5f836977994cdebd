//! Paths, and what they lead to: names in the tree that is imported, or something elsewhere.

use super::process::{Process, Spot};
use super::value::{AT_FDCWD, Numbered};
use super::{During, Strace};
use crate::import::Problem;
use crate::import::names::by_name;
use crate::limits::MAX_TRACE_DEPTH;
use crate::op::Kind;
use pandofs_types::Ino;
use pandofs_types::limits::MAX_NAME_BYTES;

/// Symbolic links that a path may go through, as in Linux.
const MAX_LINKS: usize = 40;
const ENOENT: i32 = 2;
const ENOTDIR: i32 = 20;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A name in a directory, which may lead nowhere.
    Name(u64, Vec<u8>),
    /// A directory, by `.` or `..`, or the root of the tree.
    Dir(u64),
    Outside(Vec<u8>),
    /// A name on the way leads nowhere, or to no directory; the path is what follows it.
    Missing(u64, Vec<u8>),
    /// It goes through a symbolic link whose target the trace does not tell, or is too deep or too long.
    Unknown,
}

/// How a path is walked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    /// A symbolic link at the end is followed.
    pub follows: bool,
    /// The error of the call: it tells whether all names on the way are there.
    pub error: Option<i32>,
}

/// An absolute path without `.`, `..` and empty names; `None` of any other.
pub(super) fn normal(path: &[u8]) -> Option<Vec<u8>> {
    path.starts_with(b"/").then_some(())?;
    let mut normal = b"/".to_vec();
    for name in path.split(|&byte| byte == b'/') {
        step(&mut normal, name);
    }
    Some(normal)
}

fn step(path: &mut Vec<u8>, name: &[u8]) {
    match name {
        b"" | b"." => {}
        b".." => {
            let end = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            path.truncate(end.max(1));
        }
        _ => {
            if path.len() > 1 {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
    }
}

impl Strace {
    /// Where a path that begins at a descriptor begins; with `-y` the trace says it.
    pub(super) fn base(
        &mut self,
        (number, path): Numbered<'_>,
        during: During,
    ) -> Result<Option<Spot>, Problem> {
        let process = during.process;
        if number == AT_FDCWD {
            let Some(path) = path.and_then(|path| normal(&path)) else {
                return Ok(self.process(process).map(|process| {
                    let place = process.place.borrow();
                    place.directory.clone()
                }));
            };
            let directory = self.real(&path, during)?;
            if let Some(process) = self.process(process) {
                process.place.borrow_mut().directory = directory.clone();
            }
            return Ok(Some(directory));
        }
        let known = self
            .process(process)
            .and_then(|process| process.get(number));
        match (known, path.and_then(|path| normal(&path))) {
            (Some(descriptor), _) => Ok(Some(descriptor.of.borrow().at.clone())),
            // Opened before the trace began, or passed from somewhere.
            (None, Some(path)) => Ok(Some(self.real(&path, during)?)),
            (None, None) => Ok(None),
        }
    }

    pub(super) fn process(&self, number: u32) -> Option<&Process> {
        self.processes.get(&number)
    }

    /// Where a path without symbolic links, which is there, leads.
    pub(super) fn real(&mut self, path: &[u8], during: During) -> Result<Spot, Problem> {
        // With -y a file that has no name any more has this behind its last one.
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        let Some(rest) = inside(&self.below, path) else {
            return Ok(Spot::Outside(path.to_vec()));
        };
        let mut at = Ino::ROOT.0;
        for name in rest
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty())
        {
            if name.len() > MAX_NAME_BYTES {
                return Ok(Spot::Outside(path.to_vec()));
            }
            at = self.there(at, name, during)?;
        }
        Ok(Spot::Inside(at))
    }

    /// The directory and the name of a path without symbolic links, if it is in the tree.
    pub(super) fn real_parent(
        &mut self,
        path: &[u8],
        during: During,
    ) -> Result<Option<(u64, Vec<u8>)>, Problem> {
        let rest = inside(&self.below, path).filter(|rest| !rest.is_empty() && *rest != b"/");
        let Some(at) = rest.and_then(|_| path.iter().rposition(|&byte| byte == b'/')) else {
            return Ok(None);
        };
        let (above, name) = (&path[..at.max(1)], &path[at + 1..]);
        Ok(match self.real(above, during)? {
            Spot::Inside(dir) if name.len() <= MAX_NAME_BYTES => Some((dir, name.to_vec())),
            _ => None,
        })
    }

    /// The inode of a name that is there.
    pub(super) fn there(&mut self, dir: u64, name: &[u8], during: During) -> Result<u64, Problem> {
        self.names.learn_kind(dir, 'd');
        let (ino, told) = self.names.find(dir, name)?;
        if let Some(told) = told {
            self.emit_before(told, during);
        }
        Ok(ino)
    }

    pub(super) fn walk(
        &mut self,
        from: &Spot,
        path: &[u8],
        how: Walk,
        during: During,
    ) -> Result<Found, Problem> {
        let mut at = from.clone();
        // The next one last.
        let mut rest: Vec<Vec<u8>> = Vec::new();
        if path.starts_with(b"/") {
            at = self.at_root();
        }
        let follows = how.follows || path.ends_with(b"/");
        push(&mut rest, path);
        let (mut links, mut steps) = (0, 0);
        let mut last = None;
        while let Some(name) = rest.pop() {
            steps += 1;
            if steps > MAX_TRACE_DEPTH + MAX_LINKS || name.len() > MAX_NAME_BYTES {
                return Ok(Found::Unknown);
            }
            last = None;
            let dir = match &mut at {
                Spot::Outside(path) => {
                    step(path, &name);
                    if *path == self.below {
                        at = Spot::Inside(Ino::ROOT.0);
                    }
                    continue;
                }
                Spot::Inside(dir) => *dir,
            };
            match name.as_slice() {
                b"." => continue,
                b".." => {
                    at = self.above(dir);
                    continue;
                }
                _ => {}
            }
            let is_last = rest.is_empty();
            let Some(ino) = self.names.get(dir, &name) else {
                match (is_last, how.error) {
                    (true, _) => {
                        last = Some((dir, name));
                        break;
                    }
                    (false, Some(ENOENT | ENOTDIR)) => return Ok(Found::Missing(dir, name)),
                    (false, _) => {
                        let ino = self.there(dir, &name, during)?;
                        self.names.learn_kind(ino, 'd');
                        at = Spot::Inside(ino);
                    }
                }
                continue;
            };
            if self.names.kind(ino) == Some('l') && (!is_last || follows) {
                links += 1;
                let target = self.names.target(ino).filter(|_| links <= MAX_LINKS);
                let Some(target) = target.map(<[u8]>::to_vec) else {
                    return Ok(Found::Unknown);
                };
                if target.starts_with(b"/") {
                    at = self.at_root();
                }
                push(&mut rest, &target);
                continue;
            }
            if is_last {
                last = Some((dir, name));
            } else if how.error.is_none() {
                self.names.learn_kind(ino, 'd');
            } else if how.error == Some(ENOTDIR) && !self.names.is_dir(ino) {
                return Ok(Found::Missing(dir, name));
            }
            at = Spot::Inside(ino);
        }
        Ok(match (last, at) {
            (Some((dir, name)), _) => Found::Name(dir, name),
            (None, Spot::Inside(dir)) => Found::Dir(dir),
            (None, Spot::Outside(path)) => Found::Outside(path),
        })
    }

    fn at_root(&self) -> Spot {
        match self.below.as_slice() {
            b"/" => Spot::Inside(Ino::ROOT.0),
            _ => Spot::Outside(b"/".to_vec()),
        }
    }

    fn above(&self, dir: u64) -> Spot {
        if dir != Ino::ROOT.0 {
            // One that is gone has none.
            return Spot::Inside(self.names.parent(dir).unwrap_or(dir));
        }
        if self.below == b"/" {
            return Spot::Inside(dir);
        }
        let mut path = self.below.clone();
        step(&mut path, b"..");
        Spot::Outside(path)
    }

    /// The lookup that found that a path leads nowhere.
    pub(super) fn missing(&mut self, dir: u64, name: &[u8], during: During) {
        // Of a file there is nothing to look up in it but what fails.
        let event = match self.names.get(dir, name) {
            Some(file) => crate::recording::Event {
                error: Some(ENOTDIR),
                ..by_name(Kind::Lookup, file, b".pandofs-not-there")
            },
            None => crate::recording::Event {
                error: Some(ENOENT),
                ..by_name(Kind::Lookup, dir, name)
            },
        };
        self.emit(event, during);
    }
}

/// What of a path is below another one.
fn inside<'p>(below: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    if below == b"/" {
        return Some(path);
    }
    let rest = path.strip_prefix(below)?;
    (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
}

fn push(rest: &mut Vec<Vec<u8>>, path: &[u8]) {
    let names = path
        .split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty());
    rest.extend(names.rev().map(<[u8]>::to_vec));
}
