//! Traces: operations of several clients, each with those that must be done before it.
//!
//! A file of JSON lines. The first is `{"format":2,"clients":N,"prepare":N}`; each further one is a
//! record, in an order in which they can be done:
//! `{"id":7,"client":2,"after":[3,5],"op":"create","path":"a/b"}`. The first `prepare` records make
//! what the others need, and are not counted with them. Format 1 had fewer operations, and one word
//! for renaming files and directories. Recordings of real programs have another form, see
//! [`crate::recording`].
//!
//! A replay runs clients side by side and keeps each client's order; of what other clients do only
//! that order is kept in which one operation needs another (as FPFS did with its traces): a name
//! after its directory, an operation on a path after what made it, a removal after all that used
//! what it removes.

use crate::op::{Kind, Op, split};
use crate::plan::Plan;
use crate::recording::{self, Schedule};
use crate::summary::{Summary, summarize};
use crate::target::{Target, TargetError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Instant;

/// Of what is written.
pub(crate) const FORMAT: u32 = 2;
const OLDEST_FORMAT: u32 = 1;

/// One operation of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its place in the trace.
    pub id: u32,
    /// Numbered from 0.
    pub client: u32,
    /// Records of other clients that must be done before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<u32>,
    /// Done by that client.
    #[serde(flatten)]
    pub op: Op,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    clients: u32,
    prepare: u32,
}

#[derive(Deserialize)]
struct FirstLine {
    format: u32,
    #[serde(default)]
    form: Option<String>,
}

/// A whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// As many as the records name, or more.
    pub clients: u32,
    /// Number of records that only prepare.
    pub prepare: u32,
    /// In the order of their numbers.
    pub records: Vec<Record>,
}

/// Why something is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read the trace: {0}")]
    Read(#[from] std::io::Error),
    /// The line cannot be understood.
    #[error("line {line} of the trace: {cause}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// The parser's reason.
        cause: serde_json::Error,
    },
    /// It has not even a first line.
    #[error("the trace is empty")]
    Empty,
    /// A newer release has written it.
    #[error("the trace has format {0}, this program reads formats up to {FORMAT}")]
    Format(u32),
    /// It has to be replayed as a recording.
    #[error("it is a recording of operations by inode, not by path")]
    Recording,
    /// Neither operations by path nor a recording.
    #[error("the trace has the form '{0}', which this program does not know")]
    Form(String),
    /// An end before the start; the line is counted from 1.
    #[error("line {0} of the recording ends before it begins")]
    Times(usize),
    /// Doing it would touch what does not belong to the run.
    #[error("record {0} has a path that leads out of where it is done")]
    Path(u32),
    /// Numbers have a gap, a client is over the count, or it waits for a later record.
    #[error("record {0} is out of place, of no client, or after itself")]
    Order(u32),
}

impl Trace {
    /// The operations of clients, in an order in which they were done.
    pub fn link(clients: u32, prepare: u32, done: Vec<(u32, Op)>) -> Trace {
        let mut linker = Linker::default();
        let records = done
            .into_iter()
            .map(|(client, op)| linker.link(client, op))
            .collect();
        Trace {
            clients,
            prepare,
            records,
        }
    }

    /// # Errors
    /// When it cannot be read or is no trace.
    pub fn read(from: impl BufRead) -> Result<Trace, TraceError> {
        match AnyTrace::read(from)? {
            AnyTrace::Trace(trace) => Ok(trace),
            AnyTrace::Recording(_) => Err(TraceError::Recording),
        }
    }

