//! No two owners believe to have locks of one kind on one byte of a file of which one is exclusive.

use super::Finding;
use crate::client::Client;
use pandofs_types::LockMode;

pub(super) fn check(clients: &[&Client]) -> Result<(), Finding> {
    let mut all = Vec::new();
    for client in clients {
        let locks = client.sure_locks().into_iter();
        all.extend(locks.map(|(ino, lock)| (ino, client.session, lock)));
    }
    for (place, (ino, session, lock)) in all.iter().enumerate() {
        for (other_ino, other_session, other) in &all[place + 1..] {
            let is_other = (session, lock.owner) != (other_session, other.owner);
            let is_exclusive = [lock.mode, other.mode].contains(&LockMode::Exclusive);
            if ino == other_ino
                && is_other
                && is_exclusive
                && lock.kind == other.kind
                && lock.range.overlaps(other.range)
            {
                return Err(Finding::new(
                    "file-locks",
                    format!(
                        "{ino}: session {session} has {lock:?} and {other_session} has {other:?}"
                    ),
                ));
            }
        }
    }
    Ok(())
}
