//! Figures as JSON lines.

use crate::report::figure::Figure;
use serde::Serialize;
use serde_json::Error;

/// Origin of figures: it stands on every line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Context {
    /// Of the sources, as `git describe` has it.
    pub commit: String,
    /// Processor, memory and disk, in words.
    pub machine: String,
    /// The seed from which a model's figures follow.
    pub seed: u64,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Line<'a> {
    Point {
        #[serde(flatten)]
        context: &'a Context,
        figure: &'a str,
        series: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        category: Option<&'a str>,
        x: f64,
        y: f64,
    },
    Claim {
        #[serde(flatten)]
        context: &'a Context,
        figure: &'a str,
        claim: &'a str,
        holds: bool,
        found: &'a str,
    },
}

/// An object for each point of each series and for each claim, a line each.
///
/// # Errors
/// When a value is no JSON.
pub fn json_lines(figure: &Figure, context: &Context) -> Result<String, Error> {
    let mut out = String::new();
    let mut put = |line: &Line| -> Result<(), Error> {
        out.push_str(&serde_json::to_string(line)?);
        out.push('\n');
        Ok(())
    };
    for series in &figure.series {
        for &(x, y) in &series.points {
            let category = figure.categories.get(x as usize).map(String::as_str);
            put(&Line::Point {
                context,
                figure: &figure.id,
                series: &series.name,
                category,
                x,
                y,
            })?;
        }
    }
    for claim in &figure.claims {
        put(&Line::Claim {
            context,
            figure: &figure.id,
            claim: &claim.claim,
            holds: claim.holds,
            found: &claim.found,
        })?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figure::Axis;

    #[test]
    fn a_line_for_each_point_and_claim() {
        let mut figure = Figure::of_categories("id", "T", &["a"], Axis::linear("y"));
        figure.add_values("s", &[1.5]);
        figure.claim("c", true, "f");
        let context = Context {
            commit: "abc".into(),
            machine: "m".into(),
            seed: 7,
        };
        assert_eq!(
            json_lines(&figure, &context).unwrap(),
            "{\"kind\":\"point\",\"commit\":\"abc\",\"machine\":\"m\",\"seed\":7,\"figure\":\"id\",\
             \"series\":\"s\",\"category\":\"a\",\"x\":0.0,\"y\":1.5}\n\
             {\"kind\":\"claim\",\"commit\":\"abc\",\"machine\":\"m\",\"seed\":7,\"figure\":\"id\",\
             \"claim\":\"c\",\"holds\":true,\"found\":\"f\"}\n"
        );
    }
}
