use super::*;
use crate::call::Call;
use crate::pool::Server;
use pandofs_api::{FileBody, op};
use pandofs_placement::ServerInfo;
use pandofs_types::limits::{
    BRIEF_LEASE, GRIP_IN_VAIN, MANY_LEASES_FRACTION, MAX_CACHED_LEASES, MAX_GRIPS,
};
use pandofs_types::{Credentials, FileKind, Leased, SetAttr};
use std::sync::Arc;
use std::time::Duration;

const DIR: Ino = Ino(1);
const FILE: Ino = Ino(5);
const SERVER: ServerId = ServerId(3);

fn beliefs() -> Beliefs {
    let beliefs = Beliefs::new(HashKey(1, 2));
    beliefs.begin(true);
    beliefs.subscribed(SERVER, Boottime::now());
    beliefs
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
        cuts: 0,
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

fn call(request: Request) -> Call<'static> {
    let target = Target::Shard(ShardId(0));
    Call::shard(target, &Credentials::ROOT, request)
}

fn lookup() -> Call<'static> {
    let (dir, name) = (DIR, name());
    call(Request::Lookup(op::Lookup { dir, name }))
}

fn unlink() -> Call<'static> {
    let (dir, name) = (DIR, name());
    call(Request::Unlink(op::Unlink { dir, name }))
}

fn getattr() -> Call<'static> {
    call(Request::GetAttr(op::GetAttr { ino: FILE }))
}

fn chmod() -> Call<'static> {
    let set = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    call(Request::SetAttr(op::SetAttr { ino: FILE, set }))
}

