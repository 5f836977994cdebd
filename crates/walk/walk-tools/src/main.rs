//! The tools as a command, which `pandofs find` and its like run.

mod allocator;

use clap::{CommandFactory, Parser, Subcommand};
use pandofs_manual::Manual;
use pandofs_walk_tools::{Executor, Outcome, Tool, launcher};
use std::process::ExitCode;

/// Many threads take and give back many small pieces of memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Parallel tree walks
#[derive(Parser)]
#[command(
    name = "pandofs-walk",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Tool(Box<Tool>),
    #[command(hide = true)]
    Manual(Manual),
}

fn main() -> ExitCode {
    match run(&Cli::parse_from(pandofs_walk_tools::arguments()).command) {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err(error) => {
            eprintln!("pandofs-walk: {error:#}");
            ExitCode::from(Outcome::Incomplete.code())
        }
    }
}

fn run(command: &Command) -> anyhow::Result<Outcome> {
    let tool = match command {
        Command::Tool(tool) => tool,
        Command::Manual(manual) => {
            manual.write(&Cli::command(), &[])?;
            return Ok(Outcome::Done);
        }
    };
    launcher::hand_over()?;
    allocator::keep_nothing();
    tool.run(&mut Executor::Alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn pages_and_completions_have_what_the_help_has() {
        let found = pandofs_manual::suite::differences(&Cli::command(), &[]);
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn every_tool_has_examples() {
        for command in Cli::command()
            .get_subcommands()
            .filter(|it| !it.is_hide_set())
        {
            let help = command.get_after_help().map(ToString::to_string);
            assert!(
                help.unwrap_or_default().contains("Examples:"),
                "{}",
                command.get_name()
            );
        }
    }
}
