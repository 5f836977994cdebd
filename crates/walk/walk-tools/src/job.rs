//! One run of `cp` or `sync`.

use crate::copy::copier::{Copier, Shared};
use crate::copy::data::Methods;
use crate::copy::links::Links;
use crate::copy::pieces::Pieces;
use crate::copy::wanted::{Counts, Wanted};
use crate::executor::Executor;
use crate::mirror::{DIRECTORY, Mirror};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session;
use crate::text::{count, human, json_line};
use anyhow::{Context, Result, bail};
use pandofs_walk_fs::{FileType, Follow, Options, Stat};
use rustix::fd::AsFd;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use serde::Serialize;
use std::ffi::{CString, OsString};
use std::io::IsTerminal;

/// A job of copying.
pub(crate) struct Job {
    /// Each source with its copy.
    pub pairs: Vec<(OsString, OsString)>,
    /// A directory on the file system of the copies.
    pub base: OsString,
    pub wanted: Wanted,
    pub methods: Methods,
    pub options: Options,
    /// Output of the list of changes.
    pub output: Output,
    pub json: bool,
}

/// Counts of what was removed before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Removed {
    pub removed: u64,
    pub interrupted: bool,
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
#[derive(Serialize)]
struct Report {
    directories: u64,
    files: u64,
    hard_links: u64,
    links: u64,
    others: u64,
    /// Data copied through memory or by the kernel; not what is shared, and no holes.
    bytes: u64,
    unchanged: u64,
    /// Of what was there already nothing else was changed.
    attributes: u64,
    removed: u64,
    problems: u64,
    vanished: u64,
    seconds: f64,
    /// Whether Ctrl-C ended it before all was done.
    interrupted: bool,
}

impl Job {
    /// # Errors
    /// When it cannot begin or standard output fails.
    pub(crate) fn run(self, executor: &mut Executor<'_>, removed: Removed) -> Result<Outcome> {
        let mut options = self.options;
        options.slow_entries = true;
        let base = openat(
            CWD,
            &*self.base,
            DIRECTORY - OFlags::NOFOLLOW,
            Mode::empty(),
        )
        .with_context(|| self.base.display().to_string())?;
        // They may be below what is copied, and are not copied into themselves.
        let mut targets = Vec::new();
        for (source, target) in &self.pairs {
            refuse_same(source, target, options.follow)?;
            let target = openat(CWD, &**target, DIRECTORY - OFlags::NOFOLLOW, Mode::empty());
            if let Ok(stat) = target.and_then(|fd| Stat::of_open(fd.as_fd())) {
                targets.push(stat.identity());
                let source = Stat::of(CWD, &CString::new(source.as_encoded_bytes())?);
                if source.is_ok_and(|it| it.identity() == stat.identity()) {
                    bail!("source and target are the same directory");
                }
            }
        }
        targets.push(Stat::of_open(base.as_fd())?.identity());
        let shared = Shared {
            mirror: Mirror::new(self.pairs.iter().map(|(from, to)| (&**from, &**to)))?,
            links: Links::new(base),
            methods: self.methods,
            pieces: Pieces::new(),
            follows: options.follow == Follow::Always,
            follows_roots: options.follow != Follow::Never,
            targets,
            wanted: self.wanted,
        };
        let dry_run = shared.wanted.dry_run;
        if executor.is_first() && !dry_run {
            shared.links.remove()?;
        }
        let roots: Vec<OsString> = self.pairs.into_iter().map(|(source, _)| source).collect();
        let output = self.output;
        let mut ran = session::run(executor, &roots, &options, false, |_| {
            Copier::new(&shared, &options.meter, output.part())
        })?;
        let mut counts = Counts::default();
        for (number, mut copier) in std::mem::take(&mut ran.visitors).into_iter().enumerate() {
            if number == 0 && executor.is_first() {
                copier.finish_roots(&ran.top);
            }
            counts.add(&copier.counts);
        }
        let mine = (counts, removed.removed);
        let Some(all) = executor.gather(mine, &ran.meter)? else {
            return Ok(Outcome::Done);
        };
        if !dry_run {
            shared.links.remove()?;
        }
        let mut counts = Counts::default();
        all.iter().for_each(|(other, _)| counts.add(other));
        let outcome = if removed.interrupted {
            Outcome::Interrupted
        } else {
            ran.outcome()
        };
        let report = Report {
            directories: counts.directories,
            files: counts.files,
            hard_links: counts.hard_links,
            links: counts.links,
            others: counts.others,
            bytes: counts.bytes,
            unchanged: counts.unchanged,
            attributes: counts.attributes,
            removed: all.iter().map(|(_, removed)| removed).sum(),
            problems: ran.meter.problems(),
            vanished: ran.meter.vanished(),
            seconds: ran.elapsed.as_secs_f64(),
            interrupted: outcome == Outcome::Interrupted,
        };
        let last = Output::last(&ran.meter);
        if self.json {
            json_line(&report, last.part().bytes());
        }
        if report.interrupted {
            session::interrupted(shared.wanted.tool, report.line());
        } else if !self.json && std::io::stderr().is_terminal() {
            eprintln!("{}", report.line());
        }
        last.finish()?;
        session::finish(outcome, &output)
    }
}

/// Refuses to copy a file to itself: to make its copy, which has to be empty first, would make it
/// empty.
fn refuse_same(source: &OsString, target: &OsString, follow: Follow) -> Result<()> {
    let terminated = |path: &OsString| CString::new(path.as_encoded_bytes());
    let (from, to) = (terminated(source)?, terminated(target)?);
    let Ok(old) = Stat::of(CWD, &to) else {
        return Ok(());
    };
    let is_old = |stat: Result<Stat, Errno>| stat.is_ok_and(|it| it.identity() == old.identity());
    let follows = follow != Follow::Never;
    let is_same = is_old(Stat::of(CWD, &from)) || follows && is_old(Stat::followed(CWD, &from));
    if is_same && old.kind() != FileType::Directory {
        bail!(
            "'{}' and '{}' are the same file",
            source.display(),
            target.display()
        );
    }
    Ok(())
}

impl Report {
    fn line(&self) -> String {
        format!(
            "{} files, {} directories, {} links, {} copied, {} unchanged, {} with other attributes, {} removed, {} problems, {:.1} s",
            count(self.files),
            count(self.directories),
            count(self.links + self.hard_links),
            human(self.bytes),
            count(self.unchanged),
            count(self.attributes),
            count(self.removed),
            count(self.problems),
            self.seconds
        )
    }
}
