//! Mounts of PandoFS that the process sees.

use pandofs_handles::mounts::{self, Line};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub point: Vec<u8>,
    /// The path that its source names.
    pub source: Vec<u8>,
}

/// The mounts of PandoFS, in the order in which they were made.
pub(crate) fn pandofs() -> Vec<Mount> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = text.split(|&byte| byte == b'\n').filter_map(Line::parse);
    lines
        .filter_map(|line| {
            let source = mounts::named(&line.fs_type, &line.source)?;
            Some(Mount {
                source: source.as_os_str().as_bytes().to_vec(),
                point: line.point.into_vec(),
            })
        })
        .collect()
}
