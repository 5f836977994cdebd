//! Data objects in memory, which keep apart what was synced and what a loss of power may take.

use super::port::{DataObjects, Done};
use super::thread::Work;
use pandofs_api::{DataReply, DataRequest};
use pandofs_types::limits::{MAX_FILE_BYTES, MAX_IO_BYTES};
use pandofs_types::{FsError, Ino};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that a disk has whole or not at all.
const SECTOR_BYTES: u64 = 512;
/// Bytes that are written to the disk at once, as a rule.
const PAGE_BYTES: u64 = 4_096;

/// A change that may not be on disk.
#[derive(Clone, Debug)]
enum Change {
    Length(u64),
    Bytes { offset: u64, bytes: Vec<u8> },
}

#[derive(Clone, Debug, Default)]
struct File {
    bytes: Vec<u8>,
    truncations: u32,
    /// As on disk; `None` where its name may not be there.
    synced: Option<Vec<u8>>,
    synced_truncations: u32,
    /// Since then, and how many there were before.
    changes: Vec<Change>,
    before: u64,
}

/// The changes of an object that there were at a moment: a sync that begins then has them on disk when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

/// The data objects of one server. All is in memory; a [crash](MemoryObjects::crash) leaves what was synced, and of the rest
/// what a disk with a journal may have.
#[derive(Clone, Debug, Default)]
pub struct MemoryObjects {
    files: BTreeMap<Ino, File>,
    /// Removed, and that is not on disk.
    removed: BTreeMap<Ino, File>,
}

impl MemoryObjects {
    /// All files that have one, and its bytes.
    pub fn all(&self) -> impl Iterator<Item = (Ino, &[u8])> {
        let files = self.files.iter();
        files.map(|(&ino, file)| (ino, file.bytes.as_slice()))
    }

    /// A sync of this begins.
    pub fn mark(&self, work: &Work<Ino>) -> Mark {
        let (Work::Object(ino) | Work::Header(ino) | Work::Removal(ino)) = work;
        let file = self.files.get(ino);
        Mark(file.map_or(0, |file| file.before + file.changes.len() as u64))
    }

    /// It has ended: what there was at its beginning is on disk.
    pub fn sync(&mut self, work: &Work<Ino>, mark: Mark) {
        match work {
            Work::Object(ino) => {
                if let Some(file) = self.files.get_mut(ino) {
                    file.sync(mark);
                }
            }
            Work::Header(ino) => {
                if let Some(file) = self.files.get_mut(ino) {
                    file.synced_truncations = file.truncations;
                }
            }
            Work::Removal(ino) => drop(self.removed.remove(ino)),
        }
    }

    /// The remains after a loss of power. Each page that was written since the last sync is there, or not, or torn into
    /// sectors; lengths are there in their order, up to some one. `draw` decides, by a number below its argument.
    pub fn crash(&self, draw: &mut dyn FnMut(u64) -> u64) -> MemoryObjects {
        let mut left = MemoryObjects::default();
        let back = self
            .removed
            .iter()
            .filter(|(ino, _)| !self.files.contains_key(ino));
        for (&ino, file) in self.files.iter().chain(back) {
            let is_removed = self.removed.contains_key(&ino) && !self.files.contains_key(&ino);
            if (is_removed || file.synced.is_none()) && draw(2) == 0 {
                continue;
            }
            let truncations = match draw(2) {
                0 => file.synced_truncations,
                _ => file.truncations,
            };
            let bytes = file.crash(draw);
            left.files.insert(
                ino,
                File {
                    synced: Some(bytes.clone()),
                    synced_truncations: truncations,
                    bytes,
                    truncations,
                    ..File::default()
                },
            );
        }
        left
    }

    fn file(&mut self, ino: Ino) -> &mut File {
        self.files.entry(ino).or_default()
    }
}

impl File {
    fn write(&mut self, offset: u64, bytes: Vec<u8>) {
        let end = offset + bytes.len() as u64;
        if end > self.bytes.len() as u64 {
            self.set_length(end);
        }
        put(&mut self.bytes, offset, &bytes);
        self.changes.push(Change::Bytes { offset, bytes });
    }

    fn set_length(&mut self, length: u64) {
        self.bytes.resize(length as usize, 0);
        self.changes.push(Change::Length(length));
    }

