//! Calls that change what names there are.

use super::calls::{EEXIST, EISDIR, ENOENT, ENOTEMPTY, failed, kind_of};
use super::paths::Found;
use super::value::{Call, has_flag, string};
use super::{During, Strace};
use crate::import::Problem;
use crate::import::names::by_name;
use crate::op::{Kind, escape};
use crate::recording::Event;

impl Strace {
    pub(super) fn make(
        &mut self,
        call: &Call<'_>,
        op: Kind,
        at: (Option<usize>, usize),
        mode_at: Option<usize>,
        during: During,
    ) -> Result<(), Problem> {
        let found = self.place(call, at, false, during)?;
        let Some((dir, name)) = self.name_of(call, found, during)? else {
            return Ok(());
        };
        let mode_text = mode_at.map(|at| call.argument(at)).transpose()?;
        let kind = match op {
            Kind::Mkdir => 'd',
            Kind::Symlink => 'l',
            _ => mode_text.and_then(kind_of).unwrap_or('f'),
        };
        let mut event = by_name(op, dir, &name);
        event.kind = Some(kind);
        event.mode = mode_text.and_then(|text| self.masked(text, during));
        let target = match op {
            Kind::Symlink => string(call.argument(0)?)?.map(|(target, _)| target),
            _ => None,
        };
        event.bytes = target.as_ref().map_or(0, |target| target.len() as u64);
        if let Some(error) = call.error() {
            if error == EEXIST {
                self.there(dir, &name, during)?;
            }
            self.emit(failed(event, error), during);
            return Ok(());
        }
        let ino = self.names.make(dir, &name, kind)?;
        if let Some(target) = target {
            self.names.learn_target(ino, target);
        }
        event.is = Some(ino);
        self.emit(event, during);
        Ok(())
    }

    pub(super) fn link(
        &mut self,
        call: &Call<'_>,
        from: (Option<usize>, usize),
        to: (Option<usize>, usize),
        follows: bool,
        during: During,
    ) -> Result<(), Problem> {
        let found = self.place(call, from, follows, during)?;
        let new = self.place(call, to, false, during)?;
        let Some((dir, name)) = self.name_of(call, new, during)? else {
            return Ok(());
        };
        if matches!(found, Found::Outside(_)) && call.error().is_none() {
            // A file from elsewhere is here from now on; so is one that had no name.
            self.there(dir, &name, during)?;
        }
        if call.error() == Some(EEXIST) {
            self.there(dir, &name, during)?;
        }
        let Some(ino) = self.node_of(call, found, during)? else {
            return Ok(());
        };
        let event = Event {
            ino: Some(ino),
            is: Some(ino),
            ..by_name(Kind::Link, dir, &name)
        };
        match call.error() {
            Some(error) => self.emit(failed(event, error), during),
            None => {
                self.names.put(dir, &name, ino)?;
                self.emit(event, during);
            }
        }
        Ok(())
    }

    pub(super) fn remove(
        &mut self,
        call: &Call<'_>,
        op: Kind,
        at: (Option<usize>, usize),
        during: During,
    ) -> Result<(), Problem> {
        let found = self.place(call, at, false, during)?;
        let Some((dir, name)) = self.name_of(call, found, during)? else {
            return Ok(());
        };
        let event = by_name(op, dir, &name);
        if let Some(error) = call.error() {
            if error != ENOENT {
                let ino = self.there(dir, &name, during)?;
                if error == ENOTEMPTY || error == EISDIR {
                    self.names.learn_kind(ino, 'd');
                }
            }
            self.emit(failed(event, error), during);
            return Ok(());
        }
        let ino = self.there(dir, &name, during)?;
        match op {
            Kind::Rmdir => self.names.learn_kind(ino, 'd'),
            _ if self.names.is_dir(ino) => self.names.learn_kind(ino, 'f'),
            _ => {}
        }
        self.names.take(dir, &name);
        let event = Event {
            is: Some(ino),
            ..event
        };
        self.emit(event, during);
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        call: &Call<'_>,
        from: (Option<usize>, usize),
        to: (Option<usize>, usize),
        flags: &[u8],
        during: During,
    ) -> Result<(), Problem> {
        let (old, new) = (
            self.place(call, from, false, during)?,
            self.place(call, to, false, during)?,
        );
        let (dir, name, new_dir, new_name) = match (old, new) {
            (Found::Name(dir, name), Found::Name(new_dir, new_name)) => {
                (dir, name, new_dir, new_name)
            }
            (Found::Name(dir, name), Found::Outside(_)) if call.error().is_none() => {
                return self.moved_away(call, dir, &name, during);
            }
            // What came from elsewhere is here from now on.
            (Found::Outside(_), Found::Name(dir, name)) if call.error().is_none() => {
                self.names.take(dir, &name);
                self.there(dir, &name, during)?;
                return self.left.count("outside", call.name);
            }
            (old, new) => {
                if self.name_of(call, old, during)?.is_some() {
                    self.name_of(call, new, during)?;
                }
                return Ok(());
            }
        };
        let is_exchange = has_flag(flags, "RENAME_EXCHANGE");
        let event = Event {
            new_dir: Some(new_dir),
            new_name: Some(escape(&new_name)),
            exclusive: has_flag(flags, "RENAME_NOREPLACE"),
            ..by_name(
                if is_exchange {
                    Kind::Exchange
                } else {
                    Kind::Rename
                },
                dir,
                &name,
            )
        };
        if let Some(error) = call.error() {
            if error != ENOENT {
                self.there(dir, &name, during)?;
            }
            if error == EEXIST || error == ENOTEMPTY {
                let ino = self.there(new_dir, &new_name, during)?;
                if error == ENOTEMPTY {
                    self.names.learn_kind(ino, 'd');
                }
            }
            self.emit(failed(event, error), during);
            return Ok(());
        }
        let ino = self.there(dir, &name, during)?;
        let mut event = Event {
            is: Some(ino),
            ..event
        };
        if is_exchange {
            event.other = Some(self.there(new_dir, &new_name, during)?);
            self.names.exchange((dir, &name), (new_dir, &new_name));
        } else {
            self.names.rename((dir, &name), (new_dir, &new_name))?;
        }
        self.emit(event, during);
        Ok(())
    }

    fn moved_away(
        &mut self,
        call: &Call<'_>,
        dir: u64,
        name: &[u8],
        during: During,
    ) -> Result<(), Problem> {
        let ino = self.there(dir, name, during)?;
        self.left.count("outside", call.name)?;
        if !self.names.is_dir(ino) {
            let event = Event {
                is: Some(ino),
                ..by_name(Kind::Unlink, dir, name)
            };
            self.emit(event, during);
        }
        self.names.take(dir, name);
        Ok(())
    }
}
