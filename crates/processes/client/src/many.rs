//! Batches: operations on many names, with many requests under way at once.
//!
//! A batch is not atomic: each of its operations succeeds or fails by itself, as if it had been asked for alone, and
//! the answers are in the order of what was given. Operations of one batch may take effect in any order.

use crate::call::Call;
use crate::core::Core;
use crate::data::{inline_range, written};
use crate::error::{Failure, Result};
use crate::inodes::{inode_of, unexpected};
use crate::names::entry_of;
use crate::route::reply_of;
use crate::trace::{Op, Outcome};
use crate::{Client, Node};
use pandofs_api::{EntryReply, FileBody, InodeReply, NewNode, Reply, Request, op};
use pandofs_session::Target;
use pandofs_types::limits::{MAX_NEW_FILE_BYTES, MAX_PIPELINED_REQUESTS, MAX_REDIRECTS};
use pandofs_types::{Attr, Credentials, FileKind, FsError, Ino, Name, NewMode};

/// A file that [`Client::create_many`] makes.
#[derive(Clone, Copy, Debug)]
pub struct NewFile<'a> {
    /// The directory.
    pub dir: Ino,
    /// Its name there.
    pub name: &'a Name,
    /// Permission bits and umask.
    pub mode: NewMode,
    /// All of its bytes.
    pub contents: &'a [u8],
}

/// A file of which [`Client::open_read_many`] reads the beginning.
#[derive(Clone, Copy, Debug)]
pub struct FileToRead<'a> {
    /// The directory.
    pub dir: Ino,
    /// Its name there.
    pub name: &'a Name,
    /// Bytes that are read at most.
    pub most: usize,
}

/// Outcome of looking a name up.
#[derive(Debug)]
enum Looked {
    Found(InodeReply),
    /// There was an entry, whose inode was gone when that was asked for: the name may lead to something else by now.
    Gone,
}

/// Answer of a shard to one of many requests.
type Asked = std::result::Result<Reply, Failure>;

/// The right to read, as [`Client::access`] has it.
const READ: u16 = 4;

