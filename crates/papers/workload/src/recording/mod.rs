//! Recordings of real programs, replayed by any number of clients.
//!
//! A recording is a file of JSON lines. The first is `{"format":2,"form":"recording"}`. Each
//! further one is an operation that the client library was asked for, by the numbers of inodes, in
//! the order in which they ended:
//!
//! ```json
//! {"start":81200,"end":95100,"client":4711,"op":"lookup","dir":1,"name":"a","is":281474976710657,"kind":"d"}
//! {"start":99000,"end":99900,"client":4711,"op":"lookup","dir":281474976710657,"name":"b","error":2}
//! ```
//!
//! `start` and `end` are nanoseconds since the recording began, `client` is the thread that asked,
//! as the kernel numbers it. The last line says how many there are: a recording without it was cut
//! short, and may end within a line.
//!
//! | file | job |
//! | --- | --- |
//! | `event` | a line |
//! | `recorder` | the file is written |
//! | `resolve` | numbers of inodes become paths |
//! | `schedule` | what has to be done before what |
//! | `replay` | the clients |
//!
//! **What depends on what.** Of two operations of which one ended before the other one began, the
//! first is done first if one of them changes what the other one looks at: where a name leads, what
//! a directory lists, what an inode is. Those that overlapped in time on one inode or listing are
//! done in any order, as they were; on one name they are done in an order that their results allow.
//! All others are done side by side, whichever program asked for them.

mod event;
mod recorder;
mod replay;
mod resolve;
mod schedule;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

pub use recorder::{Recorded, Recording};
pub use replay::{Replayed, replay_recording};
pub use schedule::{Schedule, Step};

use crate::trace::{FORMAT, Trace, TraceError};
pub(crate) use event::{Event, Footer};
use std::io::BufRead;

/// Format and form of a recording, as its first line has them.
pub const FORM: &str = "recording";

/// The first line, with its end.
pub(crate) fn header() -> Vec<u8> {
    format!("{{\"format\":{FORMAT},\"form\":\"{FORM}\"}}\n").into_bytes()
}

impl Schedule {
    /// The lines after the first of a recording, which is `line`.
    ///
    /// # Errors
    /// When it cannot be read, or is no recording.
    pub(crate) fn read(from: impl BufRead) -> Result<Schedule, TraceError> {
        let mut events: Vec<Event> = Vec::new();
        let mut is_whole = false;
        let mut lines = from.split(b'\n').zip(2..).peekable();
        while let Some((line, number)) = lines.next() {
            let line = line?;
            if line.is_empty() {
                continue;
            }
            match serde_json::from_slice::<Event>(&line) {
                Ok(event) => events.push(event),
                Err(cause) => match serde_json::from_slice::<Footer>(&line) {
                    Ok(footer) => is_whole = footer.ended == events.len() as u64,
                    // A line cut by a full disk.
                    Err(_) if lines.peek().is_none() => is_whole = false,
                    Err(_) => {
                        return Err(TraceError::Line {
                            line: number,
                            cause,
                        });
                    }
                },
            }
        }
        for (number, event) in (2..).zip(&events) {
            if event.start > event.end {
                return Err(TraceError::Times(number));
            }
        }
        let mut schedule = resolve::resolve(events);
        schedule.cut_short = !is_whole;
        Ok(schedule)
    }

    /// A trace, to be done by any number of clients: each operation as if it ended before the next
    /// one began.
    pub fn of_trace(trace: &Trace) -> Schedule {
        let (prepare, rest) = trace
            .records
            .split_at((trace.prepare as usize).min(trace.records.len()));
        let steps = (0_u64..).zip(rest).map(|(at, record)| Step {
            client: record.client,
            op: record.op.clone(),
            error: None,
            start: 2 * at,
            end: 2 * at + 1,
            inode: None,
        });
        let prepare = prepare.iter().map(|record| record.op.clone()).collect();
        Schedule::new(steps.collect(), prepare)
    }
}
