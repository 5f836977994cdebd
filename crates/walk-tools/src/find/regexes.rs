//! Regular expressions in the syntaxes that find knows, as those of the `regex` crate.

use anyhow::{Context, Result, bail};
use regex::bytes::{Regex, RegexBuilder};

/// Which syntax `-regextype` has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// find's own: `\(`, `\|` and `\)` group, `+` and `?` repeat.
    Emacs,
    /// `\(`, `\)`, `\{`, `\}`, and with GNU `\|`, `\+`, `\?`.
    Basic,
    /// `(`, `|`, `)`, `{`, `+` and `?` as in `egrep`.
    Extended,
}

impl Syntax {
    /// # Errors
    /// When find or this has no such syntax.
    pub fn named(name: &str) -> Result<Syntax> {
        Ok(match name {
            "emacs" | "findutils-default" => Syntax::Emacs,
            "posix-basic" | "grep" | "sed" | "ed" => Syntax::Basic,
            "posix-extended" | "egrep" | "posix-egrep" | "awk" | "gnu-awk" | "posix-awk" => {
                Syntax::Extended
            }
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
pub fn compile(pattern: &str, syntax: Syntax, fold: bool) -> Result<Regex> {
    let translated = translate(pattern, syntax);
    RegexBuilder::new(&format!("^(?:{translated})$"))
        .case_insensitive(fold)
        // As in GNU find: in its own syntax a dot is no newline.
        .dot_matches_new_line(syntax != Syntax::Emacs)
        .build()
        .with_context(|| format!("'{pattern}' is no regular expression"))
}

/// Turns around which of the two, with or without a backslash, means something.
fn translate(pattern: &str, syntax: Syntax) -> String {
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
                    Syntax::Extended => "",
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
                        'w' | 'W' | 's' | 'S' | 'b' | 'B' => out.extend(['\\', next]),
                        _ => out.push_str(&regex::escape(next.encode_utf8(&mut [0; 4]))),
                    }
                }
            }
            '[' => {
                out.push('[');
                class(&mut letters, &mut out);
            }
            '*' if starts && syntax != Syntax::Extended => out.push_str("\\*"),
            '*' | '.' => out.push(letter),
            '^' => {
                out.push('^');
                at_start = starts;
            }
            '$' => out.push('$'),
            '(' | '|' | ')' | '{' | '}' if syntax == Syntax::Extended => {
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
    out
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
        use Syntax::{Basic, Emacs, Extended};
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
        ] {
            let regex = compile(pattern, syntax, false).unwrap();
            assert!(regex.is_match(yes.as_bytes()), "{pattern} {yes}");
            assert!(
                no.is_empty() || !regex.is_match(no.as_bytes()),
                "{pattern} {no}"
            );
        }
        assert!(compile("A", Emacs, true).unwrap().is_match(b"a"));
        assert!(compile("\\(", Emacs, false).is_err());
        assert!(Syntax::named("perl").is_err());
    }
}
