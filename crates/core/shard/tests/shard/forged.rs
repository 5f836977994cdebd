//! Messages with a few bytes changed, as a server gone wrong might send them: what `validate` lets through
//! stops no shard, and neither does the log of it.

use crate::support::{Cluster, name, receiver};
use pandofs_api::{DataReply, NewNode, PeerMessage, Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output, validate};
use pandofs_testkit::rng::Rng;
use pandofs_types::limits::TICK_INTERVAL;
use pandofs_types::{FileLock, Ino, LockKind, LockMode, LockRange, SetAttr, ShardId};
use std::collections::{BTreeMap, VecDeque};

const SHARDS: u16 = 4;
/// Requests of one seed.
const REQUESTS: usize = 200;
/// Seeds of one test run; `PANDOFS_SEEDS` asks for more.
const SEEDS: u64 = 400;

/// Outcomes of the changed messages.
#[derive(Debug, Default)]
struct Seen {
    /// Bytes that are no message any more.
    undecodable: usize,
    dropped: usize,
    delivered: usize,
    /// Of those delivered, by kind.
    kinds: BTreeMap<&'static str, usize>,
}

struct Run {
    cluster: Cluster,
    rng: Rng,
    queue: VecDeque<(u16, Input)>,
    /// Messages that were sent in earnest, to be changed.
    messages: Vec<PeerMessage>,
    dirs: Vec<Ino>,
    files: Vec<Ino>,
    seen: Seen,
}

