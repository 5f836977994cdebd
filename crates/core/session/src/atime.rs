//! Time of access as a read changes it.

use pandofs_types::{AtimeRule, Attr, Time};

/// Sets the time of access as a read at that time does by this rule.
pub fn touch(attr: &mut Attr, at: Time, rule: AtimeRule) {
    if rule.is_due(at, attr.atime, attr.mtime, attr.ctime) {
        attr.atime = at;
    }
}
