//! Charts as SVG, without a library.

use std::fmt::Write;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 45.0;
const TOP: f64 = 15.0;
const RIGHT: f64 = 110.0;
const COLOURS: [&str; 6] = [
    "#b3392f", "#2f6fb3", "#3a8f4a", "#8a5fb0", "#c98a1b", "#4a4a4a",
];

/// A series of points with its name.
pub type Series = (String, Vec<(f64, f64)>);

fn number(value: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    for (unit, letter) in units {
        if value.abs() >= unit {
            return format!("{:.3}", value / unit)
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned()
                + letter;
        }
    }
    format!("{value:.3}")
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

fn frame(svg: &mut String, x_label: &str, y_label: &str) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let _ = write!(
        svg,
        "<path d='M{LEFT} {TOP}V{bottom}H{right}' fill='none' stroke='#444'/>\
         <text x='{}' y='{}' text-anchor='middle'>{x_label}</text>\
         <text x='14' y='{}' text-anchor='middle' transform='rotate(-90 14 {})'>{y_label}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 8.0,
        (TOP + bottom) / 2.0,
        (TOP + bottom) / 2.0,
    );
}

fn begin() -> String {
    format!("<svg viewBox='0 0 {WIDTH} {HEIGHT}' font-family='sans-serif' font-size='11'>")
}

/// Lines through points; both axes by powers of ten if `logarithmic`.
pub fn lines(x_label: &str, y_label: &str, series: &[Series], logarithmic: bool) -> String {
    let scale = |value: f64| {
        if logarithmic {
            value.max(1e-9).log10()
        } else {
            value
        }
    };
    let points = || series.iter().flat_map(|(_, points)| points);
    let most =
        |of: fn(&(f64, f64)) -> f64| points().map(|it| scale(of(it))).fold(f64::MIN, f64::max);
    let least =
        |of: fn(&(f64, f64)) -> f64| points().map(|it| scale(of(it))).fold(f64::MAX, f64::min);
    let (mut x0, x1) = (least(|it| it.0), most(|it| it.0));
    let (mut y0, mut y1) = (least(|it| it.1), most(|it| it.1));
    if logarithmic {
        (y0, y1) = (y0.floor(), y1.ceil());
    } else {
        (x0, y0) = (0.0, 0.0);
    }
    let place = |x: f64, y: f64| {
        let along = (scale(x) - x0) / (x1 - x0).max(1e-9);
        let up = (scale(y) - y0) / (y1 - y0).max(1e-9);
        (
            LEFT + along * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up * (HEIGHT - BOTTOM - TOP),
        )
    };
    let mut svg = begin();
    frame(&mut svg, x_label, y_label);
    let steps = if logarithmic {
        (y1 - y0).round().max(1.0) as u32
    } else {
        4
    };
    for step in 0..=steps {
        let at = y0 + (y1 - y0) * f64::from(step) / f64::from(steps);
        let value = if logarithmic { 10_f64.powf(at) } else { at };
        let (_, y) = place(10_f64, value);
        let end = WIDTH - RIGHT;
        let _ = write!(
            svg,
            "<path d='M{LEFT} {y}H{end}' stroke='#ddd'/><text x='{}' y='{}' text-anchor='end'>{}</text>",
            LEFT - 5.0,
            y + 4.0,
            number(value)
        );
    }
    let mut shown: Vec<f64> = points().map(|it| it.0).collect();
    shown.sort_by(f64::total_cmp);
    shown.dedup_by(|one, other| (scale(*one) - scale(*other)).abs() < (x1 - x0) / 30.0);
    for x in shown {
        let (at, _) = place(x, 1.0);
        let _ = write!(
            svg,
            "<text x='{at}' y='{}' text-anchor='middle'>{}</text>",
            HEIGHT - BOTTOM + 15.0,
            number(x)
        );
    }
    for (number, (name, points)) in series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| {
                let (x, y) = place(*x, *y);
                format!("{x:.1} {y:.1}")
            })
            .collect();
        let _ = write!(
            svg,
            "<path d='M{}' fill='none' stroke='{colour}' stroke-width='1.5'/>",
            path.join("L")
        );
        for point in path {
            let (x, y) = point.split_once(' ').unwrap_or_default();
            let _ = write!(svg, "<circle cx='{x}' cy='{y}' r='2.5' fill='{colour}'/>");
        }
        legend(&mut svg, number, name, colour);
    }
    svg + "</svg>"
}

