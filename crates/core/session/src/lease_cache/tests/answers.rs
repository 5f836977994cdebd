//! Answers and changes: who is answered, what a change takes from the cache, and what its answer brings.

use super::*;
use crate::lease_cache::is_same;
use pandofs_types::Capabilities;

const OTHER: Ino = Ino(6);

fn rename() -> ShardRequest {
    call(Request::Rename(op::Rename {
        dir: DIR,
        name: name(),
        new_dir: DIR,
        new_name: Name::new(b"b").unwrap(),
        new_shard: ShardId(0),
        no_replace: false,
        whiteout: false,
    }))
}

fn exchange() -> ShardRequest {
    call(Request::Exchange(op::Exchange {
        dir: DIR,
        name: name(),
        new_dir: DIR,
        new_name: Name::new(b"b").unwrap(),
        new_shard: ShardId(0),
    }))
}

fn link() -> ShardRequest {
    call(Request::Link(op::Link {
        dir: DIR,
        name: name(),
        ino: FILE,
        inode_shard: ShardId(0),
    }))
}

fn inode_of(ino: Ino) -> InodeReply {
    let attr = Attr {
        ino,
        ..inode(0o644).attr
    };
    InodeReply {
        attr,
        ..inode(0o644)
    }
}

fn learn_inode(lease_cache: &Cache, ino: Ino) {
    let asked = send(lease_cache, call(Request::GetAttr(op::GetAttr { ino })));
    learn(lease_cache, &asked, &Ok(Reply::Inode(inode_of(ino))));
}

fn knows(lease_cache: &Cache, inos: [Ino; 2]) -> [bool; 2] {
    inos.map(|ino| lease_cache.borrow().attr(ino).is_some())
}

#[test]
fn nothing_is_cached_before_leases_are_taken() {
    let lease_cache = RefCell::new(LeaseCache::new(HashKey(1, 2)));
    lease_cache.borrow_mut().subscribed(SERVER, now());
    learn(&lease_cache, &send(&lease_cache, lookup()), &entry(0o644));
    assert!(lease_cache.borrow_mut().change(&chmod().request).is_none());
    lease_cache.borrow_mut().begin(true);
    assert!(!found(&lease_cache));
    assert_eq!(lease_cache.borrow().kept(), 0);
    assert!(lease_cache.borrow_mut().change(&chmod().request).is_some());
    let asked = getattr();
    assert!(lease_cache.borrow_mut().change(&asked.request).is_none());
}

/// The kernel of a mount checks who may search which directory; the library has no kernel.
#[test]
fn where_nobody_checks_names_are_answered_to_those_alone_who_may_search_everything() {
    let lease_cache = lease_cache();
    learn(&lease_cache, &send(&lease_cache, lookup()), &entry(0o644));
    let answers = |capabilities| {
        let asked = ShardRequest {
            caller: Credentials {
                capabilities,
                ..Credentials::default()
            },
            ..lookup()
        };
        answer(&lease_cache, &asked).is_some()
    };
    assert!(answers(Capabilities::NONE));
    lease_cache.borrow_mut().begin(false);
    let capabilities = [
        Capabilities::NONE,
        Capabilities::CHOWN,
        Capabilities::DAC_OVERRIDE,
        Capabilities::DAC_READ_SEARCH,
    ];
    assert_eq!(capabilities.map(answers), [false, false, true, true]);
    assert_eq!(mode(&lease_cache), Some(0o644), "attributes are anybody's");
    assert_eq!(lease_cache.borrow().answered(), 4);
}

/// Two names whose hashes are one have one key.
#[test]
fn a_name_is_not_answered_for_another_one_of_the_same_position() {
    let lease_cache = lease_cache();
    learn(&lease_cache, &send(&lease_cache, lookup()), &entry(0o644));
    let key = entry_key(&lease_cache);
    let other = Name::new(b"b").unwrap();
    let until = |name: &Name, ino| lease_cache.borrow().entry_until(key, name, ino);
    let end = Some(now() + Term::Long.believed_for());
    assert_eq!(until(&name(), Some(FILE)), end);
    assert_eq!(until(&name(), Some(OTHER)), None);
    assert_eq!(until(&other, Some(FILE)), None);
    let no_name = LeaseKey::Inode(FILE);
    let cache = lease_cache.borrow();
    assert_eq!(cache.entry_until(no_name, &name(), Some(FILE)), None);
    drop(cache);
    for entry in lease_cache.borrow_mut().state.entries.values_mut() {
        entry.name = other.clone();
    }
    assert!(!found(&lease_cache));
}

