//! Locks: registered again at a restarted server, lost ones, waiting and its end.

use crate::common::*;
use pandofs_api::{Refusal, Reply, Request, RequestKey, op};
use pandofs_client::{Cancellation, ClientError, Tried, set_cancellation};
use pandofs_types::{FileLock, FsError, Ino, LockKind, LockMode, LockRange};
use pandofs_wire::message::RequestBody;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const FILE: Ino = Ino(2);
const OTHER: Ino = Ino(3);

fn lock(owner: u64) -> FileLock {
    FileLock {
        kind: LockKind::Record,
        owner,
        pid: 9,
        mode: LockMode::Exclusive,
        range: LockRange { first: 0, last: 9 },
    }
}

/// Gives every lock, and takes every one that is told again unless it `loses` them.
fn giving(loses: &Arc<AtomicBool>) -> impl Fn(&RequestBody) -> Reaction + Send + Sync + 'static {
    let loses = Arc::clone(loses);
    move |request| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::SetLock(_) | Request::Unlock(_) | Request::Release(_) => ok(Reply::Done),
            Request::Relock(op::Relock { locks, .. }) if loses.load(Ordering::SeqCst) => {
                ok(Reply::LostLocks(locks.clone()))
            }
            Request::Relock(_) => ok(Reply::LostLocks(Vec::new())),
            Request::GetAttr(op::GetAttr { ino }) => ok(Reply::Inode(file(*ino))),
            _ => unexpected(request),
        },
        _ => unexpected(request),
    }
}

fn told(server: &Fake) -> Vec<(Vec<(Ino, FileLock)>, bool)> {
    let relock = |request| match request {
        Request::Relock(op::Relock { locks, last }) => Some((locks, last)),
        _ => None,
    };
    let asked = server.asked().into_iter();
    asked.filter_map(|asked| relock(asked.request)).collect()
}

#[test]
fn a_restarted_server_is_told_the_locks_that_are_left_before_anything_else() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 2);
    let loses = Arc::new(AtomicBool::new(false));
    let server = Fake::start(&map, 0, giving(&loses));
    let client = client(&map);
    for (ino, owner) in [(FILE, 1), (FILE, 2), (OTHER, 3)] {
        let lock = FileLock {
            range: LockRange {
                first: owner * 10,
                last: owner * 10 + 9,
            },
            ..lock(owner)
        };
        assert_eq!(client.try_lock(ino, owner, lock).unwrap(), Tried::Locked);
    }
    client
        .unlock(OTHER, 3, LockKind::Record, 3, LockRange::WHOLE)
        .unwrap();
    let part = LockRange {
        first: 10,
        last: 14,
    };
    client.unlock(FILE, 1, LockKind::Record, 1, part).unwrap();
    assert_eq!(told(&server), [(vec![], true), (vec![], true)]);
    server.restart();
    client.getattr(&ME, FILE).unwrap();
    let left = |owner: u64, first| FileLock {
        range: LockRange {
            first,
            last: owner * 10 + 9,
        },
        ..lock(owner)
    };
    // The client tells both shards all: the inode may have moved.
    let all = (vec![(FILE, left(1, 15)), (FILE, left(2, 20))], true);
    assert_eq!(told(&server)[2..], [all.clone(), all]);
    let last = server.asked().pop().unwrap();
    assert!(matches!(last.request, Request::GetAttr(_)), "{last:?}");
}

#[test]
fn a_client_without_locks_tells_none() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 2);
    let server = Fake::start(&map, 0, giving(&Arc::default()));
    let client = client(&map);
    client.getattr(&ME, FILE).unwrap();
    server.restart();
    client.getattr(&ME, FILE).unwrap();
    assert_eq!(told(&server), []);
    client.close_descriptor(FILE, 1, 7).unwrap();
    client.unlock_handle(FILE, 1).unwrap();
    let asked = server.asked();
    assert!(
        asked
            .iter()
            .all(|asked| matches!(asked.request, Request::GetAttr(_)))
    );
}

