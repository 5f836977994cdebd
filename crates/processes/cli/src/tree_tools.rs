//! Tools for trees: the program `pandofs-walk`, which runs in the place of this one.
//!
//! They are a product of their own: this command knows their names, shows them in its help, and leaves their options to
//! them.

use anyhow::{Error, anyhow};
use clap::Command;
use pandofs_manual::Elsewhere;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

/// The program that has the tools.
const PROGRAM: &str = "pandofs-walk";

/// Each tool, and its line in the help of `pandofs-walk`.
const TOOLS: [(&str, &str); 11] = [
    (
        "walk",
        "Visit every entry of some trees, and count or list them",
    ),
    (
        "find",
        "Search trees in parallel, with the expressions of GNU find",
    ),
    (
        "du",
        "Sum up the space that trees take, by directory or by owner, age or size",
    ),
    ("rm", "Remove trees, from the bottom up and in parallel"),
    (
        "cp",
        "Copy trees in parallel, with all that belongs to them",
    ),
    ("sync", "Make one tree what another one is, in parallel"),
    ("cmp", "Compare two trees in parallel"),
    ("sum", "Digests of files and trees (BLAKE3), in parallel"),
    ("tar", "Pack, unpack and list archives in parallel"),
    ("chmod", "Change the permissions of trees, in parallel"),
    ("chown", "Change the owner and group of trees, in parallel"),
];

/// Returns whether a command line, the program's name included, asks for one of the tools.
pub(crate) fn is_named_by(line: &[OsString]) -> bool {
    line.get(1)
        .is_some_and(|first| TOOLS.iter().any(|(name, _)| first == name))
}

/// Runs `pandofs-walk` in the place of this process, with the same arguments: the one beside this program, or else
/// that of `PATH`. Returns only if that cannot be.
pub(crate) fn run(line: &[OsString]) -> Error {
    let beside = std::env::current_exe()
        .ok()
        .map(|it| it.with_file_name(PROGRAM));
    let program = beside
        .filter(|it| it.exists())
        .unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = std::process::Command::new(&program)
        .args(line.iter().skip(1))
        .exec();
    if error.kind() == ErrorKind::NotFound {
        return anyhow!(
            "the tools for trees are the program {PROGRAM}, which is neither beside this command nor in PATH: \
             'make install' installs both, 'cargo build --release --package pandofs-walk-tools' builds it alone"
        );
    }
    Error::from(error).context(program.display().to_string())
}

/// Adds the tools to what the help of a command line lists.
pub(crate) fn listed(command: Command) -> Command {
    TOOLS.iter().fold(command, |command, (name, about)| {
        command.subcommand(Command::new(*name).about(*about))
    })
}

/// The tools as subcommands whose manual pages `pandofs-walk` writes.
pub(crate) fn elsewhere() -> Vec<Elsewhere> {
    let page = |name: &str| match name {
        // That name is the page of the whole program, which begins with its tools.
        "walk" => PROGRAM.to_owned(),
        _ => format!("{PROGRAM}-{name}"),
    };
    let tool = |(name, _): &(&str, &str)| Elsewhere {
        subcommand: (*name).to_owned(),
        page: page(name),
    };
    TOOLS.iter().map(tool).collect()
}
