//! What happens in a run: the cluster, what its clients do and when, and every fault. All of it follows from a
//! seed, and then is a list that can be made smaller.

use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_testkit::rng::Rng;
use pandofs_types::{CommitProtocol, FsId, HashKey, LockKind, ServerId};
use std::fmt;

/// Nanoseconds of simulated time since the start of the run.
pub type Moment = i64;

pub const MICROSECOND: Moment = 1_000;
pub const MILLISECOND: Moment = 1_000_000;
pub const SECOND: Moment = 1_000_000_000;

/// How long operations are begun and faults go on.
const TROUBLED: Moment = 4 * SECOND;
/// When the first directories have been made.
const POPULATED: Moment = 100 * MILLISECOND;

/// Names of which most are directories as a rule, and names of which most are files. Few, so that operations meet.
const DIRS: [&str; 4] = ["d0", "d1", "d2", "d3"];

/// What the cluster is like.
#[derive(Clone, Debug)]
pub struct Shape {
    pub servers: u16,
    pub shards: u16,
    pub clients: usize,
    /// Requests that one client has under way at once.
    pub workers: usize,
    pub policy: DirPolicy,
    pub initial_partitions: u32,
    /// Answers to mutations wait for the disk.
    pub force_every_batch: bool,
    /// Bytes of records after which a store is flushed.
    pub flush_after: u64,
    /// What a server's clock is wrong by at the start, in nanoseconds.
    pub skew: Vec<i64>,
    pub protocol: CommitProtocol,
}

/// Names from the root down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<String>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Create(Path),
    Mkdir(Path),
    Unlink(Path),
    Rmdir(Path),
    /// A further name for the file that the first path leads to.
    Link(Path, Path),
    Rename {
        from: Path,
        to: Path,
        no_replace: bool,
    },
    Exchange(Path, Path),
    Lookup(Path),
    List(Path),
    Chmod(Path, u16),
    /// Moves the file's bytes to data objects.
    Stripe(Path),
    Sync(Path),
    Open {
        path: Path,
        truncate: bool,
    },
    /// Closes one of those that are open: the so-manieth, counted round and round.
    Close(usize),
    /// Asks for the attributes of one.
    StatOpen(usize),
    /// Writes into one.
    WriteOpen(usize),
    /// Locks one, all of it or a range from this byte on.
    Lock {
        place: usize,
        kind: LockKind,
        is_exclusive: bool,
        range: Option<u64>,
        waits: bool,
    },
    Unlock {
        place: usize,
        kind: LockKind,
        range: Option<u64>,
    },
}

/// An operation of one client's worker, not begun before `at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    pub at: Moment,
    pub client: usize,
    pub worker: usize,
    pub op: Op,
}

/// One end of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    Server(u16),
    Client(usize),
}

/// What of the log a crash leaves; the store loses some of what it had not flushed either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The process was killed: all that was written is there.
    Nothing,
    /// Of the appends that were not forced this many thousandths are there, with `torn` also half of the next.
    Unforced { kept: u16, torn: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server dies after this many of its steps from `at` on: before or after an append, after a force, between
    /// two messages that it sends; 0 for between two batches. It starts again after `down`.
    Crash {
        at: Moment,
        server: u16,
        steps: u32,
        loss: Loss,
        down: Moment,
    },
    /// Nothing gets from one end to the other.
    Cut {
        from: End,
        to: End,
        start: Moment,
        end: Moment,
    },
    /// Of 1,000 messages so many are lost and so many come twice, and each may be late by up to `delay`, so that
    /// others overtake it.
    Noise {
        start: Moment,
        end: Moment,
        lost: u16,
        twice: u16,
        delay: Moment,
    },
    /// The server takes this many times as long for everything.
    Slow {
        server: u16,
        start: Moment,
        end: Moment,
        factor: i64,
    },
    /// The server's clock is put forward, or back.
    Skew { server: u16, at: Moment, by: i64 },
    /// Only a reserve is left of the log's disk, or, `to_the_last`, nothing.
    Full {
        server: u16,
        start: Moment,
        end: Moment,
        to_the_last: bool,
    },
    /// The client dies and is never heard of again; another one takes its place.
    ClientGone { client: usize, at: Moment },
}

