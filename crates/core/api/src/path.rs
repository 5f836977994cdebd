//! Paths of directories, and what it takes to search all that is above one.

use pandofs_types::limits::{MAX_PATH_ANCESTORS, MAX_PATH_BYTES, MAX_PATH_CONDITIONS};
use pandofs_types::{Acl, Acls, Credentials, FileKind, Ino, Name};
use serde::{Deserialize, Serialize};

/// The right to search a directory, as [`Credentials::may`] has it.
const SEARCH: u16 = 1;

/// Path of a directory from the root, through directories alone: nothing for the root, else `/` and a name for each
/// level. At most [`MAX_PATH_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathName(#[serde(with = "serde_bytes")] Vec<u8>);

impl PathName {
    /// The path of the root.
    pub const ROOT: PathName = PathName(Vec::new());

    /// The path of the directory with this name in the one of this path; `None` if it is too long.
    pub fn join(&self, name: &Name) -> Option<PathName> {
        let bytes = [&self.0, &b"/"[..], name.as_bytes()].concat();
        (bytes.len() <= MAX_PATH_BYTES).then_some(PathName(bytes))
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Levels below the root.
    pub fn depth(&self) -> usize {
        self.0.iter().filter(|&&byte| byte == b'/').count()
    }

    /// Whether it is a path as described (they come from the network).
    pub fn is_valid(&self) -> bool {
        let mut names = self.0.split(|&byte| byte == b'/');
        self.0.len() <= MAX_PATH_BYTES
            && names.next() == Some(&[])
            && names.all(|name| Name::new(name).is_ok())
    }
}

/// Attributes of a directory by which a caller may search it. Those that differ in nothing that matters are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchCondition {
    mode: u16,
    uid: u32,
    gid: u32,
    access: Option<Box<Acl>>,
}

impl SearchCondition {
    /// The one that these attributes of a directory make.
    pub fn of(mode: u16, uid: u32, gid: u32, acls: &Acls) -> SearchCondition {
        // An access control list counts only where the group's bits, which are its mask, give anything.
        let mask = if acls.access.is_some() { 0o777 } else { 0o111 };
        SearchCondition {
            mode: mode & mask,
            uid,
            gid,
            access: acls.access.clone(),
        }
    }

    /// Whether it lets the caller search the directory.
    pub fn allows(&self, caller: &Credentials) -> bool {
        let owned = (self.mode, self.uid, self.gid);
        caller.may_by_acl(SEARCH, FileKind::Dir, owned, self.access.as_deref())
    }

    fn is_valid(&self) -> bool {
        self.mode <= 0o777 && self.access.as_deref().is_none_or(Acl::is_valid)
    }
}

/// Directories above one, from the root down, and on which conditions a caller may search them all: each condition once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Above {
    /// At most [`MAX_PATH_ANCESTORS`].
    pub ancestors: Vec<Ino>,
    /// At most [`MAX_PATH_CONDITIONS`].
    pub conditions: Vec<SearchCondition>,
}

impl Above {
    /// Directories above one that is in `parent`, which has these above itself; `None` if they are too many.
    pub fn below(&self, parent: Ino, condition: SearchCondition) -> Option<Above> {
        let mut above = self.clone();
        above.ancestors.push(parent);
        if !above.conditions.contains(&condition) {
            above.conditions.push(condition);
        }
        above.is_within_limits().then_some(above)
    }

    /// Whether the caller may search every directory of them.
    pub fn allows(&self, caller: &Credentials) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.all(|condition| condition.allows(caller))
    }

    fn is_within_limits(&self) -> bool {
        self.ancestors.len() <= MAX_PATH_ANCESTORS && self.conditions.len() <= MAX_PATH_CONDITIONS
    }

    /// Whether it is as described (they come from the network), of a directory that has this path.
    pub fn fits(&self, path: &PathName) -> bool {
        path.is_valid()
            && self.is_within_limits()
            && self.ancestors.len() == path.depth()
            && self.ancestors.first().is_none_or(|root| *root == Ino::ROOT)
            && self.conditions.len() <= self.ancestors.len()
            && self.conditions.is_empty() == self.ancestors.is_empty()
            && self.conditions.iter().all(SearchCondition::is_valid)
    }
}

/// Directories above a new one, as the shard of its name saw them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboveSeen {
    /// The directories, and the conditions.
    pub above: Above,
    /// The sum of the lines of that shard's path log which may concern each of the directories.
    pub lines: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn paths_have_one_form() {
        let path = PathName::ROOT.join(&name("a")).unwrap();
        let path = path.join(&name("bc")).unwrap();
        assert_eq!(path.as_bytes(), b"/a/bc");
        assert_eq!((path.depth(), PathName::ROOT.depth()), (2, 0));
        assert!(path.is_valid() && PathName::ROOT.is_valid());
        for wrong in [&b"a"[..], b"/", b"/a/", b"//a", b"/a/..", b"/a\0"] {
            assert!(!PathName(wrong.to_vec()).is_valid(), "{wrong:?}");
        }
        let mut long = PathName::ROOT;
        let step = name(&"x".repeat(254));
        while let Some(next) = long.join(&step) {
            long = next;
        }
        assert_eq!(long.depth(), MAX_PATH_BYTES / 255);
    }

    #[test]
    fn conditions_that_say_the_same_are_kept_once() {
        let none = Acls::default();
        let of = |mode, uid| SearchCondition::of(mode, uid, 0, &none);
        assert_eq!(of(0o755, 7), of(0o1711, 7));
        assert_ne!(of(0o755, 7), of(0o754, 7));
        let mut above = Above::default();
        for ino in 1..=MAX_PATH_CONDITIONS as u64 {
            above = above.below(Ino(ino), of(0o711, 7)).unwrap();
        }
        assert_eq!(above.conditions.len(), 1);
        for uid in 8..7 + MAX_PATH_CONDITIONS as u32 {
            above = above.below(Ino(9), of(0o711, uid)).unwrap();
        }
        assert_eq!(above.below(Ino(9), of(0o711, 1)), None);
        assert!(above.below(Ino(9), of(0o711, 7)).is_some());
    }

    #[test]
    fn every_condition_has_to_be_met() {
        let none = Acls::default();
        let above = Above::default()
            .below(Ino(1), SearchCondition::of(0o755, 0, 0, &none))
            .and_then(|above| above.below(Ino(2), SearchCondition::of(0o700, 7, 7, &none)))
            .unwrap();
        assert!(above.allows(&Credentials::user(7, 7, Vec::new())));
        assert!(!above.allows(&Credentials::user(8, 7, Vec::new())));
        assert!(above.allows(&Credentials::ROOT));
    }
}
