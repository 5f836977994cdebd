//! Every node once, the end neither early nor missing, whatever order messages arrive in.

use pandofs_walk::{
    Algorithm, Command, Config, Event, Failure, Message, Rank, RankId, Rng, Topology,
};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Steps after which anything under way arrives: an adversary may delay, not lose.
const PATIENCE: u64 = 2_000;

/// In what order the adversary lets things happen.
#[derive(Clone, Copy, Debug)]
enum Malice {
    Random,
    /// The message that was sent last.
    NewestFirst,
    /// Everything overtakes messages with work: tokens and refusals arrive at once.
    WorkLast,
    /// Workers take long; messages are delivered meanwhile.
    WorkersLast,
    /// Workers are done before any message arrives.
    MessagesLast,
}

const MALICES: [Malice; 5] = [
    Malice::Random,
    Malice::NewestFirst,
    Malice::WorkLast,
    Malice::WorkersLast,
    Malice::MessagesLast,
];

/// Something that is going to happen at a rank.
struct Pending {
    since: u64,
    at: usize,
    what: What,
}

enum What {
    Event(Event<u32>),
    /// A worker goes on with the node.
    Working {
        worker: u32,
        node: u32,
        next_child: usize,
    },
}

impl Pending {
    fn carries_work(&self) -> bool {
        matches!(
            self.what,
            What::Event(Event::Message {
                message: Message::Work { .. } | Message::Found { .. } | Message::Results { .. },
                ..
            })
        )
    }

    fn is_at_work(&self) -> bool {
        matches!(self.what, What::Working { .. })
    }
}

struct World {
    children: Vec<Vec<u32>>,
    visits: Vec<u32>,
    ranks: Vec<Rank<u32>>,
    spilled: Vec<VecDeque<Vec<u32>>>,
    pending: Vec<Pending>,
    finished: usize,
    failed: usize,
    rng: Rng,
    malice: Malice,
    now: u64,
}

impl World {
    fn new(tree: Vec<Vec<u32>>, config: &Config, hosts: &[u64], malice: Malice) -> World {
        let topology = Topology::new(hosts);
        let ranks: Vec<Rank<u32>> = (0..topology.ranks())
            .map(|rank| Rank::new(config, &topology, RankId(rank)))
            .collect();
        let mut world = World {
            visits: vec![0; tree.len()],
            children: tree,
            spilled: ranks.iter().map(|_| VecDeque::new()).collect(),
            pending: Vec::new(),
            finished: 0,
            failed: 0,
            rng: Rng::new(config.seed ^ 0xad),
            malice,
            now: 0,
            ranks,
        };
        world.start(vec![0]);
        world
    }

    fn start(&mut self, roots: Vec<u32>) {
        let mut roots = Some(roots);
        for at in 0..self.ranks.len() {
            let roots = roots.take().unwrap_or_default();
            self.later(at, What::Event(Event::Start { roots }));
        }
    }

    /// The same of a walk that goes on below the root: what is left is in pieces of any size that
    /// are not in memory, but for the last when it is in memory.
    fn going_on(
        tree: Vec<Vec<u32>>,
        config: &Config,
        hosts: &[u64],
        malice: Malice,
        in_memory: bool,
    ) -> World {
        let mut world = World::new(tree, config, hosts, malice);
        world.pending.clear();
        world.visits[0] = 1;
        let mut left = world.children[0].clone();
        let mut pieces = Vec::new();
        while !left.is_empty() {
            let some = 1 + world.rng.below(left.len() as u64) as usize;
            pieces.push(left.split_off(left.len() - some));
        }
        let roots = if in_memory { pieces.pop() } else { None };
        for piece in pieces {
            let items = piece.len();
            world.spilled[0].push_back(piece);
            world.step(0, Event::Spilled { items });
        }
        world.start(roots.unwrap_or_default());
        world
    }

