//! Subscription to recalls of leases.
//!
//! One request is always with each server, which answers it when leases end. The next one
//! acknowledges the recall.
//!
//! Each server has a thread for this. A recall that waits for a write to data objects is answered
//! when that has ended; others that come meanwhile are answered before it. When the connection is
//! lost all that the server leased is dropped, and the thread begins anew as soon as the server is
//! there: until then changes by others wait.

use crate::boottime::{self, Boottime};
use crate::core::Core;
use crate::dirs::Entry;
use crate::error::Result;
use crate::limits::{MAX_WRITE_LEASE_PAUSE, MIN_WRITE_LEASE_PAUSE};
use crate::pool::{Connection, LostAnswer, Server};
use crate::threads;
use crate::{Client, ClientError};
use hashbrown::HashSet;
use pandofs_session::{Hearing, ListedUntil};
use pandofs_types::limits::{LEASE, MIN_RECONNECT_PAUSE, RECALL_WAIT};
use pandofs_types::{Attr, FileKind, Ino, LeaseKey, Name, ServerId};
use pandofs_wire::message::{AnswerBody, AnswerFrame, RequestBody, RequestFrame};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Leases that are recalled.
#[derive(Debug)]
pub enum Recall<'a> {
    /// These. Of some this client is asking for a change itself; a wait until `own` is cached no
    /// longer may wait for that change, which waits for this.
    Keys {
        /// To be dropped from every cache.
        keys: &'a [LeaseKey],
        /// Those of `keys` that this client is changing.
        own: &'a [LeaseKey],
    },
    /// All leases.
    Everything,
}

type Listener = Box<dyn Fn(Recall<'_>) + Send + Sync>;

/// The listener for recalls, called before they are acknowledged.
#[derive(Default)]
pub(crate) struct Listening {
    listener: OnceLock<Listener>,
    /// Servers that have a thread.
    servers: Mutex<HashSet<ServerId>>,
}

impl fmt::Debug for Listening {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_set = self.listener.get().is_some();
        formatter
            .debug_struct("Listening")
            .field("is_set", &is_set)
            .finish()
    }
}

impl Listening {
    fn tell(&self, recall: Recall<'_>) {
        if let Some(listener) = self.listener.get() {
            listener(recall);
        }
    }
}

