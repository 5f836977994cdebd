//! Changing attributes: on whose authority.

use crate::credentials::{Caller, Callers};
use pandofs_client::{Client, ClientError};
use pandofs_types::{Attr, Credentials, FsError, Ino, SetAttr};

const SET_USER_ID: u16 = 0o4000;
const SET_GROUP_ID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o0010;

/// Changes what is `Some`. `opened`: the caller has the file open for writing, as the kernel says.
pub(crate) fn set_attr(
    client: &Client,
    callers: &Callers,
    caller: Caller,
    ino: Ino,
    set: SetAttr,
    opened: bool,
) -> Result<Attr, ClientError> {
    // Whether a set-group-id bit stays depends on groups without any refusal.
    let owners_only = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
    if owners_only {
        return client.setattr(&caller.with_groups(), ino, set);
    }
    match callers.ask(caller, |caller| client.setattr(caller, ino, set.clone())) {
        // `ftruncate`: opening the file for writing gave the right, and it lasts, even if nobody may
        // open it any more or ever could (who makes a file opens it whatever its mode).
        Err(ClientError::Fs(FsError::Access)) if opened && set.size.is_some() => {
            let attr = client.setattr(&Credentials::ROOT, ino, set)?;
            match without_set_id(attr.mode) {
                mode if mode == attr.mode => Ok(attr),
                mode => {
                    let set = SetAttr {
                        mode: Some(mode),
                        ..SetAttr::default()
                    };
                    client.setattr(&Credentials::ROOT, ino, set)
                }
            }
        }
        result => result,
    }
}

/// The mode a file has after somebody without privileges changed its data: what servers do by
/// themselves for such a caller. A set-group-id bit without a right to execute does not make
/// anyone's group and stays.
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
