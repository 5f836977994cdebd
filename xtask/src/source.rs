//! Rust sources as tokens, so that a rule about code is not broken by a comment or a string.

use crate::finding::Finding;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::path::{Path, PathBuf};

/// One file.
pub(crate) struct Source {
    /// From the root of the workspace.
    pub path: PathBuf,
    pub lines: Vec<String>,
    pub tokens: Vec<TokenTree>,
}

impl Source {
    /// Reads a file's text; what is no Rust is a finding.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Source, Finding> {
        let tokens: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            Finding::new(
                path,
                error.span().start().line,
                "unreadable",
                format!("no Rust: {error}"),
            )
        })?;
        Ok(Source {
            path: path.to_owned(),
            lines: text.lines().map(str::to_owned).collect(),
            tokens: tokens.into_iter().collect(),
        })
    }
}

/// The line, from 1, on which a token starts.
pub(crate) fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

pub(crate) fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

pub(crate) fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// The attribute that starts here: `#` or `#!` and its brackets. Gives the tokens it takes as well.
pub(crate) fn attribute(tokens: &[TokenTree]) -> Option<(usize, Vec<TokenTree>)> {
    let (first, rest) = tokens.split_first()?;
    if !is_punct(first, '#') {
        return None;
    }
    let inner = usize::from(rest.first().is_some_and(|token| is_punct(token, '!')));
    match rest.get(inner)? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
            Some((2 + inner, inside(group)))
        }
        _ => None,
    }
}

pub(crate) fn inside(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

/// The tokens without the items that are compiled for tests only.
pub(crate) fn without_tests(tokens: &[TokenTree]) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some((taken, content)) = attribute(&tokens[at..])
            && is_test(&content)
        {
            // `#![cfg(test)]` is about all that is left.
            at = if taken == 3 {
                tokens.len()
            } else {
                end_of_item(tokens, at + taken)
            };
            continue;
        }
        kept.push(match &tokens[at] {
            TokenTree::Group(group) => {
                let stream = without_tests(&inside(group)).into_iter().collect();
                let mut shorter = Group::new(group.delimiter(), stream);
                shorter.set_span(group.span());
                TokenTree::Group(shorter)
            }
            other => other.clone(),
        });
        at += 1;
    }
    kept
}

/// Files and directories of the modules that this file declares for tests only.
pub(crate) fn test_only(source: &Source) -> Vec<PathBuf> {
    let stem = source
        .path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    let parent = source.path.parent().unwrap_or(Path::new(""));
    let dir = match stem.as_deref() {
        Some("lib" | "main" | "mod") | None => parent.to_owned(),
        Some(stem) => parent.join(stem),
    };
    let mut paths = Vec::new();
    for at in 0..source.tokens.len() {
        let Some((taken, content)) = attribute(&source.tokens[at..]) else {
            continue;
        };
        if !is_test(&content) || taken == 3 {
            continue;
        }
        let item = &source.tokens[at + taken..end_of_item(&source.tokens, at + taken)];
        if let [.., module, TokenTree::Ident(name), end] = item
            && is_ident(module, "mod")
            && is_punct(end, ';')
        {
            paths.push(dir.join(format!("{name}.rs")));
            paths.push(dir.join(name.to_string()));
        }
    }
    paths
}

/// `test` by itself, or the attribute `cfg` that says so. Code compiled for tests *or* something
/// else counts as code.
fn is_test(attribute: &[TokenTree]) -> bool {
    match attribute {
        [only] => is_ident(only, "test"),
        [cfg, TokenTree::Group(group)] if is_ident(cfg, "cfg") => requires_test(&inside(group)),
        _ => false,
    }
}

fn requires_test(condition: &[TokenTree]) -> bool {
    match condition {
        [only] => is_ident(only, "test"),
        [all, TokenTree::Group(group)] if is_ident(all, "all") => inside(group)
            .split(|token| is_punct(token, ','))
            .any(requires_test),
        _ => false,
    }
}

/// Where the item that starts at `start` is over: after its braces or its semicolon.
fn end_of_item(tokens: &[TokenTree], start: usize) -> usize {
    let length = tokens[start..].iter().position(|token| {
        is_punct(token, ';')
            || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
    });
    match length {
        Some(length) => {
            let end = start + length + 1;
            // `use a::{b};`
            let closed = tokens.get(end).is_some_and(|token| is_punct(token, ';'));
            end + usize::from(closed)
        }
        None => tokens.len(),
    }
}

