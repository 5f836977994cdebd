//! Change of a file's data objects, which is made until all of them have followed as many truncations as it goes by.
//!
//! If one of them has to be repeated all are: a truncation comes before the whole change or after it.

/// A change under way.
#[derive(Debug)]
pub struct ObjectChange {
    truncations: u32,
    /// The inode's shard has said so after an object had said otherwise.
    is_certain: bool,
    /// That an object has followed, if it is another number.
    others: Option<u32>,
}

/// The shard and a data object contradict one another: a disk has forgotten what was synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfStep {
    /// The file's, by its shard.
    pub truncations: u32,
    /// The object's.
    pub followed: u32,
}

impl ObjectChange {
    /// Of a file that has been truncated so often, when it was heard of last.
    pub fn new(truncations: u32) -> ObjectChange {
        ObjectChange {
            truncations,
            is_certain: false,
            others: None,
        }
    }

    /// The number that its requests go by.
    pub fn truncations(&self) -> u32 {
        self.truncations
    }

    /// An object has refused its request: it has followed this number of truncations.
    pub fn refused(&mut self, truncations: u32) {
        self.others = Some(truncations);
    }

    /// All objects have answered. True if the change is made; else the shard is to be asked how often the file was truncated,
    /// once its objects have [followed](pandofs_api::op::Followed).
    pub fn is_made(&self) -> bool {
        self.others.is_none()
    }

    /// The shard has answered: all of the change is to be made again.
    ///
    /// # Errors
    /// When that cannot help.
    pub fn begin_again(&mut self, truncations: u32) -> Result<(), OutOfStep> {
        if let Some(followed) = self.others.take()
            && self.is_certain
            && truncations == self.truncations
        {
            return Err(OutOfStep {
                truncations,
                followed,
            });
        }
        (self.truncations, self.is_certain) = (truncations, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_again_until_no_object_refuses_it() {
        let mut change = ObjectChange::new(1);
        assert!(change.is_made());
        change.refused(2);
        assert!(!change.is_made());
        assert_eq!(change.begin_again(2), Ok(()));
        assert!(change.is_made());
        // It was truncated once more meanwhile.
        change.refused(3);
        assert_eq!(change.begin_again(3), Ok(()));
        assert_eq!((change.truncations(), change.is_made()), (3, true));
        change.refused(1);
        let out_of_step = OutOfStep {
            truncations: 3,
            followed: 1,
        };
        assert_eq!(change.begin_again(3), Err(out_of_step));
    }

    /// The count known so far may have been out of date.
    #[test]
    fn the_same_number_from_the_shard_is_tried_once() {
        let mut change = ObjectChange::new(2);
        change.refused(1);
        assert_eq!(change.begin_again(2), Ok(()));
        assert!(change.is_made());
    }
}
