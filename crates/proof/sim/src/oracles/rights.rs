//! Rights: what was done for somebody was allowed at some instant between call and answer, and what was refused for want of
//! rights was not allowed throughout. Owners and permission bits are those that clients were told, by
//! [`attributes`](super::attributes) in one order; where it is not known which they were either may be.

use super::Finding;
use crate::history::{Asked, Field, History, Outcome};
use pandofs_api::{Request, op};
use pandofs_types::{Credentials, FsError, Ino};

const READ: i64 = 4;
const WRITE: i64 = 2;
const SEARCH: i64 = 1;
const STICKY: i64 = 0o1000;

/// Whether something may have been true, and whether it may have been false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Either {
    may_hold: bool,
    may_fail: bool,
}

impl Either {
    const HOLDS: Either = Either {
        may_hold: true,
        may_fail: false,
    };
    const UNKNOWN: Either = Either {
        may_hold: true,
        may_fail: true,
    };

    fn and(self, other: Either) -> Either {
        Either {
            may_hold: self.may_hold && other.may_hold,
            may_fail: self.may_fail || other.may_fail,
        }
    }

    fn or(self, other: Either) -> Either {
        Either {
            may_hold: self.may_hold || other.may_hold,
            may_fail: self.may_fail && other.may_fail,
        }
    }

    fn over(cases: impl Iterator<Item = Option<bool>>) -> Either {
        let mut either = Either {
            may_hold: false,
            may_fail: false,
        };
        for case in cases {
            either.may_hold |= case != Some(false);
            either.may_fail |= case != Some(true);
        }
        either
    }
}

pub(super) fn check(history: &History) -> Result<(), Finding> {
    for asked in history.about_rights() {
        let of = Rights { history, asked };
        let allowed = of.allowed();
        let is_wrong = match &asked.outcome {
            Outcome::Done(_) => !allowed.may_hold,
            Outcome::Refused(_) => !allowed.may_fail,
        };
        if is_wrong {
            let Asked {
                instants: (begun, ended),
                caller,
                request,
                outcome,
            } = asked;
            let what = format!(
                "{begun}-{ended} user {}: {request:?}: {outcome:?}; {}",
                caller.uid,
                of.show()
            );
            return Err(Finding::new("rights", what));
        }
    }
    Ok(())
}

struct Rights<'a> {
    history: &'a History,
    asked: &'a Asked,
}

