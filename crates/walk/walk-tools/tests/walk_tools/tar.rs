//! tar beside GNU tar: what it lists, takes out, leaves alone and refuses.

use crate::common::{ours, run_in, sorted, stderr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

/// Names in one way on every machine.
fn gnu(dir: &Path, words: &[&str]) -> Output {
    let words = [&["LC_ALL=C.UTF-8", "tar"], words].concat();
    run_in(dir, "env", &words)
}

fn mine(dir: &Path, words: &[&str]) -> Output {
    let output = ours(dir, &[&["tar"], words].concat());
    assert_eq!(
        (stderr(&output), output.status.code()),
        (String::new(), Some(0)),
        "{words:?}"
    );
    output
}

/// A small tree, and an archive of it by each of both.
fn made() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    std::fs::create_dir_all(path.join("src/a/b/empty")).unwrap();
    for (name, text) in [
        (&b"src/one"[..], "1\n"),
        (b"src/a/two", "2\n"),
        (b"src/a/b/three.o", "3\n"),
        (b"src/a/\xffnew\nline\\ gr\xc3\xbcn\x01", "odd\n"),
    ] {
        let file = path.join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(file, text).unwrap();
    }
    // Which of both is a link to the other depends on the order of the listing.
    std::fs::create_dir(path.join("src/c")).unwrap();
    std::fs::write(path.join("src/c/name"), "two names\n").unwrap();
    std::fs::hard_link(path.join("src/c/name"), path.join("src/c/other")).unwrap();
    symlink("a/two", path.join("src/link")).unwrap();
    let sparse = std::fs::File::create(path.join("src/hole")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 300_000).unwrap();
    std::fs::set_permissions(
        path.join("src/a/two"),
        std::fs::Permissions::from_mode(0o4751),
    )
    .unwrap();
    let fifo = run_in(&path, "mkfifo", &["src/pipe"]);
    assert!(fifo.status.success());
    let theirs = gnu(&path, &["--format=pax", "-Scf", "gnu.tar", "src"]);
    assert!(theirs.status.success(), "{}", stderr(&theirs));
    mine(&path, &["-cf", "our.tar", "src"]);
    (dir, path)
}

/// Returns the contents of a directory, without names that GNU find would print in another way.
fn found(dir: &Path, root: &str) -> Vec<Vec<u8>> {
    let words = [root, "-printf", "%P %y %m %n %l %T@\\0"];
    sorted(&run_in(dir, "find", &words), 0)
}

fn fresh(dir: &Path, name: &str) {
    let _ = std::fs::remove_dir_all(dir.join(name));
    std::fs::create_dir(dir.join(name)).unwrap();
}

#[test]
fn lists_are_those_of_gnu_tar() {
    let (_dir, dir) = made();
    for options in [&["-t"][..], &["-tv"], &["-tv", "--numeric-owner"]] {
        for archive in ["gnu.tar", "our.tar"] {
            let words = [options, &["-f", archive]].concat();
            let theirs = gnu(&dir, &words).stdout;
            assert!(!theirs.is_empty());
            assert_eq!(mine(&dir, &words).stdout, theirs, "{words:?}");
        }
    }
    // The same from a pipe.
    let pipe = format!("{} tar -tv <gnu.tar", env!("CARGO_BIN_EXE_pandofs-walk"));
    let piped = run_in(&dir, "sh", &["-c", &pipe]);
    assert_eq!(piped.stdout, gnu(&dir, &["-tvf", "gnu.tar"]).stdout);
}

