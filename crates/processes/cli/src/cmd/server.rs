//! `pandofs server`

use crate::admin::{AdminConnection, AdminError, unexpected};
use crate::backend;
use crate::datadir::{DataDir, write_atomically};
use crate::exit::Outcome;
use crate::source::{Cluster, Source, read_cluster};
use crate::units;
use crate::up::unix_address;
use crate::weights::{self, Domain, Weight};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use pandofs_api::{AdminReply, AdminRequest};
use pandofs_placement::{ClusterMap, ServerInfo};
use pandofs_types::ServerId;
use pandofs_types::limits::MAX_SERVERS;
use pandofs_wire::address::Address;
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pandofs server add --data /var/tmp/pando --count 2
      two more servers for a cluster of 'pandofs up', which starts them if it runs
  pandofs server add --data /var/tmp/pando --count 2 --weight 2 --domain rack-c,rack-d
      each of them for twice as much as one of weight 1, each in another failure domain
  pandofs server add --cluster cluster.json --servers tcp:d:7400
      the next map of a cluster on several machines; then, with it copied to machine d, there
      'pandofs format --id N' and 'pandofs serve', and when it serves:
  pandofs server announce --cluster cluster.json
      tell all servers of the map; clients hear of it from them

Servers and mounts that run go on running. What is stored stays where it is: new directories go to
all servers, and large ones split to the new servers when something is added to them, or by
'pandofs rebalance'.";

/// How long new servers may take until they serve.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Between two questions whether they do.
const PAUSE: Duration = Duration::from_millis(100);

/// Add servers to a file system while it runs
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServerCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Make the next cluster map, with more servers
    Add {
        #[command(flatten)]
        source: Source,
        /// How many, in a cluster of 'pandofs up'
        #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "servers",
            value_parser = clap::value_parser!(u16).range(1..=MAX_SERVERS as i64))]
        count: u16,
        /// Where the new servers of another cluster are to listen
        #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',')]
        servers: Vec<Address>,
        #[command(flatten)]
        given: Given,
    },
    /// Tell all servers of the cluster map as it is in the file
    Announce {
        #[command(flatten)]
        source: Source,
    },
}

/// Options of the new servers.
#[derive(Args, Clone, Debug, Default)]
struct Given {
    /// How much each new server is to have beside the others, as 1 or 0.5; one for all, or one for each [default: 1]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    weight: Vec<Weight>,
    /// Failure domain of each new server; one for all, or one for each [default: each its own]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    domain: Vec<Domain>,
}

impl ServerCommand {
    /// # Errors
    /// When the servers cannot be added.
    pub(crate) fn run(&self) -> Result<Outcome> {
        match &self.what {
            What::Announce { source } => announce(&source.find(None)?.map),
            What::Add {
                source,
                count,
                servers,
                given,
            } => {
                let cluster = source.find(None)?;
                let _one_at_a_time = hold(&cluster.map_path)?;
                // Others may just have been added.
                let cluster = read_cluster(&cluster.map_path, cluster.data)?;
                match &cluster.data {
                    Some(dir) if servers.is_empty() => add_here(dir, &cluster.map, *count, given),
                    _ => add_elsewhere(&cluster, servers, given),
                }
            }
        }
    }
}

/// Keeps others from adding servers to the same map.
fn hold(map: &Path) -> Result<File> {
    let file = File::open(map).with_context(|| format!("cannot open {}", map.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "another 'pandofs server add' is at {}: wait for it",
            map.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", map.display()))
        }
    }
}

/// The map with these servers, numbered on from those that are there.
fn with_servers(map: &ClusterMap, addresses: Vec<String>, given: &Given) -> Result<ClusterMap> {
    let first = u16::try_from(map.servers.len()).context("there are too many servers")?;
    let count = addresses.len();
    let weights = weights::one_for_all(&given.weight, count);
    let domains = weights::one_for_all(&given.domain, count);
    let options = ["--weight", "--domain"];
    let added = weights::servers(first, addresses, (&weights, &domains), options)?;
    let next = map.with_servers(added);
    next.context("these servers cannot be added")
}

