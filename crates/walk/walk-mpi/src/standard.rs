//! Standard output of rank 0, without the launcher in between.
//!
//! A launcher copies what rank 0 prints to its own standard output. When that is not read any more,
//! as behind `| head`, it is the launcher that hears of it, and not rank 0: that of Open MPI ends
//! the run with an error, and at times dies of a bad address. So where the launcher is on the same
//! machine, and its standard output is a pipe, rank 0 writes to that pipe itself, as a tool without
//! a launcher does.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fcntl_setfl, fstat, minor, open};
use rustix::io::Errno;
use rustix::process::{Pid, getppid};
use rustix::stdio::{dup2_stdout, stdout};
use std::ffi::OsStr;
use std::fs::{read, read_dir, read_link, read_to_string};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Launchers, by how the names of their programs begin: Open MPI's, and MPICH's.
const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "orterun", "prterun"];
/// Program with which MPICH's launcher starts processes.
const PROXY: &str = "hydra_pmi_prox";

/// Has this process write to its launcher's standard output itself, where it can. To be called by
/// rank 0.
pub fn write_to_launchers() {
    if let Some(pipe) = launchers() {
        // Otherwise it stays what it is.
        let _ = dup2_stdout(&pipe);
    }
}

fn launchers() -> Option<OwnedFd> {
    let parent = getppid()?;
    // A script may have led standard output elsewhere.
    if !has_other_end(parent) {
        return None;
    }
    let mut launcher = parent;
    if name(launcher)?.starts_with(PROXY) {
        launcher = above(launcher)?;
    }
    let name = name(launcher)?;
    if !LAUNCHERS.iter().any(|it| name.starts_with(it)) || changes_output(launcher) {
        return None;
    }
    let path = of(launcher, "fd/1");
    if !std::fs::metadata(&path).ok()?.file_type().is_fifo() {
        return None;
    }
    // A file that is opened anew has flags of its own; without this one it would wait for somebody
    // to read.
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    match open(&path, flags | OFlags::NONBLOCK, Mode::empty()) {
        Ok(pipe) => {
            fcntl_setfl(&pipe, OFlags::empty()).ok()?;
            Some(pipe)
        }
        // Not read already: the same pipe without a reader.
        Err(Errno::NXIO) => std::io::pipe().ok().map(|(_, write)| write.into()),
        Err(_) => None,
    }
}

/// Returns whether a process has the other end of this one's standard output, which is a pipe or a
/// terminal of its own.
fn has_other_end(process: Pid) -> bool {
    let Ok(mine) = read_link("/proc/self/fd/1") else {
        return false;
    };
    let terminal = mine.starts_with("/dev/pts").then(|| fstat(stdout()));
    let terminal = terminal.and_then(Result::ok).map(|it| minor(it.st_rdev));
    let Ok(theirs) = read_dir(of(process, "fd")) else {
        return false;
    };
    theirs.flatten().any(|it| {
        let is = read_link(it.path()).unwrap_or_default();
        match terminal {
            None => is == mine && mine.as_os_str().as_bytes().starts_with(b"pipe:"),
            Some(number) => {
                let about = Path::new("fdinfo").join(it.file_name());
                is.as_os_str().as_bytes().ends_with(b"ptmx")
                    && read_to_string(of(process, about))
                        .is_ok_and(|it| is_of_terminal(&it, number))
            }
        }
    })
}

/// Returns whether what the kernel tells of an open file says that it is the other end of the
/// terminal with this number.
fn is_of_terminal(about: &str, number: u32) -> bool {
    about
        .lines()
        .filter_map(|line| line.strip_prefix("tty-index:"))
        .any(|it| it.trim().parse() == Ok(number))
}

/// Returns whether a launcher has an option to do something with what it copies.
fn changes_output(launcher: Pid) -> bool {
    let command = read(of(launcher, "cmdline")).unwrap_or_default();
    let words = command.split(|it| *it == 0);
    let options = words.filter(|it| it.starts_with(b"-"));
    let variables = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|it| it.as_bytes().starts_with(b"OMPI_MCA_orte_"));
    options
        .map(OsStr::from_bytes)
        .chain(variables.collect::<Vec<_>>().iter().map(|it| &**it))
        .any(is_of_output)
}

/// Options of launchers, and variables, about what becomes of output: `--tag-output`,
/// `-prepend-rank`, `-l` and others.
fn is_of_output(option: &OsStr) -> bool {
    let option = option.as_bytes();
    let has = |part: &[u8]| option.windows(part.len()).any(|it| it == part);
    option == b"-l" || has(b"output") || has(b"outfile") || has(b"prepend") || has(b"xml")
}

fn of(process: Pid, what: impl AsRef<Path>) -> std::path::PathBuf {
    let process = process.as_raw_nonzero().to_string();
    Path::new("/proc").join(process).join(what)
}

fn name(process: Pid) -> Option<String> {
    read_to_string(of(process, "comm")).ok()
}

fn above(process: Pid) -> Option<Pid> {
    let status = read_to_string(of(process, "status")).ok()?;
    let number = status.lines().find_map(|it| it.strip_prefix("PPid:"))?;
    Pid::from_raw(number.trim().parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_launchers_about_output_are_known() {
        for option in [
            "--tag-output",
            "-output-filename",
            "--xml",
            "-prepend-rank",
            "-l",
            "OMPI_MCA_orte_tag_output",
        ] {
            assert!(is_of_output(option.as_ref()), "{option}");
        }
        for option in ["-n", "--hostfile", "--bind-to", "-launcher"] {
            assert!(!is_of_output(option.as_ref()), "{option}");
        }
    }

    #[test]
    fn terminals_are_told_by_their_numbers() {
        let about = "pos:\t0\nflags:\t02\ntty-index:\t7\n";
        assert!(is_of_terminal(about, 7));
        assert!(!is_of_terminal(about, 70));
        assert!(!is_of_terminal("pos:\t0\n", 0));
    }
}
