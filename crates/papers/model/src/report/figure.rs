//! Figures: axes, series, claims.

/// Layout of values along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equal distances.
    Linear,
    /// Each step is a multiple of the one before; values are above 0.
    Logarithmic,
}

/// An axis: what it shows, with the unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Written beside the axis; with the unit, if there is one.
    pub label: String,
    /// Of the plot; the table has the values as they are.
    pub scale: Scale,
}

impl Axis {
    /// With equal steps.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
        }
    }

    /// With equal factors; values above 0 only.
    pub fn logarithmic(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Logarithmic,
        }
    }
}

/// One line of a plot, one column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Head of the column, and the line's name in the plot.
    pub name: String,
    /// In the order of `x`.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Points in the order of `x`.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series {
            name: name.into(),
            points,
        }
    }
}

/// Something that was said of a figure, and whether these figures bear it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The claim, and its author.
    pub claim: String,
    /// By these figures.
    pub holds: bool,
    /// The finding; where the claim does not hold, the reason.
    pub found: String,
}

impl Claim {
    /// `claim` with its author, and `found` with the reason if it does not hold.
    pub fn new(claim: impl Into<String>, holds: bool, found: impl Into<String>) -> Claim {
        Claim {
            claim: claim.into(),
            holds,
            found: found.into(),
        }
    }
}

/// A figure or a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Names its file: lower case letters, digits and hyphens.
    pub id: String,
    /// Stands above the plot and the table.
    pub title: String,
    /// The same for all series.
    pub x: Axis,
    /// The same for all series.
    pub y: Axis,
    /// Names of the values 0, 1, 2 … of `x`, if they are no numbers of their own.
    pub categories: Vec<String>,
    /// In the order in which columns stand.
    pub series: Vec<Series>,
    /// Assumptions.
    pub notes: Vec<String>,
    /// Told below the figure.
    pub claims: Vec<Claim>,
}

impl Figure {
    /// Without series, notes and claims.
    pub fn new(id: &str, title: impl Into<String>, x: Axis, y: Axis) -> Figure {
        Figure {
            id: id.to_owned(),
            title: title.into(),
            x,
            y,
            categories: Vec::new(),
            series: Vec::new(),
            notes: Vec::new(),
            claims: Vec::new(),
        }
    }

    /// A figure of things that have names instead of numbers.
    pub fn of_categories(
        id: &str,
        title: impl Into<String>,
        categories: &[&str],
        y: Axis,
    ) -> Figure {
        let mut figure = Figure::new(id, title, Axis::linear(""), y);
        figure.categories = categories.iter().map(|&name| name.to_owned()).collect();
        figure
    }

    /// Adds values, one for each category.
    pub fn add_values(&mut self, name: impl Into<String>, values: &[f64]) {
        let numbered = values.iter().enumerate();
        let points = numbered.map(|(at, &value)| (at as f64, value)).collect();
        self.series.push(Series::new(name, points));
    }

    /// Appends a series.
    pub fn add(&mut self, name: impl Into<String>, points: Vec<(f64, f64)>) {
        self.series.push(Series::new(name, points));
    }

    /// Appends an assumption.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Appends a claim.
    pub fn claim(&mut self, claim: impl Into<String>, holds: bool, found: impl Into<String>) {
        self.claims.push(Claim::new(claim, holds, found));
    }

    /// All values of `x`, each once, in their order.
    pub fn xs(&self) -> Vec<f64> {
        let all = self.series.iter().flat_map(|series| &series.points);
        let mut xs: Vec<f64> = all.map(|point| point.0).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }

    /// Returns how a value of `x` is written.
    pub fn x_text(&self, x: f64) -> String {
        if self.categories.is_empty() {
            return number(x);
        }
        self.categories
            .get(x as usize)
            .cloned()
            .unwrap_or_else(|| number(x))
    }
}

/// A number with as many digits as say something: four.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if !(1e-3..1e12).contains(&size) {
        format!("{value:.2e}")
    } else if size >= 1_000.0 || value.fract() == 0.0 {
        grouped(value)
    } else if size >= 100.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

/// A whole number with its thousands apart.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let table = [
            (0.0, "0"),
            (7.0, "7"),
            (1_234_567.4, "1,234,567"),
            (-1_000.0, "-1,000"),
            (512.25, "512.2"),
            (2.46801, "2.47"),
            (0.01234, "0.0123"),
            (0.00001, "1.00e-5"),
            (1e15, "1.00e15"),
        ];
        for (value, text) in table {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn values_of_x_come_once_and_in_order() {
        let mut figure = Figure::new("a", "A", Axis::linear("x"), Axis::linear("y"));
        figure.add("one", vec![(2.0, 1.0), (4.0, 1.0)]);
        figure.add("two", vec![(1.0, 1.0), (4.0, 1.0)]);
        assert_eq!(figure.xs(), [1.0, 2.0, 4.0]);
    }
}
