//! The run itself: events in the order of simulated time, from the first operation until everything is at rest.

mod counted;
mod data;
mod events;
mod faults;
mod joins;
mod mail;
mod rest;

pub use counted::Counted;

use crate::client::Client;
use crate::history::{History, Key};
use crate::network::Network;
use crate::oracles::{Finding, Moments};
use crate::scenario::{Fault, Loss, MICROSECOND, MILLISECOND, Moment, SECOND, Scenario};
use crate::server::{Death, Server};
use crate::trace::Trace;
use events::{Event, Letter, Queued};
use pandofs_placement::ClusterMap;
use pandofs_testkit::rng::Rng;
use pandofs_types::limits::CLIENT_TICK;
use pandofs_types::{Ino, Name, ServerId, SessionId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

/// What a batch costs, and each input in it.
const BATCH_COST: Moment = 20 * MICROSECOND;
const SYNC_COST: Moment = 300 * MICROSECOND;
/// What it costs to read a key that is not in memory.
const READ_COST: Moment = 100 * MICROSECOND;
const FLUSH_COST: Moment = 5 * MILLISECOND;
/// Servers start again that found their disks full.
const RESTART_PAUSE: Moment = 500 * MILLISECOND;
/// Within so long after the last fault every operation has to be answered.
const PROGRESS_BOUND: Moment = 60 * SECOND;
/// The ticks of servers while clients do nothing but keep what they have open: a minute of ticks as they are otherwise
/// would be nine of ten events of a run, and finds nothing.
const REST_TICK: Moment = 100 * MILLISECOND;
/// Events between two looks at everything that is stored.
const LOOK_EVERY: u64 = 400;

pub(crate) struct World {
    scenario: Scenario,
    /// The newest cluster map, and the one in the file that servers and clients read.
    map: Arc<ClusterMap>,
    file: Arc<ClusterMap>,
    servers: Vec<Server>,
    clients: Vec<Client>,
    network: Network,
    pub history: History,
    moments: Moments,
    trace: Trace,
    queue: BinaryHeap<Reverse<Queued>>,
    number: u64,
    now: Moment,
    is_healed: bool,
    /// The end of the clients, once everything has been answered.
    leave_at: Option<Moment>,
    /// Sessions of clients that are gone, and of those that are not.
    sessions: u64,
    /// Syncs of data objects take a while.
    has_contents: bool,
    gone: BTreeSet<SessionId>,
    /// Inodes that a server had that died and lost what was not synced, until it starts again.
    inodes: BTreeMap<usize, BTreeSet<Ino>>,
    /// What a server had that died and lost what was not synced, until it starts again.
    unsynced: BTreeMap<usize, BTreeMap<Key, Ino>>,
    /// Names of which records were lost with it.
    lost: BTreeMap<usize, BTreeSet<Key>>,
    random: Rng,
    found: Option<Finding>,
    /// Early operations that were sent, by who asked for them; when a server last heard of the grants of a session.
    early: BTreeMap<(SessionId, usize, u64), Vec<u64>>,
    contacts: BTreeMap<(SessionId, usize), Moment>,
    /// Only planted: messages that were sent once.
    said: BTreeSet<String>,
    counted: Counted,
}

impl World {
    pub(crate) fn new(scenario: Scenario, trace: Trace) -> World {
        let map = Arc::new(scenario.map());
        let shape = &scenario.shape;
        let servers = (0..shape.servers)
            .map(|id| Server::create(ServerId(id), &map, &scenario))
            .collect();
        let clients = (0..shape.clients)
            .map(|number| {
                let session = number as u64 + 1;
                Client::new(number, session, &scenario, &map)
            })
            .collect();
        let mut names = BTreeSet::new();
        for planned in &scenario.ops {
            for path in planned.op.paths() {
                names.extend(path.0.iter().cloned());
            }
        }
        let names = names
            .iter()
            .map(|name| Name::new(name.as_bytes()).expect("scenarios have proper names"))
            .collect();
        let mut world = World {
            history: History::new(map.hash_key, names, !scenario.brings_back_times()),
            network: Network::new(scenario.seed, &scenario.faults),
            moments: Moments::default(),
            random: Rng::new(scenario.seed ^ 0xd1ce),
            sessions: shape.clients as u64,
            has_contents: scenario.has_contents(),
            gone: BTreeSet::new(),
            inodes: BTreeMap::new(),
            file: Arc::clone(&map),
            map,
            servers,
            clients,
            trace,
            queue: BinaryHeap::new(),
            number: 0,
            now: 0,
            is_healed: false,
            leave_at: None,
            unsynced: BTreeMap::new(),
            lost: BTreeMap::new(),
            found: None,
            early: BTreeMap::new(),
            contacts: BTreeMap::new(),
            said: BTreeSet::new(),
            counted: Counted::default(),
            scenario,
        };
        world.plan();
        world
    }

    fn plan(&mut self) {
        for server in 0..self.servers.len() {
            self.put(0, Event::Start { server, boot: 0 });
        }
        for number in 0..self.scenario.ops.len() {
            self.put(self.scenario.ops[number].at, Event::Issue(number));
        }
        for number in 0..self.scenario.faults.len() {
            let (start, end) = self.scenario.faults[number].span();
            self.put(start, Event::Begin(number));
            self.put(end, Event::End(number));
        }
        self.put(self.scenario.healed, Event::Heal);
        for client in 0..self.clients.len() {
            let session = self.clients[client].session;
            self.put(
                CLIENT_TICK.as_nanos() as Moment,
                Event::Ping { client, session },
            );
            self.listen_to_all(client);
        }
    }

    /// The client takes leases from each server, if it takes any.
    fn listen_to_all(&mut self, client: usize) {
        if self.scenario.shape.leases.is_some() {
            let session = self.clients[client].session;
            for server in 0..self.clients[client].servers() {
                let listen = Event::Listen {
                    client,
                    session,
                    server,
                };
                self.put(self.now, listen);
            }
        }
    }

    /// Which process of its server each is.
    fn boots(&self) -> Vec<u64> {
        self.servers.iter().map(|server| server.boot).collect()
    }

    fn put(&mut self, at: Moment, event: Event) {
        self.number += 1;
        self.queue.push(Reverse(Queued {
            at: at.max(self.now),
            number: self.number,
            event,
        }));
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// What an oracle found.
    pub(crate) fn run(mut self) -> (Result<(), Finding>, Trace, Counted) {
        let done = self.troubles().and_then(|()| self.rest());
        for client in &self.clients {
            self.counted.end_of(client);
        }
        for server in &self.servers {
            self.counted.work_of(server);
        }
        self.counted.contents_of(&self.history);
        (done, self.trace, self.counted)
    }

    /// Until everything that was begun has been answered.
    fn troubles(&mut self) -> Result<(), Finding> {
        let end = self.scenario.healed + PROGRESS_BOUND;
        let all = self.scenario.ops.len() as u64;
        while !self.is_healed
            || self.counted.operations < all
            || !self.clients.iter().all(Client::is_idle)
        {
            if self.now > end {
                let mut left = Vec::new();
                for client in &self.clients {
                    left.extend(client.under_way());
                }
                return Err(Finding::new(
                    "progress",
                    format!("not answered {PROGRESS_BOUND} ns after the last fault: {left:?}"),
                ));
            }
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Finding> {
        let Some(Reverse(next)) = self.queue.pop() else {
            return Err(Finding::new("progress", "nothing happens any more".into()));
        };
        self.now = next.at;
        let boots = self.boots();
        for client in &mut self.clients {
            client.now = self.now;
            client.boots.clone_from(&boots);
            client.file = Arc::clone(&self.file);
        }
        self.counted.events += 1;
        self.happen(next.event);
        if let Some(found) = self.found.take() {
            return Err(found);
        }
        let often = match self.scenario.plant {
            Some(plant) if plant.is_of_the_store() => 10,
            _ => LOOK_EVERY,
        };
        if self.counted.events.is_multiple_of(often)
            && self.servers.iter().all(|server| server.process.is_some())
        {
            let dump = self.dump();
            self.moments
                .look(&dump, &self.servers, &self.clients, &self.history)?;
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Issue(number) => {
                let planned = self.scenario.ops[number].clone();
                let line = || {
                    format!(
                        "client {}.{} wants {:?}",
                        planned.client, planned.worker, planned.op
                    )
                };
                self.trace.line(self.now, line);
                self.counted.operations += 1;
                let client = &mut self.clients[planned.client];
                let number = planned.client;
                let todo = client.enqueue(&mut self.history, planned);
                self.carry_out(number, todo);
            }
            Event::Deliver { to, letter } => self.deliver(to, *letter),
            Event::MailAgain { from, to, letter } => self.mail_again(from, to, *letter),
            Event::Run { server, boot } => {
                if self.is_process(server, boot) {
                    self.run_server(server);
                }
            }
            Event::Tick { server, boot } => {
                if self.is_process(server, boot) {
                    self.servers[server].run_timers(self.now);
                    self.after(server);
                    if let Some(due) = self.servers[server].next_due() {
                        let next = due.max(self.now + self.least_pause());
                        self.put(next, Event::Tick { server, boot });
                    }
                }
            }
            Event::Synced { server, boot } => {
                if self.is_process(server, boot) {
                    if self.servers[server].log.dies_here() {
                        return self.crash(server, "at the end of a sync");
                    }
                    let done = self.servers[server].ends_sync();
                    self.survive(server, done);
                    self.after(server);
                }
            }
            Event::Flushed {
                server,
                boot,
                written,
            } => {
                if self.is_process(server, boot) {
                    if self.servers[server].log.dies_here() {
                        return self.crash(server, "at the end of a flush");
                    }
                    let done = self.servers[server].ends_flush(&written);
                    self.survive(server, done);
                    self.after(server);
                }
            }
            Event::DataSynced { server, boot, sync } => {
                if self.is_process(server, boot) {
                    let todo = self.servers[server].ends_data_sync(sync);
                    self.obey_data(server, todo);
                    self.after(server);
                }
            }
            Event::Warmed {
                server,
                boot,
                shard,
                keys,
                input,
            } => {
                if self.is_process(server, boot) {
                    self.servers[server].warmed(shard, keys, *input);
                    self.after(server);
                }
            }
            Event::Send { asker, pause } => self.send_request(asker, pause),
            Event::Silence { asker } => {
                let client = &mut self.clients[asker.client];
                if client.session == asker.session {
                    let todo = client.silence(&mut self.history, asker.worker, asker.attempt);
                    self.carry_out(asker.client, todo);
                }
            }
            Event::SessionGone { session } => {
                for server in 0..self.servers.len() {
                    self.servers[server].session_gone(session);
                    self.after(server);
                }
            }
            Event::Release { client, session } => {
                if self.clients[client].session == session {
                    let (boots, mut todo) = (self.boots(), Vec::new());
                    self.clients[client].release(&boots, &mut todo);
                    self.carry_out(client, todo);
                }
            }
            Event::Ping { client, session } => {
                if self.clients[client].session == session {
                    let (boots, mut todo) = (self.boots(), Vec::new());
                    self.clients[client].ping(&boots, &mut todo);
                    self.carry_out(client, todo);
                    let next = self.now + CLIENT_TICK.as_nanos() as Moment;
                    self.put(next, Event::Ping { client, session });
                }
            }
            Event::Wake { client, session } => {
                if self.clients[client].session == session {
                    let mut todo = Vec::new();
                    self.clients[client].wake(&mut todo);
                    self.carry_out(client, todo);
                }
            }
            Event::LookAtRecalls {
                client,
                session,
                server,
            } => {
                if self.clients[client].session == session {
                    let mut todo = Vec::new();
                    self.clients[client].look_at_recalls(server, &mut todo);
                    self.carry_out(client, todo);
                }
            }
            Event::Listen {
                client,
                session,
                server,
            } => {
                if self.clients[client].session == session {
                    let mut todo = Vec::new();
                    self.clients[client].listen(server, &mut todo);
                    self.carry_out(client, todo);
                }
            }
            Event::Deaf { hearer } => {
                let client = &mut self.clients[hearer.client];
                if client.session == hearer.session {
                    let mut todo = Vec::new();
                    client.heard_nothing(hearer, &mut todo);
                    self.carry_out(hearer.client, todo);
                }
            }
            Event::CutOff {
                client,
                session,
                server,
                boot,
            } => {
                if self.clients[client].session == session {
                    let mut todo = Vec::new();
                    self.clients[client].cut_off(server, boot, &mut todo);
                    self.carry_out(client, todo);
                }
            }
            Event::Leave { client } => self.client_gone(client, Duration::ZERO),
            Event::Announce { server } => {
                let map = Arc::clone(&self.map);
                self.servers[server].offer_map(&map);
                self.schedule(server);
            }
            Event::LookForMap { server, boot } => {
                if self.is_process(server, boot) {
                    self.find_map(server);
                }
            }
            Event::Afterwards => self.afterwards(),
            Event::Begin(number) => self.fault_begins(number),
            Event::End(number) => self.fault_ends(number),
            Event::Start { server, boot } => {
                let state = &self.servers[server];
                if state.process.is_none() && state.boot == boot {
                    self.start(server);
                }
            }
            Event::Heal => {
                self.trace.line(self.now, || "healed".to_owned());
                self.is_healed = true;
                self.announce_to_all();
                for server in 0..self.servers.len() {
                    self.has_room(server);
                    self.servers[server].log.live();
                    if self.servers[server].process.is_none() {
                        self.start(server);
                    }
                }
            }
        }
    }

    /// Before that a server does not look at its clock again.
    fn least_pause(&self) -> Moment {
        match self.leave_at {
            Some(leave_at) if self.now + REST_TICK < leave_at => REST_TICK,
            _ => 1,
        }
    }

    fn is_process(&self, server: usize, boot: u64) -> bool {
        let server = &self.servers[server];
        server.process.is_some() && server.boot == boot
    }

    /// How many times as long everything takes on this server.
    fn slowness(&self, server: usize) -> Moment {
        let mut slowness = 1;
        for fault in &self.scenario.faults {
            if let Fault::Slow {
                server: slow,
                start,
                end,
                factor,
            } = *fault
                && usize::from(slow) == server
                && (start..end).contains(&self.now)
            {
                slowness = slowness.max(factor);
            }
        }
        slowness
    }

    fn schedule(&mut self, server: usize) {
        let now = self.now;
        let state = &mut self.servers[server];
        let boot = state.boot;
        let has_work = state.has_work();
        if let Some(process) = &mut state.process
            && !process.is_scheduled
            && has_work
        {
            process.is_scheduled = true;
            let at = process.busy_until.max(now);
            self.put(at, Event::Run { server, boot });
        }
    }

    fn run_server(&mut self, server: usize) {
        let cost = BATCH_COST * self.slowness(server);
        // A lane takes up all that has come in; how much that is varies.
        let limit = 1 + self.random.below(4) as usize * self.random.below(8) as usize;
        let now = self.now;
        let state = &mut self.servers[server];
        if let Some(process) = &mut state.process {
            process.is_scheduled = false;
            process.busy_until = now + cost;
        }
        let done = state.run(now, limit);
        self.survive(server, done);
        self.take_up_map(server);
        self.after(server);
    }

    /// After anything that a server did: what it says goes out, what it has to do on its disk begins.
    fn after(&mut self, server: usize) {
        loop {
            let commands = match self.servers[server].take_commands(self.now) {
                Ok(commands) => commands,
                Err(death) => return self.survive(server, Err(death)),
            };
            if commands.is_empty() {
                break;
            }
            for command in commands {
                if self.servers[server].log.dies_here() {
                    return self.crash(server, "between two messages");
                }
                self.obey(server, command);
            }
        }
        if self.servers[server].process.is_none() {
            return;
        }
        if let Err(what) = self.moments.locks(&self.servers[server]) {
            self.found.get_or_insert(what);
        }
        self.schedule(server);
    }

    fn survive(&mut self, server: usize, done: Result<(), Death>) {
        match done {
            Ok(()) => {}
            Err(Death::Planned) => self.crash(server, "at an append"),
            Err(Death::Full) => {
                let boot = self.servers[server].boot;
                let loss = Loss::Nothing;
                self.die(server, loss, "because its disk is full");
                self.put(self.now + RESTART_PAUSE, Event::Start { server, boot });
            }
            Err(Death::Broken(what)) => {
                self.found.get_or_insert(Finding::new("running", what));
            }
        }
    }
}
