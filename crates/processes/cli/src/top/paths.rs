//! Paths of directories that are known by their numbers.
//!
//! Servers do not know paths. The directory above is listed until the name is found, once for each directory, on a thread
//! of its own.

use crate::backend;
use crate::source::Cluster;
use pandofs_client::Client;
use pandofs_types::{Credentials, Ino, Position};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a server that is away keeps a path from being found.
const PATIENCE: Duration = Duration::from_secs(1);
/// Levels from the root; a path that is longer is not looked for.
const MAX_LEVELS: usize = 64;
/// Entries that are listed at most to find one name.
const MAX_LISTED: usize = 20_000;
/// Entries of a page.
const PAGE: usize = 1_000;
/// Directories whose paths are kept.
const MAX_KNOWN: usize = 4_096;

/// Paths that were found, and the thread that finds them.
pub(crate) struct Paths {
    /// Until it is dropped.
    wanted: Option<Sender<Ino>>,
    /// No more are to be found.
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    found: Receiver<(Ino, Option<String>)>,
    asked: HashSet<Ino>,
    known: HashMap<Ino, Option<String>>,
}

impl Paths {
    /// `None` when the file system cannot be used: numbers are shown then.
    pub(crate) fn start(cluster: &Cluster) -> Option<Paths> {
        let client = backend::connect_within(cluster, Some(PATIENCE)).ok()?;
        let (wanted, to_find) = mpsc::channel();
        let (tell, found) = mpsc::channel();
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let finds = move || find_all(&client, &to_find, &tell, &ends);
        let thread = std::thread::Builder::new().name("paths".into());
        Some(Paths {
            wanted: Some(wanted),
            is_over,
            thread: Some(thread.spawn(finds).ok()?),
            found,
            asked: HashSet::new(),
            known: HashMap::new(),
        })
    }

    /// Has the paths of these found, and waits for that so long at most.
    pub(crate) fn want(&mut self, dirs: &[Ino], wait: Duration) {
        if self.known.len() > MAX_KNOWN {
            self.known.clear();
            self.asked.clear();
        }
        for &dir in dirs {
            if self.asked.insert(dir)
                && let Some(wanted) = &self.wanted
            {
                // A thread that is gone finds none.
                let _ = wanted.send(dir);
            }
        }
        let until = Instant::now() + wait;
        while dirs.iter().any(|dir| !self.known.contains_key(dir)) {
            let left = until.saturating_duration_since(Instant::now());
            match self.found.recv_timeout(left) {
                Ok((dir, path)) => self.known.insert(dir, path),
                Err(_) => return,
            };
        }
    }

    /// The path, if it was found.
    pub(crate) fn get(&self, dir: Ino) -> Option<String> {
        self.known.get(&dir).cloned().flatten()
    }
}

/// Its client says goodbye, so that no server waits for it.
impl Drop for Paths {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            // It has told nobody anything if it panicked.
            let _ = thread.join();
        }
    }
}

fn find_all(
    client: &Client,
    wanted: &Receiver<Ino>,
    tell: &Sender<(Ino, Option<String>)>,
    is_over: &AtomicBool,
) {
    let caller = backend::caller();
    let mut names = HashMap::from([(Ino::ROOT, String::new())]);
    while let Ok(dir) = wanted.recv()
        && !is_over.load(Ordering::Relaxed)
    {
        let path = find(client, &caller, dir, &mut names);
        if tell.send((dir, path)).is_err() {
            return;
        }
    }
}

/// `known`: paths without a slash at their ends.
fn find(
    client: &Client,
    caller: &Credentials,
    dir: Ino,
    known: &mut HashMap<Ino, String>,
) -> Option<String> {
    let mut above = Vec::new();
    let mut at = dir;
    while !known.contains_key(&at) {
        if above.len() >= MAX_LEVELS {
            return None;
        }
        let parent = client.parent(caller, at).ok()?;
        above.push((at, name_in(client, caller, parent, at)?));
        at = parent;
    }
    if known.len() > MAX_KNOWN {
        known.retain(|&dir, _| dir == Ino::ROOT || dir == at);
    }
    let mut path = known.get(&at)?.clone();
    for (dir, name) in above.into_iter().rev() {
        path = format!("{path}/{name}");
        known.insert(dir, path.clone());
    }
    Some(match path.is_empty() {
        true => "/".to_owned(),
        false => path,
    })
}

/// Name of a directory in the one above.
fn name_in(client: &Client, caller: &Credentials, parent: Ino, dir: Ino) -> Option<String> {
    let (mut from, mut listed) = (Position::FIRST, 0);
    while from < Position::END && listed < MAX_LISTED {
        let page = client.readdir(caller, parent, from, false, PAGE).ok()?;
        if let Some(found) = page.entries.iter().find(|entry| entry.ino == dir) {
            return Some(found.name.to_string());
        }
        listed += page.entries.len();
        from = page.next;
    }
    None
}
