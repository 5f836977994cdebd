//! The suite that [`DataThread`] passes over every implementation of [`DataObjects`].
//!
//! One function for each promise; [`run`] runs them all, each over objects that are new and empty.

use super::port::DataObjects;
use super::thread::{DataOrder, DataThread, Waiter, Work};
use pandofs_api::{DataReply, DataRequest, FIRST_TRUNCATIONS};
use pandofs_types::{FsError, Ino};

/// Objects that a test can sync.
pub trait Synced: DataObjects {
    /// Waits until this is on disk.
    ///
    /// # Errors
    /// The disk's.
    fn sync(&mut self, work: &Work<Self::Object>) -> Result<(), FsError>;
}

const INO: Ino = Ino(0x1_0007);
const SECOND: u32 = FIRST_TRUNCATIONS + 1;

/// A thread with its objects, and syncs that are made when the test wants them.
struct Driven<O: Synced> {
    objects: O,
    thread: DataThread<u32, O::Object>,
    syncs: Vec<(Work<O::Object>, Waiter<u32>)>,
    answers: Vec<(u32, DataReply)>,
}

impl<O: Synced> Driven<O> {
    fn new(objects: O) -> Driven<O> {
        Driven {
            objects,
            thread: DataThread::default(),
            syncs: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn begin(&mut self, number: u32, request: DataRequest, durable: bool) {
        self.thread
            .request(&mut self.objects, number, request, durable);
        self.take_orders();
    }

    fn take_orders(&mut self) {
        for order in self.thread.take_orders() {
            match order {
                DataOrder::Answer { origin, reply } => self.answers.push((origin, reply)),
                DataOrder::Sync { work, waiter } => self.syncs.push((work, waiter)),
            }
        }
    }

    /// Makes the first sync that is wanted, or fails it.
    fn sync(&mut self, fails: bool) {
        let (work, waiter) = self.syncs.remove(0);
        let result = match fails {
            true => Err(FsError::Io),
            false => self.objects.sync(&work),
        };
        match (waiter, &work) {
            (Waiter::Request(origin), _) => {
                let reply = result.map_or_else(DataReply::Failed, |()| DataReply::Done);
                self.answers.push((origin, reply));
            }
            (Waiter::Thread(purpose), Work::Object(object) | Work::Header(object)) => {
                self.thread
                    .synced(&mut self.objects, object, purpose, result);
                self.take_orders();
            }
            (Waiter::Thread(_), Work::Removal(_)) => panic!("the thread waits for a removal"),
        }
    }

    /// A request, and all syncs that it takes.
    fn ask(&mut self, request: DataRequest) -> DataReply {
        self.begin(0, request, true);
        while !self.syncs.is_empty() {
            self.sync(false);
        }
        let (_, reply) = self.answers.pop().expect("it was answered");
        assert!(self.answers.is_empty() && self.thread.is_idle());
        reply
    }

    fn read(&mut self) -> Vec<u8> {
        let read = DataRequest::Read {
            ino: INO,
            offset: 0,
            length: 100,
        };
        match self.ask(read) {
            DataReply::Data(data) => data,
            other => panic!("{other:?}"),
        }
    }
}

fn write(truncations: u32, offset: u64, data: &[u8]) -> DataRequest {
    DataRequest::Write {
        ino: INO,
        truncations,
        offset,
        data: data.to_vec(),
    }
}

fn truncate(truncations: u32, length: u64) -> DataRequest {
    DataRequest::Truncate {
        ino: INO,
        truncations,
        length,
    }
}

/// Runs the suite over objects that `make` makes, each time new and empty.
///
/// # Panics
/// When a promise is broken.
pub fn run<O: Synced>(make: &dyn Fn() -> O) {
    what_is_written_is_read(make());
    a_truncation_that_comes_again_takes_nothing_away(make());
    what_the_inode_held_is_filled_in_once(make());
    for is_there in [true, false] {
        a_change_by_another_count_is_refused(make(), is_there);
    }
    truncating_never_extends(make());
    what_is_removed_stays_away(make());
    what_comes_meanwhile_waits(make());
    a_truncation_that_could_not_be_synced_is_done_when_it_comes_again(make());
}

/// The object has a hole before the bytes written, and ends with them.
///
/// # Panics
/// When it is not so.
pub fn what_is_written_is_read(objects: impl Synced) {
    let mut driven = Driven::new(objects);
    assert_eq!(driven.read(), b"");
    assert_eq!(driven.ask(write(1, 2, b"end")), DataReply::Done);
    assert_eq!(driven.read(), b"\0\0end");
    assert_eq!(driven.ask(DataRequest::Sync { ino: INO }), DataReply::Done);
    assert_eq!(driven.ask(write(1, 3, b"x")), DataReply::Done);
    assert_eq!(driven.read(), b"\0\0exd");
}

/// The machine of the inode's shard has lost power, and what it had promised to be done it asks for once more.
///
/// # Panics
/// When it does.
pub fn a_truncation_that_comes_again_takes_nothing_away(objects: impl Synced) {
    let mut driven = Driven::new(objects);
    driven.ask(write(FIRST_TRUNCATIONS, 0, b"old contents"));
    assert_eq!(driven.ask(truncate(SECOND, 3)), DataReply::Done);
    assert_eq!(driven.read(), b"old");
    assert_eq!(driven.ask(write(SECOND, 3, b" and new")), DataReply::Done);
    for again in [SECOND, FIRST_TRUNCATIONS] {
        assert_eq!(driven.ask(truncate(again, 0)), DataReply::Done);
        assert_eq!(driven.read(), b"old and new");
    }
}

/// # Panics
/// When it is filled in again, over what was written since.
pub fn what_the_inode_held_is_filled_in_once(objects: impl Synced) {
    let mut driven = Driven::new(objects);
    let fill = || DataRequest::Fill {
        ino: INO,
        truncations: FIRST_TRUNCATIONS,
        data: b"from the inode".to_vec(),
        from_reserve: false,
    };
    assert_eq!(driven.ask(fill()), DataReply::Done);
    assert_eq!(driven.read(), b"from the inode");
    assert_eq!(
        driven.ask(write(FIRST_TRUNCATIONS, 0, b"newer")),
        DataReply::Done
    );
    assert_eq!(driven.ask(fill()), DataReply::Done);
    assert_eq!(driven.read(), b"newerthe inode");
}

/// A write is held up on its way, and the file is truncated meanwhile; or it comes from somebody who has heard of the
/// truncation before the object has.
///
/// # Panics
/// When it is carried out.
pub fn a_change_by_another_count_is_refused(objects: impl Synced, is_there: bool) {
    let mut driven = Driven::new(objects);
    if is_there {
        driven.ask(write(FIRST_TRUNCATIONS, 0, b"old contents"));
    }
    let other = |truncations| DataReply::OtherTruncations { truncations };
    let early = driven.ask(write(SECOND, 0, b"new"));
    assert_eq!(early, other(FIRST_TRUNCATIONS));
    assert_eq!(driven.ask(truncate(SECOND, 0)), DataReply::Done);
    let late = driven.ask(write(FIRST_TRUNCATIONS, 0, b"held up"));
    assert_eq!(late, other(SECOND));
    assert_eq!(driven.read(), b"");
    assert_eq!(driven.ask(write(SECOND, 0, b"new")), DataReply::Done);
    assert_eq!(driven.read(), b"new");
}

/// # Panics
/// When it does.
pub fn truncating_never_extends(objects: impl Synced) {
    let mut driven = Driven::new(objects);
    driven.ask(write(FIRST_TRUNCATIONS, 0, b"0123456789"));
    assert_eq!(driven.ask(truncate(SECOND, 20)), DataReply::Done);
    assert_eq!(driven.read(), b"0123456789");
    assert_eq!(driven.ask(truncate(SECOND + 1, 4)), DataReply::Done);
    assert_eq!(driven.read(), b"0123");
    assert_eq!(driven.ask(write(SECOND + 1, 6, b"x")), DataReply::Done);
    assert_eq!(driven.read(), b"0123\0\0x");
}

/// It may be removed again, and nothing that comes late makes it anew.
///
/// # Panics
/// When it comes back.
pub fn what_is_removed_stays_away(objects: impl Synced) {
    let mut driven = Driven::new(objects);
    driven.ask(write(FIRST_TRUNCATIONS, 0, b"data"));
    for _ in 0..2 {
        assert_eq!(
            driven.ask(DataRequest::Remove { ino: INO }),
            DataReply::Done
        );
        assert_eq!(driven.read(), b"");
    }
    assert_eq!(driven.ask(truncate(SECOND, 0)), DataReply::Done);
    let late = driven.ask(write(FIRST_TRUNCATIONS, 0, b"late"));
    assert_eq!(late, DataReply::Failed(FsError::Stale));
    assert_eq!(
        driven.objects.object(INO).map(|found| found.is_none()),
        Ok(true)
    );
}

/// While an object follows a truncation nothing else is done to it, and it says that it has followed only when the truncation
/// is on disk.
///
/// # Panics
/// When something is done out of its turn.
pub fn what_comes_meanwhile_waits(objects: impl Synced) {
    let mut driven = Driven::new(objects);
    driven.ask(write(FIRST_TRUNCATIONS, 0, b"old contents"));
    driven.begin(1, truncate(SECOND, 3), true);
    driven.begin(2, write(SECOND, 3, b"new"), false);
    driven.begin(3, write(FIRST_TRUNCATIONS, 0, b"held up"), false);
    driven.begin(4, truncate(SECOND, 0), true);
    assert_eq!(driven.answers, []);
    let object = driven.objects.object(INO).expect("the disk is sound");
    let object = object.expect("it is there");
    while driven.answers.is_empty() {
        let (work, _) = driven.syncs.first().expect("something waits for a sync");
        let followed = driven.objects.followed(&object);
        assert_eq!(followed >= SECOND, matches!(work, Work::Header(_)));
        driven.sync(false);
    }
    while !driven.syncs.is_empty() {
        driven.sync(false);
    }
    let other = DataReply::OtherTruncations {
        truncations: SECOND,
    };
    let answers = [
        (1, DataReply::Done),
        (2, DataReply::Done),
        (3, other),
        (4, DataReply::Done),
    ];
    assert_eq!(driven.answers, answers);
    driven.answers.clear();
    assert_eq!(driven.read(), b"oldnew");
}

/// # Panics
/// When it is taken for one that was followed.
pub fn a_truncation_that_could_not_be_synced_is_done_when_it_comes_again(objects: impl Synced) {
    let mut driven = Driven::new(objects);
    driven.ask(write(FIRST_TRUNCATIONS, 0, b"old contents"));
    for good in 0..2 {
        driven.begin(1, truncate(SECOND, 3), true);
        for number in 0..=good {
            driven.sync(number == good);
        }
        let failed = DataReply::Failed(FsError::Io);
        assert_eq!(driven.answers, [(1, failed)]);
        driven.answers.clear();
        assert!(driven.thread.is_idle() && driven.syncs.is_empty());
    }
    assert_eq!(driven.ask(truncate(SECOND, 3)), DataReply::Done);
    assert_eq!(driven.ask(write(SECOND, 3, b"new")), DataReply::Done);
    assert_eq!(driven.read(), b"oldnew");
}
