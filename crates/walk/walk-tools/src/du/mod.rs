//! Parts of `du`: units, tables, the page.

pub(crate) mod below;
pub(crate) mod html;
pub(crate) mod names;
pub(crate) mod tables;
pub(crate) mod times;
pub(crate) mod units;
