//! The tool `cmp`.

use crate::checkpoint_merge::Joined;
use crate::cmd::cp::patterns;
use crate::common_args::CommonArgs;
use crate::copy::attributes::{list, list_at};
use crate::copy::data::Copying;
use crate::copy::wanted::is_excluded_as;
use crate::executor::Executor;
use crate::find::glob::Glob;
use crate::limits::PIECE_BYTES;
use crate::mirror::{DIRECTORY, Mirror, Mirrored, Slot};
use crate::outcome::Outcome;
use crate::output::{Output, Part};
use crate::parts::{Parts, Resumable};
use crate::session::{self, say};
use crate::text::{JsonPath, count, json_line, show};
use anyhow::Result;
use clap::Args;
use pandofs_walk_fs::{
    Dir, DirState, Entry, FileType, Flow, Leaving, Meter, Problem, Stat, Task, Visitor,
};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  pandofs cmp /home /backup/home
      one line for each difference; exit code 0 if there is none, 1 if there are, 2 if something
      could not be compared
  pandofs cmp --attributes /home /backup/home
      owners, permissions, times of modification and extended attributes too
  pandofs cmp --quick /home /backup/home
      files of the same size are taken to be the same
  pandofs cmp --json /home /backup/home | jq -r 'select(.differs == \"content\").path'
  pandofs cmp --checkpoint state /archive /copy
      hours of reading; if it ends too early, the same with --resume goes on from where it was

What is compared is kinds, sizes, what is in files, and where links lead to. With --json a line is
{\"path\":…,\"differs\":\"size\"} or {\"path\":…,\"only_in\":ONE}, and the last one has the counts.";

/// Compare two trees in parallel
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Cmp {
    #[command(flatten)]
    pub(crate) common_args: CommonArgs,
    /// Compare owners, permissions, times and extended attributes too
    #[arg(short, long)]
    attributes: bool,
    /// Do not read files
    #[arg(short, long)]
    quick: bool,
    /// Leave out entries with such a name (or path, if there is a '/' in it), and all below them
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Stay on the file systems of the roots
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Print differences as JSON, an object in each line, and what was counted in the last one
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    resumable: Resumable,
    /// One tree
    #[arg(value_name = "ONE")]
    one: OsString,
    /// The other
    #[arg(value_name = "OTHER")]
    other: OsString,
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Counts {
    entries: u64,
    /// Bytes read of each tree.
    bytes: u64,
    only_one: u64,
    only_other: u64,
    differ: u64,
    problems: u64,
    vanished: u64,
    seconds: f64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.entries += other.entries;
        self.bytes += other.bytes;
        self.only_one += other.only_one;
        self.only_other += other.only_other;
        self.differ += other.differ;
    }
}

impl Cmp {
    /// # Errors
    /// When it cannot begin, or standard output fails.
    pub fn run(&self, executor: &mut Executor<'_>) -> Result<Outcome> {
        let mut options = self.common_args.options(executor)?;
        options.one_file_system = self.one_file_system;
        options.slow_entries = !self.quick;
        options.leaves = self.attributes;
        let excluded = patterns(&self.exclude)?;
        let mut interrupted = false;
        self.resumable.refuse_others(executor)?;
        let list = self.resumable.list(executor, &options.meter)?;
        let files: Vec<_> = list.file().into_iter().collect();
        let asked = format!(
            "cmp of {:?} and {:?}, attributes {}, quick {}, without {:?}, one file system {}, JSON {}",
            self.one,
            self.other,
            self.attributes,
            self.quick,
            self.exclude,
            self.one_file_system,
            self.json
        );
        let (mut parts, before) =
            Parts::begin::<Found>(&self.resumable, executor, &options.meter, asked, &files)?;
        let Found { back, mut counts } = before.unwrap_or_default();
        let back = executor.agree(back)?;
        let meter = Arc::clone(&options.meter);
        // There and back: what only the other tree has is not met in the first.
        for there in [true, false] {
            if there && back {
                continue;
            }
            let (one, other) = if there {
                (&self.one, &self.other)
            } else {
                (&self.other, &self.one)
            };
            let mirror = Mirror::new([(&**one, &**other)])?;
            options.leaves = there && self.attributes;
            let make = |_| Comparer {
                cmp: self,
                there,
                mirror: &mirror,
                excluded: &excluded,
                called: (one, &self.one),
                meter: Arc::clone(&meter),
                copying: Copying::new(),
                counts: Counts::default(),
                out: list.output.part(),
            };
            let take = |comparers: Vec<Comparer<'_>>, _| {
                comparers.iter().for_each(|it| counts.add(&it.counts));
                Ok(Found {
                    back: !there,
                    counts,
                })
            };
            let root = std::slice::from_ref(one);
            let ran = parts.run(executor, root, &mut options, false, make, take)?;
            counts.seconds = ran.elapsed.as_secs_f64();
            if parts.is_put_off("cmp", executor, &ran)? {
                return session::finish(Outcome::Interrupted, &list.output);
            }
            interrupted |= ran.interrupted;
        }
        let seconds = counts.seconds;
        let Some(all) = executor.gather(counts, &options.meter)? else {
            return Ok(Outcome::Done);
        };
        let mut counts = Counts::default();
        all.iter().for_each(|other| counts.add(other));
        counts.problems = options.meter.problems();
        counts.vanished = options.meter.vanished();
        counts.seconds = seconds;
        list.finish()?;
        let last = Output::last(&options.meter);
        if self.json {
            json_line(&counts, last.part().bytes());
            last.finish()?;
        }
        let outcome = if interrupted {
            let entries = count(counts.entries);
            session::interrupted("cmp", format_args!("{entries} entries were compared"));
            Outcome::Interrupted
        } else if counts.problems > 0 {
            Outcome::Trouble
        } else if counts.only_one + counts.only_other + counts.differ > 0 {
            Outcome::Incomplete
        } else {
            Outcome::Done
        };
        parts.finish()?;
        Ok(outcome)
    }
}

