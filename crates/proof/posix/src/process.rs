//! Processes that a case forks: other users, and peers that do something at the same time.
//!
//! The suite has one thread (`main` asserts it), so that a forked child may do all that its parent
//! may.

use crate::case::{Failure, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities};
use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Time that anything which has to happen may take, before the case fails; nothing is slow by this
/// much.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A user: its own group has the same number.
#[derive(Clone, Copy)]
pub(crate) struct Who {
    pub uid: u32,
    pub groups: &'static [u32],
}

impl Who {
    /// The same user with supplementary groups.
    pub(crate) const fn with(self, groups: &'static [u32]) -> Who {
        Who {
            uid: self.uid,
            groups,
        }
    }
}

// Numbers of no user; the system need not know them.
pub(crate) const ANN: Who = Who {
    uid: 61_001,
    groups: &[],
};
pub(crate) const BOB: Who = Who {
    uid: 61_002,
    groups: &[],
};
pub(crate) const EVE: Who = Who {
    uid: 61_003,
    groups: &[],
};
pub(crate) const CREW: u32 = 62_001;
pub(crate) const CLUB: u32 = 62_002;

/// Runs a part of a case as another user, in a child that has no capabilities then.
pub(crate) fn as_user(who: Who, body: impl FnOnce() -> Outcome) -> Outcome {
    in_child(|| {
        become_user(who)?;
        body()
    })
}

/// Runs a part of a case as another user, in a child that has these capabilities and no others.
pub(crate) fn with_capabilities(
    who: Who,
    set: CapabilitySet,
    body: impl FnOnce() -> Outcome,
) -> Outcome {
    in_child(|| {
        let kept = set_keep_capabilities(true);
        crate::case::holds("PR_SET_KEEPCAPS", kept.is_ok(), "success", kept)?;
        become_user(who)?;
        keep_capabilities(set)?;
        body()
    })
}

/// Gives up all capabilities but these for good.
pub(crate) fn keep_capabilities(set: CapabilitySet) -> Outcome {
    let sets = CapabilitySets {
        effective: set,
        permitted: set,
        inheritable: CapabilitySet::empty(),
    };
    let done = set_capabilities(None, sets);
    crate::case::holds("capset()", done.is_ok(), "success", done)
}

/// Gives up root for good. No process but a child that ends soon should.
pub(crate) fn become_user(who: Who) -> Outcome {
    become_ids((who.uid, who.uid), who.uid, who.groups)
}

/// Real and effective user (the saved one as the effective), group, supplementary groups.
pub(crate) fn become_ids((real, effective): (u32, u32), group: u32, groups: &[u32]) -> Outcome {
    // SAFETY: the pointer and the length are those of a slice; the others take numbers.
    let done = unsafe {
        libc::setgroups(groups.len(), groups.as_ptr()) == 0
            && libc::setresgid(group, group, group) == 0
            && libc::setresuid(real, effective, effective) == 0
    };
    crate::case::holds(
        "setresuid()",
        done,
        "success",
        std::io::Error::last_os_error(),
    )
}

/// Runs a part of a case in a process of its own.
pub(crate) fn in_child(body: impl FnOnce() -> Outcome) -> Outcome {
    Peer::start(|_| body())?.join()
}

/// A process that runs a part of a case at the same time as the rest.
pub(crate) struct Peer {
    pid: Pid,
    line: Line,
    report: OwnedFd,
}

/// Line between two processes: bytes through pipes.
pub(crate) struct Line {
    to: OwnedFd,
    from: OwnedFd,
}

impl Line {
    /// Lets the other side's `hear` return.
    pub(crate) fn tell(&self) -> Outcome {
        let written = write(&self.to, b"!");
        crate::case::holds(
            "tell another process",
            written == Ok(1),
            "a byte sent",
            written,
        )
    }

    /// Waits for the other side's `tell`.
    pub(crate) fn hear(&self) -> Outcome {
        let ready = wait_readable(&self.from, PATIENCE);
        let heard = ready && read(&self.from, &mut [0]) == Ok(1);
        crate::case::holds("wait for another process", heard, "its sign", "none")
    }

    /// Returns whether the other side has sent something that was not received yet.
    fn has_news(&self) -> bool {
        wait_readable(&self.from, Duration::ZERO)
    }
}

