//! The end of a call: what a client learns by it, and what it does next.

use super::{Call, Client, Todo};
use crate::history::{History, Open};
use crate::program::Job;
use pandofs_api::{Refusal, Reply, Request, op};
use pandofs_types::FsError;

impl Client {
    /// A call has come to its end.
    pub(super) fn finished(
        &mut self,
        history: &mut History,
        worker: usize,
        mut call: Call,
        mut result: Result<Reply, FsError>,
        todo: &mut Vec<Todo>,
    ) {
        self.changed(&mut call, &result);
        if call.is_inner {
            return self.home_answered(history, worker, &call, result, todo);
        }
        if self.workers[worker].errand.is_some() {
            return self.errand_ended(history, worker, Some(result), todo);
        }
        if self.locked(&call, &result) {
            let target = call.progress.target;
            let asked_of = call.asked_of;
            self.call(worker, target, call.asked.request, call.open, false);
            if let Some(call) = self.workers[worker].calls.last_mut() {
                call.asked_of = asked_of;
            }
            todo.push(Todo::Send { worker, pause: 0 });
            return;
        }
        let asked_of = std::mem::take(&mut call.asked_of);
        if let Ok(reply) = &result {
            self.acknowledged(call.server, &call.asked.request, reply);
        }
        let may_be_lost = self.may_believe_what_is_lost();
        let answered = may_be_lost.then(|| result.clone());
        self.was_asked(asked_of, &call.asked.request, result.as_mut().ok());
        // An image has been put into it of what a server has forgotten.
        let is_believed = answered.is_some_and(|answered| answered != result);
        let is_gone = matches!(result, Err(FsError::Stale | FsError::NotFound));
        if let Err(what) = self.check_open(history, &call.asked.request, is_gone) {
            todo.push(Todo::Gone(what));
        }
        if let (Request::Open(op::Open { ino, .. }), Ok(_)) = (&call.asked.request, &result) {
            if let Some((target, request)) = self.opened(worker, &call, *ino) {
                self.call(worker, target, request, Open::default(), false);
                todo.push(Todo::Send { worker, pause: 0 });
                return;
            }
        } else if let (Request::Reopen(op::Reopen { opens }), Ok(_)) =
            (&call.asked.request, &result)
        {
            self.keep(worker, opens.iter().map(|(ino, _)| *ino));
        }
        let told = result.clone().map_err(Refusal::Fs);
        if let (Request::Sync(_), Ok(_)) = (&call.asked.request, &result)
            && let Some(ino) = self.workers[worker].job.as_ref().and_then(Job::syncs)
            && let Err(what) = history.synced(self.session, ino, &call.open)
        {
            todo.push(Todo::Early(what));
        }
        match is_believed {
            true => history.believed(call.open, &call.asked.request, &told, may_be_lost),
            false => history.end(call.open, &call.asked.request, &told),
        }
        match self.workers[worker].data.is_some() {
            true => {
                let heard = self.heard(result, call.server);
                self.go_on_with_data(history, worker, heard, todo);
            }
            false => self.go_on(history, worker, Some(result), todo),
        }
        self.begin_next(history, worker, todo);
        if self.early.is_some() {
            self.resume(history, todo);
        }
    }
}
