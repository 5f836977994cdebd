//! Changes of attributes, and the credentials for them.

use crate::abandoned::Changed;
use crate::call::Call;
use crate::convert;
use crate::credentials::Callers;
use crate::errno::{Result, errno};
use crate::ops::PandoFs;
use pandofs_client::trace::again;
use pandofs_client::{Client, ClientError};
use pandofs_fuse_kernel::Errno;
use pandofs_types::{Attr, Credentials, FsError, Ino, SetAttr};

impl PandoFs {
    /// As the function, also of a directory that is gone and open still.
    pub(crate) fn set_attr(
        &self,
        call: &Call,
        ino: Ino,
        set: SetAttr,
        opened: bool,
    ) -> Result<Attr> {
        call.changes(vec![Changed::Inode(ino)])?;
        let result = set_attr(&self.client, &self.callers, call, ino, set.clone(), opened);
        self.dir_attrs.forget(ino);
        match result.map_err(errno) {
            Err(Errno::ESTALE) => {
                let dead = self.dead_dirs.set(ino, &set, convert::now());
                dead.ok_or(Errno::ESTALE)
            }
            result => result,
        }
    }
}

/// Changes what is `Some`. `opened`: the caller has the file open for writing, as the kernel says.
///
/// A request to change nothing means that set-id bits are to be taken off because the file is about
/// to be written to, or because of a `chown` with nothing to change, whose caller need not have
/// any right to it.
fn set_attr(
    client: &Client,
    callers: &Callers,
    call: &Call,
    ino: Ino,
    set: SetAttr,
    opened: bool,
) -> Result<Attr, ClientError> {
    if set == SetAttr::default() {
        let caller = call.caller().complete();
        let set = SetAttr {
            clear_set_id: true,
            ..set
        };
        return match client.setattr(&caller, ino, set.clone()) {
            // The writer had the right when it was opened.
            Err(ClientError::Fs(FsError::Access)) if client.is_open(ino) => {
                again(|| client.setattr(&caller.writing_anyway(), ino, set))
            }
            Err(ClientError::Fs(FsError::Access)) => {
                again(|| client.getattr(&Credentials::ROOT, ino))
            }
            result => result,
        };
    }
    // Groups and capabilities decide without any refusal if a set-group-id bit stays.
    if set.mode.is_some() || set.uid.is_some() || set.gid.is_some() {
        return client.setattr(&call.caller().complete(), ino, set);
    }
    let truncations = set.size.is_some();
    let groups_decide = || client.groups_decide(ino);
    match callers.ask_to_truncate(
        || call.caller(),
        truncations,
        groups_decide,
        |caller| client.setattr(caller, ino, set.clone()),
    ) {
        // `ftruncate`: opening the file for writing gave the right, and it lasts, even if nobody
        // may open it any more or ever could (who makes a file opens it whatever its mode).
        Err(ClientError::Fs(FsError::Access)) if opened && truncations => {
            let caller = call.caller().complete().writing_anyway();
            again(|| client.setattr(&caller, ino, set))
        }
        result => result,
    }
}
