mod answers;
mod directories;
mod limits;
mod writes;

use super::*;
use crate::limits::{MANY_LEASES_FRACTION, MAX_WRITE_LEASES, WRITE_LEASE_RETRY};
use crate::router::Target;
use pandofs_api::{EntryReply, FileBody, RequestKey, ShardRequest, op};
use pandofs_types::limits::{BRIEF_LEASE, MAX_CACHED_LEASES};
use pandofs_types::{Credentials, Epoch, FileKind, Leased, SessionId, SetAttr, SlotId};
use std::cell::RefCell;
use std::time::Duration;

const DIR: Ino = Ino(1);
const FILE: Ino = Ino(5);
const SERVER: ServerId = ServerId(3);

type Cache = RefCell<LeaseCache>;

/// It stands still.
fn now() -> Boottime {
    Boottime::after_start(Duration::from_secs(1_000))
}

fn lease_cache() -> Cache {
    let mut lease_cache = LeaseCache::new(HashKey(1, 2));
    lease_cache.begin(true);
    lease_cache.subscribed(SERVER, now());
    RefCell::new(lease_cache)
}

/// A request, when it was sent, and what its answer leases.
struct Asked {
    request: ShardRequest,
    sent: Sent,
    leased: Vec<Leased>,
}

impl Asked {
    fn grant(&self) -> LeaseGrant<'_> {
        LeaseGrant {
            asked: &self.request,
            sent: self.sent,
            server: SERVER,
            leased: &self.leased,
        }
    }
}

fn name() -> Name {
    Name::new(b"a").unwrap()
}

fn inode(mode: u16) -> InodeReply {
    InodeReply {
        attr: Attr {
            ino: FILE,
            kind: FileKind::File,
            mode,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: Time(0),
            mtime: Time(0),
            ctime: Time(0),
            btime: Time(0),
            has_xattrs: false,
        },
        body: FileBody::None,
        dir: None,
        truncations: 0,
    }
}

fn entry(mode: u16) -> Result<Reply, Refusal> {
    Ok(Reply::Entry(EntryReply {
        ino: FILE,
        kind: FileKind::File,
        shard: ShardId(0),
        inode: Some(inode(mode)),
    }))
}

fn call(request: Request) -> ShardRequest {
    ShardRequest {
        shard: ShardId(0),
        epoch: Epoch(1),
        key: RequestKey {
            session: SessionId(1),
            slot: SlotId(0),
            sequence: 1,
        },
        caller: Credentials::ROOT,
        request,
    }
}

fn lookup() -> ShardRequest {
    let (dir, name) = (DIR, name());
    call(Request::Lookup(op::Lookup { dir, name }))
}

fn unlink() -> ShardRequest {
    let (dir, name) = (DIR, name());
    call(Request::Unlink(op::Unlink { dir, name }))
}

fn getattr() -> ShardRequest {
    call(Request::GetAttr(op::GetAttr { ino: FILE }))
}

fn chmod() -> ShardRequest {
    let set = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    call(Request::SetAttr(op::SetAttr { ino: FILE, set }))
}

fn send(lease_cache: &Cache, request: ShardRequest) -> Asked {
    Asked {
        request,
        sent: lease_cache.borrow().sent(now()),
        leased: vec![Leased::ENTRY.and(Leased::ATTRIBUTES)],
    }
}

fn answer(lease_cache: &Cache, asked: &ShardRequest) -> Option<Result<Reply, Refusal>> {
    let target = Target::Shard(ShardId(0));
    lease_cache.borrow_mut().answer(target, asked, now())
}

fn learn(lease_cache: &Cache, asked: &Asked, answer: &Result<Reply, Refusal>) {
    lease_cache.borrow_mut().learn(asked.grant(), answer, now());
}

fn change(lease_cache: &Cache, asked: &ShardRequest) -> Change {
    lease_cache.borrow_mut().change(&asked.request).unwrap()
}

fn changed(lease_cache: &Cache, asked: &Asked, change: Change, reply: &Reply) {
    let mut lease_cache = lease_cache.borrow_mut();
    lease_cache.changed(change, Some(reply), Some(asked.grant()), now());
}

