//! Views of `pandofs top`: samples of all servers, what is seen in two of them, and its forms.

mod paths;
mod sample;
mod screen;
mod text;
mod view;

pub(crate) use paths::Paths;
pub(crate) use sample::{Sample, Sampler};
pub(crate) use screen::show;
pub(crate) use text::text;
pub(crate) use view::View;
