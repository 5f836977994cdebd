//! Names of users and groups.

use nix::unistd::{Gid, Group, Uid, User};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Cache of look-ups, which may ask a directory service.
type Known = Mutex<Option<HashMap<u32, String>>>;

/// A user's name, or the number if it has none.
pub(crate) fn user_name(uid: u32) -> String {
    static KNOWN: Known = Mutex::new(None);
    remembered(&KNOWN, uid, || {
        let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
        user.map(|user| user.name)
    })
}

/// A group's name, or the number if it has none.
pub(crate) fn group_name(gid: u32) -> String {
    static KNOWN: Known = Mutex::new(None);
    remembered(&KNOWN, gid, || {
        let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
        group.map(|group| group.name)
    })
}

fn remembered(known: &Known, id: u32, look: impl FnOnce() -> Option<String>) -> String {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    let names = known.get_or_insert_default();
    let name = names
        .entry(id)
        .or_insert_with(|| look().unwrap_or_else(|| id.to_string()));
    name.clone()
}

/// The number of a user given by name or number.
pub(crate) fn user_number(name: &str) -> Option<u32> {
    let user = User::from_name(name).ok().flatten();
    user.map(|user| user.uid.as_raw())
        .or_else(|| name.parse().ok())
}

/// The numbers of a user given by name, and of the group that the user logs in with.
pub(crate) fn login(name: &str) -> Option<(u32, u32)> {
    let user = User::from_name(name).ok().flatten()?;
    Some((user.uid.as_raw(), user.gid.as_raw()))
}

/// The number of a group given by name or number.
pub(crate) fn group_number(name: &str) -> Option<u32> {
    let group = Group::from_name(name).ok().flatten();
    group
        .map(|group| group.gid.as_raw())
        .or_else(|| name.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_others_are_numbers() {
        assert_eq!(user_name(0), "root");
        assert_eq!(group_name(0), "root");
        assert_eq!(user_name(3_999_999_999), "3999999999");
        assert_eq!(user_number("root"), Some(0));
        assert_eq!(group_number("12345"), Some(12_345));
        assert_eq!(user_number("nobody is called so"), None);
    }
}
