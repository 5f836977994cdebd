//! A disk that has no room: what needs some is refused, everything else goes on.

use crate::grants::HOLDER;
use crate::support::{Cluster, create_file, name, sent};
use pandofs_api::{
    Allocation, DataReply, DataRequest, FileBody, Refusal, Reply, Request, XattrMode, op,
};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::limits::RESEND_INTERVAL;
use pandofs_types::{FsError, Ino, SessionId, SetAttr, ShardId};

const DIR: Ino = Ino::ROOT;

fn low(cluster: &mut Cluster, shard: u16, low: bool) {
    let step = cluster.input(shard, Input::Space { low });
    assert!(step.records.is_empty() && step.outputs.is_empty());
}

fn create(text: &str) -> Request {
    create_file(DIR, name(text))
}

fn mkdir(text: &str) -> Request {
    Request::Mkdir(op::Mkdir {
        dir: DIR,
        name: name(text),
        mode: 0o755,
        umask: 0,
    })
}

fn unlink(text: &str) -> Request {
    Request::Unlink(op::Unlink {
        dir: DIR,
        name: name(text),
    })
}

fn rename(from: &str, to: &str) -> Request {
    Request::Rename(op::Rename {
        dir: DIR,
        name: name(from),
        new_dir: DIR,
        new_name: name(to),
        new_shard: ShardId(0),
        no_replace: false,
        whiteout: false,
    })
}

fn write(ino: Ino, offset: u64, data: &[u8]) -> Request {
    Request::WriteInline(op::WriteInline {
        ino,
        offset,
        data: data.to_vec(),
    })
}

/// Whether a session that has grants is told that what needs room is to be asked for.
fn is_told_low(cluster: &mut Cluster) -> bool {
    let begun = (0..2).filter_map(|_| {
        let request = cluster.request_by(HOLDER, 0, Request::BeginGrants(op::BeginGrants));
        let mut answer = None;
        let outputs = cluster.input(0, request).outputs;
        cluster.carry(outputs, &mut answer);
        match answer {
            Some(Ok(Reply::Granted(granted))) => granted,
            other => panic!("{other:?}"),
        }
    });
    begun.last().expect("grants begin").terms.is_low
}

fn ino_of(reply: Result<Reply, Refusal>) -> Ino {
    match reply {
        Ok(Reply::Entry(entry)) => entry.ino,
        other => panic!("{other:?}"),
    }
}

const FULL: Result<Reply, Refusal> = Err(Refusal::Fs(FsError::NoSpace));

