//! The history of each extended attribute of each inode is linearizable, as that of [names](super::linearizable) is: an
//! inode has none at first.

use super::Finding;
use super::linearizable::{NameSpec, look};
use crate::history::History;

pub(super) fn check(history: &History) -> Result<(), Finding> {
    for ((ino, name), operations) in history.xattrs().all() {
        let what = || format!("{} of {ino}", String::from_utf8_lossy(name));
        look::<NameSpec<_>>("xattr-values", what, &operations)?;
    }
    Ok(())
}
