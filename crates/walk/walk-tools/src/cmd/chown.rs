//! The tool `chown`.

use crate::change::{self, Common};
use crate::executor::Executor;
use crate::find::users::{group_number, login, user_number};
use crate::outcome::{Outcome, wrong};
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_walk_fs::Stat;
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Gid, Uid, chownat};
use rustix::io::Errno;
use std::ffi::{CStr, OsString};

const EXAMPLES: &str = "\
Examples:
  pandofs chown alice:staff /scratch/project
  pandofs chown :staff shared
  pandofs chown alice: shared
      and the group that alice logs in with
  pandofs chown --from 1005 alice --dry-run /home/alice
      of what user 1005 has

Changes whole trees. Symbolic links are changed themselves and not followed. What is right already
is not touched, so that its time of change stays. As always, files lose set-id bits with their
owner. '/' is refused, by whatever name.";

/// Change the owner and group of trees, in parallel
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Chown {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only of what has this owner, group, or both
    #[arg(long, value_name = "OWNER")]
    from: Option<String>,
    /// Give all the owner and group of this file; there is no OWNER then
    #[arg(long, value_name = "FILE")]
    reference: Option<OsString>,
    /// USER, USER:GROUP or :GROUP, by name or number; USER: is with the group that USER logs in
    /// with
    #[arg(value_name = "OWNER")]
    owner: OsString,
    /// Files and directories to change
    #[arg(required_unless_present = "reference", value_name = "PATH")]
    roots: Vec<OsString>,
}

impl Chown {
    /// # Errors
    /// When it cannot begin, or standard output fails.
    pub fn run(&self, executor: &mut Executor<'_>) -> Result<Outcome> {
        let from = match &self.from {
            Some(from) => owner(from)?,
            None => Owner::default(),
        };
        let mut roots = self.roots.clone();
        let to = match &self.reference {
            Some(file) => {
                roots.insert(0, self.owner.clone());
                let stat = change::reference(file)?;
                Owner {
                    user: Some(stat.uid()),
                    group: Some(stat.gid()),
                }
            }
            None => owner(&self.owner.to_string_lossy())?,
        };
        change::run(&self.common, &Changed { from, to }, &roots, executor)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Owner {
    user: Option<u32>,
    group: Option<u32>,
}

/// An owner on the command line.
fn owner(text: &str) -> Result<Owner> {
    parse(text).map_err(|error| wrong(format!("{error:#}")))
}

fn parse(text: &str) -> Result<Owner> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    if !user.is_empty() && group == Some("") {
        // As with GNU chown, not for a number: it may be of no user.
        let (uid, gid) = login(user)
            .with_context(|| format!("there is no user '{user}' whose group could be meant"))?;
        return Ok(Owner {
            user: Some(uid),
            group: Some(gid),
        });
    }
    let owner = Owner {
        user: (!user.is_empty())
            .then(|| user_number(user).with_context(|| format!("there is no user '{user}'")))
            .transpose()?,
        group: group
            .filter(|group| !group.is_empty())
            .map(|group| {
                group_number(group).with_context(|| format!("there is no group '{group}'"))
            })
            .transpose()?,
    };
    if owner == Owner::default() {
        bail!("'{text}' is no owner");
    }
    Ok(owner)
}

struct Changed {
    from: Owner,
    to: Owner,
}

impl change::Change for Changed {
    const TOOL: &'static str = "chown";
    const FOLLOWS_ROOTS: bool = false;
    const WHAT: &'static str = "owner";

    fn change(&self, stat: &Stat) -> Option<String> {
        let is = |wanted: Option<u32>, id| wanted.is_none_or(|wanted| wanted == id);
        let concerned = is(self.from.user, stat.uid()) && is(self.from.group, stat.gid());
        let is_other = !(is(self.to.user, stat.uid()) && is(self.to.group, stat.gid()));
        (concerned && is_other).then(|| {
            let user = self.to.user.unwrap_or(stat.uid());
            let group = self.to.group.unwrap_or(stat.gid());
            format!("{user}:{group}")
        })
    }

    fn make(
        &self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        _stat: &Stat,
        _is_followed: bool,
    ) -> Result<(), Errno> {
        let (user, group) = (
            self.to.user.map(Uid::from_raw),
            self.to.group.map(Gid::from_raw),
        );
        chownat(dir, name, user, group, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn before(&self) -> bool {
        // After giving a directory away one may not be allowed to read it.
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_names_or_numbers() {
        let owner = |user, group| Owner { user, group };
        assert_eq!(parse("root").unwrap(), owner(Some(0), None));
        assert_eq!(parse("12:34").unwrap(), owner(Some(12), Some(34)));
        assert_eq!(parse(":root").unwrap(), owner(None, Some(0)));
        assert_eq!(parse("root:").unwrap(), owner(Some(0), Some(0)));
        for text in [
            "",
            ":",
            "nobody is called so",
            "0:no group is called so",
            "0:",
            "nobody is called so:",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
