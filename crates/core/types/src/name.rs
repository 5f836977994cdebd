//! Names of directory entries.

use crate::limits::MAX_NAME_BYTES;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// A name that may stand in a directory: 1 to 255 bytes, neither `/` nor NUL in it, not `.` or `..`.
/// Any other bytes are allowed, UTF-8 or not.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<[u8]>);

/// Why bytes are no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has no bytes.
    #[error("a name may not be empty")]
    Empty,
    /// It has this many bytes.
    #[error("a name may not be longer than {MAX_NAME_BYTES} bytes, this one has {0}")]
    TooLong(usize),
    /// It holds a byte that ends a path's component or the path.
    #[error("a name may not hold '/' or NUL")]
    ForbiddenByte,
    /// It stands for the directory itself or its parent, which have no entries.
    #[error("'.' and '..' name no entry")]
    Dots,
}

impl Name {
    /// Checks `bytes` and copies them.
    pub fn new(bytes: &[u8]) -> Result<Name, NameError> {
        if bytes.is_empty() {
            return Err(NameError::Empty);
        }
        if bytes.len() > MAX_NAME_BYTES {
            return Err(NameError::TooLong(bytes.len()));
        }
        if bytes.iter().any(|&b| b == b'/' || b == 0) {
            return Err(NameError::ForbiddenByte);
        }
        if bytes == b"." || bytes == b".." {
            return Err(NameError::Dots);
        }
        Ok(Name(bytes.into()))
    }

    /// Between 1 and `MAX_NAME_BYTES` bytes in no particular encoding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name(\"{self}\")")
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl de::Visitor<'_> for NameVisitor {
            type Value = Name;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the bytes of a name")
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Name, E> {
                Name::new(bytes).map_err(E::custom)
            }
        }
        deserializer.deserialize_bytes(NameVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_and_is_not_a_name() {
        assert_eq!(Name::new(b"").unwrap_err(), NameError::Empty);
        assert_eq!(Name::new(b".").unwrap_err(), NameError::Dots);
        assert_eq!(Name::new(b"..").unwrap_err(), NameError::Dots);
        assert_eq!(Name::new(b"a/b").unwrap_err(), NameError::ForbiddenByte);
        assert_eq!(Name::new(b"a\0").unwrap_err(), NameError::ForbiddenByte);
        assert_eq!(
            Name::new(&[b'x'; 256]).unwrap_err(),
            NameError::TooLong(256)
        );
        assert!(Name::new(&[b'x'; 255]).is_ok());
        assert!(Name::new(b"...").is_ok());
        assert!(Name::new(&[0xff, b'\n', b' ']).is_ok());
    }
}
