//! Addresses of endpoints, as people write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// An address to listen on: `9100`, `:9100` and `localhost:9100` are of this machine alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

/// Why a text is no address to listen on. Its text says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is no address: {why}; give a port (9100) or an address with a port (127.0.0.1:9100, [::1]:9100)"
)]
pub struct WrongAddress {
    text: String,
    why: &'static str,
}

impl Address {
    /// Whether only programs of this machine reach it.
    pub fn is_loopback(&self) -> bool {
        match self.0.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            // `::ffff:127.0.0.1` is the other way to write `127.0.0.1`.
            IpAddr::V6(ip) => {
                ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
            }
        }
    }

    /// The address with a port that is so much higher; `None` if there is none.
    pub fn further(&self, by: u16) -> Option<Address> {
        let port = self.0.port().checked_add(by)?;
        Some(Address(SocketAddr::new(self.0.ip(), port)))
    }
}

impl FromStr for Address {
    type Err = WrongAddress;

    fn from_str(text: &str) -> Result<Address, WrongAddress> {
        let wrong = |why| WrongAddress {
            text: text.to_owned(),
            why,
        };
        let port_of = |port: &str| {
            // `parse` would take a sign.
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let port = port.parse().ok().filter(|_| digits);
            port.ok_or_else(|| wrong("a port is a number of at most 65535"))
        };
        if text.is_empty() {
            return Err(wrong("it is empty"));
        }
        if let Ok(address) = text.parse() {
            return Ok(Address(address));
        }
        if text.parse::<IpAddr>().is_ok() {
            return Err(wrong("the port is missing"));
        }
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (host, port) = match text.rsplit_once(':') {
            None => ("", text),
            Some(parts) => parts,
        };
        match host {
            "" | "localhost" => Ok(Address(SocketAddr::new(here, port_of(port)?))),
            host => {
                let host = host.trim_start_matches('[').trim_end_matches(']');
                port_of(port)?;
                Err(wrong(match host.parse::<IpAddr>() {
                    Ok(_) => "an IPv6 address with a port is written in brackets",
                    Err(_) => "names are not looked up",
                }))
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        for (text, address) in [
            ("9100", "127.0.0.1:9100"),
            (":9100", "127.0.0.1:9100"),
            ("localhost:9100", "127.0.0.1:9100"),
            ("0", "127.0.0.1:0"),
            ("127.0.0.2:1", "127.0.0.2:1"),
            ("[::1]:9100", "[::1]:9100"),
        ] {
            let parsed: Address = text.parse().unwrap();
            assert_eq!(parsed.to_string(), address);
            assert!(parsed.is_loopback(), "{text}");
            assert_eq!(parsed.to_string().parse::<Address>().unwrap(), parsed);
        }
        for text in [
            "0.0.0.0:9100",
            "192.0.2.1:9100",
            "[::]:9100",
            "[2001:db8::1]:9100",
            "[::ffff:192.0.2.1]:9100",
        ] {
            assert!(!text.parse::<Address>().unwrap().is_loopback(), "{text}");
        }
        assert!(
            "[::ffff:127.0.0.1]:9100"
                .parse::<Address>()
                .unwrap()
                .is_loopback()
        );
    }

    #[test]
    fn a_wrong_address_is_told_with_what_to_write() {
        for (text, why) in [
            ("", "it is empty"),
            ("65536", "at most 65535"),
            ("-1", "at most 65535"),
            ("+9100", "at most 65535"),
            (":", "at most 65535"),
            ("127.0.0.1", "the port is missing"),
            ("::1", "the port is missing"),
            ("127.0.0.1:", "at most 65535"),
            ("127.0.0.1:http", "at most 65535"),
            ("metrics.example:9100", "names are not looked up"),
            ("http://127.0.0.1:9100", "names are not looked up"),
            ("127.0.0.1:9100/metrics", "at most 65535"),
            ("2001:db8::1:65536", "at most 65535"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
            assert!(error.contains("127.0.0.1:9100"), "{error}");
        }
    }

    #[test]
    fn the_ports_after_it_end_with_the_last_one() {
        let address: Address = "65534".parse().unwrap();
        assert_eq!(address.further(1).unwrap().to_string(), "127.0.0.1:65535");
        assert_eq!(address.further(2), None);
    }
}
