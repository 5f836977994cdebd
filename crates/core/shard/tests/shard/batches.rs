//! Batches of operations that were executed under grants.

use crate::grants::{
    HOLDER, OTHER, answer, ask, batch, batch_reply, chmod, cluster, cluster_of, get, give_up,
    granted, has_none, in_force, later, lookup, made, mkdir, numbers, rename, takes, unlink,
};
use crate::support::{Cluster, create_file, name};
use pandofs_api::op::{self, EarlyOperation};
use pandofs_api::{FileBody, Refusal, Reply, Request};
use pandofs_namespace::keys;
use pandofs_placement::{FilePolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_storage::store::KvRead;
use pandofs_types::limits::{LEASE, MAX_BATCH_OPERATIONS, MAX_TIME_AHEAD};
use pandofs_types::{FsError, Ino, LeaseKey, SessionId, ShardId, Time};

fn write(ino: Ino, data: &[u8]) -> Request {
    Request::WriteInline(op::WriteInline {
        ino,
        offset: 0,
        data: data.to_vec(),
    })
}

fn rmdir(dir: Ino, text: &str) -> Request {
    Request::Rmdir(op::Rmdir {
        dir,
        name: name(text),
    })
}

fn send(cluster: &mut Cluster, operations: Vec<(Request, Option<Ino>)>) -> Request {
    Request::Batch(batch(cluster, operations))
}

fn is_replayed(cluster: &Cluster) {
    let [stored, replayed] = cluster.stored_and_replayed(0);
    assert_eq!(stored, replayed);
}

#[test]
fn a_batch_is_executed_in_order_and_answered_once() {
    let (mut cluster, dir) = cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    let grant = granted(&mut cluster, HOLDER, dir).expect("a grant");
    let (sub, file, other, gone) = (number(), number(), number(), number());
    let operations = vec![
        (mkdir(dir, "s"), Some(sub)),
        (create_file(sub, name("f")), Some(file)),
        (rename(sub, "f", "g"), None),
        (create_file(sub, name("f")), Some(other)),
        (create_file(sub, name("h")), Some(gone)),
        (unlink(sub, "h"), None),
        (chmod(file, 0o600), None),
        (write(file, b"sap"), None),
    ];
    let request = send(&mut cluster, operations);
    let input = cluster.request_by(HOLDER, 0, request);
    let step = cluster.input(0, input.clone());
    assert_eq!(step.records.len(), 1);
    let reply = batch_reply(
        answer(&step)
            .expect("it waits for nobody")
            .expect("it is done"),
    );
    assert_eq!((reply.done, &reply.refused), (8, &None));
    assert_eq!(reply.incarnation, Some(grant.incarnation));
    let again = cluster.input(0, input.clone());
    assert_eq!(again.records, []);
    let [
        Output::Answer {
            result,
            durable: true,
            ..
        },
    ] = &again.outputs[..]
    else {
        panic!("{again:?}");
    };
    assert_eq!(*result, Ok(Reply::Batch(Box::new(reply.clone()))));

    let Reply::Entry(found) = get(&mut cluster, HOLDER, lookup(sub, "g")) else {
        panic!("it is no entry");
    };
    let attr = found.inode.expect("it is here").attr;
    assert_eq!((attr.ino, attr.mode & 0o777, attr.size), (file, 0o600, 3));
    assert_eq!(made(get(&mut cluster, HOLDER, lookup(sub, "f"))), other);
    let read = Request::ReadInline(op::ReadInline { ino: file });
    let Reply::Inode(inode) = get(&mut cluster, HOLDER, read) else {
        panic!("it is no inode");
    };
    assert!(matches!(inode.body, FileBody::Inline { data, .. } if data == b"sap"));
    let lost = Request::GetAttr(op::GetAttr { ino: gone });
    let lost = ask(&mut cluster, HOLDER, lost);
    assert_eq!(answer(&lost), Some(Err(FsError::Stale.into())));
    assert_eq!(cluster.nodes[0].shard.status().reclaiming, 0);
    is_replayed(&cluster);

    // After a restart it is the answer of then, but for the grants.
    cluster.restart(0);
    let again = cluster.input(0, input);
    let reply = pandofs_api::BatchReply {
        incarnation: None,
        ..reply
    };
    let reply = Reply::Batch(Box::new(reply));
    assert_eq!(answer(&again), Some(Ok(reply)));
}

#[test]
fn what_is_refused_ends_a_batch_and_leaves_nothing() {
    let (mut cluster, dir) = cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    let (first, sub, file) = (number(), number(), number());
    let request = send(
        &mut cluster,
        vec![
            (create_file(dir, name("f")), Some(first)),
            (mkdir(dir, "f"), Some(sub)),
            (create_file(dir, name("g")), Some(file)),
        ],
    );
    let reply = batch_reply(get(&mut cluster, HOLDER, request));
    assert_eq!(
        (reply.done, reply.refused),
        (1, Some(FsError::Exists.into()))
    );
    let missing = ask(&mut cluster, HOLDER, lookup(dir, "g"));
    assert_eq!(answer(&missing), Some(Err(FsError::NotFound.into())));
    is_replayed(&cluster);
    // Its number was not used, and is good for what the session asks for next.
    let request = send(&mut cluster, vec![(mkdir(dir, "s"), Some(sub))]);
    assert_eq!(batch_reply(get(&mut cluster, HOLDER, request)).done, 1);
}

/// Where it goes the directory has counted by then.
#[test]
fn a_file_that_goes_to_another_shard_is_refused_and_leaves_nothing() {
    let settings = Settings {
        file_policy: FilePolicy::Ddg { file_width: 1 },
        ..Settings::default()
    };
    let (mut cluster, dir) = cluster_of(2, settings);
    let mut number = numbers(&mut cluster, HOLDER);
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    let parts = |cluster: &Cluster| {
        let store = &cluster.nodes[0].store;
        store.get(&keys::parts(ShardId(0), dir)).unwrap()
    };
    for text in ('a'..='z').map(String::from) {
        let before = parts(&cluster);
        let mut early = batch(
            &mut cluster,
            vec![(create_file(dir, name(&text)), Some(number()))],
        );
        early.early[0].random = u64::from(text.as_bytes()[0]);
        let reply = batch_reply(get(&mut cluster, HOLDER, Request::Batch(early)));
        if reply.refused.is_some() {
            assert_eq!((reply.done, reply.refused), (0, Some(Refusal::TryAgain)));
            assert_eq!(parts(&cluster), before);
            return;
        }
    }
    panic!("all files are here");
}

#[test]
fn numbers_of_others_and_used_ones_are_refused() {
    let (mut cluster, dir) = cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    let mut of_other = numbers(&mut cluster, OTHER);
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    let (before, used) = (number(), number());
    let make = |cluster: &mut Cluster, text: &str, ino| {
        let request = send(cluster, vec![(create_file(dir, name(text)), Some(ino))]);
        batch_reply(get(cluster, HOLDER, request))
    };
    assert_eq!(make(&mut cluster, "a", used).done, 1);
    for (text, ino) in [
        ("b", used),
        ("c", before),
        ("d", of_other()),
        ("e", dir),
        ("f", Ino::new(ShardId(0), 1 << 40)),
    ] {
        let reply = make(&mut cluster, text, ino);
        let is_malformed = matches!(reply.refused, Some(Refusal::Malformed(_)));
        assert!(reply.done == 0 && is_malformed, "{text}: {reply:?}");
    }
    assert_eq!(make(&mut cluster, "g", number()).done, 1);
    is_replayed(&cluster);
}

/// The server's clock was set back after the session had gone by it.
#[test]
fn a_time_too_far_ahead_is_brought_back() {
    let (mut cluster, dir) = cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    let file = number();
    let mut early = batch(
        &mut cluster,
        vec![(create_file(dir, name("f")), Some(file))],
    );
    early.early[0].time = Time(cluster.now + 2 * MAX_TIME_AHEAD.as_nanos() as i64);
    let before = cluster.now;
    let reply = get(&mut cluster, HOLDER, Request::Batch(early));
    assert_eq!(batch_reply(reply).done, 1);
    let stat = Request::GetAttr(op::GetAttr { ino: file });
    let Reply::Inode(inode) = get(&mut cluster, HOLDER, stat) else {
        panic!("the file is there");
    };
    let ahead = inode.attr.mtime.0 - MAX_TIME_AHEAD.as_nanos() as i64;
    assert!((before..=cluster.now).contains(&ahead));
    is_replayed(&cluster);
}

#[test]
fn a_batch_that_no_client_makes_is_refused() {
    let (mut cluster, dir) = cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    let file = number();
    let good = batch(
        &mut cluster,
        vec![(create_file(dir, name("f")), Some(file))],
    );
    let mut wrong = vec![good.clone(); 6];
    wrong[0].early.clear();
    wrong[1].early = vec![good.early[0].clone(); MAX_BATCH_OPERATIONS + 1];
    wrong[2].early[0].caller = 1;
    wrong[3].early[0].ino = Some(Ino::new(ShardId(1), 1));
    wrong[4].early[0].ino = None;
    let mut whiteout = rename(dir, "f", "g");
    if let Request::Rename(rename) = &mut whiteout {
        rename.whiteout = true;
    }
    wrong[5].early[0].ino = None;
    wrong[5].early[0].operation = EarlyOperation::of(&whiteout).expect("a rename");
    for batch in wrong {
        let step = ask(&mut cluster, HOLDER, Request::Batch(batch));
        let answer = answer(&step);
        assert!(
            step.records.is_empty() && matches!(answer, Some(Err(Refusal::Malformed(_)))),
            "{answer:?}"
        );
    }
    let reply = batch_reply(get(&mut cluster, HOLDER, Request::Batch(good)));
    assert_eq!(
        (reply.done, reply.incarnation),
        (1, Some(in_force(&mut cluster, 0))),
        "it renews the grants"
    );
}

#[test]
fn directories_that_are_made_in_a_batch_are_granted() {
    let (mut cluster, dir) = cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    let (sub, gone) = (number(), number());
    let request = send(
        &mut cluster,
        vec![
            (mkdir(dir, "s"), Some(sub)),
            (mkdir(dir, "t"), Some(gone)),
            (rmdir(dir, "t"), None),
        ],
    );
    assert_eq!(batch_reply(get(&mut cluster, HOLDER, request)).done, 3);
    assert_eq!(granted(&mut cluster, OTHER, sub), None);
    let step = ask(&mut cluster, OTHER, lookup(sub, "f"));
    give_up(&mut cluster, &step, &[LeaseKey::Grant(sub)]);
    // Only `dir` is left, and it goes with its grant.
    assert_eq!(
        cluster.nodes[0].shard.status().leases,
        2,
        "and what OTHER looked up"
    );
}

#[test]
fn a_batch_renews_grants() {
    let (mut cluster, dir) = cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    later(&mut cluster, LEASE / 2);
    let request = send(
        &mut cluster,
        vec![(create_file(dir, name("f")), Some(number()))],
    );
    get(&mut cluster, HOLDER, request);
    later(&mut cluster, LEASE / 2);
    let step = ask(&mut cluster, OTHER, lookup(dir, "f"));
    assert_eq!(answer(&step), None);
    give_up(&mut cluster, &step, &[LeaseKey::Grant(dir)]);
}

#[test]
fn what_an_earlier_operation_of_the_batch_uncovers_is_recalled_too() {
    let (mut cluster, dir) = cluster();
    let [a, c] = ["a", "c"].map(|text| {
        let request = create_file(dir, name(text));
        made(get(&mut cluster, HOLDER, request))
    });
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    // By its number, which says nothing of the directory.
    let getattr = Request::GetAttr(op::GetAttr { ino: c });
    get(&mut cluster, OTHER, getattr);
    let request = send(
        &mut cluster,
        vec![(rename(dir, "a", "b"), None), (rename(dir, "b", "c"), None)],
    );
    let step = ask(&mut cluster, HOLDER, request);
    assert_eq!(answer(&step), None);
    let recall = step.outputs.iter().find_map(|output| match output {
        Output::Recall(recall) => Some(recall.clone()),
        _ => None,
    });
    let recall = recall.expect("OTHER knows of the file that gives way");
    assert_eq!(
        (recall.session, &recall.keys[..]),
        (SessionId(OTHER), &[LeaseKey::Inode(c)][..])
    );
    let (session, number) = (recall.session, recall.number);
    let step = cluster.input(0, Input::Recalled { session, number });
    let reply = batch_reply(answer(&step).expect("it goes on").expect("it is done"));
    assert_eq!(reply.done, 2);
    assert_eq!(made(get(&mut cluster, HOLDER, lookup(dir, "c"))), a);
    is_replayed(&cluster);
}

#[test]
fn after_a_restart_what_was_done_under_grants_comes_before_others_look() {
    let (mut cluster, dir) = cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    let file = number();
    let request = send(
        &mut cluster,
        vec![(create_file(dir, name("f")), Some(file))],
    );
    cluster.restart(0);
    takes(&mut cluster, OTHER);
    let looks = ask(&mut cluster, OTHER, lookup(dir, "f"));
    assert_eq!(answer(&looks), None, "it waits for who may have had grants");
    let reply = batch_reply(get(&mut cluster, HOLDER, request));
    assert_eq!((reply.done, reply.incarnation), (1, None));
    let step = takes(&mut cluster, HOLDER);
    assert_eq!(
        answer(&step).map(|found| made(found.expect("it is there"))),
        Some(file)
    );

    // A session that does not come is waited for as long as its grants may have lasted.
    later(&mut cluster, LEASE);
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    cluster.restart(0);
    takes(&mut cluster, OTHER);
    assert_eq!(answer(&ask(&mut cluster, OTHER, lookup(dir, "f"))), None);
    let step = later(&mut cluster, LEASE);
    assert!(matches!(answer(&step), Some(Ok(_))), "{step:?}");
    assert!(step.records.contains(&has_none(HOLDER)));
}

#[test]
fn numbers_go_with_their_session() {
    let (mut cluster, dir) = cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    let session = SessionId(HOLDER);
    cluster.input(
        0,
        Input::SessionGone {
            session,
            ended: true,
        },
    );
    takes(&mut cluster, HOLDER);
    in_force(&mut cluster, 0);
    let request = send(
        &mut cluster,
        vec![(create_file(dir, name("f")), Some(number()))],
    );
    let reply = batch_reply(get(&mut cluster, HOLDER, request));
    assert!(
        matches!(reply.refused, Some(Refusal::Malformed(_))),
        "{reply:?}"
    );
    is_replayed(&cluster);
}

#[test]
fn what_a_batch_opens_the_session_has_open() {
    let (mut cluster, dir) = cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    let file = number();
    let mut create = create_file(dir, name("f"));
    if let Request::Create(create) = &mut create {
        create.open = true;
    }
    let request = send(
        &mut cluster,
        vec![(create, Some(file)), (unlink(dir, "f"), None)],
    );
    assert_eq!(batch_reply(get(&mut cluster, HOLDER, request)).done, 2);
    let getattr = Request::GetAttr(op::GetAttr { ino: file });
    assert!(matches!(
        get(&mut cluster, HOLDER, getattr.clone()),
        Reply::Inode(_)
    ));
    let inos = vec![file];
    get(&mut cluster, HOLDER, Request::Release(op::Release { inos }));
    let step = ask(&mut cluster, HOLDER, getattr);
    assert_eq!(answer(&step), Some(Err(FsError::Stale.into())));
}
