//! Changing attributes: on whose authority.

use crate::credentials::{Caller, Callers};
use pandofs_client::{Client, ClientError};
use pandofs_types::{Attr, Credentials, FsError, Ino, SetAttr};

const SET_USER_ID: u16 = 0o4000;
const SET_GROUP_ID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o0010;

/// Changes what is `Some`. `opened`: the caller has the file open for writing, as the kernel says.
///
/// A request to change nothing means that the file is about to be written: the kernel asks for its
/// set-id bits to be taken off (`FATTR_KILL_SUIDGID`, which `fuser` does not pass on).
pub(crate) fn set_attr(
    client: &Client,
    callers: &Callers,
    caller: Caller,
    ino: Ino,
    set: SetAttr,
    opened: bool,
) -> Result<Attr, ClientError> {
    if set == SetAttr::default() {
        let attr = client.getattr(&Credentials::ROOT, ino)?;
        return if caller.is_superuser() {
            Ok(attr)
        } else {
            take_set_id(client, attr)
        };
    }
    // Whether a set-group-id bit stays depends on groups without any refusal.
    let groups_decide = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
    if groups_decide {
        return client.setattr(&caller.with_groups(), ino, set);
    }
    match callers.ask(caller, |caller| client.setattr(caller, ino, set.clone())) {
        // `ftruncate`: opening the file for writing gave the right, and it lasts, even if nobody may
        // open it any more or ever could (who makes a file opens it whatever its mode).
        Err(ClientError::Fs(FsError::Access)) if opened && set.size.is_some() => {
            take_set_id(client, client.setattr(&Credentials::ROOT, ino, set)?)
        }
        result => result,
    }
}

/// Takes set-id bits off a file that somebody without privileges writes to or has cut.
fn take_set_id(client: &Client, attr: Attr) -> Result<Attr, ClientError> {
    let mode = without_set_id(attr.mode);
    if mode == attr.mode {
        return Ok(attr);
    }
    let set = SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    };
    client.setattr(&Credentials::ROOT, attr.ino, set)
}

/// The mode a file has after somebody without privileges changed its data: as servers have it
/// themselves. A set-group-id bit without a right to execute gives nobody a group and stays.
fn without_set_id(mode: u16) -> u16 {
    let set_group_id = if mode & GROUP_EXECUTE != 0 {
        SET_GROUP_ID
    } else {
        0
    };
    mode & !(SET_USER_ID | set_group_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_data_loses_its_set_id_bits() {
        assert_eq!(without_set_id(0o6755), 0o0755);
        assert_eq!(without_set_id(0o2745), 0o2745);
        assert_eq!(without_set_id(0o1644), 0o1644);
    }
}
