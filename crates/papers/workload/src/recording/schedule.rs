//! Order of a recording's operations.
//!
//! Each operation looks at something or changes it: names, what directories list, what inodes are.
//! Of each of these there is a row of *groups*: operations of one group are done in any order, and
//! after all of the group before. One that looks joins others that look; one that changes something
//! begins a group of its own, unless it overlapped in time with all in the last group that it would
//! have to wait for.
//!
//! An operation is after others of lower number only, so that the undone one with the lowest number
//! is never held up.

use crate::op::{Kind, Op, split};
use std::collections::{BTreeMap, HashMap};

const EEXIST: i32 = 17;
const ENOTEMPTY: i32 = 39;

/// An operation that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Numbered from 0.
    pub client: u32,
    /// As it was asked for.
    pub op: Op,
    /// Its error.
    pub error: Option<i32>,
    /// Nanoseconds since the beginning.
    pub start: u64,
    /// Nanoseconds since the beginning.
    pub end: u64,
    /// Its object; without it, the one that its path leads to.
    pub inode: Option<u64>,
}

/// Operations in an order in which they can be done, and what each has to wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// In an order in which each comes after all that it waits for.
    pub steps: Vec<Step>,
    /// Makes what they need, one after the other.
    pub prepare: Vec<Op>,
    /// The last line is missing: the recording ended before the programs did.
    pub cut_short: bool,
    /// Operations that cannot be replayed: on files without a name, and on what only its content
    /// explains.
    pub left_out: BTreeMap<Kind, u64>,
    /// Of each operation, the groups that it is in: a row, and the place in it.
    pub(super) touches: Vec<Vec<(u32, u32)>>,
    /// The rows of groups.
    pub(super) rows: Vec<Vec<Vec<u32>>>,
}

/// A thing that operations look at or change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The inode of a path.
    Name(String),
    /// The listing of a directory.
    Listing(String),
    /// An inode's attributes and data, by its number or its path.
    Inode(u64),
    Object(String),
}

/// The kind of use; two of one kind but `Alone` do not disturb one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Looks = 0,
    /// Makes or removes something in a directory, beside others that do.
    Enters = 1,
    Lists = 2,
    Alone = 3,
}

const HOWS: [How; 4] = [How::Looks, How::Enters, How::Lists, How::Alone];

/// The last group of a row.
struct Tail {
    group: u32,
    /// The end of the first of each kind in it.
    first_ends: [Option<u64>; HOWS.len()],
}

impl Schedule {
    /// Finds by names, inodes and times which operations depend on one another.
    pub fn new(steps: Vec<Step>, prepare: Vec<Op>) -> Schedule {
        let mut rows: Vec<Vec<Vec<u32>>> = Vec::new();
        let mut known: HashMap<Key, u32> = HashMap::new();
        let mut tails: Vec<Tail> = Vec::new();
        let mut touches = Vec::with_capacity(steps.len());
        for (number, step) in (0_u32..).zip(&steps) {
            let mut own = Vec::new();
            for (key, how) in touched(step) {
                // By names operations find what they are for: which of two that overlapped came
                // first, results tell.
                let may_overlap = !matches!(key, Key::Name(_));
                let row = *known.entry(key).or_insert_with(|| {
                    rows.push(vec![Vec::new()]);
                    tails.push(Tail {
                        group: 0,
                        first_ends: [None; HOWS.len()],
                    });
                    rows.len() as u32 - 1
                });
                let tail = &mut tails[row as usize];
                if !tail.takes(how, step.start, may_overlap) {
                    rows[row as usize].push(Vec::new());
                    tail.group += 1;
                    tail.first_ends = [None; HOWS.len()];
                }
                rows[row as usize][tail.group as usize].push(number);
                let first = &mut tail.first_ends[how as usize];
                *first = Some(first.map_or(step.end, |first| first.min(step.end)));
                own.push((row, tail.group));
            }
            touches.push(own);
        }
        Schedule {
            steps,
            prepare,
            touches,
            rows,
            ..Schedule::default()
        }
    }

    /// Number of threads or programs that did it.
    pub fn clients(&self) -> u32 {
        let last = self.steps.iter().map(|step| step.client).max();
        last.map_or(0, |last| last + 1)
    }

    /// Operations that another one has to be done before.
    pub fn dependent(&self) -> u64 {
        let waits = |own: &&Vec<(u32, u32)>| own.iter().any(|&(_, group)| group > 0);
        self.touches.iter().filter(waits).count() as u64
    }
}

impl Tail {
    /// Returns whether it may be done beside all in the group.
    fn takes(&self, how: How, start: u64, may_overlap: bool) -> bool {
        HOWS.iter()
            .zip(self.first_ends)
            .all(|(&other, first_end)| match first_end {
                Some(_) if other == how && how != How::Alone => true,
                Some(end) => may_overlap && start < end,
                None => true,
            })
    }
}

/// The things that an operation looks at and changes, each once.
fn touched(step: &Step) -> Vec<(Key, How)> {
    let op = &step.op;
    let mut all: Vec<(Key, How)> = Vec::new();
    let mut touch = |key: Key, how: How| match all.iter_mut().find(|(other, _)| *other == key) {
        Some((_, before)) if *before == how => {}
        Some((_, before)) => *before = How::Alone,
        None => all.push((key, how)),
    };
    let is_done = step.error.is_none();
    let changes = is_done && op.op.changes_names();
    for (path, is_first) in
        std::iter::once((&op.path, true)).chain(op.to.iter().map(|to| (to, false)))
    {
        // A link leaves the name that it is of.
        let changes = changes && !(is_first && op.op == Kind::Link);
        let how = if changes { How::Alone } else { How::Looks };
        if !path.is_empty() {
            touch(Key::Name(path.clone()), how);
        }
        let mut above = split(path).0;
        if changes {
            touch(Key::Listing(above.to_owned()), How::Enters);
        }
        // Every directory on the way has to stay while it is used.
        while !above.is_empty() {
            touch(Key::Name(above.to_owned()), How::Looks);
            above = split(above).0;
        }
        // It was not empty.
        if matches!(step.error, Some(EEXIST | ENOTEMPTY)) && is_removal(op.op, is_first) {
            touch(Key::Listing(path.clone()), How::Lists);
        }
    }
    if op.op == Kind::Readdir {
        touch(Key::Listing(op.path.clone()), How::Lists);
    }
    let inode = match step.inode {
        Some(number) => Key::Inode(number),
        None => Key::Object(op.path.clone()),
    };
    match op.op {
        Kind::Write | Kind::Setattr | Kind::Utime | Kind::Allocate => touch(inode, How::Alone),
        Kind::Setxattr | Kind::Removexattr => touch(inode, How::Alone),
        Kind::Open if op.size.is_some() => touch(inode, How::Alone),
        Kind::Create | Kind::Mkdir | Kind::Symlink | Kind::Mknod if is_done => {
            touch(inode, How::Alone);
        }
        Kind::Open | Kind::Read | Kind::Stat | Kind::Readlink => touch(inode, How::Looks),
        Kind::Getxattr | Kind::Listxattr => touch(inode, How::Looks),
        _ => {}
    }
    all
}

/// Returns whether what the path leads to would have been removed.
fn is_removal(kind: Kind, is_first: bool) -> bool {
    match kind {
        Kind::Rmdir => true,
        Kind::Rename | Kind::Renamedir => !is_first,
        _ => false,
    }
}
