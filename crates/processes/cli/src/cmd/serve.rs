//! `pandofs serve`

use crate::backend;
use crate::daemon::StartedBy;
use crate::exit::{Misconfigured, Outcome};
use crate::metrics::MetricsOptions;
use crate::server_options::ServerOptions;
use crate::source::read_cluster;
use crate::traces::TracesOptions;
use anyhow::Result;
use clap::Args;
use pandofs_types::ServerId;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pandofs serve --cluster cluster.json --id 0 --data /var/lib/pandofs
  pandofs serve --cluster cluster.json --id 0 --data /var/lib/pandofs --metrics 9100
      the same, with what it counts at http://127.0.0.1:9100/metrics

SIGTERM and Ctrl-C stop it cleanly. It may be killed at any time: started again, it goes by what its
log and store hold.";

/// Run one server
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// The cluster map
    #[arg(
        long,
        value_name = "FILE",
        env = "PANDOFS_CLUSTER",
        hide_env_values = true
    )]
    cluster: PathBuf,
    /// Which of the map's servers this is
    #[arg(long, value_name = "N")]
    id: u16,
    /// Its directory, prepared by 'pandofs format'
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    server_options: ServerOptions,
    #[command(flatten)]
    metrics: MetricsOptions,
    #[command(flatten)]
    traces: TracesOptions,
    #[command(flatten)]
    started_by: StartedBy,
}

impl Serve {
    /// Serves until it is ordered to stop.
    ///
    /// # Errors
    /// When it cannot start, or had to stop by itself.
    pub(crate) fn run(&self) -> Result<Outcome> {
        self.started_by.tie_to_parent()?;
        let cluster = read_cluster(&self.cluster, None).map_err(Misconfigured::unless_passing)?;
        let id = ServerId(self.id);
        backend::serve(
            &self.data,
            &cluster,
            id,
            &self.server_options,
            &self.metrics,
            &self.traces,
            &self.started_by,
        )?;
        Ok(Outcome::Done)
    }
}
