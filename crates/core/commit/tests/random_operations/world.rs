//! One run: a few shards, a few operations and much trouble, then peace, in which everything must end.

use crate::faults::Fault;
use crate::network::Network;
use crate::node::{Answer, Context, Node, Outgoing};
use crate::oracle::{Decided, Ledger, Violation, check_locks};
use crate::plan::Plan;
use crate::random::Random;
use crate::stats::Stats;
use pandofs_api::Age;
use pandofs_types::{CommitProtocol, ShardId, Time, TxId};

/// Outcome of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub violation: Option<Violation>,
    pub stats: Stats,
    /// A line for each event, if asked for.
    pub trace: Vec<String>,
}

/// Runs one seed to its end, or to the first violation.
pub(crate) fn run(seed: u64, protocol: CommitProtocol, fault: Fault, traced: bool) -> Run {
    let mut world = World::new(seed, protocol, fault, traced);
    let violation = world.run().err();
    Run {
        violation,
        stats: world.stats,
        trace: world.trace,
    }
}

/// An operation, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    /// To be started, or started again.
    Idle,
    Waits,
    Answered(Answer),
    /// Its coordinator stopped, and it does not know what came of it.
    Lost,
}

struct World {
    random: Random,
    protocol: CommitProtocol,
    fault: Fault,
    stats: Stats,
    now: i64,
    plans: Vec<Plan>,
    clients: Vec<Client>,
    /// Of each plan; set when it is started first.
    ages: Vec<Option<Age>>,
    nodes: Vec<Node>,
    network: Network,
    ledger: Ledger,
    /// Per cent of steps that are refused for no reason, and of crashes that happen.
    refuse: usize,
    crash: usize,
    traced: bool,
    trace: Vec<String>,
}

/// Rounds of peace that one operation may take, however many others are before it.
const ROUNDS_PER_OPERATION: usize = 60;

impl World {
    fn new(seed: u64, protocol: CommitProtocol, fault: Fault, traced: bool) -> World {
        let mut random = Random::new(seed);
        let shards = 1 + random.between(1, 5);
        // Usually one shard coordinates; now and then two, which meet at one another's locks.
        let coordinators = if random.percent(25) { 2 } else { 1 };
        let plans: Vec<Plan> = (0..random.between(1, 16))
            .map(|index| {
                let coordinator = ShardId(random.below(coordinators) as u16);
                Plan::draw(index, coordinator, shards, &mut random)
            })
            .collect();
        World {
            refuse: if random.percent(50) { 0 } else { 15 },
            crash: if random.percent(20) { 0 } else { 70 },
            random,
            protocol,
            fault,
            stats: Stats::default(),
            now: 0,
            clients: vec![Client::Idle; plans.len()],
            ages: vec![None; plans.len()],
            plans,
            nodes: (0..shards as u16)
                .map(|shard| Node::new(ShardId(shard)))
                .collect(),
            network: Network::default(),
            ledger: Ledger::default(),
            traced,
            trace: vec![],
        }
    }

    fn run(&mut self) -> Result<(), Violation> {
        for _ in 0..self.random.between(100, 1_500) {
            self.trouble()?;
        }
        self.refuse = 0;
        self.peace()?;
        self.ledger.check_end(&self.plans, &self.nodes)?;
        self.check_forgotten()
    }

    /// One random event.
    fn trouble(&mut self) -> Result<(), Violation> {
        let node = self.random.below(self.nodes.len());
        match self.random.below(100) {
            0..5 => self.start_one(),
            5..45 => self.deliver_one(),
            45..65 => self.sync(node),
            65..85 => {
                for _ in 0..self.random.between(1, 6) {
                    self.leave_one(node);
                }
                Ok(())
            }
            85..93 => self.tick(node),
            93..97 => self.restart(node),
            _ if self.random.percent(self.crash) => self.crash(node),
            _ => Ok(()),
        }
    }

