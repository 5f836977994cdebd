//! `-exec` and its kind.

use crate::pages;
use crate::text::shown;
use rustix::fs::{Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of the names in one command line: a quarter of what Linux always allows, which leaves room
/// for the environment.
const BATCH_BYTES: usize = 512 << 10;

/// A command with `{}` in it.
#[derive(Debug)]
pub(crate) struct Exec {
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
    pub(crate) fn run(&self, path: &[u8], place: &Place<'_>, failed: &AtomicBool) -> bool {
        let name = if self.in_directory { &place.name } else { path };
        let words: Vec<OsString> = self.words.iter().map(|word| replace(word, name)).collect();
        let directory = self.in_directory.then(|| place.directory.path());
        let directory = directory.as_deref();
        if self.asks {
            // One question and what comes of it at a time.
            static ASKING: Mutex<()> = Mutex::new(());
            let _asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
            return self.is_wanted(path) && self.start(words, directory, failed);
        }
        self.start(words, directory, failed)
    }

    fn is_wanted(&self, path: &[u8]) -> bool {
        let program = self.words.first().map_or("".as_ref(), |word| &**word);
        eprint!("< {} ... {} > ? ", program.display(), shown(path));
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        read.is_ok() && answer.trim_start().starts_with(['y', 'Y'])
    }

    /// Runs it for the names gathered, and forgets them. That it failed is seen in the exit code.
    pub(crate) fn run_batch(&self, names: &mut Names, failed: &AtomicBool) {
        if names.names.is_empty() {
            return;
        }
        let mut words: Vec<OsString> = self.words.clone();
        words.pop();
        words.append(&mut names.names);
        names.bytes = 0;
        let kept = names.directory.take();
        let directory = kept.as_ref().map(|kept| descriptor(kept.as_fd()));
        if !self.start(words, directory.as_deref(), failed) {
            failed.store(true, Ordering::Relaxed);
        }
    }

    fn start(&self, words: Vec<OsString>, directory: Option<&Path>, failed: &AtomicBool) -> bool {
        let Some((program, arguments)) = words.split_first() else {
            return false;
        };
        let mut command = pages::command(program);
        command.args(arguments);
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        if self.asks {
            // Standard input has answers.
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
pub(crate) struct Names {
    names: Vec<OsString>,
    bytes: usize,
    /// That of them all, for `-execdir`.
    directory: Option<OwnedFd>,
}

impl Names {
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns whether there are enough.
    pub(crate) fn push(&mut self, path: &[u8]) -> bool {
        self.names.push(OsStr::from_bytes(path).to_owned());
        // A pointer goes with each.
        self.bytes += path.len() + 1 + size_of::<usize>();
        self.bytes >= BATCH_BYTES
    }

    /// Keeps the directory that all names are in which come until the next batch is run.
    ///
    /// # Errors
    /// When too many are open.
    pub(crate) fn keep(&mut self, directory: &Directory<'_>) -> rustix::io::Result<()> {
        if self.directory.is_none() {
            self.directory = Some(directory.open()?);
        }
        Ok(())
    }
}

/// Place of an entry, for commands that run there.
#[derive(Debug)]
pub(crate) struct Place<'p> {
    pub directory: Directory<'p>,
    /// Its name there.
    pub name: Vec<u8>,
}

/// A directory that commands run in.
#[derive(Debug)]
pub(crate) enum Directory<'p> {
    /// By descriptor, as the path may be too long or have changed.
    Open(BorrowedFd<'p>),
    /// That of a root.
    Path(PathBuf),
}

impl<'p> Place<'p> {
    /// Of an entry of a directory.
    pub(crate) fn of_entry(directory: BorrowedFd<'p>, name: &[u8]) -> Place<'p> {
        Place {
            directory: Directory::Open(directory),
            name: [b"./", name].concat(),
        }
    }

    /// Of a root: the directory that its last name is in, as in GNU find.
    pub(crate) fn of_root(root: &[u8]) -> Place<'static> {
        let Some(end) = root.iter().rposition(|byte| *byte != b'/') else {
            return Place {
                directory: Directory::Path("/".into()),
                name: b"/".to_vec(),
            };
        };
        let slash = root[..end].iter().rposition(|byte| *byte == b'/');
        let directory = match slash {
            None => Path::new("."),
            Some(0) => Path::new("/"),
            Some(slash) => Path::new(OsStr::from_bytes(&root[..slash])),
        };
        Place {
            directory: Directory::Path(directory.to_path_buf()),
            name: [b"./", &root[slash.map_or(0, |slash| slash + 1)..]].concat(),
        }
    }
}

impl Directory<'_> {
    fn path(&self) -> PathBuf {
        match self {
            Directory::Open(fd) => descriptor(*fd),
            Directory::Path(path) => path.clone(),
        }
    }

    fn open(&self) -> rustix::io::Result<OwnedFd> {
        match self {
            Directory::Open(fd) => rustix::io::fcntl_dupfd_cloexec(fd, 0),
            Directory::Path(path) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                rustix::fs::open(path, flags, Mode::empty())
            }
        }
    }
}

/// A child changes to it before its descriptors are closed.
fn descriptor(fd: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
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
    fn roots_are_in_the_directory_before_their_last_slash() {
        for (root, directory, name) in [
            ("a", ".", "./a"),
            ("a/", ".", "./a/"),
            ("a/b", "a", "./b"),
            ("/a", "/", "./a"),
            (".", ".", "./."),
            ("a/b/../", "a/b", "./../"),
            ("/", "/", "/"),
        ] {
            let place = Place::of_root(root.as_bytes());
            assert_eq!(place.directory.path(), Path::new(directory), "{root}");
            assert_eq!(place.name, name.as_bytes(), "{root}");
        }
    }

    #[test]
    fn braces_are_replaced_wherever_they_are() {
        let replaced = |word: &str| replace(word.as_ref(), b"a b\xff");
        assert_eq!(replaced("{}").as_bytes(), b"a b\xff");
        assert_eq!(replaced("x{}y{}").as_bytes(), b"xa b\xffya b\xff");
        assert_eq!(replaced("{ }").as_bytes(), b"{ }");
    }
}
