//! Text of nfsdump: calls and replies of NFS, as a listener on the network saw them.
//!
//! D. Ellard and M. Seltzer, "New NFS Tracing Tools and Techniques for System Analysis" (LISA 2003). Their traces are in
//! SNIA's repository, and are described in `format.txt` of their tools:
//!
//! ```text
//! 1034787618.376464 45.0320 30.0801 U C3 dca9f489 3 lookup fh 6189 name "mbox" con = XXX len = XXX
//! 1034787618.376561 30.0801 45.0320 U R3 dca9f489 3 lookup OK fh 9532 ftype 1 mode 180 size aee6 status=XXX pl = XXX con = XXX len = XXX
//! ```
//!
//! Seconds, who sent it and to whom (address and port), `U` or `T` for UDP and TCP, a call or reply of which version, the
//! number that a reply has of its call, the procedure by number and name; of a reply its status, which is `OK` or a
//! number of NFS; then fields with their values, in any order, each or none; and at the end lengths. Numbers are in sixteens
//! but for times and `ftype`. Some lines of each trace are garbled: they are counted.

use super::names::{Before, Names, by_name, by_number};
use super::{Left, Machine, Problem};
use crate::limits::{MAX_IMPORTED_CALLS, MAX_IMPORTED_NAMES};
use crate::op::{Kind, escape};
use crate::recording::Event;
use pandofs_types::Ino;
use std::collections::{HashMap, HashSet, VecDeque};

/// Lines after which it is looked at whether half of them are garbled.
const ENOUGH_LINES: u64 = 100;
const NANOSECONDS: u64 = 1_000_000_000;
const MICROSECONDS_DIGITS: usize = 6;
const ENOENT: i32 = 2;

/// What a call and its reply have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    client: Box<str>,
    server: Box<str>,
    number: u32,
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
struct Message<'a> {
    time: u64,
    key: Key,
    procedure: &'a str,
    /// Of a reply; 0 is OK.
    status: Option<u32>,
    fields: Fields<'a>,
}

/// Names and values; of two with one name the first counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fields<'a>(Vec<(&'a str, &'a str)>);

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

impl<'a> Fields<'a> {
    fn parse(text: &'a str) -> Option<Fields<'a>> {
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        let mut fields = Vec::new();
        while let Some(name) = words.next() {
            fields.push((name, words.next()?));
        }
        Some(Fields(fields))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| *value)
    }

    fn any(&self, names: &[&str]) -> Option<&'a str> {
        names.iter().find_map(|name| self.get(name))
    }

    fn number(&self, names: &[&str]) -> Option<u64> {
        u64::from_str_radix(self.any(names)?, 16).ok()
    }

    /// A name that can be asked for.
    fn name(&self, names: &[&str]) -> Option<Vec<u8>> {
        let is_name = |bytes: &Vec<u8>| {
            !bytes.is_empty() && !bytes.iter().any(|byte| matches!(byte, 0 | b'/'))
        };
        self.text(names).filter(is_name)
    }

    /// What is in quotation marks, with unusual bytes as `\20`.
    fn text(&self, names: &[&str]) -> Option<Vec<u8>> {
        let text = self.any(names)?.strip_prefix('"')?.strip_suffix('"')?;
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let digits = rest.get(..2).filter(|_| byte == b'\\');
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
            match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(escaped) => {
                    bytes.push(escaped);
                    rest = &rest[2..];
                }
                None => bytes.push(byte),
            }
        }
        Some(bytes)
    }

    fn handle(&self, names: &[&str]) -> Option<&'a [u8]> {
        self.any(names).map(str::as_bytes)
    }

    /// As `find -type` has it.
    fn kind(&self) -> Option<char> {
        Some(match self.get("ftype")? {
            "1" => 'f',
            "2" => 'd',
            "3" => 'b',
            "4" => 'c',
            "5" => 'l',
            "6" => 's',
            "7" => 'p',
            _ => return None,
        })
    }

    fn mode(&self) -> Option<u16> {
        self.number(&["mode"]).map(|mode| (mode & 0o7777) as u16)
    }
}

