//! `tar`

use crate::cmd::cp::patterns;
use crate::copy::data::Methods;
use crate::crew::Crew;
use crate::how::How;
use crate::mirror::DIRECTORY;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::progress::Progress;
use crate::session;
use crate::tar::create::{Archive, Creator};
use crate::tar::extract::extract;
use crate::tar::sink::Sink;
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_walk_fs::{FileType, Options, Stat};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  pandofs tar -cf project.tar project
  pandofs tar -xf project.tar -C /scratch
  pandofs tar -c project | zstd > project.tar.zst
  zstd -dc project.tar.zst | pandofs tar -x

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

impl Tar {
    /// # Errors
    /// When it cannot begin, or the archive cannot be read or written.
    pub fn run(&self, crew: &mut Crew<'_>) -> Result<Outcome> {
        crew.alone("tar")?;
        let options = self.how.options(crew)?;
        if self.create {
            self.create(crew, options)
        } else {
            self.unpack(&options)
        }
    }

    fn create(&self, crew: &mut Crew<'_>, mut options: Options) -> Result<Outcome> {
        options.one_file_system = self.one_file_system;
        options.slow_entries = true;
        let fd: OwnedFd = if self.file == "-" {
            rustix::io::dup(rustix::stdio::stdout())?
        } else {
            let made = File::create(&self.file);
            made.with_context(|| self.file.display().to_string())?
                .into()
        };
        let stat = Stat::of_open(fd.as_fd())?;
        // What standard output is appended to is written from where it is.
        let seekable = self.file != "-" && stat.kind() == FileType::RegularFile;
        let archive = Archive {
            sink: Sink::new(fd, seekable),
            itself: Some(stat.identity()),
            names: Default::default(),
            excluded: patterns(&self.exclude)?,
            verbose: self.verbose,
            one_file_system: self.one_file_system,
            methods: Methods::default(),
        };
        self.enter_directory()?;
        let output = Output::errors(&options.meter);
        let ran = session::run(crew, &self.roots, &options, true, |_| {
            Creator::new(&archive, &options.meter, output.part())
        })?;
        let members = ran.visitors.iter().map(|it| it.members).sum();
        let outcome = ran.outcome();
        let bytes = archive.sink.finish()?;
        let seconds = ran.elapsed.as_secs_f64();
        self.report(members, bytes, seconds, &options)?;
        Ok(outcome)
    }

    fn unpack(&self, options: &Options) -> Result<Outcome> {
        if !self.roots.is_empty() {
            bail!("all of an archive is unpacked: no paths are taken");
        }
        let input: File = if self.file == "-" {
            rustix::io::dup(rustix::stdio::stdin())?.into()
        } else {
            File::open(&self.file).with_context(|| self.file.display().to_string())?
        };
        let seekable = self.file != "-" && input.metadata()?.is_file();
        self.enter_directory()?;
        let root = openat(CWD, ".", DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        let output = Output::errors(&options.meter);
        let verbose = self.verbose.then(|| output.part());
        let started = Instant::now();
        let unpacked = {
            let _progress = Progress::start(&options.meter, self.verbose);
            let archive = seekable.then_some(&input);
            extract(
                &input,
                archive,
                root,
                options.workers * options.ranks,
                &options.meter,
                verbose,
            )?
        };
        let seconds = started.elapsed().as_secs_f64();
        self.report(unpacked.members, unpacked.bytes, seconds, options)?;
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