/// Findings so far.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Found {
    /// On the way back.
    back: bool,
    counts: Counts,
}

impl Joined for Found {
    fn join(&mut self, other: Found) {
        self.counts.add(&other.counts);
    }
}

/// A directory that is compared.
#[derive(Debug)]
struct Pair(Slot);

impl DirState for Pair {
    fn new(_seed: [u64; 2]) -> Pair {
        Pair(Slot::default())
    }
}

impl Mirrored for Pair {
    fn slot(&self) -> &Slot {
        &self.0
    }
}

/// A part of two large files.
#[derive(Serialize, Deserialize)]
struct Piece {
    name: CString,
    start: u64,
    end: u64,
}

struct Comparer<'c> {
    cmp: &'c Cmp,
    /// The walk is that of the first tree.
    there: bool,
    mirror: &'c Mirror<Pair>,
    excluded: &'c [(bool, Glob)],
    /// Names of the walked tree and of the first one, whose paths patterns are of.
    called: (&'c OsStr, &'c OsStr),
    meter: Arc<Meter>,
    copying: Copying,
    counts: Counts,
    out: Part,
}

impl Comparer<'_> {
    fn compare(&mut self, entry: &mut Entry<'_, Pair>) -> Result<Flow, Errno> {
        let (name, holder) = (entry.name(), entry.holder());
        let place = self.mirror.place(holder, name)?;
        let other = match Stat::of(place.dir(), place.name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => {
                let (only, count) = if self.there {
                    (&self.cmp.one, &mut self.counts.only_one)
                } else {
                    (&self.cmp.other, &mut self.counts.only_other)
                };
                *count += 1;
                self.report(&Difference::OnlyIn(only), entry.path());
                return Ok(Flow::Skip);
            }
            Err(error) => return Err(error),
        };
        let kind = entry.kind();
        let is_directory = kind == FileType::Directory;
        if !self.there {
            // Common entries were compared on the way there.
            return Ok(if is_directory && other.kind() == FileType::Directory {
                Flow::Descend([0, 0])
            } else {
                Flow::Skip
            });
        }
        self.counts.entries += 1;
        let Ok(stat) = entry.stat().copied() else {
            return Ok(Flow::Skip);
        };
        if stat.kind() != other.kind() {
            self.differ("kind", entry.path());
            return Ok(Flow::Skip);
        }
        let mut later = Vec::new();
        let difference = match stat.kind() {
            FileType::Directory => None,
            FileType::Symlink => {
                let one = readlinkat(entry.dir_fd(), name, Vec::new())?;
                let other = readlinkat(place.dir(), place.name, Vec::new())?;
                (one != other).then_some("target")
            }
            FileType::CharacterDevice | FileType::BlockDevice => {
                (stat.rdev() != other.rdev()).then_some("device")
            }
            FileType::RegularFile if stat.size() != other.size() => Some("size"),
            FileType::RegularFile if self.cmp.quick || stat.size() == 0 => None,
            FileType::RegularFile if stat.size() > 2 * PIECE_BYTES => {
                for start in (0..stat.size()).step_by(PIECE_BYTES as usize) {
                    let piece = Piece {
                        name: name.to_owned(),
                        start,
                        end: stat.size().min(start + PIECE_BYTES),
                    };
                    later.push(postcard::to_stdvec(&piece).unwrap_or_default());
                }
                None
            }
            FileType::RegularFile => {
                let same = self.read(entry.dir_fd(), name, holder, 0..stat.size())?;
                (!same).then_some("content")
            }
            _ => None,
        };
        if let Some(what) = difference {
            self.differ(what, entry.path());
        }
        for what in later {
            entry.later(what);
        }
        if self.cmp.attributes && !is_directory {
            let what = attributes(entry.dir_fd(), name, &stat, place.dir(), place.name, &other)?;
            if let Some(what) = what {
                self.differ(what, entry.path());
            }
        }
        Ok(if is_directory {
            Flow::Descend([0, 0])
        } else {
            Flow::Skip
        })
    }

    fn read(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        holder: &Arc<Dir<Pair>>,
        range: std::ops::Range<u64>,
    ) -> Result<bool, Errno> {
        let place = self.mirror.place(holder, name)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let one = openat(dir, name, flags, Mode::empty())?;
        let other = openat(place.dir(), place.name, flags, Mode::empty())?;
        self.counts.bytes += range.end - range.start;
        self.copying.same(one.as_fd(), other.as_fd(), range)
    }

    fn differ(&mut self, what: &'static str, path: &[u8]) {
        self.counts.differ += 1;
        self.report(&Difference::Differs(what, None), path);
    }

    fn report(&mut self, what: &Difference<'_>, path: &[u8]) {
        if self.cmp.json {
            json_line(&what.json(path), self.out.bytes());
        } else {
            let mut line = format!("{what}: ");
            show(path, &mut line);
            line.push('\n');
            self.out.bytes().extend_from_slice(line.as_bytes());
        }
        self.out.end_record();
    }

    fn trouble(&mut self, path: &[u8], error: Errno) {
        self.meter.add_problem();
        say("cmp", path, format_args!("cannot be compared: {error}"));
    }
}

