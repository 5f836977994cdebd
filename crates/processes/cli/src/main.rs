//! `pandofs`: the one command.
//!
//! Invariant: nothing in here knows how the file system works; it parses, starts, asks and shows.

mod admin;
mod backend;
mod branch_points;
mod cmd;
mod daemon;
mod damage;
mod datadir;
mod demo;
mod dump;
mod error_text;
mod exit;
mod io_uring;
mod killed;
mod logging;
mod measured;
mod metrics;
mod mount_helper;
mod mount_options;
mod mount_words;
mod mounts;
mod new_cluster;
mod processes;
mod reports;
mod server_options;
mod servers_work;
mod shares;
mod signals;
mod source;
mod status_report;
mod table;
mod top;
mod traces;
mod tree_tools;
mod units;
mod unmount;
mod up;
mod weights;

use anyhow::{Context, Result};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use exit::Outcome;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Records, keys and answers are many small pieces of memory, which the system's own allocator takes a
/// fifth of a busy server's time for. It serves RocksDB as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Columns of a help text. Longer lines are broken again, with single words on lines of their own.
const HELP_COLUMNS: usize = 100;

const EXAMPLES: &str = "\
Examples:
  pandofs up --servers 4 --data /var/tmp/pando --mount /mnt/pando
      a whole cluster on this machine, until Ctrl-C
  pandofs status --data /var/tmp/pando
      what its servers do
  pandofs dir /mnt/pando/big
      how a directory is spread over them
  pandofs find /any/tree -name '*.tmp' -mtime +30
      tools for any tree, no server needed: walk, find, du, rm, cp, sync, cmp, sum, chmod, chown, tar
  pandofs COMMAND --help
      more examples";

#[derive(Parser)]
#[command(
    name = "pandofs",
    version,
    about = "A parallel file system whose directories grow over all servers",
    after_help = format!("{EXAMPLES}\n\n{}\n\n{}", logging::HELP, exit::HELP),
    max_term_width = HELP_COLUMNS,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(cmd::up::Up),
    Mount(cmd::mount::Mount),
    Umount(cmd::umount::Umount),
    Status(cmd::status::Status),
    Top(cmd::top::Top),
    Dir(cmd::dir::Dir),
    Layout(cmd::layout::Layout),
    Fsck(cmd::fsck::Fsck),
    Scrub(cmd::scrub::Scrub),
    Format(cmd::format::Format),
    Serve(cmd::serve::Serve),
    Server(cmd::server::ServerCommand),
    Rebalance(cmd::rebalance::Rebalance),
    Demo(cmd::demo::Demo),
    Model(cmd::model::Model),
    Bench(cmd::bench::Bench),
    Trace(cmd::trace::TraceCommand),
    #[command(hide = true)]
    DemoWorker(cmd::demo::Worker),
    Completions(cmd::completions::Completions),
    #[command(hide = true)]
    Manual(pandofs_manual::Manual),
}

fn main() -> ExitCode {
    let given: Vec<OsString> = std::env::args_os().collect();
    let line = match mount_helper::arguments(&given) {
        Some(line) => line,
        None if tree_tools::is_named_by(&given) => return failure(&tree_tools::run(&given)),
        None => given,
    };
    let matches = command_line().get_matches_from(line);
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    match run(&cli.command, &matches) {
        Ok(outcome) => outcome.into(),
        Err(error) => failure(&error),
    }
}

/// The whole command line, with the tools that another program has.
fn command_line() -> clap::Command {
    tree_tools::listed(Cli::command())
}

fn failure(error: &anyhow::Error) -> ExitCode {
    eprintln!("pandofs: {}", error_text::error_text(error));
    exit::of_failure(error).into()
}

fn run(command: &Command, matches: &ArgMatches) -> Result<Outcome> {
    logging::start(match command {
        Command::Serve(_) | Command::Mount(_) => "info",
        // A server that is killed is part of it.
        Command::Demo(_) => "error",
        _ => "warn",
    })?;
    match command {
        Command::Up(up) => up.run(given(matches)),
        Command::Mount(mount) => mount.run(),
        Command::Umount(umount) => umount.run(),
        Command::Status(status) => status.run(),
        Command::Top(top) => top.run(),
        Command::Dir(dir) => dir.run(),
        Command::Layout(layout) => layout.run(),
        Command::Fsck(fsck) => fsck.run(),
        Command::Scrub(scrub) => scrub.run(),
        Command::Format(format) => format.run(&given(matches)),
        Command::Serve(serve) => serve.run(),
        Command::Server(server) => server.run(),
        Command::Rebalance(rebalance) => rebalance.run(),
        Command::Demo(demo) => demo.run(),
        Command::Model(model) => model.run(),
        Command::Bench(bench) => bench.run(),
        Command::Trace(trace) => trace.run(),
        Command::DemoWorker(worker) => worker.run(),
        Command::Completions(completions) => completions.run(),
        Command::Manual(manual) => {
            manual.write(&command_line(), &tree_tools::elsewhere())?;
            Ok(Outcome::Done)
        }
    }
}

/// The options of the subcommand that were given, rather than left at their defaults.
fn given(matches: &ArgMatches) -> Vec<String> {
    let Some((_, options)) = matches.subcommand() else {
        return Vec::new();
    };
    let on_command_line = |id: &&str| options.value_source(id) == Some(ValueSource::CommandLine);
    options
        .ids()
        .map(clap::Id::as_str)
        .filter(on_command_line)
        .map(str::to_owned)
        .collect()
}

/// Writes to standard output. Its reader may have seen enough.
///
/// # Errors
/// When it cannot be written for another reason.
fn print(text: &str) -> Result<()> {
    print_on(text).map(|_| ())
}

/// The same; returns whether there is still a reader.
///
/// # Errors
/// When it cannot be written for another reason.
fn print_on(text: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
    }

    #[test]
    fn pages_and_completions_have_what_the_help_has() {
        let found = pandofs_manual::suite::differences(&command_line(), &tree_tools::elsewhere());
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn every_command_has_examples() {
        let mut long: Vec<String> = Vec::new();
        for command in Cli::command()
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
        {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(help.contains("Examples:"), "{}", command.get_name());
            let lines = help.lines().map(str::to_owned);
            long.extend(lines.filter(|line| line.chars().count() > HELP_COLUMNS));
        }
        assert!(long.is_empty(), "{long:#?}");
    }

    #[test]
    fn every_argument_says_what_it_is() {
        fn silent(command: &clap::Command, path: &str, found: &mut Vec<String>) {
            let path = format!("{path} {}", command.get_name());
            for argument in command.get_arguments().filter(|one| !one.is_hide_set()) {
                if argument.get_help().is_none() {
                    found.push(format!("{path}: {}", argument.get_id()));
                }
            }
            for below in command.get_subcommands().filter(|one| !one.is_hide_set()) {
                silent(below, &path, found);
            }
        }
        let mut found = Vec::new();
        silent(&Cli::command(), "", &mut found);
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn an_option_that_was_given_is_told_from_a_default() {
        let line = |arguments: &[&str]| Cli::command().get_matches_from(arguments);
        let base = ["pandofs", "up", "--data", "d", "--no-mount"];
        let names = given(&line(&[&base[..], &["--shards", "64"]].concat()));
        assert!(names.contains(&"shards".to_owned()), "{names:?}");
        assert!(!names.contains(&"threshold".to_owned()), "{names:?}");
    }
}
