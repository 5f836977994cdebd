//! Programs on the file system, and events of changes: `execve`, `inotify`.

use crate::case::{Case, Outcome, holds, same};
use crate::files::{create, dir, file, file_with};
use crate::process::{ANN, CREW, as_user, wait_until};
use crate::sys::*;
use rustix::fs::{StatVfsMountFlags, inotify};
use std::mem::MaybeUninit;
use std::process::{Command, Stdio};

/// A copy of a program of the system, which anybody may run.
fn program(from: &str, path: &str) -> Outcome {
    file_with(path, &contents_of(from)?)?;
    chmod(path, 0o755).ok()
}

/// Returns what it prints.
fn printed(path: &str, arguments: &[&str]) -> Result<String, E> {
    let output = Command::new(path).args(arguments).output();
    let output = output.map_err(|error| E::from_io_error(&error).unwrap_or(E::IO))?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

/// The names of events, each with the name of the entry it is of.
fn events(watch: &OwnedFd, wanted: &[(inotify::ReadFlags, &str)]) -> Outcome {
    let mut found = Vec::new();
    let _ = wait_until("events", || {
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut reader = inotify::Reader::new(watch, &mut buffer);
        while let Ok(event) = reader.next() {
            let name = event
                .file_name()
                .map(|it| it.to_string_lossy().into_owned());
            found.push((
                event.events().difference(inotify::ReadFlags::ISDIR),
                name.unwrap_or_default(),
            ));
        }
        found.len() >= wanted.len()
    });
    let wanted: Vec<_> = wanted.iter().map(|it| (it.0, it.1.to_owned())).collect();
    same("events", found, wanted)
}

pub(super) const CASES: &[Case] = &[
    Case::new("exec.runs", "exec()", |_| {
        program("/bin/echo", "echo")?;
        same(
            "what it prints",
            printed("./echo", &["from", "here"]),
            Ok("from here".to_owned()),
        )?;
        file_with("script", b"#!/bin/sh\necho script $1\n")?;
        chmod("script", 0o755).ok()?;
        same(
            "what it prints",
            printed("./script", &["x"]),
            Ok("script x".to_owned()),
        )?;
        symlink("script", "link").ok()?;
        same(
            "what it prints",
            printed("./link", &["y"]),
            Ok("script y".to_owned()),
        )
    }),
    Case::new(
        "exec.rights",
        "exec(): [EACCES], [ENOENT], [ENOTDIR]",
        |_| {
            program("/bin/true", "a")?;
            chmod("a", 0o644).ok()?;
            same(
                "root without any right to execute",
                printed("./a", &[]),
                Err(E::ACCESS),
            )?;
            chmod("a", 0o711).ok()?;
            as_user(ANN, || {
                same(
                    "a program that may only be executed",
                    printed("./a", &[]),
                    Ok(String::new()),
                )
            })?;
            chmod("a", 0o766).ok()?;
            as_user(ANN, || {
                same("without the right", printed("./a", &[]), Err(E::ACCESS))
            })?;
            dir("d")?;
            same("a directory", printed("./d", &[]), Err(E::ACCESS))?;
            same("nothing", printed("./no", &[]), Err(E::NOENT))?;
            same("below a file", printed("./a/b", &[]), Err(E::NOTDIR))
        },
    ),
    Case::new("exec.busy", "exec(): [ETXTBSY]; open(): [ETXTBSY]", |_| {
        program("/bin/sleep", "sleep")?;
        let writer = open("sleep", O::WRONLY, 0).ok()?;
        same(
            "exec of a file open for writing",
            printed("./sleep", &["0"]),
            Err(E::TXTBSY),
        )?;
        drop(writer);
        let child = Command::new("./sleep")
            .arg("1000")
            .stdout(Stdio::null())
            .spawn();
        let mut child = child
            .map_err(|error| crate::case::Failure::wrong("exec", "success", error.to_string()))?;
        let opened = open("sleep", O::WRONLY, 0).fails(E::TXTBSY);
        let cut = truncate("sleep", 0).fails(E::TXTBSY);
        // It may be replaced.
        let replaced = rename("sleep", "moved")
            .ok()
            .and_then(|()| unlink("moved").ok());
        let ended = child.kill().and_then(|()| child.wait());
        opened.and(cut).and(replaced)?;
        holds("kill the program", ended.is_ok(), "success", ended)
    }),
    Case::new(
        "exec.set_user_id",
        "exec(): S_ISUID, S_ISGID; mount(8): nosuid",
        |_| {
            // The program names are those of coreutils; `id` looks at the effective ones.
            program("/usr/bin/id", "id")?;
            chown("id", Some(ANN.uid), Some(CREW)).ok()?;
            chmod("id", 0o6755).ok()?;
            let nosuid = statvfs(".")
                .ok()?
                .f_flag
                .contains(StatVfsMountFlags::NOSUID);
            let (user, group) = if nosuid {
                (61_002, 61_002)
            } else {
                (ANN.uid, CREW)
            };
            as_user(crate::process::BOB, || {
                same(
                    "effective user",
                    printed("./id", &["-u"]),
                    Ok(user.to_string()),
                )?;
                same(
                    "effective group",
                    printed("./id", &["-g"]),
                    Ok(group.to_string()),
                )
            })
        },
    ),
    Case::new("inotify.tells_of_changes", "inotify(7)", |_| {
        use inotify::{CreateFlags, ReadFlags as Is, WatchFlags as Tell};
        dir("d")?;
        file("old")?;
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let watch = watch.map_err(|errno| {
            crate::case::Failure::wrong("inotify_init1", "success", errno.to_string())
        })?;
        let mask = Tell::CREATE
            | Tell::DELETE
            | Tell::MODIFY
            | Tell::ATTRIB
            | Tell::MOVE
            | Tell::CLOSE_WRITE;
        same(
            "inotify_add_watch",
            inotify::add_watch(&watch, "d", mask).is_ok(),
            true,
        )?;
        let fd = create("d/a")?;
        events(&watch, &[(Is::CREATE, "a")])?;
        write(&fd, b"x").gives(1)?;
        events(&watch, &[(Is::MODIFY, "a")])?;
        drop(fd);
        events(&watch, &[(Is::CLOSE_WRITE, "a")])?;
        chmod("d/a", 0o600).ok()?;
        events(&watch, &[(Is::ATTRIB, "a")])?;
        rename("d/a", "d/b").ok()?;
        events(&watch, &[(Is::MOVED_FROM, "a"), (Is::MOVED_TO, "b")])?;
        rename("old", "d/new").ok()?;
        events(&watch, &[(Is::MOVED_TO, "new")])?;
        mkdir("d/e", 0o755).ok()?;
        events(&watch, &[(Is::CREATE, "e")])?;
        unlink("d/b").ok()?;
        events(&watch, &[(Is::DELETE, "b")])?;
        rmdir("d/e").ok()?;
        events(&watch, &[(Is::DELETE, "e")])
    }),
];