impl Peer {
    pub(crate) fn start(body: impl FnOnce(&Line) -> Outcome) -> Outcome<Peer> {
        let (their_from, our_to) = new_pipe()?;
        let (our_from, their_to) = new_pipe()?;
        let (report, their_report) = new_pipe()?;
        // SAFETY: the process has one thread, so the child is as whole as the parent.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop((our_to, our_from, report));
            let line = Line {
                to: their_to,
                from: their_from,
            };
            end_with(&their_report, || body(&line));
        }
        let pid = Pid::from_raw(pid).filter(|_| pid > 0);
        let pid = pid.ok_or_else(|| Failure::wrong("fork()", "success", "failure".to_owned()))?;
        let line = Line {
            to: our_to,
            from: our_from,
        };
        Ok(Peer { pid, line, report })
    }

    pub(crate) fn tell(&self) -> Outcome {
        self.line.tell()
    }

    pub(crate) fn hear(&self) -> Outcome {
        self.line.hear()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits until the peer is in the system call of this number and sleeps there, and checks that
    /// it has sent nothing, that is, that the call has not returned.
    pub(crate) fn is_held_in(&self, call: libc::c_long) -> Outcome {
        let begins = format!("{call} ");
        wait_until("the other process to wait in its call", || {
            let at = fs::read_to_string(format!("/proc/{}/syscall", self.pid()));
            self.line.has_news() || at.is_ok_and(|it| it.starts_with(&begins))
        })?;
        let went_on = self.line.has_news();
        crate::case::holds(
            "a call that has to wait",
            !went_on,
            "it waits",
            "it returned",
        )
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(self) -> Outcome {
        let killed = kill_process(self.pid, Signal::KILL);
        let waited = waitpid(Some(self.pid), WaitOptions::empty());
        let done = killed.is_ok() && waited.is_ok();
        crate::case::holds("kill another process", done, "success", (killed, waited))
    }

    /// Returns how its part ended.
    pub(crate) fn join(self) -> Outcome {
        match receive(&self.report, PATIENCE) {
            Some(outcome) => {
                let waited = waitpid(Some(self.pid), WaitOptions::empty());
                outcome?;
                crate::case::holds("wait for a child", waited.is_ok(), "its end", waited)
            }
            None => Err(Failure::wrong(
                "another process of this case",
                "it ends by itself",
                self.how_it_ended(),
            )),
        }
    }

    /// Waits for its end by a signal, and gives the signal's number; none if it ended otherwise.
    pub(crate) fn signal_that_ended_it(self) -> Option<i32> {
        let ended = waitpid(Some(self.pid), WaitOptions::empty()).ok().flatten();
        ended.and_then(|(_, status)| status.terminating_signal())
    }

    fn how_it_ended(&self) -> String {
        match waitpid(Some(self.pid), WaitOptions::NOHANG) {
            Ok(Some((_, status))) => format!("{status:?}"),
            Ok(None) => {
                let _ = kill_process(self.pid, Signal::KILL);
                format!("it was still running after {} s", PATIENCE.as_secs())
            }
            Err(errno) => format!("{errno}"),
        }
    }
}

/// Polls until `is_so`.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Outcome {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > deadline {
            let found = format!("nothing within {} s", PATIENCE.as_secs());
            return Err(Failure::wrong(format!("wait for {what}"), what, found));
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// Runs the body, reports how it ended, and ends this process.
pub(crate) fn end_with(report: &OwnedFd, body: impl FnOnce() -> Outcome) -> ! {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        Err(Failure::wrong(
            "the case itself",
            "no panic",
            panic_text(&*panic),
        ))
    });
    let mut text = serde_json::to_vec(&outcome).unwrap_or_default();
    text.push(b'\n');
    let mut rest = &text[..];
    while let Ok(done) = write(report, rest)
        && done < rest.len()
    {
        rest = &rest[done..];
    }
    // SAFETY: ends the process at once; what the parent had buffered is not written twice.
    unsafe { libc::_exit(0) }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic".to_owned())
}

/// Returns the report of `end_with`; none if the process ended without, or not in time.
pub(crate) fn receive(report: &OwnedFd, patience: Duration) -> Option<Outcome> {
    let deadline = Instant::now() + patience;
    let mut text = Vec::new();
    let mut buffer = [0; 4_096];
    while text.last() != Some(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        if !wait_readable(report, left) {
            return None;
        }
        match read(report, &mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(count) => text.extend_from_slice(&buffer[..count]),
        }
    }
    serde_json::from_slice(&text).ok()
}

fn wait_readable(fd: &impl AsFd, patience: Duration) -> bool {
    let limit = Timespec::try_from(patience).ok();
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, limit.as_ref()).is_ok_and(|count| count > 0)
}

pub(crate) fn new_pipe() -> Outcome<(OwnedFd, OwnedFd)> {
    pipe_with(PipeFlags::CLOEXEC)
        .map_err(|errno| Failure::wrong("pipe2()", "success", errno.to_string()))
}
