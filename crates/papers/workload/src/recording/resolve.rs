//! Paths of the inode numbers in a recording.
//!
//! An inode's path at some time follows from earlier operations: lookups and listings show where
//! something is, and changes of names take it elsewhere. Files from before the recording began are
//! found by what is read of it first, and is made before a replay.

use super::event::Event;
use super::schedule::{Schedule, Step};
use crate::limits::MAX_TRACE_DEPTH;
use crate::op::{Kind, Op};
use pandofs_types::Ino;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

const EEXIST: i32 = 17;

/// The name `name` in the directory `dir`.
type Place = (u64, String);

pub(super) fn resolve(mut events: Vec<Event>) -> Schedule {
    drop_refused(&mut events);
    order(&mut events);
    let is_new = |event: &&Event| makes(event) && event.op != Kind::Link;
    let made = events.iter().filter(is_new);
    let mut resolver = Resolver {
        made: made.filter_map(|event| event.is).collect(),
        ..Resolver::default()
    };
    let mut steps = Vec::with_capacity(events.len());
    let mut left_out: BTreeMap<Kind, u64> = BTreeMap::new();
    for event in &events {
        let step = resolver.step(event);
        resolver.happened(event);
        // The node that it found was there before it.
        steps.append(&mut resolver.by_others);
        match step {
            Some(step) => steps.push(step),
            None => *left_out.entry(event.op).or_default() += 1,
        }
    }
    let mut schedule = Schedule::new(steps, resolver.prepare);
    schedule.left_out = left_out;
    schedule
}

/// Takes out attempts that others took the place of.
fn drop_refused(events: &mut Vec<Event>) {
    let mut last: HashMap<u64, usize> = HashMap::new();
    let mut is_dropped = vec![false; events.len()];
    for at in 0..events.len() {
        let before = last.insert(events[at].client, at);
        if let Some(before) = before.filter(|_| events[at].again) {
            is_dropped[before] = true;
            events[at].start = events[before].start;
        }
    }
    let mut dropped = is_dropped.into_iter();
    events.retain(|_| !dropped.next().unwrap_or(false));
}

/// An order in which all could have been done: that of their ends, but what saw a new name comes
/// after what made it. (A thread makes a name and gets its answer late, after another one has found
/// it there and got its answer.)
fn order(events: &mut [Event]) {
    let place = |event: &Event| Some((event.dir?, event.name.clone()?));
    let mut seen: HashMap<Place, Vec<u64>> = HashMap::new();
    for event in events.iter() {
        let sees = match event.error {
            None => event.op == Kind::Lookup || event.op == Kind::Open,
            Some(error) => error == EEXIST,
        };
        if let Some(place) = place(event).filter(|_| sees) {
            seen.entry(place).or_default().push(event.end);
        }
    }
    seen.values_mut().for_each(|ends| ends.sort_unstable());
    events.sort_by_cached_key(|event| {
        let ends = place(event)
            .filter(|_| makes(event))
            .and_then(|place| seen.get(&place));
        let first = ends.and_then(|ends| {
            let later = ends.partition_point(|&end| end <= event.start);
            ends.get(later)
        });
        let point = first.map_or(event.end, |&first| first.min(event.end));
        // Of two at one moment the one that made something first.
        (point, !makes(event), event.start)
    });
}

/// Returns whether something is made, or has a further name.
fn makes(event: &Event) -> bool {
    event.error.is_none()
        && matches!(
            event.op,
            Kind::Create | Kind::Mkdir | Kind::Mknod | Kind::Symlink | Kind::Link
        )
}

/// The state of an inode.
#[derive(Debug)]
struct Known {
    is_dir: bool,
    places: Vec<Place>,
    /// Its path before the recording began, if it was there.
    before: Option<String>,
}

struct Resolver {
    inodes: HashMap<u64, Known>,
    names: HashMap<Place, u64>,
    clients: HashMap<u64, u32>,
    /// Made in the course of the recording.
    made: HashSet<u64>,
    /// Makes what was there before.
    prepare: Vec<Op>,
    /// Come from elsewhere in the meantime.
    by_others: Vec<Step>,
}

impl Default for Resolver {
    fn default() -> Resolver {
        let root = Known {
            is_dir: true,
            places: Vec::new(),
            before: Some(String::new()),
        };
        Resolver {
            inodes: HashMap::from([(Ino::ROOT.0, root)]),
            names: HashMap::new(),
            clients: HashMap::new(),
            made: HashSet::new(),
            prepare: Vec::new(),
            by_others: Vec::new(),
        }
    }
}

