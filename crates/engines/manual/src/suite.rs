//! Comparison of a program's pages and completions with its help, for tests of programs.

use crate::completions::completions;
use crate::pages::{Elsewhere, name, pages, plain};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::roff::{Roff, roman};
use std::collections::BTreeSet;

/// Every subcommand and option that the help shows and a page or a completion lacks, and everything that is hidden and in
/// one, each in words.
pub fn differences(command: &Command, elsewhere: &[Elsewhere]) -> Vec<String> {
    let mut built = command.clone().disable_help_subcommand(true);
    built.build();
    let mut found = Vec::new();
    let pages = pages(command, elsewhere);
    for page in pages.iter().filter(|page| !page.text.is_ascii()) {
        let file = &page.file;
        found.push(format!("{file} has characters that not every terminal has"));
    }
    compare_pages(&built, &pages, elsewhere, &mut found);
    let mut names = Names::default();
    names.add(&built, false);
    for shell in [
        Shell::Bash,
        Shell::Zsh,
        Shell::Fish,
        Shell::Elvish,
        Shell::PowerShell,
    ] {
        names.compare(shell, &completions(command, shell), &mut found);
    }
    found
}

fn compare_pages(
    command: &Command,
    pages: &[crate::Page],
    elsewhere: &[Elsewhere],
    found: &mut Vec<String>,
) {
    let page = name(command);
    let Some(text) = pages.iter().find(|it| it.file == format!("{page}.1")) else {
        found.push(format!("there is no page {page}"));
        return;
    };
    let has = |words: &str| text.text.contains(escaped(words).trim_end());
    for arg in command.get_arguments() {
        let Some(long) = arg.get_long() else { continue };
        let is_told = text.text.contains(&format!(
            r"\fB{}\fR",
            escaped(&format!("--{long}")).trim_end()
        ));
        if is_told == arg.is_hide_set() {
            let state = if is_told {
                "tells of the hidden"
            } else {
                "lacks"
            };
            found.push(format!("{page} {state} --{long}"));
        }
        let help = arg.get_long_help().or_else(|| arg.get_help());
        for line in help.map(ToString::to_string).unwrap_or_default().lines() {
            if !arg.is_hide_set() && !has(line) {
                found.push(format!("{page} lacks of --{long}: {line}"));
            }
        }
    }
    let after = command
        .get_after_long_help()
        .or_else(|| command.get_after_help());
    for line in after.map(ToString::to_string).unwrap_or_default().lines() {
        if !has(line) && !has(&line.trim_end_matches(':').to_uppercase()) {
            found.push(format!("{page} lacks: {line}"));
        }
    }
    for inner in command.get_subcommands() {
        let is_told = has(&format!("{}(1)", name(inner)));
        if is_told == inner.is_hide_set() {
            let state = if is_told {
                "tells of the hidden"
            } else {
                "lacks"
            };
            found.push(format!("{page} {state} {}", inner.get_name()));
        }
        let is_elsewhere = elsewhere.iter().any(|it| it.subcommand == inner.get_name());
        if !inner.is_hide_set() && !is_elsewhere {
            compare_pages(inner, pages, &[], found);
        }
    }
}

/// A text as it is in a page.
fn escaped(text: &str) -> String {
    let mut roff = Roff::default();
    roff.text([roman(text)]);
    let mut written = Vec::new();
    // Memory takes all that is written.
    let _ = roff.to_writer(&mut written);
    // Before the text is what defines the apostrophe.
    let written = plain(&String::from_utf8_lossy(&written));
    let lines: Vec<&str> = written
        .lines()
        .filter(|line| !line.starts_with(".ie") && !line.starts_with(".el"))
        .collect();
    lines.join("\n")
}

/// Options, with their dashes, and subcommands.
#[derive(Default)]
struct Names {
    shown: BTreeSet<String>,
    hidden: BTreeSet<String>,
}

impl Names {
    fn add(&mut self, command: &Command, is_hidden: bool) {
        let is_hidden = is_hidden || command.is_hide_set();
        for arg in command.get_arguments() {
            if let Some(long) = arg.get_long() {
                self.add_name(format!("--{long}"), is_hidden || arg.is_hide_set());
            }
        }
        for inner in command.get_subcommands() {
            let name = inner.get_name().to_owned();
            self.add_name(name, is_hidden || inner.is_hide_set());
            self.add(inner, is_hidden);
        }
    }

    fn add_name(&mut self, name: String, is_hidden: bool) {
        let names = match is_hidden {
            true => &mut self.hidden,
            false => &mut self.shown,
        };
        names.insert(name);
    }

    fn compare(&self, shell: Shell, script: &str, found: &mut Vec<String>) {
        let is_part =
            |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        let mut words: BTreeSet<String> = script
            .split(|letter| !is_part(letter))
            .map(str::to_owned)
            .collect();
        // An option, as fish has it.
        let between_spaces: Vec<&str> = script.split_whitespace().collect();
        let long = between_spaces.windows(2).filter(|two| two[0] == "-l");
        words.extend(long.map(|two| format!("--{}", two[1])));
        for name in self.shown.iter().filter(|it| !words.contains(*it)) {
            found.push(format!("{shell}: {name} is not completed"));
        }
        let hidden = self.hidden.difference(&self.shown);
        for name in hidden.filter(|it| words.contains(*it)) {
            found.push(format!("{shell}: the hidden {name} is completed"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::tests::{elsewhere, program};

    #[test]
    fn a_whole_program_has_no_differences() {
        assert_eq!(differences(&program(), &elsewhere()), [""; 0]);
    }

    #[test]
    fn what_a_page_or_a_completion_lacks_is_found() {
        let mut built = program();
        built.build();
        let mut found = Vec::new();
        let mut pages = pages(&program(), &elsewhere());
        pages.retain(|page| page.file != "grove-plant-here.1");
        pages[1].text = pages[1].text.replace("deep", "shallow");
        compare_pages(&built, &pages, &elsewhere(), &mut found);
        assert!(
            found.contains(&"there is no page grove-plant-here".to_owned()),
            "{found:?}"
        );
        assert!(
            found.contains(&"grove-plant lacks --deep".to_owned()),
            "{found:?}"
        );
        let mut names = Names::default();
        names.add(&built, false);
        found.clear();
        names.compare(
            Shell::Bash,
            "inner cut saw plant --help --version",
            &mut found,
        );
        for wanted in ["--deep is not completed", "the hidden inner is completed"] {
            assert!(found.contains(&format!("bash: {wanted}")), "{found:?}");
        }
        assert_eq!(
            found.iter().filter(|it| it.contains("cut")).count(),
            0,
            "{found:?}"
        );
    }
}
