//! Shards on memory stores whose messages the test carries itself.

use pandofs_api::{
    Age, Ask, CommitMessage, Horizon, NewNode, PeerMessage, Refusal, Reply, Request, RequestKey,
    ShardRequest, StepNumber, op,
};
use pandofs_placement::{ClusterMap, DirMap, DirPolicy, ServerInfo, Settings};
use pandofs_shard::{Environment, Input, Note, Output, Record, Shard, ShardConfig, Ticket};
use pandofs_storage::store::{KvRead, MemoryStore, Overlay, Store};
use pandofs_types::limits::{RESEND_INTERVAL, SESSION_TIMEOUT, TICK_INTERVAL};
use pandofs_types::{
    Credentials, Epoch, FsId, HashKey, Ino, Name, ServerId, SessionId, ShardId, SlotId, Steady,
    Time, TxId,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Node {
    pub store: MemoryStore,
    pub shard: Shard,
    pub log: Vec<(u64, Vec<u8>)>,
}

pub(crate) struct Cluster {
    pub map: Arc<ClusterMap>,
    pub nodes: Vec<Node>,
    pub now: i64,
    /// How far the wall clock is from the one that nobody sets.
    pub skew: i64,
    /// Objects that servers have, if that is not what they have made.
    pub held: BTreeMap<ServerId, u64>,
    sequence: u64,
    random: u64,
}

/// The effect of a batch: the records appended and the outputs.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub records: Vec<Record>,
    pub outputs: Vec<Output>,
    pub notes: Vec<Note>,
}

fn map(servers: u16, shards: u16, policy: DirPolicy, settings: Settings) -> Arc<ClusterMap> {
    let server = |id| ServerInfo {
        id: ServerId(id),
        addresses: vec![],
        weight: ServerInfo::WEIGHT_ONE,
        domain: "here".to_string(),
    };
    let key = HashKey(1, 2);
    let map = ClusterMap::create(
        FsId(7),
        "test".to_string(),
        key,
        shards,
        (0..servers).map(server).collect(),
        policy,
        settings,
    );
    Arc::new(map.expect("a map of equal servers"))
}

impl Cluster {
    pub(crate) fn new(shards: u16, policy: DirPolicy, settings: Settings) -> Cluster {
        Cluster::of_servers(1, shards, policy, settings)
    }

    /// The same with shards that several servers lead.
    pub(crate) fn of_servers(
        servers: u16,
        shards: u16,
        policy: DirPolicy,
        settings: Settings,
    ) -> Cluster {
        let map = map(servers, shards, policy, settings);
        assert_eq!(map.epoch, Epoch(1));
        let nodes = (0..shards).map(|shard| node(&map, shard)).collect();
        Cluster {
            map,
            nodes,
            now: 1_000,
            skew: 0,
            held: BTreeMap::new(),
            sequence: 0,
            random: 0,
        }
    }

    /// Objects of a server.
    fn held(&self, server: ServerId) -> u64 {
        self.held.get(&server).copied().unwrap_or_else(|| {
            let shards = self.map.shards_of(server).into_iter();
            let nodes = shards.filter_map(|shard| self.nodes.get(usize::from(shard.0)));
            nodes.map(|node| node.shard.objects()).sum()
        })
    }

    /// Leaves out random numbers up to one that is wanted, which is the next to be drawn.
    pub(crate) fn draw_until(&mut self, wanted: impl Fn(u64) -> bool) {
        while !wanted(self.random + 1) {
            self.random += 1;
        }
    }

    /// A server joins, of which all shards hear at once.
    pub(crate) fn join(&mut self) {
        let joins = ServerInfo {
            id: ServerId(self.map.servers.len() as u16),
            addresses: vec![],
            weight: ServerInfo::WEIGHT_ONE,
            domain: "there".to_string(),
        };
        self.map = Arc::new(self.map.with_servers(vec![joins]).unwrap());
        for node in &mut self.nodes {
            // As a server has to: what was logged before is not applied again.
            node.store.flush().unwrap();
            node.shard.set_map(Arc::clone(&self.map));
        }
        for shard in self.nodes.len() as u16..self.map.shard_count() {
            self.nodes.push(node(&self.map, shard));
        }
    }

