//! Figures as tables, plots and JSON lines, from one description. They may be modelled or measured.
//!
//! Invariant: what is shown is what was given, in three ways; a figure says of itself whether the
//! claims that go with it hold.

mod figure;
mod json;
mod plot;
mod text;

pub use figure::{Axis, Claim, Figure, Scale, Series};
pub use json::{Context, json_lines};
pub use plot::{PlotError, svg};
pub use text::text;
