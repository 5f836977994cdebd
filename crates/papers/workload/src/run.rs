//! Clients of a run, and the clock over them.

use crate::plan::Plan;
use crate::target::{Target, TargetError};
use std::thread;
use std::time::{Duration, Instant};

/// The results of a phase; phases of one name together.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseResult {
    /// As the plan has it.
    pub name: String,
    /// Of all clients.
    pub operations: u64,
    /// From the first client's beginning to the last one's end.
    pub seconds: f64,
    /// Microseconds of an operation: half of them took at most this long, 99 of 100, and the
    /// longest.
    pub median_us: f64,
    /// Microseconds.
    pub p99_us: f64,
    /// Microseconds.
    pub most_us: f64,
}

impl PhaseResult {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }
}

/// Runs a plan; one target for each client.
///
/// # Errors
/// The first operation's that failed.
///
/// # Panics
/// When there are not as many targets as the plan has clients.
pub fn run(plan: &Plan, targets: &mut [Box<dyn Target>]) -> Result<Vec<PhaseResult>, TargetError> {
    let mut phases: Vec<(String, f64, Vec<u32>)> = Vec::new();
    for phase in &plan.phases {
        assert_eq!(
            phase.clients.len(),
            targets.len(),
            "clients without a target"
        );
        let begun = Instant::now();
        let waits = thread::scope(|scope| {
            let working: Vec<_> = phase
                .clients
                .iter()
                .zip(targets.iter_mut())
                .map(|(ops, target)| {
                    scope.spawn(move || -> Result<Vec<u32>, TargetError> {
                        let mut waits = Vec::with_capacity(ops.len());
                        for op in ops {
                            let asked = Instant::now();
                            target.perform(op)?;
                            waits.push(tenths(asked.elapsed()));
                        }
                        Ok(waits)
                    })
                })
                .collect();
            let mut all = Vec::new();
            for client in working {
                all.extend(client.join().map_err(|_| TargetError::Panicked)??);
            }
            Ok::<_, TargetError>(all)
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        match phases.iter_mut().find(|(name, _, _)| *name == phase.name) {
            Some((_, before, all)) => {
                *before += seconds;
                all.extend(waits);
            }
            None => phases.push((phase.name.clone(), seconds, waits)),
        }
    }
    Ok(phases
        .into_iter()
        .map(|(name, seconds, waits)| result(name, seconds, waits))
        .collect())
}

/// Tenths of a microsecond, up to 7 minutes.
fn tenths(wait: Duration) -> u32 {
    u32::try_from(wait.as_nanos() / 100).unwrap_or(u32::MAX)
}

fn result(name: String, seconds: f64, mut waits: Vec<u32>) -> PhaseResult {
    waits.sort_unstable();
    let at = |share: f64| {
        let last = waits.len().saturating_sub(1);
        let which = (waits.len() as f64 * share) as usize;
        waits
            .get(which.min(last))
            .map_or(0.0, |&wait| f64::from(wait) / 10.0)
    };
    PhaseResult {
        name,
        operations: waits.len() as u64,
        seconds,
        median_us: at(0.5),
        p99_us: at(0.99),
        most_us: at(1.0),
    }
}
