//! Lines of `/proc/self/mountinfo`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Prefix of the source of a PandoFS mount in the system's list, unless `mount(8)` was given
/// another; its cluster map follows, or the directory of a cluster made by `up`.
pub const SOURCE_PREFIX: &[u8] = b"pandofs:";
/// The type of a mount that `mount(8)` made, whatever its source is.
pub const FS_TYPE: &str = "fuse.pandofs";

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The path where it is mounted.
    pub point: OsString,
    /// Its type.
    pub fs_type: String,
    /// The source that was mounted.
    pub source: OsString,
    /// The minor number of its device, which for file systems without a disk is all of it.
    pub device: u32,
}

impl Line {
    /// One line: `36 35 98:0 /root /mount/point options optional... - type source superoptions`.
    pub fn parse(line: &[u8]) -> Option<Line> {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let separator = fields.iter().position(|&field| field == b"-")?;
        let minor = fields.get(2)?.split(|&byte| byte == b':').nth(1)?;
        Some(Line {
            point: unescape(fields.get(4)?),
            fs_type: String::from_utf8_lossy(fields.get(separator + 1)?).into_owned(),
            source: unescape(fields.get(separator + 2)?),
            device: std::str::from_utf8(minor).ok()?.parse().ok()?,
        })
    }
}

/// Path that the source of a PandoFS mount names: a cluster map, or the directory of a cluster made by `up`. `None` if it
/// is another file system's.
pub fn named<'s>(fs_type: &str, source: &'s OsStr) -> Option<&'s Path> {
    let bytes = source.as_bytes();
    let rest = bytes.strip_prefix(SOURCE_PREFIX);
    let is_fuse = fs_type == "fuse" || fs_type.starts_with("fuse.");
    let is_it = is_fuse && rest.is_some() || fs_type == FS_TYPE;
    is_it.then(|| Path::new(OsStr::from_bytes(rest.unwrap_or(bytes))))
}

/// The kernel writes space, tab, line end and backslash as `\ooo`.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| byte == b'\\').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match octal {
            Some(value) => {
                bytes.push(value);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let line =
            br"36 35 0:41 / /mnt/a\040b rw,nosuid shared:1 - fuse pandofs:/d\134x rw,user_id=0";
        let line = Line::parse(line).unwrap();
        assert_eq!((line.point.as_bytes(), line.device), (&b"/mnt/a b"[..], 41));
        assert_eq!(named(&line.fs_type, &line.source), Some(Path::new(r"/d\x")));
        let is = |fs_type: &str, source: &str| named(fs_type, OsStr::new(source)).is_some();
        assert!(is("fuse.pandofs", "/etc/map.json"));
        assert!(!is("fuse.sshfs", "/etc/map.json") && !is("ext4", "pandofs:/x"));
        assert_eq!(Line::parse(b""), None);
        assert_eq!(Line::parse(b"1 2 3 / /x rw"), None);
    }
}
