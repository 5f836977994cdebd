//! Paths and the prefix: which of them lead into the file system, as far as their text says.

/// The path below which the file system is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// From the root on, without a `/` at its end.
    path: Vec<u8>,
}

/// The way on from a path's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side<'p> {
    /// Into the file system, with this below its root.
    Inside(&'p [u8]),
    /// Elsewhere.
    Outside,
    /// A `..` comes before that can be told.
    Unclear,
}

impl Prefix {
    /// A prefix from a path that is absolute, has no `..` and is not the root.
    pub(crate) fn new(path: &[u8]) -> Option<Prefix> {
        let parts: Vec<&[u8]> = parts(path).collect();
        let is_plain = !parts.contains(&&b".."[..]);
        (path.starts_with(b"/") && !parts.is_empty() && is_plain).then(|| Prefix {
            path: parts
                .iter()
                .flat_map(|part| [b"/", *part].concat())
                .collect(),
        })
    }

    /// The prefix's own path.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The path that a program knows of what is at `inner` below the file system's root.
    pub(crate) fn outer(&self, inner: &[u8]) -> Vec<u8> {
        [&self.path[..], inner].concat()
    }

    /// The directory that the prefix is in.
    pub(crate) fn parent(&self) -> &[u8] {
        match self.path.iter().rposition(|&byte| byte == b'/') {
            Some(0) | None => b"/",
            Some(end) => &self.path[..end],
        }
    }

    /// Tells where an absolute path leads. It allocates nothing.
    pub(crate) fn side<'p>(&self, path: &'p [u8]) -> Side<'p> {
        let mut rest = path;
        for wanted in parts(&self.path) {
            let (part, behind) = next(rest);
            match part {
                Some(part) if part == wanted => rest = behind,
                Some(_) if has_dots(rest) => return Side::Unclear,
                _ => return Side::Outside,
            }
        }
        Side::Inside(rest)
    }

    /// Returns whether a relative path could lead inside: it goes up, or begins as a part of the prefix.
    pub(crate) fn may_lead_inside(&self, path: &[u8]) -> bool {
        has_dots(path)
            || next(path)
                .0
                .is_some_and(|first| parts(&self.path).any(|part| part == first))
    }
}

/// The parts of a path that go anywhere.
pub(crate) fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
}

/// The first part that goes anywhere, and what is behind it.
fn next(path: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let mut rest = path;
    loop {
        let Some(start) = rest.iter().position(|&byte| byte != b'/') else {
            return (None, b"");
        };
        rest = &rest[start..];
        let end = rest
            .iter()
            .position(|&byte| byte == b'/')
            .unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        rest = behind;
        if part != b"." {
            return (Some(part), rest);
        }
    }
}

fn has_dots(path: &[u8]) -> bool {
    parts(path).any(|part| part == b"..")
}

/// A path up to and with its first `..`, and the rest.
pub(crate) fn split_behind_dots(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    for part in path.split_inclusive(|&byte| byte == b'/') {
        let end = at + part.len();
        if part == b".." || part == b"../" {
            return Some((&path[..end], &path[end..]));
        }
        at = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix() -> Prefix {
        Prefix::new(b"//mnt/./pando/").unwrap()
    }

    #[test]
    fn a_prefix_is_absolute_and_plain() {
        assert_eq!(prefix().path(), b"/mnt/pando");
        assert_eq!(prefix().parent(), b"/mnt");
        assert_eq!(prefix().outer(b"/a"), b"/mnt/pando/a");
        assert_eq!(Prefix::new(b"/pfs").unwrap().parent(), b"/");
        for bad in ["", "/", "pfs", "//", "/a/../b", "/."] {
            assert_eq!(Prefix::new(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn paths_below_it_are_inside() {
        let prefix = prefix();
        for (path, rest) in [
            ("/mnt/pando", ""),
            ("/mnt/pando/", "/"),
            ("//mnt//.//pando/a/../..", "/a/../.."),
            ("/mnt/pando/a/b/", "/a/b/"),
        ] {
            assert_eq!(
                prefix.side(path.as_bytes()),
                Side::Inside(rest.as_bytes()),
                "{path}"
            );
        }
    }

    #[test]
    fn other_paths_are_outside_or_need_the_kernel() {
        let prefix = prefix();
        for path in [
            "/",
            "/mnt",
            "/mnt/pandora",
            "/mnt/pand",
            "/pando",
            "",
            "/mnt/pando2/x",
        ] {
            assert_eq!(prefix.side(path.as_bytes()), Side::Outside, "{path}");
        }
        for path in ["/tmp/../mnt/pando/a", "/mnt/../x", "/mnt/x/.."] {
            assert_eq!(prefix.side(path.as_bytes()), Side::Unclear, "{path}");
        }
    }

    #[test]
    fn relative_paths_that_could_lead_inside() {
        let prefix = prefix();
        for path in ["../mnt/pando", "pando/a", "./mnt", "a/../../mnt"] {
            assert!(prefix.may_lead_inside(path.as_bytes()), "{path}");
        }
        for path in ["", ".", "a/b", "pandora", "..."] {
            assert!(!prefix.may_lead_inside(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn paths_are_split_behind_their_first_dots() {
        let split = |path: &'static str| split_behind_dots(path.as_bytes());
        assert_eq!(split("a/../b/.."), Some((&b"a/../"[..], &b"b/.."[..])));
        assert_eq!(split(".."), Some((&b".."[..], &b""[..])));
        assert_eq!(split("a/..b/..."), None);
    }
}
