//! The tool `tar`.

mod pack;

use crate::common_args::CommonArgs;
use crate::executor::Executor;
use crate::mirror::DIRECTORY;
use crate::mode::umask;
use crate::outcome::{Outcome, wrong};
use crate::output::Output;
use crate::parts::Resumable;
use crate::session::{self, Shows};
use crate::tar::args::{TarArgs, names_in};
use crate::tar::choice::{Choice, Excluded};
use crate::tar::compress::{self, Format, Known};
use crate::tar::extract::{Source, Wanted, extract};
use crate::tar::input::Input;
use crate::tar::listing::{Detail, Listing, Says};
use crate::tar::read::Reading;
use crate::tar::unpack::{Existing, Keeping};
use crate::text::{count, json_line};
use anyhow::{Context, Result, bail};
use clap::{ArgAction, ArgGroup, Args};
use pandofs_walk_fs::Options;
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pandofs tar -cf project.tar project
  pandofs tar cf project.tar.zst --zstd -C /home/alice project -C /etc hosts
  pandofs tar -tvf project.tar
  pandofs tar -xf project.tar.gz -C /scratch --strip-components=1
  pandofs tar -xf project.tar project/src project/README
  pandofs tar -xOf project.tar project/README | less
  find project -newer stamp -print0 | pandofs tar -c --null --no-recursion -T - -f new.tar
  mpirun -n 8 --hostfile hosts pandofs tar -cf /scratch/project.tar -C /scratch project
  pandofs tar -cf all.tar --checkpoint state /scratch
      packing for days; if it ends too early, the same with --resume goes on from where it was

Archives are in the POSIX format (pax), which GNU tar, bsdtar and others read; of theirs those of
POSIX, GNU and older ones are read. Extended attributes, access control lists, holes, fractions of
seconds and files with several names are always kept. In a file members are written by all threads
at once, large ones piece by piece, in no order but that a directory comes after what is in it.
Unpacking never follows a link out of the directory, and replaces files that are there. A
compressed archive is written and read from its beginning, by a program that is installed (pigz,
zstd and the like).";

