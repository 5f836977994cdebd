//! Samples of requests to servers about data objects and about themselves.

use super::{DIR, FILE, Named, name};
use pandofs_api::{
    Activity, AdminReply, AdminRequest, Allocation, Cause, DataReply, DataRequest, HotDir,
    ScrubOrder, ScrubReport, ScrubState, SeenOperation, ServerStatus, ShardStatus,
};
use pandofs_types::{Epoch, FsError, FsId, ServerId, SessionId, ShardId, TxId};

/// Every request about a data object.
pub fn data_requests() -> Named<DataRequest> {
    let ino = FILE;
    vec![
        (
            "Read",
            DataRequest::Read {
                ino,
                offset: 1 << 20,
                length: 4_096,
            },
        ),
        (
            "Write",
            DataRequest::Write {
                ino,
                truncations: 300,
                offset: 5,
                data: b"sap".to_vec(),
            },
        ),
        (
            "Truncate",
            DataRequest::Truncate {
                ino,
                truncations: 301,
                length: 6,
            },
        ),
        ("Remove", DataRequest::Remove { ino }),
        ("Sync", DataRequest::Sync { ino }),
        ("Usage", DataRequest::Usage { ino }),
        ("Space", DataRequest::Space),
        (
            "Allocate",
            DataRequest::Allocate {
                ino,
                truncations: 302,
                offset: 1 << 20,
                length: 1 << 33,
                allocation: Allocation::Reserve { keep_size: true },
            },
        ),
        (
            "Seek",
            DataRequest::Seek {
                ino,
                offset: 1 << 20,
                data: true,
            },
        ),
        (
            "Fill",
            DataRequest::Fill {
                ino,
                truncations: 1,
                data: b"pith".to_vec(),
                from_reserve: true,
            },
        ),
    ]
}

/// Every answer about a data object.
pub fn data_replies() -> Named<DataReply> {
    vec![
        ("Done", DataReply::Done),
        ("Data", DataReply::Data(b"sap".to_vec())),
        ("Usage", DataReply::Usage { blocks: 2_048 }),
        (
            "Space",
            DataReply::Space {
                total: 1 << 40,
                free: 1 << 39,
                available: 1 << 38,
                inodes: 1_000,
                disk: 0x0123_4567_89ab_cdef,
            },
        ),
        ("Failed", DataReply::Failed(FsError::NoSpace)),
        (
            "Found",
            DataReply::Found {
                offset: Some(1 << 20),
            },
        ),
        ("Found nothing", DataReply::Found { offset: None }),
        (
            "OtherTruncations",
            DataReply::OtherTruncations { truncations: 300 },
        ),
    ]
}

/// Every administrator's request.
pub fn admin_requests() -> Named<AdminRequest> {
    vec![
        ("Status", AdminRequest::Status),
        ("Map", AdminRequest::Map),
        (
            "Dump",
            AdminRequest::Dump {
                shard: ShardId(2),
                after: vec![2, 0, 2],
                max_bytes: 65_536,
            },
        ),
        (
            "Objects",
            AdminRequest::Objects {
                after: FILE.0,
                max: 1_000,
            },
        ),
        ("Flush", AdminRequest::Flush),
        ("TakeMap", AdminRequest::TakeMap("{}".to_owned())),
        ("Scrub look", AdminRequest::Scrub(ScrubOrder::Look)),
        (
            "Scrub begin",
            AdminRequest::Scrub(ScrubOrder::Begin { rate: 16 << 20 }),
        ),
        ("Scrub pause", AdminRequest::Scrub(ScrubOrder::Pause)),
        ("Scrub resume", AdminRequest::Scrub(ScrubOrder::Resume)),
        ("Activity", AdminRequest::Activity),
    ]
}

/// Every answer to an administrator.
pub fn admin_replies() -> Named<AdminReply> {
    vec![
        ("Done", AdminReply::Done),
        ("Status", AdminReply::Status(Box::new(status()))),
        ("Map", AdminReply::Map("{}\n".to_owned())),
        (
            "Pairs",
            AdminReply::Pairs {
                pairs: vec![(vec![1, 0, 2].into(), vec![1].into())],
                more: true,
            },
        ),
        (
            "Objects",
            AdminReply::Objects {
                objects: vec![(FILE.0, 4_096)],
                more: false,
            },
        ),
        ("Failed", AdminReply::Failed("no such shard".to_owned())),
        (
            "Scrub",
            AdminReply::Scrub(Box::new(ScrubReport {
                state: ScrubState::Paused,
                pass: 2,
                finished: 1,
                share: 125,
                rate: 300,
                objects: 4,
                bytes: 5,
                ended: 6,
                damaged: vec![(FILE.0, 7)],
                faults: vec!["the store".to_owned()],
                taken: 8,
                refused: 9,
                failing: vec![(FILE.0, "cannot read it".to_owned())],
            })),
        ),
        ("Activity", AdminReply::Activity(Box::new(activity()))),
    ]
}

fn status() -> ServerStatus {
    ServerStatus {
        id: ServerId(1),
        fs: FsId(0x0123_4567_89ab_cdef_0011_2233_4455_6677),
        epoch: Epoch(3),
        pid: 4,
        uptime_ms: 5,
        shards: vec![ShardStatus {
            shard: 6,
            entries: 7,
            inodes: 8,
            partitions: 9,
            splits: 10,
            applied: 11,
            synced: 12,
            undecided: 13,
            waiting: 14,
            reclaiming: 15,
            opens: 16,
            locks: 32,
            lock_waiters: 33,
            leases: 34,
            recalled: 35,
            paths_answered: 36,
            paths_led_on: 37,
            paths_unknown: 38,
        }],
        connections: 17,
        sessions: 18,
        requests: 19,
        redirected: 20,
        data_requests: 21,
        data_read: 22,
        data_written: 23,
        peer_messages: 24,
        distributed: 25,
        aborted: 26,
        log_bytes: 27,
        log_syncs: 28,
        log_records: 29,
        log_batches: 30,
        store_bytes: 31,
        granularity: Some(super::granularity()),
    }
}

/// With every cause there is.
fn activity() -> Activity {
    let (session, tx) = (
        SessionId(0x0123_4567_89ab_cdef),
        TxId {
            coordinator: ShardId(2),
            sequence: 300,
        },
    );
    let (server, shard) = (ServerId(1), ShardId(3));
    let causes = [
        Cause::Operation(tx),
        Cause::Records,
        Cause::Split(DIR),
        Cause::Recall { session, others: 1 },
        Cause::Returning,
        Cause::FileLock { session },
        Cause::Store,
        Cause::Log,
        Cause::Server { server, shard },
        Cause::Objects,
        Cause::Pause,
    ];
    let seen = |cause| SeenOperation {
        kind: "create".to_owned(),
        dir: Some(DIR),
        name: Some(name("leaf")),
        ino: None,
        session,
        ago: 3_000,
        took: 2_000,
        waits: Some(cause),
        parts: vec![(cause, 1_000)],
    };
    Activity {
        at: 1,
        cpu: 2,
        lane_cpu: 3,
        memory_bytes: 4,
        under_way: 5,
        lag: 6,
        hot: vec![HotDir {
            dir: DIR,
            per_second: 7,
        }],
        waiting: causes.map(seen).into(),
        slow: Vec::new(),
        clients: vec![(session, "process 8".to_owned())],
    }
}
