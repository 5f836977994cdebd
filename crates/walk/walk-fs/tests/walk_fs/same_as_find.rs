//! Comparison of a walk with GNU find, with every algorithm.

use crate::common::{Lister, find, lines, make_chain, make_tree, remove, settings};
use pandofs_walk_fs::{Follow, Options, walk};
use std::ffi::OsString;
use std::path::Path;

fn walked(root: &Path, options: &Options) -> Vec<Vec<u8>> {
    let roots = [OsString::from(root)];
    let walked = walk(&roots, options, |_| Lister::default()).unwrap();
    assert_eq!(options.meter.problems(), 0);
    let lines = lines(walked.visitors);
    assert_eq!(options.meter.entries(), lines.len() as u64);
    lines
}

#[test]
fn on_generated_trees() {
    for seed in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        make_tree(dir.path(), 300, seed);
        let expected = find(&[dir.path().as_os_str()]);
        assert!(expected.len() > 1_000);
        for options in settings() {
            let found = walked(dir.path(), &options);
            assert!(
                found == expected,
                "{} x {}",
                options.algorithm,
                options.ranks
            );
            let directories = expected.iter().filter(|line| line.contains(&b'd'));
            assert!(options.meter.directories() <= directories.count() as u64);
        }
    }
}

#[test]
fn on_a_real_tree() {
    let root = Path::new("/usr/share");
    let expected = find(&[root.as_os_str()]);
    for options in settings().into_iter().filter(|options| options.ranks != 2) {
        assert!(walked(root, &options) == expected, "{}", options.algorithm);
    }
}

/// Deeper than PATH_MAX, with far fewer descriptors than directories on the way.
#[test]
fn on_a_chain_that_no_path_reaches() {
    let dir = tempfile::tempdir().unwrap();
    let name = "a name that is not short ".repeat(8);
    make_chain(dir.path(), 400, &name);
    let expected = find(&[dir.path().as_os_str()]);
    assert_eq!(expected.len(), 1 + 3 * 400);
    for open_directories in [1, 3, 1_000] {
        for mut options in settings() {
            options.open_directories = open_directories;
            assert!(
                walked(dir.path(), &options) == expected,
                "{}",
                options.algorithm
            );
        }
    }
    remove(dir.path());
}

#[test]
fn when_nearly_everything_is_spilled() {
    let dir = tempfile::tempdir().unwrap();
    make_tree(dir.path(), 300, 9);
    let expected = find(&[dir.path().as_os_str()]);
    for mut options in settings() {
        options.spill_above = 3;
        options.spill_chunk = 2;
        assert!(
            walked(dir.path(), &options) == expected,
            "{}",
            options.algorithm
        );
    }
}

#[test]
fn with_one_large_directory() {
    let dir = tempfile::tempdir().unwrap();
    for file in 0..5_000 {
        std::fs::write(dir.path().join(format!("f{file}")), "").unwrap();
        if file % 50 == 0 {
            std::fs::create_dir(dir.path().join(format!("d{file}"))).unwrap();
        }
    }
    let expected = find(&[dir.path().as_os_str()]);
    for options in settings() {
        assert!(
            walked(dir.path(), &options) == expected,
            "{}",
            options.algorithm
        );
    }
}

#[test]
fn with_links_followed() {
    let dir = tempfile::tempdir().unwrap();
    make_tree(&dir.path().join("."), 20, 4);
    let outside = tempfile::tempdir().unwrap();
    make_tree(outside.path(), 20, 5);
    // No loops here: find says less of them than is wanted.
    let tree = dir.path().join("clean");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("file"), "12345").unwrap();
    std::os::unix::fs::symlink("file", tree.join("to-file")).unwrap();
    std::os::unix::fs::symlink("nowhere", tree.join("to-nothing")).unwrap();
    std::fs::create_dir(tree.join("sub")).unwrap();
    std::fs::write(tree.join("sub/inner"), "1").unwrap();
    std::os::unix::fs::symlink("sub", tree.join("to-sub")).unwrap();
    let expected = find(&["-L".as_ref(), tree.as_os_str()]);
    assert_eq!(expected.len(), 8);
    for mut options in settings() {
        options.follow = Follow::Always;
        assert_eq!(walked(&tree, &options), expected);
    }
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("clean", &link).unwrap();
    let mut options = Options {
        follow: Follow::Roots,
        ..Options::default()
    };
    assert_eq!(
        walked(&link, &options),
        find(&["-H".as_ref(), link.as_os_str()])
    );
    options = Options::default();
    assert_eq!(walked(&link, &options).len(), 1);
}