/// `None` for a garbled line.
fn parse(text: &str) -> Option<Message<'_>> {
    let mut words = text.splitn(9, ' ');
    let mut next = || words.next();
    let (seconds, fraction) = next()?.split_once('.')?;
    let is_time = fraction.len() == MICROSECONDS_DIGITS;
    let fraction: u64 = fraction.parse().ok().filter(|_| is_time)?;
    let time = seconds.parse::<u64>().ok()?.checked_mul(NANOSECONDS)?;
    let (from, to, transport, direction) = (next()?, next()?, next()?, next()?);
    let (number, _, procedure) = (next()?, next()?, next()?);
    let rest = next().unwrap_or("");
    if !matches!(transport, "U" | "T") || !is_address(from) || !is_address(to) {
        return None;
    }
    let number = u32::from_str_radix(number, 16).ok()?;
    let (client, server, is_call) = match direction {
        "C2" | "C3" => (from, to, true),
        "R2" | "R3" => (to, from, false),
        _ => return None,
    };
    // The lengths at the end.
    let end = if is_call { "con = " } else { "status=" };
    let (rest, _) = rest.split_once(end)?;
    let (status, rest) = match is_call {
        true => (None, rest),
        false => {
            let (status, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let status = match status {
                // The only procedure without a status is the one that does nothing.
                "OK" | "" => 0,
                number => u32::from_str_radix(number, 16).ok()?,
            };
            (Some(status), rest)
        }
    };
    let is_name = procedure.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name.then_some(())?;
    Some(Message {
        time: time.checked_add(fraction * 1_000)?,
        key: Key {
            client: client.into(),
            server: server.into(),
            number,
        },
        procedure,
        status,
        fields: Fields::parse(rest)?,
    })
}

/// An address and a port, in sixteens.
fn is_address(text: &str) -> bool {
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split_once('.')
        .is_some_and(|(host, port)| is_hex(host) && is_hex(port))
}