fn send(beliefs: &Beliefs, mut call: Call<'static>) -> Call<'static> {
    let info = ServerInfo {
        id: SERVER,
        addresses: vec!["unix:/run/pandofs/3".to_owned()],
        weight: ServerInfo::WEIGHT_ONE,
        domain: String::new(),
    };
    call.sent = Some(beliefs.sent(Boottime::now()));
    call.answered_by = Some((Arc::new(Server::new(&info).unwrap()), 1));
    call.leased = vec![Leased::ENTRY.and(Leased::ATTRIBUTES)];
    call
}

fn answer(beliefs: &Beliefs, call: &Call) -> Option<Result<Reply, Refusal>> {
    let asked = call.shard_request().unwrap();
    beliefs.answer(call.target, asked, Boottime::now())
}

fn learn(beliefs: &Beliefs, call: &Call, answer: &Result<Reply, Refusal>) {
    beliefs.learn(call.told().unwrap(), answer, Boottime::now());
}

fn change(beliefs: &Beliefs, call: &Call) -> Change {
    let request = &call.shard_request().unwrap().request;
    beliefs.change(request).unwrap()
}

fn changed(beliefs: &Beliefs, call: &Call, change: Change, reply: &Reply) {
    let now = Boottime::now();
    beliefs.changed(change, Some(reply), call.told(), now);
}

fn found(beliefs: &Beliefs) -> bool {
    answer(beliefs, &lookup()).is_some()
}

fn mode(beliefs: &Beliefs) -> Option<u16> {
    match answer(beliefs, &getattr())? {
        Ok(Reply::Inode(inode)) => Some(inode.attr.mode),
        other => panic!("{other:?}"),
    }
}

fn entry_key(beliefs: &Beliefs) -> LeaseKey {
    beliefs.entry_key(DIR, &name())
}

/// Without waiting for writes.
fn recall(beliefs: &Beliefs, keys: &[LeaseKey]) {
    let own = beliefs.recall(keys, false);
    assert_eq!(own, Some(Vec::new()), "nothing is being changed");
}

#[test]
fn what_is_leased_is_believed_until_it_is_recalled() {
    let beliefs = beliefs();
    assert!(!found(&beliefs));
    learn(&beliefs, &send(&beliefs, lookup()), &entry(0o644));
    assert!(found(&beliefs));
    assert_eq!(mode(&beliefs), Some(0o644));
    assert!(
        beliefs
            .entry_until(entry_key(&beliefs), &name(), Some(FILE))
            .is_some()
    );
    assert!(
        beliefs
            .entry_until(entry_key(&beliefs), &name(), None)
            .is_none()
    );
    recall(&beliefs, &[LeaseKey::Inode(FILE)]);
    assert!(found(&beliefs));
    assert_eq!(mode(&beliefs), None);
    recall(&beliefs, &[entry_key(&beliefs)]);
    assert!(!found(&beliefs));
}

#[test]
fn that_there_is_no_such_name_is_believed_too() {
    let beliefs = beliefs();
    learn(
        &beliefs,
        &send(&beliefs, lookup()),
        &Err(FsError::NotFound.into()),
    );
    assert!(found(&beliefs));
    assert!(
        beliefs
            .entry_until(entry_key(&beliefs), &name(), None)
            .is_some()
    );
}

#[test]
fn an_answer_that_is_overtaken_by_its_recall_is_not_believed() {
    let beliefs = beliefs();
    let late = send(&beliefs, lookup());
    recall(&beliefs, &[entry_key(&beliefs)]);
    learn(&beliefs, &late, &entry(0o644));
    assert!(!found(&beliefs));
    assert_eq!(mode(&beliefs), Some(0o644), "it was not recalled");
    learn(&beliefs, &send(&beliefs, lookup()), &entry(0o644));
    assert!(found(&beliefs));
}

#[test]
fn nothing_is_believed_of_a_server_whose_recalls_are_lost() {
    let beliefs = beliefs();
    let late = send(&beliefs, lookup());
    learn(&beliefs, &send(&beliefs, lookup()), &entry(0o644));
    beliefs.lost(SERVER);
    assert!(!found(&beliefs));
    learn(&beliefs, &send(&beliefs, lookup()), &entry(0o644));
    assert!(!found(&beliefs), "it gives no leases");
    beliefs.subscribed(SERVER, Boottime::now());
    learn(&beliefs, &late, &entry(0o644));
    assert!(!found(&beliefs), "it was leased before");
    learn(&beliefs, &send(&beliefs, lookup()), &entry(0o644));
    assert!(found(&beliefs));
}

#[test]
fn what_this_session_changes_is_not_believed_until_it_is_answered() {
    let beliefs = beliefs();
    learn(&beliefs, &send(&beliefs, lookup()), &entry(0o644));
    let late = send(&beliefs, getattr());
    let change = change(&beliefs, &chmod());
    assert_eq!(mode(&beliefs), None);
    learn(
        &beliefs,
        &send(&beliefs, getattr()),
        &Ok(Reply::Inode(inode(0o644))),
    );
    assert_eq!(mode(&beliefs), None, "it is being changed");
    let answer = Reply::Inode(inode(0o600));
    changed(&beliefs, &send(&beliefs, chmod()), change, &answer);
    assert_eq!(mode(&beliefs), Some(0o600));
    learn(&beliefs, &late, &Ok(Reply::Inode(inode(0o644))));
    assert_eq!(mode(&beliefs), Some(0o600), "an answer from before");
}

#[test]
fn of_two_changes_at_once_nobody_knows_which_is_the_last() {
    let beliefs = beliefs();
    let first = change(&beliefs, &chmod());
    let second = change(&beliefs, &chmod());
    let answer = Reply::Inode(inode(0o600));
    changed(&beliefs, &send(&beliefs, chmod()), first, &answer);
    assert_eq!(mode(&beliefs), None);
    changed(&beliefs, &send(&beliefs, chmod()), second, &answer);
    assert_eq!(mode(&beliefs), None);
}

#[test]
fn a_removed_name_takes_what_it_led_to_along() {
    let beliefs = beliefs();
    learn(&beliefs, &send(&beliefs, lookup()), &entry(0o644));
    let change = change(&beliefs, &unlink());
    assert!(!found(&beliefs) && mode(&beliefs).is_none());
    let answer = Reply::Removed { ino: FILE };
    changed(&beliefs, &send(&beliefs, unlink()), change, &answer);
    assert!(!found(&beliefs) && mode(&beliefs).is_none());
}

#[test]
fn there_is_an_end_to_what_is_believed() {
    let beliefs = beliefs();
    for serial in 1..=2 * MAX_CACHED_LEASES as u64 {
        let mut inode = inode(0o644);
        inode.attr.ino = Ino(serial);
        let ino = inode.attr.ino;
        let asked = send(&beliefs, call(Request::GetAttr(op::GetAttr { ino })));
        learn(&beliefs, &asked, &Ok(Reply::Inode(inode)));
    }
    assert!(beliefs.state().inodes.len() <= MAX_CACHED_LEASES);
}

#[test]
fn what_is_learnt_beside_much_is_believed_briefly() {
    let beliefs = beliefs();
    let inode_of = |serial: u64, kind| {
        let mut inode = inode(0o644);
        (inode.attr.ino, inode.attr.kind) = (Ino(serial), kind);
        inode
    };
    let learn = |serial, kind| {
        let inode = inode_of(serial, kind);
        let ino = inode.attr.ino;
        let asked = send(&beliefs, call(Request::GetAttr(op::GetAttr { ino })));
        learn(&beliefs, &asked, &Ok(Reply::Inode(inode)));
        beliefs.state().inodes[&ino].until
    };
    let begun = Boottime::now();
    let many = (MAX_CACHED_LEASES / MANY_LEASES_FRACTION) as u64;
    for serial in 1..=many {
        assert!(learn(serial, FileKind::File) > begun + BRIEF_LEASE);
    }
    let brief = learn(many + 1, FileKind::File);
    assert!(brief < Boottime::now() + BRIEF_LEASE);
    assert!(learn(many + 2, FileKind::Dir) > begun + BRIEF_LEASE);
    // When it is over there is room, and what is believed for longer stays.
    let mut state = beliefs.state();
    state.drop_ended(brief);
    assert_eq!(state.inodes.len() as u64, many + 1);
}

#[test]
fn what_is_told_for_a_shorter_time_is_believed_for_as_long_as_it_was_leased_before() {
    let beliefs = beliefs();
    let told = |term| {
        let mut asked = send(&beliefs, lookup());
        asked.leased = vec![Leased::ENTRY.and(Leased::ATTRIBUTES).within(term)];
        learn(&beliefs, &asked, &entry(0o600));
        let state = beliefs.state();
        (
            state.entries.values().next().unwrap().until,
            state.inodes[&FILE].until,
        )
    };
    let long = told(Term::Long);
    assert_eq!(told(Term::Short), long);
    assert_eq!(mode(&beliefs), Some(0o600));
    // The end of what was told last is not waited for besides.
    assert!(beliefs.state().ends[Term::Short as usize].is_empty());
    recall(&beliefs, &[LeaseKey::Inode(FILE)]);
    let short = told(Term::Short);
    assert_eq!(short.0, long.0, "it is the attributes that were recalled");
    assert!(short.1 < long.1);
}

fn cut_inode(cuts: u32) -> Result<Reply, Refusal> {
    Ok(Reply::Inode(InodeReply {
        cuts,
        ..inode(0o644)
    }))
}

fn hold(beliefs: &Beliefs) -> Hold {
    hold_of(beliefs, FILE)
}

/// A write under the lease there is: it begins and ends, and knows of so many cuts.
fn write(beliefs: &Beliefs) -> u32 {
    let hold = hold(beliefs);
    let cuts = hold.cuts;
    beliefs.end_write(FILE, hold);
    cuts
}

fn hold_of(beliefs: &Beliefs, ino: Ino) -> Hold {
    match beliefs.begin_write(ino, Boottime::now()) {
        Begun::Held(hold) => hold,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_writes_under_a_lease_knows_how_often_the_file_was_cut() {
    let beliefs = beliefs();
    let now = Boottime::now();
    assert!(matches!(beliefs.begin_write(FILE, now), Begun::Ask));
    let early = send(&beliefs, getattr());
    learn(&beliefs, &send(&beliefs, getattr()), &cut_inode(3));
    assert_eq!(write(&beliefs), 3);
    // What this client changes itself, and an answer from before, take nothing away.
    let change = change(&beliefs, &chmod());
    learn(&beliefs, &early, &cut_inode(2));
    let under_way = hold(&beliefs);
    changed(
        &beliefs,
        &send(&beliefs, chmod()),
        change,
        &cut_inode(3).unwrap(),
    );
    beliefs.end_write(FILE, under_way);
    // A lease ends by its time.
    let late = now + 2 * pandofs_types::limits::LEASE;
    assert!(matches!(beliefs.begin_write(FILE, late), Begun::Ask));
    beliefs.asked_in_vain(FILE, late);
    assert!(matches!(beliefs.begin_write(FILE, late), Begun::Without));
}

#[test]
fn who_cuts_the_file_itself_writes_under_no_lease_from_before() {
    let beliefs = beliefs();
    let now = Boottime::now();
    let leased = |cuts| learn(&beliefs, &send(&beliefs, getattr()), &cut_inode(cuts));
    leased(3);
    let under_way = hold(&beliefs);
    let own = change(&beliefs, &chmod());
    let mut cut = send(&beliefs, chmod());
    cut.leased.clear();
    changed(&beliefs, &cut, own, &cut_inode(4).unwrap());
    beliefs.end_write(FILE, under_way);
    assert!(matches!(beliefs.begin_write(FILE, now), Begun::Ask));
    leased(4);
    assert_eq!(write(&beliefs), 4);
    // Nor where it is not known whether it did.
    let own = change(&beliefs, &chmod());
    beliefs.changed(own, None, None, now);
    assert!(matches!(beliefs.begin_write(FILE, now), Begun::Ask));
}

/// A question is answered, the thread that asked stands still, and another one of the same client cuts the file meanwhile.
#[test]
fn a_late_answer_leases_nothing_after_a_cut_of_ones_own() {
    let now = Boottime::now();
    let is_cut = |beliefs: &Beliefs, reply: Option<Reply>| {
        let own = change(beliefs, &chmod());
        let mut cut = send(beliefs, chmod());
        cut.leased.clear();
        beliefs.changed(own, reply.as_ref(), cut.told(), now);
    };
    let asks = |beliefs: &Beliefs| matches!(beliefs.begin_write(FILE, now), Begun::Ask);
    // The file is written to before the cut, or for the first time after it; the cut is answered or not.
    for (is_written, is_answered) in [(true, true), (true, false), (false, true)] {
        let beliefs = beliefs();
        if is_written {
            assert!(asks(&beliefs));
        }
        let late = send(&beliefs, getattr());
        is_cut(&beliefs, is_answered.then(|| cut_inode(4).unwrap()));
        assert!(asks(&beliefs));
        learn(&beliefs, &late, &cut_inode(3));
        assert!(asks(&beliefs), "{is_written} {is_answered}");
        learn(&beliefs, &send(&beliefs, getattr()), &cut_inode(4));
        assert_eq!(write(&beliefs), 4);
    }
}

/// It was cut, and that was not forced when the power failed.
#[test]
fn a_server_may_come_back_with_fewer_cuts() {
    let beliefs = beliefs();
    let now = Boottime::now();
    assert!(matches!(beliefs.begin_write(FILE, now), Begun::Ask));
    let own = change(&beliefs, &chmod());
    changed(
        &beliefs,
        &send(&beliefs, chmod()),
        own,
        &cut_inode(4).unwrap(),
    );
    let late = send(&beliefs, getattr());
    beliefs.lost(SERVER);
    beliefs.subscribed(SERVER, now);
    learn(&beliefs, &late, &cut_inode(4));
    assert!(matches!(beliefs.begin_write(FILE, now), Begun::Ask));
    // It is not believed, as it is being changed, and is leased all the same.
    let own = change(&beliefs, &chmod());
    learn(&beliefs, &send(&beliefs, getattr()), &cut_inode(3));
    assert_eq!(write(&beliefs), 3);
    beliefs.changed(own, cut_inode(3).ok().as_ref(), None, now);
    assert_eq!(write(&beliefs), 3);
}

/// The cut is not answered yet when a question is that was asked after it.
#[test]
fn who_writes_when_more_cuts_are_heard_of_was_under_no_lease_all_the_time() {
    let beliefs = beliefs();
    learn(&beliefs, &send(&beliefs, getattr()), &cut_inode(3));
    let under_way = hold(&beliefs);
    let own = change(&beliefs, &chmod());
    learn(&beliefs, &send(&beliefs, getattr()), &cut_inode(4));
    changed(
        &beliefs,
        &send(&beliefs, chmod()),
        own,
        &cut_inode(4).unwrap(),
    );
    beliefs.end_write(FILE, under_way);
    assert_eq!(write(&beliefs), 4);
}

/// Whether a recall has to wait for a write.
fn waits(beliefs: &Beliefs, keys: &[LeaseKey]) -> bool {
    beliefs.recall(keys, true).is_none()
}

#[test]
fn a_recall_waits_for_what_is_written_under_the_lease() {
    let beliefs = beliefs();
    learn(&beliefs, &send(&beliefs, getattr()), &cut_inode(3));
    let early = send(&beliefs, getattr());
    let (first, second) = (hold(&beliefs), hold(&beliefs));
    let keys = [LeaseKey::Inode(FILE)];
    let begun = || beliefs.begin_write(FILE, Boottime::now());
    let is_wanted = || matches!(begun(), Begun::Without);
    assert!(waits(&beliefs, &keys));
    assert!(is_wanted(), "a write begins after it was recalled");
    beliefs.end_write(FILE, first);
    assert!(waits(&beliefs, &keys));
    assert_eq!(mode(&beliefs), Some(0o644), "it is believed meanwhile");
    assert_eq!(beliefs.recalled(), 0);
    beliefs.end_write(FILE, second);
    assert!(!waits(&beliefs, &keys));
    assert_eq!((mode(&beliefs), beliefs.recalled()), (None, 1));
    assert!(matches!(begun(), Begun::Ask));
    // An answer that was on its way then leases nothing.
    learn(&beliefs, &early, &cut_inode(3));
    assert!(matches!(begun(), Begun::Ask));
    learn(&beliefs, &send(&beliefs, getattr()), &cut_inode(4));
    assert_eq!(write(&beliefs), 4);
    // One that takes longer is waited for no more.
    let slow = hold(&beliefs);
    recall(&beliefs, &keys);
    beliefs.end_write(FILE, slow);
    beliefs.forget_grip(FILE);
    assert!(beliefs.state().grips.is_empty());
}

/// An answer about this inode.
fn cut_inode_of(ino: Ino, cuts: u32) -> Result<Reply, Refusal> {
    let attr = Attr {
        ino,
        ..inode(0o644).attr
    };
    Ok(Reply::Inode(InodeReply {
        attr,
        cuts,
        ..inode(0o644)
    }))
}

/// A recall of two files waits for writes to the one, when a first write to the other begins.
#[test]
fn a_recall_waits_for_what_begins_while_it_waits() {
    const OTHER: Ino = Ino(6);
    let beliefs = beliefs();
    learn(&beliefs, &send(&beliefs, getattr()), &cut_inode(3));
    let asked = send(&beliefs, call(Request::GetAttr(op::GetAttr { ino: OTHER })));
    learn(&beliefs, &asked, &cut_inode_of(OTHER, 8));
    let first = hold(&beliefs);
    let keys = [LeaseKey::Inode(FILE), LeaseKey::Inode(OTHER)];
    assert!(waits(&beliefs, &keys));
    let other = hold_of(&beliefs, OTHER);
    beliefs.end_write(FILE, first);
    assert!(waits(&beliefs, &keys));
    beliefs.end_write(OTHER, other);
    assert!(!waits(&beliefs, &keys));
}

#[test]
fn with_very_many_files_written_to_they_are_looked_through_now_and_then() {
    let beliefs = beliefs();
    let now = Boottime::now();
    let mut holds = Vec::new();
    for serial in 1..=MAX_GRIPS as u64 {
        let ino = Ino(serial);
        let asked = send(&beliefs, call(Request::GetAttr(op::GetAttr { ino })));
        learn(&beliefs, &asked, &cut_inode_of(ino, 1));
        holds.push(hold_of(&beliefs, ino));
    }
    let begin = |after| beliefs.begin_write(Ino(0), now + after);
    assert!(matches!(begin(Duration::ZERO), Begun::Without));
    beliefs.end_write(Ino(1), holds.remove(0));
    recall(&beliefs, &[LeaseKey::Inode(Ino(1))]);
    assert!(matches!(begin(GRIP_IN_VAIN / 2), Begun::Without));
    assert!(matches!(begin(GRIP_IN_VAIN), Begun::Ask));
    // One that is closed makes room at once.
    assert!(matches!(beliefs.begin_write(Ino(1), now), Begun::Without));
    beliefs.forget_grip(Ino(0));
    assert!(matches!(beliefs.begin_write(Ino(1), now), Begun::Ask));
}