    fn later(&mut self, at: usize, what: What) {
        self.pending.push(Pending {
            since: self.now,
            at,
            what,
        });
    }

    fn step(&mut self, at: usize, event: Event<u32>) {
        let mut out = Vec::new();
        self.ranks[at].step(event, &mut out);
        for command in out {
            self.carry_out(at, command);
        }
    }

    fn carry_out(&mut self, at: usize, command: Command<u32>) {
        match command {
            Command::Send { to, message } => {
                assert_ne!(to.0 as usize, at, "a message to oneself");
                let from = RankId(at as u32);
                self.later(to.0 as usize, What::Event(Event::Message { from, message }));
            }
            Command::Work { worker, item } => {
                self.visits[item as usize] += 1;
                let next_child = 0;
                self.later(
                    at,
                    What::Working {
                        worker,
                        node: item,
                        next_child,
                    },
                );
            }
            Command::Spill { items } => self.spilled[at].push_back(items),
            Command::Refill => {
                let items = self.spilled[at].pop_back();
                let items = items.expect("something was spilled");
                self.later(at, What::Event(Event::Refilled { items }));
            }
            Command::GiveSpilled { to } => {
                let items = self.spilled[at].pop_front();
                let items = items.expect("something was spilled");
                let (from, message) = (RankId(at as u32), Message::Work { items });
                self.later(to.0 as usize, What::Event(Event::Message { from, message }));
            }
            Command::Wake { .. } => self.later(at, What::Event(Event::Woken)),
            Command::Finished => {
                self.finished += 1;
                assert!(
                    self.visits.iter().all(|visits| *visits == 1),
                    "rank {at} finished early: {:?}",
                    self.visits
                );
                assert!(!self.pending.iter().any(Pending::carries_work));
                assert!(!self.pending.iter().any(Pending::is_at_work));
            }
            Command::Failed(Failure::RankDied { .. }) => self.failed += 1,
        }
    }

    fn choose(&mut self) -> usize {
        let oldest = (0..self.pending.len())
            .min_by_key(|at| self.pending[*at].since)
            .expect("something is pending");
        if self.now - self.pending[oldest].since > PATIENCE {
            return oldest;
        }
        let preferred: Vec<usize> = (0..self.pending.len())
            .filter(|at| {
                let pending = &self.pending[*at];
                match self.malice {
                    Malice::Random => true,
                    Malice::NewestFirst => *at + 1 == self.pending.len(),
                    Malice::WorkLast => !pending.carries_work(),
                    Malice::WorkersLast => !pending.is_at_work(),
                    Malice::MessagesLast => pending.is_at_work(),
                }
            })
            .collect();
        if preferred.is_empty() {
            self.rng.below(self.pending.len() as u64) as usize
        } else {
            preferred[self.rng.below(preferred.len() as u64) as usize]
        }
    }

    /// Lets one thing happen; whether anything was left.
    fn happen(&mut self) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        self.now += 1;
        let chosen = self.choose();
        let Pending { at, what, .. } = self.pending.remove(chosen);
        match what {
            What::Event(event) => self.step(at, event),
            What::Working {
                worker,
                node,
                next_child,
            } => {
                // Tells of some children and goes on, or is done with the last of them.
                let left = &self.children[node as usize][next_child..];
                let some = self.rng.below(left.len() as u64 + 2) as usize;
                if some <= left.len() {
                    let children = left[..some].to_vec();
                    if !children.is_empty() {
                        self.step(at, Event::Found { worker, children });
                    }
                    let next_child = next_child + some;
                    self.later(
                        at,
                        What::Working {
                            worker,
                            node,
                            next_child,
                        },
                    );
                } else {
                    let children = left.to_vec();
                    self.step(at, Event::Done { worker, children });
                }
            }
        }
        true
    }

    fn steps_allowed(&self) -> u64 {
        // Idle ranks ask and are refused all the while something is delayed.
        let things = (self.children.len() + 10) as u64;
        things * (PATIENCE + 10) * 4 + PATIENCE * 50 * self.ranks.len() as u64
    }

    fn run(mut self) {
        let allowed = self.steps_allowed();
        while self.finished < self.ranks.len() && self.happen() {
            assert!(self.now < allowed, "no end after {} steps", self.now);
        }
        assert_eq!(
            self.finished,
            self.ranks.len(),
            "nothing is pending, and no end"
        );
    }
}

