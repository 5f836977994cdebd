//! Contents of one file: what programs see, what is on the disk, and the changes between the two.
//!
//! Pages that were written reach the disk one by one and in any order, torn into sectors or whole. Changes of
//! the file's map (its size, holes, allocations) go through the journal, in order; and a page that was written
//! after the place was cut away or made a hole has new room on the disk, which belongs to the file only when the
//! journal says so.

use super::luck::{Luck, SECTOR};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

pub(crate) const PAGE: usize = 4_096;
const PAGE_BYTES: u64 = PAGE as u64;
/// Changes of one file that are held at most; then the older half is written, as systems do after a while.
pub(crate) const MAX_HELD: usize = 4_096;

type Page = Arc<[u8; PAGE]>;

/// Contents at one time. A page that is not there is a hole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    pub size: u64,
    pages: BTreeMap<u64, Page>,
}

/// A change that is not synced.
#[derive(Clone, Debug)]
enum Held {
    /// The whole page as it then was, and where the file ended at least.
    Page {
        page: u64,
        data: Page,
        end: u64,
    },
    Size(u64),
    Hole(Range<u64>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    live: Image,
    disk: Image,
    held: VecDeque<Held>,
}

fn pages_of(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)
}

impl Image {
    fn page(&self, page: u64) -> Page {
        match self.pages.get(&page) {
            Some(data) => Arc::clone(data),
            None => Arc::new([0; PAGE]),
        }
    }

    fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(length as u64));
        let mut found = Vec::with_capacity(end.saturating_sub(offset) as usize);
        let mut at = offset;
        while at < end {
            let within = (at % PAGE_BYTES) as usize;
            let count = (PAGE - within).min((end - at) as usize);
            match self.pages.get(&(at / PAGE_BYTES)) {
                Some(data) => found.extend_from_slice(&data[within..within + count]),
                None => found.resize(found.len() + count, 0),
            }
            at += count as u64;
        }
        found
    }

    fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.zero(&(size..self.size));
            self.pages.split_off(&size.div_ceil(PAGE_BYTES));
        }
        self.size = size;
    }

    fn zero(&mut self, range: &Range<u64>) {
        let touched: Vec<u64> =
            (self.pages.range(pages_of(range)).map(|(&page, _)| page)).collect();
        for page in touched {
            let start = page * PAGE_BYTES;
            if range.start <= start && start + PAGE_BYTES <= range.end {
                self.pages.remove(&page);
            } else if let Some(data) = self.pages.get_mut(&page) {
                let from = range.start.saturating_sub(start) as usize;
                let to = (range.end - start).min(PAGE_BYTES) as usize;
                Arc::make_mut(data)[from..to].fill(0);
            }
        }
    }

    fn apply(&mut self, change: Held) {
        match change {
            Held::Page { page, data, end } => {
                self.pages.insert(page, data);
                self.size = self.size.max(end);
            }
            Held::Size(size) => self.set_size(size),
            Held::Hole(range) => self.zero(&range),
        }
    }
}

impl File {
    pub(crate) fn size(&self) -> u64 {
        self.live.size
    }

    /// Pages that take room.
    pub(crate) fn pages(&self) -> u64 {
        self.live.pages.len() as u64
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        self.live.read(offset, length)
    }

