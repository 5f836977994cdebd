//! The page: charts, with the paper's claims and whether they hold here.

use crate::figures::{ALL, CP, DRQS, H, PA, Simulated};
use crate::real::Real;
use crate::svg::{Series, bars, heat, lines};
use pandofs_walk::{Algorithm, RankId};
use pandofs_walk_sim::Report;
use std::fmt::Write;

/// Ranks in the figures of shares.
const SHARE_CLASSES: usize = 12;

/// A claim, what was found, and whether it holds.
struct Claim {
    text: &'static str,
    found: String,
    holds: bool,
}

pub fn page(simulated: &Simulated, real: Option<&Real>) -> String {
    let mut html = format!(
        "<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>Tree walks</title>\
         <style>body{{font:15px/1.45 sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}}\
         svg{{width:100%;max-width:34rem}}table{{border-collapse:collapse}}td,th{{border:1px solid #bbb;\
         padding:.3rem .6rem;text-align:left;vertical-align:top}}.row{{display:flex;gap:1rem;flex-wrap:wrap}}\
         .row>div{{flex:1 1 16rem}}.no{{color:#a00;font-weight:bold}}.yes{{color:#070}}</style>\
         <h1>The paper's figures again</h1><p>LaFon, Misra and Bringhurst, “On Distributed File Tree Walk of \
         Parallel File Systems” (SC 2012). Simulated ranks over synthetic trees of 6.5, 12 and 110 million nodes \
         divided by {}; seed {}; two processes a host, a hybrid process with two threads; an lstat takes 250 µs, \
         opening a directory 500 µs. Items are single nodes, as in the paper, unless it is said otherwise.</p>",
        simulated.divide, simulated.seed
    );
    html.push_str("<h2>Claims</h2><table><tr><th>The paper<th>Here<th>Holds");
    for claim in claims(simulated) {
        let (class, word) = if claim.holds {
            ("yes", "yes")
        } else {
            ("no", "no")
        };
        let _ = write!(
            html,
            "<tr><td>{}<td>{}<td class='{class}'>{word}",
            claim.text, claim.found
        );
    }
    html.push_str("</table>");
    section(
        &mut html,
        "Figure 3a: running time by processes",
        &lines("processes", "seconds", &named(&simulated.times), false),
    );
    section(
        &mut html,
        "The same with ranks that answer between two items only, as the paper's do",
        &lines(
            "processes",
            "seconds",
            &named(&simulated.inattentive),
            false,
        ),
    );
    section(
        &mut html,
        "Figure 3b: time of all processes by component, h-drqs",
        &components(&simulated.components),
    );
    html.push_str("<h2>Figure 4: messages and bytes by size of the tree</h2><div class='row'>");
    for (label, of) in [("messages", 0), ("bytes", 1)] {
        let series: Vec<Series> = simulated
            .traffic
            .iter()
            .map(|(algorithm, points)| {
                let points = points.iter();
                let points = points.map(|it| (it.0, if of == 0 { it.1 } else { it.2 }));
                (algorithm.to_string(), points.collect())
            })
            .collect();
        let _ = write!(html, "<div>{}</div>", lines("nodes", label, &series, true));
    }
    html.push_str(
        "</div><h2>Figure 5: bytes from rank (down) to rank (across)</h2><div class='row'>",
    );
    for (algorithm, report) in &simulated.reports {
        let side = report.ranks.len() as u32;
        let map = heat(side, |from, to| {
            report
                .bytes
                .get(&(RankId(from), RankId(to)))
                .copied()
                .unwrap_or(0)
        });
        let _ = write!(html, "<div><h3>{algorithm}</h3>{map}</div>");
    }
    html.push_str("</div><h2>Figure 6: ranks by their share of the nodes, 1 being an equal share</h2><div class='row'>");
    for (algorithm, report) in &simulated.reports {
        let _ = write!(
            html,
            "<div><h3>{algorithm}</h3>{}</div>",
            shares(*algorithm, report)
        );
    }
    html.push_str("</div><h2>With directories and slices of them as items, as this project has it</h2><table><tr><th>Algorithm<th>Seconds<th>Messages<th>Bytes");
    for (algorithm, seconds, messages, bytes) in &simulated.directories {
        let _ = write!(
            html,
            "<tr><td>{algorithm}<td>{seconds:.2}<td>{messages:.0}<td>{bytes:.0}"
        );
    }
    html.push_str("</table>");
    if let Some(real) = real {
        let series: Vec<Series> = real
            .times
            .iter()
            .map(|(name, points)| ((*name).to_owned(), points.clone()))
            .collect();
        let _ = write!(
            html,
            "<h2>Real ranks over MPI</h2><p>{}: {} entries, on {} processors of one machine, the fastest of three \
             runs. With more ranks than processors this says what ranks cost, not what they bring.</p>{}",
            real.tree,
            real.entries,
            real.processors,
            lines("ranks", "seconds", &series, false)
        );
        let times = &real.processor_times;
        if let (Some(one), Some(eight)) = (times.first(), times.last()) {
            let _ = write!(
                html,
                "<p>Time of all processors for deqs, the launcher's included: {:.2} s with one rank, {:.2} s with {}, {:.2} times as much.</p>",
                one.1,
                eight.1,
                eight.0,
                eight.1 / one.1
            );
        }
    }
    html + "</html>\n"
}

fn section(html: &mut String, title: &str, chart: &str) {
    let _ = write!(html, "<h2>{title}</h2>{chart}");
}

fn named(times: &[(Algorithm, Vec<(f64, f64)>)]) -> Vec<Series> {
    let times = times.iter();
    times
        .map(|(algorithm, points)| (algorithm.to_string(), points.clone()))
        .collect()
}

