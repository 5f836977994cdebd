//! Credentials of callers: when to read their groups and capabilities.
//!
//! The kernel sends user and primary group with each request, but neither the supplementary groups
//! nor the capabilities. Groups stand in `/proc/PID/status`, which costs about as much to read as a
//! request to a server; capabilities are asked of the system, which costs little, but what they
//! count for stands in `/proc`, too. Both are therefore looked up only where they matter:
//!
//! - After a server refused the request for want of rights, be it the superuser's. It has changed
//!   nothing then, so it can be asked once more, with all that the caller has. Of users who needed
//!   that once it is looked up first from then on.
//! - Always where they decide what is done and not just whether, since then nothing is refused: a
//!   set-group-id bit set by a caller outside the file's group is left off without an
//!   error, one without a right to execute goes when such a one writes to the file, and attributes in
//!   `trusted.` are not there for most.
//!
//! Groups and capabilities are used for one request and never kept: a process that gave one up is
//! not let in for having had it. While the request is under way its caller waits in a system call:
//! the process is there and its number means it.
//!
//! Capabilities count for processes of the user name space in which this one is, which is the
//! mount's. Those of others hold for what their name space owns, and no mount is its. Callers that
//! this process cannot see, because they are in no process-id name space of its, and requests that
//! the kernel makes on its own (read-ahead, closes) go by the user's number: 0 may do everything,
//! and no other more than users may.

use pandofs_client::ClientError;
use pandofs_types::limits::MAX_GROUPS;
use pandofs_types::{Capabilities, Credentials, FsError};
use rustix::process::Pid;
use rustix::thread::{CapabilitySet, capabilities};
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::sync::{OnceLock, PoisonError, RwLock};

/// The caller of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub uid: u32,
    pub gid: u32,
    /// 0: none that this process could see, or that is no longer waited for.
    pub pid: u32,
}

impl Caller {
    /// Without supplementary groups and capabilities.
    pub(crate) fn alone(self) -> Credentials {
        Credentials::user(self.uid, self.gid, Vec::new())
    }

    /// With capabilities, and without supplementary groups.
    pub(crate) fn capable(self) -> Credentials {
        self.alone().with(self.capabilities())
    }

    /// With all that the caller has.
    pub(crate) fn complete(self) -> Credentials {
        let capabilities = self.capabilities();
        // A caller that may do everything needs no groups.
        let caller = if capabilities == Capabilities::ALL {
            self.alone()
        } else {
            self.grouped()
        };
        caller.with(capabilities)
    }

    /// The writer of an open file. It takes no right but to keep the file's set-id bits, and the
    /// kernel says whether the caller has that. `groups_decide` is asked of those who do not:
    /// whether what becomes of the bits depends on their groups, too.
    pub(crate) fn writing(self, kills: bool, groups_decide: impl FnOnce() -> bool) -> Credentials {
        if kills {
            if groups_decide() {
                self.grouped()
            } else {
                self.alone()
            }
        } else if self.uid == 0 {
            self.alone().with(Capabilities::FSETID)
        } else {
            // An older kernel never says so.
            self.truncating(groups_decide)
        }
    }

    /// The caller that truncates a file, or takes or gives back its space: the right to keep its set-id
    /// bits, if it has that, or else the groups, if they decide what becomes of them.
    pub(crate) fn truncating(self, groups_decide: impl FnOnce() -> bool) -> Credentials {
        if self.capabilities().has(Capabilities::FSETID) {
            self.alone().with(Capabilities::FSETID)
        } else if groups_decide() {
            self.grouped()
        } else {
            self.alone()
        }
    }

    /// With supplementary groups, and without capabilities.
    fn grouped(self) -> Credentials {
        let mut credentials = self.alone();
        if self.pid != 0 {
            credentials.groups = groups_of(self.pid);
            credentials.groups.retain(|&group| group != self.gid);
        }
        credentials
    }

    fn capabilities(self) -> Capabilities {
        let seen = match self.pid {
            0 => None,
            pid => capabilities_of(pid),
        };
        seen.unwrap_or(match self.uid {
            0 => Capabilities::ALL,
            _ => Capabilities::NONE,
        })
    }
}

/// Asks on behalf of callers.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    /// Users who were let in for their supplementary groups or capabilities. Grows by one number a
    /// user at most.
    needed_more: RwLock<HashSet<u32>>,
}

