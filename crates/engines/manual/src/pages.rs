//! Manual pages, one for a program and one for each of its subcommands.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::io;

/// Name of the whole manual, in the middle of each page's first line.
const MANUAL: &str = "PandoFS";

/// A manual page of section 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Name of its file, `pandofs-mount.1`.
    pub file: String,
    /// In the language of man(7).
    pub text: String,
}

/// A subcommand whose page another program writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The subcommand.
    pub subcommand: String,
    /// Name of the page that tells of it, without the section.
    pub page: String,
}

/// The pages of a program, the first one its own, then those of its subcommands, which are named as `pandofs-mount`. That
/// of a subcommand of `elsewhere` leads to the other page.
pub fn pages(command: &Command, elsewhere: &[Elsewhere]) -> Vec<Page> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let version = command.get_version().unwrap_or_default();
    let source = format!("{} {version}", command.get_name());
    let mut pages = Vec::new();
    add_pages(&command, None, &source, elsewhere, &mut pages);
    pages
}

/// Name of a command's page, without the section.
pub(crate) fn name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

fn add_pages(
    command: &Command,
    above: Option<&str>,
    source: &str,
    elsewhere: &[Elsewhere],
    pages: &mut Vec<Page>,
) {
    pages.push(page(command, above, source));
    for inner in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        let other = elsewhere
            .iter()
            .find(|it| it.subcommand == inner.get_name());
        match other {
            // A page of that very name is the other program's.
            Some(other) if other.page == name(inner) => {}
            Some(other) => pages.push(Page {
                file: file(name(inner)),
                text: format!(".so man1/{}\n", file(&other.page)),
            }),
            None => add_pages(inner, Some(name(command)), source, &[], pages),
        }
    }
}

fn file(page: &str) -> String {
    format!("{page}.1")
}

fn page(command: &Command, above: Option<&str>, source: &str) -> Page {
    let man = Man::new(command.clone()).source(source).manual(MANUAL);
    let mut text = Vec::new();
    let write = |out: &mut Vec<u8>| -> io::Result<()> {
        man.render_title(out)?;
        man.render_name_section(out)?;
        man.render_synopsis_section(out)?;
        man.render_description_section(out)?;
        if command.get_arguments().any(|it| !it.is_hide_set()) {
            man.render_options_section(out)?;
        }
        if command.get_subcommands().any(|it| !it.is_hide_set()) {
            man.render_subcommands_section(out)?;
        }
        let after = command.get_after_long_help();
        if let Some(after) = after.or_else(|| command.get_after_help()) {
            sections(&after.to_string()).to_writer(out)?;
        }
        if let Some(above) = above {
            let mut also = Roff::default();
            also.control("SH", ["SEE ALSO"]);
            also.text([roman(format!("{above}(1)"))]);
            also.to_writer(out)?;
        }
        Ok(())
    };
    // Writing to memory does not fail, and texts are UTF-8.
    write(&mut text).unwrap_or_else(|error| panic!("a page in memory: {error}"));
    Page {
        file: file(name(command)),
        text: plain(&String::from_utf8_lossy(&text)),
    }
}

/// The text in characters that every terminal has.
pub(crate) fn plain(text: &str) -> String {
    text.replace('…', "...")
}

