//! Names of copies until they are complete.
//!
//! The name follows from that of the file alone, and from the root that it is below: whatever ended
//! a run, the next one comes to the same name and makes it anew. Two roots may be copied to one
//! directory, so that two files come to one name at once; with one temporary name each would take
//! the other's half copy for its own.

use super::links;
use std::ffi::{CStr, CString};

const PREFIX: &[u8] = b".pandofs-";
/// Digits behind it, of half a BLAKE3 digest.
const DIGITS: usize = 32;
const KNOWN: &[u8] = b".pieces";

/// Of the copy of an entry with this name, somewhere below this root.
pub(crate) fn of(root: &CStr, name: &CStr) -> CString {
    let mut hasher = blake3::Hasher::new_derive_key("pandofs cp 1: temporary name");
    hasher.update(root.to_bytes_with_nul());
    hasher.update(name.to_bytes());
    let mut made = PREFIX.to_vec();
    made.extend_from_slice(&hasher.finalize().to_hex().as_bytes()[..DIGITS]);
    CString::new(made).unwrap_or_default()
}

/// Of the file beside a copy with such a name that says which pieces of it are there.
pub(crate) fn known(name: &CStr) -> CString {
    CString::new([name.to_bytes(), KNOWN].concat()).unwrap_or_default()
}

/// The copy whose name, or whose file beside it, this is.
pub(crate) fn copy(name: &CStr) -> CString {
    let bytes = name.to_bytes();
    CString::new(bytes.strip_suffix(KNOWN).unwrap_or(bytes)).unwrap_or_default()
}

/// Returns whether it is such a name, or that of the directory for names of files with several. A
/// file with one is left from a copy that was ended, and no part of a tree: copied, it could come
/// to the very name that another copy has as yet.
pub(crate) fn is_one(name: &CStr) -> bool {
    let digits = name.to_bytes().strip_prefix(PREFIX);
    let digits = digits.map(|it| it.strip_suffix(KNOWN).unwrap_or(it));
    name == links::NAME
        || digits.is_some_and(|it| it.len() == DIGITS && it.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_file_and_its_root() {
        let name = of(c"root", c"file");
        assert_eq!(name, of(c"root", c"file"));
        assert_ne!(name, of(c"root", c"other"));
        assert_ne!(name, of(c"other", c"file"));
        assert_ne!(of(c"ro", c"ot"), of(c"r", c"oot"));
        assert_eq!(name.to_bytes().len(), PREFIX.len() + DIGITS);
        assert!(is_one(&name));
        assert!(is_one(&known(&name)));
        assert_eq!(copy(&known(&name)), name);
        assert_eq!(copy(&name), name);
        assert!(is_one(links::NAME));
        for other in [
            c"file",
            c".pandofs-",
            c".pandofs-x",
            c".pandofs-.pieces",
            c".pandofs-0123456789abcdef",
        ] {
            assert!(!is_one(other), "{other:?}");
        }
    }
}
