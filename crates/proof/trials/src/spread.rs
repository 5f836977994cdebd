//! One large directory: even over the servers, with hardly a request to the wrong one.

use crate::cluster::{CALLER, Common, entries, fresh_directory, name, status};
use anyhow::{Context, Result, bail, ensure};
use pandofs_api::{NewNode, ServerStatus};
use pandofs_client::Client;
use pandofs_types::{Ino, Name};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::{Duration, Instant};

/// Per cent by which a server's entries may differ from its even share.
const MAX_UNEVENNESS_PERCENT: f64 = 10.0;
/// Requests of which one may be redirected.
const REQUESTS_PER_REDIRECT: u64 = 1_000;

/// A large directory is spread evenly, and few requests are redirected
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Files to create
    #[arg(long, default_value_t = 100_000)]
    files: u64,
    /// Clients that create them
    #[arg(long, default_value_t = 8)]
    clients: u64,
    /// Lookups and creations once the directory has stopped growing
    #[arg(long, default_value_t = 20_000)]
    afterwards: u64,
}

/// Requests to shards so far, and those of them that were redirected.
#[derive(Clone, Copy, Debug)]
struct Requests {
    all: u64,
    redirected: u64,
}

impl Requests {
    fn of(servers: &[ServerStatus]) -> Requests {
        Requests {
            all: servers.iter().map(|server| server.requests).sum(),
            redirected: servers.iter().map(|server| server.redirected).sum(),
        }
    }

    fn since(self, before: Requests) -> Requests {
        Requests {
            all: self.all - before.all,
            redirected: self.redirected - before.redirected,
        }
    }
}

/// # Errors
/// A promise that was not kept, or the file system's errors.
pub(crate) fn run(options: &Options) -> Result<()> {
    let observer = options.common.client()?;
    let clients = (0..options.clients)
        .map(|_| options.common.client())
        .collect::<Result<Vec<Client>>>()?;
    let (_, dir) = fresh_directory(&observer, Ino::ROOT, "spread")?;
    let before = status(&observer)?;

    let begun = Instant::now();
    together(&clients, |client, rank| {
        for file in (rank..options.files).step_by(clients.len()) {
            create(client, dir, file)?;
        }
        Ok(())
    })?;
    let took = begun.elapsed();
    let grown = status(&observer)?;
    report_growth(options, &before, &grown, took)?;

    // Every client has seen each partition's shard by now; nothing changes any more.
    let partitions = observer.dir_info(&CALLER, dir)?.map.active_count();
    let begun = Instant::now();
    together(&clients, |client, rank| {
        let mut random = StdRng::seed_from_u64(options.common.seed.wrapping_add(rank));
        for operation in (rank..options.afterwards).step_by(clients.len()) {
            if (operation / options.clients).is_multiple_of(2) {
                let name = file_name(random.random_range(0..options.files))?;
                client
                    .lookup(&CALLER, dir, &name)
                    .with_context(|| format!("lookup of {name}"))?;
            } else {
                create(client, dir, options.files + operation)?;
            }
        }
        Ok(())
    })?;
    let took = begun.elapsed();
    let after = Requests::of(&status(&observer)?).since(Requests::of(&grown));
    let partitions_after = observer.dir_info(&CALLER, dir)?.map.active_count();
    println!(
        "spread: afterwards, {} lookups and creations in {:.1} s: {} requests, {} redirected; {} \
         partitions before and {} after",
        options.afterwards,
        took.as_secs_f64(),
        after.all,
        after.redirected,
        partitions,
        partitions_after
    );
    ensure!(
        partitions == partitions_after,
        "the directory went on splitting"
    );
    ensure!(
        after.all >= options.afterwards,
        "the servers have counted fewer requests than were made"
    );
    ensure!(
        after.redirected == 0,
        "{} requests were redirected after the directory had stopped growing",
        after.redirected
    );
    Ok(())
}

fn report_growth(
    options: &Options,
    before: &[ServerStatus],
    grown: &[ServerStatus],
    took: Duration,
) -> Result<()> {
    let requests = Requests::of(grown).since(Requests::of(before));
    let share = options.files as f64 / grown.len() as f64;
    let on_each: Vec<u64> = grown
        .iter()
        .zip(before)
        .map(|(now, then)| entries(now).saturating_sub(entries(then)))
        .collect();
    let unevenness = |on: u64| (on as f64 - share) / share * 100.0;
    let each: Vec<String> = on_each
        .iter()
        .map(|&on| format!("{on} ({:+.2} %)", unevenness(on)))
        .collect();
    println!(
        "spread: {} files by {} clients in {:.1} s ({:.0}/s); entries per server: {}; {} requests, {} \
         redirected ({:.4} %)",
        options.files,
        options.clients,
        took.as_secs_f64(),
        options.files as f64 / took.as_secs_f64(),
        each.join(", "),
        requests.all,
        requests.redirected,
        requests.redirected as f64 / requests.all as f64 * 100.0
    );
    let sum: u64 = on_each.iter().sum();
    ensure!(
        sum == options.files,
        "the servers have {sum} entries more than before, not {}",
        options.files
    );
    for (&on, server) in on_each.iter().zip(grown) {
        ensure!(
            unevenness(on).abs() <= MAX_UNEVENNESS_PERCENT,
            "server {} has {on} of {} entries",
            server.id,
            options.files
        );
    }
    ensure!(
        requests.all >= options.files,
        "the servers have counted fewer requests than were made"
    );
    ensure!(
        requests.redirected * REQUESTS_PER_REDIRECT < requests.all,
        "{} of {} requests were redirected",
        requests.redirected,
        requests.all
    );
    Ok(())
}

/// Lets every client work at once; the rank is its number.
fn together(clients: &[Client], work: impl Fn(&Client, u64) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..)
            .zip(clients)
            .map(|(rank, client)| scope.spawn(move || work(client, rank)))
            .collect();
        for thread in threads {
            match thread.join() {
                Ok(result) => result?,
                Err(_) => bail!("a thread panicked"),
            }
        }
        Ok(())
    })
}

fn create(client: &Client, dir: Ino, file: u64) -> Result<()> {
    let name = file_name(file)?;
    client
        .mknod(&CALLER, dir, &name, NewNode::File, 0o644)
        .with_context(|| format!("cannot make {name}"))?;
    Ok(())
}

fn file_name(file: u64) -> Result<Name> {
    name(&format!("file-{file:07}"))
}
