//! Cases that are known to fail on the file system that is tested.

use crate::case::Case;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Why each case fails.
pub type Known = BTreeMap<String, String>;

/// Reads a list: a case and, after blanks, the reason, on each line; lines that begin with `#` are remarks.
pub fn read(file: &Path, cases: &[Case]) -> Result<Known> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&text, cases).with_context(|| file.display().to_string())
}

fn parse(text: &str, cases: &[Case]) -> Result<Known> {
    let mut known = Known::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, why)) = line.split_once(char::is_whitespace) else {
            bail!("{line}: say why it fails");
        };
        ensure!(
            cases.iter().any(|case| case.name == name),
            "{name}: there is no such case"
        );
        let before = known.insert(name.to_owned(), why.trim().to_owned());
        ensure!(before.is_none(), "{name} is there twice");
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_cases_and_says_why() {
        let cases = crate::cases::all();
        let name = cases[0].name;
        let known = parse(&format!("# remark\n\n{name}   it is so\n"), &cases).unwrap();
        assert_eq!(known[name], "it is so");
        for wrong in [
            name.to_owned(),
            "no.such_case why".to_owned(),
            format!("{name} a\n{name} b"),
        ] {
            assert!(parse(&wrong, &cases).is_err(), "{wrong}");
        }
    }
}
