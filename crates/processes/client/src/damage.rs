//! Reading up to the first byte that cannot be read.

use crate::Client;
use crate::error::{ClientError, Result};
use crate::trace::{Op, Outcome};
use pandofs_types::limits::CHECKSUM_BLOCK_BYTES;
use pandofs_types::{Credentials, FsError, Ino};

impl Client {
    /// As [`Client::read`], but where a part of the bytes cannot be read (a block is damaged, a
    /// disk has an error), those before it: as a local file system does. Fewer bytes do not mean
    /// then that the file ends, so this is for callers that know that: a program that reads past
    /// the kernel's cache.
    ///
    /// # Errors
    /// As [`Client::read`]; `Io` when the first block cannot be read.
    pub fn read_before_damage(
        &self,
        caller: &Credentials,
        ino: Ino,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>> {
        let bytes = length;
        self.traced(
            || Op::Read { ino, offset, bytes },
            |_| Outcome::Done,
            |client| client.read_up_to_damage(caller, ino, offset, length),
        )
    }

    fn read_up_to_damage(
        &self,
        caller: &Credentials,
        ino: Ino,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>> {
        match self.read(caller, ino, offset, length) {
            Err(error) if is_damage(&error) => {}
            result => return result,
        }
        // Up to a block's end first, then in halves.
        let into_block = (offset % CHECKSUM_BLOCK_BYTES as u64) as usize;
        let mut bytes = Vec::new();
        let mut step = CHECKSUM_BLOCK_BYTES - into_block;
        if step < length {
            bytes = self.read(caller, ino, offset, step)?;
            if bytes.len() < step {
                return Ok(bytes);
            }
        }
        step = (length - bytes.len()).next_power_of_two() / 2;
        while step >= CHECKSUM_BLOCK_BYTES {
            let wanted = step.min(length - bytes.len());
            match self.read(caller, ino, offset + bytes.len() as u64, wanted) {
                Ok(more) => {
                    let is_all = more.len() < wanted;
                    bytes.extend(more);
                    if is_all || bytes.len() == length {
                        return Ok(bytes);
                    }
                }
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
            step /= 2;
        }
        if bytes.is_empty() {
            return Err(FsError::Io.into());
        }
        Ok(bytes)
    }
}

fn is_damage(error: &ClientError) -> bool {
    matches!(error, ClientError::Fs(FsError::Io))
}
