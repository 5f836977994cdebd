//! Expressions, and their evaluation on an entry.

use crate::find::exec::{Exec, Names, Place};
use crate::find::filesystems::FileSystems;
use crate::find::format::{self, Format};
use crate::find::glob::Glob;
use crate::find::regexes::Pattern;
use crate::find::selinux::context;
use crate::output::Part;
use crate::session::say;
use crate::text::show;
use pandofs_walk_fs::{Entry, FileType, Meter, Stat, Time};
use rustix::fs::{
    Access, AtFlags, Mode, OFlags, RawDir, StatxFlags, accessat, openat, readlinkat, statx,
    unlinkat,
};
use rustix::io::Errno;
use std::cmp::Ordering;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;

/// An expression. Operands are evaluated from left to right, and no further than needed.
#[derive(Debug)]
pub(crate) enum Expression {
    And(Vec<Expression>),
    Or(Vec<Expression>),
    /// All of them; the last one's value.
    List(Vec<Expression>),
    Not(Box<Expression>),
    Constant(bool),
    Test(Test),
    Action(Action),
}

/// Something that is so or not.
#[derive(Debug)]
pub(crate) enum Test {
    Name(Glob),
    Path(Glob),
    LinkName(Glob),
    Regex(Pattern),
    Kind(Vec<FileType>),
    /// Of what a link leads to; of the link itself, if links are followed.
    OtherKind(Vec<FileType>, bool),
    /// The kind of file system.
    FileSystem(String, FileSystems),
    /// Units of so many bytes, each part of one counts.
    Size(Compare, u64),
    /// Units of so many seconds, back from now, or from then.
    Age(Which, Age, Option<Time>),
    /// Days from the last change to the last access.
    Used(Age),
    Newer(Which, Time),
    User(Compare),
    Group(Compare),
    NoUser,
    NoGroup,
    Permissions(Permissions),
    Links(Compare),
    Inode(Compare),
    SameFile((u64, u64)),
    Empty,
    Access(Access),
    /// Of SELinux.
    Context(Glob),
}

/// Something that is done.
#[derive(Debug)]
pub(crate) enum Action {
    Print,
    Print0,
    Printf(Format),
    Ls,
    Delete,
    /// A number among the commands of the whole expression.
    Exec(usize),
    Prune,
    Quit,
    /// Another action, whose output goes to one of the files.
    To(usize, Box<Action>),
}

/// Times of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Accessed,
    Changed,
    Modified,
    /// Only file systems know it that keep it.
    Born,
}

impl Which {
    /// Returns the time. A file of unknown birth time is as old as can be.
    pub(crate) fn of(self, stat: &Stat) -> Time {
        match self {
            Which::Accessed => stat.accessed(),
            Which::Changed => stat.changed(),
            Which::Modified => stat.modified(),
            Which::Born => stat.born().unwrap_or(Time {
                seconds: i64::MIN,
                nanoseconds: 0,
            }),
        }
    }
}

/// `+1.5` units is more, `-1.5` less, `1.5` just so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age {
    pub sign: Ordering,
    /// Nanoseconds.
    pub number: i128,
    /// Seconds.
    pub unit: i64,
}

/// `+7` is more, `-7` less, `7` just so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compare {
    pub sign: Ordering,
    pub number: u64,
}

impl Compare {
    pub(crate) fn holds(self, value: u64) -> bool {
        value.cmp(&self.number) == self.sign
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permissions {
    Exactly(u32),
    AllOf(u32),
    AnyOf(u32),
}

/// Context of an evaluation.
pub(crate) struct Scene<'s> {
    pub out: &'s mut Part,
    pub execs: &'s [Exec],
    /// One for each command.
    pub names: &'s mut [Names],
    /// One for each file that is written.
    pub files: &'s mut [Part],
    pub now: Time,
    /// Whether standard output is a terminal, to which names are not sent as they are.
    pub terminal: bool,
    pub failed: &'s AtomicBool,
    pub meter: &'s Meter,
    pub pruned: bool,
}

impl Expression {
    /// Returns whether the first thing that is done with any entry is to look at its attributes.
    pub(crate) fn looks_first(&self) -> bool {
        match self {
            Expression::And(all) | Expression::Or(all) | Expression::List(all) => {
                all.first().is_some_and(Expression::looks_first)
            }
            Expression::Not(one) => one.looks_first(),
            Expression::Constant(_) | Expression::Action(_) => false,
            Expression::Test(test) => matches!(
                test,
                Test::Size(..)
                    | Test::Age(..)
                    | Test::Used(_)
                    | Test::Newer(..)
                    | Test::User(_)
                    | Test::Group(_)
                    | Test::NoUser
                    | Test::NoGroup
                    | Test::Permissions(_)
                    | Test::Links(_)
            ),
        }
    }

