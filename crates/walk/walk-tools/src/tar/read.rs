//! Reading of an archive from beginning to end, making nothing.
//!
//! It lists it, or writes data of files one after the other.

use crate::session::say;
use crate::tar::choice::Choice;
use crate::tar::header::{BLOCK, Kind, Member};
use crate::tar::listing::Listing;
use crate::tar::parse::Parser;
use anyhow::{Context, Result};
use pandofs_walk_fs::Meter;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 256 << 10;

/// An archive, and what is wanted of it.
pub(crate) struct Reading<'r> {
    pub input: &'r File,
    /// It can be read anywhere.
    pub seekable: bool,
    pub choice: Choice,
    pub listing: Listing,
    /// Destination of files' data, if they are wanted.
    pub data: Option<&'r mut dyn Write>,
}

/// Counts of what was read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Was {
    pub members: u64,
    pub bytes: u64,
}

impl Reading<'_> {
    /// Reads until the end, or until the meter is stopped.
    ///
    /// # Errors
    /// When the archive cannot be read or the data cannot be written.
    pub(crate) fn run(mut self, meter: &Meter) -> Result<Was> {
        let mut was = Was::default();
        let archive = self.seekable.then_some(self.input);
        let mut parser = Parser::new(BufReader::with_capacity(1 << 20, self.input));
        while !meter.is_stopped() {
            let Some(found) = parser.next()? else {
                for name in self.choice.missing() {
                    meter.add_problem();
                    say("tar", name.as_bytes(), "not found in the archive");
                }
                break;
            };
            let mut member = found.member;
            let padded = found.stored.next_multiple_of(BLOCK as u64);
            if !self.choice.takes(&mut member) {
                parser.pass_over(padded, archive)?;
                continue;
            }
            self.listing.show(&member);
            was.members += 1;
            was.bytes += found.stored;
            meter.count_entries(1);
            match &mut self.data {
                Some(data) if member.kind == Kind::File => {
                    match write_out(&mut parser, &member, data) {
                        Err(error) if is_broken_pipe(&error) => break,
                        done => done?,
                    }
                    parser.pass_over(padded - found.stored, archive)?;
                }
                _ => parser.pass_over(padded, archive)?,
            }
        }
        Ok(was)
    }
}

/// Writes a file as it would be, holes included.
fn write_out<R: io::Read>(
    parser: &mut Parser<R>,
    member: &Member,
    out: &mut dyn Write,
) -> Result<()> {
    let whole = [(0, member.size)];
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut at = 0;
    for (start, length) in member.sparse.as_deref().unwrap_or(&whole) {
        let hole = start.checked_sub(at);
        let hole = hole.context("the map of a sparse file is in no order")?;
        zeros(hole, &mut buffer, out)?;
        let mut left = *length;
        while left > 0 {
            let most = left.min(BUFFER_BYTES as u64) as usize;
            parser.read(&mut buffer[..most])?;
            out.write_all(&buffer[..most]).context("standard output")?;
            left -= most as u64;
        }
        at = start + length;
    }
    zeros(member.size - at, &mut buffer, out)?;
    out.flush().context("standard output")
}

fn zeros(count: u64, buffer: &mut [u8], out: &mut dyn Write) -> Result<()> {
    buffer.fill(0);
    let mut left = count;
    while left > 0 {
        let most = left.min(buffer.len() as u64) as usize;
        out.write_all(&buffer[..most]).context("standard output")?;
        left -= most as u64;
    }
    Ok(())
}

/// The reader has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|it| it.kind() == ErrorKind::BrokenPipe)
}
