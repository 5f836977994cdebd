//! For whom a thread makes its calls, and whether they still wait.
//!
//! A call to a server that is away goes on until the server is back, which may be never. Two things must not come
//! of that: that a program cannot be killed, and that programs which need other servers find nobody to take their
//! requests. So whoever makes calls for others says so for its thread, and is told from time to time that a call
//! waits.
//!
//! What changes something and may have reached a server is not given up: the server would do it whenever it goes on,
//! after what others have done in the meantime (the beginning of an old copy of a file, over the new one), and what it
//! opened nobody would close. So an operation that has come so far goes on to its end, as if it was waited for; the asker
//! is told, to let go whoever waits.
//!
//! It is the thread that has an asker and not the call, because one thread makes one call at a time, with others in
//! the course of it, and because what runs beside (writes that were answered before, reports, pings) must go on when
//! the program is killed whose write it was.

use pandofs_types::limits::ASKER_INTERVAL;
use std::cell::Cell;
use std::time::Duration;

/// Whoever the calls of a thread are made for.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// What [`Asker::wait_on`] is given.
    pub id: u32,
    /// Called on the thread of a call that has waited for [`ASKER_INTERVAL`], and again about as often as that. False:
    /// nobody wants the answer any more, and the call ends with [`GivenUp`](crate::ClientError::GivenUp), if it may.
    pub wait_on: fn(u32) -> bool,
    /// Called when it may not: the operation goes on to its end, and nobody need wait for that. Called again as
    /// `wait_on` is.
    pub goes_on: fn(u32),
}

thread_local! {
    static ASKER: Cell<Option<Asker>> = const { Cell::new(None) };
    /// What is under way is to be done whoever waits for it.
    static TO_THE_END: Cell<bool> = const { Cell::new(false) };
    /// The asker was told that it is.
    static FOR_NOBODY: Cell<bool> = const { Cell::new(false) };
}

/// Whom the calls of this thread are for from now on, in another operation than before; `None` waits for ever, as a
/// thread does that never said.
pub fn ask_for(asker: Option<Asker>) {
    ASKER.set(asker);
    TO_THE_END.set(false);
    FOR_NOBODY.set(false);
}

/// Who asks on this thread, if that was said.
pub(crate) fn current() -> Option<u32> {
    ASKER.get().map(|asker| asker.id)
}

/// Whether this thread's operation goes on though nobody wants what comes of it.
pub(crate) fn goes_on_for_nobody() -> bool {
    FOR_NOBODY.get()
}

/// A server may do from now on what this thread asks for, so that it is to be done to its end.
pub(crate) fn cannot_be_given_up() {
    TO_THE_END.set(true);
}

/// Does something that is not given up, as what was answered before it was done. (A write of 1 MiB is answered, the
/// program is killed, and with it its write: the file keeps its old bytes, and nobody was told.) Askers still hear
/// that it waits.
pub(crate) fn to_the_end<T>(work: impl FnOnce() -> T) -> T {
    let before = TO_THE_END.replace(true);
    let result = work();
    TO_THE_END.set(before);
    result
}

/// Whether a call of this thread that has waited for `waited` is to go on.
pub(crate) fn waits_on(waited: Duration) -> bool {
    if waited < ASKER_INTERVAL {
        return true;
    }
    let Some(asker) = ASKER.get() else {
        return true;
    };
    if (asker.wait_on)(asker.id) {
        return true;
    }
    let goes_on = TO_THE_END.get();
    if goes_on {
        FOR_NOBODY.set(true);
        (asker.goes_on)(asker.id);
    }
    goes_on
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    thread_local! {
        static HEARD: Cell<u32> = const { Cell::new(0) };
        static WENT_ON: Cell<u32> = const { Cell::new(0) };
    }

    fn ask_for_number(id: u32) {
        ask_for(Some(Asker {
            id,
            wait_on: |id| {
                HEARD.set(HEARD.get() + 1);
                id % 2 == 1
            },
            goes_on: |id| WENT_ON.set(WENT_ON.get() + id),
        }));
    }

    #[test]
    fn a_thread_goes_on_until_its_asker_does_not() {
        assert!(waits_on(ASKER_INTERVAL), "nobody was named");
        ask_for_number(2);
        assert!(waits_on(ASKER_INTERVAL / 2), "it has not waited for long");
        assert!(!waits_on(ASKER_INTERVAL));
        thread::scope(|scope| {
            scope.spawn(|| assert!(waits_on(ASKER_INTERVAL), "it is for another thread's"));
        });
        ask_for_number(3);
        assert!(waits_on(ASKER_INTERVAL));
        ask_for(None);
        assert!(waits_on(ASKER_INTERVAL));
        assert_eq!(WENT_ON.get(), 0);
    }

    #[test]
    fn what_was_answered_is_done_whoever_waits() {
        ask_for_number(8);
        assert!(to_the_end(|| waits_on(ASKER_INTERVAL)));
        assert!(to_the_end(
            || to_the_end(|| true) && waits_on(ASKER_INTERVAL)
        ));
        assert_eq!(HEARD.get(), 2, "askers hear of it");
        assert_eq!(WENT_ON.get(), 16);
        assert!(!waits_on(ASKER_INTERVAL));
    }

    #[test]
    fn what_may_have_reached_a_server_is_done_until_the_next_operation() {
        ask_for_number(4);
        cannot_be_given_up();
        assert!(!goes_on_for_nobody());
        assert!(waits_on(ASKER_INTERVAL));
        assert!(to_the_end(|| true) && waits_on(ASKER_INTERVAL));
        assert_eq!(WENT_ON.get(), 8);
        assert!(goes_on_for_nobody());
        ask_for_number(4);
        assert!(!goes_on_for_nobody());
        assert!(!waits_on(ASKER_INTERVAL));
        ask_for(None);
    }
}
