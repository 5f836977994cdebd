//! Replay of a recording by any number of clients.

use super::schedule::Schedule;
use crate::op::Kind;
use crate::target::{Target, TargetError};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// Results that differ of which is said how.
const TOLD: usize = 10;

/// The results of a replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Replayed {
    /// Done, with whatever outcome.
    pub operations: u64,
    /// Without the preparation.
    pub seconds: f64,
    /// Operations that failed as they had, or as they had not.
    pub differing: BTreeMap<Kind, u64>,
    /// The first of them.
    pub examples: Vec<String>,
}

struct Progress<'s> {
    schedule: &'s Schedule,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    ready: BinaryHeap<Reverse<u32>>,
    /// Of each operation, in how many rows it is not its turn yet.
    missing: Vec<u32>,
    /// Of each row, which group's turn it is, and how many of it are not done.
    turns: Vec<(usize, usize)>,
    undone: usize,
    result: Replayed,
}

/// Does a recording: each operation when all is done that it depends on, by whichever target is
/// free. An operation whose result is not the recorded one is counted.
///
/// # Errors
/// When what was there before cannot be made; when a client's thread panicked.
///
/// # Panics
/// Without a target.
pub fn replay_recording(
    schedule: &Schedule,
    targets: &mut [Box<dyn Target>],
) -> Result<Replayed, TargetError> {
    let Some(first) = targets.first_mut() else {
        panic!("there are no clients");
    };
    for op in &schedule.prepare {
        first.perform(op)?;
    }
    let begun = Instant::now();
    let progress = Progress::new(schedule);
    thread::scope(|scope| {
        let clients: Vec<_> = targets
            .iter_mut()
            .map(|target| scope.spawn(|| progress.work(target.as_mut())))
            .collect();
        let mut ended = Ok(());
        for client in clients {
            ended = ended.and(client.join().map_err(|_| TargetError::Panicked));
        }
        ended
    })?;
    let state = progress
        .state
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    Ok(Replayed {
        operations: schedule.steps.len() as u64,
        seconds: begun.elapsed().as_secs_f64(),
        ..state.result
    })
}

impl Progress<'_> {
    fn new(schedule: &Schedule) -> Progress<'_> {
        let waits =
            |own: &Vec<(u32, u32)>| own.iter().filter(|(_, group)| *group > 0).count() as u32;
        let missing: Vec<u32> = schedule.touches.iter().map(waits).collect();
        let ready = (0..).zip(&missing).filter(|(_, missing)| **missing == 0);
        let first = |row: &Vec<Vec<u32>>| (0, row.first().map_or(0, Vec::len));
        Progress {
            schedule,
            state: Mutex::new(State {
                ready: ready.map(|(number, _)| Reverse(number)).collect(),
                missing,
                turns: schedule.rows.iter().map(first).collect(),
                undone: schedule.steps.len(),
                result: Replayed::default(),
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, target: &mut dyn Target) {
        let _leaving = Leaving(self);
        while let Some(number) = self.next() {
            let step = &self.schedule.steps[number as usize];
            let result = target.perform(&step.op);
            let came = result.as_ref().err().map(TargetError::errno);
            let differs = match result {
                _ if came == step.error.map(Some) => None,
                Ok(()) => Some(format!("{} of {} went well", step.op.op, step.op.path)),
                Err(error) => Some(error.to_string()),
            };
            let differs = differs.map(|said| match step.error {
                None => format!("{said}; when it was recorded it went well"),
                Some(error) => {
                    let error = std::io::Error::from_raw_os_error(error);
                    format!("{said}; when it was recorded: {error}")
                }
            });
            self.done(number, differs);
        }
    }

    /// `None` when all is done.
    fn next(&self) -> Option<u32> {
        let mut state = self.lock();
        loop {
            if let Some(Reverse(number)) = state.ready.pop() {
                return Some(number);
            }
            if state.undone == 0 {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, number: u32, differs: Option<String>) {
        let mut locked = self.lock();
        let state = &mut *locked;
        let before = state.ready.len();
        if let Some(said) = differs {
            let kind = self.schedule.steps[number as usize].op.op;
            *state.result.differing.entry(kind).or_default() += 1;
            if state.result.examples.len() < TOLD {
                state.result.examples.push(said);
            }
        }
        for &(row, _) in &self.schedule.touches[number as usize] {
            let groups = &self.schedule.rows[row as usize];
            let turn = &mut state.turns[row as usize];
            turn.1 -= 1;
            if turn.1 > 0 {
                continue;
            }
            turn.0 += 1;
            let Some(next) = groups.get(turn.0) else {
                continue;
            };
            turn.1 = next.len();
            for &waiting in next {
                let missing = &mut state.missing[waiting as usize];
                *missing -= 1;
                if *missing == 0 {
                    state.ready.push(Reverse(waiting));
                }
            }
        }
        state.undone -= 1;
        if state.undone == 0 {
            self.changed.notify_all();
        } else {
            // This thread takes one of them. Of hundreds that wait no more are woken than have something to do.
            for _ in before + 1..state.ready.len() {
                self.changed.notify_one();
            }
        }
    }
}

/// A client that panics leaves its operation undone, which others would wait for.
struct Leaving<'p, 's>(&'p Progress<'s>);

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let mut state = self.0.lock();
            state.undone = 0;
            state.ready.clear();
            self.0.changed.notify_all();
        }
    }
}
