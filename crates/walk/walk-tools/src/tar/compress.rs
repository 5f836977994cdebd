//! Archives that are compressed: by the programs that everybody has for it, as GNU tar does.

use crate::pages;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A compression of archives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Known(&'static Known),
    /// A program of the user's; with `-d` it does the opposite.
    Program(OsString),
}

/// A usual format.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub name: &'static str,
    pub option: &'static str,
    /// First bytes of its files.
    magic: &'static [u8],
    suffixes: &'static [&'static str],
    /// Programs that can do it: the first that there is does. Those that use all processors come
    /// first.
    programs: &'static [&'static [&'static str]],
}

pub(crate) static GZIP: Known = Known {
    name: "gzip",
    option: "-z",
    magic: b"\x1f\x8b",
    suffixes: &[".gz", ".tgz", ".taz"],
    programs: &[&["pigz"], &["gzip"]],
};
pub(crate) static BZIP2: Known = Known {
    name: "bzip2",
    option: "-j",
    magic: b"BZh",
    suffixes: &[".bz2", ".tbz", ".tbz2", ".tz2"],
    programs: &[&["lbzip2"], &["pbzip2"], &["bzip2"]],
};
pub(crate) static XZ: Known = Known {
    name: "xz",
    option: "-J",
    magic: b"\xfd7zXZ\0",
    suffixes: &[".xz", ".txz"],
    programs: &[&["xz", "-T0"]],
};
pub(crate) static ZSTD: Known = Known {
    name: "zstd",
    option: "--zstd",
    magic: b"\x28\xb5\x2f\xfd",
    suffixes: &[".zst", ".tzst"],
    programs: &[&["zstd", "-q", "-T0"]],
};

static ALL: [&Known; 4] = [&GZIP, &BZIP2, &XZ, &ZSTD];

impl Known {
    /// Returns the compression of a file that begins so.
    pub(crate) fn of_beginning(bytes: &[u8]) -> Option<&'static Known> {
        ALL.into_iter().find(|it| bytes.starts_with(it.magic))
    }

    /// Returns the compression of a file that can be read anywhere.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn of_file(file: &File) -> std::io::Result<Option<&'static Known>> {
        let mut bytes = [0; 8];
        let read = file.read_at(&mut bytes, 0)?;
        Ok(Known::of_beginning(&bytes[..read]))
    }

    /// Returns the compression for a file of this name.
    pub(crate) fn of_name(name: &Path) -> Option<&'static Known> {
        let name = name.as_os_str().as_bytes();
        let has = |suffix: &&str| name.ends_with(suffix.as_bytes());
        ALL.into_iter().find(|it| it.suffixes.iter().any(has))
    }
}

/// A program that compresses, or does the opposite.
#[derive(Debug)]
pub(crate) struct Filter {
    program: String,
    child: Child,
}

impl Filter {
    /// Begins to compress what is written to the pipe that is given back.
    ///
    /// # Errors
    /// When there is no such program.
    pub(crate) fn compress(format: &Format, to: File) -> Result<(Filter, File)> {
        let mut filter = start(format, false, |command| {
            let to = to.try_clone()?;
            command.stdin(Stdio::piped()).stdout(to);
            Ok(())
        })?;
        let Some(pipe) = filter.child.stdin.take() else {
            unreachable!("it was asked for");
        };
        Ok((filter, OwnedFd::from(pipe).into()))
    }

    /// Begins to expand a file; what it holds is read from the pipe that is given back.
    ///
    /// # Errors
    /// When there is no such program.
    pub(crate) fn expand(format: &Format, from: &File) -> Result<(Filter, File)> {
        let mut filter = start(format, true, |command| {
            command.stdin(from.try_clone()?).stdout(Stdio::piped());
            Ok(())
        })?;
        let Some(pipe) = filter.child.stdout.take() else {
            unreachable!("it was asked for");
        };
        Ok((filter, OwnedFd::from(pipe).into()))
    }

    /// Waits for its end, when nothing is written to it any more.
    ///
    /// # Errors
    /// When it failed.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = self.child.wait().context("waiting for a program")?;
        if !status.success() {
            bail!("{} failed: {status}", self.program);
        }
        Ok(())
    }

    /// Reads to the end of what it expands, behind which it may find that something is damaged.
    ///
    /// # Errors
    /// When it failed.
    pub(crate) fn drain(self, mut pipe: &File) -> Result<()> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
        }
        self.finish()
    }

    /// Ends it: its output is not wanted.
    pub(crate) fn stop(mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the first program that there is. In a group of its own: at Ctrl-C the archive is ended by
/// us, not by it.
fn start(
    format: &Format,
    expands: bool,
    connect: impl Fn(&mut Command) -> std::io::Result<()>,
) -> Result<Filter> {
    let lines: Vec<Vec<OsString>> = match format {
        Format::Program(line) => {
            let words = line.as_bytes().split(u8::is_ascii_whitespace);
            let words = words.filter(|word| !word.is_empty());
            let words = words.map(|word| std::ffi::OsStr::from_bytes(word).to_owned());
            vec![words.collect()]
        }
        Format::Known(known) => {
            let lines = known.programs.iter();
            lines
                .map(|line| line.iter().map(OsString::from).collect())
                .collect()
        }
    };
    let mut missing = String::new();
    for line in lines {
        let Some((program, words)) = line.split_first() else {
            bail!("-I: there is no program");
        };
        let mut command = pages::command(program);
        command.args(words).process_group(0);
        if expands {
            command.arg("-d");
        }
        connect(&mut command)?;
        let program = program.to_string_lossy().into_owned();
        match command.spawn() {
            Ok(child) => return Ok(Filter { program, child }),
            Err(error) if error.kind() == ErrorKind::NotFound => missing = program,
            Err(error) => return Err(error).context(program),
        }
    }
    bail!("there is no program '{missing}' in PATH, which this archive needs: install it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_name_and_beginning() {
        let named = |name: &str| Known::of_name(Path::new(name)).map(|it| it.name);
        assert_eq!(named("a/b.tar.gz"), Some("gzip"));
        assert_eq!(named("b.tgz"), Some("gzip"));
        assert_eq!(named("b.tar.zst"), Some("zstd"));
        assert_eq!(named("b.txz"), Some("xz"));
        assert_eq!(named("b.tar.bz2"), Some("bzip2"));
        assert_eq!(named("gz/b.tar"), None);
        let begun = |bytes: &[u8]| Known::of_beginning(bytes).map(|it| it.option);
        assert_eq!(begun(b"\x1f\x8b\x08"), Some("-z"));
        assert_eq!(begun(b"\x28\xb5\x2f\xfd\0"), Some("--zstd"));
        assert_eq!(begun(b"name"), None);
        assert_eq!(begun(b""), None);
    }

    #[test]
    fn a_program_that_fails_or_is_missing_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        let program = |line: &str| Format::Program(line.into());
        let missing = Filter::compress(&program("no-such-program"), file.try_clone().unwrap());
        assert!(missing.unwrap_err().to_string().contains("no-such-program"));
        let none = Filter::expand(&program(" "), &file);
        assert!(none.is_err());
        let (filter, pipe) =
            Filter::compress(&program("false"), file.try_clone().unwrap()).unwrap();
        drop(pipe);
        let failed = filter.finish().unwrap_err().to_string();
        assert!(failed.starts_with("false failed"), "{failed}");
    }
}
