//! Extended attributes.

use super::{Bytes, Number, Text, Xattr, call};
use crate::case::Call;
use rustix::fd::OwnedFd;
use rustix::fs;
use std::collections::BTreeSet;

/// Bytes of the largest value and of the longest list of names (xattr(7)).
pub(crate) const XATTR_SIZE_MAX: usize = 65_536;

pub(crate) fn setxattr(path: impl Text, name: impl Text, value: &[u8], flags: Xattr) -> Call<()> {
    let result = fs::setxattr(path, name, value, flags);
    call!("setxattr", [path, name, Bytes(value.len()), flags], result)
}

pub(crate) fn lsetxattr(path: impl Text, name: impl Text, value: &[u8]) -> Call<()> {
    let result = fs::lsetxattr(path, name, value, Xattr::empty());
    call!("lsetxattr", [path, name, Bytes(value.len())], result)
}

pub(crate) fn fsetxattr(fd: &OwnedFd, name: impl Text, value: &[u8]) -> Call<()> {
    let result = fs::fsetxattr(fd, name, value, Xattr::empty());
    call!("fsetxattr", [Number(fd), name, Bytes(value.len())], result)
}

pub(crate) fn getxattr(path: impl Text, name: impl Text) -> Call<Vec<u8>> {
    let mut buffer = vec![0; XATTR_SIZE_MAX];
    let result = fs::getxattr(path, name, &mut buffer[..]);
    call!(
        "getxattr",
        [path, name],
        result.map(|count| buffer[..count].to_vec())
    )
}

pub(crate) fn lgetxattr(path: impl Text, name: impl Text) -> Call<Vec<u8>> {
    let mut buffer = vec![0; XATTR_SIZE_MAX];
    let result = fs::lgetxattr(path, name, &mut buffer[..]);
    call!(
        "lgetxattr",
        [path, name],
        result.map(|count| buffer[..count].to_vec())
    )
}

pub(crate) fn fgetxattr(fd: &OwnedFd, name: impl Text) -> Call<Vec<u8>> {
    let mut buffer = vec![0; XATTR_SIZE_MAX];
    let result = fs::fgetxattr(fd, name, &mut buffer[..]);
    call!(
        "fgetxattr",
        [Number(fd), name],
        result.map(|count| buffer[..count].to_vec())
    )
}

/// With room for so many bytes.
pub(crate) fn getxattr_into(path: impl Text, name: impl Text, size: usize) -> Call<usize> {
    let mut buffer = vec![0; size];
    let result = if size == 0 {
        fs::getxattr_query(path, name)
    } else {
        fs::getxattr(path, name, &mut buffer[..])
    };
    call!("getxattr", [path, name, Bytes(size)], result)
}

/// The names, in order.
pub(crate) fn listxattr(path: impl Text) -> Call<BTreeSet<String>> {
    let mut buffer = vec![0_u8; XATTR_SIZE_MAX];
    let result = fs::listxattr(path, &mut buffer[..]).map(|count| names(&buffer[..count]));
    call!("listxattr", [path], result)
}

pub(crate) fn flistxattr(fd: &OwnedFd) -> Call<BTreeSet<String>> {
    let mut buffer = vec![0_u8; XATTR_SIZE_MAX];
    let result = fs::flistxattr(fd, &mut buffer[..]).map(|count| names(&buffer[..count]));
    call!("flistxattr", [Number(fd)], result)
}

pub(crate) fn llistxattr(path: impl Text) -> Call<BTreeSet<String>> {
    let mut buffer = vec![0_u8; XATTR_SIZE_MAX];
    let result = fs::llistxattr(path, &mut buffer[..]).map(|count| names(&buffer[..count]));
    call!("llistxattr", [path], result)
}

/// With room for so many bytes.
pub(crate) fn listxattr_into(path: impl Text, size: usize) -> Call<usize> {
    let mut buffer = vec![0_u8; size];
    let result = if size == 0 {
        fs::listxattr_query(path)
    } else {
        fs::listxattr(path, &mut buffer[..])
    };
    call!("listxattr", [path, Bytes(size)], result)
}

fn names(list: &[u8]) -> BTreeSet<String> {
    let names = list
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

pub(crate) fn removexattr(path: impl Text, name: impl Text) -> Call<()> {
    call!("removexattr", [path, name], fs::removexattr(path, name))
}

pub(crate) fn lremovexattr(path: impl Text, name: impl Text) -> Call<()> {
    call!("lremovexattr", [path, name], fs::lremovexattr(path, name))
}

pub(crate) fn fremovexattr(fd: &OwnedFd, name: impl Text) -> Call<()> {
    call!(
        "fremovexattr",
        [Number(fd), name],
        fs::fremovexattr(fd, name)
    )
}
