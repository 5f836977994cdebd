//! Operations on an inode by its number.

use crate::boottime;
use crate::call::Call;
use crate::cancellation;
use crate::core::Core;
use crate::error::{ClientError, Result};
use crate::file::{File, NO_HANDLE, Token, groups_decide, has_set_id};
use crate::pool::Server;
use crate::route::reply_of;
use crate::space::sparse_layout;
use crate::trace::{Op, Outcome};
use crate::{Client, Node};
use pandofs_api::{EntryReply, InodeReply, Reply, Request, op};
use pandofs_session::Target;
use pandofs_types::{Attr, Credentials, FileKind, FsError, Ino, SetAttr, ShardId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Client {
    /// Attributes. A directory's are gathered from all shards that carry it; a file's count what
    /// this client has written.
    ///
    /// # Errors
    /// `Stale` when there is no such inode.
    pub fn getattr(&self, caller: &Credentials, ino: Ino) -> Result<Attr> {
        self.traced(
            || Op::Getattr { ino },
            |_| Outcome::Done,
            |client| client.get_attr(caller, ino),
        )
    }

    fn get_attr(&self, caller: &Credentials, ino: Ino) -> Result<Attr> {
        let core = self.core();
        let reported = match core.opens.file(ino) {
            Some(file) => core.report(&file, None)?,
            None => None,
        };
        let inode = match reported {
            Some(inode) => inode,
            None => core.inode(caller, ino)?,
        };
        core.attr(caller, inode)
    }

    /// As [`Client::getattr`].
    pub fn node(&self, caller: &Credentials, ino: Ino) -> Result<Node> {
        self.getattr(caller, ino).map(Node::from)
    }

    /// Changes what is `Some` and answers with all attributes. A file that is truncated has lost the
    /// bytes when this returns.
    ///
    /// # Errors
    /// The file system's, `Access` and `NotPermitted` among them.
    pub fn setattr(&self, caller: &Credentials, ino: Ino, set: SetAttr) -> Result<Attr> {
        self.traced(
            || Op::Setattr { ino, set: &set },
            |_| Outcome::Done,
            |client| client.set_attr(caller, ino, set.clone()),
        )
    }

    fn set_attr(&self, caller: &Credentials, ino: Ino, set: SetAttr) -> Result<Attr> {
        let core = self.core();
        core.tell_access(ino);
        let file = core.opens.file(ino);
        if let Some(file) = &file {
            // First: a report that came later would undo a size or a time that is set now.
            core.report(file, None)?;
        }
        let token = file.as_ref().map(|file| file.token());
        let request = Request::SetAttr(op::SetAttr { ino, set });
        let inode = inode_of(core.ask(caller, Target::Inode(ino), request)?)?;
        if let (Some(file), Some(token)) = (&file, token) {
            file.learn(token, &inode);
        }
        core.attr(caller, inode)
    }

    /// Checks whether the caller has all rights in `wanted` (4 read, 2 write, 1 execute or search).
    ///
    /// # Errors
    /// `Access` when not.
    pub fn access(&self, caller: &Credentials, ino: Ino, wanted: u16) -> Result<()> {
        if wanted > 7 {
            return Err(FsError::Invalid.into());
        }
        let attr = self.core().inode(caller, ino)?.attr;
        self.access_by(caller, &attr, wanted)
    }

    /// As [`Client::access`], by attributes that are known.
    pub(crate) fn access_by(&self, caller: &Credentials, attr: &Attr, wanted: u16) -> Result<()> {
        let acl = match attr.has_xattrs {
            true => self.access_acl(attr.ino)?,
            false => None,
        };
        let owned = (attr.mode, attr.uid, attr.gid);
        if caller.may_by_acl(wanted, attr.kind, owned, acl.as_ref()) {
            Ok(())
        } else {
            Err(FsError::Access.into())
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Invalid` when it is none.
    pub fn readlink(&self, caller: &Credentials, ino: Ino) -> Result<Vec<u8>> {
        self.traced(
            || Op::Readlink { ino },
            |_| Outcome::Done,
            |client| client.read_link(caller, ino),
        )
    }

    fn read_link(&self, caller: &Credentials, ino: Ino) -> Result<Vec<u8>> {
        match self.core().ask(
            caller,
            Target::Inode(ino),
            Request::ReadLink(op::ReadLink { ino }),
        )? {
            Reply::Link(target) => Ok(target),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns whether this client has it open.
    pub fn is_open(&self, ino: Ino) -> bool {
        self.core().opens.file(ino).is_some()
    }

    /// Returns whether the groups of a writer decide what becomes of the file's set-id bits, as far
    /// as this client knows: true if it knows nothing of it.
    pub fn groups_decide(&self, ino: Ino) -> bool {
        self.known_mode(ino).is_none_or(groups_decide)
    }

    /// Returns whether the file has set-id bits, as far as this client knows: true if it knows
    /// nothing of it.
    pub fn may_have_set_id(&self, ino: Ino) -> bool {
        self.known_mode(ino).is_none_or(has_set_id)
    }

    /// The permission bits that an open file had in the last answer, or the cached ones.
    fn known_mode(&self, ino: Ino) -> Option<u16> {
        let core = self.core();
        if let Some(file) = core.opens.file(ino) {
            return Some(file.mode());
        }
        let (attr, until) = core.lease_cache.attr(ino)?;
        (until > boottime::now()).then_some(attr.mode)
    }

    /// Returns whether this client has made the file and nobody else has come to know it since.
    pub fn is_own(&self, ino: Ino) -> bool {
        self.core().grants.is_exclusive(ino)
    }

    /// Opens what is there for `access` (4 read, 2 write, 1 execute) and answers with its
    /// attributes. Until it was released as often as it was opened, the inode stays, also without a
    /// name.
    ///
    /// # Errors
    /// `Access` when the caller does not have these rights.
    pub fn open_node(
        &self,
        caller: &Credentials,
        ino: Ino,
        access: u16,
        truncate: bool,
    ) -> Result<Attr> {
        self.open_traced(caller, ino, access, truncate, true)
    }

    /// As [`Client::open_node`], by somebody who has the file's contents if it has not changed.
    ///
    /// # Errors
    /// See there.
    pub fn open_again(
        &self,
        caller: &Credentials,
        ino: Ino,
        access: u16,
        truncate: bool,
    ) -> Result<Attr> {
        self.open_traced(caller, ino, access, truncate, false)
    }

    fn open_traced(
        &self,
        caller: &Credentials,
        ino: Ino,
        access: u16,
        truncate: bool,
        reads: bool,
    ) -> Result<Attr> {
        self.traced(
            || Op::Open { ino, truncate },
            |_| Outcome::Done,
            |client| client.open_inode(caller, ino, access, truncate, reads),
        )
    }

    pub(crate) fn open_inode(
        &self,
        caller: &Credentials,
        ino: Ino,
        access: u16,
        truncate: bool,
        reads: bool,
    ) -> Result<Attr> {
        let core = self.core();
        let before = core.opens.file(ino);
        if truncate && let Some(file) = &before {
            // First: a report that came later would bring the size back.
            core.report(file, None)?;
        }
        let token = before.map_or(Token::default(), |file| file.token());
        let request = Request::Open(op::Open {
            ino,
            access,
            truncate,
            data: reads && core.brings(ino, access, truncate),
        });
        let mut call = Call::shard(Target::Inode(ino), caller, request);
        let mut inode = inode_of(core.ask_call(&mut call)?)?;
        let place = match call.answered_by {
            Some(_) => (call.asked_shard(), true),
            None => (core.inodes.shard_of(ino), false),
        };
        let file = core.opened(&call, place, &inode, token);
        if call.answered_by.is_some() {
            core.take_brought(&file, &mut inode);
        }
        core.attr(caller, inode)
    }

    /// Closes what was opened once. The last close reports what was written; the shard learns of
    /// the close a little later.
    ///
    /// # Errors
    /// Those of [`Client::flush`]; it is closed all the same.
    ///
    /// # Panics
    /// When it is not open.
    pub fn release(&self, ino: Ino) -> Result<()> {
        self.core().release(ino)
    }

    /// Reports sizes and times of what this client has written to the file's data objects, so that
    /// all clients see them.
    ///
    /// # Errors
    /// The file system's. Writes that could not be reported stay to be reported. Those of writes
    /// that were answered before ([`Client::write_behind`]).
    pub fn flush(&self, ino: Ino) -> Result<()> {
        self.report_written(ino)?;
        match self.core().opens.file(ino) {
            Some(file) => file.take_failure(NO_HANDLE),
            None => Ok(()),
        }
    }

    /// As [`Client::flush`], for losses while this open file was open. They stay to be reported by
    /// [`Client::fsync_through`]: a descriptor of an open file is closed by each program that has inherited it.
    ///
    /// # Errors
    /// See there.
    pub fn flush_through(&self, ino: Ino, handle: u64) -> Result<()> {
        self.report_written(ino)?;
        match self.core().opens.file(ino) {
            Some(file) => file.look_for_failure(handle),
            None => Ok(()),
        }
    }

    /// As [`Client::flush`] for a caller that passes no result on: losses are still to be reported.
    ///
    /// # Errors
    /// The file system's.
    pub fn report_written(&self, ino: Ino) -> Result<()> {
        let Some(file) = self.core().opens.file(ino) else {
            return Ok(());
        };
        self.core().report(&file, None)?;
        file.stay.check()
    }

    /// Says that what was opened last is used under this number from now on, until
    /// [`Client::unlock_handle`]: through each open file gets one error if an acknowledged change
    /// is lost.
    pub fn open_handle(&self, ino: Ino, handle: u64) {
        if let Some(file) = self.core().opens.file(ino) {
            file.open_handle(handle);
        }
    }
}

impl Core {
    /// As [`Client::release`].
    pub(crate) fn release(&self, ino: Ino) -> Result<()> {
        let file = self.opens.file(ino);
        let is_last = self.opens.count(ino).is_some_and(|(count, _)| count == 1);
        // It is not reported later.
        let report = |file: &Option<Arc<File>>| match file {
            Some(file) if is_last => {
                cancellation::suppressed(|| self.report(file, None)).map(|_| ())
            }
            _ => Ok(()),
        };
        let reported = report(&file);
        assert!(
            self.opens.release(ino),
            "inode {ino} was released and is not open"
        );
        // Once more: there may be a write in between. The file cannot be found any more now.
        let reported = reported.and_then(|()| report(&file));
        if is_last {
            self.lease_cache.forget_write_lease(ino);
        }
        reported
    }

    /// The answer of the inode's shard about it, alone.
    pub(crate) fn inode(&self, caller: &Credentials, ino: Ino) -> Result<InodeReply> {
        let call = Call::shard(
            Target::Inode(ino),
            caller,
            Request::GetAttr(op::GetAttr { ino }),
        );
        self.inode_by(call, ino)
    }

    /// The same, asked now: with what leases say nothing of, a directory's map.
    pub(crate) fn inode_now(&self, caller: &Credentials, ino: Ino) -> Result<InodeReply> {
        let call = Call::shard(
            Target::Inode(ino),
            caller,
            Request::GetAttr(op::GetAttr { ino }),
        );
        self.inode_by(call.afresh(), ino)
    }

    fn inode_by(&self, mut call: Call, ino: Ino) -> Result<InodeReply> {
        let file = self.opens.file(ino);
        let token = file.as_ref().map(|file| file.token());
        let inode = inode_of(self.ask_call(&mut call)?)?;
        if let (Some(file), Some(token)) = (&file, token) {
            file.learn(token, &inode);
        }
        Ok(inode)
    }

    /// The attributes in a shard's answer, completed by what other shards and this client know.
    pub(crate) fn attr(&self, caller: &Credentials, inode: InodeReply) -> Result<Attr> {
        let sparse = sparse_layout(&inode);
        let mut attr = inode.attr;
        if let Some(dir) = inode.dir {
            self.maps.correct(attr.ino, &dir.map);
            self.gather(caller, vec![(&mut attr, dir.map)]).remove(0)?;
        } else if let Some(layout) = sparse {
            self.count_blocks(&mut [(&mut attr, layout)]);
        }
        self.correct(&mut attr);
        Ok(attr)
    }

    /// Counts what this client has written and read and the shard does not know yet.
    pub(crate) fn correct(&self, attr: &mut Attr) {
        if attr.kind == FileKind::File
            && let Some(file) = self.opens.file(attr.ino)
        {
            file.correct(attr);
        }
        self.accesses.correct(attr);
    }

    /// Learns where a name's inode is.
    pub(crate) fn learn_entry(&self, ino: Ino, shard: ShardId, is_here: bool) {
        if is_here {
            self.learn_shard(ino, shard);
        } else if self.inodes.shard_of(ino) == ino.birth_shard() {
            // The entry's word for it may be older than what is known already.
            self.inodes.learn(ino, shard);
        }
    }

    /// The object that a name was found to lead to.
    pub(crate) fn node(&self, caller: &Credentials, entry: EntryReply) -> Result<Node> {
        self.learn_entry(entry.ino, entry.shard, entry.inode.is_some());
        let inode = match entry.inode {
            Some(inode) => inode,
            None => self.inode(caller, entry.ino)?,
        };
        self.attr(caller, inode).map(Node::from)
    }

    /// Counts an open that the shard has granted in answer to `call`, or the deputy; `is_told`: a shard counts it or will.
    pub(crate) fn opened(
        &self,
        call: &Call,
        (shard, is_told): (ShardId, bool),
        inode: &InodeReply,
        token: Token,
    ) -> Arc<File> {
        let ino = inode.attr.ino;
        let mut is_new = false;
        let file = self.opens.opened(ino, shard, is_told, || {
            is_new = true;
            File::new(ino, inode)
        });
        match is_new {
            true => file.stay.be_sure(self.lapses.load(Ordering::SeqCst)),
            false => file.learn(token, inode),
        }
        let Some((server, registration)) = &call.answered_by else {
            return file;
        };
        // Granted by a process that is gone, and not among what was registered with the next one;
        // or granted before, and now only answered again by a process that does not know it.
        let is_lost = server.registrations.load(Ordering::SeqCst) != *registration;
        let may_be_lost = call.progress.is_resent() && call.is_mutation();
        if is_lost || may_be_lost {
            file.stay.doubt();
            self.register_one(ino);
        }
        file
    }

    /// Returns how often anything was registered with any server, in all.
    pub(crate) fn registrations(&self) -> u64 {
        let cluster = self.clusters.current();
        let of = |server: &Arc<Server>| server.registrations.load(Ordering::SeqCst);
        cluster.servers().map(of).sum()
    }

    /// A branch file was opened where it was made, not by the server that answered. That server may
    /// have been restarted since without this client's hearing of it, now or later: a server with
    /// which nothing was ever registered is one that this client has no connection to, and is
    /// registered there.
    pub(crate) fn opened_elsewhere(&self, call: &Call, entry: &EntryReply, before: u64) {
        let cluster = self.clusters.current();
        let Some(there) = cluster.leader(entry.shard) else {
            return;
        };
        let answered_by = call.answered_by.as_ref().map(|(server, _)| server.id);
        if answered_by != Some(there.id)
            && (there.registrations.load(Ordering::SeqCst) == 0 || self.registrations() != before)
        {
            self.register_one(entry.ino);
        }
    }

    fn register_one(&self, ino: Ino) {
        let Some((times, shard)) = self.opens.to_register(ino) else {
            return;
        };
        let request = Request::Reopen(op::Reopen {
            opens: vec![(ino, times)],
        });
        if let Err(error) = self.ask(&Credentials::ROOT, Target::Shard(shard), request) {
            let error = ClientError::from(error);
            tracing::warn!("inode {ino} is open, which shard {shard} may not have: {error}");
        }
    }

    /// Reports to the inode's shard what was written to the data objects, if there is anything;
    /// then answers with what the shard said. With `patience` it is left for later when it takes
    /// longer.
    pub(crate) fn report(
        &self,
        file: &File,
        patience: Option<Duration>,
    ) -> Result<Option<InodeReply>> {
        // Later means when it is closed, unless nobody is to be asked for it.
        if patience.is_none() || self.grants.exclusive(file.ino).is_some() {
            self.write_out(file)?;
        }
        if patience.is_none() {
            // Writes under way, too. A report that may be left for later does not wait for writes
            // that may never cease.
            file.await_write_behind(&(0..u64::MAX))?;
        }
        let one_at_a_time = match patience {
            None => Some(file.flushing()?),
            Some(_) => file.try_flushing(),
        };
        if one_at_a_time.is_none() {
            return Ok(None);
        }
        let Some(report) = file.pending() else {
            return Ok(None);
        };
        let token = file.token();
        let request = Request::WroteData(op::WroteData {
            ino: file.ino,
            start: report.start,
            end: report.end,
            mtime: report.mtime,
            sparse: report.sparse,
            truncations: report.truncations,
        });
        let call = Call::shard(Target::Inode(file.ino), &report.caller, request);
        match self
            .ask_call(&mut call.within(patience))
            .map_err(ClientError::from)
        {
            Ok(reply) => {
                let inode = inode_of(reply)?;
                file.reported(&report);
                file.learn(token, &inode);
                Ok(Some(inode))
            }
            Err(error) if error.is_gone() => {
                // The file is removed, and with it what was written.
                file.reported(&report);
                self.note_gone(file, &Err::<(), _>(error));
                file.stay.check().map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    /// At the end of the session: these are not asked for any more.
    pub(crate) fn report_all(&self) {
        for file in self.opens.unreported(Instant::now()) {
            if let Err(error) = self.report(&file, None) {
                tracing::error!("writes to inode {} are not reported: {error}", file.ino);
            }
        }
    }

    /// Asks for attributes of several inodes at once.
    pub(crate) fn inodes(&self, caller: &Credentials, inos: &[Ino]) -> Vec<Result<InodeReply>> {
        let ask = |&ino| {
            Call::shard(
                Target::Inode(ino),
                caller,
                Request::GetAttr(op::GetAttr { ino }),
            )
        };
        let mut calls: Vec<Call> = inos.iter().map(ask).collect();
        let answers = self.run_all(&mut calls);
        answers
            .into_iter()
            .map(|answer| inode_of(reply_of(answer?)?))
            .collect()
    }

    /// A request answered with `Done`.
    pub(crate) fn ask_done(
        &self,
        caller: &Credentials,
        target: Target,
        request: Request,
    ) -> Result<()> {
        match self.ask(caller, target, request)? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }
}

pub(crate) fn inode_of(reply: Reply) -> Result<InodeReply> {
    match reply {
        Reply::Inode(inode) => Ok(inode),
        other => Err(unexpected(&other)),
    }
}

pub(crate) fn unexpected(reply: &Reply) -> ClientError {
    ClientError::Protocol(format!(
        "a shard gave an answer of the wrong kind: {reply:?}"
    ))
}