#[test]
fn an_open_file_whose_lock_is_lost_is_spoilt_until_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let loses = Arc::new(AtomicBool::new(false));
    let server = Fake::start(&map, 0, giving(&loses));
    let client = client(&map);
    client.try_lock(FILE, 1, lock(7)).unwrap();
    loses.store(true, Ordering::SeqCst);
    server.restart();
    client.getattr(&ME, FILE).unwrap();
    let io = Err(ClientError::Fs(FsError::Io));
    assert_eq!(client.check_locks(FILE, 1), io);
    assert_eq!(client.try_lock(FILE, 1, lock(7)).map(drop), io);
    assert_eq!(client.close_descriptor(FILE, 1, 7), io);
    assert_eq!(client.check_locks(FILE, 2), Ok(()));
    client.unlock_handle(FILE, 1).unwrap();
    assert_eq!(client.check_locks(FILE, 1), Ok(()));
}

/// Says "not yet" until a request comes that does not want to wait.
fn refusing() -> impl Fn(&RequestBody) -> Reaction + Send + Sync + 'static {
    let cancelled = AtomicBool::new(false);
    move |request| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::SetLock(op::SetLock { blocking, .. }) => {
                if !blocking {
                    cancelled.store(true, Ordering::SeqCst);
                }
                if cancelled.load(Ordering::SeqCst) {
                    refuse(FsError::WouldBlock)
                } else {
                    refuse(Refusal::NotYet)
                }
            }
            Request::Relock(_) => ok(Reply::LostLocks(Vec::new())),
            Request::Unlock(_) => ok(Reply::Done),
            _ => unexpected(request),
        },
        _ => unexpected(request),
    }
}

#[test]
fn who_waits_asks_again_with_the_same_key_until_it_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let server = Fake::start(&map, 0, refusing());
    let client = client(&map);
    let wait = Arc::new(client.lock_wait(FILE, 1, lock(7), true).unwrap());
    let waiter = std::thread::spawn({
        let wait = Arc::clone(&wait);
        move || wait.wait()
    });
    let keys = || -> Vec<RequestKey> {
        let asked = server.asked().into_iter();
        asked
            .filter(|asked| matches!(asked.request, Request::SetLock(_)))
            .map(|asked| asked.key)
            .collect()
    };
    eventually("it asks again", || keys().len() >= 3);
    wait.cancel();
    let interrupted = Err(ClientError::Fs(FsError::Interrupted));
    assert_eq!(waiter.join().unwrap(), interrupted);
    let keys = keys();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    // Nothing is left of it.
    client.unlock_handle(FILE, 1).unwrap();
    let asked = server.asked();
    assert!(
        !asked
            .iter()
            .any(|asked| matches!(asked.request, Request::Unlock(_)))
    );
}

#[test]
fn who_does_not_wait_is_told_that_it_is_not_known_yet() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let _server = Fake::start(&map, 0, |request| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::SetLock(_) | Request::GetLock(_) => refuse(Refusal::NotYet),
            Request::Relock(_) => ok(Reply::LostLocks(Vec::new())),
            _ => unexpected(request),
        },
        _ => unexpected(request),
    });
    let client = client(&map);
    assert_eq!(client.try_lock(FILE, 1, lock(7)).unwrap(), Tried::NotYet);
    let holder = client.lock_holder(FILE, lock(7), false).unwrap();
    assert_eq!(holder, pandofs_client::Holder::NotYet);
}

/// A program is killed, and gone before its locks are unlocked; the next one has its number.
#[test]
fn a_late_unlocking_does_not_take_the_next_programs_lock() {
    // Set by the cancellation of each thread, which is a plain function.
    static IS_LET_GO: AtomicBool = AtomicBool::new(false);
    static NEXT_WAITS: AtomicBool = AtomicBool::new(false);
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let is_unlocked = Arc::new(AtomicBool::new(true));
    let came_early = Arc::new(AtomicBool::new(false));
    let _server = Fake::start(&map, 0, {
        let (is_unlocked, came_early) = (Arc::clone(&is_unlocked), Arc::clone(&came_early));
        move |request| match request {
            RequestBody::Shard(asked) => match &asked.request {
                Request::SetLock(_) => {
                    if !is_unlocked.load(Ordering::SeqCst) {
                        came_early.store(true, Ordering::SeqCst);
                    }
                    ok(Reply::Done)
                }
                Request::Unlock(_) => {
                    is_unlocked.store(false, Ordering::SeqCst);
                    eventually("the next program has asked or waits", || {
                        NEXT_WAITS.load(Ordering::SeqCst) || came_early.load(Ordering::SeqCst)
                    });
                    is_unlocked.store(true, Ordering::SeqCst);
                    ok(Reply::Done)
                }
                Request::Relock(_) => ok(Reply::LostLocks(Vec::new())),
                _ => unexpected(request),
            },
            _ => unexpected(request),
        }
    });
    let client = client(&map);
    assert_eq!(client.try_lock(FILE, 1, lock(7)), Ok(Tried::Locked));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set_cancellation(Some(Cancellation {
                id: 0,
                caller: Arc::new((|| false, || IS_LET_GO.store(true, Ordering::SeqCst))),
            }));
            client.close_descriptor(FILE, 1, 7).unwrap();
        });
        eventually("the program is let go", || IS_LET_GO.load(Ordering::SeqCst));
        set_cancellation(Some(Cancellation {
            id: 0,
            caller: Arc::new((
                || {
                    NEXT_WAITS.store(true, Ordering::SeqCst);
                    true
                },
                || (),
            )),
        }));
        assert_eq!(client.try_lock(FILE, 2, lock(7)), Ok(Tried::Locked));
        set_cancellation(None);
    });
    assert!(
        !came_early.load(Ordering::SeqCst),
        "both were under way at once"
    );
}

