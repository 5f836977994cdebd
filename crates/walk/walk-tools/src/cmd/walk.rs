//! The tool `walk`.

use crate::checkpoint_merge::Joined;
use crate::common_args::CommonArgs;
use crate::du::names::has_several;
use crate::executor::Executor;
use crate::limits::{LINKED_NAMES, LINKED_PARTS};
use crate::linked::{Linked, Unnamed, sums};
use crate::outcome::{Outcome, wrong};
use crate::output::{Output, Part};
use crate::parquet::{Table, kind_name, record};
use crate::parts::{Parts, Resumable};
use crate::session::{self, complain};
use crate::text::{count, human, show};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pandofs_walk_fs::{Entry, FileType, Flow, Follow, Options, Problem, StatxFlags, Visitor};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Seek, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pandofs walk /scratch
      how many entries of which kind, how many bytes
  pandofs walk --list nul src | xargs -0 wc -l
  pandofs walk --list json /data | jq 'select(.size > 1e9)'
  pandofs walk --list csv -x / > everything.csv
  pandofs walk --checkpoint state --list csv --output all.csv /scratch
      a walk of days; if it ends too early, the same with --resume goes on from where it was
  pandofs walk --list parquet /scratch > scratch.parquet
      and then: select kind, sum(size) from 'scratch.parquet' group by kind

Lists are in no order. Text has a path in each line, with control characters, backslashes and
what is not UTF-8 written as \\n, \\\\ and \\xFF; so has CSV. In JSON lines such bytes are in
\"path_hex\" besides, and the exact time of modification in \"mtime_ns\". Times are seconds since
1970, but for that and Parquet's, which are nanoseconds. Permissions are octal in CSV (644) and
plain numbers in JSON and Parquet (420).";

/// Visit every entry of some trees, and count or list them
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Walk {
    #[command(flatten)]
    pub(crate) common_args: CommonArgs,
    /// List the entries instead of counting them
    #[arg(short, long, value_name = "FORMAT")]
    list: Option<Format>,
    /// Stay on the file systems of the roots
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Follow symbolic links; one that leads back to a directory above it is reported
    #[arg(short = 'L', long)]
    follow: bool,
    #[command(flatten)]
    resumable: Resumable,
    /// Where a list goes, rather than to standard output: what is not in a checkpoint is cut off it
    #[arg(short, long, value_name = "FILE", requires = "list")]
    output: Option<PathBuf>,
    /// Print the counts as JSON
    #[arg(long, conflicts_with = "list")]
    json: bool,
    /// Where to begin
    #[arg(value_name = "PATH", default_value = ".")]
    roots: Vec<OsString>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// A path in each line, escaped
    Text,
    /// Paths as they are, each with a NUL after it
    Nul,
    /// An object in each line
    Json,
    /// A table with a header
    Csv,
    /// Columns, for databases
    Parquet,
}

