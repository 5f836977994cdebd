//! The suite of the log port, with each kind of crash.

use crate::common::{killed, open_with, unsynced};
use pandofs_log_raft_engine::RaftEngineLog;
use pandofs_storage::log::suite::{self, ReopenableLog};
use pandofs_storage::log::{Entry, Log, LogError, Visit};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::TempDir;

/// Effect of a crash on the log's files.
type Damage = fn(&Path);

struct Subject {
    log: RaftEngineLog,
    dir: TempDir,
    file_bytes: u64,
    damage: Damage,
}

fn subject(dir: TempDir, file_bytes: u64, damage: Damage) -> Box<dyn ReopenableLog> {
    let log = open_with(dir.path(), file_bytes).unwrap();
    Box::new(Subject {
        log,
        dir,
        file_bytes,
        damage,
    })
}

impl Log for Subject {
    fn append(&self, entries: &[Entry<'_>]) -> Result<(), LogError> {
        self.log.append(entries)
    }
    fn sync(&self) -> Result<(), LogError> {
        self.log.sync()
    }
    fn read(&self, stream: u64, from: u64, visit: &mut Visit<'_>) -> Result<(), LogError> {
        self.log.read(stream, from, visit)
    }
    fn span(&self, stream: u64) -> Option<(u64, u64)> {
        self.log.span(stream)
    }
    fn next_index(&self, stream: u64) -> Option<u64> {
        self.log.next_index(stream)
    }
    fn prune(&self, stream: u64, upto: u64) -> Result<(), LogError> {
        self.log.prune(stream, upto)
    }
    fn reclaim(&self) -> Result<(), LogError> {
        self.log.reclaim()
    }
    fn bytes(&self) -> u64 {
        self.log.bytes()
    }
}

impl ReopenableLog for Subject {
    fn close_and_reopen(self: Box<Self>) -> Box<dyn ReopenableLog> {
        let Subject {
            log,
            dir,
            file_bytes,
            damage,
        } = *self;
        drop(log);
        subject(dir, file_bytes, damage)
    }

    fn crash_and_reopen(self: Box<Self>) -> Box<dyn ReopenableLog> {
        let left = killed(self.dir.path());
        (self.damage)(left.path());
        subject(left, self.file_bytes, self.damage)
    }
}

fn run(file_bytes: u64, damage: Damage) {
    suite::run(&|| subject(tempfile::tempdir().unwrap(), file_bytes, damage));
}

#[test]
fn killed_with_large_files() {
    run(8 << 20, |_| {});
}

#[test]
fn killed_with_small_files() {
    run(64 << 10, |_| {});
}

#[test]
fn power_loss_that_loses_the_end_of_a_file() {
    run(64 << 10, |dir| {
        let (path, begin, end) = unsynced(dir);
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(begin + (end - begin) / 2).unwrap();
    });
}

#[test]
fn power_loss_that_loses_a_page_in_the_middle() {
    run(1 << 20, |dir| {
        let (path, begin, end) = unsynced(dir);
        let file = File::options().write(true).open(path).unwrap();
        let lost = begin + (end - begin) / 3;
        let page = vec![0; (end - lost).min(4_096) as usize];
        file.write_all_at(&page, lost).unwrap();
    });
}

#[test]
fn power_loss_that_leaves_old_bytes_in_new_places() {
    run(1 << 20, |dir| {
        let (path, begin, end) = unsynced(dir);
        let file = File::options().read(true).write(true).open(path).unwrap();
        let lost = begin + (end - begin) / 2;
        let mut old = vec![0; (end - lost) as usize];
        file.read_exact_at(&mut old, 0).unwrap();
        file.write_all_at(&old, lost).unwrap();
    });
}