fn found(lease_cache: &Cache) -> bool {
    answer(lease_cache, &lookup()).is_some()
}

fn mode(lease_cache: &Cache) -> Option<u16> {
    match answer(lease_cache, &getattr())? {
        Ok(Reply::Inode(inode)) => Some(inode.attr.mode),
        other => panic!("{other:?}"),
    }
}

fn entry_key(lease_cache: &Cache) -> LeaseKey {
    lease_cache.borrow().entry_key(DIR, &name())
}

/// Without waiting for writes.
fn recall(lease_cache: &Cache, keys: &[LeaseKey]) {
    let own = lease_cache.borrow_mut().recall(keys, false);
    assert_eq!(own, Some(Vec::new()), "nothing is being changed");
}

#[test]
fn what_is_leased_is_cached_until_it_is_recalled() {
    let lease_cache = lease_cache();
    assert!(!found(&lease_cache));
    learn(&lease_cache, &send(&lease_cache, lookup()), &entry(0o644));
    assert!(found(&lease_cache));
    assert_eq!(mode(&lease_cache), Some(0o644));
    assert!(
        lease_cache
            .borrow()
            .entry_until(entry_key(&lease_cache), &name(), Some(FILE))
            .is_some()
    );
    assert!(
        lease_cache
            .borrow()
            .entry_until(entry_key(&lease_cache), &name(), None)
            .is_none()
    );
    recall(&lease_cache, &[LeaseKey::Inode(FILE)]);
    assert!(found(&lease_cache));
    assert_eq!(mode(&lease_cache), None);
    recall(&lease_cache, &[entry_key(&lease_cache)]);
    assert!(!found(&lease_cache));
}

#[test]
fn that_there_is_no_such_name_is_cached_too() {
    let lease_cache = lease_cache();
    learn(
        &lease_cache,
        &send(&lease_cache, lookup()),
        &Err(FsError::NotFound.into()),
    );
    assert!(found(&lease_cache));
    assert!(
        lease_cache
            .borrow()
            .entry_until(entry_key(&lease_cache), &name(), None)
            .is_some()
    );
}

#[test]
fn an_answer_that_is_overtaken_by_its_recall_is_not_cached() {
    let lease_cache = lease_cache();
    let late = send(&lease_cache, lookup());
    recall(&lease_cache, &[entry_key(&lease_cache)]);
    learn(&lease_cache, &late, &entry(0o644));
    assert!(!found(&lease_cache));
    assert_eq!(mode(&lease_cache), Some(0o644), "it was not recalled");
    learn(&lease_cache, &send(&lease_cache, lookup()), &entry(0o644));
    assert!(found(&lease_cache));
}

#[test]
fn nothing_is_cached_of_a_server_whose_recalls_are_lost() {
    let lease_cache = lease_cache();
    let late = send(&lease_cache, lookup());
    learn(&lease_cache, &send(&lease_cache, lookup()), &entry(0o644));
    lease_cache.borrow_mut().lost(SERVER);
    assert!(!found(&lease_cache));
    learn(&lease_cache, &send(&lease_cache, lookup()), &entry(0o644));
    assert!(!found(&lease_cache), "it gives no leases");
    lease_cache.borrow_mut().subscribed(SERVER, now());
    learn(&lease_cache, &late, &entry(0o644));
    assert!(!found(&lease_cache), "it was leased before");
    learn(&lease_cache, &send(&lease_cache, lookup()), &entry(0o644));
    assert!(found(&lease_cache));
}

#[test]
fn what_was_asked_before_recalls_are_heard_is_not_cached() {
    let lease_cache = lease_cache();
    let asked = send(&lease_cache, lookup());
    let later = now() + Duration::from_secs(1);
    lease_cache.borrow_mut().subscribed(SERVER, later);
    learn(&lease_cache, &asked, &entry(0o644));
    assert!(!found(&lease_cache));
}

