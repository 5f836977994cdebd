//! Many clients at once, each with its own session and connections: all are served, what each has open is
//! known, and what those that vanish had open is let go.

use crate::cluster::{CALLER, Common, fresh_directory, name, status};
use anyhow::{Context, Result, ensure};
use pandofs_api::ServerStatus;
use pandofs_client::{Client, OpenHow};
use pandofs_types::Ino;
use std::thread;
use std::time::{Duration, Instant};

/// Threads that let the clients work, a share of them each.
const WORKERS: usize = 32;
/// How long servers may take to notice that connections are closed.
const NOTICE_LIMIT: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Each makes a file of its own.
const HOW: OpenHow = OpenHow {
    access: 6,
    truncate: false,
    exclusive: true,
};

/// Many clients are connected to every server at once and work in one directory
#[derive(clap::Args, Debug)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// How many
    #[arg(long, default_value_t = 1_000)]
    clients: usize,
}

/// # Errors
/// What was not as promised, or the file system's.
pub fn run(options: &Options) -> Result<()> {
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
    Ok(())
}

fn file_name(number: usize) -> Result<pandofs_types::Name> {
    name(&format!("of-client-{number}"))
}

fn content(number: usize) -> Vec<u8> {
    format!("client {number}\n").repeat(10).into_bytes()
}

fn opens(servers: &[ServerStatus]) -> u64 {
    let shards = servers.iter().flat_map(|server| &server.shards);
    shards.map(|shard| shard.opens).sum()
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