    pub(crate) fn evaluate(&self, entry: &mut Entry<'_, ()>, scene: &mut Scene<'_>) -> bool {
        match self {
            Expression::And(all) => all.iter().all(|it| it.evaluate(entry, scene)),
            Expression::Or(any) => any.iter().any(|it| it.evaluate(entry, scene)),
            Expression::List(all) => all.iter().fold(true, |_, it| it.evaluate(entry, scene)),
            Expression::Not(it) => !it.evaluate(entry, scene),
            Expression::Constant(value) => *value,
            Expression::Test(test) => test.holds(entry, scene),
            // After -quit, and after Ctrl-C, nothing is done any more.
            Expression::Action(_) if scene.meter.is_stopped() => false,
            Expression::Action(action) => action.act(entry, scene),
        }
    }
}

impl Test {
    fn holds(&self, entry: &mut Entry<'_, ()>, scene: &Scene<'_>) -> bool {
        match self {
            Test::Name(glob) => glob.matches(base(entry.name().to_bytes())),
            Test::Path(glob) => glob.matches(entry.path()),
            Test::LinkName(glob) => {
                entry.kind() == FileType::Symlink
                    && readlinkat(entry.dir_fd(), entry.name(), Vec::new())
                        .is_ok_and(|target| glob.matches(target.to_bytes()))
            }
            Test::Regex(pattern) => match pattern.is_match(entry.path()) {
                Ok(matches) => matches,
                Err(error) => {
                    // Neither value would be right, so no action may come of it.
                    scene.meter.stop();
                    fail(scene, entry.path(), &format_args!("-regex: {error:#}"));
                    false
                }
            },
            Test::Kind(kinds) => {
                let kind = entry.kind();
                kinds.contains(&kind)
            }
            Test::OtherKind(kinds, followed) => kinds.contains(&other_kind(entry, *followed)),
            Test::Empty => is_empty(entry),
            Test::Context(glob) => context(entry).is_ok_and(|it| glob.matches(&it)),
            Test::Access(access) => {
                accessat(entry.dir_fd(), entry.name(), *access, AtFlags::empty()).is_ok()
            }
            _ => {
                let now = scene.now;
                entry.stat().is_ok_and(|stat| self.holds_for(stat, now))
            }
        }
    }

