//! The page: charts of simulated and of real ranks, with the paper's claims and whether they hold
//! here.

use crate::claims::{Found, claims, ends, share_of_each};
use crate::figures::{Curve, Figures, Simulated};
use crate::real::Real;
use crate::svg::{LARGE, SMALL, Series, bars, heat, lines, number};
use pandofs_walk::{Algorithm, RankId};
use pandofs_walk_bench::sim::Report;
use std::fmt::Write;

/// Classes of shares.
const SHARE_CLASSES: usize = 12;

const STYLE: &str = "body{font:15px/1.45 sans-serif;max-width:68rem;margin:2rem auto;padding:0 1rem}\
    svg{width:100%;max-width:34rem}table{border-collapse:collapse;margin:.5rem 0}\
    td,th{border:1px solid #bbb;padding:.3rem .6rem;text-align:left;vertical-align:top}\
    td.number{text-align:right}h2{margin-top:2.5rem}h3{margin:.8rem 0 .2rem;font-size:1rem}\
    .row{display:flex;gap:1rem;flex-wrap:wrap}.row>div{flex:1 1 26rem;max-width:34rem}\
    .small>div{flex:1 1 14rem;max-width:16.5rem}.no{color:#a00;font-weight:bold}.yes{color:#070}";

/// Names of the ranks of some figures, and the figures.
type Side<'f> = (&'static str, &'f Figures);

pub(crate) fn page(simulated: &Simulated, real: Option<&Real>) -> String {
    let mut html = format!(
        "<!DOCTYPE html><html lang='en'><meta charset='utf-8'>\
         <meta name='viewport' content='width=device-width'><title>Tree walks</title><style>{STYLE}</style>\
         <h1>The paper's figures again</h1><p>LaFon, Misra and Bringhurst, “On Distributed File Tree Walk of \
         Parallel File Systems” (SC 2012).</p><p><b>Simulated ranks</b> walk synthetic trees of 6.5, 12 and 110 \
         million nodes{}, with seed {}. Two processes are on each host; h-drqs has one process a host with two \
         threads. An lstat takes 250 µs, opening a directory 500 µs. Items of work are single nodes, as in the \
         paper.</p>",
        match simulated.divide {
            1 => String::new(),
            divide => format!(" divided by {divide}"),
        },
        simulated.seed
    );
    let mut sides: Vec<Side<'_>> = vec![("Simulated ranks", &simulated.figures)];
    if let Some(real) = real {
        let _ = write!(
            html,
            "<p><b>Real ranks</b> walk trees of files over MPI, all on one machine of {} processors: where nothing \
             else is said {}, {} entries. Which share a host is made believe, as above; items of work are directories \
             and slices of them. Medians of {} rounds in which all run in turns. With more ranks than processors this \
             says what ranks cost, not what they bring. The machine's load, these processes included, was {} before and {} \
             after.</p>",
            real.processors, real.tree, real.entries, real.rounds, real.loads[0], real.loads[1]
        );
        sides.push(("Real ranks", &real.figures));
    }
    claims_table(&mut html, simulated, real);
    section(
        &mut html,
        "Figure 3a: running time by processes",
        &sides,
        |it| lines("processes", "seconds", &named(&it.times), false),
    );
    html.push_str("<h2>Figure 3a in two other models</h2><div class='row'>");
    let _ = write!(
        html,
        "<div><h3>Simulated ranks that answer between two items only, as the paper's do</h3>{}</div>\
         <div><h3>What the centralized walk takes, by what a message costs who takes it up, with {} processes</h3>\
         {}</div></div>",
        lines(
            "processes",
            "seconds",
            &named(&simulated.inattentive),
            false
        ),
        simulated.figures.processes,
        lines("µs a message", "times as long", &handling(simulated), false)
    );
    section(
        &mut html,
        "Figure 3b: time of all processes by component, h-drqs",
        &sides,
        |it| components(&it.components),
    );
    if real.is_some() {
        html.push_str(
            "<p>Of real ranks it is the time of processors: of the threads that walk, divided as the clock has it, and \
             of the thread that speaks with other processes.</p>",
        );
    }
    section(
        &mut html,
        "Figure 4: messages by nodes of the tree",
        &sides,
        |it| lines("nodes", "messages", &traffic(it, false), true),
    );
    section(
        &mut html,
        "Figure 4: bytes by nodes of the tree",
        &sides,
        |it| lines("nodes", "bytes", &traffic(it, true), true),
    );
    html.push_str(
        "<h2>Figure 5: bytes from rank (down) to rank (across)</h2>\
         <p>Darker by powers of ten, the same in all maps of a row.</p>",
    );
    for (name, figures) in &sides {
        let _ = write!(html, "<h3>{name}</h3><div class='row small'>");
        let all = figures.exchanges.iter();
        let most = all.flat_map(|(_, report)| report.bytes.values()).max();
        for (algorithm, report) in &figures.exchanges {
            let map = heat(
                report.ranks.len() as u32,
                most.copied().unwrap_or(0),
                |from, to| {
                    let bytes = report.bytes.get(&(RankId(from), RankId(to)));
                    bytes.copied().unwrap_or(0)
                },
            );
            let bytes = number(report.sent_bytes() as f64);
            let _ = write!(
                html,
                "<div><h3>{algorithm}: {bytes} bytes in all</h3>{map}</div>"
            );
        }
        html.push_str("</div>");
    }
    html.push_str("<h2>Figure 6: ranks by their share of the nodes, 1 being an equal share</h2>");
    for (name, figures) in &sides {
        let (processes, nodes) = figures.sharing;
        let nodes = number(nodes as f64);
        let _ = write!(
            html,
            "<h3>{name}: {processes} processes, {nodes} nodes</h3>{}<div class='row small'>",
            spans(&figures.shares)
        );
        let range = range(&figures.shares);
        for (algorithm, report) in &figures.shares {
            let chart = shares(*algorithm, report, range);
            let _ = write!(html, "<div><h3>{algorithm}</h3>{chart}</div>");
        }
        html.push_str("</div>");
    }
    html.push_str(
        "<h2>Simulated ranks with directories and slices of them as items, as this project has it</h2>\
         <table><tr><th>Algorithm<th>Seconds<th>Messages<th>Bytes",
    );
    for (algorithm, seconds, messages, bytes) in &simulated.directories {
        let _ = write!(
            html,
            "<tr><td>{algorithm}<td class='number'>{seconds:.2}<td class='number'>{}<td class='number'>{}",
            number(*messages),
            number(*bytes)
        );
    }
    html + "</table></html>\n"
}

