//! Answers before the end of what was asked for.
//!
//! The program that waits for an answer may be killed, and what it asked for have to be done all the same. It is then
//! told that it was interrupted, and the thread goes on; its reply, of which the kernel knows nothing any more, is
//! swallowed.

use std::cell::RefCell;

use crate::Errno;
use crate::ll::RequestId;
use crate::reply::Reply;
use crate::reply::ReplyRaw;
use crate::reply::ReplySender;

/// The request that a thread handles.
struct Handled {
    unique: RequestId,
    /// By which to answer it early; `None` when it is answered.
    sender: Option<ReplySender>,
    is_early: bool,
}

thread_local! {
    static HANDLED: RefCell<Option<Handled>> = const { RefCell::new(None) };
}

/// This thread begins to handle a request.
pub(crate) fn begin(unique: RequestId, sender: ReplySender) {
    HANDLED.set(Some(Handled {
        unique,
        sender: Some(sender),
        is_early: false,
    }));
}

/// It has handled it.
pub(crate) fn end() {
    HANDLED.set(None);
}

/// A reply is about to be sent; false if it is to be swallowed.
pub(crate) fn may_send(unique: RequestId) -> bool {
    HANDLED.with_borrow_mut(|handled| match handled {
        Some(handled) if handled.unique == unique => {
            handled.sender = None;
            !handled.is_early
        }
        _ => true,
    })
}

/// Answers the request that this thread handles with an error, now; its reply is swallowed later. Only if `prepare`,
/// which is called before, says so, and it is not answered yet. False if it was not answered by this.
pub fn answer_early(error: Errno, prepare: impl FnOnce() -> bool) -> bool {
    let reply = HANDLED.with_borrow_mut(|handled| {
        let handled = handled.as_mut()?;
        if handled.sender.is_none() || !prepare() {
            return None;
        }
        handled.is_early = true;
        Some((handled.unique, handled.sender.take()?))
    });
    let Some((unique, sender)) = reply else {
        return false;
    };
    // Not as the reply of the thread's request, which it would have swallowed.
    let Some(handled) = HANDLED.take() else {
        return false;
    };
    <ReplyRaw as Reply>::new(unique, sender).error(error);
    HANDLED.set(Some(handled));
    true
}

/// Whether the request that this thread handles was answered by [`answer_early`]: nobody hears of what comes of it, and
/// the kernel keeps nothing that it would be given.
pub fn is_answered_early() -> bool {
    HANDLED.with_borrow(|handled| handled.as_ref().is_some_and(|handled| handled.is_early))
}