impl Callers {
    /// Has `ask` make a request as `caller`, a second time with supplementary groups and
    /// capabilities if need be: of the caller as it is then.
    pub(crate) fn ask<T>(
        &self,
        caller: impl Fn() -> Caller,
        ask: impl FnMut(&Credentials) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let least = caller().alone();
        self.ask_with(caller, least, Caller::complete, ask)
    }

    /// As [`Self::ask`] for what may cut a file: whether it does, and as for [`Caller::cutting`].
    pub(crate) fn ask_to_truncate<T>(
        &self,
        caller: impl Fn() -> Caller,
        truncations: bool,
        groups_decide: impl FnOnce() -> bool,
        ask: impl FnMut(&Credentials) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let least = if truncations {
            caller().truncating(groups_decide)
        } else {
            caller().alone()
        };
        self.ask_with(caller, least, Caller::complete, ask)
    }

    fn ask_with<T>(
        &self,
        caller: impl Fn() -> Caller,
        least: Credentials,
        complete: impl FnOnce(Caller) -> Credentials,
        mut ask: impl FnMut(&Credentials) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        if self.needs_more(caller().uid) {
            return ask(&complete(caller()));
        }
        let refusal = match ask(&least) {
            Err(error) if is_refusal(&error) => error,
            result => return result,
        };
        let credentials = complete(caller());
        if credentials == least {
            return Err(refusal);
        }
        let result = pandofs_client::trace::again(|| ask(&credentials));
        if !result.as_ref().is_err_and(is_refusal) {
            let mut users = self
                .needed_more
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            users.insert(caller().uid);
        }
        result
    }

