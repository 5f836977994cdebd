//! The tool `sum`.

use crate::checkpoint_merge::Joined;
use crate::common_args::CommonArgs;
use crate::copy::data::fill;
use crate::executor::Executor;
use crate::limits::PIECE_BYTES;
use crate::mirror::refuse_doubles;
use crate::outcome::Outcome;
use crate::output::{Output, Part};
use crate::parts::{Parts, Resumable};
use crate::session::{self, say};
use crate::sum::check::report;
use crate::sum::elements::{Below, Large, Piece};
use crate::sum::list::{Digests, line, read_list};
use crate::text::{count, human, joined};
use anyhow::{Context, Result};
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode as HashMode, left_subtree_len, merge_subtrees_non_root,
    merge_subtrees_root,
};
use blake3::{Hash, Hasher};
use clap::Args;
use pandofs_walk_fs::{
    Dir, Entry, FileType, Flow, Leaving, Meter, Problem, ProblemKind, Stat, Task, Visitor,
};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const EXAMPLES: &str = "\
Examples:
  pandofs sum /archive/run-17
      one digest of the whole tree, the same wherever it is copied to
  pandofs sum --files src > sums
      of each file besides, as b3sum has them
  pandofs sum --check sums
      whether all is as it was; --check - reads the list from standard input
  mpirun -n 8 --hostfile hosts pandofs sum /scratch/results
  pandofs sum --checkpoint state --files /archive > sums
      hours of reading; if it ends too early, the same with --resume goes on from where it was

A file's digest is its BLAKE3. A tree's depends on the names in it, on what kind each is, on what
is in files and where links lead to; with --attributes on owners, permissions and times of
modification too; never on where the tree is, nor on the order of a listing. Names with a
newline or a backslash in them are written as sha256sum does.";

