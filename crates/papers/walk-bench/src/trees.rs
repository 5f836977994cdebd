//! Trees that walkers are measured on.

use anyhow::{Context, Result};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use std::fs::File;
use std::path::Path;

/// Levels of the chain of a skewed tree.
const CHAIN: u32 = 2_000;

pub(crate) fn make(shape: &str, files: u64, root: &Path) -> Result<()> {
    std::fs::create_dir(root).with_context(|| root.display().to_string())?;
    if shape == "balanced" {
        return balanced(root, files);
    }
    let large = root.join("large");
    std::fs::create_dir(&large)?;
    // Of 700,000 files 500,000 are in one directory.
    fill(&large, files * 5 / 7)?;
    balanced(&root.join("small"), files * 2 / 7)?;
    let mut at = openat(CWD, root, OFlags::DIRECTORY, Mode::empty())?;
    for _ in 0..CHAIN {
        mkdirat(&at, "chain", Mode::RWXU)?;
        at = openat(&at, "chain", OFlags::DIRECTORY, Mode::empty())?;
    }
    Ok(())
}

/// A hundred files in a directory, a hundred directories in a directory.
fn balanced(root: &Path, files: u64) -> Result<()> {
    for outer in 0..files.div_ceil(10_000) {
        for inner in 0..100 {
            let done = outer * 10_000 + inner * 100;
            if done < files {
                let dir = root.join(format!("d{outer}/e{inner}"));
                std::fs::create_dir_all(&dir)?;
                fill(&dir, (files - done).min(100))?;
            }
        }
    }
    Ok(())
}

fn fill(dir: &Path, files: u64) -> Result<()> {
    for file in 0..files {
        File::create(dir.join(format!("file{file}")))?;
    }
    Ok(())
}
