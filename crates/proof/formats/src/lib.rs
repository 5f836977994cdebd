//! Formats of bytes that are stored, logged and sent: golden files, samples and decoders. For
//! tests.
//!
//! Invariant: a golden file changes only when it is asked for with [`BLESS`]; a test that finds
//! other bytes fails and says which format changed.
//!
//! [`check`] compares named encodings with a file; [`samples`] has one of everything that shards,
//! clients and servers say, so that the stores, the log and the wire pin the same values. The macro
//! [`variants`](crate::variants) makes a new variant without a sample break the build or the test.
//! `decoders`, behind the feature of that name, has every decoder of such bytes in one table.

#[cfg(feature = "decoders")]
pub mod decoders;
mod golden;
pub mod samples;

pub use golden::{BLESS, Golden, check, read};

/// Names the variants of an enum: `variants!(name_of, NAMES, Enum: A, B)` makes the function `name_of`,
/// which gives a value's variant, and the constant `NAMES` of all of them. A variant that is left out
/// does not compile.
#[macro_export]
macro_rules! variants {
    ($name_of:ident, $names:ident, $enum:ident: $($variant:ident),+ $(,)?) => {
        fn $name_of(value: &$enum) -> &'static str {
            match value {
                $($enum::$variant { .. } => stringify!($variant),)+
            }
        }

        const $names: &[&str] = &[$(stringify!($variant)),+];
    };
}
