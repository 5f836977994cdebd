//! The summary at the end.

use crate::table::{Align, Table};
use crate::units;
use pandofs_placement::ClusterMap;
use std::time::Duration;

/// One row for each operation.
#[derive(Debug)]
pub(super) struct Report {
    servers: usize,
    table: Table,
    notes: Vec<String>,
}

impl Report {
    pub(super) fn new(map: &ClusterMap) -> Report {
        let names: Vec<String> = map
            .servers
            .iter()
            .map(|server| format!("server {}", server.id))
            .collect();
        let mut columns = vec![
            ("operation", Align::Left),
            ("count", Align::Right),
            ("seconds", Align::Right),
            ("per second", Align::Right),
        ];
        columns.extend(names.iter().map(|name| (name.as_str(), Align::Right)));
        Report {
            servers: names.len(),
            table: Table::new(&columns),
            notes: Vec::new(),
        }
    }

    /// `entries`: on each server afterwards.
    pub(super) fn add(
        &mut self,
        what: &str,
        count: u64,
        time: Duration,
        entries: Option<Vec<u64>>,
    ) {
        let seconds = time.as_secs_f64();
        let rate = if seconds > 0.0 {
            (count as f64 / seconds) as u64
        } else {
            0
        };
        let mut row = vec![
            what.to_owned(),
            units::count(count),
            format!("{seconds:.2}"),
            units::count(rate),
        ];
        match entries {
            Some(entries) => row.extend(entries.into_iter().map(units::count)),
            None => row.resize(row.len() + self.servers, String::new()),
        }
        self.table.row(row);
    }

    /// A line below the table.
    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "\n{}\nOn the right: entries on each server afterwards.\n",
            self.table
        );
        for note in &self.notes {
            text.push_str(note);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_cluster::tests::options;

    #[test]
    fn rates_and_entries_are_shown() {
        let map = options()
            .create_map(vec!["unix:/a".into(), "unix:/b".into()])
            .unwrap();
        let mut report = Report::new(&map);
        report.add(
            "create",
            5_000,
            Duration::from_millis(2_500),
            Some(vec![2_400, 2_600]),
        );
        report.add("stat", 10, Duration::ZERO, None);
        report.note("one server was killed".into());
        let text = report.text();
        let row = text
            .lines()
            .find(|line| line.starts_with("create"))
            .unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            cells,
            ["create", "5,000", "2.50", "2,000", "2,400", "2,600"]
        );
        assert!(text.contains("server 1") && text.ends_with("one server was killed\n"));
    }
}
