//! Access control lists of POSIX.1e (draft 17), as Linux has them: acl(5).

use crate::attr::{Credentials, FileKind};
use crate::error::{FsError, FsResult};
use crate::limits::MAX_ACL_ENTRIES;
use serde::{Deserialize, Serialize};

/// The extended attribute that an access ACL is read and set as.
pub const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
/// The same for a default ACL.
pub const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// Of Linux's encoding (`include/uapi/linux/posix_acl_xattr.h`).
const VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Rights of one named user or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AclEntry {
    /// Number of the user or group, by which the list is in order.
    pub id: u32,
    /// 4 read, 2 write, 1 execute, added up.
    pub rights: u8,
}

/// An access control list. Rights as in [`AclEntry`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acl {
    /// Rights of the file's owner.
    pub owner: u8,
    /// The owning group's.
    pub group: u8,
    /// Rights of anybody who is neither the owner nor in a group that the list names.
    pub other: u8,
    /// The most that anybody but owner and other can get; there when anybody is named.
    pub mask: Option<u8>,
    /// In ascending order, none twice.
    pub users: Vec<AclEntry>,
    /// In ascending order, none twice.
    pub groups: Vec<AclEntry>,
}

/// The lists of one inode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acls {
    /// Only one that says more than permission bits do. Its owner, mask and other are the inode's
    /// permission bits.
    pub access: Option<Box<Acl>>,
    /// The list of what is made in this directory.
    pub default: Option<Box<Acl>>,
}

/// Which list of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AclKind {
    /// Decides who may access the inode itself.
    Access,
    /// Inherited by what is made in a directory; only directories have one.
    Default,
}

impl AclKind {
    /// The list that this extended attribute is.
    pub fn of_name(name: &[u8]) -> Option<AclKind> {
        match name {
            ACCESS_ACL => Some(AclKind::Access),
            DEFAULT_ACL => Some(AclKind::Default),
            _ => None,
        }
    }
}

impl Acls {
    /// Returns whether there is neither list, so that modes alone decide.
    pub fn is_empty(&self) -> bool {
        self.access.is_none() && self.default.is_none()
    }

    /// The list of this kind; `None` if the inode has none.
    pub fn get(&self, kind: AclKind) -> Option<&Acl> {
        match kind {
            AclKind::Access => self.access.as_deref(),
            AclKind::Default => self.default.as_deref(),
        }
    }

    /// Whether an inode of this kind and with these permission bits can have these lists (they may come
    /// from the network).
    pub fn are_valid(&self, kind: FileKind, mode: u16) -> bool {
        let access = self.access.as_deref().is_none_or(|acl| {
            acl.is_valid()
                && acl.mask.is_some()
                && kind != FileKind::Symlink
                && acl.permissions() == mode & 0o777
        });
        let default = self
            .default
            .as_deref()
            .is_none_or(|acl| acl.is_valid() && kind == FileKind::Dir);
        access && default
    }

    /// The permission bits have become `mode`.
    pub fn chmod(&mut self, mode: u16) {
        if let Some(acl) = &mut self.access {
            acl.chmod(mode);
        }
    }

    /// The part of a directory's lists that a new inode gets: its lists and permission bits. The
    /// umask counts where no list is inherited, and symbolic links inherit none (`posix_acl_create` of
    /// Linux).
    pub fn inherit(&self, kind: FileKind, mode: u16, umask: u16) -> (Acls, u16) {
        if kind == FileKind::Symlink {
            return (Acls::default(), mode);
        }
        let Some(inherited) = self.default.as_deref() else {
            return (Acls::default(), mode & !(umask & 0o777));
        };
        let mut acl = inherited.clone();
        acl.limit(mode);
        let mode = mode & !0o777 | acl.permissions();
        let default = (kind == FileKind::Dir).then(|| Box::new(inherited.clone()));
        let access = (!acl.is_mode()).then(|| Box::new(acl));
        (Acls { access, default }, mode)
    }
}

