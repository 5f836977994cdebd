//! A directory grows over several shards while it is in use.

use crate::support::{Cluster, create_file, link, name};
use pandofs_api::{
    CommitMessage, PeerMessage, Refusal, Reply, Request, SplitChunk, SplitId, Step, XattrMode, op,
};
use pandofs_namespace::split::size;
use pandofs_placement::{DirMap, DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::limits::{
    RESEND_INTERVAL, SESSION_TIMEOUT, SPLIT_CHUNK_BYTES, SPLIT_DELTA_ENTRIES,
};
use pandofs_types::{FsError, Ino, Position, ShardId};
use std::collections::{BTreeMap, VecDeque};

const FILES: usize = 400;

fn cluster() -> Cluster {
    let settings = Settings {
        split_threshold: 8,
        max_partitions: Some(16),
        ..Settings::default()
    };
    Cluster::new(4, DirPolicy::default(), settings)
}

fn create(text: &str) -> Request {
    create_file(Ino::ROOT, name(text))
}

fn lookup(text: &str) -> Request {
    Request::Lookup(op::Lookup {
        dir: Ino::ROOT,
        name: name(text),
    })
}

/// All entries, by position, from whichever shard serves it.
fn list(cluster: &mut Cluster, map: &mut DirMap) -> Vec<(String, Ino)> {
    let mut found = Vec::new();
    let mut from = Position(0);
    while from < Position::END {
        let shard = map.shard_of(from).0;
        let request = Request::ReadDir(op::ReadDir {
            dir: Ino::ROOT,
            from,
            plus: true,
            max_entries: 7,
            max_bytes: 4_096,
        });
        match cluster.call(shard, request) {
            Ok(Reply::Entries(page)) => {
                map.merge(&page.map);
                for entry in page.entries {
                    let text = String::from_utf8(entry.name.as_bytes().to_vec()).unwrap();
                    found.push((text, entry.ino));
                }
                from = page.next;
            }
            Err(Refusal::Misdirected(Some(known))) => assert!(map.merge(&known)),
            other => panic!("{other:?}"),
        }
    }
    found
}

#[test]
fn entries_and_their_inodes_spread_and_are_all_found() {
    let mut cluster = cluster();
    let mut map = DirMap::single(ShardId(0));
    let mut made = BTreeMap::new();
    for number in 0..FILES {
        let text = format!("file{number}");
        let (reply, _) = cluster.call_by_name(&mut map, &name(&text), &create(&text));
        let Ok(Reply::Entry(entry)) = reply else {
            panic!("{reply:?}")
        };
        made.insert(text, entry.ino);
    }
    let status: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| node.shard.status())
        .collect();
    assert_eq!(status.iter().map(|s| s.entries).sum::<u64>(), FILES as u64);
    assert_eq!(
        status.iter().map(|s| s.inodes).sum::<u64>(),
        FILES as u64 + 1
    );
    assert_eq!(status.iter().map(|s| s.partitions).sum::<u64>(), 16);
    for shard in &status {
        assert!(shard.entries > FILES as u64 / 8, "{status:?}");
        assert_eq!(shard.undecided, 0);
    }

    // A client that knows nothing needs one wrong guess, once the home knows.
    for (text, ino) in &made {
        let mut fresh = DirMap::single(ShardId(0));
        let (reply, wrong) = cluster.call_by_name(&mut fresh, &name(text), &lookup(text));
        let Ok(Reply::Entry(entry)) = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(entry.ino, *ino);
        assert!(entry.inode.is_some(), "the inode has gone along");
        assert!(wrong <= 1, "{wrong} wrong guesses");
    }

    // A client with the number alone asks the birth shard and follows.
    for ino in made.values() {
        let mut at = ino.birth_shard();
        let mut hops = 0;
        loop {
            match cluster.call(at.0, Request::GetAttr(op::GetAttr { ino: *ino })) {
                Ok(Reply::Inode(inode)) => break assert_eq!(inode.attr.ino, *ino),
                Err(Refusal::Moved { shard, .. }) => at = shard,
                other => panic!("{other:?}"),
            }
            hops += 1;
            assert!(hops <= 2, "inode {ino} is {hops} hops away");
        }
    }

    let mut listed = list(&mut cluster, &mut DirMap::single(ShardId(0)));
    listed.sort();
    assert_eq!(listed, made.clone().into_iter().collect::<Vec<_>>());

    for text in made.keys() {
        let request = Request::Unlink(op::Unlink {
            dir: Ino::ROOT,
            name: name(text),
        });
        let (reply, _) = cluster.call_by_name(&mut map, &name(text), &request);
        assert!(matches!(reply, Ok(Reply::Removed { .. })), "{reply:?}");
        let (reply, _) = cluster.call_by_name(&mut map, &name(text), &lookup(text));
        assert_eq!(reply, Err(Refusal::Fs(FsError::NotFound)));
    }
    // Forwarding records go with what they lead to.
    let status: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| node.shard.status())
        .collect();
    assert_eq!(status.iter().map(|s| s.inodes).sum::<u64>(), 1);
    assert_eq!(status.iter().map(|s| s.reclaiming).sum::<u64>(), 0);
    // The directory is as it was in the beginning, and nobody else remembers it.
    assert_eq!(status.iter().map(|s| s.partitions).sum::<u64>(), 1);
    for shard in 1..4 {
        let reply = cluster.call(shard, Request::DirPart(op::DirPart { dir: Ino::ROOT }));
        assert_eq!(reply, Err(Refusal::Misdirected(None)));
    }

    // And grows again, for a client that remembers all of it as well.
    let again: Vec<String> = (0..FILES).map(|number| format!("again{number}")).collect();
    for text in &again {
        let (reply, _) = cluster.call_by_name(&mut map, &name(text), &create(text));
        assert!(matches!(reply, Ok(Reply::Entry(_))), "{reply:?}");
    }
    let mut listed = list(&mut cluster, &mut DirMap::single(ShardId(0)));
    listed.sort();
    let mut expected = again;
    expected.sort();
    let names: Vec<String> = listed.into_iter().map(|(text, _)| text).collect();
    assert_eq!(names, expected);
}

