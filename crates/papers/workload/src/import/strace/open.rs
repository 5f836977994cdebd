//! Calls that open something.

use super::calls::{EEXIST, ENOENT, failed};
use super::paths::Found;
use super::process::{Description, Descriptor, Spot};
use super::value::{Call, Returned, has_flag, mode};
use super::{During, Strace};
use crate::import::Problem;
use crate::import::names::{by_name, by_number};
use crate::op::Kind;
use crate::recording::Event;
use std::cell::RefCell;
use std::rc::Rc;

impl Strace {
    pub(super) fn open(
        &mut self,
        call: &Call<'_>,
        from: Option<usize>,
        flags: &[u8],
        mode_text: &[u8],
        during: During,
    ) -> Result<(), Problem> {
        let has = |flag| has_flag(flags, flag);
        let path = if from.is_some() { 1 } else { 0 };
        let makes = has("O_CREAT");
        let follows = !(has("O_NOFOLLOW") || makes && has("O_EXCL"));
        let mut found = self.place(call, (from, path), follows, during)?;
        let Returned::Value(number, real) = &call.returned else {
            return self.open_failed(call, found, makes, during);
        };
        if has("O_TMPFILE") {
            return self.open_unnamed(call, found, flags, during);
        }
        // With -y the trace says where it led, whatever links were on the way.
        let real = real.as_ref().and_then(|path| super::paths::normal(path));
        if let (Some(real), true) = (real, !matches!(found, Found::Name(..))) {
            found = match self.real_parent(&real, during)? {
                Some((dir, name)) => Found::Name(dir, name),
                None => found,
            };
        }
        let at = match found {
            Found::Outside(path) => {
                self.left.count("outside", call.name)?;
                Spot::Outside(path)
            }
            Found::Dir(dir) => Spot::Inside(dir),
            Found::Missing(..) | Found::Unknown => {
                self.left.count("path-unknown", call.name)?;
                Spot::Outside(b"/".to_vec())
            }
            Found::Name(dir, name) => {
                let known = self.names.get(dir, &name);
                match known {
                    None if makes => Spot::Inside(self.made_file(dir, &name, mode_text, during)?),
                    _ => Spot::Inside(self.opened(call, dir, &name, flags, during)?),
                }
            }
        };
        self.new_descriptor(*number, at, flags, during)
    }

    fn open_failed(
        &mut self,
        call: &Call<'_>,
        found: Found,
        makes: bool,
        during: During,
    ) -> Result<(), Problem> {
        let Some(error @ (ENOENT | EEXIST)) = call.error() else {
            if let Found::Missing(dir, name) = found {
                self.missing(dir, &name, during);
                return Ok(());
            }
            return self.left.count("failed-otherwise", call.name);
        };
        let Some((dir, name)) = self.name_of(call, found, during)? else {
            return Ok(());
        };
        let kind = if makes { Kind::Create } else { Kind::Lookup };
        if error == EEXIST {
            self.there(dir, &name, during)?;
        }
        self.emit(failed(by_name(kind, dir, &name), error), during);
        Ok(())
    }

    fn open_unnamed(
        &mut self,
        call: &Call<'_>,
        found: Found,
        flags: &[u8],
        during: During,
    ) -> Result<(), Problem> {
        let dir = self.node_of(call, found, during)?;
        let at = match dir {
            None => Spot::Outside(b"/".to_vec()),
            Some(dir) => {
                let ino = self.names.unnamed();
                let event = Event {
                    dir: Some(dir),
                    unnamed: true,
                    is: Some(ino),
                    ..Event::new(Kind::Create)
                };
                self.emit(event, during);
                Spot::Inside(ino)
            }
        };
        let Some(number) = call.value() else {
            return Ok(());
        };
        self.new_descriptor(number, at, flags, during)
    }

    fn made_file(
        &mut self,
        dir: u64,
        name: &[u8],
        mode_text: &[u8],
        during: During,
    ) -> Result<u64, Problem> {
        let ino = self.names.make(dir, name, 'f')?;
        let event = Event {
            is: Some(ino),
            kind: Some('f'),
            mode: self.masked(mode_text, during),
            ..by_name(Kind::Create, dir, name)
        };
        self.emit(event, during);
        Ok(ino)
    }

    /// The permission bits that are left of those that were asked for.
    pub(super) fn masked(&self, text: &[u8], during: During) -> Option<u16> {
        let umask = self
            .process(during.process)
            .map_or(0, |process| process.place.borrow().umask);
        mode(text).map(|mode| mode & !umask)
    }

    fn opened(
        &mut self,
        call: &Call<'_>,
        dir: u64,
        name: &[u8],
        flags: &[u8],
        during: During,
    ) -> Result<u64, Problem> {
        let has = |flag| has_flag(flags, flag);
        let ino = self.there(dir, name, during)?;
        if has("O_DIRECTORY") {
            self.names.learn_kind(ino, 'd');
        }
        match self.names.kind(ino) {
            // Opening a directory asks for nothing.
            Some('d') => {}
            _ if has("O_PATH") => {}
            None | Some('f') => {
                let is_cut = has("O_TRUNC");
                if is_cut {
                    self.names.changed(ino, 0);
                }
                if is_cut || has("O_WRONLY") || has("O_RDWR") {
                    self.names.learn_kind(ino, 'f');
                }
                let event = Event {
                    size: is_cut.then_some(0),
                    ..by_number(Kind::Open, ino)
                };
                self.emit(event, during);
            }
            Some(_) => self.left.count("no-counterpart", call.name)?,
        }
        Ok(ino)
    }

    pub(super) fn new_descriptor(
        &mut self,
        number: i64,
        at: Spot,
        flags: &[u8],
        during: During,
    ) -> Result<(), Problem> {
        let number = i32::try_from(number).map_err(|_| Problem::NoResult)?;
        let description = Description {
            appends: has_flag(flags, "O_APPEND"),
            ..Description::of(at)
        };
        let descriptor = Descriptor {
            of: Rc::new(RefCell::new(description)),
            ends_with_exec: has_flag(flags, "O_CLOEXEC"),
        };
        match self.process(during.process) {
            Some(process) => process.open(number, descriptor),
            None => Ok(()),
        }
    }
}
