//! One object with its checksums.

use super::{Cut, Shared, Subject};
use crate::data::{self, DirectFile, Job, Judged, next_data};
use crate::error::ServerError;
use crate::limits::SCRUB_CHUNK_BYTES;
use pandofs_types::Ino;
use pandofs_types::limits::CHECKSUM_BLOCK_BYTES;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::mpsc;

/// Blocks that are read at once.
const BLOCKS_AT_ONCE: u64 = (SCRUB_CHUNK_BYTES / CHECKSUM_BLOCK_BYTES) as u64;
/// Bytes that an object counts for the rate at least: to open it costs a disk about as much.
const LEAST_BYTES: u64 = 16 << 10;

/// Reason why an object cannot be checked.
#[derive(Debug)]
pub(super) enum Trouble {
    Cut(Cut),
    Io(io::Error),
}

impl From<Cut> for Trouble {
    fn from(cut: Cut) -> Trouble {
        Trouble::Cut(cut)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Io(error)
    }
}

impl From<ServerError> for Trouble {
    fn from(_: ServerError) -> Trouble {
        Trouble::Cut(Cut::Ends)
    }
}

impl Shared {
    /// Reads an object and has another look taken at what does not fit; what is wrong with it as a whole.
    pub(super) fn object(&self, subject: &Subject, ino: Ino) -> Result<Option<String>, Trouble> {
        let root = &subject.holdings.root;
        let open = |path: PathBuf| match DirectFile::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        };
        // Removed meanwhile.
        let Some(data) = open(data::path(root, ino))? else {
            return Ok(None);
        };
        let mut wrong = None;
        let mut counted = 0;
        let sums = open(data::sums_path(root, ino))?;
        if let Some(sums) = &sums {
            if data::has_broken_header(&sums.read(0, data::HEADER_BYTES)?) {
                let path = data::sums_path(root, ino);
                wrong = Some(format!("the header of {} is damaged", path.display()));
            }
            let mut block = 0;
            while let Some(next) = next_block(data.buffered(), sums.buffered(), block)? {
                let bytes = data.read(next * data::BLOCK, SCRUB_CHUNK_BYTES)?;
                let stored = sums.read(
                    data::place(next),
                    (data::place(next + BLOCKS_AT_ONCE) - data::place(next)) as usize,
                )?;
                counted += (bytes.len() + stored.len()) as u64;
                // Also what was damaged, and may have been put right.
                let blocks = next..next + BLOCKS_AT_ONCE;
                let is_known = subject.holdings.health.is_any_of(ino, blocks);
                if is_known || !data::fit(&bytes, &stored) {
                    self.judge(subject, ino, next)?;
                }
                self.have_read((bytes.len() + stored.len()) as u64)?;
                block = next + BLOCKS_AT_ONCE;
            }
        } else {
            // The judging thread makes them anew, if they may be missing.
            let blocks = data.buffered().metadata()?.len().div_ceil(data::BLOCK);
            for block in (0..blocks).step_by(BLOCKS_AT_ONCE as usize) {
                self.judge(subject, ino, block)?;
                self.have_read(SCRUB_CHUNK_BYTES as u64)?;
            }
        }
        self.have_read(LEAST_BYTES.saturating_sub(counted))?;
        let (reply, looked) = mpsc::channel();
        subject.workers.order(ino, Job::LookedAt { ino, reply })?;
        match looked.recv() {
            Ok(Ok(())) => Ok(wrong),
            Ok(Err(error)) => Err(Trouble::Io(io::Error::other(error))),
            Err(_) => Err(Trouble::Cut(Cut::Ends)),
        }
    }

    /// Has blocks looked at by the thread that changes the object, which makes damage known.
    fn judge(&self, subject: &Subject, ino: Ino, first: u64) -> Result<(), Trouble> {
        let (reply, judged) = mpsc::channel::<Judged>();
        let job = Job::Judge {
            ino,
            first,
            count: BLOCKS_AT_ONCE,
            reply,
        };
        subject.workers.order(ino, job)?;
        match judged.recv() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Trouble::Io(io::Error::other(error))),
            Err(_) => Err(Trouble::Cut(Cut::Ends)),
        }
    }
}

/// The first block from `block` on of which there may be data, or a checksum that says there was.
fn next_block(data: &File, sums: &File, block: u64) -> io::Result<Option<u64>> {
    let in_data = next_data(data, block * data::BLOCK)?.map(|at| at / data::BLOCK);
    let in_sums = next_data(sums, data::place(block))?.map(data::block_at);
    let next = match (in_data, in_sums) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    Ok(next.map(|next| next.max(block)))
}