#[test]
fn what_this_session_changes_is_not_cached_until_it_is_answered() {
    let lease_cache = lease_cache();
    learn(&lease_cache, &send(&lease_cache, lookup()), &entry(0o644));
    let late = send(&lease_cache, getattr());
    let change = change(&lease_cache, &chmod());
    assert_eq!(mode(&lease_cache), None);
    learn(
        &lease_cache,
        &send(&lease_cache, getattr()),
        &Ok(Reply::Inode(inode(0o644))),
    );
    assert_eq!(mode(&lease_cache), None, "it is being changed");
    let answer = Reply::Inode(inode(0o600));
    changed(&lease_cache, &send(&lease_cache, chmod()), change, &answer);
    assert_eq!(mode(&lease_cache), Some(0o600));
    learn(&lease_cache, &late, &Ok(Reply::Inode(inode(0o644))));
    assert_eq!(mode(&lease_cache), Some(0o600), "an answer from before");
}

#[test]
fn of_two_changes_at_once_nobody_knows_which_is_the_last() {
    let lease_cache = lease_cache();
    let first = change(&lease_cache, &chmod());
    let second = change(&lease_cache, &chmod());
    let answer = Reply::Inode(inode(0o600));
    changed(&lease_cache, &send(&lease_cache, chmod()), first, &answer);
    assert_eq!(mode(&lease_cache), None);
    changed(&lease_cache, &send(&lease_cache, chmod()), second, &answer);
    assert_eq!(mode(&lease_cache), None);
}

#[test]
fn a_removed_name_takes_what_it_led_to_along() {
    let lease_cache = lease_cache();
    learn(&lease_cache, &send(&lease_cache, lookup()), &entry(0o644));
    let change = change(&lease_cache, &unlink());
    assert!(!found(&lease_cache) && mode(&lease_cache).is_none());
    let answer = Reply::Removed { ino: FILE };
    changed(&lease_cache, &send(&lease_cache, unlink()), change, &answer);
    assert!(!found(&lease_cache) && mode(&lease_cache).is_none());
}

#[test]
fn there_is_an_end_to_what_is_cached() {
    let lease_cache = lease_cache();
    for serial in 1..=2 * MAX_CACHED_LEASES as u64 {
        let mut inode = inode(0o644);
        inode.attr.ino = Ino(serial);
        let ino = inode.attr.ino;
        let asked = send(&lease_cache, call(Request::GetAttr(op::GetAttr { ino })));
        learn(&lease_cache, &asked, &Ok(Reply::Inode(inode)));
    }
    assert!(lease_cache.borrow().state.inodes.len() <= MAX_CACHED_LEASES);
}

#[test]
fn what_is_learnt_beside_much_is_cached_briefly() {
    let lease_cache = lease_cache();
    let inode_of = |serial: u64, kind| {
        let mut inode = inode(0o644);
        (inode.attr.ino, inode.attr.kind) = (Ino(serial), kind);
        inode
    };
    let learn = |serial, kind| {
        let inode = inode_of(serial, kind);
        let ino = inode.attr.ino;
        let asked = send(&lease_cache, call(Request::GetAttr(op::GetAttr { ino })));
        learn(&lease_cache, &asked, &Ok(Reply::Inode(inode)));
        lease_cache.borrow().state.inodes[&ino].until
    };
    let begun = now();
    let many = (MAX_CACHED_LEASES / MANY_LEASES_FRACTION) as u64;
    for serial in 1..=many {
        assert!(learn(serial, FileKind::File) > begun + BRIEF_LEASE);
    }
    let brief = learn(many + 1, FileKind::File);
    assert!(brief < now() + BRIEF_LEASE);
    assert!(learn(many + 2, FileKind::Dir) > begun + BRIEF_LEASE);
    // When it is over there is room, and what is cached for longer stays.
    let state = &mut lease_cache.borrow_mut().state;
    state.drop_ended(brief);
    assert_eq!(state.inodes.len() as u64, many + 1);
}

