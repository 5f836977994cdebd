//! Being called by `mount(8)`: from a line of `/etc/fstab`, or as `mount -t fuse.pandofs`.
//!
//! `mount` hands what it does not know to a helper: `/sbin/mount.fuse.pandofs SOURCE DIR [-sfnv] [-o OPTIONS]
//! [-t TYPE]` if that is there (a link to this program), else to fuse3's `/sbin/mount.fuse`, which looks for a
//! program of the type's name and calls `pandofs SOURCE DIR -o OPTIONS`. Either becomes `pandofs mount`.
//!
//! SOURCE is the cluster map or the directory of a cluster made by `up`, with or without `pandofs:` before it. The mount
//! shows it as it was given: `mount -a` knows by the source of a line that what it names is mounted already.

use crate::mounts;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The program's name when `mount` calls it directly.
const HELPER_NAME: &str = "mount.fuse.pandofs";

/// `pandofs mount …` for what `mount` calls; `None` if this is no call of `mount`.
pub(crate) fn arguments(given: &[OsString]) -> Option<Vec<OsString>> {
    let (program, rest) = given.split_first()?;
    let is_helper = Path::new(program).file_name() == Some(OsStr::new(HELPER_NAME));
    // No subcommand has a slash or is an option, and every source has a slash.
    let first = rest.first()?;
    if !is_helper && (first.as_bytes().starts_with(b"-") || !first.as_bytes().contains(&b'/')) {
        return None;
    }
    let mut mount: Vec<OsString> = vec![program.clone(), "mount".into(), "--by-mount".into()];
    let mut operands = Vec::new();
    let mut rest = rest.iter();
    while let Some(argument) = rest.next() {
        match argument.as_bytes() {
            b"-o" | b"-N" | b"-t" => {
                let value = rest.next()?;
                if argument == "-o" {
                    mount.extend(["-o".into(), value.clone()]);
                }
            }
            [b'-', flags @ ..] if !flags.is_empty() => {
                // Of sloppy (s), no mtab (n) and verbose (v) there is nothing to do.
                if flags.contains(&b'f') {
                    mount.push("--fake".into());
                }
            }
            _ => operands.push(argument),
        }
    }
    let [source, point] = operands.as_slice() else {
        // The parser says what is missing.
        mount.extend(operands.into_iter().cloned());
        return Some(mount);
    };
    let path = mounts::named_by(source);
    let option = if path.is_dir() { "--data" } else { "--cluster" };
    // A name that is no text is shown as `pandofs mount` shows it.
    if source.to_str().is_some() {
        mount.extend(["--shown-as".into(), (*source).clone()]);
    }
    mount.extend([option.into(), path.into(), (*point).clone()]);
    Some(mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Option<Vec<String>> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let line = arguments(&words)?;
        Some(
            line.into_iter()
                .map(|word| word.into_string().unwrap())
                .collect(),
        )
    }

    #[test]
    fn what_mount_calls_becomes_a_mount() {
        let helper = [
            "/sbin/mount.fuse.pandofs",
            "pandofs:/etc/pando/cluster.json",
            "/mnt",
            "-sn",
            "-o",
            "rw,noexec",
            "-t",
            "fuse.pandofs",
        ];
        let wanted = [
            "/sbin/mount.fuse.pandofs",
            "mount",
            "--by-mount",
            "-o",
            "rw,noexec",
            "--shown-as",
            "pandofs:/etc/pando/cluster.json",
            "--cluster",
            "/etc/pando/cluster.json",
            "/mnt",
        ];
        assert_eq!(line(&helper).unwrap(), wanted);
        // As fuse3's helper calls it; a directory is that of a cluster.
        let by_fuse = line(&["pandofs", "/tmp", "/mnt", "-o", "ro"]).unwrap();
        assert_eq!(
            by_fuse,
            [
                "pandofs",
                "mount",
                "--by-mount",
                "-o",
                "ro",
                "--shown-as",
                "/tmp",
                "--data",
                "/tmp",
                "/mnt"
            ]
        );
        let fake = line(&["mount.fuse.pandofs", "/c", "/m", "-fv"]).unwrap();
        assert!(fake.contains(&"--fake".to_owned()), "{fake:?}");
    }

    #[test]
    fn a_command_is_no_call_of_mount() {
        assert_eq!(line(&["pandofs", "status", "--data", "/tmp"]), None);
        assert_eq!(line(&["pandofs", "--help"]), None);
        assert_eq!(line(&["pandofs"]), None);
    }
}
