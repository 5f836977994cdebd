//! Charts as SVG, without a library.

use std::fmt::Write;

const COLOURS: [&str; 6] = [
    "#b3392f", "#2f6fb3", "#3a8f4a", "#8a5fb0", "#c98a1b", "#4a4a4a",
];
/// Marks of an axis, about.
const MARKS: f64 = 4.0;
/// Between two marks of an axis there is at least this part of it.
const LEAST_DISTANCE: f64 = 0.09;

/// Size of a chart, in units of its own, of which a letter is about eleven high; and what is left
/// around it.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
}

/// Half a page wide, with a legend.
pub(crate) const LARGE: Size = Size {
    width: 520.0,
    height: 300.0,
    left: 60.0,
    right: 115.0,
};
/// A quarter of a page, without.
pub(crate) const SMALL: Size = Size {
    width: 260.0,
    height: 200.0,
    left: 40.0,
    right: 12.0,
};
const BOTTOM: f64 = 45.0;
const TOP: f64 = 15.0;
/// The side of a map.
const MAP: f64 = 260.0;

/// A series of points with its name.
pub(crate) type Series = (String, Vec<(f64, f64)>);

/// Short, three digits at least, with a letter for thousands.
pub(crate) fn number(value: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    let (unit, letter) = units
        .into_iter()
        .find(|(unit, _)| value.abs() >= *unit)
        .unwrap_or((1.0, ""));
    let value = value / unit;
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned() + letter,
        false => text + letter,
    }
}

/// From 0 on, by one, two or five of some power of ten, to the first that is not below the value.
fn marks(most: f64) -> Vec<f64> {
    let rough = most.max(1e-9) / MARKS;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|it| it * power)
        .find(|it| *it >= rough * 0.999)
        .unwrap_or(power * 10.0);
    let count = (most / step - 1e-6).ceil().max(1.0) as u32;
    (0..=count).map(|it| f64::from(it) * step).collect()
}

impl Size {
    fn end(&self) -> f64 {
        self.width - self.right
    }

    fn floor(&self) -> f64 {
        self.height - BOTTOM
    }

    /// Returns the place of a part of the axis from left to right.
    fn along(&self, part: f64) -> f64 {
        self.left + part * (self.end() - self.left)
    }

    fn up(&self, part: f64) -> f64 {
        self.floor() - part * (self.floor() - TOP)
    }

    fn begin(&self, x_label: &str, y_label: &str) -> String {
        let (left, end, floor) = (self.left, self.end(), self.floor());
        let middle = self.up(0.5);
        format!(
            "<svg viewBox='0 0 {} {}' font-family='sans-serif' font-size='11'>\
             <path d='M{left} {TOP}V{floor}H{end}' fill='none' stroke='#444'/>\
             <text x='{}' y='{}' text-anchor='middle'>{x_label}</text>\
             <text x='12' y='{middle}' text-anchor='middle' transform='rotate(-90 12 {middle})'>{y_label}</text>",
            self.width,
            self.height,
            self.along(0.5),
            self.height - 8.0,
        )
    }

    /// A line across, with its value.
    fn mark(&self, svg: &mut String, part: f64, value: f64) {
        let (left, y, end) = (self.left, self.up(part), self.end());
        if part > 0.0 {
            let _ = write!(svg, "<path d='M{left} {y:.1}H{end}' stroke='#ddd'/>");
        }
        let _ = write!(
            svg,
            "<text x='{}' y='{:.1}' text-anchor='end'>{}</text>",
            left - 5.0,
            y + 4.0,
            number(value)
        );
    }

    fn label(&self, svg: &mut String, x: f64, label: &str) {
        let y = self.floor() + 15.0;
        let _ = write!(
            svg,
            "<text x='{x:.1}' y='{y}' text-anchor='middle'>{label}</text>"
        );
    }

    fn legend(&self, svg: &mut String, number: usize, name: &str, colour: &str) {
        let y = TOP + 10.0 + 16.0 * number as f64;
        let x = self.end() + 10.0;
        let _ = write!(
            svg,
            "<rect x='{x}' y='{}' width='10' height='10' fill='{colour}'/><text x='{}' y='{y}'>{name}</text>",
            y - 9.0,
            x + 15.0
        );
    }
}

