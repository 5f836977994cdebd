//! Leases that end while somebody waits for them, and those that are not given meanwhile.

use pandofs_leases::LeaseTable;
use pandofs_types::limits::LEASE;
use pandofs_types::{Ino, LeaseKey, SessionId, Steady, Term};

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const KEY: LeaseKey = LeaseKey::Inode(Ino(9));

/// Of the session that changes it nobody waits for the lease, and its end is nobody's end.
#[test]
fn the_end_of_a_lease_that_is_excepted_lets_nobody_go_on() {
    let mut table = LeaseTable::default();
    assert_eq!(table.grant(A, KEY, false), Some(Term::Long));
    table.tick(Steady(1));
    assert_eq!(table.grant(B, KEY, false), Some(Term::Long));
    let id = table.clear(&[(KEY, Some(A))]).expect("B has it");
    table.tick(Steady(0).after(LEASE));
    assert_eq!(table.len(), 1, "that of A is over");
    assert_eq!(table.take_clear(), []);
    table.tick(Steady(1).after(LEASE));
    assert_eq!(table.take_clear(), [id]);
}

#[test]
fn nothing_is_leased_while_the_table_is_closed() {
    let mut table = LeaseTable::default();
    assert!(table.close(), "there is nothing to end");
    assert_eq!(table.grant(A, KEY, false), None);
    assert!(table.close());
    table.open();
    assert_eq!(table.grant(A, KEY, false), Some(Term::Long));
}
