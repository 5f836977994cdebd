//! Output of `strace`, understood call by call.
//!
//! | file | job |
//! | --- | --- |
//! | `line` | a line: process, time, and what it is |
//! | `value` | a call's arguments and result |
//! | `process` | descriptors, working directories and masks |
//! | `paths` | what a path leads to |
//! | `calls`, `changes`, `open`, `data` | what each call did: by paths, to names, to new descriptors, to what descriptors are of |
//!
//! Lines come in the order in which calls ended, which is that of a recording.

mod calls;
mod changes;
mod data;
mod line;
mod open;
mod paths;
mod process;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
mod value;

use super::names::{Before, Names};
use super::{Left, Machine, Problem};
use crate::limits::{MAX_IMPORT_LINE_BYTES, MAX_IMPORTED_HELD_BYTES, MAX_IMPORTED_PROCESSES};
use crate::recording::Event;
use line::{Line, What};
use process::{Begun, Place, Process, Spot};
use std::collections::HashMap;
use value::{Call, Returned};

/// What programs that were traced worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StraceOptions {
    /// The directory that becomes the root of the trace: an absolute path, as the kernel has it. What is elsewhere is left
    /// out.
    pub below: Vec<u8>,
    /// The working directory of the first process; `below` unless given.
    pub directory: Option<Vec<u8>>,
    /// The umask of the first process.
    pub umask: u16,
}

/// What strace's lines mean, one after the other.
pub(super) struct Strace {
    below: Vec<u8>,
    start: Place,
    names: Names,
    processes: HashMap<u32, Process>,
    /// Lines of processes that may be anybody's children yet.
    held: HashMap<u32, Vec<Vec<u8>>>,
    held_bytes: usize,
    first: Option<u64>,
    events: Vec<Event>,
    left: Left,
}

/// The call that is looked at: who does it, and when.
#[derive(Clone, Copy)]
struct During {
    process: u32,
    start: u64,
    end: u64,
}

impl During {
    /// Nobody's call, before all others.
    const BEFORE: During = During {
        process: 0,
        start: 0,
        end: 0,
    };
}

impl Strace {
    pub(super) fn new(
        options: &StraceOptions,
        known: HashMap<u64, Before>,
    ) -> Result<Strace, Problem> {
        let below = paths::normal(&options.below).ok_or(Problem::Below)?;
        let mut strace = Strace {
            start: Place {
                directory: Spot::Outside(b"/".to_vec()),
                umask: options.umask,
            },
            below,
            names: Names::new(known),
            processes: HashMap::new(),
            held: HashMap::new(),
            held_bytes: 0,
            first: None,
            events: Vec::new(),
            left: Left::default(),
        };
        let directory = options.directory.as_ref().unwrap_or(&options.below);
        let directory = paths::normal(directory).ok_or(Problem::Directory)?;
        let directory = strace.real(&directory, During::BEFORE)?;
        if let Spot::Inside(dir) = directory {
            strace.names.learn_kind(dir, 'd');
        }
        strace.start.directory = directory;
        Ok(strace)
    }

    fn take(&mut self, line: &Line<'_>, text: &[u8]) -> Result<(), Problem> {
        let time = line
            .time
            .saturating_sub(*self.first.get_or_insert(line.time));
        if !self.processes.contains_key(&line.process) {
            if !self.adopt(line.process)? {
                return self.hold(line.process, text);
            }
            // Whose it is may have become clear as another one's parent did.
            self.take_held(line.process)?;
        }
        match line.what {
            What::Nothing => {}
            What::Ended => {
                self.processes.remove(&line.process);
            }
            What::Begun(text) => {
                let begun = Begun {
                    text: text.to_vec(),
                    time,
                    has_child: false,
                };
                if let Some(process) = self.processes.get_mut(&line.process) {
                    process.begun = Some(begun);
                }
            }
            What::Resumed(name, rest) => {
                let process = self.processes.get_mut(&line.process);
                let begun = process.and_then(|process| process.begun.take());
                let begun = begun
                    .filter(|begun| begun.name() == name)
                    .ok_or_else(|| Problem::NotBegun(String::from_utf8_lossy(name).into_owned()))?;
                let text = [&begun.text, rest].concat();
                if text.len() > MAX_IMPORT_LINE_BYTES {
                    return Err(Problem::LineTooLong(MAX_IMPORT_LINE_BYTES));
                }
                let call = value::parse(&text)?;
                let end = call
                    .took
                    .map_or(time, |took| begun.time.saturating_add(took));
                self.called(&call, line.process, (begun.time, end), begun.has_child)?;
            }
            What::Call(text) => {
                let call = value::parse(text)?;
                let end = time.saturating_add(call.took.unwrap_or(0));
                self.called(&call, line.process, (time, end), false)?;
            }
        }
        Ok(())
    }

