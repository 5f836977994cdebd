//! The transport between processes, over whatever carries bytes between them ([`Link`]).
//!
//! Each process has one rank. Its workers walk; the thread that called [`Processes::walk`] speaks
//! with the other processes. So a thief is answered while a worker waits for a slow file system,
//! and messages come in while others go out: no process ever waits for another one's receiving,
//! which is how rings of blocking senders stand still. That thread sleeps between two looks, longer
//! each time it looked in vain, and is woken when its own workers have something to send. (MPI's
//! own waiting takes a whole processor.)
//!
//! When a walk ends, its last messages may still be under way; messages tell their walk, and those
//! of an earlier one are dropped. One that is early is kept: another process may have begun the
//! next walk already.
//!
//! A process that cannot go on has to end all of them; the caller does that with what its link has
//! for it.

use crate::claims::Decided;
use crate::collect::Arriving;
use crate::dir::{Dir, DirState, Unreadable};
use crate::limits::{BETWEEN_REPORTS, LONGEST_POLL, SHORTEST_POLL, UNRECEIVED_OUTPUTS};
use crate::link::Link;
use crate::message::{self, Body, Envelope};
use crate::meter::{Meter, SoFar};
use crate::options::Options;
use crate::outputs::Outputs;
use crate::rpc::Rpc;
use crate::saved::{self, Saved};
use crate::scheduler::{Outbox, Scheduler};
use crate::threads::{WalkError, Walked, first, run};
use crate::visit::Visitor;
use pandofs_walk::{Event, RankId, Topology};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Read, Seek, Write};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Writes pieces of output.
type Sink<'l> = Box<dyn FnMut(&[u8]) -> io::Result<()> + 'l>;

/// The processes that walk together, as one of them sees them.
pub struct Processes<'l> {
    pub(crate) link: &'l mut dyn Link,
    topology: Topology,
    /// The last that was begun.
    pub(crate) walk: u32,
    /// The walk that it goes on with, if that was one of this run.
    since: u32,
    /// Letters of walks that were not begun.
    early: VecDeque<(u32, Vec<u8>)>,
    outputs: Outputs,
    /// At rank 0: writes what comes.
    sink: Sink<'l>,
    /// Its other destination.
    redirected: Option<Box<dyn Write>>,
    /// At rank 0: what the others gave at their end.
    results: Vec<Option<Vec<u8>>>,
    closed: bool,
    decided: Arc<Decided>,
    outbox: Arc<Outbox>,
    rpc: Option<Rpc>,
    /// Rank 0 takes what this process has for it.
    pub(crate) is_fetched: bool,
    /// At rank 0: what it takes.
    pub(crate) arriving: Option<Arriving>,
    /// Broadcasts of rank 0, in their order.
    pub(crate) broadcasts: VecDeque<Vec<u8>>,
}

