//! A file system in memory that loses what was not synced when it gets the order `cut`.
//!
//! It is for trials of what stands on it.
//!
//! Invariant: [`file`] and [`disk`] decide what is there after a loss, and do no I/O; the same calls and the
//! same seed give the same.

mod disk;
mod file;
mod filesystem;
mod luck;

use anyhow::{Context, Result};
use clap::Parser;
use disk::Disk;
use filesystem::{Lossy, Shared, lock};
use pandofs_fuse::{Options, serve};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A file system whose disk forgets what was not synced.
///
/// Runs until it is unmounted. A program that connects to the socket and sends the line `cut` takes
/// the power away and gives it back: of what was not synced a part is there, by chance, and the
/// answer, one line, says how much there was. Nothing may use it meanwhile. The line `sync` syncs
/// everything, as sync(2) does elsewhere: Linux does not pass that on.
#[derive(Parser)]
#[command(name = "pandofs-lossy")]
struct Arguments {
    /// Folder to mount it on
    #[arg(value_name = "DIR")]
    mountpoint: PathBuf,
    /// The socket to be made for its orders
    #[arg(long, value_name = "PATH")]
    control: PathBuf,
    /// Seed of chances
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A disk that answers all syncs and does, by chance, every other one
    #[arg(long)]
    lie: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let disk: Shared = Arc::new(Mutex::new(Disk::new(arguments.seed, arguments.lie)));
    let control = &arguments.control;
    match fs::remove_file(control) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", control.display()));
        }
        _ => {}
    }
    let listener = UnixListener::bind(control)
        .with_context(|| format!("cannot listen at {}", control.display()))?;
    let options = Options {
        fs_name: "pandofs-lossy".to_owned(),
        threads: 8,
        ..Options::default()
    };
    let mounted = serve(
        Lossy::new(Arc::clone(&disk)),
        &arguments.mountpoint,
        &options,
    )?;
    std::thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                if let Err(error) = obey(&connection, &disk) {
                    eprintln!("control: {error:#}");
                }
            }
        })?;
    mounted.join()?;
    Ok(())
}

fn obey(mut connection: &UnixStream, disk: &Mutex<Disk>) -> Result<()> {
    for line in BufReader::new(connection).lines() {
        match line?.as_str() {
            "cut" => {
                let met = lock(disk).cut();
                writeln!(
                    connection,
                    "{} files and {} directories had changes that were not synced",
                    met.files, met.directories
                )?;
            }
            "sync" => {
                lock(disk).sync_all();
                writeln!(connection, "all is on the disk")?;
            }
            other => writeln!(connection, "unknown: {other}")?,
        }
    }
    Ok(())
}