fn add_here(dir: &DataDir, map: &ClusterMap, count: u16, given: &Given) -> Result<Outcome> {
    let first = u16::try_from(map.servers.len()).context("there are too many servers")?;
    let addresses = (first..first.saturating_add(count)).map(|id| next_address(dir, map, id));
    let next = with_servers(map, addresses.collect::<Result<_>>()?, given)?;
    let new = &next.servers[map.servers.len()..];
    for server in new {
        let data = dir.server_data(server.id);
        ensure!(
            !data.exists(),
            "{} is there, and the cluster map has no server {}: remove it if it is what an earlier 'server add' left \
             that was cut short",
            data.display(),
            server.id
        );
    }
    for server in new {
        let parent = dir.server(server.id);
        fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
        backend::format_server(&dir.server_data(server.id), &next, server.id)?;
    }
    // From here on they belong to the file system; what starts now goes by this map.
    write_atomically(&dir.cluster_map(), &next.to_json())?;
    crate::print(&added(map, &next))?;
    if !dir.is_held()? {
        crate::print("no 'pandofs up' runs here: the next one starts them\n")?;
        return Ok(Outcome::Done);
    }
    wait_until_they_serve(&next, new)?;
    announce(&next)
}

/// Where the next server listens: in the manner of the last one that is there.
fn next_address(dir: &DataDir, map: &ClusterMap, id: u16) -> Result<String> {
    let last = map.servers.iter().max_by_key(|server| server.id);
    let last = last.and_then(|server| Some((server.id, server.addresses.first()?)));
    let Some((last_id, address)) = last.filter(|(_, address)| !address.starts_with("unix:")) else {
        return unix_address(dir, ServerId(id));
    };
    let next = address.rsplit_once(':').and_then(|(host, port)| {
        let port: u16 = port.parse().ok()?;
        let port = port.checked_add(id.checked_sub(last_id.0)?)?;
        Some(format!("{host}:{port}"))
    });
    next.with_context(|| format!("there is no port after that of {address} for server {id}"))
}

fn add_elsewhere(cluster: &Cluster, servers: &[Address], given: &Given) -> Result<Outcome> {
    ensure!(
        !servers.is_empty(),
        "say where the new servers are to listen: --servers ADDRESS,… (of a cluster made by 'pandofs up' give \
         --data and --count)"
    );
    let next = with_servers(
        &cluster.map,
        servers.iter().map(Address::to_string).collect(),
        given,
    )?;
    write_atomically(&cluster.map_path, &next.to_json())?;
    let mut text = added(&cluster.map, &next);
    let map = cluster.map_path.display();
    for server in &next.servers[cluster.map.servers.len()..] {
        let id = server.id;
        text.push_str(&format!(
            "  on the machine of {}, with {map} copied there:\n    \
               pandofs format --cluster {map} --id {id} --data DIR\n    \
               pandofs serve --cluster {map} --id {id} --data DIR\n",
            server.addresses.join(" ")
        ));
    }
    text.push_str(&format!(
        "when they serve:\n    pandofs server announce --cluster {map}\n"
    ));
    crate::print(&text)?;
    Ok(Outcome::Done)
}

fn added(before: &ClusterMap, after: &ClusterMap) -> String {
    let servers = (after.servers.len() - before.servers.len()) as u64;
    let shards = u64::from(after.shard_count() - before.shard_count());
    format!(
        "added {} with {} to '{}', which has {} and {} from epoch {} of its map on\n",
        units::plural(servers, "server", "servers"),
        units::plural(shards, "shard", "shards"),
        after.name,
        units::plural(after.servers.len() as u64, "server", "servers"),
        units::plural(u64::from(after.shard_count()), "shard", "shards"),
        after.epoch
    )
}

