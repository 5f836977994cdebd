//! The language of find: expressions, their parser, and their evaluation.

pub mod exec;
pub mod expression;
pub mod filesystems;
pub mod format;
pub mod glob;
pub mod numbers;
pub mod parse;
pub mod permissions;
pub mod primaries;
pub mod regexes;
pub mod selinux;
pub mod users;
pub mod values;
