//! A server as it is observed from its own process.

use crate::common::held_log::HeldLog;
use crate::common::{Connection, DEADLINE, Memory, create, eventually};
use pandofs_api::{DataReply, DataRequest, FIRST_TRUNCATIONS, Request, op};
use pandofs_server::{Observed, ServerHandle, Unobserved};
use pandofs_types::{Ino, ShardId};
use std::time::Duration;

fn observe(server: &ServerHandle) -> Observed {
    server.observer().observe(DEADLINE).unwrap()
}

/// How many there were of each.
fn counts(timed: &[(String, pandofs_metrics::Snapshot)]) -> Vec<(&str, u64)> {
    let counts = timed.iter();
    counts
        .map(|(name, times)| (name.as_str(), times.count()))
        .collect()
}

#[test]
fn what_is_done_is_counted_once_and_agrees_with_the_status() {
    let memory = Memory::new();
    let server = memory.start();
    let mut client = Connection::client(server.address(), 1);
    for name in ["a", "b", "c"] {
        client.create(name).unwrap();
    }
    client.create("a").unwrap_err();
    client.lookup("a").unwrap();
    client.lookup("b").unwrap();
    client.shard(ShardId(0), Request::Sync(op::Sync)).unwrap();
    let written = client.data(DataRequest::Write {
        ino: Ino(0x1_0007),
        truncations: FIRST_TRUNCATIONS,
        offset: 0,
        data: vec![7; 100],
    });
    assert_eq!(written, DataReply::Done);
    let observed = observe(&server);
    let mut status = Connection::admin(server.address()).status();
    // The administrator's.
    status.connections -= 1;
    status.uptime_ms = observed.status.uptime_ms;
    assert_eq!(observed.status, status);
    assert_eq!(status.requests, 7);
    assert_eq!(
        counts(&observed.timed.operations),
        [("lookup", 2), ("create", 4), ("sync", 1)]
    );
    assert_eq!(counts(&observed.timed.data), [("write", 1)]);
    assert_eq!(observed.status.data_written, 100);
    assert_eq!(observed.timed.forces.count(), status.log_syncs);
    assert!(observed.more.log_appended_bytes > 3 * status.log_records);
    assert_eq!((observed.more.merges, observed.more.grants), (0, 0));
    assert_eq!(observed.timed.early, []);
}

#[test]
fn a_lane_that_is_busy_is_not_waited_for() {
    let memory = Memory::new();
    let log = HeldLog::new();
    let server = memory.start_on(memory.store.clone(), log.clone());
    let mut client = Connection::client(server.address(), 1);
    assert_eq!(observe(&server).status.requests, 0);
    let appends = log.appends.lock().unwrap();
    let request = client.shard_request(ShardId(0), create("a"));
    client.send(request);
    let limit = Duration::from_millis(20);
    let error = eventually("the lane waits for its log", || {
        server.observer().observe(limit).err()
    });
    assert_eq!(error, Unobserved::Busy { limit });
    assert!(error.to_string().contains("within 20ms"), "{error}");
    drop(appends);
    client.answer();
    // An observation that nobody waited for any more does no harm.
    assert_eq!(observe(&server).status.requests, 1);
    let observer = server.observer();
    log.allow(u64::MAX);
    server.stop();
    server.join().unwrap();
    assert_eq!(
        observer.observe(limit).unwrap_err(),
        Unobserved::Busy { limit }
    );
}
