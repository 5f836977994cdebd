//! Choice of the cluster that a command is about.

use crate::datadir::DataDir;
use crate::mounts;
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_placement::ClusterMap;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Names the cluster map.
pub(crate) const CLUSTER_VARIABLE: &str = "PANDOFS_CLUSTER";
/// Names the directory of a cluster made by `up`.
pub(crate) const DATA_VARIABLE: &str = "PANDOFS_DATA";

/// Options that name a command's cluster.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which file system")]
pub(crate) struct Source {
    /// The cluster map [env: PANDOFS_CLUSTER]
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    pub cluster: Option<PathBuf>,
    /// The directory of a cluster made by 'pandofs up' [env: PANDOFS_DATA]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// A cluster that was found.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// The file its map was read from.
    pub map_path: PathBuf,
    pub map: ClusterMap,
    /// When it was named by its directory.
    pub data: Option<DataDir>,
}

impl Source {
    /// Finds the cluster: by an option, else by the environment, else by the mount that `inside` is
    /// in, else the only one that is mounted.
    ///
    /// # Errors
    /// When none of these names one, or the map cannot be read.
    pub(crate) fn find(&self, inside: Option<&Path>) -> Result<Cluster> {
        let variable = |name| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        if let Some(map) = &self.cluster {
            return read_cluster(map, None);
        }
        if let Some(data) = &self.data {
            return of_data_dir(data);
        }
        if let Some(map) = variable(CLUSTER_VARIABLE) {
            return read_cluster(&map, None).with_context(|| format!("from {CLUSTER_VARIABLE}"));
        }
        if let Some(data) = variable(DATA_VARIABLE) {
            return of_data_dir(&data).with_context(|| format!("from {DATA_VARIABLE}"));
        }
        let mounted = mounts::pandofs_mounts()?;
        let found = match inside {
            Some(path) => mounts::containing(&mounted, path),
            None if mounted.len() == 1 => mounted.first(),
            None => None,
        };
        if let Some(map) = found.and_then(mounts::Mount::cluster_map) {
            return read_cluster(&map, None);
        }
        if let Some(path) = inside {
            bail!(
                "{} is not on a PandoFS that is mounted here. For a path inside of one give --cluster FILE \
                 (its cluster map) or --data DIR (of a cluster made by 'pandofs up')",
                path.display()
            );
        }
        bail!(
            "which file system? Give --cluster FILE (its cluster map) or --data DIR (of a cluster \
             made by 'pandofs up'), or set {CLUSTER_VARIABLE} or {DATA_VARIABLE}"
        )
    }
}

fn of_data_dir(data: &Path) -> Result<Cluster> {
    // Absolute, because child processes and messages name it.
    let root = fs::canonicalize(data).with_context(|| format!("--data {}", data.display()))?;
    let dir = DataDir::new(root);
    read_cluster(&dir.cluster_map(), Some(dir))
}

/// Reads a cluster map.
///
/// # Errors
/// Says which file, what is wrong with it, and what to do where there is something.
pub(crate) fn read_cluster(path: &Path, data: Option<DataDir>) -> Result<Cluster> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "there is no cluster map {}: make one with 'pandofs format', or a whole cluster with \
             'pandofs up'",
            path.display()
        ),
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot read the cluster map {}", path.display()));
        }
    };
    let map = ClusterMap::from_json(&text)
        .with_context(|| format!("the cluster map {} cannot be used", path.display()))?;
    let map_path =
        fs::canonicalize(path).with_context(|| format!("cannot find {}", path.display()))?;
    Ok(Cluster {
        map_path,
        map,
        data,
    })
}
