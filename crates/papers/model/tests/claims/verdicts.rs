//! The table of all claims in docs/placement.md: read, compared with a run, written anew.
//!
//! A line of it: `| figure | claim | quick | full | found |`. The quick run is every test's; the
//! full one, with the papers' sizes, is `make model`.

use pandofs_model::report::Figure;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Tests run beside each other and write the same file.
static WRITING: Mutex<()> = Mutex::new(());

const HOLDS: &str = "holds";
const DOES_NOT: &str = "**does not hold**";
/// Of a claim that is new, until there is a full run.
const NOT_RUN: &str = "not run";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    figure: String,
    claim: String,
    quick: String,
    full: String,
    found: String,
}

/// Returns whether tests are to run with the papers' sizes.
pub(crate) fn is_full() -> bool {
    std::env::var_os("PANDOFS_MODEL").is_some_and(|size| size == "full")
}

fn is_to_be_written() -> bool {
    std::env::var_os("PANDOFS_BLESS").is_some()
}

fn document() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/placement.md")
}

/// Compares what a run of an experiment found with the table, or writes it there
/// (`PANDOFS_BLESS=1`).
pub(crate) fn check(experiment: &str, figures: &[Figure]) {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let path = document();
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, table, after) = cut(&text, experiment);
    let pinned = rows(table);
    let mut found = Vec::new();
    for figure in figures {
        for claim in &figure.claims {
            let verdict = if claim.holds { HOLDS } else { DOES_NOT };
            println!("{}: {}: {verdict}: {}", figure.id, claim.claim, claim.found);
            let old = pinned
                .iter()
                .find(|row| row.figure == figure.id && row.claim == claim.claim);
            let mut row = Row {
                figure: figure.id.clone(),
                claim: claim.claim.clone(),
                quick: old.map_or(NOT_RUN.to_owned(), |row| row.quick.clone()),
                full: old.map_or(NOT_RUN.to_owned(), |row| row.full.clone()),
                found: old.map_or(String::new(), |row| row.found.clone()),
            };
            if is_full() {
                // Without a full run there is no verdict to compare with.
                if is_to_be_written() || row.full != NOT_RUN {
                    row.full = verdict.to_owned();
                    row.found = claim.found.clone();
                }
            } else {
                row.quick = verdict.to_owned();
            }
            found.push(row);
        }
    }
    if is_to_be_written() {
        let table = written(&found);
        std::fs::write(&path, format!("{before}{table}{after}")).unwrap();
        return;
    }
    // Findings of the full run are for people: only its verdicts are compared.
    let compared = |rows: &[Row]| -> Vec<Row> {
        let each = rows.iter().map(|row| Row {
            found: String::new(),
            ..row.clone()
        });
        each.collect()
    };
    assert_eq!(
        compared(&found),
        compared(&pinned),
        "{experiment}: docs/placement.md says otherwise; PANDOFS_BLESS=1 writes it anew"
    );
}

/// The text before an experiment's table, the table, and what follows.
fn cut<'a>(text: &'a str, experiment: &str) -> (&'a str, &'a str, &'a str) {
    let begin = format!("<!-- claims of {experiment} -->\n");
    let end = format!("<!-- end of {experiment} -->\n");
    let start = text
        .find(&begin)
        .unwrap_or_else(|| panic!("no table of {experiment}"))
        + begin.len();
    let stop = text
        .find(&end)
        .unwrap_or_else(|| panic!("no end of {experiment}"));
    (&text[..start], &text[start..stop], &text[stop..])
}

fn rows(table: &str) -> Vec<Row> {
    let lines = table.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [figure, claim, quick, full, found] = cells[..] else {
                panic!("no line of the table: {line}");
            };
            Row {
                figure: figure.trim_matches('`').to_owned(),
                claim: claim.to_owned(),
                quick: quick.to_owned(),
                full: full.to_owned(),
                found: found.to_owned(),
            }
        })
        .collect()
}

fn written(rows: &[Row]) -> String {
    let mut text = String::from(
        "| figure | claim | quick run | full run | found in the full run |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let cells = [&row.claim, &row.quick, &row.full, &row.found];
        assert!(
            cells.iter().all(|cell| !cell.contains(['|', '\n'])),
            "{row:?}"
        );
        let Row {
            figure,
            claim,
            quick,
            full,
            found,
        } = row;
        text += &format!("| `{figure}` | {claim} | {quick} | {full} | {found} |\n");
    }
    text
}

#[test]
fn a_table_is_read_as_it_was_written() {
    let row = |claim: &str, full: &str, found: &str| Row {
        figure: "giga-fig2".to_owned(),
        claim: claim.to_owned(),
        quick: HOLDS.to_owned(),
        full: full.to_owned(),
        found: found.to_owned(),
    };
    let all = [row("one", DOES_NOT, "2.3 times"), row("two", NOT_RUN, "")];
    assert_eq!(rows(&written(&all)), all);
}