    fn called(
        &mut self,
        call: &Call<'_>,
        process: u32,
        (start, end): (u64, u64),
        has_child: bool,
    ) -> Result<(), Problem> {
        let during = During {
            process,
            start,
            // It ends after what tells of what was there before it, see `emit_before`.
            end: end.max(start.saturating_add(1)),
        };
        if call.returned == Returned::Nothing {
            if !matches!(call.name, "exit" | "exit_group") {
                self.left.count("interrupted", call.name)?;
            }
            return Ok(());
        }
        if matches!(call.name, "clone" | "clone3" | "fork" | "vfork") {
            return self.made_a_process(call, process, has_child);
        }
        self.perform(call, during)
    }

    /// A process has its first line. Returns whether it is known whose child it is.
    fn adopt(&mut self, process: u32) -> Result<bool, Problem> {
        if self.processes.len() >= MAX_IMPORTED_PROCESSES {
            return Err(Problem::Processes);
        }
        let mut making = self.processes.iter().filter(|(_, other)| {
            let begun = other.begun.as_ref();
            begun.is_some_and(|begun| begun.makes_a_process() && !begun.has_child)
        });
        let child = match (making.next(), making.next()) {
            // strace was told to follow it.
            (None, _) => Process::first(self.start.clone()),
            (Some((&parent, _)), None) => {
                let parent = self.processes.get_mut(&parent);
                let Some((begun, parent)) = parent.and_then(|parent| {
                    let begun = parent.begun.as_mut()?;
                    begun.has_child = true;
                    Some((begun.text.clone(), parent))
                }) else {
                    return Ok(false);
                };
                parent.child(&begun)
            }
            (Some(_), Some(_)) => return Ok(false),
        };
        self.processes.insert(process, child);
        Ok(true)
    }

    fn made_a_process(
        &mut self,
        call: &Call<'_>,
        parent: u32,
        has_child: bool,
    ) -> Result<(), Problem> {
        let Returned::Value(number, _) = call.returned else {
            return Ok(());
        };
        let child = u32::try_from(number).map_err(|_| Problem::NoResult)?;
        if has_child && self.processes.contains_key(&child) {
            return Ok(());
        }
        let flags = call.arguments.concat();
        let Some(process) = self
            .processes
            .get(&parent)
            .map(|parent| parent.child(&flags))
        else {
            return Ok(());
        };
        if self.processes.len() >= MAX_IMPORTED_PROCESSES {
            return Err(Problem::Processes);
        }
        // A process that had the number before has ended without a line.
        self.processes.insert(child, process);
        self.take_held(child)
    }

    fn hold(&mut self, process: u32, text: &[u8]) -> Result<(), Problem> {
        self.held_bytes += text.len();
        if self.held_bytes > MAX_IMPORTED_HELD_BYTES {
            return Err(Problem::Held);
        }
        let lines = self.held.entry(process).or_default();
        lines.push(text.to_vec());
        Ok(())
    }

    /// Takes the lines of a process that were held until it was known whose it is.
    fn take_held(&mut self, process: u32) -> Result<(), Problem> {
        for text in self.held.remove(&process).unwrap_or_default() {
            self.held_bytes -= text.len();
            if let Some(line) = line::parse(&text)? {
                self.take(&line, &text)?;
            }
        }
        Ok(())
    }

    /// Tells what was there before a call; at its beginning, so that it is before the call's own operations in the order of
    /// ends.
    fn emit_before(&mut self, event: Event, during: During) {
        let end = during.start;
        self.emit(event, During { end, ..during });
    }

    fn emit(&mut self, event: Event, during: During) {
        self.events.push(Event {
            start: during.start,
            end: during.end,
            client: u64::from(during.process),
            ..event
        });
    }
}

impl Machine for Strace {
    fn line(&mut self, text: &[u8]) -> Result<(), Problem> {
        match line::parse(text)? {
            Some(line) => self.take(&line, text),
            None => Ok(()),
        }
    }

    fn end(&mut self) -> Result<(), Problem> {
        // The call that made them has no line.
        for _ in self.held.drain().flat_map(|(_, lines)| lines) {
            self.left.count("process-unknown", "line")?;
        }
        Ok(())
    }

    fn events(&mut self) -> &mut Vec<Event> {
        &mut self.events
    }

    fn left(&mut self) -> &mut Left {
        &mut self.left
    }

    fn into_found(self: Box<Self>) -> HashMap<u64, Before> {
        self.names.into_found()
    }
}