    fn sync(&mut self, mark: Mark) {
        let count = mark.0.saturating_sub(self.before) as usize;
        let mut synced = self.synced.take().unwrap_or_default();
        for change in self.changes.drain(..count.min(self.changes.len())) {
            self.before += 1;
            match change {
                Change::Length(length) => synced.resize(length as usize, 0),
                Change::Bytes { offset, bytes } => put(&mut synced, offset, &bytes),
            }
        }
        self.synced = Some(synced);
    }

    fn crash(&self, draw: &mut dyn FnMut(u64) -> u64) -> Vec<u8> {
        let mut left = self.synced.clone().unwrap_or_default();
        let mut length = left.len();
        let lengths = self.changes.iter();
        let lengths = lengths.filter(|change| matches!(change, Change::Length(_)));
        let mut kept = draw(lengths.count() as u64 + 1);
        for change in &self.changes {
            match change {
                Change::Length(to) if kept > 0 => {
                    kept -= 1;
                    length = *to as usize;
                    // The bytes beyond are gone.
                    left.truncate(length);
                    left.resize(length, 0);
                }
                Change::Length(_) => {}
                Change::Bytes { offset, bytes } => {
                    for piece in pieces(*offset, bytes.len(), draw) {
                        let from = (piece.start - offset) as usize;
                        let to = (piece.end - offset) as usize;
                        let end = left.len().max(piece.end as usize);
                        left.resize(end, 0);
                        put(&mut left, piece.start, &bytes[from..to]);
                    }
                }
            }
        }
        left.resize(length, 0);
        left
    }
}

