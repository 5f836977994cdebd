//! Samples of the messages between shards and servers.

use super::{
    DIR, FILE, Named, TIME, acls, caller, data_replies, data_requests, grain, inode_reply,
    layout_choice, lock, name, settings, single_map, split_map,
};
use pandofs_api::{
    Above, AboveSeen, Adopt, Age, Ask, CommitMessage, Horizon, MovedInode, NewDir, NewFile,
    NewNode, NewPart, PathName, PeerMessage, Refused, SearchCondition, SetAcl, SplitChunk, SplitId,
    SplitItem, Step, StepNumber, StepResult, Swap, SwappedEntry, Whiteout, step,
};
use pandofs_placement::{PartitionIndex, ServerLoad};
use pandofs_types::{
    AclKind, Acls, FileKind, FsError, Ino, SessionId, SetAttr, ShardId, Time, TraceContext, TxId,
};

/// Of a coordinator that is not shard 0.
pub fn tx() -> TxId {
    TxId {
        coordinator: ShardId(2),
        sequence: 500,
    }
}

/// Of an operation that began again: the number differs from [`tx`]'s.
pub fn age() -> Age {
    Age {
        time: Time(TIME.0 + 4),
        tx: TxId {
            coordinator: ShardId(2),
            sequence: 499,
        },
    }
}

fn swapped() -> SwappedEntry {
    SwappedEntry {
        ino: FILE,
        kind: FileKind::File,
        shard: ShardId(1),
    }
}

fn result() -> StepResult {
    StepResult {
        inode: Some(Box::new(inode_reply())),
        entry: Some(swapped()),
    }
}

/// Of the coordinator of [`tx`].
pub fn split_id() -> SplitId {
    SplitId {
        source: ShardId(2),
        sequence: 501,
    }
}

/// Of a directory that has split.
pub fn new_part() -> NewPart {
    NewPart {
        dir: DIR,
        map: split_map(),
        mode: 0o2775,
        uid: 1000,
        gid: 100,
        grain: grain(),
        settings: settings(),
        time: TIME,
        acls: acls(),
        path: Some(path()),
    }
}

/// Of a directory in the root.
pub fn path() -> PathName {
    PathName::ROOT.join(&name("branch")).expect("it is short")
}

/// Path permissions of a directory in the root.
pub fn above() -> Above {
    let root = SearchCondition::of(0o755, 0, 0, &acls());
    let above = Above::default().below(Ino::ROOT, root);
    above.expect("it is little")
}

/// With an extended attribute.
pub fn moved_inode() -> MovedInode {
    MovedInode {
        ino: FILE,
        record: vec![0xaa, 0xbb],
        data: b"bark".to_vec().into(),
        xattrs: vec![(b"user.a".to_vec().into(), b"1".to_vec().into())],
    }
}

/// An entry whose inode moves along.
pub fn split_item() -> SplitItem {
    SplitItem {
        name: name("leaf"),
        entry: vec![0xcc],
        inode: Some(moved_inode()),
    }
}

fn stays() -> SplitItem {
    SplitItem {
        name: name("twin"),
        entry: vec![0xdd],
        inode: None,
    }
}

/// With an entry that moves its inode, and one that does not.
pub fn split_chunk() -> SplitChunk {
    SplitChunk {
        split: split_id(),
        dir: DIR,
        number: 3,
        items: vec![split_item(), stays()],
        gone: vec![name("fallen")],
    }
}

/// With changes, names that went, opens and locks.
pub fn adopt() -> Adopt {
    Adopt {
        split: split_id(),
        part: new_part(),
        child: PartitionIndex(2),
        back: false,
        chunks: 4,
        changed: vec![stays()],
        gone: vec![name("fallen")],
        opens: vec![(FILE, SessionId(9), 2)],
        mtime: TIME,
        ctime: Time(TIME.0 + 1),
        locks: vec![(FILE, SessionId(9), lock())],
    }
}

fn new_file(node: NewNode) -> NewFile {
    NewFile {
        node,
        mode: 0o640,
        uid: 1000,
        gid: 100,
        layout: layout_choice(),
        time: TIME,
        acls: Acls::default(),
        opened_by: Some(SessionId(9)),
    }
}