    fn holds_for(&self, stat: &Stat, now: Time) -> bool {
        match self {
            Test::Size(compare, unit) => compare.holds(stat.size().div_ceil(*unit)),
            Test::Age(which, age, from) => age.holds(which.of(stat), from.unwrap_or(now)),
            Test::Used(age) => {
                stat.accessed() > stat.changed() && age.holds(stat.changed(), stat.accessed())
            }
            Test::FileSystem(name, all) => all.of(stat.device()) == name,
            Test::Newer(which, than) => which.of(stat) > *than,
            Test::User(compare) => compare.holds(u64::from(stat.uid())),
            Test::Group(compare) => compare.holds(u64::from(stat.gid())),
            Test::NoUser => crate::find::users::user_name(stat.uid()) == stat.uid().to_string(),
            Test::NoGroup => crate::find::users::group_name(stat.gid()) == stat.gid().to_string(),
            Test::Permissions(permissions) => {
                let mode = stat.mode() & 0o7777;
                match permissions {
                    Permissions::Exactly(bits) => mode == *bits,
                    Permissions::AllOf(bits) => mode & bits == *bits,
                    Permissions::AnyOf(bits) => *bits == 0 || mode & bits != 0,
                }
            }
            Test::Links(compare) => compare.holds(u64::from(stat.links())),
            Test::Inode(compare) => compare.holds(stat.ino()),
            Test::SameFile(identity) => stat.identity() == *identity,
            Test::Name(_)
            | Test::Path(_)
            | Test::LinkName(_)
            | Test::Regex(_)
            | Test::Kind(_)
            | Test::OtherKind(..)
            | Test::Empty
            | Test::Access(_)
            | Test::Context(_) => unreachable!("they need no attributes"),
        }
    }
}

impl Age {
    /// Days are counted down: `-mtime 0` is under a day old, `-mtime +0` a day or more. Minutes are
    /// counted up: `-mmin 1` is up to a minute old. So it is in GNU find.
    fn holds(self, time: Time, now: Time) -> bool {
        let nanoseconds =
            |time: Time| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
        let age = nanoseconds(now) - nanoseconds(time);
        let unit = i128::from(self.unit) * 1_000_000_000;
        let number = self.number;
        match self.sign {
            Ordering::Less => age < number,
            Ordering::Greater if self.unit == DAY => age >= number + unit,
            Ordering::Greater => age > number,
            Ordering::Equal if self.unit == DAY => (number..number + unit).contains(&age),
            Ordering::Equal => age > number - unit && age <= number,
        }
    }
}

fn other_kind(entry: &mut Entry<'_, ()>, followed: bool) -> FileType {
    let kind = entry.kind();
    if kind != FileType::Symlink && !followed {
        return kind;
    }
    let flags = if followed {
        AtFlags::SYMLINK_NOFOLLOW
    } else {
        AtFlags::empty()
    };
    // A link that leads nowhere stays one.
    statx(entry.dir_fd(), entry.name(), flags, StatxFlags::TYPE).map_or(kind, |stat| {
        FileType::from_raw_mode(u32::from(stat.stx_mode))
    })
}

/// Seconds.
pub(crate) const DAY: i64 = 86_400;

/// The last name of a root's path; of other entries the name.
pub(crate) fn base(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| *byte != b'/');
    match end {
        None => &name[..name.len().min(1)],
        Some(end) => {
            let start = name[..=end].iter().rposition(|byte| *byte == b'/');
            &name[start.map_or(0, |slash| slash + 1)..=end]
        }
    }
}

fn is_empty(entry: &mut Entry<'_, ()>) -> bool {
    match entry.kind() {
        FileType::RegularFile => entry.stat().is_ok_and(|stat| stat.size() == 0),
        FileType::Directory => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let Ok(fd) = openat(entry.dir_fd(), entry.name(), flags, Mode::empty()) else {
                return false;
            };
            let mut buffer = [MaybeUninit::uninit(); 1_024];
            let mut listing = RawDir::new(fd, &mut buffer);
            while let Some(listed) = listing.next() {
                match listed {
                    Ok(listed) if matches!(listed.file_name().to_bytes(), b"." | b"..") => {}
                    Ok(_) | Err(_) => return false,
                }
            }
            true
        }
        _ => false,
    }
}

impl Action {
    fn act(&self, entry: &mut Entry<'_, ()>, scene: &mut Scene<'_>) -> bool {
        match self {
            Action::Print => {
                let path = entry.path();
                let out = scene.out.bytes();
                if scene.terminal {
                    let mut line = String::new();
                    show(path, &mut line);
                    out.extend_from_slice(line.as_bytes());
                } else {
                    out.extend_from_slice(path);
                }
                out.push(b'\n');
            }
            Action::Print0 => {
                let out = scene.out.bytes();
                out.extend_from_slice(entry.path());
                out.push(0);
            }
            Action::Printf(format) => format.write(entry, scene.out.bytes()),
            Action::Ls => format::ls(entry, scene.now, scene.out.bytes()),
            Action::Delete => return delete(entry, scene),
            Action::Exec(number) => return exec(*number, entry, scene),
            Action::Prune => scene.pruned = true,
            Action::Quit => scene.meter.stop(),
            Action::To(number, action) => {
                // The action writes where output goes: for now that is the file.
                let terminal = std::mem::take(&mut scene.terminal);
                std::mem::swap(scene.out, &mut scene.files[*number]);
                let value = action.act(entry, scene);
                std::mem::swap(scene.out, &mut scene.files[*number]);
                scene.terminal = terminal;
                return value;
            }
        }
        scene.out.end_record();
        true
    }
}

