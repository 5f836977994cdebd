//! Access control lists in archives of tar and of GNU tar.

use crate::common::{ours, run_in, stderr};
use std::path::Path;
use std::process::Output;

fn done(dir: &Path, program: &str, words: &[&str]) -> Output {
    let output = run_in(dir, program, words);
    assert!(
        output.status.success(),
        "{program} {words:?}: {}",
        stderr(&output)
    );
    output
}

/// A file and a directory with named entries.
fn made(dir: &Path) {
    std::fs::create_dir_all(dir.join("src/below")).unwrap();
    std::fs::write(dir.join("src/file"), "1\n").unwrap();
    std::fs::write(dir.join("src/plain"), "2\n").unwrap();
    done(dir, "chmod", &["640", "src/file"]);
    done(dir, "setfacl", &["-m", "u:nobody:rwx,g:1001:r", "src/file"]);
    done(
        dir,
        "setfacl",
        &["-m", "d:u:12345:rx,d:g:daemon:-", "src/below"],
    );
}

/// The lists of all files, in the order of their names: that of directories is the file system's.
fn lists(dir: &Path, root: &str) -> String {
    let words = ["-R", "-n", "--absolute-names", "src"];
    let output = done(&dir.join(root), "getfacl", &words);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut files: Vec<&str> = text.split_terminator("\n\n").collect();
    files.sort_unstable();
    files.join("\n\n")
}

#[test]
fn gnu_tar_unpacks_them_and_packs_them_for_us() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    made(dir);
    let wanted = lists(dir, ".");
    assert!(wanted.contains("default:user:12345:r-x"), "{wanted}");
    let ours_words = ["tar", "-cf", "our.tar", "src"];
    assert!(ours(dir, &ours_words).status.success());
    let numeric = ["tar", "--numeric-owner", "-cf", "our-numeric.tar", "src"];
    assert!(ours(dir, &numeric).status.success());
    done(dir, "tar", &["--acls", "-cf", "gnu.tar", "src"]);
    for archive in ["our.tar", "our-numeric.tar", "gnu.tar"] {
        for by_us in [true, false] {
            let _ = std::fs::remove_dir_all(dir.join("out"));
            std::fs::create_dir(dir.join("out")).unwrap();
            let words = ["--acls", "-xpf", archive, "-C", "out"];
            let output = if by_us {
                ours(dir, &[&["tar"], &words[..]].concat())
            } else {
                run_in(dir, "tar", &words)
            };
            assert_eq!(stderr(&output), "", "{archive} by us: {by_us}");
            assert!(output.status.success());
            assert_eq!(lists(dir, "out"), wanted, "{archive} by us: {by_us}");
        }
    }
}

/// An archive of a file `file`, with these records.
fn with_records(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut all = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let length = (1..)
            .map(|digits| rest + digits)
            .find(|it| it - rest == it.to_string().len());
        all.extend(format!("{} {key}=", length.unwrap()).bytes());
        all.extend_from_slice(value);
        all.push(b'\n');
    }
    let mut archive = Vec::new();
    for (name, kind, data) in [("x", b'x', &all[..]), ("file", b'0', b"")] {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000670");
        header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = kind;
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend_from_slice(&header);
        archive.extend_from_slice(data);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1_024, 0);
    archive
}

#[test]
fn what_cannot_be_understood_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let access = "SCHILY.acl.access";
    let nobody = b"user::rwx,user:no such user:rwx,group::r-x,mask::rwx,other::---";
    for (records, said) in [
        (
            &[(access, &b"user::rwx,everyone:r"[..])][..],
            "'everyone:r' is no entry",
        ),
        (
            &[(access, nobody)],
            "no user or group is called 'no such user' on this system",
        ),
        (&[("SCHILY.acl.ace", b"owner@:rwx")], "'ace' is of a kind"),
    ] {
        std::fs::write(dir.join("a.tar"), with_records(records)).unwrap();
        let output = ours(dir, &["tar", "-xf", "a.tar"]);
        assert_eq!(output.status.code(), Some(2));
        let line = stderr(&output);
        assert!(
            line.starts_with("pandofs tar: file: its access control list"),
            "{line}"
        );
        assert!(line.contains(said), "{line}");
        // The file is there all the same.
        std::fs::remove_file(dir.join("file")).unwrap();
    }
}

#[test]
fn numbers_hold_where_names_say_nothing_and_attributes_before_both() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let listed = || {
        let output = done(dir, "getfacl", &["-n", "--omit-header", "file"]);
        String::from_utf8(output.stdout).unwrap()
    };
    let text =
        b"user::rw-,user:no such user:rwx:4321,user:nobody:r--:77,group::r--,mask::rwx,other::---";
    let records = [("SCHILY.acl.access", &text[..])];
    std::fs::write(dir.join("a.tar"), with_records(&records)).unwrap();
    assert_eq!(stderr(&ours(dir, &["tar", "-xpf", "a.tar"])), "");
    let by_name = listed();
    assert!(
        by_name.contains("user:4321:rwx") && by_name.contains("user:65534:r--"),
        "{by_name}"
    );
    assert_eq!(
        stderr(&ours(dir, &["tar", "--numeric-owner", "-xpf", "a.tar"])),
        ""
    );
    let by_number = listed();
    assert!(by_number.contains("user:77:r--"), "{by_number}");
    // The same list of user 5 as the attribute, which holds.
    let value =
        b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x07\0\x05\0\0\0\x04\0\x04\0\xff\xff\xff\xff\
        \x10\0\x07\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
    let records = [
        records[0],
        ("SCHILY.xattr.system.posix_acl_access", &value[..]),
    ];
    std::fs::write(dir.join("a.tar"), with_records(&records)).unwrap();
    assert_eq!(stderr(&ours(dir, &["tar", "-xpf", "a.tar"])), "");
    let both = listed();
    assert!(
        both.contains("user:5:rwx") && !both.contains("4321"),
        "{both}"
    );
}
