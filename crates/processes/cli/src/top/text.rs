//! Tables of a view, for a pipe and for the screen.

use super::view::{OperationRow, UpRow, View};
use crate::table::{Align, Table};
use crate::units;

/// One table with its heading.
pub(crate) struct Section {
    pub heading: String,
    pub table: Table,
    /// Whether there is anything in it.
    pub is_empty: bool,
}

/// All of it as plain text.
pub(crate) fn text(view: &View) -> String {
    let mut text = format!("{}\n", view.name);
    for section in sections(view) {
        let body = match section.is_empty {
            true => "none\n".to_owned(),
            false => section.table.to_string(),
        };
        text.push_str(&format!("\n{}\n{body}", section.heading));
    }
    text
}

/// In the order in which they are shown.
pub(crate) fn sections(view: &View) -> [Section; 4] {
    [servers(view), directories(view), slow(view), waiting(view)]
}

fn servers(view: &View) -> Section {
    let right = |title| (title, Align::Right);
    let mut table = Table::new(&[
        ("server", Align::Left),
        right("requests/s"),
        right("data/s"),
        right("load"),
        right("processors"),
        right("queue"),
        right("waiting"),
        right("lag"),
        right("memory"),
        right("log"),
        right("forces/s"),
    ]);
    for row in &view.servers {
        let mut cells = vec![row.id.to_string()];
        match (&row.up, &row.error) {
            (Some(up), _) => cells.extend(up_cells(up)),
            (None, error) => {
                cells[0] = format!("{} away: {}", row.id, error.as_deref().unwrap_or(""));
                cells.resize(table.width(), "-".to_owned());
            }
        }
        table.row(cells);
    }
    Section {
        heading: "Servers".to_owned(),
        table,
        is_empty: view.servers.is_empty(),
    }
}

fn up_cells(up: &UpRow) -> [String; 10] {
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| units::count(rate as u64));
    let share = up
        .load
        .map_or("-".to_owned(), |load| format!("{:.0} %", load * 100.0));
    let processors = up
        .processors
        .map_or("-".to_owned(), |used| format!("{used:.2}"));
    [
        rate(up.requests_per_second),
        rate(up.data_requests_per_second),
        share,
        processors,
        units::count(up.queue),
        units::count(up.waiting),
        format!("{:.1} ms", up.lag_ms),
        units::bytes(up.memory_bytes),
        units::bytes(up.log_bytes),
        rate(up.log_forces_per_second),
    ]
}

fn directories(view: &View) -> Section {
    let mut table = Table::new(&[
        ("requests/s", Align::Right),
        ("directory", Align::Left),
        ("servers", Align::Left),
    ]);
    for row in &view.directories {
        let shares = row.servers.iter();
        let shares: Vec<String> = shares
            .map(|share| {
                format!(
                    "{}: {}",
                    share.server,
                    units::count(share.requests_per_second)
                )
            })
            .collect();
        let name = row.path.clone();
        table.row(vec![
            units::count(row.requests_per_second),
            name.unwrap_or_else(|| format!("directory {}", row.dir)),
            shares.join("  "),
        ]);
    }
    Section {
        heading: "Hottest directories".to_owned(),
        table,
        is_empty: view.directories.is_empty(),
    }
}

fn operations(
    heading: &str,
    rows: &[OperationRow],
    what: &str,
    of: fn(&OperationRow) -> String,
) -> Section {
    let mut table = Table::new(&[
        ("time", Align::Right),
        ("operation", Align::Left),
        ("of", Align::Left),
        ("server", Align::Left),
        ("client", Align::Left),
        (what, Align::Left),
    ]);
    for row in rows {
        table.row(vec![
            format!("{:.1} ms", row.took_ms),
            row.operation.clone(),
            row.object(),
            row.server.to_string(),
            row.client.clone(),
            of(row),
        ]);
    }
    Section {
        heading: heading.to_owned(),
        table,
        is_empty: rows.is_empty(),
    }
}

fn slow(view: &View) -> Section {
    let heading = "Slowest operations of the last ten seconds";
    operations(
        heading,
        &view.slow,
        "where the time went",
        OperationRow::time_text,
    )
}

fn waiting(view: &View) -> Section {
    operations("Who waits", &view.waiting, "for whom", |row| {
        let waits = row.waits_for.clone();
        waits.unwrap_or_else(|| "its turn".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::view::tests::view;

    #[test]
    fn a_person_sees_who_is_busy_and_who_waits_for_whom() {
        let text = text(&view());
        for wanted in [
            "grove\n",
            "2 away: no answer within 1 s",
            "25 %",
            "directory 0.1",
            "0: 200  1: 100",
            "2.0 ms for server 1, 1.0 ms own",
            "leases of client 00000000000000b2 (10.0.0.9)",
        ] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
    }

    #[test]
    fn what_there_is_none_of_says_so() {
        let text = text(&View::default());
        assert_eq!(text.matches("none\n").count(), 4, "{text}");
    }
}