#[test]
fn what_is_answered_for_a_shorter_time_is_cached_for_as_long_as_it_was_leased_before() {
    let lease_cache = lease_cache();
    let told = |term| {
        let mut asked = send(&lease_cache, lookup());
        asked.leased = vec![Leased::ENTRY.and(Leased::ATTRIBUTES).within(term)];
        learn(&lease_cache, &asked, &entry(0o600));
        let state = &lease_cache.borrow().state;
        (
            state.entries.values().next().unwrap().until,
            state.inodes[&FILE].until,
        )
    };
    let long = told(Term::Long);
    assert_eq!(told(Term::Short), long);
    assert_eq!(mode(&lease_cache), Some(0o600));
    // The end of the last lease is not waited for besides.
    assert!(lease_cache.borrow().state.ends[Term::Short as usize].is_empty());
    recall(&lease_cache, &[LeaseKey::Inode(FILE)]);
    let short = told(Term::Short);
    assert_eq!(short.0, long.0, "it is the attributes that were recalled");
    assert!(short.1 < long.1);
}

fn truncate_inode(truncations: u32) -> Result<Reply, Refusal> {
    Ok(Reply::Inode(InodeReply {
        truncations,
        ..inode(0o644)
    }))
}

fn hold(lease_cache: &Cache) -> Hold {
    hold_of(lease_cache, FILE)
}

/// A write under the lease there is: it begins and ends, and knows of so many truncations.
fn write(lease_cache: &Cache) -> u32 {
    let hold = hold(lease_cache);
    let truncations = hold.truncations;
    lease_cache.borrow_mut().end_write(FILE, hold);
    truncations
}

