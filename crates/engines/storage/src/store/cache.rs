//! Values read lately, so that reading them again asks no store.

use hashbrown::HashMap;

/// Bytes that an entry takes besides its key and value, about.
const ENTRY_BYTES: usize = 96;

/// Two generations of pairs that were read: a hit in the old one moves to the young one, and when the
/// young one is full it becomes the old one. A pair not read for a whole generation is thus forgotten,
/// at no cost for those in use.
pub struct ReadCache {
    /// Bytes of one generation.
    room: usize,
    young: HashMap<Vec<u8>, Option<Vec<u8>>>,
    old: HashMap<Vec<u8>, Option<Vec<u8>>>,
    young_bytes: usize,
}

impl ReadCache {
    /// One that takes so many bytes.
    pub fn of(bytes: usize) -> ReadCache {
        ReadCache {
            room: bytes / 2,
            young: HashMap::new(),
            old: HashMap::new(),
            young_bytes: 0,
        }
    }

    /// Returns the cached knowledge of a key: its value, or that there is none.
    pub fn get(&mut self, key: &[u8]) -> Option<&Option<Vec<u8>>> {
        if !self.young.contains_key(key) {
            let (key, value) = self.old.remove_entry(key)?;
            self.insert_young(key, value);
        }
        self.young.get(key)
    }

    /// A key was read from the store.
    pub fn insert(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        self.insert_young(key.to_vec(), value);
    }

    /// A key is about to be written to the store: what is known of it changes.
    pub fn wrote(&mut self, key: &[u8], value: Option<&[u8]>) {
        let known = match self.young.get_mut(key) {
            Some(known) => Some(known),
            None => self.old.get_mut(key),
        };
        if let Some(known) = known {
            let reused = known.take().map(|mut old| {
                old.clear();
                old
            });
            *known = value.map(|value| {
                let mut kept = reused.unwrap_or_default();
                kept.extend_from_slice(value);
                kept
            });
        }
    }

    fn insert_young(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.young_bytes += ENTRY_BYTES + key.len() + value.as_ref().map_or(0, Vec::len);
        self.young.insert(key, value);
        if self.young_bytes > self.room {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::overlay::RECENT_READS_BYTES;

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let mut cache = ReadCache::of(RECENT_READS_BYTES);
        cache.insert(b"hot", Some(vec![1]));
        cache.insert(b"cold", None);
        for number in 0..3_u8 {
            for part in 0..=16_u8 {
                cache.insert(&[number, part], Some(vec![0; 1 << 20]));
            }
            assert_eq!(cache.get(b"hot"), Some(&Some(vec![1])));
        }
        assert_eq!(cache.get(b"cold"), None);
    }

    #[test]
    fn a_write_changes_what_is_known_in_either_generation() {
        let mut cache = ReadCache::of(RECENT_READS_BYTES);
        cache.insert(b"a", Some(vec![1]));
        cache.insert(b"b", None);
        cache.old = std::mem::take(&mut cache.young);
        cache.insert(b"c", Some(vec![3]));
        cache.wrote(b"a", None);
        cache.wrote(b"b", Some(&[2]));
        cache.wrote(b"c", Some(&[4]));
        cache.wrote(b"d", Some(&[5]));
        assert_eq!(cache.get(b"a"), Some(&None));
        assert_eq!(cache.get(b"b"), Some(&Some(vec![2])));
        assert_eq!(cache.get(b"c"), Some(&Some(vec![4])));
        assert_eq!(cache.get(b"d"), None, "what nobody reads is not kept");
    }

    /// Two entries of 104 and 98 bytes.
    #[test]
    fn a_generation_is_over_when_it_takes_more_than_half_of_the_room() {
        let generations = |bytes| {
            let mut cache = ReadCache::of(bytes);
            cache.insert(b"key", Some(vec![0; 5]));
            cache.insert(b"no", None);
            (cache.young.len(), cache.old.len(), cache.young_bytes)
        };
        let (one, both) = (ENTRY_BYTES + 3 + 5, 2 * ENTRY_BYTES + 3 + 5 + 2);
        assert_eq!(generations(2 * both), (2, 0, both));
        assert_eq!(generations(2 * both - 2), (0, 2, 0));
        assert_eq!(generations(2 * one), (0, 2, 0));
        assert_eq!(generations(2 * one - 2), (1, 1, ENTRY_BYTES + 2));
    }
}