#[test]
fn only_what_is_leased_of_an_answer_is_cached() {
    let both = Leased::ENTRY.and(Leased::ATTRIBUTES);
    for leased in [Leased::NOTHING, Leased::ENTRY, Leased::ATTRIBUTES, both] {
        let lease_cache = lease_cache();
        let mut asked = send(&lease_cache, lookup());
        asked.leased = vec![leased];
        learn(&lease_cache, &asked, &entry(0o644));
        let known = (found(&lease_cache), mode(&lease_cache).is_some());
        let expected = (leased.has(Leased::ENTRY), leased.has(Leased::ATTRIBUTES));
        assert_eq!(known, expected, "{leased:?}");
    }
    let lease_cache = lease_cache();
    let mut asked = send(&lease_cache, lookup());
    asked.leased.clear();
    learn(&lease_cache, &asked, &entry(0o644));
    assert_eq!(lease_cache.borrow().kept(), 0);
}

/// A link adds a name, and another one that leads there stays what it is.
#[test]
fn who_takes_a_name_away_changes_what_it_led_to() {
    for (request, is_taken) in [(unlink(), true), (rename(), true), (link(), false)] {
        let lease_cache = lease_cache();
        learn_inode(&lease_cache, OTHER);
        let leads_to_other = Ok(Reply::Entry(EntryReply {
            ino: OTHER,
            kind: FileKind::File,
            shard: ShardId(0),
            inode: None,
        }));
        learn(&lease_cache, &send(&lease_cache, lookup()), &leads_to_other);
        assert!(found(&lease_cache));
        let _under_way = change(&lease_cache, &request);
        assert!(!found(&lease_cache));
        let known = lease_cache.borrow().attr(OTHER).is_some();
        assert_eq!(known, !is_taken, "{request:?}");
    }
}

#[test]
fn the_answer_of_a_change_names_what_else_is_not_current_any_more() {
    let answers = [
        (unlink(), Reply::Removed { ino: FILE }, [false, true]),
        (rename(), Reply::Renamed { ino: FILE }, [false, true]),
        (
            exchange(),
            Reply::Exchanged {
                ino: FILE,
                other: OTHER,
            },
            [false, false],
        ),
        (unlink(), Reply::Done, [true, true]),
    ];
    for (request, reply, known) in answers {
        let lease_cache = lease_cache();
        learn_inode(&lease_cache, FILE);
        learn_inode(&lease_cache, OTHER);
        let late = send(&lease_cache, getattr());
        let own = change(&lease_cache, &request);
        let asked = send(&lease_cache, request);
        changed(&lease_cache, &asked, own, &reply);
        assert_eq!(knows(&lease_cache, [FILE, OTHER]), known, "{reply:?}");
        learn(&lease_cache, &late, &Ok(Reply::Inode(inode_of(FILE))));
        assert_eq!(knows(&lease_cache, [FILE, OTHER]), known, "late");
    }
}