/// Digests of files and trees (BLAKE3), in parallel
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Sum {
    #[command(flatten)]
    pub(crate) common_args: CommonArgs,
    /// Print the digest of each file as well
    #[arg(short, long, conflicts_with = "check")]
    files: bool,
    /// Owners, permissions and times of modification count
    #[arg(short, long)]
    attributes: bool,
    /// Read digests from this file, and compare; from standard input for -
    #[arg(short, long, value_name = "FILE", conflicts_with = "roots")]
    check: Option<OsString>,
    /// Stay on the file systems of the roots
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Print digests and counts as JSON
    #[arg(long, conflicts_with_all = ["check", "files"])]
    json: bool,
    #[command(flatten)]
    resumable: Resumable,
    /// Files and directories to sum up
    #[arg(value_name = "PATH", default_value = ".")]
    roots: Vec<OsString>,
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
#[derive(Serialize)]
struct Report {
    /// Missing of what could not be read wholly.
    digests: BTreeMap<String, String>,
    entries: u64,
    bytes: u64,
    problems: u64,
    seconds: f64,
}

impl Sum {
    /// # Errors
    /// When it cannot begin, or standard output fails.
    pub fn run(&self, executor: &mut Executor<'_>) -> Result<Outcome> {
        let wanted: Option<Digests> = match &self.check {
            // Of several processes the first has the standard input.
            Some(list) if list == "-" => {
                let read = executor.is_first().then(|| read_list(list)).transpose()?;
                let digests: Vec<_> = read.into_iter().flatten().collect();
                Some(executor.agree_all(digests)?.into_iter().collect())
            }
            Some(list) => Some(read_list(list)?),
            None => None,
        };
        let roots = match &wanted {
            Some(wanted) => wanted
                .keys()
                .map(|name| OsString::from_vec(name.clone()))
                .collect(),
            None => self.roots.clone(),
        };
        refuse_doubles(&roots)?;
        let mut options = self.common_args.options(executor)?;
        options.one_file_system = self.one_file_system;
        options.slow_entries = true;
        self.resumable.refuse_others(executor)?;
        let list = self.resumable.list(executor, &options.meter)?;
        let files: Vec<_> = list.file().into_iter().collect();
        let asked = format!(
            "sum of {roots:?}, files {}, attributes {}, one file system {}",
            self.files, self.attributes, self.one_file_system
        );
        let (mut parts, before) =
            Parts::begin::<Done>(&self.resumable, executor, &options.meter, asked, &files)?;
        let (mut bytes, digests, broken) = before.unwrap_or_default();
        let digests = digests.into_iter().collect();
        let found = Found(Mutex::new(Roots { digests, broken }));
        let meter = Arc::clone(&options.meter);
        let make = |_| Summer {
            sum: self,
            roots: &roots,
            found: &found,
            meter: Arc::clone(&meter),
            buffer: vec![0; 1 << 20].into_boxed_slice(),
            bytes: 0,
            out: list.output.part(),
        };
        let take = |summers: Vec<Summer<'_>>, _| -> Result<Done> {
            bytes += summers.iter().map(|summer| summer.bytes).sum::<u64>();
            Ok(found.done(bytes))
        };
        let ran = parts.run(executor, &roots, &mut options, false, make, take)?;
        if parts.is_put_off("sum", executor, &ran)? {
            return session::finish(ran.outcome(), &list.output);
        }
        if executor.is_first() {
            make(0).finish_larges(&ran.top, b"");
        }
        let Some(all) = executor.gather(found.done(bytes), &ran.meter)? else {
            return Ok(Outcome::Done);
        };
        list.finish()?;
        let mut digests = Digests::new();
        for (_, some, _) in &all {
            digests.extend(some.iter().cloned());
        }
        // A file that was not read wholly has none.
        for broken in all.iter().flat_map(|(_, _, broken)| broken) {
            digests.remove(broken);
        }
        let last = Output::last(&ran.meter);
        let mut outcome = ran.outcome();
        let bytes = all.iter().map(|(bytes, _, _)| bytes).sum();
        if ran.interrupted {
            // An entry with a digest by now is whole.
            let (whole, roots) = (digests.len(), roots.len());
            let entries = count(ran.meter.entries());
            session::interrupted(
                "sum",
                format_args!(
                    "{entries} entries, {}; {whole} of {roots} digests are known",
                    human(bytes)
                ),
            );
        }
        if let Some(wanted) = wanted {
            let differ = report(&wanted, &digests, &last, ran.interrupted);
            if differ && outcome == Outcome::Done {
                outcome = Outcome::Incomplete;
            }
        } else if self.json {
            let report = Report {
                digests: digests
                    .iter()
                    .map(|(name, digest)| {
                        let hex = Hash::from_bytes(*digest).to_hex().to_string();
                        (crate::text::shown(name), hex)
                    })
                    .collect(),
                entries: ran.meter.entries(),
                bytes,
                problems: ran.meter.problems(),
                seconds: ran.elapsed.as_secs_f64(),
            };
            last.print(&(serde_json::to_string_pretty(&report)? + "\n"));
        } else {
            let mut part = last.part();
            for root in &roots {
                if let Some(digest) = digests.get(root.as_bytes()) {
                    line(root.as_bytes(), digest, part.bytes());
                }
            }
        }
        last.finish().context("standard output")?;
        parts.finish()?;
        Ok(outcome)
    }
}

/// Bytes that were read, digests of roots, and roots of which something could not be read.
type Done = (u64, Vec<(Vec<u8>, [u8; 32])>, Vec<Vec<u8>>);

impl Joined for Done {
    fn join(&mut self, (bytes, digests, broken): Done) {
        self.0 += bytes;
        self.1.extend(digests);
        self.2.extend(broken);
    }
}

/// Findings of the threads of a process about roots.
#[derive(Debug, Default)]
struct Found(Mutex<Roots>);

#[derive(Debug, Default)]
struct Roots {
    digests: Digests,
    /// Those of which something could not be read.
    broken: Vec<Vec<u8>>,
}

