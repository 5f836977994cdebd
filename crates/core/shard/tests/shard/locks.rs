//! Locks of files: kept waiting, given once, told again after a restart, moved with their inodes.

use crate::support::{Cluster, Step, create_file, name};
use pandofs_api::{NewNode, Refusal, Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output, Record, Ticket};
use pandofs_types::limits::{CLOSING_WAIT, LOCK_WAIT, SESSION_TIMEOUT, TICK_INTERVAL};
use pandofs_types::{FileLock, FsError, Ino, LockKind, LockMode, LockRange, SessionId, ShardId};

type Answer = Result<Reply, Refusal>;

const BUSY: Answer = Err(Refusal::Fs(FsError::WouldBlock));

fn lock(owner: u64) -> FileLock {
    FileLock {
        kind: LockKind::Record,
        owner,
        pid: 1,
        mode: LockMode::Exclusive,
        range: LockRange { first: 0, last: 9 },
    }
}

fn set(ino: Ino, owner: u64, blocking: bool) -> Request {
    Request::SetLock(op::SetLock {
        ino,
        lock: lock(owner),
        blocking,
        wait_ms: u32::MAX,
    })
}

fn unlock(ino: Ino, owner: u64) -> Request {
    Request::Unlock(op::Unlock {
        ino,
        kind: LockKind::Record,
        owner,
        range: LockRange::WHOLE,
    })
}

fn create(cluster: &mut Cluster, text: &str) -> Ino {
    let create = Request::Create(op::Create {
        dir: Ino::ROOT,
        name: name(text),
        node: NewNode::File,
        mode: 0o644,
        umask: 0,
        open: true,
    });
    match cluster.call(0, create) {
        Ok(Reply::Entry(entry)) => entry.ino,
        other => panic!("{other:?}"),
    }
}

fn ticket(input: &Input) -> Ticket {
    match input {
        Input::Request { ticket, .. } => *ticket,
        other => panic!("{other:?}"),
    }
}

/// Gives the shard an input and carries what follows; the answers with their tickets.
fn answers(cluster: &mut Cluster, shard: u16, input: Input) -> Vec<(Ticket, Answer)> {
    let step = cluster.input(shard, input);
    carry(cluster, step)
}

fn carry(cluster: &mut Cluster, step: Step) -> Vec<(Ticket, Answer)> {
    let mut found = Vec::new();
    let mut queue: std::collections::VecDeque<Output> = step.outputs.into();
    while let Some(output) = queue.pop_front() {
        match output {
            Output::Answer { ticket, result, .. } => found.push((ticket, result)),
            Output::Send { to, message, .. } => {
                queue.extend(cluster.input(to.0, Input::Peer(message)).outputs);
            }
            Output::WhenDurable { shard, input } => {
                queue.extend(cluster.input(shard.0, input).outputs);
            }
            Output::Watch { .. } | Output::Recall(_) => {}
            other => panic!("{other:?}"),
        }
    }
    found
}

/// The one answer there is.
fn ask(cluster: &mut Cluster, session: u64, shard: u16, request: Request) -> Answer {
    let input = cluster.request_by(session, shard, request);
    let mut found = answers(cluster, shard, input);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0).1
}

/// A request that is kept waiting.
fn wait(cluster: &mut Cluster, session: u64, shard: u16, request: Request) -> Input {
    let input = cluster.request_by(session, shard, request);
    assert_eq!(answers(cluster, shard, input.clone()), []);
    input
}

fn pass(cluster: &mut Cluster, shard: u16, time: std::time::Duration) -> Vec<(Ticket, Answer)> {
    let mut found = Vec::new();
    for _ in 0..time.as_nanos() / (10 * TICK_INTERVAL).as_nanos() + 1 {
        cluster.now += (10 * TICK_INTERVAL).as_nanos() as i64;
        found.extend(answers(cluster, shard, Input::Tick));
    }
    found
}

