//! Directories that a session has removed on another shard than their names' before servers hear of it.

use crate::grants::{
    HOLDER, OTHER, answer, batch_reply, in_force, in_force_of, lookup, made, recalls, unlink,
};
use crate::mkdir_away::{HOME, are_replayed, batch_of, call, cluster, cluster_with, make};
use crate::support::{Cluster, create_file, name};
use pandofs_api::{Refusal, Reply, Request, op};
use pandofs_placement::Settings;
use pandofs_shard::{Input, Output};
use pandofs_types::limits::{LEASE, MAX_TIME_AHEAD};
use pandofs_types::{FsError, Ino, SessionId, Time};

/// A directory on the second shard that is granted to the holder.
fn granted() -> (Cluster, Ino) {
    let (mut cluster, _, numbers) = cluster();
    make(&mut cluster, "d", numbers[0]).expect("it is made");
    (cluster, numbers[0])
}

fn away(cluster: &mut Cluster, ino: Ino) -> Request {
    let incarnation = in_force(cluster, 0);
    let home_incarnation = in_force(cluster, HOME.0);
    Request::RmdirAway(op::RmdirAway {
        incarnation,
        home_incarnation,
        rmdir: op::Rmdir {
            dir: Ino::ROOT,
            name: name("d"),
        },
        time: Time(cluster.now),
        random: 5,
        ino,
    })
}

fn remove(cluster: &mut Cluster, session: u64, ino: Ino) -> Result<Reply, Refusal> {
    let request = away(cluster, ino);
    call(cluster, 0, session, request)
}

#[test]
fn its_grant_goes_with_it() {
    let (mut cluster, dir) = granted();
    let done = remove(&mut cluster, HOLDER, dir);
    assert_eq!(done, Ok(Reply::Removed { ino: dir }));
    let gone = call(&mut cluster, 0, OTHER, lookup(Ino::ROOT, "d"));
    assert_eq!(gone, Err(FsError::NotFound.into()));
    let gone = call(&mut cluster, HOME.0, OTHER, lookup(dir, "f"));
    assert_eq!(gone, Err(FsError::NotFound.into()));
    are_replayed(&cluster);
}

#[test]
fn who_waits_for_its_recall_goes_on_with_it() {
    let (mut cluster, dir) = granted();
    let input = cluster.request_by(OTHER, HOME.0, lookup(dir, "f"));
    let waiting = cluster.input(HOME.0, input);
    assert_eq!(answer(&waiting), None);
    assert_eq!(recalls(&waiting).len(), 1);
    // Its holder answers the recall when this has ended.
    let request = away(&mut cluster, dir);
    let input = cluster.request_by(HOLDER, 0, request);
    let step = cluster.input(0, input);
    let mut last = None;
    cluster.carry(step.outputs, &mut last);
    // The last of the two answers is that of the request that waits longer.
    assert!(last.is_some(), "the removal does not wait for the recall");
    let gone = call(&mut cluster, 0, OTHER, lookup(Ino::ROOT, "d"));
    assert_eq!(gone, Err(FsError::NotFound.into()));
    let gone = call(&mut cluster, HOME.0, OTHER, lookup(dir, "f"));
    assert_eq!(gone, Err(FsError::NotFound.into()));
}

#[test]
fn one_that_another_session_removes_is_recalled_first() {
    let (mut cluster, dir) = granted();
    let mut request = away(&mut cluster, dir);
    if let Request::RmdirAway(away) = &mut request {
        away.incarnation = in_force_of(&mut cluster, OTHER, 0);
    }
    let input = cluster.request_by(OTHER, 0, request);
    let mut step = cluster.input(0, input);
    // The holder's leases from its making.
    for recall in recalls(&step) {
        let (session, number) = (recall.session, recall.number);
        step = cluster.input(0, Input::Recalled { session, number });
    }
    let mut last = None;
    let mut recalled = Vec::new();
    for output in step.outputs {
        if let Output::Send { to, message, .. } = output {
            let step = cluster.input(to.0, Input::Peer(message));
            recalled.extend(recalls(&step));
            cluster.carry(step.outputs, &mut last);
        }
    }
    assert_eq!(last, None);
    let [recall] = &recalled[..] else {
        panic!("its grant is recalled: {recalled:?}");
    };
    assert_eq!(recall.session, SessionId(HOLDER));
    let (session, number) = (recall.session, recall.number);
    let step = cluster.input(HOME.0, Input::Recalled { session, number });
    cluster.carry(step.outputs, &mut last);
    assert_eq!(last, Some(Ok(Reply::Removed { ino: dir })));
    are_replayed(&cluster);
}

/// The holder has removed the directory; its grants at the home are over, and another session has it. Of those at the name's
/// shard nobody wants any.
fn passed_on() -> (Cluster, Ino, Request) {
    let (mut cluster, dir) = granted();
    let removal = away(&mut cluster, dir);
    let input = cluster.request_by(OTHER, HOME.0, lookup(dir, "f"));
    let step = cluster.input(HOME.0, input);
    assert_eq!(recalls(&step).len(), 1, "the holder does not hear of it");
    cluster.now += LEASE.as_nanos() as i64;
    let mut answered = None;
    for _ in 0..2 {
        let step = cluster.input(HOME.0, Input::Tick);
        cluster.carry(step.outputs, &mut answered);
    }
    assert_eq!(answered, Some(Err(FsError::NotFound.into())));
    cluster.now += LEASE.as_nanos() as i64;
    in_force_of(&mut cluster, OTHER, HOME.0);
    let granted = call(
        &mut cluster,
        HOME.0,
        OTHER,
        Request::Grant(op::Grant { dir }),
    );
    assert!(matches!(granted, Ok(Reply::Granted(Some(_)))));
    (cluster, dir, removal)
}

