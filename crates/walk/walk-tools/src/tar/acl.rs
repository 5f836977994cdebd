//! Access control lists as text, as archives have them.
//!
//! GNU tar, star and bsdtar write them so: `user::rw-,user:nobody:rwx:65534,…`.
//!
//! The kernel has them as values of two extended attributes: a version of four bytes, and of each
//! entry its kind, its permissions (two bytes each) and the user or group that it is for (four
//! bytes), little-endian.

use std::fmt::Write;

/// Records of access control lists begin so.
pub(crate) const RECORD: &[u8] = b"SCHILY.acl.";
/// And so do the attributes.
const ATTRIBUTE: &[u8] = b"system.posix_acl_";
/// Scopes, which come after either.
const SCOPES: [&[u8]; 2] = [b"access", b"default"];

const VERSION: u32 = 2;
/// The number in entries without a user or group.
const NO_ID: u32 = u32::MAX;

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Errors of a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("'{0}' is no entry")]
    Entry(String),
    #[error("no user or group is called '{0}' on this system")]
    Unknown(String),
    #[error("an entry is missing, or there more than once")]
    Entries,
    #[error("it is no UTF-8")]
    Encoding,
}

/// Whether an entry is for a user or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    User,
    Group,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    /// In the order that the kernel wants.
    kind: u16,
    id: u32,
    permissions: u16,
}

/// Returns the list that an attribute is, if it is one.
pub(crate) fn scope_of(attribute: &[u8]) -> Option<&'static [u8]> {
    let name = attribute.strip_prefix(ATTRIBUTE)?;
    SCOPES.into_iter().find(|scope| *scope == name)
}

/// The attribute of one of the two lists.
pub(crate) fn attribute_of(scope: &[u8]) -> Option<Vec<u8>> {
    let scope = SCOPES.into_iter().find(|it| *it == scope)?;
    Some([ATTRIBUTE, scope].concat())
}

/// An attribute's value as text, with numbers where `name` has none; none if it is not of that
/// form.
pub(crate) fn to_text(
    value: &[u8],
    mut name: impl FnMut(Who, u32) -> Option<String>,
) -> Option<Vec<u8>> {
    let (version, entries) = value.split_first_chunk::<4>()?;
    let (entries, rest) = entries.as_chunks::<8>();
    if u32::from_le_bytes(*version) != VERSION || !rest.is_empty() {
        return None;
    }
    let mut text = String::new();
    for entry in entries {
        let kind = u16::from_le_bytes([entry[0], entry[1]]);
        let permissions = u16::from_le_bytes([entry[2], entry[3]]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let (word, who) = match kind {
            OWNER => ("user", None),
            USER => ("user", Some(Who::User)),
            OWNING_GROUP => ("group", None),
            GROUP => ("group", Some(Who::Group)),
            MASK => ("mask", None),
            OTHER => ("other", None),
            _ => return None,
        };
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(word);
        text.push(':');
        // One that would end the field is left to the number.
        let called = who
            .and_then(|who| name(who, id))
            .filter(|name| is_word(name));
        if let Some(name) = &called {
            text.push_str(name);
        } else if who.is_some() {
            let _ = write!(text, "{id}");
        }
        text.push(':');
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            text.push(if permissions & bit == 0 { '-' } else { letter });
        }
        if called.is_some() {
            let _ = write!(text, ":{id}");
        }
    }
    Some(text.into_bytes())
}

fn is_word(name: &str) -> bool {
    let ends = |letter: char| matches!(letter, ':' | ',' | '#') || letter.is_whitespace();
    !name.is_empty() && !name.contains(ends)
}

/// The value of an attribute. `number` gives the number of a name here, and gets the one that the
/// text has besides.
///
/// # Errors
/// When the text is no access control list, or of somebody who is not known.
pub(crate) fn from_text(
    text: &[u8],
    mut number: impl FnMut(Who, &str, Option<u32>) -> Option<u32>,
) -> Result<Vec<u8>, Malformed> {
    let text = std::str::from_utf8(text).map_err(|_| Malformed::Encoding)?;
    let mut items = Vec::new();
    for line in text.split('\n') {
        // Behind it is a remark, as of what the mask takes away.
        let line = line.split('#').next().unwrap_or_default();
        for entry in line.split(',').map(str::trim) {
            if !entry.is_empty() {
                items.push(item(entry, &mut number)?);
            }
        }
    }
    items.sort_unstable();
    let count = |kind| items.iter().filter(|it| it.kind == kind).count();
    let is_named = count(USER) + count(GROUP) > 0;
    let one_each = [OWNER, OWNING_GROUP, OTHER]
        .iter()
        .all(|it| count(*it) == 1);
    let twice = items
        .windows(2)
        .any(|two| (two[0].kind, two[0].id) == (two[1].kind, two[1].id));
    if !one_each || twice || is_named && count(MASK) == 0 {
        return Err(Malformed::Entries);
    }
    let mut value = VERSION.to_le_bytes().to_vec();
    for item in items {
        value.extend_from_slice(&item.kind.to_le_bytes());
        value.extend_from_slice(&item.permissions.to_le_bytes());
        value.extend_from_slice(&item.id.to_le_bytes());
    }
    Ok(value)
}

