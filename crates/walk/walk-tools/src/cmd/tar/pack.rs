//! The part of `tar` that packs.

use super::{Tar, enter};
use crate::checkpoint_merge::Joined;
use crate::common_args::CommonArgs;
use crate::copy::data::Methods;
use crate::executor::Executor;
use crate::outcome::{Outcome, wrong};
use crate::output::Output;
use crate::parts::{Parts, Resumable};
use crate::session::{self, Ran};
use crate::tar::allocator::Allocator;
use crate::tar::choice::Excluded;
use crate::tar::compress::{Filter, Format};
use crate::tar::create::{Archive, Creator};
use crate::tar::sink::Sink;
use crate::text::count;
use anyhow::{Context, Result, bail};
use pandofs_walk_fs::{FileType, Follow, Options, Stat};
use rustix::fd::AsFd;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

/// State of an archive in a checkpoint.
#[derive(Default, Serialize, Deserialize)]
struct Found {
    members: u64,
    /// Checkpoints name it so.
    #[serde(rename = "book")]
    allocator: Allocator,
}

impl Joined for Found {
    /// Only the first process has the allocator.
    fn join(&mut self, other: Found) {
        self.members += other.members;
    }
}

/// Options of packing.
struct Wanted {
    /// Directories to go to, and what to pack there.
    places: Vec<(Vec<OsString>, Vec<OsString>)>,
    excluded: Excluded,
    format: Option<Format>,
}

impl Tar {
    pub(super) fn create(
        &self,
        executor: &mut Executor<'_>,
        mut options: Options,
    ) -> Result<Outcome> {
        options.one_file_system = self.one_file_system;
        options.slow_entries = true;
        if self.dereference {
            options.follow = Follow::Always;
        }
        let places = executor.agree(self.places(executor)?)?;
        if places.iter().all(|(_, paths)| paths.is_empty()) {
            return Err(wrong("there is nothing to pack"));
        }
        if places.len() > 1 && self.resumable.is_wanted() {
            return Err(wrong("--checkpoint takes one -C, before all paths"));
        }
        // Before the archive is opened, which empties it.
        self.resumable.refuse_others(executor)?;
        let wanted = Wanted {
            places,
            excluded: self.excluded()?,
            format: self.format()?,
        };
        let is_plain = self.file != "-" && wanted.format.is_none();
        self.need_regular(executor, is_plain)?;
        // The archive and the checkpoint are where it was.
        let begun = std::env::current_dir()?;
        let file = self.open_archive(executor)?;
        let stat = Stat::of_open(file.as_fd())?;
        let is_regular = stat.kind() == FileType::RegularFile;
        self.need_regular(executor, is_regular)?;
        let output = self
            .listed(&options, self.file == "-", executor)
            .aside(true);
        let packed = self.pack(executor, options, wanted, (file, stat), &output);
        if packed.is_err() && executor.is_first() {
            std::env::set_current_dir(begun)?;
            // Earlier messages say why.
            let _ = self.remove(is_regular);
        }
        session::finish(packed?, &output)
    }

    fn need_regular(&self, executor: &Executor<'_>, is_regular: bool) -> Result<()> {
        if !is_regular && (executor.is_several() || self.resumable.is_wanted()) {
            bail!(
                "several processes, and --checkpoint, need an archive that is a file (-f), and not compressed"
            );
        }
        Ok(())
    }