/// Before the others hear of them, so that none has to wait for them.
fn wait_until_they_serve(map: &ClusterMap, servers: &[ServerInfo]) -> Result<()> {
    let deadline = Instant::now() + START_TIMEOUT;
    for server in servers {
        loop {
            let asked = AdminConnection::open(map.fs, server).and_then(|mut it| it.status());
            match asked {
                Ok(_) => break,
                Err(error) if Instant::now() >= deadline => bail!(
                    "server {} does not serve after {} s: {error}. It is in the cluster map; when it serves, tell the \
                     others with 'pandofs server announce'",
                    server.id,
                    START_TIMEOUT.as_secs()
                ),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
    Ok(())
}

/// Tells every server of the map; those that are away read it when they start.
fn announce(map: &ClusterMap) -> Result<Outcome> {
    let text = map.to_json();
    let tell = |server: &ServerInfo| -> Result<(), AdminError> {
        let mut connection = AdminConnection::open(map.fs, server)?;
        match connection.ask(AdminRequest::TakeMap(text.clone()))? {
            AdminReply::Done => Ok(()),
            other => Err(unexpected("TakeMap", &other)),
        }
    };
    let tell = &tell;
    let answers: Vec<(ServerId, Result<(), AdminError>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = map
            .servers
            .iter()
            .map(|server| (server.id, scope.spawn(move || tell(server))))
            .collect();
        let panicked = |_| {
            Err(AdminError::Protocol(
                "the thread that sent it the map panicked".into(),
            ))
        };
        threads
            .into_iter()
            .map(|(id, thread)| (id, thread.join().unwrap_or_else(panicked)))
            .collect()
    });
    let mut outcome = Outcome::Done;
    for (id, answer) in answers {
        if let Err(error) = answer {
            eprintln!(
                "pandofs: server {id} does not go by epoch {} of the map yet: {error}; when it serves, tell it with \
                 'pandofs server announce'",
                map.epoch
            );
            outcome = Outcome::ServerAway;
        }
    }
    if outcome == Outcome::Done {
        let servers = units::plural(map.servers.len() as u64, "server goes", "servers go");
        crate::print(&format!("{servers} by epoch {}\n", map.epoch))?;
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_cluster::tests::options;

    #[test]
    fn new_servers_listen_in_the_manner_of_the_others() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = DataDir::new(scratch.path());
        let ports = options()
            .create_map(vec!["tcp:[::1]:7400".into(), "tcp:[::1]:7401".into()])
            .unwrap();
        assert_eq!(next_address(&dir, &ports, 2).unwrap(), "tcp:[::1]:7402");
        assert_eq!(next_address(&dir, &ports, 3).unwrap(), "tcp:[::1]:7403");
        let full = options().create_map(vec!["tcp:a:65535".into()]).unwrap();
        assert!(next_address(&dir, &full, 1).is_err());
        let sockets = options().create_map(vec!["unix:/run/0".into()]).unwrap();
        let socket = next_address(&dir, &sockets, 1).unwrap();
        assert_eq!(
            socket,
            format!("unix:{}/server-1/socket", scratch.path().display())
        );
    }

    #[test]
    fn what_was_added_is_said() {
        let map = options().create_map(vec!["unix:/0".into()]).unwrap();
        let none = Given::default();
        let next = with_servers(&map, vec!["unix:/1".into(), "unix:/2".into()], &none).unwrap();
        assert_eq!(next.servers.len(), 3);
        let said = added(&map, &next);
        assert!(
            said.contains("2 servers") && said.contains("epoch 2"),
            "{said}"
        );
        assert!(with_servers(&map, vec!["unix:/0".into()], &none).is_err());
    }

    #[test]
    fn new_servers_have_the_weights_and_domains_that_were_given() {
        let map = options().create_map(vec!["unix:/0".into()]).unwrap();
        let two = || vec!["unix:/1".to_owned(), "unix:/2".to_owned()];
        let given = |weights: &[&str], domains: &[&str]| Given {
            weight: weights.iter().map(|text| text.parse().unwrap()).collect(),
            domain: domains.iter().map(|text| text.parse().unwrap()).collect(),
        };
        let next = with_servers(&map, two(), &given(&["0.5"], &["left", "right"])).unwrap();
        let led = |id| next.shards_of(ServerId(id)).len();
        assert_eq!([led(0), led(1), led(2)], [64, 32, 32]);
        let domains: Vec<&str> = next.servers.iter().map(|s| s.domain.as_str()).collect();
        assert_eq!(domains, ["server-0", "left", "right"]);
        let many = with_servers(&map, two(), &given(&["1", "2", "3"], &[])).unwrap_err();
        assert!(
            many.to_string()
                .starts_with("--weight has 3 values for 2 servers")
        );
        let heavy = with_servers(&map, two(), &given(&["10000"], &[])).unwrap_err();
        assert!(
            format!("{heavy:#}").contains("give them less weight"),
            "{heavy:#}"
        );
    }
}
