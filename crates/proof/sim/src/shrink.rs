//! The smallest scenario that fails in the same way: parts of its lists are left out as long as it still does.

use crate::scenario::Scenario;
use crate::{Finding, Trace, run};

/// Leaves out what is not needed for `finding`'s oracle to find something. Runs the scenario at most `runs` times.
pub fn shrink(scenario: &Scenario, finding: &Finding, runs: usize) -> (Scenario, Finding) {
    let mut best = (scenario.clone(), finding.clone());
    let mut left = runs;
    let mut chunk = scenario.len().div_ceil(2);
    while chunk > 0 {
        let mut removed_any = false;
        let mut start = 0;
        while start < best.0.len() && left > 0 {
            let candidate = without(&best.0, start, chunk);
            left -= 1;
            match run(&candidate, Trace::none()).result {
                Err(found) if found.oracle == finding.oracle => {
                    best = (candidate, found);
                    removed_any = true;
                }
                _ => start += chunk,
            }
        }
        if left == 0 {
            break;
        }
        // A step that was needed once may not be needed any more.
        if chunk > 1 || !removed_any {
            chunk /= 2;
        }
    }
    best
}

/// Faults come first: without one there is often little left to explain.
fn without(scenario: &Scenario, start: usize, count: usize) -> Scenario {
    let mut smaller = scenario.clone();
    let faults = scenario.faults.len();
    let end = start + count;
    if start < faults {
        smaller.faults.drain(start..end.min(faults));
    }
    if end > faults {
        let first = start.max(faults) - faults;
        let last = (end - faults).min(scenario.ops.len());
        smaller.ops.drain(first..last);
    }
    smaller
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_can_be_left_out() {
        let whole = Scenario::from_seed(3);
        assert!(whole.len() > 100);
        for start in 0..whole.len() {
            assert_eq!(without(&whole, start, 1).len(), whole.len() - 1);
        }
        assert!(without(&whole, 0, usize::MAX / 2).is_empty());
    }
}