    fn pack(
        &self,
        executor: &mut Executor<'_>,
        mut options: Options,
        wanted: Wanted,
        (file, stat): (File, Stat),
        output: &Output,
    ) -> Result<Outcome> {
        let is_regular = stat.kind() == FileType::RegularFile;
        let format = wanted.format.as_ref();
        let filter = format.map(|format| Filter::compress(format, file.try_clone()?));
        let (mut filter, file) = match filter.transpose()? {
            Some((filter, pipe)) => (Some(filter), pipe),
            None => (None, file),
        };
        // An existing file behind standard output is written from its position.
        let seekable = self.file != "-" && is_regular && filter.is_none();
        let files: Vec<&File> = self
            .resumable
            .is_wanted()
            .then_some(&file)
            .into_iter()
            .collect();
        let (mut parts, found) = Parts::begin::<Found>(
            &self.resumable,
            executor,
            &options.meter,
            self.asked(),
            &files,
        )?;
        let Found {
            mut members,
            allocator,
        } = found.unwrap_or_default();
        let allocator = Arc::new(Mutex::new(allocator));
        let rpc = executor.rpc(Allocator::answerer(&allocator));
        let archive = Archive {
            sink: Sink::new(file.into(), seekable, Arc::clone(&allocator), rpc),
            itself: Some(stat.identity()),
            excluded: wanted.excluded,
            detail: self.detail(0),
            says: self.says(),
            numeric: self.numeric_owner,
            recursive: !self.no_recursion,
            one_file_system: self.one_file_system,
            follows: self.dereference,
            methods: Methods::default(),
        };
        let begun = std::env::current_dir()?;
        let meter = Arc::clone(&options.meter);
        let make = |_| Creator::new(&archive, &meter, output.part());
        let mut take = |visitors: Vec<Creator<'_>>, _| {
            members += visitors.iter().map(|it| it.members).sum::<u64>();
            let allocator = allocator.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(Found {
                members,
                allocator: allocator.clone(),
            })
        };
        let walked = (|| -> Result<Option<Ran<Creator<'_>>>> {
            let mut ran = None;
            for (directories, roots) in &wanted.places {
                directories.iter().try_for_each(enter)?;
                let walked = parts.run(executor, roots, &mut options, false, make, &mut take)?;
                let is_over = walked.meter.is_stopped();
                ran = Some(walked);
                if is_over {
                    break;
                }
            }
            Ok(ran)
        })();
        let ran = walked.inspect_err(|_| {
            // A compressor would make an end of what it has.
            if let Some(filter) = filter.take() {
                filter.stop();
            } else if !seekable {
                archive.sink.spoil();
            }
        })?;
        let Some(ran) = ran else {
            unreachable!("there is at least one place");
        };
        let outcome = ran.outcome();
        std::env::set_current_dir(begun)?;
        if parts.is_put_off("tar", executor, &ran)? {
            return Ok(outcome);
        }
        let mine = (members, ran.meter.is_stopped());
        let Some(all) = executor.gather(mine, &ran.meter)? else {
            return Ok(Outcome::Done);
        };
        let members = all.iter().map(|(members, _)| members).sum();
        let seconds = ran.elapsed.as_secs_f64();
        if all.iter().any(|(_, is_stopped)| *is_stopped) {
            // Pieces of large files are missing in the middle of it.
            if !self.remove(is_regular)? && !seekable {
                archive.sink.spoil();
            }
            if let Some(filter) = filter.take() {
                filter.stop();
            }
            if ran.interrupted {
                let members = count(members);
                let what = format_args!("{members} members were packed; there is no archive");
                session::interrupted("tar", what);
            }
            self.report(members, 0, seconds, &options)?;
            return Ok(outcome);
        }
        let bytes = archive.sink.finish()?;
        drop(archive);
        filter.map_or(Ok(()), Filter::finish)?;
        self.report(members, bytes, seconds, &options)?;
        parts.finish()?;
        Ok(outcome)
    }

    /// Removes an archive that must not be taken for a whole one, where it can be removed; whether
    /// that was done. With a checkpoint it is as it was then when the next run goes on.
    fn remove(&self, is_regular: bool) -> Result<bool> {
        if self.file == "-" || !is_regular || self.resumable.is_wanted() {
            return Ok(false);
        }
        let removed = std::fs::remove_file(&self.file);
        removed.with_context(|| self.file.display().to_string())?;
        Ok(true)
    }

    /// The archive to be written. Of several processes the first makes it.
    fn open_archive(&self, executor: &mut Executor<'_>) -> Result<File> {
        if self.file == "-" {
            return Ok(rustix::io::dup(rustix::stdio::stdout())?.into());
        }
        let open = |is_new| {
            File::options()
                .write(true)
                .create(is_new)
                .truncate(is_new && !self.resumable.goes_on())
                .open(&self.file)
                .with_context(|| self.file.display().to_string())
        };
        let mut made = None;
        if executor.is_first() {
            made = Some(open(true)?);
        }
        executor.agree(())?;
        made.map_or_else(|| open(false), Ok)
    }

    /// Returns the request without its speed and the place of its checkpoint.
    fn asked(&self) -> String {
        let mut asked = self.clone();
        asked.common_args = CommonArgs::default();
        asked.resumable = Resumable::default();
        format!("{asked:?}")
    }
}
