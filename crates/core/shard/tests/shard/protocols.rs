//! Two-phase and three-phase commit between shards: what the coordinator answers before the others have heard of it.

use crate::support::{Cluster, create_file, horizon, name, receiver, sent};
use pandofs_api::{
    Age, Ask, CommitMessage, PeerMessage, Refusal, Reply, Request, Step, StepNumber, op, step,
};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::CommitProtocol::{S2pcMp, ThreePhase, TwoPhase};
use pandofs_types::{
    CommitProtocol, Credentials, FileKind, FsError, Ino, Leased, Position, SessionId, ShardId,
    Time, TxId,
};
use std::collections::{BTreeSet, VecDeque};
use std::iter;

/// The second random number drawn leads to shard 1 of two.
fn cluster(commit_protocol: CommitProtocol) -> Cluster {
    let settings = Settings {
        commit_protocol,
        ..Settings::default()
    };
    Cluster::new(2, DirPolicy::Random, settings)
}

fn answers(outputs: &[Output]) -> Vec<Result<Reply, Refusal>> {
    let answer = |output: &Output| match output {
        Output::Answer { result, .. } => Some(result.clone()),
        _ => None,
    };
    outputs.iter().filter_map(answer).collect()
}

/// Shard 0 makes a directory on shard 1 and has answered; what shard 1 has still to hear.
fn made(cluster: &mut Cluster) -> (Ino, Vec<PeerMessage>) {
    let made = made_as(cluster, "a");
    assert_eq!(made.0.birth_shard(), ShardId(1));
    made
}

fn made_as(cluster: &mut Cluster, text: &str) -> (Ino, Vec<PeerMessage>) {
    let request = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name(text),
        mode: 0o755,
        umask: 0,
    });
    let request = cluster.request(0, request);
    let mut outputs = cluster.input(0, request).outputs;
    for _ in 0..8 {
        let messages = sent(&outputs);
        if let Some(Ok(Reply::Entry(entry))) = answers(&outputs).pop() {
            return (entry.ino, messages);
        }
        let to = receiver(&messages[0]);
        let inputs = messages.into_iter().map(Input::Peer).collect();
        outputs = cluster.batch(to.0, inputs).outputs;
    }
    panic!("the directory is not made");
}

/// An operation of thousands of steps, each asked about twice a second, had no time for its steps any more.
#[test]
fn an_inquiry_about_what_is_undecided_is_no_record() {
    let mut cluster = cluster(TwoPhase);
    let request = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("a"),
        mode: 0o755,
        umask: 0,
    });
    let request = cluster.request(0, request);
    let asked = sent(&cluster.input(0, request).outputs);
    let inputs = asked.into_iter().map(Input::Peer).collect();
    let prepared = sent(&cluster.batch(1, inputs).outputs);
    // The answer is on its way for so long that the participant asks.
    let inquiry = sent(&cluster.later(1).outputs);
    let is_inquiry = |message: &PeerMessage| {
        matches!(
            message,
            PeerMessage::Commit {
                message: CommitMessage::InquireOutcome { .. },
                ..
            }
        )
    };
    assert!(
        !inquiry.is_empty() && inquiry.iter().all(is_inquiry),
        "{inquiry:?}"
    );
    let heard = cluster.batch(0, inquiry.iter().cloned().map(Input::Peer).collect());
    assert!(
        heard.records.is_empty() && sent(&heard.outputs).is_empty(),
        "{heard:?}"
    );
    // Once it is decided the participant is told, whatever it asked before.
    let inputs = prepared.into_iter().map(Input::Peer).collect();
    let decided = cluster.batch(0, inputs);
    assert_eq!(answers(&decided.outputs).len(), 1);
    let told = cluster.batch(0, inquiry.into_iter().map(Input::Peer).collect());
    assert!(!sent(&told.outputs).is_empty(), "{told:?}");
}

