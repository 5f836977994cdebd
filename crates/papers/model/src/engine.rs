//! Clients in a closed loop, and servers with a processor and a disk.
//!
//! Each client waits for one answer before it asks again.
//!
//! Events are taken in the order of their times; the first to come to a processor or a disk is
//! served first. An operation is a sequence of visits to servers; a visit takes the processor, then
//! the disk for what is not in the caches, then the disk again for a forced record of the log. A
//! server serves others while a visit waits for the disk, as the paper's servers and PandoFS's do.

use crate::cache::{Disk, Records};
use crate::costs::{Costs, ns};
use crate::place::Placer;
use crate::space::{Object, Space};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that a client does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A file or directory; the placer has said where.
    Make(Object),
    /// A look at it by its name: `stat`, `open`.
    Look(Object),
    Remove(Object),
    /// The names in a directory: so many.
    List(Object, u32),
    /// Data, which no metadata server has.
    Read(Object),
    /// The same, and the new size and time go to the inode's server some time later.
    Write(Object),
}

/// Work of clients: given the client, its next operation; none when it is done.
pub(crate) trait Work {
    fn next(&mut self, client: usize) -> Option<Op>;
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Answered ones, over all clients.
    pub operations: u64,
    /// Until the last answer.
    pub seconds: f64,
    /// Operations that took more than one server.
    pub distributed: u64,
    /// Between servers.
    pub messages: u64,
    /// Writes of logs that something waits for.
    pub forced_writes: u64,
    /// Summed over all servers.
    pub disk: Disk,
    /// Clients' requests to each server.
    pub requests: Vec<u64>,
}

impl Outcome {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }
}

/// A server's processor and disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    processor_free: u64,
    disk_free: u64,
    /// The forced write that waits for the disk: its beginning and its end.
    next_force: Option<(u64, u64)>,
}

/// Requests to servers at a time, besides the first visit of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A client asks, if it has anything left.
    Next,
    /// The second server does its part of making or removing.
    Part,
    /// The first server has the second one's answer.
    Answered,
    /// The second server logs the end. No client waits for it.
    End,
    /// The second server looks at an inode.
    LookPart,
    /// The first server passes the look's answer on.
    LookAnswered,
}

/// Servers with their caches; they keep them from one run to the next.
pub(crate) struct Engine<'a> {
    costs: Costs,
    space: &'a Space,
    inodes: Records,
    entries: Records,
    servers: Vec<Server>,
}

impl<'a> Engine<'a> {
    /// Of the objects of `space`, the root is there.
    pub(crate) fn new(costs: Costs, servers: usize, space: &'a Space) -> Engine<'a> {
        let mut engine = Engine {
            costs,
            space,
            inodes: Records::new(servers, costs.cached, costs.per_block),
            entries: Records::new(servers, costs.cached, costs.per_block),
            servers: vec![Server::default(); servers],
        };
        engine.inodes.reserve(space.len());
        engine.entries.reserve(space.len());
        engine.inodes.make(0, 0);
        engine
    }

    /// Fills the caches as the making of the first objects does, without the time.
    pub(crate) fn warm_up(&mut self, placer: &Placer, objects: usize) {
        for object in 1..objects as u32 {
            self.entries.make(self.home(placer, object), object);
            self.inodes.make(server_of(placer, object), object);
        }
    }

    /// Runs until every client is done. An object that is made and has no place yet gets one when
    /// the client asks for it.
    pub(crate) fn run(
        &mut self,
        placer: &mut Placer,
        work: &mut dyn Work,
        clients: usize,
    ) -> Outcome {
        self.servers.fill(Server::default());
        let mut run = Run {
            engine: self,
            placer,
            events: BinaryHeap::new(),
            sequence: 0,
            current: vec![Op::Read(0); clients],
            outcome: Outcome {
                operations: 0,
                seconds: 0.0,
                distributed: 0,
                messages: 0,
                forced_writes: 0,
                disk: Disk::default(),
                requests: vec![0; 0],
            },
            end: 0,
        };
        run.outcome.requests = vec![0; run.engine.servers.len()];
        for client in 0..clients {
            // They do not begin at the very same time.
            run.at(client as u64 * 1_000, Step::Next, client);
        }
        while let Some(Reverse((time, _, step, client))) = run.events.pop() {
            run.step(time, step, client as usize, work);
        }
        let mut outcome = run.outcome;
        outcome.seconds = run.end as f64 / 1e9;
        outcome
    }

    /// The server of an object's entry: its parent's.
    fn home(&self, placer: &Placer, object: Object) -> usize {
        server_of(placer, self.space.parents[object as usize])
    }
}

fn server_of(placer: &Placer, object: Object) -> usize {
    usize::from(placer.server[object as usize])
}

struct Run<'e, 's, 'p> {
    engine: &'e mut Engine<'s>,
    placer: &'p mut Placer,
    /// Time, order of scheduling, what, and for which client ([`Step::End`]: at which server).
    events: BinaryHeap<Reverse<(u64, u64, Step, u32)>>,
    sequence: u64,
    /// Current operation of each client.
    current: Vec<Op>,
    outcome: Outcome,
    end: u64,
}

