//! Directories and listings: parts on several shards, and until when they are believed.

use super::*;
use crate::lease_cache::{Listed, ListedUntil};
use pandofs_api::{DirEntry, DirReply, DirSettings, EntriesReply};
use pandofs_placement::DirMap;
use std::time::Duration;

/// Where the directory was made.
const HOME: ShardId = ShardId(0);

fn part(entries: u64) -> DirPart {
    DirPart {
        entries,
        subdirs: 0,
        mtime: Time(0),
        ctime: Time(0),
        map: DirMap::single(HOME),
    }
}

fn dir_inode() -> InodeReply {
    let settings = DirSettings::default();
    let (map, parent) = (DirMap::single(HOME), Ino(2));
    InodeReply {
        attr: Attr {
            ino: DIR,
            kind: FileKind::Dir,
            ..inode(0o755).attr
        },
        dir: Some(Box::new(DirReply {
            map,
            parent,
            settings,
        })),
        ..inode(0o755)
    }
}

fn ask_part(shard: u16) -> ShardRequest {
    ShardRequest {
        shard: ShardId(shard),
        ..call(Request::DirPart(op::DirPart { dir: DIR }))
    }
}

fn ask_dir() -> ShardRequest {
    call(Request::GetAttr(op::GetAttr { ino: DIR }))
}

/// Its answer to who asks this shard.
fn part_of(lease_cache: &Cache, shard: u16, at: Boottime) -> Option<u64> {
    let target = Target::Shard(ShardId(shard));
    let answer = lease_cache
        .borrow_mut()
        .answer(target, &ask_part(shard), at)?;
    match answer {
        Ok(Reply::Part(part)) => Some(part.entries),
        other => panic!("{other:?}"),
    }
}

/// Learns that this shard has so many entries.
fn learn_part(lease_cache: &Cache, shard: u16, entries: u64, term: Term) {
    let mut asked = send(lease_cache, ask_part(shard));
    asked.leased = vec![Leased::ATTRIBUTES.within(term)];
    learn(lease_cache, &asked, &Ok(Reply::Part(part(entries))));
}

fn learn_dir(lease_cache: &Cache, term: Term) {
    let mut asked = send(lease_cache, ask_dir());
    asked.leased = vec![Leased::ATTRIBUTES.within(term)];
    learn(lease_cache, &asked, &Ok(Reply::Inode(dir_inode())));
}

fn believed(term: Term) -> Boottime {
    now() + term.believed_for()
}

fn dir_until(lease_cache: &Cache, shards: &[u16]) -> Option<Boottime> {
    let shards: Vec<_> = shards.iter().copied().map(ShardId).collect();
    lease_cache.borrow().dir_until(DIR, &shards)
}

/// Entries of the parts beside the home's, and until when all is believed.
fn whole_dir(lease_cache: &Cache, shards: &[u16]) -> Option<(Vec<u64>, Boottime)> {
    let shards: Vec<_> = shards.iter().copied().map(ShardId).collect();
    let (reply, others, until) = lease_cache.borrow().inode(DIR, &shards)?;
    assert_eq!(reply, dir_inode());
    Some((others.iter().map(|part| part.entries).collect(), until))
}

#[test]
fn each_shard_answers_for_its_part_until_that_is_over() {
    let lease_cache = lease_cache();
    learn_part(&lease_cache, 1, 10, Term::Long);
    learn_part(&lease_cache, 2, 20, Term::Short);
    let parts = |at| [1, 2, 3].map(|shard| part_of(&lease_cache, shard, at));
    assert_eq!(parts(now()), [Some(10), Some(20), None]);
    let of_name = Target::Inode(DIR);
    let answer = lease_cache
        .borrow_mut()
        .answer(of_name, &ask_part(1), now());
    assert_eq!(answer, None, "that is no one shard's part");
    assert_eq!(lease_cache.borrow().answered(), 2);
    assert_eq!(parts(believed(Term::Short)), [Some(10), None, None]);
    assert_eq!(parts(believed(Term::Long)), [None; 3]);
    // A newer answer of the same shard takes the place of the older one.
    learn_part(&lease_cache, 1, 11, Term::Long);
    assert_eq!(parts(now()), [Some(11), Some(20), None]);
    assert_eq!(lease_cache.borrow().state.parts[&DIR].len(), 2);
    recall(&lease_cache, &[LeaseKey::Parts(DIR)]);
    assert_eq!(parts(now()), [None; 3]);
}

#[test]
fn a_directory_is_known_when_all_its_parts_are() {
    let lease_cache = lease_cache();
    learn_dir(&lease_cache, Term::Long);
    assert_eq!(
        whole_dir(&lease_cache, &[0]),
        Some((vec![], believed(Term::Long)))
    );
    assert_eq!(whole_dir(&lease_cache, &[0, 1]), None);
    learn_part(&lease_cache, 1, 10, Term::Short);
    learn_part(&lease_cache, 2, 20, Term::Long);
    assert_eq!(
        whole_dir(&lease_cache, &[0, 2, 1]),
        Some((vec![20, 10], believed(Term::Short)))
    );
    assert_eq!(whole_dir(&lease_cache, &[0, 1, 3]), None);
    assert_eq!(lease_cache.borrow().attr(DIR), None, "not from one shard");
    recall(&lease_cache, &[LeaseKey::Parts(DIR)]);
    assert_eq!(whole_dir(&lease_cache, &[0]), None, "its home has a part");
}

