//! Families of figures, as readers get them.

use crate::histogram::Snapshot;

/// Figures of one name that differ in their labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// In lower case, with the unit at the end (`_seconds`, `_bytes`) if there is one; counters without the `_total`
    /// that the format adds.
    pub name: &'static str,
    /// A sentence for people.
    pub help: &'static str,
    /// Its figures.
    pub values: Values,
}

/// Figures of a family. A family without any is told all the same, so that people learn of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// They only grow while the process lives.
    Counters(Vec<Sample<Number>>),
    /// They are as they are now.
    Gauges(Vec<Sample<Number>>),
    /// How long something took.
    Histograms(Vec<Sample<Snapshot>>),
}

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Without a fraction.
    Whole(u64),
    /// With one.
    Real(f64),
}

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        Number::Whole(number)
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Number {
        Number::Whole(number as u64)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Number {
        Number::Real(number)
    }
}

/// A figure with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<V> {
    /// Names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The figure.
    pub value: V,
}

/// One figure with one label.
pub fn sample<V>(name: &'static str, label: impl Into<String>, value: impl Into<V>) -> Sample<V> {
    Sample {
        labels: vec![(name, label.into())],
        value: value.into(),
    }
}

impl Family {
    /// A single counter.
    pub fn counter(name: &'static str, help: &'static str, value: impl Into<Number>) -> Family {
        let values = Values::Counters(vec![alone(value.into())]);
        Family { name, help, values }
    }

    /// A single gauge.
    pub fn gauge(name: &'static str, help: &'static str, value: impl Into<Number>) -> Family {
        let values = Values::Gauges(vec![alone(value.into())]);
        Family { name, help, values }
    }

    /// A single histogram.
    pub fn histogram(name: &'static str, help: &'static str, value: Snapshot) -> Family {
        let values = Values::Histograms(vec![alone(value)]);
        Family { name, help, values }
    }

    /// Name of what is told: with `_total` if it is a counter.
    pub fn told_name(&self) -> String {
        match self.values {
            Values::Counters(_) => format!("{}_total", self.name),
            Values::Gauges(_) | Values::Histograms(_) => self.name.to_owned(),
        }
    }
}

fn alone<V>(value: V) -> Sample<V> {
    Sample {
        labels: Vec::new(),
        value,
    }
}
