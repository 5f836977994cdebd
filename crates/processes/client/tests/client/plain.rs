//! Operations that are one request and one answer: extended attributes, rights, servers' own words.

use crate::common::*;
use pandofs_api::{AdminReply, AdminRequest, Reply, Request, XattrMode, op};
use pandofs_client::ClientError;
use pandofs_types::limits::MAX_XATTR_VALUE_BYTES;
use pandofs_types::{Credentials, FsError, Ino, ServerId};
use pandofs_wire::message::{AnswerBody, RequestBody};
use serde_bytes::ByteBuf;
use std::collections::BTreeMap;
use std::sync::Mutex;

const FILE: Ino = Ino(50);

#[test]
fn extended_attributes_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let kept: Mutex<BTreeMap<Vec<u8>, Vec<u8>>> = Mutex::default();
    let _server = Fake::start(&map, 0, move |request| {
        let RequestBody::Shard(asked) = request else {
            return unexpected(request);
        };
        let mut kept = kept.lock().unwrap();
        match &asked.request {
            Request::SetXattr(op::SetXattr {
                ino: FILE,
                name,
                value,
                mode,
            }) => {
                if *mode == XattrMode::Create && kept.contains_key(name) {
                    return refuse(FsError::Exists);
                }
                kept.insert(name.clone(), value.clone());
                ok(Reply::Done)
            }
            Request::GetXattr(op::GetXattr { ino: FILE, name }) => match kept.get(name) {
                Some(value) => ok(Reply::Value(value.clone())),
                None => refuse(FsError::NoAttribute),
            },
            Request::ListXattr(op::ListXattr { ino: FILE }) => ok(Reply::Names(
                kept.keys().cloned().map(ByteBuf::from).collect(),
            )),
            Request::RemoveXattr(op::RemoveXattr { ino: FILE, name }) => match kept.remove(name) {
                Some(_) => ok(Reply::Done),
                None => refuse(FsError::NoAttribute),
            },
            _ => unexpected(request),
        }
    });
    let client = client(&map);
    let set = |value: &[u8], mode| client.setxattr(&ME, FILE, b"user.a", value, mode);
    set(b"one", XattrMode::Either).unwrap();
    assert_eq!(set(b"two", XattrMode::Create), Err(FsError::Exists.into()));
    let too_long = vec![0; MAX_XATTR_VALUE_BYTES + 1];
    assert_eq!(
        set(&too_long, XattrMode::Either),
        Err(FsError::TooBig.into())
    );
    assert_eq!(client.getxattr(&ME, FILE, b"user.a").unwrap(), b"one");
    assert_eq!(client.listxattr(&ME, FILE).unwrap(), [b"user.a"]);
    client.removexattr(&ME, FILE, b"user.a").unwrap();
    let gone = client.getxattr(&ME, FILE, b"user.a");
    assert_eq!(gone, Err(FsError::NoAttribute.into()));
}

#[test]
fn rights_are_those_of_the_caller() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    // Owned by `ME`, who may read and write it; others may read.
    let _server = Fake::start(&map, 0, |_| ok(Reply::Inode(file(FILE))));
    let client = client(&map);
    let other = Credentials::user(5, 5, Vec::new());
    assert_eq!(client.access(&ME, FILE, 6), Ok(()));
    assert_eq!(client.access(&ME, FILE, 1), Err(FsError::Access.into()));
    assert_eq!(client.access(&other, FILE, 4), Ok(()));
    assert_eq!(client.access(&other, FILE, 2), Err(FsError::Access.into()));
    assert_eq!(client.access(&ME, FILE, 8), Err(FsError::Invalid.into()));
}

/// A server that is away is reported and not waited for.
#[test]
fn an_administrator_does_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    let _server = Fake::start(&map, 0, |request| match request {
        RequestBody::Admin(AdminRequest::Flush) => {
            Reaction::Answer(AnswerBody::Admin(AdminReply::Done))
        }
        RequestBody::Admin(AdminRequest::Status) => Reaction::Answer(AnswerBody::Admin(
            AdminReply::Failed("too early".to_owned()),
        )),
        other => unexpected(other),
    });
    let client = client(&map);
    assert_eq!(
        client.admin(ServerId(0), AdminRequest::Flush),
        Ok(AdminReply::Done)
    );
    let status = client.status();
    assert_eq!(
        status[0].1,
        Err(ClientError::Protocol("server 0: too early".to_owned()))
    );
    let away = &status[1].1;
    assert!(
        matches!(
            away,
            Err(ClientError::Unavailable {
                server: ServerId(1),
                ..
            })
        ),
        "{away:?}"
    );
    let unknown = client.admin(ServerId(9), AdminRequest::Flush);
    assert!(
        matches!(unknown, Err(ClientError::Protocol(_))),
        "{unknown:?}"
    );
}
