//! A subject out of what works on inode numbers: paths are gone along here as a kernel would.

use crate::op::{Answer, Failure, HandleId, Op, Outcome, Path, Special, Stat, Step, XattrMode};
use crate::op::{callers, filling};
use crate::subject::{Census, Subject, Traits};
use pandofs_api::Allocation;
use pandofs_client::RenameHow;
use pandofs_types::{
    Attr, Credentials, FileKind, FsError, Ino, Name, NameError, SetAttr, SetTime, Time,
};
use std::collections::HashMap;
use std::ops::Range;

/// A value, or why it was not done.
pub type Done<T> = Result<T, Failure>;

/// Kinds of inodes that [`Inodes::make`] makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Make {
    /// A directory.
    Dir,
    /// A symbolic link with this target.
    Symlink(Vec<u8>),
    /// A node that only mknod(2) makes.
    Special(Special),
}

/// A file system worked on by inode numbers, by one of several clients of it.
pub trait Inodes {
    /// An operation begins, and `hash` is a function of what it is: the client that is to do it.
    /// Random choices for an operation should depend on this hash alone, so that they stay the same
    /// when other operations are left out of a history. The clients know of one another only what the
    /// file system tells them.
    fn begin(&mut self, hash: u64) -> usize;

    /// The inode of a name.
    fn lookup(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
    ) -> Done<(Ino, FileKind)>;

    /// Makes a file and opens it.
    fn create(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
        mode: u16,
    ) -> Done<Ino>;

    /// Makes a file without a name and opens it.
    fn create_unnamed(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        mode: u16,
        may_be_named: bool,
    ) -> Done<Ino>;

    /// Makes what is no file; `Exists` if the name is taken.
    fn make(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
        make: &Make,
        mode: u16,
    ) -> Done<()>;

    /// A further name for what is no directory.
    fn link(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        dir: Ino,
        name: &Name,
    ) -> Done<()>;

    /// Removes a name: of a directory, or of anything else.
    fn remove(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
        directory: bool,
    ) -> Done<()>;

    /// Moves a name, in one directory or to another.
    fn rename(
        &mut self,
        client: usize,
        by: &Credentials,
        from: (Ino, &Name),
        to: (Ino, &Name),
        how: RenameHow,
    ) -> Done<()>;

    /// Two names change places.
    fn exchange(
        &mut self,
        client: usize,
        by: &Credentials,
        from: (Ino, &Name),
        to: (Ino, &Name),
    ) -> Done<()>;