/// Something wrong that is done on purpose, to see that the oracles notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// What must wait for the disk does not.
    Unforced,
    /// A client whose request may have been executed asks another shard when it learns of one.
    ForgetsDoubt,
    /// A client remembers what names lead to.
    CachesEntries,
    /// That an inode died is acknowledged and not done.
    KeepsForwarding,
    /// Homes acknowledge what they are told of splits and forget it.
    KeepsMapsFromHome,
    /// The source of a split keeps its half in the store.
    KeepsPartition,
    /// An entry is lost on its way to the target of a split.
    LosesEntry,
    /// A number of entries is not written.
    Miscounts,
    /// A number of links is not written.
    MiscountsLinks,
    /// A file is made, and its name is not written.
    LosesName,
    /// A moved directory keeps its old parent.
    KeepsParent,
    /// The end of an operation leaves its locks.
    KeepsLocks,
    /// Numbers of inodes that a loss of power took away are given out again.
    ReusesNumbers,
    /// Messages of the commit protocol are sent once only.
    NeverRepeats,
    /// A client does not tell a restarted server what it has open.
    ForgetsOpens,
    /// Nor which locks it has.
    ForgetsFileLocks,
}

impl Plant {
    pub const ALL: [Plant; 16] = [
        Plant::Unforced,
        Plant::ForgetsDoubt,
        Plant::CachesEntries,
        Plant::KeepsForwarding,
        Plant::KeepsMapsFromHome,
        Plant::KeepsPartition,
        Plant::LosesEntry,
        Plant::Miscounts,
        Plant::MiscountsLinks,
        Plant::LosesName,
        Plant::KeepsParent,
        Plant::KeepsLocks,
        Plant::ReusesNumbers,
        Plant::NeverRepeats,
        Plant::ForgetsOpens,
        Plant::ForgetsFileLocks,
    ];
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub shape: Shape,
    pub ops: Vec<Planned>,
    pub faults: Vec<Fault>,
    /// When every fault ends and everything has to come to its end.
    pub healed: Moment,
    pub plant: Option<Plant>,
}

