//! The paper's macrobenchmark 1: a name space is made, looked at, and removed (section 5.1.2).

use crate::costs::{Costs, ns};
use crate::engine::{Engine, Op, Outcome, Work};
use crate::place::{Placer, Policy, Tellings, between_tellings};
use crate::rng::{Rng, shuffle};
use crate::space::{Object, Space};
use std::ops::Range;

/// Results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Macro1 {
    /// Phase in which the name space is made.
    pub create: Outcome,
    /// Phase in which every object is looked at.
    pub stat: Outcome,
    /// Phase in which every object is removed.
    pub delete: Outcome,
    /// Directories and files on another server than their parent.
    pub branch_points: (u64, u64),
    /// Objects of the server that has most, over the mean.
    pub imbalance: f64,
}

impl Macro1 {
    /// Operations a second over all three phases.
    pub fn rate(&self) -> f64 {
        let all = [&self.create, &self.stat, &self.delete];
        let operations: u64 = all.iter().map(|one| one.operations).sum();
        operations as f64 / all.iter().map(|one| one.seconds).sum::<f64>()
    }
}

/// In which order the objects of a name space are made, and with that placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As one client makes them: the hierarchy in preorder, then all files. The clients then make
    /// what is placed.
    OneClient,
    /// All clients at once, each the directories of its part and what is missing above them, and
    /// then its files.
    DirectoriesFirst,
    /// All clients at once, each its part as it is met: a directory, its files, and what is below
    /// it.
    FilesAsTheyCome,
}

impl Order {
    /// Every order that is compared.
    pub const ALL: [Order; 3] = [
        Order::OneClient,
        Order::DirectoriesFirst,
        Order::FilesAsTheyCome,
    ];

    /// As it stands in tables.
    pub fn name(self) -> &'static str {
        match self {
            Order::OneClient => "one client's order",
            Order::DirectoriesFirst => "parts at once, directories first",
            Order::FilesAsTheyCome => "parts at once, files as they come",
        }
    }
}

/// Runs it. Each client has a part of the name space of its own, of the same number of objects;
/// which one it has follows from the seed where that decides where things go.
pub fn macro1(
    space: &Space,
    policy: Policy,
    (servers, clients): (usize, usize),
    order: Order,
    costs: Costs,
    seed: u64,
) -> Macro1 {
    let mut parts = parts(space.len(), clients);
    let rng = || Rng::new(seed, 0x71ace);
    let mut placer = if order == Order::OneClient {
        let place = |tellings: Tellings| {
            let mut placer = Placer::new(policy, servers, rng(), tellings);
            placer.place_all(space);
            placer
        };
        let mut placer = place(between_tellings(servers, clients, costs));
        if policy.adapts() {
            // How many objects are made between two tellings is known only when it was seen how
            // long they take.
            let mut engine = Engine::new(costs, servers, space);
            let mut work = Part::new(space, Phase::Create, order, &parts);
            let rate = engine.run(&mut placer, &mut work, clients).rate();
            let every = ((rate * costs.loads_us / 1e6) as u64).max(1);
            placer = place(Tellings::Objects(every));
        }
        placer
    } else {
        shuffle(&mut parts, &mut Rng::new(seed, 0x9a27));
        let every = Tellings::Nanoseconds(ns(costs.loads_us).max(1));
        let mut placer = Placer::new(policy, servers, rng(), every);
        placer.reserve(space.len());
        placer
    };
    let mut engine = Engine::new(costs, servers, space);
    let mut run = |phase: Phase| {
        let mut work = Part::new(space, phase, order, &parts);
        engine.run(&mut placer, &mut work, clients)
    };
    Macro1 {
        create: run(Phase::Create),
        stat: run(Phase::Stat),
        delete: run(Phase::Delete),
        branch_points: placer.branch_points(space),
        imbalance: placer.imbalance(),
    }
}

/// All objects but the root, in ranges of nearly the same length.
fn parts(objects: usize, clients: usize) -> Vec<Range<usize>> {
    let count = objects - 1;
    let start = |client: usize| 1 + client * count / clients;
    (0..clients)
        .map(|client| start(client)..start(client + 1))
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Create,
    Stat,
    Delete,
}

/// Rest of a phase for each client: directories first when they are made (or as they come), last
/// when they are removed, all in order when they are looked at.
struct Part<'a> {
    space: &'a Space,
    phase: Phase,
    /// Two passes over the part.
    left: Vec<(Pass, Pass)>,
    /// Whether each directory has been made.
    made: Vec<bool>,
}

#[derive(Clone, Debug)]
struct Pass {
    range: Range<usize>,
    wanted: Wanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Directories,
    Files,
    All,
}

