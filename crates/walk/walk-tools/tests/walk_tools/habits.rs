//! Options of cp and rsync that cp and sync have as well.

use crate::common::{ours, run_in, sorted, stderr};
use std::fs::{File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

fn done(dir: &Path, words: &[&str]) -> Vec<Vec<u8>> {
    let output = ours(dir, words);
    assert_eq!(
        (stderr(&output), output.status.code()),
        (String::new(), Some(0)),
        "{words:?}"
    );
    sorted(&output, b'\n')
}

/// Writes a file that was modified so long ago.
fn write(dir: &Path, name: &str, text: &str, hours: u64) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    let time = SystemTime::now() - Duration::from_secs(hours * 3_600);
    let file = File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
}

fn read(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap()
}

/// Makes two trees: some files are newer, older or missing in the copy.
fn two_trees(dir: &Path) {
    for name in ["from", "gnu", "our"] {
        let _ = std::fs::remove_dir_all(dir.join(name));
    }
    for (name, hours) in [("newer", 1), ("older", 50), ("missing", 1)] {
        write(dir, &format!("from/{name}"), "from", hours);
    }
    for copy in ["gnu", "our"] {
        for (name, hours) in [("newer", 20), ("older", 20)] {
            write(dir, &format!("{copy}/from/{name}"), "kept", hours);
        }
    }
}

#[test]
fn what_is_there_can_be_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for option in ["-u", "-n", "--update", "--no-clobber"] {
        two_trees(dir);
        let theirs = run_in(dir, "cp", &["-a", option, "from", "gnu"]);
        assert!(theirs.status.success(), "{}", stderr(&theirs));
        done(dir, &["cp", option, "from", "our"]);
        for name in ["newer", "older", "missing"] {
            let of = |copy: &str| read(dir, &format!("{copy}/from/{name}"));
            assert_eq!(of("our"), of("gnu"), "{option} {name}");
        }
    }
    // Not by size and time.
    two_trees(dir);
    done(dir, &["cp", "--resume", "from", "our"]);
    assert_eq!(read(dir, "our/from/older"), "from");
}

#[test]
fn the_target_can_come_first() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "a", "a", 0);
    write(dir, "b", "b", 0);
    std::fs::create_dir(dir.join("into")).unwrap();
    done(dir, &["cp", "-t", "into", "a"]);
    done(dir, &["cp", "--target-directory=into", "a", "b"]);
    assert_eq!(
        (read(dir, "into/a"), read(dir, "into/b")),
        ("a".into(), "b".into())
    );
    for (wrong, code) in [
        (&["cp", "-t", "nowhere", "a"][..], 1),
        (&["cp", "-t", "b", "a"], 1),
        (&["cp", "a", "b", "nowhere"], 1),
        // These make no sense whatever there is.
        (&["cp", "a"], 2),
        (&["cp", "--bogus", "a", "b"], 2),
        (&["chmod", "u+q", "a"], 2),
        (&["chmod", "644"], 2),
    ] {
        let output = ours(dir, wrong);
        assert_eq!(output.status.code(), Some(code), "{wrong:?}");
    }
    assert_eq!(read(dir, "b"), "b");
}

#[test]
fn a_file_is_not_copied_to_itself() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("sub")).unwrap();
    std::os::unix::fs::symlink("file", dir.join("link")).unwrap();
    for (names, words) in [
        (1, &["file", "file"][..]),
        (2, &["file", "file"]),
        (2, &["file", "./sub/../file"]),
        (2, &["-t", ".", "file"]),
        (2, &["-L", "link", "file"]),
        (2, &["-H", "link", "file"]),
        (2, &["file", "second"]),
        (1, &["link", "link"]),
    ] {
        let _ = std::fs::remove_file(dir.join("second"));
        write(dir, "file", "some words", 1);
        if names > 1 {
            std::fs::hard_link(dir.join("file"), dir.join("second")).unwrap();
        }
        let output = ours(dir, &[&["cp"], words].concat());
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(stderr(&output).contains("are the same file"), "{words:?}");
        let theirs = run_in(dir, "cp", &[&["-a"], words].concat());
        assert_eq!(theirs.status.code(), Some(1), "{words:?}");
        assert_eq!(read(dir, "file"), "some words", "{words:?}");
        assert!(dir.join("link").is_symlink());
    }
}

