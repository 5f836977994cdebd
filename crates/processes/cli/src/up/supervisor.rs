//! Starts the children in order, watches over them, and stops them in order.

use super::child::{Recipe, Role, Running, describe_end};
use super::voice::Voice;
use crate::error_text::error_text;
use crate::killed;
use crate::signals::{self, Signal};
use anyhow::{Context, Result, bail};
use rustix::process::Signal as Kill;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How long a child may take until it serves: a server replays its log, a mount asks the servers.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a child may take to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// The first pause before a child that keeps failing is started again; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A child that gives up sooner than this after it began to serve has failed like one that never did: it
/// serves until it comes across what is wrong, and would do so again and again.
const PROBATION: Duration = Duration::from_secs(10);

/// The time between looks for servers that have joined and for a mount that was killed and cannot end.
const LOOK: Duration = Duration::from_secs(1);

/// The processes to run.
pub(crate) struct Plan {
    pub servers: Vec<Recipe>,
    /// All servers of the cluster as it is now, if it has changed since this was asked last.
    pub joined: Box<dyn FnMut() -> Option<Vec<Recipe>>>,
    pub mount: Option<Recipe>,
    /// Where it mounts.
    pub mount_point: Option<PathBuf>,
    /// Start children again that end by themselves.
    pub restart: bool,
    /// Run when everything serves; when it ends everything is stopped.
    pub command: Vec<OsString>,
}

/// Why it stopped, when it stopped cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A signal asked for it.
    Signal,
    /// The command ended with this code.
    Command(u8),
}

#[derive(Debug)]
enum Event {
    Signal(Signal),
    /// The child started for the `start`th time serves.
    Ready {
        role: Role,
        start: u32,
    },
}

impl From<Signal> for Event {
    fn from(signal: Signal) -> Event {
        Event::Signal(signal)
    }
}

/// One child over all its lives.
struct Member {
    recipe: Recipe,
    running: Option<Running>,
    /// Times it was started.
    starts: u32,
    started_at: Instant,
    /// Since when it serves.
    ready: Option<Instant>,
    /// Starts in a row that did not come to serve, or not for long.
    failures: u32,
    restart_at: Option<Instant>,
}

/// Cause for which the loop woke up.
enum Wake {
    Stop(&'static str),
    Ready(Role),
    Ended(Role, u32, ExitStatus),
    CommandEnded(ExitStatus),
    Timeout,
}

struct Supervisor<'v> {
    members: Vec<Member>,
    command: Option<Child>,
    mount_point: Option<PathBuf>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    voice: &'v mut Voice,
}

/// Runs the plan until a signal, or the end of its command, stops it. `announce` is called once
/// everything serves.
///
/// # Errors
/// When a child does not come to serve at the start, or something did not stop by itself; everything
/// is stopped then too.
pub(crate) fn supervise(
    plan: Plan,
    voice: &mut Voice,
    announce: impl FnOnce(&mut Voice),
) -> Result<End> {
    let (sender, events) = mpsc::channel();
    signals::forward(sender.clone())?;
    let mut members = Vec::new();
    for recipe in plan.servers.into_iter().chain(plan.mount) {
        members.push(Member::new(recipe));
    }
    let mut supervisor = Supervisor {
        members,
        command: None,
        mount_point: plan.mount_point,
        events,
        sender,
        voice,
    };
    let mut joined = plan.joined;
    let ran = supervisor.run(plan.restart, &plan.command, announce, &mut *joined);
    let stopped = supervisor.stop();
    let end = ran?;
    stopped?;
    Ok(end)
}

impl Member {
    fn new(recipe: Recipe) -> Member {
        Member {
            recipe,
            running: None,
            starts: 0,
            started_at: Instant::now(),
            ready: None,
            failures: 0,
            restart_at: None,
        }
    }
}

