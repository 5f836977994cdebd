//! Families of any process, by the names that all programs have for them.

use crate::traces;
use pandofs_metrics::{Family, resident_bytes};
use pandofs_spans::Spans;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs;

const NANOSECONDS: f64 = 1e9;

/// Spans, processor, memory and open files of this process. Figures that the system does not tell are left out.
pub(crate) fn families(spans: Option<&Spans>) -> Vec<Family> {
    let mut families = traces::families(spans);
    families.extend(of_system());
    families
}

fn of_system() -> Vec<Family> {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / NANOSECONDS;
    let cpu = Family::counter(
        "process_cpu_seconds",
        "Time that the processors have worked for this process.",
        seconds,
    );
    let resident = resident_bytes().map(|bytes| {
        Family::gauge(
            "process_resident_memory_bytes",
            "Memory that this process has in use, as the system sees it.",
            bytes,
        )
    });
    let open = fs::read_dir("/proc/self/fd").ok().map(|open| {
        // The folder itself is open meanwhile.
        let open = (open.count() as u64).saturating_sub(1);
        Family::gauge(
            "process_open_fds",
            "Files and sockets that this process has open.",
            open,
        )
    });
    let most = getrlimit(Resource::Nofile).current.map(|most| {
        Family::gauge(
            "process_max_fds",
            "Files and sockets that this process may have open.",
            most,
        )
    });
    [Some(cpu), resident, open, most]
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_metrics::{Number, Values};

    #[test]
    fn this_process_has_memory_and_open_files() {
        let names: Vec<&str> = of_system().iter().map(|family| family.name).collect();
        assert_eq!(
            names,
            [
                "process_cpu_seconds",
                "process_resident_memory_bytes",
                "process_open_fds",
                "process_max_fds"
            ]
        );
        for family in of_system() {
            let (Values::Counters(samples) | Values::Gauges(samples)) = family.values else {
                panic!("{} is a histogram", family.name);
            };
            let is_some = match samples[0].value {
                Number::Whole(whole) => whole > 0,
                Number::Real(real) => real > 0.0,
            };
            assert!(is_some, "{}", family.name);
        }
    }
}
