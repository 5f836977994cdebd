//! Walks by several processes over MPI, compared with GNU find.

#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used)]

mod common;

use common::mpirun;
use parquet::file::reader::SerializedFileReader;
use parquet::record::RowAccessor;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

const ALGORITHMS: [&str; 7] = [
    "h-deqs",
    "h-drqs",
    "drqs",
    "deqs",
    "pa-drqs",
    "cp",
    "cp-keep-one",
];

fn sorted(output: &Output) -> Vec<Vec<u8>> {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let mut records: Vec<Vec<u8>> = output
        .stdout
        .split(|byte| *byte == 0)
        .map(<[u8]>::to_vec)
        .collect();
    assert_eq!(records.pop(), Some(vec![]), "{error}");
    records.sort_unstable();
    records
}

fn find(dir: &Path, arguments: &[&str]) -> Vec<Vec<u8>> {
    let output = Command::new("find")
        .args(arguments)
        .current_dir(dir)
        .output();
    sorted(&output.unwrap())
}

/// Strange names, one large directory, and a chain whose path is longer than any call takes.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    let names: [&[u8]; 4] = [b"plain", b"new\nline", b"\xff\xfe", b"-name"];
    for outer in 0..12_usize {
        for inner in 0..6_usize {
            let name = [names[(outer + inner) % 4], inner.to_string().as_bytes()].concat();
            let dir = tree.join(outer.to_string()).join(OsStr::from_bytes(&name));
            std::fs::create_dir_all(&dir).unwrap();
            for name in names {
                std::fs::write(dir.join(OsStr::from_bytes(name)), "some bytes").unwrap();
            }
            std::os::unix::fs::symlink("..", dir.join("link")).unwrap();
        }
    }
    std::fs::create_dir(tree.join("large")).unwrap();
    for file in 0..5_000 {
        std::fs::write(tree.join(format!("large/{file}")), "").unwrap();
    }
    let chain = "mkdir chain && cd chain && for i in $(seq 60); do n=$(printf %0100d $i); \
                 mkdir $n && touch file && cd -P ./$n || exit 1; done";
    let status = Command::new("bash")
        .args(["-c", chain])
        .current_dir(&tree)
        .status();
    assert!(status.unwrap().success());
    dir
}

fn remove(dir: tempfile::TempDir) {
    let path = dir.keep();
    let status = Command::new("rm").arg("-rf").arg(path).status();
    assert!(status.unwrap().success());
}

#[test]
fn all_ranks_together_find_what_find_does() {
    let dir = tree();
    let all = find(dir.path(), &["tree", "-print0"]);
    for ranks in [1, 4, 8] {
        // Each on its own: the number of processes is what is tried here.
        let algorithms = if ranks == 4 {
            &ALGORITHMS[..]
        } else {
            &ALGORITHMS[..1]
        };
        for algorithm in algorithms {
            let how = ["walk", "--algorithm", algorithm, "-l", "nul", "tree"];
            let listed = sorted(&mpirun(ranks, dir.path(), &how));
            assert!(listed == all, "{algorithm} on {ranks} ranks");
        }
    }
    let threads = [
        "walk",
        "--algorithm",
        "h-drqs",
        "--threads",
        "3",
        "-l",
        "nul",
        "tree",
    ];
    assert!(sorted(&mpirun(2, dir.path(), &threads)) == all);

    let counts = mpirun(4, dir.path(), &["walk", "--json", "tree"]);
    let counts = String::from_utf8(counts.stdout).unwrap();
    let entries = format!("\"entries\": {},", all.len());
    assert!(counts.contains(&entries), "{counts}");

    let expression = [
        "tree", "-type", "f", "-name", "[0-9]*", "-printf", "%s %p\\0",
    ];
    let expected = find(dir.path(), &expression);
    assert!(expected.len() >= 5_000);
    let found = mpirun(4, dir.path(), &[&["find"], &expression[..]].concat());
    assert!(sorted(&found) == expected);
    remove(dir);
}

