//! Replies that several of the kernel's requests have in common.

use crate::abandoned::Changed;
use crate::call::Call;
use crate::convert;
use crate::dir_attrs::{Asked, Outcome};
use crate::errno::Result;
use crate::name_changes::added;
use crate::ops::PandoFs;
use pandofs_client::{ClientError, Node};
use pandofs_fuse_kernel::{Entry, Errno, FileHandle, OpenFlags, Reply};
use pandofs_types::{Attr, Credentials, Ino, Name};
use std::ffi::OsStr;

impl PandoFs {
    /// Answers with what a name leads to. `found`: the directory and the name, if it was found by
    /// one.
    pub(crate) fn reply_entry(
        &self,
        call: &Call,
        reply: Reply,
        asked: Asked,
        found: Option<(Ino, &Name)>,
        result: Result<Node>,
    ) {
        match result {
            // The kernel knows nothing of it, so that nothing is to be taken back.
            Ok(_) if call.is_answered_early() => reply.error(Errno::EINTR),
            Ok(node) => {
                let attr_timeout = self.believable(&node.attr, asked);
                let attr = convert::file_attr(&node.attr);
                let entry_timeout = match found {
                    Some((dir, name)) => self.entry_timeout(dir, name, Some((node.ino, node.kind))),
                    // An inode found by a handle has no name that the kernel remembers.
                    None => attr_timeout,
                };
                reply.entry(&Entry {
                    attr,
                    attr_timeout,
                    entry_timeout,
                });
            }
            Err(error) => reply.error(error),
        }
    }

    /// A file was made and opened with these flags.
    pub(crate) fn reply_created(
        &self,
        call: &Call,
        reply: Reply,
        flags: OpenFlags,
        found: Option<(Ino, &Name)>,
        result: Result<Attr>,
    ) {
        match result {
            Ok(attr) if call.is_answered_early() => {
                self.close_abandoned(attr.ino);
                reply.error(Errno::EINTR);
            }
            Ok(attr) => {
                let of_attr = self.attr_timeout(&attr);
                self.no_xattrs.learn(&attr, of_attr);
                // One time-out has to do for entry and attributes.
                let timeout = match found {
                    Some((dir, name)) => {
                        of_attr.min(self.entry_timeout(dir, name, Some((attr.ino, attr.kind))))
                    }
                    None => of_attr,
                };
                let handle = self.opened(attr.ino, flags);
                let entry = Entry {
                    attr: convert::file_attr(&attr),
                    attr_timeout: timeout,
                    entry_timeout: timeout,
                };
                reply.created(&entry, handle, self.open_flags(flags));
            }
            Err(error) => reply.error(error),
        }
    }

    /// The number of an open file, different from all others.
    pub(crate) fn opened(&self, ino: Ino, flags: OpenFlags) -> FileHandle {
        let handle = self.open_files.next(flags);
        self.client.open_handle(ino, handle.0);
        handle
    }

    /// Closes a file that was opened for a killed program, without the kernel's knowing, which will
    /// not say that it is closed.
    pub(crate) fn close_abandoned(&self, ino: Ino) {
        if let Err(error) = self.client.release(ino) {
            tracing::error!(%ino, %error, "writes are not reported");
        }
    }

    /// Makes something that is answered with an entry.
    pub(crate) fn make(
        &self,
        call: &Call,
        dir: Ino,
        name: &OsStr,
        reply: Reply,
        ask: impl Fn(&Credentials, Ino, &Name) -> Result<Node, ClientError>,
    ) {
        let asked = self.dir_attrs.ask();
        let name = convert::name(name);
        let result = match &name {
            Ok(name) => call
                .changes(vec![Changed::Name(dir, name.clone())])
                .and_then(|()| self.change(call, dir, added, |c| ask(c, dir, name))),
            Err(error) => Err(*error),
        };
        let found = name.as_ref().ok().map(|name| (dir, name));
        self.reply_entry(call, reply, asked, found, result);
    }

    /// Takes a name away.
    pub(crate) fn remove(
        &self,
        call: &Call,
        dir: Ino,
        name: &OsStr,
        directory: bool,
        reply: Reply,
    ) {
        let result = convert::name(name).and_then(|name| match directory {
            true => self.remove_dir(call, dir, &name),
            false => call
                .changes(vec![Changed::Name(dir, name.clone())])
                .and_then(|()| self.unlink(call, dir, &name)),
        });
        reply.done(result);
    }

    fn unlink(&self, call: &Call, dir: Ino, name: &Name) -> Result<()> {
        let removed = Outcome::Removed { directory: false };
        let outcome = |_: &Ino| removed;
        self.change(call, dir, outcome, |c| self.client.unlink(c, dir, name))
            .map(drop)
    }
}
