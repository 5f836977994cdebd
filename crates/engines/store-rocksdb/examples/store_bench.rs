//! Benchmark of the stores: microseconds for one file creation, entries scanned per second.
//!
//! Usage: `store_bench [--ops N] [--store rocksdb|directories] [--folder DIR]`: both stores unless one is named, in the
//! folder for temporary files unless there is another.

use pandofs_storage::store::{Batch, Cached, KvRead, Overlay, Store, StoreError};
use pandofs_store_directories::DirectoriesStore;
use pandofs_store_rocksdb::RocksStore;
use pandofs_types::StoreKind;
use std::error::Error;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const DEFAULT_OPS: u64 = 200_000;
/// Bytes of a value: an inode's attributes and layout.
const VALUE_BYTES: usize = 120;
/// Operations whose writes an overlay gathers into one batch.
const OVERLAY_OPS: u64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse()?;
    for kind in arguments.stores {
        let directory = tempfile::tempdir_in(&arguments.folder)?;
        println!(
            "{kind}: {} operations, values of {VALUE_BYTES} bytes, {}",
            arguments.ops,
            directory.path().display()
        );
        let open = || open(kind, directory.path());
        measure(&open, arguments.ops)?;
    }
    Ok(())
}

fn open(kind: StoreKind, path: &Path) -> Result<Box<dyn Store>, StoreError> {
    Ok(match kind {
        StoreKind::RocksDb => Box::new(RocksStore::open(path, Default::default())?),
        StoreKind::Directories => Box::new(DirectoriesStore::open(path, Default::default())?),
    })
}

type Open<'o> = dyn Fn() -> Result<Box<dyn Store>, StoreError> + 'o;

fn measure(open: &Open<'_>, ops: u64) -> Result<(), Box<dyn Error>> {
    let store = open()?;
    let start = Instant::now();
    for n in 0..ops {
        create(&*store, n, n)?;
    }
    report(
        "get + get + batch of 3 puts, in memory",
        start.elapsed(),
        ops,
    );

    let start = Instant::now();
    store.flush()?;
    println!(
        "flush: {:.0} ms, {} bytes",
        start.elapsed().as_secs_f64() * 1e3,
        store.size_bytes()
    );

    let start = Instant::now();
    for n in 0..ops {
        create(&*store, ops + n, mix(n) % ops)?;
    }
    report(
        "get + get + batch of 3 puts, half of the keys in files",
        start.elapsed(),
        ops,
    );

    let start = Instant::now();
    for n in (0..ops).step_by(OVERLAY_OPS as usize) {
        let mut overlay = Overlay::new(&*store);
        for n in n..ops.min(n + OVERLAY_OPS) {
            let number = 2 * ops + n;
            black_box(overlay.get(&entry_key(number))?);
            black_box(overlay.get(&inode_key(mix(n) % ops))?);
            overlay.put(entry_key(number), value(number));
            overlay.put(inode_key(number), value(number));
            overlay.put(b"partition".to_vec(), value(number));
        }
        store.write(&overlay.take_batch())?;
    }
    report(
        "the same through an overlay, 64 to a batch",
        start.elapsed(),
        ops,
    );

    let start = Instant::now();
    store.flush()?;
    println!(
        "flush of the last: {:.0} ms, {} bytes",
        start.elapsed().as_secs_f64() * 1e3,
        store.size_bytes()
    );
    let start = Instant::now();
    for n in 0..ops {
        black_box(store.get(&inode_key(mix(n) % (3 * ops)))?);
    }
    report("get of a key in a file", start.elapsed(), ops);

    let mut cold = 0;
    let start = Instant::now();
    for n in 0..ops {
        cold += u64::from(store.get_cached(&inode_key(mix(n) % (3 * ops)))? == Cached::Cold);
    }
    report("get_cached of a key in a file", start.elapsed(), ops);
    println!("{cold} of them cold");

    drop(store);
    let start = Instant::now();
    let store = open()?;
    println!("open: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    for n in 0..ops {
        black_box(store.get(&inode_key(mix(n) % (3 * ops)))?);
    }
    report(
        "get of a key in a file, first in this process",
        start.elapsed(),
        ops,
    );

    let mut entries = 0u64;
    let start = Instant::now();
    store.scan(b"e", b"f", &mut |key, value| {
        black_box((key, value));
        entries += 1;
        ControlFlow::Continue(())
    })?;
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(entries, 3 * ops, "every entry is scanned");
    println!("scan: {:.0} entries/s", entries as f64 / seconds);
    Ok(())
}

/// Store requests of one creation: is the name free, who is the parent; then entry, inode and
/// partition.
fn create(store: &dyn Store, number: u64, parent: u64) -> Result<(), Box<dyn Error>> {
    black_box(store.get(&entry_key(number))?);
    black_box(store.get(&inode_key(parent))?);
    let mut batch = Batch::new();
    batch.put(entry_key(number), value(number));
    batch.put(inode_key(number), value(number));
    batch.put(b"partition".to_vec(), value(number));
    Ok(store.write(&batch)?)
}

/// `e`, directory, hash, name: in no order, as hashes are.
fn entry_key(number: u64) -> Vec<u8> {
    let mut key = b"e\0\0\0\0\0\0\0\x01".to_vec();
    key.extend_from_slice(&mix(number).to_be_bytes());
    key.extend_from_slice(format!("file.{number}").as_bytes());
    key
}

/// `i`, number: in the order of creation.
fn inode_key(number: u64) -> Vec<u8> {
    [b"i".as_slice(), &number.to_be_bytes()].concat()
}

fn value(number: u64) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    for (i, bytes) in value.chunks_mut(16).enumerate() {
        let half = bytes.len() / 2;
        bytes[..half].copy_from_slice(&mix(number + i as u64).to_be_bytes()[..half]);
    }
    value
}

/// SplitMix64: the same numbers in every run.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn report(what: &str, elapsed: Duration, ops: u64) {
    println!("{what}: {:.2} µs", elapsed.as_secs_f64() * 1e6 / ops as f64);
}

struct Arguments {
    ops: u64,
    stores: Vec<StoreKind>,
    folder: PathBuf,
}

impl Arguments {
    fn parse() -> Result<Arguments, Box<dyn Error>> {
        let mut parsed = Arguments {
            ops: DEFAULT_OPS,
            stores: StoreKind::ALL.to_vec(),
            folder: std::env::temp_dir(),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.ok_or_else(|| format!("{argument} wants a value"))
            };
            match argument.as_str() {
                "--ops" => parsed.ops = value()?.parse()?,
                "--store" => parsed.stores = vec![value()?.parse()?],
                "--folder" => parsed.folder = value()?.into(),
                _ => {
                    return Err(format!(
                        "unknown argument '{argument}'; usage: store_bench [--ops N] [--store STORE] [--folder DIR]"
                    )
                    .into());
                }
            }
        }
        if parsed.ops == 0 {
            Err("--ops wants at least 1".into())
        } else {
            Ok(parsed)
        }
    }
}