impl Run<'_, '_, '_> {
    fn at(&mut self, time: u64, step: Step, whom: usize) {
        self.sequence += 1;
        let event = (time, self.sequence, step, whom as u32);
        self.events.push(Reverse(event));
    }

    /// From one server to another.
    fn message(&mut self, sent: u64, step: Step, whom: usize) {
        self.outcome.messages += 1;
        let arrives = sent + ns(self.engine.costs.network_us);
        self.at(arrives, step, whom);
    }

    /// The client has what it asked for, after so much work of its own.
    fn answer(&mut self, sent: u64, own_us: f64, client: usize) {
        let costs = self.engine.costs;
        let done = sent + ns(costs.network_us) + ns(own_us);
        self.end = self.end.max(done);
        self.at(done + ns(costs.client_us), Step::Next, client);
    }

    fn step(&mut self, time: u64, step: Step, whom: usize, work: &mut dyn Work) {
        let message_us = self.engine.costs.message_us;
        match step {
            Step::Next => {
                if let Some(op) = work.next(whom) {
                    if let Op::Make(object) = op {
                        self.placer.place_at(time, object, self.engine.space);
                    }
                    self.current[whom] = op;
                    self.outcome.operations += 1;
                    self.begin(time, op, whom);
                }
            }
            Step::Part => {
                let (disk, own) = match self.current[whom] {
                    Op::Make(object) => {
                        let own = server_of(self.placer, object);
                        (self.engine.inodes.make(own, object), own)
                    }
                    Op::Remove(object) => {
                        let own = server_of(self.placer, object);
                        (self.engine.inodes.remove(own, object), own)
                    }
                    op => unreachable!("{op:?} has no part for another server"),
                };
                let done = self.visit(time, own, message_us, disk, Log::Forced);
                self.message(done, Step::Answered, whom);
            }
            Step::Answered => {
                let (Op::Make(object) | Op::Remove(object)) = self.current[whom] else {
                    unreachable!("{:?} has no part for another server", self.current[whom]);
                };
                let home = self.engine.home(self.placer, object);
                let done = self.visit(time, home, message_us, Disk::default(), Log::Forced);
                self.message(done, Step::End, server_of(self.placer, object));
                self.answer(done, 0.0, whom);
            }
            Step::End => {
                self.visit(time, whom, message_us, Disk::default(), Log::Forced);
            }
            Step::LookPart => {
                let object = object_of(self.current[whom]);
                let own = server_of(self.placer, object);
                let disk = self.engine.inodes.look(own, object);
                let done = self.visit(time, own, message_us, disk, Log::No);
                self.message(done, Step::LookAnswered, whom);
            }
            Step::LookAnswered => {
                let home = self.engine.home(self.placer, object_of(self.current[whom]));
                let done = self.visit(time, home, message_us, Disk::default(), Log::No);
                self.answer(done, 0.0, whom);
            }
        }
    }

    /// The client asks.
    fn begin(&mut self, asked: u64, op: Op, client: usize) {
        let costs = self.engine.costs;
        let object = object_of(op);
        let home = self.engine.home(self.placer, object);
        let own = server_of(self.placer, object);
        let arrives = asked + ns(costs.network_us);
        match op {
            Op::Read(_) => return self.answer(asked, costs.data_us, client),
            Op::Write(_) => {
                let disk = self.engine.inodes.change(own, object);
                self.visit(arrives, own, costs.request_us, disk, Log::Written);
                return self.answer(asked, costs.data_us, client);
            }
            _ => {}
        }
        let asked_server = if matches!(op, Op::List(..)) {
            own
        } else {
            home
        };
        self.outcome.requests[asked_server] += 1;
        match op {
            Op::Make(_) | Op::Remove(_) => {
                let parent = self.engine.space.parents[object as usize];
                let mut disk = self.engine.inodes.change(home, parent);
                let making = matches!(op, Op::Make(_));
                disk = disk.and(if making {
                    self.engine.entries.make(home, object)
                } else {
                    self.engine.entries.remove(home, object)
                });
                if home == own {
                    disk = disk.and(if making {
                        self.engine.inodes.make(home, object)
                    } else {
                        self.engine.inodes.remove(home, object)
                    });
                    let done = self.visit(arrives, home, costs.request_us, disk, Log::Written);
                    self.answer(done, 0.0, client);
                } else {
                    self.outcome.distributed += 1;
                    let done = self.visit(arrives, home, costs.request_us, disk, Log::Forced);
                    self.message(done, Step::Part, client);
                }
            }
            Op::Look(_) => {
                let mut disk = self.engine.entries.look(home, object);
                if home == own {
                    disk = disk.and(self.engine.inodes.look(home, object));
                    let done = self.visit(arrives, home, costs.request_us, disk, Log::No);
                    self.answer(done, 0.0, client);
                } else {
                    self.outcome.distributed += 1;
                    let done = self.visit(arrives, home, costs.request_us, disk, Log::No);
                    self.message(done, Step::LookPart, client);
                }
            }
            Op::List(_, names) => {
                let disk = self.engine.inodes.look(own, object);
                let work = costs.request_us * (1.0 + f64::from(names) / NAMES_PER_REQUEST_TIME);
                let done = self.visit(arrives, own, work, disk, Log::No);
                self.answer(done, 0.0, client);
            }
            Op::Read(_) | Op::Write(_) => {}
        }
    }

    /// A visit to a server; when it is over.
    fn visit(&mut self, arrives: u64, server: usize, work_us: f64, disk: Disk, log: Log) -> u64 {
        let costs = self.engine.costs;
        self.outcome.disk = self.outcome.disk.and(disk);
        let here = &mut self.engine.servers[server];
        let visit = here.visit(costs, arrives, work_us, disk, log);
        self.outcome.forced_writes += u64::from(visit.is_forced);
        visit.done
    }
}

