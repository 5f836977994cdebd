//! Mistakes that raft-engine would make by itself, and the edges of the system.

use crate::common::{
    append_files, append_pair, killed, open, open_with, refused, rewrite_files, unsynced,
};
use pandofs_storage::log::suite::{self, append_one_each, assert_holds, contents};
use pandofs_storage::log::{Entry, Log, LogError};
use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_log_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    append_pair(&log, 1, 10);
    assert_eq!(
        refused(dir.path()),
        LogError::InUse {
            path: dir.path().to_owned()
        }
    );
    append_pair(&log, 2, 10);
    drop(log);
    assert_eq!(open(dir.path()).unwrap().span(1), Some((1, 2)));
}

/// raft-engine's thread-local block cache does not tell logs apart.
#[test]
fn logs_read_by_one_thread_are_not_mixed_up() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let logs = [b'a', b'b'].map(|letter| {
        let log = open(dirs[usize::from(letter - b'a')].path()).unwrap();
        let payload = [letter; 100];
        log.append(&[Entry {
            stream: 1,
            index: 1,
            payload: &payload,
        }])
        .unwrap();
        log
    });
    for _ in 0..2 {
        assert_eq!(contents(&logs[0], 1), [(1, vec![b'a'; 100])]);
        assert_eq!(contents(&logs[1], 1), [(1, vec![b'b'; 100])]);
    }
}

#[test]
fn logs_reclaimed_by_one_thread_are_not_mixed_up() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let logs = [b'a', b'b'].map(|letter| {
        let log = open(dirs[usize::from(letter - b'a')].path()).unwrap();
        let payload = [letter; 100];
        log.append(&[Entry {
            stream: 9,
            index: 1,
            payload: &payload,
        }])
        .unwrap();
        for index in 1..=600 {
            append_pair(&log, index, 500);
        }
        log.prune(1, 599).unwrap();
        log.prune(2, 599).unwrap();
        log
    });
    for (log, dir) in logs.iter().zip(&dirs) {
        log.reclaim().unwrap();
        let rewritten = rewrite_files(dir.path()).pop().unwrap();
        assert!(
            fs::metadata(rewritten).unwrap().len() > 169,
            "stream 9 was not rewritten"
        );
    }
    drop(logs);
    for (letter, dir) in [b'a', b'b'].into_iter().zip(&dirs) {
        assert_eq!(
            contents(&open(dir.path()).unwrap(), 9),
            [(1, vec![letter; 100])]
        );
    }
}

/// The files of pruned entries must not be gone before it is on disk that these were pruned.
#[test]
fn a_loss_of_power_right_after_reclaiming_leaves_a_log_that_opens() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    for index in 1..=600 {
        append_pair(&log, index, 500);
    }
    let files = append_files(dir.path()).len();
    log.prune(1, 600).unwrap();
    log.prune(2, 590).unwrap();
    log.reclaim().unwrap();
    let left = killed(dir.path());
    assert!(append_files(left.path()).len() < files / 2);
    let (path, begin, _) = unsynced(left.path());
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(begin)
        .unwrap();
    let log = open(left.path()).unwrap();
    assert_eq!(log.span(1), None);
    assert_eq!(log.next_index(1), Some(601));
    assert_eq!(log.span(2), Some((591, 600)));
}

/// Pruned entries come back from rewritten files when the append file that said they were pruned is
/// purged.
#[test]
fn rewritten_entries_that_were_pruned_stay_away() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    let busy = |log: &dyn Log, round: u64| {
        for index in round * 600 + 1..=round * 600 + 600 {
            let payload = [0; 1_000];
            log.append(&[Entry {
                stream: 1,
                index,
                payload: &payload,
            }])
            .unwrap();
        }
        log.prune(1, round * 600 + 599).unwrap();
        log.reclaim().unwrap();
    };
    for index in 1..=20 {
        append_one_each(&log, &[8, 9], index);
    }
    busy(&log, 0);
    // Beyond the end: if the entries were back, the next one would leave a gap after them.
    log.prune(8, 30).unwrap();
    log.prune(9, 15).unwrap();
    busy(&log, 1);
    busy(&log, 2);
    let rewritten = fs::read(rewrite_files(dir.path()).pop().unwrap()).unwrap();
    let pruned = suite::payload(8, 3);
    let is_there = rewritten
        .windows(pruned.len())
        .any(|window| window == pruned);
    assert!(
        is_there,
        "the test is about entries that are still in a file"
    );
    for _ in 0..2 {
        let log = open(killed(dir.path()).path()).unwrap();
        assert_eq!(log.span(8), None);
        assert_eq!(log.next_index(8), Some(31));
        assert_holds(&log, 9, 16, 20);
        append_one_each(&log, &[8], 31);
        append_one_each(&log, &[9], 21);
        assert_holds(&log, 9, 16, 21);
        assert_holds(&log, 8, 31, 31);
    }
}

