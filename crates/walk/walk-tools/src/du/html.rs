//! The page of `du --html`: a map of the directories, and tables. It needs nothing but itself.

use crate::du::tables::Report;
use crate::text::{count, human, shown};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Levels of directories that the map shows.
pub(crate) const LEVELS: u32 = 4;
/// Directories of each thread that the page may show: the largest.
const KEPT: usize = 4_000;
/// Parts of the page's width below which a directory is not drawn.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 600.0;
const LEAST: f64 = 6.0;
/// Room for a directory's name above what is in it.
const HEAD: f64 = 14.0;

/// A directory with all below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Area {
    pub bytes: u64,
    pub path: Vec<u8>,
    pub depth: u32,
}

/// Directories that may be shown.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Areas(Vec<Area>);

impl Areas {
    pub(crate) fn push(&mut self, area: Area) {
        self.0.push(area);
        if self.0.len() >= 2 * KEPT {
            self.trim();
        }
    }

    pub(crate) fn add(&mut self, other: &Areas) {
        other.0.iter().for_each(|area| self.push(area.clone()));
    }

    /// Forgets small ones. A directory is not smaller than what is in it, so it stays as long as
    /// that does.
    fn trim(&mut self) {
        self.0
            .sort_unstable_by(|one, other| (other.bytes, one.depth).cmp(&(one.bytes, other.depth)));
        self.0.truncate(KEPT);
    }
}