#[test]
fn who_knows_of_a_new_directory_waits_until_its_home_has_heard_of_it() {
    for protocol in [TwoPhase, ThreePhase] {
        for restarts in [false, true] {
            let mut cluster = cluster(protocol);
            let (dir, outcome) = made(&mut cluster);
            if restarts {
                cluster.restart(1);
            }
            let requests = [
                Request::GetAttr(op::GetAttr { ino: dir }),
                create_file(dir, name("b")),
                Request::ReadLink(op::ReadLink { ino: dir }),
            ];
            for (session, request) in (7..).zip(requests) {
                let asked = cluster.request_by(session, 1, request);
                assert_eq!(answers(&cluster.input(1, asked).outputs), []);
            }
            let inputs = outcome.into_iter().map(Input::Peer).collect();
            let mut heard = answers(&cluster.batch(1, inputs).outputs);
            assert_eq!(heard.len(), 3, "{protocol:?}: {heard:?}");
            // It is no symbolic link.
            heard.retain(|answer| *answer != Err(FsError::Invalid.into()));
            assert_eq!(heard.len(), 2, "{protocol:?}: {heard:?}");
            assert!(
                heard.iter().all(Result::is_ok),
                "{protocol:?}, restarts: {restarts}: {heard:?}"
            );
        }
    }
}

/// An entry of a directory that another shard gave to this one with a part of its parent.
fn comes_here(cluster: &mut Cluster, parent: Ino, text: &str, leads_to: Ino) {
    let tx = TxId {
        coordinator: ShardId(0),
        sequence: 1_000,
    };
    let number = StepNumber(1);
    let step = Step::Insert(step::Insert {
        dir: parent,
        name: name(text),
        ino: Some(leads_to),
        kind: FileKind::Dir,
        shard: ShardId(1),
        replace: false,
        caller: Credentials::ROOT,
        time: Time(5_000),
    });
    let age = Age { time: Time(1), tx };
    let ask = Ask::Decide;
    let message = CommitMessage::Do {
        tx,
        number,
        step,
        ask,
        age,
    };
    let message = PeerMessage::Commit {
        from: ShardId(0),
        to: ShardId(1),
        horizon: horizon(1),
        held: None,
        message,
    };
    cluster.input(1, Input::Peer(message));
}

/// The name of a directory that is being made may come to its home, when a part of its parent moves there, before the
/// outcome has. A client that looked it up, or listed the parent, had the home believe that its state is broken, and stop.
#[test]
fn a_name_that_comes_to_the_home_of_its_directory_before_that_is_made_is_waited_for() {
    for protocol in [TwoPhase, ThreePhase] {
        let mut cluster = cluster(protocol);
        let (parent, outcome) = made(&mut cluster);
        cluster.batch(1, outcome.into_iter().map(Input::Peer).collect());
        // Some are made by shard 0 alone.
        let mut names = ["b", "c", "d", "e"].into_iter();
        let mut next = || made_as(&mut cluster, names.next().expect("one is made by both"));
        let (dir, outcome) = iter::repeat_with(&mut next)
            .find(|(dir, _)| dir.birth_shard() == ShardId(1))
            .expect("they go on");
        comes_here(&mut cluster, parent, "b", dir);

        let lookup = Request::Lookup(op::Lookup {
            dir: parent,
            name: name("b"),
        });
        let list = Request::ReadDir(op::ReadDir {
            dir: parent,
            from: Position::FIRST,
            plus: true,
            max_entries: 10,
            max_bytes: 1_000,
        });
        let asked = cluster.request_by(7, 1, list);
        let listed = answers(&cluster.input(1, asked).outputs);
        let [Ok(Reply::Entries(entries))] = &listed[..] else {
            panic!("{protocol:?}: {listed:?}");
        };
        assert!(entries.entries[0].ino == dir && entries.entries[0].inode.is_none());
        let asked = cluster.request_by(8, 1, lookup);
        assert_eq!(answers(&cluster.input(1, asked).outputs), []);

        let inputs = outcome.into_iter().map(Input::Peer).collect();
        let found = answers(&cluster.batch(1, inputs).outputs);
        let [Ok(Reply::Entry(entry))] = &found[..] else {
            panic!("{protocol:?}: {found:?}");
        };
        assert!(entry.ino == dir && entry.inode.is_some());
    }
}

