//! Figures as text.

use crate::report::figure::{Figure, number};
use std::fmt::Write;

/// A table: a line for each value of `x`, a column for each series; below it what was assumed and
/// what holds.
pub fn text(figure: &Figure) -> String {
    let mut header = vec![figure.x.label.clone()];
    header.extend(figure.series.iter().map(|series| series.name.clone()));
    let mut rows = vec![header];
    for x in figure.xs() {
        let mut row = vec![figure.x_text(x)];
        for series in &figure.series {
            let point = series.points.iter().find(|point| point.0 == x);
            row.push(point.map_or_else(|| "-".to_owned(), |point| number(point.1)));
        }
        rows.push(row);
    }
    let mut out = format!("{}: {}\n", figure.id, figure.title);
    out.push_str(&aligned(&rows));
    if !figure.y.label.is_empty() {
        put(&mut out, format_args!("values: {}", figure.y.label));
    }
    for note in &figure.notes {
        put(&mut out, format_args!("note: {note}"));
    }
    for claim in &figure.claims {
        let verdict = if claim.holds {
            "HOLDS"
        } else {
            "DOES NOT HOLD"
        };
        put(
            &mut out,
            format_args!("{verdict}: {} - {}", claim.claim, claim.found),
        );
    }
    out
}

fn put(out: &mut String, line: std::fmt::Arguments) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{line}");
}

fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let fill = " ".repeat(widths[column] - cell.chars().count());
            if column == 0 {
                line.push_str(&format!("{cell}{fill}"));
            } else {
                line.push_str(&format!("  {fill}{cell}"));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figure::Axis;

    #[test]
    fn a_figure_as_text() {
        let mut figure = Figure::new(
            "id",
            "Title",
            Axis::linear("servers"),
            Axis::linear("ops/s"),
        );
        figure.add("one", vec![(1.0, 1_000.0), (16.0, 2.5)]);
        figure.add("second", vec![(16.0, 3.0)]);
        figure.note("assumed");
        figure.claim("it grows", false, "it shrinks");
        assert_eq!(
            text(&figure),
            "id: Title\n\
             servers    one  second\n\
             1        1,000       -\n\
             16        2.50       3\n\
             values: ops/s\n\
             note: assumed\n\
             DOES NOT HOLD: it grows - it shrinks\n"
        );
    }

    #[test]
    fn categories_have_names() {
        let mut figure = Figure::of_categories("id", "T", &["left", "right"], Axis::linear(""));
        figure.add_values("n", &[1.0, 2.0]);
        assert_eq!(text(&figure), "id: T\n       n\nleft   1\nright  2\n");
    }
}
