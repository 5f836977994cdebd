//! Open files of a session, and the closes that are still to be sent to shards.
//!
//! A server keeps the session's opens in memory. When it was restarted they are registered with it
//! anew, from the counts in here, before it gets anything else. A close is taken off the count and
//! queued in one step, and a registration empties the queue as it reads the counts: otherwise a close
//! could be left out of the count that is registered and be sent afterwards as well. A client that
//! shares them among threads locks the closes before the files.

use hashbrown::HashMap;
use pandofs_api::{Refusal, Reply};
use pandofs_types::limits::MAX_RELEASES_PER_MESSAGE;
use pandofs_types::{Ino, ShardId};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
struct Open<F> {
    /// Times; never 0.
    count: u32,
    /// Of these, those that no server has heard of.
    untold: u32,
    /// The inode's shard in the last answer.
    shard: ShardId,
    file: Arc<F>,
}

/// The open files, or some of them, and a value for each.
#[derive(Debug)]
pub struct OpenFiles<F> {
    opens: HashMap<Ino, Open<F>>,
}

impl<F> Default for OpenFiles<F> {
    fn default() -> OpenFiles<F> {
        OpenFiles {
            opens: HashMap::new(),
        }
    }
}

impl<F> OpenFiles<F> {
    /// Counts one more open; the value is made by `make` if the file was not open before. With `is_told` a server has
    /// counted it or will; else [`OpenFiles::untold`] gives it to be told.
    pub fn opened(
        &mut self,
        ino: Ino,
        shard: ShardId,
        is_told: bool,
        make: impl FnOnce() -> F,
    ) -> Arc<F> {
        let open = self.opens.entry(ino).or_insert_with(|| Open {
            count: 0,
            untold: 0,
            shard,
            file: Arc::new(make()),
        });
        open.count += 1;
        open.untold += u32::from(!is_told);
        open.shard = shard;
        Arc::clone(&open.file)
    }

    /// The value of a file that is open.
    pub fn file(&self, ino: Ino) -> Option<Arc<F>> {
        self.opens.get(&ino).map(|open| Arc::clone(&open.file))
    }

    /// The values of all.
    pub fn files(&self) -> impl Iterator<Item = &Arc<F>> {
        self.opens.values().map(|open| &open.file)
    }

    /// Returns how often it is open, and where it is; `None` when it is not.
    pub fn count(&self, ino: Ino) -> Option<(u32, ShardId)> {
        self.opens.get(&ino).map(|open| (open.count, open.shard))
    }

    /// All that are open, and how often.
    pub fn counts(&self) -> impl Iterator<Item = (Ino, u32)> {
        self.opens.iter().map(|(&ino, open)| (ino, open.count))
    }

    /// How many files are open.
    pub fn len(&self) -> usize {
        self.opens.len()
    }

    /// Returns whether no file is open. Closes may still have to be sent.
    pub fn is_empty(&self) -> bool {
        self.opens.is_empty()
    }

    /// An inode was found on another shard.
    pub fn moved(&mut self, ino: Ino, shard: ShardId) {
        if let Some(open) = self.opens.get_mut(&ino) {
            open.shard = shard;
        }
    }

    /// Files on this shard with opens that no server has heard of, and how many these are.
    pub fn untold(&self, shard: ShardId) -> impl Iterator<Item = (Ino, u32)> {
        let untold = self.opens.iter();
        let untold = untold.filter(move |(_, open)| open.shard == shard && open.untold > 0);
        untold.map(|(&ino, open)| (ino, open.untold))
    }

    /// Returns how many of the file's opens no server has heard of.
    pub fn untold_of(&self, ino: Ino) -> u32 {
        self.opens.get(&ino).map_or(0, |open| open.untold)
    }

    /// The shard has heard of so many more opens.
    pub fn told(&mut self, ino: Ino, times: u32) {
        if let Some(open) = self.opens.get_mut(&ino) {
            open.untold = open.untold.saturating_sub(times);
        }
    }

    /// All opens on these shards were registered.
    pub fn registered(&mut self, shards: &[ShardId]) {
        for open in self.opens.values_mut() {
            if shards.contains(&open.shard) {
                open.untold = 0;
            }
        }
    }

