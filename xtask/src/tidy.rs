//! Rules about the text of sources.

use crate::finding::Finding;
use crate::source::{Source, attribute, inside, is_ident, is_punct, line};
use proc_macro2::TokenTree;
use std::path::Path;

/// Lines of one file in a crate's `src`.
const MAX_LINES: usize = 700;
/// Lines above `unsafe` in which its argument must be.
const SAFETY_LINES: usize = 3;

/// Notes that something is missing; in two parts, so that this file does not hold them.
const NOTES: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
/// Words with which a clause begins. A module's header begins with a noun instead: the name of what
/// is in it.
const CLAUSE_WORDS: [&str; 13] = [
    "What", "Who", "Whom", "How", "Whether", "Where", "When", "Which", "That", "By", "If", "To",
    "Whose",
];
/// Macros that say the same, or that print for debugging.
const MACROS: [&str; 3] = [
    concat!("to", "do"),
    concat!("unimple", "mented"),
    concat!("d", "bg"),
];

/// Findings in the text alone, comments included.
pub(crate) fn text(path: &Path, text: &str, in_src: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    let lines = text.lines().count();
    if in_src && lines > MAX_LINES {
        let why = format!("{lines} lines, {MAX_LINES} at most: a file this long does several jobs");
        found.push(Finding::new(path, MAX_LINES + 1, "file-length", why));
    }
    for (number, line) in (1..).zip(text.lines()) {
        for note in NOTES {
            if has_word(line, note) {
                let why = format!("`{note}`: finish it, or write down what is so and why");
                found.push(Finding::new(path, number, "unfinished", why));
            }
        }
    }
    found
}

/// A module header that begins with a clause.
pub(crate) fn header(path: &Path, text: &str) -> Option<Finding> {
    let begin = text.lines().next()?.strip_prefix("//!")?;
    let word = begin
        .trim_start()
        .split(|c: char| !c.is_alphanumeric())
        .next()?;
    if !CLAUSE_WORDS.contains(&word) {
        return None;
    }
    let why = format!("a module's header begins with a noun that names it, not with `{word}`");
    Some(Finding::new(path, 1, "header-clause", why))
}

/// Findings in the tokens.
pub(crate) fn code(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    walk(source, &source.tokens, &mut found);
    found
}

fn walk(source: &Source, tokens: &[TokenTree], found: &mut Vec<Finding>) {
    for (at, token) in tokens.iter().enumerate() {
        let here = |rule, why: String| Finding::new(&source.path, line(token), rule, why);
        if let Some((_, content)) = attribute(&tokens[at..])
            && ignores(&content)
        {
            let why = "a test that is not run shows nothing: mend it or take it out";
            found.push(here("ignored-test", why.to_owned()));
        }
        if is_ident(token, "unsafe") && !is_argued(source, line(token)) {
            let why = format!(
                "`unsafe` needs a comment `SAFETY:` that says why it is right, at most {SAFETY_LINES} \
                 lines above"
            );
            found.push(here("unsafe-without-argument", why));
        }
        for name in MACROS {
            if is_ident(token, name) && tokens.get(at + 1).is_some_and(|next| is_punct(next, '!')) {
                found.push(here(
                    "unfinished",
                    format!("`{name}!` does not belong in kept code"),
                ));
            }
        }
        if let TokenTree::Group(group) = token {
            walk(source, &inside(group), found);
        }
    }
}

/// `ignore`, `ignore = "why"`, or the same under a condition.
fn ignores(attribute: &[TokenTree]) -> bool {
    match attribute {
        [first, TokenTree::Group(group), ..] if is_ident(first, "cfg_attr") => inside(group)
            .split(|token| is_punct(token, ','))
            .skip(1)
            .any(ignores),
        [first, ..] => is_ident(first, "ignore"),
        [] => false,
    }
}

/// Whether there is an argument beside or above the line.
fn is_argued(source: &Source, line: usize) -> bool {
    let first = line.saturating_sub(SAFETY_LINES + 1);
    source.lines[first..line].iter().any(|text| {
        text.find("//")
            .is_some_and(|comment| text[comment..].contains("SAFETY:"))
    })
}