impl Walk {
    /// # Errors
    /// When the walk or standard output fails.
    pub fn run(&self, executor: &mut Executor<'_>) -> Result<Outcome> {
        self.resumable.refuse_others(executor)?;
        let mut options = self.common_args.options(executor)?;
        options.leaves = false;
        options.one_file_system = self.one_file_system;
        if self.follow {
            options.follow = Follow::Always;
        }
        if self.list.is_none() {
            options.fields = StatxFlags::TYPE
                | StatxFlags::SIZE
                | StatxFlags::BLOCKS
                | StatxFlags::NLINK
                | StatxFlags::INO;
        }
        let place = self.place(executor, &options)?;
        let files: Vec<&File> = place.appended.iter().collect();
        let asked = format!(
            "walk of {:?}, list {:?}, one file system {}, follow {}",
            self.roots, self.list, self.one_file_system, self.follow
        );
        let (mut parts, found) =
            Parts::begin::<Found>(&self.resumable, executor, &options.meter, asked, &files)?;
        let is_new = found.is_none();
        let mut found = found.unwrap_or_default();
        let header = "path,kind,size,blocks,mode,uid,gid,links,mtime,ino\n";
        if self.list == Some(Format::Csv) && executor.is_first() && is_new {
            place.output.print(header);
        }
        let lists = self.list.is_some();
        let make = |_| Walker {
            format: self.list,
            found: Found::default(),
            out: place.output.part(),
            line: String::new(),
        };
        // Their rows are written when they go.
        let take = |visitors: Vec<Walker>, _| {
            visitors
                .iter()
                .for_each(|it| found.counts.add(&it.found.counts));
            Ok(found)
        };
        let ran = parts.run(executor, &self.roots, &mut options, false, make, take)?;
        if parts.is_put_off("walk", executor, &ran)? {
            self.written(&place)?;
            return Ok(ran.outcome());
        }
        let Some(all) = executor.gather(found, &ran.meter)? else {
            return Ok(Outcome::Done);
        };
        // Before the checkpoint goes: where the disk was full, it is what there is to go on from.
        self.written(&place)?;
        if !lists {
            let mut counts = Counts::default();
            all.iter().for_each(|other| counts.add(&other.counts));
            place.count_linked(&mut counts, &options.spill_directory)?;
            counts.problems = ran.meter.problems();
            counts.vanished = ran.meter.vanished();
            counts.seconds = ran.elapsed.as_secs_f64();
            let last = Output::last(&ran.meter);
            last.print(&if self.json {
                let ranks = all.iter().map(|other| other.counts.entries).collect();
                let report = Report {
                    counts,
                    ranks,
                    interrupted: ran.interrupted,
                };
                serde_json::to_string_pretty(&report)? + "\n"
            } else {
                counts.table()
            });
            last.finish().context("standard output")?;
        }
        if ran.interrupted {
            session::interrupted("walk", ran.so_far());
        }
        parts.finish()?;
        if let Some(path) = self.linked().filter(|_| executor.is_first()) {
            std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
        Ok(ran.outcome())
    }

    /// The file beside a checkpoint that has the names of files with several names.
    fn linked(&self) -> Option<PathBuf> {
        let counts = self.list.is_none();
        counts.then(|| self.resumable.links()).flatten()
    }

    /// Destination of what is met.
    fn place(&self, executor: &mut Executor<'_>, options: &Options) -> Result<Place> {
        let meter = &options.meter;
        let is_parquet = self.list == Some(Format::Parquet);
        if is_parquet && self.resumable.is_wanted() {
            return Err(wrong(
                "a list as Parquet has no checkpoints, as the places of its columns come last: choose another format",
            ));
        }
        let mut place = Place {
            output: Output::new(meter, executor),
            appended: None,
            unnamed: None,
            table: None,
        };
        match (self.linked(), &self.output) {
            (Some(path), _) => {
                (place.output, place.appended) = self.resumable.appended(&path, executor, meter)?;
            }
            (None, _) if self.list.is_none() => {
                let unnamed = Unnamed::new(&options.spill_directory);
                place.output = redirected(executor, options, unnamed.clone());
                place.unnamed = Some(unnamed);
            }
            (None, output) if is_parquet => {
                if executor.is_first() {
                    let table = Table::new(self.parquet_file(output.as_deref())?)?;
                    place.output = redirected(executor, options, table.clone());
                    place.table = Some(table);
                }
            }
            (None, Some(path)) => {
                (place.output, place.appended) = self.resumable.appended(path, executor, meter)?;
            }
            (None, None) if self.resumable.is_wanted() => {
                return Err(wrong("--checkpoint of a list needs --output"));
            }
            (None, None) => {}
        }
        Ok(place)
    }

    fn parquet_file(&self, path: Option<&Path>) -> Result<File> {
        let Some(path) = path else {
            if std::io::stdout().is_terminal() {
                return Err(wrong(
                    "Parquet is nothing for a terminal: send it to a file, or name one with --output",
                ));
            }
            return Ok(rustix::io::dup(rustix::stdio::stdout())?.into());
        };
        // It is written from its beginning, unlike one that is appended to.
        File::create(path).with_context(|| path.display().to_string())
    }

    /// Returns whether all that is listed was written.
    fn written(&self, place: &Place) -> Result<()> {
        let written = place.output.finish().map_err(anyhow::Error::from);
        let finished = written.and_then(|()| match &place.table {
            Some(table) => table.finish(),
            None => Ok(()),
        });
        finished.with_context(|| match (&self.output, self.linked()) {
            (Some(path), _) => path.display().to_string(),
            (None, Some(path)) => path.display().to_string(),
            (None, None) if self.list.is_none() => "names of files with several names".to_owned(),
            (None, None) => "standard output".to_owned(),
        })
    }
}

/// Destination of what is met.
struct Place {
    /// Output of the threads: entries of a list, or names of files that have several.
    output: Output,
    /// File behind it, if there is a checkpoint; at the first process.
    appended: Option<File>,
    /// Destination of names otherwise.
    unnamed: Option<Unnamed>,
    /// At the first process.
    table: Option<Table>,
}

impl Place {
    /// Adds what is in files with several names, when all names were met.
    fn count_linked(&self, counts: &mut Counts, directory: &Path) -> Result<()> {
        let unnamed = self.unnamed.as_ref().and_then(Unnamed::file);
        let Some(mut file) = self.appended.as_ref().or(unnamed) else {
            return Ok(());
        };
        file.rewind()?;
        let sums = sums(file, directory, LINKED_NAMES, LINKED_PARTS);
        let sums = sums.context("names of files with several names")?;
        counts.bytes += sums.bytes;
        counts.disk_bytes += sums.disk_bytes;
        Ok(())
    }
}

/// Redirects the output of the threads of all processes to this, at the first one.
fn redirected(
    executor: &mut Executor<'_>,
    options: &Options,
    to: impl Write + Send + 'static,
) -> Output {
    match executor {
        Executor::Alone => Output::writer(&options.meter, to),
        Executor::Together(_) => {
            if executor.is_first() {
                executor.redirect(to);
            }
            Output::new(&options.meter, executor)
        }
    }
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    counts: Counts,
    /// Entries that each process has visited.
    ranks: Vec<u64>,
    /// Whether Ctrl-C ended the walk, so that the above is not of all.
    interrupted: bool,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Counts {
    entries: u64,
    directories: u64,
    files: u64,
    links: u64,
    others: u64,
    /// Names of files, of whatever kind but directories, that have more than one.
    hard_links: u64,
    /// Sum of the files' sizes. Those with several names count once here and below.
    bytes: u64,
    /// On disk, of all entries.
    disk_bytes: u64,
    deepest: u32,
    problems: u64,
    vanished: u64,
    seconds: f64,
}

/// Findings of a thread or a process.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Found {
    /// Without what is in files with several names.
    counts: Counts,
}

impl Joined for Found {
    fn join(&mut self, other: Found) {
        self.counts.add(&other.counts);
    }
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.entries += other.entries;
        self.directories += other.directories;
        self.files += other.files;
        self.links += other.links;
        self.others += other.others;
        self.hard_links += other.hard_links;
        self.bytes += other.bytes;
        self.disk_bytes += other.disk_bytes;
        self.deepest = self.deepest.max(other.deepest);
    }