impl<'l> Processes<'l> {
    /// All processes call it, each with the name of its host, and with something that has to be the
    /// same everywhere. `sink` writes to standard output, at rank 0; it is not called any more once
    /// it has failed (see [`Outputs::failure`]).
    ///
    /// # Errors
    /// When it is not the same: other versions would not understand one another.
    pub fn new(
        link: &'l mut dyn Link,
        host: &str,
        same: &str,
        sink: impl FnMut(&[u8]) -> io::Result<()> + 'l,
    ) -> Result<Processes<'l>, NotTheSame> {
        // A digest: what all say goes to all, and arguments may be megabytes.
        let same = blake3::hash(same.as_bytes());
        let gathered = link.all_gather(&[host.as_bytes(), &[0], same.as_bytes()].concat());
        let mut hosts: Vec<&[u8]> = Vec::new();
        let mut of_ranks = Vec::new();
        for (rank, sent) in gathered.iter().enumerate() {
            let end = sent.iter().position(|byte| *byte == 0);
            let (name, theirs) = sent.split_at(end.unwrap_or(sent.len()));
            if theirs.get(1..) != Some(same.as_bytes()) {
                return Err(NotTheSame(rank, String::from_utf8_lossy(name).into_owned()));
            }
            let known = hosts.iter().position(|host| *host == name);
            of_ranks.push(known.unwrap_or(hosts.len()) as u64);
            if known.is_none() {
                hosts.push(name);
            }
        }
        Ok(Processes {
            topology: Topology::new(&of_ranks),
            walk: 0,
            since: 0,
            early: VecDeque::new(),
            outputs: Outputs::default(),
            sink: Box::new(sink),
            redirected: None,
            results: vec![None; of_ranks.len()],
            closed: false,
            decided: Arc::default(),
            outbox: Arc::default(),
            rpc: None,
            is_fetched: false,
            arriving: None,
            broadcasts: VecDeque::new(),
            link,
        })
    }

    /// The number of this process.
    pub fn rank(&self) -> u32 {
        self.link.rank()
    }

    /// Processes of the walk, 1 or more.
    pub fn ranks(&self) -> u32 {
        self.link.ranks()
    }

    /// Returns whether all have come to their end with [`finish`](Processes::finish): no other
    /// process waits for this one any more.
    pub fn is_over(&self) -> bool {
        self.closed
    }

    /// Processes on the host of this one.
    pub fn on_this_host(&self) -> usize {
        self.topology.colocated(RankId(self.rank())).len()
    }

    /// Returns what rank 0 says. All processes call it, between walks.
    pub fn agree(&mut self, said: &[u8]) -> Vec<u8> {
        let all = self.link.all_gather(said);
        all.into_iter().next().unwrap_or_default()
    }

    /// Returns the queue of standard output.
    pub fn outputs(&self) -> Outputs {
        self.outputs.clone()
    }

    /// Redirects standard output to this from now on, in whole records. For rank 0.
    pub fn redirect(&mut self, to: impl Write + 'static) {
        self.redirected = Some(Box::new(to));
    }

    /// Questions that visitors of all processes may ask in walks from now on; at rank 0 `answerer`
    /// answers them. All processes call it, before a walk.
    pub fn rpc(&mut self, answerer: impl FnMut(&[u8]) -> Vec<u8> + Send + 'static) -> Rpc {
        let mut answers = None;
        if self.rank() == 0 {
            answers = Some(Box::new(answerer) as Box<_>);
        }
        let rpc = Rpc::new(answers, Arc::clone(&self.outbox));
        self.rpc = Some(rpc.clone());
        rpc
    }

    /// As [`crate::walk`], by all processes together, which call it with the same roots and
    /// options. Of [`Options::ranks`] nothing is taken: there is one in each process. Visitors are
    /// those of this process.
    ///
    /// # Errors
    /// As [`crate::walk`]; and when another process sent what makes no sense. The other processes
    /// do not know of it, and have to be ended.
    pub fn walk<V: Visitor>(
        &mut self,
        roots: &[OsString],
        options: &Options,
        make: impl FnMut(usize) -> V,
    ) -> Result<Walked<V>, WalkError> {
        let is_first = self.rank() == 0;
        self.since = self.walk + 1;
        self.begin(options, make, |_| {
            let top = Dir::top();
            let mut start = Vec::new();
            if is_first {
                start.push(first(&top, roots)?);
            }
            Ok((top, start))
        })
    }

    /// As [`crate::go_on`], by all processes together: there may be others than those that have
    /// saved it. Only rank 0 reads. An entry that was [claimed](crate::Entry::claim) in the walk
    /// before counts, if that was one of these processes'.
    ///
    /// # Errors
    /// As [`crate::go_on`], and as [`walk`](Processes::walk).
    pub fn go_on<V: Visitor>(
        &mut self,
        saved: &mut (impl Read + Seek + ?Sized),
        options: &Options,
        make: impl FnMut(usize) -> V,
    ) -> Result<Walked<V>, WalkError> {
        let is_first = self.rank() == 0;
        self.since = self.since.max(1);
        self.begin(options, make, |scheduler| {
            if !is_first {
                return Ok((Dir::top(), Vec::new()));
            }
            saved::load(saved, options.spill_chunk, |items| {
                scheduler.keep(RankId::ROOT, items)
            })
        })
    }

    fn begin<V: Visitor>(
        &mut self,
        options: &Options,
        mut make: impl FnMut(usize) -> V,
        fill: impl FnOnce(&Scheduler<'_, V::Dir>) -> Result<saved::Loaded<V::Dir>, WalkError>,
    ) -> Result<Walked<V>, WalkError> {
        let me = RankId(self.rank());
        self.walk += 1;
        let walks = (self.walk, self.since);
        let decided = Arc::clone(&self.decided);
        let outbox = Arc::clone(&self.outbox);
        let scheduler = Scheduler::among(options, &self.topology, me, walks, decided, outbox);
        let (top, roots) = fill(&scheduler)?;
        scheduler.deliver(me, Event::Start { roots });
        self.outputs.set_taken(true);
        let visitors = run(&scheduler, options, &mut make, |ended| {
            let spoken = self.speak(&scheduler, options, ended);
            self.outputs.set_taken(false);
            if let (Err(_), Some(rpc)) = (&spoken, &self.rpc) {
                rpc.close();
            }
            spoken
        })?;
        scheduler.outcome()?;
        Ok(Walked { visitors, top })
    }

    /// Speaks with the others until the workers of this process have ended and all messages are
    /// away.
    fn speak<D: DirState>(
        &mut self,
        scheduler: &Scheduler<'_, D>,
        options: &Options,
        ended: &dyn Fn() -> bool,
    ) -> Result<(), WalkError> {
        let Some(outbox) = scheduler.outbox() else {
            return Ok(());
        };
        let (meter, saved) = (&*options.meter, options.saved.as_deref());
        let mut sent_stop = false;
        let mut sent_save = false;
        let mut sent_watch = false;
        let mut said: Option<Instant> = None;
        let mut pause = SHORTEST_POLL;
        for (from, envelope) in std::mem::take(&mut self.early) {
            self.open(from, envelope, Some((scheduler, saved)), meter)?;
        }
        loop {
            let mut moved = self.send_outputs()?;
            let over = ended();
            for (to, envelope) in std::mem::take(&mut *outbox.lock()) {
                moved = true;
                self.link.send(to.0, envelope);
            }
            while let Some((from, envelope)) = self.link.receive() {
                moved = true;
                self.open(from, envelope, Some((scheduler, saved)), meter)?;
            }
            if saved.is_some_and(Saved::is_asked) && !sent_save {
                sent_save = true;
                // One that was asked tells the first, and that one all.
                match self.rank() {
                    0 => self.send_to_others(Body::Save),
                    _ => self.send(0, Body::Save),
                }
            }
            if self.outputs.ends_walks() {
                meter.stop();
            }
            if meter.is_stopped() && !sent_stop {
                sent_stop = true;
                self.send_to_others(Body::Stop);
            }
            if meter.is_watched() && self.rank() == 0 && !sent_watch {
                sent_watch = true;
                self.send_to_others(Body::Watch);
            }
            let is_due = said.is_none_or(|last| last.elapsed() >= BETWEEN_REPORTS);
            if meter.is_watched() && self.rank() != 0 && is_due {
                said = Some(Instant::now());
                let SoFar { counted, queued } = meter.so_far();
                self.send(0, Body::SoFar { counted, queued });
            }
            let messages = outbox.lock();
            if over && messages.is_empty() && self.link.is_sent() {
                return Ok(());
            }
            if messages.is_empty() && !moved {
                let waited = outbox.bell.wait_timeout(messages, pause);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
                pause = (pause * 2).min(LONGEST_POLL);
            } else {
                pause = SHORTEST_POLL;
            }
        }
    }

    pub(crate) fn send(&mut self, to: u32, body: Body<'_>) {
        let walk = self.walk;
        self.link.send(to, message::write(&Envelope { walk, body }));
    }

    pub(crate) fn send_to_others(&mut self, body: Body<'_>) {
        let walk = self.walk;
        let envelope = message::write(&Envelope { walk, body });
        let me = self.rank();
        for other in (0..self.ranks()).filter(|it| *it != me) {
            self.link.send(other, envelope.clone());
        }
    }

    /// Ends it: no walk comes after it. Rank 0 gets what all of them give, in their order, and its
    /// meter has counted what all of them have; the others get nothing. All output has been written
    /// then.
    ///
    /// # Errors
    /// When another process sent what makes no sense.
    pub fn finish(
        &mut self,
        result: &[u8],
        meter: &Meter,
    ) -> Result<Option<Vec<Vec<u8>>>, WalkError> {
        let me = self.rank();
        self.walk = u32::MAX;
        self.results[me as usize] = Some(result.to_vec());
        let mut bye = Some(message::write(&Envelope {
            walk: self.walk,
            body: Body::Bye {
                counted: meter.all(),
                result,
            },
        }));
        let mut pause = SHORTEST_POLL;
        for (from, envelope) in std::mem::take(&mut self.early) {
            self.open::<()>(from, envelope, None, meter)?;
        }
        loop {
            let mut moved = self.send_outputs()?;
            moved |= self.receive_all(meter)?;
            let written = self.outputs.is_empty();
            if me == 0 && written && self.results.iter().all(Option::is_some) {
                let close = message::write(&Envelope {
                    walk: self.walk,
                    body: Body::Close,
                });
                for other in 1..self.ranks() {
                    self.link.send(other, close.clone());
                }
                self.closed = true;
            } else if me != 0
                && written
                && let Some(bye) = bye.take()
            {
                self.link.send(0, bye);
            }
            if self.closed {
                break;
            }
            if moved {
                pause = SHORTEST_POLL;
            } else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_POLL);
            }
        }
        self.last_letters(meter)?;
        let results = std::mem::take(&mut self.results);
        Ok((me == 0).then(|| results.into_iter().flatten().collect()))
    }

    /// Requests to processes that had ended already. They are received so that no message is left
    /// when MPI ends.
    fn last_letters(&mut self, meter: &Meter) -> Result<(), WalkError> {
        while !self.link.is_sent() {
            std::thread::sleep(SHORTEST_POLL);
        }
        self.link.all_gather(&[]);
        self.receive_all(meter)?;
        Ok(())
    }

    /// Takes all messages that have come, between walks; whether there was one.
    pub(crate) fn receive_all(&mut self, meter: &Meter) -> Result<bool, WalkError> {
        let mut moved = false;
        while let Some((from, envelope)) = self.link.receive() {
            moved = true;
            self.open::<()>(from, envelope, None, meter)?;
        }
        Ok(moved)
    }

    /// Returns whether all that was handed over for standard output is on its way, or written.
    pub(crate) fn has_sent_outputs(&self) -> bool {
        self.outputs.is_empty()
    }

    /// Writes output of any process, at rank 0.
    fn put(&mut self, piece: &[u8]) -> Result<(), WalkError> {
        match &mut self.redirected {
            Some(to) => to.write_all(piece).map_err(WalkError::Output)?,
            // Not with a gap in it.
            None if self.outputs.is_broken() => {}
            None => {
                if let Err(error) = (self.sink)(piece) {
                    self.outputs.broke(error);
                }
            }
        }
        Ok(())
    }

    /// Sends some output, if the last that was sent has arrived; whether there was some.
    pub(crate) fn send_outputs(&mut self) -> Result<bool, WalkError> {
        let mut moved = false;
        while self.link.unreceived() < UNRECEIVED_OUTPUTS {
            let Some(piece) = self.outputs.take() else {
                break;
            };
            moved = true;
            if self.rank() == 0 {
                self.put(&piece)?;
            } else {
                let envelope = message::write(&Envelope {
                    walk: self.walk,
                    body: Body::Output(&piece),
                });
                self.link.send_counted(0, envelope);
            }
        }
        Ok(moved)
    }

    /// Takes up a message. The scheduler is that of the walk that is going on, with where its items
    /// are saved.
    fn open<D: DirState>(
        &mut self,
        from: u32,
        bytes: Vec<u8>,
        scheduler: Option<(&Scheduler<'_, D>, Option<&Saved>)>,
        meter: &Meter,
    ) -> Result<(), WalkError> {
        let envelope = message::read(&bytes).map_err(WalkError::Unreadable)?;
        let me = RankId(self.rank());
        match envelope.body {
            Body::Output(piece) => self.put(piece)?,
            Body::Bye { counted, result } => {
                meter.add_all(counted);
                self.results[from as usize] = Some(result.to_vec());
            }
            Body::Close => self.closed = true,
            // Questions and claims: others may still want to know when this process is through with
            // its own part, and it has decided nothing of a walk that it has not begun.
            Body::Claim { since, keys } => {
                let answers = keys.into_iter();
                let answers = answers
                    .map(|(number, key)| (number, self.decided.is_first(since, key)))
                    .collect();
                let (walk, body) = (envelope.walk, Body::Claimed(answers));
                self.link
                    .send(from, message::write(&Envelope { walk, body }));
            }
            Body::Question { number, question } => {
                let rpc = self.rpc.as_ref();
                let answer = rpc.and_then(|it| it.answer(question));
                let answer = &answer.ok_or(WalkError::Unreadable(Unreadable))?;
                let (walk, body) = (0, Body::Answer { number, answer });
                self.link
                    .send(from, message::write(&Envelope { walk, body }));
            }
            Body::Answer { number, answer } => {
                let rpc = self.rpc.as_ref();
                if !rpc.is_some_and(|it| it.answered(number, answer)) {
                    return Err(WalkError::Unreadable(Unreadable));
                }
            }
            _ if envelope.walk > self.walk => self.early.push_back((from, bytes)),
            body if envelope.walk == self.walk => match (body, scheduler) {
                (Body::Stop, _) => meter.stop(),
                (Body::Watch, _) => meter.watch(),
                (Body::SoFar { counted, queued }, _) => {
                    meter.heard_of(from, SoFar { counted, queued });
                }
                (Body::Save, Some((_, Some(saved)))) => saved.ask(),
                (Body::Fetch, _) => self.is_fetched = true,
                (Body::Piece { last, bytes }, _) => self.arrived(from, last, bytes)?,
                (Body::Broadcast(bytes), _) => self.broadcasts.push_back(bytes.to_vec()),
                (Body::Claimed(answers), Some((scheduler, _))) => {
                    scheduler.claimed(answers).map_err(WalkError::Unreadable)?;
                }
                (
                    Body::Back {
                        loan,
                        place,
                        gathered,
                        unfinished,
                    },
                    Some((scheduler, _)),
                ) => scheduler
                    .back(loan, place, gathered, unfinished)
                    .map_err(WalkError::Unreadable)?,
                (body, Some((scheduler, _))) => {
                    let message = message::walk_message(body, RankId(from));
                    if let Some(message) = message.map_err(WalkError::Unreadable)? {
                        let from = RankId(from);
                        scheduler.deliver(me, Event::Message { from, message });
                    }
                }
                (_, None) => {}
            },
            _ => {}
        }
        Ok(())
    }
}

/// Processes that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {0} on {1} runs another version, or was started with other arguments")]
pub struct NotTheSame(pub usize, pub String);
