//! Options by which a server or a mount sends spans of traces to a collector.

use crate::exit::WrongLine;
use anyhow::{Context, Result};
use clap::Args;
use pandofs_fuse::Setting;
use pandofs_metrics::{Family, Values, sample};
use pandofs_spans::{Config, Spans, Value};
use pandofs_types::FsId;
use std::ffi::OsString;

/// Where spans go; nowhere unless it is said here or in the environment.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Traces")]
pub(crate) struct TracesOptions {
    /// Send spans of requests, through mount and servers, to an OpenTelemetry collector that takes OTLP over HTTP at this
    /// address, as http://127.0.0.1:4318 [env: OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long = "otlp-endpoint", value_name = "URL")]
    pub endpoint: Option<String>,
    /// Follow this part of the requests of a mount, from 0 to 1 [default: 0.01, or what OTEL_TRACES_SAMPLER and
    /// OTEL_TRACES_SAMPLER_ARG say]
    #[arg(long = "otlp-ratio", value_name = "PART")]
    pub ratio: Option<f64>,
}

impl TracesOptions {
    /// # Errors
    /// The address, of these options or of the environment, that cannot be sent to.
    pub(crate) fn check(&self) -> Result<()> {
        self.config().map(drop)
    }

    fn config(&self) -> Result<Option<Config>> {
        let found = Config::find(self.endpoint.as_deref(), self.ratio);
        found.map_err(|error| WrongLine(format!("traces: {error}")).into())
    }

    /// As they are given on a command line.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let endpoint = self
            .endpoint
            .as_ref()
            .map(|url| format!("--otlp-endpoint={url}"));
        let ratio = self.ratio.map(|ratio| format!("--otlp-ratio={ratio}"));
        endpoint
            .into_iter()
            .chain(ratio)
            .map(OsString::from)
            .collect()
    }

    /// In the words of mount(8)'s `-o`.
    pub(crate) fn given(&self) -> Vec<Setting> {
        let ratio = self.ratio.map(|ratio| ratio.to_string());
        let given = [
            ("otlp_endpoint", self.endpoint.clone()),
            ("otlp_ratio", ratio),
        ];
        given
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }

    /// Takes one of these words.
    ///
    /// # Errors
    /// A value that is none.
    pub(crate) fn apply(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "otlp_ratio" => self.ratio = Some(value.parse().context("a part is missing")?),
            _ => self.endpoint = Some(value.to_owned()),
        }
        Ok(())
    }

    /// Begins to send spans of this process, if anybody wants them. `server`: its number, if it is one.
    ///
    /// # Errors
    /// As [`Self::check`], and when there is no thread for it.
    pub(crate) fn start(&self, fs: FsId, server: Option<u16>) -> Result<Option<Spans>> {
        let Some(config) = self.config()? else {
            return Ok(None);
        };
        let service = match server {
            Some(_) => "pandofs-server",
            None => "pandofs-mount",
        };
        let instance = match server {
            Some(number) => format!("{fs}/server-{number}"),
            None => format!("{fs}/mount-{}", std::process::id()),
        };
        let mut attributes = vec![
            ("service.version", Value::from(env!("CARGO_PKG_VERSION"))),
            ("service.instance.id", Value::from(instance)),
            ("process.pid", Value::from(std::process::id())),
            ("pandofs.file_system", Value::from(fs.to_string())),
        ];
        if let Some(number) = server {
            attributes.push(("pandofs.server", Value::from(number)));
        }
        let spans = Spans::start(&config, service, attributes)
            .map_err(|error| WrongLine(format!("traces: {error}")))?;
        tracing::info!("spans of traces go to {}", config.endpoint());
        Ok(Some(spans))
    }
}

/// Families of a process that sends spans, or does not.
pub(crate) fn families(spans: Option<&Spans>) -> Vec<Family> {
    let counts = spans.map(Spans::counts).unwrap_or_default();
    let outcome = |outcome, count: u64| sample("outcome", outcome, count);
    vec![Family {
        name: "pandofs_spans",
        help: "Spans of traces that this process has made, by what became of them: sent, dropped because they came faster \
               than they were sent, or lost because the collector was away or refused them.",
        values: Values::Counters(vec![
            outcome("sent", counts.sent),
            outcome("dropped", counts.dropped),
            outcome("lost", counts.failed),
        ]),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: TracesOptions,
    }

    #[test]
    fn arguments_are_read_again_and_wrong_ones_refused() {
        let parse = |words: Vec<OsString>| {
            let name = [OsString::from("x")];
            Line::parse_from(name.into_iter().chain(words)).options
        };
        let options = TracesOptions {
            endpoint: Some("http://127.0.0.1:4318".to_owned()),
            ratio: Some(0.5),
        };
        assert_eq!(parse(options.arguments()), options);
        options.check().unwrap();
        for (endpoint, ratio, wanted) in [
            ("https://127.0.0.1:4318", 0.5, "without TLS"),
            ("here", 0.5, "no address of an OTLP collector"),
            ("http://here", 7.0, "from 0 to 1"),
        ] {
            let wrong = TracesOptions {
                endpoint: Some(endpoint.to_owned()),
                ratio: Some(ratio),
            };
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