/// The last name but one of a partition goes; at each message of the merge that follows one shard is killed.
#[test]
fn a_crash_at_any_message_of_a_merge_leaves_one_owner() {
    let mut last_steps = 0;
    for crashed in 0..4u16 {
        for at in 0..10 {
            let mut cluster = cluster();
            let mut map = DirMap::single(ShardId(0));
            let texts = moving_names(&cluster, 9);
            for text in &texts {
                let (reply, _) = cluster.call_by_name(&mut map, &name(text), &create(text));
                made(reply);
            }
            let partitions = |cluster: &Cluster| -> u64 {
                let all = cluster.nodes.iter().map(|node| node.shard.status());
                all.map(|status| status.partitions).sum()
            };
            assert!(partitions(&cluster) > 1);
            let (last, rest) = texts.split_last().unwrap();
            let (kept, rest) = rest.split_last().unwrap();
            for text in rest {
                let (reply, _) =
                    cluster.call_by_name(&mut map, &name(text), &unlink(Ino::ROOT, text));
                assert!(matches!(reply, Ok(Reply::Removed { .. })), "{reply:?}");
            }
            let (reply, _) = cluster.call_by_name(&mut map, &name(last), &lookup(last));
            made(reply);
            let shard = map.shard_of(cluster.map.hash_key.position(last.as_bytes()));
            let request = cluster.request(shard.0, unlink(Ino::ROOT, last));
            let mut outputs = cluster.input(shard.0, request).outputs;
            for _ in 0..at {
                let Some(message) = crate::support::sent(&outputs).into_iter().next() else {
                    break;
                };
                let to = crate::support::receiver(&message);
                last_steps += u32::from(matches!(&message, PeerMessage::Commit {
                    message: CommitMessage::Do { step: Step::Adopt(adopt), .. },
                    ..
                } if adopt.back));
                outputs = cluster.input(to.0, Input::Peer(message)).outputs;
            }
            let recovered = cluster.restart(crashed).outputs;
            cluster.carry(recovered, &mut None);
            for _ in 0..6 {
                cluster.now += 1_000_000_000;
                for shard in 0..4 {
                    let outputs = cluster.input(shard, Input::Tick).outputs;
                    cluster.carry(outputs, &mut None);
                }
            }
            let listed = list(&mut cluster, &mut DirMap::single(ShardId(0)));
            let names: Vec<&str> = listed.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(names, [kept], "crash of {crashed} at {at}");
            let (reply, _) = cluster.call_by_name(&mut map, &name(kept), &lookup(kept));
            made(reply);
            let status: Vec<_> = cluster
                .nodes
                .iter()
                .map(|node| node.shard.status())
                .collect();
            assert_eq!(status.iter().map(|s| s.entries).sum::<u64>(), 1);
            assert_eq!(status.iter().map(|s| s.inodes).sum::<u64>(), 2);
            assert_eq!(status.iter().map(|s| s.undecided).sum::<u64>(), 0);
        }
    }
    assert!(last_steps > 0, "no merge came to its last step");
}

