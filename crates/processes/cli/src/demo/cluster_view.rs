//! Picture of a directory's spread over the servers, drawn again and again.

use crate::cmd::dir::Report;
use crate::source::Cluster;
use crate::units;
use crate::{admin, backend};
use anyhow::{Context, Result, ensure};
use pandofs_client::Client;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);
/// Partitions that are drawn each on a line of its own.
const MOST_LINES: usize = 16;

/// Looks at the cluster in the background, so that a server that is away does not hold up the rest.
pub(super) struct ClusterView {
    shared: Arc<Shared>,
    looking: Option<JoinHandle<()>>,
}

struct Shared {
    cluster: Cluster,
    client: Client,
    /// Whether it is over. A condition and not a parked thread: scoped threads, as each look starts some,
    /// end with an unpark, after which the thread would never be parked again.
    over: Mutex<bool>,
    ending: Condvar,
    seen: Mutex<Seen>,
}

/// The state that was seen last.
#[derive(Default)]
struct Seen {
    /// The directory to look at, by its path inside the file system.
    dir: Option<PathBuf>,
    picture: Vec<String>,
    partitions: u32,
    /// Of each server; `None` while it is away.
    entries: Vec<Option<u64>>,
}

impl ClusterView {
    /// Begins to look.
    pub(super) fn new(cluster: &Cluster, client: Client) -> ClusterView {
        let shared = Arc::new(Shared {
            cluster: cluster.clone(),
            client,
            over: Mutex::new(false),
            ending: Condvar::new(),
            seen: Mutex::default(),
        });
        let looking = std::thread::Builder::new().name("view".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                while !shared.is_over_after(LOOK_INTERVAL) {
                    shared.look();
                }
            }
        });
        ClusterView {
            shared,
            looking: looking.ok(),
        }
    }

    /// The picture of a directory on the mount, and the same in a few words.
    pub(super) fn picture(&self, dir: &Path) -> (Vec<String>, String) {
        let mut seen = self.shared.seen();
        let inside = dir.file_name().map(|name| Path::new("/").join(name));
        if seen.dir != inside {
            *seen = Seen {
                dir: inside,
                ..Seen::default()
            };
        }
        let entries: Vec<String> = seen
            .entries
            .iter()
            .map(|entries| entries.map_or("away".into(), units::count))
            .collect();
        let short = format!(
            "(partitions {}; entries per server {})",
            seen.partitions,
            entries.join("  ")
        );
        (seen.picture.clone(), short)
    }

    /// As [`picture`](Self::picture), looking now. Waits for servers that are away.
    pub(super) fn last_picture(&self, dir: &Path) -> (Vec<String>, String) {
        self.picture(dir);
        self.shared.look();
        self.picture(dir)
    }

    /// Requests to shards so far, and of these the redirected ones, on all servers.
    pub(super) fn requests(&self) -> (u64, u64) {
        let views = admin::ask_all(&self.shared.cluster.map);
        let up = views.iter().filter_map(|view| view.status.as_ref().ok());
        up.fold((0, 0), |sum, status| {
            (sum.0 + status.requests, sum.1 + status.redirected)
        })
    }

    /// Checks that a directory is spread evenly over the servers.
    ///
    /// # Errors
    /// When a server has over 10 % more or less than its share, or the directory cannot be asked about.
    pub(super) fn check_spread(&self, dir: &Path) -> Result<()> {
        let name = dir.file_name().context("the directory has no name")?;
        let inside = Path::new("/").join(name);
        let report = self
            .shared
            .report(&inside)
            .with_context(|| inside.display().to_string())?;
        let servers = self.shared.cluster.map.leading_servers();
        let even = report.entries() as f64 / servers.len() as f64;
        // Names fall on one side or the other of a split by chance.
        let margin = 0.1 * even + 3.0 * even.sqrt();
        for server in servers {
            let has = report.entries_on(server);
            ensure!(
                (has as f64 - even).abs() <= margin,
                "server {server} has {has} entries of {}, and {even:.0} would be even",
                inside.display()
            );
        }
        Ok(())
    }

    /// Looks now. `None` when a server is away.
    pub(super) fn entries_per_server(&self) -> Option<Vec<u64>> {
        entries(&self.shared.cluster).into_iter().collect()
    }
}

impl Drop for ClusterView {
    fn drop(&mut self) {
        *self.shared.over() = true;
        self.shared.ending.notify_all();
        if let Some(looking) = self.looking.take() {
            // A view that panicked has been seen by its message.
            let _ = looking.join();
        }
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over(&self) -> MutexGuard<'_, bool> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for so long, or until it is over.
    fn is_over_after(&self, time: Duration) -> bool {
        let waited = self
            .ending
            .wait_timeout_while(self.over(), time, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn look(&self) {
        let dir = self.seen().dir.clone();
        let entries = entries(&self.cluster);
        let report = dir.as_ref().and_then(|dir| self.report(dir));
        let mut seen = self.seen();
        if seen.dir != dir {
            return;
        }
        seen.picture.clear();
        if let Some(report) = report {
            seen.partitions = report.partitions();
            let lines = report.picture().lines();
            let left_out = lines.len().saturating_sub(MOST_LINES);
            let drawn = lines
                .into_iter()
                .take(MOST_LINES)
                .map(|line| format!("    {line}"));
            seen.picture.extend(drawn);
            if left_out > 0 {
                seen.picture.push(format!("    … and {left_out} more"));
            }
        }
        seen.picture.extend(server_lines(&entries));
        seen.entries = entries;
    }

    fn report(&self, dir: &Path) -> Option<Report> {
        let caller = backend::caller();
        let node = self
            .client
            .resolve(&caller, dir.as_os_str().as_bytes())
            .ok()?;
        let info = self.client.dir_info(&caller, node.ino).ok()?;
        Some(Report::new(&self.cluster, dir, &info))
    }
}

fn entries(cluster: &Cluster) -> Vec<Option<u64>> {
    let views = admin::ask_all(&cluster.map);
    views
        .iter()
        .map(|view| {
            view.status
                .as_ref()
                .ok()
                .map(|_| view.sum(|shard| shard.entries))
        })
        .collect()
}

fn server_lines(entries: &[Option<u64>]) -> Vec<String> {
    const BAR: usize = 40;
    let most = entries.iter().flatten().copied().max().unwrap_or(0);
    let mut lines = vec![String::new(), "    entries on each server".to_owned()];
    for (server, entries) in entries.iter().enumerate() {
        lines.push(match entries {
            Some(count) => {
                let bar = units::bar(*count, most, BAR);
                format!("    server {server}  {:>10}  {bar}", units::count(*count))
            }
            None => format!("    server {server}        away"),
        });
    }
    lines
}