fn delete(entry: &mut Entry<'_, ()>, scene: &Scene<'_>) -> bool {
    if entry.depth() == 0 && base(entry.name().to_bytes()) == b"." {
        return true;
    }
    let flags = if entry.kind() == FileType::Directory {
        AtFlags::REMOVEDIR
    } else {
        AtFlags::empty()
    };
    match unlinkat(entry.dir_fd(), entry.name(), flags) {
        // An entry that another process has removed meanwhile is gone as well.
        Ok(()) | Err(Errno::NOENT) => true,
        Err(error) => {
            fail(
                scene,
                entry.path(),
                &format_args!("cannot be deleted: {error}"),
            );
            false
        }
    }
}

fn fail(scene: &Scene<'_>, path: &[u8], why: &dyn std::fmt::Display) {
    say("find", path, why);
    scene
        .failed
        .store(true, std::sync::atomic::Ordering::Relaxed);
}

fn exec(number: usize, entry: &mut Entry<'_, ()>, scene: &mut Scene<'_>) -> bool {
    let exec = &scene.execs[number];
    let path = entry.path().to_vec();
    let place = if entry.depth() > 0 {
        Place::of_entry(entry.dir_fd(), entry.name().to_bytes())
    } else {
        Place::of_root(&path)
    };
    if !exec.batch {
        // Earlier output comes before that of the command.
        flush(scene);
        return exec.run(&path, &place, scene.failed);
    }
    let names = &mut scene.names[number];
    let is_full = if exec.in_directory {
        if let Err(error) = names.keep(&place.directory) {
            fail(scene, &path, &error);
            return true;
        }
        // Names of different directories do not go together: see `pandofs_walk_fs::Visitor::pause`.
        // Roots do not pause.
        names.push(&place.name) || entry.depth() == 0
    } else {
        names.push(&path)
    };
    if is_full {
        flush(scene);
        exec.run_batch(&mut scene.names[number], scene.failed);
    }
    true
}

fn flush(scene: &mut Scene<'_>) {
    scene.out.flush();
    scene.files.iter_mut().for_each(Part::flush);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_of_a_path() {
        for (path, name) in [
            ("a", "a"),
            ("a/b", "b"),
            ("a/b//", "b"),
            ("/", "/"),
            ("//", "/"),
            ("./", "."),
            ("", ""),
        ] {
            assert_eq!(base(path.as_bytes()), name.as_bytes(), "{path}");
        }
    }

    #[test]
    fn days_are_counted_down_and_minutes_up() {
        let now = Time {
            seconds: 1_000_000,
            nanoseconds: 0,
        };
        let holds = |sign, number: i64, unit, age: i64| {
            let time = Time {
                seconds: 1_000_000 - age,
                nanoseconds: 0,
            };
            let number = i128::from(number * unit) * 1_000_000_000;
            Age { sign, number, unit }.holds(time, now)
        };
        use Ordering::{Equal, Greater, Less};
        assert!(holds(Equal, 0, DAY, 5) && !holds(Equal, 1, DAY, 5));
        assert!(holds(Equal, 1, DAY, DAY) && !holds(Greater, 0, DAY, DAY - 1));
        assert!(holds(Greater, 0, DAY, DAY) && !holds(Greater, 1, DAY, DAY));
        assert!(holds(Less, 1, DAY, 5) && !holds(Less, 1, DAY, DAY));
        assert!(holds(Equal, 1, 60, 30) && !holds(Equal, 0, 60, 30));
        assert!(holds(Greater, 0, 60, 30) && holds(Less, 1, 60, 30));
    }
}
