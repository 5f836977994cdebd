//! First and next indexes of each stream.

use pandofs_storage::log::Entry;
use std::collections::HashMap;

/// The first entry of a stream and the next one; they are equal when it holds none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub first: u64,
    pub next: u64,
}

impl Stream {
    pub(crate) fn span(self) -> Option<(u64, u64)> {
        (self.first < self.next).then(|| (self.first, self.next - 1))
    }
}

/// All streams that were ever written or pruned.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: HashMap<u64, Stream>,
    /// Those that the append under way begins.
    begun: Vec<u64>,
}

impl Streams {
    pub(crate) fn get(&self, stream: u64) -> Option<Stream> {
        self.streams.get(&stream).copied()
    }

    pub(crate) fn insert(&mut self, number: u64, stream: Stream) {
        assert!(stream.first <= stream.next, "stream {number}: {stream:?}");
        self.streams.insert(number, stream);
    }

    /// Moves the streams past `entries`; [`Streams::release`] or [`Streams::confirm`] follows.
    ///
    /// # Panics
    /// When an entry does not continue its stream. Then no stream has moved.
    pub(crate) fn claim(&mut self, entries: &[Entry<'_>]) {
        assert!(self.begun.is_empty(), "one append at a time");
        for (i, entry) in entries.iter().enumerate() {
            let expected = match self.streams.get_mut(&entry.stream) {
                Some(stream) if stream.next == entry.index && entry.index < u64::MAX => {
                    stream.next += 1;
                    continue;
                }
                Some(stream) => stream.next,
                None if entry.index < u64::MAX => {
                    self.begun.push(entry.stream);
                    let stream = Stream {
                        first: entry.index,
                        next: entry.index + 1,
                    };
                    self.streams.insert(entry.stream, stream);
                    continue;
                }
                None => 0,
            };
            self.release(&entries[..i]);
            panic!(
                "stream {} continues at {expected}, not at {}",
                entry.stream, entry.index
            );
        }
    }

    /// Streams that the claimed entries begin, and their first indexes.
    pub(crate) fn begun(&self) -> impl Iterator<Item = (u64, u64)> {
        self.begun
            .iter()
            .map(|stream| (*stream, self.streams[stream].first))
    }

    /// Confirms the claim: the entries are in the log.
    pub(crate) fn confirm(&mut self) {
        self.begun.clear();
    }

    /// Undoes the claim of `entries`: they are not in the log.
    pub(crate) fn release(&mut self, entries: &[Entry<'_>]) {
        for entry in entries.iter().rev() {
            if let Some(stream) = self.streams.get_mut(&entry.stream) {
                stream.next = entry.index;
            }
        }
        for stream in self.begun.drain(..) {
            self.streams.remove(&stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn entries(indexes: &[(u64, u64)]) -> Vec<Entry<'static>> {
        let entry = |&(stream, index)| Entry {
            stream,
            index,
            payload: b"",
        };
        indexes.iter().map(entry).collect()
    }

    #[test]
    fn what_is_released_leaves_no_trace() {
        let mut streams = Streams::default();
        streams.claim(&entries(&[(1, 5), (2, 1), (1, 6)]));
        assert_eq!(streams.begun().collect::<Vec<_>>(), [(1, 5), (2, 1)]);
        streams.confirm();
        let before = [
            Some(Stream { first: 5, next: 7 }),
            Some(Stream { first: 1, next: 2 }),
            None,
        ];
        let now = |streams: &Streams| [1, 2, 3].map(|stream| streams.get(stream));
        assert_eq!(now(&streams), before);

        let more = entries(&[(3, 9), (1, 7), (2, 2), (1, 8), (3, 10)]);
        streams.claim(&more);
        assert_eq!(streams.get(1), Some(Stream { first: 5, next: 9 }));
        streams.release(&more);
        assert_eq!(now(&streams), before);

        for wrong in [
            vec![(3, 9), (1, 7), (1, 9)],
            vec![(1, 6)],
            vec![(4, u64::MAX)],
        ] {
            let wrong = entries(&wrong);
            catch_unwind(AssertUnwindSafe(|| streams.claim(&wrong))).unwrap_err();
            assert_eq!(now(&streams), before);
            assert_eq!(streams.get(4), None);
        }
        streams.claim(&entries(&[(3, 2)]));
    }
}
