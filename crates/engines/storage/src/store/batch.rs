//! Writes that take effect together.

/// Puts and deletes that a store applies whole or not at all. Of two writes to one key the later
/// one wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Batch {
    /// Without a write; applying it changes nothing.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.writes.push((key, Some(value)));
    }

    /// Removes `key`, whether it is there or not.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.writes.push((key, None));
    }

    /// Returns whether there is no write in it.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The number of writes, counting each of several to one key.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// The writes in their order; `None` is a delete.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> {
        self.writes
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()))
    }
}

/// Takes over writes that are already in order.
impl From<Vec<(Vec<u8>, Option<Vec<u8>>)>> for Batch {
    fn from(writes: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Batch {
        Batch { writes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_every_write_in_order() {
        let mut batch = Batch::new();
        assert!(batch.is_empty());
        batch.put(b"a".to_vec(), b"1".to_vec());
        batch.delete(b"b".to_vec());
        batch.put(b"a".to_vec(), b"2".to_vec());
        assert_eq!((batch.len(), batch.is_empty()), (3, false));
        let writes: Vec<_> = batch.iter().collect();
        assert_eq!(
            writes,
            [
                (&b"a"[..], Some(&b"1"[..])),
                (&b"b"[..], None),
                (&b"a"[..], Some(&b"2"[..]))
            ]
        );
    }
}