#[test]
fn an_archive_is_the_same_by_whatever_options_it_is_made() {
    let (_dir, dir) = made();
    let names = |archive: &str| sorted(&gnu(&dir, &["-tf", archive]), b'\n');
    for words in [
        &["cf", "x.tar", "src"][..],
        &["cfC", "x.tar", ".", "src"],
        &["-cf", "x.tar", "--exclude=two", "src"],
        &["-cf", "x.tar", "--exclude=a/b", "src"],
        &[
            "-cf",
            "x.tar",
            "--exclude",
            "src/*.o",
            "--exclude=on?",
            "src",
        ],
        &["-cf", "x.tar", "-X", "patterns", "src"],
        &["-cf", "x.tar", "-T", "names"],
        &["-cf", "x.tar", "--null", "-T", "nuls", "src/one"],
        &["-cf", "x.tar", "--no-recursion", "src", "src/a"],
        &[
            "-cf", "x.tar", "src/one", "-C", "src", "a", "-C", "a", "two",
        ],
        &["-cf", "x.tar", "./src/a"],
        &["-cf", "x.tar", "src/../src/a"],
        &["-chf", "x.tar", "src/link"],
    ] {
        std::fs::write(dir.join("patterns"), "b\nt*o\n").unwrap();
        std::fs::write(dir.join("names"), "src/one\nsrc/a\n").unwrap();
        std::fs::write(dir.join("nuls"), "src/link\0src/a/b\0").unwrap();
        assert!(gnu(&dir, words).status.success(), "{words:?}");
        let theirs = names("x.tar");
        std::fs::remove_file(dir.join("x.tar")).unwrap();
        mine(&dir, words);
        assert_eq!(names("x.tar"), theirs, "{words:?}");
    }
    mine(&dir, &["-chf", "x.tar", "src/link"]);
    let listed = gnu(&dir, &["-tvf", "x.tar"]).stdout;
    assert!(listed.starts_with(b"-rwsr-x--x"), "a file, not a link");
}

#[test]
fn what_is_packed_is_said_where_the_archive_is_not() {
    let (_dir, dir) = made();
    let theirs = sorted(&gnu(&dir, &["-cvf", "x.tar", "src"]), b'\n');
    assert_eq!(
        sorted(&mine(&dir, &["-cvf", "y.tar", "src"]), b'\n'),
        theirs
    );
    let to_stdout = ours(&dir, &["tar", "-cv", "src/one"]);
    assert_eq!(stderr(&to_stdout), "src/one\n");
    assert_eq!(to_stdout.stdout.len() % 10_240, 0);
    fresh(&dir, "out");
    let unpacked = mine(&dir, &["-xvf", "gnu.tar", "-C", "out"]).stdout;
    assert_eq!(unpacked, gnu(&dir, &["-tf", "gnu.tar"]).stdout);
}

#[test]
fn members_are_chosen_as_gnu_tar_does() {
    let (_dir, dir) = made();
    for words in [
        &["src/a/b"][..],
        &["src/one", "src/a/two"],
        &["src/a/"],
        &["--no-recursion", "src/a"],
        &["--wildcards", "*.o", "src/?ne"],
        &["--exclude=b", "src/a"],
        &["--exclude=a*"],
        &["--strip-components=1"],
        &["--strip-components=2"],
        &["--strip-components=1", "src/a/b"],
        &["-T", "names"],
    ] {
        std::fs::write(dir.join("names"), "src/one\nsrc/a/b/\n").unwrap();
        let mut seen = Vec::new();
        for theirs in [true, false] {
            fresh(&dir, "out");
            let unpack = [&["-xf", "gnu.tar", "-C", "out"], words].concat();
            if theirs {
                assert!(gnu(&dir, &unpack).status.success(), "{words:?}");
            } else {
                mine(&dir, &unpack);
            }
            // Directories that no member is of get the time of the moment.
            let found = run_in(&dir, "find", &["out", "-printf", "%P %y %m %n %l\\0"]);
            seen.push(sorted(&found, 0));
        }
        assert_eq!(seen[1], seen[0], "{words:?}");
    }
    fresh(&dir, "out");
    let missing = ours(
        &dir,
        &["tar", "-xf", "gnu.tar", "-C", "out", "src/one", "no"],
    );
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("no: not found in the archive"));
    assert!(dir.join("out/src/one").exists());
    let missing = ours(&dir, &["tar", "-tf", "gnu.tar", "no"]);
    let theirs = gnu(&dir, &["-tf", "gnu.tar", "no"]);
    assert_eq!(missing.status.code(), theirs.status.code());
}