impl Scenario {
    pub fn from_seed(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed ^ 0x5ca1_ab1e);
        let shape = shape(&mut rng);
        let mut draw = Draw::new(&mut rng);
        let ops = draw.ops(&shape);
        let faults = draw.faults(&shape);
        Scenario {
            seed,
            shape,
            ops,
            faults,
            healed: TROUBLED,
            plant: None,
        }
    }

    pub fn map(&self) -> ClusterMap {
        let server = |id| ServerInfo {
            id: ServerId(id),
            addresses: Vec::new(),
            weight: ServerInfo::WEIGHT_ONE,
            domain: format!("rack {id}"),
        };
        let settings = Settings {
            split_threshold: 4,
            max_partitions: Some(8),
            initial_partitions: self.shape.initial_partitions,
            stripe_unit: 4_096,
            inline_bytes: 4_096,
            commit_protocol: self.shape.protocol,
            flush_interval_ms: if self.shape.force_every_batch {
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
            (0..self.shape.servers).map(server).collect(),
            self.shape.policy,
            settings,
        );
        made.expect("the shape makes a cluster")
    }

    /// What can be left out of it, one by one.
    pub fn len(&self) -> usize {
        self.ops.len() + self.faults.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn shape(rng: &mut Rng) -> Shape {
    let servers = *rng.pick(&[1, 2, 3, 3, 4]);
    let shards = *rng.pick(&[2, 4, 8]);
    let policy = *rng.pick(&[
        DirPolicy::Random,
        DirPolicy::Random,
        DirPolicy::Subtree,
        DirPolicy::default(),
    ]);
    let mut skewed = || match rng.below(3) {
        0 => 0,
        1 => rng.below(5 * SECOND as u64) as i64,
        _ => -(rng.below(3_600 * SECOND as u64) as i64),
    };
    let skew = (0..servers).map(|_| skewed()).collect();
    Shape {
        servers,
        shards,
        clients: *rng.pick(&[1, 2, 3]),
        workers: *rng.pick(&[1, 2, 3]),
        policy,
        initial_partitions: *rng.pick(&[1, 1, 1, 4]),
        force_every_batch: rng.chance(1, 2),
        flush_after: *rng.pick(&[2_000, 20_000, 1_000_000]),
        skew,
        protocol: match rng.below(6) {
            0 => CommitProtocol::TwoPhase,
            1 => CommitProtocol::ThreePhase,
            _ => CommitProtocol::S2pcMp,
        },
    }
}

/// What the operations and faults of a run are drawn from.
struct Draw<'r> {
    rng: &'r mut Rng,
    /// When much is done at once, so that operations meet, and faults meet operations.
    bursts: Vec<Moment>,
    /// Different names of files.
    files: u64,
    /// Chances of directories of one, two and three levels, in parts of ten.
    depths: [u64; 2],
    /// Of ten operations so many are about open files.
    held: u64,
}

impl Draw<'_> {
    fn new<'r>(rng: &'r mut Rng) -> Draw<'r> {
        let bursts = 1 + rng.below(12);
        let bursts = (0..bursts)
            .map(|_| POPULATED + rng.below((TROUBLED - POPULATED) as u64 * 9 / 10) as Moment)
            .collect();
        Draw {
            bursts,
            files: *rng.pick(&[5, 14, 14, 40]),
            depths: *rng.pick(&[[4, 9], [8, 10], [2, 6]]),
            held: *rng.pick(&[0, 1, 3, 5]),
            rng,
        }
    }

    fn dir(&mut self) -> Path {
        let depth = match self.rng.below(10) {
            at if at < self.depths[0] => 0,
            at if at < self.depths[1] => 1,
            _ => 2,
        };
        Path(
            (0..depth)
                .map(|_| self.rng.pick(&DIRS).to_string())
                .collect(),
        )
    }

    fn file(&mut self) -> Path {
        let mut path = self.dir();
        path.0.push(format!("f{}", self.rng.below(self.files)));
        path
    }

    fn subdir(&mut self) -> Path {
        let mut path = self.dir();
        path.0.push(self.rng.pick(&DIRS).to_string());
        path
    }

    fn any(&mut self) -> Path {
        if self.rng.chance(1, 3) {
            self.subdir()
        } else {
            self.file()
        }
    }

    fn moment(&mut self) -> Moment {
        let burst = *self.rng.pick(&self.bursts);
        let spread = *self.rng.pick(&[2, 20, 200]) * MILLISECOND;
        let whole = (TROUBLED - POPULATED) as u64 * 9 / 10;
        if self.rng.chance(4, 5) {
            burst + self.rng.below(spread as u64) as Moment
        } else {
            POPULATED + self.rng.below(whole) as Moment
        }
    }

    fn op(&mut self) -> Op {
        if self.rng.chance(self.held, 10) {
            return self.op_on_open();
        }
        match self.rng.below(100) {
            0..34 => Op::Create(self.file()),
            34..42 => Op::Mkdir(self.subdir()),
            42..56 => Op::Unlink(self.file()),
            56..60 => Op::Rmdir(self.subdir()),
            60..65 => Op::Link(self.file(), self.file()),
            65..73 => Op::Rename {
                from: self.file(),
                to: self.file(),
                no_replace: self.rng.chance(1, 3),
            },
            73..79 => Op::Rename {
                from: self.subdir(),
                to: self.subdir(),
                no_replace: self.rng.chance(1, 3),
            },
            79..81 => Op::Rename {
                from: self.any(),
                to: self.any(),
                no_replace: false,
            },
            81..85 => Op::Exchange(self.any(), self.any()),
            85..90 => Op::Lookup(self.any()),
            90..94 => Op::List(self.dir()),
            94..97 => {
                let mode = *self.rng.pick(&[0o700, 0o755, 0o777]);
                Op::Chmod(self.any(), mode)
            }
            97..99 => Op::Stripe(self.file()),
            _ => Op::Sync(self.any()),
        }
    }

    fn op_on_open(&mut self) -> Op {
        let place = self.rng.below(16) as usize;
        if self.rng.chance(1, 3) {
            return self.op_on_locks(place);
        }
        match self.rng.below(10) {
            0..4 => Op::Open {
                path: self.file(),
                truncate: self.rng.chance(1, 4),
            },
            4..6 => Op::Unlink(self.file()),
            6..8 => Op::StatOpen(place),
            8 => Op::WriteOpen(place),
            _ => Op::Close(place),
        }
    }

    fn op_on_locks(&mut self, place: usize) -> Op {
        let kind = *self.rng.pick(&[LockKind::Flock, LockKind::Record]);
        let range = *self.rng.pick(&[None, Some(0), Some(5), Some(20)]);
        if self.rng.chance(1, 3) {
            return Op::Unlock { place, kind, range };
        }
        Op::Lock {
            place,
            kind,
            is_exclusive: self.rng.chance(2, 3),
            range,
            waits: self.rng.chance(1, 2),
        }
    }

    fn planned(&mut self, shape: &Shape, at: Moment, op: Op) -> Planned {
        Planned {
            at,
            client: self.rng.below(shape.clients as u64) as usize,
            worker: self.rng.below(shape.workers as u64) as usize,
            op,
        }
    }

    fn ops(&mut self, shape: &Shape) -> Vec<Planned> {
        let mut ops = Vec::new();
        // Something to work on, in pairs of parent and child by one worker, so that the parent is there.
        for first in DIRS {
            let at = self.rng.below(POPULATED as u64 / 2) as Moment;
            let path = vec![first.to_owned()];
            let parent = self.planned(shape, at, Op::Mkdir(Path(path.clone())));
            for second in DIRS {
                if self.rng.chance(1, 2) {
                    let mut path = path.clone();
                    path.push(second.to_owned());
                    ops.push(Planned {
                        at: at + 1,
                        op: Op::Mkdir(Path(path)),
                        ..parent.clone()
                    });
                }
            }
            ops.push(parent);
        }
        let count = 200 + self.rng.below(600);
        for _ in 0..count {
            let (at, op) = (self.moment(), self.op());
            let planned = self.planned(shape, at, op);
            ops.push(planned);
        }
        ops.sort_by_key(|planned| planned.at);
        ops
    }

    fn faults(&mut self, shape: &Shape) -> Vec<Fault> {
        // Of ten runs one has no faults: what goes wrong there is easily understood.
        let count = if self.rng.chance(1, 10) {
            0
        } else {
            1 + self.rng.below(14)
        };
        let mut faults: Vec<Fault> = (0..count).map(|_| self.fault(shape)).collect();
        faults.sort_by_key(Fault::span);
        faults
    }

    fn fault(&mut self, shape: &Shape) -> Fault {
        let start = self.moment();
        let longest = (TROUBLED - start).max(1) as u64;
        let end = start + self.rng.below(longest.min(SECOND as u64)) as Moment;
        let rng = &mut *self.rng;
        let server = rng.below(u64::from(shape.servers)) as u16;
        match rng.below(20) {
            0..10 => Fault::Crash {
                at: start,
                server,
                steps: rng.below(30) as u32,
                loss: if rng.chance(1, 3) {
                    Loss::Nothing
                } else {
                    Loss::Unforced {
                        kept: *rng.pick(&[0, 0, 250, 500, 1_000]),
                        torn: rng.chance(1, 2),
                    }
                },
                down: rng.below(*rng.clone().pick(&[5, 1_000]) * MILLISECOND as u64) as Moment,
            },
            10..12 => {
                let ends: Vec<End> = (0..shape.servers)
                    .map(End::Server)
                    .chain((0..shape.clients).map(End::Client))
                    .collect();
                Fault::Cut {
                    from: *rng.pick(&ends),
                    to: *rng.pick(&ends),
                    start,
                    end,
                }
            }
            12..16 => Fault::Noise {
                start,
                end,
                lost: *rng.pick(&[0, 20, 100, 300]),
                twice: *rng.pick(&[0, 20, 100, 300]),
                delay: *rng.pick(&[0, MILLISECOND, 20 * MILLISECOND, SECOND]),
            },
            16 => Fault::Slow {
                server,
                start,
                end,
                factor: *rng.pick(&[10, 100, 1_000]),
            },
            17 => Fault::Skew {
                server,
                at: start,
                by: *rng.pick(&[-10 * SECOND, -MILLISECOND, MILLISECOND, 10 * SECOND]),
            },
            18 => Fault::Full {
                server,
                start,
                end,
                to_the_last: rng.chance(1, 2),
            },
            _ => Fault::ClientGone {
                client: rng.below(shape.clients as u64) as usize,
                at: start,
            },
        }
    }
}

