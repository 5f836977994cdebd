//! Figures as plots.

use crate::report::figure::{Axis, Figure, Scale, number};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged};
use plotters::prelude::*;
use std::ops::Range;

/// Pixels.
const SIZE: (u32, u32) = (900, 520);
/// Steps of a scale that have a label, about.
const LABELS: usize = 8;

/// Why a figure was not drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the figure {figure} cannot be drawn: {why}")]
pub struct PlotError {
    figure: String,
    why: String,
}

/// The figure as an SVG document.
///
/// # Errors
/// When there is nothing to draw, or not on these axes.
pub fn svg(figure: &Figure) -> Result<String, PlotError> {
    let mut out = String::new();
    {
        let area = SVGBackend::with_string(&mut out, SIZE).into_drawing_area();
        draw(&area, figure).map_err(|why| PlotError {
            figure: figure.id.clone(),
            why,
        })?;
    }
    Ok(out)
}

/// Values along one axis, evenly or by multiples. (The library has both as types of their own,
/// which would make four kinds of chart.)
#[derive(Clone)]
struct Along {
    scale: Scale,
    from: f64,
    to: f64,
    /// Values that get a label; none to choose them evenly.
    labelled: Vec<f64>,
}

impl Along {
    fn new(axis: &Axis, values: &[f64], labelled: Vec<f64>) -> Result<Along, String> {
        let from = values.iter().copied().fold(f64::INFINITY, f64::min);
        let to = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !from.is_finite() || !to.is_finite() {
            return Err("it has no points, or some that are no numbers".to_owned());
        }
        let (from, to) = match axis.scale {
            Scale::Logarithmic if from <= 0.0 => {
                return Err(format!("{from} on a logarithmic axis"));
            }
            Scale::Logarithmic => (from / 1.15, to * 1.15),
            Scale::Linear => {
                let margin = ((to - from) * 0.05).max(to.abs() * 0.02).max(1e-9);
                let zero_near = from >= 0.0 && from < to * 0.5;
                (if zero_near { 0.0 } else { from - margin }, to + margin)
            }
        };
        Ok(Along {
            scale: axis.scale,
            from,
            to,
            labelled,
        })
    }

    /// 0 to 1.
    fn share(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Logarithmic => (value / self.from).ln() / (self.to / self.from).ln(),
        }
    }

    fn steps(&self) -> Vec<f64> {
        if !self.labelled.is_empty() {
            return self.labelled.clone();
        }
        match self.scale {
            Scale::Linear => {
                let rough = (self.to - self.from) / LABELS as f64;
                let power = 10_f64.powf(rough.log10().floor());
                let nice = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
                let step = nice.into_iter().find(|step| *step >= rough);
                let step = step.unwrap_or(rough);
                let first = (self.from / step).ceil() as i64;
                let last = (self.to / step).floor() as i64;
                (first..=last).map(|at| at as f64 * step).collect()
            }
            Scale::Logarithmic => {
                let first = self.from.log10().floor() as i32;
                let last = self.to.log10().ceil() as i32;
                let fine: &[f64] = if last - first <= 3 {
                    &[1.0, 2.0, 5.0]
                } else {
                    &[1.0]
                };
                let all = (first..=last)
                    .flat_map(|power| fine.iter().map(move |digit| digit * 10_f64.powi(power)));
                all.filter(|value| (self.from..=self.to).contains(value))
                    .collect()
            }
        }
    }
}

impl Ranged for Along {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (self.share(*value) * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.steps()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl plotters::coord::ranged1d::ValueFormatter<f64> for Along {
    fn format(value: &f64) -> String {
        number(*value)
    }
}

fn draw(area: &DrawingArea<SVGBackend, Shift>, figure: &Figure) -> Result<(), String> {
    let said = |error: DrawingAreaErrorKind<_>| -> String { format!("{error}") };
    area.fill(&WHITE).map_err(said)?;
    let xs = figure.xs();
    let ys: Vec<f64> = figure
        .series
        .iter()
        .flat_map(|series| series.points.iter().map(|point| point.1))
        .collect();
    let thin = xs.len().div_ceil(2 * LABELS).max(1);
    let labelled = xs.iter().copied().step_by(thin).collect();
    let x = Along::new(&figure.x, &xs, labelled)?;
    let y = Along::new(&figure.y, &ys, Vec::new())?;
    let mut chart = ChartBuilder::on(area)
        .caption(&figure.title, ("sans-serif", 18))
        .margin(14)
        .x_label_area_size(48)
        .y_label_area_size(80)
        .build_cartesian_2d(x, y)
        .map_err(said)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(&figure.x.label)
        .y_desc(&figure.y.label)
        .x_label_formatter(&|x| figure.x_text(*x))
        .draw()
        .map_err(said)?;
    for (at, series) in figure.series.iter().enumerate() {
        let color = Palette99::pick(at).to_rgba();
        if figure.categories.is_empty() {
            chart
                .draw_series(LineSeries::new(
                    series.points.iter().copied(),
                    color.stroke_width(2),
                ))
                .map_err(said)?;
        }
        chart
            .draw_series(
                series
                    .points
                    .iter()
                    .map(|&point| Circle::new(point, 4, color.filled())),
            )
            .map_err(said)?
            .label(&series.name)
            .legend(move |(x, y)| Circle::new((x + 8, y), 4, color.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()
        .map_err(said)?;
    area.present().map_err(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let mut figure = Figure::new(
            "id",
            "Growth",
            Axis::logarithmic("servers"),
            Axis::logarithmic("creations a second"),
        );
        figure.add(
            "measured",
            vec![(1.0, 100.0), (2.0, 190.0), (16.0, 1_500.0)],
        );
        figure
    }

    #[test]
    fn a_plot_shows_title_axes_and_series() {
        let drawn = svg(&figure()).unwrap();
        assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"));
        for text in [
            "Growth",
            "servers",
            "creations a second",
            "measured",
            "<polyline",
        ] {
            assert!(drawn.contains(text), "{text}");
        }
        assert_eq!(drawn.matches("<circle").count(), 3 + 1);
        assert_eq!(drawn, svg(&figure()).unwrap());
    }

    #[test]
    fn what_cannot_be_drawn_is_an_error() {
        let mut figure = figure();
        figure.series[0].points.push((32.0, 0.0));
        assert!(
            svg(&figure)
                .unwrap_err()
                .to_string()
                .contains("logarithmic")
        );
        figure.series.clear();
        assert!(svg(&figure).is_err());
    }

    #[test]
    fn steps_are_round_numbers() {
        let along = Along::new(&Axis::linear(""), &[0.0, 93.0], Vec::new()).unwrap();
        assert_eq!(along.steps(), [0.0, 20.0, 40.0, 60.0, 80.0]);
        let along = Along::new(&Axis::logarithmic(""), &[1.0, 50_000.0], Vec::new()).unwrap();
        assert_eq!(along.steps(), [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
    }
}