/// A program is killed while it closes a file, and waits for what another thread asks for the same
/// owner.
#[test]
fn what_a_killed_program_closes_is_unlocked_when_its_turn_comes() {
    static IS_LET_GO: AtomicBool = AtomicBool::new(false);
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let is_asked = Arc::new(AtomicBool::new(false));
    let server = Fake::start(&map, 0, {
        let is_asked = Arc::clone(&is_asked);
        move |request| match request {
            RequestBody::Shard(asked) => match &asked.request {
                // Only what is unlocked in part has somebody before it.
                Request::Unlock(op::Unlock { range, .. }) if *range != LockRange::WHOLE => {
                    is_asked.store(true, Ordering::SeqCst);
                    eventually("the program is let go", || IS_LET_GO.load(Ordering::SeqCst));
                    ok(Reply::Done)
                }
                Request::SetLock(_) | Request::Unlock(_) => ok(Reply::Done),
                Request::Relock(_) => ok(Reply::LostLocks(Vec::new())),
                _ => unexpected(request),
            },
            _ => unexpected(request),
        }
    });
    let client = client(&map);
    assert_eq!(client.try_lock(FILE, 1, lock(7)), Ok(Tried::Locked));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let part = LockRange { first: 0, last: 4 };
            client.unlock(FILE, 1, LockKind::Record, 7, part).unwrap();
        });
        eventually("a part is being unlocked", || {
            is_asked.load(Ordering::SeqCst)
        });
        set_cancellation(Some(Cancellation {
            id: 0,
            caller: Arc::new((|| false, || IS_LET_GO.store(true, Ordering::SeqCst))),
        }));
        let closed = client.unlock_handle(FILE, 1);
        set_cancellation(None);
        // Not stuck, where it was given up.
        IS_LET_GO.store(true, Ordering::SeqCst);
        assert_eq!(closed, Ok(()));
    });
    let asked = server.asked();
    let is_whole = |request: &Request| matches!(request, Request::Unlock(op::Unlock { range, .. }) if *range == LockRange::WHOLE);
    assert!(asked.iter().any(|asked| is_whole(&asked.request)));
}

/// The program is killed while it asks, and never hears that it was given the lock.
#[test]
fn a_lock_that_is_given_to_a_killed_program_is_let_go() {
    static IS_LET_GO: AtomicBool = AtomicBool::new(false);
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let server = Fake::start(&map, 0, |request| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::SetLock(_) => {
                eventually("the program is let go", || IS_LET_GO.load(Ordering::SeqCst));
                ok(Reply::Done)
            }
            Request::Unlock(_) => ok(Reply::Done),
            Request::Relock(_) => ok(Reply::LostLocks(Vec::new())),
            _ => unexpected(request),
        },
        _ => unexpected(request),
    });
    let client = client(&map);
    set_cancellation(Some(Cancellation {
        id: 0,
        caller: Arc::new((|| false, || IS_LET_GO.store(true, Ordering::SeqCst))),
    }));
    let tried = client.try_lock(FILE, 1, lock(7));
    set_cancellation(None);
    assert_eq!(tried, Err(ClientError::Fs(FsError::Interrupted)));
    let asked = server.asked();
    let last = asked.last().map(|asked| &asked.request);
    assert!(matches!(
        last,
        Some(Request::Unlock(op::Unlock { owner: 7, .. }))
    ));
}
