//! `pandofs format`

use crate::datadir::write_atomically;
use crate::exit::{Outcome, WrongLine};
use crate::new_cluster::FsOptions;
use crate::source::read_cluster;
use crate::{backend, units};
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_placement::ClusterMap;
use pandofs_types::ServerId;
use pandofs_wire::address::Address;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pandofs format --cluster cluster.json --servers tcp:a:7400,tcp:b:7400,tcp:c:7400
      make the map of a new file system on three machines; then, with the map copied to each:
  pandofs format --cluster cluster.json --id 0 --data /var/lib/pandofs
      on machine a: prepare the directory of server 0
  pandofs serve --cluster cluster.json --id 0 --data /var/lib/pandofs
      on machine a: run server 0
  pandofs mount --cluster cluster.json /mnt/pando
      on any machine
  pandofs format --cluster cluster.json --servers tcp:a:7400,tcp:b:7400,tcp:c:7400 --weights 1,1,2 \\
      --domains rack-a,rack-b,rack-b
      c is to have as much as a and b together; b and c may fail together";

/// Make a file system: its cluster map, and the servers' directories
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Format {
    /// The cluster map: with --servers to be made, with --id to be read
    #[arg(
        long,
        value_name = "FILE",
        env = "PANDOFS_CLUSTER",
        hide_env_values = true
    )]
    cluster: PathBuf,
    /// Make the map of a new file system with these servers, numbered from 0
    #[arg(
        long,
        value_name = "ADDRESS,…",
        value_delimiter = ',',
        required_unless_present = "id",
        conflicts_with = "id"
    )]
    servers: Vec<Address>,
    /// Prepare the directory of this server
    #[arg(long, value_name = "N", requires = "data", conflicts_with_all = ["weights", "domains"])]
    id: Option<u16>,
    /// The directory to prepare: made, or empty; with --servers, the directories N in it for all of them
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    options: FsOptions,
}

impl Format {
    /// `given`: the options on the command line.
    ///
    /// # Errors
    /// When something is there already, or cannot be made.
    pub(crate) fn run(&self, given: &[String]) -> Result<Outcome> {
        let fixed = given.iter().find(|id| FsOptions::is_one(id));
        if let (Some(id), Some(option)) = (self.id, fixed) {
            let option = option.replace('_', "-");
            return Err(WrongLine(format!(
                "--{option} is fixed when the map is made, by --servers; --id {id} prepares a directory for the file \
                 system of the map that is there"
            ))
            .into());
        }
        match self.id {
            Some(id) => self.prepare_server(ServerId(id)),
            None => self.make_map(),
        }?;
        Ok(Outcome::Done)
    }

    fn make_map(&self) -> Result<()> {
        let path = &self.cluster;
        if path.exists() {
            bail!(
                "{} is there already: a file system's map is never overwritten; remove it if that \
                 file system is to be given up, or choose another --cluster",
                path.display()
            );
        }
        let addresses = self.servers.iter().map(Address::to_string).collect();
        let map = self.options.create_map(addresses)?;
        if let Some(data) = &self.data {
            for server in &map.servers {
                prepare(&data.join(server.id.to_string()), &map, server.id)?;
            }
        }
        write_atomically(path, &map.to_json())?;
        crate::print(&format!(
            "made the file system '{}' ({}): {}, {} shards; its map is {}\n",
            map.name,
            map.fs,
            units::plural(map.servers.len() as u64, "server", "servers"),
            map.shard_count(),
            path.display()
        ))
    }

    fn prepare_server(&self, id: ServerId) -> Result<()> {
        let map = read_cluster(&self.cluster, None)?.map;
        if map.server(id).is_none() {
            bail!(
                "the cluster map {} has no server {id}",
                self.cluster.display()
            );
        }
        let data = self.data.as_deref().context("--id needs --data")?;
        prepare(data, &map, id)?;
        crate::print(&format!(
            "prepared {} for server {id}, which leads {} of {} shards\n",
            data.display(),
            map.shards_of(id).len(),
            map.shard_count()
        ))
    }
}

fn prepare(data: &Path, map: &ClusterMap, id: ServerId) -> Result<()> {
    if data
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_some())
    {
        bail!(
            "{} is not empty: choose another directory for server {id}",
            data.display()
        );
    }
    backend::format_server(data, map, id)
}
