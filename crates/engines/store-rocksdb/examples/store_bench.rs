//! Benchmark of the store: microseconds for one file creation, entries scanned per second.
//!
//! Usage: `store_bench [--ops N]`

use pandofs_storage::store::{Batch, Cached, KvRead, Overlay, Store};
use pandofs_store_rocksdb::{Options, RocksStore};
use std::error::Error;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

const DEFAULT_OPS: u64 = 200_000;
/// Bytes of a value: an inode's attributes and layout.
const VALUE_BYTES: usize = 120;
/// Operations whose writes an overlay gathers into one batch.
const OVERLAY_OPS: u64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let ops = parse_ops()?;
    let directory = tempfile::tempdir()?;
    let store = RocksStore::open(directory.path(), Options::default())?;
    println!(
        "{ops} operations, values of {VALUE_BYTES} bytes, {}",
        directory.path().display()
    );

    let start = Instant::now();
    for n in 0..ops {
        create(&store, n, n)?;
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
        create(&store, ops + n, mix(n) % ops)?;
    }
    report(
        "get + get + batch of 3 puts, half of the keys in files",
        start.elapsed(),
        ops,
    );

    let start = Instant::now();
    for n in (0..ops).step_by(OVERLAY_OPS as usize) {
        let mut overlay = Overlay::new(&store);
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

    store.flush()?;
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
fn create(store: &RocksStore, number: u64, parent: u64) -> Result<(), Box<dyn Error>> {
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

fn parse_ops() -> Result<u64, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut ops = DEFAULT_OPS;
    while let Some(argument) = arguments.next() {
        if argument != "--ops" {
            return Err(
                format!("unknown argument '{argument}'; usage: store_bench [--ops N]").into(),
            );
        }
        ops = arguments.next().ok_or("--ops wants a number")?.parse()?;
    }
    if ops == 0 {
        Err("--ops wants at least 1".into())
    } else {
        Ok(ops)
    }
}
