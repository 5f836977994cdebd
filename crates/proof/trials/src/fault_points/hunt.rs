//! Fault points to reach, those that were, and the checks after each kill.

use super::points::Points;
use crate::cluster::fsck;
use anyhow::{Context, Result, bail, ensure};
use pandofs_client::Client;
use pandofs_types::ServerId;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time that servers may take until all are back and nothing is under way.
const BACK_LIMIT: Duration = Duration::from_secs(60);
const ASK_INTERVAL: Duration = Duration::from_millis(2);
/// Time that fsck waits for what may be left for a while.
const PATIENCE: Duration = Duration::from_secs(20);

/// Times in a round that servers die again at a point after which others come up.
const MOST_REPEATED: u32 = 2;
/// Times that a server is ordered to die in what follows a death of its own, before everything is
/// looked at: its starter would give up one that dies in each start.
const MOST_AGAIN: u32 = 3;

/// Counts of what has happened.
#[derive(Debug, Default)]
struct State {
    /// Says that servers are to die.
    is_open: bool,
    /// Points at which a server has died at any time.
    done: BTreeSet<String>,
    /// Deaths of each server at any time.
    deaths: BTreeMap<ServerId, usize>,
    /// Those since everything was looked at, in words.
    recent: Vec<String>,
    /// The points of these.
    dead_at: BTreeSet<String>,
    /// Number of orders that servers were given after one of these that was theirs.
    again: BTreeMap<ServerId, u32>,
    /// Points that servers have passed at any time.
    seen: BTreeSet<String>,
    /// After which deaths a point was passed for the first time.
    came_after: BTreeMap<String, BTreeSet<String>>,
    /// Deaths at a point that is done, of this round.
    repeated: BTreeMap<String, u32>,
}

impl State {
    /// Points at which no server is to die at first: what is done, but for points after which others come up
    /// that are not.
    fn spared(&self) -> BTreeSet<String> {
        let mut spared = self.done.clone();
        for (point, deaths) in &self.came_after {
            if !self.done.contains(point) {
                for death in deaths {
                    if self.repeated.get(death).copied().unwrap_or(0) < MOST_REPEATED {
                        spared.remove(death);
                    }
                }
            }
        }
        spared
    }
}

#[derive(Debug)]
pub(super) struct Hunt<'a> {
    client: &'a Client,
    points: &'a Points,
    servers: Vec<ServerId>,
    pandofs: &'a Path,
    cluster: &'a Path,
    part: &'a str,
    state: Mutex<State>,
    /// Held while everything is looked at: a server that is killed from outside then would be found missing.
    looking: Mutex<()>,
}