/// Message about a path.
#[derive(Clone, Copy, Debug)]
enum Difference<'d> {
    /// In this tree.
    OnlyIn(&'d OsStr),
    /// The difference, and of a large file from which byte on it was looked at.
    Differs(&'static str, Option<u64>),
}

impl std::fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Difference::OnlyIn(tree) => write!(f, "only in {}", tree.display()),
            Difference::Differs(what, None) => write!(f, "{what} differs"),
            Difference::Differs(what, Some(from)) => write!(f, "{what} from byte {from} differs"),
        }
    }
}

impl Difference<'_> {
    fn json<'j>(&self, path: &'j [u8]) -> Line<'j> {
        let (mut differs, mut from_byte, mut only_in) = (None, None, None);
        match self {
            Difference::OnlyIn(tree) => only_in = Some(tree.to_string_lossy().into_owned()),
            Difference::Differs(what, from) => (differs, from_byte) = (Some(*what), *from),
        }
        Line {
            path: JsonPath::new(path),
            differs,
            from_byte,
            only_in,
        }
    }
}

/// A difference in JSON.
#[derive(Serialize)]
struct Line<'l> {
    #[serde(flatten)]
    path: JsonPath<'l>,
    #[serde(skip_serializing_if = "Option::is_none")]
    differs: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_byte: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    only_in: Option<String>,
}

