//! Scenario of a run: the cluster, what its clients do and when, and every fault.
//!
//! All of it follows from a
//! seed, and then is a list that can be made smaller.

mod draw;
mod op;
mod plant;

pub use op::{Op, Path, Planned, User};
pub use plant::Plant;

use draw::{Draw, attributes, contents, early, joins, memory, shape, stopped, users};
use pandofs_placement::{ClusterMap, DirPolicy, FilePolicy, ServerInfo, Settings};
use pandofs_testkit::rng::Rng;
use pandofs_types::limits::SESSION_TIMEOUT;
use pandofs_types::{CommitProtocol, FsId, HashKey, ServerId};
use std::fmt;
use std::time::Duration;

/// Nanoseconds of simulated time since the start of the run.
pub type Moment = i64;

/// Nanoseconds.
pub const MICROSECOND: Moment = 1_000;
/// Nanoseconds.
pub const MILLISECOND: Moment = 1_000_000;
/// Nanoseconds.
pub const SECOND: Moment = 1_000_000_000;

/// Bytes of a unit of a stripe, and up to which files are kept inline.
pub(crate) const UNIT_BYTES: u32 = 4_096;

/// Time for which operations are begun and faults go on.
const TROUBLED: Moment = 4 * SECOND;

/// Time after the last fault in which servers take up the newest cluster map, before something is made by it.
pub const AFTERWARDS: Moment = 2 * SECOND;

/// Shape of the cluster.
#[derive(Clone, Debug)]
pub struct Shape {
    /// All there from the start.
    pub servers: u16,
    /// A power of two, led by the servers in turn.
    pub shards: u16,
    /// Each with what it remembers.
    pub clients: usize,
    /// Requests that one client has under way at once.
    pub workers: usize,
    /// Of directories.
    pub policy: DirPolicy,
    /// Of files.
    pub file_policy: FilePolicy,
    /// Of each new directory.
    pub initial_partitions: u32,
    /// Answers to mutations wait for the disk.
    pub sync_every_batch: bool,
    /// Bytes of records after which a store is flushed.
    pub flush_after: u64,
    /// Error of each server's clock at the start, in nanoseconds.
    pub skew: Vec<i64>,
    /// Of operations over several shards.
    pub protocol: CommitProtocol,
    /// If clients take leases.
    pub leases: Option<Leasing>,
    /// Which of the clients have early names, if they take leases.
    pub early: Vec<bool>,
    /// Room of caches and tables, small enough to be filled in a run.
    pub memory: Memory,
    /// Servers let go of a session that is silent for so long: longer than leases last.
    pub session_timeout: Duration,
}

/// Memory of a server for what it has stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Bytes of applied changes that are kept before the store gets them.
    pub unwritten_bytes: usize,
    /// Bytes of what was read lately that are kept.
    pub recent_reads: usize,
    /// Of 1,000 looks into the store's memory so many find nothing.
    pub cold: u64,
}

/// Rules by which leases are given and taken.
#[derive(Clone, Debug)]
pub struct Leasing {
    /// With so many given by a shard further ones are short, with so many brief; and there are no more than these.
    pub room: (usize, usize, usize),
    /// By how many thousandths servers' clocks, by which leases are counted, go too fast.
    pub servers: Vec<i64>,
    /// The same of clients'.
    pub clients: Vec<i64>,
}

/// One end of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// By its number in the cluster map.
    Server(u16),
    /// By its number, from 0.
    Client(usize),
}

