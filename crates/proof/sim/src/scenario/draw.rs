//! Drawing of a scenario from its seed.

mod attributes;
mod contents;
mod stopped;
mod users;

pub(super) use attributes::attributes;
pub(super) use contents::contents;
pub(super) use stopped::stopped;
pub(super) use users::users;

use super::{
    AFTERWARDS, End, Fault, Leasing, Loss, MILLISECOND, Memory, Moment, Op, Path, Planned, SECOND,
    Shape, TROUBLED, User,
};
use pandofs_lane::limits::MAX_UNWRITTEN_BYTES;
use pandofs_placement::{DirBounds, DirPolicy, FileBounds, FilePolicy};
use pandofs_testkit::rng::Rng;
use pandofs_types::limits::SESSION_TIMEOUT;
use pandofs_types::{CommitProtocol, LockKind};

/// Moment by which the first directories have been made.
const POPULATED: Moment = 100 * MILLISECOND;
/// Names of which most are directories as a rule, and names of which most are files. Few, so that operations meet.
const DIRS: [&str; 4] = ["d0", "d1", "d2", "d3"];

pub(super) fn shape(rng: &mut Rng) -> Shape {
    let servers = *rng.pick(&[1, 2, 3, 3, 4]);
    let shards = *rng.pick(&[2, 4, 8]);
    let policy = *rng.pick(&[
        DirPolicy::Random,
        DirPolicy::CrushPath,
        DirPolicy::Subtree,
        DirPolicy::default(),
        DirPolicy::Adaptive(DirBounds {
            least_depth: 1,
            most_depth: 3,
            least_width: 1,
            most_width: 4,
        }),
    ]);
    let file_policy = match rng.below(4) {
        0 => FilePolicy::Adaptive(FileBounds { least: 1, most: 5 }),
        1 => FilePolicy::Ddg {
            file_width: *rng.pick(&[1, 2, 5]),
        },
        _ => FilePolicy::WithEntry,
    };
    let mut skewed = || match rng.below(3) {
        0 => 0,
        1 => rng.below(DAY as u64) as i64,
        _ => -(rng.below(DAY as u64) as i64),
    };
    let skew = (0..servers).map(|_| skewed()).collect();
    let clients = *rng.pick(&[1, 2, 3]);
    Shape {
        servers,
        shards,
        clients,
        workers: *rng.pick(&[1, 2, 3]),
        policy,
        file_policy,
        initial_partitions: *rng.pick(&[1, 1, 1, 4]),
        sync_every_batch: rng.chance(1, 2),
        flush_after: *rng.pick(&[2_000, 20_000, 1_000_000]),
        skew,
        protocol: match rng.below(6) {
            0 => CommitProtocol::TwoPhase,
            1 => CommitProtocol::ThreePhase,
            _ => CommitProtocol::S2pcMp,
        },
        leases: rng.chance(2, 3).then(|| leasing(rng, servers, clients)),
        early: Vec::new(),
        memory: Memory::default(),
        session_timeout: SESSION_TIMEOUT,
    }
}

/// Operations in the directories of one client each, of which it is granted some.
const EARLY_OPS: u64 = 200;