fn claims_table(html: &mut String, simulated: &Simulated, real: Option<&Real>) {
    html.push_str("<h2>Claims</h2><table><tr><th>The paper<th>Simulated ranks<th>Holds");
    if real.is_some() {
        html.push_str("<th>Real ranks<th>Holds");
    }
    for claim in claims(&simulated.figures, real) {
        let _ = write!(html, "<tr><td>{}", claim.text);
        for Found { text, holds } in [Some(claim.simulated), claim.real].into_iter().flatten() {
            let word = if holds { "yes" } else { "no" };
            let _ = write!(html, "<td>{text}<td class='{word}'>{word}");
        }
    }
    html.push_str("</table>");
}

/// A chart of each side, beside one another.
fn section(html: &mut String, title: &str, sides: &[Side<'_>], chart: impl Fn(&Figures) -> String) {
    let _ = write!(html, "<h2>{title}</h2><div class='row'>");
    for (name, figures) in sides {
        let _ = write!(html, "<div><h3>{name}</h3>{}</div>", chart(figures));
    }
    html.push_str("</div>");
}

fn handling(simulated: &Simulated) -> Vec<Series> {
    let curve = |at: usize| {
        let points = simulated.handling.iter();
        let points = points.map(|(ns, times)| (*ns as f64 / 1e3, times[at]));
        points.collect()
    };
    vec![
        ("as drqs".to_owned(), curve(0)),
        ("as h-drqs".to_owned(), curve(1)),
    ]
}

fn named(curves: &[Curve]) -> Vec<Series> {
    let curves = curves.iter();
    curves
        .map(|(algorithm, points)| (algorithm.to_string(), points.clone()))
        .collect()
}

fn traffic(figures: &Figures, of_bytes: bool) -> Vec<Series> {
    let all = figures.traffic.iter();
    all.map(|(algorithm, points)| {
        let points = points.iter();
        let points = points.map(|it| (it.0, if of_bytes { it.2 } else { it.1 }));
        (algorithm.to_string(), points.collect())
    })
    .collect()
}

fn components(runs: &[(u32, [f64; 4])]) -> String {
    let rows: Vec<(String, Vec<f64>)> = runs
        .iter()
        .map(|(processes, parts)| (processes.to_string(), parts.to_vec()))
        .collect();
    let parts = ["callback", "lstat", "readdir", "communication"];
    bars(LARGE, "processes", "seconds", &parts, &rows)
}

fn spans(shares: &[(Algorithm, Report)]) -> String {
    let mut html = "<table><tr><th>Figure 6a<th>ranks<th>least share<th>largest<th>span".to_owned();
    for (algorithm, report) in shares {
        let shares = share_of_each(*algorithm, report);
        let (least, most) = ends(&shares);
        let _ = write!(
            html,
            "<tr><td>{algorithm}<td class='number'>{}<td class='number'>{least:.3}<td class='number'>{most:.3}\
             <td class='number'>{:.3}",
            shares.len(),
            most - least
        );
    }
    html + "</table>"
}

/// Returns the range of the classes of shares: from the least of all to the largest.
fn range(shares: &[(Algorithm, Report)]) -> (f64, f64) {
    let all = shares.iter();
    let all: Vec<f64> = all
        .flat_map(|(algorithm, report)| share_of_each(*algorithm, report))
        .collect();
    ends(&all)
}

fn shares(algorithm: Algorithm, report: &Report, (least, most): (f64, f64)) -> String {
    let wide = (most - least).max(1e-6) / SHARE_CLASSES as f64;
    let mut classes = [0.0; SHARE_CLASSES];
    for share in share_of_each(algorithm, report) {
        let class = ((share - least) / wide) as usize;
        classes[class.min(SHARE_CLASSES - 1)] += 1.0;
    }
    let rows: Vec<(String, Vec<f64>)> = classes
        .iter()
        .enumerate()
        .map(|(class, ranks)| {
            let from = least + wide * class as f64;
            // There is no room for all.
            let label = match class % 4 {
                0 if wide < 0.01 => format!("{from:.3}"),
                0 => format!("{from:.2}"),
                _ => String::new(),
            };
            (label, vec![*ranks])
        })
        .collect();
    bars(SMALL, "share, from", "ranks", &[], &rows)
}