#[test]
fn what_needs_space_is_refused_and_nothing_else() {
    let mut cluster = Cluster::new(1, DirPolicy::Random, Settings::default());
    let ino = ino_of(cluster.call(0, create("file")));
    cluster.call(0, write(ino, 0, b"first")).unwrap();
    ino_of(cluster.call(0, create("other")));
    ino_of(cluster.call(0, mkdir("dir")));
    low(&mut cluster, 0, true);

    let link = Request::Link(op::Link {
        dir: DIR,
        name: name("link"),
        ino,
        inode_shard: ShardId(0),
    });
    let xattr = Request::SetXattr(op::SetXattr {
        ino,
        name: b"user.a".to_vec(),
        value: b"b".to_vec(),
        mode: XattrMode::Either,
    });
    let append = Request::AppendInline(op::AppendInline {
        ino,
        data: b"more".to_vec(),
    });
    let allocate = Request::Allocate(op::Allocate {
        ino,
        offset: 0,
        length: 100,
        allocation: Allocation::Reserve { keep_size: false },
    });
    let unnamed = Request::CreateUnnamed(op::CreateUnnamed {
        dir: DIR,
        at: cluster.map.hash_key.position(b"x"),
        mode: 0o600,
        umask: 0,
        may_be_named: true,
    });
    let refused = [
        create("new"),
        mkdir("new"),
        link,
        xattr,
        append,
        allocate,
        unnamed,
        write(ino, 3, b"longer"),
        Request::Stripe(op::Stripe { ino }),
    ];
    for request in refused {
        let records = cluster.nodes[0].log.len();
        assert_eq!(cluster.call(0, request.clone()), FULL, "{request:?}");
        assert_eq!(cluster.nodes[0].log.len(), records, "{request:?}");
    }
    // An error in a request comes before that there is no room for it.
    let exists = Err(Refusal::Fs(FsError::Exists));
    assert_eq!(cluster.call(0, create("other")), exists);

    let cut = SetAttr {
        size: Some(4),
        ..SetAttr::default()
    };
    let punch = Request::Allocate(op::Allocate {
        ino,
        offset: 1,
        length: 1,
        allocation: Allocation::Punch,
    });
    let taken_on = [
        write(ino, 1, b"IRS"),
        Request::SetAttr(op::SetAttr { ino, set: cut }),
        punch,
        rename("other", "renamed"),
        unlink("renamed"),
        Request::Rmdir(op::Rmdir {
            dir: DIR,
            name: name("dir"),
        }),
    ];
    for request in taken_on {
        let done = cluster.call(0, request.clone());
        assert!(done.is_ok(), "{request:?}: {done:?}");
    }
    match cluster.call(0, Request::ReadInline(op::ReadInline { ino })) {
        Ok(Reply::Inode(inode)) => match inode.body {
            FileBody::Inline { data, .. } => assert_eq!(data, b"f\0RS"),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }

    low(&mut cluster, 0, false);
    ino_of(cluster.call(0, create("new")));
}

#[test]
fn a_directory_on_a_full_server_is_refused_on_all() {
    // The second random number drawn leads to shard 1 of two.
    let mut cluster = Cluster::new(2, DirPolicy::Random, Settings::default());
    low(&mut cluster, 1, true);
    assert_eq!(cluster.call(0, mkdir("dir")), FULL);
    let lookup = Request::Lookup(op::Lookup {
        dir: DIR,
        name: name("dir"),
    });
    let nothing = Err(Refusal::Fs(FsError::NotFound));
    assert_eq!(cluster.call(0, lookup), nothing);
    for node in &cluster.nodes {
        assert_eq!(node.shard.status().undecided, 0);
    }
    // Files are where their names are.
    ino_of(cluster.call(0, create("file")));
    // It was refused by a record, so that it stays refused.
    cluster.restart(1);
    cluster.restart(0);
    low(&mut cluster, 1, false);
    assert_eq!(cluster.nodes[1].shard.status().undecided, 0);
}

#[test]
fn what_was_prepared_is_done() {
    let mut cluster = Cluster::new(2, DirPolicy::Random, Settings::default());
    let request = cluster.request(0, mkdir("dir"));
    let outputs = cluster.input(0, request).outputs;
    // The name's shard has its record; from here on it has no room.
    low(&mut cluster, 0, true);
    let mut answer = None;
    cluster.carry(outputs, &mut answer);
    ino_of(answer.unwrap());
}

#[test]
fn a_split_waits_for_room_where_it_goes_to() {
    let settings = Settings {
        split_threshold: 8,
        max_partitions: Some(2),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(2, DirPolicy::Random, settings);
    low(&mut cluster, 1, true);
    let mut chunks = Vec::new();
    for number in 0..9 {
        let request = cluster.request(0, create(&format!("file-{number}")));
        chunks.extend(sent(&cluster.input(0, request).outputs));
    }
    assert_eq!(chunks.len(), 1, "{chunks:?}");
    let step = cluster.input(1, Input::Peer(chunks[0].clone()));
    assert!(
        step.records.is_empty() && step.outputs.is_empty(),
        "{step:?}"
    );
    // It is sent again.
    let mut again = Vec::new();
    for _ in 0..4 {
        cluster.now += 300_000_000;
        again.extend(sent(&cluster.input(0, Input::Tick).outputs));
    }
    assert!(again.contains(&chunks[0]), "{again:?}");
    low(&mut cluster, 1, false);
    let step = cluster.input(1, Input::Peer(chunks[0].clone()));
    assert_eq!(step.records.len(), 1, "{step:?}");
}

#[test]
fn a_file_does_not_outgrow_its_inode_towards_a_server_that_has_no_room() {
    let mut cluster = Cluster::new(1, DirPolicy::Random, Settings::default());
    let mut inos = ["a", "b"]
        .map(|text| ino_of(cluster.call(0, create(text))))
        .into_iter();
    let (first, second) = (inos.next().unwrap(), inos.next().unwrap());
    for ino in [first, second] {
        cluster.call(0, write(ino, 0, b"content")).unwrap();
    }
    let session = SessionId(HOLDER);
    cluster.input(0, Input::TakesLeases { session });
    assert!(!is_told_low(&mut cluster));
    let stripe = cluster.request(0, Request::Stripe(op::Stripe { ino: first }));
    let fill_of = |outputs: &[Output]| match outputs {
        [
            Output::Data {
                ticket,
                request: DataRequest::Fill { from_reserve, .. },
                ..
            },
        ] => (*ticket, *from_reserve),
        other => panic!("{other:?}"),
    };
    let (ticket, from_reserve) = fill_of(&cluster.input(0, stripe).outputs);
    assert!(!from_reserve);
    let refused = || Input::DataDone {
        ticket,
        reply: DataReply::Failed(FsError::NoSpace),
    };
    // It was promised: what is kept back is there for that, as far as it goes.
    let insists = fill_of(&cluster.input(0, refused()).outputs);
    assert_eq!(insists, (ticket, true));
    assert!(cluster.input(0, refused()).outputs.is_empty());
    // The first one waits, as it has begun; the second one does not begin.
    assert_eq!(
        cluster.call(0, Request::Stripe(op::Stripe { ino: second })),
        FULL
    );
    assert!(is_told_low(&mut cluster));
    cluster.now += RESEND_INTERVAL.as_nanos() as i64;
    let again = fill_of(&cluster.input(0, Input::Tick).outputs);
    assert_eq!(again, (ticket, true));
    let done = Input::DataDone {
        ticket,
        reply: DataReply::Done,
    };
    let outputs = cluster.input(0, done).outputs;
    assert!(
        matches!(outputs[..], [Output::Answer { result: Ok(_), .. }]),
        "{outputs:?}"
    );
    cluster.now += 2 * RESEND_INTERVAL.as_nanos() as i64;
    assert!(!is_told_low(&mut cluster));
    let stripe = cluster.request(0, Request::Stripe(op::Stripe { ino: second }));
    fill_of(&cluster.input(0, stripe).outputs);
}
