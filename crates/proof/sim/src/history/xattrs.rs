//! Extended attributes in the history: what a request does to them, and what an answer tells.

use super::Deed;
use pandofs_api::{Refusal, Reply, Request, XattrMode, op};
use pandofs_types::{FsError, Ino};

/// All names that there are.
pub(crate) const NAMES: [&str; 2] = ["user.a", "user.b"];

/// An extended attribute of an inode.
pub(crate) type Xattr = (Ino, Vec<u8>);

/// Those that a request is about, and what it may do to each.
pub(super) fn about(request: &Request) -> Vec<(Xattr, Option<Deed<u8>>)> {
    match request {
        Request::GetXattr(op::GetXattr { ino, name }) => vec![((*ino, name.clone()), None)],
        Request::ListXattr(op::ListXattr { ino }) => {
            let all = NAMES.iter().map(|name| (*ino, name.as_bytes().to_vec()));
            all.map(|xattr| (xattr, None)).collect()
        }
        Request::SetXattr(op::SetXattr {
            ino, name, mode, ..
        }) => {
            let may = match mode {
                XattrMode::Create => Deed::MayInsert,
                XattrMode::Either | XattrMode::Replace => Deed::MaySet,
            };
            vec![((*ino, name.clone()), Some(may))]
        }
        Request::RemoveXattr(op::RemoveXattr { ino, name }) => {
            vec![((*ino, name.clone()), Some(Deed::MayRemove))]
        }
        _ => Vec::new(),
    }
}

/// The deed that the answer tells of one of them.
pub(super) fn deed(
    xattr: &Xattr,
    request: &Request,
    answer: &Result<Reply, Refusal>,
) -> Option<Deed<u8>> {
    match (request, answer) {
        (Request::SetXattr(_), Err(Refusal::Fs(FsError::Exists))) => Some(Deed::Taken),
        (_, Err(Refusal::Fs(FsError::NoAttribute))) => Some(Deed::Read(None)),
        (Request::SetXattr(op::SetXattr { value, mode, .. }), Ok(_)) => {
            let value = *value.first()?;
            Some(match mode {
                XattrMode::Create => Deed::Insert(value),
                XattrMode::Replace => Deed::Replace(value),
                XattrMode::Either => Deed::Set(value),
            })
        }
        (Request::RemoveXattr(_), Ok(_)) => Some(Deed::Clear),
        (Request::GetXattr(_), Ok(Reply::Value(value))) => Some(Deed::Read(Some(*value.first()?))),
        (Request::ListXattr(_), Ok(Reply::Names(names))) => {
            let is_there = names.iter().any(|name| name[..] == xattr.1[..]);
            Some(match is_there {
                true => Deed::Taken,
                false => Deed::Read(None),
            })
        }
        _ => None,
    }
}
