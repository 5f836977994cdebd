//! Fault points: steps of a server's work at which a test has it die.
//!
//! A test can kill it at each of them in turn.
//!
//! They are in the server as it is delivered, not in a build of their own, and cost one comparison each. They
//! work only in a server that was started with [`FOLDER_VARIABLE`] set, the path of a folder that is there. In
//! it the server with number `N`
//!
//! - appends to `server-N.seen` each point that it passes for the first time since its start, a line each;
//! - appends to `server-N.died` a point at which it ends;
//! - takes an order from `server-N.armed`, which it removes, and ends itself with SIGKILL at the first point that the
//!   order does not spare. The order's first line is a part of the names of the points that it is about (all of them
//!   have the empty one), and each further line a point that it spares. An order without a line takes the last one back.
//!
//! The order says what to spare, not where to die: many points come by chance and seldom, and so a server dies at a
//! point when it comes there for the first time.
//!
//! A point is a [`Stage`] and what is at that stage, in words: `Appended request Mkdir`,
//! `Sending Commit Do Insert, Decide`.

use pandofs_api::{CommitMessage, DataRequest, PeerMessage};
use pandofs_lane::{FaultError, FaultPoints, Stage, Subject};
use pandofs_shard::{Record, ShardError};
use pandofs_types::ServerId;
use pandofs_types::limits::SESSION_TIMEOUT;
use rustix::process::{Signal, getpid, kill_process};
use std::collections::BTreeSet;
use std::env;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Environment variable with the folder of the points; without it there are none.
pub const FOLDER_VARIABLE: &str = "PANDOFS_FAULT_POINTS";

/// In place of `SESSION_TIMEOUT`, where servers are to die and those that have something open are known to come back at once: a
/// split would wait for a minute after each of hundreds of deaths.
const GRACE: Duration = Duration::from_secs(5);

/// How long the server's clients have to tell what they have open.
pub(crate) fn grace() -> Duration {
    match env::var_os(FOLDER_VARIABLE) {
        Some(_) => GRACE,
        None => SESSION_TIMEOUT,
    }
}

/// The points of one server.
#[derive(Debug)]
pub(crate) struct Faults {
    armed_path: PathBuf,
    died_path: PathBuf,
    seen_file: File,
    seen: BTreeSet<String>,
    order: Option<Order>,
}

/// Where to die.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    part: String,
    spared: BTreeSet<String>,
}

impl Order {
    /// `None` for one that takes back what was ordered before.
    fn read(text: &str) -> Option<Order> {
        let mut lines = text.lines().map(str::to_string);
        Some(Order {
            part: lines.next()?,
            spared: lines.collect(),
        })
    }

    fn is_about(&self, point: &str) -> bool {
        point.contains(&self.part) && !self.spared.contains(point)
    }
}

