//! Data objects in files, as the port that requests for them are carried out through.

use super::objects::Objects;
use super::open::OpenObject;
use pandofs_api::{DataReply, DataRequest};
use pandofs_lane::data::{DataObjects, Done};
use pandofs_types::{FsError, Ino};
use std::sync::Arc;

impl DataObjects for Objects {
    type Object = Arc<OpenObject>;

    fn ino(&self, object: &Arc<OpenObject>) -> Ino {
        object.ino
    }

    fn object(&mut self, ino: Ino) -> Result<Option<Arc<OpenObject>>, FsError> {
        self.open_object(ino)
    }

    fn followed(&self, object: &Arc<OpenObject>) -> u32 {
        object.checked.truncations()
    }

    fn follow(&mut self, object: &Arc<OpenObject>, truncations: u32) -> Result<(), FsError> {
        let followed = object.checked.follow(truncations);
        followed.map_err(|error| self.failure("write the checksums of", object.ino, &error))
    }

    fn check_room(&mut self, request: &DataRequest, promised: bool) -> Result<(), FsError> {
        match request {
            DataRequest::Write {
                ino, offset, data, ..
            } => self.check_room_of(*ino, *offset, data.len(), promised),
            DataRequest::Fill {
                ino,
                data,
                from_reserve,
                ..
            } => self.check_room_of(*ino, 0, data.len(), promised && *from_reserve),
            _ => Ok(()),
        }
    }

    fn unsettle(&mut self, object: &Arc<OpenObject>) -> Result<bool, FsError> {
        if !object.checked.must_unsettle() {
            return Ok(false);
        }
        let unsettled = object.checked.unsettle();
        unsettled.map_err(|error| self.failure("write the checksums of", object.ino, &error))?;
        Ok(true)
    }

    fn settle_again(&mut self, object: &Arc<OpenObject>) {
        if let Err(error) = object.checked.settle() {
            self.failure("write the checksums of", object.ino, &error);
        }
    }

    fn write_again(&mut self, object: &Arc<OpenObject>) -> Result<(), FsError> {
        self.write_whole_again(object)
    }

    fn carry_out(&mut self, request: DataRequest) -> Result<Done<Arc<OpenObject>>, FsError> {
        let object_or_none = |object: Option<Arc<OpenObject>>| {
            object.map_or(Done::Reply(DataReply::Done), Done::Object)
        };
        Ok(match request {
            DataRequest::Read {
                ino,
                offset,
                length,
            } => Done::Reply(DataReply::Data(self.read(ino, offset, length)?)),
            DataRequest::Write {
                ino, offset, data, ..
            } => Done::Object(self.write(ino, offset, &data)?),
            DataRequest::Fill { ino, data, .. } => Done::Object(self.write(ino, 0, &data)?),
            DataRequest::Truncate { ino, length, .. } => Done::Object(self.truncate(ino, length)?),
            DataRequest::Usage { ino } => Done::Reply(self.usage(ino)?),
            DataRequest::Space => Done::Reply(self.space()?),
            DataRequest::Remove { ino } => {
                self.remove(ino)?;
                Done::Removed(ino)
            }
            DataRequest::Sync { ino } => object_or_none(self.open_object(ino)?),
            DataRequest::Allocate {
                ino,
                offset,
                length,
                allocation,
                ..
            } => object_or_none(self.allocate(ino, offset, length, allocation)?),
            DataRequest::Seek { ino, offset, data } => Done::Reply(self.seek(ino, offset, data)?),
        })
    }
}