impl Client {
    /// Takes leases from now on: answers are cached, and not asked for again, until their leases
    /// are over or recalled. `listener` gets recalls; when it returns no cache has what was
    /// recalled. With `for_all` names that one caller has found are answered to others, too:
    /// the kernel, as a rule, checks which caller may search which directory.
    ///
    /// # Errors
    /// `Protocol` when leases are taken already or there are no threads.
    pub fn take_leases(
        &self,
        for_all: bool,
        listener: impl Fn(Recall<'_>) + Send + Sync + 'static,
    ) -> Result<()> {
        let core = &self.session.core;
        if core.listening.listener.set(Box::new(listener)).is_err() {
            return Err(ClientError::Protocol("leases are taken twice".to_owned()));
        }
        core.lease_cache.begin(for_all);
        listen(core)
    }

    /// The key of an entry in recalls.
    pub fn entry_key(&self, dir: Ino, name: &Name) -> LeaseKey {
        self.core().lease_cache.entry_key(dir, name)
    }

    /// The rest of the lease that a name, which has this [key](Client::entry_key), leads to `ino`,
    /// or, with `None`, to nothing.
    pub fn entry_cached_for(&self, key: LeaseKey, name: &Name, ino: Option<Ino>) -> Duration {
        let core = self.core();
        let granted = ino.and_then(|ino| core.grants.entry_until(key, name, ino));
        let until = core.lease_cache.entry_until(key, name, ino);
        left(until.max(granted))
    }

    /// The rest of the leases, or of the grant, of the names and attributes of the listed entries of a directory, a
    /// [key](Client::entry_key) for each. The attributes of directories are to be [asked
    /// for](Client::attr_cached_for) one by one.
    pub fn listed_cached_for(
        &self,
        keys: &[LeaseKey],
        entries: &[Entry],
    ) -> Vec<(Duration, Duration)> {
        let core = self.core();
        let until = core.lease_cache.listed_until(keys, entries);
        let granted = keys.first().and_then(|key| match *key {
            LeaseKey::Entry { dir, .. } => core.grants.granted_until(dir),
            _ => None,
        });
        let now = boottime::now();
        let left = |until: Option<Boottime>| left_from(now, until);
        let cached = |((until, entry), &key): ((ListedUntil, &Entry), &LeaseKey)| {
            let attr = match &entry.attr {
                // This client may know better than servers what it has written or changed.
                Some(attr) if granted.is_some() || core.opens.file(attr.ino).is_some() => {
                    self.attr_cached_for(attr)
                }
                _ => left(until.attr),
            };
            let name = match granted {
                Some(_) => core.grants.entry_until(key, &entry.name, entry.ino),
                None => None,
            };
            (left(until.name.max(name)), attr)
        };
        let entries = until.into_iter().zip(entries);
        entries.zip(keys).map(cached).collect()
    }

    /// The rest of the lease of a directory's attributes, whatever they are: the time in which no
    /// other client changes them without a recall.
    pub fn dir_cached_for(&self, dir: Ino) -> Duration {
        let core = self.core();
        let shards = core.maps.map(dir).shards();
        let leased = core.lease_cache.dir_until(dir, &shards);
        left(leased.max(core.grants.granted_until(dir)))
    }

    /// The rest of the lease of these attributes.
    pub fn attr_cached_for(&self, attr: &Attr) -> Duration {
        let core = self.core();
        if let Some((inode, until)) = core.grants.exclusive(attr.ino) {
            let mut known = inode.attr;
            core.correct(&mut known);
            return match pandofs_session::is_same(&known, attr) {
                true => left(Some(until)),
                false => Duration::ZERO,
            };
        }
        let cached = match attr.kind {
            FileKind::Dir => {
                let shards = core.maps.map(attr.ino).shards();
                let cached = core.lease_cache.inode(attr.ino, &shards);
                cached.map(|(inode, parts, until)| {
                    let mut known = inode.attr;
                    crate::dirs::add_parts(&mut known, &parts);
                    (known, until)
                })
            }
            _ => core.lease_cache.attr(attr.ino),
        };
        let Some((mut known, until)) = cached else {
            return Duration::ZERO;
        };
        core.correct(&mut known);
        match pandofs_session::is_same(&known, attr) {
            true => left(Some(until)),
            false => Duration::ZERO,
        }
    }
}

fn left(until: Option<Boottime>) -> Duration {
    left_from(boottime::now(), until)
}

fn left_from(now: Boottime, until: Option<Boottime>) -> Duration {
    until.map_or(Duration::ZERO, |until| {
        until.saturating_duration_since(now).min(LEASE)
    })
}

/// Starts the threads of servers that have none, if leases are taken.
pub(crate) fn listen(core: &Arc<Core>) -> Result<()> {
    if !core.lease_cache.is_on() {
        return Ok(());
    }
    let servers = &core.listening.servers;
    let mut servers = servers.lock().unwrap_or_else(PoisonError::into_inner);
    for server in core.clusters.current().servers() {
        if servers.contains(&server.id) {
            continue;
        }
        let (core, id) = (Arc::downgrade(core), server.id);
        threads::start(format!("pandofs-recalls-{id}"), move || run(&core, id))?;
        servers.insert(id);
    }
    Ok(())
}

/// Runs until the session ends.
fn run(core: &Weak<Core>, id: ServerId) {
    while let Some(strong) = core.upgrade() {
        if strong.closed.load(Ordering::Relaxed) {
            return;
        }
        // Where it is by the map that is in force now.
        let server = strong.clusters.current().server(id).cloned();
        let connected = server.map(|server| (server.connect(&strong.who), server));
        drop(strong);
        if let Some((Ok((mut connection, _)), server)) = connected {
            // A server that was restarted has others wait until this session has begun anew: what it has executed under
            // grants from before comes first.
            if let Some(core) = core.upgrade() {
                core.settle_shards(&core.clusters.current().led_by(id));
            }
            let mut hearing = Hearing::default();
            let ended = converse(core, &server, &mut connection, &mut hearing);
            tracing::debug!("server {id} sends no recalls any more: {ended:?}");
            let Some(core) = core.upgrade() else {
                return;
            };
            for keys in hearing.ended() {
                core.lease_cache.recall(&keys, false);
            }
            core.lease_cache.lost(id);
            core.grants.lost(id, core.clusters.current().led_by(id));
            core.listening.tell(Recall::Everything);
        }
        std::thread::sleep(MIN_RECONNECT_PAUSE);
    }
}

/// Why there is an end to it.
#[derive(Debug)]
enum End {
    Lost(#[allow(dead_code, reason = "shown in the log")] LostAnswer),
    Unsent,
    Odd,
    Session,
}

enum Next {
    Answer(AnswerFrame),
    /// The leases of this answer are dropped now.
    LetGo(u64),
}

/// The next thing to do: an answer, or a recall whose writes have ended or that has waited for long
/// enough.
fn next(
    core: &Weak<Core>,
    connection: &mut Connection,
    hearing: &mut Hearing,
) -> std::result::Result<Next, End> {
    let mut pause = MIN_WRITE_LEASE_PAUSE;
    while hearing.waits() {
        let core = core.upgrade().ok_or(End::Session)?;
        let now = boottime::now();
        // These before answers: there may always be a next answer.
        if let Some(number) = hearing.over(now, |keys, waits| let_go(&core, keys, waits)) {
            return Ok(Next::LetGo(number));
        }
        drop(core);
        if let Some(answer) = connection.receive_within(pause).map_err(End::Lost)? {
            return Ok(Next::Answer(answer));
        }
        pause = MAX_WRITE_LEASE_PAUSE.min(pause * 2);
    }
    connection.receive().map(Next::Answer).map_err(End::Lost)
}

/// Drops these leases; false if first a write is to end that began under them.
fn let_go(core: &Core, keys: &[LeaseKey], waits: bool) -> bool {
    let Some(granted) = core.recall_grants(keys, waits) else {
        return false;
    };
    let keys = &[keys, &granted].concat();
    let Some(own) = core.lease_cache.recall(keys, waits) else {
        return false;
    };
    let others = |key: &LeaseKey| !own.contains(key);
    let keys: Vec<_> = keys.iter().copied().filter(others).collect();
    let (keys, own) = (&keys, &own);
    core.listening.tell(Recall::Keys { keys, own });
    true
}

fn converse(
    core: &Weak<Core>,
    server: &Server,
    connection: &mut Connection,
    hearing: &mut Hearing,
) -> End {
    // The server answers at least this often.
    if connection.be_patient(RECALL_WAIT * 3).is_err() {
        return End::Unsent;
    }
    let mut done = None;
    loop {
        // It takes the place of the last one, if that is still with the server.
        let mut frame = RequestFrame {
            id: 0,
            body: RequestBody::AwaitRecalls { done },
        };
        if connection.push(None, &mut frame, &[]).is_err() || connection.send().is_err() {
            return End::Unsent;
        }
        let answer = match next(core, connection, hearing) {
            Ok(Next::Answer(answer)) if answer.id <= frame.id => answer,
            Ok(Next::Answer(_)) => return End::Odd,
            Ok(Next::LetGo(number)) => {
                done = Some(number);
                continue;
            }
            Err(end) => return end,
        };
        // It need not have got the last message when it answered another request.
        if answer.id == frame.id {
            server.heard(connection.asked());
        }
        let AnswerBody::Recalls { number, keys } = answer.body else {
            return End::Odd;
        };
        let Some(core) = core.upgrade() else {
            return End::Session;
        };
        let now = boottime::now();
        if hearing.subscribes() {
            core.lease_cache.subscribed(server.id, now);
            core.grants.hears(server.id);
        }
        let let_go = |keys: &[LeaseKey], waits| let_go(&core, keys, waits);
        done = Some(hearing.recalled(number, keys, now, let_go));
    }
}