impl Acl {
    /// Whether it says no more than permission bits can.
    pub fn is_mode(&self) -> bool {
        self.mask.is_none() && self.users.is_empty() && self.groups.is_empty()
    }

    /// The permission bits that go with it: the group's are the mask, where there is one.
    pub fn permissions(&self) -> u16 {
        let group = self.mask.unwrap_or(self.group);
        u16::from(self.owner) << 6 | u16::from(group) << 3 | u16::from(self.other)
    }

    /// Whether rights, order, number and mask are as they are to be.
    pub fn is_valid(&self) -> bool {
        let named = |entries: &[AclEntry]| {
            entries
                .iter()
                .all(|entry| entry.rights <= 7 && entry.id != NO_ID)
                && entries.windows(2).all(|pair| pair[0].id < pair[1].id)
        };
        [self.owner, self.group, self.other, self.mask.unwrap_or(0)]
            .iter()
            .all(|rights| *rights <= 7)
            && named(&self.users)
            && named(&self.groups)
            && (self.mask.is_some() || self.users.is_empty() && self.groups.is_empty())
            && self.len() <= MAX_ACL_ENTRIES
    }

    fn len(&self) -> usize {
        3 + usize::from(self.mask.is_some()) + self.users.len() + self.groups.len()
    }

    /// Takes over permission bits.
    fn chmod(&mut self, mode: u16) {
        self.owner = (mode >> 6 & 7) as u8;
        self.other = (mode & 7) as u8;
        *self.mask.as_mut().unwrap_or(&mut self.group) = (mode >> 3 & 7) as u8;
    }

    /// Takes off what `mode` does not have.
    fn limit(&mut self, mode: u16) {
        self.owner &= (mode >> 6 & 7) as u8;
        self.other &= (mode & 7) as u8;
        *self.mask.as_mut().unwrap_or(&mut self.group) &= (mode >> 3 & 7) as u8;
    }

    /// Whether it gives the caller every right in `wanted` on what these own. Nothing is said of
    /// capabilities.
    fn permits(&self, caller: &Credentials, wanted: u16, uid: u32, gid: u32) -> bool {
        let has = |rights: u8| u16::from(rights) & wanted == wanted;
        if caller.uid == uid {
            return has(self.owner);
        }
        let mask = self.mask.unwrap_or(7);
        if let Some(user) = self.users.iter().find(|user| user.id == caller.uid) {
            return has(user.rights & mask);
        }
        let owning = caller.in_group(gid).then_some(self.group);
        let named = self.groups.iter().filter(|group| caller.in_group(group.id));
        let mut of_groups = owning
            .into_iter()
            .chain(named.map(|group| group.rights))
            .peekable();
        if of_groups.peek().is_some() {
            // Of several groups one has to give all that is wanted.
            return of_groups.any(|rights| has(rights & mask));
        }
        has(self.other)
    }

    /// As the value of the extended attribute.
    pub fn to_xattr(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        let mut put = |tag: u16, rights: u8, id: u32| {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&u16::from(rights).to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        };
        put(USER_OBJ, self.owner, NO_ID);
        for user in &self.users {
            put(USER, user.rights, user.id);
        }
        put(GROUP_OBJ, self.group, NO_ID);
        for group in &self.groups {
            put(GROUP, group.rights, group.id);
        }
        if let Some(mask) = self.mask {
            put(MASK, mask, NO_ID);
        }
        put(OTHER, self.other, NO_ID);
        bytes
    }

