//! The tool `chmod`.

use crate::change::{self, Common};
use crate::executor::Executor;
use crate::mode::{Change, umask};
use crate::outcome::{Outcome, wrong};
use anyhow::Result;
use clap::Args;
use pandofs_walk_fs::{FileType, Stat, chmod_at};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Mode, chmodat};
use rustix::io::Errno;
use std::ffi::{CStr, OsString};

const EXAMPLES: &str = "\
Examples:
  pandofs chmod u+rwX,go-w /scratch/project
  pandofs chmod --dry-run 640 notes
      the new permissions of what has others
  pandofs chmod --reference notes/first notes

Changes whole trees. Symbolic links have no permissions of their own: one that is named is followed,
unless -h is given, and those that are met are not. What is right already is not touched, so that
its time of change stays. '/' is refused, by whatever name.";

/// Change the permissions of trees, in parallel
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Chmod {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Give all the permissions of this file; there is no MODE then
    #[arg(long, value_name = "FILE")]
    reference: Option<OsString>,
    /// As for chmod: 644, u+rwX,go-w, g=u
    #[arg(value_name = "MODE", allow_hyphen_values = true)]
    mode: OsString,
    /// Files and directories to change
    #[arg(required_unless_present = "reference", value_name = "PATH")]
    roots: Vec<OsString>,
}

impl Chmod {
    /// # Errors
    /// When it cannot begin, or standard output fails.
    pub fn run(&self, executor: &mut Executor<'_>) -> Result<Outcome> {
        let mut roots = self.roots.clone();
        let wanted = match &self.reference {
            Some(file) => {
                roots.insert(0, self.mode.clone());
                let bits = change::reference(file)?.mode() & 0o7777;
                Change::Number { bits, all: true }
            }
            None => {
                let change = Change::parse(&self.mode.to_string_lossy());
                change.map_err(|error| wrong(format!("{error:#}")))?
            }
        };
        let change = Changed {
            change: wanted,
            umask: umask().as_raw_mode(),
        };
        change::run(&self.common, &change, &roots, executor)
    }
}

struct Changed {
    change: Change,
    umask: u32,
}

impl Changed {
    fn of(&self, stat: &Stat) -> u32 {
        let is_directory = stat.kind() == FileType::Directory;
        self.change.apply(stat.mode(), is_directory, self.umask)
    }
}

impl change::Change for Changed {
    const TOOL: &'static str = "chmod";
    const FOLLOWS_ROOTS: bool = true;
    const WHAT: &'static str = "mode";

    fn change(&self, stat: &Stat) -> Option<String> {
        let mode = self.of(stat);
        let is_other = stat.kind() != FileType::Symlink && mode != stat.mode() & 0o7777;
        is_other.then(|| format!("{mode:04o}"))
    }

    fn make(
        &self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
        is_followed: bool,
    ) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(self.of(stat));
        if is_followed {
            // The file that its name leads to by now, as that of GNU chmod: it was named, and is
            // not one that was met.
            return chmodat(dir, name, mode, AtFlags::empty());
        }
        chmod_at(dir, name, mode)
    }

    fn before(&self) -> bool {
        // The least that a directory may have before.
        self.change.apply(0, true, self.umask) & 0o500 == 0o500
    }
}
