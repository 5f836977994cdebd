//! Unsynced changes, without a server.

use super::*;
use pandofs_api::op;
use pandofs_types::limits::UNSYNCED_TERM;

const FILE: Ino = Ino(50);
const OTHER: Ino = Ino(51);
const OBJECT: Place = Place::Object(ServerId(1));
const LOG: Place = Place::Log(ServerId(0));
/// Starts of a machine.
const FIRST: u8 = 1;
const SECOND: u8 = 2;
const MOST: usize = 1_000;
const NOW: Duration = Duration::from_secs(7);

fn changed(unsynced: &mut Unsynced<u8>, ino: Ino, place: Place, machine: u8) {
    assert!(!unsynced.changed([ino], place, machine, NOW));
}

fn synced_of(
    unsynced: &mut Unsynced<u8>,
    ino: Ino,
    mark: Mark,
    syncs: &[Synced<u8>],
) -> Vec<ServerId> {
    let mut is_told = false;
    let lost = unsynced.synced(ino, mark, syncs, || is_told = true);
    assert_eq!(is_told, !lost.is_empty());
    lost
}

/// Of all that was changed so far.
fn synced_now(unsynced: &mut Unsynced<u8>, ino: Ino, syncs: &[Synced<u8>]) -> Vec<ServerId> {
    let mark = unsynced.mark();
    synced_of(unsynced, ino, mark, syncs)
}

fn known(unsynced: &Unsynced<u8>) -> usize {
    unsynced.inodes.len()
}

#[test]
fn nothing_is_remembered_where_there_is_no_room() {
    for most in 0..4 {
        let mut unsynced = Unsynced::within(most);
        let now = NOW;
        for ino in 1..10 {
            if unsynced.changed([Ino(ino)], OBJECT, FIRST, now) {
                unsynced.forget(now, UNSYNCED_TERM, |_| false);
            }
            assert!(known(&unsynced) <= most, "{most}");
        }
    }
}

#[test]
fn what_was_synced_in_time_is_not_lost() {
    let mut unsynced = Unsynced::within(MOST);
    changed(&mut unsynced, FILE, OBJECT, FIRST);
    changed(&mut unsynced, FILE, LOG, FIRST);
    let mark = unsynced.mark();
    assert_eq!(unsynced.places(FILE), [OBJECT, LOG]);
    let syncs = [(OBJECT, FIRST), (LOG, FIRST)];
    assert_eq!(synced_of(&mut unsynced, FILE, mark, &syncs), []);
    assert_eq!(known(&unsynced), 0);
    let syncs = [(OBJECT, SECOND), (LOG, SECOND)];
    assert_eq!(synced_now(&mut unsynced, FILE, &syncs), []);
}

#[test]
fn a_sync_after_another_start_of_the_machine_fails_once() {
    let mut unsynced = Unsynced::within(MOST);
    changed(&mut unsynced, FILE, OBJECT, FIRST);
    // Only this is there.
    changed(&mut unsynced, FILE, OBJECT, SECOND);
    changed(&mut unsynced, OTHER, OBJECT, FIRST);
    let synced = |unsynced: &mut _, ino| synced_now(unsynced, ino, &[(OBJECT, SECOND)]);
    assert_eq!(synced(&mut unsynced, FILE), [ServerId(1)]);
    assert_eq!(synced(&mut unsynced, FILE), []);
    changed(&mut unsynced, FILE, OBJECT, SECOND);
    assert_eq!(synced(&mut unsynced, FILE), []);
    // The loss of another file is reported, too.
    assert_eq!(synced(&mut unsynced, OTHER), [ServerId(1)]);
    assert_eq!(known(&unsynced), 0);
}

#[test]
fn a_sync_that_was_not_answered_tells_nothing() {
    let mut unsynced = Unsynced::within(MOST);
    changed(&mut unsynced, FILE, OBJECT, FIRST);
    changed(&mut unsynced, FILE, LOG, FIRST);
    let mark = unsynced.mark();
    assert_eq!(synced_of(&mut unsynced, FILE, mark, &[(LOG, FIRST)]), []);
    assert_eq!(unsynced.places(FILE), [OBJECT]);
    assert_eq!(
        synced_now(&mut unsynced, FILE, &[(OBJECT, SECOND)]),
        [ServerId(1)]
    );
}

