//! Weights and failure domains of servers, as given on the command line.

use crate::units;
use anyhow::{Result, ensure};
use pandofs_placement::ServerInfo;
use pandofs_types::ServerId;
use pandofs_types::limits::{MAX_DOMAIN_BYTES, MAX_SERVER_WEIGHT, SERVER_WEIGHT_STEPS};
use std::fmt;
use std::str::FromStr;

/// A server's weight as it is written on the command line: `1`, `0.5`, `2.25`. Held as the cluster map has it, in units of
/// 1/65,536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight(pub u32);

impl Weight {
    /// In steps, to the nearest.
    fn steps(self) -> u64 {
        let one = u64::from(ServerInfo::WEIGHT_ONE);
        (u64::from(self.0) * u64::from(SERVER_WEIGHT_STEPS) + one / 2) / one
    }

    /// As a number: what was written, or of a map written by hand the exact one where it is less
    /// than can be written.
    pub(crate) fn number(self) -> f64 {
        match self.steps() {
            0 => f64::from(self.0) / f64::from(ServerInfo::WEIGHT_ONE),
            steps => steps as f64 / f64::from(SERVER_WEIGHT_STEPS),
        }
    }
}

impl FromStr for Weight {
    type Err = String;

    fn from_str(text: &str) -> Result<Weight, String> {
        let decimals = SERVER_WEIGHT_STEPS.ilog10() as usize;
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            _ => (text, ""),
        };
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = !whole.is_empty() && are_digits(whole) && are_digits(fraction);
        let most = u64::from(MAX_SERVER_WEIGHT) * u64::from(SERVER_WEIGHT_STEPS);
        let steps = Some(format!("{whole}{fraction:0<decimals$}"))
            .filter(|_| is_number && fraction.len() <= decimals)
            .and_then(|digits| digits.parse().ok())
            .filter(|steps| (1..=most).contains(steps));
        let steps: u64 = steps.ok_or_else(|| {
            format!(
                "'{text}' is no weight: write a number from {} to {MAX_SERVER_WEIGHT}, with {decimals} digits after the \
                 point at most; an ordinary server has 1",
                1.0 / f64::from(SERVER_WEIGHT_STEPS)
            )
        })?;
        let steps_of_one = u64::from(SERVER_WEIGHT_STEPS);
        let units = (steps * u64::from(ServerInfo::WEIGHT_ONE) + steps_of_one / 2) / steps_of_one;
        u32::try_from(units)
            .map(Weight)
            .map_err(|_| format!("'{text}' is too large a weight"))
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// The name of a failure domain as it is written on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain(String);

impl Domain {
    /// Of a server that was given none: it fails alone.
    pub(crate) fn of_its_own(server: ServerId) -> Domain {
        Domain(format!("server-{server}"))
    }
}

impl FromStr for Domain {
    type Err = String;