impl Rights<'_> {
    fn possible(&self, ino: Ino, field: Field) -> Vec<Option<i64>> {
        self.history.possible(ino, field, self.asked.instants)
    }

    /// Whether the caller was the superuser.
    fn is_root(&self) -> bool {
        self.asked.caller == Credentials::ROOT
    }

    /// Whether the caller had these rights on the inode.
    fn has(&self, ino: Ino, wanted: i64) -> Either {
        if self.is_root() {
            return Either::HOLDS;
        }
        let caller = &self.asked.caller;
        let (uid, gid) = (i64::from(caller.uid), i64::from(caller.gid));
        let modes = self.possible(ino, Field::Mode);
        let owners = self.possible(ino, Field::Owner);
        let groups = self.possible(ino, Field::Group);
        let is_member =
            |group: i64| group == gid || caller.groups.iter().any(|of| i64::from(*of) == group);
        let bits = |mode: i64, owner: i64, group: i64| {
            let class = match (owner == uid, is_member(group)) {
                (true, _) => mode >> 6,
                (false, true) => mode >> 3,
                (false, false) => mode,
            };
            class & wanted == wanted
        };
        let cases = modes.iter().flat_map(|mode| {
            let owners = owners.iter();
            owners.flat_map(|owner| {
                let groups = groups.iter();
                groups.map(|group| Some(bits((*mode)?, (*owner)?, (*group)?)))
            })
        });
        Either::over(cases)
    }

    fn owns(&self, ino: Ino) -> Either {
        if self.is_root() {
            return Either::HOLDS;
        }
        let uid = i64::from(self.asked.caller.uid);
        let owners = self.possible(ino, Field::Owner);
        Either::over(owners.iter().map(|owner| Some((*owner)? == uid)))
    }

    /// Whether names could be taken of the directory that belong to others.
    fn is_free(&self, dir: Ino) -> Either {
        let modes = self.possible(dir, Field::Mode);
        let is_free = Either::over(modes.iter().map(|mode| Some((*mode)? & STICKY == 0)));
        is_free.or(self.owns(dir))
    }

    /// Whether the name of one of these could be taken of the directory; `None`: it is not known of which.
    fn may_take(&self, dir: Ino, ino: Option<Ino>) -> Either {
        let is_own = ino.map_or(Either::UNKNOWN, |ino| self.owns(ino));
        let is_free = self.is_free(dir).or(is_own);
        self.has(dir, WRITE | SEARCH).and(is_free)
    }

    /// Whether both names may have led to the same inode: then nobody's rights are looked at, and it is done.
    fn may_do_nothing(&self, taken: &[Ino]) -> bool {
        match (&self.asked.request, taken) {
            (Request::Exchange(_), [one, other]) => one == other,
            (Request::Rename(rename), [ino]) => {
                let is_same = rename.dir == rename.new_dir && rename.name == rename.new_name;
                is_same || self.history.may_have_links(*ino)
            }
            _ => false,
        }
    }

    fn allowed(&self) -> Either {
        let taken: &[Ino] = match &self.asked.outcome {
            Outcome::Done(taken) => taken,
            Outcome::Refused(_) => &[],
        };
        let first = taken.first().copied();
        if self.may_do_nothing(taken) {
            return Either::UNKNOWN;
        }
        match &self.asked.request {
            Request::Lookup(op::Lookup { dir, .. }) => self.has(*dir, SEARCH),
            Request::Create(op::Create { dir, .. }) | Request::Mkdir(op::Mkdir { dir, .. }) => {
                self.has(*dir, WRITE | SEARCH)
            }
            Request::Link(op::Link { dir, .. }) => match self.asked.outcome {
                // It is a directory.
                Outcome::Refused(FsError::NotPermitted) => Either::UNKNOWN,
                _ => self.has(*dir, WRITE | SEARCH),
            },
            Request::Unlink(op::Unlink { dir, .. }) | Request::Rmdir(op::Rmdir { dir, .. }) => {
                self.may_take(*dir, first)
            }
            Request::Rename(op::Rename { dir, new_dir, .. }) => {
                // A caller that moves a directory to another one has to have the right to write to it.
                let moved = match dir == new_dir || self.is_root() {
                    true => Either::HOLDS,
                    false => Either::UNKNOWN,
                };
                // The answer does not tell which inode gives way.
                let gives_way = self.may_take(*new_dir, None);
                self.may_take(*dir, first).and(gives_way).and(moved)
            }
            Request::Exchange(op::Exchange { dir, new_dir, .. }) => {
                let moved = match dir == new_dir || self.is_root() {
                    true => Either::HOLDS,
                    false => Either::UNKNOWN,
                };
                let second = taken.get(1).copied();
                let both = self
                    .may_take(*dir, first)
                    .and(self.may_take(*new_dir, second));
                both.and(moved)
            }
            Request::ReadDir(op::ReadDir { dir, .. }) => self.has(*dir, READ),
            Request::Open(op::Open { ino, access, .. }) => self.has(*ino, i64::from(*access)),
            Request::SetAttr(op::SetAttr { ino, set }) => {
                let is_of_owner = set.mode.is_some() || set.mtime.is_some();
                let owns = match is_of_owner || set.uid.is_some() || set.gid.is_some() {
                    true => self.owns(*ino),
                    false => Either::HOLDS,
                };
                let owns = match set.size.is_some() {
                    true => owns.and(self.has(*ino, WRITE)),
                    false => owns,
                };
                // Owners may give to groups that they are in.
                let gives = set.uid.is_some() || set.gid.is_some();
                match gives && !self.is_root() {
                    true => owns.and(Either::UNKNOWN),
                    false => owns,
                }
            }
            Request::GetXattr(op::GetXattr { ino, .. }) => self.has(*ino, READ),
            Request::SetXattr(op::SetXattr { ino, .. })
            | Request::RemoveXattr(op::RemoveXattr { ino, .. }) => match self.asked.outcome {
                // It is a directory of others that is sticky, or what has none.
                Outcome::Refused(FsError::NotPermitted) => Either::UNKNOWN,
                _ => self.has(*ino, WRITE),
            },
            // Nobody's rights are looked at.
            _ => Either::HOLDS,
        }
    }

    /// Text of the possible attributes of the inodes that it is about.
    fn show(&self) -> String {
        let operation = self.asked.request.operation();
        let new_dir = operation.new_name().map(|name| name.dir);
        let inos = [operation.dir(), new_dir, operation.inode()];
        let of = |ino: Ino| {
            let values = |field| self.possible(ino, field);
            format!(
                "{ino} has one of the modes {:?}, owners {:?}, groups {:?}",
                values(Field::Mode),
                values(Field::Owner),
                values(Field::Group)
            )
        };
        let lines: Vec<String> = inos.into_iter().flatten().map(of).collect();
        lines.join("; ")
    }
}
