//! Scrubbing, over the wire.

use crate::common::link::Shards;
use crate::common::{Connection, DEADLINE, Memory, map};
use pandofs_api::{
    AdminReply, AdminRequest, DataReply, DataRequest, FIRST_TRUNCATIONS, Refusal, ScrubOrder,
    ScrubReport, ScrubState,
};
use pandofs_server::Server;
use pandofs_storage::store::{Batch, Cached, KvRead, MemoryStore, Store, StoreError, Visit};
use pandofs_types::{FsError, Ino};
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const BLOCK: usize = 4_096;
const OBJECTS: u64 = 40;

fn ask(admin: &mut Connection, order: ScrubOrder) -> ScrubReport {
    match admin.administer(AdminRequest::Scrub(order)) {
        AdminReply::Scrub(report) => *report,
        other => panic!("{other:?}"),
    }
}

/// A whole pass.
fn scrub(admin: &mut Connection) -> ScrubReport {
    let mine = ask(admin, ScrubOrder::Begin { rate: 0 }).pass;
    wait_for(admin, |report| report.finished >= mine)
}

fn wait_for(admin: &mut Connection, wanted: impl Fn(&ScrubReport) -> bool) -> ScrubReport {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let report = ask(admin, ScrubOrder::Look);
        if wanted(&report) {
            return report;
        }
        assert!(Instant::now() < deadline, "{report:?}");
        std::thread::yield_now();
    }
}

fn write(ino: u64, offset: usize, data: &[u8]) -> DataRequest {
    DataRequest::Write {
        truncations: FIRST_TRUNCATIONS,
        ino: Ino(ino),
        offset: offset as u64,
        data: data.to_vec(),
    }
}

fn read(ino: u64, offset: usize, length: usize) -> DataRequest {
    DataRequest::Read {
        ino: Ino(ino),
        offset: offset as u64,
        length: length as u32,
    }
}

/// Objects of five blocks and a half, each with a hole, on disk.
fn filled(client: &mut Connection) {
    for ino in 1..=OBJECTS {
        assert_eq!(
            client.data(write(ino, 0, &[ino as u8; 2 * BLOCK])),
            DataReply::Done
        );
        let last = write(ino, 4 * BLOCK, &[9; BLOCK + BLOCK / 2]);
        assert_eq!(client.data(last), DataReply::Done);
    }
}

fn path(memory: &Memory, ino: u64) -> PathBuf {
    memory.data().join(format!("{:02x}/{ino:016x}", ino as u8))
}

fn sums(memory: &Memory, ino: u64) -> PathBuf {
    path(memory, ino).with_extension("sums")
}

fn flip(path: PathBuf, at: usize) {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at as u64).unwrap();
}

