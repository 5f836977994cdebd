//! `pandofs completions`

use crate::exit::Outcome;
use anyhow::Result;
use clap::Args;
use pandofs_manual::{Shell, completions};

const EXAMPLES: &str = "\
Examples:
  pandofs completions bash > /etc/bash_completion.d/pandofs
  pandofs completions zsh > \"${fpath[1]}/_pandofs\"
  pandofs completions fish > ~/.config/fish/completions/pandofs.fish";

/// Print a shell's completions
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// # Errors
    /// When standard output cannot be written.
    pub(crate) fn run(&self) -> Result<Outcome> {
        crate::print(&completions(&crate::command_line(), self.shell))?;
        Ok(Outcome::Done)
    }
}