#[test]
fn a_crash_at_any_message_of_a_split_leaves_one_owner() {
    // The split of the first partition takes a few messages; crash source or target before each.
    for crashed in 0..4u16 {
        for at in 0..8 {
            let mut cluster = cluster();
            let mut map = DirMap::single(ShardId(0));
            for number in 0..8 {
                let text = format!("file{number}");
                cluster
                    .call_by_name(&mut map, &name(&text), &create(&text))
                    .0
                    .unwrap();
            }
            let request = cluster.request(0, create("one more"));
            let mut outputs = cluster.input(0, request).outputs;
            for _ in 0..at {
                let Some(message) = crate::support::sent(&outputs).into_iter().next() else {
                    break;
                };
                let to = crate::support::receiver(&message);
                outputs = cluster.input(to.0, Input::Peer(message)).outputs;
            }
            let recovered = cluster.restart(crashed).outputs;
            cluster.carry(recovered, &mut None);
            // Files that may be open on the one that crashed do not move before clients have had the time to say so.
            cluster.pass(SESSION_TIMEOUT);
            let mut listed: Vec<_> = list(&mut cluster, &mut map)
                .into_iter()
                .map(|f| f.0)
                .collect();
            listed.sort();
            let mut expected: Vec<_> = (0..8).map(|number| format!("file{number}")).collect();
            expected.push("one more".to_string());
            assert_eq!(listed, expected, "crash of {crashed} at {at}");
            let status: Vec<_> = cluster
                .nodes
                .iter()
                .map(|node| node.shard.status())
                .collect();
            assert_eq!(status.iter().map(|s| s.entries).sum::<u64>(), 9);
            assert_eq!(status.iter().map(|s| s.inodes).sum::<u64>(), 10);
            assert_eq!(status.iter().map(|s| s.undecided).sum::<u64>(), 0);
            assert!(
                status.iter().map(|s| s.partitions).sum::<u64>() >= 2,
                "it splits in the end"
            );
        }
    }
}

/// Names of the root in the half that splits off first.
pub(crate) fn moving_names(cluster: &Cluster, count: usize) -> Vec<String> {
    let moves = |text: &String| {
        let position = cluster.map.hash_key.position(text.as_bytes());
        position.radix_index(1) == 1
    };
    let all = (0..).map(|number| format!("file{number}"));
    all.filter(moves).take(count).collect()
}

pub(crate) fn made(reply: Result<Reply, Refusal>) -> Ino {
    match reply {
        Ok(Reply::Entry(entry)) => entry.ino,
        other => panic!("{other:?}"),
    }
}

fn unlink(dir: Ino, text: &str) -> Request {
    Request::Unlink(op::Unlink {
        dir,
        name: name(text),
    })
}

/// The root has split, and the file is where its only name is.
fn assert_gone_along(cluster: &mut Cluster, text: &str, ino: Ino) {
    let status = cluster.nodes[0].shard.status();
    assert_eq!(status.splits, 1, "{status:?}");
    let mut map = DirMap::single(ShardId(0));
    let (reply, _) = cluster.call_by_name(&mut map, &name(text), &lookup(text));
    let Ok(Reply::Entry(entry)) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(entry.ino, ino);
    let reply = cluster.call(entry.shard.0, Request::GetAttr(op::GetAttr { ino }));
    let Ok(Reply::Inode(inode)) = reply else {
        panic!("{ino} is lost: {reply:?}");
    };
    assert_eq!(inode.attr.nlink, 1);
}

/// A file with two names stays where it is; when it has lost one of them before the split ends it goes
/// along, although it was copied without its inode.
#[test]
fn a_file_that_loses_its_other_name_during_a_split_goes_along() {
    let mut cluster = cluster();
    let texts = moving_names(&cluster, 9);
    for text in &texts[..7] {
        cluster.call(0, create(text)).unwrap();
    }
    let ino = made(cluster.call(0, lookup(&texts[0])));
    // Its other name is in the half that moves, too: both are copied without the inode.
    made(cluster.call(0, link(Ino::ROOT, &texts[7], ino)));

    // One more name begins the split; what it sends is held back.
    let begins = cluster.request(0, create(&texts[8]));
    let mut held = cluster.input(0, begins).outputs;
    let removal = cluster.request(0, unlink(Ino::ROOT, &texts[7]));
    held.extend(cluster.input(0, removal).outputs);
    cluster.carry(held, &mut None);
    assert_gone_along(&mut cluster, &texts[0], ino);
}

