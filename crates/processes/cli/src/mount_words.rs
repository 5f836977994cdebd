//! Mount options that are ignored, and those that are refused.
//!
//! Ignored are options of other file systems and of mount(8) that hold anyway or are not for the
//! file system; refused are those whose promise would not be kept.

use anyhow::Result;
use clap::ValueEnum;

/// Treatment of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It is as it says, or not for the file system.
    Nothing,
    /// It cannot be had, and why.
    Refused(&'static str),
    /// Not one of these.
    Other,
}

/// Those that mount(8) sees to, those that the kernel lists of a mount and mount(8) repeats when it is to be changed, and
/// those that say what is always so.
const NOTHING: [&str; 35] = [
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "_netdev",
    "comment",
    "silent",
    "loud",
    "default_permissions",
    "user_id",
    "group_id",
    "rootmode",
    "max_read",
    "blksize",
    "nomand",
    "noiversion",
    // Lists and users' attributes there are always.
    "acl",
    "user_xattr",
    // Times of access are always reported lazily.
    "lazytime",
    "nolazytime",
    // A FUSE mount of other programs: what this one does.
    "auto_cache",
    "async_read",
    "clone_fd",
    "big_writes",
    "large_read",
    "nonempty",
    "noquota",
];

const REFUSED: [(&str, &str); 32] = [
    ("mand", "Linux has had no mandatory locks since 5.15"),
    ("iversion", "changes of inodes are not counted"),
    ("noacl", "access control lists always count"),
    ("nouser_xattr", "users' attributes are always there"),
    (
        "allow_root",
        "root uses every mount; allow_other lets others in",
    ),
    (
        "auto_unmount",
        "what a killed mount leaves is taken away by 'pandofs umount' and by the next mount",
    ),
    (
        "fsname",
        "the source is the cluster map, by which commands find the cluster",
    ),
    ("subtype", "the type is always fuse.pandofs"),
    (
        "kernel_cache",
        "it would show what others have changed since",
    ),
    ("direct_io", "programs open files with O_DIRECT"),
    ("sync_read", "reads go on side by side"),
    ("max_write", "the size of requests is fixed"),
    ("max_background", "the number of requests is fixed"),
    ("uid", OWNERS),
    ("gid", OWNERS),
    ("umask", OWNERS),
    ("fmask", OWNERS),
    ("dmask", OWNERS),
    ("setuid", "the process is the user's who mounts"),
    ("drop_privileges", "the process is the user's who mounts"),
    ("blkdev", "the servers have the disks"),
    ("debug", "RUST_LOG=debug in the environment logs more"),
    ("quota", QUOTAS),
    ("usrquota", QUOTAS),
    ("grpquota", QUOTAS),
    ("prjquota", QUOTAS),
    ("actimeo", NFS_TIMEOUTS),
    ("acregmin", NFS_TIMEOUTS),
    ("acregmax", NFS_TIMEOUTS),
    ("acdirmin", NFS_TIMEOUTS),
    ("acdirmax", NFS_TIMEOUTS),
    ("noac", "cache=none believes nothing for any time"),
];
const NFS_TIMEOUTS: &str = "what is cached is right without time-outs; attr_timeout=TIME and entry_timeout=TIME, as in \
    attr_timeout=3s, have it believed for a time instead";
const OWNERS: &str = "owners and modes are those that the servers keep";
const QUOTAS: &str = "there are no quotas";

pub(crate) fn word(name: &str, value: Option<&str>) -> Word {
    let is_type = name == "subtype" && value == Some("pandofs");
    if NOTHING.contains(&name) || is_type || name.starts_with("x-") || name.starts_with("X-") {
        return Word::Nothing;
    }
    let refused = REFUSED.iter().find(|(refused, _)| *refused == name);
    refused.map_or(Word::Other, |(_, why)| Word::Refused(why))
}

/// Whether it is a label of SELinux, which the kernel takes as it is.
pub(crate) fn is_label(name: &str) -> bool {
    matches!(name, "context" | "fscontext" | "defcontext" | "rootcontext")
}

/// Value that a word of `-o` stands for.
///
/// # Errors
/// The words that there are.
pub(crate) fn one_of<T: ValueEnum>(word: &str) -> Result<T> {
    T::from_str(word, false).map_err(|_| {
        let known: Vec<String> = T::value_variants()
            .iter()
            .filter_map(T::to_possible_value)
            .map(|value| value.get_name().to_owned())
            .collect();
        anyhow::anyhow!("it is one of {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_or_refused_with_a_reason() {
        for name in [
            "acl",
            "user_xattr",
            "loud",
            "x-systemd.automount",
            "noiversion",
        ] {
            assert_eq!(word(name, None), Word::Nothing, "{name}");
        }
        assert_eq!(word("subtype", Some("pandofs")), Word::Nothing);
        for (name, why) in REFUSED {
            assert_eq!(word(name, Some("x")), Word::Refused(why), "{name}");
        }
        for name in ["sync", "hard", "nosuch", "context"] {
            assert_eq!(word(name, None), Word::Other, "{name}");
        }
    }
}
