//! Attributes of inodes in the history: what a request may change, and what an answer tells.

use super::logs::Noted;
use pandofs_api::{Refusal, Reply, Request, op};
use pandofs_types::{Attr, FileKind, Ino, SetTime};

/// An attribute whose values are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Field {
    Mode,
    Owner,
    Group,
    /// Bytes of what is no directory.
    Size,
    /// Of what is no directory.
    Mtime,
    Ctime,
}

const FIELDS: [Field; 6] = [
    Field::Mode,
    Field::Owner,
    Field::Group,
    Field::Size,
    Field::Mtime,
    Field::Ctime,
];

impl Field {
    pub(super) fn is_time(self) -> bool {
        matches!(self, Field::Mtime | Field::Ctime)
    }

    pub(super) fn of(self, attr: &Attr) -> i64 {
        match self {
            Field::Mode => attr.mode.into(),
            Field::Owner => attr.uid.into(),
            Field::Group => attr.gid.into(),
            Field::Size => attr.size as i64,
            Field::Mtime => attr.mtime.0,
            Field::Ctime => attr.ctime.0,
        }
    }
}

/// Effect of an operation on an attribute, or its finding about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Read(i64),
    /// If it was not answered it was done at some time or not at all.
    Write(i64),
    /// It is no less than this and may have become so large; to how much, if it was answered.
    Grow(i64, Option<i64>),
    /// It is this, and never was more.
    Advance(i64),
    /// It may be anything: a server forgot what had not been synced, or nobody knows what it was changed to.
    Forget,
}

/// An attribute of an inode.
pub(crate) type Attribute = (Ino, Field);

/// Attributes that a request may change, and to what.
pub(super) fn changes(request: &Request) -> Vec<(Attribute, Told)> {
    match request {
        Request::SetAttr(op::SetAttr { ino, set }) => {
            let mtime = match set.mtime {
                Some(SetTime::At(time)) => Some(Told::Write(time.0)),
                None if set.size.is_none() => None,
                _ => Some(Told::Forget),
            };
            let fields = [
                (Field::Mode, set.mode.map(|mode| Told::Write(mode.into()))),
                (Field::Owner, set.uid.map(|uid| Told::Write(uid.into()))),
                (Field::Group, set.gid.map(|gid| Told::Write(gid.into()))),
                (Field::Size, set.size.map(|size| Told::Write(size as i64))),
                (Field::Mtime, mtime),
            ];
            let set = fields.into_iter();
            set.filter_map(|(field, told)| Some(((*ino, field), told?)))
                .collect()
        }
        Request::WriteInline(op::WriteInline { ino, offset, data }) => {
            let end = offset + data.len() as u64;
            vec![
                ((*ino, Field::Size), Told::Grow(end as i64, None)),
                ((*ino, Field::Mtime), Told::Forget),
            ]
        }
        Request::WroteData(op::WroteData { ino, end, .. }) => vec![
            ((*ino, Field::Size), Told::Grow(*end as i64, None)),
            ((*ino, Field::Mtime), Told::Forget),
        ],
        Request::Open(op::Open {
            ino,
            truncate: true,
            ..
        }) => vec![
            ((*ino, Field::Size), Told::Write(0)),
            ((*ino, Field::Mtime), Told::Forget),
        ],
        _ => Vec::new(),
    }
}

/// The change, by the attributes after it if the answer tells them.
pub(super) fn changed(field: Field, may: Told, attr: Option<&Attr>) -> Told {
    match (may, attr) {
        (_, None) => may,
        (Told::Grow(end, _), Some(attr)) => Told::Grow(end, Some(field.of(attr))),
        (_, Some(attr)) => Told::Write(field.of(attr)),
    }
}

/// Attributes that an answer tells.
pub(super) fn told(answer: &Result<Reply, Refusal>) -> Option<&Attr> {
    let inode = match answer {
        Ok(Reply::Inode(inode)) => Some(inode),
        Ok(Reply::Entry(entry)) => entry.inode.as_ref(),
        _ => None,
    };
    inode.map(|inode| &inode.attr)
}

/// Fields that the attributes tell.
pub(super) fn reads(attr: &Attr) -> impl Iterator<Item = (Attribute, Told)> {
    let is_there = |field: &Field| {
        let is_of_names = matches!(field, Field::Size | Field::Mtime);
        attr.kind != FileKind::Dir || !is_of_names
    };
    let read = |field: Field| {
        let value = field.of(attr);
        let told = match field {
            Field::Ctime => Told::Advance(value),
            _ => Told::Read(value),
        };
        ((attr.ino, field), told)
    };
    FIELDS.into_iter().filter(is_there).map(read)
}

/// All values that an attribute can have had at some instant between these, `None` for any, by operations on it: one
/// cannot be that of an operation which had ended when another one began that had ended, too, by then.
pub(super) fn possible(operations: &[Noted<Told>], (begun, ended): (u64, u64)) -> Vec<Option<i64>> {
    let is_sure = |told: &Option<Told>| matches!(told, Some(Told::Read(_) | Told::Write(_)));
    let before = operations
        .iter()
        .filter(|(_, end, told)| is_sure(told) && end.is_some_and(|end| end < begun));
    let since = before.map(|(begun, ..)| *begun).max();
    let mut values: Vec<Option<i64>> = match since {
        None => vec![None],
        Some(_) => Vec::new(),
    };
    for (start, end, told) in operations {
        if *start <= ended && end.is_none_or(|end| Some(end) >= since) {
            values.extend(match told {
                Some(Told::Read(value) | Told::Write(value)) => Some(Some(*value)),
                Some(Told::Forget | Told::Grow(..) | Told::Advance(_)) => Some(None),
                None => None,
            });
        }
    }
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_possible_until_another_one_has_surely_come_after_it() {
        let read = |begun, value| (begun, Some(begun + 1), Some(Told::Read(value)));
        let write = |begun, end, value| (begun, end, Some(Told::Write(value)));
        let first = read(1, 7);
        assert_eq!(possible(&[first], (0, 5)), [None, Some(7)]);
        assert_eq!(possible(&[first], (3, 5)), [Some(7)]);
        let second = write(4, Some(6), 8);
        assert_eq!(possible(&[first, second], (3, 5)), [Some(7), Some(8)]);
        assert_eq!(possible(&[first, second], (7, 8)), [Some(8)]);
        let unanswered = write(2, None, 9);
        let all = [first, unanswered, second];
        assert_eq!(possible(&all, (7, 8)), [Some(8), Some(9)]);
        let forgotten = (8, Some(9), Some(Told::Forget));
        assert_eq!(possible(&[second, forgotten], (7, 7)), [Some(8)]);
        assert_eq!(possible(&[second, forgotten], (10, 11)), [None, Some(8)]);
    }
}