#[test]
fn a_slash_behind_a_name_means_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "file", "x", 1);
    write(dir, "tree/sub/file", "x", 1);
    for words in [&["file", "new/"][..], &["-T", "file", "new/"]] {
        let theirs = run_in(dir, "cp", &[&["-a"], words].concat());
        let mine = ours(dir, &[&["cp"], words].concat());
        assert_eq!(mine.status.code(), theirs.status.code(), "{words:?}");
        assert!(!stderr(&mine).is_empty() && !dir.join("new").exists());
    }
    done(dir, &["cp", "-rf", "tree", "new/"]);
    assert_eq!(read(dir, "new/sub/file"), "x");
}

#[test]
fn links_stay_links_unless_followed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "tree/sub/file", "x", 0);
    std::os::unix::fs::symlink("sub", dir.join("tree/link")).unwrap();
    for (options, is_link) in [
        (&["-P"][..], true),
        (&["-d"], true),
        (&["-dP", "-rpa"], true),
        (&["-L"], false),
        (&["-L", "-P"], true),
        (&["-P", "--dereference"], false),
    ] {
        let words = [&["cp", "-T"], options, &["tree", "copy"]].concat();
        done(dir, &words);
        let copy = dir.join("copy/link");
        assert_eq!(copy.is_symlink(), is_link, "{options:?}");
        assert_eq!(std::fs::read(copy.join("file")).unwrap(), b"x");
        std::fs::remove_dir_all(dir.join("copy")).unwrap();
    }
}

/// Returns what is at each path, through links, and whether the path itself is a link.
fn seen(dir: &Path, root: &str) -> Vec<Vec<u8>> {
    let words = [root, "-printf", "%P %y %Y %m\\0"];
    let mut found = sorted(&run_in(dir, "find", &words), 0);
    for name in ["file", "sub/large", "to file", "out/up", "to sub/inner"] {
        let file = std::fs::metadata(dir.join(root).join(name));
        found.push(format!("{name} {:?}", file.map(|it| it.len()).ok()).into());
    }
    found
}

#[test]
fn what_links_lead_to_is_copied_if_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "tree/file", "file", 1);
    write(dir, "tree/sub/inner", "inner", 1);
    // Copied in pieces.
    let large = File::create(dir.join("large")).unwrap();
    large.set_len(150 << 20).unwrap();
    write(dir, "elsewhere/up", "up", 1);
    for (target, link) in [
        ("file", "tree/to file"),
        ("sub", "tree/to sub"),
        ("../../large", "tree/sub/large"),
        ("../elsewhere", "tree/out"),
    ] {
        std::os::unix::fs::symlink(target, dir.join(link)).unwrap();
    }
    std::os::unix::fs::symlink("tree", dir.join("root")).unwrap();
    for options in [&["-L"][..], &["-H"], &["-P"], &["-L", "-H"], &["-H", "-L"]] {
        for from in ["tree", "root", "tree/to file"] {
            let theirs = [&["-a", "-T"], options, &[from, "gnu"]].concat();
            assert!(run_in(dir, "cp", &theirs).status.success());
            done(dir, &[&["cp", "-T"], options, &[from, "our"]].concat());
            assert_eq!(seen(dir, "our"), seen(dir, "gnu"), "{options:?} {from}");
            for copy in ["our", "gnu"] {
                assert!(run_in(dir, "rm", &["-r", copy]).status.success());
            }
        }
    }
    // Nothing to copy: GNU cp says so, and copies the rest.
    std::os::unix::fs::symlink("nowhere", dir.join("tree/dangling")).unwrap();
    let theirs = run_in(dir, "cp", &["-aL", "tree", "gnu"]);
    let mine = ours(dir, &["cp", "-L", "tree", "our"]);
    assert_eq!(mine.status.code(), theirs.status.code());
    assert!(stderr(&mine).contains("tree/dangling: the link leads to nothing"));
    assert_eq!(seen(dir, "our"), seen(dir, "gnu"));
    // A copy that is there already is known by what the link leads to.
    std::fs::remove_file(dir.join("tree/dangling")).unwrap();
    let again = ours(dir, &["cp", "-TL", "--resume", "--json", "tree", "our"]);
    let told: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(
        (told["files"].as_u64(), told["links"].as_u64()),
        (Some(0), Some(0))
    );
}