    /// As stat(2) tells them.
    fn attr(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<Attr>;

    /// Changes what is `Some`.
    fn set_attr(&mut self, client: usize, by: &Credentials, ino: Ino, set: SetAttr) -> Done<()>;

    /// All entries, in any order.
    fn read_dir(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
    ) -> Done<Vec<(Vec<u8>, FileKind)>>;

    /// The target as it was given.
    fn read_link(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<Vec<u8>>;

    /// Sets it under the condition that `mode` is.
    fn set_xattr(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Done<()>;

    /// The value; `NoAttribute` without one.
    fn get_xattr(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        name: &[u8],
    ) -> Done<Vec<u8>>;

    /// Names in any order.
    fn list_xattr(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<Vec<Vec<u8>>>;

    /// `NoAttribute` if it is not there.
    fn remove_xattr(&mut self, client: usize, by: &Credentials, ino: Ino, name: &[u8]) -> Done<()>;

    /// Rights as in [`Credentials::may`].
    fn open(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        access: u16,
        truncate: bool,
    ) -> Done<()>;

    /// Once for each time that the client has opened it.
    fn close(&mut self, client: usize, ino: Ino) -> Done<()>;

    /// Fewer bytes than asked for only at the end of the file.
    fn read(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        offset: u64,
        length: u32,
    ) -> Done<Vec<u8>>;

    /// Writes, so that every client sees it.
    fn write(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        offset: u64,
        data: &[u8],
    ) -> Done<()>;

    /// All that was acknowledged is on disk afterwards.
    fn sync(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<()>;

    /// As [`Inodes::write`].
    fn allocate(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        range: Range<u64>,
        allocation: Allocation,
    ) -> Done<()>;

    /// The next byte from `offset` on that has data, or has none; `None` if there is none.
    fn seek(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        offset: u64,
        data: bool,
    ) -> Done<Option<u64>>;

    /// As [`Inodes::write`].
    fn append(&mut self, client: usize, by: &Credentials, ino: Ino, data: &[u8]) -> Done<()>;

    /// The moment by which the file system sets times.
    fn now(&mut self) -> Time;

    /// As [`Subject::look_inside`].
    fn look_inside(&mut self) -> Result<(), String>;

    /// As [`Subject::settle`], the root of the test's own tree and its name left out.
    fn settle(&mut self) -> Result<Option<Census>, String>;
}

#[derive(Clone, Debug)]
struct Handle {
    client: usize,
    by: Credentials,
    ino: Ino,
}

/// A directory of a file system, worked on through paths.
pub struct Paths<I> {
    inodes: I,
    root: Ino,
    callers: Vec<Credentials>,
    handles: HashMap<HandleId, Handle>,
    traits: Traits,
}

impl<I: Inodes> Paths<I> {
    /// Works in a new directory of that name below the file system's root.
    ///
    /// # Panics
    /// Panics if the directory cannot be made.
    pub fn new(mut inodes: I, name: &str, traits: Traits) -> Paths<I> {
        let name = Name::new(name.as_bytes()).expect("a name for the directory");
        let root = &Credentials::ROOT;
        inodes
            .make(0, root, Ino::ROOT, &name, &Make::Dir, 0o777)
            .expect("it can be made");
        let (ino, _) = inodes
            .lookup(0, root, Ino::ROOT, &name)
            .expect("it is there");
        Paths {
            inodes,
            root: ino,
            callers: callers(),
            handles: HashMap::new(),
            traits,
        }
    }

    /// The file system that is worked on.
    pub fn inodes(&self) -> &I {
        &self.inodes
    }
}

/// Of a subject whose directories and times are as PandoFS has them.
pub fn pandofs_traits() -> Traits {
    Traits {
        callers: callers().len(),
        dir_size_is_entries: true,
        protected_hardlinks: false,
        clock_slack: std::time::Duration::ZERO,
        max_file_size: 8 << 30,
        times_only_advance: true,
        allocates: true,
        makes_unnamed: true,
        makes_whiteouts: true,
        refused_whiteouts_touch: false,
        inos_are_reused: false,
    }
}

impl<I: Inodes> Subject for Paths<I> {
    fn run(&mut self, step: &Step) -> Outcome {
        let by = self.callers[step.caller].clone();
        let client = self.inodes.begin(hash_of(step));
        let mut walk = Walk {
            inodes: &mut self.inodes,
            root: self.root,
            client,
            by: &by,
        };
        match &step.op {
            Op::Create { path, mode, handle } => {
                let ino = walk.create(path, *mode)?;
                match handle {
                    Some(handle) => self.keep(*handle, Handle { client, by, ino }),
                    None => self.inodes.close(client, ino)?,
                }
                Ok(Answer::Done)
            }
            Op::Open {
                path,
                handle,
                read,
                write,
                truncate,
            } => {
                let ino = walk.open(path, *read, *write, *truncate)?;
                self.keep(*handle, Handle { client, by, ino });
                Ok(Answer::Done)
            }
            Op::CreateUnnamed {
                dir,
                mode,
                handle,
                may_be_named,
            } => {
                let ino = walk.create_unnamed(dir, *mode, *may_be_named)?;
                self.keep(*handle, Handle { client, by, ino });
                Ok(Answer::Done)
            }
            Op::LinkOpen { handle, to } => {
                let handle = self.handles.get(handle).cloned();
                let handle = handle.ok_or_else(|| Failure::Other("not open".to_owned()))?;
                walk.client = handle.client;
                let (dir, name) = walk.parent(to)?;
                let (by, ino) = (&handle.by, handle.ino);
                self.inodes.link(handle.client, by, ino, dir, &name)?;
                Ok(Answer::Done)
            }
            op => match op.handle() {
                None => walk.run(op),
                Some(id) => {
                    let handle = self.handles.get(&id).cloned();
                    let handle = handle.ok_or_else(|| Failure::Other("not open".to_owned()))?;
                    if let Op::Close { .. } = op {
                        self.handles.remove(&id);
                    }
                    on_handle(&mut self.inodes, &handle, op)
                }
            },
        }
    }

    fn now(&mut self) -> Time {
        self.inodes.now()
    }

    fn traits(&self) -> Traits {
        self.traits.clone()
    }

    fn look_inside(&mut self) -> Result<(), String> {
        self.inodes.look_inside()
    }

    fn settle(&mut self) -> Result<Option<Census>, String> {
        self.inodes.settle()
    }
}

impl<I: Inodes> Paths<I> {
    fn keep(&mut self, id: HandleId, handle: Handle) {
        let before = self.handles.insert(id, handle);
        assert!(before.is_none(), "handle {id} was open");
    }
}

/// One operation on a path.
struct Walk<'a, I> {
    inodes: &'a mut I,
    root: Ino,
    client: usize,
    by: &'a Credentials,
}

/// FNV-1a of what is printed of the operation.
fn hash_of(step: &Step) -> u64 {
    format!("{step:?}")
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

fn name_of(part: &[u8]) -> Done<Name> {
    Name::new(part).map_err(|error| match error {
        NameError::TooLong(_) => Failure::Fs(FsError::NameTooLong),
        other => Failure::Other(other.to_string()),
    })
}

impl<I: Inodes> Walk<'_, I> {
    /// The directory of the path's last part, and that part.
    fn parent(&mut self, path: &Path) -> Done<(Ino, Name)> {
        let Some((last, above)) = path.0.split_last() else {
            return Err(Failure::Other("the root has no name".to_owned()));
        };
        let mut dir = self.root;
        for part in above {
            let (ino, kind) = self
                .inodes
                .lookup(self.client, self.by, dir, &name_of(part)?)?;
            match kind {
                FileKind::Dir => dir = ino,
                // The tests' links lead nowhere.
                FileKind::Symlink => return Err(FsError::NotFound.into()),
                _ => return Err(FsError::NotDir.into()),
            }
        }
        Ok((dir, name_of(last)?))
    }

    fn find(&mut self, path: &Path) -> Done<(Ino, FileKind)> {
        if path.0.is_empty() {
            return Ok((self.root, FileKind::Dir));
        }
        let (dir, name) = self.parent(path)?;
        self.inodes.lookup(self.client, self.by, dir, &name)
    }

    fn create(&mut self, path: &Path, mode: u16) -> Done<Ino> {
        let (dir, name) = self.parent(path)?;
        self.inodes.create(self.client, self.by, dir, &name, mode)
    }

    fn create_unnamed(&mut self, path: &Path, mode: u16, may_be_named: bool) -> Done<Ino> {
        let (dir, kind) = self.find(path)?;
        if kind != FileKind::Dir {
            return Err(FsError::NotDir.into());
        }
        self.inodes
            .create_unnamed(self.client, self.by, dir, mode, may_be_named)
    }

    fn make(&mut self, path: &Path, make: &Make, mode: u16) -> Outcome {
        let (dir, name) = self.parent(path)?;
        self.inodes
            .make(self.client, self.by, dir, &name, make, mode)?;
        Ok(Answer::Done)
    }

    fn open(&mut self, path: &Path, read: bool, write: bool, truncate: bool) -> Done<Ino> {
        let (ino, kind) = self.find(path)?;
        if kind == FileKind::Dir && write {
            return Err(FsError::IsDir.into());
        }
        let access = if read { 4 } else { 0 } | if write { 2 } else { 0 };
        self.inodes
            .open(self.client, self.by, ino, access, truncate)?;
        Ok(ino)
    }

    fn set(&mut self, path: &Path, set: SetAttr) -> Outcome {
        let (ino, _) = self.find(path)?;
        self.inodes.set_attr(self.client, self.by, ino, set)?;
        Ok(Answer::Done)
    }

    fn run(&mut self, op: &Op) -> Outcome {
        let (client, by) = (self.client, self.by);
        match op {
            Op::Mkdir { path, mode } => return self.make(path, &Make::Dir, *mode),
            Op::Mknod {
                path,
                special,
                mode,
            } => {
                return self.make(path, &Make::Special(*special), *mode);
            }
            Op::Symlink { path, target } => {
                return self.make(path, &Make::Symlink(target.0.clone()), 0o777);
            }
            Op::Link { from, to } => {
                let (ino, _) = self.find(from)?;
                let (dir, name) = self.parent(to)?;
                self.inodes.link(client, by, ino, dir, &name)?;
            }
            Op::Unlink { path } => {
                let (dir, name) = self.parent(path)?;
                self.inodes.remove(client, by, dir, &name, false)?;
            }
            Op::Rmdir { path } => {
                let (dir, name) = self.parent(path)?;
                self.inodes.remove(client, by, dir, &name, true)?;
            }
            Op::Rename {
                from,
                to,
                no_replace,
                whiteout,
            } => {
                let (dir, name) = self.parent(from)?;
                let (new_dir, new_name) = self.parent(to)?;
                let (from, to) = ((dir, &name), (new_dir, &new_name));
                let how = RenameHow {
                    no_replace: *no_replace,
                    whiteout: *whiteout,
                };
                self.inodes.rename(client, by, from, to, how)?;
            }
            Op::Exchange { from, to } => {
                let (dir, name) = self.parent(from)?;
                let (new_dir, new_name) = self.parent(to)?;
                let (from, to) = ((dir, &name), (new_dir, &new_name));
                self.inodes.exchange(client, by, from, to)?;
            }
            Op::Stat { path } => {
                let (ino, _) = self.find(path)?;
                return Ok(Answer::Stat(Box::new(stat(
                    &self.inodes.attr(client, by, ino)?,
                ))));
            }
            Op::Chmod { path, mode } => {
                return self.set(
                    path,
                    SetAttr {
                        mode: Some(*mode),
                        ..SetAttr::default()
                    },
                );
            }
            Op::Chown { path, uid, gid } => {
                return self.set(
                    path,
                    SetAttr {
                        uid: *uid,
                        gid: *gid,
                        ..SetAttr::default()
                    },
                );
            }
            Op::Truncate { path, size } => {
                return self.set(
                    path,
                    SetAttr {
                        size: Some(*size),
                        ..SetAttr::default()
                    },
                );
            }
            Op::SetTimes { path, atime, mtime } => return self.set_times(path, *atime, *mtime),
            Op::ReadDir { path } => {
                let (ino, _) = self.find(path)?;
                return Ok(Answer::Entries(self.inodes.read_dir(client, by, ino)?));
            }
            Op::ReadLink { path } => {
                let (ino, _) = self.find(path)?;
                return Ok(Answer::Link(self.inodes.read_link(client, by, ino)?));
            }
            Op::SetXattr {
                path,
                name,
                value,
                mode,
            } => {
                let (ino, _) = self.find(path)?;
                self.inodes
                    .set_xattr(client, by, ino, &name.0, &value.0, *mode)?;
            }
            Op::GetXattr { path, name } => {
                let (ino, _) = self.find(path)?;
                return Ok(Answer::Value(
                    self.inodes.get_xattr(client, by, ino, &name.0)?,
                ));
            }
            Op::ListXattr { path } => {
                let (ino, _) = self.find(path)?;
                return Ok(Answer::Names(self.inodes.list_xattr(client, by, ino)?));
            }
            Op::RemoveXattr { path, name } => {
                let (ino, _) = self.find(path)?;
                self.inodes.remove_xattr(client, by, ino, &name.0)?;
            }
            other => unreachable!("{other:?} was dealt with before"),
        }
        Ok(Answer::Done)
    }

    /// Of a time that is to be now and another that is given, Linux asks for what the latter takes.
    fn set_times(
        &mut self,
        path: &Path,
        atime: Option<SetTime>,
        mtime: Option<SetTime>,
    ) -> Outcome {
        self.set(
            path,
            SetAttr {
                atime,
                mtime,
                ..SetAttr::default()
            },
        )
    }
}

fn on_handle<I: Inodes>(inodes: &mut I, handle: &Handle, op: &Op) -> Outcome {
    let Handle { client, by, ino } = handle;
    let (client, ino) = (*client, *ino);
    match op {
        Op::Close { .. } => inodes.close(client, ino)?,
        Op::Read { offset, length, .. } => {
            return Ok(Answer::Data(
                inodes.read(client, by, ino, *offset, *length)?,
            ));
        }
        Op::Write {
            offset,
            length,
            fill,
            ..
        } => {
            inodes.write(client, by, ino, *offset, &filling(*fill, *length))?;
        }
        Op::SetSize { size, .. } => set_size(inodes, handle, *size)?,
        Op::StatOpen { .. } => {
            return Ok(Answer::Stat(Box::new(stat(&inodes.attr(client, by, ino)?))));
        }
        Op::Sync { .. } => inodes.sync(client, by, ino)?,
        Op::Allocate {
            offset,
            length,
            allocation,
            ..
        } => inodes.allocate(client, by, ino, *offset..*offset + *length, *allocation)?,
        Op::Seek { offset, data, .. } => {
            return Ok(Answer::Found(inodes.seek(client, by, ino, *offset, *data)?));
        }
        Op::Append { length, fill, .. } => {
            inodes.append(client, by, ino, &filling(*fill, *length))?;
        }
        other => unreachable!("{other:?} is no operation on an open file"),
    }
    Ok(Answer::Done)
}

/// Opening the file for writing gave the right to truncate it, and the right lasts.
fn set_size<I: Inodes>(inodes: &mut I, handle: &Handle, size: u64) -> Done<()> {
    let Handle { client, by, ino } = handle;
    let set = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    match inodes.set_attr(*client, by, *ino, set.clone()) {
        Err(Failure::Fs(FsError::Access)) => {}
        other => return other,
    }
    inodes.set_attr(*client, &by.clone().writing_anyway(), *ino, set)
}

fn stat(attr: &Attr) -> Stat {
    Stat {
        ino: attr.ino.0,
        kind: attr.kind,
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        size: attr.size,
        atime: attr.atime,
        mtime: attr.mtime,
        ctime: attr.ctime,
    }
}
