//! `unlink`, `rmdir`, and what goes on with what was removed while it is open.

use crate::case::{Case, same};
use crate::files::{create, dir, file, file_of, file_with, one_of_each_kind};
use crate::process::{ANN, as_user, in_child};
use crate::sys::*;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};

pub(super) const CASES: &[Case] = &[
    Case::new("unlink.takes_the_name", "unlink()", |_| {
        one_of_each_kind()?;
        for name in ["regular", "symlink", "fifo", "socket", "char", "block"] {
            unlink(name).ok()?;
            is_gone(name)?;
            unlink(name).fails(E::NOENT)?;
        }
        same(
            "names",
            names_in(".")?.into_iter().collect::<Vec<_>>(),
            vec!["directory".to_owned()],
        )
    }),
    Case::new(
        "unlink.errors",
        "unlink(): [EISDIR] (unlink(2)), [ENOENT], [ENOTDIR]",
        |_| {
            file("a")?;
            dir("d")?;
            unlink("d").fails(E::ISDIR)?;
            unlink("d/").fails(E::ISDIR)?;
            unlink("").fails(E::NOENT)?;
            unlink("no/a").fails(E::NOENT)?;
            unlink("a/b").fails(E::NOTDIR)?;
            unlink("a/").fails(E::NOTDIR)?;
            unlink("no/").fails(E::NOENT)
        },
    ),
    Case::new("unlink.rights", "unlink(): [EACCES]", |_| {
        dir("d")?;
        file_of("d/a", ANN.uid, 0o777)?;
        as_user(ANN, || unlink("d/a").fails(E::ACCESS))?;
        chown("d", Some(ANN.uid), None).ok()?;
        chmod("d", 0o600).ok()?;
        as_user(ANN, || unlink("d/a").fails(E::ACCESS))?;
        chmod("d", 0o300).ok()?;
        // The file's own mode does not matter.
        chown("d/a", Some(0), Some(0)).ok()?;
        chmod("d/a", 0).ok()?;
        as_user(ANN, || unlink("d/a").ok())
    }),
    Case::new("unlink.open_file_lives_on", "unlink(): open files", |_| {
        let fd = create("a")?;
        write(&fd, b"contents").gives(8)?;
        unlink("a").ok()?;
        same("links", fstat(&fd).ok()?.st_nlink, 0)?;
        contents(&fd).gives(b"contents".to_vec())?;
        pwrite(&fd, &[9; 100_000], 8).gives(100_000)?;
        same("size", fstat(&fd).ok()?.st_size, 100_008)?;
        pread(&fd, 3, 100_004).gives(vec![9; 3])?;
        ftruncate(&fd, 4).ok()?;
        contents(&fd).gives(b"cont".to_vec())?;
        fchmod(&fd, 0o600).ok()?;
        fchown(&fd, Some(ANN.uid), None).ok()?;
        futimens(&fd, at((5, 6)), at((7, 8))).ok()?;
        let stat = fstat(&fd).ok()?;
        same("mode", stat.st_mode & 0o7777, 0o600)?;
        same("owner", stat.st_uid, ANN.uid)?;
        same("times", (stat.st_atime, stat.st_mtime), (5, 7))?;
        fsync(&fd).ok()?;
        reopen(&fd, O::RDONLY).ok().map(drop)
    }),
    Case::new(
        "unlink.open_file_and_attributes",
        "unlink(); xattr(7)",
        |_| {
            let fd = create("a")?;
            fsetxattr(&fd, "user.before", b"1").ok()?;
            unlink("a").ok()?;
            fsetxattr(&fd, "user.after", b"2").ok()?;
            fgetxattr(&fd, "user.before").gives(b"1".to_vec())?;
            fgetxattr(&fd, "user.after").gives(b"2".to_vec())?;
            same("attributes", flistxattr(&fd).ok()?.len(), 2)?;
            fremovexattr(&fd, "user.before").ok()
        },
    ),
    Case::new(
        "unlink.an_open_file_gets_no_name_again",
        "linkat(2): [ENOENT]",
        |_| {
            let fd = create("a")?;
            unlink("a").ok()?;
            link_open_file(&fd, "b").fails(E::NOENT)?;
            is_gone("b")
        },
    ),
    Case::new(
        "unlink.the_name_can_be_made_again",
        "unlink(); open()",
        |_| {
            let old = create("a")?;
            write(&old, b"old").gives(3)?;
            unlink("a").ok()?;
            let new = create("a")?;
            write(&new, b"new one").gives(7)?;
            let differ = fstat(&old).ok()?.st_ino != fstat(&new).ok()?.st_ino;
            same("another inode", differ, true)?;
            contents(&old).gives(b"old".to_vec())?;
            contents(&new).gives(b"new one".to_vec())
        },
    ),
    Case::new("unlink.one_of_two_names", "unlink(): link count", |_| {
        let fd = create("a")?;
        link("a", "b").ok()?;
        unlink("a").ok()?;
        same("links", fstat(&fd).ok()?.st_nlink, 1)?;
        unlink("b").ok()?;
        same("links", fstat(&fd).ok()?.st_nlink, 0)
    }),
    Case::new("rmdir.takes_an_empty_directory", "rmdir()", |_| {
        dir("d")?;
        dir("e")?;
        rmdir("d").ok()?;
        is_gone("d")?;
        rmdir("e/").ok()?;
        rmdir("d").fails(E::NOENT)
    }),
    Case::new(
        "rmdir.errors",
        "rmdir(): [ENOTEMPTY], [ENOTDIR], [EINVAL], [ENOENT]",
        |_| {
            one_of_each_kind()?;
            symlink("directory", "to-dir").ok()?;
            for name in [
                "regular",
                "symlink",
                "fifo",
                "socket",
                "char",
                "to-dir",
                "regular/x",
            ] {
                rmdir(name).fails(E::NOTDIR)?;
            }
            dir("directory/sub")?;
            // POSIX has EEXIST as another choice.
            rmdir("directory").fails_with_one_of(&[E::NOTEMPTY, E::EXIST])?;
            rmdir("directory/sub/.").fails(E::INVAL)?;
            rmdir("directory/sub/..").fails_with_one_of(&[E::NOTEMPTY, E::INVAL])?;
            rmdir("").fails(E::NOENT)?;
            rmdir("no/d").fails(E::NOENT)
        },
    ),
    Case::new(
        "rmdir.not_empty_whatever_is_inside",
        "rmdir(): [ENOTEMPTY]",
        |_| {
            one_of_each_kind()?;
            for name in ["regular", "symlink", "fifo", "socket", "char", "block"] {
                let inside = format!("directory/{name}");
                rename(name, &inside).ok()?;
                rmdir("directory").fails_with_one_of(&[E::NOTEMPTY, E::EXIST])?;
                unlink(&inside).ok()?;
            }
            rmdir("directory").ok()
        },
    ),
    Case::new("rmdir.rights", "rmdir(): [EACCES]", |_| {
        dir("d")?;
        dir("d/e")?;
        chown("d/e", Some(ANN.uid), None).ok()?;
        as_user(ANN, || rmdir("d/e").fails(E::ACCESS))?;
        chown("d", Some(ANN.uid), None).ok()?;
        as_user(ANN, || rmdir("d/e").ok())
    }),
    Case::new(
        "rmdir.open_directory_lives_on",
        "rmdir(): open directories",
        |_| {
            dir("d")?;
            dir("d/e")?;
            let fd = opendir("d/e").ok()?;
            rmdir("d/e").ok()?;
            same("links", fstat(&fd).ok()?.st_nlink, 0)?;
            openat(&fd, "a", O::WRONLY | O::CREATE, 0o644).fails(E::NOENT)?;
            mkdirat(&fd, "a", 0o755).fails(E::NOENT)?;
            openat(&fd, "a", O::RDONLY, 0).fails(E::NOENT)?;
            lists_nothing(&fd)?;
            fchmod(&fd, 0o700).ok()?;
            same("mode", fstat(&fd).ok()?.st_mode & 0o7777, 0o700)
        },
    ),
    Case::new(
        "rmdir.working_directory",
        "rmdir(): working directory",
        |_| {
            dir("d")?;
            let fd = opendir(".").ok()?;
            chdir("d").ok()?;
            unlinkat(&fd, "d", At::REMOVEDIR).ok()?;
            open("a", O::WRONLY | O::CREATE, 0o644).fails(E::NOENT)?;
            mkdir("a", 0o755).fails(E::NOENT)?;
            symlink("x", "a").fails(E::NOENT)?;
            mkfifo("a", 0o644).fails(E::NOENT)?;
            stat(".").ok()?;
            same("getcwd()", std::env::current_dir().is_err(), true)?;
            fchdir(&fd).ok()
        },
    ),
    Case::new(
        "rmdir.the_name_can_be_made_again",
        "rmdir(); mkdir()",
        |_| {
            dir("d")?;
            let old = opendir("d").ok()?;
            rmdir("d").ok()?;
            dir("d")?;
            file_with("d/a", b"new")?;
            openat(&old, "a", O::RDONLY, 0).fails(E::NOENT)?;
            lists_nothing(&old)?;
            let differ = fstat(&old).ok()?.st_ino != lstat("d").ok()?.st_ino;
            same("another inode", differ, true)
        },
    ),
    Case::new(
        "remove.mount_point_is_busy",
        "rmdir(): [EBUSY]; rename(): [EBUSY]",
        |_| {
            dir("d")?;
            dir("e")?;
            file("f")?;
            in_child(|| {
                let flags = rustix::thread::UnshareFlags::NEWNS;
                // SAFETY: of this process's own state only its mounts are parted from others'.
                let parted = unsafe { rustix::thread::unshare_unsafe(flags) };
                same("unshare(CLONE_NEWNS)", parted, Ok(()))?;
                let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
                same("mount(MS_PRIVATE)", mount_change("/", private), Ok(()))?;
                let mounted = mount("none", "d", "tmpfs", MountFlags::empty(), None);
                same("mount(tmpfs)", mounted, Ok(()))?;
                same(
                    "mount(MS_BIND)",
                    rustix::mount::mount_bind("/proc/self/status", "f"),
                    Ok(()),
                )?;
                rmdir("d").fails(E::BUSY)?;
                rename("d", "moved").fails(E::BUSY)?;
                rename("e", "d").fails(E::BUSY)?;
                unlink("f").fails(E::BUSY)?;
                link("f", "g").fails(E::XDEV)?;
                rename("f", "g").fails(E::BUSY)?;
                rename("e", "d/e").fails(E::XDEV)?;
                same("umount()", unmount("f", UnmountFlags::empty()), Ok(()))?;
                same("umount()", unmount("d", UnmountFlags::empty()), Ok(()))
            })?;
            rmdir("d").ok()
        },
    ),
];