/// The first attribute that differs.
fn attributes(
    dir: BorrowedFd<'_>,
    name: &CStr,
    stat: &Stat,
    other_dir: BorrowedFd<'_>,
    other_name: &CStr,
    other: &Stat,
) -> Result<Option<&'static str>, Errno> {
    if stat.mode() != other.mode() {
        return Ok(Some("mode"));
    }
    if (stat.uid(), stat.gid()) != (other.uid(), other.gid()) {
        return Ok(Some("owner"));
    }
    if stat.modified() != other.modified() {
        return Ok(Some("time of modification"));
    }
    let same = if matches!(stat.kind(), FileType::RegularFile | FileType::Directory) {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let one = openat(dir, name, flags, Mode::empty())?;
        let two = openat(other_dir, other_name, flags, Mode::empty())?;
        list(one.as_fd())? == list(two.as_fd())?
    } else {
        list_at(dir, name)? == list_at(other_dir, other_name)?
    };
    Ok((!same).then_some("extended attributes"))
}

impl Visitor for Comparer<'_> {
    type Dir = Pair;

    fn entry(&mut self, entry: &mut Entry<'_, Pair>) -> Flow {
        if entry.depth() > 0 && is_excluded_as(self.excluded, self.called, entry) {
            return Flow::Skip;
        }
        self.compare(entry).unwrap_or_else(|error| {
            self.trouble(entry.path(), error);
            Flow::Skip
        })
    }

    fn task(&mut self, task: &mut Task<'_, Pair>) {
        let piece = postcard::from_bytes::<Piece>(task.what()).ok();
        // A broken task is reported, wherever it comes from.
        let Some(piece) = piece.filter(|it| it.start <= it.end) else {
            return self.trouble(task.path(b""), Errno::BADMSG);
        };
        let range = piece.start..piece.end;
        match self.read(task.dir_fd(), &piece.name, task.holder(), range) {
            Ok(true) => {}
            Ok(false) => {
                self.counts.differ += 1;
                let what = Difference::Differs("content", Some(piece.start));
                self.report(&what, task.path(piece.name.to_bytes()));
            }
            Err(error) => self.trouble(task.path(piece.name.to_bytes()), error),
        }
    }

    /// Directories last: reading them changes no time, but what is compared may be made meanwhile.
    fn leave(&mut self, leaving: &mut Leaving<'_, Pair>) {
        let dir = Arc::clone(leaving.dir());
        let compared = leaving.in_itself(|one| {
            let other = self.mirror.open(&dir)?;
            let flags = DIRECTORY;
            let two = openat(&other, c".", flags, Mode::empty())?;
            let stats = (Stat::of_open(one)?, Stat::of_open(two.as_fd())?);
            attributes(one, c".", &stats.0, two.as_fd(), c".", &stats.1)
        });
        match compared {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(what))) => self.differ(what, leaving.path()),
            Ok(Err(error)) => self.trouble(leaving.path(), error),
            Err(kind) => {
                self.meter.add_problem();
                say("cmp", leaving.path(), kind);
            }
        }
    }

    fn problem(&mut self, problem: Problem<'_>) {
        say("cmp", problem.path, problem.kind);
    }
}
