//! Names of what is asked, as metrics and traces have them.

use crate::{DataRequest, Refusal, Refused, Step};

/// `GetAttr` as `get_attr`.
pub fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 2);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

macro_rules! names {
    ($type:ident: $($variant:ident),+ $(,)?) => {
        impl $type {
            /// Its variant: `new_dir`.
            pub fn name(&self) -> String {
                snake_case(match self {
                    $($type::$variant { .. } => stringify!($variant)),+
                })
            }
        }
    };
}

names!(DataRequest: Read, Write, Truncate, Remove, Sync, Usage, Space, Allocate, Seek, Fill);
names!(Step:
    Insert, Remove, NewDir, NewPart, Link, Unlink, Touch, DropDir, DropPart, SetParent, HoldAncestors, SetDir, Adopt, GiveUp,
    Swap, SetAcl, NewFile, Whiteout, PathLine);
names!(Refusal:
    Fs, Misdirected, NewNameMisdirected, Moved, WrongServer, TryAgain, NotInline, StaleSequence, Malformed, NotYet, ByPath);
names!(Refused: Fs, Busy, Misdirected, Moved, SameFile, Unknown);

impl Refusal {
    /// Its variant, or the error that the program is told.
    pub fn text(&self) -> String {
        match self {
            Refusal::Fs(error) => error.to_string(),
            other => other.name(),
        }
    }
}

impl Refused {
    /// Its variant, or the error that the program is told.
    pub fn text(&self) -> String {
        match self {
            Refused::Fs(error) => error.to_string(),
            other => other.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::FsError;

    #[test]
    fn names_are_those_of_variants_in_lower_case() {
        assert_eq!(snake_case("GetAttr"), "get_attr");
        assert_eq!(DataRequest::Space.name(), "space");
        assert_eq!(Refusal::TryAgain.text(), "try_again");
        assert_eq!(Refused::Misdirected(None).text(), "misdirected");
        let error = FsError::NotFound;
        assert_eq!(Refusal::Fs(error).text(), error.to_string());
    }
}
