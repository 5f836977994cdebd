//! `kill -9` while a store is written: a prefix of the writes is there, with all that was flushed.
//!
//! This program starts itself once more to be the victim.

use pandofs_storage::store::Store;
use pandofs_storage::store::suite::{assert_a_prefix, numbered};
use pandofs_store_directories::{DirectoriesStore, Options};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Small enough to be full every few dozen batches, so that it is also flushed unasked.
const OPTIONS: Options = Options {
    cache_bytes: 1 << 20,
    write_buffer_bytes: 16 << 10,
};
/// Tells the victim where its store is.
const VICTIM: &str = "PANDOFS_TEST_VICTIM";
/// Batches between two flushes: more than what fills the write buffer, so that a kill finds what was flushed unasked
/// after the last flush.
const FLUSH_EVERY: u32 = 397;
/// Times the victim is killed, each time over what the last one left.
const ROUNDS: u32 = 6;
/// Batches the victim writes, at least, before it is killed; another part of them is flushed in
/// each round.
const BATCHES: u32 = 1_111;

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::var_os(VICTIM) {
        Some(path) => be_killed(&PathBuf::from(path)),
        None => kill(),
    }
}

/// Writes numbered batches for ever and says after each how many are written and flushed.
fn be_killed(path: &Path) -> Result<(), Box<dyn Error>> {
    let store = DirectoriesStore::open(path, OPTIONS)?;
    let mut out = std::io::stdout().lock();
    let mut flushed = assert_a_prefix(&store);
    for written in flushed + 1.. {
        store.write(&numbered(written))?;
        if written.is_multiple_of(FLUSH_EVERY) {
            store.flush()?;
            flushed = written;
        }
        writeln!(out, "{written} {flushed}")?;
        out.flush()?;
    }
    Ok(())
}

fn kill() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    let mut left = 0;
    for round in 1..=ROUNDS {
        let mut victim = Command::new(std::env::current_exe()?)
            .env(VICTIM, &path)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = victim.stdout.take().ok_or("the victim has no output")?;
        let target = left + BATCHES;
        let (mut written, mut flushed) = (0, 0);
        // Read on after the kill: what it still said before it died counts too.
        for line in BufReader::new(output).lines() {
            let line = line?;
            let (said_written, said_flushed) = line.split_once(' ').ok_or("half a line")?;
            (written, flushed) = (said_written.parse::<u32>()?, said_flushed.parse::<u32>()?);
            if written == target {
                victim.kill()?;
            }
        }
        assert!(!victim.wait()?.success());
        assert!(
            written >= target,
            "the victim ended by itself after {written} batches"
        );

        let before = left;
        left = assert_a_prefix(&DirectoriesStore::open(&path, OPTIONS)?);
        println!("round {round}: {written} written, {flushed} flushed, {left} left");
        // One more may have been written than it came to say.
        assert!(left >= flushed && left <= written + 1 && left > before);
    }
    Ok(())
}
