//! Folders that are no sound store of this version: refused, and left as they were. And the layout, byte by byte.

#![allow(clippy::unwrap_used, reason = "what tests call is test code, too")]

use pandofs_storage::store::suite::{assert_a_prefix, numbered};
use pandofs_storage::store::{Batch, KvRead, Store, StoreError};
use pandofs_store_directories::{DirectoriesStore, Options};
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Batches in the stores made here.
const WRITTEN: u32 = 100;
const DIRECTORY: [u8; 11] = [3, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9];
const INODE: [u8; 10] = [0, 3, 0, 3, 0, 0, 0, 0, 0x12, 0x34];

/// A flushed store that is not open.
fn stopped_store() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    for number in 1..=WRITTEN {
        store.write(&numbered(number)).unwrap();
    }
    store.flush().unwrap();
    directory
}

fn open(path: &Path) -> Result<DirectoriesStore, StoreError> {
    DirectoriesStore::open(path, Options::default())
}

fn refusal(path: &Path) -> StoreError {
    open(path).err().unwrap()
}

/// All that is in a folder: of folders nothing, of files contents and attributes.
fn contents(path: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let at = entry.unwrap().path();
            let name = at.strip_prefix(path).unwrap().to_path_buf();
            if at.is_dir() {
                found.insert(name, String::new());
                folders.push(at);
            } else {
                found.insert(name, told(&at));
            }
        }
    }
    found
}

fn told(file: &Path) -> String {
    let mut told = fs::read(file).unwrap().escape_ascii().to_string();
    let mut list = [0; 4_096];
    let bytes = rustix::fs::llistxattr(file, &mut list[..]).unwrap();
    let mut names: Vec<&[u8]> = list[..bytes].split(|&byte| byte == 0).collect();
    names.sort_unstable();
    for name in names.into_iter().filter(|name| name.starts_with(b"user.")) {
        let mut value = [0; 4_096];
        let bytes = rustix::fs::lgetxattr(file, name, &mut value[..]).unwrap();
        told += &format!(
            " [{}={}]",
            name.escape_ascii(),
            value[..bytes].escape_ascii()
        );
    }
    told
}

/// A key that begins with so many bytes, and ends with the others.
fn key(begin: &[u8], rest: &[u8]) -> Vec<u8> {
    [begin, rest].concat()
}

#[test]
fn the_layout_is_pinned() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let long = [b"\0\0\0\0\0\0\0\x07".as_slice(), &[b'n'; 250]].concat();
    let mut batch = Batch::new();
    batch.put(vec![1, 0, 3], b"meta".to_vec());
    batch.put(key(&DIRECTORY, b"\0\0\0\0\0\0\0\x07a/b"), b"entry".to_vec());
    batch.put(key(&DIRECTORY, &long), b"long".to_vec());
    batch.put(key(&[2], &INODE), b"record".to_vec());
    batch.put(key(&[6], &key(&INODE, b"user.mime")), b"text".to_vec());
    batch.put(key(&[0x16], &INODE), b"data".to_vec());
    batch.put(key(&[8, 0, 3], b"\0\x01"), vec![b'v'; 2_049]);
    store.write(&batch).unwrap();
    store.flush().unwrap();
    let cut = format!("0000000000000007.{}%", "n".repeat(237));
    let dir = "directories/0003/0000000000000009";
    let files = [
        ("FORMAT".to_owned(), "pandofs-store-directories 1\\n".to_owned()),
        ("SIZE".to_owned(), "2417\\n".to_owned()),
        (format!("{dir}/0000000000000007.a%2fb"), " [user.pandofs=SUMentry]".to_owned()),
        (format!("{dir}/{cut}/+{}", "n".repeat(13)), " [user.pandofs=SUMlong]".to_owned()),
        (
            "inodes/0003/0003000000001/234".to_owned(),
            "data [user.pandofs=SUMrecord] [user.pandofs-data=SUM\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x04] \
             [user.pandofs.user.mime=SUMtext]"
                .to_owned(),
        ),
        ("others/k010003/k".to_owned(), " [user.pandofs=SUMmeta]".to_owned()),
        ("others/k080003/k0001".to_owned(), format!("SUM{}", "v".repeat(2_049))),
    ];
    let mut found = contents(directory.path());
    found.retain(|name, _| !directory.path().join(name).is_dir());
    let sum = |key: &[u8], value: &[u8]| {
        let sum = crc32c::crc32c(&[key, value].concat()).to_be_bytes();
        sum.escape_ascii().to_string()
    };
    for (key, value) in batch.iter() {
        for told in found.values_mut() {
            *told = told.replacen(&sum(key, value.unwrap()), "SUM", 1);
        }
    }
    let expected: BTreeMap<PathBuf, String> = files
        .into_iter()
        .map(|(name, told)| (name.into(), told))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn another_version_is_refused_and_not_touched() {
    let directory = stopped_store();
    for found in [
        "pandofs-store 1",
        "pandofs-store-directories 2",
        "",
        "\u{1b}[31mred",
    ] {
        fs::write(directory.path().join("FORMAT"), format!("{found}\n")).unwrap();
        let before = contents(directory.path());
        let expected = StoreError::WrongFormat {
            path: directory.path().to_path_buf(),
            found: found.escape_debug().to_string(),
            expected: "pandofs-store-directories 1".to_string(),
        };
        assert_eq!(refusal(directory.path()), expected);
        assert!(contents(directory.path()) == before);
    }
}

