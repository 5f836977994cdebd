//! Parts of `du`: units, tables, the page.

pub mod below;
pub mod html;
pub mod names;
pub mod tables;
pub mod times;
pub mod units;
