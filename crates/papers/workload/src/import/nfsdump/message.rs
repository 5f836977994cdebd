//! Lines that nfsdump writes.
//!
//! D. Ellard and M. Seltzer, "New NFS Tracing Tools and Techniques for System Analysis" (LISA 2003). Their traces are in
//! SNIA's repository, and are described in `format.txt` of their tools:
//!
//! ```text
//! 1034787618.376464 45.0320 30.0801 U C3 dca9f489 3 lookup fh 6189 name "mbox" con = 82 len = 97
//! 1034787618.376561 30.0801 45.0320 U R3 dca9f489 3 lookup OK fh 9532 ftype 1 mode 180 size aee6 status=0 pl = 70 con = 82 len = 97
//! ```
//!
//! Seconds, who sent it and to whom (address and port), `U` or `T` for UDP and TCP, a call or reply of which version, the
//! number that a reply has of its call, the procedure by number and name; of a reply its status, which is `OK` or a
//! number of NFS; then fields with their values, in any order, each or none; and at the end lengths. Numbers are in sixteens
//! but for times and `ftype`; the traces of SNIA have letters in place of the lengths. Some lines of each trace are garbled: they are counted.

const NANOSECONDS: u64 = 1_000_000_000;
const MICROSECONDS_DIGITS: usize = 6;

/// What a call and its reply have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub client: Box<str>,
    pub server: Box<str>,
    pub number: u32,
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub time: u64,
    pub key: Key,
    pub procedure: &'a str,
    /// Of a reply; 0 is OK.
    pub status: Option<u32>,
    pub fields: Fields<'a>,
}

/// Names and values; of two with one name the first counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields<'a>(pub Vec<(&'a str, &'a str)>);

impl<'a> Fields<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Fields<'a>> {
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        let mut fields = Vec::new();
        while let Some(name) = words.next() {
            fields.push((name, words.next()?));
        }
        Some(Fields(fields))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| *value)
    }

    pub(super) fn any(&self, names: &[&str]) -> Option<&'a str> {
        names.iter().find_map(|name| self.get(name))
    }

    pub(super) fn number(&self, names: &[&str]) -> Option<u64> {
        u64::from_str_radix(self.any(names)?, 16).ok()
    }

    /// A name that can be asked for.
    pub(super) fn name(&self, names: &[&str]) -> Option<Vec<u8>> {
        let is_name = |bytes: &Vec<u8>| {
            !bytes.is_empty() && !bytes.iter().any(|byte| matches!(byte, 0 | b'/'))
        };
        self.text(names).filter(is_name)
    }

    /// What is in quotation marks, with unusual bytes as `\20`.
    pub(super) fn text(&self, names: &[&str]) -> Option<Vec<u8>> {
        let text = self.any(names)?.strip_prefix('"')?.strip_suffix('"')?;
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let digits = rest.get(..2).filter(|_| byte == b'\\');
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
            match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(escaped) => {
                    bytes.push(escaped);
                    rest = &rest[2..];
                }
                None => bytes.push(byte),
            }
        }
        Some(bytes)
    }

    pub(super) fn handle(&self, names: &[&str]) -> Option<&'a [u8]> {
        self.any(names).map(str::as_bytes)
    }

    /// As `find -type` has it.
    pub(super) fn kind(&self) -> Option<char> {
        Some(match self.get("ftype")? {
            "1" => 'f',
            "2" => 'd',
            "3" => 'b',
            "4" => 'c',
            "5" => 'l',
            "6" => 's',
            "7" => 'p',
            _ => return None,
        })
    }

    pub(super) fn mode(&self) -> Option<u16> {
        self.number(&["mode"]).map(|mode| (mode & 0o7777) as u16)
    }
}

/// `None` for a garbled line.
pub(super) fn parse(text: &str) -> Option<Message<'_>> {
    let mut words = text.splitn(9, ' ');
    let mut next = || words.next();
    let (seconds, fraction) = next()?.split_once('.')?;
    let is_time = fraction.len() == MICROSECONDS_DIGITS;
    let fraction: u64 = fraction.parse().ok().filter(|_| is_time)?;
    let time = seconds.parse::<u64>().ok()?.checked_mul(NANOSECONDS)?;
    let (from, to, transport, direction) = (next()?, next()?, next()?, next()?);
    let (number, _, procedure) = (next()?, next()?, next()?);
    let rest = next().unwrap_or("");
    if !matches!(transport, "U" | "T") || !is_address(from) || !is_address(to) {
        return None;
    }
    let number = u32::from_str_radix(number, 16).ok()?;
    let (client, server, is_call) = match direction {
        "C2" | "C3" => (from, to, true),
        "R2" | "R3" => (to, from, false),
        _ => return None,
    };
    // The lengths at the end.
    let end = if is_call { "con = " } else { "status=" };
    let (rest, _) = rest.split_once(end)?;
    let (status, rest) = match is_call {
        true => (None, rest),
        false => {
            let (status, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let status = match status {
                // The only procedure without a status is the one that does nothing.
                "OK" | "" => 0,
                number => u32::from_str_radix(number, 16).ok()?,
            };
            (Some(status), rest)
        }
    };
    let is_name = procedure.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name.then_some(())?;
    Some(Message {
        time: time.checked_add(fraction * 1_000)?,
        key: Key {
            client: client.into(),
            server: server.into(),
            number,
        },
        procedure,
        status,
        fields: Fields::parse(rest)?,
    })
}

/// An address and a port, in sixteens.
fn is_address(text: &str) -> bool {
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split_once('.')
        .is_some_and(|(host, port)| is_hex(host) && is_hex(port))
}

/// The error of a program that a status of NFS becomes, if it comes again when the call does.
pub(super) fn error_of(status: u32) -> Option<i32> {
    match status {
        2 | 17 | 20 | 21 | 22 => Some(status as i32),
        66 => Some(39),
        _ => None,
    }
}
