//! Set-id bits go together with what takes them, in one request.

use crate::support::{Cluster, name};
use pandofs_api::{NewNode, Refusal, Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_types::{Attr, Credentials, FsError, Ino, SetAttr};

const STRANGER: Credentials = Credentials::user(1_001, 1_001, Vec::new());

fn create(cluster: &mut Cluster, text: &str, mode: u16) -> Ino {
    let request = Request::Create(op::Create {
        dir: Ino::ROOT,
        name: name(text),
        node: NewNode::File,
        mode,
        umask: 0,
        open: false,
    });
    match cluster.call(0, request) {
        Ok(Reply::Entry(entry)) => entry.ino,
        other => panic!("{other:?}"),
    }
}

fn clear(
    cluster: &mut Cluster,
    by: &Credentials,
    ino: Ino,
    size: Option<u64>,
) -> Result<Attr, Refusal> {
    let set = SetAttr {
        size,
        clear_set_id: true,
        ..SetAttr::default()
    };
    match cluster.call_by(by, 0, Request::SetAttr(op::SetAttr { ino, set }))? {
        Reply::Inode(inode) => Ok(inode.attr),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_cuts_a_file_may_ask_for_its_set_id_bits_to_go_with_it() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    // Without the right to execute, set-group-id means something else.
    for (mode, left) in [(0o6755, 0o755), (0o6745, 0o2745), (0o1644, 0o1644)] {
        let ino = create(&mut cluster, &format!("{mode:o}"), mode);
        let attr = clear(&mut cluster, &Credentials::ROOT, ino, Some(3)).unwrap();
        assert_eq!((attr.mode, attr.size), (left, 3));
    }
    let dir = clear(&mut cluster, &Credentials::ROOT, Ino::ROOT, None).unwrap();
    let chmod = SetAttr {
        mode: Some(0o6777),
        clear_set_id: true,
        ..SetAttr::default()
    };
    let set = Request::SetAttr(op::SetAttr {
        ino: dir.ino,
        set: chmod,
    });
    cluster.call(0, set).unwrap();
    let dir = clear(&mut cluster, &Credentials::ROOT, Ino::ROOT, None).unwrap();
    assert_eq!(dir.mode, 0o6777, "a directory's mean something else, too");
}

#[test]
fn nobody_takes_set_id_bits_who_may_not_write() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let access = Err(Refusal::Fs(FsError::Access));
    let readable = create(&mut cluster, "readable", 0o4755);
    assert_eq!(clear(&mut cluster, &STRANGER, readable, None), access);
    let writable = create(&mut cluster, "writable", 0o4757);
    let attr = clear(&mut cluster, &STRANGER, writable, None).unwrap();
    assert_eq!(attr.mode, 0o757);
}

#[test]
fn set_group_id_that_nobody_may_execute_stays_for_who_might_set_it() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    // Its group is root's.
    let ino = create(&mut cluster, "odd", 0o6666);
    let member = Credentials::user(1_001, 1_001, vec![0]);
    let attr = clear(&mut cluster, &member, ino, None).unwrap();
    assert_eq!(attr.mode, 0o2666);
    let write = Request::WriteInline(op::WriteInline {
        ino,
        offset: 0,
        data: b"x".to_vec(),
    });
    let mode = |cluster: &mut Cluster, by: &Credentials| {
        cluster.call_by(by, 0, write.clone()).unwrap();
        match cluster.call(0, Request::GetAttr(op::GetAttr { ino })) {
            Ok(Reply::Inode(inode)) => inode.attr.mode,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(mode(&mut cluster, &member), 0o2666);
    assert_eq!(mode(&mut cluster, &STRANGER), 0o666);
}
