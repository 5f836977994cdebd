//! Appending: the inode's shard says where the file ends.

use crate::Client;
use crate::core::Core;
use crate::data::{check_layout, now, out_of_step, write_calls, written};
use crate::error::Result;
use crate::file::{Body, File, Written};
use crate::inodes::inode_of;
use crate::trace::Outcome;
use pandofs_api::{Request, op};
use pandofs_session::Target;
use pandofs_types::limits::MAX_FILE_BYTES;
use pandofs_types::{Credentials, FsError, Ino};

impl Client {
    /// Writes all of `data` at the file's end in one piece, and answers where that was: what others
    /// append at the same time, from here or elsewhere, stands before it or after it. Bytes that
    /// another client wrote beyond the end and has not reported yet do not count.
    ///
    /// # Errors
    /// `Invalid` for what is no file; `FileTooBig`; `NoSpace`, after which the file may have become
    /// longer by zeros.
    pub fn append(&self, caller: &Credentials, ino: Ino, data: &[u8]) -> Result<u64> {
        self.traced(
            || written(ino, None, data),
            |&offset| Outcome::Offset(offset),
            |client| {
                let core = client.core();
                core.with_file(caller, ino, |file| core.append(caller, file, data))
            },
        )
    }
}

impl Core {
    fn append(&self, caller: &Credentials, file: &File, data: &[u8]) -> Result<u64> {
        if data.is_empty() {
            return Ok(file.snapshot().end);
        }
        if data.len() as u64 > MAX_FILE_BYTES {
            return Err(FsError::FileTooBig.into());
        }
        // The shard is to know of all that was written here before.
        self.write_out(file)?;
        if file.has_unknown_writes() {
            self.report(file, None)?;
        }
        loop {
            match file.snapshot().body {
                Body::None => return Err(FsError::Invalid.into()),
                Body::Inline(layout) if data.len() as u64 <= self.inline_limit(&layout) => {
                    if let Some(offset) = self.append_inline(caller, file, data)? {
                        return Ok(offset);
                    }
                }
                Body::Inline(_) => self.stripe(caller, file)?,
                Body::Striped(layout) => {
                    check_layout(&layout)?;
                    let _alone = file.appending()?;
                    let token = file.token();
                    let length = data.len() as u64;
                    let request = Request::Extend(op::Extend {
                        ino: file.ino,
                        length,
                    });
                    let inode = inode_of(self.ask(caller, Target::Inode(file.ino), request)?)?;
                    file.learn(token, &inode);
                    let end = inode.attr.size;
                    let offset = end.saturating_sub(length);
                    let calls = write_calls(file.ino, &layout, inode.truncations, offset, data);
                    if let Some(others) = self.try_objects(calls)? {
                        // The file was truncated between the two, and ends elsewhere now.
                        if self.followed(caller, file)? == inode.truncations {
                            return Err(out_of_step(file.ino, inode.truncations, others));
                        }
                        continue;
                    }
                    // Again, after the data: another mount that has read the zeros drops them when
                    // it sees a later time.
                    file.wrote(
                        Written::Granted(offset..end),
                        inode.truncations,
                        now(),
                        caller,
                    );
                    return Ok(offset);
                }
            }
        }
    }

    /// `None` when the file is striped now.
    fn append_inline(&self, caller: &Credentials, file: &File, data: &[u8]) -> Result<Option<u64>> {
        let token = file.token();
        let request = Request::AppendInline(op::AppendInline {
            ino: file.ino,
            data: data.to_vec(),
        });
        match self.ask(caller, Target::Inode(file.ino), request) {
            Ok(reply) => {
                let inode = inode_of(reply)?;
                file.learn(token, &inode);
                Ok(Some(inode.attr.size.saturating_sub(data.len() as u64)))
            }
            Err(failure) => self.out_of_inode(caller, file, failure).map(|()| None),
        }
    }
}