fn components(runs: &[(u32, Report)]) -> String {
    let parts = ["callback", "lstat", "readdir", "messages"];
    let rows: Vec<(String, Vec<f64>)> = runs
        .iter()
        .map(|(processes, report)| {
            let it = report.components;
            let parts = [
                it.callback_ns,
                it.lstat_ns,
                it.readdir_ns,
                it.communication_ns,
            ];
            (
                processes.to_string(),
                parts.iter().map(|ns| *ns as f64 / 1e9).collect(),
            )
        })
        .collect();
    bars("processes", "seconds", &parts, &rows)
}

/// Each rank's nodes, as a part of what each would have if all had the same. A master visits none.
fn share_of_each(algorithm: Algorithm, report: &Report) -> Vec<f64> {
    let masters = usize::from(algorithm == CP);
    let ranks = &report.ranks[masters..];
    let mean = report.nodes() as f64 / ranks.len() as f64;
    ranks.iter().map(|rank| rank.nodes as f64 / mean).collect()
}

fn shares(algorithm: Algorithm, report: &Report) -> String {
    let mut classes = [0.0; SHARE_CLASSES];
    for share in share_of_each(algorithm, report) {
        let class = (share / 2.0 * SHARE_CLASSES as f64) as usize;
        classes[class.min(SHARE_CLASSES - 1)] += 1.0;
    }
    let rows: Vec<(String, Vec<f64>)> = classes
        .iter()
        .enumerate()
        .map(|(class, ranks)| {
            let from = class as f64 * 2.0 / SHARE_CLASSES as f64;
            (format!("{from:.2}"), vec![*ranks])
        })
        .collect();
    bars("share, from", "ranks", &[], &rows)
}

fn claims(simulated: &Simulated) -> Vec<Claim> {
    let at = |algorithm: Algorithm, processes: f64| {
        let runs = simulated.times.iter().find(|it| it.0 == algorithm);
        let point = runs.and_then(|it| it.1.iter().find(|it| it.0 == processes));
        point.map_or(f64::NAN, |it| it.1)
    };
    let most = f64::from(ALL);
    let faster = [DRQS, H].map(|algorithm| at(CP, most) / at(algorithm, most));
    let few = at(CP, 8.0) / at(DRQS, 8.0);
    let ratio = |of: fn(&(f64, f64, f64)) -> f64, algorithm: Algorithm| {
        let points = |wanted| {
            simulated
                .traffic
                .iter()
                .find(|it| it.0 == wanted)
                .map(|it| &it.1)
        };
        match (points(CP), points(algorithm)) {
            (Some(cp), Some(other)) => {
                let pairs = cp.iter().zip(other);
                pairs
                    .map(|(cp, other)| of(cp) / of(other))
                    .fold(f64::MAX, f64::min)
            }
            _ => f64::NAN,
        }
    };
    let messages = [PA, H].map(|it| ratio(|point| point.1, it));
    let bytes = [PA, H].map(|it| ratio(|point| point.2, it));
    let span = |algorithm: Algorithm| {
        let report = simulated.reports.iter().find(|it| it.0 == algorithm);
        report.map_or(f64::NAN, |(_, report)| {
            let shares = share_of_each(algorithm, report);
            let most = shares.iter().copied().fold(f64::MIN, f64::max);
            most - shares.iter().copied().fold(f64::MAX, f64::min)
        })
    };
    let messages_share = |processes: u32| {
        let run = simulated.components.iter().find(|it| it.0 == processes);
        run.map_or(f64::NAN, |(_, report)| {
            report.components.communication_ns as f64
        })
    };
    vec![
        Claim {
            text: "Distributed walks are more than 300 % faster than the centralized one.",
            found: format!(
                "With {ALL} processes the centralized walk takes {:.2} times as long as drqs and {:.2} times as long \
                 as h-drqs; with 8 processes {few:.2} times as long as drqs. In this model the master does nothing but \
                 send, so that it is no bottleneck before it has more messages than it can take up.",
                faster[0], faster[1]
            ),
            holds: faster.iter().all(|it| *it >= 3.0),
        },
        Claim {
            text: "They send an order of magnitude fewer messages.",
            found: format!(
                "At least {:.0} (pa-drqs) and {:.0} (h-drqs) times fewer, over all sizes.",
                messages[0], messages[1]
            ),
            holds: messages.iter().all(|it| *it >= 10.0),
        },
        Claim {
            text: "They send two orders of magnitude fewer bytes.",
            found: format!(
                "At least {:.0} (pa-drqs) and {:.0} (h-drqs) times fewer, over all sizes.",
                bytes[0], bytes[1]
            ),
            holds: bytes.iter().all(|it| *it >= 100.0),
        },
        Claim {
            text: "With more processes the time for communication does not grow.",
            found: format!(
                "h-drqs: {:.3} s of all processes with 4, {:.3} s with {ALL}.",
                messages_share(4) / 1e9,
                messages_share(ALL) / 1e9
            ),
            holds: messages_share(ALL) <= messages_share(4) * 1.1,
        },
        Claim {
            text: "Work is shared best by h-drqs: the span from the least to the most is smaller.",
            found: format!(
                "Span, in equal shares: h-drqs {:.3}, pa-drqs {:.3}, drqs {:.3}, cp {:.3}. A rank of h-drqs is two threads.",
                span(H),
                span(PA),
                span(DRQS),
                span(CP)
            ),
            holds: span(H) <= span(PA).min(span(DRQS)),
        },
    ]
}