    fn change(&mut self, change: Held) {
        self.live.apply(change.clone());
        self.held.push_back(change);
        if self.held.len() > MAX_HELD {
            self.sync_first(MAX_HELD / 2);
        }
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let within = (at % PAGE_BYTES) as usize;
            let (part, after) = rest.split_at(rest.len().min(PAGE - within));
            let page = at / PAGE_BYTES;
            let mut data = self.live.page(page);
            Arc::make_mut(&mut data)[within..within + part.len()].copy_from_slice(part);
            at += part.len() as u64;
            let end = at;
            self.change(Held::Page { page, data, end });
            rest = after;
        }
    }

    pub(crate) fn set_size(&mut self, size: u64) {
        self.change(Held::Size(size));
    }

    /// Zeros in place of what is there; the size stays.
    pub(crate) fn make_hole(&mut self, range: Range<u64>) {
        self.change(Held::Hole(range));
    }

    /// The first byte from `offset` on that is (not) in a hole, before the end.
    pub(crate) fn seek(&self, offset: u64, data: bool) -> Option<u64> {
        if offset >= self.live.size {
            return None;
        }
        let first = offset / PAGE_BYTES;
        if data {
            let (&page, _) = self.live.pages.range(first..).next()?;
            let at = offset.max(page * PAGE_BYTES);
            return (at < self.live.size).then_some(at);
        }
        let mut page = first;
        while self.live.pages.contains_key(&page) {
            page += 1;
        }
        Some(offset.max(page * PAGE_BYTES).min(self.live.size))
    }

    fn sync_first(&mut self, count: usize) {
        for change in self.held.drain(..count) {
            self.disk.apply(change);
        }
    }

    /// All is on the disk.
    pub(crate) fn sync(&mut self) {
        self.sync_first(self.held.len());
    }

    /// The power is lost, and comes back.
    pub(crate) fn cut(&mut self, luck: &mut Luck<'_>) {
        luck.next_file();
        let in_journal = |held: &Held| !matches!(held, Held::Page { .. });
        let mut journal = luck.prefix(self.held.iter().filter(|held| in_journal(held)).count());
        // Ranges in which pages that were written later have no room of their own.
        let mut closed: Vec<Range<u64>> = Vec::new();
        for change in std::mem::take(&mut self.held) {
            match change {
                Held::Page { page, data, end } => {
                    if !closed.iter().any(|pages| pages.contains(&page)) {
                        self.keep_page(page, &data, end, luck);
                    }
                }
                change if journal > 0 => {
                    journal -= 1;
                    self.disk.apply(change);
                }
                Held::Size(size) => closed.push(size / PAGE_BYTES..u64::MAX),
                Held::Hole(range) => closed.push(pages_of(&range)),
            }
        }
        let size = self.disk.size;
        self.disk.zero(&(size..size.next_multiple_of(PAGE_BYTES)));
        self.disk.pages.split_off(&size.div_ceil(PAGE_BYTES));
        self.live = self.disk.clone();
    }

    fn keep_page(&mut self, page: u64, data: &Page, end: u64, luck: &mut Luck<'_>) {
        let sectors = luck.page();
        if sectors == 0 {
            return;
        }
        let mut mixed = self.disk.page(page);
        let there = Arc::make_mut(&mut mixed);
        for sector in (0..PAGE / SECTOR).filter(|sector| sectors >> sector & 1 == 1) {
            let bytes = sector * SECTOR..(sector + 1) * SECTOR;
            there[bytes.clone()].copy_from_slice(&data[bytes]);
        }
        self.disk.pages.insert(page, mixed);
        if luck.has_size() {
            self.disk.size = self.disk.size.max(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    /// Contents after the power was lost, for many seeds.
    fn outcomes(file: &File) -> Vec<Vec<u8>> {
        (0..300)
            .map(|seed| {
                let mut random = StdRng::seed_from_u64(seed);
                let mut file = file.clone();
                file.cut(&mut Luck::new(&mut random));
                assert!(!file.is_held() && file.live == file.disk);
                file.read(0, 1 << 20)
            })
            .collect()
    }

    fn synced(byte: u8, pages: usize) -> File {
        let mut file = File::default();
        file.write(0, &vec![byte; pages * PAGE]);
        file.sync();
        file
    }

    #[test]
    fn what_was_synced_is_there() {
        let file = synced(1, 3);
        assert!(
            outcomes(&file)
                .iter()
                .all(|found| found == &vec![1; 3 * PAGE])
        );
    }

    #[test]
    fn pages_come_one_by_one_and_torn_into_sectors() {
        let mut file = synced(1, 3);
        file.write(0, &[2; 3 * PAGE]);
        assert_eq!(file.read(0, 3 * PAGE), vec![2; 3 * PAGE]);
        let found = outcomes(&file);
        for content in &found {
            assert_eq!(content.len(), 3 * PAGE);
            for sector in content.chunks(SECTOR) {
                assert!(sector.iter().all(|&byte| byte == sector[0] && byte > 0));
            }
        }
        let has = |wanted: fn(&[u8]) -> bool| found.iter().any(|content| wanted(content));
        assert!(has(|content| content.iter().all(|&byte| byte == 1)));
        assert!(has(|content| content.iter().all(|&byte| byte == 2)));
        // The last page without the first, and the other way round.
        assert!(has(|content| content[0] == 1 && content[2 * PAGE] == 2));
        assert!(has(|content| content[0] == 2 && content[2 * PAGE] == 1));
        assert!(has(|content| content[0] != content[PAGE - 1]));
    }

    #[test]
    fn a_new_end_may_be_there_with_holes_before_it() {
        let mut file = synced(1, 1);
        file.write(PAGE as u64, &[2; 2 * PAGE]);
        let found = outcomes(&file);
        assert!(found.iter().all(|content| content[..PAGE] == [1; PAGE]));
        assert!(found.iter().any(|content| content.len() == PAGE));
        assert!(
            found
                .iter()
                .any(|content| content.len() == 3 * PAGE && content[PAGE] == 0)
        );
    }

    #[test]
    fn what_was_written_after_a_cut_is_not_there_without_it() {
        let mut file = synced(1, 2);
        file.set_size(0);
        file.write(0, &[2; PAGE]);
        for content in outcomes(&file) {
            let old = content == vec![1; 2 * PAGE];
            let of_the_new = |sector: &[u8]| sector.iter().all(|&byte| byte == 0 || byte == 2);
            let new = content.len() <= PAGE && content.chunks(SECTOR).all(of_the_new);
            assert!(old || new, "{} bytes", content.len());
        }
    }

    #[test]
    fn holes_and_sizes_are_there_in_order() {
        let mut file = synced(1, 3);
        file.make_hole(100..PAGE as u64 * 2);
        file.set_size(PAGE as u64 * 5);
        assert_eq!(file.seek(0, true), Some(0));
        assert_eq!(file.seek(0, false), Some(PAGE as u64));
        assert_eq!(file.seek(PAGE as u64, true), Some(2 * PAGE as u64));
        assert_eq!(file.seek(3 * PAGE as u64, true), None);
        assert_eq!(file.seek(6 * PAGE as u64, false), None);
        let mut seen = [0; 3];
        for content in outcomes(&file) {
            let hole = content[100] == 0;
            let grown = content.len() == 5 * PAGE;
            assert!(hole || !grown);
            assert!(content[99] == 1 && content[2 * PAGE] == 1 && hole == (content[PAGE] == 0));
            seen[usize::from(hole) + usize::from(grown)] += 1;
        }
        assert!(seen.iter().all(|&times| times > 0));
    }

    #[test]
    fn what_is_held_for_long_is_written() {
        let mut file = synced(1, 1);
        for byte in 0..=MAX_HELD as u64 {
            file.write(0, &[byte as u8 | 1; 1]);
        }
        assert_eq!(file.held.len(), MAX_HELD + 1 - MAX_HELD / 2);
        file.set_size(10);
        file.sync();
        assert_eq!((file.disk.size, file.read(8, 10).len()), (10, 2));
        // Bytes that were cut off do not come back.
        file.set_size(20);
        assert_eq!(file.read(9, 20)[1..], [0; 10]);
    }
}
