//! Archives with false claims, and old ones.

use crate::common::{ours, run_in, stderr};
use std::path::Path;
use std::process::Output;

const BLOCK: usize = 512;

/// A member: its name, its type, what its header says is its size, and data.
fn member(name: &[u8], kind: u8, size: u64, data: &[u8]) -> Vec<u8> {
    let mut header = [0; BLOCK];
    header[..name.len()].copy_from_slice(name);
    header[100..108].copy_from_slice(b"0000644\0");
    if size < 1 << 33 {
        header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    } else {
        // As GNU has it.
        header[124] = 0x80;
        header[128..136].copy_from_slice(&size.to_be_bytes());
    }
    header[156] = kind;
    header[148..156].fill(b' ');
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

/// An extended header with one record.
fn extended(record: &str) -> Vec<u8> {
    let length = record.len() + "00 \n".len();
    assert!((10..100).contains(&length));
    let record = format!("{length} {record}\n");
    member(b"x", b'x', record.len() as u64, record.as_bytes())
}

/// Lists or unpacks an archive with 8 GiB of memory at most, and not for ever.
fn bounded(dir: &Path, action: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_pandofs-walk");
    let line = format!("ulimit -v 8388608; exec timeout 60 '{program}' tar {action}");
    run_in(dir, "sh", &["-c", &line])
}

#[test]
fn what_a_header_claims_is_not_believed() {
    let end = vec![0; 2 * BLOCK];
    let first = member(b"first", b'0', 5, b"first");
    for (claim, whole) in [
        // The next header would be this one again.
        (
            extended("size=18446744073709550080"),
            member(b"large", b'0', 0, b""),
        ),
        (Vec::new(), member(b"large", b'0', 1 << 62, b"data")),
        (Vec::new(), member(b"large", b'0', 1 << 40, b"data")),
        (Vec::new(), member(b"large", b'0', 5_000, b"data")),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let archive = [&first[..], &claim, &whole, &end].concat();
        std::fs::write(dir.join("a.tar"), archive).unwrap();
        std::fs::create_dir(dir.join("out")).unwrap();
        for action in ["-tf a.tar", "-xf a.tar -C out", "-xf - -C out <a.tar"] {
            let output = bounded(dir, action);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{action}: {said}");
            let is_said =
                said.contains("in the middle of a member") || said.contains("a member of");
            assert!(is_said, "{action}: {said}");
            assert!(!dir.join("out/large").exists(), "{action}");
        }
        let first = std::fs::read(dir.join("out/first")).unwrap();
        assert_eq!(first, b"first", "what is whole is unpacked");
    }
}

#[test]
fn a_cut_archive_leaves_no_part_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("a"), vec![b'a'; 3 << 20]).unwrap();
    std::fs::write(dir.join("b"), vec![b'b'; 3 << 20]).unwrap();
    let packed = run_in(dir, "tar", &["-cf", "a.tar", "a", "b"]);
    assert!(packed.status.success());
    let archive = std::fs::File::options()
        .write(true)
        .open(dir.join("a.tar"))
        .unwrap();
    archive.set_len(5 << 20).unwrap();
    for input in ["a.tar", "- <a.tar"] {
        std::fs::create_dir(dir.join("out")).unwrap();
        let output = bounded(dir, &format!("-C out -xf {input}"));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let whole = std::fs::read(dir.join("out/a")).unwrap();
        assert!(whole == vec![b'a'; 3 << 20]);
        assert!(!dir.join("out/b").exists());
        std::fs::remove_dir_all(dir.join("out")).unwrap();
    }
}

#[test]
fn directories_of_old_archives_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let archive = [
        member(b"d/", b'\0', 0, b""),
        member(b"d/a", b'\0', 1, b"a"),
        vec![0; 2 * BLOCK],
    ];
    std::fs::write(dir.join("a.tar"), archive.concat()).unwrap();
    let output = ours(dir, &["tar", "-xf", "a.tar"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read(dir.join("d/a")).unwrap(), b"a");
    let output = ours(dir, &["tar", "-tvf", "a.tar"]);
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(listed.starts_with('d'), "{listed}");
}

#[test]
fn what_is_no_archive_is_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // Its sum is no number, its size too large a one.
    let mut binary = vec![0xbf; 2_048];
    binary[148..156].fill(b'9');
    let cases: [(&str, &[u8], i32); 7] = [
        ("empty", b"", 2),
        ("short", &[0; 100], 2),
        ("text", b"no archive at all", 2),
        ("long", &[b'x'; 5_000], 2),
        ("binary", &binary, 2),
        ("block", &[0; 512], 0),
        ("nothing", &[0; 1_024], 0),
    ];
    for (name, bytes, code) in cases {
        std::fs::write(dir.join(name), bytes).unwrap();
        let theirs = run_in(dir, "tar", &["-tf", name]);
        assert_eq!(theirs.status.code(), Some(code), "GNU tar and {name}");
        let by_pipe = format!("exec \"$0\" tar -t <{name}");
        let program = env!("CARGO_BIN_EXE_pandofs-walk");
        for output in [
            ours(dir, &["tar", "-tf", name]),
            ours(dir, &["tar", "-xf", name]),
            run_in(dir, "sh", &["-c", &by_pipe, program]),
        ] {
            assert_eq!(output.status.code(), Some(code), "{name}");
            let said = stderr(&output);
            assert_eq!(
                said.contains("this is no tar archive"),
                code == 2,
                "{name}: {said}"
            );
            assert_eq!(said.is_empty(), code == 0, "{name}: {said}");
        }
    }
    // Compressed, it is the same.
    for (name, code) in [("empty", 2), ("nothing", 0)] {
        let packed = run_in(dir, "gzip", &["-k", name]);
        assert!(packed.status.success());
        let output = ours(dir, &["tar", "-tf", &format!("{name}.gz")]);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{name}: {}",
            stderr(&output)
        );
    }
}
