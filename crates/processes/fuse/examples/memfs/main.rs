//! In-memory file system on the same loop to the kernel and session as PandoFS's mount.
//!
//! It shows the speed of FUSE itself. `make bench` measures PandoFS beside it.
//!
//! ```text
//! memfs MOUNTPOINT [THREADS [io_uring]]
//! ```
//!
//! Runs until it is unmounted (`umount MOUNTPOINT`). With `RUST_LOG=pandofs_fuse_kernel=debug` it prints every
//! request of the kernel.

mod filesystem;

use pandofs_fuse::{Options, UseIoUring, serve};
use std::error::Error;
use std::path::Path;
use tracing_subscriber::EnvFilter;

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut options = Options {
        fs_name: "memfs".to_owned(),
        ..Options::default()
    };
    let mountpoint = match arguments.as_slice() {
        [mountpoint] => mountpoint,
        [mountpoint, threads] => {
            options.threads = threads.parse()?;
            mountpoint
        }
        [mountpoint, threads, word] if word == "io_uring" => {
            options.threads = threads.parse()?;
            options.io_uring = UseIoUring::Wanted;
            mountpoint
        }
        _ => return Err("usage: memfs MOUNTPOINT [THREADS [io_uring]]".into()),
    };
    serve(filesystem::MemFs::new(), Path::new(mountpoint), &options)?.join()?;
    Ok(())
}