/// The home was asked to change the ctime of a directory of which it had not heard that it is there, or to give it
/// another name, and said that it is not there.
#[test]
fn steps_about_a_new_directory_wait_until_its_home_has_heard_of_it() {
    let rename = |_| {
        Request::Rename(op::Rename {
            dir: Ino::ROOT,
            name: name("a"),
            new_dir: Ino::ROOT,
            new_name: name("b"),
            new_shard: ShardId(0),
            no_replace: false,
            whiteout: false,
        })
    };
    let link = |ino| {
        Request::Link(op::Link {
            dir: Ino::ROOT,
            name: name("b"),
            ino,
            inode_shard: ShardId(1),
        })
    };
    let requests: [(&dyn Fn(Ino) -> Request, _); 2] = [
        (&rename, None),
        (&link, Some(Refusal::Fs(FsError::NotPermitted))),
    ];
    for (protocol, (request, refusal)) in [TwoPhase, ThreePhase]
        .into_iter()
        .flat_map(|protocol| requests.iter().cloned().map(move |asked| (protocol, asked)))
    {
        let mut cluster = cluster(protocol);
        let (dir, outcome) = made(&mut cluster);
        let request = cluster.request_by(7, 0, request(dir));
        let asked = sent(&cluster.input(0, request).outputs);
        // Its link was lost; what was on it comes again later.
        let mut said = Vec::new();
        for message in asked.into_iter().chain(outcome) {
            said.extend(cluster.input(1, Input::Peer(message)).outputs);
        }
        let mut answer = None;
        cluster.carry(said, &mut answer);
        for shard in [1, 0, 1, 0] {
            let outputs = cluster.later(shard).outputs;
            cluster.carry(outputs, &mut answer);
        }
        let expected = match refusal {
            Some(refusal) => Err(refusal),
            None => Ok(Reply::Renamed { ino: dir }),
        };
        assert_eq!(answer, Some(expected), "{protocol:?}");
    }
}

#[test]
fn a_home_that_has_not_heard_of_its_directory_leases_nothing_of_it() {
    for protocol in [TwoPhase, ThreePhase] {
        let mut cluster = cluster(protocol);
        for session in [7, 8] {
            let session = SessionId(session);
            cluster.input(1, Input::TakesLeases { session });
        }
        let (dir, outcome) = made(&mut cluster);
        let lookup = |name| Request::Lookup(op::Lookup { dir, name });
        // The first answer makes the session known as one that takes leases, the second leases.
        for _ in 0..2 {
            let asked = cluster.request_by(7, 1, lookup(name("b")));
            assert_eq!(answers(&cluster.input(1, asked).outputs), []);
        }
        let inputs = outcome.into_iter().map(Input::Peer).collect();
        cluster.batch(1, inputs);
        let asked = cluster.request_by(7, 1, lookup(name("b")));
        let outputs = cluster.input(1, asked).outputs;
        assert_eq!(answers(&outputs), [Err(FsError::NotFound.into())]);
        let Output::Answer { leased, .. } = &outputs[0] else {
            panic!("{outputs:?}");
        };
        assert!(
            leased
                .iter()
                .all(|leased| *leased == Leased::ENTRY || leased.is_nothing())
        );
    }
}

/// Asks a shard for names in the directory: how many it answers, and how many answers lease something.
fn look(cluster: &mut Cluster, shard: u16, dir: Ino) -> (usize, usize) {
    let (mut answered, mut leases) = (0, 0);
    for number in 0..16 {
        let name = name(&format!("n{number}"));
        let asked = cluster.request_by(7, shard, Request::Lookup(op::Lookup { dir, name }));
        let outputs = cluster.input(shard, asked).outputs;
        answered += answers(&outputs).len();
        let leased = |output: &&Output| matches!(output, Output::Answer { leased, .. } if !leased.is_empty());
        leases += outputs.iter().filter(leased).count();
        // That the session takes leases is on disk.
        cluster.carry(outputs, &mut None);
    }
    (answered, leases)
}

