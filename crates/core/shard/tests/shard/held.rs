//! Steps that hold what must stay as it is, or find that it has not.

use crate::copying::cluster_of;
use crate::splits::made;
use crate::support::{Cluster, answer_to_step, create_file, name, sent};
use pandofs_api::{Ask, CommitMessage, PeerMessage, Refused, Reply, Request, Step, op, step};
use pandofs_shard::Output;
use pandofs_types::{Credentials, FsError, Ino, ShardId, Time};

/// Answer of shard 0 to a step that shard 1 asks it to prepare.
fn said(cluster: &mut Cluster, step: Step) -> CommitMessage {
    answer_to_step(cluster, step, Ask::Prepare, Time(5_000))
}

/// A directory of shard 0.
fn mkdir(cluster: &mut Cluster, dir: Ino, text: &str) -> Ino {
    let request = Request::Mkdir(op::Mkdir {
        dir,
        name: name(text),
        mode: 0o755,
        umask: 0,
    });
    let made = made(cluster.call(0, request));
    assert_eq!(made.birth_shard(), ShardId(0));
    made
}

fn unlink(dir: Ino, text: &str) -> Request {
    Request::Unlink(op::Unlink {
        dir,
        name: name(text),
    })
}

/// (Otherwise: `/a` moves into `/c/d`, and `/c` into `/a/b`, at once; each holds the parent that it is to have and nothing
/// above it, and both end up in a circle.)
#[test]
fn a_directory_that_moves_holds_all_its_new_ancestors() {
    let mut cluster = cluster_of(1_000, 1);
    let top = mkdir(&mut cluster, Ino::ROOT, "top");
    let middle = mkdir(&mut cluster, top, "middle");
    let below = mkdir(&mut cluster, middle, "below");
    let other = mkdir(&mut cluster, Ino::ROOT, "other");
    let hold = Step::HoldAncestors(step::HoldAncestors {
        from: below,
        moving: Ino::new(ShardId(1), 5),
        depth: 0,
    });
    let told = said(&mut cluster, hold);
    assert!(matches!(told, CommitMessage::Prepared { .. }), "{told:?}");
    for (dir, text) in [(middle, "below"), (top, "middle"), (Ino::ROOT, "top")] {
        let rename = Request::Rename(op::Rename {
            dir,
            name: name(text),
            new_dir: other,
            new_name: name(text),
            new_shard: ShardId(0),
            no_replace: false,
            whiteout: false,
        });
        let request = cluster.request(0, rename);
        let outputs = cluster.input(0, request).outputs;
        let is_answer = |output: &Output| matches!(output, Output::Answer { .. });
        assert!(!outputs.iter().any(is_answer), "{text}: {outputs:?}");
    }
}

/// Between the look and the step the name was given to another file.
#[test]
fn a_name_that_leads_to_another_inode_is_not_taken_away() {
    let mut cluster = cluster_of(1_000, 1);
    let first = cluster.file("file");
    cluster.call(0, unlink(Ino::ROOT, "file")).unwrap();
    let second = cluster.file("file");
    let mut remove = |ino| {
        let step = Step::Remove(step::Remove {
            dir: Ino::ROOT,
            name: name("file"),
            ino,
            caller: Credentials::ROOT,
            time: Time(5_000),
        });
        said(&mut cluster, step)
    };
    let told = remove(first);
    assert!(
        matches!(
            told,
            CommitMessage::Refused {
                why: Refused::Fs(FsError::NotFound),
                ..
            }
        ),
        "{told:?}"
    );
    let lookup = Request::Lookup(op::Lookup {
        dir: Ino::ROOT,
        name: name("file"),
    });
    assert_eq!(made(cluster.call(0, lookup)), second);
}

/// Its parts would go, and the split come to its end.
#[test]
fn a_directory_is_not_removed_while_a_part_of_it_is_split() {
    let mut cluster = cluster_of(8, 2);
    let dir = mkdir(&mut cluster, Ino::ROOT, "dir");
    let texts: Vec<String> = (0..9).map(|number| format!("file{number}")).collect();
    let mut chunks = Vec::new();
    for text in &texts {
        let request = cluster.request(0, create_file(dir, name(text)));
        chunks.extend(sent(&cluster.input(0, request).outputs));
    }
    assert!(
        matches!(chunks[..], [PeerMessage::SplitChunk { .. }]),
        "{chunks:?}"
    );
    for text in &texts {
        let request = cluster.request(0, unlink(dir, text));
        let outputs = cluster.input(0, request).outputs;
        let is_done =
            |output: &Output| matches!(output, Output::Answer { result, .. } if result.is_ok());
        assert!(outputs.iter().any(is_done), "{outputs:?}");
    }
    let rmdir = Request::Rmdir(op::Rmdir {
        dir: Ino::ROOT,
        name: name("dir"),
    });
    let request = cluster.request(0, rmdir);
    let outputs = cluster.input(0, request).outputs;
    let is_removed = |output: &Output| matches!(output, Output::Answer { result: Ok(_), .. });
    assert!(!outputs.iter().any(is_removed), "{outputs:?}");
    let getattr = Request::GetAttr(op::GetAttr { ino: dir });
    let there = cluster.call(0, getattr);
    assert!(matches!(there, Ok(Reply::Inode(_))), "{there:?}");
}