/// A removes a directory under its grants, and stands still; its time is up at the home, and B has the directory and makes a
/// file in it, of which the home has not heard when it restarts: the removal comes first.
#[test]
fn one_that_another_session_has_since_stays_when_its_home_restarts() {
    stays_when_its_home_restarts(passed_on());
}

/// As before, and A has grants of the home anew.
#[test]
fn one_that_another_session_has_since_stays_by_whatever_grants_of_its_home() {
    let (mut cluster, dir, request) = passed_on();
    in_force(&mut cluster, HOME.0);
    assert_ne!(in_force(&mut cluster, HOME.0), 0);
    stays_when_its_home_restarts((cluster, dir, request));
}

fn stays_when_its_home_restarts((mut cluster, dir, request): (Cluster, Ino, Request)) {
    let (batch, file) = batch_of(&mut cluster, OTHER, &create_file(dir, name("f")));
    cluster.restart(HOME.0);
    let input = cluster.request_by(HOLDER, 0, request);
    let step = cluster.input(0, input);
    let mut removed = None;
    cluster.carry(step.outputs, &mut removed);
    assert_eq!(removed, None, "it waits for who may have it");
    let executed = batch_reply(call(&mut cluster, HOME.0, OTHER, batch).expect("it is executed"));
    assert_eq!((executed.done, executed.refused), (1, None));
    for session in [HOLDER, OTHER].map(SessionId) {
        let step = cluster.input(HOME.0, Input::TakesLeases { session });
        cluster.carry(step.outputs, &mut removed);
    }
    assert_eq!(removed, Some(Err(FsError::NotEmpty.into())));
    let found = call(&mut cluster, HOME.0, OTHER, lookup(dir, "f")).expect("it is there");
    assert_eq!(made(found), file);
    are_replayed(&cluster);
}

#[test]
fn another_directory_of_its_name_stays() {
    let (mut cluster, _, numbers) = cluster();
    make(&mut cluster, "d", numbers[1]).expect("it is made");
    let refused = remove(&mut cluster, HOLDER, numbers[0]);
    assert_eq!(refused, Err(FsError::Stale.into()));
    let found = call(&mut cluster, 0, OTHER, lookup(Ino::ROOT, "d")).expect("it is there");
    assert_eq!(made(found), numbers[1]);
}

#[test]
fn one_that_has_got_a_name_stays() {
    let (mut cluster, dir) = granted();
    call(&mut cluster, HOME.0, HOLDER, create_file(dir, name("f"))).expect("it is made");
    let refused = remove(&mut cluster, HOLDER, dir);
    assert_eq!(refused, Err(FsError::NotEmpty.into()));
    call(&mut cluster, HOME.0, HOLDER, unlink(dir, "f")).expect("it is still the holder's");
    assert!(remove(&mut cluster, HOLDER, dir).is_ok());
    are_replayed(&cluster);
}

#[test]
fn one_that_was_about_to_split_is_removed_without_its_grant_being_given_up() {
    let (mut cluster, _, numbers) = cluster_with(Settings {
        split_threshold: 8,
        max_partitions: Some(2),
        ..Settings::default()
    });
    let dir = numbers[0];
    make(&mut cluster, "d", dir).expect("it is made");
    let names: Vec<String> = (0..40).map(|number| format!("f{number}")).collect();
    for text in &names {
        call(&mut cluster, HOME.0, HOLDER, create_file(dir, name(text))).expect("it is made");
    }
    // The last step waits for the grant, and its session does not give it up.
    for text in &names {
        call(&mut cluster, HOME.0, HOLDER, unlink(dir, text)).expect("it is still the holder's");
    }
    let step = cluster.input(HOME.0, Input::Tick);
    cluster.carry(step.outputs, &mut None);
    let done = remove(&mut cluster, HOLDER, dir);
    assert_eq!(done, Ok(Reply::Removed { ino: dir }));
    are_replayed(&cluster);
}

#[test]
fn a_time_too_far_ahead_is_brought_back() {
    let (mut cluster, dir) = granted();
    let mut request = away(&mut cluster, dir);
    if let Request::RmdirAway(away) = &mut request {
        away.time = Time(cluster.now + 2 * MAX_TIME_AHEAD.as_nanos() as i64);
    }
    let before = cluster.now;
    call(&mut cluster, 0, HOLDER, request).expect("it is removed");
    let root = call(
        &mut cluster,
        0,
        OTHER,
        Request::GetAttr(op::GetAttr { ino: Ino::ROOT }),
    );
    let Ok(Reply::Inode(root)) = root else {
        panic!("{root:?}");
    };
    let ahead = root.attr.mtime.0 - MAX_TIME_AHEAD.as_nanos() as i64;
    assert!((before..=cluster.now).contains(&ahead));
}