    fn table(&self) -> String {
        let rate = self.entries as f64 / self.seconds.max(1e-6);
        let mut text = String::new();
        for (what, number) in [
            ("entries", count(self.entries)),
            ("directories", count(self.directories)),
            ("files", count(self.files)),
            ("symbolic links", count(self.links)),
            ("others", count(self.others)),
            ("hard links", count(self.hard_links)),
            (
                "bytes in files",
                format!("{} ({})", count(self.bytes), human(self.bytes)),
            ),
            ("on disk", human(self.disk_bytes)),
            ("deepest level", count(u64::from(self.deepest))),
            ("problems", count(self.problems)),
            ("vanished meanwhile", count(self.vanished)),
            (
                "time",
                format!("{:.2} s, {} entries/s", self.seconds, count(rate as u64)),
            ),
        ] {
            text.push_str(&format!("{what:<20}{number}\n"));
        }
        text
    }
}

struct Walker {
    format: Option<Format>,
    found: Found,
    out: Part,
    line: String,
}

impl Visitor for Walker {
    type Dir = ();

    // No return comes between two calls that look at entries: see
    // `pandofs_walk_fs::Visitor::entry`.
    #[inline(always)]
    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        match self.format {
            None => self.count(entry),
            Some(Format::Nul) => {
                let bytes = self.out.bytes();
                bytes.extend_from_slice(entry.path());
                bytes.push(0);
            }
            Some(Format::Text) => {
                self.line.clear();
                show(entry.path(), &mut self.line);
                self.line.push('\n');
                self.out.bytes().extend_from_slice(self.line.as_bytes());
            }
            Some(Format::Csv) => self.csv(entry),
            Some(Format::Json) => self.json(entry),
            Some(Format::Parquet) => {
                if let Ok(stat) = entry.stat().copied() {
                    record(entry.path(), &stat, self.out.bytes());
                }
            }
        }
        self.out.end_record();
        Flow::Descend([0, 0])
    }

    fn problem(&mut self, problem: Problem<'_>) {
        complain("walk", problem);
    }
}

