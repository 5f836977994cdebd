//! Closes and reopens of files, and the ends of sessions.

use crate::port::Ticket;
use crate::record::Record;
use crate::shard::{Shard, view_of};
use pandofs_api::{Reply, Request, ShardRequest, op};
use pandofs_namespace::Stop;
use pandofs_namespace::locks::Lock;
use pandofs_storage::store::Overlay;
use pandofs_types::{Ino, SessionId, ShardId};

impl Shard {
    /// A session tells what it has open, here and as far as it knows elsewhere: of an inode that is not here nothing
    /// is counted, as nobody would ever close it here.
    pub(crate) fn reopen(
        &mut self,
        overlay: &Overlay<'_>,
        ticket: Ticket,
        request: ShardRequest,
    ) -> Result<(), Stop> {
        let Request::Reopen(op::Reopen { opens }) = &request.request else {
            return Err(Stop::Broken(format!("{request:?} tells nothing again")));
        };
        let view = view_of(&self.config, overlay, self.goes_by_memory());
        let mut here = Vec::new();
        for &(ino, count) in opens {
            match view.stored_inode(ino) {
                Ok(Some(_)) => here.push((ino, count)),
                Ok(None) => {}
                Err(stop) => return self.put_off(ticket, request, stop),
            }
        }
        for (ino, count) in here {
            self.sessions
                .opens
                .tell_again(ino, request.key.session, count);
        }
        self.answer(ticket, Ok(Reply::Done), false);
        Ok(())
    }

    /// Counts the closes of a session. Returns those that count elsewhere or later, and the shard to tell of them.
    ///
    /// The client tells that shard, and this one does not pass them on: what is passed on could wait for a server that
    /// restarts. The client registers with it what it has open, without these closes and then with one more of the same
    /// file, and the close that comes at last would take that one off; with its last name the file would be gone under
    /// the program that has it open.
    pub(crate) fn close(
        &mut self,
        overlay: &Overlay<'_>,
        session: SessionId,
        inos: &[Ino],
    ) -> Result<Vec<(Ino, ShardId)>, Stop> {
        let view = view_of(&self.config, overlay, false);
        let (mut here, mut left) = (Vec::new(), Vec::new());
        // All reads come first: when one fails, no close has been counted.
        for &ino in inos {
            if self
                .operations
                .locks
                .check(&Lock::Inode(ino), None)
                .is_err()
            {
                // It may be on its way to another shard, which is told that it is still open.
                left.push((ino, self.config.shard));
            } else if self.sessions.opens.is_open(ino) {
                here.push(ino);
            } else if let Some(shard) = view.forwarding(ino)? {
                left.push((ino, shard));
            }
        }
        for ino in here {
            if self.sessions.opens.is_open(ino) && self.sessions.opens.release(ino, session) {
                self.closed(ino);
            }
        }
        Ok(left)
    }

    pub(crate) fn session_gone(&mut self, session: SessionId, ended: bool) {
        for ino in self.sessions.opens.drop_session(session) {
            self.closed(ino);
        }
        let locks = &self.operations.locks;
        self.file_locks
            .session_gone(&mut self.commands, locks, session);
        self.leases.session_gone(&mut self.commands, session);
        if ended && self.sessions.answers.drop_session(session) {
            self.propose(&Record::ExpireSession { session });
        }
    }
}
