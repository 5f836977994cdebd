//! Files that are open while their names go, or move to another shard.

use crate::support::{Cluster, create_file, name, sent};
use pandofs_api::{Reply, Request, op};
use pandofs_placement::{DirPolicy, PartitionIndex, Settings};
use pandofs_shard::{Input, Output, Record};
use pandofs_types::limits::{MAX_MOVED_OPENS, SESSION_TIMEOUT, TICK_INTERVAL};
use pandofs_types::{Ino, SessionId, ShardId};

fn unlink(text: &str) -> Request {
    Request::Unlink(op::Unlink {
        dir: Ino::ROOT,
        name: name(text),
    })
}

/// An `open` that truncates is a record of its own. When the record that takes the last name was chosen
/// before it was applied, that one freed a file that a program had just been told to have open.
#[test]
fn a_file_that_is_being_opened_is_kept_when_its_name_goes() {
    for truncate in [true, false] {
        let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
        let ino = cluster.file("file");
        let open = Request::Open(op::Open {
            ino,
            access: 6,
            truncate,
            data: false,
        });
        let batch = vec![
            cluster.request_by(6, 0, open),
            cluster.request_by(7, 0, unlink("file")),
        ];
        let step = cluster.batch(0, batch);
        let answers = step.outputs.iter().filter(|output| {
            let Output::Answer { result, .. } = output else {
                return false;
            };
            assert!(result.is_ok(), "{result:?}");
            true
        });
        assert_eq!(answers.count(), 2);
        let Ok(Reply::Inode(inode)) = cluster.call(0, Request::GetAttr(op::GetAttr { ino })) else {
            panic!("it is gone, and somebody has it open");
        };
        assert_eq!(inode.attr.nlink, 0);

        let release = cluster.request_by(6, 0, Request::Release(op::Release { inos: vec![ino] }));
        cluster.input(0, release);
        let gone = cluster.call(0, Request::GetAttr(op::GetAttr { ino }));
        assert!(
            gone.is_err(),
            "nobody has it open, and it is there: {gone:?}"
        );
    }
}

/// The answer was lost, and the client asks again.
#[test]
fn a_file_that_is_opened_by_a_repeated_request_is_open_once() {
    for truncate in [false, true] {
        let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
        let ino = cluster.file("file");
        let open = Request::Open(op::Open {
            ino,
            access: 6,
            truncate,
            data: false,
        });
        let first = cluster.request_by(6, 0, open);
        let mut again = cluster.request_by(6, 0, Request::Sync(op::Sync));
        let (Input::Request { request, .. }, Input::Request { request: copy, .. }) =
            (&first, &mut again)
        else {
            panic!("they are requests");
        };
        copy.clone_from(request);
        for input in [first, again] {
            let step = cluster.input(0, input);
            assert!(
                step.outputs
                    .iter()
                    .any(|output| matches!(output, Output::Answer { result: Ok(_), .. }))
            );
        }
        cluster.call(0, unlink("file")).unwrap();
        let release = cluster.request_by(6, 0, Request::Release(op::Release { inos: vec![ino] }));
        cluster.input(0, release);
        let gone = cluster.call(0, Request::GetAttr(op::GetAttr { ino }));
        assert!(gone.is_err(), "it is closed, and it is there: {gone:?}");
    }
}

/// A record frees a file without a name after its last close. A client that had found it by its name before, and opened
/// it when the record was chosen and not applied yet, was told that it had it open, and it was freed.
#[test]
fn a_file_that_is_about_to_be_freed_is_not_opened_and_one_being_opened_not_freed() {
    for (truncate, opens_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
        let ino = cluster.file("file");
        let open = |truncate| {
            Request::Open(op::Open {
                ino,
                access: 6,
                truncate,
                data: false,
            })
        };
        let release = Request::Release(op::Release { inos: vec![ino] });
        let opened_before = cluster.request_by(6, 0, open(false));
        cluster.input(0, opened_before);
        cluster.call(0, unlink("file")).unwrap();

        let opens = cluster.request_by(7, 0, open(truncate));
        let Input::Request { ticket: asked, .. } = opens else {
            panic!("a request");
        };
        let closes = cluster.request_by(6, 0, release.clone());
        let batch = if opens_first {
            vec![opens, closes]
        } else {
            vec![closes, opens]
        };
        let mut answers = Vec::new();
        for output in cluster.batch(0, batch).outputs {
            if let Output::Answer { ticket, result, .. } = output
                && ticket == asked
            {
                answers.push(result.is_ok());
            }
        }
        let what = format!("truncate: {truncate}, opens first: {opens_first}");
        assert_eq!(answers, [opens_first], "{what}");
        let there = cluster
            .call(0, Request::GetAttr(op::GetAttr { ino }))
            .is_ok();
        assert_eq!(there, opens_first, "{what}");

        if there {
            let closes = cluster.request_by(7, 0, release);
            cluster.input(0, closes);
            // The obstacle to freeing it at once may be left to the tick.
            cluster.now += TICK_INTERVAL.as_nanos() as i64;
            cluster.input(0, Input::Tick);
            assert!(
                cluster
                    .call(0, Request::GetAttr(op::GetAttr { ino }))
                    .is_err(),
                "nobody has it open, and it is there: {what}"
            );
        }
    }
}

