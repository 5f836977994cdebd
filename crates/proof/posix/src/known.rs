//! Cases that are known not to pass on the file system that is tested.

use crate::case::{Case, Failure, Outcome};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Begins the reason of a case for what the man page leaves a file system free not to have.
const NOT_OFFERED: &str = "not offered: ";

/// Other ends of a case than passing, and the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It finds something else than promised.
    Fails(String),
    /// The file system does not have what it is about.
    NotOffered(String),
}

/// Cases by their names.
pub(crate) type Known = BTreeMap<String, Reason>;

/// Verdict on an outcome, by what is known of the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Passed,
    /// Not offered as well, unless that is known: what was there once is not to go unseen.
    Failed,
    AsKnown,
    /// To be taken off the list.
    PassedAfterAll,
}

pub(crate) fn judge(outcome: &Outcome, known: Option<&Reason>) -> Verdict {
    match (outcome, known) {
        (Ok(()), None) => Verdict::Passed,
        (Ok(()), Some(_)) => Verdict::PassedAfterAll,
        (Err(Failure::Wrong { .. }), Some(Reason::Fails(_)))
        | (Err(Failure::NotOffered(_)), Some(Reason::NotOffered(_))) => Verdict::AsKnown,
        (Err(_), _) => Verdict::Failed,
    }
}

/// Reads a list: a case and, after blanks, the reason, on each line; lines that begin with `#` are
/// remarks.
pub(crate) fn read(file: &Path, cases: &[Case]) -> Result<Known> {
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
            bail!("{line}: say why it does not pass");
        };
        ensure!(
            cases.iter().any(|case| case.name == name),
            "{name}: there is no such case"
        );
        let why = why.trim();
        let reason = match why.strip_prefix(NOT_OFFERED) {
            Some(why) => Reason::NotOffered(why.trim().to_owned()),
            None => Reason::Fails(why.to_owned()),
        };
        let before = known.insert(name.to_owned(), reason);
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
        let (name, other) = (cases[0].name, cases[1].name);
        let list = format!("# remark\n\n{name}   it is so\n{other}  not offered:  no need\n");
        let known = parse(&list, &cases).unwrap();
        assert_eq!(known[name], Reason::Fails("it is so".to_owned()));
        assert_eq!(known[other], Reason::NotOffered("no need".to_owned()));
        for wrong in [
            name.to_owned(),
            "no.such_case why".to_owned(),
            format!("{name} a\n{name} b"),
        ] {
            assert!(parse(&wrong, &cases).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_what_ends_as_is_known_is_no_failure() {
        let wrong: Outcome = Err(Failure::wrong("call", "this", "that".to_owned()));
        let not_offered: Outcome = Err(Failure::NotOffered("call".to_owned()));
        let (fails, is_not_offered) = (
            Reason::Fails("so".to_owned()),
            Reason::NotOffered("so".to_owned()),
        );
        for (outcome, of_unknown, of_failing, of_not_offered) in [
            (
                Ok(()),
                Verdict::Passed,
                Verdict::PassedAfterAll,
                Verdict::PassedAfterAll,
            ),
            (wrong, Verdict::Failed, Verdict::AsKnown, Verdict::Failed),
            (
                not_offered,
                Verdict::Failed,
                Verdict::Failed,
                Verdict::AsKnown,
            ),
        ] {
            assert_eq!(judge(&outcome, None), of_unknown, "{outcome:?}");
            assert_eq!(judge(&outcome, Some(&fails)), of_failing, "{outcome:?}");
            assert_eq!(
                judge(&outcome, Some(&is_not_offered)),
                of_not_offered,
                "{outcome:?}"
            );
        }
    }
}
