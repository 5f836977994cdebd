//! Huge pages for the memory of a tool and of the commands it starts.
//!
//! Most of what a tool holds is small and short-lived, in pieces of an arena for each thread. Where
//! the system gives 2 MiB for the first byte of each that is touched, a list as Parquet by 16
//! threads takes 100 MiB, and 41 where it gives pages. The setting goes over to commands, which
//! need not share that view: they get it as the tool had found it.

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_OURS: AtomicBool = AtomicBool::new(false);

/// This process gets no huge pages from now on. Where the system knows no such setting, all is left
/// as it is.
pub(crate) fn small_only() {
    if let Ok(false) = transparent_huge_pages_are_disabled()
        && disable_transparent_huge_pages(true).is_ok()
    {
        IS_OURS.store(true, Ordering::Relaxed);
    }
}

/// A command that may get huge pages if this process might.
pub(crate) fn command(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    if IS_OURS.load(Ordering::Relaxed) {
        let restore = || Ok(disable_transparent_huge_pages(false)?);
        // SAFETY: between fork and exec only what is safe in a signal handler may be called. It is
        // one system call, `prctl`, which neither allocates nor takes a lock, and an error of it
        // holds only its number.
        unsafe { command.pre_exec(restore) };
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_get_what_the_tool_had_found() {
        if transparent_huge_pages_are_disabled() != Ok(false) {
            return;
        }
        small_only();
        assert_eq!(transparent_huge_pages_are_disabled(), Ok(true));
        let theirs = |mut command: Command| {
            let output = command.args(["THP_enabled", "/proc/self/status"]).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        let wanted = |value| format!("THP_enabled:\t{value}\n");
        assert_eq!(theirs(command("grep".as_ref())), wanted(1));
        assert_eq!(theirs(Command::new("grep")), wanted(0));
    }
}
