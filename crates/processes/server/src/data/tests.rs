//! Data objects as a whole.

use super::listing::list;
use super::objects::*;
use super::open::OpenObject;
use super::sums::Checked;
use super::syncer::Work;
use crate::limits::SETTLE_AFTER;
use pandofs_api::{AdminReply, DataReply, DataRequest, FIRST_TRUNCATIONS};
use pandofs_lane::data::suite::{self, Synced};
use pandofs_lane::data::{self, DataOrder, DataThread, Purpose, Waiter};
use pandofs_types::limits::{MAX_FILE_BYTES, MAX_IO_BYTES};
use pandofs_types::{FsError, Ino};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use tempfile::TempDir;

fn objects() -> (TempDir, Objects) {
    let dir = TempDir::new().unwrap();
    let holdings = Holdings::prepare(dir.path()).unwrap();
    let objects = Objects::new(Arc::new(holdings), 2, SETTLE_AFTER);
    (dir, objects)
}

impl Synced for Objects {
    fn sync(&mut self, work: &data::Work<Arc<OpenObject>>) -> Result<(), FsError> {
        to_disk(work).sync(&self.holdings)
    }
}

#[test]
fn objects_in_files_pass_the_suite() {
    let dirs = RefCell::new(Vec::new());
    suite::run(&|| {
        let (dir, objects) = objects();
        dirs.borrow_mut().push(dir);
        objects
    });
}

fn to_disk(work: &data::Work<Arc<OpenObject>>) -> Work {
    match work {
        data::Work::Object(object) => Work::Object(Arc::clone(object)),
        data::Work::Header(object) => Work::Header(Arc::clone(object)),
        data::Work::Removal(ino) => Work::Removal {
            last_byte: last_byte(*ino),
        },
    }
}

/// The first order after a request.
fn begun(objects: &mut Objects, request: DataRequest, durable: bool) -> Order {
    let mut thread = DataThread::default();
    thread.request(objects, (), request, durable);
    let mut orders = thread.take_orders();
    assert_eq!(orders.len(), 1);
    orders.remove(0)
}

type Order = DataOrder<(), Arc<OpenObject>>;

fn done(objects: &mut Objects, request: DataRequest) -> DataReply {
    let mut thread = DataThread::default();
    thread.request(objects, (), request, false);
    loop {
        match thread.take_orders().remove(0) {
            DataOrder::Answer { reply, .. } => return reply,
            DataOrder::Sync { work, waiter } => {
                let result = to_disk(&work).sync(&objects.holdings);
                match (waiter, &work) {
                    (Waiter::Request(()), _) => {
                        return result.map_or_else(DataReply::Failed, |()| DataReply::Done);
                    }
                    (
                        Waiter::Thread(purpose),
                        data::Work::Object(object) | data::Work::Header(object),
                    ) => thread.synced(objects, object, purpose, result),
                    (Waiter::Thread(_), data::Work::Removal(_)) => unreachable!("it is removed"),
                }
            }
        }
    }
}

fn write(objects: &mut Objects, ino: u64, offset: u64, data: &[u8]) {
    let request = DataRequest::Write {
        truncations: FIRST_TRUNCATIONS,
        ino: Ino(ino),
        offset,
        data: data.to_vec(),
    };
    assert_eq!(done(objects, request), DataReply::Done);
}

