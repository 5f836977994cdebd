//! `tar`

use crate::cmd::cp::patterns;
use crate::copy::data::Methods;
use crate::crew::Crew;
use crate::how::How;
use crate::mirror::DIRECTORY;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::parts::{Parts, Resumable};
use crate::progress::Progress;
use crate::tar::book::Book;
use crate::tar::create::{Archive, Creator};
use crate::tar::extract::{Source, extract};
use crate::tar::sink::Sink;
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_walk_fs::{FileType, Options, Stat};
use rustix::fd::AsFd;
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  pandofs tar -cf project.tar project
  pandofs tar -xf project.tar -C /scratch
  pandofs tar -c project | zstd > project.tar.zst
  zstd -dc project.tar.zst | pandofs tar -x
  mpirun -n 8 --hostfile hosts pandofs tar -cf /scratch/project.tar -C /scratch project
  pandofs tar -cf all.tar --checkpoint state /scratch
      packing for days; if it ends too early, the same with --resume goes on from where it was

Archives are in the POSIX format (pax), which GNU tar, bsdtar and others read; of theirs those of
POSIX, GNU and older ones are read. Extended attributes, access control lists, holes, fractions of
seconds and files with several names are kept. In a file members are written by all threads at once,
large ones piece by piece, in no order but that a directory comes after what is in it. Unpacking
never follows a link out of the directory, and replaces files that are there.";

/// Pack and unpack archives in parallel
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Tar {
    #[command(flatten)]
    how: How,
    /// Pack
    #[arg(short, long, conflicts_with = "extract")]
    create: bool,
    /// Unpack
    #[arg(short = 'x', long, required_unless_present = "create")]
    extract: bool,
    /// The archive; '-' is standard output or input
    #[arg(short, long, value_name = "ARCHIVE", default_value = "-")]
    file: OsString,
    /// Go to this directory first
    #[arg(short = 'C', long, value_name = "DIR")]
    directory: Option<OsString>,
    /// Say what is packed or unpacked, on standard error
    #[arg(short, long)]
    verbose: bool,
    /// Leave out entries with such a name (or path, if there is a '/' in it), and all below them
    #[arg(long, value_name = "PATTERN", requires = "create")]
    exclude: Vec<String>,
    /// Stay on the file systems of what is packed
    #[arg(long, requires = "create")]
    one_file_system: bool,
    #[command(flatten)]
    resumable: Resumable,
    /// Print what was done as JSON, on standard error
    #[arg(long)]
    json: bool,
    /// What to pack
    #[arg(value_name = "PATH", required_unless_present = "extract")]
    roots: Vec<OsString>,
}

/// What `--json` prints. Fields may be added; none goes or changes its meaning.
#[derive(Serialize)]
struct Report {
    members: u64,
    /// Of the archive when packing, of data when unpacking.
    bytes: u64,
    problems: u64,
    vanished: u64,
    seconds: f64,
}

/// What a checkpoint knows of an archive.
#[derive(Default, Serialize, Deserialize)]
struct Found {
    members: u64,
    book: Book,
}

impl Tar {
    /// # Errors
    /// When it cannot begin, or the archive cannot be read or written.
    pub fn run(&self, crew: &mut Crew<'_>) -> Result<Outcome> {
        let options = self.how.options(crew)?;
        if crew.is_several() && self.file == "-" {
            bail!("several processes need an archive that is a file: -f");
        }
        if self.create {
            self.create(crew, options)
        } else {
            self.unpack(crew, &options)
        }
    }

