//! `O_TMPFILE`: files without a name, and giving them one.

use crate::case::{Case, same};
use crate::files::{dir, file};
use crate::process::{ANN, as_user};
use crate::sys::*;
use std::os::fd::AsRawFd;

pub(super) const CASES: &[Case] = &[
    Case::new("tmpfile.has_no_name", "open(2): O_TMPFILE", |_| {
        umask(0o027);
        let fd = open(".", O::RDWR | O::TMPFILE, 0o666).ok()?;
        let stat = fstat(&fd).ok()?;
        same("links", stat.st_nlink, 0)?;
        same("mode", stat.st_mode & 0o7777, 0o640)?;
        same("names", names_in(".")?.len(), 0)?;
        write(&fd, b"contents").gives(8)?;
        contents(&fd).gives(b"contents".to_vec())
    }),
    Case::new(
        "tmpfile.is_linked_by_empty_path",
        "open(2): O_TMPFILE; linkat(2): AT_EMPTY_PATH",
        |_| {
            let fd = open(".", O::RDWR | O::TMPFILE, 0o600).ok()?;
            write(&fd, &[5; 10_000]).gives(10_000)?;
            link_open_file(&fd, "a").ok()?;
            same("links", fstat(&fd).ok()?.st_nlink, 1)?;
            same("inode", lstat("a").ok()?.st_ino, fstat(&fd).ok()?.st_ino)?;
            same("contents", contents_of("a")?, vec![5; 10_000])?;
            // Once it has a name it is a file as others.
            link("a", "b").ok()?;
            same("links", fstat(&fd).ok()?.st_nlink, 2)?;
            pwrite(&fd, b"more", 0).gives(4)?;
            drop(fd);
            same(
                "contents by the second name",
                contents_of("b")?[..5].to_vec(),
                b"more\x05".to_vec(),
            )
        },
    ),
    Case::new(
        "tmpfile.is_linked_by_proc",
        "open(2): O_TMPFILE; linkat(2): AT_SYMLINK_FOLLOW",
        |_| {
            chmod(".", 0o777).ok()?;
            as_user(ANN, || {
                let fd = open(".", O::WRONLY | O::TMPFILE, 0o600).ok()?;
                write(&fd, b"contents").gives(8)?;
                link_following(&format!("/proc/self/fd/{}", fd.as_raw_fd()), "a").ok()?;
                same("contents", contents_of("a")?, b"contents".to_vec())?;
                same("owner", lstat("a").ok()?.st_uid, ANN.uid)
            })
        },
    ),
    Case::new(
        "tmpfile.exclusive_is_never_linked",
        "open(2): O_TMPFILE with O_EXCL; linkat(2): [ENOENT]",
        |_| {
            let fd = open(".", O::RDWR | O::TMPFILE | O::EXCL, 0o600).ok()?;
            link_open_file(&fd, "a").fails(E::NOENT)?;
            is_gone("a")
        },
    ),
    Case::new("tmpfile.does_not_replace", "linkat(): [EEXIST]", |_| {
        file("a")?;
        let fd = open(".", O::RDWR | O::TMPFILE, 0o600).ok()?;
        link_open_file(&fd, "a").fails(E::EXIST)?;
        link_open_file(&fd, "b").ok()
    }),
    Case::new(
        "tmpfile.errors",
        "open(2): [EINVAL], [ENOTDIR], [ENOENT], [EACCES]",
        |_| {
            file("a")?;
            dir("d")?;
            open(".", O::RDONLY | O::TMPFILE, 0o600).fails(E::INVAL)?;
            open("a", O::RDWR | O::TMPFILE, 0o600).fails(E::NOTDIR)?;
            open("no", O::RDWR | O::TMPFILE, 0o600).fails(E::NOENT)?;
            as_user(ANN, || {
                open("d", O::RDWR | O::TMPFILE, 0o600).fails(E::ACCESS)
            })
        },
    ),
    Case::new("tmpfile.is_gone_when_closed", "open(2): O_TMPFILE", |_| {
        dir("d")?;
        let fd = open("d", O::RDWR | O::TMPFILE, 0o600).ok()?;
        write(&fd, b"contents").gives(8)?;
        rmdir("d").ok()?;
        contents(&fd).gives(b"contents".to_vec())
    }),
    Case::new(
        "tmpfile.group_of_a_set_group_id_directory",
        "open(2): O_CREAT, group",
        |_| {
            dir("d")?;
            chown("d", None, Some(crate::process::CREW)).ok()?;
            chmod("d", 0o2777).ok()?;
            as_user(ANN, || {
                let fd = open("d", O::RDWR | O::TMPFILE, 0o600).ok()?;
                same("group", fstat(&fd).ok()?.st_gid, crate::process::CREW)
            })
        },
    ),
];