/// The word by itself, not as a part of another one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        !line[..start].chars().next_back().is_some_and(part)
            && !line[start + word.len()..].chars().next().is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/core/types/src/a.rs";

    fn in_text(content: &str) -> Vec<(&'static str, usize)> {
        text(Path::new(PATH), content, true)
            .into_iter()
            .map(|it| (it.rule, it.line))
            .collect()
    }

    fn in_code(content: &str) -> Vec<(&'static str, usize)> {
        let source =
            Source::parse(Path::new(PATH), content).unwrap_or_else(|finding| panic!("{finding}"));
        code(&source)
            .into_iter()
            .map(|it| (it.rule, it.line))
            .collect()
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(in_text(&"\n".repeat(MAX_LINES)), []);
        assert_eq!(
            in_text(&"\n".repeat(MAX_LINES + 1)),
            [("file-length", MAX_LINES + 1)]
        );
        assert_eq!(
            text(Path::new(PATH), &"\n".repeat(MAX_LINES + 1), false),
            []
        );
    }

    #[test]
    fn a_header_that_begins_with_a_clause_is_found() {
        let found = |path: &str, text: &str| header(Path::new(path), text).map(|it| it.line);
        for word in CLAUSE_WORDS {
            let text = format!("//! {word} is told.\n");
            assert_eq!(found("crates/engines/wire/src/a.rs", &text), Some(1));
            assert_eq!(found("xtask/src/a.rs", &text), Some(1));
            assert_eq!(found("fuzz/a.rs", &text), Some(1));
            let noun = format!("//! {word}ever.\n//! {word} is told.\n");
            assert_eq!(found("crates/engines/wire/src/a.rs", &noun), None);
        }
        assert_eq!(
            found(
                "crates/engines/log-raft-engine/tests/a.rs",
                "//! How, of old.\n"
            ),
            Some(1)
        );
        assert_eq!(
            found("crates/engines/wire/src/a.rs", "// What\nfn f() {}\n"),
            None
        );
        assert_eq!(found("crates/engines/wire/src/a.rs", ""), None);
    }

    #[test]
    fn notes_that_something_is_missing_are_found() {
        for note in NOTES {
            assert_eq!(
                in_text(&format!("\n// {note}: more\n")),
                [("unfinished", 2)]
            );
            assert_eq!(
                in_text(&format!("let a = \"{note}\";")),
                [("unfinished", 1)]
            );
            assert_eq!(in_text(&format!("// {note}S {note}_ A{note} ")), []);
        }
    }

    #[test]
    fn macros_that_stand_for_missing_code_are_found() {
        for name in MACROS {
            assert_eq!(
                in_code(&format!("fn f() {{\n    {name}!()\n}}")),
                [("unfinished", 2)]
            );
            assert_eq!(in_code(&format!("fn f() {{ {name}(); }} // {name}!\n")), []);
        }
    }

    #[test]
    fn ignored_tests_are_found() {
        for attribute in [
            "ignore",
            "ignore = \"slow\"",
            "cfg_attr(debug_assertions, ignore = \"slow\")",
        ] {
            let content =
                format!("mod tests {{\n    #[test]\n    #[{attribute}]\n    fn f() {{}}\n}}");
            assert_eq!(in_code(&content), [("ignored-test", 3)], "{attribute}");
        }
        assert_eq!(
            in_code("#[test]\nfn ignore() {}\n// #[ignore]\n#[cfg(ignore)]\nfn f() {}"),
            []
        );
    }

    #[test]
    fn unsafe_needs_an_argument() {
        let found = [("unsafe-without-argument", 2)];
        assert_eq!(in_code("fn f() {\n    unsafe { g() }\n}"), found);
        assert_eq!(in_code("\nunsafe impl Send for A {}"), found);
        assert_eq!(
            in_code("// SAFETY: a string is no argument\nfn f() {}\n\n\nunsafe fn g() {}").len(),
            1
        );
        assert_eq!(
            in_code("const A: &str = \"SAFETY:\";\nunsafe fn g() {}"),
            found
        );

        assert_eq!(
            in_code("fn f() {\n    // SAFETY: g is fine.\n    unsafe { g() }\n}"),
            []
        );
        assert_eq!(
            in_code("fn f() {\n    unsafe { g() } // SAFETY: g is fine.\n}"),
            []
        );
        assert_eq!(
            in_code("// SAFETY: one\n// two\n// three\nunsafe impl Send for A {}"),
            []
        );
        assert_eq!(
            in_code("// unsafe\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe\";"),
            []
        );
    }
}
