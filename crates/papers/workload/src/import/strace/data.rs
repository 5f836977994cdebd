//! Calls on descriptors: data, listings, copies of descriptors, and everything that is no call on files.

use super::calls::{is_of_files, set_mode, set_owner, set_size, set_times};
use super::process::{Description, Descriptor, Spot};
use super::value::{AT_FDCWD, Call, descriptor, has_flag, integer};
use super::{During, Strace};
use crate::import::Problem;
use crate::import::names::by_number;
use crate::op::Kind;
use crate::recording::Event;
use std::cell::RefCell;
use std::rc::Rc;

/// Where data is read or written.
enum At {
    /// Where the file is at; it is further on afterwards.
    Position,
    Offset(u64),
}

type Shared = Rc<RefCell<Description>>;

impl Strace {
    pub(super) fn on_descriptor(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        match call.name {
            "close" => self.close(call, during),
            "close_range" => self.close_range(call, during),
            "dup" | "dup2" | "dup3" => self.copy(call, during),
            "fcntl" | "fcntl64" => self.control(call, during),
            "fchdir" => self.change_to(call, during),
            "umask" => self.mask(call, during),
            // From here on what failed changes nothing, and asks for nothing that could be asked again.
            _ if call.error().is_some() => self.failed_on_descriptor(call, during),
            "fstat" | "fstat64" | "oldfstat" => {
                if let Some(ino) = self.inside(call, 0, during)? {
                    self.told(ino, call.argument(1)?);
                    self.emit(by_number(Kind::Stat, ino), during);
                }
                Ok(())
            }
            "read" => self.data(call, Kind::Read, 0, At::Position, during),
            "readv" => self.data(call, Kind::Read, 0, At::Position, during),
            "pread64" | "preadv" | "preadv2" => {
                let at = self.given(call, 3)?;
                self.data(call, Kind::Read, 0, at, during)
            }
            "write" | "writev" => self.data(call, Kind::Write, 0, At::Position, during),
            "pwrite64" | "pwritev" | "pwritev2" => {
                let at = self.given(call, 3)?;
                self.data(call, Kind::Write, 0, at, during)
            }
            "sendfile" | "sendfile64" => {
                let at = offset_before(call.argument(2)?);
                self.data(call, Kind::Read, 1, at, during)?;
                self.data(call, Kind::Write, 0, At::Position, during)
            }
            "copy_file_range" => {
                let (from, to) = (
                    offset_before(call.argument(1)?),
                    offset_before(call.argument(3)?),
                );
                self.data(call, Kind::Read, 0, from, during)?;
                self.data(call, Kind::Write, 2, to, during)
            }
            "lseek" => self.seek(call, during),
            "getdents" | "getdents64" => self.list(call, during),
            "ftruncate" | "ftruncate64" => {
                self.set_by_descriptor(call, set_size(call.number(1)?), during)
            }
            "fchmod" => self.set_by_descriptor(call, set_mode(call.argument(1)?)?, during),
            "fchown" | "fchown32" => {
                let set = set_owner(call.argument(1)?, call.argument(2)?);
                self.set_by_descriptor(call, set, during)
            }
            "futimes" => self.set_by_descriptor(call, set_times(), during),
            "fallocate" => self.allocate(call, during),
            "fgetxattr" | "fsetxattr" | "fremovexattr" | "flistxattr" => {
                match self.inside(call, 0, during)? {
                    Some(ino) => self.attribute_of(call, ino, during),
                    None => Ok(()),
                }
            }
            // Numbers of descriptors of other things are free before: whoever had them was closed.
            name => self.left.count("no-file", name),
        }
    }

    fn failed_on_descriptor(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        if call.name.ends_with("xattr")
            && let Some(ino) = self.inside(call, 0, during)?
        {
            return self.attribute_of(call, ino, during);
        }
        let why = if is_of_files(call.name) {
            "failed-otherwise"
        } else {
            "no-file"
        };
        self.left.count(why, call.name)
    }