/// Course of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    /// When it was over.
    pub done: u64,
    /// Whether the log was forced for it, and not for another as well that came before.
    pub is_forced: bool,
}

impl Server {
    /// Takes the processor, then the disk for what is read, and then for a record that is forced.
    pub(crate) fn visit(
        &mut self,
        costs: Costs,
        arrives: u64,
        work_us: f64,
        disk: Disk,
        log: Log,
    ) -> Visit {
        let worked = self.processor_free.max(arrives) + ns(work_us);
        self.processor_free = worked;
        let mut done = worked;
        if disk.block_reads > 0 {
            let reads = f64::from(disk.block_reads) * costs.block_read_us;
            done = self.use_disk(done, ns(reads));
        }
        if disk.block_writes > 0 {
            // Only later requests wait for these.
            let writes = f64::from(disk.block_writes) * costs.block_write_us;
            self.use_disk(worked, ns(writes));
        }
        let mut is_forced = false;
        match log {
            Log::No => {}
            Log::Written => {
                self.use_disk(worked, ns(costs.log_us));
            }
            Log::Forced => {
                let waiting = self.next_force.filter(|&(begins, _)| begins >= done);
                done = match waiting {
                    Some((_, ends)) if costs.group_commit => ends,
                    _ => {
                        is_forced = true;
                        let ends = self.use_disk(done, ns(costs.force_us));
                        self.next_force = Some((ends - ns(costs.force_us), ends));
                        ends
                    }
                };
            }
        }
        Visit { done, is_forced }
    }