struct Rectangle {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// The whole page.
pub(crate) fn page(
    title: &str,
    areas: &Areas,
    tables: &[Report],
    facts: &[(&str, String)],
) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>{title}</title><style>\
         body{{font:15px/1.45 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}}\
         h1{{font-size:1.4em}}h2{{font-size:1.1em;margin-top:2em}}svg{{width:100%;height:auto}}\
         rect{{stroke:#fff}}text{{font:11px system-ui,sans-serif;pointer-events:none}}\
         table{{border-collapse:collapse;width:100%}}td{{padding:.15em .6em}}\
         td.n{{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}}\
         td.b{{width:50%}}td.b div{{background:#4f7fb5;height:.8em;min-width:1px}}</style></head><body><h1>{title}</h1><table>",
        title = escaped(title)
    );
    for (name, value) in facts {
        let _ = write!(html, "<tr><td>{name}</td><td>{}</td></tr>", escaped(value));
    }
    let _ = write!(
        html,
        "</table><h2>Directories</h2><p>Each area is as large as what is in it; point at one for its path. What is \
         too small to be seen is left blank, and so are files.</p><svg viewBox='0 0 {WIDTH} {HEIGHT}'>"
    );
    let mut below: BTreeMap<&[u8], Vec<&Area>> = BTreeMap::new();
    let mut roots = Vec::new();
    for area in &areas.0 {
        let path = area.path.strip_suffix(b"/").unwrap_or(&area.path);
        let above = path.iter().rposition(|byte| *byte == b'/');
        match above {
            Some(slash) if area.depth > 0 => below.entry(&path[..slash]).or_default().push(area),
            _ => roots.push(area),
        }
    }
    let all = Rectangle {
        x: 0.0,
        y: 0.0,
        width: WIDTH,
        height: HEIGHT,
    };
    let whole = roots.iter().map(|area| area.bytes).sum();
    draw(roots, whole, &all, &below, &mut html);
    html.push_str("</svg>");
    for table in tables {
        let most = table.groups.iter().map(|row| row.bytes).max().unwrap_or(0);
        let by = match table.by {
            crate::du::tables::By::User => "user",
            crate::du::tables::By::Group => "group",
            crate::du::tables::By::Age => "age: time since the last modification",
            crate::du::tables::By::Size => "size of regular files",
        };
        let _ = write!(html, "<h2>By {by}</h2><table>");
        for row in &table.groups {
            let share = row.bytes as f64 * 100.0 / most.max(1) as f64;
            let _ = write!(
                html,
                "<tr><td>{}</td><td class='n'>{}</td><td class='n'>{}</td><td class='b'>\
                 <div style='width:{share:.2}%'></div></td></tr>",
                escaped(&row.name),
                count(row.entries),
                human(row.bytes)
            );
        }
        html.push_str("</table>");
    }
    html.push_str("</body></html>\n");
    html
}

fn draw(
    mut areas: Vec<&Area>,
    whole: u64,
    within: &Rectangle,
    below: &BTreeMap<&[u8], Vec<&Area>>,
    html: &mut String,
) {
    areas.sort_unstable_by(|one, other| other.cmp(one));
    let sizes: Vec<u64> = areas.iter().map(|area| area.bytes).collect();
    for (area, place) in areas.iter().zip(squares(&sizes, whole, within)) {
        if place.width < LEAST || place.height < LEAST {
            continue;
        }
        let Rectangle {
            x,
            y,
            width,
            height,
        } = place;
        let light = 88 - 12 * area.depth.min(LEVELS);
        let hue = u32::from(blake3::hash(&area.path).as_bytes()[0]) * 360 / 256;
        let path = escaped(&shown(&area.path));
        let _ = write!(
            html,
            "<rect x='{x:.1}' y='{y:.1}' width='{width:.1}' height='{height:.1}' \
             fill='hsl({hue} 45% {light}%)'><title>{path}: {}</title></rect>",
            human(area.bytes)
        );
        let name = shown(area.path.rsplit(|byte| *byte == b'/').next().unwrap_or(&[]));
        let letters = ((width - 6.0) / 6.5) as usize;
        if height >= HEAD && letters >= 3 {
            let name: String = name.chars().take(letters).collect();
            let (x, y) = (x + 3.0, y + 11.0);
            let _ = write!(
                html,
                "<text x='{x:.1}' y='{y:.1}'>{}</text>",
                escaped(&name)
            );
        }
        let path = area.path.strip_suffix(b"/").unwrap_or(&area.path);
        if let Some(inner) = below.get(path)
            && height > HEAD + LEAST
        {
            let within = Rectangle {
                x: x + 2.0,
                y: y + HEAD,
                width: width - 4.0,
                height: height - HEAD - 2.0,
            };
            draw(inner.clone(), area.bytes, &within, below, html);
        }
    }
}

/// Places of areas, the largest first, each as nearly a square as it can be: Bruls, Huizing and van
/// Wijk, "Squarified Treemaps" (2000). The rest of `whole` stays empty.
fn squares(sizes: &[u64], whole: u64, within: &Rectangle) -> Vec<Rectangle> {
    let scale = within.width * within.height / whole.max(1) as f64;
    let mut places = Vec::with_capacity(sizes.len());
    let Rectangle {
        mut x,
        mut y,
        mut width,
        mut height,
    } = *within;
    let mut rest = sizes;
    while !rest.is_empty() {
        let side = width.min(height).max(1e-9);
        // A row along the shorter side takes areas as long as that makes its worst one better.
        let mut taken = 1;
        let mut worst = ratio(&rest[..1], scale, side);
        while taken < rest.len() {
            let next = ratio(&rest[..=taken], scale, side);
            if next > worst {
                break;
            }
            worst = next;
            taken += 1;
        }
        let row: f64 = rest[..taken].iter().map(|it| *it as f64 * scale).sum();
        let thickness = row / side;
        let mut along = 0.0;
        for size in &rest[..taken] {
            let length = *size as f64 * scale / thickness.max(1e-9);
            places.push(if width >= height {
                Rectangle {
                    x,
                    y: y + along,
                    width: thickness,
                    height: length,
                }
            } else {
                Rectangle {
                    x: x + along,
                    y,
                    width: length,
                    height: thickness,
                }
            });
            along += length;
        }
        if width >= height {
            x += thickness;
            width -= thickness;
        } else {
            y += thickness;
            height -= thickness;
        }
        rest = &rest[taken..];
    }
    places
}

/// Returns how far the worst of a row is from a square.
fn ratio(row: &[u64], scale: f64, side: f64) -> f64 {
    let sum: f64 = row.iter().map(|it| *it as f64 * scale).sum();
    let thickness = sum / side;
    row.iter()
        .map(|it| {
            let length = (*it as f64 * scale / thickness.max(1e-9)).max(1e-9);
            (length / thickness.max(1e-9)).max(thickness / length)
        })
        .fold(0.0, f64::max)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_have_their_sizes_and_do_not_overlap() {
        let within = Rectangle {
            x: 0.0,
            y: 0.0,
            width: 600.0,
            height: 400.0,
        };
        let sizes = [600, 600, 400, 300, 200, 200, 100];
        let places = squares(&sizes, 2_400, &within);
        let mut area = 0.0;
        for (at, (place, size)) in places.iter().zip(sizes).enumerate() {
            assert!((place.width * place.height - 100.0 * size as f64).abs() < 1e-6);
            assert!(
                place.x + place.width <= 600.0 + 1e-6 && place.y + place.height <= 400.0 + 1e-6
            );
            area += place.width * place.height;
            for other in &places[..at] {
                let apart = place.x >= other.x + other.width - 1e-6
                    || other.x >= place.x + place.width - 1e-6
                    || place.y >= other.y + other.height - 1e-6
                    || other.y >= place.y + place.height - 1e-6;
                assert!(apart, "{at}");
            }
        }
        assert!((area - 240_000.0).abs() < 1e-6);
    }

    #[test]
    fn names_cannot_leave_the_page() {
        let mut areas = Areas::default();
        for (path, bytes, depth) in [
            (&b"root"[..], 100, 0),
            (b"root/<script>alert('x')", 80, 1),
            (b"root/new\nline\xff", 20, 1),
        ] {
            areas.push(Area {
                bytes,
                path: path.to_vec(),
                depth,
            });
        }
        let page = page("du of <root>", &areas, &[], &[("roots", "a&b".into())]);
        assert!(!page.contains("<script") && page.contains("&lt;script>alert(&#39;x"));
        assert!(page.contains("new\\nline\\xFF") && page.contains("a&amp;b"));
        assert_eq!(page.matches("<rect").count(), 3);
    }

    #[test]
    fn the_largest_are_kept_with_those_above_them() {
        let mut areas = Areas::default();
        for number in 0..3 * KEPT as u64 {
            let path = format!("root/{number}").into_bytes();
            areas.push(Area {
                bytes: number,
                path,
                depth: 1,
            });
        }
        areas.push(Area {
            bytes: 3 * KEPT as u64,
            path: b"root".to_vec(),
            depth: 0,
        });
        areas.trim();
        assert_eq!(areas.0.len(), KEPT);
        assert_eq!(areas.0[0].path, b"root");
        assert_eq!(areas.0[1].bytes, 3 * KEPT as u64 - 1);
    }
}
