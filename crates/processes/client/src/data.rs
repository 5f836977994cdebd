//! Reading and writing files: beside their inodes while they are small, in data objects striped
//! over servers when they are not.
//!
//! Rights were checked when the file was opened. A file may also be read and written without having
//! been opened; nothing of it is then remembered, and what was written is reported at once.

use crate::Client;
use crate::boottime;
use crate::call::Call;
use crate::cancellation;
use crate::core::Core;
use crate::error::{ClientError, Failure, Result};
use crate::file::{Body, File, NO_HANDLE, Snapshot, Written};
use crate::inodes::inode_of;
use crate::route::reply_of;
use crate::stripes::{Run, gather, runs, scatter};
use crate::trace::{Op, Outcome};
use pandofs_api::{DataReply, DataRequest, FileBody, Layout, Request, op};
use pandofs_session::{Begun, Hold, ObjectChange, Target};
use pandofs_types::limits::{MAX_FILE_BYTES, MIN_WRITE_BEHIND_BYTES};
use pandofs_types::{Credentials, FsError, Ino, Time};
use pandofs_wire::message::AnswerBody;
use std::time::{SystemTime, UNIX_EPOCH};

impl Client {
    /// At most `length` bytes from `offset` on, fewer only where the file ends. Holes read as
    /// zeros.
    ///
    /// # Errors
    /// `Invalid` for what is no file; `Stale` when there is no such inode.
    pub fn read(
        &self,
        caller: &Credentials,
        ino: Ino,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>> {
        let bytes = length;
        self.traced(
            || Op::Read { ino, offset, bytes },
            |_| Outcome::Done,
            |client| {
                let core = client.core();
                core.with_file(caller, ino, |file| core.read(caller, file, offset, length))
            },
        )
    }

    /// Writes all of `data` at `offset`. This client sees bytes in data objects at once, and others
    /// their length after [`Client::flush`].
    ///
    /// # Errors
    /// `Invalid` for what is no file; `FileTooBig`; `NoSpace`. After an error part of it may have
    /// been written.
    pub fn write(&self, caller: &Credentials, ino: Ino, offset: u64, data: &[u8]) -> Result<()> {
        self.traced(
            || written(ino, Some(offset), data),
            |()| Outcome::Done,
            |client| {
                let core = client.core();
                core.with_file(caller, ino, |file| core.write(caller, file, offset, data))
            },
        )
    }

    /// As [`Client::write`], but `answer` is called as soon as nothing is left to be found out but
    /// what only the servers can say, and the rest is done on this thread afterwards. Until it is
    /// done this client knows of the write in all that it answers; [`Client::flush`] and
    /// [`Client::fsync`] wait for it, and through each [open file](Client::open_handle) the first
    /// of them, or of further writes, gets its error if it failed.
    ///
    /// # Errors
    /// Errors after it was answered; earlier ones `answer` gets.
    pub fn write_behind(
        &self,
        caller: &Credentials,
        ino: Ino,
        handle: u64,
        offset: u64,
        data: &[u8],
        answer: impl FnOnce(Result<()>),
    ) -> Result<()> {
        // For its caller it has ended when it is answered.
        let span = self.span();
        let answer = |result: Result<()>| {
            if let Some(span) = span {
                let outcome = result.as_ref().map(|()| Outcome::Done);
                span.ended(
                    written(ino, Some(offset), data),
                    outcome.map_err(|error| error.errno()),
                );
            }
            answer(result);
        };
        let core = self.core();
        let Some(file) = core.opens.file(ino) else {
            answer(core.with_file(caller, ino, |file| core.write(caller, file, offset, data)));
            return Ok(());
        };
        if let Err(failure) = file.take_failure(handle) {
            answer(Err(failure));
            return Ok(());
        }
        if let Err(failure) = core.still_there(&file) {
            answer(Err(failure));
            return Ok(());
        }
        match core.begin_write_behind(caller, &file, offset, data) {
            Some((layout, hold)) => {
                answer(Ok(()));
                cancellation::suppressed(|| {
                    core.finish_write_behind(&file, &layout, hold, offset, data)
                })
            }
            None => {
                answer(core.with_file(caller, ino, |file| core.write(caller, file, offset, data)));
                Ok(())
            }
        }
    }

    /// Syncs to disk all of the file that was acknowledged to this client: its data, its size and
    /// all else.
    ///
    /// # Errors
    /// `Stale` when there is no such inode; those of writes that were answered before; `Io`, once,
    /// when a server's machine has lost some of it. A caller that has opened the file under a
    /// [number](Client::open_handle) uses [`Client::fsync_through`]; all others count as one.
    pub fn fsync(&self, caller: &Credentials, ino: Ino) -> Result<()> {
        self.fsync_through(caller, ino, NO_HANDLE)
    }

    /// As [`Client::fsync`], through this open file, which gets one error for all losses while it
    /// was open, whichever others got it.
    ///
    /// # Errors
    /// See there.
    pub fn fsync_through(&self, caller: &Credentials, ino: Ino, handle: u64) -> Result<()> {
        let core = self.core();
        core.with_file(caller, ino, |file| core.sync(caller, file, handle))
    }
}

/// The operation of this write.
pub(crate) fn written(ino: Ino, offset: Option<u64>, data: &[u8]) -> Op<'static> {
    let bytes = data.len();
    Op::Write { ino, offset, bytes }
}