/// Lines through points; both axes by powers of ten if `logarithmic`.
pub(crate) fn lines(x_label: &str, y_label: &str, series: &[Series], logarithmic: bool) -> String {
    let size = LARGE;
    let scale = |value: f64| match logarithmic {
        true => value.max(1e-9).log10(),
        false => value,
    };
    let points = || series.iter().flat_map(|(_, points)| points);
    let ends = |of: fn(&(f64, f64)) -> f64| {
        let all = || points().map(|it| scale(of(it)));
        (
            all().fold(f64::MAX, f64::min),
            all().fold(f64::MIN, f64::max),
        )
    };
    let ((mut x0, x1), (mut y0, mut y1)) = (ends(|it| it.0), ends(|it| it.1));
    let values = if logarithmic {
        (y0, y1) = (y0.floor(), y1.ceil().max(y0.floor() + 1.0));
        let powers = y0 as i32..=y1 as i32;
        powers.map(|it| 10_f64.powi(it)).collect()
    } else {
        let values = marks(y1);
        (x0, y0, y1) = (0.0, 0.0, values.last().copied().unwrap_or(y1));
        values
    };
    let across = |x: f64| (scale(x) - x0) / (x1 - x0).max(1e-9);
    let high = |y: f64| (scale(y) - y0) / (y1 - y0).max(1e-9);
    let mut svg = size.begin(x_label, y_label);
    for value in values {
        size.mark(&mut svg, high(value), value);
    }
    let mut shown: Vec<f64> = points().map(|it| it.0).collect();
    shown.sort_by(f64::total_cmp);
    let mut last = f64::NEG_INFINITY;
    for x in shown {
        if across(x) - last >= LEAST_DISTANCE {
            last = across(x);
            size.label(&mut svg, size.along(last), &number(x));
        }
    }
    for (number, (name, points)) in series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let places: Vec<(f64, f64)> = points
            .iter()
            .map(|(x, y)| (size.along(across(*x)), size.up(high(*y))))
            .collect();
        let path: Vec<String> = places
            .iter()
            .map(|(x, y)| format!("{x:.1} {y:.1}"))
            .collect();
        // Those that are drawn first are wider: they are seen below others.
        let wider = (series.len() - 1 - number) as f64;
        let _ = write!(
            svg,
            "<path d='M{}' fill='none' stroke='{colour}' stroke-width='{}'/>",
            path.join("L"),
            1.5 + wider
        );
        for (x, y) in places {
            let _ = write!(
                svg,
                "<circle cx='{x:.1}' cy='{y:.1}' r='{}' fill='{colour}'/>",
                2.5 + wider / 2.0
            );
        }
        size.legend(&mut svg, number, name, colour);
    }
    svg + "</svg>"
}

/// Bars of parts, each bar with its label.
pub(crate) fn bars(
    size: Size,
    x_label: &str,
    y_label: &str,
    parts: &[&str],
    bars: &[(String, Vec<f64>)],
) -> String {
    let sums = bars.iter().map(|(_, values)| values.iter().sum::<f64>());
    let marks = marks(sums.fold(1e-9, f64::max));
    let most = marks.last().copied().unwrap_or(1.0);
    let mut svg = size.begin(x_label, y_label);
    for value in marks {
        size.mark(&mut svg, value / most, value);
    }
    let step = 1.0 / bars.len().max(1) as f64;
    for (at, (label, values)) in bars.iter().enumerate() {
        let place = step * at as f64;
        let (x, end) = (
            size.along(place + step * 0.1),
            size.along(place + step * 0.9),
        );
        let mut sum = 0.0;
        for (number, value) in values.iter().enumerate() {
            let below = size.up(sum / most);
            sum += value;
            let y = size.up(sum / most);
            let _ = write!(
                svg,
                "<rect x='{x:.1}' y='{y:.1}' width='{:.1}' height='{:.1}' fill='{}'/>",
                end - x,
                below - y,
                COLOURS[number % COLOURS.len()]
            );
        }
        size.label(&mut svg, (x + end) / 2.0, label);
    }
    for (number, part) in parts.iter().enumerate() {
        size.legend(&mut svg, number, part, COLOURS[number % COLOURS.len()]);
    }
    svg + "</svg>"
}

/// A square for each pair, darker by powers of ten; `most` is the darkest.
pub(crate) fn heat(side: u32, most: u64, value: impl Fn(u32, u32) -> u64) -> String {
    let cell = MAP / f64::from(side);
    let all = || (0..side).flat_map(|from| (0..side).map(move |to| (from, to)));
    let most = most.max(2);
    let mut svg = format!(
        "<svg viewBox='0 0 {MAP} {}' font-family='sans-serif' font-size='11'>",
        MAP + 20.0
    );
    for (from, to) in all() {
        let bytes = value(from, to);
        if bytes > 0 {
            let depth = ((bytes as f64).ln() / (most as f64).ln()).max(0.05);
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
        "<rect width='{MAP}' height='{MAP}' fill='none' stroke='#444'/>\
         <text x='0' y='{}'>white: none; darkest: {} bytes</text></svg>",
        MAP + 14.0,
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
        let bar = ("first".to_owned(), vec![1.0, 2.0]);
        let svg = bars(LARGE, "x", "y", &["a", "b"], &[bar]);
        assert_eq!(svg.matches("<rect").count(), 4);
        let svg = heat(3, 4, |from, to| u64::from(from * to));
        assert_eq!(svg.matches("fill-opacity").count(), 4);
    }

    #[test]
    fn marks_are_round_and_reach_the_largest() {
        assert_eq!(marks(43.0), [0.0, 20.0, 40.0, 60.0]);
        assert_eq!(marks(100.0), [0.0, 50.0, 100.0]);
        assert_eq!(marks(0.8), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8]);
        assert_eq!(marks(7.0), [0.0, 2.0, 4.0, 6.0, 8.0]);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.25, 4.0, 12.5, 100.0, 202_021.0, 5_652_000.0].map(number);
        assert_eq!(texts, ["0", "0.25", "4", "12.5", "100", "202k", "5.65M"]);
    }
}