impl Found {
    fn done(&self, bytes: u64) -> Done {
        let roots = self.lock();
        let digests = roots.digests.iter();
        let digests = digests.map(|(name, digest)| (name.clone(), *digest));
        (bytes, digests.collect(), roots.broken.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Roots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Summer<'s> {
    sum: &'s Sum,
    roots: &'s [OsString],
    found: &'s Found,
    meter: Arc<Meter>,
    buffer: Box<[u8]>,
    bytes: u64,
    out: Part,
}

impl Summer<'_> {
    fn digest(&mut self, entry: &mut Entry<'_, Below>, stat: &Stat) -> Result<Option<Hash>, Errno> {
        let name = entry.name();
        Ok(Some(match stat.kind() {
            FileType::RegularFile if stat.size() > 2 * PIECE_BYTES => {
                let pieces = stat.size().div_ceil(PIECE_BYTES);
                for number in 0..pieces {
                    let piece = (name, number, stat.size());
                    entry.later(postcard::to_stdvec(&piece).unwrap_or_default());
                }
                entry.holder().state().lock().larges.push(Large {
                    name: name.to_owned(),
                    size: stat.size(),
                    attributes: self.attributes(stat),
                });
                return Ok(None);
            }
            FileType::RegularFile => {
                let mut hasher = Hasher::new();
                self.read(entry.dir_fd(), name, 0..u64::MAX, &mut hasher)?;
                hasher.finalize()
            }
            FileType::Symlink => {
                let target = readlinkat(entry.dir_fd(), name, Vec::new())?;
                blake3::hash(target.to_bytes())
            }
            FileType::CharacterDevice | FileType::BlockDevice => {
                blake3::hash(&stat.rdev().to_le_bytes())
            }
            _ => blake3::hash(b""),
        }))
    }

    /// Hashes a part of a file; how much of it there was.
    fn read(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        range: std::ops::Range<u64>,
        hasher: &mut Hasher,
    ) -> Result<u64, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(dir, name, flags, Mode::empty())?;
        let mut at = range.start;
        while at < range.end {
            let most = (range.end - at).min(self.buffer.len() as u64) as usize;
            let count = fill(file.as_fd(), &mut self.buffer[..most], at)?;
            hasher.update(&self.buffer[..count]);
            at += count as u64;
            if count < most {
                break;
            }
        }
        self.bytes += at - range.start;
        Ok(at - range.start)
    }

    fn attributes(&self, stat: &Stat) -> Vec<u8> {
        if !self.sum.attributes {
            return Vec::new();
        }
        let time = stat.modified();
        let numbers = [
            stat.mode() & 0o7777,
            stat.uid(),
            stat.gid(),
            time.nanoseconds,
        ];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        bytes.extend_from_slice(&time.seconds.to_le_bytes());
        bytes
    }

    /// Adds an entry to its directory, or prints a root's digest.
    fn emit(
        &mut self,
        holder: &Arc<Dir<Below>>,
        name: &CStr,
        kind: u8,
        attributes: &[u8],
        digest: &Hash,
    ) {
        if holder.is_above_roots() {
            let digest = *digest.as_bytes();
            let mut found = self.found.lock();
            found.digests.insert(name.to_bytes().to_vec(), digest);
            return;
        }
        let mut element = Hasher::new_derive_key("pandofs sum 1: entry");
        element.update(&[kind]);
        element.update(name.to_bytes_with_nul());
        element.update(attributes);
        element.update(digest.as_bytes());
        holder.state().lock().set.add(&element);
    }

