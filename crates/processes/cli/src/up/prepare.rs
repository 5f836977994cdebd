//! The cluster that `up` runs: the one in its directory, or a new one.

use super::voice::Voice;
use crate::datadir::{DataDir, write_atomically};
use crate::new_cluster::FsOptions;
use crate::source::read_cluster;
use crate::{backend, units};
use anyhow::{Context, Result, bail};
use pandofs_placement::ClusterMap;
use pandofs_types::{Epoch, ServerId};
use std::fs;
use std::net::SocketAddr;

/// Servers of a new cluster, unless another number is given.
pub(super) const DEFAULT_SERVERS: u16 = 4;

/// Options of a new cluster; an existing one must not contradict them.
#[derive(Clone, Debug)]
pub(crate) struct NewCluster<'a> {
    pub servers: Option<u16>,
    /// The options that were given on the command line.
    pub given: Vec<String>,
    /// The first server's TCP address; the others have the ports after it.
    pub tcp: Option<SocketAddr>,
    pub options: &'a FsOptions,
}

impl NewCluster<'_> {
    /// Servers of a new cluster: as many as was said, or as there are weights or domains.
    fn count(&self) -> Result<u16> {
        let listed = self.options.servers_listed().map(u16::try_from);
        let listed = listed.transpose().context("there are too many servers")?;
        Ok(self.servers.or(listed).unwrap_or(DEFAULT_SERVERS))
    }
}

/// Reads the cluster in `dir`, or makes one.
///
/// # Errors
/// When the cluster in `dir` is another one than asked for; when it cannot be made.
pub(crate) fn open_or_create(
    dir: &DataDir,
    wanted: &NewCluster<'_>,
    voice: &mut Voice,
) -> Result<ClusterMap> {
    let path = dir.cluster_map();
    let map = if path.exists() {
        let map = read_cluster(&path, None)?.map;
        // A crash between the map's writing and this file's removal left a whole cluster.
        let _ = fs::remove_file(dir.in_the_making());
        let has = map.servers.len();
        if let Some(servers) = wanted
            .servers
            .filter(|&servers| usize::from(servers) != has)
        {
            bail!(
                "--servers {servers}: the cluster in {} has {has}; leave --servers out to run it, or \
                 choose another --data for a new one",
                dir.root().display()
            );
        }
        if let Some((option, there)) = wanted.options.contradiction(&wanted.given, &map) {
            bail!(
                "{option}: the file system in {} has {there}, and that is fixed when it is made; leave \
                 the option out, or choose another --data for a new one",
                dir.root().display()
            );
        }
        follow_move(dir, map, voice)?
    } else {
        let map = create(dir, wanted)?;
        voice.note(&format!(
            "made the file system '{}' with {} and {} shards in {}",
            map.name,
            units::plural(map.servers.len() as u64, "server", "servers"),
            map.shard_count(),
            dir.root().display()
        ));
        map
    };
    for server in &map.servers {
        let server_dir = dir.server(server.id);
        fs::create_dir_all(&server_dir)
            .with_context(|| format!("cannot make {}", server_dir.display()))?;
    }
    Ok(map)
}

/// Whether a file system may be in that directory: it is one's, or has nothing else in it. To be
/// asked before anything is written to it.
///
/// # Errors
/// When it holds something of no cluster, which the error names.
pub(crate) fn check_directory(dir: &DataDir) -> Result<()> {
    if !dir.cluster_map().exists()
        && let Some(foreign) = dir.foreign_entry()?
    {
        bail!(
            "--data {}: there is {}, which belongs to no cluster; choose a new directory, or one that is empty",
            dir.root().display(),
            foreign.display()
        );
    }
    Ok(())
}

/// Whether a file system can be made with these options, wherever its servers are to listen.
///
/// # Errors
/// The fault in them.
pub(crate) fn check_options(wanted: &NewCluster<'_>) -> Result<()> {
    let addresses = (0..wanted.count()?).map(|id| format!("unix:/{id}"));
    wanted.options.create_map(addresses.collect()).map(drop)
}

/// A file beside the map tells a cluster that is being made from one whose map was lost: what a crash
/// left of the first is removed, and the second is never touched.
fn create(dir: &DataDir, wanted: &NewCluster<'_>) -> Result<ClusterMap> {
    let addresses = (0..wanted.count()?)
        .map(|id| address(dir, wanted.tcp, id))
        .collect::<Result<_>>()?;
    let map = wanted.options.create_map(addresses)?;
    let in_the_making = dir.in_the_making();
    if !in_the_making.exists() {
        if let Some(found) = map
            .servers
            .iter()
            .map(|s| dir.server_data(s.id))
            .find(|d| d.exists())
        {
            bail!(
                "{} holds a server's data, but there is no cluster map {}: put the map back, or \
                 choose another --data",
                found.display(),
                dir.cluster_map().display()
            );
        }
        write_atomically(&in_the_making, "")?;
    }
    for server in &map.servers {
        let data = dir.server_data(server.id);
        if data.exists() {
            fs::remove_dir_all(&data)
                .with_context(|| format!("cannot remove the unfinished {}", data.display()))?;
        }
        let parent = dir.server(server.id);
        fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
        backend::format_server(&data, &map, server.id)?;
    }
    write_atomically(&dir.cluster_map(), &map.to_json())?;
    fs::remove_file(&in_the_making)
        .with_context(|| format!("cannot remove {}", in_the_making.display()))?;
    Ok(map)
}

fn address(dir: &DataDir, tcp: Option<SocketAddr>, id: u16) -> Result<String> {
    let Some(first) = tcp else {
        return unix_address(dir, ServerId(id));
    };
    let port = first.port().checked_add(id);
    let port = port.with_context(|| format!("--tcp {first}: there is no port for server {id}"))?;
    Ok(format!("tcp:{}", SocketAddr::new(first.ip(), port)))
}

/// `unix:DIR/server-N/socket`
pub(crate) fn unix_address(dir: &DataDir, id: ServerId) -> Result<String> {
    let address = format!("unix:{}", dir.server_socket(id).display());
    let parsed: Result<pandofs_wire::address::Address, _> = address.parse();
    parsed.with_context(|| format!("--data {}", dir.root().display()))?;
    Ok(address)
}

/// Sockets are named by absolute paths: a directory that was moved gets a new map.
fn follow_move(dir: &DataDir, mut map: ClusterMap, voice: &mut Voice) -> Result<ClusterMap> {
    let mut moved = false;
    for server in &mut map.servers {
        for address in &mut server.addresses {
            let now = unix_address(dir, server.id);
            if address.starts_with("unix:") && address.ends_with("/socket") {
                let now = now?;
                moved |= *address != now;
                *address = now;
            }
        }
    }
    if moved {
        map.epoch = Epoch(map.epoch.0 + 1);
        write_atomically(&dir.cluster_map(), &map.to_json())?;
        voice.note(&format!(
            "{} was moved: the servers' sockets have new addresses, from epoch {} on",
            dir.root().display(),
            map.epoch
        ));
    }
    Ok(map)
}
