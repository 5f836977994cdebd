//! Text of families, in the format of OpenMetrics or in that of Prometheus from before.

use crate::family::{Family, Number, Sample, Values};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashMap;
use std::fmt;

/// Format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus 0.0.4, which `promtool check metrics` reads, and readers that ask for nothing else.
    Plain,
}

impl Format {
    /// By the `Accept` of a request.
    pub(crate) fn accepted(accept: &str) -> Format {
        match accept.contains("application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::Plain,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Families as a text, in their order.
///
/// # Errors
/// The library's, when it cannot write a figure.
pub fn exposition(families: Vec<Family>, format: Format) -> Result<String, fmt::Error> {
    let plain = (format == Format::Plain).then(|| Plain::of(&families));
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut told = String::new();
    text::encode(&mut told, &registry)?;
    Ok(match plain {
        None => told,
        Some(plain) => plain.text(&told),
    })
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0 {
            let kind = match family.values {
                Values::Counters(_) => MetricType::Counter,
                Values::Gauges(_) => MetricType::Gauge,
                Values::Histograms(_) => MetricType::Histogram,
            };
            let (stem, unit) = split(family.name);
            let unit = unit.as_ref();
            let mut metric = encoder.encode_descriptor(stem, family.help, unit, kind)?;
            match &family.values {
                Values::Counters(samples) => each(&mut metric, samples, |metric, value| {
                    let none: Option<&Exemplar<NoLabelSet, f64>> = None;
                    match value {
                        Number::Whole(whole) => metric.encode_counter(whole, none),
                        Number::Real(real) => metric.encode_counter(real, none),
                    }
                }),
                Values::Gauges(samples) => {
                    each(&mut metric, samples, |metric, value| match value {
                        // The library writes no larger ones.
                        Number::Whole(whole) => {
                            metric.encode_gauge(&i64::try_from(*whole).unwrap_or(i64::MAX))
                        }
                        Number::Real(real) => metric.encode_gauge(real),
                    })
                }
                Values::Histograms(samples) => each(&mut metric, samples, |metric, value| {
                    let none: Option<&HashMap<usize, Exemplar<NoLabelSet, f64>>> = None;
                    metric.encode_histogram(value.seconds(), value.count(), &value.buckets(), none)
                }),
            }?;
        }
        Ok(())
    }
}

/// Writes each sample with its labels.
fn each<V>(
    metric: &mut MetricEncoder<'_>,
    samples: &[Sample<V>],
    write: impl Fn(&mut MetricEncoder<'_>, &V) -> Result<(), fmt::Error>,
) -> Result<(), fmt::Error> {
    for Sample { labels, value } in samples {
        if labels.is_empty() {
            write(metric, value)?;
            continue;
        }
        write(&mut metric.encode_family(labels)?, value)?;
    }
    Ok(())
}

/// The name without its unit, which the format wants by itself.
fn split(name: &str) -> (&str, Option<Unit>) {
    for unit in [Unit::Seconds, Unit::Bytes] {
        let ending = name.strip_suffix(unit.as_str());
        if let Some(stem) = ending.and_then(|stem| stem.strip_suffix('_')) {
            return (stem, Some(unit));
        }
    }
    (name, None)
}

/// The earlier format, made of OpenMetrics: it knows no units and no end, and of counters the description has the name
/// that the figures have.
struct Plain {
    /// Names of counters, each as it is told.
    counters: HashMap<&'static str, String>,
}

impl Plain {
    fn of(families: &[Family]) -> Plain {
        let is_counter = |family: &&Family| matches!(family.values, Values::Counters(_));
        let counters = families.iter().filter(is_counter);
        let counters = counters.map(|family| (family.name, family.told_name()));
        Plain {
            counters: counters.collect(),
        }
    }

    fn text(&self, told: &str) -> String {
        let mut plain = String::with_capacity(told.len());
        for line in told.lines() {
            if line == "# EOF" || line.starts_with("# UNIT ") {
                continue;
            }
            let mut words = line.splitn(4, ' ');
            let described = match (words.next(), words.next(), words.next(), words.next()) {
                (Some("#"), Some(what), Some(name), Some(rest)) => {
                    let counter = self.counters.get(name);
                    counter.map(|name| format!("# {what} {name} {rest}"))
                }
                _ => None,
            };
            plain.push_str(described.as_deref().unwrap_or(line));
            plain.push('\n');
        }
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::sample;
    use crate::histogram::Histogram;
    use std::time::Duration;

    fn families() -> Vec<Family> {
        let looks = Histogram::default();
        looks.add(Duration::from_micros(10));
        looks.add(Duration::from_micros(11));
        looks.add(Duration::from_secs(60));
        let outcome = |outcome, count: u64| sample("outcome", outcome, count);
        vec![
            Family::counter("read_bytes", "Bytes that were read.", 7_u64),
            Family::counter("cpu_seconds", "Time that was used.", 1.5),
            Family::gauge("open_files", "Files that are open.", u64::MAX),
            Family {
                name: "operations",
                help: "Operations that have ended.",
                values: Values::Counters(vec![outcome("done", 3), outcome("a \"b\" \\", 0)]),
            },
            Family {
                name: "look_duration_seconds",
                help: "Time that looking took.",
                values: Values::Histograms(vec![sample("what", "lookup", looks.snapshot())]),
            },
            Family {
                name: "nothing_yet",
                help: "Of this there is nothing.",
                values: Values::Gauges(Vec::new()),
            },
        ]
    }

    const GOLDEN: &str = r#"# HELP read_bytes Bytes that were read.
# TYPE read_bytes counter
# UNIT read_bytes bytes
read_bytes_total 7
# HELP cpu_seconds Time that was used.
# TYPE cpu_seconds counter
# UNIT cpu_seconds seconds
cpu_seconds_total 1.5
# HELP open_files Files that are open.
# TYPE open_files gauge
open_files 9223372036854775807
# HELP operations Operations that have ended.
# TYPE operations counter
operations_total{outcome="done"} 3
operations_total{outcome="a \"b\" \\"} 0
# HELP look_duration_seconds Time that looking took.
# TYPE look_duration_seconds histogram
# UNIT look_duration_seconds seconds
look_duration_seconds_sum{what="lookup"} 60.000021
look_duration_seconds_count{what="lookup"} 3
look_duration_seconds_bucket{le="0.00001",what="lookup"} 1
look_duration_seconds_bucket{le="0.000025",what="lookup"} 2
look_duration_seconds_bucket{le="0.00005",what="lookup"} 2
look_duration_seconds_bucket{le="0.0001",what="lookup"} 2
look_duration_seconds_bucket{le="0.00025",what="lookup"} 2
look_duration_seconds_bucket{le="0.0005",what="lookup"} 2
look_duration_seconds_bucket{le="0.001",what="lookup"} 2
look_duration_seconds_bucket{le="0.0025",what="lookup"} 2
look_duration_seconds_bucket{le="0.005",what="lookup"} 2
look_duration_seconds_bucket{le="0.01",what="lookup"} 2
look_duration_seconds_bucket{le="0.025",what="lookup"} 2
look_duration_seconds_bucket{le="0.05",what="lookup"} 2
look_duration_seconds_bucket{le="0.1",what="lookup"} 2
look_duration_seconds_bucket{le="0.25",what="lookup"} 2
look_duration_seconds_bucket{le="0.5",what="lookup"} 2
look_duration_seconds_bucket{le="1.0",what="lookup"} 2
look_duration_seconds_bucket{le="2.5",what="lookup"} 2
look_duration_seconds_bucket{le="5.0",what="lookup"} 2
look_duration_seconds_bucket{le="10.0",what="lookup"} 2
look_duration_seconds_bucket{le="+Inf",what="lookup"} 3
# HELP nothing_yet Of this there is nothing.
# TYPE nothing_yet gauge
# EOF
"#;

    #[test]
    fn families_are_told_as_openmetrics_wants_it() {
        let told = exposition(families(), Format::OpenMetrics).unwrap();
        assert_eq!(told, GOLDEN);
    }

    #[test]
    fn the_earlier_format_has_no_units_and_describes_counters_by_their_whole_names() {
        let told = exposition(families(), Format::Plain).unwrap();
        let changed: Vec<&str> = told
            .lines()
            .filter(|line| !GOLDEN.lines().any(|golden| golden == *line))
            .collect();
        assert_eq!(
            changed,
            [
                "# HELP read_bytes_total Bytes that were read.",
                "# TYPE read_bytes_total counter",
                "# HELP cpu_seconds_total Time that was used.",
                "# TYPE cpu_seconds_total counter",
                "# HELP operations_total Operations that have ended.",
                "# TYPE operations_total counter",
            ]
        );
        let left_out = 4;
        assert_eq!(told.lines().count() + left_out, GOLDEN.lines().count());
    }

    #[test]
    fn who_asks_for_openmetrics_gets_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        for other in ["", "*/*", "text/html", "text/plain"] {
            assert_eq!(Format::accepted(other), Format::Plain);
        }
    }
}