#[test]
fn a_file_is_known_by_itself() {
    let lease_cache = lease_cache();
    assert_eq!(lease_cache.borrow().inode(FILE, &[]), None);
    learn(
        &lease_cache,
        &send(&lease_cache, getattr()),
        &Ok(Reply::Inode(inode(0o644))),
    );
    let cache = lease_cache.borrow();
    let until = believed(Term::Long);
    assert_eq!(
        cache.inode(FILE, &[ShardId(7)]),
        Some((inode(0o644), vec![], until))
    );
    assert_eq!(cache.attr(FILE), Some((inode(0o644).attr, until)));
    assert_eq!(cache.attr(DIR), None);
}

#[test]
fn a_directory_is_believed_for_as_long_as_every_shard_has_leased_it() {
    let lease_cache = lease_cache();
    assert_eq!(dir_until(&lease_cache, &[0]), None);
    learn_dir(&lease_cache, Term::Long);
    learn_part(&lease_cache, 1, 10, Term::Short);
    let (long, short) = (believed(Term::Long), believed(Term::Short));
    assert_eq!(dir_until(&lease_cache, &[0]), Some(long));
    assert_eq!(dir_until(&lease_cache, &[0, 1]), Some(short));
    assert_eq!(dir_until(&lease_cache, &[0, 1, 2]), None);
    // A newer lease of the same shard takes the place of the older one.
    learn_part(&lease_cache, 1, 10, Term::Long);
    assert_eq!(dir_until(&lease_cache, &[1, 0]), Some(long));
    for key in [LeaseKey::Inode(DIR), LeaseKey::Parts(DIR)] {
        learn_dir(&lease_cache, Term::Long);
        learn_part(&lease_cache, 1, 10, Term::Long);
        assert_eq!(dir_until(&lease_cache, &[0, 1]), Some(long));
        let late = send(&lease_cache, ask_dir());
        recall(&lease_cache, &[key]);
        assert_eq!(dir_until(&lease_cache, &[0]), None);
        assert_eq!(dir_until(&lease_cache, &[1]), None);
        learn(&lease_cache, &late, &Ok(Reply::Inode(dir_inode())));
        assert_eq!(dir_until(&lease_cache, &[0]), None, "it was recalled since");
    }
    // The attributes of a file, or of a directory without a lease, are none of a directory's.
    learn(
        &lease_cache,
        &send(&lease_cache, getattr()),
        &Ok(Reply::Inode(inode(0o644))),
    );
    let mut unleased = send(&lease_cache, ask_dir());
    unleased.leased = vec![Leased::ENTRY];
    learn(&lease_cache, &unleased, &Ok(Reply::Inode(dir_inode())));
    assert!(lease_cache.borrow().state.dirs.is_empty());
}

#[test]
fn what_is_over_of_a_directory_is_dropped_when_something_is_learnt() {
    let lease_cache = lease_cache();
    learn_dir(&lease_cache, Term::Short);
    learn_part(&lease_cache, 1, 10, Term::Short);
    learn_part(&lease_cache, 2, 20, Term::Long);
    let held = |at| {
        let state = &mut lease_cache.borrow_mut().state;
        state.drop_ended(at);
        let parts = state.parts.values().flatten();
        let parts: Vec<u64> = parts.map(|part| part.part.entries).collect();
        let dirs = state.dirs.values().flatten();
        let dirs: Vec<u16> = dirs.map(|lease| lease.shard.0).collect();
        (state.inodes.len(), parts, dirs)
    };
    let before = |until: Boottime| until - Duration::from_nanos(1);
    let all = (1, vec![10, 20], vec![0, 1, 2]);
    let of_one = (0, vec![20], vec![2]);
    assert_eq!(held(before(believed(Term::Short))), all);
    assert_eq!(held(believed(Term::Short)), of_one);
    assert_eq!(held(before(believed(Term::Long))), of_one);
    assert_eq!(held(believed(Term::Long)), (0, vec![], vec![]));
    let state = &lease_cache.borrow().state;
    assert!(state.parts.is_empty() && state.dirs.is_empty());
    assert!(state.ends.iter().all(VecDeque::is_empty));
}