/// Once the last step has begun the file keeps its other name until the end: what goes along has been
/// said by then.
#[test]
fn a_file_that_stays_keeps_its_names_during_the_last_step_of_a_split() {
    let mut cluster = cluster();
    let texts = moving_names(&cluster, 9);
    let mkdir = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("elsewhere"),
        mode: 0o755,
        umask: 0,
    });
    let elsewhere = made(cluster.call(0, mkdir));
    assert_eq!(elsewhere.birth_shard(), ShardId(0));
    for text in &texts[..7] {
        cluster.call(0, create(text)).unwrap();
    }
    let ino = made(cluster.call(0, lookup(&texts[0])));
    made(cluster.call(0, link(elsewhere, "other", ino)));

    let begins = cluster.request(0, create(&texts[7]));
    let mut outputs = cluster.input(0, begins).outputs;
    // Until the target is asked to take over.
    let is_last = |output: &Output| match output {
        Output::Send {
            message: PeerMessage::Commit { message, .. },
            ..
        } => {
            matches!(message, CommitMessage::Do { .. })
        }
        _ => false,
    };
    while !outputs.iter().any(is_last) {
        let sent = outputs.iter().find_map(|output| match output {
            Output::Send { to, message, .. } => Some((*to, message.clone())),
            _ => None,
        });
        let (to, message) = sent.expect("the split goes on");
        outputs = cluster.input(to.0, Input::Peer(message)).outputs;
    }
    let removal = cluster.request(0, unlink(elsewhere, "other"));
    let answered = cluster.input(0, removal).outputs;
    assert!(answered.is_empty(), "{answered:?}");
    cluster.carry(outputs, &mut None);
    let inode = cluster.call(0, Request::GetAttr(op::GetAttr { ino }));
    assert!(
        matches!(&inode, Ok(Reply::Inode(inode)) if inode.attr.nlink == 1),
        "it stayed and lost the other name: {inode:?}"
    );
    assert_eq!(cluster.nodes[0].shard.status().splits, 1);
}

/// Each new name of a file changes its inode, which stays: its other names need not be copied again.
#[test]
fn a_split_ends_while_a_file_with_many_names_gets_more() {
    const NAMES: usize = 2 * SPLIT_DELTA_ENTRIES;
    let settings = Settings {
        split_threshold: NAMES as u32,
        max_partitions: Some(2),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(2, DirPolicy::default(), settings);
    let mkdir = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("elsewhere"),
        mode: 0o755,
        umask: 0o022,
    });
    let elsewhere = made(cluster.call(0, mkdir));
    let texts = moving_names(&cluster, NAMES);
    let ino = made(cluster.call(0, create(&texts[0])));
    let mut queue = VecDeque::new();
    for text in &texts[1..] {
        let input = cluster.request(0, link(Ino::ROOT, text, ino));
        queue.extend(cluster.input(0, input).outputs);
    }
    let mut links = NAMES as u32;
    let mut sent = 0;
    while let Some(output) = queue.pop_front() {
        let Output::Send { to, message, .. } = output else {
            continue;
        };
        if let PeerMessage::SplitChunk { .. } = &message {
            sent += 1;
            assert!(sent < 10, "the names are copied again and again");
            let text = format!("another {sent}");
            let input = cluster.request(0, link(elsewhere, &text, ino));
            queue.extend(cluster.input(0, input).outputs);
            links += 1;
        }
        queue.extend(cluster.input(to.0, Input::Peer(message)).outputs);
    }
    assert!(sent > 0);
    assert_eq!(cluster.nodes[0].shard.status().splits, 1);
    let inode = cluster.call(0, Request::GetAttr(op::GetAttr { ino }));
    assert!(
        matches!(&inode, Ok(Reply::Inode(inode)) if inode.attr.nlink == links),
        "{inode:?}"
    );
}

/// Chunks among outputs: each with whether it waits for what was appended before it.
fn chunks(outputs: &[Output]) -> Vec<(bool, SplitChunk)> {
    let chunk = |output: &Output| match output {
        Output::Send {
            message: PeerMessage::SplitChunk { chunk, .. },
            durable,
            ..
        } => Some((*durable, chunk.clone())),
        _ => None,
    };
    outputs.iter().filter_map(chunk).collect()
}