/// Every step.
pub fn steps() -> Named<Step> {
    let (dir, time) = (DIR, TIME);
    let new_dir = NewDir {
        parent: Ino::ROOT,
        mode: 0o755,
        uid: 1000,
        gid: 100,
        grain: grain(),
        settings: settings(),
        time,
        acls: acls(),
        chosen: Some((SessionId(9), DIR)),
        path: Some(path()),
        above: Some(AboveSeen {
            above: above(),
            lines: vec![300],
        }),
    };
    let set = SetAttr {
        mode: Some(0o700),
        ..SetAttr::default()
    };
    vec![
        (
            "Insert",
            Step::Insert(step::Insert {
                dir,
                name: name("leaf"),
                ino: Some(FILE),
                kind: FileKind::File,
                shard: ShardId(1),
                replace: true,
                caller: caller(),
                time,
            }),
        ),
        (
            "Insert made",
            Step::Insert(step::Insert {
                dir,
                name: name("leaf"),
                ino: None,
                kind: FileKind::Dir,
                shard: ShardId(1),
                replace: false,
                caller: caller(),
                time,
            }),
        ),
        (
            "Remove",
            Step::Remove(step::Remove {
                dir,
                name: name("leaf"),
                ino: FILE,
                caller: caller(),
                time,
            }),
        ),
        (
            "Whiteout",
            Step::Whiteout(Box::new(Whiteout {
                dir,
                name: name("leaf"),
                ino: FILE,
                new: new_file(NewNode::Char { rdev: 0 }),
                caller: caller(),
            })),
        ),
        ("NewDir", Step::NewDir(Box::new(new_dir))),
        ("NewFile", Step::NewFile(Box::new(new_file(NewNode::File)))),
        (
            "NewFile link",
            Step::NewFile(Box::new(NewFile {
                opened_by: None,
                ..new_file(NewNode::Symlink {
                    target: b"there".to_vec(),
                })
            })),
        ),
        ("NewPart", Step::NewPart(Box::new(new_part()))),
        ("Link", Step::Link(step::Link { ino: FILE, time })),
        (
            "Unlink",
            Step::Unlink(step::Unlink {
                ino: FILE,
                must_own: Some(1000),
                time,
            }),
        ),
        (
            "Touch",
            Step::Touch(step::Touch {
                ino: FILE,
                must_own: None,
                time,
            }),
        ),
        (
            "DropDir",
            Step::DropDir(step::DropDir {
                dir,
                must_own: Some(1000),
                holder: Some(step::Holder {
                    session: SessionId(7),
                    incarnation: u64::MAX,
                }),
            }),
        ),
        ("DropPart", Step::DropPart(step::DropPart { dir })),
        (
            "SetParent",
            Step::SetParent(step::SetParent {
                dir,
                parent: Ino::ROOT,
                must_own: None,
                caller: caller(),
                time,
            }),
        ),
        (
            "HoldAncestors",
            Step::HoldAncestors(step::HoldAncestors {
                from: DIR,
                moving: Ino(DIR.0 + 1),
                depth: 5,
            }),
        ),
        (
            "SetDir",
            Step::SetDir(step::SetDir {
                dir,
                set,
                settings: settings(),
                caller: caller(),
                time,
            }),
        ),
        (
            "PathLine",
            Step::PathLine(step::PathLine {
                dir,
                moved: true,
                stamp: 300,
            }),
        ),
        ("Adopt", Step::Adopt(Box::new(adopt()))),
        (
            "GiveUp",
            Step::GiveUp(step::GiveUp {
                dir,
                split: split_id(),
            }),
        ),
        (
            "Swap",
            Step::Swap(Box::new(Swap {
                dir,
                name: name("leaf"),
                other: Ino::ROOT,
                comes: swapped(),
                own: true,
                caller: caller(),
                time,
                stamp: 300,
            })),
        ),
        (
            "SetAcl",
            Step::SetAcl(Box::new(SetAcl {
                dir,
                kind: AclKind::Default,
                acl: acls().access.map(|acl| *acl),
                caller: caller(),
                time,
            })),
        ),
    ]
}

/// Every reason not to perform a step.
pub fn refused() -> Named<Refused> {
    vec![
        ("Fs", Refused::Fs(FsError::NotEmpty)),
        ("Busy", Refused::Busy),
        ("Misdirected", Refused::Misdirected(Some(single_map()))),
        ("Misdirected unknown", Refused::Misdirected(None)),
        (
            "Moved",
            Refused::Moved {
                ino: FILE,
                shard: ShardId(3),
            },
        ),
        ("SameFile", Refused::SameFile),
        ("Unknown", Refused::Unknown),
    ]
}

