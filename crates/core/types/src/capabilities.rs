//! Those of Linux's capabilities that a file system goes by (capabilities(7)).

use serde::{Deserialize, Serialize};

/// A set of capabilities. Capabilities that no file system asks about are not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Capabilities(u16);

impl Capabilities {
    /// Those of an ordinary user.
    pub const NONE: Capabilities = Capabilities(0);
    /// To give files to others, and to groups one is not in.
    pub const CHOWN: Capabilities = Capabilities(1 << 0);
    /// To read, write and search whatever permission bits and lists say, and to execute what anybody may execute.
    pub const DAC_OVERRIDE: Capabilities = Capabilities(1 << 1);
    /// To read files, and to read and search directories, whatever permission bits and lists say.
    pub const DAC_READ_SEARCH: Capabilities = Capabilities(1 << 2);
    /// To do what only the owner of a file may.
    pub const FOWNER: Capabilities = Capabilities(1 << 3);
    /// To keep set-id bits on what one writes to, and to set them for groups one is not in.
    pub const FSETID: Capabilities = Capabilities(1 << 4);
    /// To make devices.
    pub const MKNOD: Capabilities = Capabilities(1 << 5);
    /// To read and write attributes in `trusted.`, and to write those in `security.`.
    pub const SYS_ADMIN: Capabilities = Capabilities(1 << 6);
    /// To give programs capabilities (`security.capability`).
    pub const SETFCAP: Capabilities = Capabilities(1 << 7);
    /// The superuser's.
    pub const ALL: Capabilities = Capabilities((1 << 8) - 1);

    /// Whether all of `wanted` are in it.
    pub const fn has(self, wanted: Capabilities) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// These and `more`.
    #[must_use]
    pub const fn with(self, more: Capabilities) -> Capabilities {
        Capabilities(self.0 | more.0)
    }

    /// These but for `fewer`.
    #[must_use]
    pub const fn without(self, fewer: Capabilities) -> Capabilities {
        Capabilities(self.0 & !fewer.0)
    }
}

impl From<Capabilities> for u16 {
    fn from(set: Capabilities) -> u16 {
        set.0
    }
}

impl TryFrom<u16> for Capabilities {
    type Error = &'static str;

    fn try_from(bits: u16) -> Result<Capabilities, &'static str> {
        match bits & !Capabilities::ALL.0 {
            0 => Ok(Capabilities(bits)),
            _ => Err("capabilities that are not known"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_added_and_not_what_was_taken_off() {
        let set = Capabilities::FOWNER.with(Capabilities::CHOWN);
        assert!(set.has(Capabilities::FOWNER) && set.has(Capabilities::NONE));
        assert!(!set.has(Capabilities::FOWNER.with(Capabilities::MKNOD)));
        assert_eq!(set.without(Capabilities::CHOWN), Capabilities::FOWNER);
        assert!(Capabilities::ALL.has(Capabilities::SETFCAP.with(Capabilities::SYS_ADMIN)));
    }

    #[test]
    fn bits_that_stand_for_nothing_are_refused() {
        assert_eq!(Capabilities::try_from(0xff), Ok(Capabilities::ALL));
        assert!(Capabilities::try_from(0x100).is_err());
    }
}