/// Part of the log that a crash leaves; the store loses some of what it had not flushed either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The process was killed: all that was written is there.
    Nothing,
    /// Of the appends that were not synced this many thousandths are there, with `torn` also half of the next.
    Unsynced {
        /// Thousandths.
        kept: u16,
        /// Whether the log ends in the middle of an append.
        torn: bool,
    },
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server dies after this many of its steps from `at` on: before or after an append, after a sync, between
    /// two messages that it sends; 0 for between two batches. It starts again after `down`.
    Crash {
        /// Since the start of the run.
        at: Moment,
        /// By its number in the cluster map.
        server: u16,
        /// Counted from `at` on.
        steps: u32,
        /// Decides what is found at the next start.
        loss: Loss,
        /// Nanoseconds.
        down: Moment,
    },
    /// Nothing gets from one end to the other.
    Cut {
        /// The end that sends.
        from: End,
        /// The end that hears nothing.
        to: End,
        /// Since the start of the run.
        start: Moment,
        /// Since the start of the run.
        end: Moment,
    },
    /// Of 1,000 messages so many are lost and so many come twice, and each may be late by up to `delay`, so that
    /// others overtake it.
    Noise {
        /// Since the start of the run.
        start: Moment,
        /// Since the start of the run.
        end: Moment,
        /// Thousandths.
        lost: u16,
        /// Thousandths.
        twice: u16,
        /// Nanoseconds at most.
        delay: Moment,
    },
    /// The server takes this many times as long for everything.
    Slow {
        /// By its number in the cluster map.
        server: u16,
        /// Since the start of the run.
        start: Moment,
        /// Since the start of the run.
        end: Moment,
        /// 2 for twice as long.
        factor: i64,
    },
    /// The server's clock is put forward, or back.
    Skew {
        /// By its number in the cluster map.
        server: u16,
        /// Since the start of the run.
        at: Moment,
        /// Nanoseconds; negative for back.
        by: i64,
    },
    /// Only a reserve is left of the log's disk, or, `to_the_last`, nothing.
    Full {
        /// By its number in the cluster map.
        server: u16,
        /// Since the start of the run.
        start: Moment,
        /// Since the start of the run.
        end: Moment,
        /// Whether the reserve is gone as well.
        to_the_last: bool,
    },
    /// The client's process stands still, and goes on where it was: clocks have gone on, and what was sent to it waits.
    Stopped {
        /// By its number, from 0.
        client: usize,
        /// Since the start of the run.
        start: Moment,
        /// Since the start of the run.
        end: Moment,
    },
    /// The client dies and is never heard of again; another one takes its place.
    ClientGone {
        /// By its number, from 0.
        client: usize,
        /// Since the start of the run.
        at: Moment,
    },
    /// A server joins: there is a newer cluster map, and the server starts `starts` later. Those servers are told of the
    /// map then of which `told` has the bit, each at a moment of its own; others, and clients, have to come to know it.
    Joins {
        /// When the newer map is announced.
        at: Moment,
        /// Times as much as each of the first servers.
        weight: u32,
        /// How long after that.
        starts: Moment,
        /// A bit for each server, by its number.
        told: u16,
        /// In the file that servers and clients read the map is at once, else when all is healed.
        is_in_file: bool,
    },
}

/// All that a run follows from.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Delays and the choices of servers follow from it, also when lists were made smaller.
    pub seed: u64,
    /// Stays while lists are made smaller.
    pub shape: Shape,
    /// In the order of their moments.
    pub ops: Vec<Planned>,
    /// In any order.
    pub faults: Vec<Fault>,
    /// Moment at which every fault ends and everything has to come to its end.
    pub healed: Moment,
    /// A bug to be found; `None` for production's behaviour.
    pub plant: Option<Plant>,
}