/// Attributes after the change are cached by its answer, unless others may have changed them since.
#[test]
fn the_answer_of_a_change_is_cached_unless_something_was_heard_meanwhile() {
    let lost = |lease_cache: &Cache| {
        lease_cache.borrow_mut().lost(SERVER);
        lease_cache.borrow_mut().subscribed(SERVER, now());
    };
    let recalled = |lease_cache: &Cache| {
        let key = LeaseKey::Inode(FILE);
        let own = lease_cache.borrow_mut().recall(&[key], true);
        assert_eq!(own, Some(vec![key]), "it is being changed");
    };
    type Meanwhile<'m> = &'m dyn Fn(&Cache);
    let cases: [(Meanwhile<'_>, Option<u16>); 3] =
        [(&|_| {}, Some(0o600)), (&lost, None), (&recalled, None)];
    for (number, (meanwhile, expected)) in cases.into_iter().enumerate() {
        let lease_cache = lease_cache();
        let own = change(&lease_cache, &chmod());
        let asked = send(&lease_cache, chmod());
        meanwhile(&lease_cache);
        // The request may have been sent once more after that.
        let asked = Asked {
            sent: lease_cache.borrow().sent(now()),
            ..asked
        };
        let answer = Reply::Inode(inode(0o600));
        changed(&lease_cache, &asked, own, &answer);
        assert_eq!(mode(&lease_cache), expected, "{number}");
        assert!(lease_cache.borrow().state.changing.is_empty());
    }
}

/// The inode of the new name may have been changed by others since.
#[test]
fn a_new_name_and_its_inode_are_cached_each_if_nothing_was_heard_of_it() {
    let create = || {
        call(Request::Mkdir(op::Mkdir {
            dir: DIR,
            name: name(),
            mode: 0o755,
            umask: 0,
        }))
    };
    for (recalls, known) in [(None, true), (Some(LeaseKey::Inode(FILE)), false)] {
        let lease_cache = lease_cache();
        let own = change(&lease_cache, &create());
        let asked = send(&lease_cache, create());
        if let Some(key) = recalls {
            recall(&lease_cache, &[key]);
        }
        changed(&lease_cache, &asked, own, &entry(0o644).unwrap());
        assert!(found(&lease_cache));
        assert_eq!(mode(&lease_cache).is_some(), known);
    }
}

/// A file without a name, and its attributes in the same answer.
#[test]
fn an_answer_that_is_about_no_name_brings_attributes() {
    let lease_cache = lease_cache();
    let asked = send(&lease_cache, getattr());
    learn(&lease_cache, &asked, &entry(0o644));
    assert_eq!(mode(&lease_cache), Some(0o644));
    assert_eq!(lease_cache.borrow().kept(), 1);
}

#[test]
fn reads_that_were_reported_are_counted_in() {
    let lease_cache = lease_cache();
    learn_inode(&lease_cache, FILE);
    learn_inode(&lease_cache, OTHER);
    let atimes = |rule, at| {
        let reads = [(FILE, Time(at)), (Ino(99), Time(at))];
        lease_cache.borrow_mut().accessed(&reads, rule);
        [FILE, OTHER].map(|ino| lease_cache.borrow().attr(ino).unwrap().0.atime)
    };
    assert_eq!(atimes(AtimeRule::Relative, 5), [Time(5), Time(0)]);
    assert_eq!(atimes(AtimeRule::Relative, 7), [Time(5), Time(0)]);
    assert_eq!(atimes(AtimeRule::Strict, 8), [Time(8), Time(0)]);
}

#[test]
fn times_of_access_and_space_make_no_difference() {
    let one = inode(0o644).attr;
    let read = Attr {
        atime: Time(9),
        ..one.clone()
    };
    let sparse = Attr {
        blocks: 9,
        ..one.clone()
    };
    let changed = Attr {
        ctime: Time(9),
        ..one.clone()
    };
    let same = [&one, &read, &sparse, &changed].map(|other| is_same(&one, other));
    assert_eq!(same, [true, true, true, false]);
}

/// An answer is old if something has come since its request was sent.
#[test]
fn recalls_changes_and_losses_are_events() {
    let lease_cache = lease_cache();
    let events = || lease_cache.borrow().events();
    let begun = events();
    recall(&lease_cache, &[LeaseKey::Inode(FILE)]);
    assert_eq!(events(), begun + 1);
    let own = change(&lease_cache, &chmod());
    assert_eq!(events(), begun + 2);
    let answer = Reply::Inode(inode(0o600));
    changed(&lease_cache, &send(&lease_cache, chmod()), own, &answer);
    assert_eq!(events(), begun + 3);
    lease_cache.borrow_mut().lost(SERVER);
    assert_eq!(events(), begun + 4);
    learn(&lease_cache, &send(&lease_cache, lookup()), &entry(0o644));
    assert_eq!(events(), begun + 4, "an answer makes nothing old");
}

/// The one that is answered first may have been executed last, whichever began first.
#[test]
fn the_answer_of_a_change_is_not_cached_while_another_one_is_under_way() {
    let lease_cache = lease_cache();
    let first = change(&lease_cache, &chmod());
    let second = change(&lease_cache, &chmod());
    let answer = Reply::Inode(inode(0o600));
    changed(&lease_cache, &send(&lease_cache, chmod()), second, &answer);
    assert_eq!(mode(&lease_cache), None);
    changed(&lease_cache, &send(&lease_cache, chmod()), first, &answer);
    assert_eq!(mode(&lease_cache), None);
    let third = change(&lease_cache, &chmod());
    changed(&lease_cache, &send(&lease_cache, chmod()), third, &answer);
    assert_eq!(mode(&lease_cache), Some(0o600));
}