    fn finish_larges(&mut self, dir: &Arc<Dir<Below>>, path: &[u8]) {
        let (larges, mut pieces) = {
            let mut elements = dir.state().lock();
            let larges = std::mem::take(&mut elements.larges);
            (larges, std::mem::take(&mut elements.pieces))
        };
        pieces.sort_unstable_by(|one, other| {
            (&one.name, one.number).cmp(&(&other.name, other.number))
        });
        for large in larges {
            let values: Vec<ChainingValue> = pieces
                .iter()
                .filter(|piece| piece.name == large.name)
                .map(|piece| piece.value)
                .collect();
            // Of what could not be read something is missing, which has been said.
            if values.len() as u64 != large.size.div_ceil(PIECE_BYTES) {
                continue;
            }
            let digest = merge(&values, large.size);
            self.emit(dir, &large.name, b'f', &large.attributes, &digest);
            if self.sum.files && !dir.is_above_roots() {
                let path = joined(path, large.name.to_bytes());
                line(&path, digest.as_bytes(), self.out.bytes());
                self.out.end_record();
            }
        }
    }

    /// Something could not be read, and so no digest can be printed of a root that it is in: of
    /// each, as roots may be in one another.
    fn broken(&mut self, path: &[u8]) {
        let roots = self.roots.iter().map(|root| root.as_bytes());
        let broken = roots.filter(|root| {
            let rest = path.strip_prefix(*root);
            rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || root.ends_with(b"/"))
        });
        let broken = broken.map(<[u8]>::to_vec);
        self.found.lock().broken.extend(broken);
    }

    /// A root is not there. The directory that it would be in was read wholly without it, and has a
    /// digest, if another one than before.
    fn missing(&mut self, root: &[u8]) {
        self.found.lock().broken.push(root.to_vec());
    }

    fn trouble(&mut self, path: &[u8], what: impl std::fmt::Display) {
        self.meter.add_problem();
        say("sum", path, what);
        self.broken(path);
    }
}

/// Decodes a task: the file, the piece's number and its range.
fn piece_of(what: &[u8]) -> Option<(CString, u64, std::ops::Range<u64>)> {
    let (name, number, size) = postcard::from_bytes::<(CString, u64, u64)>(what).ok()?;
    let start = number.checked_mul(PIECE_BYTES)?;
    let end = size.min(start.saturating_add(PIECE_BYTES));
    (start < end).then_some((name, number, start..end))
}

/// The digest of a file whose pieces, but for the last, are all of one length, a power of two.
fn merge(values: &[ChainingValue], size: u64) -> Hash {
    fn below(values: &[ChainingValue], size: u64) -> ChainingValue {
        match values {
            [one] => *one,
            _ => {
                let left = left_subtree_len(size);
                let (ours, theirs) = values.split_at((left / PIECE_BYTES) as usize);
                let (ours, theirs) = (below(ours, left), below(theirs, size - left));
                merge_subtrees_non_root(&ours, &theirs, HashMode::Hash)
            }
        }
    }
    let left = left_subtree_len(size);
    let (ours, theirs) = values.split_at((left / PIECE_BYTES) as usize);
    let (ours, theirs) = (below(ours, left), below(theirs, size - left));
    merge_subtrees_root(&ours, &theirs, HashMode::Hash)
}

fn letter(kind: FileType) -> u8 {
    match kind {
        FileType::RegularFile => b'f',
        FileType::Directory => b'd',
        FileType::Symlink => b'l',
        FileType::Fifo => b'p',
        FileType::Socket => b's',
        FileType::CharacterDevice => b'c',
        FileType::BlockDevice => b'b',
        FileType::Unknown => b'?',
    }
}