    fn read_records(first: &str, from: impl BufRead) -> Result<Trace, TraceError> {
        let wrong = |line: usize| move |cause| TraceError::Line { line, cause };
        let header: Header = serde_json::from_str(first).map_err(wrong(1))?;
        let mut records: Vec<Record> = Vec::new();
        let mut directories = HashSet::new();
        for (line, number) in from.lines().zip(2..) {
            let mut record: Record = serde_json::from_str(&line?).map_err(wrong(number))?;
            let fits = record.id as usize == records.len()
                && record.client < header.clients
                && record.after.iter().all(|&before| before < record.id);
            if !fits {
                return Err(TraceError::Order(record.id));
            }
            if !record.op.stays_below() {
                return Err(TraceError::Path(record.id));
            }
            if header.format == OLDEST_FORMAT {
                tell_directories(&mut record.op, &mut directories);
            }
            records.push(record);
        }
        Ok(Trace {
            clients: header.clients,
            prepare: header.prepare,
            records,
        })
    }

    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, to: impl Write) -> std::io::Result<()> {
        write_records(to, self.clients, self.prepare, &self.records)
    }

    /// A plan, one phase after the other, as if each operation took as long as any.
    pub fn of_plan(plan: &Plan) -> Trace {
        let clients = plan.phases.iter().map(|phase| phase.clients.len()).max();
        let mut done = Vec::new();
        for phase in &plan.phases {
            let longest = phase.clients.iter().map(Vec::len).max().unwrap_or(0);
            for at in 0..longest {
                for (client, ops) in (0..).zip(&phase.clients) {
                    done.extend(ops.get(at).map(|op| (client, op.clone())));
                }
            }
        }
        Trace::link(clients.unwrap_or(0) as u32, 0, done)
    }
}

/// The contents of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyTrace {
    /// Operations by path.
    Trace(Trace),
    /// Operations by inode, with the times at which they were done.
    Recording(Schedule),
}

impl AnyTrace {
    /// # Errors
    /// When it cannot be read, or is neither.
    pub fn read(mut from: impl BufRead) -> Result<AnyTrace, TraceError> {
        let mut first = String::new();
        if from.read_line(&mut first)? == 0 {
            return Err(TraceError::Empty);
        }
        let line: FirstLine =
            serde_json::from_str(&first).map_err(|cause| TraceError::Line { line: 1, cause })?;
        if !(OLDEST_FORMAT..=FORMAT).contains(&line.format) {
            return Err(TraceError::Format(line.format));
        }
        match line.form.as_deref() {
            None => Trace::read_records(&first, from).map(AnyTrace::Trace),
            Some(recording::FORM) => Schedule::read(from).map(AnyTrace::Recording),
            Some(other) => Err(TraceError::Form(other.to_owned())),
        }
    }
}

/// In traces of format 1 directories are renamed as files are.
fn tell_directories(op: &mut Op, directories: &mut HashSet<String>) {
    if op.op == Kind::Mkdir {
        directories.insert(op.path.clone());
    }
    if op.op == Kind::Rename && directories.remove(&op.path) {
        op.op = Kind::Renamedir;
        directories.extend(op.to.clone());
    }
}

/// Writes the first line and a line for each record; there may be more of them than memory holds.
///
/// # Errors
/// When it cannot be written.
pub fn write_records<R: std::borrow::Borrow<Record>>(
    mut to: impl Write,
    clients: u32,
    prepare: u32,
    records: impl IntoIterator<Item = R>,
) -> std::io::Result<()> {
    let header = Header {
        format: FORMAT,
        clients,
        prepare,
    };
    serde_json::to_writer(&mut to, &header)?;
    to.write_all(b"\n")?;
    for record in records {
        serde_json::to_writer(&mut to, record.borrow())?;
        to.write_all(b"\n")?;
    }
    to.flush()
}

/// Finds of one operation after the other which earlier ones of other clients it needs.
#[derive(Debug, Default)]
pub(crate) struct Linker {
    by_path: HashMap<String, Use>,
    next: u32,
}

/// The last users of a path.
#[derive(Debug, Default)]
struct Use {
    /// The operation that made, renamed or removed it, and its client.
    changed: Option<(u32, u32)>,
    /// The last operation of each client that needed it since: a client's earlier ones are done before.
    used: BTreeMap<u32, u32>,
}

impl Linker {
    /// The record of the next operation.
    pub(crate) fn link(&mut self, client: u32, op: Op) -> Record {
        let id = self.next;
        self.next += 1;
        let mut after = Vec::new();
        let changes = op.op.changes_names();
        for path in std::iter::once(&op.path).chain(&op.to) {
            self.visit((id, client), path, changes, &mut after);
            // Every directory on the way has to stay while it is used.
            let mut above = split(path).0;
            while !above.is_empty() {
                self.visit((id, client), above, false, &mut after);
                above = split(above).0;
            }
        }
        after.sort_unstable();
        after.dedup();
        Record {
            id,
            client,
            after,
            op,
        }
    }

