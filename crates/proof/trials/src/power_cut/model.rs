//! A model of the possible states after a loss of power, given what was synced.
//!
//! It has them for single values, a directory's names and a file's contents.

use std::collections::BTreeMap;

/// Bytes that are there whole or not at all.
pub(super) const SECTOR: usize = 512;
const MAGIC: u64 = 0x7061_6e64_6f20_6375;
/// Length of the stamp that a sector repeats.
const STAMP: usize = 32;

/// A value of which it is not certain what a loss of power leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Uncertain<T> {
    /// The value that it was set to last.
    newest: T,
    /// It is one of these: one, unless something was lost and it was not looked at.
    live: Vec<T>,
    /// It may be any of these when what was not synced is lost.
    possible: Vec<T>,
}

impl<T: Clone + PartialEq> Uncertain<T> {
    pub(super) fn certain(value: T) -> Uncertain<T> {
        Uncertain {
            newest: value.clone(),
            live: vec![value.clone()],
            possible: vec![value],
        }
    }

    /// The value that it was set to last, or found to be since.
    pub(super) fn newest(&self) -> &T {
        &self.newest
    }

    pub(super) fn set(&mut self, value: T) {
        self.newest = value.clone();
        self.live = vec![value.clone()];
        self.add(value);
    }

    /// It may have been set.
    pub(super) fn perhaps(&mut self, value: T) {
        if !self.live.contains(&value) {
            self.live.push(value.clone());
        }
        self.newest = value.clone();
        self.add(value);
    }

    fn add(&mut self, value: T) {
        if !self.possible.contains(&value) {
            self.possible.push(value);
        }
    }

    /// A sync succeeded: nothing of it was lost, nor will be.
    pub(super) fn synced(&mut self) {
        self.possible.clone_from(&self.live);
    }

    /// A sync failed: anything since the last one that succeeded may be lost.
    pub(super) fn failed(&mut self) {
        self.live.clone_from(&self.possible);
    }

    pub(super) fn may_be(&self, found: &T) -> bool {
        self.live.contains(found)
    }

    /// It was looked at after a sync.
    pub(super) fn found(&mut self, found: T) {
        *self = Uncertain::certain(found);
    }
}

/// Names and inode numbers of one directory at one time.
pub(super) type Names = BTreeMap<String, u64>;

/// Something that is done to names.
#[derive(Clone, Debug)]
pub(super) enum Renaming {
    Make(String, u64),
    Move(String, String),
    Remove(String),
}

impl Renaming {
    /// The names after it, if it can be done to these.
    pub(super) fn of(&self, names: &Names) -> Option<Names> {
        let mut names = names.clone();
        match self {
            Renaming::Make(name, ino) => {
                if names.insert(name.clone(), *ino).is_some() {
                    return None;
                }
            }
            Renaming::Move(from, to) => {
                let ino = names.remove(from)?;
                names.insert(to.clone(), ino);
            }
            Renaming::Remove(name) => {
                names.remove(name)?;
            }
        }
        Some(names)
    }
}

impl Uncertain<Names> {
    pub(super) fn rename(&mut self, renaming: &Renaming) {
        if let Some(names) = renaming.of(self.newest()) {
            self.set(names);
        }
    }

    /// It was under way when the power was lost, and was answered: it came before the loss, or after it to whatever
    /// that left.
    pub(super) fn rename_meanwhile(&mut self, renaming: &Renaming) {
        let left = self.possible.clone();
        self.rename(renaming);
        for names in left.iter().filter_map(|names| renaming.of(names)) {
            self.add(names);
        }
    }
}

/// Contents of a file. Sectors have the number of the write that they are of, 0 for zeros.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    ino: u64,
    sizes: Uncertain<u64>,
    sectors: Vec<Uncertain<u64>>,
}

impl Contents {
    pub(super) fn empty(ino: u64) -> Contents {
        Contents {
            ino,
            sizes: Uncertain::certain(0),
            sectors: Vec::new(),
        }
    }

    /// Sectors.
    pub(super) fn size(&self) -> u64 {
        *self.sizes.newest()
    }

