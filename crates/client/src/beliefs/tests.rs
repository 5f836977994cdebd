use super::*;
use crate::call::Call;
use crate::pool::Server;
use pandofs_api::FileBody;
use pandofs_placement::ServerInfo;
use pandofs_types::limits::{BRIEF_LEASE, MANY_CACHED_LEASES};
use pandofs_types::{Credentials, FileKind, Leased, SetAttr};
use std::sync::Arc;

const DIR: Ino = Ino(1);
const FILE: Ino = Ino(5);
const SERVER: ServerId = ServerId(3);

fn beliefs() -> Beliefs {
    let beliefs = Beliefs::new(HashKey(1, 2));
    beliefs.begin(true);
    beliefs.subscribed(SERVER, Instant::now());
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
    call(Request::Lookup { dir, name })
}

fn unlink() -> Call<'static> {
    let (dir, name) = (DIR, name());
    call(Request::Unlink { dir, name })
}

fn getattr() -> Call<'static> {
    call(Request::GetAttr { ino: FILE })
}

fn chmod() -> Call<'static> {
    let set = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    call(Request::SetAttr { ino: FILE, set })
}

fn send(beliefs: &Beliefs, mut call: Call<'static>) -> Call<'static> {
    let info = ServerInfo {
        id: SERVER,
        addresses: vec!["unix:/run/pandofs/3".to_owned()],
        weight: ServerInfo::WEIGHT_ONE,
        domain: String::new(),
    };
    call.sent = Some(beliefs.sent(Instant::now()));
    call.answered_by = Some((Arc::new(Server::new(&info).unwrap()), 1));
    call.leased = vec![Leased::ENTRY.and(Leased::ATTRIBUTES)];
    call
}

fn answer(beliefs: &Beliefs, call: &Call) -> Option<Result<Reply, Refusal>> {
    let asked = call.shard_request().unwrap();
    beliefs.answer(call.target, asked, Instant::now())
}

fn learn(beliefs: &Beliefs, call: &Call, answer: &Result<Reply, Refusal>) {
    beliefs.learn(call.told().unwrap(), answer, Instant::now());
}

fn change(beliefs: &Beliefs, call: &Call) -> Change {
    let request = &call.shard_request().unwrap().request;
    beliefs.change(request).unwrap()
}

fn changed(beliefs: &Beliefs, call: &Call, change: Change, reply: &Reply) {
    let now = Instant::now();
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
    beliefs.recall(&[LeaseKey::Inode(FILE)]);
    assert!(found(&beliefs));
    assert_eq!(mode(&beliefs), None);
    beliefs.recall(&[entry_key(&beliefs)]);
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
    beliefs.recall(&[entry_key(&beliefs)]);
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
    beliefs.subscribed(SERVER, Instant::now());
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
        let asked = send(&beliefs, call(Request::GetAttr { ino }));
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
        let asked = send(&beliefs, call(Request::GetAttr { ino }));
        learn(&beliefs, &asked, &Ok(Reply::Inode(inode)));
        beliefs.state().inodes[&ino].until
    };
    let begun = Instant::now();
    let many = MANY_CACHED_LEASES as u64;
    for serial in 1..=many {
        assert!(learn(serial, FileKind::File) > begun + BRIEF_LEASE);
    }
    let brief = learn(many + 1, FileKind::File);
    assert!(brief < Instant::now() + BRIEF_LEASE);
    assert!(learn(many + 2, FileKind::Dir) > begun + BRIEF_LEASE);
    // When it is over there is room, and what is believed for longer stays.
    let mut state = beliefs.state();
    state.drop_ended(brief);
    assert_eq!(state.inodes.len(), MANY_CACHED_LEASES + 1);
}
