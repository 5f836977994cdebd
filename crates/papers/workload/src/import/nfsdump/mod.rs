//! Text of nfsdump: calls and replies of NFS, as a listener on the network saw them.
//!
//! | file | job |
//! | --- | --- |
//! | `message` | a line |
//! | `procedures` | what each procedure did |
//!
//! A call is done when its reply comes. Handles become inodes; what no reply tells a place of is below the root.

mod message;
mod procedures;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

use super::{Left, Machine, Problem};
use crate::import::names::{Before, Names};
use crate::limits::{MAX_IMPORTED_CALLS, MAX_IMPORTED_NAMES};
use message::{Fields, Key, Message, error_of, parse};

use crate::recording::Event;
use pandofs_types::Ino;
use std::collections::{HashMap, HashSet, VecDeque};

/// Lines after which it is looked at whether half of them are garbled.
const ENOUGH_LINES: u64 = 100;

/// A call without a reply so far.
#[derive(Debug)]
struct Waiting {
    start: u64,
    /// Its fields as they stand in the line.
    fields: String,
}

pub(super) struct Nfsdump {
    names: Names,
    handles: HashMap<Box<[u8]>, u64>,
    /// Of these no name leads anywhere any more.
    gone: HashSet<u64>,
    /// Names that were made, moved or removed: what they lead to was not there before.
    touched: HashSet<(u64, Box<[u8]>)>,
    /// Where inodes were before, as an earlier reading found, and this one.
    known_places: HashMap<u64, (u64, Vec<u8>)>,
    places: HashMap<u64, (u64, Vec<u8>)>,
    calls: HashMap<Key, Waiting>,
    order: VecDeque<Key>,
    first: Option<u64>,
    lines: u64,
    garbled: u64,
    events: Vec<Event>,
    left: Left,
}

/// Who does it, and when.
#[derive(Clone, Copy)]
struct During {
    client: u64,
    start: u64,
    end: u64,
}

impl Nfsdump {
    pub(super) fn new(known: HashMap<u64, Before>) -> Nfsdump {
        let places = known.iter();
        let places = places.filter_map(|(ino, before)| Some((*ino, before.place.clone()?)));
        Nfsdump {
            known_places: places.collect(),
            names: Names::new(known),
            handles: HashMap::new(),
            gone: HashSet::new(),
            touched: HashSet::new(),
            places: HashMap::new(),
            calls: HashMap::new(),
            order: VecDeque::new(),
            first: None,
            lines: 0,
            garbled: 0,
            events: Vec::new(),
            left: Left::default(),
        }
    }

    fn message(&mut self, message: &Message<'_>) -> Result<(), Problem> {
        let time = message
            .time
            .saturating_sub(*self.first.get_or_insert(message.time));
        let Some(status) = message.status else {
            return self.call(message, time);
        };
        let Some(call) = self.calls.remove(&message.key) else {
            return self.left.count("call-unknown", message.procedure);
        };
        let client = message.key.client.split('.').next().unwrap_or("");
        let during = During {
            client: u64::from_str_radix(client, 16).unwrap_or(0),
            start: call.start,
            // Clocks go back at times.
            // It ends after what tells of what was there before it, see `emit_before`.
            end: time.max(call.start.saturating_add(1)),
        };
        let asked = Fields::parse(&call.fields).unwrap_or_default();
        let error = match status {
            0 => None,
            status => match error_of(status) {
                Some(error) => Some(error),
                None => return self.left.count("failed-otherwise", message.procedure),
            },
        };
        let is_done = self.done(message.procedure, (&asked, &message.fields), error, during)?;
        match is_done {
            Some(()) => Ok(()),
            None => self.left.count("fields-missing", message.procedure),
        }
    }

    fn call(&mut self, message: &Message<'_>, time: u64) -> Result<(), Problem> {
        if self.calls.contains_key(&message.key) {
            return self.left.count("sent-again", message.procedure);
        }
        while self.order.len() >= MAX_IMPORTED_CALLS {
            if let Some(key) = self.order.pop_front()
                && self.calls.remove(&key).is_some()
            {
                self.left.count("reply-missing", "call")?;
            }
        }
        let fields = message
            .fields
            .0
            .iter()
            .map(|(name, value)| format!("{name} {value} "));
        let waiting = Waiting {
            start: time,
            fields: fields.collect(),
        };
        self.order.push_back(message.key.clone());
        self.calls.insert(message.key.clone(), waiting);
        Ok(())
    }