impl Supervisor<'_> {
    fn run(
        &mut self,
        restart: bool,
        command: &[OsString],
        announce: impl FnOnce(&mut Voice),
        joined: &mut dyn FnMut() -> Option<Vec<Recipe>>,
    ) -> Result<End> {
        for is_mount in [false, true] {
            if let Some(signal) = self.start_all(is_mount)? {
                self.voice.note(&format!("{signal}: stopping"));
                return Ok(End::Signal);
            }
        }
        announce(self.voice);
        crate::daemon::tell_systemd_ready();
        if let [program, arguments @ ..] = command {
            let child = Command::new(program)
                .args(arguments)
                .spawn()
                .with_context(|| format!("cannot run {}", program.display()))?;
            self.command = Some(child);
        }
        self.watch(restart, joined)
    }

    /// Starts the servers, or the mount, and waits until they serve; or for the name of the signal
    /// that stopped it.
    fn start_all(&mut self, mount: bool) -> Result<Option<&'static str>> {
        let chosen: Vec<usize> = (0..self.members.len())
            .filter(|&at| (self.members[at].recipe.role == Role::Mount) == mount)
            .collect();
        for &at in &chosen {
            self.start(at)?;
        }
        let deadline = Instant::now() + START_TIMEOUT;
        while let Some(waiting) = chosen.iter().find(|&&at| self.members[at].ready.is_none()) {
            match self.next(Some(deadline))? {
                Wake::Stop(signal) => return Ok(Some(signal)),
                Wake::Ended(role, pid, status) => {
                    let recipe = &self.members[self.index(role)].recipe;
                    bail!(
                        "{role} (pid {pid}) {} while starting; the end of its log {}:{}",
                        describe_end(status),
                        recipe.log.display(),
                        recipe.log_end()
                    );
                }
                Wake::Timeout => {
                    let recipe = &self.members[*waiting].recipe;
                    bail!(
                        "{} did not come to serve within {} s; the end of its log {}:{}",
                        recipe.role,
                        START_TIMEOUT.as_secs(),
                        recipe.log.display(),
                        recipe.log_end()
                    );
                }
                Wake::Ready(_) | Wake::CommandEnded(_) => {}
            }
        }
        Ok(None)
    }

    /// Until a signal or the end of the command.
    fn watch(
        &mut self,
        restart: bool,
        joined: &mut dyn FnMut() -> Option<Vec<Recipe>>,
    ) -> Result<End> {
        let mut next_look = Instant::now() + LOOK;
        loop {
            let due = self
                .members
                .iter()
                .filter_map(|member| member.restart_at)
                .fold(next_look, Instant::min);
            match self.next(Some(due))? {
                Wake::Stop(signal) => {
                    self.voice.note(&format!("{signal}: stopping"));
                    if let Some(status) = self.end_command()? {
                        return Ok(End::Command(code_of(status)));
                    }
                    return Ok(End::Signal);
                }
                Wake::CommandEnded(status) => return Ok(End::Command(code_of(status))),
                Wake::Ready(role) => {
                    let member = &self.members[self.index(role)];
                    let took = member.started_at.elapsed().as_secs_f64();
                    let serves = match member.starts {
                        1 => "serves",
                        _ => "serves again",
                    };
                    self.voice
                        .note(&format!("{role} {serves}, {took:.2} s after its start"));
                }
                Wake::Ended(role, pid, status) => self.ended(role, pid, status, restart),
                Wake::Timeout => self.start_due(),
            }
            if next_look <= Instant::now() {
                next_look = Instant::now() + LOOK;
                self.free_killed_mount();
                if let Some(servers) = joined() {
                    self.start_joined(servers);
                }
            }
        }
    }

    /// A mount that was killed while programs use it may not be able to end.
    fn free_killed_mount(&mut self) {
        let is_ending = self
            .running(true)
            .any(|(_, running)| killed::is_ending(running.pid()));
        if let Some(point) = self.mount_point.as_ref().filter(|_| is_ending)
            && let Err(error) = killed::abort(point)
        {
            self.voice.problem(&error_text(&error));
            // It will not go better.
            self.mount_point = None;
        }
    }

    /// A child has ended by itself while everything was to run.
    fn ended(&mut self, role: Role, pid: u32, status: ExitStatus, restart: bool) {
        let end = describe_end(status);
        let at = self.index(role);
        let member = &mut self.members[at];
        let log = member.recipe.log.display().to_string();
        if role == Role::Mount && status.success() {
            self.voice.note(
                "the mount was unmounted; the servers go on. To have it back, start 'up' again, or use \
                 'pandofs mount'",
            );
            return;
        }
        if !restart {
            self.voice
                .problem(&format!("{role} (pid {pid}) {end}; its log is {log}"));
            return;
        }
        let pause = match member.failures {
            0 => Duration::ZERO,
            // For ever: a disk may be well again, or a copy may be put in the place of what is damaged.
            failures => FIRST_PAUSE
                .saturating_mul(2_u32.saturating_pow(failures - 1))
                .min(LONGEST_PAUSE),
        };
        member.restart_at = Some(Instant::now() + pause);
        let when = match pause {
            Duration::ZERO => "starting it again".to_owned(),
            pause => format!(
                "starting it again in {:.1} s; its log is {log}",
                pause.as_secs_f64()
            ),
        };
        self.voice
            .warn(&format!("{role} (pid {pid}) {end}: {when}"));
    }

    /// Starts what is due.
    fn start_due(&mut self) {
        let now = Instant::now();
        for at in 0..self.members.len() {
            if self.members[at].restart_at.is_some_and(|due| due <= now) {
                self.members[at].restart_at = None;
                if let Err(error) = self.start(at) {
                    self.voice.problem(&error_text(&error));
                }
            }
        }
    }

    /// Starts those of the servers that are not known yet.
    fn start_joined(&mut self, servers: Vec<Recipe>) {
        for recipe in servers {
            let role = recipe.role;
            if self.members.iter().any(|known| known.recipe.role == role) {
                continue;
            }
            self.voice.note(&format!("{role} has joined: starting it"));
            self.members.push(Member::new(recipe));
            if let Err(error) = self.start(self.members.len() - 1) {
                self.voice.problem(&error_text(&error));
            }
        }
    }

    fn start(&mut self, at: usize) -> Result<()> {
        let member = &mut self.members[at];
        member.starts += 1;
        member.started_at = Instant::now();
        member.ready = None;
        let (role, start, sender) = (member.recipe.role, member.starts, self.sender.clone());
        // The channel has no receiver once everything has stopped.
        let ready = move || drop(sender.send(Event::Ready { role, start }));
        member.running = Some(member.recipe.start(ready)?);
        Ok(())
    }

    fn index(&self, role: Role) -> usize {
        let index = self
            .members
            .iter()
            .position(|member| member.recipe.role == role);
        index.unwrap_or_else(|| panic!("no child for {role}"))
    }

    /// Waits for the next thing to happen, until `deadline` if there is one.
    fn next(&mut self, deadline: Option<Instant>) -> Result<Wake> {
        loop {
            if let Some(wake) = self.reap()? {
                return Ok(wake);
            }
            let event = match deadline {
                None => self.events.recv().context("no more events")?,
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    match self.events.recv_timeout(left) {
                        Ok(event) => event,
                        Err(RecvTimeoutError::Timeout) => return Ok(Wake::Timeout),
                        Err(RecvTimeoutError::Disconnected) => bail!("no more events"),
                    }
                }
            };
            match event {
                Event::Signal(Signal::Stop(name)) => return Ok(Wake::Stop(name)),
                Event::Signal(Signal::Child) => {}
                Event::Ready { role, start } => {
                    let at = self.index(role);
                    let member = &mut self.members[at];
                    // Of an earlier life: it has ended since.
                    if member.starts == start && member.running.is_some() {
                        member.ready = Some(Instant::now());
                        return Ok(Wake::Ready(role));
                    }
                }
            }
        }
    }

    /// The next child that has ended. Signals of one kind merge, so one may stand for several ends:
    /// all are looked at before the next event is waited for.
    fn reap(&mut self) -> Result<Option<Wake>> {
        for member in &mut self.members {
            let Some(running) = &mut member.running else {
                continue;
            };
            if let Some(status) = running.ended()? {
                let pid = running.pid();
                member.running = None;
                if has_failed(status, member.ready.map(|since| since.elapsed())) {
                    member.failures += 1;
                } else {
                    member.failures = 0;
                }
                member.ready = None;
                return Ok(Some(Wake::Ended(member.recipe.role, pid, status)));
            }
        }
        if let Some(command) = &mut self.command
            && let Some(status) = command
                .try_wait()
                .context("cannot ask for the command's end")?
        {
            self.command = None;
            return Ok(Some(Wake::CommandEnded(status)));
        }
        Ok(None)
    }

    /// The command got the terminal's signal itself, or gets ours; then it may take its time.
    fn end_command(&mut self) -> Result<Option<ExitStatus>> {
        let Some(command) = &self.command else {
            return Ok(None);
        };
        if let Some(pid) = rustix::process::Pid::from_raw(command.id().cast_signed()) {
            // It may have ended a moment ago.
            let _ = rustix::process::kill_process(pid, Kill::TERM);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            match self.next(Some(deadline))? {
                Wake::CommandEnded(status) => return Ok(Some(status)),
                Wake::Timeout => bail!("the command did not end when asked to"),
                Wake::Stop(_) | Wake::Ready(_) | Wake::Ended(..) => {}
            }
        }
    }

    /// Stops the mount, then the servers: the mount may have something to write to them.
    fn stop(&mut self) -> Result<()> {
        let mut killed = Vec::new();
        for mount in [true, false] {
            self.running(mount)
                .for_each(|(_, running)| running.signal(Kill::TERM));
            killed.extend(self.wait_until_stopped(mount)?);
        }
        if !killed.is_empty() {
            bail!("{} did not stop and had to be killed", killed.join(", "));
        }
        Ok(())
    }

    /// The servers, or the mount, that are running.
    fn running(&self, mount: bool) -> impl Iterator<Item = (Role, &Running)> {
        let chosen = self
            .members
            .iter()
            .filter(move |m| (m.recipe.role == Role::Mount) == mount);
        chosen.filter_map(|member| Some((member.recipe.role, member.running.as_ref()?)))
    }

    /// The names of those that had to be killed.
    fn wait_until_stopped(&mut self, mount: bool) -> Result<Vec<String>> {
        let mut deadline = Instant::now() + STOP_TIMEOUT;
        let mut signals = 0;
        let mut killed = Vec::new();
        loop {
            let names: Vec<String> = self
                .running(mount)
                .map(|(role, _)| role.to_string())
                .collect();
            if names.is_empty() {
                return Ok(killed);
            }
            match self.next(Some(deadline))? {
                Wake::Ended(role, pid, status) if !stopped_well(status) && killed.is_empty() => {
                    let end = describe_end(status);
                    self.voice
                        .problem(&format!("{role} (pid {pid}) {end} while stopping"));
                }
                Wake::Stop(_) if signals == 0 => {
                    signals = 1;
                    let names = names.join(", ");
                    self.voice.problem(&format!(
                        "still waiting for {names} to stop; interrupt again to kill"
                    ));
                }
                Wake::Stop(_) | Wake::Timeout => {
                    killed = names;
                    self.running(mount)
                        .for_each(|(_, running)| running.signal(Kill::KILL));
                    self.free_killed_mount();
                    deadline = Instant::now() + LOOK;
                }
                Wake::Ended(..) | Wake::Ready(_) | Wake::CommandEnded(_) => {}
            }
        }
    }
}