/// Clients with early names, in one of two runs with leases, and directories in which nobody else does anything at first; by
/// numbers of its own, as [`memory`].
pub(super) fn early(rng: &mut Rng, shape: &mut Shape, ops: &mut Vec<Planned>) {
    if shape.leases.is_none() || !rng.chance(1, 2) {
        return;
    }
    shape.early = (0..shape.clients).map(|_| rng.chance(3, 4)).collect();
    if rng.chance(1, 2) {
        // Directories are made on other shards than their names'.
        shape.policy = DirPolicy::Random;
    }
    let begins = POPULATED + rng.below(SECOND as u64) as Moment;
    let ends = begins + rng.below((TROUBLED - begins) as u64) as Moment;
    for client in 0..shape.clients {
        let planned = |at, client, worker, op| Planned {
            at,
            client,
            worker,
            by: User::ROOT,
            op,
        };
        let path = |own: &str, rest: &[&str]| {
            let names = [own].into_iter().chain(rest.iter().copied());
            Path(names.map(str::to_owned).collect())
        };
        // So few names in each that they do not split as a rule: what is split is not granted.
        let own = [format!("p{client}"), format!("q{client}")];
        for own in &own {
            ops.push(planned(begins / 2, client, 0, Op::Mkdir(path(own, &[]))));
        }
        for _ in 0..EARLY_OPS {
            let at = begins + rng.below((TROUBLED - begins) as u64 * 9 / 10) as Moment;
            let own = rng.pick(&own).as_str();
            let in_dir = rng.chance(1, 3);
            let dir: &[&str] = match rng.below(4) {
                0 => &["d0", "d1"],
                1 => &["d1"],
                _ => &["d0"],
            };
            let file = *rng.pick(&["f0", "f1"]);
            let of = |file: &str| match in_dir {
                true => path(own, &[dir, &[file]].concat()),
                false => path(own, &[file]),
            };
            let other = *rng.pick(&["f0", "f1"]);
            let op = match rng.below(22) {
                0..7 => Op::Create(of(file)),
                7 => Op::Mkdir(path(own, dir)),
                8..11 => Op::Unlink(of(file)),
                11 => Op::Rmdir(path(own, dir)),
                12..14 => Op::Rename {
                    from: of(file),
                    to: path(own, &[other]),
                    no_replace: rng.chance(1, 3),
                    whiteout: false,
                },
                14 => Op::Link(of(file), path(own, &[other])),
                15 => Op::Chmod(of(file), *rng.pick(&[0o700, 0o755, 0o777])),
                16 => Op::Lookup(of(file)),
                17..19 => Op::Sync(if in_dir { path(own, dir) } else { of(file) }),
                19 => Op::List(path(own, &[])),
                _ => Op::Mkdir(path(own, dir)),
            };
            // From some moment on others come in.
            let is_visited = at > ends && rng.chance(1, 4);
            let by = match is_visited {
                true => rng.below(shape.clients as u64) as usize,
                false => client,
            };
            let worker = rng.below(shape.workers as u64) as usize;
            ops.push(planned(at, by, worker, op));
        }
    }
    ops.sort_by_key(|planned| planned.at);
}

/// By numbers of its own, so that all else of a seed stays as it was before there was this.
pub(super) fn memory(rng: &mut Rng) -> Memory {
    Memory {
        unwritten_bytes: *rng.pick(&[0, 2_000, 20_000, MAX_UNWRITTEN_BYTES]),
        recent_reads: *rng.pick(&[0, 4_000, 4_000_000]),
        cold: *rng.pick(&[0, 20, 200]),
    }
}

/// Directories that each client makes once all is healed, if servers have joined.
const MADE_AFTERWARDS: Moment = 12;

