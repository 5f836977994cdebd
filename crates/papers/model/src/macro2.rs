//! The paper's macrobenchmark 2: many processes that do a mix of operations to files drawn at
//! random.

use crate::costs::Costs;
use crate::engine::{Engine, Op, Outcome, Work};
use crate::place::{Placer, Policy, between_tellings};
use crate::rng::{Rng, shuffle};
use crate::space::{Object, Space};

/// Per cent of each operation (table 2; they sum up to 100).
const MIX: [(Kind, f64); 9] = [
    (Kind::Open, 35.45),
    (Kind::Read, 25.67),
    (Kind::Write, 12.83),
    (Kind::Stat, 9.98),
    (Kind::Readdir, 7.70),
    (Kind::Create, 5.55),
    (Kind::Mkdir, 1.71),
    (Kind::Remove, 1.07),
    (Kind::Rmdir, 0.04),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Open,
    Read,
    Write,
    Stat,
    Readdir,
    Create,
    Mkdir,
    Remove,
    Rmdir,
}

/// Operations of one client (table 3: 243,398 with one client, 1,949,044 with eight).
pub(crate) const OPERATIONS_OF_A_CLIENT: u64 = 243_400;

/// Runs it on a name space that is there and was used: `operations` for each client.
pub fn macro2(
    space: &Space,
    policy: Policy,
    servers: usize,
    clients: usize,
    operations: u64,
    costs: Costs,
    seed: u64,
) -> Outcome {
    let every = between_tellings(servers, clients, costs);
    let mut placer = Placer::new(policy, servers, Rng::new(seed, 0x71ace), every);
    placer.place_all(space);
    let (grown, streams) = streams(space, &mut placer, clients, operations, seed);
    let mut engine = Engine::new(costs, servers, &grown);
    engine.warm_up(&placer, space.len());
    engine.run(&mut placer, &mut Streams(streams), clients)
}

struct Streams(Vec<Vec<Op>>);

impl Work for Streams {
    fn next(&mut self, client: usize) -> Option<Op> {
        self.0[client].pop()
    }
}

/// Returns the work of each client, last first, and the name space with all that is made meanwhile.
/// Files that are to be removed, and directories, are drawn beforehand: no other client asks for
/// them.
fn streams(
    space: &Space,
    placer: &mut Placer,
    clients: usize,
    operations: u64,
    seed: u64,
) -> (Space, Vec<Vec<Op>>) {
    let mut rng = Rng::new(seed, 0x3ac2);
    let mut grown = space.clone();
    let (mut files, mut empty, mut directories) = (Vec::new(), Vec::new(), Vec::new());
    let mut names = vec![0_u32; space.len()];
    for object in 1..space.len() {
        names[space.parents[object] as usize] += 1;
    }
    for (object, &count) in names.iter().enumerate().skip(1) {
        match (space.is_dir[object], count) {
            (false, _) => files.push(object as Object),
            (true, 0) => empty.push(object as Object),
            (true, _) => directories.push(object as Object),
        }
    }
    shuffle(&mut files, &mut rng);
    shuffle(&mut empty, &mut rng);
    let total = operations * clients as u64;
    let share = |of: Kind| {
        let percent = MIX.iter().find(|(kind, _)| *kind == of);
        (percent.map_or(0.0, |(_, percent)| *percent) / 100.0 * total as f64) as usize
    };
    let kept = files.len().saturating_sub(2 * share(Kind::Remove)).max(1);
    let mut removed = files.split_off(kept);
    let mut streams = vec![Vec::new(); clients];
    for _ in 0..operations {
        for stream in &mut streams {
            let file = files[rng.below(files.len() as u64) as usize];
            let directory = directories[rng.below(directories.len() as u64) as usize];
            let op = match draw(&mut rng) {
                Kind::Open | Kind::Stat => Op::Look(file),
                Kind::Read => Op::Read(file),
                Kind::Write => Op::Write(file),
                Kind::Readdir => Op::List(directory, names[directory as usize]),
                kind @ (Kind::Create | Kind::Mkdir) => {
                    let object = grown.len() as Object;
                    let is_dir = kind == Kind::Mkdir;
                    let level = grown.levels[directory as usize] + 1;
                    grown.parents.push(directory);
                    grown.is_dir.push(is_dir);
                    grown.levels.push(level);
                    placer.reserve(grown.len());
                    placer.place(object, directory, is_dir);
                    Op::Make(object)
                }
                Kind::Remove => removed.pop().map_or(Op::Look(file), Op::Remove),
                Kind::Rmdir => empty.pop().map_or(Op::Look(file), Op::Remove),
            };
            stream.push(op);
        }
    }
    for stream in &mut streams {
        stream.reverse();
    }
    (grown, streams)
}

fn draw(rng: &mut Rng) -> Kind {
    let mut left = rng.unit() * 100.0;
    for (kind, percent) in MIX {
        if left < percent {
            return kind;
        }
        left -= percent;
    }
    MIX[0].0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Tellings;
    use crate::space::NAMESPACE_1;

    #[test]
    fn the_mix_is_that_of_table_2() {
        let sum: f64 = MIX.iter().map(|(_, percent)| percent).sum();
        assert!((sum - 100.0).abs() < 1e-9, "{sum}");
        let mut rng = Rng::new(1, 1);
        let draws = 100_000;
        let mut counts = [0_u32; MIX.len()];
        for _ in 0..draws {
            let kind = draw(&mut rng);
            let at = MIX.iter().position(|(other, _)| *other == kind).unwrap();
            counts[at] += 1;
        }
        for ((kind, percent), count) in MIX.iter().zip(counts) {
            let found = f64::from(count) / f64::from(draws) * 100.0;
            assert!((found - percent).abs() < 0.6, "{kind:?} {found}");
        }
    }

    #[test]
    fn what_is_removed_is_removed_once_and_asked_for_by_nobody() {
        let space = Space::generate(NAMESPACE_1.scaled_down(50), 1);
        let mut placer = Placer::new(Policy::Random, 6, Rng::new(1, 1), Tellings::Objects(1_000));
        placer.place_all(&space);
        let (grown, streams) = streams(&space, &mut placer, 3, 5_000, 1);
        assert!(grown.len() > space.len() + 700);
        let mut removed = std::collections::HashSet::new();
        for op in streams.iter().flatten() {
            if let Op::Remove(object) = op {
                assert!(removed.insert(*object));
            }
        }
        assert!(removed.len() > 100);
        for op in streams.iter().flatten() {
            if let Op::Look(object) | Op::Read(object) | Op::Write(object) = op {
                assert!(!removed.contains(object));
            }
        }
    }
}