#[test]
fn who_waits_is_given_the_lock_when_it_is_unlocked() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let file = create(&mut cluster, "file");
    assert_eq!(ask(&mut cluster, 6, 0, set(file, 1, true)), Ok(Reply::Done));
    assert_eq!(ask(&mut cluster, 7, 0, set(file, 1, false)), BUSY);
    let waiting = wait(&mut cluster, 7, 0, set(file, 1, true));
    let status = cluster.nodes[0].shard.status();
    assert_eq!((status.locks, status.lock_waiters), (1, 1));
    let found = ask(
        &mut cluster,
        7,
        0,
        Request::GetLock(op::GetLock {
            ino: file,
            lock: lock(1),
        }),
    );
    assert_eq!(found, Ok(Reply::Lock(Some(lock(1)))));

    let unlocked = cluster.request_by(6, 0, unlock(file, 1));
    let found = answers(&mut cluster, 0, unlocked.clone());
    let done = Ok(Reply::Done);
    assert_eq!(
        found,
        [(ticket(&unlocked), done.clone()), (ticket(&waiting), done)]
    );
}

#[test]
fn who_tries_while_the_file_may_have_been_closed_is_kept_until_it_is_known() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let file = create(&mut cluster, "file");
    ask(&mut cluster, 6, 0, set(file, 1, true)).unwrap();
    let closing = Request::Closing(op::Closing {
        ino: file,
        owners: vec![(LockKind::Record, 1), (LockKind::Flock, 3)],
    });
    // Another session's are its own matter.
    let done = Ok(Reply::Done);
    assert_eq!(ask(&mut cluster, 7, 0, closing.clone()), done);
    assert_eq!(ask(&mut cluster, 7, 0, set(file, 1, false)), BUSY);
    assert_eq!(ask(&mut cluster, 6, 0, closing.clone()), done);
    let at_once = Request::SetLock(op::SetLock {
        ino: file,
        lock: lock(1),
        blocking: false,
        wait_ms: 0,
    });
    let not_yet = Err(Refusal::NotYet);
    assert_eq!(ask(&mut cluster, 7, 0, at_once.clone()), not_yet);
    let trying = wait(&mut cluster, 7, 0, set(file, 1, false));
    let unlocked = cluster.request_by(6, 0, unlock(file, 1));
    let found = answers(&mut cluster, 0, unlocked.clone());
    assert_eq!(
        found,
        [(ticket(&unlocked), done.clone()), (ticket(&trying), done)]
    );

    ask(&mut cluster, 7, 0, closing).unwrap();
    let trying = wait(&mut cluster, 6, 0, set(file, 1, false));
    let later = pass(&mut cluster, 0, CLOSING_WAIT);
    assert_eq!(later, [(ticket(&trying), BUSY)]);
    assert_eq!(ask(&mut cluster, 6, 0, at_once), BUSY);
}

#[test]
fn who_waits_long_asks_again_and_a_session_that_goes_makes_room() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let file = create(&mut cluster, "file");
    ask(&mut cluster, 6, 0, set(file, 1, true)).unwrap();
    let waiting = wait(&mut cluster, 7, 0, set(file, 1, true));
    let later = pass(&mut cluster, 0, LOCK_WAIT);
    assert_eq!(later, [(ticket(&waiting), Err(Refusal::NotYet))]);
    assert_eq!(answers(&mut cluster, 0, waiting.clone()), []);
    let session = SessionId(6);
    let found = answers(
        &mut cluster,
        0,
        Input::SessionGone {
            session,
            ended: false,
        },
    );
    assert_eq!(found, [(ticket(&waiting), Ok(Reply::Done))]);
}

/// A client that gave up a connection has sent the request again over another one, and gone on. Then the
/// server reads the request that was left in the first.
#[test]
fn a_request_that_comes_late_a_second_time_changes_nothing() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let file = create(&mut cluster, "file");
    let locked = cluster.request_by(6, 0, set(file, 1, false));
    let unlocked = cluster.request_by(6, 0, unlock(file, 1));
    answers(&mut cluster, 0, locked.clone());
    answers(&mut cluster, 0, unlocked.clone());
    let late = answers(&mut cluster, 0, locked);
    assert_eq!(late.len(), 1);
    assert_eq!(late[0].1, Err(Refusal::StaleSequence));
    assert_eq!(cluster.nodes[0].shard.status().locks, 0);
    // The last one gets its answer again.
    assert_eq!(answers(&mut cluster, 0, unlocked)[0].1, Ok(Reply::Done));
}