fn hold_of(lease_cache: &Cache, ino: Ino) -> Hold {
    match lease_cache.borrow_mut().begin_write(ino, now()) {
        Begun::Held(hold) => hold,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_writes_under_a_lease_knows_how_often_the_file_was_cut() {
    let lease_cache = lease_cache();
    let now = now();
    assert!(matches!(
        lease_cache.borrow_mut().begin_write(FILE, now),
        Begun::Ask
    ));
    let early = send(&lease_cache, getattr());
    learn(
        &lease_cache,
        &send(&lease_cache, getattr()),
        &truncate_inode(3),
    );
    assert_eq!(write(&lease_cache), 3);
    // A change of this client's own, and an answer from before, take nothing away.
    let change = change(&lease_cache, &chmod());
    learn(&lease_cache, &early, &truncate_inode(2));
    let under_way = hold(&lease_cache);
    changed(
        &lease_cache,
        &send(&lease_cache, chmod()),
        change,
        &truncate_inode(3).unwrap(),
    );
    lease_cache.borrow_mut().end_write(FILE, under_way);
    // A lease ends by its time.
    let late = now + 2 * pandofs_types::limits::LEASE;
    assert!(matches!(
        lease_cache.borrow_mut().begin_write(FILE, late),
        Begun::Ask
    ));
    lease_cache.borrow_mut().asked_in_vain(FILE, late);
    assert!(matches!(
        lease_cache.borrow_mut().begin_write(FILE, late),
        Begun::Without
    ));
}

#[test]
fn who_cuts_the_file_itself_writes_under_no_lease_from_before() {
    let lease_cache = lease_cache();
    let now = now();
    let leased = |truncations| {
        learn(
            &lease_cache,
            &send(&lease_cache, getattr()),
            &truncate_inode(truncations),
        )
    };
    leased(3);
    let under_way = hold(&lease_cache);
    let own = change(&lease_cache, &chmod());
    let mut cut = send(&lease_cache, chmod());
    cut.leased.clear();
    changed(&lease_cache, &cut, own, &truncate_inode(4).unwrap());
    lease_cache.borrow_mut().end_write(FILE, under_way);
    assert!(matches!(
        lease_cache.borrow_mut().begin_write(FILE, now),
        Begun::Ask
    ));
    leased(4);
    assert_eq!(write(&lease_cache), 4);
    // Nor where it is not known whether it did.
    let own = change(&lease_cache, &chmod());
    lease_cache.borrow_mut().changed(own, None, None, now);
    assert!(matches!(
        lease_cache.borrow_mut().begin_write(FILE, now),
        Begun::Ask
    ));
}

/// A question is answered, the thread that asked stands still, and another one of the same client
/// truncates the file meanwhile.
#[test]
fn a_late_answer_leases_nothing_after_a_cut_of_ones_own() {
    let now = now();
    let is_truncated = |lease_cache: &Cache, reply: Option<Reply>| {
        let own = change(lease_cache, &chmod());
        let mut cut = send(lease_cache, chmod());
        cut.leased.clear();
        lease_cache
            .borrow_mut()
            .changed(own, reply.as_ref(), Some(cut.grant()), now);
    };
    let asks =
        |lease_cache: &Cache| matches!(lease_cache.borrow_mut().begin_write(FILE, now), Begun::Ask);
    // The file is written to before the truncation, or for the first time after it; the truncation is answered or
    // not.
    for (is_written, is_answered) in [(true, true), (true, false), (false, true)] {
        let lease_cache = lease_cache();
        if is_written {
            assert!(asks(&lease_cache));
        }
        let late = send(&lease_cache, getattr());
        is_truncated(
            &lease_cache,
            is_answered.then(|| truncate_inode(4).unwrap()),
        );
        assert!(asks(&lease_cache));
        learn(&lease_cache, &late, &truncate_inode(3));
        assert!(asks(&lease_cache), "{is_written} {is_answered}");
        learn(
            &lease_cache,
            &send(&lease_cache, getattr()),
            &truncate_inode(4),
        );
        assert_eq!(write(&lease_cache), 4);
    }
}

/// It was truncated, and that was not synced when the power failed.
#[test]
fn a_server_may_come_back_with_fewer_cuts() {
    let lease_cache = lease_cache();
    let now = now();
    assert!(matches!(
        lease_cache.borrow_mut().begin_write(FILE, now),
        Begun::Ask
    ));
    let own = change(&lease_cache, &chmod());
    changed(
        &lease_cache,
        &send(&lease_cache, chmod()),
        own,
        &truncate_inode(4).unwrap(),
    );
    let late = send(&lease_cache, getattr());
    lease_cache.borrow_mut().lost(SERVER);
    lease_cache.borrow_mut().subscribed(SERVER, now);
    learn(&lease_cache, &late, &truncate_inode(4));
    assert!(matches!(
        lease_cache.borrow_mut().begin_write(FILE, now),
        Begun::Ask
    ));
    // It is not cached, as it is being changed, and is leased all the same.
    let own = change(&lease_cache, &chmod());
    learn(
        &lease_cache,
        &send(&lease_cache, getattr()),
        &truncate_inode(3),
    );
    assert_eq!(write(&lease_cache), 3);
    lease_cache
        .borrow_mut()
        .changed(own, truncate_inode(3).ok().as_ref(), None, now);
    assert_eq!(write(&lease_cache), 3);
}

/// The cut is not answered yet when a question is that was asked after it.
#[test]
fn who_writes_when_more_cuts_are_heard_of_was_under_no_lease_all_the_time() {
    let lease_cache = lease_cache();
    learn(
        &lease_cache,
        &send(&lease_cache, getattr()),
        &truncate_inode(3),
    );
    let under_way = hold(&lease_cache);
    let own = change(&lease_cache, &chmod());
    learn(
        &lease_cache,
        &send(&lease_cache, getattr()),
        &truncate_inode(4),
    );
    changed(
        &lease_cache,
        &send(&lease_cache, chmod()),
        own,
        &truncate_inode(4).unwrap(),
    );
    lease_cache.borrow_mut().end_write(FILE, under_way);
    assert_eq!(write(&lease_cache), 4);
}

/// Returns whether a recall has to wait for a write.
fn waits(lease_cache: &Cache, keys: &[LeaseKey]) -> bool {
    lease_cache.borrow_mut().recall(keys, true).is_none()
}

#[test]
fn a_recall_waits_for_what_is_written_under_the_lease() {
    let lease_cache = lease_cache();
    learn(
        &lease_cache,
        &send(&lease_cache, getattr()),
        &truncate_inode(3),
    );
    let early = send(&lease_cache, getattr());
    let (first, second) = (hold(&lease_cache), hold(&lease_cache));
    let keys = [LeaseKey::Inode(FILE)];
    let begun = || lease_cache.borrow_mut().begin_write(FILE, now());
    let is_wanted = || matches!(begun(), Begun::Without);
    assert!(waits(&lease_cache, &keys));
    assert!(is_wanted(), "a write begins after it was recalled");
    lease_cache.borrow_mut().end_write(FILE, first);
    assert!(waits(&lease_cache, &keys));
    assert_eq!(mode(&lease_cache), Some(0o644), "it is cached meanwhile");
    assert_eq!(lease_cache.borrow().recalled(), 0);
    lease_cache.borrow_mut().end_write(FILE, second);
    assert!(!waits(&lease_cache, &keys));
    assert_eq!(
        (mode(&lease_cache), lease_cache.borrow().recalled()),
        (None, 1)
    );
    assert!(matches!(begun(), Begun::Ask));
    // An answer that was on its way then leases nothing.
    learn(&lease_cache, &early, &truncate_inode(3));
    assert!(matches!(begun(), Begun::Ask));
    learn(
        &lease_cache,
        &send(&lease_cache, getattr()),
        &truncate_inode(4),
    );
    assert_eq!(write(&lease_cache), 4);
    // One that takes longer is waited for no more.
    let slow = hold(&lease_cache);
    recall(&lease_cache, &keys);
    lease_cache.borrow_mut().end_write(FILE, slow);
    lease_cache.borrow_mut().forget_write_lease(FILE);
    assert!(lease_cache.borrow().state.write_leases.is_empty());
}

/// An answer about this inode.
fn truncate_inode_of(ino: Ino, truncations: u32) -> Result<Reply, Refusal> {
    let attr = Attr {
        ino,
        ..inode(0o644).attr
    };
    Ok(Reply::Inode(InodeReply {
        attr,
        truncations,
        ..inode(0o644)
    }))
}

/// A recall of two files waits for writes to the one, when a first write to the other begins.
#[test]
fn a_recall_waits_for_what_begins_while_it_waits() {
    const OTHER: Ino = Ino(6);
    let lease_cache = lease_cache();
    learn(
        &lease_cache,
        &send(&lease_cache, getattr()),
        &truncate_inode(3),
    );
    let asked = send(
        &lease_cache,
        call(Request::GetAttr(op::GetAttr { ino: OTHER })),
    );
    learn(&lease_cache, &asked, &truncate_inode_of(OTHER, 8));
    let first = hold(&lease_cache);
    let keys = [LeaseKey::Inode(FILE), LeaseKey::Inode(OTHER)];
    assert!(waits(&lease_cache, &keys));
    let other = hold_of(&lease_cache, OTHER);
    lease_cache.borrow_mut().end_write(FILE, first);
    assert!(waits(&lease_cache, &keys));
    lease_cache.borrow_mut().end_write(OTHER, other);
    assert!(!waits(&lease_cache, &keys));
}

#[test]
fn with_very_many_files_written_to_they_are_looked_through_now_and_then() {
    let lease_cache = lease_cache();
    let now = now();
    let mut holds = Vec::new();
    for serial in 1..=MAX_WRITE_LEASES as u64 {
        let ino = Ino(serial);
        let asked = send(&lease_cache, call(Request::GetAttr(op::GetAttr { ino })));
        learn(&lease_cache, &asked, &truncate_inode_of(ino, 1));
        holds.push(hold_of(&lease_cache, ino));
    }
    let begin = |after| lease_cache.borrow_mut().begin_write(Ino(0), now + after);
    assert!(matches!(begin(Duration::ZERO), Begun::Without));
    lease_cache.borrow_mut().end_write(Ino(1), holds.remove(0));
    recall(&lease_cache, &[LeaseKey::Inode(Ino(1))]);
    assert!(matches!(begin(WRITE_LEASE_RETRY / 2), Begun::Without));
    assert!(matches!(begin(WRITE_LEASE_RETRY), Begun::Ask));
    // One that is closed makes room at once.
    assert!(matches!(
        lease_cache.borrow_mut().begin_write(Ino(1), now),
        Begun::Without
    ));
    lease_cache.borrow_mut().forget_write_lease(Ino(0));
    assert!(matches!(
        lease_cache.borrow_mut().begin_write(Ino(1), now),
        Begun::Ask
    ));
}