impl Walker {
    #[inline(always)]
    fn count(&mut self, entry: &mut Entry<'_, ()>) {
        let depth = entry.depth();
        let Ok(stat) = entry.stat() else { return };
        let counts = &mut self.found.counts;
        counts.entries += 1;
        counts.deepest = counts.deepest.max(depth);
        let disk_bytes = stat.blocks() * 512;
        let mut bytes = 0;
        match stat.kind() {
            FileType::Directory => counts.directories += 1,
            FileType::RegularFile => {
                counts.files += 1;
                bytes = stat.size();
            }
            FileType::Symlink => counts.links += 1,
            _ => counts.others += 1,
        }
        if !has_several(stat) {
            counts.bytes += bytes;
            counts.disk_bytes += disk_bytes;
            return;
        }
        counts.hard_links += 1;
        let linked = Linked {
            identity: stat.identity(),
            bytes,
            disk_bytes,
        };
        linked.write(self.out.bytes());
    }

    fn csv(&mut self, entry: &mut Entry<'_, ()>) {
        let Some(row) = Row::of(entry) else { return };
        self.line.clear();
        show(entry.path(), &mut self.line);
        let out = self.out.bytes();
        // Quoted always: whether it has to be is not worth the look.
        out.push(b'"');
        for byte in self.line.bytes() {
            if byte == b'"' {
                out.push(b'"');
            }
            out.push(byte);
        }
        let _ = writeln!(
            out,
            "\",{},{},{},{:o},{},{},{},{},{}",
            row.kind,
            row.size,
            row.blocks,
            row.mode,
            row.uid,
            row.gid,
            row.links,
            row.mtime,
            row.ino
        );
    }

    fn json(&mut self, entry: &mut Entry<'_, ()>) {
        let Some(mut row) = Row::of(entry) else {
            return;
        };
        let path = entry.path();
        let lossy = String::from_utf8_lossy(path);
        if std::str::from_utf8(path).is_err() {
            row.path_hex = Some(path.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        row.path = &lossy;
        let out = self.out.bytes();
        // A vector takes everything.
        let _ = serde_json::to_writer(&mut *out, &row);
        out.push(b'\n');
    }
}

/// An entry in JSON lines.
#[derive(Serialize)]
struct Row<'r> {
    path: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    kind: &'static str,
    size: u64,
    blocks: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    links: u32,
    /// To some hundred nanoseconds: so exact are numbers with a fraction.
    mtime: f64,
    /// Nanoseconds since 1970.
    mtime_ns: i128,
    ino: u64,
}

impl Row<'_> {
    fn of(entry: &mut Entry<'_, ()>) -> Option<Row<'static>> {
        let stat = entry.stat().ok()?;
        let mtime = stat.modified();
        Some(Row {
            path: "",
            path_hex: None,
            kind: kind_name(stat.kind()),
            size: stat.size(),
            blocks: stat.blocks(),
            mode: stat.mode() & 0o7777,
            uid: stat.uid(),
            gid: stat.gid(),
            links: stat.links(),
            mtime: mtime.seconds as f64 + f64::from(mtime.nanoseconds) / 1e9,
            mtime_ns: i128::from(mtime.seconds) * 1_000_000_000 + i128::from(mtime.nanoseconds),
            ino: stat.ino(),
        })
    }
}
