//! Options of servers.

use crate::exit::WrongLine;
use crate::units::{self, Time};
use anyhow::Result;
use clap::Args;
use pandofs_types::limits::MIN_SERVER_MEMORY_BYTES;
use std::ffi::OsString;

#[derive(Args, Clone, Debug)]
pub(crate) struct ServerOptions {
    /// How long after a scrub of everything that is stored a server begins the next one by itself; 0:
    /// only when 'pandofs scrub' asks for it
    #[arg(long, value_name = "TIME", default_value = "14d")]
    pub scrub_interval: Time,
    /// Bytes a second that a server reads at most when it scrubs by itself; 0 for no limit
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes, default_value = "16M")]
    pub scrub_rate: u64,
    /// Bytes of memory that a server takes for caches, writes that are not in files yet, and requests; 96M at
    /// least
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes, default_value = "768M")]
    pub memory: u64,
    /// Operations that take longer are logged by servers and mount, with what they waited for; 0: none is
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub slow: Time,
}

impl ServerOptions {
    /// # Errors
    /// When a server cannot run like that.
    pub(crate) fn check(&self) -> Result<()> {
        if self.memory < MIN_SERVER_MEMORY_BYTES {
            let least = MIN_SERVER_MEMORY_BYTES >> 20;
            let memory = self.memory;
            return Err(WrongLine(format!(
                "--memory {memory} is too little: give {least}M at least"
            ))
            .into());
        }
        Ok(())
    }

    /// As they are given on the command line of a server.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        vec![
            format!("--scrub-interval={}", self.scrub_interval).into(),
            format!("--scrub-rate={}", self.scrub_rate).into(),
            format!("--memory={}", self.memory).into(),
            format!("--slow={}", self.slow).into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use pandofs_types::limits::{
        DEFAULT_SCRUB_INTERVAL, DEFAULT_SCRUB_RATE, DEFAULT_SERVER_MEMORY_BYTES, DEFAULT_SLOW,
    };

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ServerOptions,
    }

    #[test]
    fn the_defaults_are_those_that_are_named_and_arguments_are_read_again() {
        let options = Line::parse_from(["x"]).options;
        assert_eq!(options.scrub_interval.0, DEFAULT_SCRUB_INTERVAL);
        assert_eq!(options.scrub_rate, DEFAULT_SCRUB_RATE);
        assert_eq!(options.memory, DEFAULT_SERVER_MEMORY_BYTES);
        assert_eq!(options.slow.0, DEFAULT_SLOW);
        options.check().unwrap();
        let words = "x --scrub-interval 90min --scrub-rate 1G --memory 128M --slow 250ms";
        let given = Line::parse_from(words.split(' ')).options;
        let name = [OsString::from("x")];
        let again = Line::parse_from(name.into_iter().chain(given.arguments())).options;
        assert_eq!(again.scrub_interval, given.scrub_interval);
        assert_eq!(again.scrub_rate, 1 << 30);
        assert_eq!(again.memory, 128 << 20);
        assert_eq!(again.slow, given.slow);
        let little = Line::parse_from(["x", "--memory=64M"]).options;
        assert!(little.check().unwrap_err().to_string().contains("96M"));
    }
}