impl Core {
    /// Bytes up to which a file with this layout is kept beside its inode.
    pub(crate) fn inline_limit(&self, layout: &Layout) -> u64 {
        u64::from(self.inline_bytes.min(layout.unit))
    }

    pub(crate) fn with_file<T>(
        &self,
        caller: &Credentials,
        ino: Ino,
        work: impl FnOnce(&File) -> Result<T>,
    ) -> Result<T> {
        if let Some(file) = self.opens.file(ino) {
            self.still_there(&file)?;
            let done = work(&file);
            self.note_gone(&file, &done);
            // A server may have said meanwhile that it does not know the file any more.
            self.still_there(&file)?;
            return done;
        }
        let file = File::new(ino, &self.inode(caller, ino)?);
        let done = work(&file);
        let reported = self.report(&file, None);
        self.lease_cache.forget_write_lease(ino);
        let done = done?;
        reported?;
        Ok(done)
    }

    fn read(
        &self,
        caller: &Credentials,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>> {
        if length == 0 || offset >= MAX_FILE_BYTES {
            return Ok(Vec::new());
        }
        self.write_out(file)?;
        file.await_write_behind(&(offset..offset.saturating_add(length as u64)))?;
        let _no_gaps = file.reading()?;
        loop {
            let known = file.snapshot();
            match known.body {
                Body::None => return Err(FsError::Invalid.into()),
                Body::Inline(_) => {
                    if let Some(data) = self.read_inline(caller, file, offset, length)? {
                        return Ok(data);
                    }
                }
                Body::Striped(layout) => {
                    if let Some(data) =
                        self.read_striped(caller, file, &layout, &known, offset, length)?
                    {
                        return Ok(data);
                    }
                }
            }
        }
    }

    /// `None` when the file turned out to be striped.
    fn read_inline(
        &self,
        caller: &Credentials,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Result<Option<Vec<u8>>> {
        if let Some(range) = self.read_brought(file, offset, length) {
            return Ok(Some(range));
        }
        let token = file.token();
        let request = Request::ReadInline(op::ReadInline { ino: file.ino });
        let inode = inode_of(self.ask(caller, Target::Inode(file.ino), request)?)?;
        file.learn(token, &inode);
        match inode.body {
            FileBody::Inline { data, .. } => {
                Ok(Some(inline_range(&data, inode.attr.size, offset, length)))
            }
            FileBody::Striped(layout) | FileBody::Sparse(layout) => {
                file.striped(layout);
                Ok(None)
            }
            FileBody::None => Err(FsError::Invalid.into()),
        }
    }

    /// `None` when the file turned out to have another length: bytes that were missing may be there
    /// now, or were never to be there.
    fn read_striped(
        &self,
        caller: &Credentials,
        file: &File,
        layout: &Layout,
        known: &Snapshot,
        offset: u64,
        length: usize,
    ) -> Result<Option<Vec<u8>>> {
        check_layout(layout)?;
        let wanted_end = offset.saturating_add(length as u64);
        let within = known.end.min(wanted_end).saturating_sub(offset) as usize;
        let runs = runs(layout, offset, within);
        let read = |run: &Run| {
            let length = run.length as u32;
            Call::data(
                run.server,
                DataRequest::Read {
                    ino: file.ino,
                    offset: run.offset,
                    length,
                },
            )
        };
        let mut calls: Vec<Call> = runs.iter().map(read).collect();
        // Somebody else may have made the file longer.
        let ask_size = !known.certain || wanted_end > known.end;
        if ask_size {
            let request = Request::GetAttr(op::GetAttr { ino: file.ino });
            calls.push(Call::shard(Target::Inode(file.ino), caller, request));
        }
        let mut answers = self.run_all(&mut calls);
        let mut end = known.end;
        if ask_size && let Some(answer) = answers.pop() {
            file.learn(known.token, &inode_of(reply_of(answer?)?)?);
            end = file.snapshot().end;
            if end > known.end && wanted_end > known.end {
                return Ok(None);
            }
        }
        if !ask_size && are_short(&runs, &answers) {
            // Either there is a hole, or another client has cut the file off: what is cut off is
            // missing in the data objects before its caller has the answer.
            let request = Request::GetAttr(op::GetAttr { ino: file.ino });
            let inode = self.ask(caller, Target::Inode(file.ino), request)?;
            file.learn(known.token, &inode_of(inode)?);
            let now = file.snapshot();
            if now.end != known.end || !now.certain {
                return Ok(None);
            }
        }
        let mut data = assemble(&runs, answers, within)?;
        data.truncate(end.saturating_sub(offset).min(within as u64) as usize);
        Ok(Some(data))
    }

    fn write(&self, caller: &Credentials, file: &File, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset
            .checked_add(data.len() as u64)
            .filter(|&end| end <= MAX_FILE_BYTES);
        if end.is_none() {
            return Err(FsError::FileTooBig.into());
        }
        if data.is_empty() {
            return Ok(());
        }
        if self.keep(caller, file, offset, data) {
            return Ok(());
        }
        self.write_out(file)?;
        self.write_to(caller, file, offset, data)
    }

    /// As [`Core::write`], without the first bytes of new files.
    pub(crate) fn write_to(
        &self,
        caller: &Credentials,
        file: &File,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let end = offset.saturating_add(data.len() as u64);
        file.await_write_behind(&(offset..end))?;
        loop {
            match file.snapshot().body {
                Body::None => return Err(FsError::Invalid.into()),
                Body::Inline(layout) if end <= self.inline_limit(&layout) => {
                    if self.write_inline(caller, file, offset, data)? {
                        return Ok(());
                    }
                }
                Body::Inline(_) => self.stripe(caller, file)?,
                Body::Striped(layout) => {
                    let calls =
                        |truncations| write_calls(file.ino, &layout, truncations, offset, data);
                    let truncations = self.change_objects(caller, file, &layout, calls)?;
                    file.wrote(Written::Bytes(offset..end), truncations, now(), caller);
                    return Ok(());
                }
            }
        }
    }

    /// A lease of the inode's attributes under which a write may be answered early, if there is one
    /// to be had (the write leases of `pandofs_session` say what for).
    fn hold(&self, caller: &Credentials, file: &File) -> Option<Hold> {
        let mut has_asked = false;
        loop {
            let now = boottime::now();
            match self.lease_cache.begin_write(file.ino, now) {
                Begun::Held(hold) => return Some(hold),
                Begun::Without => return None,
                Begun::Ask if has_asked => {
                    self.lease_cache.asked_in_vain(file.ino, now);
                    return None;
                }
                Begun::Ask => has_asked = true,
            }
            let token = file.token();
            let request = Request::GetAttr(op::GetAttr { ino: file.ino });
            let reply = self.ask(caller, Target::Inode(file.ino), request);
            let inode = inode_of(reply.ok()?).ok()?;
            file.learn(token, &inode);
        }
    }

    /// Begins to write something that is answered before the servers have it, if that may be: the
    /// layout of the file, and the lease under which it is written.
    fn begin_write_behind(
        &self,
        caller: &Credentials,
        file: &File,
        offset: u64,
        data: &[u8],
    ) -> Option<(Layout, Hold)> {
        let end = offset.checked_add(data.len() as u64)?;
        let Body::Striped(layout) = file.snapshot().body else {
            return None;
        };
        let may_be = end <= MAX_FILE_BYTES && layout.is_valid();
        if !may_be || data.len() < MIN_WRITE_BEHIND_BYTES || !self.write_behind.begin() {
            return None;
        }
        let Some(hold) = self.hold(caller, file) else {
            self.write_behind.end(true);
            return None;
        };
        // An error that is not waited for here is reported by the write that is not answered early.
        if let Ok(true) = file.begin_write_behind(offset..end, now(), caller) {
            return Some((layout, hold));
        }
        self.lease_cache.end_write(file.ino, hold);
        self.write_behind.end(true);
        None
    }

    fn finish_write_behind(
        &self,
        file: &File,
        layout: &Layout,
        hold: Hold,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let truncations = hold.truncations;
        let calls = write_calls(file.ino, layout, truncations, offset, data);
        let written = match self.try_objects(calls) {
            Ok(None) => Ok(()),
            // It was answered before that truncation, and it is unknown what of it would be left.
            Ok(Some(_)) => {
                let ino = file.ino;
                tracing::error!(
                    "bytes {offset} to {} of inode {ino} are lost: it took too long to write them, and the file was cut \
                     meanwhile",
                    offset + data.len() as u64 - 1
                );
                Err(FsError::Io.into())
            }
            Err(error) => Err(error),
        };
        let written = written.and_then(|()| self.still_there(file));
        self.lease_cache.end_write(file.ino, hold);
        self.write_behind.end(written.is_ok());
        file.end_write_behind(offset, written.clone().map(|()| truncations));
        written
    }

    /// False when the file is striped now.
    fn write_inline(
        &self,
        caller: &Credentials,
        file: &File,
        offset: u64,
        data: &[u8],
    ) -> Result<bool> {
        let token = file.token();
        let request = Request::WriteInline(op::WriteInline {
            ino: file.ino,
            offset,
            data: data.to_vec(),
        });
        match self.ask(caller, Target::Inode(file.ino), request) {
            Ok(reply) => {
                file.learn(token, &inode_of(reply)?);
                Ok(true)
            }
            Err(failure) => self.out_of_inode(caller, file, failure).map(|()| false),
        }
    }

    /// A request about what the inode holds has failed. If that is because the file is or has to be
    /// striped, then it is striped when this returns.
    pub(crate) fn out_of_inode(
        &self,
        caller: &Credentials,
        file: &File,
        failure: Failure,
    ) -> Result<()> {
        match failure {
            Failure::NotInline {
                layout,
                striped: true,
            } => {
                file.striped(layout);
                Ok(())
            }
            Failure::NotInline { striped: false, .. } => self.stripe(caller, file),
            failure => Err(failure.into()),
        }
    }

    /// Has the shard move the file's bytes from its inode to a data object.
    pub(crate) fn stripe(&self, caller: &Credentials, file: &File) -> Result<()> {
        let token = file.token();
        let request = Request::Stripe(op::Stripe { ino: file.ino });
        let inode = inode_of(self.ask(caller, Target::Inode(file.ino), request)?)?;
        file.learn(token, &inode);
        match inode.body {
            FileBody::Striped(layout) | FileBody::Sparse(layout) => file.striped(layout),
            _ => {
                return Err(ClientError::Protocol("a file stayed inline".to_string()));
            }
        }
        Ok(())
    }

    /// Has data objects changed by `calls`, which go by the number of truncations that they are given,
    /// until all of them go by the same one as the objects; which that is. If one of them has to be
    /// repeated all are: a truncation comes before the whole change or after it.
    ///
    /// # Errors
    /// `Io` when the objects have followed another number of truncations than the inode's shard knows of:
    /// a disk has forgotten what was synced.
    pub(crate) fn change_objects<'d>(
        &self,
        caller: &Credentials,
        file: &File,
        layout: &Layout,
        calls: impl Fn(u32) -> Vec<Call<'d>>,
    ) -> Result<u32> {
        check_layout(layout)?;
        let mut change = ObjectChange::new(file.snapshot().truncations);
        loop {
            if let Some(others) = self.try_objects(calls(change.truncations()))? {
                change.refused(others);
            }
            if change.is_made() {
                return Ok(change.truncations());
            }
            let now = self.followed(caller, file)?;
            let again = change.begin_again(now);
            again.map_err(|out| out_of_step(file.ino, out.truncations, out.followed))?;
        }
    }

    /// Returns how often the file was truncated, once its data objects have followed.
    pub(crate) fn followed(&self, caller: &Credentials, file: &File) -> Result<u32> {
        let token = file.token();
        let request = Request::Followed(op::Followed { ino: file.ino });
        let inode = inode_of(self.ask(caller, Target::Inode(file.ino), request)?)?;
        file.learn(token, &inode);
        Ok(inode.truncations)
    }

    /// Has data objects changed: none when that is done, or the number of truncations that one of them has
    /// followed if that is another one than the calls go by.
    pub(crate) fn try_objects(&self, mut calls: Vec<Call<'_>>) -> Result<Option<u32>> {
        let mut others = None;
        for answer in self.run_all(&mut calls) {
            match answer? {
                AnswerBody::Data(DataReply::Done) => {}
                AnswerBody::Data(DataReply::OtherTruncations { truncations }) => {
                    others = Some(truncations)
                }
                other => return Err(not_about_data(&other)),
            }
        }
        Ok(others)
    }

    fn sync(&self, caller: &Credentials, file: &File, handle: u64) -> Result<()> {
        // Before the shard syncs: the size belongs to that.
        self.report(file, None)?;
        let mut objects = Vec::new();
        if let Body::Striped(layout) = file.snapshot().body {
            check_layout(&layout)?;
            objects.extend(layout.servers());
        }
        let shard = self.inodes.shard_of(file.ino);
        match self.sync_at(caller, file.ino, objects, vec![shard], |lost| {
            file.fail(lost)
        }) {
            Err(error @ ClientError::Fs(_)) => file.fail(error),
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        file.take_failure(handle)
    }
}

/// Writes `data` to data objects that have followed so many truncations.
pub(crate) fn write_calls<'d>(
    ino: Ino,
    layout: &Layout,
    truncations: u32,
    offset: u64,
    data: &'d [u8],
) -> Vec<Call<'d>> {
    let write =
        |run: &Run| Call::write(run.server, ino, truncations, run.offset, gather(run, data));
    runs(layout, offset, data.len()).iter().map(write).collect()
}