#[test]
fn what_is_changed_while_a_sync_is_under_way_is_not_covered_by_it() {
    let mut unsynced = Unsynced::within(MOST);
    changed(&mut unsynced, FILE, OBJECT, FIRST);
    let mark = unsynced.mark();
    changed(&mut unsynced, FILE, OBJECT, FIRST);
    assert_eq!(synced_of(&mut unsynced, FILE, mark, &[(OBJECT, FIRST)]), []);
    let mark = unsynced.mark();
    changed(&mut unsynced, FILE, OBJECT, SECOND);
    let lost = synced_of(&mut unsynced, FILE, mark, &[(OBJECT, SECOND)]);
    assert_eq!(lost, [ServerId(1)]);
    assert_eq!(synced_now(&mut unsynced, FILE, &[(OBJECT, SECOND)]), []);
    assert_eq!(known(&unsynced), 0);
    // A loss after the request is reported to the next one.
    changed(&mut unsynced, FILE, OBJECT, FIRST);
    let mark = unsynced.mark();
    changed(&mut unsynced, FILE, OBJECT, FIRST);
    let late = [(OBJECT, SECOND)];
    assert_eq!(synced_of(&mut unsynced, FILE, mark, &late), [ServerId(1)]);
    assert_eq!(synced_now(&mut unsynced, FILE, &late), [ServerId(1)]);
    assert_eq!(synced_now(&mut unsynced, FILE, &late), []);
}

#[test]
fn a_sync_of_a_log_is_one_of_all_that_it_has() {
    let mut unsynced = Unsynced::within(MOST);
    changed(&mut unsynced, FILE, LOG, FIRST);
    changed(&mut unsynced, OTHER, LOG, FIRST);
    assert_eq!(synced_now(&mut unsynced, OTHER, &[(LOG, FIRST)]), []);
    assert_eq!(unsynced.places(FILE), []);
    assert_eq!(synced_now(&mut unsynced, FILE, &[(LOG, SECOND)]), []);
    // But not of what comes after it, nor of what another server has.
    changed(&mut unsynced, FILE, LOG, FIRST);
    changed(&mut unsynced, FILE, Place::Log(ServerId(7)), FIRST);
    let syncs = [(LOG, SECOND), (Place::Log(ServerId(7)), FIRST)];
    let lost = synced_now(&mut unsynced, FILE, &syncs);
    assert_eq!(lost, [ServerId(0)]);
}

#[test]
fn one_of_several_syncs_of_a_log_suffices() {
    let mut unsynced = Unsynced::within(MOST);
    changed(&mut unsynced, FILE, LOG, FIRST);
    let syncs = [(LOG, FIRST), (LOG, SECOND)];
    assert_eq!(synced_now(&mut unsynced, FILE, &syncs), []);
}

#[test]
fn what_is_old_is_forgotten_but_for_data_of_open_files() {
    let mut unsynced = Unsynced::within(MOST);
    changed(&mut unsynced, FILE, OBJECT, FIRST);
    changed(&mut unsynced, FILE, LOG, FIRST);
    changed(&mut unsynced, OTHER, OBJECT, FIRST);
    let is_open = |ino| ino == FILE;
    unsynced.forget(NOW, UNSYNCED_TERM, is_open);
    assert_eq!(known(&unsynced), 2);
    unsynced.forget(NOW + UNSYNCED_TERM, UNSYNCED_TERM, is_open);
    assert_eq!(known(&unsynced), 1);
    assert_eq!(unsynced.places(FILE), [OBJECT]);
}

#[test]
fn of_too_many_the_oldest_are_forgotten() {
    let mut unsynced = Unsynced::within(MOST);
    let most = MOST as u64;
    let now = NOW;
    for ino in 1..most {
        assert!(!unsynced.changed([Ino(ino)], OBJECT, FIRST, now));
    }
    // It has been there for long, and is changed anew.
    changed(&mut unsynced, Ino(1), OBJECT, FIRST);
    assert!(unsynced.changed([Ino(most)], OBJECT, FIRST, now));
    unsynced.forget(now, UNSYNCED_TERM, |ino| ino == Ino(2));
    assert_eq!(known(&unsynced), MOST / 4 * 3 + 1);
    let is_known = |ino: &u64| !unsynced.places(Ino(*ino)).is_empty();
    let left: Vec<u64> = (1..=most).filter(is_known).collect();
    let newest = 3 + most / 4 - 1..=most;
    assert_eq!(left, [1, 2].into_iter().chain(newest).collect::<Vec<_>>());
    // Those that are open stay, and do not have it looked through each time.
    unsynced.forget(now, UNSYNCED_TERM, |_| true);
    assert!(!unsynced.changed([Ino(most + 1)], OBJECT, FIRST, now));
}

