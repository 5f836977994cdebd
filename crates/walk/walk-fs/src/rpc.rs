//! Requests that rank 0 answers for all processes of a walk, one after the other.
//!
//! Examples are which process was first, or where to write next.
//!
//! A worker that asks waits for the answer, so it has an item as long, and the walk does not end
//! meanwhile. The thread that speaks with the others never waits for an answer, at rank 0 either:
//! each request is always answered.

use crate::message::{self, Body, Envelope};
use crate::scheduler::Outbox;
use pandofs_walk::RankId;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Handler of requests at rank 0.
type Answerer = Box<dyn FnMut(&[u8]) -> Vec<u8> + Send>;

/// Asks rank 0.
#[derive(Clone)]
pub struct Rpc(Arc<Shared>);

struct Shared {
    /// At rank 0.
    answerer: Option<Mutex<Answerer>>,
    outbox: Arc<Outbox>,
    open: Mutex<Open>,
    answered: Condvar,
}

#[derive(Default)]
struct Open {
    last: u64,
    /// With their answers, if these have come.
    calls: HashMap<u64, Option<Vec<u8>>>,
    /// There are no more answers.
    closed: bool,
}

impl Rpc {
    pub(crate) fn new(answerer: Option<Answerer>, outbox: Arc<Outbox>) -> Rpc {
        Rpc(Arc::new(Shared {
            answerer: answerer.map(Mutex::new),
            outbox,
            open: Mutex::default(),
            answered: Condvar::new(),
        }))
    }

    /// Returns rank 0's answer, after a wait. For visitors. None when the walk has broken down.
    pub fn ask(&self, question: &[u8]) -> Option<Vec<u8>> {
        if let Some(answer) = self.answer(question) {
            return Some(answer);
        }
        let mut open = self.lock();
        open.last += 1;
        let number = open.last;
        open.calls.insert(number, None);
        // Whichever walk it is: see `Processes::open`.
        let envelope = Envelope {
            walk: 0,
            body: Body::Question { number, question },
        };
        self.0.outbox.post(RankId::ROOT, message::write(&envelope));
        loop {
            if open.closed {
                return None;
            }
            if let Some(Some(_)) = open.calls.get(&number) {
                return open.calls.remove(&number).flatten();
            }
            let woken = self.0.answered.wait(open);
            open = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// At rank 0.
    pub(crate) fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let answerer = self.0.answerer.as_ref()?;
        let mut answerer = answerer.lock().unwrap_or_else(PoisonError::into_inner);
        Some(answerer(question))
    }

    /// An answer has come; whether there was such a question.
    pub(crate) fn answered(&self, number: u64, answer: &[u8]) -> bool {
        let mut open = self.lock();
        let Some(question) = open.calls.get_mut(&number) else {
            return false;
        };
        *question = Some(answer.to_vec());
        self.0.answered.notify_all();
        true
    }

    /// Ends the waits of all threads.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.0.answered.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rpc")
    }
}