#[test]
fn data_go_to_standard_output_if_wanted() {
    let (_dir, dir) = made();
    for archive in ["gnu.tar", "our.tar"] {
        for member in ["src/hole", "src/a/two", "src/a/b"] {
            let words = ["-xOf", archive, member];
            let output = mine(&dir, &words);
            assert_eq!(output.stdout, gnu(&dir, &words).stdout, "{words:?}");
        }
    }
    let hole = mine(&dir, &["-xOf", "our.tar", "src/hole"]).stdout;
    assert_eq!(hole, std::fs::read(dir.join("src/hole")).unwrap());
}

#[test]
fn what_is_there_is_replaced_or_not() {
    let (_dir, dir) = made();
    for option in ["-k", "--skip-old-files", "--keep-newer-files", "-p"] {
        let mut seen = Vec::new();
        for theirs in [true, false] {
            fresh(&dir, "out");
            std::fs::create_dir_all(dir.join("out/src/a")).unwrap();
            // Not the archive's permissions.
            let strange = std::fs::Permissions::from_mode(0o711);
            std::fs::set_permissions(dir.join("out/src/a"), strange).unwrap();
            for (name, year) in [("one", "2001"), ("a/two", "2101")] {
                let path = format!("out/src/{name}");
                std::fs::write(dir.join(&path), "old").unwrap();
                let time = format!("{year}-01-01 UTC");
                assert!(
                    run_in(&dir, "touch", &["-d", &time, &path])
                        .status
                        .success()
                );
            }
            let words = ["-xf", "gnu.tar", "-C", "out", option];
            let output = if theirs {
                gnu(&dir, &words)
            } else {
                ours(&dir, &[&["tar"], &words[..]].concat())
            };
            let read = |name: &str| std::fs::read(dir.join("out/src").join(name)).unwrap();
            let metadata = std::fs::metadata(dir.join("out/src/a")).unwrap();
            seen.push((
                output.status.code(),
                read("one"),
                read("a/two"),
                read("a/b/three.o"),
                metadata.permissions().mode(),
            ));
        }
        assert_eq!(seen[1], seen[0], "{option}");
    }
    // Our own archives have directories after what is in them: those that this run makes get what
    // the archive says.
    fresh(&dir, "out");
    mine(&dir, &["-xkf", "our.tar", "-C", "out"]);
    assert_eq!(found(&dir, "out/src"), found(&dir, "src"));
    let again = ours(&dir, &["tar", "-xkf", "our.tar", "-C", "out"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("src/one: File exists"));
    assert_eq!(found(&dir, "out/src"), found(&dir, "src"));
    mine(&dir, &["-xf", "our.tar", "-C", "out", "--skip-old-files"]);
    assert_eq!(found(&dir, "out/src"), found(&dir, "src"));
}

#[test]
fn permissions_owners_and_times_are_as_wanted() {
    let (_dir, dir) = made();
    let before = std::time::SystemTime::now() - std::time::Duration::from_secs(1);
    for options in [
        &["--no-same-permissions"][..],
        &["-p"],
        &["--no-same-owner"],
        &["--same-owner", "--numeric-owner"],
    ] {
        let mut seen = Vec::new();
        for program in [
            "tar",
            &format!("{} tar", env!("CARGO_BIN_EXE_pandofs-walk")),
        ] {
            fresh(&dir, "out");
            let options = options.join(" ");
            let shell = format!("umask 037; {program} -xf gnu.tar -C out {options}");
            let output = run_in(&dir, "sh", &["-c", &shell]);
            assert!(output.status.success(), "{}", stderr(&output));
            let list = run_in(&dir, "find", &["out/src", "-printf", "%P %m %U %G %T@\\0"]);
            seen.push(sorted(&list, 0));
        }
        assert_eq!(seen[1], seen[0], "{options:?}");
    }
    fresh(&dir, "out");
    let old = run_in(&dir, "touch", &["-d", "2001-01-01", "src/one"]);
    assert!(old.status.success());
    mine(&dir, &["-cf", "old.tar", "src"]);
    mine(&dir, &["-xmf", "old.tar", "-C", "out"]);
    let time = std::fs::metadata(dir.join("out/src/one")).unwrap();
    assert!(time.modified().unwrap() > before);
    mine(&dir, &["-xf", "old.tar", "-C", "out"]);
    let time = std::fs::metadata(dir.join("out/src/one")).unwrap().mtime();
    assert_eq!(
        time,
        std::fs::metadata(dir.join("src/one")).unwrap().mtime()
    );
}

#[test]
fn compressed_archives_are_those_of_everybody() {
    let (_dir, dir) = made();
    let mut tried = 0;
    for (option, name, program) in [
        ("-z", "x.tar.gz", "gzip"),
        ("-j", "x.tar.bz2", "bzip2"),
        ("-J", "x.txz", "xz"),
        ("--zstd", "x.tar.zst", "zstd"),
    ] {
        if !run_in(&dir, "sh", &["-c", &format!("command -v {program}")])
            .status
            .success()
        {
            continue;
        }
        tried += 1;
        for create in [
            &["-c", option, "-f", name][..],
            &["-caf", name],
            &["-I", program, "-cf", name],
        ] {
            mine(&dir, &[create, &["src"]].concat());
            let whole = run_in(&dir, program, &["-t", name]);
            assert!(whole.status.success(), "{}", stderr(&whole));
            fresh(&dir, "out");
            // A file tells by itself how it is compressed.
            mine(&dir, &["-xf", name, "-C", "out"]);
            assert_eq!(found(&dir, "out/src"), found(&dir, "src"), "{create:?}");
        }
        let theirs = gnu(&dir, &["-c", option, "-f", name, "src"]);
        assert!(theirs.status.success(), "{}", stderr(&theirs));
        let list = gnu(&dir, &["-tvf", name]).stdout;
        assert_eq!(mine(&dir, &["-tvf", name]).stdout, list);
        // In a pipe nothing can be looked at before.
        let walk = env!("CARGO_BIN_EXE_pandofs-walk");
        let piped = |options: &str| {
            let shell = format!("{walk} tar {options} <{name}");
            run_in(&dir, "sh", &["-c", &shell])
        };
        assert_eq!(piped(&format!("-tv {option}")).stdout, list);
        let refused = piped("-t");
        assert_eq!(refused.status.code(), Some(2));
        let said = format!("it is compressed with {program}: {option}");
        assert!(stderr(&refused).contains(&said), "{}", stderr(&refused));
        // Cut off, an archive is no archive.
        let bytes = std::fs::read(dir.join(name)).unwrap();
        std::fs::write(dir.join("cut"), &bytes[..bytes.len() - 9]).unwrap();
        for options in [&["-tf", "cut"][..], &["-xf", "cut", "-C", "out"]] {
            let output = ours(&dir, &[&["tar"], options].concat());
            assert_eq!(output.status.code(), Some(2), "{name}");
            assert!(!stderr(&output).is_empty());
        }
    }
    assert!(tried > 0, "there is none of the programs");
    let missing = ours(&dir, &["tar", "-I", "no-such-program", "-cf", "y", "src"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("no-such-program"));
}

#[test]
fn exit_codes_are_those_of_gnu_tar() {
    let (_dir, dir) = made();
    // In the middle of the only member.
    std::fs::write(dir.join("large"), vec![b'x'; 50_000]).unwrap();
    assert!(gnu(&dir, &["-cf", "cut.tar", "large"]).status.success());
    let cut = std::fs::File::options()
        .write(true)
        .open(dir.join("cut.tar"));
    cut.unwrap().set_len(20_000).unwrap();
    for words in [
        &["-cf", "x.tar"][..],
        &["-tf", "nowhere"],
        &["-xf", "nowhere"],
        &["-cf", "x.tar", "nowhere"],
        &["-cf", "x.tar", "-C", "nowhere", "src"],
        &["-cf", "nowhere/x.tar", "src"],
        &["-tf", "src/one"],
        &["-tf", "cut.tar"],
        &["-cf", "x.tar", "-T", "nowhere"],
        &["-ctf", "x.tar", "src"],
    ] {
        let theirs = gnu(&dir, words).status.code();
        assert_eq!(theirs, Some(2), "{words:?}");
        let output = ours(&dir, &[&["tar"], words].concat());
        assert_eq!(output.status.code(), theirs, "{words:?}");
        assert!(!stderr(&output).is_empty(), "{words:?}");
    }
    // GNU tar has 64 here; no reader depends on it.
    assert_eq!(ours(&dir, &["tar", "--bogus"]).status.code(), Some(2));
}

#[test]
fn sockets_are_left_out_and_told_of() {
    let (_dir, dir) = made();
    let _socket = std::os::unix::net::UnixListener::bind(dir.join("src/a/socket")).unwrap();
    let theirs = gnu(&dir, &["-cf", "with.tar", "src"]);
    let output = ours(&dir, &["tar", "-cf", "with.tar", "src"]);
    assert_eq!(output.status.code(), theirs.status.code());
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        stderr(&output),
        "pandofs tar: src/a/socket: socket ignored\n"
    );
    assert!(stderr(&theirs).contains("socket ignored"));
    let names = String::from_utf8(mine(&dir, &["-tf", "with.tar"]).stdout).unwrap();
    assert!(names.contains("src/a/two") && !names.contains("socket"));
}

#[test]
fn an_archive_is_not_emptied_for_what_cannot_begin() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.tar"), "precious").unwrap();
    std::fs::create_dir(dir.path().join("d")).unwrap();
    let output = ours(dir.path(), &["tar", "-cf", "a.tar", "-X", "missing", "d"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(
        std::fs::read(dir.path().join("a.tar")).unwrap(),
        b"precious"
    );
}

#[test]
fn an_archive_that_cannot_be_finished_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("tree")).unwrap();
    std::fs::write(dir.join("tree/a"), "a").unwrap();
    for (name, script) in [("fails", "cat; exit 3"), ("works", "cat")] {
        std::fs::write(dir.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        let program = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.join(name), program).unwrap();
    }
    for arguments in [
        &["-C", "tree", "a", "-C", "missing", "b"][..],
        &["-I", "./fails", "tree"],
        &["-I", "./works", "-C", "tree", "a", "-C", "missing", "b"],
        &["-I", "./missing", "tree"],
    ] {
        let output = ours(dir, &[&["tar", "-cf", "a.tar"], arguments].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        let file = if arguments.contains(&"./fails") {
            "fails failed"
        } else {
            "missing"
        };
        assert!(said.contains(file), "{said}");
        assert!(!dir.join("a.tar").exists(), "{arguments:?}");
        // To a pipe: its reader finds that it is cut.
        let output = ours(dir, &[&["tar", "-c"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        if !arguments.contains(&"-I") {
            std::fs::write(dir.join("cut.tar"), &output.stdout).unwrap();
            let read = run_in(dir, "tar", &["-tf", "cut.tar"]);
            assert!(!read.status.success());
        }
    }
    let output = ours(dir, &["tar", "-cf", "a.tar", "-I", "./works", "tree"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let read = run_in(dir, "tar", &["-tf", "a.tar"]);
    assert_eq!(sorted(&read, b'\n'), [&b"tree/"[..], b"tree/a"]);
}