/// Text after the options in the help. A line that ends with a colon above lines that are further in begins a section;
/// text that belongs to none is a section of notes. Lines that are further in stay as they are, others are set as text.
fn sections(help: &str) -> Roff {
    let lines: Vec<&str> = help.lines().collect();
    let mut roff = Roff::default();
    let mut is_in_section = false;
    let mut is_as_is = false;
    for (at, line) in lines.iter().enumerate() {
        let is_inner = line.starts_with(' ');
        if is_as_is && !is_inner && !line.is_empty() {
            roff.control("fi", []);
            is_as_is = false;
            // Text after a section's lines and an empty one belongs to the whole page.
            is_in_section &= !lines[at - 1].is_empty();
        }
        let next = lines.get(at + 1);
        let is_title = !is_inner && next.is_some_and(|next| next.starts_with(' '));
        if let Some(title) = line.strip_suffix(':').filter(|_| is_title) {
            roff.control("SH", [title.to_uppercase().as_str()]);
            is_in_section = true;
            continue;
        }
        if line.is_empty() {
            roff.control(if is_as_is { "sp" } else { "PP" }, []);
            continue;
        }
        if !is_in_section {
            roff.control("SH", ["NOTES"]);
            is_in_section = true;
        }
        if is_inner && !is_as_is {
            roff.control("nf", []);
            is_as_is = true;
        }
        roff.text([roman(*line)]);
    }
    if is_as_is {
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::Arg;

    const EXAMPLES: &str = "\
Examples:
  grove plant --deep 'a\\b'
      one
  .hidden

It grows.
'Tis so; known are
  ash oak
and others.";

    /// With all that a page could stumble over.
    pub(crate) fn program() -> Command {
        let plant = Command::new("plant")
            .about("Plant a tree")
            .after_help(EXAMPLES)
            .arg(
                Arg::new("deep")
                    .long("deep")
                    .value_name("DEPTH,…")
                    .help("How deep\n.TH trap"),
            )
            .arg(Arg::new("secret").long("secret").hide(true))
            .subcommand(Command::new("here").about("In this place"));
        Command::new("grove")
            .version("1.2")
            .about("A grove")
            .subcommand(plant)
            .subcommand(Command::new("cut").about("Cut it"))
            .subcommand(Command::new("saw").about("Saw it"))
            .subcommand(Command::new("inner").hide(true))
    }

    pub(crate) fn elsewhere() -> [Elsewhere; 2] {
        [("cut", "axe-cut"), ("saw", "grove-saw")].map(|(subcommand, page)| Elsewhere {
            subcommand: subcommand.into(),
            page: page.into(),
        })
    }

    #[test]
    fn each_command_has_a_page_unless_it_is_hidden_or_told_of_elsewhere() {
        let pages = pages(&program(), &elsewhere());
        let files: Vec<&str> = pages.iter().map(|page| page.file.as_str()).collect();
        let wanted = [
            "grove.1",
            "grove-plant.1",
            "grove-plant-here.1",
            "grove-cut.1",
        ];
        assert_eq!(files, wanted);
        assert_eq!(pages[3].text, ".so man1/axe-cut.1\n");
        assert!(
            pages[0].text.contains(r"grove\-plant(1)"),
            "{}",
            pages[0].text
        );
        assert!(!pages[0].text.contains("inner"), "{}", pages[0].text);
        assert!(!pages[1].text.contains("secret"), "{}", pages[1].text);
        assert!(
            pages[2].text.contains(r"grove plant here"),
            "{}",
            pages[2].text
        );
        assert!(
            pages[2].text.contains(r"grove\-plant(1)"),
            "{}",
            pages[2].text
        );
        assert!(
            pages
                .iter()
                .take(3)
                .all(|page| page.text.contains("\"grove 1.2\" PandoFS"))
        );
    }

    #[test]
    fn help_becomes_sections_and_nothing_in_it_a_request() {
        let text = &pages(&program(), &[])[1].text;
        let wanted = "\
.SH EXAMPLES
.nf
  grove plant \\-\\-deep \\*(Aqa\\\\b\\*(Aq
      one
  .hidden
.sp
.fi
.SH NOTES
It grows.
\\*(AqTis so; known are
.nf
  ash oak
.fi
and others.
";
        assert!(text.contains(wanted), "{text}");
        let requests = text.lines().filter(|line| line.starts_with(['.', '\'']));
        let unknown: Vec<&str> = requests
            .filter(|line| {
                let word = line.split(' ').next().unwrap_or_default();
                ![
                    ".TH", ".SH", ".TP", ".nf", ".fi", ".sp", ".PP", ".ie", ".el",
                ]
                .contains(&word)
            })
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert_eq!(
            text.matches(".TH ").count(),
            2,
            "one of them is in a help text: {text}"
        );
        assert!(
            !text.lines().skip(3).any(|line| line.starts_with(".TH")),
            "{text}"
        );
    }
}
