//! Regular expressions in the syntaxes that find knows.
//!
//! They become those of the `regex` crate; or of `fancy-regex` where they refer back to a group,
//! which takes another kind of search.

use anyhow::{Context, Result, bail};
use regex::bytes::{Regex, RegexBuilder};

/// Steps of a search that refers back, after which it is given up: tens of seconds.
const BACKTRACK_STEPS: usize = 1 << 30;

/// Syntaxes of `-regextype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// find's own: `\(`, `\|` and `\)` group, `+` and `?` repeat.
    Emacs,
    /// `\(`, `\)`, `\{`, `\}`, and with GNU `\|`, `\+`, `\?`.
    Basic,
    /// `(`, `|`, `)`, `{`, `+` and `?` as in `egrep`.
    Extended,
    /// The same, but nothing refers back.
    Awk,
}

/// Pattern that matches whole paths.
#[derive(Debug)]
pub(crate) enum Pattern {
    Plain(Regex),
    RefersBack(fancy_regex::Regex),
}

impl Pattern {
    /// # Errors
    /// When the search would take for ever.
    pub(crate) fn is_match(&self, path: &[u8]) -> Result<bool> {
        match self {
            Pattern::Plain(regex) => Ok(regex.is_match(path)),
            // Nothing in a pattern matches what is no text, as in GNU find: a dot does not either.
            Pattern::RefersBack(regex) => match std::str::from_utf8(path) {
                Ok(text) => Ok(regex.is_match(text)?),
                Err(_) => Ok(false),
            },
        }
    }
}

impl Syntax {
    /// # Errors
    /// When find or this has no such syntax.
    pub(crate) fn named(name: &str) -> Result<Syntax> {
        Ok(match name {
            "emacs" | "findutils-default" => Syntax::Emacs,
            "posix-basic" | "grep" | "sed" | "ed" => Syntax::Basic,
            "posix-extended" | "egrep" | "posix-egrep" => Syntax::Extended,
            "awk" | "gnu-awk" | "posix-awk" => Syntax::Awk,
            _ => bail!(
                "'{name}' is no syntax: there are emacs, posix-basic and posix-extended, and other \
                 names for these"
            ),
        })
    }
}

/// An expression that matches whole paths.
///
/// # Errors
/// When it is none.
pub(crate) fn compile(pattern: &str, syntax: Syntax, fold: bool) -> Result<Pattern> {
    let (translated, refers_back) = translate(pattern, syntax);
    let whole = format!("^(?:{translated})$");
    // As in GNU find: in its own syntax a dot is no newline.
    let dot_is_newline = syntax != Syntax::Emacs;
    let wrong = || format!("'{pattern}' is no regular expression");
    if refers_back {
        let regex = fancy_regex::RegexBuilder::new(&whole)
            .backtrack_limit(BACKTRACK_STEPS)
            .case_insensitive(fold)
            .dot_matches_new_line(dot_is_newline)
            .build();
        return Ok(Pattern::RefersBack(regex.with_context(wrong)?));
    }
    let regex = RegexBuilder::new(&whole)
        .case_insensitive(fold)
        .dot_matches_new_line(dot_is_newline)
        .build();
    Ok(Pattern::Plain(regex.with_context(wrong)?))
}

