//! Mix of operations of the HP trace that FPFS was measured with, as far as it is known.
//!
//! A. Avilés-González, J. Piernas, P. González-Férez, "A Metadata Cluster Based on OSD+ Devices":
//! table I counts the operations of the busiest 21 hours. The trace itself is not to be had;
//! [`synthetic`] makes one with its mix.

use crate::op::{Kind, Op};
use crate::trace::Trace;
use pandofs_model::Rng;

/// FPFS, table I: the operations of the HP trace.
pub const TABLE_1: [(Kind, u64); 9] = [
    (Kind::Lookup, 13_908_189),
    (Kind::Stat, 2_827_387),
    (Kind::Open, 2_572_124),
    (Kind::Unlink, 67_883),
    (Kind::Create, 41_755),
    (Kind::Rename, 7_683),
    (Kind::Mkdir, 7_389),
    (Kind::Rmdir, 6_973),
    (Kind::Renamedir, 5),
];
/// Files of a directory that the preparation makes.
const PREPARED_FILES: u64 = 10;

/// A trace with the mix of FPFS's table I, `scale` times as long; each kind at least once.
///
/// # Panics
/// With no clients.
pub fn synthetic(scale: f64, clients: u32, seed: u64) -> Trace {
    assert!(clients > 0, "there are no clients");
    let mut rng = Rng::new(seed, 0xf9f5);
    let counts = TABLE_1.map(|(_, count)| ((count as f64 * scale).round() as u64).max(1));
    let mut order: Vec<usize> = Vec::new();
    for (which, &count) in counts.iter().enumerate() {
        order.extend(std::iter::repeat_n(which, count as usize));
    }
    for at in (1..order.len()).rev() {
        order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    // Enough of everything, whatever the order.
    let directories = counts[7] + counts[8] + u64::from(clients) + 8;
    let mut spare: Vec<String> = (0..directories)
        .map(|number| format!("d{number}"))
        .collect();
    let mut done: Vec<(u32, Op)> = Vec::new();
    for path in &spare {
        done.push((0, Op::new(Kind::Mkdir, path)));
    }
    // Of these the first stay and have files, the others are empty and may go.
    let mut empty = spare.split_off(u64::from(clients) as usize + 8);
    let mut kept = spare;
    let mut files = Vec::new();
    let wanted = counts[3] + PREPARED_FILES * kept.len() as u64;
    for number in 0..wanted {
        let path = format!("{}/f{number}", kept[(number % kept.len() as u64) as usize]);
        done.push((0, Op::new(Kind::Create, &path)));
        files.push(path);
    }
    let prepare = done.len() as u32;
    for (number, which) in order.into_iter().enumerate() {
        let client = rng.below(u64::from(clients)) as u32;
        let directory = rng.below(kept.len() as u64) as usize;
        let file = rng.below(files.len() as u64) as usize;
        let op = match TABLE_1[which].0 {
            Kind::Mkdir => {
                let path = format!("{}/m{number}", kept[directory]);
                Op::new(Kind::Mkdir, path)
            }
            Kind::Rmdir => match empty.pop() {
                Some(path) => Op::new(Kind::Rmdir, path),
                None => Op::new(Kind::Stat, &files[file]),
            },
            Kind::Create => {
                let path = format!("{}/c{number}", kept[directory]);
                files.push(path.clone());
                Op::new(Kind::Create, path)
            }
            Kind::Unlink => Op::new(Kind::Unlink, files.swap_remove(file)),
            Kind::Renamedir => {
                let to = format!("r{number}");
                let from = std::mem::replace(&mut kept[directory], to.clone());
                let within = format!("{from}/");
                for path in &mut files {
                    if let Some(rest) = path.strip_prefix(&within) {
                        *path = format!("{to}/{rest}");
                    }
                }
                Op::with_two(Kind::Renamedir, from, to)
            }
            Kind::Rename => {
                let to = format!("{}/n{number}", kept[directory]);
                let from = std::mem::replace(&mut files[file], to.clone());
                Op::rename(from, to)
            }
            kind => Op::new(kind, &files[file]),
        };
        done.push((client, op));
    }
    Trace::link(clients, prepare, done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Kernel, Target};
    use crate::{replay, summarize};

    /// The trace that is shipped, and its source.
    const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/fpfs-table-1.trace");
    const SHIPPED_SCALE: f64 = 0.00014;
    const SHIPPED_CLIENTS: u32 = 8;
    const SHIPPED_SEED: u64 = 1;
    /// Bytes: it is in every copy of the repository.
    const SHIPPED_MOST: usize = 200 << 10;

    #[test]
    fn the_synthetic_trace_has_the_mix_of_table_1() {
        let summary = summarize(&synthetic(1e-3, 8, 1));
        let counts: Vec<u64> = TABLE_1.map(|(kind, _)| summary.operations[&kind]).into();
        assert_eq!(counts, [13_908, 2_827, 2_572, 68, 42, 8, 7, 7, 1]);
    }

    #[test]
    fn a_synthetic_trace_can_be_replayed_by_many_clients() {
        let directory = tempfile::tempdir().unwrap();
        let trace = synthetic(2e-4, 8, 1);
        let of = |_| Box::new(Kernel::new(directory.path())) as Box<dyn Target>;
        let mut targets: Vec<_> = (0..8).map(of).collect();
        let summary = replay(&trace, &mut targets).unwrap();
        assert!(summary.seconds > 0.0 && summary.dependent > 0);
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        assert!(left > 8, "{left}");
    }

    #[test]
    fn the_shipped_trace_is_what_its_seed_makes_and_has_the_mix_of_table_1() {
        let made = synthetic(SHIPPED_SCALE, SHIPPED_CLIENTS, SHIPPED_SEED);
        let mut bytes = Vec::new();
        made.write(&mut bytes).unwrap();
        if std::env::var_os("PANDOFS_BLESS").is_some() {
            std::fs::write(SHIPPED, &bytes).unwrap();
        }
        let shipped = std::fs::read(SHIPPED).unwrap();
        assert!(shipped == bytes, "PANDOFS_BLESS=1 writes it anew");
        assert!(shipped.len() < SHIPPED_MOST, "{}", shipped.len());
        let summary = summarize(&Trace::read(&shipped[..]).unwrap());
        for (row, (kind, count)) in summary.table_1.iter().zip(TABLE_1) {
            assert_eq!(row.operation, kind);
            let wanted = ((count as f64 * SHIPPED_SCALE).round() as u64).max(1);
            assert_eq!(row.count, wanted, "{kind}");
            let off = (row.percent - row.percent_of_fpfs).abs();
            assert!(
                off < 0.1,
                "{kind}: {} and {}",
                row.percent,
                row.percent_of_fpfs
            );
        }
    }
}