#[test]
fn names_are_changes_of_their_directories_and_of_what_they_lead_to() {
    let (dir, new_dir) = (Ino(7), Ino(8));
    let name = || pandofs_types::Name::new(b"leaf").unwrap();
    let rename = Request::Rename(op::Rename {
        dir,
        name: name(),
        new_dir,
        new_name: name(),
        new_shard: pandofs_types::ShardId(0),
        no_replace: false,
        whiteout: false,
    });
    let changed = changed_by(&rename, &Reply::Renamed { ino: FILE });
    assert_eq!(changed, [dir, new_dir, FILE]);
    let unlink = Request::Unlink(op::Unlink { dir, name: name() });
    let changed = changed_by(&unlink, &Reply::Removed { ino: FILE });
    assert_eq!(changed, [dir]);
    let read = Request::ReadInline(op::ReadInline { ino: FILE });
    assert_eq!(changed_by(&read, &Reply::Done), []);
}

#[test]
fn a_server_that_lost_a_file_at_two_places_is_named_once() {
    let (server, other) = (ServerId(1), ServerId(2));
    let mut unsynced = Unsynced::within(MOST);
    let places = [Place::Log(server), OBJECT, Place::Object(other)];
    for place in places {
        changed(&mut unsynced, FILE, place, FIRST);
    }
    assert_eq!(unsynced.places(FILE), places);
    changed(&mut unsynced, FILE, OBJECT, SECOND);
    assert_eq!(unsynced.places(FILE), places, "each once");
    let syncs = places.map(|place| (place, SECOND));
    assert_eq!(synced_now(&mut unsynced, FILE, &syncs), [server, other]);
    assert_eq!(known(&unsynced), 0);
}

/// A file that was truncated and synced between two changes of another one has all its changes on disk.
#[test]
fn a_change_right_after_the_mark_is_not_synced_and_the_one_before_is() {
    let mut unsynced = Unsynced::within(MOST);
    changed(&mut unsynced, FILE, LOG, FIRST);
    let mark = unsynced.mark();
    changed(&mut unsynced, OTHER, LOG, FIRST);
    let nothing = synced_of(&mut unsynced, Ino(99), mark, &[(LOG, FIRST)]);
    assert_eq!(nothing, []);
    assert_eq!(unsynced.places(FILE), []);
    assert_eq!(unsynced.places(OTHER), [LOG]);
}

#[test]
fn closed_files_are_looked_through_when_a_quarter_more_has_come() {
    let mut unsynced = Unsynced::within(8);
    let change =
        |unsynced: &mut Unsynced<u8>, ino| unsynced.changed([Ino(ino)], OBJECT, FIRST, NOW);
    let mut is_many: Vec<bool> = (1..=10).map(|ino| change(&mut unsynced, ino)).collect();
    let expected = [
        false, false, false, false, false, false, false, true, true, true,
    ];
    assert_eq!(is_many, expected);
    unsynced.forget(NOW, UNSYNCED_TERM, |_| true);
    assert_eq!(known(&unsynced), 10);
    is_many = [11, 12].map(|ino| change(&mut unsynced, ino)).to_vec();
    assert_eq!(is_many, [false, true]);
}