/// Pack, unpack and list archives in parallel
#[derive(Args, Clone, Debug)]
#[command(
    disable_help_flag = true,
    after_help = EXAMPLES,
    group = ArgGroup::new("what").args(["create", "extract", "list"]).required(true),
    group = ArgGroup::new("compression").args(["gzip", "bzip2", "xz", "zstd", "auto_compress", "use_compress_program"]),
    group = ArgGroup::new("existing").args(["keep_old_files", "skip_old_files", "keep_newer_files"])
)]
pub struct Tar {
    #[command(flatten)]
    pub(crate) common_args: CommonArgs,
    /// Pack
    #[arg(short, long)]
    create: bool,
    /// Unpack
    #[arg(short = 'x', long, visible_alias = "get")]
    extract: bool,
    /// List
    #[arg(short = 't', long)]
    list: bool,
    /// The archive; '-' is standard output or input
    #[arg(short, long, value_name = "ARCHIVE", default_value = "-")]
    file: OsString,
    /// Say what is packed or unpacked; twice, or when listing, with owners, sizes and times
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// Compress with gzip (or pigz, if there is one); so with all of these. An archive that is a
    /// file is expanded by itself
    #[arg(short = 'z', long, visible_alias = "gunzip")]
    gzip: bool,
    /// With bzip2, lbzip2 or pbzip2
    #[arg(short = 'j', long)]
    bzip2: bool,
    /// With xz
    #[arg(short = 'J', long)]
    xz: bool,
    /// With zstd
    #[arg(long)]
    zstd: bool,
    /// As the archive's name says
    #[arg(short = 'a', long)]
    auto_compress: bool,
    /// With this program, which has to know -d
    #[arg(short = 'I', long, value_name = "PROGRAM")]
    use_compress_program: Option<OsString>,
    /// Leave out what has such a path, or a path that ends so, and all below it
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<OsString>,
    /// The same for each line of a file
    #[arg(short = 'X', long, value_name = "FILE")]
    exclude_from: Vec<PathBuf>,
    /// More paths, one in each line of a file, or of standard input for -
    #[arg(short = 'T', long, value_name = "FILE")]
    files_from: Vec<OsString>,
    /// Paths in files of -T have a NUL after them
    #[arg(long)]
    null: bool,
    /// Only what is named, not what is in it
    #[arg(long)]
    no_recursion: bool,
    /// Paths are patterns, whose '*' matches '/'
    #[arg(long, conflicts_with = "create")]
    wildcards: bool,
    /// Take so many names away at the beginning of each path
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "create")]
    strip_components: u32,
    /// Write what is in files to standard output, and make none
    #[arg(short = 'O', long, requires = "extract")]
    to_stdout: bool,
    /// Leave files that are there as they are, each of which is a failure
    #[arg(short = 'k', long, requires = "extract")]
    keep_old_files: bool,
    /// Leave files that are there as they are
    #[arg(long, requires = "extract")]
    skip_old_files: bool,
    /// The same of those that are not older
    #[arg(long, requires = "extract")]
    keep_newer_files: bool,
    /// Unpack exact permissions, as root always does; others leave out what their umask has
    #[arg(
        short = 'p',
        long,
        visible_alias = "same-permissions",
        overrides_with = "no_same_permissions"
    )]
    preserve_permissions: bool,
    /// Leave that out as root as well
    #[arg(long, overrides_with = "preserve_permissions")]
    no_same_permissions: bool,
    /// Unpack owners, as root always does
    #[arg(long, overrides_with = "no_same_owner")]
    same_owner: bool,
    /// Unpack to yourself as root as well
    #[arg(short = 'o', long, overrides_with = "same_owner")]
    no_same_owner: bool,
    /// Owners are numbers, not names
    #[arg(long)]
    numeric_owner: bool,
    /// Times of modification are those of unpacking
    #[arg(short = 'm', long)]
    touch: bool,
    /// Pack what symbolic links lead to
    #[arg(short = 'h', long, requires = "create")]
    dereference: bool,
    /// Stay on the file systems of what is packed
    #[arg(long, requires = "create")]
    one_file_system: bool,
    /// Is always so; taken for the habit
    #[arg(short = 'S', long, visible_aliases = ["xattrs", "acls"])]
    sparse: bool,
    #[command(flatten)]
    resumable: Resumable,
    /// Print what was done as JSON, and members before it if they are listed, an object in each
    /// line; on standard error if something else is on standard output
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    members: TarArgs,
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
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
    pub fn run(&self, executor: &mut Executor<'_>) -> Result<Outcome> {
        let options = self.common_args.options(executor)?;
        if executor.is_several() && self.file == "-" {
            bail!("several processes need an archive that is a file: -f");
        }
        if !self.create && self.resumable.is_wanted() {
            return Err(wrong(
                "unpacking has no checkpoints: unpack again, what is there is replaced",
            ));
        }
        if self.create {
            self.create(executor, options)
        } else if self.list || self.to_stdout {
            executor.alone("-t or -O")?;
            self.read(&options)
        } else {
            self.unpack(executor, &options)
        }
    }

    /// Paths by directories, with those that are named in files. Only the first process has the
    /// standard input.
    fn places(&self, executor: &Executor<'_>) -> Result<Vec<(Vec<OsString>, Vec<OsString>)>> {
        let mut places = self.members.places();
        if !executor.is_first() {
            return Ok(Vec::new());
        }
        if let Some(last) = places.last_mut() {
            for file in &self.files_from {
                last.paths.extend(names_in(file, self.null)?);
            }
        }
        let places = places.into_iter();
        Ok(places.map(|it| (it.directories, it.paths)).collect())
    }

    fn excluded(&self) -> Result<Excluded> {
        let mut patterns: Vec<Vec<u8>> = Vec::new();
        patterns.extend(self.exclude.iter().map(|it| it.as_bytes().to_vec()));
        for file in &self.exclude_from {
            let lines = std::fs::read(file).with_context(|| format!("-X: {}", file.display()))?;
            let lines = lines.split(|byte| *byte == b'\n');
            let lines = lines.filter(|line| !line.is_empty());
            patterns.extend(lines.map(<[u8]>::to_vec));
        }
        Ok(Excluded::new(patterns.iter().map(|it| &it[..])))
    }

    /// Returns the compression of an archive that is to be made.
    fn format(&self) -> Result<Option<Format>> {
        let by_option = [
            (self.gzip, &compress::GZIP),
            (self.bzip2, &compress::BZIP2),
            (self.xz, &compress::XZ),
            (self.zstd, &compress::ZSTD),
        ];
        if let Some((_, known)) = by_option.into_iter().find(|(given, _)| *given) {
            return Ok(Some(Format::Known(known)));
        }
        if let Some(program) = &self.use_compress_program {
            return Ok(Some(Format::Program(program.clone())));
        }
        let by_name = self
            .auto_compress
            .then(|| Known::of_name(Path::new(&self.file)));
        Ok(by_name.flatten().map(Format::Known))
    }

    /// Returns how much is said of each member, one step more than the options say.
    fn detail(&self, more: u8) -> Detail {
        match self.verbose.saturating_add(more) {
            0 => Detail::Nothing,
            1 => Detail::Name,
            _ => Detail::All,
        }
    }

    /// Returns the destination of the list: standard output, unless something else goes there.
    fn listed(&self, options: &Options, is_taken: bool, executor: &Executor<'_>) -> Output {
        if is_taken {
            Output::errors(&options.meter)
        } else {
            Output::new(&options.meter, executor)
        }
    }

    /// Returns the wanted members of an archive, and their destination.
    fn choice(&self, executor: &mut Executor<'_>) -> Result<(Choice, Vec<OsString>)> {
        let mut places = executor.agree(self.places(executor)?)?;
        if places.len() != 1 {
            return Err(wrong("-C between members is only known when packing"));
        }
        let (directories, paths) = places.remove(0);
        let choice = Choice::new(
            &paths,
            self.wildcards,
            !self.no_recursion,
            self.excluded()?,
            if self.list {
                0
            } else {
                self.strip_components as usize
            },
        );
        Ok((choice, directories))
    }

    fn open_input(&self) -> Result<Input> {
        let format = if self.auto_compress {
            None
        } else {
            self.format()?
        };
        Input::open(&self.file, format)
    }

    fn read(&self, options: &Options) -> Result<Outcome> {
        let (choice, directories) = self.choice(&mut Executor::Alone)?;
        let input = self.open_input()?;
        directories.iter().try_for_each(enter)?;
        let output = self.listed(options, self.to_stdout, &Executor::Alone);
        let mut stdout = std::io::stdout();
        let reading = Reading {
            input: &input.file,
            seekable: input.seekable,
            choice,
            listing: self.listing(&output, u8::from(self.list)),
            data: self.to_stdout.then_some(&mut stdout),
        };
        let shows = Shows {
            shares: self.to_stdout,
            is_first: true,
        };
        let attended =
            session::attended(&options.meter, None, shows, || reading.run(&options.meter))?;
        let is_whole = attended.done.is_ok() && !options.meter.is_stopped();
        let expanded = input.finish(is_whole);
        let was = attended.done?;
        let seconds = attended.elapsed.as_secs_f64();
        self.report(was.members, was.bytes, seconds, options)?;
        if attended.interrupted {
            return Ok(Outcome::Interrupted);
        }
        expanded?;
        session::finish(done(options), &output)
    }

    fn unpack(&self, executor: &mut Executor<'_>, options: &Options) -> Result<Outcome> {
        let (choice, directories) = self.choice(executor)?;
        let existing = self.existing();
        if existing != Existing::Replace {
            executor.alone("--keep-old-files, --skip-old-files or --keep-newer-files")?;
        }
        let input = self.open_input()?;
        if !input.seekable && executor.is_several() {
            bail!("several processes need an archive that is a file (-f), and not compressed");
        }
        directories.iter().try_for_each(enter)?;
        let root = openat(CWD, ".", DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        let output = self
            .listed(options, executor.is_several(), executor)
            .aside(true);
        let from = Source {
            input: &input.file,
            archive: input.seekable.then_some(&input.file),
            part: executor.part(),
        };
        let wanted = Wanted {
            choice,
            existing,
            keeping: self.keeping(),
        };
        let listing = self.listing(&output, 0);
        let shows = Shows {
            shares: false,
            is_first: executor.is_first(),
        };
        let attended = session::attended(&options.meter, None, shows, || {
            extract(&from, root, options, wanted, listing, || {
                executor.meet(options)
            })
        })?;
        let unpacked = attended.done?;
        let is_whole = unpacked.failure.is_none() && !options.meter.is_stopped();
        let expanded = input.finish(is_whole);
        let Some(all) = executor.gather(unpacked, &options.meter)? else {
            return Ok(Outcome::Done);
        };
        let seconds = attended.elapsed.as_secs_f64();
        let members = all.iter().map(|it| it.members).sum();
        let bytes = all.iter().map(|it| it.bytes).sum();
        self.report(members, bytes, seconds, options)?;
        if attended.interrupted {
            let members = count(members);
            let what = format_args!("{members} members were unpacked, not all");
            session::interrupted("tar", what);
            return Ok(Outcome::Interrupted);
        }
        // All read the same, and stumble over the same.
        if let Some(failure) = all.into_iter().find_map(|it| it.failure) {
            bail!(failure);
        }
        expanded?;
        session::finish(done(options), &output)
    }

    fn existing(&self) -> Existing {
        if self.keep_old_files {
            Existing::Refuse
        } else if self.skip_old_files {
            Existing::Leave
        } else if self.keep_newer_files {
            Existing::LeaveNewer
        } else {
            Existing::Replace
        }
    }

    fn keeping(&self) -> Keeping {
        let is_root = rustix::process::geteuid().is_root();
        let exact = self.preserve_permissions || is_root && !self.no_same_permissions;
        Keeping {
            owner: self.same_owner || is_root && !self.no_same_owner,
            numeric: self.numeric_owner,
            mask: (!exact).then(umask),
            times: !self.touch,
        }
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
            let last = if self.takes_output() {
                Output::errors(&options.meter)
            } else {
                Output::last(&options.meter)
            };
            json_line(&report, last.part().bytes());
            last.finish()?;
        }
        Ok(())
    }

    /// Returns whether an archive, or what is in files, goes to standard output.
    fn takes_output(&self) -> bool {
        self.to_stdout || self.create && self.file == "-"
    }

    /// Returns the form of the list, with so many steps more detail than the options say.
    fn listing(&self, output: &Output, more: u8) -> Listing {
        Listing::new(output.part(), self.detail(more), self.says())
    }

    /// Returns how members are listed.
    fn says(&self) -> Says {
        match (self.json, self.numeric_owner) {
            (true, _) => Says::Json,
            (false, true) => Says::Numbers,
            (false, false) => Says::Names,
        }
    }
}

fn done(options: &Options) -> Outcome {
    if options.meter.problems() > 0 {
        Outcome::Incomplete
    } else {
        Outcome::Done
    }
}

fn enter(directory: &OsString) -> Result<()> {
    let entered = std::env::set_current_dir(directory);
    entered.with_context(|| directory.display().to_string())
}
