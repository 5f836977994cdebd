//! Things that are found by a number which is never used for another one.

/// The number of a thing in [`Slots`]: its place and how many were at that place before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SlotKey {
    index: u32,
    generation: u32,
}

impl SlotKey {
    pub fn as_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub fn from_u64(number: u64) -> SlotKey {
        SlotKey {
            index: number as u32,
            generation: (number >> 32) as u32,
        }
    }
}

/// A table whose keys say whether what they stood for is still there. (A ticket of a connection that
/// was closed must not find the one that took its place.)
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub fn new() -> Slots<T> {
        Slots {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn insert(&mut self, value: T) -> SlotKey {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                assert!(self.places.len() < u32::MAX as usize);
                self.places.push(Place {
                    generation: 0,
                    value: None,
                });
                self.places.len() as u32 - 1
            }
        };
        let place = &mut self.places[index as usize];
        assert!(place.value.is_none(), "a free place is empty");
        place.value = Some(value);
        SlotKey {
            index,
            generation: place.generation,
        }
    }

    pub fn get_mut(&mut self, key: SlotKey) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation == key.generation {
            place.value.as_mut()
        } else {
            None
        }
    }

    pub fn remove(&mut self, key: SlotKey) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (SlotKey, &T)> {
        self.places.iter().zip(0..).filter_map(|(place, index)| {
            let key = SlotKey {
                index,
                generation: place.generation,
            };
            place.value.as_ref().map(|value| (key, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_finds_what_came_after() {
        let mut slots = Slots::new();
        let a = slots.insert('a');
        let b = slots.insert('b');
        assert_eq!(slots.remove(a), Some('a'));
        let c = slots.insert('c');
        assert_ne!(a, c);
        assert_eq!(
            c.as_u64() as u32,
            a.as_u64() as u32,
            "the place is used again"
        );
        assert_eq!(slots.get_mut(a), None);
        assert_eq!(slots.remove(a), None);
        assert_eq!(slots.get_mut(c), Some(&mut 'c'));
        assert_eq!(slots.get_mut(SlotKey::from_u64(b.as_u64())), Some(&mut 'b'));
        assert_eq!(slots.get_mut(SlotKey::from_u64(99)), None);
        assert_eq!(slots.len(), 2);
        assert_eq!(
            slots.iter().map(|(_, value)| *value).collect::<String>(),
            "cb"
        );
    }
}
