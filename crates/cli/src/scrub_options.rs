//! When servers scrub by themselves.

use crate::units::{self, Time};
use clap::Args;
use std::ffi::OsString;

#[derive(Args, Clone, Debug)]
pub struct ScrubOptions {
    /// How long after a scrub of everything that is stored a server begins the next one by itself; 0:
    /// only when 'pandofs scrub' asks for it
    #[arg(long, value_name = "TIME", default_value = "14d")]
    pub scrub_interval: Time,
    /// Bytes a second that a server reads at most when it scrubs by itself; 0 for no limit
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes, default_value = "16M")]
    pub scrub_rate: u64,
}

impl ScrubOptions {
    /// As they are given on the command line of a server.
    pub fn arguments(&self) -> Vec<OsString> {
        vec![
            format!("--scrub-interval={}", self.scrub_interval).into(),
            format!("--scrub-rate={}", self.scrub_rate).into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use pandofs_types::limits::{DEFAULT_SCRUB_INTERVAL, DEFAULT_SCRUB_RATE};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ScrubOptions,
    }

    #[test]
    fn the_defaults_are_those_that_are_named_and_arguments_are_read_again() {
        let options = Line::parse_from(["x"]).options;
        assert_eq!(options.scrub_interval.0, DEFAULT_SCRUB_INTERVAL);
        assert_eq!(options.scrub_rate, DEFAULT_SCRUB_RATE);
        let given =
            Line::parse_from(["x", "--scrub-interval", "90min", "--scrub-rate", "1G"]).options;
        let name = [OsString::from("x")];
        let again = Line::parse_from(name.into_iter().chain(given.arguments())).options;
        assert_eq!(again.scrub_interval, given.scrub_interval);
        assert_eq!(again.scrub_rate, 1 << 30);
    }
}
