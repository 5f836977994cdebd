//! Time that a thread has waited for servers, to tell why something took long.
//!
//! It belongs to the thread as its [cancellation](crate::Cancellation) does, and for the same reason.

use pandofs_types::ServerId;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

thread_local! {
    static WAITED: RefCell<Vec<(ServerId, Duration)>> = const { RefCell::new(Vec::new()) };
    /// The server that it waits for, and since when.
    static WAITS_FOR: Cell<Option<(ServerId, Instant)>> = const { Cell::new(None) };
}

/// Begins an operation of this thread: nothing of it has waited yet.
pub(crate) fn begin() {
    with_waited(Vec::clear);
    WAITS_FOR.set(None);
}

/// The thread waits for this server, and has since this moment.
pub(crate) fn waits_for(server: ServerId, since: Instant) {
    WAITS_FOR.set(Some((server, since)));
}

/// It has waited so long for it, and waits no longer.
pub(crate) fn add(server: ServerId, time: Duration) {
    WAITS_FOR.set(None);
    with_waited(|waited| add_to(waited, server, time));
}

/// Programs write what is left in their buffers when they end, after this thread's values are gone: nobody asks any more
/// where their time went.
fn with_waited(act: impl FnOnce(&mut Vec<(ServerId, Duration)>)) {
    let _ = WAITED.try_with(|waited| act(&mut waited.borrow_mut()));
}

fn add_to(waited: &mut Vec<(ServerId, Duration)>, server: ServerId, time: Duration) {
    match waited.iter_mut().find(|(of, _)| *of == server) {
        Some((_, sum)) => *sum += time,
        None => waited.push((server, time)),
    }
}

/// How long the operation of this thread that [`set_cancellation`](crate::set_cancellation) began has waited for each
/// server, and the server that it waits for now.
pub fn waited_for_servers() -> (Vec<(ServerId, Duration)>, Option<ServerId>) {
    let mut waited = WAITED.with_borrow(Clone::clone);
    let now = WAITS_FOR.get();
    if let Some((server, since)) = now {
        add_to(&mut waited, server, since.elapsed());
    }
    (waited, now.map(|(server, _)| server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_time_until_the_next_operation() {
        let (first, second) = (ServerId(1), ServerId(2));
        let one = Duration::from_secs(1);
        begin();
        waits_for(first, Instant::now());
        add(first, one);
        add(second, one);
        add(first, one);
        let (waited, now) = waited_for_servers();
        assert_eq!(
            (&waited[..], now),
            (&[(first, 2 * one), (second, one)][..], None)
        );
        let since = Instant::now().checked_sub(3 * one).unwrap();
        waits_for(second, since);
        let (waited, now) = waited_for_servers();
        assert_eq!(now, Some(second), "what is not over counts, too");
        assert!(waited[1].1 >= 4 * one, "{waited:?}");
        let other = std::thread::spawn(waited_for_servers);
        assert_eq!(other.join().unwrap(), (Vec::new(), None));
        begin();
        assert_eq!(waited_for_servers(), (Vec::new(), None));
    }
}
