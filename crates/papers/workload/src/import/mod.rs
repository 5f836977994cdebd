//! Traces of others, turned into recordings.
//!
//! | file | job |
//! | --- | --- |
//! | `strace` | what strace writes of any program's system calls |
//! | `nfsdump` | what nfsdump wrote of the traffic of NFS servers, as SNIA's repository has it |
//! | `names` | inodes and names, as far as a trace tells of them |
//! | `drive` | files: lines in, a recording out |
//!
//! What is read is gone through twice, see `names`, with no more in memory than names, processes and descriptors that there
//! are at a time. What understands lines knows no files.

mod drive;
mod names;
mod nfsdump;
mod strace;

pub use drive::{Imported, import};
pub use strace::StraceOptions;

use crate::limits::MAX_IMPORTED_CALL_NAMES;
use crate::recording::Event;
use names::Before;
use std::collections::{BTreeMap, HashMap};

/// The form of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text of `strace -f -ttt -T`, with or without `-y`.
    Strace(StraceOptions),
    /// Text of nfsdump, of versions 2 and 3 of NFS.
    Nfsdump,
}

/// Why a line makes no sense, or a trace is more than can be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Other forms of time stamps do not order processes.
    #[error("no time stamp in seconds since 1970: strace is to be run with -ttt")]
    NoTime,
    /// It is something else.
    #[error("neither a call nor a signal nor the end of a process, as strace writes them")]
    NoCall,
    /// It is cut short.
    #[error("a call whose result cannot be understood")]
    NoResult,
    /// It is missing, or of another kind.
    #[error("a call with arguments that it does not have")]
    Argument,
    /// It is no C.
    #[error("a string with a backslash that C does not know")]
    Escape,
    /// The name of the call.
    #[error("the rest of a call of {0} that did not begin")]
    NotBegun(String),
    /// Bytes that a line may have.
    #[error("more than {0} bytes in a line")]
    LineTooLong(usize),
    /// Of a path to import below.
    #[error("the directory to import below is to be an absolute path")]
    Below,
    /// Of a working directory.
    #[error("the working directory is to be an absolute path")]
    Directory,
    /// Relative paths would mean anything from then on.
    #[error(
        "the working directory is changed to where a link leads that the trace does not tell: trace with -y"
    )]
    DirectoryUnknown,
    /// There are more than `MAX_IMPORTED_PROCESSES`.
    #[error("too many processes at a time")]
    Processes,
    /// A process has more than `MAX_IMPORTED_DESCRIPTORS`.
    #[error("too many descriptors of one process")]
    Descriptors,
    /// Names that there may be at a time.
    #[error("more than {0} names at a time")]
    Names(usize),
    /// There are more than `MAX_IMPORTED_HELD_BYTES` of lines of processes whose parents are not known.
    #[error("too many lines of processes of which it is not known who made them")]
    Held,
    /// There are more than `MAX_IMPORTED_CALL_NAMES`.
    #[error("too many different names of calls")]
    CallNames,
    /// Another form, perhaps a compressed or binary one.
    #[error(
        "this is no text of nfsdump: of the first lines too many are something else; compressed and DataSeries files are to be \
         made text first"
    )]
    NoNfsdump,
}

/// Why an import ended.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A line of the trace.
    #[error("line {line}: {problem}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// Its reason.
        problem: Problem,
    },
    /// The trace cannot be read.
    #[error("cannot read the trace: {0}")]
    Read(std::io::Error),
    /// The recording cannot be written.
    #[error("cannot write the recording: {0}")]
    Write(std::io::Error),
}

/// Counts of what is not in the recording, by why and by the call's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    counts: BTreeMap<&'static str, BTreeMap<String, u64>>,
    names: usize,
}

impl Left {
    /// # Errors
    /// When there are too many names.
    fn count(&mut self, why: &'static str, name: &str) -> Result<(), Problem> {
        let counts = self.counts.entry(why).or_default();
        if let Some(count) = counts.get_mut(name) {
            *count += 1;
            return Ok(());
        }
        self.names += 1;
        if self.names > MAX_IMPORTED_CALL_NAMES {
            return Err(Problem::CallNames);
        }
        counts.insert(name.to_owned(), 1);
        Ok(())
    }
}

/// Something that understands lines.
trait Machine {
    /// # Errors
    /// When it makes no sense.
    fn line(&mut self, text: &[u8]) -> Result<(), Problem>;

    /// # Errors
    /// When what was left open makes no sense.
    fn end(&mut self) -> Result<(), Problem>;

    /// Operations of the lines so far, to be taken.
    fn events(&mut self) -> &mut Vec<Event>;

    fn left(&mut self) -> &mut Left;

    /// What was found out of what was there before.
    fn into_found(self: Box<Self>) -> HashMap<u64, Before>;
}

fn machine(form: &Form, known: HashMap<u64, Before>) -> Result<Box<dyn Machine>, Problem> {
    Ok(match form {
        Form::Strace(options) => Box::new(strace::Strace::new(options, known)?),
        Form::Nfsdump => Box::new(nfsdump::Nfsdump::new(known)),
    })
}