/// Servers that join, and faults around that; by numbers of its own, as [`memory`].
pub(crate) fn joins(rng: &mut Rng, shape: &Shape, ops: &mut Vec<Planned>, faults: &mut Vec<Fault>) {
    if !rng.chance(1, 3) {
        return;
    }
    for joined in shape.servers..shape.servers + *rng.pick(&[1, 1, 2]) {
        let span = (TROUBLED - POPULATED) as u64;
        let at = POPULATED + rng.below(span * 8 / 10) as Moment;
        let starts = *rng.pick(&[0, 2 * MILLISECOND, 200 * MILLISECOND]);
        faults.push(Fault::Joins {
            at,
            weight: *rng.pick(&[1, 1, 2, 4]) as u32,
            starts,
            told: *rng.pick(&[0, 1, 2, 5, u16::MAX]),
            is_in_file: rng.chance(1, 2),
        });
        let soon = |rng: &mut Rng| at + starts + rng.below(300 * MILLISECOND as u64) as Moment;
        for _ in 0..rng.below(3) {
            faults.push(Fault::Crash {
                at: soon(rng),
                server: rng.below(u64::from(joined) + 1) as u16,
                steps: rng.below(30) as u32,
                loss: *rng.pick(&[
                    Loss::Nothing,
                    Loss::Unsynced {
                        kept: 0,
                        torn: false,
                    },
                    Loss::Unsynced {
                        kept: 500,
                        torn: true,
                    },
                ]),
                down: rng.below(200 * MILLISECOND as u64) as Moment,
            });
        }
        if rng.chance(1, 3) {
            let start = soon(rng);
            let (old, new) = (
                End::Server(rng.below(u64::from(joined)) as u16),
                End::Server(joined),
            );
            let (from, to) = *rng.pick(&[(old, new), (new, old)]);
            faults.push(Fault::Cut {
                from,
                to,
                start,
                end: start + rng.below(300 * MILLISECOND as u64) as Moment,
            });
        }
        if rng.chance(1, 3) {
            let start = soon(rng);
            faults.push(Fault::Noise {
                start,
                end: start + rng.below(300 * MILLISECOND as u64) as Moment,
                lost: *rng.pick(&[20, 300]),
                twice: *rng.pick(&[0, 100]),
                delay: *rng.pick(&[0, 20 * MILLISECOND]),
            });
        }
    }
    faults.sort_by_key(Fault::span);
    for client in 0..shape.clients {
        for number in 0..MADE_AFTERWARDS {
            ops.push(Planned {
                at: TROUBLED + AFTERWARDS + (1 + number) * MILLISECOND,
                client,
                worker: number as usize % shape.workers,
                by: User::ROOT,
                op: Op::Mkdir(Path(vec![format!("after{client}.{number}")])),
            });
        }
    }
    ops.sort_by_key(|planned| planned.at);
}

/// The most that somebody may set a server's clock by.
const DAY: i64 = 86_400 * SECOND;

/// Error of clocks in thousandths, some fast and some slow, without a client believing for longer than a server.
const DRIFT: i64 = 20;

fn leasing(rng: &mut Rng, servers: u16, clients: usize) -> Leasing {
    let mut drift = || rng.below(2 * DRIFT as u64 + 1) as i64 - DRIFT;
    let servers = (0..servers).map(|_| drift()).collect();
    let clients = (0..clients).map(|_| drift()).collect();
    Leasing {
        room: *rng.pick(&[
            (1_000, 1_500, 2_000),
            (2, 1_500, 2_000),
            (0, 0, 2_000),
            (3, 6, 40),
            (4, 6, 9),
        ]),
        servers,
        clients,
    }
}

/// Source from which the operations and faults of a run are drawn.
pub(super) struct Draw<'r> {
    rng: &'r mut Rng,
    /// Moments at which much is done at once, so that operations meet, and faults meet operations.
    bursts: Vec<Moment>,
    /// Different names of files.
    files: u64,
    /// Chances of directories of one, two and three levels, in parts of ten.
    depths: [u64; 2],
    /// Of ten operations so many are about open files.
    held: u64,
}

impl Draw<'_> {
    pub(super) fn new<'r>(rng: &'r mut Rng) -> Draw<'r> {
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
                whiteout: self.rng.chance(1, 6),
            },
            73..79 => Op::Rename {
                from: self.subdir(),
                to: self.subdir(),
                no_replace: self.rng.chance(1, 3),
                whiteout: self.rng.chance(1, 6),
            },
            79..81 => Op::Rename {
                from: self.any(),
                to: self.any(),
                no_replace: false,
                whiteout: false,
            },
            81..85 => Op::Exchange(self.any(), self.any()),
            85..88 => Op::Lookup(self.any()),
            88..90 => Op::Stat(self.any()),
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
            by: User::ROOT,
            op,
        }
    }

    pub(super) fn ops(&mut self, shape: &Shape) -> Vec<Planned> {
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

    pub(super) fn faults(&mut self, shape: &Shape) -> Vec<Fault> {
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
                    Loss::Unsynced {
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
                by: *rng.pick(&[
                    -DAY,
                    -10 * SECOND,
                    -MILLISECOND,
                    MILLISECOND,
                    10 * SECOND,
                    DAY,
                ]),
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
