//! Rights that capabilities give to their holders, and that nothing else gives (capabilities(7)).

use crate::case::{Case, Outcome, holds, same};
use crate::files::{BLOCK, CHAR, create, dir, dir_of, file, file_of, write_all};
use crate::process::{
    ANN, BOB, CREW, EVE, as_user, in_child, keep_capabilities, with_capabilities,
};
use crate::sys::*;
use rustix::thread::CapabilitySet as C;

const PLAIN: Xattr = Xattr::empty();
/// Capability 10 (to bind to low ports), permitted and effective: `struct vfs_cap_data` of
/// linux/capability.h.
const FILE_CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A file and a directory of ANN's with a file in it, which no other user may use.
fn closed() -> Outcome {
    file_of("a", ANN.uid, 0o600)?;
    dir_of("d", ANN.uid, 0o700)?;
    file_of("d/inside", ANN.uid, 0o600)
}

pub(super) const CASES: &[Case] = &[
    Case::new("capability.dac_override", "CAP_DAC_OVERRIDE", |_| {
        closed()?;
        as_user(EVE, || {
            open("a", O::RDWR, 0).fails(E::ACCESS)?;
            lstat("d/inside").fails(E::ACCESS)
        })?;
        with_capabilities(EVE, C::DAC_OVERRIDE, || {
            open("a", O::RDWR, 0).ok()?;
            access("a", Access::EXEC_OK).fails(E::ACCESS)?;
            lstat("d/inside").ok()?;
            names_in("d")?;
            file("d/new")?;
            rename("d/new", "d/newer").ok()?;
            unlink("d/newer").ok()?;
            mkdir("d/dir", 0o755).ok()?;
            rmdir("d/dir").ok()?;
            truncate("a", 3).ok()?;
            setxattr("a", "user.x", b"1", PLAIN).ok()?;
            chmod("a", 0o666).fails(E::PERM)?;
            chown("a", Some(EVE.uid), None).fails(E::PERM)
        })
    }),
    Case::new("capability.dac_read_search", "CAP_DAC_READ_SEARCH", |_| {
        closed()?;
        setxattr("a", "user.x", b"1", PLAIN).ok()?;
        with_capabilities(EVE, C::DAC_READ_SEARCH, || {
            open("a", O::RDONLY, 0).ok()?;
            open("a", O::WRONLY, 0).fails(E::ACCESS)?;
            open("a", O::RDWR, 0).fails(E::ACCESS)?;
            same("names", names_in("d")?.len(), 1)?;
            open("d/inside", O::RDONLY, 0).ok()?;
            getxattr("a", "user.x").gives(b"1".to_vec())?;
            open("d/new", O::WRONLY | O::CREATE, 0o600).fails(E::ACCESS)?;
            unlink("d/inside").fails(E::ACCESS)?;
            truncate("a", 0).fails(E::ACCESS)?;
            setxattr("a", "user.x", b"2", PLAIN).fails(E::ACCESS)
        })
    }),
    Case::new("capability.fowner", "CAP_FOWNER", |_| {
        closed()?;
        dir_of("sticky", ANN.uid, 0o1777)?;
        file_of("sticky/one", BOB.uid, 0o600)?;
        file_of("sticky/two", BOB.uid, 0o600)?;
        let moment = at((1_000_000_000, 0));
        as_user(EVE, || {
            chmod("a", 0o640).fails(E::PERM)?;
            utimens("a", moment, moment).fails(E::PERM)?;
            unlink("sticky/one").fails(E::PERM)
        })?;
        with_capabilities(EVE, C::FOWNER, || {
            chmod("a", 0o640).ok()?;
            utimens("a", moment, moment).ok()?;
            unlink("sticky/one").ok()?;
            rename("sticky/two", "sticky/three").ok()?;
            chown("a", Some(EVE.uid), None).fails(E::PERM)?;
            chown("a", None, Some(EVE.uid)).fails(E::PERM)?;
            open("a", O::RDONLY, 0).fails(E::ACCESS)
        })?;
        same("mode", mode_of("a")?, 0o640)?;
        same("time", stat("a").ok()?.st_mtime, 1_000_000_000)
    }),
    Case::new("capability.chown", "CAP_CHOWN", |_| {
        closed()?;
        file_of("own", EVE.uid, 0o600)?;
        as_user(EVE, || {
            chown("own", Some(BOB.uid), None).fails(E::PERM)?;
            chown("own", None, Some(CREW)).fails(E::PERM)
        })?;
        with_capabilities(EVE, C::CHOWN, || {
            chown("own", Some(BOB.uid), Some(CREW)).ok()?;
            chown("a", Some(EVE.uid), Some(CREW)).ok()?;
            chmod("own", 0o666).fails(E::PERM)
        })?;
        let (own, other) = (stat("own").ok()?, stat("a").ok()?);
        same("owners", (own.st_uid, own.st_gid), (BOB.uid, CREW))?;
        same("owners", (other.st_uid, other.st_gid), (EVE.uid, CREW))
    }),
    Case::new("capability.chown_of_set_id", "CAP_CHOWN; chown(2)", |_| {
        // To take the bits off is to change the mode, which takes another capability.
        file_of("a", BOB.uid, 0o755)?;
        for (mode, allowed) in [
            (0o755, true),
            (0o4755, false),
            (0o2755, false),
            (0o2745, false),
        ] {
            chmod("a", mode).ok()?;
            let gives = || chown("a", None, Some(CREW));
            if allowed {
                with_capabilities(EVE, C::CHOWN, || gives().ok())?;
            } else {
                with_capabilities(EVE, C::CHOWN, || gives().fails(E::PERM))?;
                with_capabilities(EVE, C::CHOWN | C::FOWNER, || gives().ok())?;
            }
            same("mode", mode_of("a")?, 0o755 & mode)?;
        }
        dir_of("d", BOB.uid, 0o6755)?;
        with_capabilities(EVE, C::CHOWN, || chown("d", Some(EVE.uid), None).ok())?;
        same("mode of a directory", mode_of("d")?, 0o6755)
    }),
    Case::new("capability.fsetid", "CAP_FSETID", |_| {
        file_of("own", EVE.uid, 0o700)?;
        chown("own", None, Some(CREW)).ok()?;
        as_user(EVE, || chmod("own", 0o2710).ok())?;
        same("mode", mode_of("own")?, 0o710)?;
        with_capabilities(EVE, C::FSETID, || chmod("own", 0o6712).ok())?;
        same("mode", mode_of("own")?, 0o6712)?;
        with_capabilities(EVE, C::FSETID, || {
            let fd = open("own", O::WRONLY, 0).ok()?;
            write_all(&fd, b"kept")?;
            truncate("own", 2).ok()
        })?;
        same("mode after a write", mode_of("own")?, 0o6712)?;
        as_user(EVE, || {
            let fd = open("own", O::WRONLY, 0).ok()?;
            write_all(&fd, b"not kept")
        })?;
        same("mode after another's", mode_of("own")?, 0o712)
    }),
    Case::new(
        "capability.fsetid_of_who_may_not_write_any_more",
        "CAP_FSETID; ftruncate()",
        |_| {
            file_of("own", BOB.uid, 0o666)?;
            let cuts_when_closed = |fsetid: C, length, after| {
                let fd = open("own", O::WRONLY, 0).ok()?;
                chmod("own", 0o6711).ok()?;
                with_capabilities(EVE, fsetid, || ftruncate(&fd, length).ok())?;
                same("mode", mode_of("own")?, after)?;
                same("size", stat("own").ok()?.st_size, length)
            };
            cuts_when_closed(C::FSETID, 3, 0o6711)?;
            cuts_when_closed(C::empty(), 2, 0o711)
        },
    ),
    Case::new(
        "capability.fsetid_inherited",
        "CAP_FSETID; inode(7): S_ISGID",
        |_| {
            dir_of("d", EVE.uid, 0o777)?;
            chown("d", None, Some(CREW)).ok()?;
            chmod("d", 0o2777).ok()?;
            umask(0);
            let make = |name: &str| mknod(name, FileType::RegularFile, 0o2755, 0).ok();
            as_user(EVE, || make("d/without"))?;
            with_capabilities(EVE, C::FSETID, || make("d/with"))?;
            same("mode", mode_of("d/without")?, 0o755)?;
            same("mode", mode_of("d/with")?, 0o2755)
        },
    ),
    Case::new("capability.mknod", "CAP_MKNOD; mknod(2): [EPERM]", |_| {
        dir_of("d", EVE.uid, 0o755)?;
        as_user(EVE, || {
            mknod("d/c", FileType::CharacterDevice, 0o600, CHAR).fails(E::PERM)?;
            mknod("d/b", FileType::BlockDevice, 0o600, BLOCK).fails(E::PERM)?;
            mknod("d/b", FileType::BlockDevice, 0o600, 0).fails(E::PERM)?;
            // Overlayfs's white-out, which is no device, may be made by every user since Linux 5.8.
            mknod("d/whiteout", FileType::CharacterDevice, 0o600, 0).ok()
        })?;
        with_capabilities(EVE, C::MKNOD, || {
            mknod("d/c", FileType::CharacterDevice, 0o600, CHAR).ok()?;
            mknod("d/b", FileType::BlockDevice, 0o600, BLOCK).ok()
        })?;
        same("device", lstat("d/c").ok()?.st_rdev, CHAR)
    }),
    Case::new(
        "capability.sys_admin",
        "CAP_SYS_ADMIN; xattr(7): trusted",
        |_| {
            file_of("a", EVE.uid, 0o600)?;
            with_capabilities(EVE, C::SYS_ADMIN, || {
                setxattr("a", "trusted.x", b"1", PLAIN).ok()?;
                setxattr("a", "security.x", b"2", PLAIN).ok()?;
                getxattr("a", "trusted.x").gives(b"1".to_vec())?;
                same("names", listxattr("a").ok()?.len(), 2)
            })?;
            as_user(EVE, || {
                setxattr("a", "trusted.x", b"3", PLAIN).fails(E::PERM)?;
                setxattr("a", "security.x", b"3", PLAIN).fails(E::PERM)?;
                getxattr("a", "trusted.x").fails(E::NODATA)?;
                getxattr("a", "security.x").gives(b"2".to_vec())?;
                listxattr("a").gives(["security.x".to_owned()].into())?;
                removexattr("a", "trusted.x").fails(E::PERM)
            })?;
            with_capabilities(EVE, C::SYS_ADMIN, || removexattr("a", "trusted.x").ok())
        },
    ),
    Case::new("capability.setfcap", "CAP_SETFCAP", |_| {
        file_of("a", EVE.uid, 0o755)?;
        let set = || setxattr("a", "security.capability", &FILE_CAPABILITY, PLAIN);
        as_user(EVE, || set().fails(E::PERM))?;
        with_capabilities(EVE, C::SETFCAP, || set().ok())?;
        getxattr("a", "security.capability").gives(FILE_CAPABILITY.to_vec())?;
        with_capabilities(EVE, C::SETFCAP, || {
            removexattr("a", "security.capability").ok()
        })
    }),
    Case::new(
        "capability.root_without",
        "capabilities(7): no privileges for root",
        |_| {
            closed()?;
            file_of("own", 0, 0o600)?;
            file_of("foreign", ANN.uid, 0o666)?;
            setxattr("own", "trusted.x", b"1", PLAIN).ok()?;
            dir_of("sticky", ANN.uid, 0o1777)?;
            file_of("sticky/one", BOB.uid, 0o600)?;
            in_child(|| {
                keep_capabilities(C::empty())?;
                open("own", O::RDWR, 0).ok()?;
                chmod("own", 0o640).ok()?;
                open("foreign", O::RDWR, 0).ok()?;
                open("a", O::RDONLY, 0).fails(E::ACCESS)?;
                lstat("d/inside").fails(E::ACCESS)?;
                chmod("foreign", 0o777).fails(E::PERM)?;
                chown("own", Some(ANN.uid), None).fails(E::PERM)?;
                unlink("sticky/one").fails(E::PERM)?;
                mknod("c", FileType::CharacterDevice, 0o600, CHAR).fails(E::PERM)?;
                setxattr("own", "trusted.x", b"2", PLAIN).fails(E::PERM)?;
                getxattr("own", "trusted.x").fails(E::NODATA)?;
                same("names", listxattr("own").ok()?.len(), 0)
            })?;
            same("mode", mode_of("own")?, 0o640)
        },
    ),
    Case::new("capability.given_up", "capset(2)", |_| {
        closed()?;
        dir("all")?;
        chmod("all", 0o777).ok()?;
        with_capabilities(EVE, C::DAC_OVERRIDE | C::FOWNER, || {
            open("a", O::RDWR, 0).ok()?;
            lstat("d/inside").ok()?;
            chmod("a", 0o640).ok()?;
            keep_capabilities(C::FOWNER)?;
            open("a", O::RDWR, 0).fails(E::ACCESS)?;
            lstat("d/inside").fails(E::ACCESS)?;
            chmod("a", 0o600).ok()?;
            keep_capabilities(C::empty())?;
            chmod("a", 0o640).fails(E::PERM)?;
            create("all/own").map(drop)
        })
    }),
    Case::new(
        "capability.of_another_user_name_space",
        "user_namespaces(7): capabilities",
        |_| {
            closed()?;
            file_of("own", EVE.uid, 0o600)?;
            setxattr("own", "trusted.x", b"1", PLAIN).ok()?;
            as_user(EVE, || {
                // All capabilities there, over what it owns: nothing here.
                if enter_user_name_space().may_fail(E::PERM)? {
                    return Ok(());
                }
                let mine = rustix::thread::capabilities(None).map(|sets| sets.effective);
                let has_all = mine.is_ok_and(|set| set.contains(C::DAC_OVERRIDE | C::SYS_ADMIN));
                holds("a new user name space", has_all, "all capabilities", mine)?;
                open("own", O::RDWR, 0).ok()?;
                open("a", O::RDONLY, 0).fails(E::ACCESS)?;
                lstat("d/inside").fails(E::ACCESS)?;
                chmod("a", 0o666).fails(E::PERM)?;
                getxattr("own", "trusted.x").fails(E::NODATA)?;
                setxattr("own", "trusted.x", b"2", PLAIN).fails(E::PERM)
            })
        },
    ),
];
