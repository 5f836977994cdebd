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
use crate::scenario::{End, Fault, Loss, MICROSECOND, MILLISECOND, Moment, SECOND, Scenario};
use crate::server::{Acquaintance, Death, Server};
use crate::trace::Trace;
use events::{Event, Letter, Queued};
use pandofs_placement::ClusterMap;
use pandofs_testkit::rng::Rng;
use pandofs_types::limits::CLIENT_TICK;
use pandofs_types::{Ino, Name, ServerId, SessionId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

/// Time that a batch takes, and each input in it.
const BATCH_COST: Moment = 20 * MICROSECOND;
const SYNC_COST: Moment = 300 * MICROSECOND;
/// Time to read a key that is not in memory.
const READ_COST: Moment = 100 * MICROSECOND;
const FLUSH_COST: Moment = 5 * MILLISECOND;
/// Servers start again that found their disks full.
const RESTART_PAUSE: Moment = 500 * MILLISECOND;
/// Within so long after the last fault every operation has to be answered.
const PROGRESS_BOUND: Moment = 60 * SECOND;
/// The ticks of servers while clients do nothing but keep what they have open: a minute of ticks as they are otherwise
/// would be nine of ten events of a run, and finds nothing.
const REST_TICK: Moment = 100 * MILLISECOND;
/// So long after the start all but what comes of clients that are away has been begun.
const QUIET_FROM: Moment = 5 * SECOND;
/// So much later a client that goes on may take up recalls than what its programs want.
const HEARS_WITHIN: Moment = 10 * MILLISECOND;
/// Events between two looks at everything that is stored.
const LOOK_EVERY: u64 = 400;

/// A client that stands still.
#[derive(Clone, Copy, Debug)]
struct Stop {
    session: SessionId,
    until: Moment,
    /// How much later than all else it takes up what it has missed of recalls.
    hears_after: Moment,
}

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
    /// Clients that stand still.
    stopped: BTreeMap<usize, Stop>,
    /// Inodes that a server had that died and lost what was not synced, until it starts again.
    inodes: BTreeMap<usize, BTreeSet<Ino>>,
    /// Names of a server that died and lost what was not synced, until it starts again.
    unsynced: BTreeMap<usize, BTreeMap<Key, Ino>>,
    /// Names of which records were lost with it.
    lost: BTreeMap<usize, BTreeSet<Key>>,
    random: Rng,
    found: Option<Finding>,
    /// Early operations that were sent, by the worker that asked for them.
    early: BTreeMap<(SessionId, usize, u64), Vec<u64>>,
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
            stopped: BTreeMap::new(),
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
            self.lapse_later(number);
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

    /// Each server as the client knows it: the process that it would connect to now, or, where it has not come through
    /// since that let go of it, the one that it was connected to before.
    fn known_by(&self, client: usize) -> Vec<Acquaintance> {
        let state = &self.clients[client];
        let of = |(number, server): (usize, &Server)| {
            let now = server.acquaintance(state.session);
            let before = state.known.get(number).copied();
            let ends = [End::Server(number as u16), End::Client(client)];
            match before.filter(|before| before.boot == now.boot && *before != now) {
                Some(before)
                    if self.network.is_cut(self.now, ends[0], ends[1])
                        || self.network.is_cut(self.now, ends[1], ends[0]) =>
                {
                    before
                }
                _ => now,
            }
        };
        self.servers.iter().enumerate().map(of).collect()
    }

    /// Puts down when what a client has open may be gone, as a fault keeps it away for too long. (A server that starts again
    /// meanwhile waits as long for it, by its own clock.)
    fn lapse_later(&mut self, number: usize) {
        let fault = &self.scenario.faults[number];
        let client = match *fault {
            Fault::Stopped { client, .. }
            | Fault::Cut {
                from: End::Client(client),
                ..
            } => client,
            _ => return,
        };
        let (start, end) = fault.span();
        let patience = self.scenario.shape.session_timeout.as_nanos() as Moment * 9 / 10;
        if end - start >= patience {
            self.put(start + patience, Event::Lapse { client });
        }
    }

    /// The client that an event is about.
    fn client_of(&self, event: &Event) -> Option<usize> {
        Some(match event {
            Event::Issue(number) => self.scenario.ops[*number].client,
            Event::Deliver {
                to: End::Client(client),
                ..
            }
            | Event::Release { client, .. }
            | Event::Ping { client, .. }
            | Event::Wake { client, .. }
            | Event::LookAtRecalls { client, .. }
            | Event::Leave { client }
            | Event::Listen { client, .. }
            | Event::CutOff { client, .. } => *client,
            Event::Send { asker, .. } | Event::Silence { asker } => asker.client,
            Event::Deaf { hearer } => hearer.client,
            _ => return None,
        })
    }

    /// Until when an event waits for a client that stands still, if it does. Recalls, and that connections are closed, a
    /// thread of its own takes up, which may come to it a little later than others.
    fn waits_until(&self, event: &Event) -> Option<Moment> {
        if self.stopped.is_empty() {
            return None;
        }
        let client = self.client_of(event)?;
        let stop = self.stopped.get(&client)?;
        let is_of_recalls = match event {
            Event::Deliver { letter, .. } => matches!(**letter, Letter::Recall { .. }),
            event => matches!(event, Event::CutOff { .. } | Event::Deaf { .. }),
        };
        let until = match is_of_recalls {
            true => stop.until + stop.hears_after,
            false => stop.until,
        };
        (self.clients[client].session == stop.session && self.now < stop.until).then_some(until)
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
    /// The finding of an oracle.
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
        if let Some(until) = self.waits_until(&next.event) {
            self.put(until, next.event);
            return Ok(());
        }
        for client in 0..self.clients.len() {
            let known = self.known_by(client);
            let client = &mut self.clients[client];
            client.now = self.now;
            client.known = known;
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
            Event::Lapse { client } => self.clients[client].lapse(),
            Event::Release { client, session } => {
                if self.clients[client].session == session {
                    let (known, mut todo) = (self.known_by(client), Vec::new());
                    self.clients[client].release(&known, &mut todo);
                    self.carry_out(client, todo);
                }
            }
            Event::Ping { client, session } => {
                if self.clients[client].session == session {
                    let (known, mut todo) = (self.known_by(client), Vec::new());
                    self.clients[client].ping(&known, &mut todo);
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
                known,
            } => {
                if self.clients[client].session == session {
                    let mut todo = Vec::new();
                    self.clients[client].cut_off(server, known, &mut todo);
                    self.carry_out(client, todo);
                }
            }
            Event::Leave { client } => self.client_gone(client, true),
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

    /// Whether nothing is under way but a client's absence.
    fn is_quiet(&self) -> bool {
        let idle = |(number, client): (usize, &Client)| {
            self.stopped.contains_key(&number) || client.is_idle()
        };
        self.scenario.has_away()
            && (QUIET_FROM..self.scenario.healed).contains(&self.now)
            && self.clients.iter().enumerate().all(idle)
    }

    /// Before that a server does not look at its clock again.
    fn least_pause(&self) -> Moment {
        match self.leave_at {
            Some(leave_at) if self.now + REST_TICK < leave_at => REST_TICK,
            None if self.is_quiet() => REST_TICK,
            _ => 1,
        }
    }

    /// Whether what a client has sent over a connection is heard: it is with this process, which has not closed it.
    fn is_heard(&mut self, server: usize, session: SessionId, known: Acquaintance) -> bool {
        let state = &mut self.servers[server];
        let is_open = state.process.is_some() && state.acquaintance(session) == known;
        if is_open {
            state.heard(session, self.now);
        }
        is_open
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