impl Faults {
    /// Those that the environment asks for.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub(crate) fn from_environment(server: ServerId) -> io::Result<Option<Faults>> {
        match env::var_os(FOLDER_VARIABLE) {
            Some(folder) => Faults::open(Path::new(&folder), server).map(Some),
            None => Ok(None),
        }
    }

    fn open(folder: &Path, server: ServerId) -> io::Result<Faults> {
        let seen_path = folder.join(format!("server-{server}.seen"));
        Ok(Faults {
            armed_path: folder.join(format!("server-{server}.armed")),
            died_path: folder.join(format!("server-{server}.died")),
            seen_file: open_to_append(&seen_path)?,
            seen: BTreeSet::new(),
            order: None,
        })
    }

    /// Takes a new order, if there is one.
    ///
    /// # Errors
    /// The system's.
    fn look(&mut self) -> io::Result<()> {
        match fs::read_to_string(&self.armed_path) {
            Ok(text) => {
                fs::remove_file(&self.armed_path)?;
                self.order = Order::read(&text);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Notes that the server passes a point, and ends it if it was to end there.
    ///
    /// # Errors
    /// When the note cannot be written.
    fn pass_point(&mut self, stage: Stage, what: &str) -> io::Result<()> {
        let point = format!("{stage:?} {what}");
        if self
            .order
            .as_ref()
            .is_some_and(|order| order.is_about(&point))
        {
            let mut died_file = open_to_append(&self.died_path)?;
            died_file.write_all(format!("{point}\n").as_bytes())?;
            kill_process(getpid(), Signal::KILL)?;
            // The signal is on its way to this very thread.
            loop {
                std::thread::park();
            }
        }
        if !self.seen.contains(&point) {
            self.seen_file.write_all(format!("{point}\n").as_bytes())?;
            self.seen.insert(point);
        }
        Ok(())
    }
}

impl FaultPoints for Faults {
    fn begin_batch(&mut self) -> Result<(), FaultError> {
        Ok(self.look()?)
    }

    fn pass(&mut self, stage: Stage, subject: Subject<'_>) -> Result<(), FaultError> {
        let what = match subject {
            Subject::Record(payload) => name_of_record(payload)?,
            Subject::Message(message) => name_of_message(message),
            Subject::Input(input) => variant(input),
            Subject::Data(request) => name_of_data_request(request),
            Subject::Log => "the log".to_owned(),
            Subject::Store => "the store".to_owned(),
        };
        Ok(self.pass_point(stage, &what)?)
    }
}

fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// # Errors
/// For bytes that are no record.
fn name_of_record(payload: &[u8]) -> Result<String, ShardError> {
    Ok(match Record::decode(payload)? {
        Record::Request { request, .. } => format!("request {}", variant(&request.request)),
        Record::Commit { message, .. } => format!("commit {}", name_of_commit(&message)),
        other => variant(&other),
    })
}

fn name_of_message(message: &PeerMessage) -> String {
    match message {
        PeerMessage::Commit { message, .. } => format!("Commit {}", name_of_commit(message)),
        PeerMessage::Data { request, .. } => name_of_data_request(request),
        other => variant(other),
    }
}

fn name_of_data_request(request: &DataRequest) -> String {
    format!("Data {}", variant(request))
}

fn name_of_commit(message: &CommitMessage) -> String {
    match message {
        CommitMessage::Do { step, ask, .. } => format!("Do {}, {ask:?}", variant(step)),
        CommitMessage::Outcome { commit, .. } => format!("Outcome, commit {commit}"),
        other => variant(other),
    }
}

/// The name of an enumeration's variant, with which its derived `Debug` begins.
fn variant(value: &impl Debug) -> String {
    let mut text = format!("{value:?}");
    let end = text.find(|c: char| !c.is_ascii_alphanumeric());
    text.truncate(end.unwrap_or(text.len()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_api::step;
    use pandofs_api::{Ask, Horizon, Step, StepNumber};
    use pandofs_types::{Ino, ShardId};

    #[test]
    fn points_are_noted_once_and_orders_are_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut faults = Faults::open(folder.path(), ServerId(3)).unwrap();
        let seen = || fs::read_to_string(folder.path().join("server-3.seen")).unwrap();
        faults.look().unwrap();
        assert_eq!(faults.order, None);
        for what in ["a", "b", "a"] {
            faults.pass_point(Stage::Appended, what).unwrap();
        }
        assert_eq!(seen(), "Appended a\nAppended b\n");

        let order = folder.path().join("server-3.armed");
        fs::write(&order, "Applied\nApplied c\n").unwrap();
        faults.look().unwrap();
        assert!(!order.exists());
        // Spared points are passed, and those that the order is not about.
        faults.pass_point(Stage::Applied, "c").unwrap();
        faults.pass_point(Stage::Appended, "c").unwrap();
        assert_eq!(seen(), "Appended a\nAppended b\nApplied c\nAppended c\n");
        let taken = faults.order.as_ref().unwrap();
        assert!(taken.is_about("Applied d"));
        assert!(!taken.is_about("Applied c") && !taken.is_about("Appended d"));
        fs::write(&order, "").unwrap();
        faults.look().unwrap();
        assert_eq!(faults.order, None);
        // A server that was started again notes them again, after those of before.
        let mut again = Faults::open(folder.path(), ServerId(3)).unwrap();
        again.pass_point(Stage::Appended, "a").unwrap();
        assert_eq!(
            seen().lines().filter(|line| *line == "Appended a").count(),
            2
        );
    }

    #[test]
    fn an_order_without_a_part_is_about_all_that_it_does_not_spare() {
        let order = Order::read("\nSynced the log\n").unwrap();
        assert!(order.is_about("Syncing the log"));
        assert!(!order.is_about("Synced the log"));
        assert_eq!(Order::read(""), None);
    }

    #[test]
    fn names_tell_kinds_apart_and_nothing_else() {
        let record = Record::Reclaim { ino: Ino(7) };
        assert_eq!(name_of_record(&record.encode()).unwrap(), "Reclaim");
        assert!(name_of_record(&[]).is_err());
        let tx = pandofs_types::TxId {
            coordinator: ShardId(1),
            sequence: 9,
        };
        let message = |message| PeerMessage::Commit {
            from: ShardId(1),
            to: ShardId(2),
            horizon: Horizon::default(),
            held: None,
            message,
        };
        let step = Step::DropPart(step::DropPart { dir: Ino(5) });
        let number = StepNumber(1);
        let age = pandofs_api::Age {
            time: pandofs_types::Time::default(),
            tx,
        };
        for (ask, name) in [
            (Ask::Prepare, "Commit Do DropPart, Prepare"),
            (Ask::Decide, "Commit Do DropPart, Decide"),
        ] {
            let step = step.clone();
            let asked = message(CommitMessage::Do {
                tx,
                number,
                step,
                ask,
                age,
            });
            assert_eq!(name_of_message(&asked), name);
        }
        let ack = message(CommitMessage::Ack { tx, number });
        assert_eq!(name_of_message(&ack), "Commit Ack");
    }
}