#[test]
fn a_scrub_finds_what_nobody_has_read_and_forgets_what_was_put_right() {
    let memory = Memory::with_map(|dir| map(dir, 2, 3_600_000));
    let server = memory.start();
    let mut shards = Shards::connect(&memory, server.address());
    let mut client = Connection::client(server.address(), 1);
    let mut admin = Connection::admin(server.address());
    filled(&mut client);
    let report = scrub(&mut admin);
    assert_eq!((report.objects, report.damaged.len()), (OBJECTS, 0));
    assert!(report.faults.is_empty() && report.taken == 0, "{report:?}");
    assert!(report.bytes >= OBJECTS * 5 * BLOCK as u64, "{report:?}");
    assert_eq!((report.share, report.state), (1_000, ScrubState::Idle));

    flip(path(&memory, 7), BLOCK + 5);
    // In a hole.
    flip(path(&memory, 8), 3 * BLOCK);
    flip(sums(&memory, 9), 64 + 4 * 4);
    fs::OpenOptions::new()
        .write(true)
        .open(path(&memory, 10))
        .unwrap()
        .set_len(4 * BLOCK as u64)
        .unwrap();
    // Checksums of an object that is gone.
    fs::copy(sums(&memory, 1), sums(&memory, 0x1_0000)).unwrap();
    let expected = vec![(7, 1), (8, 3), (9, 4), (10, 4), (10, 5)];
    let report = scrub(&mut admin);
    assert_eq!(report.damaged, expected);
    assert_eq!(report.objects, OBJECTS);
    assert_eq!((report.state, report.refused), (ScrubState::Idle, 0));
    let damaged = DataReply::Failed(FsError::Io);
    assert_eq!(client.data(read(7, 0, 6 * BLOCK)), damaged);
    assert_eq!(
        client.data(read(7, 0, BLOCK)),
        DataReply::Data(vec![7; BLOCK])
    );
    assert_eq!(ask(&mut admin, ScrubOrder::Look).refused, 1);

    assert_eq!(client.data(write(7, 0, &[1; 2 * BLOCK])), DataReply::Done);
    assert_eq!(
        shards.ask(DataRequest::Remove { ino: Ino(10) }),
        DataReply::Done
    );
    flip(sums(&memory, 9), 64 + 4 * 4);
    assert_eq!(scrub(&mut admin).damaged, [(8, 3)]);
    assert!(!sums(&memory, 0x1_0000).exists() && !sums(&memory, 10).exists());
    let cut = DataRequest::Truncate {
        truncations: FIRST_TRUNCATIONS + 1,
        ino: Ino(8),
        length: 2 * BLOCK as u64,
    };
    assert_eq!(shards.ask(cut), DataReply::Done);
    assert!(ask(&mut admin, ScrubOrder::Look).damaged.is_empty());

    flip(sums(&memory, 2), 20);
    let report = scrub(&mut admin);
    let what = format!("the header of {} is damaged", sums(&memory, 2).display());
    assert_eq!(report.failing, [(2, what)], "{report:?}");
    assert!(report.faults.is_empty(), "{report:?}");
    let remove = DataRequest::Remove { ino: Ino(2) };
    assert_eq!(shards.ask(remove), DataReply::Done);
    assert_eq!(ask(&mut admin, ScrubOrder::Look).failing, []);
}

/// Changes during a scrub are no damage.
#[test]
fn a_scrub_while_objects_are_written_finds_nothing() {
    let memory = Memory::new();
    let server = memory.start();
    let mut client = Connection::client(server.address(), 1);
    let mut admin = Connection::admin(server.address());
    filled(&mut client);
    for round in 0..4_u8 {
        let mine = ask(&mut admin, ScrubOrder::Begin { rate: 0 }).pass;
        while ask(&mut admin, ScrubOrder::Look).finished < mine {
            for ino in 1..=OBJECTS {
                let offset = usize::from(round) * 100 + ino as usize;
                client.data(write(ino, offset, &[round; 3 * BLOCK]));
            }
        }
    }
    let report = ask(&mut admin, ScrubOrder::Look);
    assert!(
        report.damaged.is_empty() && report.faults.is_empty(),
        "{report:?}"
    );
}

#[test]
fn a_scrub_keeps_to_its_rate_pauses_and_goes_on() {
    let memory = Memory::new();
    let server = memory.start();
    let mut client = Connection::client(server.address(), 1);
    let mut admin = Connection::admin(server.address());
    filled(&mut client);
    let slow = ask(&mut admin, ScrubOrder::Begin { rate: 1 });
    let running = |report: &ScrubReport| report.bytes > 0 && report.state == ScrubState::Running;
    let report = wait_for(&mut admin, running);
    assert!(report.objects <= 1 && report.share < 1_000, "{report:?}");
    assert_eq!(ask(&mut admin, ScrubOrder::Pause).state, ScrubState::Paused);
    // The same pass, faster, once it goes on.
    let again = ask(&mut admin, ScrubOrder::Begin { rate: 0 });
    assert_eq!((again.pass, again.state), (slow.pass, ScrubState::Paused));
    assert_eq!(ask(&mut admin, ScrubOrder::Look).objects, report.objects);
    ask(&mut admin, ScrubOrder::Resume);
    let report = wait_for(&mut admin, |report| report.finished == slow.pass);
    assert_eq!(report.objects, OBJECTS);
    // One under way does not keep the server from stopping.
    ask(&mut admin, ScrubOrder::Begin { rate: 1 });
    server.stop();
    server.join().unwrap();
}