impl Op {
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            Op::Create(path)
            | Op::Mkdir(path)
            | Op::Unlink(path)
            | Op::Rmdir(path)
            | Op::Lookup(path)
            | Op::List(path)
            | Op::Chmod(path, _)
            | Op::Stripe(path)
            | Op::Open { path, .. }
            | Op::Sync(path) => vec![path],
            Op::Close(_)
            | Op::StatOpen(_)
            | Op::WriteOpen(_)
            | Op::Lock { .. }
            | Op::Unlock { .. } => vec![],
            Op::Link(from, to) | Op::Rename { from, to, .. } | Op::Exchange(from, to) => {
                vec![from, to]
            }
        }
    }
}

impl Fault {
    /// When it begins and when it has ended.
    pub fn span(&self) -> (Moment, Moment) {
        match *self {
            Fault::Crash { at, .. } | Fault::Skew { at, .. } | Fault::ClientGone { at, .. } => {
                (at, at)
            }
            Fault::Cut { start, end, .. }
            | Fault::Noise { start, end, .. }
            | Fault::Slow { start, end, .. }
            | Fault::Full { start, end, .. } => (start, end),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0.join("/"))
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
                op,
            } = planned;
            let micros = at / MICROSECOND;
            writeln!(f, "  {micros:>9} us client {client}.{worker}: {op:?}")?;
        }
        Ok(())
    }
}