#[test]
fn who_has_not_heard_of_a_new_directory_leases_nothing_of_it() {
    for protocol in [S2pcMp, TwoPhase, ThreePhase] {
        let settings = Settings {
            commit_protocol: protocol,
            initial_partitions: 4,
            ..Settings::default()
        };
        let mut cluster = Cluster::new(4, DirPolicy::Random, settings);
        let session = SessionId(7);
        for shard in 0..4 {
            cluster.input(shard, Input::TakesLeases { session });
        }
        let mkdir = |text| {
            Request::Mkdir(op::Mkdir {
                dir: Ino::ROOT,
                name: name(text),
                mode: 0o755,
                umask: 0,
            })
        };
        let other = match cluster.call(0, mkdir("z")) {
            Ok(Reply::Entry(entry)) => entry.ino,
            other => panic!("{other:?}"),
        };
        for shard in 0..4 {
            look(&mut cluster, shard, other);
            let (_, leases) = look(&mut cluster, shard, other);
            assert!(leases > 0, "shard {shard} gives leases");
        }

        // Messages on their way when the client has its answer are late.
        let request = cluster.request(0, mkdir("a"));
        let mut outputs = VecDeque::from(cluster.input(0, request).outputs);
        let dir = loop {
            match outputs.pop_front() {
                Some(Output::Answer {
                    result: Ok(Reply::Entry(entry)),
                    ..
                }) => break entry.ino,
                Some(Output::Send { to, message, .. }) => {
                    outputs.extend(cluster.input(to.0, Input::Peer(message)).outputs);
                }
                other => panic!("{other:?}"),
            }
        };
        let mut unheard = BTreeSet::new();
        for shard in 0..4 {
            match look(&mut cluster, shard, dir) {
                (0, 0) => assert!(unheard.insert(shard)),
                (answered, _) => {
                    assert_eq!(answered, 16, "{protocol:?}");
                    let asked = cluster.request_by(7, shard, Request::DirPart(op::DirPart { dir }));
                    let part = answers(&cluster.input(shard, asked).outputs);
                    assert!(
                        matches!(part[..], [Ok(Reply::Part(_))]),
                        "{protocol:?}: shard {shard} has not heard of it: {part:?}"
                    );
                }
            }
        }
        assert!(!unheard.is_empty(), "{protocol:?}");
        let mut answered = 0;
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Send { to, message, .. } => {
                    outputs.extend(cluster.input(to.0, Input::Peer(message)).outputs);
                }
                Output::Answer { .. } => answered += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(answered, 16 * unheard.len(), "{protocol:?}");
        for &shard in &unheard {
            let (_, leases) = look(&mut cluster, shard, dir);
            assert!(leases > 0, "shard {shard} gives leases");
        }
    }
}

/// The messages by which shard 0 has shard 1 take part.
fn begun(cluster: &mut Cluster) -> Vec<PeerMessage> {
    let request = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("a"),
        mode: 0o755,
        umask: 0,
    });
    let request = cluster.request(0, request);
    let messages = sent(&cluster.input(0, request).outputs);
    assert_eq!(messages.len(), 2, "a step and a vote: {messages:?}");
    messages
}

#[test]
fn a_vote_is_taken_once_whether_it_comes_before_its_step_or_with_it_or_after_it() {
    let orders: [&[&[usize]]; 4] = [&[&[0, 1]], &[&[1, 0]], &[&[1], &[0]], &[&[0], &[1]]];
    for order in orders {
        let mut cluster = cluster(TwoPhase);
        let messages = begun(&mut cluster);
        let mut voted = Vec::new();
        for batch in order {
            let inputs = batch.iter().map(|&at| Input::Peer(messages[at].clone()));
            let outputs = cluster.batch(1, inputs.collect()).outputs;
            voted.extend(sent(&outputs));
        }
        assert_eq!(voted.len(), 1, "{order:?}: {voted:?}");
        assert_eq!(receiver(&voted[0]), ShardId(0));
    }
}

#[test]
fn a_step_without_a_vote_is_not_answered() {
    let mut cluster = cluster(TwoPhase);
    let messages = begun(&mut cluster);
    let outputs = cluster.input(1, Input::Peer(messages[0].clone())).outputs;
    assert_eq!(sent(&outputs), []);
}
