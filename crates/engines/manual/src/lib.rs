//! Manual pages and shell completions of a program, made of the texts of its help.
//!
//! Invariant: what is hidden in the help is in no page and no completion, and everything else is.

mod completions;
mod pages;
#[cfg(feature = "suite")]
pub mod suite;

pub use clap_complete::Shell;
pub use completions::completions;
pub use pages::{Elsewhere, Page, pages};

use clap::{Args, Command};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Shells that files are written for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Write the manual pages and completions of this program as files
///
/// They are `man1/PAGE.1`, `bash/PROGRAM`, `zsh/_PROGRAM` and `fish/PROGRAM.fish`.
#[derive(Args, Clone, Debug)]
pub struct Manual {
    /// The folder for them, made if it is not there
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Manual {
    /// Writes the files over what is there under their names. The subcommands of `elsewhere` have pages that another program
    /// writes.
    ///
    /// # Errors
    /// The system's, with the file.
    pub fn write(&self, command: &Command, elsewhere: &[Elsewhere]) -> io::Result<()> {
        for page in pages(command, elsewhere) {
            let path = self.folder.join("man1").join(&page.file);
            put(&path, &page.text)?;
        }
        let name = command.get_name();
        for shell in SHELLS {
            let path = match shell {
                Shell::Zsh => PathBuf::from("zsh").join(format!("_{name}")),
                Shell::Fish => PathBuf::from("fish").join(format!("{name}.fish")),
                _ => PathBuf::from("bash").join(name),
            };
            put(&self.folder.join(path), &completions(command, shell))?;
        }
        Ok(())
    }
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)
    };
    write().map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::tests::{elsewhere, program};

    #[test]
    fn files_are_where_they_are_looked_for_and_written_again() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("deep/folder");
        let manual = Manual {
            folder: folder.clone(),
        };
        for _ in 0..2 {
            manual.write(&program(), &elsewhere()).unwrap();
        }
        for file in [
            "man1/grove.1",
            "man1/grove-plant.1",
            "man1/grove-cut.1",
            "bash/grove",
            "zsh/_grove",
            "fish/grove.fish",
        ] {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            assert!(!text.is_empty(), "{file}");
        }
        assert_eq!(fs::read_dir(folder.join("man1")).unwrap().count(), 4);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("file");
        fs::write(&folder, "").unwrap();
        let manual = Manual { folder };
        let error = manual.write(&program(), &[]).unwrap_err().to_string();
        assert!(error.contains("file/man1/grove.1"), "{error}");
    }
}
