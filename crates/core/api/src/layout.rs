//! Striping of new files.

use crate::Layout;
use pandofs_types::ServerId;
use pandofs_types::limits::{MAX_SERVERS, MAX_STRIPE_UNIT_BYTES, MIN_STRIPE_UNIT_BYTES};
use serde::{Deserialize, Serialize};

/// Chosen parts of a layout, for a directory (and what is made in it) or for a file; `None` is the file
/// system's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LayoutChoice {
    /// Bytes of a stripe unit: a multiple of [`MIN_STRIPE_UNIT_BYTES`], [`MAX_STRIPE_UNIT_BYTES`] at most.
    pub unit: Option<u32>,
    /// Data objects, each on another server.
    pub count: Option<u16>,
    /// The server of the first unit; by default another one for each file.
    pub first: Option<ServerId>,
}

impl LayoutChoice {
    /// Whether a file system of so many servers can do it (it comes from the network).
    pub fn fits(&self, servers: u16) -> bool {
        let is_unit = |unit: u32| {
            (MIN_STRIPE_UNIT_BYTES..=MAX_STRIPE_UNIT_BYTES).contains(&unit)
                && unit.is_multiple_of(MIN_STRIPE_UNIT_BYTES)
        };
        self.unit.is_none_or(is_unit)
            && self
                .count
                .is_none_or(|count| (1..=servers).contains(&count))
            && self.first.is_none_or(|first| first.0 < servers)
    }

    /// Whether some file system could do it.
    pub fn is_valid(&self) -> bool {
        self.fits(MAX_SERVERS as u16)
    }

    /// The layout of a file, in place of what it would be otherwise.
    ///
    /// # Panics
    /// When `otherwise` is none.
    pub fn of_file(&self, otherwise: Layout) -> Layout {
        let servers = otherwise.servers;
        assert!(servers > 0, "a layout over no server");
        Layout {
            unit: self.unit.unwrap_or(otherwise.unit),
            // A choice that came from a directory may be older than this cluster map.
            count: self.count.unwrap_or(otherwise.count).clamp(1, servers),
            first: self
                .first
                .map_or(otherwise.first, |first| ServerId(first.0 % servers)),
            servers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_has_to_fit_the_servers() {
        let choice = |unit, count, first| LayoutChoice {
            unit,
            count,
            first: Option::map(first, ServerId),
        };
        assert!(choice(None, None, None).fits(1));
        assert!(choice(Some(4_096), Some(4), Some(3)).fits(4));
        assert!(choice(Some(1 << 30), None, None).fits(4));
        for unit in [0, 4_095, 5_000, (1 << 30) + 4_096] {
            assert!(!choice(Some(unit), None, None).fits(4), "{unit}");
        }
        assert!(!choice(None, Some(0), None).fits(4));
        assert!(!choice(None, Some(5), None).fits(4));
        assert!(!choice(None, None, Some(4)).fits(4));
        assert!(choice(None, Some(5), Some(4)).is_valid());
    }

    #[test]
    fn what_is_not_chosen_stays() {
        let otherwise = Layout {
            unit: 1 << 20,
            count: 4,
            first: ServerId(3),
            servers: 4,
        };
        assert_eq!(LayoutChoice::default().of_file(otherwise), otherwise);
        let choice = LayoutChoice {
            unit: Some(65_536),
            count: Some(2),
            first: None,
        };
        let chosen = choice.of_file(otherwise);
        assert_eq!(
            (chosen.unit, chosen.count, chosen.first),
            (65_536, 2, ServerId(3))
        );
        assert!(chosen.is_valid());
        let old = LayoutChoice {
            count: Some(9),
            first: Some(ServerId(9)),
            ..choice
        };
        assert!(old.of_file(otherwise).is_valid());
    }
}
