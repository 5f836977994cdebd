//! Syncs and flushes: what waits for the disk, and what a start goes by.

use crate::driver::{Driver, ID, NEVER, Noted, answered, create, has_sync, map};
use pandofs_api::{Reply, Request, op};
use pandofs_lane::{Command, LaneError, Points, Stage, configs, flush, recover};
use pandofs_shard::Environment;
use pandofs_storage::log::Log;
use pandofs_types::limits::SESSION_TIMEOUT;
use pandofs_types::{FileLock, LockKind, LockMode, LockRange, ShardId, Steady, Time};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn what_must_be_on_disk_is_said_after_a_sync_that_began_after_its_append() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.ask(2, Request::Sync(op::Sync));
    driver.run().unwrap();
    assert_eq!(
        answered(&driver.commands()),
        [1],
        "a create waits for nothing"
    );
    assert!(has_sync(&driver.work(NEVER)));
    // Appended while that one is under way.
    driver.ask(3, create("b"));
    driver.ask(4, Request::Sync(op::Sync));
    driver.run().unwrap();
    assert_eq!(answered(&driver.commands()), [3]);
    assert!(!has_sync(&driver.work(NEVER)), "one sync at a time");
    driver.lane.synced().unwrap();
    let commands = driver.work(NEVER);
    assert_eq!(answered(&commands), [2]);
    assert!(has_sync(&commands));
    driver.lane.synced().unwrap();
    assert_eq!(answered(&driver.commands()), [4]);
    assert_eq!(driver.lane.counters().log_syncs, 2);
    assert!(driver.lane.shards().promised(ShardId(0)) >= 2);
}

#[test]
fn changes_that_nobody_waits_for_are_synced_after_a_while() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    assert!(!has_sync(&driver.work(NEVER)));
    driver.now = Steady(0).after(Duration::from_millis(4_999));
    assert!(!has_sync(&driver.work(NEVER)));
    driver.lane.run_timers(driver.now);
    assert_eq!(
        driver.lane.next_due(),
        Steady(0).after(Duration::from_secs(5))
    );
    driver.now = driver.lane.next_due();
    assert!(has_sync(&driver.work(NEVER)));
    // Where every batch is synced, at once.
    let mut driver = Driver::new(0);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    let commands = driver.work(NEVER);
    assert!(has_sync(&commands) && answered(&commands).is_empty());
    driver.lane.synced().unwrap();
    assert_eq!(answered(&driver.commands()), [1]);
}

#[test]
fn the_store_gets_what_is_applied_when_it_is_much_and_before_a_flush() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    assert_eq!(driver.store.memory.unflushed(), 0, "it is kept");
    assert!(driver.lane.unflushed_bytes() > 0);
    assert!(driver.lane.take_appended_bytes() > 0);
    assert_eq!(driver.lane.take_appended_bytes(), 0);
    driver.commands();

    driver.lane.want_flush(3);
    let commands = driver.work(NEVER);
    let [Command::Flush { written }] = &commands[..] else {
        panic!("{commands:?}");
    };
    assert_eq!(driver.store.memory.unflushed(), 1);
    // Of what comes meanwhile the log keeps the record.
    driver.ask(2, create("b"));
    driver.run().unwrap();
    driver.lane.want_flush(4);
    assert_eq!(answered(&driver.work(NEVER)), [2], "one flush at a time");
    let (_, last) = driver.log.span(0).unwrap();
    flush(&*driver.store, &*driver.log, written).unwrap();
    driver.lane.flushed().unwrap();
    let commands = driver.work(NEVER);
    assert!(
        matches!(
            commands[..],
            [Command::FlushDone { to: 3 }, Command::Flush { .. }]
        ),
        "{commands:?}"
    );
    assert_eq!(driver.log.span(0), Some((last, last)));
    driver.lane.flushed().unwrap();
    assert_eq!(driver.lane.unflushed_bytes(), 0);

    let mut driver = Driver::with(5_000, 1, Points::default());
    let before = driver.store.memory.unflushed();
    driver.ask(1, create("a"));
    driver.run().unwrap();
    assert_eq!(driver.store.memory.unflushed(), before + 1);
}