    fn visit(&mut self, (id, client): (u32, u32), path: &str, changes: bool, after: &mut Vec<u32>) {
        if !self.by_path.contains_key(path) {
            self.by_path.insert(path.to_owned(), Use::default());
        }
        let Some(known) = self.by_path.get_mut(path) else {
            return;
        };
        let by_other = |&(_, other): &(u32, u32)| other != client;
        after.extend(known.changed.filter(by_other).map(|(before, _)| before));
        if changes {
            let used = std::mem::take(&mut known.used).into_iter();
            after.extend(
                used.filter(|(other, _)| *other != client)
                    .map(|(_, before)| before),
            );
            known.changed = Some((id, client));
        } else {
            known.used.insert(client, id);
        }
    }
}

/// Recorder of the operations of targets.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    done: Arc<Mutex<Vec<(u32, Op)>>>,
}

impl Recorder {
    /// A client's target; an operation that succeeds is noted when it is done, so after those that
    /// it needed.
    pub fn record(&self, client: u32, target: Box<dyn Target>) -> Box<dyn Target> {
        Box::new(Recorded {
            client,
            target,
            recorder: self.clone(),
        })
    }

    /// The trace of all that was noted.
    pub fn finish(&self, clients: u32) -> Trace {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        Trace::link(clients, 0, std::mem::take(&mut done))
    }
}

struct Recorded {
    client: u32,
    target: Box<dyn Target>,
    recorder: Recorder,
}

impl Target for Recorded {
    fn perform(&mut self, op: &Op) -> Result<(), TargetError> {
        self.target.perform(op)?;
        let mut done = self
            .recorder
            .done
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        done.push((self.client, op.clone()));
        Ok(())
    }
}

/// Records that are done, and clients that wait for them. A client waits for one record at a time, and sleeps until that one
/// is done: of hundreds that wait none is woken for another one's sake.
struct Progress {
    done: Vec<AtomicBool>,
    /// A client gave up: what waits for its records waits in vain.
    failed: AtomicBool,
    waiting: Mutex<HashMap<u32, Vec<Thread>>>,
}

/// Does a trace; one target for each client.
///
/// # Errors
/// The first operation's that failed.
///
/// # Panics
/// When there are not as many targets as the trace has clients.
pub fn replay(trace: &Trace, targets: &mut [Box<dyn Target>]) -> Result<Summary, TargetError> {
    assert_eq!(
        targets.len(),
        trace.clients as usize,
        "clients without a target"
    );
    let progress = Progress {
        done: trace
            .records
            .iter()
            .map(|_| AtomicBool::new(false))
            .collect(),
        failed: AtomicBool::new(false),
        waiting: Mutex::default(),
    };
    let (prepare, rest) = trace
        .records
        .split_at((trace.prepare as usize).min(trace.records.len()));
    stage(prepare, targets, &progress)?;
    let begun = Instant::now();
    stage(rest, targets, &progress)?;
    Ok(Summary {
        seconds: begun.elapsed().as_secs_f64(),
        ..summarize(trace)
    })
}

fn stage(
    records: &[Record],
    targets: &mut [Box<dyn Target>],
    progress: &Progress,
) -> Result<(), TargetError> {
    let mut of_clients: Vec<Vec<&Record>> = vec![Vec::new(); targets.len()];
    for record in records {
        of_clients[record.client as usize].push(record);
    }
    thread::scope(|scope| {
        let clients: Vec<_> = of_clients
            .into_iter()
            .zip(targets.iter_mut())
            .map(|(own, target)| {
                scope.spawn(move || {
                    let _leaving = Leaving(progress);
                    for record in own {
                        if !progress.wait_for(&record.after) {
                            return Ok(());
                        }
                        let done = target.perform(&record.op);
                        progress.note(record.id, done.is_err());
                        done?;
                    }
                    Ok(())
                })
            })
            .collect();
        let mut first = Ok(());
        for client in clients {
            let ended = client
                .join()
                .map_err(|_| TargetError::Panicked)
                .and_then(|done| done);
            first = first.and(ended);
        }
        first
    })
}

impl Progress {
    /// False when a client failed.
    fn wait_for(&self, after: &[u32]) -> bool {
        for &before in after {
            let is_done = || self.done[before as usize].load(Ordering::Acquire);
            let has_failed = || self.failed.load(Ordering::Acquire);
            if is_done() {
                continue;
            }
            {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                // It may have been done meanwhile, and nobody would wake this thread: whoever did it looks for those who wait
                // after it is noted, with the lock.
                if is_done() {
                    continue;
                }
                waiting.entry(before).or_default().push(thread::current());
            }
            while !is_done() && !has_failed() {
                thread::park();
            }
            if has_failed() {
                return false;
            }
        }
        !self.failed.load(Ordering::Acquire)
    }