impl Resolver {
    fn path(&self, ino: u64) -> Option<String> {
        let mut names = Vec::new();
        let mut at = ino;
        while at != Ino::ROOT.0 {
            let (dir, name) = self.inodes.get(&at)?.places.first()?;
            names.push(name.as_str());
            at = *dir;
            if names.len() > MAX_TRACE_DEPTH {
                return None;
            }
        }
        names.reverse();
        Some(names.join("/"))
    }

    fn path_of(&self, dir: Option<u64>, name: Option<&String>) -> Option<String> {
        Some(within(&self.path(dir?)?, name?))
    }

    /// The operation by paths; `None` if something in it has none.
    fn step(&mut self, event: &Event) -> Option<Step> {
        let number = self.clients.len() as u32;
        let client = *self.clients.entry(event.client).or_insert(number);
        let by_name = || self.path_of(event.dir, event.name.as_ref());
        let mut op = Op::new(event.op, "");
        match event.op {
            Kind::Link => {
                op.path = self.path(event.ino?)?;
                op.to = Some(by_name()?);
            }
            Kind::Rename | Kind::Renamedir | Kind::Exchange => {
                op.path = by_name()?;
                op.to = Some(self.path_of(event.new_dir, event.new_name.as_ref())?);
                op.exclusive = event.exclusive;
                let place = (event.dir?, event.name.clone()?);
                let moved = event.is.or_else(|| self.names.get(&place).copied());
                let is_dir = |ino: &u64| self.inodes.get(ino).is_some_and(|known| known.is_dir);
                if event.op == Kind::Rename && moved.as_ref().is_some_and(is_dir) {
                    op.op = Kind::Renamedir;
                }
            }
            _ if event.unnamed => return None,
            _ if event.dir.is_some() => op.path = by_name()?,
            _ => op.path = self.path(event.ino?)?,
        }
        if event.op == Kind::Mknod {
            op.name = match event.kind? {
                'p' | 'f' => Some("fifo".to_owned()),
                's' => Some("socket".to_owned()),
                // Only root can make devices.
                _ => return None,
            };
            if event.kind == Some('f') {
                op.op = Kind::Create;
                op.name = None;
            }
        }
        if event.dir.is_none() {
            op.name.clone_from(&event.name);
        }
        if matches!(event.op, Kind::Setxattr | Kind::Removexattr)
            && !op.name.as_deref()?.starts_with("user.")
        {
            // Their values mean something, and are not recorded.
            return None;
        }
        op.bytes = u32::try_from(event.bytes).unwrap_or(u32::MAX);
        (op.offset, op.mode) = (event.offset, event.mode);
        (op.uid, op.gid, op.times) = (event.uid, event.gid, event.times);
        op.size = event.size.filter(|_| event.op != Kind::Lookup);
        op.stays_below().then_some(())?;
        Some(Step {
            client,
            op,
            error: event.error,
            start: event.start,
            end: event.end,
            inode: event.ino.or(event.is),
        })
    }

    /// Takes note of an operation's effect and answer.
    fn happened(&mut self, event: &Event) {
        let place = event.dir.zip(event.name.clone());
        let kind = event.kind.unwrap_or('f');
        for (name, ino, kind, size) in &event.told {
            if let Some(dir) = event.ino {
                self.found((dir, name.clone()), *ino, *kind, *size, event);
            }
        }
        if event.error.is_some() {
            return;
        }
        let (Some(ino), size) = (event.is, event.size.unwrap_or(0)) else {
            return;
        };
        match (event.op, place) {
            (Kind::Lookup | Kind::Open, Some(place)) => self.found(place, ino, kind, size, event),
            (Kind::Create | Kind::Mkdir | Kind::Symlink | Kind::Mknod, None) => {
                self.made(None, ino, kind);
            }
            (Kind::Create | Kind::Mkdir | Kind::Symlink | Kind::Mknod, Some(place)) => {
                self.made(Some(place), ino, kind);
            }
            (Kind::Link, Some(place)) => self.put(place, ino),
            (Kind::Unlink | Kind::Rmdir, Some(place)) => {
                self.take(&place);
            }
            (Kind::Rename | Kind::Renamedir, Some(from)) => {
                let to = event.new_dir.zip(event.new_name.clone());
                // Two names of one file stay as they are.
                let to = to.filter(|to| self.names.get(to) != Some(&ino));
                if let Some(to) = to {
                    self.take(&from);
                    self.put(to, ino);
                }
            }
            (Kind::Exchange, Some(from)) => {
                let to = event.new_dir.zip(event.new_name.clone());
                if let (Some(to), Some(other)) = (to, event.other) {
                    self.take(&from);
                    self.take(&to);
                    self.put(to, ino);
                    self.put(from, other);
                }
            }
            _ => {}
        }
    }

