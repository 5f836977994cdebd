//! Operations on many things: of each a list, in the order in which they began.

use std::collections::{BTreeMap, BTreeSet};

/// Beginning, end if it was answered, and deed of an operation. Instants are counted, not timed: no two things happen at
/// once.
pub(crate) type Operation<D> = (u64, Option<u64>, D);

/// An operation as it is noted: without a deed if the answer says nothing.
pub(crate) type Noted<D> = Operation<Option<D>>;

#[derive(Debug)]
pub(crate) struct Logs<K, D> {
    of: BTreeMap<K, Vec<Noted<D>>>,
    /// Those of which a server forgot something.
    forgotten: BTreeSet<K>,
}

impl<K, D> Default for Logs<K, D> {
    fn default() -> Logs<K, D> {
        Logs {
            of: BTreeMap::new(),
            forgotten: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone, D: Copy> Logs<K, D> {
    /// An operation begins; where it is to be ended. It may do this, if it is not answered.
    pub(super) fn begin(&mut self, key: K, begun: u64, deed: Option<D>) -> (K, usize) {
        let operations = self.of.entry(key.clone()).or_default();
        operations.push((begun, None, deed));
        (key, operations.len() - 1)
    }

    /// Returns what it may do.
    pub(super) fn deed(&self, (key, place): &(K, usize)) -> Option<D> {
        self.of.get(key).and_then(|of| of[*place].2)
    }

    pub(super) fn end(&mut self, (key, place): (K, usize), ended: u64, deed: Option<D>) {
        let operations = self.of.get_mut(&key).expect("it was begun");
        let begun = operations[place].0;
        operations[place] = (begun, Some(ended), deed);
    }

    /// One that is over.
    pub(super) fn add(&mut self, key: K, (begun, ended): (u64, u64), deed: D) {
        let operations = self.of.entry(key).or_default();
        operations.push((begun, Some(ended), Some(deed)));
    }

    /// A server came back without all that had been done. An operation under way may have been done before, been seen,
    /// and be done again.
    pub(super) fn forget(&mut self, key: K) {
        let operations = self.of.entry(key.clone()).or_default();
        let under_way = operations
            .iter()
            .filter(|(_, ended, deed)| ended.is_none() && deed.is_some())
            .copied();
        operations.extend(under_way.collect::<Vec<_>>());
        self.forgotten.insert(key);
    }

    pub(super) fn is_forgotten(&self, key: &K) -> bool {
        self.forgotten.contains(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.of.keys()
    }

    pub(super) fn noted(&self, key: &K) -> &[Noted<D>] {
        self.of.get(key).map_or(&[], Vec::as_slice)
    }

    /// Those that tell something.
    pub(crate) fn known(&self, key: &K) -> Vec<Operation<D>> {
        let known = self.noted(key).iter();
        known
            .filter_map(|&(begun, ended, deed)| Some((begun, ended, deed?)))
            .collect()
    }

    /// The same of all of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&K, Vec<Operation<D>>)> {
        self.of.keys().map(|key| (key, self.known(key)))
    }
}
