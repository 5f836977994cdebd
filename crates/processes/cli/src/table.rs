//! Tables of text, aligned.

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows of cells under a header.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    aligns: Vec<Align>,
    /// The header first.
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[(&str, Align)]) -> Table {
        let header = columns
            .iter()
            .map(|(title, _)| (*title).to_owned())
            .collect();
        let aligns = columns.iter().map(|&(_, align)| align).collect();
        Table {
            aligns,
            rows: vec![header],
        }
    }

    /// Cells that a row is to have.
    pub(crate) fn width(&self) -> usize {
        self.aligns.len()
    }

    /// # Panics
    /// When the row has another number of cells than the header.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.aligns.len(), "a row of another width");
        self.rows.push(cells);
    }

    /// The table's lines, without spaces at their ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        let widths: Vec<usize> = (0..self.aligns.len())
            .map(|column| {
                self.rows
                    .iter()
                    .map(|row| width(&row[column]))
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut lines = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            if number == 1 {
                let dashes: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
                lines.push(dashes.join("  "));
            }
            let cells = row
                .iter()
                .zip(&widths)
                .zip(&self.aligns)
                .map(|((cell, &wide), align)| {
                    let fill = " ".repeat(wide - width(cell));
                    match align {
                        Align::Left => format!("{cell}{fill}"),
                        Align::Right => format!("{fill}{cell}"),
                    }
                });
            lines.push(cells.collect::<Vec<_>>().join("  ").trim_end().to_owned());
        }
        lines
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lines()
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))
    }
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("server", Align::Left), ("entries", Align::Right)]);
        table.row(vec!["0".into(), "25,000".into()]);
        table.row(vec!["together".into(), "1".into()]);
        assert_eq!(
            table.to_string(),
            "server    entries\n────────  ───────\n0          25,000\n\
             together        1\n"
        );
    }
}
