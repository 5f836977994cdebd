//! Runs cases, each in a process and a directory of its own, and says how they ended.

use crate::case::{Case, Failure, Outcome, Place};
use crate::known::{Known, Reason, Verdict, judge};
use crate::process::{end_with, new_pipe, receive};
use crate::times::CLOCK;
use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, waitid, waitpid,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Time that one case may take. Only what hangs is to take as long: as many links as there may be,
/// in a directory that splits, take minutes on a mount when all processors are busy.
const CASE_PATIENCE: Duration = Duration::from_secs(1_200);
/// Of the second mount's cases.
const TWO_MOUNTS: &str = "two.";

#[derive(Serialize)]
struct Report<'a> {
    case: &'a str,
    clause: &'a str,
    /// Nothing if it passed.
    failure: Option<&'a Failure>,
}

pub(crate) fn run(
    cases: &[Case],
    dir: &Path,
    second: Option<&Path>,
    json: bool,
    known: &Known,
) -> Result<ExitCode> {
    assert_eq!(threads()?, 1, "the suite forks, and has one thread");
    let dir = fs::canonicalize(dir).with_context(|| format!("{} is not there", dir.display()))?;
    let second = second
        .map(fs::canonicalize)
        .transpose()
        .context("the second mount")?;
    let top = format!("posix-{}", std::process::id());
    fs::create_dir(dir.join(&top)).with_context(|| format!("make {top} in {}", dir.display()))?;
    if let Some(second) = &second {
        ensure!(
            second.join(&top).is_dir(),
            "{} does not show {top}",
            second.display()
        );
    }
    let mut ended = BTreeMap::new();
    let mut left_out = 0;
    for case in cases {
        if case.name.starts_with(TWO_MOUNTS) && second.is_none() {
            left_out += 1;
            continue;
        }
        let name = format!("{top}/{}", case.name);
        let outcome = run_one(
            case,
            &dir.join(&name),
            second.as_ref().map(|it| it.join(&name)),
        );
        let verdict = judge(&outcome, known.get(case.name));
        *ended.entry(verdict).or_insert(0) += 1;
        if json {
            let report = Report {
                case: case.name,
                clause: case.clause,
                failure: outcome.as_ref().err(),
            };
            println!("{}", serde_json::to_string(&report)?);
        } else {
            print(case, &outcome, verdict, known.get(case.name));
        }
    }
    fs::remove_dir_all(dir.join(&top)).with_context(|| format!("remove {top}"))?;
    let count = |verdict| ended.get(&verdict).copied().unwrap_or(0);
    let (failed, passed_after_all) = (count(Verdict::Failed), count(Verdict::PassedAfterAll));
    eprintln!(
        "posix: {} passed, {failed} failed, {} did not pass as is known, {passed_after_all} passed \
         that were known not to, {left_out} left out for want of a second mount",
        count(Verdict::Passed),
        count(Verdict::AsKnown),
    );
    Ok(if failed == 0 && passed_after_all == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print(case: &Case, outcome: &Outcome, verdict: Verdict, known: Option<&Reason>) {
    match (outcome, verdict, known) {
        (_, Verdict::AsKnown, Some(Reason::Fails(why))) => {
            println!("known to fail {}: {why}", case.name);
        }
        (_, Verdict::AsKnown, Some(Reason::NotOffered(why))) => {
            println!("known not to be offered {}: {why}", case.name);
        }
        (Ok(()), Verdict::PassedAfterAll, _) => println!(
            "PASSED {}, which is known not to: take it off the list",
            case.name
        ),
        (Ok(()), ..) => {}
        (Err(Failure::NotOffered(what)), ..) => {
            println!("NOT OFFERED {}: {what} ({})", case.name, case.clause);
        }
        (
            Err(Failure::Wrong {
                call,
                expected,
                found,
            }),
            ..,
        ) => println!(
            "FAILED {}: {call}: expected {expected} ({}), found {found}",
            case.name, case.clause
        ),
    }
}

fn threads() -> Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// The case's directory holds its working directory and the file whose times are the clock.
fn run_one(case: &Case, place: &Path, there: Option<std::path::PathBuf>) -> Outcome {
    let here = place.join("work");
    let there = there.map(|it| it.join("work")).unwrap_or_default();
    let prepared = fs::create_dir(place)
        .and_then(|()| fs::write(place.join(CLOCK), b""))
        .and_then(|()| fs::create_dir(&here));
    if let Err(error) = prepared {
        return Err(Failure::wrong(
            "make the case's directory",
            "success",
            error.to_string(),
        ));
    }
    let outcome = fork_case(case, &Place { here, there }).unwrap_or_else(|error| {
        Err(Failure::wrong(
            "the case's process",
            "it runs",
            format!("{error:#}"),
        ))
    });
    let removed = fs::remove_dir_all(place).map_err(|error| {
        Failure::wrong(
            "remove all that the case made",
            "success",
            error.to_string(),
        )
    });
    outcome.and(removed)
}

fn fork_case(case: &Case, place: &Place) -> Result<Outcome> {
    let (report, their_report) = new_pipe().map_err(|failure| anyhow!("{failure:?}"))?;
    // SAFETY: the process has one thread (`run` asserts it), so the child is as whole as the
    // parent.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(report);
        end_with(&their_report, || {
            // SAFETY: takes numbers only. Children of the case are in its group and end with it.
            unsafe { libc::setpgid(0, 0) };
            crate::sys::umask(0);
            crate::sys::chdir(place.here.as_path()).ok()?;
            (case.run)(place)
        });
    }
    drop(their_report);
    let Some(child) = Pid::from_raw(child).filter(|_| child > 0) else {
        bail!("it could not be started");
    };
    let outcome = receive(&report, CASE_PATIENCE);
    if outcome.is_some() {
        // A layer below it, as a client library, may have something to do at its end. Until it is waited for below, no other
        // group has its number.
        waitid(
            WaitId::Pid(child),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )?;
    }
    // Stragglers, and the case itself if it hangs.
    let _ = kill_process_group(child, Signal::KILL);
    if let Some(outcome) = outcome {
        waitpid(Some(child), WaitOptions::empty())?;
        return Ok(outcome);
    }
    let ended = waitpid(Some(child), WaitOptions::NOHANG)?;
    bail!(
        "it ended without a word or hung ({:?})",
        ended.map(|(_, status)| status)
    );
}
