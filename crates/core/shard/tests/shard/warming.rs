//! Inputs that need what is not in memory.

use crate::support::{Cluster, create_file, name};
use pandofs_api::{Refusal, Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Environment, Input, Output};
use pandofs_storage::store::{
    Batch, Cached, KvRead, MemoryStore, Overlay, Store, StoreError, Visit,
};
use pandofs_types::{
    AtimeRule, FileLock, Ino, LockKind, LockMode, LockRange, SetAttr, ShardId, Time,
};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// A store with room in memory for so many keys, of those read last.
struct Forgetful<'s> {
    store: &'s MemoryStore,
    room: usize,
    known: Mutex<VecDeque<Vec<u8>>>,
    /// A key that cannot be read.
    damaged: Option<Vec<u8>>,
}

impl Forgetful<'_> {
    fn read(&self, key: &[u8]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back(key.to_vec());
        while known.len() > self.room {
            known.pop_front();
        }
    }
}

impl KvRead for Forgetful<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if self.damaged.as_deref() == Some(key) {
            let what = "a block".to_string();
            return Err(StoreError::Corrupt { what });
        }
        self.read(key);
        self.store.get(key)
    }

    fn get_cached(&self, key: &[u8]) -> Result<Cached, StoreError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.iter().any(|known| known == key) {
            true => self.store.get(key).map(Cached::Known),
            false => Ok(Cached::Cold),
        }
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.store.scan(start, end, visit)
    }
}

impl Store for Forgetful<'_> {
    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        self.store.write(batch)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.store.flush()
    }

    fn size_bytes(&self) -> u64 {
        self.store.size_bytes()
    }
}

/// The answer of the only shard, and how often the input was submitted until then.
fn ask(cluster: &mut Cluster, room: usize, request: Request) -> (Result<Reply, Refusal>, usize) {
    match submit(cluster, room, None, request) {
        (Output::Answer { result, .. }, round) => (result, round),
        other => panic!("{other:?}"),
    }
}

/// The last output, and how often the input was submitted until then, as a lane with that much memory and other
/// things to do meanwhile would.
fn submit(
    cluster: &mut Cluster,
    room: usize,
    damaged: Option<Vec<u8>>,
    request: Request,
) -> (Output, usize) {
    let mut input = cluster.request(0, request);
    let node = &mut cluster.nodes[0];
    let store = Forgetful {
        store: &node.store,
        room,
        known: Mutex::default(),
        damaged,
    };
    for round in 1..100 {
        let mut draw = || 1;
        let mut env = Environment {
            now: Time(2_000),
            steady: pandofs_types::Steady(2_000),
            held: 0,
            random: &mut draw,
        };
        let mut overlay = Overlay::new(&store);
        node.shard.submit(&overlay, &mut env, input).unwrap();
        for proposal in node.shard.take_proposals() {
            let (index, payload) = (proposal.index, &proposal.payload);
            node.shard
                .apply(&mut overlay, &mut env, index, payload)
                .unwrap();
        }
        let batch = overlay.take_batch();
        drop(overlay);
        store.write(&batch).unwrap();
        let mut outputs = node.shard.take_outputs();
        assert_eq!(outputs.len(), 1, "{outputs:?}");
        match outputs.pop() {
            Some(Output::Warm { keys, input: again }) => {
                store.get(keys.last().unwrap()).unwrap();
                let again = Box::new(again);
                input = Input::Warmed { input: again, keys };
            }
            Some(output) => return (output, round),
            None => unreachable!("there is one"),
        }
    }
    panic!("it is warmed for ever");
}

fn cluster_with(files: usize) -> (Cluster, Vec<Ino>) {
    let mut cluster = Cluster::new(1, DirPolicy::Subtree, Settings::default());
    let made = (0..files).map(|number| {
        let request = create_file(Ino::ROOT, name(&format!("file-{number}")));
        match cluster.call(0, request) {
            Ok(Reply::Entry(entry)) => entry.ino,
            other => panic!("no file was made: {other:?}"),
        }
    });
    let inos = made.collect();
    (cluster, inos)
}

#[test]
fn a_request_is_executed_however_little_memory_there_is() {
    for room in 0..8 {
        let (mut cluster, inos) = cluster_with(5);
        let read = Request::Accessed(op::Accessed {
            inos: inos.iter().map(|ino| (*ino, Time(1_500))).collect(),
            rule: AtimeRule::Strict,
        });
        let (answer, rounds) = ask(&mut cluster, room, read);
        assert_eq!(answer, Ok(Reply::Done));
        // Its slot's last answer and the inodes: each is waited for once, and one of them a second time.
        assert!(rounds <= 6 + 2, "{rounds} with room for {room}");
        for ino in inos {
            match ask(&mut cluster, room, Request::GetAttr(op::GetAttr { ino })) {
                (Ok(Reply::Inode(inode)), _) => assert_eq!(inode.attr.atime, Time(1_500)),
                other => panic!("{other:?}"),
            }
        }
        let remove = Request::Unlink(op::Unlink {
            dir: Ino::ROOT,
            name: name("file-3"),
        });
        let (answer, _) = ask(&mut cluster, room, remove);
        assert!(answer.is_ok(), "{answer:?}");
    }
}

#[test]
fn with_enough_memory_the_lane_waits_for_nothing() {
    let (mut cluster, inos) = cluster_with(5);
    let read = Request::Accessed(op::Accessed {
        inos: inos.iter().map(|ino| (*ino, Time(1_500))).collect(),
        rule: AtimeRule::Strict,
    });
    // Its slot's last answer and the inodes: it is submitted again for each, and executed then.
    let (answer, rounds) = ask(&mut cluster, usize::MAX, read);
    assert_eq!((answer, rounds), (Ok(Reply::Done), 6 + 1));
}

/// A write over a part waits for the bytes that are there; one over all of them, or a change of attributes, does not.
#[test]
fn bytes_of_a_file_are_waited_for_where_some_of_them_stay() {
    let (mut cluster, inos) = cluster_with(1);
    let ino = inos[0];
    let write = |offset, data: &[u8]| {
        Request::WriteInline(op::WriteInline {
            ino,
            offset,
            data: data.to_vec(),
        })
    };
    let set = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    cluster.call(0, write(0, b"first")).unwrap();
    // The slot's last answer and the inode; and the bytes.
    for (request, keys) in [
        (write(1, b"I"), 3),
        (write(5, b"!"), 3),
        (write(0, b"second"), 2),
        (Request::SetAttr(op::SetAttr { ino, set }), 2),
    ] {
        let (answer, rounds) = ask(&mut cluster, usize::MAX, request.clone());
        assert!(answer.is_ok(), "{answer:?}");
        assert_eq!(rounds, keys + 1, "{request:?}");
    }
}

#[test]
fn damage_that_the_lane_meets_itself_ends_the_request_alone() {
    let (mut cluster, inos) = cluster_with(2);
    let lock = FileLock {
        kind: LockKind::Record,
        range: LockRange::WHOLE,
        mode: LockMode::Exclusive,
        owner: 1,
        pid: 1,
    };
    let again = Request::Relock(op::Relock {
        locks: inos.iter().map(|ino| (*ino, lock)).collect(),
        last: true,
    });
    // The first inode is gone from memory when it was read, so that the lane reads both.
    let damaged = pandofs_namespace::keys::inode(ShardId(0), inos[1]);
    match submit(&mut cluster, 0, Some(damaged), again) {
        (Output::Unreadable { error, .. }, _) => assert!(error.is_of_the_place()),
        other => panic!("{other:?}"),
    }
}