fn put(file: &mut [u8], offset: u64, bytes: &[u8]) {
    let offset = offset as usize;
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// The parts of a write that a disk has after a loss of power.
fn pieces(offset: u64, length: usize, draw: &mut dyn FnMut(u64) -> u64) -> Vec<Range<u64>> {
    let (mut at, end) = (offset, offset + length as u64);
    let mut pieces = Vec::new();
    while at < end {
        let page = end.min((at / PAGE_BYTES + 1) * PAGE_BYTES);
        match draw(3) {
            0 => {}
            1 => pieces.push(at..page),
            _ => {
                let mut sector = at;
                while sector < page {
                    let next = page.min((sector / SECTOR_BYTES + 1) * SECTOR_BYTES);
                    if draw(2) == 0 {
                        pieces.push(sector..next);
                    }
                    sector = next;
                }
            }
        }
        at = page;
    }
    pieces
}

impl DataObjects for MemoryObjects {
    type Object = Ino;

    fn ino(&self, object: &Ino) -> Ino {
        *object
    }

    fn object(&mut self, ino: Ino) -> Result<Option<Ino>, FsError> {
        Ok(self.files.contains_key(&ino).then_some(ino))
    }

    fn followed(&self, object: &Ino) -> u32 {
        self.files.get(object).map_or(0, |file| file.truncations)
    }

    fn follow(&mut self, object: &Ino, truncations: u32) -> Result<(), FsError> {
        if let Some(file) = self.files.get_mut(object) {
            file.truncations = truncations;
        }
        Ok(())
    }

    fn check_room(&mut self, request: &DataRequest, _promised: bool) -> Result<(), FsError> {
        match request {
            DataRequest::Write { offset, data, .. } => check_range(*offset, data.len()),
            DataRequest::Fill { data, .. } => check_range(0, data.len()),
            _ => Ok(()),
        }
    }

    /// Without checksums, which a change might not fit.
    fn unsettle(&mut self, _object: &Ino) -> Result<bool, FsError> {
        Ok(false)
    }

    fn settle_again(&mut self, _object: &Ino) {}

    fn write_again(&mut self, _object: &Ino) -> Result<(), FsError> {
        Ok(())
    }

    fn carry_out(&mut self, request: DataRequest) -> Result<Done<Ino>, FsError> {
        Ok(match request {
            DataRequest::Read {
                ino,
                offset,
                length,
            } => {
                check_range(offset, length as usize)?;
                let bytes = self.files.get(&ino).map_or(&[][..], |file| &file.bytes);
                let from = bytes.len().min(offset as usize);
                let to = bytes.len().min(from + length as usize);
                Done::Reply(DataReply::Data(bytes[from..to].to_vec()))
            }
            DataRequest::Write {
                ino, offset, data, ..
            } => {
                self.file(ino).write(offset, data);
                Done::Object(ino)
            }
            DataRequest::Fill { ino, data, .. } => {
                self.file(ino).write(0, data);
                Done::Object(ino)
            }
            DataRequest::Truncate { ino, length, .. } => {
                let file = self.file(ino);
                if length < file.bytes.len() as u64 {
                    file.set_length(length);
                }
                Done::Object(ino)
            }
            DataRequest::Remove { ino } => {
                if let Some(file) = self.files.remove(&ino) {
                    self.removed.insert(ino, file);
                }
                Done::Removed(ino)
            }
            DataRequest::Sync { ino } => match self.files.contains_key(&ino) {
                true => Done::Object(ino),
                false => Done::Reply(DataReply::Done),
            },
            // Space is not looked after here.
            DataRequest::Usage { .. }
            | DataRequest::Space
            | DataRequest::Allocate { .. }
            | DataRequest::Seek { .. } => return Err(FsError::NotSupported),
        })
    }
}

/// Whether a request stays within what files may have.
fn check_range(offset: u64, length: usize) -> Result<(), FsError> {
    if length > MAX_IO_BYTES {
        return Err(FsError::Invalid);
    }
    match offset.checked_add(length as u64) {
        Some(end) if end <= MAX_FILE_BYTES => Ok(()),
        _ => Err(FsError::FileTooBig),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INO: Ino = Ino(7);
    const OBJECT: Work<Ino> = Work::Object(INO);

    fn written(objects: &mut MemoryObjects, offset: u64, bytes: &[u8]) {
        let data = bytes.to_vec();
        let write = DataRequest::Write {
            ino: INO,
            truncations: 1,
            offset,
            data,
        };
        assert_eq!(objects.carry_out(write), Ok(Done::Object(INO)));
    }

    fn bytes(objects: &MemoryObjects) -> Option<Vec<u8>> {
        let mut all = objects.all();
        all.find(|(ino, _)| *ino == INO)
            .map(|(_, bytes)| bytes.to_vec())
    }

    /// All that may be left.
    fn left(objects: &MemoryObjects) -> Vec<Option<Vec<u8>>> {
        let mut left: Vec<_> = (0..4_096_u64)
            .map(|seed| {
                let mut state = seed;
                let mut draw = |below| {
                    let drawn = state % below;
                    state /= below;
                    drawn
                };
                bytes(&objects.crash(&mut draw))
            })
            .collect();
        left.sort();
        left.dedup();
        left
    }

    #[test]
    fn what_was_synced_is_left_and_of_the_rest_some() {
        let mut objects = MemoryObjects::default();
        written(&mut objects, 0, &[1; 512]);
        let made = left(&objects);
        assert!(made.contains(&None) && made.contains(&Some(vec![1; 512])));
        assert!(made.contains(&Some(vec![])) && made.contains(&Some(vec![0; 512])));
        let mark = objects.mark(&OBJECT);
        // It comes while the sync is under way.
        written(&mut objects, 0, &[2; 512]);
        objects.sync(&OBJECT, mark);
        assert_eq!(left(&objects), [Some(vec![1; 512]), Some(vec![2; 512])]);
        let mark = objects.mark(&OBJECT);
        objects.sync(&OBJECT, mark);
        assert_eq!(left(&objects), [Some(vec![2; 512])]);
    }

    #[test]
    fn lengths_are_left_in_their_order_and_pages_in_any() {
        let mut objects = MemoryObjects::default();
        written(&mut objects, 0, &[1; 1_024]);
        let mark = objects.mark(&OBJECT);
        objects.sync(&OBJECT, mark);
        let cut = DataRequest::Truncate {
            ino: INO,
            truncations: 2,
            length: 0,
        };
        assert_eq!(objects.carry_out(cut), Ok(Done::Object(INO)));
        written(&mut objects, 512, &[2; 512]);
        let parts = |first, second| Some([[first; 512], [second; 512]].concat());
        let expected = [
            Some(vec![]),
            parts(0, 0),
            parts(0, 2),
            parts(1, 1),
            parts(1, 2),
        ];
        assert_eq!(left(&objects), expected);
    }

    #[test]
    fn a_removal_may_be_undone_until_it_is_synced() {
        let mut objects = MemoryObjects::default();
        written(&mut objects, 0, &[1]);
        let mark = objects.mark(&OBJECT);
        objects.sync(&OBJECT, mark);
        let remove = DataRequest::Remove { ino: INO };
        assert_eq!(objects.carry_out(remove), Ok(Done::Removed(INO)));
        assert_eq!(bytes(&objects), None);
        assert_eq!(left(&objects), [None, Some(vec![1])]);
        let removal = Work::Removal(INO);
        let mark = objects.mark(&removal);
        objects.sync(&removal, mark);
        assert_eq!(left(&objects), [None]);
    }
}
