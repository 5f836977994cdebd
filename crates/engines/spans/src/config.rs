//! Configuration: where spans go and how many, by options and by the environment as OpenTelemetry has it.

use crate::limits::{DEFAULT_RATIO, REQUEST_TIME};
use hyper::Uri;
use std::env;
use std::time::Duration;

/// The path of a collector for traces, below its address.
const PATH: &str = "/v1/traces";

/// Where spans go, and of how many traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// With the path.
    pub(crate) endpoint: String,
    /// Part of the traces that begin here; `None`: as `OTEL_TRACES_SAMPLER` says.
    pub(crate) ratio: Option<f64>,
    /// For one request.
    pub(crate) time: Duration,
}

/// Why spans cannot go there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongConfig {
    /// It is no address of a collector.
    #[error("'{0}' is no address of an OTLP collector: give one as http://HOST:4318")]
    NoAddress(String),
    /// It wants TLS.
    #[error(
        "'{0}': spans are sent without TLS; have a collector on this machine take them (http://127.0.0.1:4318) and pass them on"
    )]
    Tls(String),
    /// Another format is asked for.
    #[error("OTEL_EXPORTER_OTLP_PROTOCOL is '{0}', and spans are sent by http/protobuf alone")]
    Protocol(String),
    /// It is no part.
    #[error("'{0}' is no part of all traces: give a number from 0 to 1")]
    Ratio(String),
    /// The library refuses it.
    #[error("spans cannot be sent: {0}")]
    Library(String),
}

impl Config {
    /// By these options and by the environment, of which options come first; `None` if nobody asks for spans.
    ///
    /// `endpoint` is the address of a collector, without the path for traces; `ratio` the part of the traces that begin in
    /// this process which are recorded.
    ///
    /// # Errors
    /// [`WrongConfig`]
    pub fn find(endpoint: Option<&str>, ratio: Option<f64>) -> Result<Option<Config>, WrongConfig> {
        Config::find_in(endpoint, ratio, |name| env::var(name).ok())
    }

    fn find_in(
        endpoint: Option<&str>,
        ratio: Option<f64>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Config>, WrongConfig> {
        // An empty variable counts as not there, as OpenTelemetry wants it.
        let read = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        if let Some(ratio) = ratio.filter(|ratio| !(0.0..=1.0).contains(ratio)) {
            return Err(WrongConfig::Ratio(ratio.to_string()));
        }
        let is_off = read("OTEL_SDK_DISABLED").is_some_and(|value| value == "true")
            || read("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        let below = |address: &str| format!("{}{PATH}", address.trim_end_matches('/'));
        let endpoint = match endpoint {
            Some(address) => Some(below(address)),
            None if is_off => None,
            None => read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
                .or_else(|| read("OTEL_EXPORTER_OTLP_ENDPOINT").map(|address| below(&address))),
        };
        let Some(endpoint) = endpoint else {
            return Ok(None);
        };
        check(&endpoint)?;
        let protocol = read("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            .or_else(|| read("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(other) = protocol.filter(|protocol| protocol != "http/protobuf") {
            return Err(WrongConfig::Protocol(other));
        }
        let time = read("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT")
            .or_else(|| read("OTEL_EXPORTER_OTLP_TIMEOUT"))
            .and_then(|milliseconds| milliseconds.parse().ok());
        let is_said = read("OTEL_TRACES_SAMPLER").is_some();
        Ok(Some(Config {
            endpoint,
            ratio: ratio.or((!is_said).then_some(DEFAULT_RATIO)),
            time: time.map_or(REQUEST_TIME, Duration::from_millis),
        }))
    }

    /// Where they go.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

/// # Errors
/// When there is no sending anything to it.
fn check(endpoint: &str) -> Result<(), WrongConfig> {
    let address = || endpoint.strip_suffix(PATH).unwrap_or(endpoint).to_owned();
    let uri: Uri = endpoint
        .parse()
        .map_err(|_| WrongConfig::NoAddress(address()))?;
    match uri.scheme_str() {
        Some("http") if uri.host().is_some_and(|host| !host.is_empty()) => Ok(()),
        Some("https") => Err(WrongConfig::Tls(address())),
        _ => Err(WrongConfig::NoAddress(address())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(
        endpoint: Option<&str>,
        ratio: Option<f64>,
        environment: &[(&str, &str)],
    ) -> Result<Option<Config>, WrongConfig> {
        Config::find_in(endpoint, ratio, |name| {
            let mut all = environment.iter();
            all.find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nobody_asks_and_nothing_is_sent() {
        assert_eq!(find(None, None, &[]), Ok(None));
        assert_eq!(find(None, Some(1.0), &[]), Ok(None));
        let empty = [("OTEL_EXPORTER_OTLP_ENDPOINT", " ")];
        assert_eq!(find(None, None, &empty), Ok(None));
        for off in [
            ("OTEL_SDK_DISABLED", "true"),
            ("OTEL_TRACES_EXPORTER", "none"),
        ] {
            let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://there:1"), off];
            assert_eq!(find(None, None, &environment), Ok(None));
            let here = find(Some("http://here:1"), None, &environment).unwrap();
            assert!(here.is_some(), "an option is the clearer word");
        }
    }

    #[test]
    fn the_option_comes_before_the_environment_and_the_narrower_variable_before_the_other() {
        let both = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://there:4318/"),
            (
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                "http://traces:9/as/it/is",
            ),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
        ];
        let found = |endpoint, environment| find(endpoint, None, environment).unwrap().unwrap();
        assert_eq!(found(None, &both).endpoint, "http://traces:9/as/it/is");
        assert_eq!(
            found(None, &both[..1]).endpoint,
            "http://there:4318/v1/traces"
        );
        let option = found(Some("http://127.0.0.1:4318"), &both);
        assert_eq!(option.endpoint, "http://127.0.0.1:4318/v1/traces");
        assert_eq!(option.time, Duration::from_millis(250));
    }

    #[test]
    fn of_how_many_traces_is_said_by_the_option_the_environment_or_nobody() {
        let sampler = [("OTEL_TRACES_SAMPLER", "always_on")];
        let ratio = |option, environment| {
            let config = find(Some("http://here:1"), option, environment).unwrap();
            config.unwrap().ratio
        };
        assert_eq!(ratio(Some(0.5), &sampler), Some(0.5));
        assert_eq!(ratio(None, &sampler), None);
        assert_eq!(ratio(None, &[]), Some(DEFAULT_RATIO));
        assert_eq!(
            find(None, Some(1.5), &[]),
            Err(WrongConfig::Ratio("1.5".to_owned()))
        );
    }

    #[test]
    fn what_cannot_be_sent_to_is_refused() {
        for (endpoint, wanted) in [
            ("https://here", WrongConfig::Tls("https://here".to_owned())),
            ("here:4318", WrongConfig::NoAddress("here:4318".to_owned())),
            ("4318", WrongConfig::NoAddress("4318".to_owned())),
            ("", WrongConfig::NoAddress(String::new())),
        ] {
            assert_eq!(find(Some(endpoint), None, &[]), Err(wanted));
        }
        let grpc = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        assert_eq!(
            find(Some("http://here:1"), None, &grpc),
            Err(WrongConfig::Protocol("grpc".to_owned()))
        );
    }
}
