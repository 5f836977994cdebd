//! Cost of a forced write on this machine's disk.

use anyhow::{Context, Result};
use pandofs_model::report::{Axis, Figure};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

const WRITES: usize = 300;
const PAGE: [u8; 4_096] = [0x5a; 4_096];

/// Pages are appended to a file where the servers' logs are, each forced.
pub(super) fn forced_write(scratch: &Path) -> Result<Figure> {
    let mut file = tempfile::tempfile_in(scratch)?;
    let mut took = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let begun = Instant::now();
        file.write_all(&PAGE)
            .and_then(|()| file.sync_data())
            .context("cannot force a page")?;
        took.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    took.sort_by(f64::total_cmp);
    let mut figure = Figure::of_categories(
        "commit-disk",
        "A page that is appended and forced",
        &["median", "90 of 100", "99 of 100"],
        Axis::linear("ms"),
    );
    figure.add_values(
        "4 KiB",
        &[
            took[WRITES / 2],
            took[WRITES * 9 / 10],
            took[WRITES * 99 / 100],
        ],
    );
    figure.note(format!(
        "{WRITES} writes with fdatasync, one after the other"
    ));
    Ok(figure)
}