#[test]
fn a_folder_that_is_no_store_is_refused_and_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("diary.txt"), "dear diary").unwrap();
    match refusal(directory.path()) {
        StoreError::WrongFormat { found, .. } => assert_eq!(found, "no FORMAT file"),
        other => panic!("{other:?}"),
    }
    assert_eq!(contents(directory.path()).len(), 1);
}

#[test]
fn a_store_that_lost_its_marker_is_not_overwritten() {
    let directory = stopped_store();
    let marker = directory.path().join("FORMAT");
    fs::remove_file(&marker).unwrap();
    assert!(matches!(
        refusal(directory.path()),
        StoreError::WrongFormat { .. }
    ));
    fs::write(&marker, "pandofs-store-directories 1\n").unwrap();
    assert_eq!(assert_a_prefix(&open(directory.path()).unwrap()), WRITTEN);
}

#[test]
fn a_store_whose_making_was_cut_short_is_made_after_all() {
    let directory = tempfile::tempdir().unwrap();
    for left in ["FORMAT.new", "probe", "probe-x"] {
        fs::write(directory.path().join(left), "pando").unwrap();
    }
    fs::create_dir(directory.path().join("inodes")).unwrap();
    let store = open(directory.path()).unwrap();
    store.write(&numbered(1)).unwrap();
    store.flush().unwrap();
    drop(store);
    assert_eq!(assert_a_prefix(&open(directory.path()).unwrap()), 1);
    let left: Vec<PathBuf> = contents(directory.path()).into_keys().collect();
    assert!(
        !left.iter().any(|name| name.starts_with("probe")),
        "{left:?}"
    );
}

#[test]
fn a_folder_that_is_missing_is_corruption_and_no_reason_to_begin_anew() {
    for top in ["directories", "inodes", "others"] {
        let directory = stopped_store();
        fs::remove_dir_all(directory.path().join(top)).unwrap();
        let error = refusal(directory.path());
        assert!(matches!(&error, StoreError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains(top), "{error}");
        assert!(!directory.path().join(top).exists());
    }
}

/// What nobody wrote is found where it is: in an attribute, in contents, and as a name.
#[test]
fn damage_is_found_when_it_is_read_and_by_looking_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let record = key(&[2], &INODE);
    let data = key(&[0x16], &INODE);
    let large = key(&[8, 0, 3], b"large");
    let mut batch = Batch::new();
    batch.put(record.clone(), b"record".to_vec());
    batch.put(data.clone(), b"data".to_vec());
    batch.put(large.clone(), vec![1; 9_000]);
    store.write(&batch).unwrap();
    store.flush().unwrap();
    drop(store);
    let inode = directory.path().join("inodes/0003/0003000000001/234");
    let other = directory.path().join("others/k080003/k6c61726765");
    let rewrite = |file: &Path, bytes: &[u8]| fs::write(file, bytes).unwrap();
    let attribute = |value: &[u8]| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::lsetxattr(&inode, "user.pandofs", value, flags).unwrap();
    };
    let mut sealed = [0; 64];
    let bytes = rustix::fs::lgetxattr(&inode, "user.pandofs", &mut sealed[..]).unwrap();
    let sealed = &sealed[..bytes];
    let was = fs::read(&other).unwrap();
    let flipped = |bytes: &[u8]| {
        let mut wrong = bytes.to_vec();
        *wrong.last_mut().unwrap() ^= 1;
        wrong
    };
    let assert_found = |key: &[u8], file: &Path| {
        // Anew, as it is in memory otherwise.
        let store = open(directory.path()).unwrap();
        let go_on = &mut |_: &[u8], _: &[u8]| ControlFlow::Continue(());
        for error in [
            store.get(key).unwrap_err(),
            store.scan(&[], &[0xff], go_on).unwrap_err(),
            store
                .verify(&mut |_| ControlFlow::Continue(()))
                .unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
            assert!(
                error.to_string().contains(file.to_str().unwrap()),
                "{error}"
            );
        }
    };
    attribute(&flipped(sealed));
    assert_found(&record, &inode);
    attribute(b"x");
    assert_found(&record, &inode);
    attribute(&[0; 3_000]);
    assert_found(&record, &inode);
    attribute(sealed);
    for contents in [&b"date"[..], b"dat", b"data-", b""] {
        rewrite(&inode, contents);
        assert_found(&data, &inode);
    }
    rewrite(&inode, b"data");
    for contents in [&flipped(&was)[..], &was[..100], b""] {
        rewrite(&other, contents);
        assert_found(&large, &other);
    }
    rewrite(&other, &was);
    // The value of another key, with its right checksum.
    let elsewhere = other.with_file_name("k6c61726766");
    fs::rename(&other, &elsewhere).unwrap();
    assert_found(b"\x08\0\x03largf", &elsewhere);
    fs::rename(&elsewhere, &other).unwrap();
    let foreign = other.with_file_name("notes.txt");
    rewrite(&foreign, b"");
    assert_found(&key(&[8, 0, 3], b"absent"), &foreign);
    fs::remove_file(&foreign).unwrap();
    let store = open(directory.path()).unwrap();
    store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(store.get(&large).unwrap(), Some(vec![1; 9_000]));
    let mut calls = 0;
    let end_at_once = &mut |_| {
        calls += 1;
        ControlFlow::Break(())
    };
    store.verify(end_at_once).unwrap();
    assert_eq!(calls, 1);
}

