//! Data objects in memory pass the suite, and it finds objects that are wrong.

use pandofs_api::DataRequest;
use pandofs_lane::data::suite::{self, Synced};
use pandofs_lane::data::{DataObjects, Done, MemoryObjects, Work};
use pandofs_types::{FsError, Ino};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    None,
    /// A truncation to more than there is makes an object longer.
    Extends,
    /// An object does not say that it has followed.
    ForgetsTruncations,
    /// A removed object is still there.
    KeepsObjects,
}

#[derive(Debug)]
struct Planted {
    objects: MemoryObjects,
    plant: Plant,
}

impl Planted {
    fn new(plant: Plant) -> Planted {
        Planted {
            objects: MemoryObjects::default(),
            plant,
        }
    }
}

impl Synced for Planted {
    fn sync(&mut self, work: &Work<Ino>) -> Result<(), FsError> {
        let mark = self.objects.mark(work);
        self.objects.sync(work, mark);
        Ok(())
    }
}

impl DataObjects for Planted {
    type Object = Ino;

    fn ino(&self, object: &Ino) -> Ino {
        self.objects.ino(object)
    }

    fn object(&mut self, ino: Ino) -> Result<Option<Ino>, FsError> {
        self.objects.object(ino)
    }

    fn followed(&self, object: &Ino) -> u32 {
        self.objects.followed(object)
    }

    fn follow(&mut self, object: &Ino, truncations: u32) -> Result<(), FsError> {
        match self.plant {
            Plant::ForgetsTruncations => Ok(()),
            _ => self.objects.follow(object, truncations),
        }
    }

    fn check_room(&mut self, request: &DataRequest, promised: bool) -> Result<(), FsError> {
        self.objects.check_room(request, promised)
    }

    fn unsettle(&mut self, object: &Ino) -> Result<bool, FsError> {
        self.objects.unsettle(object)
    }

    fn settle_again(&mut self, object: &Ino) {
        self.objects.settle_again(object);
    }

    fn write_again(&mut self, object: &Ino) -> Result<(), FsError> {
        self.objects.write_again(object)
    }

    fn carry_out(&mut self, request: DataRequest) -> Result<Done<Ino>, FsError> {
        match (self.plant, request) {
            (
                Plant::Extends,
                DataRequest::Truncate {
                    ino,
                    truncations,
                    length: 20,
                },
            ) => self.objects.carry_out(DataRequest::Write {
                ino,
                truncations,
                offset: 19,
                data: vec![0],
            }),
            (Plant::KeepsObjects, DataRequest::Remove { ino }) => Ok(Done::Removed(ino)),
            (_, request) => self.objects.carry_out(request),
        }
    }
}

#[test]
fn objects_in_memory_pass_the_suite() {
    suite::run(&|| Planted::new(Plant::None));
}

#[test]
#[should_panic(expected = "left == right")]
fn objects_that_are_extended_are_found() {
    suite::truncating_never_extends(Planted::new(Plant::Extends));
}

#[test]
#[should_panic(expected = "left == right")]
fn objects_that_follow_twice_are_found() {
    suite::a_truncation_that_comes_again_takes_nothing_away(Planted::new(
        Plant::ForgetsTruncations,
    ));
}

#[test]
#[should_panic(expected = "left == right")]
fn objects_that_are_kept_are_found() {
    suite::what_is_removed_stays_away(Planted::new(Plant::KeepsObjects));
}
