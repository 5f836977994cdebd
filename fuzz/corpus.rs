//! Writer of the fuzz targets' corpora.
//!
//! It writes the golden bytes of each target's decoder to `FOLDER/TARGET/`, and prints the targets.

use pandofs_formats::decoders::{ALL, samples};
use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args_os().nth(1).ok_or("usage: corpus FOLDER")?;
    for decoder in ALL {
        let folder = PathBuf::from(&folder).join(decoder.name);
        fs::create_dir_all(&folder)?;
        for (number, bytes) in samples(decoder).iter().enumerate() {
            fs::write(folder.join(format!("golden-{number:03}")), bytes)?;
        }
        println!("{}", decoder.name);
    }
    Ok(())
}
