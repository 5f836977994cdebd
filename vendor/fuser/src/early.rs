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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;
    use std::sync::mpsc::sync_channel;

    use super::*;

    const REQUEST: RequestId = RequestId(7);

    /// A request that this thread begins to handle, and where its replies come out, as many as there are.
    fn handle() -> (impl Fn(RequestId) -> ReplyRaw, Receiver<()>) {
        let (replies, received) = sync_channel(8);
        begin(REQUEST, ReplySender::Sync(replies.clone()));
        let reply = move |unique| {
            <ReplyRaw as Reply>::new(unique, ReplySender::Sync(replies.clone()))
        };
        (reply, received)
    }

    #[test]
    fn what_is_answered_early_is_answered_once() {
        let (reply, received) = handle();
        assert!(!is_answered_early());
        assert!(answer_early(Errno::EINTR, || true));
        assert_eq!(received.try_iter().count(), 1);
        assert!(is_answered_early());
        assert!(!answer_early(Errno::EINTR, || panic!("it is answered")));
        reply(REQUEST).error(Errno::EIO);
        assert_eq!(received.try_iter().count(), 0);
        // Another thread's request, which this one answers, is none of its business.
        reply(RequestId(8)).error(Errno::EIO);
        assert_eq!(received.try_iter().count(), 1);
        end();
        assert!(!is_answered_early());
        reply(REQUEST).error(Errno::EIO);
        assert_eq!(received.try_iter().count(), 1);
    }

    #[test]
    fn what_is_not_to_be_answered_early_is_answered_in_the_end() {
        let (reply, received) = handle();
        assert!(!answer_early(Errno::EINTR, || false));
        assert!(!is_answered_early());
        assert_eq!(received.try_iter().count(), 0);
        reply(REQUEST).error(Errno::EIO);
        assert_eq!(received.try_iter().count(), 1);
        assert!(!answer_early(Errno::EINTR, || panic!("it is answered")));
        assert!(!is_answered_early());
        assert_eq!(received.try_iter().count(), 0);
        end();
        assert!(!answer_early(Errno::EINTR, || panic!("nothing is handled")));
    }
}