    /// The open file of a descriptor in the arguments, if it is in the tree.
    fn description(
        &mut self,
        call: &Call<'_>,
        at: usize,
        during: During,
    ) -> Result<Option<(Shared, u64)>, Problem> {
        let (number, path) = descriptor(call.argument(at)?)?;
        let Some(Spot::Inside(ino)) = self.base((number, path), during)? else {
            self.left.count("outside", call.name)?;
            return Ok(None);
        };
        let Some(process) = self.process(during.process) else {
            return Ok(None);
        };
        if let Some(known) = process.get(number) {
            return Ok(Some((known.of, ino)));
        }
        // Opened before the trace began: where it was at then is not known.
        let descriptor = Descriptor {
            of: Rc::new(RefCell::new(Description::of(Spot::Inside(ino)))),
            ends_with_exec: false,
        };
        let of = Rc::clone(&descriptor.of);
        process.open(number, descriptor)?;
        Ok(Some((of, ino)))
    }

    /// An offset in the arguments; -1 is where the file is at.
    fn given(&self, call: &Call<'_>, at: usize) -> Result<At, Problem> {
        let offset = integer(call.argument(at)?).ok_or(Problem::Argument)?;
        Ok(u64::try_from(offset).map_or(At::Position, At::Offset))
    }

    fn data(
        &mut self,
        call: &Call<'_>,
        op: Kind,
        of: usize,
        at: At,
        during: During,
    ) -> Result<(), Problem> {
        let done = call.value().and_then(|done| u64::try_from(done).ok());
        let done = done.ok_or(Problem::NoResult)?;
        let Some((description, ino)) = self.description(call, of, during)? else {
            return Ok(());
        };
        let mut description = description.borrow_mut();
        let appends = op == Kind::Write && description.appends;
        let offset = match at {
            At::Offset(offset) => offset,
            At::Position if appends => self.names.size(ino),
            At::Position => description.offset,
        };
        let end = offset.saturating_add(done);
        if matches!(at, At::Position) {
            description.offset = end;
        }
        // Nothing that is a file has been found out of a directory or of what is no file.
        if !matches!(self.names.kind(ino), None | Some('f')) {
            return self.left.count("no-counterpart", call.name);
        }
        let bytes = match (op, call.name) {
            (Kind::Read, "read" | "pread64") => call.number(2)?,
            _ => done,
        };
        self.names.learn_kind(ino, 'f');
        match op {
            Kind::Write => {
                let size = self.names.size(ino).max(end);
                self.names.changed(ino, size);
            }
            _ if done > 0 => self.names.learn_size(ino, end, true),
            _ => {}
        }
        let event = Event {
            // Without an offset a write appends.
            offset: (!appends).then_some(offset),
            bytes,
            ..by_number(op, ino)
        };
        self.emit(event, during);
        Ok(())
    }

    fn seek(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        let to = call.value().and_then(|to| u64::try_from(to).ok());
        if let (Some((description, _)), Some(to)) = (self.description(call, 0, during)?, to) {
            let mut description = description.borrow_mut();
            description.offset = to;
            description.is_listed &= to != 0;
        }
        Ok(())
    }

    /// A listing is one operation, however many pages it has.
    fn list(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        let Some((description, ino)) = self.description(call, 0, during)? else {
            return Ok(());
        };
        self.names.learn_kind(ino, 'd');
        if !std::mem::replace(&mut description.borrow_mut().is_listed, true) {
            self.emit(by_number(Kind::Readdir, ino), during);
        }
        Ok(())
    }

    fn set_by_descriptor(
        &mut self,
        call: &Call<'_>,
        set: Event,
        during: During,
    ) -> Result<(), Problem> {
        if let Some(ino) = self.inside(call, 0, during)? {
            self.set_on(call, ino, set, during);
        }
        Ok(())
    }

    fn allocate(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        let Some(ino) = self.inside(call, 0, during)? else {
            return Ok(());
        };
        let end = call.number(2)?.saturating_add(call.number(3)?);
        let grows = call.argument(1)? == b"0";
        if grows {
            let size = self.names.size(ino).max(end);
            self.names.changed(ino, size);
        }
        let event = Event {
            size: grows.then_some(end),
            ..by_number(Kind::Allocate, ino)
        };
        self.emit(event, during);
        Ok(())
    }