/// The error of a program that a status of NFS becomes, if it comes again when the call does.
fn error_of(status: u32) -> Option<i32> {
    match status {
        2 | 17 | 20 | 21 | 22 => Some(status as i32),
        66 => Some(39),
        _ => None,
    }
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
            end: time.max(call.start + 1),
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

    /// A call that was answered; `None` if fields are missing in it or its reply.
    fn done(
        &mut self,
        procedure: &str,
        (asked, told): (&Fields<'_>, &Fields<'_>),
        error: Option<i32>,
        during: During,
    ) -> Result<Option<()>, Problem> {
        match procedure {
            "lookup" => self.look_up(asked, told, error, during),
            "create" | "mkdir" | "symlink" | "mknod" => {
                self.make(procedure, (asked, told), error, during)
            }
            "remove" => self.remove(Kind::Unlink, asked, error, during),
            "rmdir" => self.remove(Kind::Rmdir, asked, error, during),
            "rename" => self.rename(asked, error, during),
            "link" => self.link(asked, error, during),
            "getattr" | "setattr" | "readlink" | "read" | "write" | "readdir" | "readdirp" => {
                if error.is_some() {
                    self.left.count("failed-otherwise", procedure)?;
                    return Ok(Some(()));
                }
                self.on_object(procedure, (asked, told), during)
            }
            _ => {
                self.left.count("no-counterpart", procedure)?;
                Ok(Some(()))
            }
        }
    }

    fn on_object(
        &mut self,
        procedure: &str,
        (asked, told): (&Fields<'_>, &Fields<'_>),
        during: During,
    ) -> Result<Option<()>, Problem> {
        let lists = procedure.starts_with("readdir");
        let Some(ino) = self.object(asked, &["fh", "file"], lists, during)? else {
            return Ok(None);
        };
        let event = match procedure {
            "getattr" => {
                self.told(ino, told);
                by_number(Kind::Stat, ino)
            }
            "setattr" => {
                let id = |name| asked.number(&[name]).and_then(|id| u32::try_from(id).ok());
                let event = Event {
                    mode: asked.mode(),
                    uid: id("uid"),
                    gid: id("gid"),
                    size: asked.number(&["size"]),
                    times: asked.any(&["atime", "mtime"]).is_some(),
                    ..by_number(Kind::Setattr, ino)
                };
                if let Some(size) = event.size {
                    self.names.changed(ino, size);
                }
                event
            }
            "readlink" => {
                self.names.learn_kind(ino, 'l');
                if let Some(target) = told.text(&["name", "sdata"]) {
                    self.names.learn_size(ino, target.len() as u64, false);
                }
                by_number(Kind::Readlink, ino)
            }
            "read" | "write" => {
                let is_write = procedure == "write";
                let op = if is_write { Kind::Write } else { Kind::Read };
                let Some(offset) = asked.number(&["off", "offset", "begoff"]) else {
                    return Ok(None);
                };
                let count = told
                    .number(&["count"])
                    .or(asked.number(&["count", "tcount"]));
                let Some(bytes) = count else {
                    return Ok(None);
                };
                self.names.learn_kind(ino, 'f');
                let end = offset.saturating_add(bytes);
                if is_write {
                    // What it was before is told before the write, if at all.
                    if let Some(size) = told.number(&["pre-size"]) {
                        self.names.learn_size(ino, size, false);
                    }
                    let size = self.names.size(ino).max(end);
                    self.names.changed(ino, size);
                } else {
                    self.names.learn_size(ino, end, true);
                    self.told(ino, told);
                }
                Event {
                    offset: Some(offset),
                    bytes,
                    ..by_number(op, ino)
                }
            }
            // A listing is one operation, however many pages it has.
            _ if asked.number(&["cookie"]).unwrap_or(0) != 0 => return Ok(Some(())),
            _ => by_number(Kind::Readdir, ino),
        };
        self.emit(event, during);
        Ok(Some(()))
    }

    /// The directory and the name that a call is about.
    fn place(
        &mut self,
        asked: &Fields<'_>,
        (handles, names): (&[&str], &[&str]),
        during: During,
    ) -> Result<Option<(u64, Vec<u8>)>, Problem> {
        let Some(name) = asked.name(names) else {
            return Ok(None);
        };
        let dir = self.object(asked, handles, true, during)?;
        Ok(dir.map(|dir| (dir, name)))
    }

    fn look_up(
        &mut self,
        asked: &Fields<'_>,
        told: &Fields<'_>,
        error: Option<i32>,
        during: During,
    ) -> Result<Option<()>, Problem> {
        let at = self.place(asked, (&["fh"], &["name", "fn"]), during)?;
        let Some((dir, name)) = at.filter(|(_, name)| name != b"." && name != b"..") else {
            return Ok(None);
        };
        if error.is_some() {
            let event = Event {
                error,
                ..by_name(Kind::Lookup, dir, &name)
            };
            self.emit(event, during);
            return Ok(Some(()));
        }
        let Some(handle) = told.handle(&["fh"]) else {
            return Ok(None);
        };
        let ino = self.number(handle)?;
        let is_first = !self.touched.contains(&(dir, name.as_slice().into()));
        if is_first && !self.places.contains_key(&ino) {
            self.places.insert(ino, (dir, name.clone()));
        }
        let event = self.led_to(ino, (dir, &name), during)?;
        self.told(ino, told);
        self.emit(event, during);
        Ok(Some(()))
    }

    /// The lookup by which a name leads to an inode.
    fn led_to(
        &mut self,
        ino: u64,
        (dir, name): (u64, &[u8]),
        during: During,
    ) -> Result<Event, Problem> {
        let event = |names: &Names| Event {
            is: Some(ino),
            kind: Some(names.kind(ino).unwrap_or('f')),
            size: Some(names.size(ino)),
            ..by_name(Kind::Lookup, dir, name)
        };
        if self.names.get(dir, name) == Some(ino) {
            return Ok(event(&self.names));
        }
        self.gone.remove(&ino);
        if self.names.parent(ino).is_none() {
            let (_, told) = self.names.was_before(dir, name, ino)?;
            return Ok(told.unwrap_or_else(|| event(&self.names)));
        }
        if self.names.is_dir(ino)
            && let Some((old, old_name)) = self.names.name(ino)
        {
            // Somebody moved it whom nobody listened to.
            let moved = Event {
                is: Some(ino),
                new_dir: Some(dir),
                new_name: Some(escape(name)),
                ..by_name(Kind::Rename, old, &old_name)
            };
            self.names.rename((old, &old_name), (dir, name))?;
            self.emit_before(moved, during);
        } else {
            self.names.put(dir, name, ino)?;
        }
        Ok(event(&self.names))
    }

    fn make(
        &mut self,
        procedure: &str,
        (asked, told): (&Fields<'_>, &Fields<'_>),
        error: Option<i32>,
        during: During,
    ) -> Result<Option<()>, Problem> {
        let Some((dir, name)) = self.place(asked, (&["fh"], &["name", "fn"]), during)? else {
            return Ok(None);
        };
        let (op, kind) = match procedure {
            "mkdir" => (Kind::Mkdir, 'd'),
            "symlink" => (Kind::Symlink, 'l'),
            "mknod" => (Kind::Mknod, asked.kind().unwrap_or('p')),
            _ => (Kind::Create, 'f'),
        };
        let target = asked
            .text(&["sdata"])
            .map_or(0, |target| target.len() as u64);
        let event = Event {
            kind: Some(kind),
            mode: asked.mode(),
            bytes: if op == Kind::Symlink { target } else { 0 },
            error,
            ..by_name(op, dir, &name)
        };
        if error.is_some() {
            self.emit(event, during);
            return Ok(Some(()));
        }
        // Servers may leave it out.
        let ino = match told.handle(&["fh"]) {
            Some(handle) => self.number(handle)?,
            None => self.names.unnamed(),
        };
        if self.names.get(dir, &name) == Some(ino) {
            // A file that was there may be made once more, and is emptied then if that is asked for.
            let size = asked.number(&["size"]);
            if let Some(size) = size {
                self.names.changed(ino, size);
            }
            let event = Event {
                size,
                ..by_number(Kind::Open, ino)
            };
            self.emit(event, during);
            return Ok(Some(()));
        }
        self.gone.remove(&ino);
        self.names.made(dir, &name, ino, kind)?;
        self.touch(dir, &name)?;
        let event = Event {
            is: Some(ino),
            ..event
        };
        self.emit(event, during);
        Ok(Some(()))
    }

    /// The inode of a name that is there, if need be one that nobody asked for before.
    fn there(&mut self, dir: u64, name: &[u8], during: During) -> Result<u64, Problem> {
        let (ino, told) = self.names.find(dir, name)?;
        if let Some(told) = told {
            self.emit_before(told, during);
        }
        Ok(ino)
    }

    fn remove(
        &mut self,
        op: Kind,
        asked: &Fields<'_>,
        error: Option<i32>,
        during: During,
    ) -> Result<Option<()>, Problem> {
        let Some((dir, name)) = self.place(asked, (&["fh"], &["name", "fn"]), during)? else {
            return Ok(None);
        };
        let mut event = by_name(op, dir, &name);
        event.error = error;
        if error != Some(ENOENT) {
            let ino = self.there(dir, &name, during)?;
            if op == Kind::Rmdir {
                self.names.learn_kind(ino, 'd');
            }
            if error.is_none() {
                event.is = Some(ino);
                self.lose(dir, &name, ino);
            }
        }
        self.touch(dir, &name)?;
        self.emit(event, during);
        Ok(Some(()))
    }

    fn lose(&mut self, dir: u64, name: &[u8], ino: u64) {
        self.names.take(dir, name);
        if self.names.parent(ino).is_none() {
            self.gone.insert(ino);
        }
    }

    fn rename(
        &mut self,
        asked: &Fields<'_>,
        error: Option<i32>,
        during: During,
    ) -> Result<Option<()>, Problem> {
        let from = self.place(asked, (&["fh"], &["name", "fn"]), during)?;
        let to = self.place(asked, (&["fh2"], &["name2", "fn2"]), during)?;
        let (Some((dir, name)), Some((new_dir, new_name))) = (from, to) else {
            return Ok(None);
        };
        let mut event = Event {
            new_dir: Some(new_dir),
            new_name: Some(escape(&new_name)),
            error,
            ..by_name(Kind::Rename, dir, &name)
        };
        if error.is_none() {
            event.is = Some(self.there(dir, &name, during)?);
            let replaced = self
                .names
                .get(new_dir, &new_name)
                .filter(|ino| Some(*ino) != event.is);
            self.names.rename((dir, &name), (new_dir, &new_name))?;
            if let Some(replaced) = replaced
                && self.names.parent(replaced).is_none()
            {
                self.gone.insert(replaced);
            }
        }
        self.touch(dir, &name)?;
        self.touch(new_dir, &new_name)?;
        self.emit(event, during);
        Ok(Some(()))
    }

    fn link(
        &mut self,
        asked: &Fields<'_>,
        error: Option<i32>,
        during: During,
    ) -> Result<Option<()>, Problem> {
        // The file's handle is first, the directory's second, by whichever names.
        let handles: Vec<&str> = (asked.0.iter())
            .filter(|(name, _)| matches!(*name, "fh" | "fh2" | "file"))
            .map(|(_, value)| *value)
            .collect();
        let name = asked.name(&["name", "name2", "fn", "fn2"]);
        let (&[file, dir], Some(name)) = (handles.as_slice(), name) else {
            return Ok(None);
        };
        let (file, dir) = (self.number(file.as_bytes())?, self.number(dir.as_bytes())?);
        let (file, dir) = (
            self.placed(file, false, during)?,
            self.placed(dir, true, during)?,
        );
        let event = Event {
            ino: Some(file),
            is: Some(file),
            error,
            ..by_name(Kind::Link, dir, &name)
        };
        if error.is_none() {
            self.names.put(dir, &name, file)?;
        }
        self.touch(dir, &name)?;
        self.emit(event, during);
        Ok(Some(()))
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

#[cfg(test)]
#[path = "nfsdump_tests.rs"]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
