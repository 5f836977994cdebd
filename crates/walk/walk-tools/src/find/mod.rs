//! The language of find: expressions, their parser, and their evaluation.

pub(crate) mod exec;
pub(crate) mod expression;
pub(crate) mod filesystems;
pub(crate) mod format;
pub(crate) mod glob;
pub(crate) mod numbers;
pub(crate) mod parse;
pub(crate) mod permissions;
pub(crate) mod primaries;
pub(crate) mod regexes;
pub(crate) mod selinux;
pub(crate) mod users;
pub(crate) mod values;
