//! The main job, done while a person watches, and everything about it checked.

mod cluster_view;
mod compare;
mod crash;
mod crowd;
mod report;
mod show;
mod tree;
mod walk;

pub(crate) use crowd::{Job, Work, work};

use crate::cmd::fsck;
use crate::exit::Outcome;
use crate::source::Cluster;
use crate::units;
use anyhow::{Context, Result, bail};
use cluster_view::ClusterView;
use report::Report;
use show::Show;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a directory must have outgrown the threshold on each server to have spread out evenly.
const SPREAD_OUT_PARTITIONS: u64 = 2;

/// Options of the demo.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub cluster: Cluster,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The archive to unpack; else `/usr/include`.
    pub tar: Option<PathBuf>,
    /// In one directory.
    pub files: u64,
    pub processes: u64,
}

/// Does it all and prints the summary.
///
/// # Errors
/// At the first thing that cannot be done, or is not as it must be.
pub(crate) fn run(plan: &Plan) -> Result<Outcome> {
    let show = Show::new();
    let client = crate::backend::connect(&plan.cluster)?;
    let view = ClusterView::new(&plan.cluster, client);
    let mut report = Report::new(&plan.cluster.map);
    let root = &plan.mount;
    if let Some(found) = fs::read_dir(root)
        .with_context(|| root.display().to_string())?
        .next()
    {
        let found = found.with_context(|| root.display().to_string())?;
        bail!(
            "{} is there: the demo wants an empty file system, as it removes what it finds",
            found.path().display()
        );
    }

    tree::unpack_and_compare(plan, &show, &mut report)?;

    let shared = root.join("shared");
    fs::create_dir(&shared).with_context(|| format!("mkdir {}", shared.display()))?;
    let crowd = crowd::Crowd {
        dir: shared.clone(),
        processes: plan.processes,
    };
    let files = plan.files;
    let threshold = plan.cluster.map.settings.split_threshold;

    let title = format!(
        "create {} files in one directory from {} processes",
        units::count(files),
        plan.processes
    );
    let before = view.requests();
    let time = crowd.run(Job::Create, 0..files, &show, &title, Some(&view))?;
    let after = view.requests();
    report.note(redirections(after.0 - before.0, after.1 - before.1));
    if files >= SPREAD_OUT_PARTITIONS * plan.cluster.map.servers.len() as u64 * u64::from(threshold)
    {
        view.check_spread(&shared)?;
    }
    report.add(
        "create, one directory",
        files,
        time,
        view.entries_per_server(),
    );

    let title = "list the directory and compare the names";
    let listed = crowd.list_and_compare(files, &show, title)?;
    report.add("list it", files, listed, None);
    let time = crowd.run(Job::Stat, 0..files, &show, "stat every file", None)?;
    report.add("stat", files, time, None);

    // As many again as take about as long as a restart.
    let more = (files / 5).max(plan.processes);
    let crash = crash::run(plan, &crowd, files..files + more, &show, &view)?;
    report.add(
        "create, a server killed",
        more,
        crash.work,
        view.entries_per_server(),
    );
    report.note(crash.describe());
    let total = files + more;
    let title = "list it again: nothing was lost and nothing is there twice";
    let listed = crowd.list_and_compare(total, &show, title)?;
    report.add("list it again", total, listed, None);

    let time = crowd.run(
        Job::Remove,
        0..total,
        &show,
        "remove every file",
        Some(&view),
    )?;
    report.add("remove", total, time, view.entries_per_server());
    tree::remove_rest(plan, &show, &mut report)?;

    let started = Instant::now();
    let step = show.step("check the whole file system (fsck)", None);
    let checked = fsck::check_online(&plan.cluster, Duration::MAX, &mut |done| step.set(done))?;
    step.finish(&checked.summary());
    report.add(
        "fsck: records checked",
        checked.records,
        started.elapsed(),
        None,
    );

    drop(show);
    crate::print(&report.text())?;
    for problem in &checked.problems {
        eprintln!("pandofs: {problem}");
    }
    if !checked.problems.is_empty() {
        return Ok(Outcome::ProblemsFound);
    }
    crate::print(&how_to_go_on())?;
    Ok(Outcome::Done)
}

fn redirections(requests: u64, redirected: u64) -> String {
    let percent = redirected as f64 * 100.0 / requests.max(1) as f64;
    format!(
        "While the directory grew and spread, {} of {} requests ({percent:.4} %) came to a shard that \
         did not have the name any more.",
        units::count(redirected),
        units::count(requests)
    )
}

fn how_to_go_on() -> String {
    let program = std::env::current_exe().map_or_else(
        |_| "pandofs".to_owned(),
        |program| program.display().to_string(),
    );
    format!(
        "\nEverything was right. To use it for real:\n\
         \n  {program} up --servers 4 --data DIR --mount MOUNTPOINT\n\
         \nand in another terminal\n\
         \n  {program} status --data DIR --watch\n"
    )
}
