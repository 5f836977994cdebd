//! Who asks, and when it is worth knowing in which groups.
//!
//! The kernel sends user and primary group with each request, but not the supplementary groups: those
//! stand in `/proc/PID/status`, which costs about as much to read as a request to a server. They are
//! therefore read only where they matter:
//!
//! - Never for the superuser, who may do everything without.
//! - Otherwise only after a server refused the request for want of rights. It has changed nothing
//!   then, so it can be asked once more, with groups. Whoever needed them once gets them read first
//!   from then on.
//! - Always where they decide what is done and not just whether, since then nothing is refused: a
//!   set-group-id bit that somebody sets who is not in the file's group is left off without an error.
//!
//! While the request is under way its caller waits in a system call: the process is there and its
//! number means it. Requests that the kernel makes on its own (read-ahead, closes) carry no process
//! and need no rights.

use fuser::Request;
use pandofs_client::ClientError;
use pandofs_types::limits::MAX_GROUPS;
use pandofs_types::{Credentials, FsError};
use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

/// Whoever made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub uid: u32,
    pub gid: u32,
    /// 0: none that this process could see.
    pub pid: u32,
}

impl From<&Request> for Caller {
    fn from(request: &Request) -> Caller {
        Caller {
            uid: request.uid(),
            gid: request.gid(),
            pid: request.pid(),
        }
    }
}

impl Caller {
    pub fn is_superuser(self) -> bool {
        self.uid == 0
    }

    /// Without supplementary groups.
    pub fn alone(self) -> Credentials {
        Credentials {
            uid: self.uid,
            gid: self.gid,
            groups: Vec::new(),
        }
    }

    /// With supplementary groups; none for the superuser.
    pub fn with_groups(self) -> Credentials {
        self.with(groups_of)
    }

    fn with(self, groups_of: impl FnOnce(u32) -> Vec<u32>) -> Credentials {
        let mut credentials = self.alone();
        if !self.is_superuser() {
            // Who was let go is not there any more, and its number may be another one's.
            if !fuser::is_answered_early() {
                credentials.groups = groups_of(self.pid);
            }
            credentials.groups.retain(|&group| group != self.gid);
        }
        credentials
    }
}

/// Asks on behalf of callers.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    /// Users who were let in for their supplementary groups. Grows by one number a user at most.
    needed_groups: RwLock<HashSet<u32>>,
}

impl Callers {
    /// Has `ask` make a request as `caller`, a second time with supplementary groups if need be.
    pub fn ask<T>(
        &self,
        caller: Caller,
        ask: impl FnMut(&Credentials) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        self.ask_with(caller, groups_of, ask)
    }

    fn ask_with<T>(
        &self,
        caller: Caller,
        groups_of: impl FnOnce(u32) -> Vec<u32>,
        mut ask: impl FnMut(&Credentials) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        if caller.is_superuser() {
            return ask(&caller.alone());
        }
        if self.needs_groups(caller.uid) {
            return ask(&caller.with(groups_of));
        }
        let refusal = match ask(&caller.alone()) {
            Err(error) if is_refusal(&error) => error,
            result => return result,
        };
        let credentials = caller.with(groups_of);
        if credentials.groups.is_empty() {
            return Err(refusal);
        }
        let result = ask(&credentials);
        if !result.as_ref().is_err_and(is_refusal) {
            let mut users = self
                .needed_groups
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            users.insert(caller.uid);
        }
        result
    }

    fn needs_groups(&self, uid: u32) -> bool {
        self.needed_groups
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&uid)
    }
}

fn is_refusal(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Fs(FsError::Access | FsError::NotPermitted)
    )
}

/// The supplementary groups of a process or thread; none when it cannot be told.
fn groups_of(pid: u32) -> Vec<u32> {
    if pid == 0 {
        return Vec::new();
    }
    std::fs::read(format!("/proc/{pid}/status")).map_or_else(|_| Vec::new(), |text| parse(&text))
}