/// The shard and a data object contradict one another.
pub(crate) fn out_of_step(ino: Ino, truncations: u32, followed: u32) -> ClientError {
    tracing::error!(
        "inode {ino} was cut {truncations} times and one of its data objects has followed {followed} truncations: a disk has \
         forgotten what was synced; give the file its size once more (truncate), or write it anew"
    );
    FsError::Io.into()
}

/// The range of a file kept inline, which may be longer than the bytes it has there.
pub(crate) fn inline_range(data: &[u8], size: u64, offset: u64, length: usize) -> Vec<u8> {
    let end = size.min(offset.saturating_add(length as u64));
    if offset >= end {
        return Vec::new();
    }
    let mut range = Vec::with_capacity((end - offset) as usize);
    if let Some(data) = usize::try_from(offset)
        .ok()
        .and_then(|offset| data.get(offset..))
    {
        range.extend_from_slice(&data[..data.len().min((end - offset) as usize)]);
    }
    range.resize((end - offset) as usize, 0);
    range
}

/// Returns whether a data object ends before what was asked of it.
fn are_short(runs: &[Run], answers: &[std::result::Result<AnswerBody, Failure>]) -> bool {
    runs.iter().zip(answers).any(|(run, answer)| {
        matches!(answer, Ok(AnswerBody::Data(DataReply::Data(bytes))) if bytes.len() < run.length)
    })
}

