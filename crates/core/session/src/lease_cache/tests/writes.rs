//! Write leases beside other ones, at the ends of their time and where there is no room for them.

use super::*;

const OTHER: Ino = Ino(6);

fn of(request_of: Ino) -> ShardRequest {
    call(Request::GetAttr(op::GetAttr { ino: request_of }))
}

fn small(write_leases: usize) -> Cache {
    let mut lease_cache = LeaseCache::within(HashKey(1, 2), 100, write_leases);
    lease_cache.begin(true);
    lease_cache.subscribed(SERVER, now());
    RefCell::new(lease_cache)
}

/// Leases the attributes of a file that was truncated so often.
fn lease(lease_cache: &Cache, ino: Ino, truncations: u32) {
    let asked = send(lease_cache, of(ino));
    learn(lease_cache, &asked, &truncate_inode_of(ino, truncations));
}

fn begin(lease_cache: &Cache, ino: Ino, at: Boottime) -> Begun {
    lease_cache.borrow_mut().begin_write(ino, at)
}

fn asks(lease_cache: &Cache, ino: Ino, at: Boottime) -> bool {
    matches!(begin(lease_cache, ino, at), Begun::Ask)
}

fn is_without(lease_cache: &Cache, ino: Ino, at: Boottime) -> bool {
    matches!(begin(lease_cache, ino, at), Begun::Without)
}

#[test]
fn no_write_begins_under_a_lease_that_is_over_or_before_it_is_asked_for_again() {
    let lease_cache = lease_cache();
    lease(&lease_cache, FILE, 3);
    assert_eq!(write(&lease_cache), 3);
    let end = now() + Term::Long.believed_for();
    let just_before = end - Duration::from_nanos(1);
    match begin(&lease_cache, FILE, just_before) {
        Begun::Held(hold) => lease_cache.borrow_mut().end_write(FILE, hold),
        other => panic!("{other:?}"),
    }
    assert!(asks(&lease_cache, FILE, end));
    lease_cache.borrow_mut().asked_in_vain(FILE, end);
    let again = end + WRITE_LEASE_RETRY;
    assert!(is_without(
        &lease_cache,
        FILE,
        again - Duration::from_nanos(1)
    ));
    assert!(asks(&lease_cache, FILE, again));
}

#[test]
fn without_leases_every_write_waits() {
    let lease_cache = RefCell::new(LeaseCache::new(HashKey(1, 2)));
    assert!(is_without(&lease_cache, FILE, now()));
    lease_cache.borrow_mut().begin(true);
    assert!(asks(&lease_cache, FILE, now()));
}

/// The answer to the own change leases nothing; it has cut nothing away either.
#[test]
fn a_change_that_truncates_nothing_leaves_the_lease() {
    let lease_cache = lease_cache();
    lease(&lease_cache, FILE, 3);
    assert_eq!(write(&lease_cache), 3);
    let own = change(&lease_cache, &chmod());
    let mut unleased = send(&lease_cache, chmod());
    unleased.leased.clear();
    changed(&lease_cache, &unleased, own, &truncate_inode(3).unwrap());
    assert_eq!(write(&lease_cache), 3);
}

#[test]
fn a_recall_waits_for_each_of_several_files() {
    let lease_cache = lease_cache();
    lease(&lease_cache, FILE, 3);
    lease(&lease_cache, OTHER, 8);
    let (first, second) = (hold(&lease_cache), hold_of(&lease_cache, OTHER));
    let keys = [LeaseKey::Inode(FILE), LeaseKey::Inode(OTHER)];
    assert!(waits(&lease_cache, &keys));
    lease_cache.borrow_mut().end_write(FILE, first);
    assert!(waits(&lease_cache, &keys));
    lease_cache.borrow_mut().end_write(OTHER, second);
    assert!(!waits(&lease_cache, &keys));
    assert_eq!(lease_cache.borrow().recalled(), 2);
}

#[test]
fn only_what_is_neither_leased_nor_written_makes_room() {
    let lease_cache = small(2);
    lease(&lease_cache, FILE, 3);
    lease(&lease_cache, OTHER, 8);
    let under_way = hold(&lease_cache);
    let leased = hold_of(&lease_cache, OTHER);
    lease_cache.borrow_mut().end_write(OTHER, leased);
    // It is written to, though no longer under a lease.
    recall(&lease_cache, &[LeaseKey::Inode(FILE)]);
    let third = Ino(7);
    assert!(is_without(&lease_cache, third, now()));
    let leased = hold_of(&lease_cache, OTHER);
    lease_cache.borrow_mut().end_write(OTHER, leased);
    lease_cache.borrow_mut().forget_write_lease(FILE);
    let end = now() + Term::Long.believed_for();
    let just_before = end - Duration::from_nanos(1);
    assert!(is_without(&lease_cache, third, just_before));
    // The lease of the second file is over, and the first one is written to still.
    let later = just_before + WRITE_LEASE_RETRY;
    assert!(asks(&lease_cache, third, later));
    assert!(is_without(&lease_cache, OTHER, later));
    lease_cache.borrow_mut().end_write(FILE, under_way);
    lease_cache.borrow_mut().forget_write_lease(FILE);
    assert!(asks(&lease_cache, OTHER, later));
}

#[test]
fn a_lease_that_is_just_over_makes_room() {
    let lease_cache = small(1);
    lease(&lease_cache, FILE, 3);
    assert_eq!(write(&lease_cache), 3);
    let end = now() + Term::Long.believed_for();
    assert!(asks(&lease_cache, OTHER, end));
}

#[test]
fn what_another_server_leased_is_no_longer_term_of_this_ones_lease() {
    const ELSEWHERE: ServerId = ServerId(4);
    let lease_cache = lease_cache();
    lease_cache.borrow_mut().subscribed(ELSEWHERE, now());
    lease(&lease_cache, FILE, 3);
    assert_eq!(write(&lease_cache), 3);
    // The file is found on another server, which was brought back with fewer truncations.
    let mut asked = send(&lease_cache, getattr());
    asked.leased = vec![Leased::ATTRIBUTES.within(Term::Short)];
    let grant = LeaseGrant {
        server: ELSEWHERE,
        ..asked.grant()
    };
    lease_cache
        .borrow_mut()
        .learn(grant, &truncate_inode(2), now());
    assert_eq!(write(&lease_cache), 2);
    let end = now() + Term::Short.believed_for();
    assert!(asks(&lease_cache, FILE, end));
    // And the other way round: what one server lost is not what the other one leased.
    lease_cache.borrow_mut().lost(SERVER);
    assert_eq!(write(&lease_cache), 2);
    lease_cache.borrow_mut().lost(ELSEWHERE);
    assert!(asks(&lease_cache, FILE, now()));
}