/// Whether a child that ended so after it had served for that long, if at all, counts as a start that
/// failed. One that was killed while it served did not.
fn has_failed(status: ExitStatus, served: Option<Duration>) -> bool {
    served.is_none_or(|served| served < PROBATION && status.code().is_some())
}

/// Whether a child that was ordered to stop ended as it should: by itself, or of the signal that
/// ordered it, which it does not catch before it serves.
fn stopped_well(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.success() || status.signal() == Some(Kill::TERM.as_raw())
}

/// Exit code as a shell would give it.
fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn who_dies_of_the_signal_that_stops_it_has_stopped() {
        let ended = |status| stopped_well(ExitStatus::from_raw(status));
        assert!(ended(0) && ended(15));
        assert!(!ended(9) && !ended(1 << 8));
    }

    #[test]
    fn a_server_that_gives_up_soon_has_failed() {
        let gave_up = ExitStatus::from_raw(1 << 8);
        let killed = ExitStatus::from_raw(9);
        let soon = Some(Duration::from_secs(1));
        for (status, served, failed) in [
            (gave_up, None, true),
            (killed, None, true),
            (gave_up, soon, true),
            (killed, soon, false),
            (gave_up, Some(PROBATION), false),
        ] {
            assert_eq!(has_failed(status, served), failed, "{status} {served:?}");
        }
    }
}
