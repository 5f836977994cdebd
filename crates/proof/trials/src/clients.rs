//! Many clients at once, each with its own session and connections.
//!
//! All are served, also when a server is killed meanwhile; what each has open is known, and what
//! those that vanish had open is let go.

use crate::cluster::{CALLER, Common, fresh_directory, memory, name, status};
use anyhow::{Context, Result, ensure};
use pandofs_api::ServerStatus;
use pandofs_client::{Client, OpenHow};
use pandofs_types::Ino;
use pandofs_types::limits::DEFAULT_SERVER_MEMORY_BYTES;
use rustix::process::{Pid, Signal, kill_process};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Threads that let the clients work, a share of them each.
const WORKERS: usize = 32;
/// Time that servers may take to notice that connections are closed.
const NOTICE_LIMIT: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Times that each client renames its file while a server is killed.
const RENAMES: usize = 4;
/// Bytes that a server takes at most beside what it was allowed: what the documentation says of the
/// load of a test with little memory.
const MEMORY_BESIDES: u64 = 144 << 20;

/// Each makes a file of its own.
const HOW: OpenHow = OpenHow {
    access: 6,
    truncate: false,
    exclusive: true,
};

/// Many clients are connected to every server at once and work in one directory
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Number of clients
    #[arg(long, default_value_t = 1_000)]
    clients: usize,
}

/// # Errors
/// A promise that was not kept, or the file system's errors.
pub(crate) fn run(options: &Options) -> Result<()> {
    let count = options.clients;
    let observer = options.common.client()?;
    let (_, dir) = fresh_directory(&observer, Ino::ROOT, "clients")?;
    let before = status(&observer)?;
    let clients = (0..count)
        .map(|_| options.common.client())
        .collect::<Result<Vec<Client>>>()?;
    let begun = Instant::now();
    let inos = each(&clients, |client, number| {
        let found = client.create(&CALLER, dir, &file_name(number)?, 0o644, HOW)?;
        client.write(&CALLER, found.node.ino, 0, &content(number))?;
        client.flush(found.node.ino)?;
        // And a request to each server, so that all are connected to all.
        for status in client.status() {
            status.1?;
        }
        Ok(found.node.ino)
    })?;
    let connected = status(&observer)?;
    for server in &connected {
        ensure!(
            server.sessions >= count as u64,
            "server {} knows {} sessions of {count} clients",
            server.id,
            server.sessions
        );
    }
    let opens = opens(&connected);
    ensure!(opens == count as u64, "{opens} of {count} files are open");
    // Each reads what another one has written, in the order of its own number.
    each(&clients, |client, number| {
        let other = (number + 1) % count;
        let found = client.lookup(&CALLER, dir, &file_name(other)?)?;
        let read = client.read(&CALLER, found.ino, 0, 1_000)?;
        ensure!(
            read == content(other),
            "client {number} reads {} wrong bytes of client {other}",
            read.len()
        );
        ensure!(found.ino == inos[other], "a name leads elsewhere");
        Ok(())
    })?;
    let took = begun.elapsed();
    // Their files are unlinked while they are open, and stay for them.
    each(&clients, |client, number| {
        client.unlink(&CALLER, dir, &file_name((number + 1) % count)?)?;
        Ok(())
    })?;
    each(&clients, |client, number| {
        let read = client.read(&CALLER, inos[number], 0, 1_000)?;
        ensure!(read == content(number), "an open file has lost its content");
        Ok(())
    })?;
    drop(clients);
    let deadline = Instant::now() + NOTICE_LIMIT;
    let left = loop {
        let now = status(&observer)?;
        let gone = now
            .iter()
            .zip(&before)
            .all(|(now, then)| now.connections <= then.connections);
        if gone && self::opens(&now) == 0 && inodes(&now) == inodes(&before) {
            break now;
        }
        ensure!(
            Instant::now() < deadline,
            "{} s after the clients have gone {} files are open, {} inodes are left of {}",
            NOTICE_LIMIT.as_secs(),
            self::opens(&now),
            inodes(&now),
            inodes(&before)
        );
        thread::sleep(LOOK_INTERVAL);
    };
    let (waited, memory) = survive_a_kill(options, &observer, dir)?;
    let connections = connected.iter().map(|server| server.connections).max();
    println!(
        "clients: {count} at once made, wrote and read a file each in {:.1} s; {} connections at a \
         server, {} when they had gone; nothing is left of their unlinked files",
        took.as_secs_f64(),
        connections.unwrap_or(0),
        left.iter()
            .map(|server| server.connections)
            .max()
            .unwrap_or(0),
    );
    println!(
        "clients: none of as many again got an error when a server was killed, the longest call took {:.1} s; a server \
         had {} MiB of memory at most",
        waited.as_secs_f64(),
        memory >> 20
    );
    Ok(())
}

