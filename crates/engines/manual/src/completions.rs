//! Completions for shells.

use clap::{Arg, ArgGroup, Command};
use clap_complete::{Shell, generate};

/// The script with which a shell completes the words of a command.
pub fn completions(command: &Command, shell: Shell) -> String {
    let mut script = Vec::new();
    generate(shell, &mut seen(command), command.get_name(), &mut script);
    String::from_utf8_lossy(&script).into_owned()
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
