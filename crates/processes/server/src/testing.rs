//! Helpers of several tests of this crate.

use crate::mailbox::{Mail, Mailbox};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long a test waits for what has to happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The receiving end of a mailbox without a lane.
pub(crate) struct Inbox {
    poll: RefCell<mio::Poll>,
    pub mailbox: Mailbox,
    taken: RefCell<VecDeque<Mail>>,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        let poll = mio::Poll::new().unwrap();
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).unwrap();
        Inbox {
            poll: RefCell::new(poll),
            mailbox: Mailbox::new(waker),
            taken: RefCell::new(VecDeque::new()),
        }
    }

    /// The next piece of mail; waits for it.
    pub(crate) fn next(&self) -> Mail {
        let deadline = Instant::now() + DEADLINE;
        let mut events = mio::Events::with_capacity(1);
        loop {
            if let Some(mail) = self.try_next() {
                return mail;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no mail came");
            self.poll
                .borrow_mut()
                .poll(&mut events, Some(left))
                .unwrap();
        }
    }

    /// The next piece of mail if there is one.
    pub(crate) fn try_next(&self) -> Option<Mail> {
        let mut taken = self.taken.borrow_mut();
        taken.extend(self.mailbox.take());
        taken.pop_front()
    }
}