    /// Takes one open off the count. Returns the shard to tell, if any; `None` if it is not open.
    fn close(&mut self, ino: Ino) -> Option<Option<ShardId>> {
        let open = self.opens.get_mut(&ino)?;
        // Whichever is closed: those that are left are as many.
        let told = match open.untold.checked_sub(1) {
            Some(untold) => {
                open.untold = untold;
                None
            }
            None => Some(open.shard),
        };
        open.count -= 1;
        if open.count == 0 {
            self.opens.remove(&ino);
        }
        Some(told)
    }
}

/// Closes for one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The shard to send it to.
    pub shard: ShardId,
    /// An inode stands here once for each time it was closed.
    pub inos: Vec<Ino>,
    /// The server's count of registrations when the batch was taken: with another count the server
    /// knows of the closes.
    pub registration: u64,
}

/// The closes still to tell shards.
#[derive(Debug, Default)]
pub struct Closes {
    queued: HashMap<ShardId, Vec<Ino>>,
    /// Closes that are on their way, to which shard and how often.
    sending: HashMap<(ShardId, Ino), u32>,
    /// How many of what is queued were not taken to be sent before.
    new: HashMap<ShardId, usize>,
    /// They are a message full for one of the shards.
    is_full: bool,
}

impl Closes {
    /// Takes one open off the count and queues the close. False if it is not open.
    pub fn release<F>(&mut self, files: &mut OpenFiles<F>, ino: Ino) -> bool {
        let Some(shard) = files.close(ino) else {
            return false;
        };
        if let Some(shard) = shard {
            self.queued.entry(shard).or_default().push(ino);
            let new = self.new.entry(shard).or_default();
            *new += 1;
            self.is_full |= *new >= MAX_RELEASES_PER_MESSAGE;
        }
        true
    }

    /// Returns whether there are as many for one shard as a message has: they are sent without a delay. Those that could not
    /// be sent yet do not count: they would be taken and put back without a pause.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns whether something is queued.
    pub fn is_due(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Returns whether shards have heard of all closes.
    pub fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.sending.is_empty()
    }

    /// Returns how often the file's shard is to count it, and where it is; `None` when it is not open.
    ///
    /// Closes that the shard has not heard of are in it, as they are counted off when they come. (A
    /// file is opened and closed, and opened once more by a request whose answer comes late: told of
    /// one open, the shard keeps the one that it has, the close takes that off, and with its last
    /// name the file is gone.) One that is on its way may have arrived: then the shard keeps the file
    /// until the session ends or the server is restarted.
    pub fn to_register<F>(&self, files: &OpenFiles<F>, ino: Ino) -> Option<(u32, ShardId)> {
        let (count, shard) = files.count(ino)?;
        let queued = self.queued.values().flatten();
        let queued = queued.filter(|&&closed| closed == ino).count() as u32;
        let sending = self.sending.iter().filter(|((_, of), _)| *of == ino);
        let sending: u32 = sending.map(|(_, times)| *times).sum();
        Some((count.saturating_add(queued).saturating_add(sending), shard))
    }

    /// All opens to register with each of `shards`, which one server leads that was restarted: what
    /// is open there, and what is open elsewhere as far as known (`open`), on others of them too, as an
    /// inode may have moved there without this client having heard of it. Of what is not there
    /// nothing is counted. The closes queued for these shards are in the counts and therefore
    /// dropped. The server's registrations are counted before this reads `open`: a thread that opens a
    /// file and finds that count unchanged after putting it among the open files knows that it is among
    /// those that are registered, or was opened later.
    ///
    /// Closes that are queued for or on their way to other shards are not taken off: should the
    /// inode be on one of these, they come from there, and are counted then. Also of an inode that
    /// is not open any more: it may be opened once more before they come, and would be taken for
    /// closed.
    pub fn register(
        &mut self,
        shards: &[ShardId],
        open: impl IntoIterator<Item = (Ino, u32)>,
    ) -> Vec<(ShardId, Vec<(Ino, u32)>)> {
        self.queued.retain(|shard, _| !shards.contains(shard));
        self.new.retain(|shard, _| !shards.contains(shard));
        let mut counts: BTreeMap<Ino, u32> = BTreeMap::new();
        for (&(shard, ino), &times) in &self.sending {
            if !shards.contains(&shard) {
                *counts.entry(ino).or_default() += times;
            }
        }
        for &ino in self.queued.values().flatten() {
            *counts.entry(ino).or_default() += 1;
        }
        for (ino, times) in open {
            let count = counts.entry(ino).or_default();
            *count = count.saturating_add(times);
        }
        if counts.is_empty() {
            return Vec::new();
        }
        let told: Vec<(Ino, u32)> = counts.into_iter().collect();
        shards.iter().map(|&shard| (shard, told.clone())).collect()
    }

