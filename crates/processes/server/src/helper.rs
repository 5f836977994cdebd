//! Threads beside the lane.

use crate::error::ServerError;
use crate::mailbox::{Mail, Mailbox};
use std::io;
use std::thread::{self, JoinHandle};

/// Starts a thread that runs `work`. If it panics, the lane gets a report and stops: what the
/// thread was to do would otherwise be waited for without end.
///
/// # Errors
/// The system's.
pub(crate) fn spawn(
    name: &'static str,
    mailbox: &Mailbox,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let alarm = Alarm {
        name,
        mailbox: mailbox.clone(),
    };
    thread::Builder::new()
        .name(format!("pandofs-{name}"))
        .spawn(move || {
            let _alarm = alarm;
            work();
        })
}

struct Alarm {
    name: &'static str,
    mailbox: Mailbox,
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            self.mailbox.post(Mail::Failed(ServerError::HelperPanicked {
                name: self.name,
            }));
        }
    }
}

/// Waits for threads whose work has ended or is about to. A panic was reported by the thread itself.
pub(crate) fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        let _ = thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Inbox;

    #[test]
    fn a_panic_reaches_the_lane() {
        let inbox = Inbox::new();
        let thread = spawn("test", &inbox.mailbox, || panic!("on purpose")).unwrap();
        join(vec![thread]);
        let mail = inbox.next();
        let Mail::Failed(ServerError::HelperPanicked { name: "test" }) = mail else {
            panic!("{mail:?}");
        };
    }
}
