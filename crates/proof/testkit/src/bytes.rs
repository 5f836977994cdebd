//! The contents of a file, of which only the written pages are kept.

use std::collections::BTreeMap;

/// Bytes of a page.
pub const PAGE: u64 = 4_096;

/// A sparse file: what was never written, or cut off, reads as zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    size: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Bytes {
    /// Bytes; pages that were never written count as zeros.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Up to `length` bytes from `offset` on; fewer at the end of the file.
    pub fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(length));
        let mut data = Vec::new();
        let mut at = offset;
        while at < end {
            let within = at % PAGE;
            let run = (PAGE - within).min(end - at);
            match self.pages.get(&(at / PAGE)) {
                Some(page) => {
                    data.extend_from_slice(&page[within as usize..(within + run) as usize])
                }
                None => data.resize(data.len() + run as usize, 0),
            }
            at += run;
        }
        data
    }

    /// Writes `data` at `offset`; the file grows as needed.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let within = (at % PAGE) as usize;
            let run = (PAGE as usize - within).min(rest.len());
            let page = self
                .pages
                .entry(at / PAGE)
                .or_insert_with(|| vec![0; PAGE as usize]);
            page[within..within + run].copy_from_slice(&rest[..run]);
            at += run as u64;
            rest = &rest[run..];
        }
        self.size = self.size.max(at);
    }

    /// Cuts or extends to `size` bytes.
    pub fn set_size(&mut self, size: u64) {
        if size < self.size {
            let _ = self.pages.split_off(&size.div_ceil(PAGE));
            if let Some(page) = self.pages.get_mut(&(size / PAGE)) {
                page[(size % PAGE) as usize..].fill(0);
            }
        }
        self.size = size;
    }

    /// Makes zeros of these bytes; the size stays.
    pub fn zero(&mut self, offset: u64, end: u64) {
        let end = end.min(self.size);
        let touched: Vec<u64> = self
            .pages
            .range(offset / PAGE..end.div_ceil(PAGE).max(offset / PAGE))
            .map(|(&page, _)| page)
            .collect();
        for page in touched {
            let start = page * PAGE;
            let from = offset.max(start) - start;
            let to = end.min(start + PAGE) - start;
            if from == 0 && to == PAGE {
                self.pages.remove(&page);
            } else if from < to
                && let Some(bytes) = self.pages.get_mut(&page)
            {
                bytes[from as usize..to as usize].fill(0);
            }
        }
    }

    /// The first byte from `offset` on that is not zero: data, however the file is kept.
    pub fn next_nonzero(&self, offset: u64) -> Option<u64> {
        for (&page, bytes) in self.pages.range(offset / PAGE..) {
            let start = page * PAGE;
            let from = offset.max(start) - start;
            let found = bytes[from as usize..].iter().position(|&byte| byte != 0);
            if let Some(at) = found {
                let at = start + from + at as u64;
                return (at < self.size).then_some(at);
            }
        }
        None
    }

    /// The first byte from `offset` on that is zero or beyond the end: no hole begins before it.
    pub fn next_zero(&self, offset: u64) -> u64 {
        let mut at = offset;
        while at < self.size {
            let Some(bytes) = self.pages.get(&(at / PAGE)) else {
                return at;
            };
            let within = (at % PAGE) as usize;
            match bytes[within..].iter().position(|&byte| byte == 0) {
                Some(zero) => return (at + zero as u64).min(self.size),
                None => at = (at / PAGE + 1) * PAGE,
            }
        }
        self.size
    }

    /// Runs of bytes that tell this file from others of its size: every written page, the one after
    /// each of them, and the end.
    pub fn probes(&self) -> Vec<(u64, u64)> {
        let mut pages: Vec<u64> = self
            .pages
            .keys()
            .flat_map(|&page| [page, page + 1])
            .chain([0])
            .collect();
        pages.sort_unstable();
        pages.dedup();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for page in pages.into_iter().filter(|page| page * PAGE < self.size) {
            match runs.last_mut() {
                Some((start, length)) if *start + *length == page * PAGE && *length < 16 * PAGE => {
                    *length += PAGE;
                }
                _ => runs.push((page * PAGE, PAGE)),
            }
        }
        // A read that begins before the end and asks for more.
        runs.push((self.size.saturating_sub(1), 2));
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_and_what_was_cut_off_read_as_zeros() {
        let mut bytes = Bytes::default();
        bytes.write(5 << 30, b"far");
        assert_eq!(bytes.size(), (5 << 30) + 3);
        assert_eq!(bytes.read((5 << 30) - 2, 9), b"\0\0far");
        bytes.write(4_094, b"abcd");
        bytes.set_size(4_097);
        bytes.set_size(9_000);
        assert_eq!(bytes.read(4_093, 6), b"\0abc\0\0");
        assert_eq!(bytes.read(8_999, 10), [0]);
        assert!(bytes.read(9_000, 10).is_empty());
        bytes.set_size(0);
        assert_eq!(bytes, Bytes::default());
    }

    #[test]
    fn zeroed_bytes_are_zeros_and_others_are_not() {
        let mut bytes = Bytes::default();
        bytes.write(0, &[7; 3 * PAGE as usize]);
        bytes.zero(10, PAGE + 5);
        bytes.zero(3 * PAGE - 1, 9 * PAGE);
        let read = bytes.read(0, 9 * PAGE);
        assert_eq!(read.len() as u64, 3 * PAGE);
        for (at, byte) in (0..).zip(read) {
            let zero = (10..PAGE + 5).contains(&at) || at == 3 * PAGE - 1;
            assert_eq!(byte, if zero { 0 } else { 7 }, "byte {at}");
        }
        assert_eq!(bytes.next_nonzero(10), Some(PAGE + 5));
        assert_eq!(bytes.next_nonzero(3 * PAGE - 1), None);
        assert_eq!(bytes.next_zero(7), 10);
        assert_eq!(bytes.next_zero(PAGE + 5), 3 * PAGE - 1);
        bytes.zero(PAGE, 2 * PAGE);
        assert_eq!(bytes.next_nonzero(PAGE), Some(2 * PAGE));
        bytes.zero(5 * PAGE, 5 * PAGE + 1);
    }

    #[test]
    fn probes_cover_what_was_written() {
        let mut bytes = Bytes::default();
        assert_eq!(bytes.probes(), [(0, 2)]);
        bytes.write(3 * PAGE, &[1; 2 * PAGE as usize]);
        bytes.set_size(20 * PAGE);
        assert_eq!(
            bytes.probes(),
            [(0, PAGE), (3 * PAGE, 3 * PAGE), (20 * PAGE - 1, 2)]
        );
    }
}