#[test]
fn a_full_disk_refuses_an_append_and_harms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let log = open_with(dir.path(), 4_096).unwrap();
    // All writes to the next file meet a full device.
    let next = dir.path().join("0000000000000002.raftlog");
    std::os::unix::fs::symlink("/dev/full", &next).unwrap();
    let payload = [0; 100];
    let mut index = 1;
    let error = loop {
        let entries = [1, 2].map(|stream| Entry {
            stream,
            index,
            payload: &payload,
        });
        match log.append(&entries) {
            Ok(()) => index += 1,
            Err(error) => break error,
        }
        assert!(index < 1_000, "the file was never full");
    };
    assert_eq!(
        error,
        LogError::Full {
            path: dir.path().to_owned()
        }
    );
    for stream in [1, 2] {
        assert_eq!(log.span(stream), Some((1, index - 1)));
        assert_eq!(contents(&log, stream).len() as u64, index - 1);
    }
    assert!(log.prune(1, 1).is_err());
    assert_eq!(log.span(1), Some((1, index - 1)));

    fs::remove_file(&next).unwrap();
    append_pair(&log, index, 100);
    log.prune(1, 1).unwrap();
    log.sync().unwrap();
    let left = killed(dir.path());
    let log = open_with(left.path(), 4_096).unwrap();
    assert_eq!(log.span(1), Some((2, index)));
    assert_eq!(log.span(2), Some((1, index)));
}

#[test]
fn many_shards_are_pruned_and_their_files_go() {
    const SHARDS: u64 = 64;
    let shards: Vec<u64> = (0..SHARDS).collect();
    let dir = tempfile::tempdir().unwrap();
    let log = open_with(dir.path(), 256 << 10).unwrap();
    let mut last = 0;
    for _ in 0..4 {
        for _ in 0..200 {
            last += 1;
            append_one_each(&log, &shards, last);
        }
        let before = log.bytes();
        for &shard in &shards {
            log.prune(shard, last).unwrap();
        }
        log.reclaim().unwrap();
        assert!(log.bytes() < 512 << 10, "{} of {before} bytes", log.bytes());
        assert!(append_files(dir.path()).len() <= 2);
    }
    drop(log);
    let log = open_with(dir.path(), 256 << 10).unwrap();
    for &shard in &shards {
        assert_eq!(
            (log.span(shard), log.next_index(shard)),
            (None, Some(last + 1))
        );
    }
}

#[test]
fn helpers_sync_and_reclaim_while_the_lane_appends_prunes_and_reads() {
    const APPENDS: u64 = 3_000;
    const IDLE: u64 = 9;
    const FILE_BYTES: u64 = 8 << 10;
    let dir = tempfile::tempdir().unwrap();
    let log = open_with(dir.path(), FILE_BYTES).unwrap();
    let done = AtomicBool::new(false);
    for index in 1..=10 {
        append_one_each(&log, &[IDLE], index);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                log.sync().unwrap();
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                log.reclaim().unwrap();
            }
        });
        // Entries are pruned, and move from file to file, while they are read.
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                assert_holds(&log, IDLE, 1, 10);
                log.read(1, 0, &mut |index, payload| {
                    assert_eq!(payload, suite::payload(1, index));
                    Ok(())
                })
                .unwrap();
            }
        });
        for index in 1..=APPENDS {
            append_one_each(&log, &[1, 2, 3], index);
            if index % 50 == 0 {
                log.prune(1, index - 20).unwrap();
                log.prune(2, index).unwrap();
                assert_holds(&log, 1, index - 19, index);
                if index < 200 {
                    assert_holds(&log, 3, 1, index);
                } else {
                    log.prune(3, index - 150).unwrap();
                    assert_holds(&log, 3, index - 149, index);
                }
            }
        }
        done.store(true, Ordering::Release);
    });
    let left = killed(dir.path());
    let log = open_with(left.path(), FILE_BYTES).unwrap();
    assert_holds(&log, IDLE, 1, 10);
    assert_holds(&log, 1, APPENDS - 19, APPENDS);
    assert_eq!(log.next_index(2), Some(APPENDS + 1));
    assert_holds(&log, 3, APPENDS - 149, APPENDS);
}