    /// Takes all queued closes; `registration_of` gives the count of registrations of the server
    /// that leads the shard. They are on their way until they are [sent](Closes::sent) or
    /// [given up](Closes::given_up).
    pub fn take(&mut self, registration_of: impl Fn(ShardId) -> u64) -> Vec<Batch> {
        self.is_full = false;
        self.new.clear();
        let queued = std::mem::take(&mut self.queued);
        for (&shard, inos) in &queued {
            for &ino in inos {
                *self.sending.entry((shard, ino)).or_default() += 1;
            }
        }
        let mut batches = Vec::new();
        for (shard, inos) in queued {
            let registration = registration_of(shard);
            let messages = inos.chunks(MAX_RELEASES_PER_MESSAGE);
            batches.extend(messages.map(|inos| Batch {
                shard,
                inos: inos.to_vec(),
                registration,
            }));
        }
        batches
    }

    /// The batch is not on its way any more. Those of its closes that did not count are `left`, and are queued for the
    /// shards to tell.
    ///
    /// A shard that the batch's server leads as well (`is_of_server`) is not told if the session was registered there
    /// anew meanwhile (`registrations`: so often until now): that was counted without these closes. Any other server
    /// counts them in until they come. Both are done in one step: a registration in between would miss them.
    pub fn sent(
        &mut self,
        batch: &Batch,
        left: &[(Ino, ShardId)],
        registrations: u64,
        is_of_server: impl Fn(ShardId) -> bool,
    ) {
        self.given_up(batch);
        let is_known = registrations != batch.registration;
        for &(ino, shard) in left {
            if !is_known || !is_of_server(shard) {
                self.queued.entry(shard).or_default().push(ino);
            }
        }
    }

    /// The batch is not on its way any more: it is not sent, or nobody knows whether it arrived.
    pub fn given_up(&mut self, batch: &Batch) {
        for &ino in &batch.inos {
            if let Some(times) = self.sending.get_mut(&(batch.shard, ino)) {
                *times -= 1;
                if *times == 0 {
                    self.sending.remove(&(batch.shard, ino));
                }
            }
        }
    }
}

impl Batch {
    /// Those of which this holds, and the others.
    pub fn divided(self, of: impl Fn(Ino) -> bool) -> (Batch, Batch) {
        let (these, others) = self.inos.into_iter().partition(|ino| of(*ino));
        let part = |inos| Batch {
            shard: self.shard,
            inos,
            registration: self.registration,
        };
        (part(these), part(others))
    }

    /// Closes of the batch that are to be sent once more, to the same shard.
    pub fn whole(&self) -> Vec<(Ino, ShardId)> {
        self.inos.iter().map(|&ino| (ino, self.shard)).collect()
    }

    /// Closes of the batch that did not count, and the shards to tell of them, by the shard's answer; `None`: it
    /// is lost. Then they are not told again, since a close that is counted twice would take a file from a program
    /// that has it open still; one that is lost is made good when the session ends.
    ///
    /// # Errors
    /// A refusal that no correct shard gives; nothing is told again.
    pub fn left_by(
        &self,
        answer: Option<Result<Reply, Refusal>>,
    ) -> Result<Vec<(Ino, ShardId)>, Refusal> {
        match answer {
            Some(Ok(Reply::NotClosed(left))) => Ok(self.left(left)),
            Some(Ok(_)) | None => Ok(Vec::new()),
            Some(Err(Refusal::TryAgain | Refusal::WrongServer { .. })) => Ok(self.whole()),
            Some(Err(other)) => Err(other),
        }
    }

    /// Those among what a shard says that it has not counted which the batch has.
    fn left(&self, not_closed: Vec<(Ino, ShardId)>) -> Vec<(Ino, ShardId)> {
        let mut times: HashMap<Ino, u32> = HashMap::new();
        for &ino in &self.inos {
            *times.entry(ino).or_default() += 1;
        }
        let mut is_one = |ino| {
            let Some(times) = times.get_mut(&ino).filter(|times| **times > 0) else {
                return false;
            };
            *times -= 1;
            true
        };
        not_closed
            .into_iter()
            .filter(|&(ino, _)| is_one(ino))
            .collect()
    }
}

#[cfg(test)]
mod tests;