/// Seven of eight that may be known, of which six are kept when there are too many.
#[test]
fn nothing_is_forgotten_before_there_are_too_many() {
    let mut unsynced = Unsynced::within(8);
    for ino in 1..=7 {
        changed(&mut unsynced, Ino(ino), OBJECT, FIRST);
    }
    unsynced.forget(NOW, UNSYNCED_TERM, |_| false);
    assert_eq!(known(&unsynced), 7);
    changed(&mut unsynced, Ino(8), OBJECT, FIRST);
    unsynced.forget(NOW, UNSYNCED_TERM, |_| false);
    let left: Vec<u64> = (1..=8)
        .filter(|ino| !unsynced.places(Ino(*ino)).is_empty())
        .collect();
    assert_eq!(left, [3, 4, 5, 6, 7, 8]);
    // What is open is not counted, and is not forgotten for others.
    let mut unsynced = Unsynced::within(8);
    for ino in 1..=9 {
        let _ = unsynced.changed([Ino(ino)], OBJECT, FIRST, NOW);
    }
    unsynced.forget(NOW, UNSYNCED_TERM, |ino| ino.0 > 6);
    assert_eq!(known(&unsynced), 9);
}

#[test]
fn answers_tell_which_inodes_a_change_was_about() {
    let (dir, new_dir) = (Ino(7), Ino(8));
    let name = || pandofs_types::Name::new(b"leaf").unwrap();
    let exchange = Request::Exchange(op::Exchange {
        dir,
        name: name(),
        new_dir,
        new_name: name(),
        new_shard: pandofs_types::ShardId(0),
    });
    let answer = Reply::Exchanged {
        ino: FILE,
        other: OTHER,
    };
    assert_eq!(changed_by(&exchange, &answer), [dir, new_dir, FILE, OTHER]);
    let mkdir = op::Mkdir {
        dir,
        name: name(),
        mode: 0o755,
        umask: 0,
    };
    let answer = Reply::Entry(pandofs_api::EntryReply {
        ino: FILE,
        kind: pandofs_types::FileKind::Dir,
        shard: pandofs_types::ShardId(0),
        inode: None,
    });
    assert_eq!(
        changed_by(&Request::Mkdir(mkdir.clone()), &answer),
        [dir, FILE]
    );
    let early = op::Early {
        caller: 0,
        time: pandofs_types::Time(0),
        random: 0,
        ino: Some(OTHER),
        operation: op::EarlyOperation::Mkdir(mkdir),
    };
    let batch = Request::Batch(op::Batch {
        incarnation: 1,
        callers: Vec::new(),
        placing: None,
        early: vec![early],
    });
    assert_eq!(changed_by(&batch, &Reply::Done), [dir, OTHER]);
}

#[test]
fn requests_to_data_objects_read_or_change_them() {
    let (ino, truncations, offset) = (FILE, 3, 0);
    let changes = [
        DataRequest::Write {
            ino,
            truncations,
            offset,
            data: Vec::new(),
        },
        DataRequest::Truncate {
            ino,
            truncations,
            length: 0,
        },
        DataRequest::Fill {
            ino,
            truncations,
            data: Vec::new(),
            from_reserve: false,
        },
    ];
    for change in changes {
        let of = (object_of(&change), object_changed_by(&change));
        assert_eq!(of, (Some(FILE), Some(FILE)), "{change:?}");
    }
    let read = DataRequest::Read {
        ino,
        offset,
        length: 9,
    };
    assert_eq!(
        (object_of(&read), object_changed_by(&read)),
        (Some(FILE), None)
    );
    for neither in [DataRequest::Sync { ino }, DataRequest::Space] {
        let of = (object_of(&neither), object_changed_by(&neither));
        assert_eq!(of, (None, None), "{neither:?}");
    }
}

/// Each was asked before the server's machine was started anew; the answer to one came after that.
#[test]
fn two_syncs_of_the_same_changes_find_no_more_than_one_of_them() {
    let mut unsynced = Unsynced::within(MOST);
    changed(&mut unsynced, FILE, OBJECT, FIRST);
    changed(&mut unsynced, FILE, OBJECT, FIRST);
    let mark = unsynced.mark();
    changed(&mut unsynced, FILE, OBJECT, FIRST);
    assert_eq!(synced_of(&mut unsynced, FILE, mark, &[(OBJECT, FIRST)]), []);
    assert_eq!(
        synced_of(&mut unsynced, FILE, mark, &[(OBJECT, SECOND)]),
        []
    );
    let lost = synced_now(&mut unsynced, FILE, &[(OBJECT, SECOND)]);
    assert_eq!(lost, [ServerId(1)]);
}