/// Four files in a directory that splits once, into two, when there is a fifth.
fn about_to_split() -> (Cluster, Vec<Ino>) {
    let settings = Settings {
        split_threshold: 4,
        max_partitions: Some(2),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(2, DirPolicy::default(), settings);
    let files = 0..4;
    let inos = files.map(|file| cluster.file(&format!("file {file}")));
    let inos = inos.collect();
    (cluster, inos)
}

/// The opens of a file go along with it in one message, which has a limit.
#[test]
fn a_partition_with_too_many_opens_splits_when_some_are_closed() {
    let (mut cluster, inos) = about_to_split();
    let opens: Vec<(Ino, u32)> = inos.iter().map(|&ino| (ino, 1)).collect();
    // Each session has all files open, so that whichever move, with them move more than may.
    let sessions = 100..=100 + MAX_MOVED_OPENS as u64;
    for session in sessions.clone() {
        let opens = opens.clone();
        let reopen = cluster.request_by(session, 0, Request::Reopen(op::Reopen { opens }));
        cluster.input(0, reopen);
    }
    let fifth = create_file(Ino::ROOT, name("file 4"));
    cluster.call(0, fifth).unwrap();
    let ticks = |cluster: &mut Cluster| {
        for _ in 0..100 {
            cluster.now += TICK_INTERVAL.as_nanos() as i64;
            for shard in 0..2 {
                let step = cluster.input(shard, Input::Tick);
                cluster.carry(step.outputs, &mut None);
            }
        }
        cluster.nodes[0].shard.status().splits
    };
    assert_eq!(ticks(&mut cluster), 0, "it waits");
    // Nobody has to wait for it.
    let more = create_file(Ino::ROOT, name("file 5"));
    cluster.call(0, more).unwrap();
    for session in sessions.skip(100) {
        let gone = Input::SessionGone {
            session: SessionId(session),
            ended: true,
        };
        let step = cluster.input(0, gone);
        cluster.carry(step.outputs, &mut None);
    }
    assert_eq!(ticks(&mut cluster), 1);
    let moved: Vec<_> = inos
        .iter()
        .filter(|&&ino| {
            cluster
                .call(0, Request::GetAttr(op::GetAttr { ino }))
                .is_err()
        })
        .collect();
    for &&ino in &moved {
        let release = Request::Release(op::Release { inos: vec![ino] });
        let unlinked = cluster.call(1, Request::GetAttr(op::GetAttr { ino }));
        assert!(unlinked.is_ok(), "{unlinked:?}");
        let release = cluster.request_by(100, 1, release);
        cluster.input(1, release);
    }
    let opens = cluster.nodes[1].shard.status().opens;
    assert_eq!(opens, moved.len() as u64, "the others have them open still");
}

/// A client tells a server that was started again what it has open. Files that moved to another one before it did were freed
/// there with their last names, as nobody had told that one.
#[test]
fn what_may_be_open_does_not_move_before_clients_have_told() {
    let (mut cluster, inos) = about_to_split();
    let opens: Vec<_> = inos.iter().map(|&ino| (ino, 1)).collect();
    let tells = Request::Reopen(op::Reopen { opens });
    let told = cluster.request_by(6, 0, tells.clone());
    cluster.input(0, told);
    cluster.restart(0);
    let fifth = create_file(Ino::ROOT, name("file 4"));
    cluster.call(0, fifth).unwrap();

    cluster.pass(SESSION_TIMEOUT / 2);
    assert_eq!(cluster.nodes[0].shard.status().splits, 0, "it waits");
    let told = cluster.request_by(6, 0, tells);
    cluster.input(0, told);
    cluster.pass(SESSION_TIMEOUT);
    assert_eq!(cluster.nodes[0].shard.status().splits, 1);

    let is_here = |cluster: &mut Cluster, shard, ino| {
        let attributes = cluster.call(shard, Request::GetAttr(op::GetAttr { ino }));
        attributes.is_ok()
    };
    let mut moved = 0;
    for (file, &ino) in inos.iter().enumerate() {
        let shard = u16::from(!is_here(&mut cluster, 0, ino));
        moved += shard;
        cluster
            .call(shard, unlink(&format!("file {file}")))
            .unwrap();
        assert!(is_here(&mut cluster, shard, ino), "it is open, and gone");
        let release = Request::Release(op::Release { inos: vec![ino] });
        let release = cluster.request_by(6, shard, release);
        cluster.input(shard, release);
        assert!(!is_here(&mut cluster, shard, ino), "it is closed, and here");
    }
    assert!(moved > 0);
}

/// Inodes that had come by a split since the start, with their opens, were held back like those from before: a new directory
/// had two partitions until its servers had run for a minute.
#[test]
fn what_came_since_the_start_moves_on() {
    let settings = Settings {
        split_threshold: 4,
        max_partitions: Some(4),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(4, DirPolicy::default(), settings);
    for shard in 0..4 {
        cluster.restart(shard);
    }
    let mut map = pandofs_placement::DirMap::single(ShardId(0));
    for file in 0..40 {
        let text = name(&format!("file {file}"));
        let (made, _) =
            cluster.call_by_name(&mut map, &text, &create_file(Ino::ROOT, text.clone()));
        assert!(made.is_ok(), "{made:?}");
    }
    cluster.pass(SESSION_TIMEOUT / 4);
    let partitions = cluster
        .nodes
        .iter()
        .map(|node| node.shard.status().partitions);
    assert_eq!(partitions.sum::<u64>(), 4);
}

/// As above: such a file may get a name that moves when all has been copied.
#[test]
fn what_may_be_open_does_not_move_with_a_name_that_came_late() {
    let settings = Settings {
        split_threshold: 4,
        max_partitions: Some(2),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(2, DirPolicy::default(), settings);
    let (start, end) = pandofs_placement::range(PartitionIndex(1), 1);
    let moves = |cluster: &Cluster, text: &String| {
        let position = cluster.map.hash_key.position(text.as_bytes());
        start <= position && position < end
    };
    let names = (0..).map(|file| format!("file {file}"));
    let (go, stay): (Vec<_>, Vec<_>) = names.take(30).partition(|text| moves(&cluster, text));
    let old = cluster.file(&stay[0]);
    let opened = cluster.request_by(
        6,
        0,
        Request::Reopen(op::Reopen {
            opens: vec![(old, 1)],
        }),
    );
    cluster.input(0, opened);
    cluster.restart(0);

    for text in &go[..3] {
        cluster.file(text);
    }
    let fifth = cluster.request(0, create_file(Ino::ROOT, name(&go[3])));
    let chunk = sent(&cluster.input(0, fifth).outputs);
    let chunk: Vec<_> = chunk.into_iter().map(Input::Peer).collect();
    assert!(!chunk.is_empty(), "it is copied");
    let done = sent(&cluster.batch(1, chunk).outputs);
    let rename = Request::Rename(op::Rename {
        dir: Ino::ROOT,
        name: name(&stay[0]),
        new_dir: Ino::ROOT,
        new_name: name(&go[4]),
        new_shard: ShardId(0),
        no_replace: true,
        whiteout: false,
    });
    assert!(cluster.call(0, rename).is_ok());
    let mut batch: Vec<_> = done.into_iter().map(Input::Peer).collect();
    batch.push(Input::Tick);
    let step = cluster.batch(0, batch);
    cluster.carry(step.outputs, &mut None);
    cluster.pass(SESSION_TIMEOUT / 2);
    let splits = |cluster: &Cluster| cluster.nodes[0].shard.status().splits;
    assert_eq!(splits(&cluster), 0, "it waits");
    cluster.pass(SESSION_TIMEOUT);
    assert_eq!(splits(&cluster), 1);
    assert!(
        cluster
            .call(1, Request::GetAttr(op::GetAttr { ino: old }))
            .is_ok()
    );
}

/// Opens are in memory alone. A split whose last step was proposed, and then too much was opened for one
/// message, was put off; the same record began the last step when it was replayed, and all that came after it had
/// another meaning than before the crash.
#[test]
fn a_last_step_that_comes_too_late_is_the_same_after_a_restart() {
    let (mut cluster, inos) = about_to_split();
    let opens: Vec<(Ino, u32)> = inos.iter().map(|&ino| (ino, 1)).collect();
    let fifth = cluster.request(0, create_file(Ino::ROOT, name("file 4")));
    let chunk = sent(&cluster.input(0, fifth).outputs);
    let chunk = chunk.into_iter().map(Input::Peer).collect();
    let done = sent(&cluster.batch(1, chunk).outputs);

    let mut batch: Vec<Input> = done.into_iter().map(Input::Peer).collect();
    for session in 100..=100 + MAX_MOVED_OPENS as u64 {
        let opens = opens.clone();
        batch.push(cluster.request_by(session, 0, Request::Reopen(op::Reopen { opens })));
    }
    let step = cluster.batch(0, batch);
    let handed = |record: &&Record| matches!(record, Record::SplitHand { .. });
    assert_eq!(step.records.iter().filter(handed).count(), 1);
    let undecided = |cluster: &Cluster| cluster.nodes[0].shard.status().undecided;
    let before = undecided(&cluster);
    let [stored, replayed] = cluster.stored_and_replayed(0);
    assert_eq!(stored, replayed);
    let refused = sent(&step.outputs);
    let recovered = cluster.restart(0);
    assert_eq!(before, undecided(&cluster));

    let refused = refused.into_iter().map(Input::Peer).collect();
    let outputs = cluster.batch(1, refused).outputs;
    cluster.carry(outputs, &mut None);
    cluster.carry(recovered.outputs, &mut None);
    let statuses = || cluster.nodes.iter().map(|node| node.shard.status());
    assert!(statuses().all(|status| status.undecided == 0));
    assert_eq!(cluster.nodes[0].shard.status().splits, 0);
}

/// A client tells a restarted server of all that it has open, wherever it believes it to be.
#[test]
fn of_what_is_told_again_only_what_is_here_is_counted() {
    let mut cluster = Cluster::new(2, DirPolicy::default(), Settings::default());
    let create = create_file(Ino::ROOT, name("file"));
    let Ok(Reply::Entry(entry)) = cluster.call(0, create) else {
        panic!("it is made");
    };
    let opens = vec![(entry.ino, 1)];
    for shard in [0, 1] {
        let opens = opens.clone();
        let reopen = cluster.request_by(6, shard, Request::Reopen(op::Reopen { opens }));
        cluster.input(shard, reopen);
    }
    let opens = cluster.nodes.iter().map(|node| node.shard.status().opens);
    assert_eq!(opens.collect::<Vec<_>>(), [1, 0]);
}

/// A server's clock may be set back before it restarts, and an inode's time of birth may be another server's.
#[test]
fn after_a_restart_no_old_file_is_taken_to_be_closed_whatever_the_clocks_say() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let create = |text| create_file(Ino::ROOT, name(text));
    let Ok(Reply::Entry(old)) = cluster.call(0, create("old")) else {
        panic!("it is made");
    };
    cluster.now -= 500;
    cluster.restart(0);
    let Ok(Reply::Entry(new)) = cluster.call(0, create("new")) else {
        panic!("it is made");
    };
    for text in ["old", "new"] {
        cluster.call(0, unlink(text)).unwrap();
    }
    // A client that has the old one open has the time to say so.
    let attributes =
        |cluster: &mut Cluster, ino| cluster.call(0, Request::GetAttr(op::GetAttr { ino }));
    assert!(attributes(&mut cluster, old.ino).is_ok());
    assert!(attributes(&mut cluster, new.ino).is_err());
}

/// A client that tells and closes at once after a restart may not be the only one.
#[test]
fn after_a_restart_a_close_frees_nothing_that_others_may_have_open() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let ino = cluster.file("file");
    for session in [6, 7] {
        let open = Request::Open(op::Open {
            ino,
            access: 6,
            truncate: false,
            data: false,
        });
        let open = cluster.request_by(session, 0, open);
        cluster.input(0, open);
    }
    cluster.call(0, unlink("file")).unwrap();
    cluster.restart(0);
    let tells = |cluster: &mut Cluster, session, request| {
        let request = cluster.request_by(session, 0, request);
        cluster.input(0, request);
    };
    let reopen = Request::Reopen(op::Reopen {
        opens: vec![(ino, 1)],
    });
    let release = Request::Release(op::Release { inos: vec![ino] });
    tells(&mut cluster, 6, reopen.clone());
    tells(&mut cluster, 6, release.clone());
    tells(&mut cluster, 7, reopen);
    cluster.pass(SESSION_TIMEOUT);
    let there = cluster.call(0, Request::GetAttr(op::GetAttr { ino }));
    assert!(there.is_ok(), "it is gone, and somebody has it open");
    tells(&mut cluster, 7, release);
    assert!(
        cluster
            .call(0, Request::GetAttr(op::GetAttr { ino }))
            .is_err()
    );
}

/// Were it passed on it could wait for a server that restarts, and then count against a later open of the same session.
#[test]
fn a_close_is_left_to_the_client_when_the_file_has_moved() {
    let (mut cluster, inos) = about_to_split();
    let opens: Vec<_> = inos.iter().map(|&ino| (ino, 1)).collect();
    let open = cluster.request_by(6, 0, Request::Reopen(op::Reopen { opens }));
    cluster.input(0, open);
    let fifth = create_file(Ino::ROOT, name("file 4"));
    cluster.call(0, fifth).unwrap();
    cluster.pass(SESSION_TIMEOUT);
    let moved: Vec<Ino> = inos
        .iter()
        .copied()
        .filter(|&ino| {
            let attributes = cluster.call(0, Request::GetAttr(op::GetAttr { ino }));
            attributes.is_err()
        })
        .collect();
    assert!(!moved.is_empty() && moved.len() < inos.len(), "{moved:?}");
    let opens = |cluster: &Cluster, shard: usize| cluster.nodes[shard].shard.status().opens;
    assert_eq!(opens(&cluster, 1), moved.len() as u64);

    let release = Request::Release(op::Release { inos });
    let release = cluster.request_by(6, 0, release);
    let step = cluster.input(0, release);
    let left: Vec<_> = moved.iter().map(|&ino| (ino, ShardId(1))).collect();
    let [Output::Answer { result, .. }] = &step.outputs[..] else {
        panic!("{:?}", step.outputs);
    };
    assert_eq!(*result, Ok(Reply::NotClosed(left)));
    assert_eq!(opens(&cluster, 0), 0);

    let release = cluster.request_by(6, 1, Request::Release(op::Release { inos: moved }));
    let step = cluster.input(1, release);
    assert!(matches!(
        &step.outputs[..],
        [Output::Answer {
            result: Ok(Reply::Done),
            ..
        }]
    ));
    assert_eq!(opens(&cluster, 1), 0);
}

/// The first of two records is applied while what the second one frees is still there.
#[test]
fn what_the_second_of_two_records_frees_is_not_opened_after_the_first() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let ino = cluster.file("file");
    let open = Request::Open(op::Open {
        ino,
        access: 6,
        truncate: false,
        data: false,
    });
    let batch = vec![
        cluster.request_by(6, 0, create_file(Ino::ROOT, name("other"))),
        cluster.request_by(7, 0, unlink("file")),
        cluster.request_by(8, 0, open),
    ];
    let opened = cluster.last_ticket();
    let step = cluster.batch(0, batch);
    let is_open = step.outputs.iter().find_map(|output| match output {
        Output::Answer { ticket, result, .. } if *ticket == opened => Some(result.is_ok()),
        _ => None,
    });
    let is_there = cluster
        .call(0, Request::GetAttr(op::GetAttr { ino }))
        .is_ok();
    assert_eq!(is_open, Some(is_there));
}

/// The answer to the first was lost.
#[test]
fn what_is_told_again_twice_is_counted_once() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let ino = cluster.file("file");
    let told = Request::Reopen(op::Reopen {
        opens: vec![(ino, 1)],
    });
    for _ in 0..2 {
        let again = cluster.request_by(6, 0, told.clone());
        cluster.input(0, again);
    }
    cluster.call(0, unlink("file")).unwrap();
    assert!(
        cluster
            .call(0, Request::GetAttr(op::GetAttr { ino }))
            .is_ok()
    );
    let release = cluster.request_by(6, 0, Request::Release(op::Release { inos: vec![ino] }));
    cluster.input(0, release);
    let gone = cluster.call(0, Request::GetAttr(op::GetAttr { ino }));
    assert!(gone.is_err(), "nobody has it open: {gone:?}");
}
