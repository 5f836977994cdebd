//! A run: an event at a time, the earliest first.

use crate::sim::network::Network;
use crate::sim::report::{RankReport, Report};
use crate::sim::tree::{Directory, Tree};
use pandofs_walk::{Command, Config, Event, Failure, Message, Rank, RankId, Topology};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Entries that a worker takes on between two looks at what others could do with.
const LOOK_ENTRIES: u64 = 64;
/// Entries of a slice that is made for others.
const SLICE_ENTRIES: u64 = 256;
/// Bytes of a message besides its items.
const MESSAGE_BYTES: u64 = 32;

/// Times of a worker, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Time of the user's callback for each node.
    pub callback_ns: u64,
    /// To ask for the attributes of a node.
    pub lstat_ns: u64,
    /// To open and close a directory.
    pub open_ns: u64,
    /// To read one entry of a directory.
    pub entry_ns: u64,
}

impl Costs {
    /// A parallel file system: an lstat is a round trip to a metadata server.
    pub const PARALLEL_FILE_SYSTEM: Costs = Costs {
        callback_ns: 2_000,
        lstat_ns: 250_000,
        open_ns: 500_000,
        entry_ns: 2_000,
    };
    /// A file system whose metadata is in the memory of the machine.
    pub const IN_MEMORY: Costs = Costs {
        callback_ns: 50,
        lstat_ns: 700,
        open_ns: 2_500,
        entry_ns: 100,
    };
}

/// Size of an item of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Each node by itself, as in the paper.
    Nodes,
    /// A directory with its files, or a slice of the files.
    Directories,
}

/// A simulation.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The tree that is walked.
    pub tree: Tree,
    /// The part of a directory that is one item.
    pub grain: Grain,
    /// Algorithm, workers of each rank, seed.
    pub config: Config,
    /// Decides between which ranks messages are fast.
    pub topology: Topology,
    /// Of every worker alike.
    pub costs: Costs,
    /// Of every message.
    pub network: Network,
    /// Whether a rank takes up messages while its worker works. The paper's ranks do so between two
    /// items.
    pub attentive: bool,
}

/// Runs it to its end.
///
/// # Panics
/// When the walk loses or repeats an item: what it visits is counted.
pub fn run(simulation: &Simulation) -> Report {
    let mut world = World::new(simulation);
    while let Some(Reverse(next)) = world.agenda.pop() {
        world.now = next.at_ns;
        world.happen(next.rank, next.what);
    }
    assert_eq!(
        world.finished,
        world.ranks.len(),
        "no end, and nothing under way"
    );
    world.report.elapsed_ns = world.now;
    world.report
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Directory(Directory),
    /// Files of one directory, one after the other; what they are called does not matter.
    Files {
        count: u32,
        depth: u32,
    },
}

impl Item {
    /// As the paper sends it: a path, with nine bytes for a name and its slash.
    fn bytes(&self) -> u64 {
        let depth = match self {
            Item::Directory(directory) => directory.depth(),
            Item::Files { depth, .. } => *depth,
        };
        8 + 9 * u64::from(depth)
    }
}

struct Agenda {
    at_ns: u64,
    /// Things at the same time happen in the order in which they were thought of.
    order: u64,
    rank: RankId,
    what: What,
}

enum What {
    /// A message has arrived and waits for its turn.
    Arrives {
        from: RankId,
        message: Message<Item>,
    },
    Event(Event<Item>),
    /// A worker is through with what it took on.
    Worked {
        worker: u32,
        left: Left,
    },
}

/// The rest of an item.
struct Left {
    files: u64,
    depth: u32,
    children: Vec<Item>,
}