fn item(
    entry: &str,
    number: &mut impl FnMut(Who, &str, Option<u32>) -> Option<u32>,
) -> Result<Item, Malformed> {
    let wrong = || Malformed::Entry(entry.to_owned());
    let fields: Vec<&str> = entry.split(':').map(str::trim).collect();
    let (word, name, letters, id) = match fields[..] {
        [word @ ("mask" | "m" | "other" | "o"), letters] => (word, "", letters, None),
        [word, name, letters] => (word, name, letters, None),
        [word, name, letters, id] => (word, name, letters, Some(id)),
        _ => return Err(wrong()),
    };
    let id: Option<u32> = id.map(|id| id.parse().map_err(|_| wrong())).transpose()?;
    let (kind, who) = match (word, name.is_empty()) {
        ("user" | "u", true) => (OWNER, None),
        ("user" | "u", false) => (USER, Some(Who::User)),
        ("group" | "g", true) => (OWNING_GROUP, None),
        ("group" | "g", false) => (GROUP, Some(Who::Group)),
        ("mask" | "m", true) => (MASK, None),
        ("other" | "o", true) => (OTHER, None),
        _ => return Err(wrong()),
    };
    let mut permissions = 0;
    for letter in letters.chars() {
        permissions |= match letter {
            'r' => 4,
            'w' => 2,
            'x' => 1,
            '-' => 0,
            _ => return Err(wrong()),
        };
    }
    if letters.is_empty() || letters.len() > 3 {
        return Err(wrong());
    }
    let id = match who {
        Some(who) => {
            let id = number(who, name, id);
            id.ok_or_else(|| Malformed::Unknown(name.to_owned()))?
        }
        None => NO_ID,
    };
    Ok(Item {
        kind,
        id,
        permissions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of `setfacl -m u:nobody:rwx,g:1001:r` on a file of mode 640.
    const VALUE: &[u8] = b"\x02\0\0\0\
        \x01\0\x06\0\xff\xff\xff\xff\x02\0\x07\0\xfe\xff\0\0\x04\0\x04\0\xff\xff\xff\xff\
        \x08\0\x04\0\xe9\x03\0\0\x10\0\x07\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";

    fn number(_: Who, name: &str, id: Option<u32>) -> Option<u32> {
        match name {
            "nobody" => Some(65_534),
            name => name.parse().ok().or(id),
        }
    }

    fn name(who: Who, id: u32) -> Option<String> {
        (who == Who::User && id == 65_534).then(|| "nobody".to_owned())
    }

    #[test]
    fn values_are_written_as_text_and_read_again() {
        let text = to_text(VALUE, name).unwrap();
        let shown =
            "user::rw-,user:nobody:rwx:65534,group::r--,group:1001:r--,mask::rwx,other::---";
        assert_eq!(String::from_utf8(text).unwrap(), shown);
        assert_eq!(from_text(shown.as_bytes(), number).unwrap(), VALUE);
        let numbers = to_text(VALUE, |_, _| None).unwrap();
        assert_eq!(from_text(&numbers, number).unwrap(), VALUE);
        // A name that would be more than one field.
        let odd = to_text(VALUE, |_, _| Some("a:b".to_owned())).unwrap();
        assert_eq!(odd, numbers);
    }

    #[test]
    fn all_ways_to_write_it_are_read() {
        for text in [
            "user::rw-\nuser:nobody:rwx\ngroup::r--\ngroup:1001:r--\nmask::rwx\nother::---\n",
            "other::---,mask::rwx,group:1001:r--,user:nobody:rwx,group::r--,user::rw-",
            "u::rw,u:65534:rwx,g::r,g:1001:r,m:rwx,o:-",
            "user::rw-\nuser:nobody:rwx\t#effective:r-x\n# all\n\ngroup::r--\ngroup:staff:r--:1001\nmask::rwx\nother::---",
        ] {
            assert_eq!(from_text(text.as_bytes(), number).unwrap(), VALUE, "{text}");
        }
    }

    #[test]
    fn what_is_none_is_an_error() {
        let entry = |text: &str| Malformed::Entry(text.to_owned());
        for (text, error) in [
            ("", Malformed::Entries),
            ("user::rwx,group::rwx", Malformed::Entries),
            (
                "user::rwx,user::r--,group::rwx,other::r--",
                Malformed::Entries,
            ),
            (
                "user::rwx,group::rwx,other::rwx,user:1:rwx",
                Malformed::Entries,
            ),
            (
                "user::rwx,group::rwx,other::rwx,mask::rwx,user:1:rwx,user:1:r--",
                Malformed::Entries,
            ),
            ("user::rwx,group::rwx,other", entry("other")),
            ("user:rwx", entry("user:rwx")),
            ("user::rwq", entry("user::rwq")),
            ("user::", entry("user::")),
            ("user::rwxr", entry("user::rwxr")),
            ("other:nobody:rwx", entry("other:nobody:rwx")),
            ("user:nobody:rwx:many", entry("user:nobody:rwx:many")),
            ("user:nobody:rwx:1:2", entry("user:nobody:rwx:1:2")),
            ("everyone::rwx", entry("everyone::rwx")),
            (
                "user:none such:rwx",
                Malformed::Unknown("none such".to_owned()),
            ),
        ] {
            assert_eq!(from_text(text.as_bytes(), number), Err(error), "{text}");
        }
        assert_eq!(
            from_text(b"user:\xff:rwx", number),
            Err(Malformed::Encoding)
        );
        for value in [&b""[..], b"\x01\0\0\0", &VALUE[..VALUE.len() - 1]] {
            assert_eq!(to_text(value, name), None);
        }
        let mut unknown = VALUE.to_vec();
        unknown[4] = 0x40;
        assert_eq!(to_text(&unknown, name), None);
    }

    #[test]
    fn attributes_have_a_scope() {
        for scope in SCOPES {
            let attribute = attribute_of(scope).unwrap();
            assert_eq!(scope_of(&attribute), Some(scope));
        }
        assert_eq!(attribute_of(b"ace"), None);
        assert_eq!(scope_of(b"user.posix_acl_access"), None);
        assert_eq!(scope_of(b"system.posix_acl_richacl"), None);
    }
}