#[test]
fn a_wait_that_is_cancelled_is_over_for_both() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let file = create(&mut cluster, "file");
    ask(&mut cluster, 6, 0, set(file, 1, true)).unwrap();
    let waiting = wait(&mut cluster, 7, 0, set(file, 1, true));
    let mut cancel = waiting.clone();
    if let Input::Request { ticket, request } = &mut cancel {
        *ticket = Ticket(1_000_000);
        request.request = set(file, 1, false);
    }
    let found = answers(&mut cluster, 0, cancel);
    let again = Err(Refusal::TryAgain);
    assert_eq!(
        found,
        [(Ticket(1_000_000), BUSY), (ticket(&waiting), again)]
    );
    assert_eq!(
        answers(&mut cluster, 0, waiting.clone()),
        [(ticket(&waiting), BUSY)]
    );
    assert_eq!(cluster.nodes[0].shard.status().lock_waiters, 0);
}

/// Were the lock given before, a loss of power would lose that there is somebody to wait for.
#[test]
fn the_first_lock_waits_until_its_session_is_on_disk() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let file = create(&mut cluster, "file");
    let input = cluster.request_by(6, 0, set(file, 1, false));
    let step = cluster.input(0, input);
    let session = SessionId(6);
    assert_eq!(step.records, [Record::LockHolder { session, has: true }]);
    let record = cluster.nodes[0].shard.status().applied;
    let (shard, input) = (ShardId(0), Input::LockHolderKept { session, record });
    assert_eq!(
        step.outputs,
        [Output::WhenDurable {
            shard,
            input: input.clone()
        }]
    );
    let step = cluster.input(0, input);
    assert!(matches!(
        &step.outputs[..],
        [Output::Answer {
            result: Ok(Reply::Done),
            ..
        }]
    ));
    // The next one does not.
    let input = cluster.request_by(6, 0, unlock(file, 1));
    let step = cluster.input(0, input);
    assert_eq!((step.records.len(), step.outputs.len()), (0, 1));
}

fn relock(locks: Vec<(Ino, FileLock)>) -> Request {
    Request::Relock(op::Relock { locks, last: true })
}

#[test]
fn after_a_restart_nobody_gets_a_lock_until_all_have_told_theirs() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let (one, two) = (create(&mut cluster, "one"), create(&mut cluster, "two"));
    ask(&mut cluster, 6, 0, set(one, 1, true)).unwrap();
    ask(&mut cluster, 7, 0, set(two, 2, true)).unwrap();
    ask(&mut cluster, 7, 0, unlock(two, 2)).unwrap();
    cluster.restart(0);
    assert_eq!(cluster.nodes[0].shard.status().locks, 0);
    let late = Request::GetLock(op::GetLock {
        ino: one,
        lock: lock(9),
    });
    assert_eq!(ask(&mut cluster, 8, 0, late), Err(Refusal::NotYet));
    let waiting = wait(&mut cluster, 7, 0, set(one, 2, false));
    let free = wait(&mut cluster, 7, 0, set(two, 2, false));
    let told = ask(
        &mut cluster,
        6,
        0,
        relock(vec![(one, lock(1)), (Ino(77), lock(1))]),
    );
    assert_eq!(told, Ok(Reply::LostLocks(vec![])));
    // One session is missing still.
    let last = cluster.request_by(7, 0, relock(vec![]));
    let mut found = answers(&mut cluster, 0, last.clone());
    found.sort_by_key(|(ticket, _)| *ticket);
    let wanted = [
        (ticket(&waiting), BUSY),
        (ticket(&free), Ok(Reply::Done)),
        (ticket(&last), Ok(Reply::LostLocks(vec![]))),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn who_does_not_come_in_time_has_lost_its_locks() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let file = create(&mut cluster, "file");
    ask(&mut cluster, 6, 0, set(file, 1, true)).unwrap();
    cluster.restart(0);
    let waiting = wait(&mut cluster, 7, 0, set(file, 1, true));
    // However far the clock is set.
    cluster.now += 10 * SESSION_TIMEOUT.as_nanos() as i64;
    assert_eq!(
        answers(&mut cluster, 0, Input::Tick),
        [(ticket(&waiting), Err(Refusal::NotYet))]
    );
    assert_eq!(answers(&mut cluster, 0, waiting.clone()), []);
    let mut given = 0;
    for _ in 0..2 * (SESSION_TIMEOUT.as_secs() / LOCK_WAIT.as_secs()) {
        for (_, answer) in pass(&mut cluster, 0, LOCK_WAIT / 2) {
            given += u32::from(answer == Ok(Reply::Done));
        }
        if given == 0 {
            given += u32::from(!answers(&mut cluster, 0, waiting.clone()).is_empty());
        }
    }
    assert_eq!(given, 1);
    let lost = ask(&mut cluster, 6, 0, relock(vec![(file, lock(1))]));
    assert_eq!(lost, Ok(Reply::LostLocks(vec![(file, lock(1))])));
    // Nobody is waited for after the next restart but the one that has it.
    cluster.restart(0);
    let told = ask(&mut cluster, 7, 0, relock(vec![(file, lock(1))]));
    assert_eq!(told, Ok(Reply::LostLocks(vec![])));
    assert_eq!(ask(&mut cluster, 6, 0, set(file, 1, false)), BUSY);
}

