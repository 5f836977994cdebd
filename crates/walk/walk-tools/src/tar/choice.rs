//! Choice of the members of an archive, and their names.

use crate::find::glob::Glob;
use crate::tar::header::{Kind, Member};
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Patterns of what is left out. As in GNU tar they match a path from any of its names on, and `*`
/// matches slashes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Excluded(Vec<Glob>);

impl Excluded {
    pub(crate) fn new<'p>(patterns: impl IntoIterator<Item = &'p [u8]>) -> Excluded {
        let patterns = patterns.into_iter();
        let patterns = patterns.map(|it| it.strip_suffix(b"/").unwrap_or(it));
        Excluded(patterns.map(|it| Glob::new(it, false)).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a path is left out by itself.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        let starts = path.iter().enumerate();
        let starts = starts.filter(|(_, byte)| **byte == b'/');
        let starts = starts.map(|(at, _)| at + 1);
        std::iter::once(0)
            .chain(starts)
            .any(|start| self.0.iter().any(|glob| glob.matches(&path[start..])))
    }

    /// Returns whether it, or something that it is in, is.
    fn has_or_is_below(&self, path: &[u8]) -> bool {
        !self.is_empty() && ends(path).any(|end| self.has(&path[..end]))
    }
}

/// Returns the end of each name of a path.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let is_end = |at: usize| path[at] != b'/' && path.get(at + 1).is_none_or(|it| *it == b'/');
    (0..path.len())
        .filter(move |at| is_end(*at))
        .map(|at| at + 1)
}

/// Choice of the members of an archive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// Paths, without what means nothing in them, as they were given, and whether there was one.
    names: HashMap<Vec<u8>, (OsString, bool)>,
    patterns: Vec<(Glob, OsString, bool)>,
    is_all: bool,
    /// The contents of a named directory are wanted as well.
    recursive: bool,
    excluded: Excluded,
    strip: usize,
}

impl Choice {
    /// All, if there are no names. With `wildcards` they are patterns. So many names at the
    /// beginning of each path are taken away.
    pub(crate) fn new(
        names: &[OsString],
        wildcards: bool,
        recursive: bool,
        excluded: Excluded,
        strip: usize,
    ) -> Choice {
        let mut choice = Choice {
            is_all: names.is_empty(),
            recursive,
            excluded,
            strip,
            ..Choice::default()
        };
        for name in names {
            let normal = normal(name.as_bytes());
            if wildcards {
                let glob = Glob::new(&normal, false);
                choice.patterns.push((glob, name.clone(), false));
            } else {
                choice.names.insert(normal, (name.clone(), false));
            }
        }
        choice
    }

    /// Returns whether a member is wanted; it has its new name then.
    pub(crate) fn takes(&mut self, member: &mut Member) -> bool {
        if !self.is_wanted(&member.path) || self.excluded.has_or_is_below(&member.path) {
            return false;
        }
        if self.strip > 0 {
            let Some(path) = stripped(&member.path, self.strip) else {
                return false;
            };
            member.path = path.to_vec();
            if member.kind == Kind::HardLink {
                let target = stripped(&member.target, self.strip);
                member.target = target.unwrap_or_default().to_vec();
            }
        }
        true
    }

    fn is_wanted(&mut self, path: &[u8]) -> bool {
        if self.is_all {
            return true;
        }
        let path = normal(path);
        let mut wanted = false;
        let above = std::iter::once(0).chain(ends(&path));
        for end in above.filter(|end| self.recursive || *end == path.len()) {
            let above = &path[..end];
            if let Some((_, found)) = self.names.get_mut(above) {
                (wanted, *found) = (true, true);
            }
            for (glob, _, found) in &mut self.patterns {
                if glob.matches(above) {
                    (wanted, *found) = (true, true);
                }
            }
        }
        wanted
    }

    /// Returns what was asked for and is not in the archive.
    pub(crate) fn missing(&self) -> Vec<&OsString> {
        let names = self.names.values();
        let patterns = self.patterns.iter().map(|(_, name, found)| (name, found));
        let all = names.map(|(name, found)| (name, found)).chain(patterns);
        let mut missing: Vec<_> = all.filter(|(_, found)| !**found).collect();
        missing.sort_unstable();
        missing.into_iter().map(|(name, _)| name).collect()
    }
}

