//! Import of a file: lines in, a recording out.

use super::{Form, ImportError, Machine, Problem, machine};
use crate::limits::MAX_IMPORT_LINE_BYTES;
use crate::recording::{Event, Footer, header};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};

/// Bytes that are read at a time.
const READ_BYTES: usize = 1 << 20;
/// Lines after which it is said how far it is.
const TELL_LINES: u64 = 4_096;

/// The outcome of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Lines of the trace.
    pub lines: u64,
    /// Operations of the recording, those that tell of what was there before among them.
    pub operations: u64,
    /// How many calls are not in the recording: by why, and by the call's name.
    pub left_out: BTreeMap<String, BTreeMap<String, u64>>,
    /// The last line is not whole, so the recording says that programs went on.
    pub cut_short: bool,
}

/// Turns a trace into a recording. `progress` gets how many bytes were read, of twice the trace's length.
///
/// # Errors
/// A line that makes no sense, and files that cannot be read or written. What was written of the recording then is of no
/// use.
pub fn import(
    form: &Form,
    from: &mut (impl Read + Seek),
    mut to: impl Write,
    progress: &mut dyn FnMut(u64),
) -> Result<Imported, ImportError> {
    let start = |problem| ImportError::Line { line: 1, problem };
    let mut first = machine(form, HashMap::new()).map_err(start)?;
    let mut before = 0;
    read(from, first.as_mut(), &mut |_| Ok(()), &mut |read| {
        before = read;
        progress(read);
    })?;
    let mut second = machine(form, first.into_found()).map_err(start)?;
    to.write_all(&header()).map_err(ImportError::Write)?;
    let mut operations = 0;
    let mut write = |event: &Event| {
        operations += 1;
        serde_json::to_writer(&mut to, event)?;
        to.write_all(b"\n")
    };
    let (lines, is_whole) = read(from, second.as_mut(), &mut write, &mut |read| {
        progress(before + read);
    })?;
    if is_whole {
        serde_json::to_writer(&mut to, &Footer { ended: operations })
            .map_err(|error| ImportError::Write(error.into()))?;
        to.write_all(b"\n").map_err(ImportError::Write)?;
    }
    to.flush().map_err(ImportError::Write)?;
    let left = std::mem::take(&mut second.left().counts).into_iter();
    Ok(Imported {
        lines,
        operations,
        left_out: left.map(|(why, counts)| (why.to_owned(), counts)).collect(),
        cut_short: !is_whole,
    })
}

/// Returns the number of lines, and whether the last one is whole.
fn read(
    from: &mut (impl Read + Seek),
    machine: &mut dyn Machine,
    write: &mut dyn FnMut(&Event) -> io::Result<()>,
    progress: &mut dyn FnMut(u64),
) -> Result<(u64, bool), ImportError> {
    from.seek(SeekFrom::Start(0)).map_err(ImportError::Read)?;
    let mut from = BufReader::with_capacity(READ_BYTES, from);
    let (mut line, mut bytes) = (0, 0);
    let mut text = Vec::new();
    let mut is_whole = true;
    loop {
        text.clear();
        let most = MAX_IMPORT_LINE_BYTES as u64 + 1;
        let mut limited = from.by_ref().take(most);
        let length = limited
            .read_until(b'\n', &mut text)
            .map_err(ImportError::Read)?;
        if length == 0 {
            break;
        }
        line += 1;
        bytes += length as u64;
        if text.last() == Some(&b'\n') {
            text.pop();
        } else if text.len() <= MAX_IMPORT_LINE_BYTES {
            // Cut by a kill or a full disk: even if it makes sense, it may be the beginning of something else.
            is_whole = false;
            break;
        }
        let done = match text.len() > MAX_IMPORT_LINE_BYTES {
            true => Err(Problem::LineTooLong(MAX_IMPORT_LINE_BYTES)),
            false => machine.line(&text),
        };
        done.map_err(|problem| ImportError::Line { line, problem })?;
        for event in machine.events().drain(..) {
            write(&event).map_err(ImportError::Write)?;
        }
        if line % TELL_LINES == 0 {
            progress(bytes);
        }
    }
    machine
        .end()
        .map_err(|problem| ImportError::Line { line, problem })?;
    progress(bytes);
    Ok((line, is_whole))
}