    /// Bytes of a write to these sectors.
    pub(super) fn bytes(&self, first: u64, count: u64, write: u64) -> Vec<u8> {
        (first..first + count)
            .flat_map(|sector| stamp(self.ino, sector, write).repeat(SECTOR / STAMP))
            .collect()
    }

    fn reach(&mut self, count: u64) {
        if self.sectors.len() < count as usize {
            self.sectors.resize(count as usize, Uncertain::certain(0));
        }
    }

    /// Sectors were written; `done`: that is known, and not only possible.
    pub(super) fn written(&mut self, first: u64, count: u64, write: u64, done: bool) {
        let end = first + count;
        self.reach(end);
        for sector in &mut self.sectors[first as usize..end as usize] {
            change(sector, write, done);
        }
        if end > self.size() {
            change(&mut self.sizes, end, done);
        }
    }

    pub(super) fn cut(&mut self, size: u64, done: bool) {
        for sector in self.sectors.iter_mut().skip(size as usize) {
            change(sector, 0, done);
        }
        change(&mut self.sizes, size, done);
    }

    pub(super) fn synced(&mut self) {
        self.sizes.synced();
        self.sectors.iter_mut().for_each(Uncertain::synced);
    }

    pub(super) fn failed(&mut self) {
        self.sizes.failed();
        self.sectors.iter_mut().for_each(Uncertain::failed);
    }

    /// It was read whole after a sync; returns what is wrong with it. `believes`: it is to be what
    /// was synced, and not only something that was once written there.
    pub(super) fn found(&mut self, bytes: &[u8], newest: u64, believes: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        let size = (bytes.len() / SECTOR) as u64;
        let (least, most) = (self.sizes.live.iter().min(), self.sizes.live.iter().max());
        let fits =
            least.is_none_or(|least| *least <= size) && most.is_none_or(|most| size <= *most);
        if !bytes.len().is_multiple_of(SECTOR) || (believes && !fits) {
            wrong.push(format!(
                "{} bytes, and sectors may be {:?}",
                bytes.len(),
                self.sizes.live
            ));
        }
        self.sizes.found(size);
        self.reach(size);
        for (number, sector) in self.sectors.iter_mut().enumerate() {
            let at = number * SECTOR;
            let write = match bytes.get(at..at + SECTOR) {
                None => Some(0),
                Some(found) => write_of(found, self.ino, number as u64),
            };
            match write {
                Some(write) if write > newest => {
                    wrong.push(format!(
                        "sector {number} is of write {write}, which never was"
                    ));
                }
                Some(write) => {
                    if believes && number < size as usize && !sector.may_be(&write) {
                        wrong.push(format!(
                            "sector {number} is of write {write}, and may be of {:?}",
                            sector.live
                        ));
                    }
                    sector.found(write);
                }
                None => wrong.push(format!(
                    "sector {number} is garbage: {:02x?}",
                    &bytes[at..at + STAMP]
                )),
            }
        }
        wrong
    }
}

fn change(value: &mut Uncertain<u64>, to: u64, done: bool) {
    if done {
        value.set(to);
    } else {
        value.perhaps(to);
    }
}

fn stamp(ino: u64, sector: u64, write: u64) -> [u8; STAMP] {
    let mut stamp = [0; STAMP];
    for (bytes, number) in stamp.chunks_mut(8).zip([MAGIC, ino, sector, write]) {
        bytes.copy_from_slice(&number.to_be_bytes());
    }
    stamp
}