/// A path without what leads nowhere: `./a//b/` is `a/b`.
fn normal(path: &[u8]) -> Vec<u8> {
    let names = path.split(|byte| *byte == b'/');
    let names: Vec<&[u8]> = names.filter(|it| !matches!(*it, b"" | b".")).collect();
    names.join(&b'/')
}

/// A path without so many names at its beginning, if anything is left of it.
fn stripped(path: &[u8], names: usize) -> Option<&[u8]> {
    let mut rest = path;
    for _ in 0..names {
        let start = rest.iter().position(|byte| *byte != b'/')?;
        let slash = rest[start..].iter().position(|byte| *byte == b'/')?;
        rest = &rest[start + slash..];
    }
    let start = rest.iter().position(|byte| *byte != b'/')?;
    Some(&rest[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(path: &str) -> Member {
        Member {
            path: path.into(),
            ..Member::default()
        }
    }

    fn taken(choice: &mut Choice, paths: &[&str]) -> Vec<String> {
        let members = paths.iter().map(|path| member(path));
        let taken = members.filter_map(|mut it| choice.takes(&mut it).then_some(it.path));
        taken.map(|path| String::from_utf8(path).unwrap()).collect()
    }

    const PATHS: [&str; 6] = ["./", "./a/", "./a/b/", "./a/b/c", "./ab", "./d"];

    #[test]
    fn directories_are_named_with_all_that_is_in_them() {
        let named = |names: &[&str], recursive| {
            let names: Vec<OsString> = names.iter().map(OsString::from).collect();
            let mut choice = Choice::new(&names, false, recursive, Excluded::default(), 0);
            let taken = taken(&mut choice, &PATHS);
            let missing: Vec<String> = choice
                .missing()
                .into_iter()
                .map(|name| name.clone().into_string().unwrap())
                .collect();
            (taken, missing)
        };
        let strings = |texts: &[&str]| texts.iter().map(|it| it.to_string()).collect::<Vec<_>>();
        assert_eq!(named(&[], true).0, PATHS);
        assert_eq!(named(&["."], true).0, PATHS);
        assert_eq!(named(&["a/"], true).0, ["./a/", "./a/b/", "./a/b/c"]);
        assert_eq!(named(&["./a"], false).0, ["./a/"]);
        let (taken, missing) = named(&["a/b/c", "b", "d", "*"], true);
        assert_eq!(taken, ["./a/b/c", "./d"]);
        assert_eq!(missing, strings(&["*", "b"]));
    }

    #[test]
    fn patterns_match_slashes() {
        let mut choice = Choice::new(&["a*c".into()], true, true, Excluded::default(), 0);
        assert_eq!(taken(&mut choice, &PATHS), ["./a/b/c"]);
        assert!(choice.missing().is_empty());
    }

    #[test]
    fn what_is_left_out_is_so_from_any_name_on() {
        for (pattern, left) in [
            ("a", &["./", "./ab", "./d"][..]),
            ("b", &["./", "./a/", "./ab", "./d"]),
            ("a/b/", &["./", "./a/", "./ab", "./d"]),
            ("b/*", &["./", "./a/", "./a/b/", "./ab", "./d"]),
            ("*", &[]),
        ] {
            let excluded = Excluded::new([pattern.as_bytes()]);
            let mut choice = Choice::new(&[], false, true, excluded, 0);
            assert_eq!(taken(&mut choice, &PATHS), left, "{pattern}");
        }
    }

    #[test]
    fn names_are_taken_away_from_the_beginning() {
        for (path, names, left) in [
            ("a/b/c", 1, Some("b/c")),
            ("a/b/c", 2, Some("c")),
            ("a/b/c", 3, None),
            ("a/", 1, None),
            ("./a/b", 1, Some("a/b")),
            ("/a//b/", 1, Some("b/")),
        ] {
            let left = left.map(str::as_bytes);
            assert_eq!(stripped(path.as_bytes(), names), left, "{path} {names}");
        }
        let mut link = Member {
            kind: Kind::HardLink,
            target: b"a/first".to_vec(),
            ..member("a/second")
        };
        assert!(Choice::new(&[], false, true, Excluded::default(), 1).takes(&mut link));
        assert_eq!(
            (&link.path[..], &link.target[..]),
            (&b"second"[..], &b"first"[..])
        );
    }
}