    fn create(&self, crew: &mut Crew<'_>, mut options: Options) -> Result<Outcome> {
        options.one_file_system = self.one_file_system;
        options.slow_entries = true;
        let file = self.open_archive(crew)?;
        let stat = Stat::of_open(file.as_fd())?;
        // What standard output is appended to is written from where it is.
        let seekable = self.file != "-" && stat.kind() == FileType::RegularFile;
        if !seekable && (crew.is_several() || self.resumable.is_wanted()) {
            bail!("several processes, and --checkpoint, need an archive that is a file: -f");
        }
        let files: Vec<&File> = self
            .resumable
            .is_wanted()
            .then_some(&file)
            .into_iter()
            .collect();
        let (mut parts, found) =
            Parts::begin::<Found>(&self.resumable, crew, &options.meter, self.asked(), &files)?;
        let Found { mut members, book } = found.unwrap_or_default();
        let book = Arc::new(Mutex::new(book));
        let questions = crew.questions(Book::answerer(&book));
        let archive = Archive {
            sink: Sink::new(
                file.try_clone()?.into(),
                seekable,
                Arc::clone(&book),
                questions,
            ),
            itself: Some(stat.identity()),
            excluded: patterns(&self.exclude)?,
            verbose: self.verbose,
            one_file_system: self.one_file_system,
            methods: Methods::default(),
        };
        // The checkpoint is where it was.
        let begun = std::env::current_dir()?;
        self.enter_directory()?;
        let output = Output::errors(&options.meter);
        let meter = Arc::clone(&options.meter);
        let make = |_| Creator::new(&archive, &meter, output.part());
        let take = |visitors: Vec<Creator<'_>>, _| {
            members += visitors.iter().map(|it| it.members).sum::<u64>();
            let book = book.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(Found {
                members,
                book: book.clone(),
            })
        };
        let ran = parts.run(crew, &self.roots, &mut options, true, make, take)?;
        let outcome = ran.outcome();
        if parts.is_put_off(&ran) {
            return Ok(outcome);
        }
        let Some(all) = crew.gather(members, &ran.meter)? else {
            return Ok(Outcome::Done);
        };
        let bytes = archive.sink.finish()?;
        let seconds = ran.elapsed.as_secs_f64();
        self.report(all.iter().sum(), bytes, seconds, &options)?;
        std::env::set_current_dir(begun)?;
        parts.finish()?;
        Ok(outcome)
    }

    /// The archive to be written. Of several processes the first makes it.
    fn open_archive(&self, crew: &mut Crew<'_>) -> Result<File> {
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
        if crew.is_first() {
            made = Some(open(true)?);
        }
        crew.agree(())?;
        made.map_or_else(|| open(false), Ok)
    }

    /// What was asked for, but for how fast and where it is kept.
    fn asked(&self) -> String {
        let mut asked = self.clone();
        asked.how = How::default();
        asked.resumable = Resumable::default();
        format!("{asked:?}")
    }

    fn unpack(&self, crew: &mut Crew<'_>, options: &Options) -> Result<Outcome> {
        if !self.roots.is_empty() {
            bail!("all of an archive is unpacked: no paths are taken");
        }
        let input: File = if self.file == "-" {
            rustix::io::dup(rustix::stdio::stdin())?.into()
        } else {
            File::open(&self.file).with_context(|| self.file.display().to_string())?
        };
        let seekable = self.file != "-" && input.metadata()?.is_file();
        if !seekable && crew.is_several() {
            bail!("several processes need an archive that is a file: -f");
        }
        self.enter_directory()?;
        let root = openat(CWD, ".", DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        let output = Output::errors(&options.meter);
        let verbose = self.verbose.then(|| output.part());
        let started = Instant::now();
        let unpacked = {
            let _progress = Progress::start(&options.meter, self.verbose);
            let from = Source {
                input: &input,
                archive: seekable.then_some(&input),
                part: crew.part(),
            };
            extract(
                &from,
                root,
                options.workers * options.ranks,
                &options.meter,
                verbose,
                || crew.meet(options).map(|()| crew.is_first()),
            )?
        };
        let Some(all) = crew.gather(unpacked, &options.meter)? else {
            return Ok(Outcome::Done);
        };
        let seconds = started.elapsed().as_secs_f64();
        let members = all.iter().map(|it| it.members).sum();
        let bytes = all.iter().map(|it| it.bytes).sum();
        self.report(members, bytes, seconds, options)?;
        // All read the same, and stumble over the same.
        if let Some(failure) = all.into_iter().find_map(|it| it.failure) {
            bail!(failure);
        }
        Ok(if options.meter.problems() > 0 {
            Outcome::Incomplete
        } else {
            Outcome::Done
        })
    }

    fn enter_directory(&self) -> Result<()> {
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        let entered = std::env::set_current_dir(directory);
        entered.with_context(|| directory.display().to_string())
    }

    fn report(&self, members: u64, bytes: u64, seconds: f64, options: &Options) -> Result<()> {
        if self.json {
            let report = Report {
                members,
                bytes,
                problems: options.meter.problems(),
                vanished: options.meter.vanished(),
                seconds,
            };
            eprintln!("{}", serde_json::to_string_pretty(&report)?);
        }
        Ok(())
    }
}
