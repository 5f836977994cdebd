//! One server is killed in the middle of the work, and `up` starts it again.

use super::Plan;
use super::cluster_view::ClusterView;
use super::crowd::{Crowd, Job};
use super::show::Show;
use crate::admin::AdminConnection;
use crate::units;
use anyhow::{Context, Result, bail, ensure};
use pandofs_placement::ServerInfo;
use pandofs_types::ServerId;
use rustix::process::{Pid, Signal, kill_process};
use std::ops::Range;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// How long the killed server may take until it answers again.
const BACK_TIMEOUT: Duration = Duration::from_secs(60);
/// How often it is asked.
const ASK_INTERVAL: Duration = Duration::from_millis(20);

/// Result of the crash.
#[derive(Clone, Debug)]
pub(super) struct Crash {
    server: ServerId,
    log_bytes: u64,
    /// From the kill until it answered again.
    away: Duration,
    /// The longest time without a file made while it happened.
    pause: Duration,
    /// The whole work.
    pub work: Duration,
}

impl Crash {
    pub(super) fn describe(&self) -> String {
        format!(
            "Server {} was killed with SIGKILL with {} of log: it answered again after {}; the longest \
             pause of the work was {}.",
            self.server,
            units::bytes(self.log_bytes),
            units::duration(self.away),
            units::duration(self.pause)
        )
    }
}

/// Makes `files` and kills a server when a third of them is there.
///
/// # Errors
/// When a program got an error, or the server did not come back.
pub(super) fn run(
    plan: &Plan,
    crowd: &Crowd,
    files: Range<u64>,
    show: &Show,
    view: &ClusterView,
) -> Result<Crash> {
    let victim = plan
        .cluster
        .map
        .servers
        .last()
        .context("a cluster without servers")?;
    let total = files.end - files.start;
    let title = format!(
        "create {} more, and kill server {} (kill -9) in the middle",
        units::count(total),
        victim.id
    );
    let step = show.step(&title, Some(total));
    let mut killed: Option<(u64, Receiver<Result<Duration>>)> = None;
    let mut away = None;
    let (mut last_count, mut last_change, mut pause) = (0, Instant::now(), Duration::ZERO);
    let work = crowd.run_watched(Job::Create, files, &step, Some(view), &mut |done, step| {
        if done > last_count {
            if killed.is_some() {
                pause = pause.max(last_change.elapsed());
            }
            (last_count, last_change) = (done, Instant::now());
        }
        match &killed {
            None if done >= total / 3 => {
                let (log_bytes, back) = kill(plan, victim)?;
                step.note(&format!(
                    "killed server {}; the work waits for it",
                    victim.id
                ));
                killed = Some((log_bytes, back));
            }
            Some((_, back)) if away.is_none() => {
                if let Ok(answered) = back.try_recv() {
                    let after = answered?;
                    let text = units::duration(after);
                    step.note(&format!("server {} answers again after {text}", victim.id));
                    away = Some(after);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    let Some((log_bytes, back)) = killed else {
        bail!("the work was over before a server could be killed: give more --files");
    };
    // The work may have ended without needing that server again.
    let away = match away {
        Some(away) => away,
        None => back
            .recv_timeout(BACK_TIMEOUT)
            .context("waiting for the killed server")??,
    };
    let crash = Crash {
        server: victim.id,
        log_bytes,
        away,
        pause,
        work,
    };
    step.finish(&format!(
        "no program noticed more than a pause of {}",
        units::duration(pause)
    ));
    Ok(crash)
}

/// Kills the server. Its bytes of log, and where it is told how long it was away.
fn kill(plan: &Plan, victim: &ServerInfo) -> Result<(u64, Receiver<Result<Duration>>)> {
    let fs = plan.cluster.map.fs;
    let status = AdminConnection::open(fs, victim)
        .and_then(|mut server| server.status())
        .with_context(|| format!("server {} does not answer", victim.id))?;
    let pid = Pid::from_raw(status.pid.cast_signed()).context("a server without a process")?;
    kill_process(pid, Signal::KILL)
        .with_context(|| format!("cannot kill server {} (pid {})", victim.id, status.pid))?;
    let killed_at = Instant::now();
    let (sender, back) = mpsc::channel();
    let victim = victim.clone();
    let old_pid = status.pid;
    std::thread::Builder::new()
        .name("waiting for the killed server".into())
        .spawn(move || {
            let answered = wait_until_back(fs, &victim, old_pid, killed_at);
            // The channel has no receiver when the demo has failed meanwhile.
            let _ = sender.send(answered);
        })
        .context("cannot start a thread")?;
    Ok((status.log_bytes, back))
}

fn wait_until_back(
    fs: pandofs_types::FsId,
    victim: &ServerInfo,
    old_pid: u32,
    killed_at: Instant,
) -> Result<Duration> {
    loop {
        let asked = AdminConnection::open(fs, victim).and_then(|mut server| server.status());
        if asked.is_ok_and(|status| status.pid != old_pid) {
            return Ok(killed_at.elapsed());
        }
        ensure!(
            killed_at.elapsed() < BACK_TIMEOUT,
            "server {} did not come back within {}",
            victim.id,
            units::duration(BACK_TIMEOUT)
        );
        std::thread::sleep(ASK_INTERVAL);
    }
}