    fn note(&self, id: u32, failed: bool) {
        if failed {
            return self.give_up();
        }
        self.done[id as usize].store(true, Ordering::Release);
        let woken = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.remove(&id)
        };
        woken
            .into_iter()
            .flatten()
            .for_each(|thread| thread.unpark());
    }

    fn give_up(&self) {
        self.failed.store(true, Ordering::Release);
        let waiting = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *waiting)
        };
        waiting
            .into_values()
            .flatten()
            .for_each(|thread| thread.unpark());
    }
}

/// A client that panics leaves records undone, which others would wait for.
struct Leaving<'p>(&'p Progress);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plans::{Size, Workload};
    use crate::target::Kernel;
    use std::time::Duration;

    fn targets(root: &std::path::Path, clients: u32) -> Vec<Box<dyn Target>> {
        let of = |_| Box::new(Kernel::new(root)) as Box<dyn Target>;
        (0..clients).map(of).collect()
    }

    #[test]
    fn dependencies_are_those_of_names() {
        let done = vec![
            (0, Op::new(Kind::Mkdir, "a")),
            (1, Op::new(Kind::Create, "a/x")),
            (2, Op::new(Kind::Stat, "a/x")),
            (0, Op::new(Kind::Unlink, "a/x")),
            (3, Op::new(Kind::Rmdir, "a")),
        ];
        let trace = Trace::link(4, 0, done);
        let after: Vec<&[u32]> = trace
            .records
            .iter()
            .map(|record| &record.after[..])
            .collect();
        assert_eq!(after, [&[][..], &[0], &[0, 1], &[1, 2], &[0, 1, 2, 3]]);
    }

    #[test]
    fn a_trace_is_written_and_read() {
        let trace = crate::synthetic(1e-5, 3, 1);
        let mut bytes = Vec::new();
        trace.write(&mut bytes).unwrap();
        assert_eq!(Trace::read(&bytes[..]).unwrap(), trace);
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.starts_with("{\"format\":2,\"clients\":3,\"prepare\":"),
            "{text}"
        );
        let second = text.lines().nth(1).unwrap();
        assert_eq!(second, r#"{"id":0,"client":0,"op":"mkdir","path":"etc"}"#);
        for (wrong, said) in [
            ("", "empty"),
            ("{}", "line 1"),
            ("{\"format\":3,\"clients\":1,\"prepare\":0}", "format 3"),
            ("{\"format\":2,\"form\":\"recording\"}", "by inode"),
            ("{\"format\":2,\"form\":\"other\"}", "form 'other'"),
            (
                "{\"format\":1,\"clients\":1,\"prepare\":0}\n{\"id\":1,\"client\":0,\"op\":\"stat\",\"path\":\"a\"}",
                "out of place",
            ),
            (
                "{\"format\":1,\"clients\":1,\"prepare\":0}\n{\"id\":0,\"client\":0,\"op\":\"stat\",\"path\":\"../a\"}",
                "leads out",
            ),
        ] {
            let error = Trace::read(wrong.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn what_was_recorded_is_replayed_and_leaves_nothing() {
        let plan = Workload::Macro1.plan(&Size {
            clients: 4,
            files: 300,
            seed: 1,
        });
        let recorder = Recorder::default();
        let first = tempfile::tempdir().unwrap();
        let watched = targets(first.path(), 4);
        let mut watched: Vec<Box<dyn Target>> = (0..)
            .zip(watched)
            .map(|(client, target)| recorder.record(client, target))
            .collect();
        let results = crate::run(&plan, &mut watched).unwrap();
        assert!(results.iter().all(|phase| phase.seconds > 0.0));
        let trace = recorder.finish(4);
        assert_eq!(trace.records.len(), plan.operations());
        let second = tempfile::tempdir().unwrap();
        replay(&trace, &mut targets(second.path(), 4)).unwrap();
        assert_eq!(std::fs::read_dir(second.path()).unwrap().count(), 0);
        let third = tempfile::tempdir().unwrap();
        replay(&Trace::of_plan(&plan), &mut targets(third.path(), 4)).unwrap();
        assert_eq!(std::fs::read_dir(third.path()).unwrap().count(), 0);
    }

    #[test]
    fn traces_of_format_1_are_read_and_tell_directories_by_what_made_them() {
        let lines = [
            r#"{"format":1,"clients":1,"prepare":0}"#,
            r#"{"id":0,"client":0,"op":"mkdir","path":"a"}"#,
            r#"{"id":1,"client":0,"op":"create","path":"a/x","bytes":7}"#,
            r#"{"id":2,"client":0,"op":"rename","path":"a/x","to":"a/y"}"#,
            r#"{"id":3,"client":0,"op":"rename","path":"a","to":"b"}"#,
            r#"{"id":4,"client":0,"op":"rename","path":"b","to":"c"}"#,
        ];
        let trace = Trace::read(lines.join("\n").as_bytes()).unwrap();
        let kinds: Vec<Kind> = trace.records.iter().map(|record| record.op.op).collect();
        assert_eq!(kinds[2..], [Kind::Rename, Kind::Renamedir, Kind::Renamedir]);
        assert_eq!(trace.records[1].op.bytes, 7);
    }

    #[test]
    fn a_failure_ends_the_replay() {
        let directory = tempfile::tempdir().unwrap();
        let done = vec![
            (0, Op::new(Kind::Stat, "missing")),
            (0, Op::new(Kind::Create, "a")),
            (1, Op::new(Kind::Stat, "a")),
        ];
        let trace = Trace::link(2, 0, done);
        let error = replay(&trace, &mut targets(directory.path(), 2)).unwrap_err();
        assert!(error.to_string().contains("stat of missing"), "{error}");
    }

    /// Work that a thread does fast, and of whose clients it is measured how much processor time they took before their first
    /// operation.
    struct Measured(Arc<Mutex<Vec<Duration>>>);

    impl Target for Measured {
        fn perform(&mut self, op: &Op) -> Result<(), TargetError> {
            if op.op == Kind::Stat {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                let spent = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
                self.0.lock().unwrap().push(spent);
            }
            Ok(())
        }
    }

    #[test]
    fn clients_that_wait_sleep() {
        const CLIENTS: u32 = 256;
        const OPERATIONS: u32 = 50_000;
        let mut done: Vec<(u32, Op)> = (0..OPERATIONS)
            .map(|number| (0, Op::new(Kind::Create, format!("f{number}"))))
            .collect();
        let last = format!("f{}", OPERATIONS - 1);
        done.extend((1..CLIENTS).map(|client| (client, Op::new(Kind::Stat, &last))));
        let trace = Trace::link(CLIENTS, 0, done);
        let spent: Arc<Mutex<Vec<Duration>>> = Arc::default();
        let of = |_| Box::new(Measured(Arc::clone(&spent))) as Box<dyn Target>;
        replay(&trace, &mut (0..CLIENTS).map(of).collect::<Vec<_>>()).unwrap();
        let spent = spent.lock().unwrap();
        assert_eq!(spent.len(), CLIENTS as usize - 1);
        // Woken for each of the operations they would take seconds.
        let all: Duration = spent.iter().sum();
        assert!(all < Duration::from_millis(500), "{all:?}");
    }

    #[test]
    fn only_the_last_of_a_client_that_used_something_is_waited_for() {
        let mut done = vec![(0, Op::new(Kind::Create, "a"))];
        done.extend((0..6).map(|number| (1 + number % 2, Op::new(Kind::Stat, "a"))));
        done.push((0, Op::new(Kind::Unlink, "a")));
        let trace = Trace::link(3, 0, done);
        assert_eq!(trace.records[7].after, [5, 6]);
    }

    #[test]
    fn a_client_that_panics_ends_the_replay() {
        struct Panics;
        impl Target for Panics {
            fn perform(&mut self, op: &Op) -> Result<(), TargetError> {
                assert!(op.op != Kind::Create, "it panics");
                Ok(())
            }
        }
        let done = vec![
            (0, Op::new(Kind::Create, "a")),
            (1, Op::new(Kind::Stat, "a")),
        ];
        let mut targets = vec![Box::new(Panics) as Box<dyn Target>, Box::new(Panics)];
        let error = replay(&Trace::link(2, 0, done), &mut targets).unwrap_err();
        assert!(matches!(error, TargetError::Panicked), "{error}");
    }
}