impl<'a> Part<'a> {
    fn new(space: &'a Space, phase: Phase, order: Order, parts: &[Range<usize>]) -> Part<'a> {
        let passes = |part: &Range<usize>| {
            let pass = |wanted| Pass {
                range: part.clone(),
                wanted,
            };
            let nothing = Pass {
                range: 0..0,
                wanted: Wanted::All,
            };
            match phase {
                Phase::Create if order == Order::FilesAsTheyCome => (pass(Wanted::All), nothing),
                Phase::Create => (pass(Wanted::Directories), pass(Wanted::Files)),
                Phase::Stat => (pass(Wanted::All), nothing),
                Phase::Delete => (pass(Wanted::Files), pass(Wanted::Directories)),
            }
        };
        let mut made = vec![phase != Phase::Create; space.len()];
        made[0] = true;
        Part {
            space,
            phase,
            left: parts.iter().map(passes).collect(),
            made,
        }
    }

    /// The next object of the client's part.
    fn next_object(&mut self, client: usize) -> Option<Object> {
        let backwards = self.phase == Phase::Delete;
        let passes = &mut self.left[client];
        for pass in [&mut passes.0, &mut passes.1] {
            let turned = backwards && pass.wanted == Wanted::Directories;
            loop {
                let next = if turned {
                    pass.range.next_back()
                } else {
                    pass.range.next()
                };
                let Some(object) = next else { break };
                let is_dir = self.space.is_dir[object];
                let done = self.phase == Phase::Create && is_dir && self.made[object];
                let wanted = match pass.wanted {
                    Wanted::Directories => is_dir,
                    Wanted::Files => !is_dir,
                    Wanted::All => true,
                };
                if wanted && !done {
                    return Some(object as Object);
                }
            }
        }
        None
    }

    /// Puts an object back that could not be made yet.
    fn put_back(&mut self, client: usize, object: Object) {
        let passes = &mut self.left[client];
        let is_first = self.space.is_dir[object as usize] || passes.0.wanted == Wanted::All;
        let pass = if is_first {
            &mut passes.0
        } else {
            &mut passes.1
        };
        pass.range.start = object as usize;
    }
}

impl Work for Part<'_> {
    fn next(&mut self, client: usize) -> Option<Op> {
        let object = self.next_object(client)?;
        match self.phase {
            Phase::Stat => Some(Op::Look(object)),
            Phase::Delete => Some(Op::Remove(object)),
            Phase::Create => {
                // Of the directories above it the uppermost that is not made yet comes first.
                let mut missing = object;
                let mut above = self.space.parents[object as usize];
                while !self.made[above as usize] {
                    missing = above;
                    above = self.space.parents[above as usize];
                }
                if missing != object {
                    self.put_back(client, object);
                }
                self.made[missing as usize] = true;
                Some(Op::Make(missing))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::NAMESPACE_1;

    #[test]
    fn every_object_is_made_looked_at_and_removed_once() {
        let space = Space::generate(NAMESPACE_1.scaled_down(100), 1);
        for (clients, order) in [
            (1, Order::OneClient),
            (7, Order::DirectoriesFirst),
            (32, Order::OneClient),
            (32, Order::FilesAsTheyCome),
        ] {
            for phase in [Phase::Create, Phase::Stat, Phase::Delete] {
                let mut work = Part::new(&space, phase, order, &parts(space.len(), clients));
                let mut times = vec![0; space.len()];
                times[0] = 1;
                let mut busy: Vec<usize> = (0..clients).collect();
                while !busy.is_empty() {
                    busy.retain(|&client| {
                        let Some(op) = work.next(client) else {
                            return false;
                        };
                        let (Op::Make(object) | Op::Look(object) | Op::Remove(object)) = op else {
                            panic!("{op:?}");
                        };
                        times[object as usize] += 1;
                        if phase == Phase::Create {
                            assert_eq!(times[space.parents[object as usize] as usize], 1);
                        }
                        true
                    });
                }
                assert!(times.iter().all(|&times| times == 1), "{phase:?} {clients}");
            }
        }
    }

    /// The orders: all directories of a part before its files, or each directory's files before the
    /// next.
    #[test]
    fn directories_come_first_or_as_they_are_met() {
        let space = Space::generate(NAMESPACE_1.scaled_down(100), 1);
        let made = |order| -> Vec<Object> {
            let mut work = Part::new(&space, Phase::Create, order, &parts(space.len(), 1));
            let ops = std::iter::from_fn(|| work.next(0));
            ops.map(|op| match op {
                Op::Make(object) => object,
                other => panic!("{other:?}"),
            })
            .collect()
        };
        let as_they_come: Vec<Object> = (1..space.len() as Object).collect();
        assert_eq!(made(Order::FilesAsTheyCome), as_they_come);
        let first = made(Order::DirectoriesFirst);
        let is_dir = |object: &Object| space.is_dir[*object as usize];
        assert!(first.is_sorted_by_key(|object| !is_dir(object)));
        assert_eq!(first, made(Order::OneClient));
    }

    #[test]
    fn one_seed_gives_one_outcome() {
        let space = Space::generate(NAMESPACE_1.scaled_down(100), 1);
        let costs = Costs::PAPER.scaled_down(100);
        let run = |policy, seed| {
            Order::ALL.map(|order| macro1(&space, policy, (16, 32), order, costs, seed))
        };
        let drawn = Policy::Ddg {
            dir_depth: 2,
            dir_width: 4,
            file_width: 100,
        };
        for policy in [drawn, Policy::adaptive()] {
            assert_eq!(run(policy, 1), run(policy, 1));
            assert_ne!(run(policy, 1), run(policy, 2));
        }
        // In turn, nothing is drawn.
        assert_eq!(run(Policy::Random, 1)[0], run(Policy::Random, 2)[0]);
    }
}
