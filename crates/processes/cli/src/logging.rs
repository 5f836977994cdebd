//! Log of events: standard error, filtered by PANDOFS_LOG.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Sets what is logged.
pub(crate) const LOG_VARIABLE: &str = "PANDOFS_LOG";

/// For the help.
pub(crate) const HELP: &str = "\
Environment:
  PANDOFS_CLUSTER  the cluster map, instead of --cluster
  PANDOFS_DATA     the directory of a cluster made by 'pandofs up', instead of --data
  PANDOFS_LOG      what is logged to standard error: error, warn, info, debug or trace, also by
                   module, as in 'info,pandofs_client=debug'";

/// Starts logging. `default` is in force where PANDOFS_LOG says nothing.
///
/// # Errors
/// When PANDOFS_LOG cannot be understood.
pub(crate) fn start(default: &str) -> anyhow::Result<()> {
    let filter = match std::env::var(LOG_VARIABLE) {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text)
            .map_err(|error| anyhow::anyhow!("{LOG_VARIABLE}={text}: {error}"))?,
        _ => EnvFilter::new(default),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        // It would be said on standard error, which cannot be written to either, and end the process: a
        // server whose log is on a full disk is to serve.
        .log_internal_errors(false)
        .init();
    Ok(())
}