impl Client {
    /// Makes files with their bytes, and leaves them closed. One that could not be given all of its bytes
    /// is there all the same, with some of them or none, and its error is the write's; for one that somebody else has removed
    /// before it had them there is none.
    ///
    /// # Errors
    /// Of each file: `Exists` when its name is taken, and those of [`Client::write`].
    pub fn create_many(&self, caller: &Credentials, files: &[NewFile<'_>]) -> Vec<Result<Node>> {
        let mut all = Vec::with_capacity(files.len());
        for files in files.chunks(MAX_PIPELINED_REQUESTS) {
            let ops = files.iter().map(|file| Op::Mknod {
                dir: file.dir,
                name: file.name,
                kind: FileKind::File,
                mode: file.mode.mode & !file.mode.umask,
            });
            let mut made = self.traced_many(
                ops,
                |node| Outcome::Node(node),
                || self.core().make_files(caller, files),
            );
            let (mut nodes, mut contents) = (Vec::new(), Vec::new());
            for (node, file) in made.iter_mut().zip(files) {
                if let Ok(made) = node
                    && !file.contents.is_empty()
                {
                    contents.push((made.ino, file.contents));
                    nodes.push(node);
                }
            }
            let ops = contents
                .iter()
                .map(|&(ino, contents)| written(ino, Some(0), contents));
            let ended = self.traced_many(
                ops,
                |_| Outcome::Done,
                || self.core().fill_files(caller, &contents),
            );
            for (node, ended) in nodes.into_iter().zip(ended) {
                // A file that somebody else has removed meanwhile was made and written, as it would have been if it were open.
                if !matches!(&ended, Err(error) if error.is_gone()) {
                    *node = ended;
                }
            }
            all.append(&mut made);
        }
        all
    }

    /// Looks up names, each in a directory of its own choice; symbolic links are not followed. As [`Client::lookup`] for each.
    ///
    /// # Errors
    /// Of each name: `NotFound` when there is no such name.
    pub fn stat_many(&self, caller: &Credentials, names: &[(Ino, &Name)]) -> Vec<Result<Node>> {
        let mut all = Vec::with_capacity(names.len());
        for names in names.chunks(MAX_PIPELINED_REQUESTS) {
            let stat = |looked: Result<Looked>, &(dir, name): &(Ino, &Name)| match looked? {
                Looked::Found(inode) => match self.core().attr(caller, inode) {
                    Err(error) if error.is_gone() => self.look_up(caller, dir, name),
                    attr => attr.map(Node::from),
                },
                Looked::Gone => self.look_up(caller, dir, name),
            };
            let look = || {
                let looked = self.core().look_up_files(caller, names).into_iter();
                looked
                    .zip(names)
                    .map(|(looked, name)| stat(looked, name))
                    .collect()
            };
            let lookups = names.iter().map(|&(dir, name)| Op::Lookup { dir, name });
            all.extend(self.traced_many(lookups, |node| Outcome::Node(node), look));
        }
        all
    }

    /// Reads the beginnings of files by their names; the caller needs the right to read them. Nothing is left open. Files kept
    /// in inodes are read with many requests under way, larger ones one after the other.
    ///
    /// # Errors
    /// Of each file: `NotFound`; `Access`; `IsDir` and `Invalid` for what is no file; those of [`Client::read`].
    pub fn open_read_many(
        &self,
        caller: &Credentials,
        files: &[FileToRead<'_>],
    ) -> Vec<Result<Vec<u8>>> {
        let mut all = Vec::with_capacity(files.len());
        for files in files.chunks(MAX_PIPELINED_REQUESTS) {
            let names: Vec<(Ino, &Name)> = files.iter().map(|file| (file.dir, file.name)).collect();
            let lookups = names.iter().map(|&(dir, name)| Op::Lookup { dir, name });
            let looked = self.traced_many(
                lookups,
                |looked| match looked {
                    Looked::Found(inode) => Outcome::Ino(inode.attr.ino),
                    Looked::Gone => Outcome::Done,
                },
                || self.core().look_up_files(caller, &names),
            );
            let looked = looked.into_iter().map(|looked| {
                if let Ok(Looked::Found(inode)) = &looked {
                    self.readable(caller, &inode.attr)?;
                }
                looked
            });
            all.extend(self.read_files(caller, files, looked.collect()));
        }
        all
    }

    /// Takes away names of what are no directories, and answers with what each led to.
    ///
    /// # Errors
    /// Of each name: `NotFound`; `IsDir` for a directory.
    pub fn remove_many(&self, caller: &Credentials, names: &[(Ino, &Name)]) -> Vec<Result<Ino>> {
        let mut all = Vec::with_capacity(names.len());
        for names in names.chunks(MAX_PIPELINED_REQUESTS) {
            all.extend(self.traced_many(
                names.iter().map(|&(dir, name)| Op::Unlink { dir, name }),
                |&ino| Outcome::Ino(ino),
                || self.core().remove_files(caller, names),
            ));
        }
        all
    }

    /// Looks whether it is a file that the caller may read.
    fn readable(&self, caller: &Credentials, attr: &Attr) -> Result<()> {
        match attr.kind {
            FileKind::File => self.access_by(caller, attr, READ),
            FileKind::Dir => Err(FsError::IsDir.into()),
            _ => Err(FsError::Invalid.into()),
        }
    }

    fn read_files(
        &self,
        caller: &Credentials,
        files: &[FileToRead<'_>],
        looked: Vec<Result<Looked>>,
    ) -> Vec<Result<Vec<u8>>> {
        let inline = self.read_inline_files(caller, files, &looked);
        let each = looked.into_iter().zip(inline).zip(files);
        each.map(|((looked, inline), file)| {
            let read = match (looked?, inline) {
                (_, Some(data)) => Ok(data),
                (Looked::Found(inode), None) => self.read_first(caller, inode.attr, file.most),
                (Looked::Gone, None) => Err(FsError::Stale.into()),
            };
            match read {
                Err(error) if error.is_gone() => self.read_by_name(caller, file),
                read => read,
            }
        })
        .collect()
    }

    /// The beginnings of those files that are kept in their inodes. `None` for the others, and for those that have to be asked for by
    /// themselves: that gives the error, or finds what has come of them.
    fn read_inline_files(
        &self,
        caller: &Credentials,
        files: &[FileToRead<'_>],
        looked: &[Result<Looked>],
    ) -> Vec<Option<Vec<u8>>> {
        let core = self.core();
        let mut places = Vec::new();
        let mut calls = Vec::new();
        for (place, looked) in looked.iter().enumerate() {
            let Ok(Looked::Found(inode)) = looked else {
                continue;
            };
            let ino = inode.attr.ino;
            let is_inline = matches!(inode.body, FileBody::Inline { .. });
            // Bytes written to an open file, and not on its shard yet, are to be read as well.
            if is_inline && core.opens.file(ino).is_none() {
                places.push((place, ino));
                let request = Request::ReadInline(op::ReadInline { ino });
                calls.push(Call::shard(Target::Inode(ino), caller, request));
            }
        }
        let ops = places.iter().map(|&(place, ino)| Op::Read {
            ino,
            offset: 0,
            bytes: files[place].most,
        });
        let read = || {
            let answers = core.ask_all(calls).into_iter().zip(&places);
            let data = answers.map(|(reply, (place, _))| match reply {
                Ok(Reply::Inode(inode)) => match inode.body {
                    FileBody::Inline { data, .. } => {
                        let most = files[*place].most;
                        Ok(Some(inline_range(&data, inode.attr.size, 0, most)))
                    }
                    _ => Ok(None),
                },
                _ => Ok(None),
            });
            data.collect()
        };
        let answers = self.traced_many(ops, |_| Outcome::Done, read);
        let mut inline = vec![None; files.len()];
        for (&(place, _), data) in places.iter().zip(answers) {
            inline[place] = data.ok().flatten();
        }
        inline
    }

    /// Reads a file by itself, as far as it goes now: somebody may be writing at its end all the time.
    fn read_first(&self, caller: &Credentials, mut attr: Attr, most: usize) -> Result<Vec<u8>> {
        self.core().correct(&mut attr);
        let size = usize::try_from(attr.size).unwrap_or(usize::MAX);
        self.read(caller, attr.ino, 0, most.min(size))
    }

    /// Begins with the name again: what it led to is gone.
    fn read_by_name(&self, caller: &Credentials, file: &FileToRead<'_>) -> Result<Vec<u8>> {
        for _ in 0..MAX_REDIRECTS {
            let node = self.look_up(caller, file.dir, file.name)?;
            self.readable(caller, &node.attr)?;
            match self.read_first(caller, node.attr, file.most) {
                Err(error) if error.is_gone() => {}
                read => return read,
            }
        }
        Err(FsError::NotFound.into())
    }
}

impl Core {
    fn make_files(&self, caller: &Credentials, files: &[NewFile<'_>]) -> Vec<Result<Node>> {
        let calls = files.iter().map(|file| {
            let request = Request::Create(op::Create {
                dir: file.dir,
                name: file.name.clone(),
                node: NewNode::File,
                mode: file.mode.mode,
                umask: file.mode.umask,
                open: false,
            });
            Call::shard(self.by_name(file.dir, file.name), caller, request)
        });
        let made = self.ask_all(calls.collect()).into_iter();
        made.map(|reply| self.node(caller, entry_of(reply?)?))
            .collect()
    }

    /// Gives new files their bytes; answers with their nodes.
    fn fill_files(&self, caller: &Credentials, files: &[(Ino, &[u8])]) -> Vec<Result<Node>> {
        let fits = |contents: &[u8]| contents.len() <= MAX_NEW_FILE_BYTES;
        let small = files.iter().filter(|(_, contents)| fits(contents));
        let calls = small.map(|&(ino, contents)| {
            let data = contents.to_vec();
            let request = Request::WriteNew(op::WriteNew { ino, data });
            Call::shard(Target::Inode(ino), caller, request)
        });
        let mut answers = self.ask_all(calls.collect()).into_iter();
        let filled = files.iter().map(|&(ino, contents)| {
            let answer = fits(contents).then(|| answers.next()).flatten();
            match answer {
                Some(Ok(reply)) => self.attr(caller, inode_of(reply)?).map(Node::from),
                // Somebody else has found it already, and written to it or striped it.
                Some(Err(Failure::NotInline { .. })) | None => {
                    self.write_by_itself(caller, ino, contents)
                }
                Some(Err(failure)) => Err(failure.into()),
            }
        });
        filled.collect()
    }

    fn write_by_itself(&self, caller: &Credentials, ino: Ino, contents: &[u8]) -> Result<Node> {
        self.with_file(caller, ino, |file| self.write_to(caller, file, 0, contents))?;
        let inode = self.inode(caller, ino)?;
        self.attr(caller, inode).map(Node::from)
    }

    /// The inodes that the names lead to.
    fn look_up_files(&self, caller: &Credentials, names: &[(Ino, &Name)]) -> Vec<Result<Looked>> {
        let calls = names.iter().map(|&(dir, name)| {
            let name_of = name.clone();
            let request = Request::Lookup(op::Lookup { dir, name: name_of });
            Call::shard(self.by_name(dir, name), caller, request)
        });
        let entries = self.ask_all(calls.collect()).into_iter();
        let entries: Vec<Result<EntryReply>> = entries.map(|reply| entry_of(reply?)).collect();
        // Those on other shards than their names.
        let mut away = Vec::new();
        for entry in entries.iter().flatten() {
            self.learn_entry(entry.ino, entry.shard, entry.inode.is_some());
            if entry.inode.is_none() {
                let ino = entry.ino;
                let request = Request::GetAttr(op::GetAttr { ino });
                away.push(Call::shard(Target::Inode(ino), caller, request));
            }
        }
        let mut away = self.ask_all(away).into_iter();
        let looked = entries.into_iter().map(|entry| match entry?.inode {
            Some(inode) => Ok(Looked::Found(inode)),
            None => match away.next().map(|reply| inode_of(reply?)) {
                Some(Err(error)) if error.is_gone() => Ok(Looked::Gone),
                Some(inode) => inode.map(Looked::Found),
                None => unreachable!("each entry without an inode was asked for it"),
            },
        });
        looked.collect()
    }

    fn remove_files(&self, caller: &Credentials, names: &[(Ino, &Name)]) -> Vec<Result<Ino>> {
        let calls = names.iter().map(|&(dir, name)| {
            let name_of = name.clone();
            let request = Request::Unlink(op::Unlink { dir, name: name_of });
            Call::shard(self.by_name(dir, name), caller, request)
        });
        let removed = self.ask_all(calls.collect()).into_iter();
        removed
            .map(|reply| match reply? {
                Reply::Removed { ino } => Ok(ino),
                other => Err(unexpected(&other)),
            })
            .collect()
    }

    fn ask_all(&self, mut calls: Vec<Call<'_>>) -> Vec<Asked> {
        let answers = self.run_all(&mut calls).into_iter();
        answers.map(|answer| reply_of(answer?)).collect()
    }
}