    fn number(&mut self, handle: &[u8]) -> Result<u64, Problem> {
        if let Some(ino) = self.handles.get(handle) {
            return Ok(*ino);
        }
        if self.handles.len() >= MAX_IMPORTED_NAMES {
            return Err(Problem::Names(MAX_IMPORTED_NAMES));
        }
        let ino = self.names.unnamed();
        self.handles.insert(handle.into(), ino);
        Ok(ino)
    }

    /// Tells what was there before a call; at its beginning, so that it is before the call's own operation in the order of ends.
    fn emit_before(&mut self, event: Event, during: During) {
        let end = during.start;
        self.emit(event, During { end, ..during });
    }

    fn emit(&mut self, event: Event, during: During) {
        self.events.push(Event {
            start: during.start,
            end: during.end,
            client: during.client,
            ..event
        });
    }

    /// An inode that is asked for by its handle: it has a name, or is given one, below the root if none is known.
    fn placed(&mut self, ino: u64, is_dir: bool, during: During) -> Result<u64, Problem> {
        let mut path = vec![ino];
        while let Some(&last) = path.last() {
            let is_placed = last == Ino::ROOT.0
                || self.names.parent(last).is_some()
                || self.gone.contains(&last);
            if is_placed {
                path.pop();
                break;
            }
            match self.known_places.get(&last) {
                Some((dir, name))
                    if !path.contains(dir) && self.names.get(*dir, name).is_none() =>
                {
                    path.push(*dir);
                }
                _ => break,
            }
        }
        while let Some(ino) = path.pop() {
            let known = self.known_places.get(&ino).cloned();
            let known = known.filter(|(dir, name)| {
                let has_dir = *dir == Ino::ROOT.0 || self.names.parent(*dir).is_some();
                has_dir && self.names.get(*dir, name).is_none()
            });
            let (dir, name) = known.unwrap_or((Ino::ROOT.0, format!("fh-{ino}").into_bytes()));
            if let (_, Some(told)) = self.names.was_before(dir, &name, ino)? {
                self.emit_before(told, during);
            }
        }
        if is_dir {
            self.names.learn_kind(ino, 'd');
        }
        Ok(ino)
    }

    /// The object of a call.
    fn object(
        &mut self,
        asked: &Fields<'_>,
        names: &[&str],
        is_dir: bool,
        during: During,
    ) -> Result<Option<u64>, Problem> {
        match asked.handle(names) {
            Some(handle) => {
                let ino = self.number(handle)?;
                self.placed(ino, is_dir, during).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Takes note of attributes.
    fn told(&mut self, ino: u64, told: &Fields<'_>) {
        if let Some(kind) = told.kind() {
            self.names.learn_kind(ino, kind);
        }
        if let (Some('f' | 'l'), Some(size)) = (self.names.kind(ino), told.number(&["size"])) {
            self.names.learn_size(ino, size, false);
        }
    }

    fn touch(&mut self, dir: u64, name: &[u8]) -> Result<(), Problem> {
        if self.touched.len() >= MAX_IMPORTED_NAMES {
            return Err(Problem::Names(MAX_IMPORTED_NAMES));
        }
        self.touched.insert((dir, name.into()));
        Ok(())
    }
}

impl Machine for Nfsdump {
    fn line(&mut self, text: &[u8]) -> Result<(), Problem> {
        if text.is_empty() || text.starts_with(b"#") {
            return Ok(());
        }
        self.lines += 1;
        match std::str::from_utf8(text).ok().and_then(parse) {
            Some(message) => self.message(&message),
            None => {
                self.garbled += 1;
                if self.lines >= ENOUGH_LINES && self.garbled * 2 > self.lines {
                    return Err(Problem::NoNfsdump);
                }
                self.left.count("garbled", "line")
            }
        }
    }

    fn end(&mut self) -> Result<(), Problem> {
        if self.lines > 0 && self.garbled == self.lines {
            return Err(Problem::NoNfsdump);
        }
        for _ in 0..self.calls.len() {
            self.left.count("reply-missing", "call")?;
        }
        Ok(())
    }

    fn events(&mut self) -> &mut Vec<Event> {
        &mut self.events
    }

    fn left(&mut self) -> &mut Left {
        &mut self.left
    }

    fn into_found(self: Box<Self>) -> HashMap<u64, Before> {
        let mut found = self.names.into_found();
        for (ino, place) in self.places {
            if let Some(before) = found.get_mut(&ino) {
                before.place = Some(place);
            }
        }
        found
    }
}
