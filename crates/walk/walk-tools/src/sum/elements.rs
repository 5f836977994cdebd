//! State of a directory that is summed up.

use crate::limits::PIECE_BYTES;
use crate::set_hash::SetHash;
use blake3::hazmat::ChainingValue;
use pandofs_walk_fs::{DirState, Unreadable};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A directory that is summed up.
#[derive(Debug, Default)]
pub(crate) struct Below(Mutex<Elements>);

/// Its entries, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    pub set: SetHash,
    pub larges: Vec<Large>,
    pub pieces: Vec<Piece>,
}

/// A file that is read piece by piece.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Large {
    pub name: CString,
    pub size: u64,
    pub attributes: Vec<u8>,
}

/// Hash of a piece.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub name: CString,
    pub number: u64,
    pub value: ChainingValue,
}

impl Below {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Elements> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DirState for Below {
    fn new(_seed: [u64; 2]) -> Below {
        Below::default()
    }

    fn gathered(&self) -> Vec<u8> {
        let elements = self.lock();
        let all = (elements.set.lanes(), &elements.larges, &elements.pieces);
        match postcard::to_stdvec(&all) {
            Ok(bytes) => bytes,
            Err(error) => unreachable!("a vector takes everything: {error}"),
        }
    }

    fn add(&self, gathered: &[u8]) -> std::result::Result<(), Unreadable> {
        let (lanes, larges, pieces): (Vec<u16>, Vec<Large>, Vec<Piece>) =
            postcard::from_bytes(gathered).map_err(|_| Unreadable)?;
        // Those that are not larger are read at once.
        if larges.iter().any(|it| it.size <= 2 * PIECE_BYTES) {
            return Err(Unreadable);
        }
        let mut elements = self.lock();
        elements.set.add_all(&lanes).ok_or(Unreadable)?;
        elements.larges.extend(larges);
        elements.pieces.extend(pieces);
        Ok(())
    }
}