/// As many clients again, of which none gets an error when a server is killed; how long the longest call took, and how
/// many bytes of memory a server has had.
fn survive_a_kill(options: &Options, observer: &Client, dir: Ino) -> Result<(Duration, u64)> {
    let count = options.clients;
    let clients = (0..count)
        .map(|_| options.common.client())
        .collect::<Result<Vec<Client>>>()?;
    each(&clients, |client, number| {
        client.create(&CALLER, dir, &file_name(number)?, 0o644, HOW)?;
        Ok(())
    })?;
    let connected = status(observer)?;
    let victim = connected.iter().max_by_key(|server| opens_of(server));
    let victim = victim.context("there is no server")?;
    let waited = kill_while_they_work(observer, victim, &clients, dir)?;
    // A client that asks it something says what it has open.
    each(&clients, |client, number| {
        client.lookup(&CALLER, dir, &file_name(number)?)?;
        Ok(())
    })?;
    let now = status(observer)?;
    let opens = opens(&now);
    ensure!(
        opens == count as u64,
        "{opens} of {count} files are open after the kill"
    );
    let memory = most_memory(&now)?;
    let limit = DEFAULT_SERVER_MEMORY_BYTES + MEMORY_BESIDES;
    ensure!(
        memory <= limit,
        "a server has taken {memory} bytes of {limit}"
    );
    Ok((waited, memory))
}

/// All rename their files while the server is killed and started again; how long the longest call took.
fn kill_while_they_work(
    observer: &Client,
    victim: &ServerStatus,
    clients: &[Client],
    dir: Ino,
) -> Result<Duration> {
    let calls = clients.len() * RENAMES;
    let done = AtomicUsize::new(0);
    let killed_at = thread::scope(|scope| {
        let killer = scope.spawn(|| -> Result<usize> {
            while done.load(Ordering::Relaxed) < calls / 4 {
                thread::sleep(LOOK_INTERVAL);
            }
            let pid = i32::try_from(victim.pid).ok().and_then(Pid::from_raw);
            let pid = pid.with_context(|| format!("server {} has no process", victim.id))?;
            kill_process(pid, Signal::KILL)?;
            Ok(done.load(Ordering::Relaxed))
        });
        let longest = each(clients, |client, number| {
            let (name, other) = (file_name(number)?, name(&format!("moved-{number}"))?);
            let mut longest = Duration::ZERO;
            for round in 0..RENAMES {
                let (from, to) = if round % 2 == 0 {
                    (&name, &other)
                } else {
                    (&other, &name)
                };
                let begun = Instant::now();
                client.rename(&CALLER, dir, from, dir, to, true)?;
                longest = longest.max(begun.elapsed());
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(longest)
        });
        let killed = killer
            .join()
            .map_err(|_| anyhow::anyhow!("the killer panicked"))??;
        Ok::<_, anyhow::Error>((killed, longest?))
    })?;
    let (killed, longest) = killed_at;
    ensure!(
        killed < calls,
        "they had done all before server {} was killed",
        victim.id
    );
    let now = status(observer)?;
    let pid = now
        .iter()
        .find(|server| server.id == victim.id)
        .map(|server| server.pid);
    ensure!(
        pid != Some(victim.pid),
        "server {} was not killed",
        victim.id
    );
    Ok(longest.into_iter().max().unwrap_or_default())
}

/// Bytes that any of the servers, which are on this machine, has had in memory.
fn most_memory(servers: &[ServerStatus]) -> Result<u64> {
    let mut most = 0;
    for server in servers {
        most = most.max(memory(server.pid, "VmHWM:")?);
    }
    Ok(most)
}

fn file_name(number: usize) -> Result<pandofs_types::Name> {
    name(&format!("of-client-{number}"))
}

fn content(number: usize) -> Vec<u8> {
    format!("client {number}\n").repeat(10).into_bytes()
}

fn opens_of(server: &ServerStatus) -> u64 {
    server.shards.iter().map(|shard| shard.opens).sum()
}

fn opens(servers: &[ServerStatus]) -> u64 {
    servers.iter().map(opens_of).sum()
}

fn inodes(servers: &[ServerStatus]) -> u64 {
    let shards = servers.iter().flat_map(|server| &server.shards);
    shards.map(|shard| shard.inodes).sum()
}

/// Lets each client do it once, many at a time; the results in the clients' order.
fn each<T: Send>(
    clients: &[Client],
    work: impl Fn(&Client, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let share = clients.len().div_ceil(WORKERS).max(1);
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = clients
            .chunks(share)
            .enumerate()
            .map(|(chunk, clients)| {
                scope.spawn(move || {
                    let numbered = clients.iter().enumerate();
                    numbered
                        .map(|(index, client)| {
                            let number = chunk * share + index;
                            work(client, number).with_context(|| format!("client {number}"))
                        })
                        .collect::<Result<Vec<T>>>()
                })
            })
            .collect();
        let mut results = Vec::with_capacity(clients.len());
        for thread in threads {
            match thread.join() {
                Ok(done) => results.extend(done?),
                Err(_) => anyhow::bail!("a thread panicked"),
            }
        }
        Ok(results)
    })
}
