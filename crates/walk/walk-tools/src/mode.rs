//! Permissions as chmod takes them.

use anyhow::{Result, bail};
use rustix::fs::Mode;

/// Change of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// As `644` says. A directory keeps its set-id bits, as with GNU chmod, unless five digits are
    /// given.
    Number {
        bits: u32,
        all: bool,
    },
    Clauses(Vec<Clause>),
}

/// One operator with what it is for: `u+rw` is one, `g=r-w` two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    /// The bits of those that it is for; those of all, less the umask, if none are named.
    who: u32,
    named: bool,
    operator: u8,
    permissions: u32,
    /// `X`: x only for directories and what has an x already.
    searchable: bool,
    /// `g=u`: as these have it.
    copied: Option<u32>,
}

/// The process's umask. It can only be asked for by setting it.
pub(crate) fn umask() -> Mode {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask
}

impl Change {
    /// # Errors
    /// When it is none.
    pub(crate) fn parse(text: &str) -> Result<Change> {
        if text.starts_with(|letter: char| letter.is_ascii_digit()) {
            return match u32::from_str_radix(text, 8) {
                Ok(bits) if bits <= 0o7777 => Ok(Change::Number {
                    bits,
                    all: text.len() > 4,
                }),
                _ => bail!("'{text}' is no mode"),
            };
        }
        let mut clauses = Vec::new();
        for clause in text.split(',') {
            parse_clause(clause, &mut clauses)
                .ok_or_else(|| anyhow::anyhow!("'{text}' is no mode"))?;
        }
        Ok(Change::Clauses(clauses))
    }

    /// Returns permissions after the change.
    pub(crate) fn apply(&self, mode: u32, is_directory: bool, umask: u32) -> u32 {
        let mode = mode & 0o7777;
        match self {
            Change::Number { bits, all: false } if is_directory => bits | mode & 0o6000,
            Change::Number { bits, .. } => *bits,
            Change::Clauses(clauses) => clauses
                .iter()
                .fold(mode, |mode, clause| clause.apply(mode, is_directory, umask)),
        }
    }
}

fn parse_clause(clause: &str, clauses: &mut Vec<Clause>) -> Option<()> {
    let start = clause.find(['+', '-', '='])?;
    let (names, mut rest) = clause.split_at(start);
    let mut who = 0;
    for letter in names.chars() {
        who |= match letter {
            'u' => 0o4700,
            'g' => 0o2070,
            'o' => 0o1007,
            'a' => 0o7777,
            _ => return None,
        };
    }
    while let Some((&operator, after)) = rest.as_bytes().split_first() {
        let end = after.iter().position(|it| b"+-=".contains(it));
        let (letters, next) = rest[1..].split_at(end.unwrap_or(after.len()));
        let mut made = Clause {
            who: if names.is_empty() { 0o7777 } else { who },
            named: !names.is_empty(),
            operator,
            permissions: 0,
            searchable: false,
            copied: None,
        };
        if let Some(shift) = match letters {
            "u" => Some(6),
            "g" => Some(3),
            "o" => Some(0),
            _ => None,
        } {
            made.copied = Some(shift);
        } else {
            for letter in letters.chars() {
                match letter {
                    'r' => made.permissions |= 0o444,
                    'w' => made.permissions |= 0o222,
                    'x' => made.permissions |= 0o111,
                    's' => made.permissions |= 0o6000,
                    't' => made.permissions |= 0o1000,
                    'X' => made.searchable = true,
                    _ => return None,
                }
            }
        }
        clauses.push(made);
        rest = next;
    }
    Some(())
}

impl Clause {
    fn apply(&self, mode: u32, is_directory: bool, umask: u32) -> u32 {
        let mut permissions = self.permissions;
        if self.searchable && (is_directory || mode & 0o111 != 0) {
            permissions |= 0o111;
        }
        if let Some(shift) = self.copied {
            permissions |= (mode >> shift & 7) * 0o111;
        }
        let mut bits = permissions & self.who;
        if !self.named {
            bits &= !umask;
        }
        // The sticky bit is nobody's, but given with a or without a name.
        match self.operator {
            b'+' => mode | bits,
            b'-' => mode & !bits,
            _ => {
                let kept = if is_directory { 0o6000 } else { 0 };
                let taken = self.who & !(kept & !permissions);
                mode & !taken | bits
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_those_of_chmod() {
        for (text, mode, is_directory, expected) in [
            ("644", 0o777, false, 0o644),
            ("755", 0o2700, true, 0o2755),
            ("00755", 0o2700, true, 0o755),
            ("u+rwX,go-w", 0o466, false, 0o644),
            ("u+rwX,go-w", 0o466, true, 0o744),
            ("a+X", 0o100, false, 0o111),
            ("g=u", 0o750, false, 0o770),
            ("o=", 0o777, false, 0o770),
            ("u=rwxs", 0o644, false, 0o4744),
            ("+t", 0o777, true, 0o1777),
            ("=r", 0o777, false, 0o444),
            ("+w", 0o444, false, 0o644),
            ("u+x-w", 0o600, false, 0o500),
            ("g=rx", 0o2777, true, 0o2757),
        ] {
            let change = Change::parse(text).unwrap();
            let got = change.apply(mode, is_directory, 0o022);
            assert_eq!(got, expected, "{text} of {mode:o}: {got:o}");
        }
        for text in ["8", "77777", "u", "u+q", "z+r", "", "u+r,,"] {
            assert!(Change::parse(text).is_err(), "{text}");
        }
    }
}