    /// From the value of the extended attribute; `None` if it has no entries, which takes a list away.
    ///
    /// # Errors
    /// `Invalid` for what is no list; `NotSupported` for another version of the encoding; `NoSpace` for
    /// more than [`MAX_ACL_ENTRIES`].
    pub fn from_xattr(bytes: &[u8]) -> FsResult<Option<Acl>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let (version, entries) = bytes.split_first_chunk::<4>().ok_or(FsError::Invalid)?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(FsError::NotSupported);
        }
        let (entries, rest) = entries.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(FsError::Invalid);
        }
        if entries.is_empty() {
            return Ok(None);
        }
        if entries.len() > MAX_ACL_ENTRIES {
            return Err(FsError::NoSpace);
        }
        let (mut owner, mut group, mut other, mut mask) = (None, None, None, None);
        let (mut users, mut groups) = (Vec::new(), Vec::new());
        for [tag_low, tag_high, low, high, id @ ..] in entries {
            let tag = u16::from_le_bytes([*tag_low, *tag_high]);
            let rights = u16::from_le_bytes([*low, *high]);
            if rights > 7 {
                return Err(FsError::Invalid);
            }
            let rights = rights as u8;
            let one = match tag {
                USER_OBJ => &mut owner,
                GROUP_OBJ => &mut group,
                MASK => &mut mask,
                OTHER => &mut other,
                USER | GROUP => {
                    let entry = AclEntry {
                        id: u32::from_le_bytes(*id),
                        rights,
                    };
                    if tag == USER { &mut users } else { &mut groups }.push(entry);
                    continue;
                }
                _ => return Err(FsError::Invalid),
            };
            if one.replace(rights).is_some() {
                return Err(FsError::Invalid);
            }
        }
        users.sort_by_key(|user| user.id);
        groups.sort_by_key(|group| group.id);
        let acl = Acl {
            owner: owner.ok_or(FsError::Invalid)?,
            group: group.ok_or(FsError::Invalid)?,
            other: other.ok_or(FsError::Invalid)?,
            mask,
            users,
            groups,
        };
        if acl.is_valid() {
            Ok(Some(acl))
        } else {
            Err(FsError::Invalid)
        }
    }
}