    /// No message is lost, nobody stops; each round everybody has its turn.
    fn peace(&mut self) -> Result<(), Violation> {
        self.say(|| "peace".into());
        for _ in 0..ROUNDS_PER_OPERATION * (self.plans.len() + 1) {
            for node in 0..self.nodes.len() {
                self.restart(node)?;
            }
            for plan in 0..self.plans.len() {
                if self.clients[plan] == Client::Idle && self.random.percent(50) {
                    self.start(plan)?;
                }
            }
            for node in 0..self.nodes.len() {
                self.sync(node)?;
                while self.leave_one(node) {}
            }
            for envelope in self.network.drain(&mut self.random) {
                let node = usize::from(envelope.to.0);
                self.say(|| format!("{envelope:?}"));
                self.with(node, |node, context| node.receive(envelope, context))?;
            }
            for node in 0..self.nodes.len() {
                self.tick(node)?;
            }
            if self.unended().is_none() {
                return Ok(());
            }
        }
        match self.unended() {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }

    /// An operation that has not ended yet.
    fn unended(&self) -> Option<Violation> {
        for node in &self.nodes {
            let undecided = node
                .stored
                .participations
                .values()
                .any(|it| it.resend().is_some());
            if !node.stored.coordinations.is_empty()
                || undecided
                || !node.waiting.is_empty()
                || !node.is_quiet()
            {
                return Some(Violation::NotEnded {
                    shard: Some(node.shard),
                });
            }
            if !node.locks.is_empty() {
                return Some(Violation::LockLeft { shard: node.shard });
            }
        }
        let waits = self
            .clients
            .iter()
            .any(|it| matches!(it, Client::Idle | Client::Waits));
        (waits || !self.network.is_empty()).then_some(Violation::NotEnded { shard: None })
    }

    /// Two more operations of each coordinator tell all others that those before them have ended. (The
    /// first one's messages may say what is known, but for a participation that ended since; the
    /// second one's say more.)
    fn check_forgotten(&mut self) -> Result<(), Violation> {
        for coordinator in 0..self.nodes.len() {
            let shard = ShardId(coordinator as u16);
            let last = self.nodes[coordinator].stored.next_sequence;
            for _ in 0..2 {
                let index = self.plans.len();
                self.plans
                    .push(Plan::everywhere(index, shard, self.nodes.len()));
                self.clients.push(Client::Idle);
                self.ages.push(None);
                self.peace()?;
                self.ledger.check_end(&self.plans, &self.nodes)?;
            }
            for node in &self.nodes {
                for (tx, _) in node.stored.participations.keys() {
                    if tx.coordinator == shard && tx.sequence < last {
                        return Err(Violation::NotForgotten {
                            shard: node.shard,
                            tx: *tx,
                        });
                    }
                }
            }
        }
        Ok(())
    }

    fn start_one(&mut self) -> Result<(), Violation> {
        let plan = self.random.below(self.plans.len());
        if self.clients[plan] == Client::Idle {
            self.start(plan)
        } else {
            Ok(())
        }
    }

    fn start(&mut self, plan: usize) -> Result<(), Violation> {
        let coordinator = self.plans[plan].coordinator;
        let node = usize::from(coordinator.0);
        if !self.nodes[node].up {
            return Ok(());
        }
        self.now += 1;
        let tx = TxId {
            coordinator,
            sequence: 0,
        };
        let age = *self.ages[plan].get_or_insert(Age {
            time: Time(self.now),
            tx,
        });
        self.clients[plan] = Client::Waits;
        self.say(|| format!("start plan {plan}"));
        self.with(node, |node, context| node.start(plan, age, context))
    }

    fn deliver_one(&mut self) -> Result<(), Violation> {
        let Some(envelope) = self.network.deliver(&mut self.random, &mut self.stats) else {
            return Ok(());
        };
        let node = usize::from(envelope.to.0);
        if !self.nodes[node].up {
            return Ok(());
        }
        self.say(|| format!("{envelope:?}"));
        self.with(node, |node, context| node.receive(envelope, context))
    }

    fn sync(&mut self, node: usize) -> Result<(), Violation> {
        if !self.nodes[node].up {
            return Ok(());
        }
        self.say(|| format!("sync at {node}"));
        let decided = self.nodes[node].sync();
        self.decide(decided)
    }

    fn decide(&mut self, decided: Vec<Decided>) -> Result<(), Violation> {
        for fact in decided {
            self.say(|| format!("on disk: {fact:?}"));
            self.ledger.decide(fact)?;
        }
        Ok(())
    }

    /// Whether something left.
    fn leave_one(&mut self, node: usize) -> bool {
        let Some(outgoing) = self.nodes[node].leave() else {
            return false;
        };
        match outgoing {
            Outgoing::Message(envelope) => self.network.send(*envelope),
            Outgoing::Answer { plan, answer } => {
                self.say(|| format!("plan {plan}: {answer:?}"));
                self.clients[plan] = Client::Answered(answer);
                self.ledger.answer(plan, answer);
            }
            Outgoing::Again { plan } => {
                self.stats.retries += 1;
                self.clients[plan] = Client::Idle;
            }
        }
        true
    }

    fn tick(&mut self, node: usize) -> Result<(), Violation> {
        if !self.nodes[node].up {
            return Ok(());
        }
        self.with(node, |node, context| node.tick(context))
    }

    fn crash(&mut self, node: usize) -> Result<(), Violation> {
        if !self.nodes[node].up {
            return Ok(());
        }
        self.say(|| format!("crash of {node}"));
        let mut decided = vec![];
        self.with(node, |node, context| decided = node.crash(context))?;
        for (plan, client) in self.plans.iter().zip(&mut self.clients) {
            if usize::from(plan.coordinator.0) == node && *client == Client::Waits {
                *client = Client::Lost;
            }
        }
        self.decide(decided)
    }

    fn restart(&mut self, node: usize) -> Result<(), Violation> {
        if self.nodes[node].up {
            return Ok(());
        }
        self.say(|| format!("restart of {node}"));
        self.with(node, |node, context| node.restart(context))
    }

    /// Lets a node work, and looks at what it holds afterwards.
    fn with(
        &mut self,
        node: usize,
        work: impl FnOnce(&mut Node, &mut Context<'_>),
    ) -> Result<(), Violation> {
        let mut violations = vec![];
        let mut context = Context {
            plans: &self.plans,
            random: &mut self.random,
            fault: self.fault,
            protocol: self.protocol,
            refuse: self.refuse,
            stats: &mut self.stats,
            violations: &mut violations,
        };
        work(&mut self.nodes[node], &mut context);
        match violations.pop() {
            Some(violation) => Err(violation),
            None => check_locks(&self.nodes[node]),
        }
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        if self.traced {
            self.trace.push(line());
        }
    }
}