/// Turns around which of the two, with or without a backslash, means something. Also whether it
/// refers back to a group: those have the same numbers in both.
fn translate(pattern: &str, syntax: Syntax) -> (String, bool) {
    let is_extended = matches!(syntax, Syntax::Extended | Syntax::Awk);
    let mut refers_back = false;
    let mut out = String::new();
    let mut letters = pattern.chars().peekable();
    // Where `*` would repeat nothing it is itself, and `^` is an anchor.
    let mut at_start = true;
    while let Some(letter) = letters.next() {
        let starts = at_start;
        at_start = false;
        match letter {
            '\\' => {
                let Some(next) = letters.next() else {
                    out.push_str("\\\\");
                    break;
                };
                let special = match syntax {
                    Syntax::Emacs => "(|)",
                    Syntax::Basic => "(|){}+?",
                    Syntax::Extended | Syntax::Awk => "",
                };
                if special.contains(next) {
                    out.push(next);
                    at_start = matches!(next, '(' | '|');
                } else {
                    match next {
                        '`' => out.push_str("\\A"),
                        '\'' => out.push_str("\\z"),
                        '<' => out.push_str("\\b{start}"),
                        '>' => out.push_str("\\b{end}"),
                        '1'..='9' if syntax != Syntax::Awk => {
                            refers_back = true;
                            // The next character may be a digit.
                            out.extend(["(?:\\", next.encode_utf8(&mut [0; 4]), ")"]);
                        }
                        'w' | 'W' | 's' | 'S' | 'b' | 'B' => out.extend(['\\', next]),
                        _ => out.push_str(&regex::escape(next.encode_utf8(&mut [0; 4]))),
                    }
                }
            }
            '[' => {
                out.push('[');
                class(&mut letters, &mut out);
            }
            '*' if starts && !is_extended => out.push_str("\\*"),
            '*' | '.' => out.push(letter),
            '^' => {
                out.push('^');
                at_start = starts;
            }
            '$' => out.push('$'),
            '(' | '|' | ')' | '{' | '}' if is_extended => {
                out.push(letter);
                at_start = matches!(letter, '(' | '|');
            }
            '+' | '?' if syntax != Syntax::Basic => {
                out.push_str(if starts { "\\" } else { "" });
                out.push(letter);
            }
            _ => out.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4]))),
        }
    }
    (out, refers_back)
}

/// A bracket, in which a backslash is itself.
fn class(letters: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    if letters.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut first = true;
    while let Some(letter) = letters.next() {
        match letter {
            ']' if !first => {
                out.push(']');
                return;
            }
            '[' if letters.peek() == Some(&':') => {
                out.push('[');
                for letter in letters.by_ref() {
                    out.push(letter);
                    if letter == ']' {
                        break;
                    }
                }
            }
            '\\' | '[' | ']' | '&' | '~' => out.extend(['\\', letter]),
            letter => out.push(letter),
        }
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_syntax_has_its_own_way() {
        use Syntax::{Awk, Basic, Emacs, Extended};
        for (syntax, pattern, yes, no) in [
            (Emacs, r".*\.\(rs\|c\)", "a.rs", "a.rsc"),
            (Emacs, "a+(b)", "aa(b)", "aab"),
            (Emacs, "a{2}", "a{2}", "aa"),
            (Emacs, "*a", "*a", "xa"),
            (Basic, r"a\{2\}\(b\|c\)", "aab", "ab"),
            (Basic, "a+", "a+", "aa"),
            (Extended, "(a|b)+x{2}", "abaxx", "x"),
            (Extended, r"a\.b", "a.b", "axb"),
            (Extended, r"[^]\]+", "abc", "a]"),
            (Extended, "[[:digit:]a-c]+", "0c1", "0d"),
            (Extended, ".*", "new\nline", ""),
            (Emacs, "[^x]*", "new\nline", "x"),
            (Emacs, ".*", "", "new\nline"),
            (Emacs, r"\(.\)\(.\)\2\1", "abba", "abab"),
            (Basic, r"\(a*\)x\10", "aaxaa0", "aaxa0"),
            (Extended, r"(..)+\1", "ababab", "abaab"),
            (Awk, r"(.)\1", "a1", "aa"),
        ] {
            let regex = compile(pattern, syntax, false).unwrap();
            let matches = |text: &str| regex.is_match(text.as_bytes()).unwrap();
            assert!(matches(yes), "{pattern} {yes}");
            assert!(no.is_empty() || !matches(no), "{pattern} {no}");
        }
        for pattern in ["A", r"\(A\)\1*"] {
            let regex = compile(pattern, Emacs, true).unwrap();
            assert!(regex.is_match(b"a").unwrap());
        }
        assert!(compile(r"a\1", Emacs, false).is_err(), "there is no group");
        assert!(compile("\\(", Emacs, false).is_err());
        assert!(Syntax::named("perl").is_err());
    }
}
