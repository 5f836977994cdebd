//! Access control lists, from acl(5) and what Linux does where that says nothing.

use super::{Checked, Errors, Expected, Model, Node, NodeId, READ, SET_GID, WRITE};
use pandofs_types::{Capabilities, Credentials, FileKind, FsError};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Entries as they stand in the attribute: tag, rights, number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<(u16, u16, u32)>);

const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHER: u16 = 32;

/// The value of the attribute that says this. Named users and groups, in ascending order, come with rights.
pub fn encode_acl(
    [owner, group, other]: [u16; 3],
    mask: Option<u16>,
    users: &[(u32, u16)],
    groups: &[(u32, u16)],
) -> Vec<u8> {
    let nobody = u32::MAX;
    let mut entries = vec![(USER_OBJ, owner, nobody)];
    entries.extend(users.iter().map(|&(id, rights)| (USER, rights, id)));
    entries.push((GROUP_OBJ, group, nobody));
    entries.extend(groups.iter().map(|&(id, rights)| (GROUP, rights, id)));
    entries.extend(mask.map(|rights| (MASK, rights, nobody)));
    entries.push((OTHER, other, nobody));
    Acl(entries).encode()
}

impl Acl {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0];
        for (tag, rights, id) in &self.0 {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(rights.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    /// `None` for what is no list. Those that the tests make are in order, or have no mask.
    fn decode(bytes: &[u8]) -> Option<Acl> {
        if bytes.len() < 4 || bytes[..4] != [2, 0, 0, 0] || !(bytes.len() - 4).is_multiple_of(8) {
            return None;
        }
        let entry = |at: &[u8]| {
            (
                u16::from_le_bytes([at[0], at[1]]),
                u16::from_le_bytes([at[2], at[3]]),
                u32::from_le_bytes([at[4], at[5], at[6], at[7]]),
            )
        };
        let acl = Acl(bytes[4..].chunks(8).map(entry).collect());
        let names = acl.0.iter().any(|(tag, ..)| *tag == USER || *tag == GROUP);
        (!names || acl.of(MASK).is_some()).then_some(acl)
    }

    fn of(&self, tag: u16) -> Option<u16> {
        self.0
            .iter()
            .find(|entry| entry.0 == tag)
            .map(|entry| entry.1)
    }

    fn set(&mut self, tag: u16, rights: u16) {
        for entry in self.0.iter_mut().filter(|entry| entry.0 == tag) {
            entry.1 = rights;
        }
    }

    fn group_class(&self) -> u16 {
        if self.of(MASK).is_some() {
            MASK
        } else {
            GROUP_OBJ
        }
    }

    fn mode(&self) -> u16 {
        [USER_OBJ, self.group_class(), OTHER]
            .iter()
            .fold(0, |mode, tag| mode << 3 | self.of(*tag).unwrap_or(0))
    }

    /// Follows a change of the mode, as acl(5) demands.
    pub fn chmod(&mut self, mode: u16) {
        self.set(USER_OBJ, mode >> 6 & 7);
        self.set(self.group_class(), mode >> 3 & 7);
        self.set(OTHER, mode & 7);
    }

    fn is_mode(&self) -> bool {
        self.0.len() == 3
    }

    /// The access check algorithm of acl(5).
    fn lets(&self, by: &Credentials, wanted: u16, uid: u32, gid: u32) -> bool {
        let mask = self.of(MASK).unwrap_or(7);
        let mut group_fits = false;
        for &(tag, rights, id) in &self.0 {
            let masked = rights & mask & wanted == wanted;
            match tag {
                USER_OBJ if by.uid == uid => return rights & wanted == wanted,
                USER if by.uid == id => return masked,
                GROUP_OBJ if by.in_group(gid) => group_fits = true,
                GROUP if by.in_group(id) => group_fits = true,
                OTHER if !group_fits => return rights & wanted == wanted,
                OTHER => return false,
                _ => continue,
            }
            if masked {
                return true;
            }
        }
        unreachable!("a list ends with what others may")
    }
}

/// Returns whether capabilities let the caller do what a list does not.
fn overrides(by: &Credentials, wanted: u16, node: &Node) -> bool {
    let is_dir = node.kind == FileKind::Dir;
    let looks = if is_dir {
        wanted & WRITE == 0
    } else {
        wanted == READ
    };
    let runs = wanted & 1 == 0 || is_dir || node.mode & 0o111 != 0;
    looks && by.has(Capabilities::DAC_READ_SEARCH) || runs && by.has(Capabilities::DAC_OVERRIDE)
}

/// Returns whether the attribute is a list.
pub(super) fn is_acl(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

impl Model {
    pub(super) fn may(&self, by: &Credentials, wanted: u16, id: NodeId) -> bool {
        let node = self.node(id);
        match &node.access {
            // Linux does not look at a list whose mask gives nothing.
            Some(acl) if node.mode & 0o070 != 0 => {
                acl.lets(by, wanted, node.uid, node.gid) || overrides(by, wanted, node)
            }
            _ => by.may(wanted, node.kind, node.mode, node.uid, node.gid),
        }
    }

    fn acl(&self, id: NodeId, name: &[u8]) -> Option<&Acl> {
        let node = self.node(id);
        if name == ACCESS {
            node.access.as_ref()
        } else {
            node.default.as_ref()
        }
    }

    pub(super) fn get_acl(&self, id: NodeId, name: &[u8]) -> Checked<Expected> {
        if self.node(id).kind == FileKind::Symlink {
            return Err(FsError::NotSupported.into());
        }
        let acl = self.acl(id, name).ok_or(FsError::NoAttribute)?;
        Ok(Expected::Value(acl.encode()))
    }

    /// Without a value the list is taken away.
    pub(super) fn set_acl(
        &mut self,
        by: &Credentials,
        id: NodeId,
        name: &[u8],
        value: &[u8],
    ) -> Checked<Expected> {
        let acl = Acl::decode(value);
        let kind = self.node(id).kind;
        let mut errors = Errors::default();
        errors.none_if(value.is_empty() || acl.is_some(), FsError::Invalid);
        errors.none_if(kind != FileKind::Symlink, FsError::NotSupported);
        let nowhere = name == DEFAULT && kind != FileKind::Dir;
        if nowhere && value.is_empty() && errors.0.is_empty() {
            let mut rights = Errors::default();
            rights.none_if(self.owns(by, id), FsError::NotPermitted);
            return Ok(Expected::NothingOr(rights.0));
        }
        errors.none_if(!nowhere, FsError::Access);
        errors.none_if(self.owns(by, id), FsError::NotPermitted);
        errors.finish()?;
        let now = self.now;
        if acl.is_none() && self.acl(id, name).is_none() {
            self.node_mut(id).ctime.may_touch(now);
            return Ok(Expected::Done);
        }
        let node = self.node_mut(id);
        let rights = |node: &Node| (node.mode, node.access.clone(), node.default.clone());
        let before = rights(node);
        if name == DEFAULT {
            node.default = acl;
        } else {
            if let Some(acl) = &acl {
                node.mode = node.mode & !0o777 | acl.mode();
                if !by.has(Capabilities::FSETID) && !by.in_group(node.gid) {
                    node.mode &= !SET_GID;
                }
            }
            node.access = acl.filter(|acl| !acl.is_mode());
        }
        if rights(node) == before {
            // Linux may find that there is nothing to do.
            node.ctime.may_touch(now);
        } else {
            self.touch_ctime(id);
        }
        Ok(Expected::Done)
    }

    /// Lists and permission bits of what is made below `dir`.
    pub(super) fn inherited(
        &self,
        dir: NodeId,
        kind: FileKind,
        mode: u16,
    ) -> (Option<Acl>, Option<Acl>, u16) {
        let default = match &self.node(dir).default {
            Some(default) if kind != FileKind::Symlink => default,
            _ => return (None, None, mode),
        };
        let mut access = default.clone();
        access.chmod(default.mode() & mode);
        let mode = mode & !0o777 | access.mode();
        let below = (kind == FileKind::Dir).then(|| default.clone());
        (Some(access).filter(|access| !access.is_mode()), below, mode)
    }

    pub(super) fn acl_names(&self, id: NodeId) -> Vec<Vec<u8>> {
        let names = [ACCESS, DEFAULT].into_iter();
        let there = names.filter(|name| self.acl(id, name).is_some());
        there.map(<[u8]>::to_vec).collect()
    }

    /// Returns the capability that it takes to change the attribute, if it is none that owners give.
    pub(super) fn needed_for(name: &[u8]) -> Option<Capabilities> {
        match name {
            b"security.capability" => Some(Capabilities::SETFCAP),
            _ if name.starts_with(b"trusted.") || name.starts_with(b"security.") => {
                Some(Capabilities::SYS_ADMIN)
            }
            _ => None,
        }
    }

    pub(super) fn unseen(by: &Credentials, name: &[u8]) -> bool {
        name.starts_with(b"trusted.") && !by.has(Capabilities::SYS_ADMIN)
    }
}
