//! `-exec` and its kind.

use crate::text::shown;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of the names in one command line: a quarter of what Linux always allows, which leaves room for
/// the environment.
const BATCH_BYTES: usize = 512 << 10;

/// A command with `{}` in it.
#[derive(Debug)]
pub struct Exec {
    pub words: Vec<OsString>,
    /// Run in the entry's directory.
    pub in_directory: bool,
    /// With many names at once (`+`).
    pub batch: bool,
    /// The user is asked before.
    pub asks: bool,
}

impl Exec {
    /// Runs it for one entry. Whether it ended well.
    pub fn run(&self, path: &[u8], directory: BorrowedFd<'_>, failed: &AtomicBool) -> bool {
        let words: Vec<OsString> = self.words.iter().map(|word| replace(word, path)).collect();
        if self.asks {
            // One question and what comes of it at a time.
            static ASKING: Mutex<()> = Mutex::new(());
            let _asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
            return self.is_wanted(path) && self.start(words, Some(directory), failed);
        }
        self.start(words, Some(directory), failed)
    }

    fn is_wanted(&self, path: &[u8]) -> bool {
        let program = self.words.first().map_or("".as_ref(), |word| &**word);
        eprint!("< {} ... {} > ? ", program.display(), shown(path));
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        read.is_ok() && answer.trim_start().starts_with(['y', 'Y'])
    }

    /// Runs it for the names gathered, and forgets them. That it failed is seen in the exit code.
    pub fn run_batch(&self, names: &mut Names, failed: &AtomicBool) {
        if names.names.is_empty() {
            return;
        }
        let mut words: Vec<OsString> = self.words.clone();
        words.pop();
        words.append(&mut names.names);
        names.bytes = 0;
        if !self.start(words, None, failed) {
            failed.store(true, Ordering::Relaxed);
        }
    }

    fn start(
        &self,
        words: Vec<OsString>,
        directory: Option<BorrowedFd<'_>>,
        failed: &AtomicBool,
    ) -> bool {
        let Some((program, arguments)) = words.split_first() else {
            return false;
        };
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(fd) = directory.filter(|_| self.in_directory) {
            // By descriptor, as the path may be too long or have changed. The child changes to it before
            // its descriptors are closed.
            if fd.as_raw_fd() >= 0 {
                command.current_dir(format!("/proc/self/fd/{}", fd.as_raw_fd()));
            }
        }
        if self.asks {
            // What comes there is answers.
            command.stdin(Stdio::null());
        }
        match command.status() {
            Ok(status) => status.success(),
            Err(error) => {
                eprintln!("pandofs find: {}: {error}", program.display());
                failed.store(true, Ordering::Relaxed);
                false
            }
        }
    }
}

/// Names that wait for a command with `+`.
#[derive(Debug, Default)]
pub struct Names {
    names: Vec<OsString>,
    bytes: usize,
}

impl Names {
    /// Whether there are enough.
    pub fn push(&mut self, path: &[u8]) -> bool {
        self.names.push(OsStr::from_bytes(path).to_owned());
        // A pointer goes with each.
        self.bytes += path.len() + 1 + size_of::<usize>();
        self.bytes >= BATCH_BYTES
    }
}

fn replace(word: &OsStr, path: &[u8]) -> OsString {
    let mut rest = word.as_bytes();
    let mut out = Vec::new();
    while let Some(at) = rest.windows(2).position(|two| two == b"{}") {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(path);
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_replaced_wherever_they_are() {
        let replaced = |word: &str| replace(word.as_ref(), b"a b\xff");
        assert_eq!(replaced("{}").as_bytes(), b"a b\xff");
        assert_eq!(replaced("x{}y{}").as_bytes(), b"xa b\xffya b\xff");
        assert_eq!(replaced("{ }").as_bytes(), b"{ }");
    }
}