    fn close(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        let (number, _) = descriptor(call.argument(0)?)?;
        // Linux closes it whatever it answers.
        if let Some(process) = self.process(during.process) {
            process.descriptors.borrow_mut().remove(&number);
        }
        Ok(())
    }

    fn close_range(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        let (first, last) = (call.number(0)?, call.number(1)?);
        let marks = has_flag(call.argument(2)?, "CLOSE_RANGE_CLOEXEC");
        if let (Some(process), None) = (self.process(during.process), call.error()) {
            process
                .descriptors
                .borrow_mut()
                .retain(|&number, descriptor| {
                    let number = u64::from(number.unsigned_abs());
                    let is_in = (first..=last).contains(&number);
                    descriptor.ends_with_exec |= is_in && marks;
                    !is_in || marks
                });
        }
        Ok(())
    }

    fn copy(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        let Some(new) = call.value() else {
            return self.left.count("failed-otherwise", call.name);
        };
        let (old, _) = descriptor(call.argument(0)?)?;
        let ends_with_exec = match call.name {
            "dup3" => has_flag(call.argument(2)?, "O_CLOEXEC"),
            _ => false,
        };
        self.copied(old, new, ends_with_exec, during)
    }

    fn copied(
        &mut self,
        old: i32,
        new: i64,
        ends_with_exec: bool,
        during: During,
    ) -> Result<(), Problem> {
        let new = i32::try_from(new).map_err(|_| Problem::NoResult)?;
        let Some(process) = self.process(during.process).filter(|_| old != new) else {
            return Ok(());
        };
        match process.get(old) {
            Some(known) => {
                let copy = Descriptor {
                    ends_with_exec,
                    ..known
                };
                process.open(new, copy)
            }
            // Of something that is followed no further.
            None => {
                process.descriptors.borrow_mut().remove(&new);
                Ok(())
            }
        }
    }

    fn control(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        let (number, _) = descriptor(call.argument(0)?)?;
        let what = call.argument(1)?;
        let Some(value) = call.value() else {
            return self.left.count("failed-otherwise", call.name);
        };
        match what {
            b"F_DUPFD" => self.copied(number, value, false, during),
            b"F_DUPFD_CLOEXEC" => self.copied(number, value, true, during),
            b"F_SETFD" => {
                let is_marked = has_flag(call.argument(2)?, "FD_CLOEXEC");
                if let Some(process) = self.process(during.process)
                    && let Some(known) = process.descriptors.borrow_mut().get_mut(&number)
                {
                    known.ends_with_exec = is_marked;
                }
                Ok(())
            }
            b"F_SETFL" => {
                let appends = has_flag(call.argument(2)?, "O_APPEND");
                if let Some(known) = self.process(during.process).and_then(|p| p.get(number)) {
                    known.of.borrow_mut().appends = appends;
                }
                Ok(())
            }
            b"F_GETFD" | b"F_GETFL" => Ok(()),
            _ => match self.inside(call, 0, during)? {
                Some(_) => self.left.count("no-counterpart", call.name),
                None => Ok(()),
            },
        }
    }

    fn change_to(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        let directory = self.base(descriptor(call.argument(0)?)?, during)?;
        if call.error().is_some() {
            return self.left.count("failed-otherwise", call.name);
        }
        let directory = directory.ok_or(Problem::DirectoryUnknown)?;
        if let Some(process) = self.process(during.process) {
            process.place.borrow_mut().directory = directory;
        }
        Ok(())
    }

    fn mask(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        let mask = super::value::mode(call.argument(0)?).ok_or(Problem::Argument)?;
        if let Some(process) = self.process(during.process) {
            process.place.borrow_mut().umask = mask & 0o777;
        }
        Ok(())
    }
}

/// The offset of `[7]` or `[7] => [12]`; `NULL` is where the file is at.
fn offset_before(text: &[u8]) -> At {
    let inner = text.strip_prefix(b"[").and_then(|text| {
        let end = text.iter().position(|&byte| byte == b']')?;
        u64::try_from(integer(&text[..end])?).ok()
    });
    inner.map_or(At::Position, At::Offset)
}

// A number that no descriptor has.
const _: () = assert!(AT_FDCWD < 0);