    /// When the disk has done it.
    fn use_disk(&mut self, from: u64, for_ns: u64) -> u64 {
        self.disk_free = self.disk_free.max(from) + for_ns;
        self.disk_free
    }
}

/// Records that a visit leaves in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    No,
    Written,
    Forced,
}

/// Names that are listed in the time of a request.
const NAMES_PER_REQUEST_TIME: f64 = 200.0;

fn object_of(op: Op) -> Object {
    let (Op::Make(object)
    | Op::Look(object)
    | Op::Remove(object)
    | Op::List(object, _)
    | Op::Read(object)
    | Op::Write(object)) = op;
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::{Policy, Tellings};
    use crate::rng::Rng;
    use crate::space::{Files, Kind};

    struct Each(Vec<Vec<Op>>);

    impl Work for Each {
        fn next(&mut self, client: usize) -> Option<Op> {
            self.0[client].pop()
        }
    }

    const KIND: Kind = Kind {
        name: "small",
        directories: 2,
        files: 20,
        homes: 1,
        spread: Files {
            offset: 3.0,
            most: 40,
        },
    };

    /// Costs that add up by heart: 1 ms to force, all else nothing but what is given.
    fn costs(group_commit: bool) -> Costs {
        Costs {
            request_us: 10.0,
            message_us: 1.0,
            network_us: 100.0,
            client_us: 0.0,
            force_us: 1_000.0,
            log_us: 0.0,
            block_read_us: 5_000.0,
            block_write_us: 0.0,
            group_commit,
            ..Costs::PAPER
        }
    }

    fn run(policy: Policy, servers: usize, ops: Vec<Vec<Op>>, group_commit: bool) -> Outcome {
        let space = Space::generate(KIND, 1);
        let mut placer = Placer::new(policy, servers, Rng::new(1, 1), Tellings::Objects(1_000));
        placer.place_all(&space);
        let clients = ops.len();
        let mut engine = Engine::new(costs(group_commit), servers, &space);
        engine.run(&mut placer, &mut Each(ops), clients)
    }

    #[test]
    fn an_ordinary_operation_is_one_round_trip() {
        let outcome = run(Policy::Random, 1, vec![vec![Op::Make(1)]], false);
        assert_eq!(outcome.seconds, 210e-6);
        assert_eq!((outcome.messages, outcome.forced_writes), (0, 0));
    }

    /// Section 4.2: three messages between servers and four forced writes, three of them before the
    /// answer.
    #[test]
    fn a_distributed_operation_is_three_messages_and_four_forced_writes() {
        let space = Space::generate(KIND, 1);
        let mut placer = Placer::new(
            Policy::Random,
            1_000,
            Rng::new(1, 1),
            Tellings::Objects(1_000),
        );
        placer.place_all(&space);
        let outcome = run(Policy::Random, 1_000, vec![vec![Op::Make(1)]], false);
        assert_ne!(placer.server[1], placer.server[0]);
        assert_eq!((outcome.messages, outcome.forced_writes), (3, 4));
        assert_eq!(outcome.distributed, 1);
        let expected = 4.0 * 100e-6 + 3.0 * 1_000e-6 + 12e-6;
        assert!(
            (outcome.seconds - expected).abs() < 1e-9,
            "{}",
            outcome.seconds
        );
    }

    #[test]
    fn forced_writes_that_wait_together_are_one_with_group_commit() {
        let ops: Vec<Vec<Op>> = (0..20).map(|client| vec![Op::Make(client + 1)]).collect();
        let alone = run(Policy::Random, 2, ops.clone(), false);
        let together = run(Policy::Random, 2, ops, true);
        assert_eq!(alone.forced_writes, 4 * alone.distributed);
        assert!(together.forced_writes < alone.forced_writes / 2);
        assert!(together.seconds < alone.seconds);
    }

    #[test]
    fn a_server_serves_one_after_the_other() {
        let ops: Vec<Vec<Op>> = (0..20).map(|client| vec![Op::Make(client + 1)]).collect();
        let outcome = run(Policy::Random, 1, ops, false);
        assert!(outcome.seconds >= 200e-6 + 20.0 * 10e-6);
        assert_eq!(outcome.requests, [20]);
    }
}