    fn made(&mut self, place: Option<Place>, ino: u64, kind: char) {
        self.inodes.insert(
            ino,
            Known {
                is_dir: kind == 'd',
                places: Vec::new(),
                before: None,
            },
        );
        if let Some(place) = place {
            self.put(place, ino);
        }
    }

    /// Something is where nothing known was: it was there before the recording, or came from
    /// elsewhere.
    fn found(&mut self, place: Place, ino: u64, kind: char, size: u64, event: &Event) {
        if self.names.get(&place) == Some(&ino) {
            return;
        }
        // A listing may tell of what another thread is just making.
        let is_to_come = self.made.contains(&ino) && !self.inodes.contains_key(&ino);
        if ino == Ino::ROOT.0 || is_to_come {
            return;
        }
        let (dir, name) = &place;
        let was_taken = self.names.contains_key(&place);
        let above = self.inodes.get(dir).and_then(|dir| dir.before.as_ref());
        let before = above.map(|above| within(above, name));
        let make = |path: String| match self.inodes.get(&ino) {
            Some(known) if !known.is_dir => {
                let first = known.before.clone()?;
                Some(Op::with_two(Kind::Link, first, path))
            }
            Some(_) => None,
            None => made_before(path, kind, size),
        };
        match before {
            Some(path) if !was_taken => {
                let op = make(path.clone()).filter(Op::stays_below);
                let is_made = op.is_some();
                self.prepare.extend(op);
                self.inodes.entry(ino).or_insert_with(|| Known {
                    is_dir: kind == 'd',
                    places: Vec::new(),
                    before: is_made.then_some(path),
                });
            }
            _ => {
                let path = self.path_of(Some(*dir), Some(name));
                let path = path.filter(|_| !was_taken);
                let op = path.and_then(make).filter(Op::stays_below);
                let client = self.clients.len().saturating_sub(1) as u32;
                self.by_others.extend(op.map(|op| Step {
                    client,
                    op,
                    error: None,
                    start: event.start,
                    end: event.start,
                    inode: Some(ino),
                }));
                self.inodes.entry(ino).or_insert_with(|| Known {
                    is_dir: kind == 'd',
                    places: Vec::new(),
                    before: None,
                });
            }
        }
        self.put(place, ino);
    }

    /// The name leads there from now on.
    fn put(&mut self, place: Place, ino: u64) {
        self.take(&place);
        let known = self.inodes.entry(ino).or_insert_with(|| Known {
            is_dir: false,
            places: Vec::new(),
            before: None,
        });
        let old = match known.is_dir {
            // It has one name; another client has moved it.
            true => std::mem::take(&mut known.places),
            false => Vec::new(),
        };
        known.places.push(place.clone());
        for old in old {
            self.names.remove(&old);
        }
        self.names.insert(place, ino);
    }

    /// The name leads nowhere any more.
    fn take(&mut self, place: &Place) {
        let Some(ino) = self.names.remove(place) else {
            return;
        };
        if let Entry::Occupied(mut known) = self.inodes.entry(ino) {
            known.get_mut().places.retain(|other| other != place);
        }
    }
}

fn within(dir: &str, name: &str) -> String {
    if dir.is_empty() {
        name.to_owned()
    } else {
        format!("{dir}/{name}")
    }
}

/// Makes what was there before the recording began.
fn made_before(path: String, kind: char, size: u64) -> Option<Op> {
    let op = |kind| Op::new(kind, path.clone());
    Some(match kind {
        'f' => Op {
            size: Some(size),
            ..op(Kind::Create)
        },
        'd' => op(Kind::Mkdir),
        'l' => Op {
            bytes: u32::try_from(size).unwrap_or(u32::MAX),
            ..op(Kind::Symlink)
        },
        'p' | 's' => Op {
            name: Some(if kind == 'p' { "fifo" } else { "socket" }.to_owned()),
            ..op(Kind::Mknod)
        },
        _ => return None,
    })
}