impl Visitor for Summer<'_> {
    type Dir = Below;

    fn entry(&mut self, entry: &mut Entry<'_, Below>) -> Flow {
        let Ok(stat) = entry.stat().copied() else {
            return Flow::Skip;
        };
        if stat.kind() == FileType::Directory {
            return Flow::Descend([0, 0]);
        }
        match self.digest(entry, &stat) {
            Ok(Some(digest)) => {
                let attributes = self.attributes(&stat);
                let kind = letter(stat.kind());
                self.emit(entry.holder(), entry.name(), kind, &attributes, &digest);
                if self.sum.files && kind == b'f' && entry.depth() > 0 {
                    line(entry.path(), digest.as_bytes(), self.out.bytes());
                    self.out.end_record();
                }
            }
            Ok(None) => {}
            Err(Errno::NOENT) if entry.depth() > 0 => self.meter.add_vanished(),
            Err(error) => self.trouble(entry.path(), error),
        }
        Flow::Skip
    }

    fn task(&mut self, task: &mut Task<'_, Below>) {
        let Some((name, number, range)) = piece_of(task.what()) else {
            // A broken task is reported, wherever it comes from.
            return self.trouble(task.path(b""), Errno::BADMSG);
        };
        let (start, end) = (range.start, range.end);
        let mut hasher = Hasher::new();
        hasher.set_input_offset(start);
        match self.read(task.dir_fd(), &name, start..end, &mut hasher) {
            Ok(read) if read == end - start => {
                let value = hasher.finalize_non_root();
                let piece = Piece {
                    name,
                    number,
                    value,
                };
                task.holder().state().lock().pieces.push(piece);
            }
            Ok(_) => {
                let path = task.path(name.to_bytes()).to_vec();
                self.trouble(&path, "it became shorter while it was read");
            }
            Err(error) => {
                let path = task.path(name.to_bytes()).to_vec();
                self.trouble(&path, error);
            }
        }
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, Below>) {
        let dir = Arc::clone(leaving.dir());
        let path = leaving.path().to_vec();
        self.finish_larges(&dir, &path);
        let mut hasher = Hasher::new_derive_key("pandofs sum 1: directory");
        dir.state().lock().set.finish(&mut hasher);
        let digest = hasher.finalize();
        let mut attributes = Vec::new();
        if self.sum.attributes {
            match leaving.in_itself(Stat::of_open) {
                Ok(Ok(stat)) => attributes = self.attributes(&stat),
                Ok(Err(error)) => self.trouble(&path, error),
                Err(kind) => self.trouble(&path, kind),
            }
        }
        // A root's own attributes count as well: nothing above it holds them.
        match dir.parent() {
            Some(parent) => self.emit(parent, dir.name(), b'd', &attributes, &digest),
            None => {
                let mut hasher = Hasher::new_derive_key("pandofs sum 1: root");
                hasher.update(&attributes);
                hasher.update(digest.as_bytes());
                let digest = *hasher.finalize().as_bytes();
                let mut found = self.found.lock();
                found.digests.insert(dir.name().to_bytes().to_vec(), digest);
            }
        }
    }

    fn problem(&mut self, problem: Problem<'_>) {
        say("sum", problem.path, problem.kind);
        // An entry that vanishes below a root is no problem, so that this is one.
        match problem.kind {
            ProblemKind::Stat(Errno::NOENT | Errno::NOTDIR) => self.missing(problem.path),
            _ => self.broken(problem.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_piece_is_none() {
        let of = |number: u64, size: u64| {
            let what = postcard::to_stdvec(&(c"a".to_owned(), number, size)).unwrap();
            piece_of(&what).map(|(_, _, range)| range)
        };
        let piece = PIECE_BYTES;
        assert_eq!(of(2, 2 * piece + 1), Some(2 * piece..2 * piece + 1));
        assert_eq!(of(0, 3 * piece), Some(0..piece));
        assert_eq!((of(2, 2 * piece), of(u64::MAX, u64::MAX)), (None, None));
        assert_eq!(piece_of(b"a"), None);
    }

    #[test]
    fn pieces_make_the_digest_of_the_whole() {
        let piece = PIECE_BYTES as usize;
        let bytes: Vec<u8> = (0..2 * piece + 12_345).map(|at| (at % 251) as u8).collect();
        let values: Vec<ChainingValue> = (0..)
            .zip(bytes.chunks(piece))
            .map(|(number, part)| {
                let mut hasher = Hasher::new();
                hasher.set_input_offset(number * PIECE_BYTES);
                hasher.update(part);
                hasher.finalize_non_root()
            })
            .collect();
        assert_eq!(merge(&values, bytes.len() as u64), blake3::hash(&bytes));
    }
}