/// Every message of a distributed operation.
pub fn commit_messages() -> Named<CommitMessage> {
    let (tx, number) = (tx(), StepNumber(300));
    let drop_part = Step::DropPart(step::DropPart { dir: DIR });
    vec![
        (
            "Do",
            CommitMessage::Do {
                tx,
                number,
                step: drop_part.clone(),
                ask: Ask::Decide,
                age: age(),
            },
        ),
        (
            "Prepared",
            CommitMessage::Prepared {
                tx,
                number,
                result: result(),
                follow: vec![(ShardId(3), drop_part)],
            },
        ),
        (
            "Committed",
            CommitMessage::Committed {
                tx,
                number,
                result: StepResult::default(),
            },
        ),
        (
            "Refused",
            CommitMessage::Refused {
                tx,
                number,
                why: Refused::Busy,
            },
        ),
        ("Ack", CommitMessage::Ack { tx, number }),
        (
            "Outcome",
            CommitMessage::Outcome {
                tx,
                number,
                commit: true,
            },
        ),
        ("Finished", CommitMessage::Finished { tx, number }),
        ("Inquire", CommitMessage::Inquire { tx, number }),
        (
            "InquireOutcome",
            CommitMessage::InquireOutcome { tx, number },
        ),
        ("Vote", CommitMessage::Vote { tx, number }),
        ("PreCommit", CommitMessage::PreCommit { tx, number }),
        ("PreCommitted", CommitMessage::PreCommitted { tx, number }),
    ]
}

/// With operations that are still open.
pub fn horizon() -> Horizon {
    Horizon {
        passed: 498,
        open: vec![3, 300],
    }
}

/// Of a step.
pub fn trace_context() -> TraceContext {
    TraceContext {
        trace: *b"0123456789abcdef",
        span: *b"ghijklmn",
    }
}

/// Every message between servers.
pub fn peer_messages() -> Named<PeerMessage> {
    let (from, to) = (ShardId(2), ShardId(3));
    let (split, dir) = (split_id(), DIR);
    let inos = vec![FILE];
    vec![
        (
            "Commit",
            PeerMessage::Commit {
                from,
                to,
                horizon: horizon(),
                held: Some(300),
                message: CommitMessage::Ack {
                    tx: tx(),
                    number: StepNumber(1),
                },
            },
        ),
        (
            "SplitChunk",
            PeerMessage::SplitChunk {
                from,
                to,
                chunk: split_chunk(),
            },
        ),
        (
            "SplitChunkDone",
            PeerMessage::SplitChunkDone {
                from,
                to,
                split,
                number: 3,
                accepted: true,
            },
        ),
        (
            "SplitAbandoned",
            PeerMessage::SplitAbandoned {
                from,
                to,
                split,
                dir,
            },
        ),
        (
            "MapNotice",
            PeerMessage::MapNotice {
                from,
                to,
                dir,
                map: split_map(),
            },
        ),
        (
            "MapNoticeDone",
            PeerMessage::MapNoticeDone {
                from,
                to,
                dir,
                map: single_map(),
            },
        ),
        (
            "Forwarded",
            PeerMessage::Forwarded {
                from,
                to,
                inos: inos.clone(),
                now_at: ShardId(4),
            },
        ),
        (
            "ForgetForwarding",
            PeerMessage::ForgetForwarding {
                from,
                to,
                inos: inos.clone(),
            },
        ),
        (
            "ForgetForwardingDone",
            PeerMessage::ForgetForwardingDone { from, to, inos },
        ),
        (
            "Data",
            PeerMessage::Data {
                ticket: 77,
                request: data_requests().swap_remove(3).1,
            },
        ),
        (
            "DataDone",
            PeerMessage::DataDone {
                ticket: 78,
                reply: data_replies().swap_remove(0).1,
            },
        ),
        (
            "MergeAsk",
            PeerMessage::MergeAsk {
                from,
                to,
                dir,
                child: PartitionIndex(2),
            },
        ),
        (
            "MergeGo",
            PeerMessage::MergeGo {
                from,
                to,
                dir,
                child: PartitionIndex(2),
                room: 1_993,
                map: split_map(),
            },
        ),
        ("SlotsAsk", PeerMessage::SlotsAsk { from, to, dir }),
        (
            "SlotsTold",
            PeerMessage::SlotsTold {
                from,
                to,
                dir,
                map: split_map(),
            },
        ),
        (
            "Load",
            PeerMessage::Load {
                load: ServerLoad {
                    objects: 300,
                    requests: 5,
                },
                wanted: true,
            },
        ),
        (
            "Trace",
            PeerMessage::Trace {
                tx: tx(),
                number: StepNumber(1),
                context: trace_context(),
            },
        ),
    ]
}