/// The write that a sector is of, 0 if it is all zeros; none if it is anything else.
fn write_of(found: &[u8], ino: u64, sector: u64) -> Option<u64> {
    if found.iter().all(|&byte| byte == 0) {
        return Some(0);
    }
    let write = u64::from_be_bytes(found[STAMP - 8..STAMP].try_into().ok()?);
    (found
        .chunks(STAMP)
        .all(|part| part == stamp(ino, sector, write)))
    .then_some(write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_is_certain_and_nothing_else() {
        let mut value = Uncertain::certain(1);
        value.set(2);
        value.set(3);
        assert!(value.may_be(&3) && !value.may_be(&2));
        let mut lost = value.clone();
        lost.failed();
        assert!([1, 2, 3].iter().all(|value| lost.may_be(value)));
        // It was not looked at: what is synced now is one of those.
        lost.synced();
        assert!(lost.may_be(&1) && *lost.newest() == 3);
        lost.found(2);
        lost.failed();
        assert!(lost.may_be(&2) && !lost.may_be(&3));
        value.synced();
        value.failed();
        assert!(value.may_be(&3) && !value.may_be(&1));
        value.perhaps(4);
        assert!(value.may_be(&3) && value.may_be(&4));
    }

    #[test]
    fn names_are_lost_from_the_end_on() {
        let mut names = Uncertain::certain(Names::new());
        names.rename(&Renaming::Make("a".into(), 1));
        names.rename(&Renaming::Move("a".into(), "b".into()));
        names.rename_meanwhile(&Renaming::Make("c".into(), 2));
        names.failed();
        let of = |all: &[(&str, u64)]| -> Names {
            all.iter()
                .map(|&(name, ino)| (name.to_owned(), ino))
                .collect()
        };
        for fits in [
            &[][..],
            &[("a", 1)],
            &[("b", 1)],
            &[("b", 1), ("c", 2)],
            &[("c", 2)],
            &[("a", 1), ("c", 2)],
        ] {
            assert!(names.may_be(&of(fits)), "{fits:?}");
        }
        assert!(!names.may_be(&of(&[("a", 1), ("b", 1)])));
        names.rename(&Renaming::Remove("x".into()));
        assert!(Renaming::Remove("x".into()).of(&Names::new()).is_none());
    }

    #[test]
    fn contents_are_compared_sector_by_sector() {
        let mut file = Contents::empty(7);
        file.written(0, 3, 1, true);
        file.synced();
        file.written(1, 3, 2, true);
        let whole = |writes: &[u64]| -> Vec<u8> {
            let sectors = writes.iter().enumerate();
            let file = Contents::empty(7);
            sectors
                .flat_map(|(number, &write)| match write {
                    0 => vec![0; SECTOR],
                    write => file.bytes(number as u64, 1, write),
                })
                .collect()
        };
        assert!(
            file.clone()
                .found(&whole(&[1, 2, 2, 2]), 2, true)
                .is_empty()
        );
        assert_eq!(file.clone().found(&whole(&[1, 2, 1, 2]), 2, true).len(), 1);
        assert_eq!(file.clone().found(&whole(&[1, 2, 2]), 2, true).len(), 1);
        file.failed();
        for fits in [&[1, 1, 1][..], &[1, 2, 1, 0], &[1, 1, 1, 2]] {
            assert!(
                file.clone().found(&whole(fits), 2, true).is_empty(),
                "{fits:?}"
            );
        }
        for wrong in [
            &[2, 1, 1][..],
            &[1, 1],
            &[0, 1, 1, 2],
            &[1, 1, 1, 2, 0],
            &[1, 1, 3],
        ] {
            assert!(
                !file.clone().found(&whole(wrong), 2, true).is_empty(),
                "{wrong:?}"
            );
        }
        // A disk that lies may go back behind what was synced, and never to what was not written there.
        assert!(file.clone().found(&whole(&[2, 1]), 2, false).is_empty());
        let mut torn = whole(&[1, 1, 1]);
        torn[SECTOR + 100] ^= 1;
        assert_eq!(file.clone().found(&torn, 2, false).len(), 1);
        torn.swap_with_slice(&mut [&whole(&[1, 1, 1])[SECTOR..], &[0; SECTOR]].concat());
        assert!(!file.clone().found(&torn, 2, false).is_empty());
        file.found(&whole(&[1, 2, 1]), 2, true);
        file.cut(1, true);
        file.written(2, 1, 3, true);
        assert!(file.found(&whole(&[1, 0, 3]), 3, true).is_empty());
        file.written(0, 1, 4, false);
        assert!(file.clone().found(&whole(&[1, 0, 3]), 4, true).is_empty());
        assert!(file.found(&whole(&[4, 0, 3]), 4, true).is_empty());
    }
}
