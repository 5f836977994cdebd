//! Allocator of places in an archive.
//!
//! A member must be behind the file that it is a link to, and a directory behind all that is in it.
//! So a place is given by one who knows all of them, in the order in which they are asked for.

use pandofs_walk_fs::Rpc;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A file with several names: its identity, and a path.
pub(crate) type Claim = ((u64, u64), Vec<u8>);

/// An answer.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Place {
    At(u64),
    /// It is to be a link to this path, which has a place.
    After(Vec<u8>),
}

/// State of an archive that is being written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Allocator {
    /// Bytes that have been given away.
    end: u64,
    /// The first path of each file with several names.
    #[serde(with = "pairs")]
    names: HashMap<(u64, u64), Vec<u8>>,
}

impl Allocator {
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns a place for this many bytes, for the first to claim it.
    pub(crate) fn place(&mut self, bytes: u64, claim: Option<Claim>) -> Place {
        if let Some((identity, path)) = claim {
            if let Some(first) = self.names.get(&identity) {
                return Place::After(first.clone());
            }
            self.names.insert(identity, path);
        }
        let at = self.end;
        self.end += bytes;
        Place::At(at)
    }

    /// Asks for a place where another process has the allocator; none without an answer.
    pub(crate) fn ask(rpc: &Rpc, bytes: u64, claim: Option<Claim>) -> Option<Place> {
        let question = postcard::to_stdvec(&(bytes, claim)).ok()?;
        postcard::from_bytes(&rpc.ask(&question)?).ok()
    }

    /// Returns the handler of that. Its answer to an invalid request is empty, which counts as a
    /// breakdown.
    pub(crate) fn answerer(
        allocator: &Arc<Mutex<Allocator>>,
    ) -> impl FnMut(&[u8]) -> Vec<u8> + Send + use<> {
        let allocator = Arc::clone(allocator);
        move |question| {
            let Ok((bytes, claim)) = postcard::from_bytes(question) else {
                return Vec::new();
            };
            let mut allocator = allocator.lock().unwrap_or_else(PoisonError::into_inner);
            postcard::to_stdvec(&allocator.place(bytes, claim)).unwrap_or_default()
        }
    }
}

/// JSON has no maps whose keys are pairs.
mod pairs {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::HashMap;

    type Names = HashMap<(u64, u64), Vec<u8>>;

    pub(super) fn serialize<S: Serializer>(names: &Names, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(names)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Names, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_comes_after_the_first_of_its_names() {
        let mut allocator = Allocator::default();
        assert_eq!(allocator.place(512, None), Place::At(0));
        let claim = |path: &[u8]| Some(((1, 2), path.to_vec()));
        assert_eq!(allocator.place(1_024, claim(b"a")), Place::At(512));
        assert_eq!(
            allocator.place(1_024, claim(b"b")),
            Place::After(b"a".to_vec())
        );
        // Nothing was given away for it.
        assert_eq!(allocator.place(512, None), Place::At(1_536));
        let json = serde_json::to_string(&allocator).unwrap();
        let mut again: Allocator = serde_json::from_str(&json).unwrap();
        assert_eq!(again.place(512, claim(b"c")), Place::After(b"a".to_vec()));
        assert_eq!(again.end(), 2_048);
    }

    #[test]
    fn questions_are_answered_by_the_allocator() {
        let allocator = Arc::default();
        let mut answer = Allocator::answerer(&allocator);
        let claim: Option<Claim> = Some(((3, 4), b"\xff".to_vec()));
        let question = postcard::to_stdvec(&(512_u64, &claim)).unwrap();
        let read = |bytes: Vec<u8>| postcard::from_bytes::<Place>(&bytes).unwrap();
        assert_eq!(read(answer(&question)), Place::At(0));
        assert_eq!(read(answer(&question)), Place::After(b"\xff".to_vec()));
        assert!(answer(b"").is_empty());
        assert_eq!(allocator.lock().unwrap().end(), 512);
    }
}
