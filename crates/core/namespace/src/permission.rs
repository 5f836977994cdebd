//! Rights of callers, as POSIX and Linux have them.

use crate::records::{InodeRecord, PartsRecord};
use pandofs_types::{
    Acls, Capabilities, Credentials, FileKind, FsError, FsResult, SetAttr, SetTime,
};

/// Permission bits.
pub const SET_UID: u16 = 0o4000;
/// Set-group-id bit; on a directory it has what is made there inherit the group.
pub const SET_GID: u16 = 0o2000;
/// Of a directory: only owners may take names away.
pub const STICKY: u16 = 0o1000;
const GROUP_EXECUTE: u16 = 0o010;

/// Rights, as in [`Credentials::may`].
pub const SEARCH: u16 = 1;
/// Bit of the right to write in a class of the mode.
pub const WRITE: u16 = 2;
/// Bit of the right to read in a class of the mode.
pub const READ: u16 = 4;
/// Rights to make and remove names. Asked for at once: of several groups that an access control list
/// names one has to give both.
pub const CHANGE: u16 = SEARCH | WRITE;

/// Fails with `Access` unless the caller has the rights `wanted` on a directory.
pub fn check_dir(caller: &Credentials, wanted: u16, parts: &PartsRecord) -> FsResult<()> {
    let owned = (parts.mode, parts.uid, parts.gid);
    if caller.may_by_acl(wanted, FileKind::Dir, owned, parts.acls.access.as_deref()) {
        Ok(())
    } else {
        Err(FsError::Access)
    }
}

/// Fails with `Access` unless the caller has the rights `wanted` on an inode.
pub fn check_inode(caller: &Credentials, wanted: u16, inode: &InodeRecord) -> FsResult<()> {
    let owned = (inode.mode, inode.uid, inode.gid);
    if caller.may_by_acl(wanted, inode.kind, owned, inode.acls.access.as_deref()) {
        Ok(())
    } else {
        Err(FsError::Access)
    }
}

/// In a sticky directory only the owner of a file, of the directory, or a caller with owners' rights takes
/// a name away: the user who must own the inode, if it matters.
pub fn must_own(caller: &Credentials, parts: &PartsRecord) -> Option<u32> {
    let free = parts.mode & STICKY == 0 || caller.owns(parts.uid);
    (!free).then_some(caller.uid)
}

/// Fails with `NotPermitted` if somebody else must own the inode.
pub fn check_owner(must_own: Option<u32>, inode: &InodeRecord) -> FsResult<()> {
    match must_own {
        Some(uid) if uid != inode.uid => Err(FsError::NotPermitted),
        _ => Ok(()),
    }
}

/// Group of a new inode, and its permission bits and lists: a set-group-id directory hands on its group,
/// and to directories the bit itself; a file keeps set-group-id only for a group its maker is in (which
/// the mode says that was asked for, before the umask). A default list is handed on, or else the umask
/// counts.
pub fn inherit(
    caller: &Credentials,
    parts: &PartsRecord,
    kind: FileKind,
    mode: u16,
    umask: u16,
) -> (u32, u16, Acls) {
    let (gid, mode) = if parts.mode & SET_GID == 0 {
        (caller.gid, mode)
    } else if kind == FileKind::Dir {
        (parts.gid, mode | SET_GID)
    } else {
        let is_member = caller.in_group_or_capable(parts.gid);
        let strange = mode & GROUP_EXECUTE != 0 && !is_member;
        (parts.gid, if strange { mode & !SET_GID } else { mode })
    };
    let (acls, mode) = parts.acls.inherit(kind, mode, umask);
    (gid, mode, acls)
}

/// Whether the caller may make these changes.
pub fn check_set(caller: &Credentials, inode: &InodeRecord, set: &SetAttr) -> FsResult<()> {
    let owner = caller.owns(inode.uid);
    // To give a file away, even to oneself, it takes more than to do what its owner may.
    let may_give = caller.has(Capabilities::CHOWN);
    let is_own = caller.uid == inode.uid;
    if set.mode.is_some() && !owner {
        return Err(FsError::NotPermitted);
    }
    if let Some(uid) = set.uid
        && !may_give
        && !(is_own && uid == inode.uid)
    {
        return Err(FsError::NotPermitted);
    }
    if let Some(gid) = set.gid
        && !may_give
        && !(is_own && (gid == inode.gid || caller.in_group(gid)))
    {
        return Err(FsError::NotPermitted);
    }
    let gives = set.uid.is_some() || set.gid.is_some();
    // Linux takes set-id bits off as `chmod` would.
    if gives && !owner && mode_after_giving(caller, inode) != inode.mode {
        return Err(FsError::NotPermitted);
    }
    if set.size.is_some() {
        match inode.kind {
            FileKind::File => check_inode(caller, WRITE, inode)?,
            FileKind::Dir => return Err(FsError::IsDir),
            _ => return Err(FsError::Invalid),
        }
    }
    // A caller that gives the file away takes them off by that.
    if set.clear_set_id && !owner && !gives {
        check_inode(caller, WRITE, inode)?;
    }
    let times = [set.atime, set.mtime];
    if times
        .iter()
        .flatten()
        .any(|time| matches!(time, SetTime::At(_)))
        && !owner
    {
        return Err(FsError::NotPermitted);
    }
    if times.iter().flatten().next().is_some() && !owner {
        check_inode(caller, WRITE, inode)?;
    }
    Ok(())
}

/// Permission bits after the changes. A new owner or group takes the set-id bits of what is no
/// directory, and so does who asks for that; set-group-id is not given for a group the caller is not in.
pub fn mode_after(caller: &Credentials, inode: &InodeRecord, set: &SetAttr) -> u16 {
    let clears = set.uid.is_some() || set.gid.is_some() || set.clear_set_id;
    let mut mode = if clears {
        mode_after_giving(caller, inode)
    } else {
        inode.mode
    };
    if let Some(new) = set.mode {
        mode = new;
        let gid = set.gid.unwrap_or(inode.gid);
        if !caller.in_group_or_capable(gid) {
            mode &= !SET_GID;
        }
    }
    mode
}

/// Permission bits after the inode has got another owner or group.
fn mode_after_giving(caller: &Credentials, inode: &InodeRecord) -> u16 {
    if inode.kind == FileKind::Dir {
        inode.mode
    } else {
        without_set_id(caller, inode.mode, inode.gid)
    }
}

/// Permission bits after somebody wrote to or truncated the file: set-id is for what its owner wrote.
pub fn mode_after_write(caller: &Credentials, inode: &InodeRecord) -> u16 {
    if caller.has(Capabilities::FSETID) {
        inode.mode
    } else {
        without_set_id(caller, inode.mode, inode.gid)
    }
}

/// A set-group-id bit without a right to execute gives nobody a group: it stays if the caller might set it
/// (`setattr_should_drop_sgid` in Linux).
fn without_set_id(caller: &Credentials, mode: u16, gid: u32) -> u16 {
    let mode = mode & !SET_UID;
    if mode & GROUP_EXECUTE != 0 || !caller.in_group_or_capable(gid) {
        mode & !SET_GID
    } else {
        mode
    }
}
