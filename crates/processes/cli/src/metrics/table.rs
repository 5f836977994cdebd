//! Table of families in `docs/metrics.md`, compared with the families that there are.

use super::{mount, process, server};
use pandofs_api::{ScrubReport, ServerStatus, ShardStatus};
use pandofs_metrics::{Family, Format, Histogram, Sample, Snapshot, Values, exposition};
use pandofs_server::{More, Observed, Timed};
use pandofs_types::{Epoch, FsId, ServerId};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

fn times() -> Vec<(String, Snapshot)> {
    let times = Histogram::default();
    times.add(Duration::from_micros(300));
    vec![("lookup".to_owned(), times.snapshot())]
}

/// A server of which everything is told.
fn observed() -> Observed {
    let status = ServerStatus {
        id: ServerId(3),
        fs: FsId(0x1234),
        epoch: Epoch(7),
        pid: 1,
        uptime_ms: 1_500,
        shards: vec![
            ShardStatus {
                entries: 5,
                splits: 1,
                ..ShardStatus::default()
            },
            ShardStatus {
                entries: 6,
                ..ShardStatus::default()
            },
        ],
        connections: 0,
        sessions: 0,
        requests: 0,
        redirected: 0,
        data_requests: 0,
        data_read: 0,
        data_written: 0,
        peer_messages: 0,
        distributed: 9,
        aborted: 2,
        log_bytes: 0,
        log_syncs: 0,
        log_records: 0,
        log_batches: 0,
        store_bytes: 0,
        granularity: None,
    };
    Observed {
        status,
        scrub: ScrubReport {
            share: 250,
            ..ScrubReport::default()
        },
        more: More::default(),
        timed: Timed {
            operations: times(),
            early: vec![("create".to_owned(), 1)],
            data: times(),
            ..Timed::default()
        },
    }
}

fn of_server() -> Vec<Family> {
    server::families(&observed(), 768 << 20)
}

fn of_mount() -> Vec<Family> {
    mount::families(&mount::Seen {
        requests: times(),
        ..mount::Seen::default()
    })
}

/// Type and labels.
fn shape(family: &Family) -> (&'static str, Vec<&'static str>) {
    fn labels<V>(samples: &[Sample<V>]) -> Vec<&'static str> {
        let first = samples.first().map(|sample| sample.labels.iter());
        first.into_iter().flatten().map(|(name, _)| *name).collect()
    }
    match &family.values {
        Values::Counters(samples) => ("counter", labels(samples)),
        Values::Gauges(samples) => ("gauge", labels(samples)),
        Values::Histograms(samples) => ("histogram", labels(samples)),
    }
}

fn table(families: &[Family]) -> String {
    let mut table =
        String::from("| family | type | labels | what it is |\n| --- | --- | --- | --- |\n");
    for family in families {
        let (kind, labels) = shape(family);
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        table.push_str(&format!(
            "| `{}` | {kind} | {} | {} |\n",
            family.told_name(),
            labels.join(", "),
            family.help
        ));
    }
    table
}

/// Each table follows a comment with its name.
fn with_tables(page: &str) -> String {
    let tables = [
        ("servers", of_server()),
        ("mounts", of_mount()),
        ("processes", process::families(None)),
    ];
    let mut page = page.to_owned();
    for (name, families) in tables {
        let begin = format!("<!-- table of {name} -->\n");
        let end = "<!-- end -->\n";
        let Some(start) = page.find(&begin).map(|at| at + begin.len()) else {
            panic!("docs/metrics.md has no '{}'", begin.trim());
        };
        let Some(length) = page[start..].find(end) else {
            panic!("the table of {name} has no '{}'", end.trim());
        };
        page.replace_range(start..start + length, &table(&families));
    }
    page
}

#[test]
fn the_page_lists_every_family() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/metrics.md");
    let page = fs::read_to_string(&path).unwrap();
    let right = with_tables(&page);
    if std::env::var_os("PANDOFS_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, &right).unwrap();
        return;
    }
    assert!(
        page == right,
        "docs/metrics.md differs: PANDOFS_BLESS=1 cargo test -p pandofs-cli writes it anew"
    );
}

#[test]
fn names_follow_the_rules_and_are_there_once() {
    let mut names = Vec::new();
    for family in [of_server(), of_mount(), process::families(None)].concat() {
        let (kind, labels) = shape(&family);
        let name = family.name;
        assert!(
            !name.ends_with("_total") && !name.contains("duration_ms"),
            "{name}"
        );
        assert_eq!(
            kind == "histogram",
            name.ends_with("_duration_seconds"),
            "{name}"
        );
        assert!(
            family.help.ends_with('.') && !family.help.contains('\n'),
            "{name}"
        );
        assert!(labels.len() <= 1 || name == "pandofs_build_info", "{name}");
        if name != "pandofs_build_info" {
            names.push(name);
        }
    }
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn figures_are_those_of_the_status() {
    let told = exposition(of_server(), Format::Plain).unwrap();
    for line in [
        "pandofs_server_entries 11",
        "pandofs_server_splits_total 1",
        "pandofs_server_shards 2",
        "pandofs_server_distributed_operations_total{outcome=\"committed\"} 7",
        "pandofs_server_distributed_operations_total{outcome=\"aborted\"} 2",
        "pandofs_server_uptime_seconds 1.5",
        "pandofs_server_scrub_state{state=\"idle\"} 1",
        "pandofs_server_scrub_state{state=\"paused\"} 0",
        "pandofs_server_scrub_progress_ratio 0.25",
        "pandofs_server_operation_duration_seconds_count{operation=\"lookup\"} 1",
        "pandofs_server_early_operations_total{operation=\"create\"} 1",
        "pandofs_server_memory_limit_bytes 805306368",
    ] {
        assert!(told.lines().any(|told| told == line), "{line} in {told}");
    }
    assert!(told.contains("role=\"server\",server=\"3\""), "{told}");
}
