//! Limits of the cache: room for entries, ends that are waited for, and events that are remembered.

use super::*;
use crate::lease_cache::REMEMBERED_EVENTS;
use crate::limits::LEASE_ENDS_PER_LEASE;
use hashbrown::HashMap;
use pandofs_types::limits::LEASE;

fn small(leases: usize, write_leases: usize) -> Cache {
    let mut lease_cache = LeaseCache::within(HashKey(1, 2), leases, write_leases);
    lease_cache.begin(true);
    lease_cache.subscribed(SERVER, now());
    RefCell::new(lease_cache)
}

fn name_of(number: usize) -> Name {
    Name::new(number.to_string().as_bytes()).unwrap()
}

fn ask_name(number: usize) -> ShardRequest {
    let name = name_of(number);
    call(Request::Lookup(op::Lookup { dir: DIR, name }))
}

/// Learns, at that time, that there is no such name.
fn learn_absent(lease_cache: &Cache, number: usize, at: Boottime) {
    let mut asked = send(lease_cache, ask_name(number));
    asked.sent.at = at;
    let absent = Err(FsError::NotFound.into());
    lease_cache.borrow_mut().learn(asked.grant(), &absent, at);
}

/// Whether the name's absence is cached at that time.
fn knows(lease_cache: &Cache, number: usize, at: Boottime) -> bool {
    let target = Target::Shard(ShardId(0));
    let answer = lease_cache
        .borrow_mut()
        .answer(target, &ask_name(number), at);
    answer.is_some()
}

#[test]
fn no_more_names_are_cached_than_there_is_room_for() {
    let lease_cache = small(3, 0);
    for number in 0..4 {
        learn_absent(&lease_cache, number, now());
    }
    let known = [0, 1, 2, 3].map(|number| knows(&lease_cache, number, now()));
    assert_eq!(known, [true, true, true, false]);
    assert_eq!(lease_cache.borrow().kept(), 3);
    learn(
        &lease_cache,
        &send(&lease_cache, getattr()),
        &Ok(Reply::Inode(inode(0o644))),
    );
    assert_eq!(lease_cache.borrow().kept(), 4, "attributes are beside them");
    // One that is recalled makes room.
    let key = lease_cache.borrow().entry_key(DIR, &name_of(1));
    recall(&lease_cache, &[key]);
    learn_absent(&lease_cache, 3, now());
    assert!(knows(&lease_cache, 3, now()));
}

#[test]
fn no_more_ends_are_waited_for_than_the_limit_says() {
    let most = 2;
    let lease_cache = small(most, 0);
    let key = lease_cache.borrow().entry_key(DIR, &name_of(1));
    for _ in 0..LEASE_ENDS_PER_LEASE * most {
        learn_absent(&lease_cache, 1, now());
        assert!(knows(&lease_cache, 1, now()));
        recall(&lease_cache, &[key]);
    }
    learn_absent(&lease_cache, 1, now());
    assert!(!knows(&lease_cache, 1, now()));
    let later = now() + LEASE;
    learn_absent(&lease_cache, 1, later);
    assert!(knows(&lease_cache, 1, later));
}

#[test]
fn nothing_is_answered_when_its_time_is_over() {
    let lease_cache = lease_cache();
    learn(&lease_cache, &send(&lease_cache, lookup()), &entry(0o644));
    let answers = |at| {
        let target = Target::Shard(ShardId(0));
        let mut cache = lease_cache.borrow_mut();
        [lookup(), getattr()].map(|asked| cache.answer(target, &asked, at).is_some())
    };
    let end = now() + Term::Long.believed_for();
    assert_eq!(answers(end - Duration::from_nanos(1)), [true; 2]);
    assert_eq!(answers(end), [false; 2]);
    let state = &mut lease_cache.borrow_mut().state;
    state.drop_ended(end - Duration::from_nanos(1));
    assert_eq!((state.entries.len(), state.inodes.len()), (1, 1));
    state.drop_ended(end);
    assert_eq!((state.entries.len(), state.inodes.len()), (0, 0));
}

/// The name of a file is answered for longer than its attributes.
#[test]
fn a_name_is_answered_without_attributes_that_are_over() {
    let lease_cache = lease_cache();
    let leased = [
        (lookup(), Leased::ENTRY, entry(0o644)),
        (
            getattr(),
            Leased::ATTRIBUTES.within(Term::Short),
            Ok(Reply::Inode(inode(0o644))),
        ),
    ];
    for (request, leased, reply) in leased {
        let mut asked = send(&lease_cache, request);
        asked.leased = vec![leased];
        learn(&lease_cache, &asked, &reply);
    }
    let attributes = |at| {
        let target = Target::Shard(ShardId(0));
        let answer = lease_cache.borrow_mut().answer(target, &lookup(), at);
        match answer.expect("the name is leased") {
            Ok(Reply::Entry(entry)) => entry.inode,
            other => panic!("{other:?}"),
        }
    };
    let end = now() + Term::Short.believed_for();
    assert_eq!(
        attributes(end - Duration::from_nanos(1)),
        Some(inode(0o644))
    );
    assert_eq!(attributes(end), None);
}