#[test]
fn a_low_disk_has_the_store_flushed() {
    let mut driver = Driver::new(5_000);
    driver.lane.space(true);
    driver.run().unwrap();
    assert!(matches!(driver.work(NEVER)[..], [Command::Flush { .. }]));
    driver.ask(1, create("a"));
    driver.run().unwrap();
    let commands = driver.commands();
    assert!(
        matches!(commands[..], [Command::Answer { result: Err(_), .. }]),
        "{commands:?}"
    );
}

/// Numbers of inodes that are left out at a start: were the record lost, the next start would give some out again.
#[test]
fn what_a_start_decides_is_on_disk_before_anything_is_asked() {
    let driver = Driver::new(5_000);
    assert!(driver.log.next_index(0).is_some_and(|next| next > 1));
    assert_eq!(driver.log.unsynced(), 0);
}

/// The system may have it only in memory, and a server that starts by it says things that come of it.
#[test]
fn what_was_only_written_is_synced_before_a_start_goes_by_it() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    assert!(driver.log.unsynced() > 0);
    let mut environment = Environment {
        now: Time(1),
        steady: Steady(0),
        held: 0,
        random: &mut || 7,
    };
    let configs = configs(&map(5_000), ID, SESSION_TIMEOUT);
    let (store, log) = (&*driver.store, &*driver.log);
    let (_, replayed) = recover(configs, &mut environment, store, log).unwrap();
    assert!(replayed.records > 0);
    assert_eq!(driver.log.unsynced(), 0);
}

/// It is not given before it is on disk that the session may have some: see `file_locks` of the shard.
#[test]
fn the_first_lock_of_a_session_waits_for_a_sync() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    let made = driver
        .commands()
        .into_iter()
        .find_map(|command| match command {
            Command::Answer {
                result: Ok(Reply::Entry(entry)),
                ..
            } => Some(entry.ino),
            _ => None,
        });
    let lock = FileLock {
        kind: LockKind::Record,
        owner: 1,
        pid: 1,
        mode: LockMode::Exclusive,
        range: LockRange::WHOLE,
    };
    driver.ask(
        2,
        Request::SetLock(op::SetLock {
            ino: made.unwrap(),
            lock,
            blocking: false,
            wait_ms: 1_000,
        }),
    );
    driver.run().unwrap();
    assert!(answered(&driver.commands()).is_empty());
    assert!(has_sync(&driver.work(NEVER)));
    driver.run().unwrap();
    assert!(answered(&driver.commands()).is_empty());
    driver.lane.synced().unwrap();
    driver.run().unwrap();
    assert_eq!(answered(&driver.commands()), [2]);
}

#[test]
fn each_record_passes_its_points_and_one_that_fails_stops_the_lane() {
    let noted = Noted::default();
    let (passed, fails_at) = (Arc::clone(&noted.passed), Arc::clone(&noted.fails_at));
    let mut driver = Driver::with(5_000, 64 << 10, Points(Some(Box::new(noted))));
    driver.ask(1, create("a"));
    driver.ask(2, Request::Sync(op::Sync));
    passed.lock().unwrap().clear();
    driver.run().unwrap();
    driver.work(NEVER);
    driver.lane.synced().unwrap();
    driver.work(0);
    driver.lane.flushed().unwrap();
    let expected = [
        "Appending record",
        "Appended record",
        "Applied record",
        "Syncing log",
        "Synced log",
        "Flushing store",
        "Flushed store",
    ];
    assert_eq!(*passed.lock().unwrap(), expected);

    driver.commands();
    *fails_at.lock().unwrap() = Some(Stage::Appended);
    let before = driver.log.next_index(0);
    driver.ask(3, create("b"));
    let error = driver.run().unwrap_err();
    assert!(matches!(error, LaneError::FaultPoint(_)), "{error}");
    let after = driver.log.next_index(0);
    assert_eq!(
        after,
        before.map(|index| index + 1),
        "the log has the record"
    );
    assert!(driver.commands().is_empty(), "nobody is answered");
}
