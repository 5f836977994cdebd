//! Functions that make, remove and rename.

use crate::abi::Fs;
use crate::call::done;
use crate::failure::{Failure, Result};
use crate::mount::{Ending, Mount};
use crate::pointers::Room;
use pandofs_client::{NewNode, RenameHow};
use pandofs_types::limits::MAX_SYMLINK_BYTES;
use pandofs_types::{FileKind, FsError};
use std::ffi::{c_char, c_int};

/// As mkdir(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_mkdir(fs: Fs, path: *const c_char, mode: u32) -> c_int {
    done("pandofs_mkdir", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        let mount = call.mount(fs)?;
        let mode = mount.new_mode(mode);
        let made = mount.by_path(path, |client, caller| {
            client.mkdir_by_path(caller, path, mode)
        })?;
        if made.is_some() {
            return Ok(());
        }
        let (dir, name) = mount.new_leaf(path, Ending::Dir)?;
        mount
            .client()
            .mkdir_masked(&mount.caller, dir, &name, mode)?;
        Ok(())
    })
}

/// As rmdir(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_rmdir(fs: Fs, path: *const c_char) -> c_int {
    done("pandofs_rmdir", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        let mount = call.mount(fs)?;
        let removed = mount.by_path(path, |client, caller| client.rmdir_by_path(caller, path))?;
        if removed.is_some() {
            return Ok(());
        }
        let (dir, name) = mount.leaf(mount.base, path, Ending::Dir)?;
        mount.client().rmdir(&mount.caller, dir, &name)?;
        Ok(())
    })
}

/// As unlink(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_unlink(fs: Fs, path: *const c_char) -> c_int {
    done("pandofs_unlink", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        let mount = call.mount(fs)?;
        let removed = mount.by_path(path, |client, caller| client.unlink_by_path(caller, path))?;
        if removed.is_some() {
            return Ok(());
        }
        let (dir, name) = match mount.leaf(mount.base, path, Ending::NoDir) {
            Err(Failure::InUse) => return Err(FsError::IsDir.into()),
            leaf => leaf?,
        };
        mount.client().unlink(&mount.caller, dir, &name)?;
        Ok(())
    })
}

/// As renameat2(2). Each path has a handle of its own, of one connection; the caller is the first one's. Flags: 0,
/// RENAME_NOREPLACE or RENAME_EXCHANGE.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_rename(
    fs: Fs,
    path: *const c_char,
    new_fs: Fs,
    new_path: *const c_char,
    flags: u32,
) -> c_int {
    done("pandofs_rename", |call| {
        // SAFETY: as C gives them.
        let (path, new_path) =
            unsafe { (call.path(path, "path")?, call.path(new_path, "new_path")?) };
        let mount = call.mount(fs)?;
        let new_mount = of_one_session(&mount, &*call.mount(new_fs)?)?;
        if renamed_by_path(&mount, path, (&new_mount, new_path), flags)? {
            return Ok(());
        }
        let (dir, name) = mount.leaf(mount.base, path, Ending::Dir)?;
        let (new_dir, new_name) = new_mount.leaf(new_mount.base, new_path, Ending::Dir)?;
        for path in [path, new_path] {
            if path.ends_with(b"/") {
                let node = mount.client().lookup(&mount.caller, dir, &name)?;
                if node.kind != FileKind::Dir {
                    return Err(FsError::NotDir.into());
                }
            }
        }
        let how = match flags {
            0 => RenameHow::default(),
            libc::RENAME_NOREPLACE => RenameHow {
                no_replace: true,
                ..RenameHow::default()
            },
            libc::RENAME_EXCHANGE => {
                let client = mount.client();
                client.exchange(&mount.caller, dir, &name, new_dir, &new_name)?;
                return Ok(());
            }
            _ => {
                return Err(Failure::Invalid(
                    "flags other than RENAME_NOREPLACE or RENAME_EXCHANGE",
                ));
            }
        };
        let (from, to) = ((dir, &name), (new_dir, &new_name));
        mount.client().rename_how(&mount.caller, from, to, how)?;
        Ok(())
    })
}

/// Whether it is done by the paths alone.
fn renamed_by_path(
    mount: &Mount,
    path: &[u8],
    (new_mount, new_path): (&Mount, &[u8]),
    flags: u32,
) -> Result<bool> {
    let how = RenameHow {
        no_replace: flags == libc::RENAME_NOREPLACE,
        ..RenameHow::default()
    };
    let is_rename = flags == 0 || how.no_replace;
    if !is_rename || !new_mount.begins_at_root(new_path) {
        return Ok(false);
    }
    let renamed = mount.by_path(path, |client, caller| {
        client.rename_by_path(caller, path, new_path, how)
    })?;
    Ok(renamed.is_some())
}

/// As link(2): another name for a file, or for a symbolic link. Handles as for pandofs_rename().
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_link(
    fs: Fs,
    path: *const c_char,
    new_fs: Fs,
    new_path: *const c_char,
) -> c_int {
    done("pandofs_link", |call| {
        // SAFETY: as C gives them.
        let (path, new_path) =
            unsafe { (call.path(path, "path")?, call.path(new_path, "new_path")?) };
        let mount = call.mount(fs)?;
        let new_mount = of_one_session(&mount, &*call.mount(new_fs)?)?;
        let (dir, name) = new_mount.new_leaf(new_path, Ending::NoDir)?;
        mount.with_node(path, false, |node| {
            let client = mount.client();
            client.link(&mount.caller, node.ino, dir, &name)?;
            Ok(())
        })
    })
}

/// As symlink(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_symlink(
    target: *const c_char,
    fs: Fs,
    path: *const c_char,
) -> c_int {
    done("pandofs_symlink", |call| {
        // SAFETY: as C gives them.
        let (target, path) = unsafe { (call.path(target, "target")?, call.path(path, "path")?) };
        let mount = call.mount(fs)?;
        let node = NewNode::Symlink {
            target: target.to_vec(),
        };
        let made = mount.by_path(path, |client, caller| {
            client.mknod_by_path(caller, path, node, 0o777.into())
        })?;
        if made.is_some() {
            return Ok(());
        }
        let (dir, name) = mount.new_leaf(path, Ending::NoDir)?;
        mount.client().symlink(&mount.caller, dir, &name, target)?;
        Ok(())
    })
}

/// The target of a symbolic link, without a NUL, and its length. Unlike readlink(2) it is -ERANGE if it does not fit; with
/// size 0 the length alone is answered.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_readlink(
    fs: Fs,
    path: *const c_char,
    target: *mut c_char,
    size: usize,
) -> i64 {
    crate::call::count("pandofs_readlink", |call| {
        // SAFETY: as C gives them.
        let (path, mut room) =
            unsafe { (call.path(path, "path")?, Room::new(target, size, "target")?) };
        let mount = call.mount(fs)?;
        let target = mount.with_node(path, false, |node| {
            Ok(mount.client().readlink(&mount.caller, node.ino)?)
        })?;
        assert!(target.len() <= MAX_SYMLINK_BYTES);
        room.answer(&target)
    })
}

fn of_one_session(mount: &Mount, other: &Mount) -> Result<Mount> {
    if mount.session.number != other.session.number {
        return Err(Failure::Invalid(
            "the handles belong to different connections",
        ));
    }
    // The first one's caller asks, also where the second one's directory is gone through.
    Ok(Mount {
        session: std::sync::Arc::clone(&other.session),
        caller: mount.caller.clone(),
        umask: mount.umask,
        base: other.base,
    })
}