/// The bytes of the data objects, in the order of the file; those that they do not have are a hole.
fn assemble(
    runs: &[Run],
    answers: Vec<std::result::Result<AnswerBody, Failure>>,
    length: usize,
) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    for (run, answer) in runs.iter().zip(answers) {
        let mut bytes = bytes_of(answer?, run)?;
        if run.length == length {
            // It is all of it: nothing to copy.
            bytes.resize(length, 0);
            return Ok(bytes);
        }
        data.resize(length, 0);
        scatter(run, &bytes, &mut data);
    }
    Ok(data)
}

fn bytes_of(answer: AnswerBody, run: &Run) -> Result<Vec<u8>> {
    match answer {
        AnswerBody::Data(DataReply::Data(bytes)) if bytes.len() <= run.length => Ok(bytes),
        AnswerBody::Data(DataReply::Data(bytes)) => Err(ClientError::Protocol(format!(
            "server {} gave {} bytes where {} were asked for",
            run.server,
            bytes.len(),
            run.length
        ))),
        other => Err(not_about_data(&other)),
    }
}

pub(crate) fn expect_done(answer: std::result::Result<AnswerBody, Failure>) -> Result<()> {
    match answer? {
        AnswerBody::Data(DataReply::Done) => Ok(()),
        other => Err(not_about_data(&other)),
    }
}

pub(crate) fn not_about_data(answer: &AnswerBody) -> ClientError {
    ClientError::Protocol(format!(
        "a server answered a request for data with {answer:?}"
    ))
}

pub(crate) fn check_layout(layout: &Layout) -> Result<()> {
    if layout.is_valid() {
        Ok(())
    } else {
        Err(ClientError::Protocol(format!(
            "a file has an impossible layout: {layout:?}"
        )))
    }
}

pub(crate) fn now() -> Time {
    let nanoseconds = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |n| -n),
    };
    Time(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_an_inline_file_ends_where_the_file_does() {
        let data = b"pando";
        assert_eq!(inline_range(data, 5, 0, 100), b"pando");
        assert_eq!(inline_range(data, 5, 2, 2), b"nd");
        assert_eq!(inline_range(data, 5, 5, 2), b"");
        assert_eq!(inline_range(data, 5, u64::MAX, 2), b"");
        // Cut to a larger size: a hole.
        assert_eq!(inline_range(data, 8, 3, 100), b"do\0\0\0");
        assert_eq!(inline_range(data, 100, 50, 3), [0; 3]);
    }
}
