//! Truncations of a file that an object has followed, and requests that go by another number of them.

use super::objects::{Objects, Outcome};
use super::open::OpenObject;
use super::syncer::Work;
use pandofs_api::{DataReply, DataRequest, FIRST_TRUNCATIONS};
use pandofs_types::{FsError, Ino};
use std::sync::Arc;

impl Objects {
    /// Returns the answer to a change that goes by another number of truncations than the object has
    /// followed; none if it may be carried out.
    pub(super) fn outdated(&mut self, request: &DataRequest) -> Result<Option<Outcome>, FsError> {
        let Some((ino, wanted)) = truncations_of(request) else {
            return Ok(None);
        };
        let object = self.object(ino)?;
        let followed = object
            .as_ref()
            .map_or(0, |object| object.checked.truncations());
        let is_truncated = matches!(
            request,
            DataRequest::Truncate { .. } | DataRequest::Fill { .. }
        );
        if is_truncated {
            // That it has may not be on disk yet: who wrote so may have been killed before it was.
            return Ok(object
                .filter(|_| followed >= wanted)
                .map(|object| Outcome::Sync(Work::Header(object))));
        }
        // That was not said of an object that was made by a write.
        let truncations = followed.max(FIRST_TRUNCATIONS);
        Ok((truncations != wanted)
            .then_some(Outcome::Done(DataReply::OtherTruncations { truncations })))
    }

    /// To be synced, and then said to have followed this truncation.
    pub(super) fn follow(&mut self, object: Arc<OpenObject>, truncations: u32) -> Outcome {
        match self.write_again(&object) {
            Ok(()) => Outcome::Follow(object, truncations),
            Err(error) => Outcome::Done(DataReply::Failed(error)),
        }
    }
}

/// The object that a request changes, and the number of truncations that it goes by.
fn truncations_of(request: &DataRequest) -> Option<(Ino, u32)> {
    match *request {
        DataRequest::Write {
            ino, truncations, ..
        }
        | DataRequest::Truncate {
            ino, truncations, ..
        }
        | DataRequest::Fill {
            ino, truncations, ..
        }
        | DataRequest::Allocate {
            ino, truncations, ..
        } => Some((ino, truncations)),
        DataRequest::Read { .. }
        | DataRequest::Remove { .. }
        | DataRequest::Sync { .. }
        | DataRequest::Usage { .. }
        | DataRequest::Space
        | DataRequest::Seek { .. } => None,
    }
}