/// Node `i`'s parent is one of those before it.
fn tree(nodes: usize, chain_of_ten: u64, seed: u64) -> Vec<Vec<u32>> {
    let mut rng = Rng::new(seed);
    let mut children = vec![Vec::new(); nodes];
    for node in 1..nodes {
        let parent = if rng.below(10) < chain_of_ten {
            node - 1
        } else {
            rng.below(node as u64) as usize
        };
        children[parent].push(node as u32);
    }
    children
}

fn hosts(ranks: u32, per_host: u32) -> Vec<u64> {
    (0..ranks).map(|rank| u64::from(rank / per_host)).collect()
}

fn config(algorithm: Algorithm, seed: u64) -> Config {
    Config {
        workers: if algorithm.shares_queue() { 3 } else { 1 },
        spill_above: 5,
        spill_chunk: 2,
        ..Config::new(algorithm, seed)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_node_once_and_an_end(
        algorithm in prop::sample::select(&Algorithm::ALL[..]),
        malice in prop::sample::select(&MALICES[..]),
        ranks in 1_u32..10,
        per_host in 1_u32..5,
        nodes in 1_usize..120,
        chain_of_ten in 0_u64..10,
        seed: u64,
    ) {
        let tree = tree(nodes, chain_of_ten, seed);
        World::new(tree, &config(algorithm, seed), &hosts(ranks, per_host), malice).run();
    }

    #[test]
    fn a_walk_that_goes_on_does_the_rest_once(
        algorithm in prop::sample::select(&Algorithm::ALL[..]),
        malice in prop::sample::select(&MALICES[..]),
        ranks in 1_u32..10,
        in_memory: bool,
        nodes in 1_usize..120,
        seed: u64,
    ) {
        let (tree, config) = (tree(nodes, 1, seed), config(algorithm, seed));
        World::going_on(tree, &config, &hosts(ranks, 3), malice, in_memory).run();
    }

    #[test]
    fn a_death_at_any_moment_ends_it_everywhere(
        algorithm in prop::sample::select(&Algorithm::ALL[..]),
        ranks in 2_u32..8,
        after in 0_usize..300,
        dead in 0_usize..8,
        seed: u64,
    ) {
        let dead = dead % ranks as usize;
        let tree = tree(100, 3, seed);
        let mut world =
            World::new(tree, &config(algorithm, seed), &hosts(ranks, 2), Malice::Random);
        for _ in 0..after {
            world.happen();
        }
        world.pending.retain(|pending| pending.at != dead);
        let ended = world.ranks.iter().filter(|rank| rank.has_ended()).count();
        prop_assume!(ended == 0);
        let witness = usize::from(dead == 0);
        world.step(witness, Event::Died { rank: RankId(dead as u32) });
        while world.failed + 1 < world.ranks.len() {
            // Rank 0 is the one that notices, or the dead one: no rank is left that could end it
            // well.
            prop_assert!(world.happen(), "nothing is pending, and no end");
            prop_assert_eq!(world.finished, 0);
            world.pending.retain(|pending| pending.at != dead);
        }
    }
}

#[test]
fn every_algorithm_with_every_malice() {
    for algorithm in Algorithm::ALL {
        for malice in MALICES {
            for ranks in [1, 2, 3, 7, 16] {
                for seed in 0..4 {
                    let tree = tree(200, 2 * seed, seed);
                    let config = config(algorithm, seed);
                    World::new(tree, &config, &hosts(ranks, 4), malice).run();
                }
            }
        }
    }
}