/// The numbers on the line `Groups:` of a `/proc/PID/status` (proc_pid_status(5)).
fn parse(status: &[u8]) -> Vec<u32> {
    let line = status
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Groups:"));
    line.unwrap_or_default()
        .split(u8::is_ascii_whitespace)
        .filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
        .take(MAX_GROUPS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: Caller = Caller {
        uid: 1_000,
        gid: 100,
        pid: 7,
    };
    const REFUSED: ClientError = ClientError::Fs(FsError::Access);

    #[test]
    fn groups_are_found_in_a_status() {
        let status =
            b"Name:\tGroups: 5\nUid:\t0\t0\t0\t0\nGroups:\t4 24 1000 4294967294 \nNStgid:\t1\n";
        assert_eq!(parse(status), [4, 24, 1_000, 4_294_967_294]);
        assert!(parse(b"Name:\tx\nGroups:\t \nNStgid:\t1\n").is_empty());
        assert!(parse(b"Name:\tx\n").is_empty());
        assert!(parse(b"").is_empty());
        assert_eq!(parse(b"Groups:\t1 -2 x 4294967296 3"), [1, 3]);
    }

    #[test]
    fn the_groups_of_this_process_are_those_the_system_tells() {
        let told: Vec<u32> = rustix::process::getgroups()
            .unwrap()
            .iter()
            .map(|g| g.as_raw())
            .collect();
        assert_eq!(groups_of(std::process::id()), told);
    }

    #[test]
    fn a_process_that_is_not_there_has_no_groups() {
        assert!(groups_of(0).is_empty());
        assert!(groups_of(u32::MAX).is_empty());
    }

    /// Asks as `caller` of a server that lets in group 9 only; returns the answer and the groups of
    /// each request.
    fn ask(
        callers: &Callers,
        caller: Caller,
        groups: &[u32],
    ) -> (Result<(), ClientError>, Vec<Vec<u32>>) {
        let mut asked = Vec::new();
        let result = callers.ask_with(
            caller,
            |_| groups.to_vec(),
            |credentials| {
                asked.push(credentials.groups.clone());
                if credentials.in_group(9) {
                    Ok(())
                } else {
                    Err(REFUSED)
                }
            },
        );
        (result, asked)
    }

    #[test]
    fn groups_are_given_only_after_a_refusal_and_then_from_the_start() {
        let callers = Callers::default();
        assert_eq!(
            ask(&callers, CALLER, &[100, 9]),
            (Ok(()), vec![vec![], vec![9]])
        );
        assert_eq!(ask(&callers, CALLER, &[100, 9]), (Ok(()), vec![vec![9]]));
        let other = Caller {
            uid: 1_001,
            ..CALLER
        };
        assert_eq!(
            ask(&callers, other, &[8]),
            (Err(REFUSED), vec![vec![], vec![8]])
        );
        assert_eq!(
            ask(&callers, other, &[8]),
            (Err(REFUSED), vec![vec![], vec![8]])
        );
    }

    #[test]
    fn who_has_no_other_groups_is_refused_at_once() {
        let callers = Callers::default();
        assert_eq!(ask(&callers, CALLER, &[100]), (Err(REFUSED), vec![vec![]]));
        let superuser = Caller {
            uid: 0,
            gid: 0,
            pid: 7,
        };
        assert_eq!(ask(&callers, superuser, &[9]), (Err(REFUSED), vec![vec![]]));
    }

    #[test]
    fn only_a_want_of_rights_is_asked_about_again() {
        let mut asked = 0;
        let missing = ClientError::Fs(FsError::NotFound);
        let result: Result<(), _> = Callers::default().ask_with(
            CALLER,
            |_| vec![9],
            |_| {
                asked += 1;
                Err(missing.clone())
            },
        );
        assert_eq!((result, asked), (Err(missing), 1));
    }
}