/// A path as it is written, `a::b::c`, those in the braces of a `use` in full.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrittenPath {
    pub segments: Vec<String>,
    pub line: usize,
}

pub(crate) fn paths(tokens: &[TokenTree]) -> Vec<WrittenPath> {
    let mut found = Vec::new();
    collect_paths(tokens, &[], &mut found);
    found
}

fn collect_paths(tokens: &[TokenTree], prefix: &[String], found: &mut Vec<WrittenPath>) {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(ident) if ident == "as" => {
                // In braces a new name follows, elsewhere perhaps a type.
                at += if prefix.is_empty() { 1 } else { 2 };
            }
            TokenTree::Ident(_) => {
                let line = line(&tokens[at]);
                let mut segments = prefix.to_vec();
                let mut in_braces = None;
                while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
                    segments.push(ident.to_string());
                    at += 1;
                    if !is_path_separator(tokens, at) {
                        break;
                    }
                    at += 2;
                    if let Some(TokenTree::Group(group)) = tokens.get(at)
                        && group.delimiter() == Delimiter::Brace
                    {
                        in_braces = Some(group);
                        at += 1;
                    }
                }
                match in_braces {
                    Some(group) => collect_paths(&inside(group), &segments, found),
                    None => found.push(WrittenPath { segments, line }),
                }
            }
            TokenTree::Group(group) => {
                collect_paths(&inside(group), prefix, found);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    tokens.get(at).is_some_and(|token| is_punct(token, ':'))
        && tokens.get(at + 1).is_some_and(|token| is_punct(token, ':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::parse(Path::new(path), text).unwrap_or_else(|finding| panic!("{finding}"))
    }

    fn written(text: &str) -> Vec<String> {
        paths(&without_tests(&source("a.rs", text).tokens))
            .into_iter()
            .filter(|path| path.segments.len() > 1)
            .map(|path| path.segments.join("::"))
            .collect()
    }

    #[test]
    fn paths_are_read_in_full() {
        assert_eq!(
            written("use a::{b, c::{d as e, f}}; fn g() { h::i(j::k as l::m); }"),
            ["a::b", "a::c::d", "a::c::f", "h::i", "j::k", "l::m"]
        );
        assert_eq!(
            written("// a::b\n/* c::d */ /// e::f\nconst G: &str = \"h::i\";"),
            [""; 0]
        );
    }

    #[test]
    fn what_is_for_tests_is_left_out() {
        assert_eq!(
            written(
                "#[cfg(test)] mod t { fn f() { a::a(); } }
                 #[cfg(all(test, unix))] use b::{b};
                 #[test] #[should_panic] fn g() { c::c(); }
                 #[cfg(test)] fn h() -> [u8; 2] { d::d() }
                 fn i() { e::e(); }
                 #[cfg(not(test))] fn j() { f::f(); }
                 #[cfg(any(test, feature = \"x\"))] fn k() { g::g(); }
                 mod l { #[cfg(test)] mod t { fn f() { h::h(); } } fn m() { i::i() } }"
            ),
            ["e::e", "f::f", "g::g", "i::i"]
        );
        assert_eq!(written("#![cfg(test)] fn f() { a::a(); }"), [""; 0]);
    }

    #[test]
    fn files_of_test_modules_are_known() {
        let paths = |path, text| test_only(&source(path, text));
        let expected = |paths: [&str; 2]| paths.map(PathBuf::from).to_vec();
        assert_eq!(
            paths("c/src/lib.rs", "#[cfg(test)] mod t; mod u;"),
            expected(["c/src/t.rs", "c/src/t"])
        );
        assert_eq!(
            paths("c/src/a.rs", "#[cfg(test)] pub(crate) mod t;"),
            expected(["c/src/a/t.rs", "c/src/a/t"])
        );
        assert_eq!(
            paths("c/src/a.rs", "#[cfg(test)] mod t { } mod u;"),
            Vec::<PathBuf>::new()
        );
    }

    #[test]
    fn what_is_no_rust_is_found() {
        let finding = Source::parse(Path::new("a.rs"), "fn f() {\n")
            .err()
            .unwrap();
        assert_eq!(finding.rule, "unreadable");
    }
}