#[test]
fn holes_are_as_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // Data, a hole, data, zeros; small, and large enough to be copied in pieces.
    for size in [1_u64 << 20, 200 << 20] {
        let file = File::create(dir.join("file")).unwrap();
        file.set_len(size).unwrap();
        use std::os::unix::fs::FileExt;
        file.write_all_at(b"some", 0).unwrap();
        file.write_all_at(&vec![0; 128 << 10], size - (128 << 10))
            .unwrap();
        file.write_all_at(b"more", size / 2).unwrap();
        file.sync_all().unwrap();
        let blocks = |name: &str| {
            let file = File::open(dir.join(name)).unwrap();
            file.sync_all().unwrap();
            file.metadata().unwrap().blocks() * 512
        };
        for how in ["auto", "always", "never"] {
            let _ = std::fs::remove_file(dir.join("copy"));
            let option = format!("--sparse={how}");
            done(dir, &["cp", &option, "file", "copy"]);
            assert!(run_in(dir, "cmp", &["file", "copy"]).status.success());
            match how {
                "never" => assert!(blocks("copy") >= size, "{size}"),
                "always" => assert!(blocks("copy") <= 64 << 10, "{size}"),
                _ => assert!(blocks("copy") <= blocks("file") + (64 << 10), "{size}"),
            }
        }
    }
}

#[test]
fn data_are_shared_or_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "file", "some words", 0);
    for how in ["--reflink=auto", "--reflink=never"] {
        done(dir, &["cp", how, "file", "copy"]);
        assert_eq!(read(dir, "copy"), "some words");
        std::fs::remove_file(dir.join("copy")).unwrap();
    }
    // As GNU cp, whether the file system can or not.
    for how in ["--reflink=always", "--reflink"] {
        let theirs = run_in(dir, "cp", &[how, "file", "gnu"]);
        let mine = ours(dir, &["cp", how, "file", "copy"]);
        assert_eq!(mine.status.success(), theirs.status.success());
        assert_eq!(dir.join("copy").exists(), mine.status.success());
        assert_eq!(stderr(&mine).is_empty(), mine.status.success());
        let _ = std::fs::remove_file(dir.join("copy"));
    }
}

#[test]
fn sync_has_options_of_rsync() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "from/same size", "1234", 1);
    write(dir, "to/same size", "abcd", 2);
    write(dir, "from/other size", "12345", 1);
    write(dir, "to/other size", "abcd", 1);
    let told = done(dir, &["sync", "-aHAXi", "--size-only", "from", "to"]);
    // Its time is another one.
    let same = b"= from/same size".to_vec();
    assert_eq!(told, [same, b"~ from/other size".to_vec()]);
    assert_eq!(read(dir, "to/same size"), "abcd");
    assert_eq!(read(dir, "to/other size"), "12345");

    for name in ["a.o", "b.o", "keep.o", "sub/c.o", "d.c", "e.tmp"] {
        write(dir, &format!("from/{name}"), name, 1);
    }
    write(dir, "to/stays.o", "", 1);
    write(dir, "to/goes.c", "", 1);
    std::fs::write(
        dir.join("patterns"),
        "# what is made\n*.o\n\n; and more\n*.tmp\n",
    )
    .unwrap();
    let words = [
        "sync",
        "-avi",
        "--delete",
        "--exclude-from=patterns",
        "--include",
        "keep.*",
        "from",
        "to",
    ];
    done(dir, &words);
    for (name, is_there) in [
        ("a.o", false),
        ("sub/c.o", false),
        ("keep.o", true),
        ("d.c", true),
        ("e.tmp", false),
        ("stays.o", true),
        ("goes.c", false),
    ] {
        assert_eq!(dir.join("to").join(name).exists(), is_there, "{name}");
    }
    let missing = ours(dir, &["sync", "--exclude-from=nowhere", "from", "to"]);
    assert_eq!(missing.status.code(), Some(1));
}

#[test]
fn a_command_line_that_makes_no_sense_is_told_by_the_code() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "a", "a", 1);
    for (arguments, why) in [
        (&["chown", "nobody is called so", "a"][..], "no user"),
        (&["chown", ":nobody is called so", "a"], "no group"),
        (&["chown", "nobody is called so:", "a"], "no user"),
        (&["chown", "--from", ":", "0", "a"], "is no owner"),
        (&["chmod", "u+q", "a"], "u+q"),
        (&["cp", "a", "a", "to"], "'a' is given twice"),
        (&["sum", "a", "a"], "'a' is given twice"),
        (&["find", "a", "-nonsense"], "-nonsense"),
        (&["tar", "-cf", "a.tar"], "nothing to pack"),
    ] {
        let output = ours(dir, arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert!(said.contains("--help'"), "{said}");
    }
}