/// A journal that was being written is dropped however much of it there is; one that was whole and is not any more is
/// damage, and is kept.
#[test]
fn a_journal_is_finished_dropped_or_refused() {
    let made = stopped_store();
    let store = open(made.path()).unwrap();
    let journal = made.path().join("journal");
    let mut bytes = Vec::new();
    store.write(&numbered(WRITTEN + 1)).unwrap();
    std::thread::scope(|scope| {
        let mut flusher = None;
        let mut visit = |_: &[u8], _: &[u8]| {
            // The scan does not let the flush go beyond its journal; what is written after it began is in the journal.
            if flusher.is_none() {
                store.write(&numbered(WRITTEN + 2)).unwrap();
                flusher = Some(scope.spawn(|| store.flush().unwrap()));
                let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
                while !journal.exists() {
                    assert!(std::time::Instant::now() < deadline, "no journal");
                    std::thread::yield_now();
                }
                bytes = fs::read(&journal).unwrap();
            }
            ControlFlow::Continue(())
        };
        store.scan(&[], &[0xff], &mut visit).unwrap();
    });
    drop(store);
    assert_eq!(assert_a_prefix(&open(made.path()).unwrap()), WRITTEN + 2);

    let directory = stopped_store();
    let unfinished = directory.path().join("journal.new");
    let journal = directory.path().join("journal");
    for end in (0..=bytes.len()).step_by(37) {
        fs::write(&unfinished, &bytes[..end]).unwrap();
        assert_eq!(assert_a_prefix(&open(directory.path()).unwrap()), WRITTEN);
        assert!(!unfinished.exists());
    }
    for end in (0..bytes.len()).step_by(37) {
        fs::write(&journal, &bytes[..end]).unwrap();
        let error = refusal(directory.path());
        assert!(matches!(&error, StoreError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("journal"), "{error}");
        assert_eq!(fs::read(&journal).unwrap(), bytes[..end]);
    }
    fs::write(&journal, &bytes).unwrap();
    for _ in 0..2 {
        assert_eq!(
            assert_a_prefix(&open(directory.path()).unwrap()),
            WRITTEN + 2
        );
        assert!(!journal.exists());
    }
    // Once more, over what it has made already.
    fs::write(&journal, &bytes).unwrap();
    assert_eq!(
        assert_a_prefix(&open(directory.path()).unwrap()),
        WRITTEN + 2
    );
}

#[test]
fn a_store_is_open_once() {
    let directory = stopped_store();
    let _held = open(directory.path()).unwrap();
    assert!(matches!(refusal(directory.path()), StoreError::Io { .. }));
}

/// A file that nothing can be read from is no damage, and says so.
#[test]
fn a_folder_in_the_place_of_a_file_is_a_failure_that_names_it() {
    let directory = stopped_store();
    let file = directory.path().join("others/k636f75/k6e74");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let store = open(directory.path()).unwrap();
    let error = store.get(b"count").unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert!(error.to_string().contains("k6e74"), "{error}");
}
