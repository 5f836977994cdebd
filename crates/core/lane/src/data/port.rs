//! Port to the data objects of one thread.

use pandofs_api::{DataReply, DataRequest};
use pandofs_types::{FsError, Ino};
use std::fmt::Debug;

/// Outcome of a request that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done<O> {
    /// Nothing is left to be done.
    Reply(DataReply),
    /// This object was changed, or is to be synced.
    Object(O),
    /// The object of this file is gone, and its name may come back with a loss of power until that is synced.
    Removed(Ino),
}

/// Data objects, each with the number of truncations that it says it has followed. Changes are in memory until the
/// object is synced.
pub trait DataObjects {
    /// Handle of one that is there.
    type Object: Clone + Debug;

    /// The file whose object it is.
    fn ino(&self, object: &Self::Object) -> Ino;

    /// The object of this file, if there is one.
    ///
    /// # Errors
    /// The disk's.
    fn object(&mut self, ino: Ino) -> Result<Option<Self::Object>, FsError>;

    /// The number of truncations that it says it has followed; 0 if it says nothing.
    fn followed(&self, object: &Self::Object) -> u32;

    /// Has it say another number. That is on disk once the object's header is synced.
    ///
    /// # Errors
    /// The disk's.
    fn follow(&mut self, object: &Self::Object, truncations: u32) -> Result<(), FsError>;

    /// Whether there is room for what the request writes, if it writes anything. `promised`: somebody was told that it
    /// would be done.
    ///
    /// # Errors
    /// `NoSpace`; the disk's.
    fn check_room(&mut self, request: &DataRequest, promised: bool) -> Result<(), FsError>;

    /// Has the object say that it is being changed. True if that is to be on disk first: its header is to be synced.
    ///
    /// # Errors
    /// The disk's.
    fn unsettle(&mut self, object: &Self::Object) -> Result<bool, FsError>;

    /// Takes that back, as its header could not be synced.
    fn settle_again(&mut self, object: &Self::Object);

    /// Writes the object once more if a sync of it has failed, as the system may take for written what is not.
    ///
    /// # Errors
    /// The disk's.
    fn write_again(&mut self, object: &Self::Object) -> Result<(), FsError>;

    /// Carries out a request, whatever number of truncations it goes by. One that truncates never makes an object
    /// longer, and makes one if there is none.
    ///
    /// # Errors
    /// For the requester. Nothing was changed, or an unknown part if the disk failed.
    fn carry_out(&mut self, request: DataRequest) -> Result<Done<Self::Object>, FsError>;
}