fn legend(svg: &mut String, number: usize, name: &str, colour: &str) {
    let y = TOP + 10.0 + 16.0 * number as f64;
    let x = WIDTH - RIGHT + 10.0;
    let _ = write!(
        svg,
        "<rect x='{x}' y='{}' width='10' height='10' fill='{colour}'/><text x='{}' y='{y}'>{name}</text>",
        y - 9.0,
        x + 15.0
    );
}

/// Bars of parts, each bar with its label.
pub fn bars(x_label: &str, y_label: &str, parts: &[&str], bars: &[(String, Vec<f64>)]) -> String {
    let most = bars
        .iter()
        .map(|(_, values)| values.iter().sum::<f64>())
        .fold(1e-9, f64::max);
    let mut svg = begin();
    frame(&mut svg, x_label, y_label);
    let step = (WIDTH - LEFT - RIGHT) / bars.len().max(1) as f64;
    let high = HEIGHT - BOTTOM - TOP;
    for (at, (label, values)) in bars.iter().enumerate() {
        let x = LEFT + step * at as f64;
        let mut y = HEIGHT - BOTTOM;
        for (number, value) in values.iter().enumerate() {
            let height = value / most * high;
            y -= height;
            let _ = write!(
                svg,
                "<rect x='{:.1}' y='{y:.1}' width='{:.1}' height='{height:.1}' fill='{}'/>",
                x + step * 0.1,
                step * 0.8,
                COLOURS[number % COLOURS.len()]
            );
        }
        let _ = write!(
            svg,
            "<text x='{:.1}' y='{}' text-anchor='middle'>{label}</text>",
            x + step / 2.0,
            HEIGHT - BOTTOM + 15.0
        );
    }
    let _ = write!(
        svg,
        "<text x='{}' y='{}' text-anchor='end'>{}</text>",
        LEFT - 5.0,
        TOP + 8.0,
        number(most)
    );
    for (number, part) in parts.iter().enumerate() {
        legend(&mut svg, number, part, COLOURS[number % COLOURS.len()]);
    }
    svg + "</svg>"
}

/// A square for each pair, darker by powers of ten.
pub fn heat(side: u32, value: impl Fn(u32, u32) -> u64) -> String {
    let cell = 300.0 / f64::from(side);
    let all = || (0..side).flat_map(|from| (0..side).map(move |to| (from, to)));
    let most = all()
        .map(|(from, to)| value(from, to))
        .max()
        .unwrap_or(1)
        .max(2);
    let mut svg =
        String::from("<svg viewBox='0 0 300 320' font-family='sans-serif' font-size='11'>");
    for (from, to) in all() {
        let bytes = value(from, to);
        if bytes > 0 {
            let depth = (bytes as f64).ln() / (most as f64).ln();
            let _ = write!(
                svg,
                "<rect x='{:.1}' y='{:.1}' width='{cell:.1}' height='{cell:.1}' fill='#8a1f14' fill-opacity='{depth:.2}'/>",
                f64::from(to) * cell,
                f64::from(from) * cell
            );
        }
    }
    let _ = write!(
        svg,
        "<rect width='300' height='300' fill='none' stroke='#444'/><text x='0' y='314'>darkest: {} bytes</text></svg>",
        number(most as f64)
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_have_all_that_was_given() {
        let series = vec![
            ("one".to_owned(), vec![(1.0, 10.0), (2.0, 1_000.0)]),
            ("two".to_owned(), vec![(1.0, 5.0)]),
        ];
        for logarithmic in [false, true] {
            let svg = lines("x", "y", &series, logarithmic);
            assert_eq!(svg.matches("<circle").count(), 3);
            assert!(svg.contains(">one<") && svg.contains(">two<") && !svg.contains("NaN"));
        }
        let svg = bars("x", "y", &["a", "b"], &[("first".into(), vec![1.0, 2.0])]);
        assert_eq!(svg.matches("<rect").count(), 4);
        let svg = heat(3, |from, to| u64::from(from * to));
        assert_eq!(svg.matches("fill-opacity").count(), 4);
    }
}