impl<'a> Hunt<'a> {
    pub(super) fn new(
        client: &'a Client,
        points: &'a Points,
        pandofs: &'a Path,
        cluster: &'a Path,
        part: &'a str,
    ) -> Hunt<'a> {
        Hunt {
            client,
            points,
            servers: client.status().iter().map(|(id, _)| *id).collect(),
            pandofs,
            cluster,
            part,
            state: Mutex::default(),
            looking: Mutex::new(()),
        }
    }

    fn looking(&self) -> MutexGuard<'_, ()> {
        self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn servers(&self) -> &[ServerId] {
        &self.servers
    }

    /// Points at which servers have died.
    pub(super) fn done(&self) -> BTreeSet<String> {
        self.state().done.clone()
    }

    /// Points that servers have passed and none has died at.
    ///
    /// # Errors
    /// Fails if the notes cannot be read.
    pub(super) fn left(&self) -> Result<BTreeSet<String>> {
        let mut left = self.points.seen(&self.servers)?;
        let state = self.state();
        left.retain(|point| point.contains(self.part) && !state.done.contains(point));
        Ok(left)
    }

    /// Lets all servers die at the next point that is not done.
    fn open(&self) -> Result<()> {
        let mut state = self.state();
        state.is_open = true;
        let spared = state.spared();
        for &server in &self.servers {
            self.points.arm(server, self.part, &spared)?;
        }
        Ok(())
    }

    /// A new round begins: all servers may die again.
    ///
    /// # Errors
    /// Fails if orders cannot be written.
    pub(super) fn begin_round(&self) -> Result<()> {
        self.state().repeated.clear();
        self.open()
    }

    /// Watches over deaths until it is ordered to stop.
    ///
    /// # Errors
    /// Fails if notes cannot be read or orders be written.
    pub(super) fn watch(&self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::SeqCst) {
            self.look(&mut self.state())?;
            thread::sleep(ASK_INTERVAL);
        }
        Ok(())
    }

    /// Takes note of deaths, and gives the orders that they call for.
    fn look(&self, state: &mut State) -> Result<()> {
        for &server in &self.servers {
            let died = self.points.died(server)?;
            let known = state.deaths.entry(server).or_default();
            if died.len() == *known {
                continue;
            }
            for point in &died[*known..] {
                state
                    .recent
                    .push(format!("server {server} died at '{point}'"));
                if !state.done.insert(point.clone()) {
                    *state.repeated.entry(point.clone()).or_default() += 1;
                }
                state.dead_at.insert(point.clone());
            }
            *known = died.len();
            if state.is_open {
                self.arm_for_recovery(state, server)?;
            }
        }
        Ok(())
    }

    /// Now it is about what comes up in the recovery, also the dead one's own.
    fn arm_for_recovery(&self, state: &mut State, dead: ServerId) -> Result<()> {
        let again = state.again.entry(dead).or_default();
        *again += 1;
        let is_enough = *again > MOST_AGAIN;
        for &server in &self.servers {
            if server != dead || !is_enough {
                self.points.arm(server, self.part, &state.done)?;
            }
        }
        Ok(())
    }

    fn disarm_all(&self) -> Result<()> {
        for &server in &self.servers {
            self.points.disarm(server)?;
        }
        Ok(())
    }

    /// Looks at everything if a server has died since it was last looked at: all servers come back
    /// and to rest, `verify` succeeds, and fsck finds nothing. Then all are given orders again.
    ///
    /// # Errors
    /// Anything that is wrong, and after which deaths.
    pub(super) fn check(&self, verify: impl FnOnce() -> Result<()>) -> Result<()> {
        let _looking = self.looking();
        {
            let mut state = self.state();
            self.look(&mut state)?;
            if state.recent.is_empty() {
                return Ok(());
            }
        }
        self.look_at_everything(verify)
            .with_context(|| format!("after this: {}", self.state().recent.join(", ")))?;
        let seen = self.points.seen(&self.servers)?;
        let mut state = self.state();
        let deaths = std::mem::take(&mut state.dead_at);
        for point in &seen {
            if !state.seen.contains(point) && !deaths.contains(point) {
                state.came_after.insert(point.clone(), deaths.clone());
            }
        }
        state.seen = seen;
        state.recent.clear();
        state.again.clear();
        drop(state);
        self.open()
    }

    /// Until all servers are at rest and none has an order.
    fn end_orders(&self) -> Result<()> {
        // Recovery has points of its own.
        self.wait_for_rest()?;
        self.state().is_open = false;
        self.disarm_all()?;
        self.wait_until(|| {
            Ok(self
                .servers
                .iter()
                .all(|&server| !self.points.has_order(server)))
        })
        .context("servers do not take their orders")?;
        // One may have died just before it took it.
        self.wait_for_rest()
    }

    /// Looks at everything a last time: no server is to die after it.
    ///
    /// # Errors
    /// Anything that is wrong, and after which deaths.
    pub(super) fn end(&self) -> Result<()> {
        // Work without a client, as a flush, has points too.
        self.end_orders()?;
        self.check(|| Ok(()))?;
        self.end_orders()
    }

    fn look_at_everything(&self, verify: impl FnOnce() -> Result<()>) -> Result<()> {
        self.end_orders()?;
        // Copies for a split that was given up stay for a minute: the fsck at the end waits for that.
        fsck(self.pandofs, self.cluster, Some(PATIENCE))?;
        verify()
    }

    /// Until every server answers and no distributed operation is under way, and none has died
    /// meanwhile.
    fn wait_for_rest(&self) -> Result<()> {
        let deaths = || {
            let mut state = self.state();
            self.look(&mut state)?;
            anyhow::Ok(state.recent.len())
        };
        self.wait_until(|| {
            let before = deaths()?;
            let statuses = self.client.status();
            let is_quiet = statuses.iter().all(|(_, status)| {
                status.as_ref().is_ok_and(|status| {
                    let mut shards = status.shards.iter();
                    shards.all(|shard| shard.undecided == 0 && shard.waiting == 0)
                })
            });
            Ok(is_quiet && deaths()? == before)
        })
        .context("servers are not back and at rest")
    }

    fn wait_until(&self, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !condition()? {
            ensure!(
                begun.elapsed() < BACK_LIMIT,
                "waited for {} s",
                BACK_LIMIT.as_secs()
            );
            thread::sleep(ASK_INTERVAL);
        }
        Ok(())
    }

    /// Kills a server from outside, wherever it is.
    ///
    /// # Errors
    /// Fails if it does not answer in time, or cannot be killed.
    pub(super) fn kill(&self, victim: ServerId) -> Result<()> {
        let _looking = self.looking();
        let pid = Pid::from_raw(self.pid(victim)?.cast_signed()).context("no process")?;
        // It may just have died by itself.
        match kill_process(pid, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error).with_context(|| format!("cannot kill {victim}")),
        }
        let mut state = self.state();
        state.recent.push(format!("server {victim} was killed"));
        match state.is_open {
            true => self.arm_for_recovery(&mut state, victim),
            false => Ok(()),
        }
    }

    fn pid(&self, server: ServerId) -> Result<u32> {
        let begun = Instant::now();
        loop {
            let found = self
                .client
                .status()
                .into_iter()
                .find(|(id, _)| *id == server);
            match found {
                Some((_, Ok(status))) => return Ok(status.pid),
                Some((_, Err(error))) if begun.elapsed() > BACK_LIMIT => {
                    return Err(error).with_context(|| format!("server {server} is not back"));
                }
                Some(_) => thread::sleep(ASK_INTERVAL),
                None => bail!("there is no server {server}"),
            }
        }
    }
}