impl Credentials {
    /// As [`Credentials::may`], of an inode that may have an access ACL. As in Linux the list is not
    /// looked at when the mask gives nothing, and those it names are then like all others (draft 17 of
    /// POSIX.1e gives them nothing).
    pub fn may_by_acl(
        &self,
        wanted: u16,
        kind: FileKind,
        (mode, uid, gid): (u16, u32, u32),
        access: Option<&Acl>,
    ) -> bool {
        match access {
            Some(acl) if mode & 0o070 != 0 => {
                assert!(wanted <= 7);
                acl.permits(self, wanted, uid, gid) || self.may_in_any_case(wanted, kind, mode)
            }
            _ => self.may(wanted, kind, mode, uid, gid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Capabilities;

    fn named(id: u32, rights: u8) -> AclEntry {
        AclEntry { id, rights }
    }

    /// u::rw-, u:7:rwx, g::r--, g:8:rwx, g:9:-w-, m::rw-, o::---
    fn acl() -> Acl {
        Acl {
            owner: 6,
            group: 4,
            other: 0,
            mask: Some(6),
            users: vec![named(7, 7)],
            groups: vec![named(8, 7), named(9, 2)],
        }
    }

    fn who(uid: u32, gid: u32, groups: &[u32]) -> Credentials {
        Credentials::user(uid, gid, groups.to_vec())
    }

    fn may(caller: &Credentials, wanted: u16) -> bool {
        let acl = acl();
        let mode = acl.permissions();
        caller.may_by_acl(wanted, FileKind::File, (mode, 1, 2), Some(&acl))
    }

    #[test]
    fn the_first_entry_that_fits_decides_and_the_mask_limits_it() {
        assert_eq!(acl().permissions(), 0o660);
        assert!(may(&who(1, 2, &[8]), 6) && !may(&who(1, 2, &[8]), 1));
        assert!(may(&who(7, 2, &[]), 6), "named");
        assert!(!may(&who(7, 2, &[]), 1), "the mask takes it away");
        assert!(may(&who(3, 2, &[]), 4) && !may(&who(3, 2, &[]), 2));
        assert!(may(&who(3, 8, &[]), 6));
        assert!(!may(&who(3, 5, &[]), 4), "other");
        // Reading through one group and writing through another is not reading and writing.
        assert!(may(&who(3, 2, &[9]), 4) && may(&who(3, 2, &[9]), 2));
        assert!(!may(&who(3, 2, &[9]), 6));
        assert!(may(&Credentials::ROOT, 6) && !may(&Credentials::ROOT, 1));
        let reader = who(3, 5, &[]).with(Capabilities::DAC_READ_SEARCH);
        assert!(may(&reader, 4) && !may(&reader, 2));
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let bytes = acl().to_xattr();
        assert_eq!(bytes.len(), 4 + 7 * 8);
        assert_eq!(bytes[..12], [2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255]);
        assert_eq!(Acl::from_xattr(&bytes), Ok(Some(acl())));
        assert_eq!(Acl::from_xattr(&bytes[..4]), Ok(None));
        assert_eq!(Acl::from_xattr(b""), Ok(None));
        assert_eq!(Acl::from_xattr(&bytes[..11]), Err(FsError::Invalid));
        let mut other_version = bytes.clone();
        other_version[0] = 1;
        assert_eq!(Acl::from_xattr(&other_version), Err(FsError::NotSupported));
        let mut twice = bytes.clone();
        twice.extend_from_slice(&bytes[4..12]);
        assert_eq!(Acl::from_xattr(&twice), Err(FsError::Invalid));
    }

    #[test]
    fn who_is_named_needs_a_mask() {
        let without = Acl {
            mask: None,
            ..acl()
        };
        assert!(!without.is_valid());
        assert_eq!(Acl::from_xattr(&without.to_xattr()), Err(FsError::Invalid));
        let minimal = Acl {
            users: vec![],
            groups: vec![],
            ..without
        };
        assert!(minimal.is_valid() && minimal.is_mode());
        let twice = Acl {
            users: vec![named(7, 1), named(7, 2)],
            ..acl()
        };
        assert_eq!(Acl::from_xattr(&twice.to_xattr()), Err(FsError::Invalid));
    }

    #[test]
    fn what_is_made_inherits_the_default_list_and_not_the_umask() {
        let above = Acls {
            access: None,
            default: Some(Box::new(acl())),
        };
        let (acls, mode) = above.inherit(FileKind::File, 0o4644, 0o077);
        assert_eq!(mode, 0o4640);
        let access = acls.access.as_deref().unwrap();
        assert_eq!((access.owner, access.mask, access.group), (6, Some(4), 4));
        assert!(acls.default.is_none() && acls.are_valid(FileKind::File, mode));
        let (acls, mode) = above.inherit(FileKind::Dir, 0o777, 0o077);
        assert_eq!((acls.default, mode), (above.default.clone(), 0o660));
        assert_eq!(
            above.inherit(FileKind::Symlink, 0o777, 0o077),
            (Acls::default(), 0o777)
        );
        let nothing = Acls::default();
        assert_eq!(nothing.inherit(FileKind::File, 0o2666, 0o027).1, 0o2640);
    }

    #[test]
    fn a_default_list_that_is_permission_bits_leaves_no_list_on_files() {
        let bits = Acl {
            mask: None,
            users: vec![],
            groups: vec![],
            ..acl()
        };
        let above = Acls {
            access: None,
            default: Some(Box::new(bits)),
        };
        let (acls, mode) = above.inherit(FileKind::File, 0o666, 0);
        assert_eq!((acls, mode), (Acls::default(), 0o640));
    }

    #[test]
    fn changed_permission_bits_change_the_mask() {
        let mut acls = Acls {
            access: Some(Box::new(acl())),
            default: None,
        };
        acls.chmod(0o751);
        let access = acls.access.as_deref().unwrap();
        assert_eq!((access.owner, access.mask, access.other), (7, Some(5), 1));
        assert_eq!(access.group, 4);
        assert!(acls.are_valid(FileKind::File, 0o751));
        assert!(!acls.are_valid(FileKind::File, 0o755));
        assert!(!acls.are_valid(FileKind::Symlink, 0o751));
    }
}