/// A lease that is given anew later, or by another server, has nothing to do with the one before.
#[test]
fn of_two_leases_of_one_server_the_longer_one_counts() {
    const OTHER: ServerId = ServerId(4);
    let lease_cache = lease_cache();
    lease_cache.borrow_mut().subscribed(OTHER, now());
    let told = |server, after, term| {
        let mut asked = send(&lease_cache, getattr());
        asked.sent.at = now() + after;
        asked.leased = vec![Leased::ATTRIBUTES.within(term)];
        let grant = LeaseGrant {
            server,
            ..asked.grant()
        };
        let reply = Ok(Reply::Inode(inode(0o644)));
        lease_cache.borrow_mut().learn(grant, &reply, now());
        lease_cache.borrow().attr(FILE).unwrap().1
    };
    let second = Duration::from_secs(1);
    let (long, short) = (Term::Long.believed_for(), Term::Short.believed_for());
    assert_eq!(told(SERVER, Duration::ZERO, Term::Long), now() + long);
    assert_eq!(told(SERVER, second, Term::Short), now() + long);
    assert_eq!(told(SERVER, second, Term::Long), now() + second + long);
    assert_eq!(told(OTHER, Duration::ZERO, Term::Short), now() + short);
}

#[test]
fn a_table_that_becomes_large_is_given_room_for_all_of_it_at_once() {
    let most = 1_600;
    let lease_cache = small(most, 0);
    let capacity = |names: std::ops::Range<usize>| {
        for number in names {
            learn_absent(&lease_cache, number, now());
        }
        lease_cache.borrow().state.entries.capacity()
    };
    // One of a sixteenth of it is large, and is not given more before it is full.
    let large = most / 16;
    assert!(capacity(0..large) < 2 * large);
    assert!(capacity(large..large + 5) < 2 * large);
    let capacity = capacity(large + 5..2 * large);
    assert!((most..2 * most).contains(&capacity), "{capacity}");
}

/// Of what was heard before that, nobody knows whether it was recalled since.
#[test]
fn so_many_events_are_remembered_and_what_is_older_is_not_believed() {
    let lease_cache = lease_cache();
    let other = |number: usize| LeaseKey::Inode(Ino(1_000 + number as u64));
    let learns = |asked: &Asked| {
        learn(&lease_cache, asked, &Ok(Reply::Inode(inode(0o644))));
        let is_known = mode(&lease_cache).is_some();
        lease_cache.borrow_mut().state.forget(LeaseKey::Inode(FILE));
        is_known
    };
    let first = send(&lease_cache, getattr());
    for number in 0..REMEMBERED_EVENTS {
        recall(&lease_cache, &[other(number)]);
    }
    assert!(learns(&first));
    recall(&lease_cache, &[other(0)]);
    assert!(!learns(&first), "the oldest is forgotten");
    assert!(learns(&send(&lease_cache, getattr())));
    // The file is recalled twice, and the first time is forgotten.
    recall(&lease_cache, &[LeaseKey::Inode(FILE)]);
    let between = send(&lease_cache, getattr());
    recall(&lease_cache, &[LeaseKey::Inode(FILE)]);
    for number in 0..REMEMBERED_EVENTS - 1 {
        recall(&lease_cache, &[other(number)]);
    }
    assert!(!learns(&between));
    assert!(matches!(
        lease_cache.borrow_mut().begin_write(FILE, now()),
        Begun::Ask
    ));
    for number in 0..REMEMBERED_EVENTS {
        recall(&lease_cache, &[other(REMEMBERED_EVENTS + number)]);
    }
    let state = &lease_cache.borrow().state;
    assert_eq!(state.heard.len(), REMEMBERED_EVENTS);
    assert_eq!(state.recalled.len(), REMEMBERED_EVENTS);
    assert_eq!(state.heard_order.len(), REMEMBERED_EVENTS);
}

/// A table that is fuller than half, and in which much comes and goes, doubles.
#[test]
fn events_that_are_remembered_are_half_of_what_a_table_holds() {
    let table: HashMap<u64, u64> = HashMap::with_capacity(2 * REMEMBERED_EVENTS);
    assert_eq!(table.capacity(), 2 * REMEMBERED_EVENTS);
    assert!((16_384..=32_768).contains(&(2 * REMEMBERED_EVENTS)));
}

/// Of what came before the change nothing is asked; of what came after it all has to be remembered.
#[test]
fn the_answer_of_a_change_is_cached_if_all_is_remembered_that_came_since() {
    for (recalls, expected) in [
        (REMEMBERED_EVENTS, Some(0o600)),
        (REMEMBERED_EVENTS + 1, None),
    ] {
        let lease_cache = lease_cache();
        let own = change(&lease_cache, &chmod());
        for number in 0..recalls as u64 {
            recall(&lease_cache, &[LeaseKey::Inode(Ino(1_000 + number))]);
        }
        let answer = Reply::Inode(inode(0o600));
        changed(&lease_cache, &send(&lease_cache, chmod()), own, &answer);
        assert_eq!(mode(&lease_cache), expected, "{recalls}");
    }
}
