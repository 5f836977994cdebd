//! Path names, for those who want one.

use crate::dir::Dir;
use std::sync::Arc;

/// The path of the directory that a thread was asked for last.
#[derive(Debug)]
pub(crate) struct Paths<D> {
    of: Option<Arc<Dir<D>>>,
    path: Vec<u8>,
    /// Bytes of `path` that are the directory's.
    base: usize,
}

impl<D> Paths<D> {
    pub(crate) fn new() -> Paths<D> {
        Paths {
            of: None,
            path: Vec::new(),
            base: 0,
        }
    }

    /// The path of an entry: its root's name as it was given, and the names down to it.
    pub(crate) fn entry(&mut self, dir: &Arc<Dir<D>>, name: &[u8]) -> &[u8] {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, dir)) {
            self.path.clear();
            append(dir, &mut self.path);
            self.base = self.path.len();
            self.of = Some(Arc::clone(dir));
        }
        self.path.truncate(self.base);
        push(&mut self.path, name);
        &self.path
    }

    /// The path of a directory. Empty for what the roots are in.
    pub(crate) fn directory(&mut self, dir: &Arc<Dir<D>>) -> &[u8] {
        match dir.above() {
            Some(above) => {
                let above = Arc::clone(above);
                self.entry(&above, dir.name().to_bytes())
            }
            None => &[],
        }
    }

    /// Lets go of the directory, which lives as long as it is known here.
    pub(crate) fn forget(&mut self) {
        self.of = None;
    }
}

fn append<D>(dir: &Arc<Dir<D>>, path: &mut Vec<u8>) {
    let mut chain = Vec::new();
    let mut next = Some(dir);
    while let Some(dir) = next {
        chain.push(dir);
        next = dir.above();
    }
    for dir in chain.into_iter().rev() {
        push(path, dir.name().to_bytes());
    }
}

fn push(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() && path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_with_the_root_as_it_was_given() {
        let top = Dir::<()>::top();
        let mut paths = Paths::new();
        for (root, expected) in [
            (c"a", "a/b/c"),
            (c"a/", "a/b/c"),
            (c"/", "/b/c"),
            (c".", "./b/c"),
        ] {
            assert_eq!(paths.entry(&top, root.to_bytes()), root.to_bytes());
            let root = Arc::new(Dir::child(&top, root, [0, 0]));
            let b = Arc::new(Dir::child(&root, c"b", [0, 0]));
            assert_eq!(paths.entry(&b, b"c"), expected.as_bytes());
            assert_eq!(
                paths.entry(&b, b"\n\xff"),
                [&expected.as_bytes()[..expected.len() - 1], b"\n\xff"].concat()
            );
            assert_eq!(
                paths.directory(&b),
                &expected.as_bytes()[..expected.len() - 2]
            );
        }
    }
}
