//! Parser of the tests of a command line of find.

use crate::find::expression::{Age, DAY, Test, Which};
use crate::find::filesystems::FileSystems;
use crate::find::parse::Parser;
use crate::find::regexes;
use crate::find::selinux;
use crate::find::users;
use crate::find::values::{age, just, kinds, moment, permissions_test, size};
use anyhow::{Context, Result, bail};
use pandofs_walk_fs::{Follow, Stat};
use rustix::fs::{Access, CWD};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;

impl Parser<'_> {
    /// A test, whose name was read.
    ///
    /// # Errors
    /// When there is none of that name, or its argument makes no sense.
    pub(super) fn test(&mut self, name: &str) -> Result<Test> {
        Ok(match name {
            "-name" => Test::Name(self.glob(name, false)?),
            "-iname" => Test::Name(self.glob(name, true)?),
            "-path" | "-wholename" => Test::Path(self.glob(name, false)?),
            "-ipath" | "-iwholename" => Test::Path(self.glob(name, true)?),
            "-lname" => Test::LinkName(self.glob(name, false)?),
            "-ilname" => Test::LinkName(self.glob(name, true)?),
            "-regex" | "-iregex" => {
                let syntax = self.syntax;
                Test::Regex(regexes::compile(
                    self.text(name)?,
                    syntax,
                    name == "-iregex",
                )?)
            }
            "-type" => Test::Kind(kinds(self.text(name)?)?),
            "-xtype" => {
                let kinds = kinds(self.text(name)?)?;
                Test::OtherKind(kinds, self.query.follow == Follow::Always)
            }
            "-context" => {
                if !selinux::is_there() {
                    bail!("{name}: there is no SELinux here");
                }
                Test::Context(self.glob(name, false)?)
            }
            "-fstype" => Test::FileSystem(self.text(name)?.to_owned(), FileSystems::mounted()?),
            "-used" => Test::Used(self.days(name, DAY)?),
            "-size" => size(self.text(name)?)?,
            "-empty" => Test::Empty,
            "-links" => Test::Links(self.compare(name)?),
            "-inum" => Test::Inode(self.compare(name)?),
            "-uid" => Test::User(self.compare(name)?),
            "-gid" => Test::Group(self.compare(name)?),
            "-user" => {
                let user = self.text(name)?;
                let uid = users::user_number(user);
                Test::User(just(
                    uid.with_context(|| format!("there is no user '{user}'"))?,
                ))
            }
            "-group" => {
                let group = self.text(name)?;
                let gid = users::group_number(group);
                Test::Group(just(
                    gid.with_context(|| format!("there is no group '{group}'"))?,
                ))
            }
            "-nouser" => Test::NoUser,
            "-nogroup" => Test::NoGroup,
            "-perm" => permissions_test(self.text(name)?)?,
            "-readable" => Test::Access(Access::READ_OK),
            "-writable" => Test::Access(Access::WRITE_OK),
            "-executable" => Test::Access(Access::EXEC_OK),
            "-samefile" => {
                let file = self.argument(name)?;
                Test::SameFile(self.look(name, file)?.identity())
            }
            "-atime" => self.age(name, Which::Accessed, DAY)?,
            "-ctime" => self.age(name, Which::Changed, DAY)?,
            "-mtime" => self.age(name, Which::Modified, DAY)?,
            "-amin" => self.age(name, Which::Accessed, 60)?,
            "-cmin" => self.age(name, Which::Changed, 60)?,
            "-mmin" => self.age(name, Which::Modified, 60)?,
            "-newer" => self.newer(name, Which::Modified, Which::Modified)?,
            "-anewer" => self.newer(name, Which::Accessed, Which::Modified)?,
            "-cnewer" => self.newer(name, Which::Changed, Which::Modified)?,
            _ => {
                let times = name.strip_prefix("-newer").map(str::as_bytes);
                if let Some([of, b't']) = times
                    && let Some(of) = which(*of)
                {
                    return self.newer_than_text(name, of);
                }
                if let Some([of, than]) = times
                    && let (Some(of), Some(than)) = (which(*of), which(*than))
                {
                    return self.newer(name, of, than);
                }
                bail!("'{name}' is not known to this find: see --help");
            }
        })
    }

    /// `-atime` and the like. From midnight after `-daystart`, for what comes after it.
    fn age(&mut self, name: &str, which: Which, unit: i64) -> Result<Test> {
        Ok(Test::Age(which, self.days(name, unit)?, self.ages_from))
    }

    /// A number of units, which need not be whole.
    fn days(&mut self, name: &str, unit: i64) -> Result<Age> {
        let text = self.text(name)?;
        age(text, unit).with_context(|| format!("{name}: '{text}' is no number like 7, +7 or -0.5"))
    }

    /// `-newermt '2026-02-03 12:00'`
    fn newer_than_text(&mut self, name: &str, of: Which) -> Result<Test> {
        let text = self.text(name)?;
        let time = moment(text).with_context(|| {
            format!(
                "{name}: '{text}' is no date like 2026-02-03, '2026-02-03 12:00', @1700000000 or '3 days ago'"
            )
        })?;
        self.query.needs_birth |= of == Which::Born;
        Ok(Test::Newer(of, time))
    }

    fn newer(&mut self, name: &str, of: Which, than: Which) -> Result<Test> {
        let file = self.argument(name)?;
        let stat = self.look(name, file)?;
        if than == Which::Born && stat.born().is_none() {
            bail!(
                "{name}: {}: its time of creation is not known",
                file.display()
            );
        }
        self.query.needs_birth |= of == Which::Born;
        Ok(Test::Newer(of, than.of(&stat)))
    }

    /// A file that others are compared with: of a link what it leads to, if such links are followed
    /// that are roots.
    fn look(&self, name: &str, file: &OsStr) -> Result<Stat> {
        let path = CString::new(file.as_bytes())?;
        let followed = match self.query.follow {
            Follow::Never => None,
            Follow::Roots | Follow::Always => Stat::followed(CWD, &path).ok(),
        };
        let stat = followed.map_or_else(|| Stat::of(CWD, &path), Ok);
        stat.with_context(|| format!("{name}: {}", file.display()))
    }
}

fn which(letter: u8) -> Option<Which> {
    match letter {
        b'a' => Some(Which::Accessed),
        b'c' => Some(Which::Changed),
        b'm' => Some(Which::Modified),
        b'B' => Some(Which::Born),
        _ => None,
    }
}
