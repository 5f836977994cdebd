//! The contents of a log in memory.

use crate::log::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// An entry that owns its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnedEntry {
    pub stream: u64,
    pub index: u64,
    pub payload: Arc<[u8]>,
}

impl From<&Entry<'_>> for OwnedEntry {
    fn from(entry: &Entry<'_>) -> OwnedEntry {
        OwnedEntry {
            stream: entry.stream,
            index: entry.index,
            payload: entry.payload.into(),
        }
    }
}

/// A change of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Append(Vec<OwnedEntry>),
    Prune { stream: u64, upto: u64 },
}

/// Streams by number. Copies share the payloads.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    streams: BTreeMap<u64, Stream>,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    /// The index of the first entry, or of the next one when there is none.
    first: u64,
    entries: VecDeque<Arc<[u8]>>,
}

impl Stream {
    fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }
}

impl Streams {
    /// # Panics
    /// When `entries` do not continue their streams.
    pub(super) fn assert_continued_by(&self, entries: &[Entry<'_>]) {
        let mut next: BTreeMap<u64, u64> = BTreeMap::new();
        for entry in entries {
            let stream = entry.stream;
            let expected = next
                .get(&stream)
                .copied()
                .or_else(|| self.next_index(stream));
            if let Some(expected) = expected {
                assert!(
                    entry.index == expected,
                    "stream {stream} continues at {expected}, not at {}",
                    entry.index
                );
            }
            assert!(entry.index < u64::MAX, "no entry could follow");
            next.insert(stream, entry.index + 1);
        }
    }

    pub(super) fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Append(entries) => {
                for entry in entries {
                    let stream = self.streams.entry(entry.stream).or_insert_with(|| Stream {
                        first: entry.index,
                        entries: VecDeque::new(),
                    });
                    assert!(entry.index == stream.next(), "checked when it was appended");
                    stream.entries.push_back(Arc::clone(&entry.payload));
                }
            }
            Operation::Prune { stream, upto } => {
                let stream = self.streams.entry(*stream).or_default();
                if *upto >= stream.first {
                    let pruned = (upto + 1 - stream.first).min(stream.entries.len() as u64);
                    stream.entries.drain(..pruned as usize);
                    stream.first = upto + 1;
                }
            }
        }
    }

    /// The entries of `stream` from `from` on.
    pub(super) fn from(&self, stream: u64, from: u64) -> Vec<(u64, Arc<[u8]>)> {
        let Some(stream) = self.streams.get(&stream) else {
            return Vec::new();
        };
        let skipped = from.saturating_sub(stream.first);
        (stream.first..)
            .zip(stream.entries.iter().cloned())
            .skip(skipped.min(stream.entries.len() as u64) as usize)
            .collect()
    }

    pub(super) fn span(&self, stream: u64) -> Option<(u64, u64)> {
        let stream = self.streams.get(&stream)?;
        (!stream.entries.is_empty()).then(|| (stream.first, stream.next() - 1))
    }

    pub(super) fn next_index(&self, stream: u64) -> Option<u64> {
        self.streams.get(&stream).map(Stream::next)
    }

    pub(super) fn bytes(&self) -> u64 {
        let payloads = self.streams.values().flat_map(|stream| &stream.entries);
        payloads.map(|payload| payload.len() as u64).sum()
    }
}
