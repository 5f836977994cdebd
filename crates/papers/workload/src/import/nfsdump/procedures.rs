//! Procedures of NFS that were answered, and what they did to names and inodes.

use super::message::Fields;
use super::{During, Nfsdump};
use crate::import::Problem;
use crate::import::names::{Names, by_name, by_number};
use crate::op::{Kind, escape};
use crate::recording::Event;

const ENOENT: i32 = 2;

impl Nfsdump {
    /// A call that was answered; `None` if fields are missing in it or its reply.
    pub(super) fn done(
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
