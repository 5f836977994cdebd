//! chmod beside that of GNU: links that are named.

use crate::common::{ours, run_in, stderr};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn made(dir: &Path) {
    std::fs::create_dir_all(dir.join("tree/below")).unwrap();
    std::fs::create_dir(dir.join("other")).unwrap();
    for name in ["tree/file", "tree/below/file", "other/file", "alone"] {
        std::fs::write(dir.join(name), "").unwrap();
    }
    symlink("tree", dir.join("to-tree")).unwrap();
    symlink("alone", dir.join("to-file")).unwrap();
    symlink("nothing", dir.join("dangling")).unwrap();
    // This one is met, not named.
    symlink("../other/file", dir.join("tree/link")).unwrap();
}

fn mode(dir: &Path, name: &str) -> u32 {
    let meta = std::fs::metadata(dir.join(name)).unwrap();
    meta.permissions().mode() & 0o7777
}

fn modes(dir: &Path) -> Vec<u32> {
    let names = [
        "tree",
        "tree/file",
        "tree/below",
        "tree/below/file",
        "other/file",
        "alone",
    ];
    names.iter().map(|name| mode(dir, name)).collect()
}

#[test]
fn links_that_are_named_are_followed() {
    // A mode that directories get before what is in them, and one that they get after it.
    for change in ["u+rwx,go-rwx", "u-w,go-rwx"] {
        let [ours_in, theirs_in] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let (dir, gnu) = (ours_in.path(), theirs_in.path());
        made(dir);
        made(gnu);
        let before = modes(dir);
        let dry = ours(dir, &["chmod", "--dry-run", change, "to-tree", "to-file"]);
        assert_eq!((stderr(&dry), dry.status.code()), (String::new(), Some(0)));
        assert_eq!(String::from_utf8(dry.stdout).unwrap().lines().count(), 5);
        assert_eq!(modes(dir), before);
        let left = ours(
            dir,
            &["chmod", "-h", change, "to-tree", "to-file", "dangling"],
        );
        assert_eq!(
            (stderr(&left), left.status.code()),
            (String::new(), Some(0))
        );
        assert_eq!(modes(dir), before);

        let mine = ours(dir, &["chmod", change, "to-tree", "to-file"]);
        assert_eq!(
            (stderr(&mine), mine.status.code()),
            (String::new(), Some(0))
        );
        let theirs = run_in(gnu, "chmod", &["-R", change, "to-tree", "to-file"]);
        assert!(theirs.status.success(), "{}", stderr(&theirs));
        assert_eq!(modes(dir), modes(gnu));
        assert_ne!(modes(dir), before);
    }
}

#[test]
fn a_link_to_nothing_or_to_all_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    made(dir);
    let dangling = ours(dir, &["chmod", "700", "dangling"]);
    assert_eq!(dangling.status.code(), Some(1));
    assert_eq!(
        stderr(&dangling),
        "pandofs chmod: dangling: the link leads to nothing\n"
    );
    symlink("/", dir.join("all")).unwrap();
    let all = ours(dir, &["chmod", "--dry-run", "u+r", "all"]);
    assert_eq!(all.status.code(), Some(1));
    assert!(stderr(&all).contains("refusing to change all of '/'"));
}