#[test]
fn locks_go_with_their_inode_and_who_waits_is_sent_after_it() {
    let settings = Settings {
        split_threshold: 8,
        max_partitions: Some(2),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(2, DirPolicy::default(), settings);
    let inos: Vec<Ino> = (0..8)
        .map(|at| create(&mut cluster, &format!("file {at}")))
        .collect();
    let mut waiting = Vec::new();
    for &ino in &inos {
        ask(&mut cluster, 6, 0, set(ino, 1, true)).unwrap();
        waiting.push(wait(&mut cluster, 7, 0, set(ino, 2, true)));
    }
    let before = cluster.nodes[0].shard.status();
    assert_eq!((before.locks, before.lock_waiters), (8, 8));
    let create = create_file(Ino::ROOT, name("one too many"));
    let create = cluster.request_by(8, 0, create);
    let mut sent_on = answers(&mut cluster, 0, create.clone());
    sent_on.retain(|(of, _)| *of != ticket(&create));
    for _ in 0..100 {
        cluster.now += TICK_INTERVAL.as_nanos() as i64;
        for shard in 0..2 {
            sent_on.extend(answers(&mut cluster, shard, Input::Tick));
        }
    }
    let moved: Vec<usize> = (0..inos.len())
        .filter(|&at| {
            let (ino, shard) = (inos[at], ShardId(1));
            let answer = (ticket(&waiting[at]), Err(Refusal::Moved { ino, shard }));
            sent_on.contains(&answer)
        })
        .collect();
    assert!(
        !moved.is_empty() && moved.len() == sent_on.len(),
        "{sent_on:?}"
    );
    let there = cluster.nodes[1].shard.status();
    assert_eq!(there.locks, moved.len() as u64);
    for &at in &moved {
        let ino = inos[at];
        assert_eq!(ask(&mut cluster, 7, 1, set(ino, 2, false)), BUSY);
        let again = wait(&mut cluster, 7, 1, set(ino, 2, true));
        let unlocked = cluster.request_by(6, 1, unlock(ino, 1));
        let found = answers(&mut cluster, 1, unlocked);
        assert!(
            found.contains(&(ticket(&again), Ok(Reply::Done))),
            "{found:?}"
        );
    }
    // The shard that they went to knows which sessions to wait for after a restart.
    cluster.restart(1);
    let ino = inos[moved[0]];
    let waits = wait(&mut cluster, 8, 1, set(ino, 3, false));
    assert_eq!(
        ask(&mut cluster, 6, 1, relock(vec![])),
        Ok(Reply::LostLocks(vec![]))
    );
    let last = cluster.request_by(7, 1, relock(vec![(ino, lock(2))]));
    let found = answers(&mut cluster, 1, last);
    assert!(found.contains(&(ticket(&waits), BUSY)), "{found:?}");
}

/// Locks that are not told yet would be lost on the way.
#[test]
fn nothing_that_may_be_locked_moves_before_all_locks_are_told() {
    let settings = Settings {
        split_threshold: 4,
        max_partitions: Some(2),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(2, DirPolicy::default(), settings);
    let file = create(&mut cluster, "file");
    ask(&mut cluster, 6, 0, set(file, 1, true)).unwrap();
    cluster.restart(0);
    for at in 0..6 {
        create(&mut cluster, &format!("other {at}"));
    }
    let splits = |cluster: &mut Cluster| {
        for _ in 0..100 {
            cluster.now += TICK_INTERVAL.as_nanos() as i64;
            for shard in 0..2 {
                answers(cluster, shard, Input::Tick);
            }
        }
        cluster.nodes[0].shard.status().splits
    };
    assert_eq!(splits(&mut cluster), 0);
    ask(&mut cluster, 6, 0, relock(vec![(file, lock(1))])).unwrap();
    assert_eq!(splits(&mut cluster), 1);
    let held: u64 = (0..2)
        .map(|at| cluster.nodes[at].shard.status().locks)
        .sum();
    assert_eq!(held, 1);
}
