//! Shell patterns, as `fnmatch` has them without flags: `*` and `?` match slashes and leading dots.

/// A pattern over bytes; `?` and a bracket match one character if the name is UTF-8 there,
/// otherwise one byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    parts: Vec<Part>,
    fold: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Byte(u8),
    Any,
    Many,
    OneOf {
        not: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Glob {
    /// With `fold` upper and lower case are the same.
    pub fn new(pattern: &[u8], fold: bool) -> Glob {
        let mut parts = Vec::new();
        let mut rest = pattern;
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            match first {
                b'*' if parts.last() == Some(&Part::Many) => {}
                b'*' => parts.push(Part::Many),
                b'?' => parts.push(Part::Any),
                b'[' => match bracket(after) {
                    Some((part, after)) => {
                        parts.push(part);
                        rest = after;
                    }
                    None => parts.push(Part::Byte(b'[')),
                },
                b'\\' => {
                    let (byte, after) =
                        after.split_first().map_or((b'\\', after), |(b, a)| (*b, a));
                    parts.push(Part::Byte(byte));
                    rest = after;
                }
                byte => parts.push(Part::Byte(byte)),
            }
        }
        if fold {
            for part in &mut parts {
                if let Part::Byte(byte) = part {
                    byte.make_ascii_lowercase();
                }
            }
        }
        Glob { parts, fold }
    }

    pub fn matches(&self, name: &[u8]) -> bool {
        // The last star is tried with more and more: no earlier one has to be tried again.
        let (mut at, mut part) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        loop {
            if self.parts.get(part) == Some(&Part::Many) {
                star = Some((part, at));
                part += 1;
                continue;
            }
            let step = match self.parts.get(part) {
                None if at == name.len() => return true,
                None | Some(Part::Many) => None,
                Some(wanted) => self.step(wanted, &name[at..]),
            };
            match (step, star) {
                (Some(bytes), _) => (at, part) = (at + bytes, part + 1),
                (None, Some((starred, from))) if from < name.len() => {
                    star = Some((starred, from + 1));
                    (at, part) = (from + 1, starred + 1);
                }
                (None, _) => return false,
            }
        }
    }

    /// Returns how many bytes of the name's rest the part matches, if it does.
    fn step(&self, part: &Part, rest: &[u8]) -> Option<usize> {
        let first = *rest.first()?;
        match part {
            Part::Byte(byte) if self.fold => (*byte == first.to_ascii_lowercase()).then_some(1),
            Part::Byte(byte) => (*byte == first).then_some(1),
            Part::Any => Some(letter(rest).map_or(1, char::len_utf8)),
            Part::OneOf { not, ranges } => {
                let letter = letter(rest);
                let is_in = |letter: char| ranges.iter().any(|(a, b)| (*a..=*b).contains(&letter));
                let found = letter.is_some_and(|letter| {
                    is_in(letter)
                        || self.fold
                            && (letter.to_lowercase().any(is_in)
                                || letter.to_uppercase().any(is_in))
                });
                (found != *not).then_some(letter.map_or(1, char::len_utf8))
            }
            Part::Many => None,
        }
    }
}

/// The first character, if there is one in UTF-8.
fn letter(bytes: &[u8]) -> Option<char> {
    let head = &bytes[..bytes.len().min(4)];
    head.utf8_chunks().next()?.valid().chars().next()
}

/// Parses a bracket; returns it and what comes after it. None if it has no end.
fn bracket(pattern: &[u8]) -> Option<(Part, &[u8])> {
    let mut rest = pattern;
    let not = matches!(rest.first(), Some(b'!' | b'^'));
    if not {
        rest = &rest[1..];
    }
    let mut ranges = Vec::new();
    let mut first = true;
    loop {
        if rest.first() == Some(&b']') && !first {
            return Some((Part::OneOf { not, ranges }, &rest[1..]));
        }
        first = false;
        if let Some(class) = rest.strip_prefix(b"[:") {
            let end = class.windows(2).position(|two| two == b":]")?;
            ranges.extend_from_slice(named_class(&class[..end])?);
            rest = &class[end + 2..];
            continue;
        }
        let from = take(&mut rest)?;
        let mut to = from;
        if rest.first() == Some(&b'-') && rest.get(1).is_some_and(|next| *next != b']') {
            rest = &rest[1..];
            to = take(&mut rest)?;
        }
        ranges.push((from, to));
    }
}

fn take(rest: &mut &[u8]) -> Option<char> {
    if rest.first() == Some(&b'\\') && rest.len() > 1 {
        *rest = &rest[1..];
    }
    let letter = letter(rest)?;
    *rest = &rest[letter.len_utf8()..];
    Some(letter)
}

fn named_class(name: &[u8]) -> Option<&'static [(char, char)]> {
    Some(match name {
        b"alpha" => &[('a', 'z'), ('A', 'Z')],
        b"digit" => &[('0', '9')],
        b"alnum" => &[('a', 'z'), ('A', 'Z'), ('0', '9')],
        b"upper" => &[('A', 'Z')],
        b"lower" => &[('a', 'z')],
        b"space" => &[(' ', ' '), ('\t', '\r')],
        b"blank" => &[(' ', ' '), ('\t', '\t')],
        b"punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        b"print" => &[(' ', '~')],
        b"graph" => &[('!', '~')],
        b"cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        b"xdigit" => &[('0', '9'), ('a', 'f'), ('A', 'F')],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, yes, no) in [
            ("*.rs", &["a.rs", ".rs", "a/b.rs"][..], &["a.rsx", "rs"][..]),
            ("a?c", &["abc", "aüc", "a/c"], &["ac", "abbc"]),
            ("[a-cx]1", &["a1", "b1", "x1"], &["d1", "a", "A1"]),
            ("[!a]*", &["b", "ü"], &["a", "abc", ""]),
            ("[]-]", &["]", "-"], &["a"]),
            ("[[:digit:]_]", &["7", "_"], &["a"]),
            ("[a", &["[a"], &["a"]),
            ("\\*", &["*"], &["a", "\\*"]),
            ("*a*b*c*", &["abc", "xaxbxcx", "aabbcc"], &["acb", "ab"]),
            ("**", &["", "x"], &[]),
            ("", &[""], &["x"]),
        ] {
            let glob = Glob::new(pattern.as_bytes(), false);
            for name in yes {
                assert!(glob.matches(name.as_bytes()), "{pattern} {name}");
            }
            for name in no {
                assert!(!glob.matches(name.as_bytes()), "{pattern} {name}");
            }
        }
        assert!(Glob::new(b"A[B-D]*", true).matches(b"acE"));
        assert!(Glob::new(b"?\xff*", false).matches(b"a\xff\xfe"));
        assert!(Glob::new(b"?", false).matches(b"\xff"));
        // Exponential without care.
        let many = Glob::new(&b"*a".repeat(50), false);
        assert!(!many.matches(&b"a".repeat(49)));
        assert!(many.matches(&b"ab".repeat(50)[..99]));
    }
}