impl PartialEq for Agenda {
    fn eq(&self, other: &Agenda) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Agenda {}
impl PartialOrd for Agenda {
    fn partial_cmp(&self, other: &Agenda) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Agenda {
    fn cmp(&self, other: &Agenda) -> std::cmp::Ordering {
        (self.at_ns, self.order).cmp(&(other.at_ns, other.order))
    }
}

struct SimulatedRank {
    machine: Rank<Item>,
    /// Until when it takes up earlier messages.
    hears_at_ns: u64,
    /// Workers with an item.
    working: u32,
    /// Messages that wait for the worker, if the rank is not attentive.
    inbox: VecDeque<(RankId, Message<Item>)>,
    /// Spilled pieces; equal items in a row as one, with their number.
    spilled: VecDeque<Vec<(Item, u32)>>,
}

struct World<'s> {
    simulation: &'s Simulation,
    ranks: Vec<SimulatedRank>,
    agenda: BinaryHeap<Reverse<Agenda>>,
    now: u64,
    order: u64,
    finished: usize,
    report: Report,
    commands: Vec<Command<Item>>,
}

impl<'s> World<'s> {
    fn new(simulation: &'s Simulation) -> World<'s> {
        let topology = &simulation.topology;
        let ids = (0..topology.ranks()).map(RankId);
        let mut world = World {
            simulation,
            ranks: ids
                .clone()
                .map(|me| SimulatedRank {
                    machine: Rank::new(&simulation.config, topology, me),
                    hears_at_ns: 0,
                    working: 0,
                    inbox: VecDeque::new(),
                    spilled: VecDeque::new(),
                })
                .collect(),
            agenda: BinaryHeap::new(),
            now: 0,
            order: 0,
            finished: 0,
            report: Report {
                ranks: vec![RankReport::default(); topology.ranks() as usize],
                ..Report::default()
            },
            commands: Vec::new(),
        };
        for me in ids {
            let roots = if me == RankId::ROOT {
                vec![Item::Directory(simulation.tree.root())]
            } else {
                vec![]
            };
            world.later(0, me, What::Event(Event::Start { roots }));
        }
        world
    }

    fn later(&mut self, after_ns: u64, rank: RankId, what: What) {
        self.order += 1;
        self.agenda.push(Reverse(Agenda {
            at_ns: self.now + after_ns,
            order: self.order,
            rank,
            what,
        }));
    }

    fn happen(&mut self, at: RankId, what: What) {
        match what {
            What::Event(event) => self.step(at, event),
            What::Arrives { from, message } => {
                let rank = &mut self.ranks[at.0 as usize];
                if !self.simulation.attentive && rank.working > 0 {
                    rank.inbox.push_back((from, message));
                } else {
                    self.hear(at, from, message);
                }
            }
            What::Worked { worker, left } => self.worked(at, worker, left),
        }
    }

    /// Takes a message up after those that came before it.
    fn hear(&mut self, at: RankId, from: RankId, message: Message<Item>) {
        let handling = self.simulation.network.handling_ns;
        let rank = &mut self.ranks[at.0 as usize];
        rank.hears_at_ns = rank.hears_at_ns.max(self.now) + handling;
        let wait = rank.hears_at_ns - self.now;
        self.report.components.communication_ns += handling;
        self.later(wait, at, What::Event(Event::Message { from, message }));
    }

    fn step(&mut self, at: RankId, event: Event<Item>) {
        let mut commands = std::mem::take(&mut self.commands);
        let machine = &mut self.ranks[at.0 as usize].machine;
        machine.step(event, &mut commands);
        let queued = machine.queued();
        let report = &mut self.report.ranks[at.0 as usize];
        report.longest_queue = report.longest_queue.max(queued);
        for command in commands.drain(..) {
            self.carry_out(at, command);
        }
        self.commands = commands;
    }

    fn carry_out(&mut self, at: RankId, command: Command<Item>) {
        match command {
            Command::Send { to, message } => self.send(at, to, message),
            Command::Work { worker, item } => self.take_on(at, worker, item),
            Command::Spill { items } => {
                let mut piece: Vec<(Item, u32)> = Vec::new();
                for item in items {
                    match piece.last_mut() {
                        Some((last, count)) if *last == item => *count += 1,
                        _ => piece.push((item, 1)),
                    }
                }
                self.ranks[at.0 as usize].spilled.push_back(piece);
            }
            Command::Refill => {
                let piece = self.ranks[at.0 as usize].spilled.pop_back();
                let items = items_of(piece.unwrap_or_default());
                self.later(0, at, What::Event(Event::Refilled { items }));
            }
            Command::GiveSpilled { to } => {
                let piece = self.ranks[at.0 as usize].spilled.pop_front();
                let items = items_of(piece.unwrap_or_default());
                self.send(at, to, Message::Work { items });
            }
            Command::Wake { after } => {
                self.later(after.as_nanos() as u64, at, What::Event(Event::Woken));
            }
            Command::Finished => self.finished += 1,
            Command::Failed(Failure::RankDied { rank }) => {
                unreachable!("no event said that rank {rank} died")
            }
        }
    }

    fn send(&mut self, from: RankId, to: RankId, message: Message<Item>) {
        let items = match &message {
            Message::Work { items } | Message::Found { items } | Message::Results { items, .. } => {
                items.as_slice()
            }
            _ => &[],
        };
        let bytes = MESSAGE_BYTES + items.iter().map(Item::bytes).sum::<u64>();
        let report = &mut self.report.ranks[from.0 as usize];
        report.sent_messages += 1;
        report.sent_bytes += bytes;
        *self.report.bytes.entry((from, to)).or_default() += bytes;
        let Simulation {
            network, topology, ..
        } = self.simulation;
        let travel = network.travel_ns(topology, from, to, bytes);
        self.later(travel, to, What::Arrives { from, message });
    }

    /// A worker begins with an item.
    fn take_on(&mut self, at: RankId, worker: u32, item: Item) {
        self.ranks[at.0 as usize].working += 1;
        let costs = self.simulation.costs;
        match item {
            Item::Files { count, depth } => {
                let left = Left {
                    files: u64::from(count),
                    depth,
                    children: vec![],
                };
                self.go_on(at, worker, left, 0);
            }
            Item::Directory(directory) => {
                let mut below = Vec::new();
                directory.subdirectories(&mut below);
                let files = directory.files();
                let depth = directory.depth() + 1;
                let entries = files + below.len() as u64;
                let readdir = costs.open_ns + costs.entry_ns * entries;
                self.report.components.readdir_ns += readdir;
                self.visit(at, 1);
                let mut children: Vec<Item> = below.into_iter().map(Item::Directory).collect();
                let mut left = Left {
                    files,
                    depth,
                    children: vec![],
                };
                if self.simulation.grain == Grain::Nodes {
                    let file = Item::Files { count: 1, depth };
                    children.extend(std::iter::repeat_n(file, files as usize));
                    left.files = 0;
                }
                left.children = children;
                let itself = costs.callback_ns + costs.lstat_ns;
                self.go_on(at, worker, left, readdir + itself);
            }
        }
    }

    /// Counts nodes, and what is done for each.
    fn visit(&mut self, at: RankId, nodes: u64) {
        let costs = self.simulation.costs;
        self.report.components.callback_ns += costs.callback_ns * nodes;
        self.report.components.lstat_ns += costs.lstat_ns * nodes;
        self.report.ranks[at.0 as usize].nodes += nodes;
    }

    fn go_on(&mut self, at: RankId, worker: u32, mut left: Left, before_ns: u64) {
        let costs = self.simulation.costs;
        let slice = left.files.min(LOOK_ENTRIES);
        left.files -= slice;
        self.visit(at, slice);
        let time = before_ns + (costs.callback_ns + costs.lstat_ns) * slice;
        self.later(time, at, What::Worked { worker, left });
    }

    /// A worker is through with a slice: it goes on with the item, hands parts of it to others, or
    /// is done.
    fn worked(&mut self, at: RankId, worker: u32, mut left: Left) {
        if left.files > 0 {
            let wanted = self.ranks[at.0 as usize].machine.wanted();
            while left.files > SLICE_ENTRIES && left.children.len() < wanted {
                left.files -= SLICE_ENTRIES;
                let depth = left.depth;
                left.children.push(Item::Files {
                    count: SLICE_ENTRIES as u32,
                    depth,
                });
            }
            let children = std::mem::take(&mut left.children);
            if !children.is_empty() {
                self.step(at, Event::Found { worker, children });
            }
            self.go_on(at, worker, left, 0);
            return;
        }
        self.ranks[at.0 as usize].working -= 1;
        let children = left.children;
        self.step(at, Event::Done { worker, children });
        if !self.simulation.attentive {
            // Messages that came meanwhile are taken up before the next item is through.
            while let Some((from, message)) = self.ranks[at.0 as usize].inbox.pop_front() {
                self.hear(at, from, message);
            }
        }
    }
}

/// The items of a spilled piece.
fn items_of(piece: Vec<(Item, u32)>) -> Vec<Item> {
    let piece = piece.into_iter();
    piece
        .flat_map(|(item, count)| std::iter::repeat_n(item, count as usize))
        .collect()
}