#[test]
fn changed_messages_stop_no_shard() {
    let seeds = std::env::var("PANDOFS_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let mut all = Seen::default();
    for seed in 1..=seeds {
        let seen = std::panic::catch_unwind(|| Run::new(seed).run());
        let seen = seen.unwrap_or_else(|_| panic!("a shard stopped with seed {seed}"));
        all.undecodable += seen.undecodable;
        all.dropped += seen.dropped;
        all.delivered += seen.delivered;
        for (kind, count) in seen.kinds {
            *all.kinds.entry(kind).or_default() += count;
        }
    }
    println!("{all:?}");
    assert!(all.dropped > 1_000 && all.delivered > 1_000, "{all:?}");
    for kind in [
        "Commit",
        "SplitChunk",
        "SplitChunkDone",
        "MapNotice",
        "Forwarded",
    ] {
        assert!(all.kinds.contains_key(kind), "no {kind}: {all:?}");
    }
}

impl Run {
    fn new(seed: u64) -> Run {
        let settings = Settings {
            split_threshold: 4,
            max_partitions: Some(8),
            ..Settings::default()
        };
        Run {
            cluster: Cluster::new(SHARDS, DirPolicy::Random, settings),
            rng: Rng::new(seed),
            queue: VecDeque::new(),
            messages: Vec::new(),
            dirs: vec![Ino::ROOT],
            files: vec![Ino::ROOT],
            seen: Seen::default(),
        }
    }

    fn run(mut self) -> Seen {
        for _ in 0..REQUESTS {
            self.ask();
            while !self.queue.is_empty() {
                self.deliver();
                if !self.messages.is_empty() && self.rng.chance(1, 2) {
                    self.forge();
                }
            }
            self.tick();
        }
        for shard in 0..SHARDS {
            self.cluster.restart(shard);
        }
        self.seen
    }

    fn ask(&mut self) {
        let dir = *self.rng.pick(&self.dirs);
        let other = *self.rng.pick(&self.dirs);
        let file = *self.rng.pick(&self.files);
        let one = name(&format!("n{}", self.rng.below(24)));
        let two = name(&format!("n{}", self.rng.below(24)));
        let shard = if self.rng.chance(1, 2) {
            dir.birth_shard().0
        } else {
            self.rng.below(u64::from(SHARDS)) as u16
        };
        let some_shard = ShardId(self.rng.below(u64::from(SHARDS)) as u16);
        let request = match self.rng.below(22) {
            0..=1 => Request::Mkdir(op::Mkdir {
                dir,
                name: one,
                mode: 0o755,
                umask: 0,
            }),
            2..=7 => Request::Create(op::Create {
                dir,
                name: one,
                node: NewNode::File,
                mode: 0o644,
                umask: 0,
                open: self.rng.chance(1, 3),
            }),
            8 => Request::Unlink(op::Unlink { dir, name: one }),
            9 => Request::Rmdir(op::Rmdir { dir, name: one }),
            10 => Request::Link(op::Link {
                dir,
                name: one,
                ino: file,
                inode_shard: some_shard,
            }),
            11 => Request::Exchange(op::Exchange {
                dir,
                name: one,
                new_dir: other,
                new_name: two,
                new_shard: some_shard,
            }),
            12..=13 => Request::Rename(op::Rename {
                dir,
                name: one,
                new_dir: other,
                new_name: two,
                new_shard: some_shard,
                no_replace: false,
                whiteout: false,
            }),
            14 => Request::SetAttr(op::SetAttr {
                ino: dir,
                set: SetAttr {
                    mode: Some(0o711),
                    ..SetAttr::default()
                },
            }),
            15 => Request::Release(op::Release { inos: vec![file] }),
            16..=18 => Request::SetLock(op::SetLock {
                ino: file,
                lock: self.lock(),
                blocking: self.rng.chance(1, 2),
                wait_ms: 100,
            }),
            19..=20 => Request::WriteInline(op::WriteInline {
                ino: file,
                offset: self.rng.below(3),
                data: vec![7; self.rng.below(5) as usize],
            }),
            _ => {
                let lock = self.lock();
                Request::Unlock(op::Unlock {
                    ino: file,
                    kind: lock.kind,
                    owner: lock.owner,
                    range: LockRange::WHOLE,
                })
            }
        };
        let shard = if matches!(
            request,
            Request::SetLock(_) | Request::Unlock(_) | Request::WriteInline(_)
        ) {
            some_shard.0
        } else {
            shard
        };
        let input = self.cluster.request(shard, request);
        self.queue.push_back((shard, input));
    }

    fn lock(&mut self) -> FileLock {
        let first = self.rng.below(8);
        FileLock {
            kind: LockKind::Record,
            owner: self.rng.below(4),
            pid: 1,
            mode: if self.rng.chance(1, 2) {
                LockMode::Shared
            } else {
                LockMode::Exclusive
            },
            range: LockRange {
                first,
                last: first + self.rng.below(4),
            },
        }
    }

    fn deliver(&mut self) {
        let Some((shard, input)) = self.queue.pop_front() else {
            return;
        };
        let step = self.cluster.input(shard, input);
        self.take(shard, step.outputs);
    }

    fn take(&mut self, shard: u16, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Answer { result, .. } => {
                    if let Ok(Reply::Entry(entry)) = result {
                        let dir = entry.inode.is_some_and(|inode| inode.dir.is_some());
                        if dir { &mut self.dirs } else { &mut self.files }.push(entry.ino);
                    }
                }
                Output::Send { to, message, .. } => {
                    // A shard that was told lies may pass them on.
                    if validate(&self.cluster.map, &message).is_ok() {
                        self.messages.push(message.clone());
                        self.queue.push_back((to.0, Input::Peer(message)));
                    }
                }
                Output::WhenDurable { shard, input } => self.queue.push_back((shard.0, input)),
                Output::Data { ticket, .. } => {
                    let reply = DataReply::Done;
                    self.queue
                        .push_back((shard, Input::DataDone { ticket, reply }));
                }
                Output::Warm { keys, .. } => unreachable!("in memory nothing is cold: {keys:02x?}"),
                Output::Watch { .. } | Output::Replaced { .. } | Output::Recall(_) => {}
                Output::Unreadable { error, .. } => unreachable!("memory is sound: {error}"),
            }
        }
    }

    /// Takes a recent message, changes up to three of its bytes, and does with it what a lane does.
    fn forge(&mut self) {
        let recent = self.messages.len().saturating_sub(16);
        let message = self.rng.pick(&self.messages[recent..]).clone();
        let mut bytes = postcard::to_stdvec(&message).unwrap();
        for _ in 0..=self.rng.below(3) {
            let at = self.rng.below(bytes.len() as u64) as usize;
            // Small numbers are those that may be shards.
            bytes[at] = if self.rng.chance(1, 2) {
                self.rng.below(8) as u8
            } else {
                self.rng.next_u64() as u8
            };
        }
        let changed: Result<(PeerMessage, &[u8]), _> = postcard::take_from_bytes(&bytes);
        let Ok((changed, [])) = changed else {
            self.seen.undecodable += 1;
            return;
        };
        if matches!(
            changed,
            PeerMessage::Data { .. }
                | PeerMessage::DataDone { .. }
                | PeerMessage::Load { .. }
                | PeerMessage::Trace { .. }
        ) || validate(&self.cluster.map, &changed).is_err()
        {
            self.seen.dropped += 1;
            return;
        }
        self.seen.delivered += 1;
        *self.seen.kinds.entry(kind(&changed)).or_default() += 1;
        let to = receiver(&changed).0;
        self.queue.push_back((to, Input::Peer(changed)));
    }

    fn tick(&mut self) {
        self.cluster.now += TICK_INTERVAL.as_nanos() as i64 * self.rng.below(100) as i64;
        for shard in 0..SHARDS {
            let step = self.cluster.input(shard, Input::Tick);
            self.take(shard, step.outputs);
        }
    }
}

fn kind(message: &PeerMessage) -> &'static str {
    match message {
        PeerMessage::Commit { .. } => "Commit",
        PeerMessage::SplitChunk { .. } => "SplitChunk",
        PeerMessage::SplitChunkDone { .. } => "SplitChunkDone",
        PeerMessage::SplitAbandoned { .. } => "SplitAbandoned",
        PeerMessage::MapNotice { .. } => "MapNotice",
        PeerMessage::MapNoticeDone { .. } => "MapNoticeDone",
        PeerMessage::Forwarded { .. } => "Forwarded",
        PeerMessage::ForgetForwarding { .. } => "ForgetForwarding",
        PeerMessage::ForgetForwardingDone { .. } => "ForgetForwardingDone",
        PeerMessage::Data { .. } => "Data",
        PeerMessage::DataDone { .. } => "DataDone",
        PeerMessage::MergeAsk { .. } => "MergeAsk",
        PeerMessage::MergeGo { .. } => "MergeGo",
        PeerMessage::SlotsAsk { .. } => "SlotsAsk",
        PeerMessage::SlotsTold { .. } => "SlotsTold",
        PeerMessage::Load { .. } => "Load",
        PeerMessage::Trace { .. } => "Trace",
    }
}
