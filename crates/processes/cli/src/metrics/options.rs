//! Options by which a server or a mount tells its metrics.

use crate::exit::WrongLine;
use anyhow::{Context, Result, anyhow};
use clap::Args;
use pandofs_metrics::{Address, Endpoint, Listening, Source};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::sync::Arc;

/// Where metrics are served; nowhere unless it is set.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Metrics")]
pub(crate) struct MetricsOptions {
    /// Tell counts and times over HTTP, under /metrics, for Prometheus and the like: at this port of 127.0.0.1, or at
    /// ADDRESS:PORT. With 'up' it is the mount's; server N has the port that is N + 1 higher
    #[arg(long = "metrics", value_name = "ADDRESS")]
    pub address: Option<Address>,
    /// Let the address of --metrics be one that other machines reach: all of them may read it
    #[arg(long = "metrics-for-network")]
    pub for_network: bool,
}

impl MetricsOptions {
    /// # Errors
    /// An address that others reach without its being said, or something said of an address that is not there.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(address) = self.address else {
            return match self.for_network {
                false => Ok(()),
                true => Err(WrongLine::because(&anyhow!(
                    "--metrics-for-network says something of the address of --metrics, which is missing"
                ))),
            };
        };
        if !address.is_loopback() && !self.for_network {
            return Err(WrongLine::because(&anyhow!(
                "--metrics {address}: other machines reach this address, and whoever connects may read what is counted \
                 there; give a port alone ({}) for this machine, or add --metrics-for-network if all of them may",
                address.0.port()
            )));
        }
        Ok(())
    }

    /// Those of server `id` of a cluster on this machine, whose mount has these.
    pub(crate) fn of_server(&self, id: u16) -> Option<MetricsOptions> {
        let address = match self.address {
            None => None,
            Some(address) => Some(address.further(id.checked_add(1)?)?),
        };
        Some(MetricsOptions { address, ..*self })
    }

    /// As they are given on the command line of a server.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let address = self.address.map(|address| format!("--metrics={address}"));
        let for_network = self.for_network.then(|| "--metrics-for-network".to_owned());
        [address, for_network]
            .into_iter()
            .flatten()
            .map(OsString::from)
            .collect()
    }

    /// Takes the address, if there is one; nothing is served there yet.
    ///
    /// # Errors
    /// As [`Self::check`], and when the address cannot be had.
    pub(crate) fn listen(&self) -> Result<Option<Listening>> {
        self.check()?;
        let Some(address) = self.address else {
            return Ok(None);
        };
        let listening = Listening::on(address).map_err(|error| {
            let hint = match error.kind() {
                ErrorKind::AddrInUse => "another program listens there; choose another port",
                ErrorKind::PermissionDenied => "choose a port above 1023",
                ErrorKind::AddrNotAvailable => "this machine has no such address",
                _ => "choose another address",
            };
            anyhow!("cannot tell metrics at {address} (--metrics): {hint}: {error}")
        });
        listening.map(Some)
    }
}

/// Tells what there is from now on.
///
/// # Errors
/// The system's.
pub(crate) fn serve(listening: Option<Listening>, source: impl Source) -> Result<Option<Endpoint>> {
    let Some(listening) = listening else {
        return Ok(None);
    };
    let endpoint = listening
        .serve(Arc::new(source))
        .context("cannot tell metrics")?;
    tracing::info!("metrics are told at {}", url(endpoint.address()));
    Ok(Some(endpoint))
}

/// Where the metrics of an address are.
pub(crate) fn url(address: Address) -> String {
    format!("http://{address}/metrics")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: MetricsOptions,
    }

    fn parse(line: &str) -> MetricsOptions {
        Line::parse_from(line.split(' ')).options
    }

    fn refused(line: &str) -> String {
        parse(line).check().unwrap_err().to_string()
    }

    #[test]
    fn others_are_told_only_if_that_is_said() {
        for line in [
            "x",
            "x --metrics 9100",
            "x --metrics [::1]:9100",
            "x --metrics 0.0.0.0:9100 --metrics-for-network",
        ] {
            parse(line).check().unwrap();
        }
        let error = refused("x --metrics 0.0.0.0:9100");
        assert!(error.contains("add --metrics-for-network"), "{error}");
        assert!(error.contains("(9100)"), "{error}");
        assert!(refused("x --metrics-for-network").contains("missing"));
        let error = Line::try_parse_from(["x", "--metrics", "here"]).unwrap_err();
        assert!(error.to_string().contains("give a port (9100)"), "{error}");
    }

    #[test]
    fn each_server_has_a_port_of_its_own_and_its_arguments_are_read_again() {
        let options = parse("x --metrics 0.0.0.0:9100 --metrics-for-network");
        let of_third = options.of_server(2).unwrap();
        assert_eq!(of_third.address.unwrap().to_string(), "0.0.0.0:9103");
        let name = [OsString::from("x")];
        let again = Line::parse_from(name.into_iter().chain(of_third.arguments()));
        assert_eq!(again.options, of_third);
        assert_eq!(parse("x --metrics 65535").of_server(0), None);
        let none = parse("x");
        assert_eq!(none.of_server(u16::MAX - 1), Some(none));
        assert_eq!(none.arguments(), Vec::<OsString>::new());
    }

    #[test]
    fn an_address_that_somebody_has_is_told_with_what_to_do() {
        let first = parse("x --metrics 0").listen().unwrap().unwrap();
        let line = format!("x --metrics {}", first.address());
        let error = parse(&line).listen().unwrap_err().to_string();
        assert!(error.contains("choose another port"), "{error}");
        assert!(error.contains(&first.address().to_string()), "{error}");
        assert!(parse("x").listen().unwrap().is_none());
    }
}