    /// A space would make ` b` of `a, b` another domain than `b`.
    fn from_str(text: &str) -> Result<Domain, String> {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == ',';
        if (1..=MAX_DOMAIN_BYTES).contains(&text.len()) && !text.contains(is_odd) {
            return Ok(Domain(text.to_owned()));
        }
        Err(format!(
            "'{}' is no failure domain: write a name of 1 to {MAX_DOMAIN_BYTES} bytes without spaces, as in rack-a",
            text.escape_debug()
        ))
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether the server was given another weight or domain than it has by itself.
pub(crate) fn is_set(server: &ServerInfo) -> bool {
    server.weight != ServerInfo::WEIGHT_ONE
        || server.domain != Domain::of_its_own(server.id).to_string()
}

/// Values as they are written on the command line.
pub(crate) fn list<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    texts.join(",")
}

/// Servers at these addresses, numbered from `first` on. Of weights and domains there are as many as addresses, or none,
/// which stands for the ordinary ones.
///
/// # Errors
/// When there is another number of them, with the option that `options` calls them by.
pub(crate) fn servers(
    first: u16,
    addresses: Vec<String>,
    (weights, domains): (&[Weight], &[Domain]),
    options: [&str; 2],
) -> Result<Vec<ServerInfo>> {
    for (option, given) in options.into_iter().zip([weights.len(), domains.len()]) {
        ensure!(
            given == 0 || given == addresses.len(),
            "{option} has {} for {}: give one for each server, in the order of the servers",
            units::plural(given as u64, "value", "values"),
            units::plural(addresses.len() as u64, "server", "servers")
        );
    }
    let server = |(place, (id, address)): (usize, (u16, String))| {
        let id = ServerId(id);
        let domain = domains.get(place).cloned();
        ServerInfo {
            id,
            addresses: vec![address],
            weight: weights
                .get(place)
                .map_or(ServerInfo::WEIGHT_ONE, |weight| weight.0),
            domain: domain.unwrap_or_else(|| Domain::of_its_own(id)).to_string(),
        }
    };
    Ok((first..).zip(addresses).enumerate().map(server).collect())
}

/// As many values as there are servers: one may stand for all of them.
pub(crate) fn one_for_all<T: Clone>(values: &[T], servers: usize) -> Vec<T> {
    match values {
        [one] => vec![one.clone(); servers],
        all => all.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_as_they_are_written() {
        let one = ServerInfo::WEIGHT_ONE;
        for (text, units) in [
            ("1", one),
            ("0.5", one / 2),
            ("2.25", one * 2 + one / 4),
            ("4", one * 4),
            ("10000", one * 10_000),
            ("0.001", 66),
        ] {
            assert_eq!(text.parse(), Ok(Weight(units)), "{text}");
        }
        for steps in (1..3_000).chain(9_999_000..=10_000_000) {
            let text = Weight::from_str(&format!("{}.{:03}", steps / 1_000, steps % 1_000));
            let text = text.unwrap().to_string();
            assert_eq!(text, (f64::from(steps) / 1_000.0).to_string());
        }
        assert_eq!(Weight::from_str("0.500").unwrap().to_string(), "0.5");
        // A map that was written by hand may have any.
        assert!(Weight(1).number() > 0.0);
        assert_eq!(Weight(0).to_string(), "0");
        assert!(Weight(u32::MAX).to_string().starts_with("65536"));
    }

    #[test]
    fn what_is_no_weight() {
        for wrong in [
            "",
            "0",
            "0.0",
            "-1",
            "+1",
            "1.",
            ".5",
            "1.0005",
            "10000.001",
            "10001",
            "1e3",
            "nan",
            "inf",
            "1 ",
            "1/2",
            "0x1",
            "99999999999999999999999",
        ] {
            let said = Weight::from_str(wrong).unwrap_err();
            assert!(
                said.contains("from 0.001 to 10000") && said.contains(wrong),
                "{wrong}: {said}"
            );
        }
    }

    #[test]
    fn what_is_a_domain() {
        let longest = "x".repeat(MAX_DOMAIN_BYTES);
        for good in ["rack-a", "1", "räume/3", &longest] {
            assert_eq!(Domain::from_str(good).unwrap().to_string(), good);
        }
        let too_long = format!("{longest}x");
        for wrong in ["", " b", "a b", "a\nb", "a,b", &too_long] {
            let said = Domain::from_str(wrong).unwrap_err();
            assert!(said.contains("1 to 64 bytes without spaces"), "{said}");
        }
    }

    #[test]
    fn each_server_gets_its_own() {
        let addresses = || vec!["unix:/a".to_owned(), "unix:/b".to_owned()];
        let weights = ["2".parse().unwrap(), "0.5".parse().unwrap()];
        let domains = ["left".parse().unwrap(), "right".parse().unwrap()];
        let names = ["--weights", "--domains"];
        let plain = servers(3, addresses(), (&[], &[]), names).unwrap();
        assert!(plain.iter().all(|server| !is_set(server)));
        assert_eq!(
            (plain[1].id, plain[1].domain.as_str()),
            (ServerId(4), "server-4")
        );
        let given = servers(0, addresses(), (&weights, &domains), names).unwrap();
        assert!(given.iter().all(is_set));
        assert_eq!(given[1].weight, ServerInfo::WEIGHT_ONE / 2);
        assert_eq!(
            (given[0].domain.as_str(), given[1].domain.as_str()),
            ("left", "right")
        );
        let few = servers(0, addresses(), (&weights[..1], &[]), names).unwrap_err();
        assert_eq!(
            few.to_string(),
            "--weights has 1 value for 2 servers: give one for each server, in the order of the servers"
        );
        assert_eq!(one_for_all(&weights[..1], 3), [weights[0]; 3]);
        assert_eq!(one_for_all(&weights, 3), weights);
        assert_eq!(list(weights), "2,0.5");
    }
}
