//! `pandofs completions`

use crate::exit::Outcome;
use anyhow::Result;
use clap::{Arg, ArgGroup, Args, Command};
use clap_complete::Shell;

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
    /// None.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let mut script = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut seen(&crate::command_line()),
            "pandofs",
            &mut script,
        );
        crate::print(&String::from_utf8_lossy(&script))?;
        Ok(Outcome::Done)
    }
}

/// The command line as its help shows it: the generators also write what is hidden there, which the program says only to
/// itself.
fn seen(command: &Command) -> Command {
    // A name has to live as long as the program, which ends after this.
    let lasting = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let is_seen = |arg: &&Arg| !arg.is_hide_set();
    let mut seen = Command::new(lasting(command.get_name()))
        .disable_help_flag(command.is_disable_help_flag_set())
        .disable_help_subcommand(command.is_disable_help_subcommand_set())
        .disable_version_flag(command.is_disable_version_flag_set())
        .visible_aliases(command.get_visible_aliases().map(lasting))
        .args(command.get_arguments().filter(is_seen));
    if let Some(about) = command.get_about() {
        seen = seen.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        seen = seen.version(lasting(version));
    }
    for group in command.get_groups() {
        let of_group = |arg: &&Arg| group.get_args().any(|id| id == arg.get_id());
        let args = command.get_arguments().filter(is_seen).filter(of_group);
        let group = ArgGroup::new(group.get_id().clone()).multiple(true);
        seen = seen.group(group.args(args.map(|arg| arg.get_id().clone())));
    }
    for inner in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        seen = seen.subcommand(self::seen(inner));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::collections::BTreeSet;

    /// Names of options and commands, and whether they are hidden.
    fn names(command: &Command, is_hidden: bool, found: &mut BTreeSet<(bool, String)>) {
        let hidden = is_hidden || command.is_hide_set();
        found.insert((hidden, command.get_name().to_owned()));
        for arg in command.get_arguments() {
            if let Some(long) = arg.get_long() {
                found.insert((hidden || arg.is_hide_set(), format!("--{long}")));
            }
        }
        for inner in command.get_subcommands() {
            names(inner, hidden, found);
        }
    }

    #[test]
    fn what_is_hidden_is_not_completed() {
        let mut found = BTreeSet::new();
        names(&crate::command_line(), false, &mut found);
        let hidden = found.iter().filter(|(is_hidden, _)| *is_hidden);
        let hidden = hidden.filter(|(_, name)| !found.contains(&(false, name.clone())));
        let hidden: Vec<&String> = hidden.map(|(_, name)| name).collect();
        assert!(hidden.len() > 1, "there is nothing to hide");
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            let mut command = seen(&crate::command_line());
            clap_complete::generate(*shell, &mut command, "pandofs", &mut script);
            let script = String::from_utf8(script).unwrap();
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
            let words: BTreeSet<&str> = script.split(|letter| !is_part(letter)).collect();
            let between_spaces: Vec<&str> = script.split_whitespace().collect();
            let has_option = |bare| between_spaces.windows(2).any(|two| two == ["-l", bare]);
            for name in &hidden {
                assert!(!words.contains(name.as_str()), "{shell}: {name}");
                if let Some(bare) = name.strip_prefix("--") {
                    assert!(!has_option(bare), "{shell}: {name}");
                }
            }
            let shown = words.contains("--threshold") || has_option("threshold");
            assert!(shown && words.contains("find"), "{shell}");
        }
    }
}
