//! Requests that were answered, for the oracle of rights.

use super::attributes::{Field, possible};
use super::{History, Told};
use pandofs_api::{Refusal, Reply, Request};
use pandofs_types::{Credentials, FsError, Ino};

/// Answer to a request, as far as rights go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was done; the inodes whose names it took.
    Done(Vec<Ino>),
    Refused(FsError),
}

/// A request, and when it was begun and answered.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub instants: (u64, u64),
    pub caller: Credentials,
    pub request: Request,
    pub outcome: Outcome,
}

impl History {
    pub(super) fn asked(
        &mut self,
        begun: u64,
        ended: u64,
        caller: &Credentials,
        request: &Request,
        result: &Result<Reply, Refusal>,
    ) {
        let outcome = match result {
            Ok(Reply::Removed { ino } | Reply::Renamed { ino }) => Outcome::Done(vec![*ino]),
            Ok(Reply::Exchanged { ino, other }) => Outcome::Done(vec![*ino, *other]),
            Ok(_) => Outcome::Done(Vec::new()),
            Err(Refusal::Fs(error)) => Outcome::Refused(*error),
            Err(_) => return,
        };
        let is_about_rights = match outcome {
            Outcome::Done(_) => *caller != Credentials::ROOT,
            Outcome::Refused(error) => matches!(error, FsError::Access | FsError::NotPermitted),
        };
        if is_about_rights {
            self.asked.push(Asked {
                instants: (begun, ended),
                caller: caller.clone(),
                request: request.clone(),
                outcome,
            });
        }
    }

    /// All requests by others than the superuser that were done, and all that were refused for want of rights.
    pub(crate) fn about_rights(&self) -> &[Asked] {
        &self.asked
    }

    /// The values that an attribute may have had between these instants; `None` for any.
    pub(crate) fn possible(
        &self,
        ino: Ino,
        field: Field,
        instants: (u64, u64),
    ) -> Vec<Option<i64>> {
        let operations: &[(u64, Option<u64>, Option<Told>)] = self.attributes.noted(&(ino, field));
        possible(operations, instants)
    }
}
