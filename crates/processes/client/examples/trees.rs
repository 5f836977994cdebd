//! Small files, made and read in batches.

use pandofs_client::{Client, Credentials, FileToRead, Name, NewFile, Options};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = std::env::args().nth(1).map(PathBuf::from);
    let client = Client::open(&cluster.ok_or("which cluster?")?, Options::default())?;
    let me = Credentials::ROOT;
    let root = client.resolve(&me, b"/")?.ino;
    let dir = client.mkdir(&me, root, &Name::new(b"trees")?, 0o755)?.ino;

    let mut names = Vec::new();
    for number in 0..47_000 {
        names.push(Name::new(format!("trunk-{number}").as_bytes())?);
    }
    let files = names.iter().map(|name| NewFile {
        dir,
        name,
        mode: 0o644.into(),
        contents: b"one tree",
    });
    for made in client.create_many(&me, &files.collect::<Vec<_>>()) {
        made?;
    }
    let files = names.iter().map(|name| FileToRead {
        dir,
        name,
        most: 1 << 20,
    });
    let mut bytes = 0;
    for read in client.open_read_many(&me, &files.collect::<Vec<_>>()) {
        bytes += read?.len();
    }
    println!("{} files, {bytes} bytes", names.len());
    Ok(())
}
