//! `walk`

use crate::crew::Crew;
use crate::du::names::{Names, has_several};
use crate::how::How;
use crate::outcome::{Outcome, wrong};
use crate::output::{Output, Part};
use crate::parquet::{Rows, Table};
use crate::parts::{Parts, Resumable};
use crate::session::complain;
use crate::text::{count, human, show};
use crate::together::Joined;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pandofs_walk_fs::{Entry, FileType, Flow, Follow, Meter, Problem, Stat, StatxFlags, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

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
\"path_hex\" besides. Times are seconds since 1970.";

/// Visit every entry of some trees, and count or list them
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Walk {
    #[command(flatten)]
    how: How,
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
    pub fn run(&self, crew: &mut Crew<'_>) -> Result<Outcome> {
        let mut options = self.how.options(crew)?;
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
        let mut table = None;
        if self.list == Some(Format::Parquet) {
            crew.alone("a list as Parquet")?;
            if std::io::stdout().is_terminal() {
                return Err(wrong(
                    "Parquet is nothing for a terminal: send it to a file",
                ));
            }
            let file = rustix::io::dup(rustix::stdio::stdout())?;
            table = Some(Table::new(file.into(), &options.meter)?);
        }
        let (output, file) = self.open_output(crew, &options.meter)?;
        let files: Vec<&File> = file.iter().collect();
        let asked = format!(
            "walk of {:?}, list {:?}, one file system {}, follow {}",
            self.roots, self.list, self.one_file_system, self.follow
        );
        let (mut parts, found) =
            Parts::begin::<Found>(&self.resumable, crew, &options.meter, asked, &files)?;
        let mut found = found.unwrap_or_default();
        let names = Names::default();
        names.add(found.linked.iter().map(|it| it.identity));
        let header = "path,kind,size,blocks,mode,uid,gid,links,mtime,ino\n";
        if self.list == Some(Format::Csv) && crew.is_first() && !self.resumable.goes_on() {
            output.print(header);
        }
        let lists = self.list.is_some();
        let make = |_| Walker {
            format: self.list,
            found: Found::default(),
            names: &names,
            out: output.part(),
            line: String::new(),
            table: table.as_ref(),
            rows: Rows::default(),
        };
        let take = |mut visitors: Vec<Walker<'_>>, _| {
            for visitor in &mut visitors {
                found.counts.add(&visitor.found.counts);
                found.linked.append(&mut visitor.found.linked);
                if let Some(table) = &table {
                    visitor.rows.flush(table);
                }
            }
            Ok(found.clone())
        };
        let ran = parts.run(crew, &self.roots, &mut options, lists, make, take)?;
        if parts.is_put_off(crew, &ran)? {
            self.written(&output)?;
            return Ok(ran.outcome());
        }
        let Some(all) = crew.gather(found, &ran.meter)? else {
            return Ok(Outcome::Done);
        };
        if !lists {
            let mut counts = all_counts(&all);
            counts.problems = ran.meter.problems();
            counts.vanished = ran.meter.vanished();
            counts.seconds = ran.elapsed.as_secs_f64();
            let last = Output::last(&ran.meter);
            last.print(&if self.json {
                let ranks = all.iter().map(|other| other.counts.entries).collect();
                let report = Report { counts, ranks };
                serde_json::to_string_pretty(&report)? + "\n"
            } else {
                counts.table()
            });
            last.finish().context("standard output")?;
        }
        let outcome = ran.outcome();
        drop(ran);
        if let Some(table) = table {
            table.finish()?;
        }
        // Before the checkpoint goes: where the disk was full, it is what there is to go on from.
        self.written(&output)?;
        parts.finish()?;
        Ok(outcome)
    }

    /// Whether all that is listed was written.
    fn written(&self, output: &Output) -> Result<()> {
        output.finish().with_context(|| match &self.output {
            Some(path) => path.display().to_string(),
            None => "standard output".to_owned(),
        })
    }
}

impl Walk {
    fn open_output(
        &self,
        crew: &mut Crew<'_>,
        meter: &Arc<Meter>,
    ) -> Result<(Output, Option<File>)> {
        let is_parquet = self.list == Some(Format::Parquet);
        let has_nowhere = self.list.is_some() && self.output.is_none();
        if self.resumable.is_wanted() && (is_parquet || has_nowhere) {
            return Err(wrong(
                "--checkpoint of a list needs --output, and another format than Parquet",
            ));
        }
        let Some(path) = &self.output else {
            return Ok((Output::new(meter, crew), None));
        };
        if is_parquet {
            return Err(wrong("--output does not work with Parquet"));
        }
        self.resumable.appended(path, crew, meter)
    }
}

/// What `--json` prints. Fields may be added; none goes or changes its meaning.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    counts: Counts,
    /// Entries that each process has visited.
    ranks: Vec<u64>,
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

/// A file with several names, which another process may have met too.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Linked {
    identity: (u64, u64),
    bytes: u64,
    disk_bytes: u64,
}

/// What a thread or a process has found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Found {
    counts: Counts,
    /// Whose bytes are not in the counts yet.
    linked: Vec<Linked>,
}

impl Joined for Found {
    fn join(&mut self, other: Found) {
        self.counts.add(&other.counts);
        self.linked.extend(other.linked);
    }
}

/// What all processes have counted.
fn all_counts(all: &[Found]) -> Counts {
    let mut counts = Counts::default();
    all.iter().for_each(|other| counts.add(&other.counts));
    let mut seen = HashSet::new();
    for it in all.iter().flat_map(|other| &other.linked) {
        if seen.insert(it.identity) {
            counts.bytes += it.bytes;
            counts.disk_bytes += it.disk_bytes;
        }
    }
    counts
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

struct Walker<'w> {
    table: Option<&'w Table>,
    rows: Rows,
    format: Option<Format>,
    found: Found,
    names: &'w Names,
    out: Part,
    line: String,
}

impl Visitor for Walker<'_> {
    type Dir = ();

    // No return comes between two calls that look at entries: see `pandofs_walk_fs::Visitor::entry`.
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
                let stat = entry.stat().copied();
                if let (Ok(stat), Some(table)) = (stat, self.table) {
                    self.rows.push(entry.path(), kind(&stat), &stat, table);
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

impl Walker<'_> {
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
        if self.names.is_first(stat) {
            self.found.linked.push(Linked {
                identity: stat.identity(),
                bytes,
                disk_bytes,
            });
        }
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
    mtime: f64,
    ino: u64,
}

impl Row<'_> {
    fn of(entry: &mut Entry<'_, ()>) -> Option<Row<'static>> {
        let stat = entry.stat().ok()?;
        let mtime = stat.modified();
        Some(Row {
            path: "",
            path_hex: None,
            kind: kind(stat),
            size: stat.size(),
            blocks: stat.blocks(),
            mode: stat.mode() & 0o7777,
            uid: stat.uid(),
            gid: stat.gid(),
            links: stat.links(),
            mtime: mtime.seconds as f64 + f64::from(mtime.nanoseconds) / 1e9,
            ino: stat.ino(),
        })
    }
}

fn kind(stat: &Stat) -> &'static str {
    match stat.kind() {
        FileType::Directory => "directory",
        FileType::RegularFile => "file",
        FileType::Symlink => "link",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Unknown => "unknown",
    }
}