/// After a loss of power, what was not synced is trusted once, and what was settled is not.
#[test]
fn a_start_of_the_machine_is_followed_by_a_scrub_that_ends_all_doubt() {
    let memory = Memory::new();
    let server = memory.start();
    let mut client = Connection::client(server.address(), 1);
    filled(&mut client);
    server.stop();
    server.join().unwrap();
    let record = memory.data().join("generations.json");
    let text = fs::read_to_string(&record).unwrap();
    assert!(text.contains("\"lost\": []"), "{text}");
    // As on a machine that has been started since; the checksum is that of "1 1 x ".
    let earlier = "{\"format\":1,\"generation\":1,\"boot\":\"x\",\"lost\":[],\"sum\":3875203468}";
    fs::write(&record, earlier).unwrap();
    flip(path(&memory, 7), BLOCK + 5);
    flip(path(&memory, 20), BLOCK + 5);
    fs::remove_file(sums(&memory, 21)).unwrap();

    let server = memory.start();
    let mut admin = Connection::admin(server.address());
    let report = wait_for(&mut admin, |report| report.finished == 1);
    // All four blocks of the one without checksums; the last one is a half.
    assert_eq!(
        (report.taken, report.damaged.len()),
        (2 + 4, 0),
        "{report:?}"
    );
    let text = fs::read_to_string(&record).unwrap();
    assert!(
        text.contains("\"generation\": 2") && text.contains("\"lost\": []"),
        "{text}"
    );
    let mut client = Connection::client(server.address(), 1);
    let length = 5 * BLOCK + BLOCK / 2;
    for ino in 1..=OBJECTS {
        let DataReply::Data(data) = client.data(read(ino, 0, length)) else {
            panic!("object {ino} cannot be read");
        };
        assert_eq!(data.len(), length);
    }
    // From now on damage is damage.
    flip(path(&memory, 20), BLOCK + 5);
    flip(path(&memory, 21), 5);
    assert_eq!(scrub(&mut admin).damaged, [(20, 1), (21, 0)]);
}

/// A store in which everything about names that end with "bad" is damaged.
struct Damaged(MemoryStore);

fn corrupt() -> StoreError {
    let what = "somewhere".to_owned();
    StoreError::Corrupt { what }
}

impl KvRead for Damaged {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if key.ends_with(b"bad") {
            return Err(corrupt());
        }
        self.0.get(key)
    }

    fn get_cached(&self, key: &[u8]) -> Result<Cached, StoreError> {
        if key.ends_with(b"bad") {
            return Ok(Cached::Cold);
        }
        self.0.get_cached(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.0.scan(start, end, visit)
    }
}

impl Store for Damaged {
    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        self.0.write(batch)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.0.flush()
    }

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn verify(&self, read: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), StoreError> {
        assert!(read(1 << 30).is_continue());
        Err(corrupt())
    }
}

#[test]
fn of_a_damaged_store_the_rest_is_served_and_a_scrub_says_so() {
    let memory = Memory::new();
    let store = MemoryStore::new();
    Server::format_store(&memory.map, memory.id, &store).unwrap();
    let server = memory.start_on(Arc::new(Damaged(store)), memory.log.clone());
    let mut client = Connection::client(server.address(), 1);
    for _ in 0..3 {
        let refused = client.create("bad").unwrap_err();
        assert_eq!(refused, Refusal::Fs(FsError::Io));
    }
    client.create("good").unwrap();
    let report = scrub(&mut Connection::admin(server.address()));
    assert_eq!(report.faults, ["the store is damaged: somewhere"]);
    assert!(report.bytes >= 1 << 30);
    server.stop();
    server.join().unwrap();
}
