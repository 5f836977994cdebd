//! Two changes of attributes joined to one.

use crate::permission::{SET_GID, SET_UID};
use pandofs_types::{Capabilities, Credentials, SetAttr, SetTime};

/// Those who may do anything with who owns a file, and with its set-id bits.
const OVER_OWNERS: Capabilities = Capabilities::CHOWN
    .with(Capabilities::FOWNER)
    .with(Capabilities::FSETID);

/// One change that comes to the same as two of the same caller, one after the other, of what is no directory; at the time of
/// the second. `None` where there may be none: a size is about contents, too; a time that is "now" is that of its own change;
/// a caller that gives a file away may no longer be allowed what comes next, and takes off set-id bits that stand there, but
/// not ones that the same change sets.
pub fn joined(caller: &Credentials, one: &SetAttr, two: &SetAttr) -> Option<SetAttr> {
    let is_now = |time: &Option<SetTime>| matches!(time, Some(SetTime::Now));
    if one.size.is_some() || two.size.is_some() || is_now(&one.atime) || is_now(&one.mtime) {
        return None;
    }
    let set = SetAttr {
        mode: two.mode.or(one.mode),
        uid: two.uid.or(one.uid),
        gid: two.gid.or(one.gid),
        size: None,
        atime: two.atime.or(one.atime),
        mtime: two.mtime.or(one.mtime),
        clear_set_id: one.clear_set_id || two.clear_set_id,
    };
    let clears = set.uid.is_some() || set.gid.is_some() || set.clear_set_id;
    let keeps_set_id = set.mode.is_some_and(|mode| mode & (SET_UID | SET_GID) != 0);
    let may_be = !clears || caller.has(OVER_OWNERS) && !keeps_set_id;
    may_be.then_some(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::setattr::set_common;
    use crate::permission::check_set;
    use crate::records::{Body, InodeRecord};
    use pandofs_types::{Acls, FileKind, Time};

    fn file(mode: u16) -> InodeRecord {
        InodeRecord {
            kind: FileKind::File,
            mode,
            uid: 1,
            gid: 10,
            nlink: 1,
            rdev: 0,
            size: 0,
            atime: Time(1),
            mtime: Time(2),
            ctime: Time(3),
            btime: Time(1),
            body: Body::Nothing,
            xattrs: 0,
            xattr_bytes: 0,
            trail: Vec::new(),
            acls: Acls::default(),
            may_be_named: false,
            truncations: 0,
        }
    }

    fn caller(uid: u32, groups: &[u32], capabilities: Capabilities) -> Credentials {
        Credentials {
            uid,
            gid: 10,
            groups: groups.to_vec(),
            capabilities,
        }
    }

    fn sets() -> Vec<SetAttr> {
        let mut sets = Vec::new();
        for mode in [None, Some(0o644), Some(0o4755), Some(0o2644)] {
            for (uid, gid) in [
                (None, None),
                (Some(1), Some(10)),
                (Some(2), None),
                (None, Some(20)),
            ] {
                for mtime in [None, Some(SetTime::Now), Some(SetTime::At(Time(50)))] {
                    for clear_set_id in [false, true] {
                        let atime = mtime.map(|_| SetTime::At(Time(60)));
                        sets.push(SetAttr {
                            mode,
                            uid,
                            gid,
                            size: None,
                            atime: atime.filter(|_| clear_set_id).or(mtime),
                            mtime,
                            clear_set_id,
                        });
                    }
                }
            }
        }
        sets
    }

    #[test]
    fn one_change_comes_to_the_same_as_both() {
        let none = Capabilities::NONE;
        let callers = [
            Credentials::ROOT,
            caller(1, &[20], none),
            caller(1, &[], none),
            caller(2, &[20], none),
            caller(2, &[20], Capabilities::CHOWN),
            caller(2, &[], Capabilities::CHOWN.with(Capabilities::FOWNER)),
            caller(2, &[], OVER_OWNERS),
        ];
        let (mut joins, mut given_away) = (0, 0);
        for mode in [0o644, 0o666, 0o4755, 0o2755, 0o2644, 0o6777] {
            for caller in &callers {
                for one in &sets() {
                    let mut after_one = file(mode);
                    if check_set(caller, &after_one, one).is_err() {
                        continue;
                    }
                    set_common(caller, &mut after_one, one, Time(100));
                    for two in &sets() {
                        let Some(both) = joined(caller, one, two) else {
                            continue;
                        };
                        let mut separately = after_one.clone();
                        if check_set(caller, &separately, two).is_err() {
                            continue;
                        }
                        set_common(caller, &mut separately, two, Time(101));
                        let mut at_once = file(mode);
                        let context = format!("{mode:o} {caller:?} {one:?} {two:?}");
                        assert_eq!(check_set(caller, &at_once, &both), Ok(()), "{context}");
                        set_common(caller, &mut at_once, &both, Time(101));
                        assert_eq!(at_once, separately, "{context}");
                        joins += 1;
                        given_away += u32::from(both.uid == Some(2) && both.mode.is_some());
                    }
                }
            }
        }
        assert!(joins > 10_000 && given_away > 1_000, "{joins} {given_away}");
    }
}