    fn needs_more(&self, uid: u32) -> bool {
        self.needed_more
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

/// The supplementary groups of a process or thread; none when they cannot be read.
fn groups_of(pid: u32) -> Vec<u32> {
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

/// The capabilities of this process.
pub fn own_capabilities() -> Capabilities {
    capabilities_of(std::process::id()).unwrap_or_default()
}

/// The effective capabilities of a process or thread, none if they are those of another user name
/// space than this process's; `None` when it cannot be read.
fn capabilities_of(pid: u32) -> Option<Capabilities> {
    let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let found = known(capabilities(Some(number)).ok()?.effective);
    // Most have none, and then it is all the same where they are.
    if found == Capabilities::NONE || user_name_space(pid)? == own_user_name_space()? {
        Some(found)
    } else {
        Some(Capabilities::NONE)
    }
}

fn known(set: CapabilitySet) -> Capabilities {
    [
        (CapabilitySet::CHOWN, Capabilities::CHOWN),
        (CapabilitySet::DAC_OVERRIDE, Capabilities::DAC_OVERRIDE),
        (
            CapabilitySet::DAC_READ_SEARCH,
            Capabilities::DAC_READ_SEARCH,
        ),
        (CapabilitySet::FOWNER, Capabilities::FOWNER),
        (CapabilitySet::FSETID, Capabilities::FSETID),
        (CapabilitySet::MKNOD, Capabilities::MKNOD),
        (CapabilitySet::SYS_ADMIN, Capabilities::SYS_ADMIN),
        (CapabilitySet::SETFCAP, Capabilities::SETFCAP),
    ]
    .into_iter()
    .filter(|(theirs, _)| set.contains(*theirs))
    .fold(Capabilities::NONE, |all, (_, ours)| all.with(ours))
}

/// The identity of a process's user name space (namespaces(7)): device and number of an inode.
fn user_name_space(pid: u32) -> Option<(u64, u64)> {
    let place = std::fs::metadata(format!("/proc/{pid}/ns/user")).ok()?;
    Some((place.dev(), place.ino()))
}

fn own_user_name_space() -> Option<(u64, u64)> {
    /// This process has threads when it first asks, and none of those can ever change it.
    static OWN: OnceLock<Option<(u64, u64)>> = OnceLock::new();
    *OWN.get_or_init(|| user_name_space(std::process::id()))
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
    fn of_a_process_that_is_not_there_nothing_is_known() {
        assert!(groups_of(0).is_empty());
        assert!(groups_of(u32::MAX).is_empty());
        assert_eq!(capabilities_of(0), None);
        assert_eq!(capabilities_of(u32::MAX), None);
        // The highest number that Linux gives is 4,194,304.
        assert_eq!(capabilities_of(1 << 30), None);
    }

    #[test]
    fn who_cannot_be_seen_goes_by_its_number() {
        let unseen = |uid| Caller {
            uid,
            gid: 5,
            pid: 0,
        };
        assert_eq!(unseen(0).complete().capabilities, Capabilities::ALL);
        assert_eq!(unseen(9).complete(), unseen(9).alone());
    }

    /// The line `CapEff:` of this process's status.
    #[test]
    fn the_capabilities_of_this_process_are_those_the_system_tells() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let told = status.lines().find_map(|it| it.strip_prefix("CapEff:"));
        let told = u64::from_str_radix(told.unwrap().trim(), 16).unwrap();
        let found = own_capabilities();
        // The numbers of linux/capability.h.
        for (number, capability) in [
            (0, Capabilities::CHOWN),
            (1, Capabilities::DAC_OVERRIDE),
            (2, Capabilities::DAC_READ_SEARCH),
            (3, Capabilities::FOWNER),
            (4, Capabilities::FSETID),
            (21, Capabilities::SYS_ADMIN),
            (27, Capabilities::MKNOD),
            (31, Capabilities::SETFCAP),
        ] {
            assert_eq!(found.has(capability), told >> number & 1 == 1, "{number}");
        }
    }

    #[test]
    fn a_writer_keeps_set_id_bits_if_the_kernel_does_not_say_otherwise() {
        let root = Caller {
            uid: 0,
            gid: 0,
            pid: 0,
        };
        let keeps = |who: Caller, kills| {
            let writer = who.writing(kills, || false);
            writer.has(Capabilities::FSETID)
        };
        assert!(keeps(root, false) && !keeps(root, true));
        let user = Caller { uid: 7, ..root };
        assert!(!keeps(user, false) && !keeps(user, true));
    }

    /// Asks as `caller` of a server that lets in group 9 and who may read everything only; returns
    /// the answer and the groups of each request.
    fn ask(
        callers: &Callers,
        caller: Caller,
        groups: &[u32],
    ) -> (Result<(), ClientError>, Vec<Vec<u32>>) {
        ask_as(callers, caller, groups, Capabilities::NONE)
    }

    fn ask_as(
        callers: &Callers,
        caller: Caller,
        groups: &[u32],
        capabilities: Capabilities,
    ) -> (Result<(), ClientError>, Vec<Vec<u32>>) {
        let mut asked = Vec::new();
        let result = callers.ask_with(
            || caller,
            caller.alone(),
            |caller| Credentials {
                groups: groups.to_vec(),
                ..caller.alone().with(capabilities)
            },
            |credentials| {
                asked.push(credentials.groups.clone());
                if credentials.in_group(9) || credentials.has(Capabilities::DAC_READ_SEARCH) {
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
        assert_eq!(ask(&callers, CALLER, &[9]), (Ok(()), vec![vec![], vec![9]]));
        assert_eq!(ask(&callers, CALLER, &[9]), (Ok(()), vec![vec![9]]));
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
    fn who_has_nothing_more_is_refused_at_once() {
        let callers = Callers::default();
        assert_eq!(ask(&callers, CALLER, &[]), (Err(REFUSED), vec![vec![]]));
    }

    #[test]
    fn capabilities_are_those_of_now_however_often_somebody_was_let_in_for_them() {
        let callers = Callers::default();
        let root = Caller {
            uid: 0,
            gid: 0,
            pid: 7,
        };
        let twice = vec![vec![], vec![]];
        let once = vec![vec![]];
        let all = Capabilities::ALL;
        assert_eq!(ask_as(&callers, root, &[], all), (Ok(()), twice));
        assert_eq!(ask_as(&callers, root, &[], all), (Ok(()), once.clone()));
        let none = ask_as(&callers, root, &[], Capabilities::NONE);
        assert_eq!(none, (Err(REFUSED), once));
    }

    #[test]
    fn only_a_want_of_rights_is_asked_about_again() {
        let mut asked = 0;
        let missing = ClientError::Fs(FsError::NotFound);
        let result: Result<(), _> = Callers::default().ask_with(
            || CALLER,
            CALLER.alone(),
            |caller| Credentials {
                groups: vec![9],
                ..caller.alone()
            },
            |_| {
                asked += 1;
                Err(missing.clone())
            },
        );
        assert_eq!((result, asked), (Err(missing), 1));
    }
}
