//! Leases: what a client may cache for a while, because it is asked before a change.

use crate::limits::{
    BRIEF_LEASE, BRIEF_LEASE_MARGIN, LEASE, LEASE_MARGIN, SHORT_LEASE, SHORT_LEASE_MARGIN,
};
use crate::{Ino, Position};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Key of a lease. A shard leases only what it holds itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LeaseKey {
    /// A name of a directory and the inode it leads to, if any. Told by the position of its hash: names that
    /// share it are leased, and recalled, together.
    Entry {
        /// The directory that the name is in.
        dir: Ino,
        /// Position of the name's hash, with ordinal 0.
        position: Position,
    },
    /// An inode's attributes.
    Inode(Ino),
    /// The part of a directory's attributes that goes with the partitions on one shard.
    Parts(Ino),
    /// A directory and all that is in it, exclusively: its names, and the inodes that they lead to.
    Grant(Ino),
}

/// For how long something is leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Term {
    /// [`LEASE`].
    Long,
    /// [`SHORT_LEASE`].
    Short,
    /// [`BRIEF_LEASE`].
    Brief,
}

impl Term {
    /// Number of terms, for tables with a place for each.
    pub const COUNT: usize = 3;

    /// How long a shard keeps its word, from when it got the request.
    pub fn lasts(self) -> Duration {
        match self {
            Term::Long => LEASE,
            Term::Short => SHORT_LEASE,
            Term::Brief => BRIEF_LEASE,
        }
    }

    /// How long the session may believe it, from when it sent the request.
    pub fn believed_for(self) -> Duration {
        self.lasts()
            - match self {
                Term::Long => LEASE_MARGIN,
                Term::Short => SHORT_LEASE_MARGIN,
                Term::Brief => BRIEF_LEASE_MARGIN,
            }
    }
}

/// Leases in an answer to the session that asked, as bits. A shard says it beside the answer, once for an
/// answer about one thing and once for each entry of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leased(pub u8);

impl Leased {
    /// Neither the name nor the attributes may be cached.
    pub const NOTHING: Leased = Leased(0);
    /// The entry that was asked for, or that there is none.
    pub const ENTRY: Leased = Leased(1);
    /// The attributes in the answer; of a directory those of the answering shard.
    pub const ATTRIBUTES: Leased = Leased(2);

    /// Leased for [`BRIEF_LEASE`], not for [`LEASE`].
    const BRIEFLY: Leased = Leased(4);
    /// Leased for [`SHORT_LEASE`], if not [`Leased::BRIEFLY`].
    const SHORTLY: Leased = Leased(8);

    /// For how long all of it is leased.
    pub fn term(self) -> Term {
        if self.has(Leased::BRIEFLY) {
            Term::Brief
        } else if self.has(Leased::SHORTLY) {
            Term::Short
        } else {
            Term::Long
        }
    }

    /// The same for no longer than this.
    #[must_use]
    pub fn within(self, term: Term) -> Leased {
        match term {
            Term::Long => self,
            Term::Short => self.and(Leased::SHORTLY),
            Term::Brief => self.and(Leased::BRIEFLY),
        }
    }

    /// How long the session may believe it, from when it sent the request.
    pub fn believed_for(self) -> Duration {
        self.term().believed_for()
    }

    /// Both, for as long as both are leased.
    #[must_use]
    pub fn and(self, other: Leased) -> Leased {
        Leased(self.0 | other.0)
    }

    /// Returns whether every bit of `other` is set.
    pub fn has(self, other: Leased) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether neither an entry nor attributes are leased, whatever the term.
    pub fn is_nothing(self) -> bool {
        self.0 & (Leased::ENTRY.0 | Leased::ATTRIBUTES.0) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_add_up() {
        let both = Leased::ENTRY.and(Leased::ATTRIBUTES);
        assert!(both.has(Leased::ENTRY) && both.has(Leased::ATTRIBUTES));
        assert!(!Leased::ENTRY.has(both) && !Leased::NOTHING.has(Leased::ENTRY));
        assert!(Leased::NOTHING.is_nothing() && !both.is_nothing());
        let mut longer = both;
        for term in [Term::Short, Term::Brief] {
            assert!(Leased::NOTHING.within(term).is_nothing());
            let within = longer.within(term);
            assert_eq!((within.has(both), within.term()), (true, term));
            assert_eq!(both.and(within).term(), term);
            assert!(within.believed_for() < longer.believed_for());
            assert!(within.believed_for() < term.lasts());
            longer = within;
        }
    }
}