/// Files with several names in directories all over, so that several ranks meet each of them.
#[test]
fn all_ranks_together_sum_up_what_du_does() {
    let dir = tree();
    for number in 0..40 {
        let file = dir.path().join(format!("tree/large/linked{number}"));
        std::fs::write(&file, vec![b'x'; 10_000]).unwrap();
        for outer in 0..12 {
            let name = format!("tree/{outer}/linked{number}");
            std::fs::hard_link(&file, dir.path().join(name)).unwrap();
        }
    }
    let gnu = |arguments: &[&str]| {
        let output = Command::new("du")
            .args(arguments)
            .current_dir(dir.path())
            .output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    };
    for algorithm in ["h-deqs", "drqs", "pa-drqs", "cp"] {
        for options in [&["-s", "-b"][..], &["-s", "--inodes"], &["-s", "-c"]] {
            let how = [&["du", "--algorithm", algorithm], options, &["tree"]].concat();
            let output = mpirun(5, dir.path(), &how);
            assert!(output.status.success());
            let mine = String::from_utf8(output.stdout).unwrap();
            let theirs = gnu(&[options, &["tree"]].concat());
            assert_eq!(mine, theirs, "{algorithm} {options:?}");
        }
    }
    // Without files that count in one of several directories, each directory's line is the same.
    let lines = |text: String| -> Vec<String> {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let options = ["-b", "--exclude=linked*", "--time", "tree"];
    let output = mpirun(4, dir.path(), &[&["du"], &options[..]].concat());
    let mine = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(lines(mine), lines(gnu(&options)));
    let by = ["du", "--by", "size", "--json", "-b", "tree"];
    let report = String::from_utf8(mpirun(4, dir.path(), &by).stdout).unwrap();
    let files = find(dir.path(), &["tree", "-type", "f", "-printf", "%i\\0"]);
    let files: std::collections::BTreeSet<Vec<u8>> = files.into_iter().collect();
    let entries = format!("\"entries\": {},", files.len());
    assert!(report.contains(&entries), "{entries} {report}");
    remove(dir);
}

#[test]
fn each_rank_says_what_its_share_was() {
    let dir = tree();
    let all = find(dir.path(), &["tree", "-print0"]).len() as u64;
    let counts = mpirun(4, dir.path(), &["walk", "--json", "tree"]);
    let counts: serde_json::Value = serde_json::from_slice(&counts.stdout).unwrap();
    let ranks = counts["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 4);
    assert_eq!(
        ranks.iter().map(|it| it.as_u64().unwrap()).sum::<u64>(),
        all
    );
    remove(dir);
}

/// Source of the figures.
#[test]
fn each_rank_tells_what_it_took_and_sent() {
    let dir = tree();
    let all = find(dir.path(), &["tree", "-print0"]).len() as u64;
    for (algorithm, per_host) in [
        ("cp", "2"),
        ("drqs", "2"),
        ("pa-drqs", "2"),
        ("h-drqs", "1"),
    ] {
        let how = ["measure", "--ranks-per-host", per_host, "--algorithm"];
        let output = mpirun(4, dir.path(), &[&how[..], &[algorithm, "tree"]].concat());
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report["seconds"].as_f64().unwrap() > 0.0);
        let ranks = report["ranks"].as_array().unwrap();
        assert_eq!(ranks.len(), 4);
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        let entries: u64 = ranks.iter().map(|it| number(&it["entries"])).sum();
        assert_eq!(entries, all, "{algorithm}");
        for (me, rank) in ranks.iter().enumerate() {
            let sent = rank["sent"].as_array().unwrap();
            assert_eq!(sent.len(), 4);
            for (to, sent) in sent.iter().enumerate() {
                let (messages, bytes) = (number(&sent["messages"]), number(&sent["bytes"]));
                assert!(bytes >= messages, "a message has a byte at least");
                // Slaves speak with their master alone, and no rank with itself.
                if me == to || algorithm == "cp" && me != 0 && to != 0 {
                    assert_eq!(messages, 0, "{algorithm}: {me} to {to}");
                }
            }
            // A rank that looked at entries took time for it; a master does not.
            let looked = number(&rank["lstat_ns"]);
            assert_eq!(looked > 0, number(&rank["entries"]) > 0, "{algorithm} {me}");
            assert!(number(&rank["speaking_ns"]) > 0);
        }
        // Rank 0 has the root: others have something to look at once it has sent them some.
        let to_others: u64 = (1..4)
            .map(|to| number(&ranks[0]["sent"][to]["bytes"]))
            .sum();
        let others: u64 = ranks[1..].iter().map(|it| number(&it["entries"])).sum();
        assert!(others == 0 || to_others > 0, "{algorithm}");
    }
    remove(dir);
}

#[test]
fn all_ranks_together_pack_and_unpack() {
    let dir = tree();
    for number in 0..20 {
        let file = dir.path().join(format!("tree/large/linked{number}"));
        std::fs::write(&file, format!("linked {number}")).unwrap();
        for outer in 0..12 {
            let name = format!("tree/{outer}/linked{number}");
            std::fs::hard_link(&file, dir.path().join(name)).unwrap();
        }
    }
    // Of several pieces, most of it a hole.
    let sparse = std::fs::File::create(dir.path().join("tree/sparse")).unwrap();
    sparse.set_len(200 << 20).unwrap();
    let end = (200 << 20) - 70_000;
    std::os::unix::fs::FileExt::write_all_at(&sparse, &[7; 70_000], end).unwrap();
    std::os::unix::fs::symlink("/etc", dir.path().join("tree/3/out")).unwrap();
    // A directory has as many bytes and links as its file system likes. GNU tar cannot make the
    // chain.
    let others = ["!", "-type", "d", "-printf", "%y %m %n %s %T@ %l %P\\0"];
    let directories = ["-type", "d", "-printf", "%m %T@ %P\\0"];
    let no_chain = ["-path", "tree/chain", "-prune", "-o"];
    let listed = |place: &Path, but: &[&str]| {
        let list = |what: &[&str]| find(place, &[&["tree"], but, what].concat());
        (list(&others), list(&directories))
    };
    let done = |output: Output| {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
    };
    done(mpirun(4, dir.path(), &["tar", "-cf", "a.tar", "tree"]));
    for name in ["gnu", "ours", "alone"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    let mut gnu = Command::new("tar");
    gnu.args(["-xf", "a.tar", "-C", "gnu", "--exclude", "tree/chain"]);
    done(gnu.current_dir(dir.path()).output().unwrap());
    done(mpirun(
        4,
        dir.path(),
        &["tar", "-xf", "a.tar", "-C", "ours"],
    ));
    done(mpirun(
        1,
        dir.path(),
        &["tar", "xf", "a.tar", "-C", "alone"],
    ));
    for (name, but) in [("gnu", &no_chain[..]), ("ours", &[]), ("alone", &[])] {
        let place = dir.path().join(name);
        assert!(listed(&place, but) == listed(dir.path(), but), "{name}");
        let mut differences = Command::new("diff");
        let both = ["-r", "--no-dereference", "--exclude=chain", "tree"];
        differences.args(both).arg(place.join("tree"));
        done(differences.current_dir(dir.path()).output().unwrap());
    }
    remove(dir);
}

#[test]
fn all_ranks_together_remove_from_the_bottom_up() {
    let dir = tree();
    std::fs::create_dir(dir.path().join("kept")).unwrap();
    let removed = mpirun(4, dir.path(), &["rm", "-r", "tree"]);
    let error = String::from_utf8_lossy(&removed.stderr);
    assert!(removed.status.success(), "{error}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1);
}

#[test]
fn what_fails_is_seen_in_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let output = mpirun(3, dir.path(), &["walk", ".", "missing"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("missing: No such file"), "{error}");
    let output = mpirun(3, dir.path(), &["du", "-s", ".", "missing"]);
    assert_eq!(output.status.code(), Some(1));
    // One process's standard output is no place for the pieces of several.
    let output = mpirun(3, dir.path(), &["tar", "-c", "."]);
    assert!(!output.status.success());
    std::fs::write(dir.path().join("cut.tar"), vec![b'x'; 700]).unwrap();
    let output = mpirun(3, dir.path(), &["tar", "-xf", "cut.tar"]);
    assert!(!output.status.success());
}

/// Records of 5 MB, which slaves send at the same time: each is cut into two messages, and whole
/// again at rank 0.
#[test]
fn what_is_longer_than_a_message_comes_whole() {
    let dir = tempfile::tempdir().unwrap();
    for file in 0..6 {
        let name = format!("tree/{file}/{}", file.to_string().repeat(150));
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    let format = "%p".repeat(32_000) + "\\0";
    let expression = ["tree", "-type", "f", "-printf", &format];
    let expected = find(dir.path(), &expression);
    assert!(expected.len() == 6 && expected[0].len() > 4 << 20);
    // A master looks at nothing itself.
    let how = ["find", "--algorithm", "cp"];
    let found = mpirun(3, dir.path(), &[&how[..], &expression].concat());
    assert!(sorted(&found) == expected);
}

/// Each file takes a while, and no processor.
#[test]
fn all_ranks_share_one_huge_directory() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let files = 600;
    for file in 0..files {
        std::fs::write(tree.join(file.to_string()), "").unwrap();
    }
    for algorithm in ["h-deqs", "drqs"] {
        let script = "printf '%s\\0' ${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec sleep 0.02";
        let how = ["find", "--algorithm", algorithm, "tree", "-type", "f"];
        let exec = ["-exec", "sh", "-c", script, ";"];
        let ranks = sorted(&mpirun(4, dir.path(), &[&how[..], &exec].concat()));
        assert_eq!(ranks.len(), files);
        for rank in ["0", "1", "2", "3"] {
            let share = ranks.iter().filter(|it| *it == rank.as_bytes()).count();
            // A quarter would be its part; all, if a directory were one item.
            assert!(
                (1..files * 6 / 10).contains(&share),
                "{algorithm}: rank {rank} has {share} of {files}"
            );
        }
    }
}

/// A master whose queue can go nowhere has lost items: the slave, which knows nothing of it, has to
/// end too.
#[test]
fn all_ranks_write_one_parquet_file() {
    let dir = tree();
    let all = find(dir.path(), &["tree", "-print0"]);
    let list = ["walk", "-l", "parquet", "--output", "list", "tree"];
    let output = mpirun(4, dir.path(), &list);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let reader = SerializedFileReader::new(File::open(dir.path().join("list")).unwrap());
    let rows = reader.unwrap().into_iter().map(|row| {
        let row = row.unwrap();
        row.get_bytes(0).unwrap().data().to_vec()
    });
    let mut paths: Vec<Vec<u8>> = rows.collect();
    paths.sort_unstable();
    assert!(paths == all);
    remove(dir);
}
