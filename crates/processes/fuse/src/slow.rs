//! Slow requests of the kernel: told to the log, with the servers that they waited for.

use crate::limits::{MAX_SLOW_LINES, SLOW_LINES_PERIOD, STILL_SLOW};
use crate::request_times::kind_name;
use pandofs_client::waited_for_servers;
use pandofs_fuse_kernel::{Header, Operation};
use pandofs_metrics::LineLimit;
use pandofs_types::{Ino, ServerId};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The log of one mount.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// Requests that take longer are logged; 0: none.
    slow: Duration,
    lines: Mutex<LineLimit>,
}

/// A request that is watched, on the thread that has it.
#[derive(Debug)]
pub(crate) struct Watched {
    log: Arc<SlowLog>,
    begun: Instant,
    kind: &'static str,
    node: Ino,
    name: Option<Box<[u8]>>,
    process: u32,
    /// It is logged when it has taken so many times as long as a slow one.
    told_next: AtomicU32,
}

impl SlowLog {
    pub(crate) fn new(slow: Duration) -> Arc<SlowLog> {
        let lines = LineLimit::new(MAX_SLOW_LINES, SLOW_LINES_PERIOD);
        Arc::new(SlowLog {
            slow,
            lines: Mutex::new(lines),
        })
    }

    /// To be called on the thread that has the request, when it takes it; `None` if nothing is to be logged.
    pub(crate) fn watch(
        self: &Arc<SlowLog>,
        header: &Header,
        operation: &Operation<'_>,
    ) -> Option<Watched> {
        if self.slow.is_zero() {
            return None;
        }
        Some(Watched {
            log: Arc::clone(self),
            begun: Instant::now(),
            kind: kind_name(operation),
            node: Ino(header.node),
            name: name_of(operation).map(Box::from),
            process: header.pid,
            told_next: AtomicU32::new(STILL_SLOW),
        })
    }

    fn say(&self, now: Instant, line: impl FnOnce() -> String) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let left_out = lines.take_left_out(now);
        let may_say = lines.may_say(now);
        drop(lines);
        if let Some(left_out) = left_out {
            tracing::warn!("slow: {left_out} more slow operations were not named here");
        }
        if may_say {
            tracing::warn!("slow: {}", line());
        }
    }
}

impl Watched {
    /// It goes on waiting; called again and again.
    pub(crate) fn waits(&self) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.begun);
        let next = self.told_next.load(Ordering::Relaxed);
        if took < self.log.slow * next {
            return;
        }
        self.told_next
            .store(next.saturating_mul(2), Ordering::Relaxed);
        self.log.say(now, || {
            let (waited, waits_for) = waited_for_servers();
            let waits = waits_for.map_or(String::new(), |server| {
                format!(" and waits for server {server}")
            });
            let took = seconds(took);
            self.text(&format!("is under way for {took}{waits}"), &waited)
        });
    }

    /// It has ended.
    pub(crate) fn ended(&self) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.begun);
        if took >= self.log.slow {
            let (waited, _) = waited_for_servers();
            let took = format!("took {}", seconds(took));
            self.log.say(now, || self.text(&took, &waited));
        }
    }

    /// `create of 'name' in directory 1.7 (process 12) took 2.100 s: of it 2.000 s for server 1`
    fn text(&self, state: &str, waited: &[(ServerId, Duration)]) -> String {
        let kind = self.kind.to_ascii_lowercase();
        let object = match &self.name {
            Some(name) => format!("'{}' in directory {}", name.escape_ascii(), self.node),
            None => format!("inode {}", self.node),
        };
        let parts: Vec<String> = waited
            .iter()
            .map(|(server, time)| format!("{} for server {server}", seconds(*time)))
            .collect();
        let parts = match parts.is_empty() {
            true => "it has waited for no server".to_owned(),
            false => format!("of it {}", parts.join(", ")),
        };
        let process = self.process;
        format!("{kind} of {object} (process {process}) {state}: {parts}")
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// The name that a request is about.
pub(crate) fn name_of<'a>(operation: &Operation<'a>) -> Option<&'a [u8]> {
    use std::os::unix::ffi::OsStrExt;
    let name = match operation {
        Operation::Lookup { name }
        | Operation::Symlink { name, .. }
        | Operation::Unlink { name }
        | Operation::Rmdir { name }
        | Operation::Link { name, .. } => name,
        Operation::Mknod(made, _) | Operation::Mkdir(made) | Operation::Create(made, _) => {
            made.name
        }
        Operation::Rename(rename) => rename.name,
        _ => return None,
    };
    Some(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(slow: Duration, ago: Duration) -> Watched {
        Watched {
            log: SlowLog::new(slow),
            begun: Instant::now().checked_sub(ago).unwrap(),
            kind: "Create",
            node: Ino(1),
            name: Some(Box::from(&b"le\xfff"[..])),
            process: 12,
            told_next: AtomicU32::new(STILL_SLOW),
        }
    }

    #[test]
    fn a_line_names_what_was_done_and_the_servers_that_it_waited_for() {
        let watched = watched(Duration::from_secs(1), Duration::ZERO);
        let waited = [
            (ServerId(3), Duration::from_millis(1_500)),
            (ServerId(0), Duration::from_millis(20)),
        ];
        assert_eq!(
            watched.text("took 1.600 s", &waited),
            "create of 'le\\xfff' in directory 0.1 (process 12) took 1.600 s: \
             of it 1.500 s for server 3, 0.020 s for server 0"
        );
    }

    #[test]
    fn a_request_that_waits_is_told_of_again_when_it_has_waited_twice_as_long() {
        let watched = watched(Duration::from_secs(1), Duration::from_secs(7));
        let next = || watched.told_next.load(Ordering::Relaxed);
        watched.waits();
        assert_eq!(next(), 2 * STILL_SLOW);
        watched.waits();
        assert_eq!(next(), 2 * STILL_SLOW, "it is not told of at each look");
    }
}