fn read(objects: &mut Objects, ino: u64, offset: u64, length: u32) -> Vec<u8> {
    match done(
        objects,
        DataRequest::Read {
            ino: Ino(ino),
            offset,
            length,
        },
    ) {
        DataReply::Data(data) => data,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sparse_object_reads_zeros_and_ends_where_it_ends() {
    let (dir, mut objects) = objects();
    const FAR: u64 = 5 << 30;
    assert_eq!(read(&mut objects, 7, 0, 100), b"");
    write(&mut objects, 7, FAR, b"end");
    assert_eq!(read(&mut objects, 7, FAR - 2, 100), b"\0\0end");
    assert_eq!(read(&mut objects, 7, FAR + 3, 100), b"");
    let DataReply::Usage { blocks } = done(&mut objects, DataRequest::Usage { ino: Ino(7) }) else {
        panic!("no usage");
    };
    assert!(blocks < 1_000, "{blocks} blocks: the hole takes space");
    assert!(dir.path().join("07/0000000000000007").exists());
}

#[test]
fn what_is_to_be_synced_is_answered_by_whoever_syncs_it() {
    let (_dir, mut objects) = objects();
    let (ino, offset) = (Ino(7), 0);
    let data = b"data".to_vec();
    let mut is_synced = |request: DataRequest, synced| {
        let order = begun(&mut objects, request, synced);
        matches!(order, DataOrder::Sync { work: data::Work::Object(object), waiter: Waiter::Request(()) }
            if object.ino == ino)
    };
    for synced in [true, false] {
        let data = data.clone();
        assert_eq!(
            is_synced(
                DataRequest::Write {
                    truncations: FIRST_TRUNCATIONS,
                    ino,
                    offset,
                    data
                },
                synced
            ),
            synced
        );
    }
}

fn truncate(truncations: u32, length: u64) -> DataRequest {
    DataRequest::Truncate {
        ino: Ino(7),
        truncations,
        length,
    }
}

#[test]
fn space_is_changed_by_the_objects_number_of_truncations_alone() {
    let (_dir, mut objects) = objects();
    assert_eq!(done(&mut objects, truncate(2, 0)), DataReply::Done);
    let zero = |truncations| DataRequest::Allocate {
        ino: Ino(7),
        truncations,
        offset: 0,
        length: 4_096,
        allocation: pandofs_api::Allocation::Zero { keep_size: false },
    };
    let refused = DataReply::OtherTruncations { truncations: 2 };
    assert_eq!(done(&mut objects, zero(1)), refused);
    assert_eq!(read(&mut objects, 7, 0, 100), b"");
    assert_eq!(done(&mut objects, zero(2)), DataReply::Done);
    assert_eq!(read(&mut objects, 7, 0, 100), [0; 100]);
}

/// Waits for what a truncation changes to be on disk.
const FOLLOWS: Waiter<()> = Waiter::Thread(Purpose::Follow(2));

/// Killed in between, it is asked once more and does it.
#[test]
fn an_object_says_that_it_has_followed_when_that_is_on_disk_and_not_before() {
    let (dir, mut objects) = objects();
    write(&mut objects, 7, 0, b"contents");
    let DataOrder::Sync {
        work: data::Work::Object(object),
        waiter: FOLLOWS,
    } = begun(&mut objects, truncate(2, 3), true)
    else {
        panic!("it is not to follow");
    };
    assert_eq!(object.checked.truncations(), 0);
    let holdings = Holdings::prepare(dir.path()).unwrap();
    let mut after = Objects::new(Arc::new(holdings), 2, SETTLE_AFTER);
    let truncate_again = begun(&mut after, truncate(2, 3), true);
    let follows = |order: &Order| {
        matches!(
            order,
            DataOrder::Sync {
                waiter: FOLLOWS,
                ..
            }
        )
    };
    assert!(follows(&truncate_again), "{truncate_again:?}");
    assert_eq!(done(&mut after, truncate(2, 3)), DataReply::Done);
    // That it has may not have been synced by the thread that said so.
    let again = begun(&mut after, truncate(2, 3), true);
    let is_of_header = |order: &Order| {
        let DataOrder::Sync { work, waiter } = order else {
            return false;
        };
        matches!(work, data::Work::Header(_)) && *waiter == Waiter::Request(())
    };
    assert!(is_of_header(&again), "{again:?}");
    assert_eq!(read(&mut after, 7, 0, 100), b"con");
}

#[test]
fn objects_outlive_their_being_open() {
    let (_dir, mut objects) = objects();
    for ino in 1..=5 {
        write(&mut objects, ino, 0, &[ino as u8; 3]);
        assert_eq!(
            done(&mut objects, DataRequest::Sync { ino: Ino(ino) }),
            DataReply::Done
        );
    }
    // Only two stay open; another server process would find all as well.
    let mut reopened = Objects::new(Arc::clone(&objects.holdings), 2, SETTLE_AFTER);
    for ino in 1..=5 {
        assert_eq!(read(&mut objects, ino, 0, 9), [ino as u8; 3]);
        assert_eq!(read(&mut reopened, ino, 0, 9), [ino as u8; 3]);
    }
}

#[test]
fn a_sync_syncs_the_entry_once() {
    let (_dir, mut objects) = objects();
    write(&mut objects, 1, 0, b"x");
    let object = objects.open_object(Ino(1)).unwrap().unwrap();
    assert!(!object.is_entry_synced());
    assert_eq!(
        done(&mut objects, DataRequest::Sync { ino: Ino(1) }),
        DataReply::Done
    );
    assert!(object.is_entry_synced());
    assert_eq!(
        done(&mut objects, DataRequest::Sync { ino: Ino(2) }),
        DataReply::Done
    );
}

#[test]
fn what_is_out_of_bounds_is_refused() {
    let (_dir, mut objects) = objects();
    let requests = [
        (
            DataRequest::Read {
                ino: Ino(1),
                offset: u64::MAX,
                length: 1,
            },
            FsError::FileTooBig,
        ),
        (
            DataRequest::Read {
                ino: Ino(1),
                offset: 0,
                length: MAX_IO_BYTES as u32 + 1,
            },
            FsError::Invalid,
        ),
        (
            DataRequest::Write {
                truncations: FIRST_TRUNCATIONS,
                ino: Ino(1),
                offset: MAX_FILE_BYTES,
                data: vec![0],
            },
            FsError::FileTooBig,
        ),
        (
            DataRequest::Write {
                truncations: FIRST_TRUNCATIONS,
                ino: Ino(1),
                offset: 0,
                data: vec![0; MAX_IO_BYTES + 1],
            },
            FsError::Invalid,
        ),
    ];
    for (request, error) in requests {
        assert_eq!(done(&mut objects, request), DataReply::Failed(error));
    }
    assert!(!path(&objects.holdings.root, Ino(1)).exists());
}

#[test]
fn errors_of_the_system_are_translated() {
    let at = Path::new("somewhere");
    let full = io::Error::from_raw_os_error(28);
    let quota = io::Error::from_raw_os_error(122);
    let too_big = io::Error::from_raw_os_error(27);
    let broken = io::Error::from_raw_os_error(5);
    assert_eq!(failure("write", at, &full), FsError::NoSpace);
    assert_eq!(failure("write", at, &quota), FsError::NoSpace);
    assert_eq!(failure("write", at, &too_big), FsError::FileTooBig);
    assert_eq!(failure("write", at, &broken), FsError::Io);
}

#[test]
fn space_is_that_of_the_file_system_below() {
    let (dir, mut objects) = objects();
    assert_ne!(
        disk_number(dir.path()).unwrap(),
        disk_number(Path::new("/proc")).unwrap()
    );
    let DataReply::Space {
        total,
        free,
        available,
        disk,
        ..
    } = done(&mut objects, DataRequest::Space)
    else {
        panic!("no space");
    };
    assert!(total >= free && free >= available && total > 0);
    assert_eq!(disk, disk_number(dir.path()).unwrap());
}

#[test]
fn a_listing_comes_in_pages_and_misses_none() {
    let (dir, mut objects) = objects();
    let inos = [0x101, 0x001, 0x2ff, 0x100, 0x0ff, u64::MAX];
    for ino in inos {
        write(&mut objects, ino, 0, b"xyz");
    }
    for page in [1, 2, 5, 100] {
        let (mut seen, mut after) = (Vec::new(), 0);
        loop {
            let AdminReply::Objects { objects, more } = list(dir.path(), after, page) else {
                panic!("no listing");
            };
            assert!(objects.len() <= page as usize);
            assert!(objects.iter().all(|&(_, bytes)| bytes == 3));
            seen.extend(objects.iter().map(|&(number, _)| number));
            if !more {
                break;
            }
            after = *seen.last().unwrap();
        }
        assert_eq!(seen, [0x100, 0x001, 0x101, 0x0ff, 0x2ff, u64::MAX]);
    }
}

/// An open file of the object that cannot be synced, as one whose pages the disk refused.
fn unsyncable(ino: u64) -> Arc<OpenObject> {
    let data = || OpenOptions::new().read(true).write(true).open("/dev/zero");
    let sums = tempfile::tempfile().unwrap();
    let checked = Checked::create(data, sums, 1, Box::new(|_| ())).unwrap();
    Arc::new(OpenObject::new(Ino(ino), checked))
}

fn sync(objects: &mut Objects, ino: u64) -> DataReply {
    done(objects, DataRequest::Sync { ino: Ino(ino) })
}

/// Whether the object's file has been written to since this was asked last.
fn is_written(objects: &Objects, ino: u64) -> bool {
    let file = File::options()
        .write(true)
        .open(path(&objects.holdings.root, Ino(ino)));
    let file = file.unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    before != SystemTime::UNIX_EPOCH
}

/// The system tells of a write-back that failed once. A caller that hears it, as the one that settles objects in the
/// background, may not use that up: a later sync would succeed with data that is in memory alone.
#[test]
fn a_sync_that_failed_in_the_background_does_not_make_a_later_sync_succeed_with_nothing() {
    let (_dir, mut objects) = objects();
    let far = 3 << 20;
    for ino in [7, 8] {
        write(&mut objects, ino, 0, &[5; 10_000]);
        write(&mut objects, ino, far, b"end");
        assert!(is_written(&objects, ino));
        assert_eq!(sync(&mut objects, ino), DataReply::Done);
    }
    let failed = Work::Settling(unsyncable(7)).sync(&objects.holdings);
    assert_eq!(failed, Err(FsError::Io));
    // A sync ordered before that is known: the system reports nothing more of the pages that failed.
    let object = objects.open_object(Ino(7)).unwrap().unwrap();
    let queued = Work::Object(object).sync(&objects.holdings);
    assert_eq!(queued, Err(FsError::Io));
    assert!(!is_written(&objects, 7));
    assert_eq!(sync(&mut objects, 7), DataReply::Done);
    assert!(is_written(&objects, 7), "it was not written once more");
    assert_eq!(read(&mut objects, 7, 0, 10_000), [5; 10_000]);
    assert_eq!(read(&mut objects, 7, far, 10), b"end");
    let DataReply::Usage { blocks } = done(&mut objects, DataRequest::Usage { ino: Ino(7) }) else {
        panic!("no usage");
    };
    assert!(blocks < 1_000, "{blocks} blocks: the hole takes space");
    // Once, and no other one.
    assert_eq!(sync(&mut objects, 7), DataReply::Done);
    assert_eq!(sync(&mut objects, 8), DataReply::Done);
    assert!(!is_written(&objects, 7) && !is_written(&objects, 8));
}

#[test]
fn what_memory_gave_up_after_a_sync_that_failed_is_never_said_to_be_synced() {
    let (_dir, mut objects) = objects();
    write(&mut objects, 7, 0, &[5; 10_000]);
    write(&mut objects, 7, 40_960, &[6; 4_096]);
    assert_eq!(sync(&mut objects, 7), DataReply::Done);
    let failed = Work::Object(unsyncable(7)).sync(&objects.holdings);
    assert_eq!(failed, Err(FsError::Io));
    // The disk's earlier bytes come back: of one block other bytes, of another one nothing.
    let file = path(&objects.holdings.root, Ino(7));
    let file = File::options().write(true).open(file).unwrap();
    file.write_all_at(&[1; 10], 4_096).unwrap();
    for _ in 0..2 {
        assert_eq!(sync(&mut objects, 7), DataReply::Failed(FsError::Io));
    }
    write(&mut objects, 7, 4_096, &[7; 4_096]);
    file.set_len(40_960).unwrap();
    file.set_len(45_056).unwrap();
    assert_eq!(sync(&mut objects, 7), DataReply::Failed(FsError::Io));
    // A rewrite has it on the disk.
    write(&mut objects, 7, 40_960, &[8; 4_096]);
    assert_eq!(sync(&mut objects, 7), DataReply::Done);
    assert_eq!(sync(&mut objects, 7), DataReply::Done);
}