    /// Time passes until nothing is sent any more.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 100 {
            self.now += RESEND_INTERVAL.as_nanos() as i64 / 10;
            let mut is_quiet = true;
            for shard in 0..self.nodes.len() as u16 {
                let outputs = self.input(shard, Input::Tick).outputs;
                is_quiet &= outputs.is_empty();
                self.carry(outputs, &mut None);
            }
            quiet = if is_quiet { quiet + 1 } else { 0 };
        }
    }

    /// So much time passes as ticks tell of, which count for so much at most each.
    pub(crate) fn pass(&mut self, time: Duration) {
        let most = 10 * TICK_INTERVAL;
        for _ in 0..time.as_nanos().div_ceil(most.as_nanos()) {
            self.now += most.as_nanos() as i64;
            for shard in 0..self.nodes.len() as u16 {
                let outputs = self.input(shard, Input::Tick).outputs;
                self.carry(outputs, &mut None);
            }
        }
    }

    /// So much time passes that this shard sends again what is due.
    pub(crate) fn later(&mut self, shard: u16) -> Step {
        self.now += 2 * RESEND_INTERVAL.as_nanos() as i64;
        self.input(shard, Input::Tick)
    }

    /// Gives one input to a shard and runs it until it is quiet.
    pub(crate) fn input(&mut self, shard: u16, input: Input) -> Step {
        self.batch(shard, vec![input])
    }

    /// Gives inputs to a shard before any of them is applied, as a lane does, and runs it until it is
    /// quiet.
    pub(crate) fn batch(&mut self, shard: u16, inputs: Vec<Input>) -> Step {
        self.now += 1;
        let held = self.held(self.map.server_of(ShardId(shard)));
        let node = &mut self.nodes[usize::from(shard)];
        let random = &mut self.random;
        let mut draw = || {
            *random += 1;
            *random
        };
        let mut env = Environment {
            now: Time(self.now + self.skew),
            steady: Steady(self.now),
            held,
            random: &mut draw,
        };
        let mut overlay = Overlay::new(&node.store);
        let mut step = Step::default();
        for input in inputs {
            node.shard.submit(&overlay, &mut env, input).unwrap();
        }
        loop {
            let proposals = node.shard.take_proposals();
            if proposals.is_empty() {
                break;
            }
            for proposal in proposals {
                step.records
                    .push(Record::decode(&proposal.payload).unwrap());
                node.log.push((proposal.index, proposal.payload.clone()));
                node.shard
                    .apply(&mut overlay, &mut env, proposal.index, &proposal.payload)
                    .unwrap();
            }
        }
        let batch = overlay.take_batch();
        drop(overlay);
        node.store.write(&batch).unwrap();
        step.outputs = node.shard.take_outputs();
        step.notes = node.shard.take_notes();
        step
    }

    /// The ticket of the last request that was made.
    pub(crate) fn last_ticket(&self) -> Ticket {
        Ticket(self.sequence)
    }

    pub(crate) fn request(&mut self, shard: u16, request: Request) -> Input {
        self.request_by(5, shard, request)
    }

    pub(crate) fn request_by(&mut self, session: u64, shard: u16, request: Request) -> Input {
        self.sequence += 1;
        Input::Request {
            ticket: Ticket(self.sequence),
            request: ShardRequest {
                shard: ShardId(shard),
                epoch: self.map.epoch,
                key: RequestKey {
                    session: SessionId(session),
                    slot: SlotId(0),
                    sequence: self.sequence,
                },
                caller: Credentials::ROOT,
                request,
            },
        }
    }

    /// Asks, and carries every message until nothing moves; the answer.
    pub(crate) fn call(&mut self, shard: u16, request: Request) -> Result<Reply, Refusal> {
        self.call_by(&Credentials::ROOT, shard, request)
    }

    /// The same in somebody's name.
    pub(crate) fn call_by(
        &mut self,
        caller: &Credentials,
        shard: u16,
        request: Request,
    ) -> Result<Reply, Refusal> {
        let mut input = self.request(shard, request);
        if let Input::Request { request, .. } = &mut input {
            request.caller = caller.clone();
        }
        let step = self.input(shard, input);
        let mut answer = None;
        self.carry(step.outputs, &mut answer);
        answer.expect("the request is answered")
    }

    /// A new file in the root, of which shard 0 has a part.
    pub(crate) fn file(&mut self, text: &str) -> Ino {
        match self.call(0, create_file(Ino::ROOT, name(text))) {
            Ok(Reply::Entry(entry)) => entry.ino,
            other => panic!("{text} is not made: {other:?}"),
        }
    }

    /// Asks the shard that holds the name, following what the wrong ones say; how many were wrong.
    pub(crate) fn call_by_name(
        &mut self,
        map: &mut DirMap,
        name: &Name,
        request: &Request,
    ) -> (Result<Reply, Refusal>, usize) {
        for wrong in 0..64 {
            let shard = map.shard_of(self.map.hash_key.position(name.as_bytes()));
            match self.call(shard.0, request.clone()) {
                Err(Refusal::Misdirected(Some(known))) => assert!(map.merge(&known)),
                // The partition there was merged, and its home has heard of it.
                Err(Refusal::Misdirected(None)) => {
                    let dir = Ino::new(map.home(), 1);
                    match self.call(map.home().0, Request::GetAttr(op::GetAttr { ino: dir })) {
                        Ok(Reply::Inode(inode)) => {
                            let known = inode.dir.expect("a directory has a map").map;
                            assert!(map.merge(&known), "the home knows no better");
                        }
                        other => panic!("{other:?}"),
                    }
                }
                other => return (other, wrong),
            }
        }
        panic!("{name} is nowhere");
    }

    /// Carries messages in the order they were sent, and all that follows.
    pub(crate) fn carry(
        &mut self,
        outputs: Vec<Output>,
        answer: &mut Option<Result<Reply, Refusal>>,
    ) {
        let mut queue: std::collections::VecDeque<Output> = outputs.into();
        while let Some(output) = queue.pop_front() {
            match output {
                Output::Answer { result, .. } => *answer = Some(result),
                Output::Send { to, message, .. } => {
                    queue.extend(self.input(to.0, Input::Peer(message)).outputs);
                }
                Output::WhenDurable { shard, input } => {
                    queue.extend(self.input(shard.0, input).outputs);
                }
                // The lane's.
                Output::Watch { .. } | Output::Replaced { .. } | Output::Recall(_) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    /// The stored state of a shard, and the one that its records make of an empty store.
    pub(crate) fn stored_and_replayed(&self, shard: u16) -> [BTreeMap<Vec<u8>, Vec<u8>>; 2] {
        let live = &self.nodes[usize::from(shard)];
        let mut again = node(&self.map, shard);
        let mut overlay = Overlay::new(&again.store);
        for (index, payload) in &live.log {
            again.shard.replay(&mut overlay, *index, payload).unwrap();
        }
        let batch = overlay.take_batch();
        drop(overlay);
        again.store.write(&batch).unwrap();
        [&live.store, &again.store].map(|store| {
            let mut pairs = BTreeMap::new();
            let read = store.scan(&[], &[0xff; 64], &mut |key, value| {
                pairs.insert(key.to_vec(), value.to_vec());
                ControlFlow::Continue(())
            });
            read.unwrap();
            pairs
        })
    }

    /// A crash that loses nothing of the log and everything of the store since it was flushed.
    pub(crate) fn restart(&mut self, shard: u16) -> Step {
        let config = config(&self.map, shard);
        let node = &mut self.nodes[usize::from(shard)];
        node.store = node.store.crash(0);
        node.shard = Shard::open(config, &node.store).unwrap();
        let mut overlay = Overlay::new(&node.store);
        for (index, payload) in &node.log {
            if *index > node.shard.applied() {
                node.shard.replay(&mut overlay, *index, payload).unwrap();
            }
        }
        let mut draw = || 1;
        let mut env = Environment {
            now: Time(self.now + self.skew),
            steady: Steady(self.now),
            held: 0,
            random: &mut draw,
        };
        node.shard.recover(&mut overlay, &mut env).unwrap();
        let batch = overlay.take_batch();
        drop(overlay);
        node.store.write(&batch).unwrap();
        self.input(shard, Input::Tick)
    }
}

fn node(map: &Arc<ClusterMap>, shard: u16) -> Node {
    let store = MemoryStore::new();
    let config = config(map, shard);
    let mut overlay = Overlay::new(&store);
    let owner = pandofs_types::Credentials::ROOT;
    Shard::create(&config, &mut overlay, Time(1), &owner).unwrap();
    let batch = overlay.take_batch();
    drop(overlay);
    store.write(&batch).unwrap();
    store.flush().unwrap();
    let shard = Shard::open(config, &store).unwrap();
    Node {
        store,
        shard,
        log: Vec::new(),
    }
}

fn config(map: &Arc<ClusterMap>, shard: u16) -> ShardConfig {
    ShardConfig {
        shard: ShardId(shard),
        map: Arc::clone(map),
        sync_every_batch: false,
        grace: SESSION_TIMEOUT,
    }
}

/// A name for an inode of shard 0.
pub(crate) fn link(dir: Ino, text: &str, ino: Ino) -> Request {
    Request::Link(op::Link {
        dir,
        name: name(text),
        ino,
        inode_shard: ShardId(0),
    })
}

/// The request that makes a file and leaves it closed.
pub(crate) fn create_file(dir: Ino, name: Name) -> Request {
    Request::Create(op::Create {
        dir,
        name,
        node: NewNode::File,
        mode: 0o644,
        umask: 0,
        open: false,
    })
}

/// All of a coordinator's operations with smaller numbers have ended.
pub(crate) fn horizon(passed: u64) -> Horizon {
    Horizon {
        passed,
        open: Vec::new(),
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Answer of shard 0 to a step of an operation of shard 1 that began at that time.
pub(crate) fn answer_to_step(
    cluster: &mut Cluster,
    step: pandofs_api::Step,
    ask: Ask,
    time: Time,
) -> CommitMessage {
    let tx = TxId {
        coordinator: ShardId(1),
        sequence: 700,
    };
    let asked = Input::Peer(PeerMessage::Commit {
        from: ShardId(1),
        to: ShardId(0),
        horizon: Horizon::default(),
        held: None,
        message: CommitMessage::Do {
            tx,
            number: StepNumber(1),
            step,
            ask,
            age: Age { time, tx },
        },
    });
    let outputs = cluster.input(0, asked).outputs;
    match &sent(&outputs)[..] {
        [PeerMessage::Commit { message, .. }] => message.clone(),
        other => panic!("{other:?}"),
    }
}

/// Messages among outputs.
pub(crate) fn sent(outputs: &[Output]) -> Vec<PeerMessage> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Send { message, .. } => Some(message.clone()),
            _ => None,
        })
        .collect()
}

/// The shard that a message is for.
pub(crate) fn receiver(message: &PeerMessage) -> ShardId {
    match message {
        PeerMessage::Commit { to, .. }
        | PeerMessage::SplitChunk { to, .. }
        | PeerMessage::SplitChunkDone { to, .. }
        | PeerMessage::SplitAbandoned { to, .. }
        | PeerMessage::MapNotice { to, .. }
        | PeerMessage::MapNoticeDone { to, .. }
        | PeerMessage::Forwarded { to, .. }
        | PeerMessage::ForgetForwarding { to, .. }
        | PeerMessage::ForgetForwardingDone { to, .. }
        | PeerMessage::SlotsAsk { to, .. }
        | PeerMessage::SlotsTold { to, .. }
        | PeerMessage::MergeAsk { to, .. }
        | PeerMessage::MergeGo { to, .. } => *to,
        other => panic!("{other:?} is for a server"),
    }
}
