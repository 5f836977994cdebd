//! Copies of requests that come late: over a connection that its client has given up.

use crate::support::{Cluster, create_file, name, sent};
use pandofs_api::{
    Age, Ask, CommitMessage, Horizon, PeerMessage, Refusal, Reply, Request, Step, StepNumber, op,
    step,
};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output, Ticket};
use pandofs_types::{FsError, Ino, ShardId, Time, TxId};

fn answer(outputs: &[Output]) -> Result<Reply, Refusal> {
    match outputs {
        [Output::Answer { result, .. }] => result.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_copy_of_a_refused_request_is_refused_whatever_has_become_true() {
    let mut cluster = Cluster::new(1, DirPolicy::Random, Settings::default());
    let (dir, name) = (Ino::ROOT, name("f"));
    let unlink = Request::Unlink(op::Unlink {
        dir,
        name: name.clone(),
    });
    let input = cluster.request(0, unlink.clone());
    let refused = answer(&cluster.input(0, input.clone()).outputs);
    assert_eq!(refused, Err(Refusal::Fs(FsError::NotFound)));

    let create = create_file(dir, name);
    let create = cluster.request_by(6, 0, create);
    assert!(answer(&cluster.input(0, create).outputs).is_ok());

    let copy = cluster.input(0, input.clone());
    assert_eq!((answer(&copy.outputs), copy.records.len()), (refused, 0));

    // The slot goes on, and what is older than its last refusal is not looked at.
    let later = cluster.request(0, unlink);
    assert!(answer(&cluster.input(0, later.clone()).outputs).is_ok());
    let last = cluster.request(
        0,
        Request::Unlink(op::Unlink {
            dir,
            name: crate::support::name("g"),
        }),
    );
    assert!(answer(&cluster.input(0, last).outputs).is_err());
    for old in [input, later] {
        let old: Input = old;
        let told = answer(&cluster.input(0, old).outputs);
        assert_eq!(told, Err(Refusal::StaleSequence));
    }
}

/// A step of shard 0 that shard 1 is asked for, of an operation of this age.
fn touch(sequence: u64, age: i64, ino: Ino) -> Input {
    let tx = TxId {
        coordinator: ShardId(0),
        sequence,
    };
    let time = Time(age);
    Input::Peer(PeerMessage::Commit {
        from: ShardId(0),
        to: ShardId(1),
        horizon: Horizon::default(),
        held: None,
        message: CommitMessage::Do {
            tx,
            number: StepNumber(1),
            step: Step::Touch(step::Touch {
                ino,
                must_own: None,
                time,
            }),
            ask: Ask::Prepare,
            age: Age { time, tx },
        },
    })
}

/// The coordinator asks for a waiting step again twice a second, for as long as the other operation lasts.
#[test]
fn a_step_that_waits_is_not_looked_at_again_for_each_repetition() {
    let mut cluster = Cluster::new(2, DirPolicy::Random, Settings::default());
    // The second random number drawn leads to shard 1.
    let mkdir = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("dir"),
        mode: 0o755,
        umask: 0,
    });
    let Ok(Reply::Entry(dir)) = cluster.call(0, mkdir) else {
        panic!("it is made");
    };
    let Ok(Reply::Entry(file)) = cluster.call(1, create_file(dir.ino, name("f"))) else {
        panic!("it is made");
    };
    assert_eq!(file.shard, ShardId(1));
    let held = cluster.input(1, touch(100, 20, file.ino));
    assert_eq!(sent(&held.outputs).len(), 1, "{held:?}");
    let older = touch(101, 10, file.ino);
    // Two at once, before the record of either is applied.
    cluster.batch(1, vec![older.clone(), older.clone()]);
    for _ in 0..5 {
        let again = cluster.input(1, older.clone());
        assert_eq!((again.records.len(), again.outputs.len()), (0, 0));
    }
    assert_eq!(cluster.nodes[1].shard.status().waiting, 1);
    let outcome = CommitMessage::Outcome {
        tx: TxId {
            coordinator: ShardId(0),
            sequence: 100,
        },
        number: StepNumber(1),
        commit: false,
    };
    let over = cluster.input(
        1,
        Input::Peer(PeerMessage::Commit {
            from: ShardId(0),
            to: ShardId(1),
            horizon: Horizon::default(),
            held: None,
            message: outcome,
        }),
    );
    let is_prepared = |message: &PeerMessage| {
        matches!(
            message,
            PeerMessage::Commit {
                message: CommitMessage::Prepared { .. },
                ..
            }
        )
    };
    let prepared = sent(&over.outputs).into_iter().filter(is_prepared).count();
    assert_eq!(prepared, 1, "{over:?}");
    assert_eq!(cluster.nodes[1].shard.status().waiting, 0);
}

/// A client on a bad network repeats what is under way over one connection after the other.
#[test]
fn of_each_copy_of_a_request_it_is_said_where_its_answer_goes() {
    let mut cluster = Cluster::new(2, DirPolicy::Random, Settings::default());
    let mkdir = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("dir"),
        mode: 0o755,
        umask: 0,
    });
    let Input::Request {
        ticket: first,
        request,
    } = cluster.request(0, mkdir)
    else {
        panic!("it is a request");
    };
    let copy = |ticket| Input::Request {
        ticket,
        request: request.clone(),
    };
    let asked = sent(&cluster.input(0, copy(first)).outputs);
    let mut last = first;
    for number in 1_000..1_010 {
        let outputs = cluster.input(0, copy(Ticket(number))).outputs;
        assert_eq!(outputs, [Output::Replaced { ticket: last }]);
        last = Ticket(number);
    }
    let inputs = asked.into_iter().map(Input::Peer).collect();
    let decided = sent(&cluster.batch(1, inputs).outputs);
    let inputs = decided.into_iter().map(Input::Peer).collect();
    let outputs = cluster.batch(0, inputs).outputs;
    let answered = outputs.iter().filter_map(|output| match output {
        Output::Answer { ticket, .. } => Some(*ticket),
        _ => None,
    });
    assert_eq!(answered.collect::<Vec<_>>(), [last]);
}

/// It was answered, and the slot was used again.
#[test]
fn a_copy_of_an_older_request_of_its_slot_is_not_executed() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let create = cluster.request(0, create_file(Ino::ROOT, name("file")));
    assert!(answer(&cluster.input(0, create.clone()).outputs).is_ok());
    let unlink = Request::Unlink(op::Unlink {
        dir: Ino::ROOT,
        name: name("file"),
    });
    assert!(cluster.call(0, unlink).is_ok());
    let copy = answer(&cluster.input(0, create).outputs);
    assert_eq!(copy, Err(Refusal::StaleSequence));
    let lookup = Request::Lookup(op::Lookup {
        dir: Ino::ROOT,
        name: name("file"),
    });
    assert_eq!(cluster.call(0, lookup), Err(FsError::NotFound.into()));
}
