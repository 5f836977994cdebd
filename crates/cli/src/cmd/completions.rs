//! `pandofs completions`

use crate::exit::Outcome;
use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  pandofs completions bash > /etc/bash_completion.d/pandofs
  pandofs completions zsh > \"${fpath[1]}/_pandofs\"
  pandofs completions fish > ~/.config/fish/completions/pandofs.fish";

/// Print a shell's completions
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// # Errors
    /// None.
    pub fn run(&self) -> Result<Outcome> {
        let mut script = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut crate::Cli::command(),
            "pandofs",
            &mut script,
        );
        crate::print(&String::from_utf8_lossy(&script))?;
        Ok(Outcome::Done)
    }
}