/// Were a split's number lost with the source's power while the target has chunks of it, the next split
/// would have it again.
#[test]
fn a_split_is_on_disk_before_its_first_chunk_leaves() {
    let mut cluster = cluster();
    let mut begun = None;
    for text in moving_names(&cluster, 20) {
        let input = cluster.request(0, create(&text));
        let outputs = cluster.input(0, input).outputs;
        begun = begun.or(chunks(&outputs).pop());
    }
    let (durable, chunk) = begun.expect("it splits");
    assert_eq!((durable, chunk.number), (true, 0));
    // Also when it is sent again.
    cluster.now += RESEND_INTERVAL.as_nanos() as i64 + 1;
    cluster.input(0, Input::Tick);
    cluster.now += RESEND_INTERVAL.as_nanos() as i64 + 1;
    let again = chunks(&cluster.input(0, Input::Tick).outputs);
    assert_eq!(again, [(true, chunk)]);
}

#[test]
fn a_chunk_of_another_directory_with_the_same_number_is_not_taken() {
    let mut cluster = cluster();
    let (from, to) = (ShardId(1), ShardId(0));
    let mut stage = |dir, number| {
        let chunk = SplitChunk {
            split: SplitId {
                source: from,
                sequence: 7,
            },
            dir: Ino(dir),
            number,
            items: Vec::new(),
            gone: Vec::new(),
        };
        let message = PeerMessage::SplitChunk { from, to, chunk };
        let step = cluster.input(to.0, Input::Peer(message));
        match crate::support::sent(&step.outputs).pop() {
            Some(PeerMessage::SplitChunkDone { accepted, .. }) => accepted,
            other => panic!("{other:?}"),
        }
    };
    assert!(stage(100, 0) && stage(100, 0), "a repetition is taken");
    assert!(!stage(101, 0));
    assert!(stage(100, 1));
}

/// Changes made while a range was copied go along in chunks that fit into a frame, however large the
/// attributes are that files got meanwhile.
#[test]
fn changes_during_a_split_are_sent_in_chunks_that_fit() {
    const CHANGED: usize = 3 * SPLIT_DELTA_ENTRIES;
    let settings = Settings {
        split_threshold: CHANGED as u32,
        max_partitions: Some(2),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(2, DirPolicy::default(), settings);
    let texts = moving_names(&cluster, CHANGED + 1);
    let mut inos = Vec::new();
    let mut outputs = Vec::new();
    for text in &texts {
        let input = cluster.request(0, create(text));
        let step = cluster.input(0, input);
        for output in step.outputs {
            match output {
                Output::Answer { result, .. } => inos.push(made(result)),
                other => outputs.push(other),
            }
        }
    }
    assert_eq!(chunks(&outputs).len(), 1, "the range is being copied");
    for &ino in &inos {
        let value = vec![7; 60_000];
        let (attribute, mode) = (b"user.large".to_vec(), XattrMode::Either);
        let request = Request::SetXattr(op::SetXattr {
            ino,
            name: attribute,
            value,
            mode,
        });
        let input = cluster.request(0, request);
        outputs.extend(cluster.input(0, input).outputs);
    }
    let mut queue: VecDeque<Output> = outputs.into();
    let mut sent = 0;
    while let Some(output) = queue.pop_front() {
        let Output::Send { to, message, .. } = output else {
            continue;
        };
        if let PeerMessage::SplitChunk { chunk, .. } = &message {
            let bytes: usize = chunk.items.iter().map(size).sum();
            let largest = chunk.items.iter().map(size).max().unwrap_or(0);
            assert!(bytes < SPLIT_CHUNK_BYTES + largest, "{bytes} bytes");
            sent += 1;
        }
        queue.extend(cluster.input(to.0, Input::Peer(message)).outputs);
    }
    assert!(sent > 4, "{sent} chunks");
    assert_eq!(cluster.nodes[0].shard.status().splits, 1);
    let mut map = DirMap::single(ShardId(0));
    for (text, ino) in texts.iter().zip(inos) {
        let (reply, _) = cluster.call_by_name(&mut map, &name(text), &lookup(text));
        assert_eq!(made(reply), ino);
        let shard = map.shard_of(cluster.map.hash_key.position(text.as_bytes()));
        let attribute = b"user.large".to_vec();
        let request = Request::GetXattr(op::GetXattr {
            ino,
            name: attribute,
        });
        let reply = cluster.call(shard.0, request);
        let is_there = matches!(&reply, Ok(Reply::Value(value)) if value.len() == 60_000);
        assert!(is_there, "{text}: {reply:?}");
    }
}