/// A home's part is changed by what changes the other parts.
#[test]
fn a_directory_whose_names_are_changing_is_not_cached() {
    let lease_cache = lease_cache();
    let own = change(&lease_cache, &unlink());
    learn_dir(&lease_cache, Term::Long);
    learn_part(&lease_cache, 1, 10, Term::Long);
    assert_eq!(whole_dir(&lease_cache, &[0]), None);
    assert_eq!(part_of(&lease_cache, 1, now()), None);
    // It is leased all the same: others ask before they change it.
    let until = Some(believed(Term::Long));
    assert_eq!(dir_until(&lease_cache, &[0, 1]), until);
    // A recall is told what is being changed.
    let keys = [LeaseKey::Inode(DIR), LeaseKey::Parts(DIR)];
    let recalled = lease_cache.borrow_mut().recall(&keys, true);
    assert_eq!(recalled, Some(vec![LeaseKey::Parts(DIR)]));
    lease_cache.borrow_mut().changed(own, None, None, now());
    learn_dir(&lease_cache, Term::Long);
    assert!(whole_dir(&lease_cache, &[0]).is_some());
}

#[test]
fn what_another_server_leased_stays_when_one_is_lost() {
    const OTHER: ServerId = ServerId(4);
    let lease_cache = lease_cache();
    lease_cache.borrow_mut().subscribed(OTHER, now());
    let learn_of = |server, asked: Asked, reply: Reply| {
        let grant = LeaseGrant {
            server,
            ..asked.grant()
        };
        lease_cache.borrow_mut().learn(grant, &Ok(reply), now());
    };
    let asks = |request| send(&lease_cache, request);
    learn_of(SERVER, asks(ask_part(1)), Reply::Part(part(10)));
    learn_of(OTHER, asks(ask_part(2)), Reply::Part(part(20)));
    learn_of(OTHER, asks(getattr()), Reply::Inode(inode(0o644)));
    learn_of(SERVER, asks(lookup()), entry(0o644).unwrap());
    let hold = hold(&lease_cache);
    lease_cache.borrow_mut().end_write(FILE, hold);
    let until = Some(believed(Term::Long));
    assert_eq!(dir_until(&lease_cache, &[1, 2]), until);
    lease_cache.borrow_mut().lost(OTHER);
    assert_eq!(
        [1, 2].map(|s| part_of(&lease_cache, s, now())),
        [Some(10), None]
    );
    assert_eq!(dir_until(&lease_cache, &[1]), until);
    assert_eq!(dir_until(&lease_cache, &[2]), None);
    assert!(found(&lease_cache));
    lease_cache.borrow_mut().lost(SERVER);
    assert!(!found(&lease_cache));
    let state = &lease_cache.borrow().state;
    assert!(state.parts.is_empty() && state.dirs.is_empty());
}

/// A name that leads to the file, as a listing has it.
fn listed(name: &Name, attr: Option<&Attr>) -> DirEntry {
    let position = HashKey(1, 2).position(name.as_bytes());
    DirEntry {
        name: name.clone(),
        position,
        ino: FILE,
        kind: FileKind::File,
        shard: HOME,
        inode: attr.map(|attr| InodeReply {
            attr: attr.clone(),
            ..inode(0o644)
        }),
    }
}

#[test]
fn each_entry_of_a_listing_is_believed_as_it_is_leased() {
    let lease_cache = lease_cache();
    let names = [b"a", b"b", b"c"].map(|name| Name::new(name).unwrap());
    let attr = inode(0o644).attr;
    let inodes = [Some(&attr), None, None];
    let entries = names.iter().zip(inodes);
    let entries = entries.map(|(name, attr)| listed(name, attr)).collect();
    let mut asked = send(
        &lease_cache,
        call(Request::ReadDir(op::ReadDir {
            dir: DIR,
            from: Position::FIRST,
            plus: true,
            max_entries: 10,
            max_bytes: 1_000,
        })),
    );
    let both = Leased::ENTRY.and(Leased::ATTRIBUTES);
    asked.leased = vec![both, Leased::ENTRY.within(Term::Short), Leased::NOTHING];
    let reply = Reply::Entries(EntriesReply {
        entries,
        next: Position::END,
        map: DirMap::single(HOME),
        parent: None,
        dir: DIR,
    });
    learn(&lease_cache, &asked, &Ok(reply));
    let until = |name: &Name, ino, attr| {
        let cache = lease_cache.borrow();
        let key = cache.entry_key(DIR, name);
        let entry = Listed {
            key,
            name,
            ino,
            attr,
        };
        let ListedUntil { name, attr } = cache.listed_until(entry);
        (name, attr)
    };
    let (long, short) = (Some(believed(Term::Long)), Some(believed(Term::Short)));
    let [a, b, c] = &names;
    assert_eq!(until(a, FILE, Some(&attr)), (long, long));
    assert_eq!(until(a, FILE, None), (long, None));
    let other_size = Attr {
        size: 7,
        ..attr.clone()
    };
    assert_eq!(until(a, FILE, Some(&other_size)), (long, None));
    assert_eq!(until(b, FILE, Some(&attr)), (short, long), "a hard link");
    assert_eq!(until(c, FILE, None), (None, None), "it is not leased");
    assert_eq!(until(a, Ino(6), Some(&attr)), (None, None));
    // Of a directory the listing has a part only.
    learn_dir(&lease_cache, Term::Long);
    let of_dir = dir_inode().attr;
    assert_eq!(until(a, DIR, Some(&of_dir)), (None, None));
}