impl Scenario {
    /// One seed gives one scenario on every machine.
    pub fn from_seed(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed ^ 0x5ca1_ab1e);
        let mut shape = shape(&mut rng);
        shape.memory = memory(&mut Rng::new(seed ^ 0x3e30_9a11));
        let mut draw = Draw::new(&mut rng);
        let mut ops = draw.ops(&shape);
        let mut faults = draw.faults(&shape);
        joins(
            &mut Rng::new(seed ^ 0x10f0_04ed),
            &shape,
            &mut ops,
            &mut faults,
        );
        early(&mut Rng::new(seed ^ 0xea51_9a3e), &mut shape, &mut ops);
        attributes(&mut Rng::new(seed ^ 0xa77_1b07), &shape, &mut ops);
        users(&mut Rng::new(seed ^ 0x05e2_51d5), &shape, &mut ops);
        contents(&mut Rng::new(seed ^ 0xda7a_0b1e), &shape, &mut ops);
        let healed = stopped(
            &mut Rng::new(seed ^ 0x5709_9ed1),
            &mut shape,
            &mut ops,
            &mut faults,
        );
        Scenario {
            seed,
            shape,
            ops,
            faults,
            healed,
            plant: None,
        }
    }

    /// Returns whether anything is done to contents of files: else data objects are on disk as soon as they are changed.
    pub fn has_contents(&self) -> bool {
        let is_of_contents = |op: &Op| {
            matches!(
                op,
                Op::ReadData(_) | Op::WriteData { .. } | Op::TruncateData(..) | Op::SyncData(_)
            )
        };
        self.ops.iter().any(|planned| is_of_contents(&planned.op))
    }

    /// Returns whether anything is done in the name of others than the superuser.
    pub fn has_users(&self) -> bool {
        self.ops.iter().any(|planned| planned.by != User::ROOT)
    }

    /// Returns whether a client may be away for longer than servers keep its session.
    pub fn has_away(&self) -> bool {
        self.shape.session_timeout < SESSION_TIMEOUT
    }

    /// Returns whether a server may take the time of something that was answered early for too far ahead.
    pub fn brings_back_times(&self) -> bool {
        let is_set = |fault: &Fault| matches!(fault, Fault::Skew { .. });
        self.shape.early.contains(&true) && self.faults.iter().any(is_set)
    }

    /// The map that servers begin with; without addresses.
    pub fn map(&self) -> ClusterMap {
        let settings = Settings {
            split_threshold: 4,
            max_partitions: Some(8),
            initial_partitions: self.shape.initial_partitions,
            stripe_unit: UNIT_BYTES,
            inline_bytes: UNIT_BYTES,
            commit_protocol: self.shape.protocol,
            file_policy: self.shape.file_policy,
            flush_interval_ms: if self.shape.sync_every_batch {
                0
            } else {
                1_000
            },
            ..Settings::default()
        };
        let made = ClusterMap::create(
            FsId(7),
            "sim".to_owned(),
            HashKey(self.seed, 2),
            self.shape.shards,
            (0..self.shape.servers).map(|id| server(id, 1)).collect(),
            self.shape.policy,
            settings,
        );
        made.expect("the shape makes a cluster")
    }

    /// The map after this one, with a server of so many times the weight of the first ones.
    pub fn next_map(&self, map: &ClusterMap, weight: u32) -> ClusterMap {
        let joined = server(map.servers.len() as u16, weight);
        let next = map.with_servers(vec![joined]);
        next.expect("a server can join a small cluster")
    }

    /// Number of parts that can be left out of it, one by one.
    pub fn len(&self) -> usize {
        self.ops.len() + self.faults.len()
    }

    /// Returns whether there is neither an operation nor a fault.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn server(id: u16, weight: u32) -> ServerInfo {
    ServerInfo {
        id: ServerId(id),
        addresses: Vec::new(),
        weight: ServerInfo::WEIGHT_ONE * weight,
        domain: format!("rack {id}"),
    }
}

impl Fault {
    /// Returns its beginning and its end.
    pub fn span(&self) -> (Moment, Moment) {
        match *self {
            Fault::Crash { at, .. }
            | Fault::Skew { at, .. }
            | Fault::ClientGone { at, .. }
            | Fault::Joins { at, .. } => (at, at),
            Fault::Cut { start, end, .. }
            | Fault::Noise { start, end, .. }
            | Fault::Slow { start, end, .. }
            | Fault::Stopped { start, end, .. }
            | Fault::Full { start, end, .. } => (start, end),
        }
    }
}

impl fmt::Display for Scenario {
    /// As one looks at it: shape, faults and operations, one a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {:?}", self.seed, self.shape)?;
        if let Some(plant) = self.plant {
            writeln!(f, "planted: {plant:?}")?;
        }
        for fault in &self.faults {
            writeln!(f, "  fault {fault:?}")?;
        }
        for planned in &self.ops {
            let Planned {
                at,
                client,
                worker,
                by,
                op,
            } = planned;
            let (micros, user) = (at / MICROSECOND, by.0);
            writeln!(
                f,
                "  {micros:>9} us client {client}.{worker} user {user}: {op:?}"
            )?;
        }
        Ok(())
    }
}
