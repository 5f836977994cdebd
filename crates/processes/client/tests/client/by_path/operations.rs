//! Operations by path: as many requests as are promised, and what the operations by number do.

use super::{ROOT, Servers, deep, name};
use pandofs_client::{Client, ClientError, NewNode, OpenHow, RenameHow};
use pandofs_types::{Credentials, FsError, Ino, NewMode, Position, SetAttr};
use std::time::{Duration, Instant};

const MODE: NewMode = NewMode {
    mode: 0o644,
    umask: 0,
};
const MODE_OF_DIR: NewMode = NewMode {
    mode: 0o755,
    umask: 0,
};

const NEW: OpenHow = OpenHow {
    access: 6,
    truncate: false,
    exclusive: true,
};

/// Requests that something takes of a client that has nothing cached, and what came of it.
fn cold<T>(servers: &Servers, work: impl FnOnce(&Client) -> T) -> (u64, T) {
    let client = servers.client();
    let before = client.counters().requests;
    let done = work(&client);
    (client.counters().requests - before, done)
}

fn fs<T>(error: FsError) -> Result<T, ClientError> {
    Err(ClientError::Fs(error))
}

#[test]
fn each_is_one_request_ten_levels_deep() {
    let servers = Servers::new();
    let dir = deep(&servers.client(), 10);
    let at = |name: &str| format!("{dir}/{name}").into_bytes();
    let (requests, made) = cold(&servers, |client| {
        let made = client.create_by_path(&ROOT, &at("new"), MODE, NEW);
        let made = made.unwrap().unwrap();
        client.write(&ROOT, made.ino, 0, b"sap").unwrap();
        client.release(made.ino).unwrap();
        made
    });
    // The second one has what was written.
    assert_eq!(requests, 2);
    let (requests, found) = cold(&servers, |client| {
        let found = client.open_by_path(&ROOT, &at("new"), 4);
        let found = found.unwrap().unwrap();
        client.release(found.ino).unwrap();
        found
    });
    assert_eq!(found.ino, made.ino);
    assert_eq!((requests, found.attr.size), (1, 3));
    let (requests, made) = cold(&servers, |client| {
        client.mkdir_by_path(&ROOT, &at("sub"), MODE_OF_DIR)
    });
    assert_eq!(requests, 1);
    let sub = made.unwrap().unwrap();
    let (requests, (listed, page)) = cold(&servers, |client| {
        let listed = client.list_by_path(&ROOT, dir.as_bytes(), false, 100);
        listed.unwrap().unwrap()
    });
    let mut names: Vec<_> = page.entries.iter().map(|e| e.name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["file", "new", "sub"]);
    assert_eq!((requests, page.next), (1, Position::END));
    let parent = servers.client().resolve(&ROOT, dir.as_bytes()).unwrap();
    assert_eq!(listed, parent.ino);
    let (requests, moved) = cold(&servers, |client| {
        client.rename_by_path(&ROOT, &at("new"), &at("moved"), RenameHow::default())
    });
    assert_eq!((requests, moved), (1, Ok(Some(found.ino))));
    let (requests, gone) = cold(&servers, |client| {
        client.unlink_by_path(&ROOT, &at("moved"))
    });
    assert_eq!((requests, gone), (1, Ok(Some(found.ino))));
    let (requests, gone) = cold(&servers, |client| client.rmdir_by_path(&ROOT, &at("sub")));
    assert_eq!((requests, gone), (1, Ok(Some(sub.ino))));
    let (requests, made) = cold(&servers, |client| {
        client.mknod_by_path(&ROOT, &at("fifo"), NewNode::Fifo, MODE)
    });
    assert!(made.unwrap().is_some());
    assert_eq!(requests, 1);
    let found = servers.client().resolve(&ROOT, &at("moved"));
    assert_eq!(found, fs(FsError::NotFound));
}

#[test]
fn to_open_or_make_a_file_is_one_request() {
    let servers = Servers::new();
    let dir = deep(&servers.client(), 10);
    let at = |name: &str| format!("{dir}/{name}").into_bytes();
    let how = |truncate, exclusive| OpenHow {
        access: 6,
        truncate,
        exclusive,
    };
    let open = |path: &[u8], how| {
        let (requests, opened) = cold(&servers, |client| {
            let opened = client.create_by_path(&ROOT, path, MODE, how);
            opened.map(|node| {
                let node = node.expect("it is known by its path");
                client.write(&ROOT, node.ino, 0, b"sap").unwrap();
                client.release(node.ino).unwrap();
                (node.ino, node.attr.size)
            })
        });
        // The last one has what was written.
        (requests - u64::from(opened.is_ok()), opened)
    };
    let (requests, made) = open(&at("new"), how(false, false));
    let (ino, size) = made.unwrap();
    assert_eq!((requests, size), (1, 0));
    assert_eq!(open(&at("new"), how(false, false)), (1, Ok((ino, 3))));
    assert_eq!(open(&at("new"), how(true, false)), (3, Ok((ino, 0))));
    assert_eq!(open(&at("new"), how(true, true)), (1, fs(FsError::Exists)));
    // What it makes does not ask its maker's rights again; what is there does.
    let other = Credentials::user(7, 7, vec![]);
    let writes = |path: &[u8]| {
        let client = servers.client();
        let opened = client.create_by_path(&other, path, MODE, how(false, false));
        opened.map(|node| node.is_some())
    };
    assert_eq!(writes(&at("new")), fs(FsError::Access));
    assert_eq!(writes(&at("other")), fs(FsError::Access));
    let set = SetAttr {
        mode: Some(0o777),
        ..SetAttr::default()
    };
    let client = servers.client();
    let parent = client.resolve(&ROOT, dir.as_bytes()).unwrap().ino;
    client.setattr(&ROOT, parent, set).unwrap();
    let read_only = NewMode {
        mode: 0o444,
        umask: 0,
    };
    let made = client.create_by_path(&other, &at("other"), read_only, how(false, false));
    assert_eq!(made.map(|node| node.is_some()), Ok(true));
    assert_eq!(writes(&at("other")), fs(FsError::Access));
    // What is no file is found by a walk.
    client
        .mkdir_by_path(&ROOT, &at("sub"), MODE_OF_DIR)
        .unwrap();
    let of_dir = client.create_by_path(&ROOT, &at("sub"), MODE, how(false, false));
    assert_eq!(of_dir.map(|node| node.is_some()), Ok(false));
}

/// An operation by path and the one by number fail alike, in any case.
#[test]
fn errors_are_those_of_a_walk() {
    let servers = Servers::new();
    let client = servers.client();
    let dir = deep(&client, 4);
    let at = |name: &str| format!("{dir}/{name}").into_bytes();
    let other = Credentials::user(7, 7, vec![]);
    let mkdir = |caller: &Credentials, path: &[u8]| {
        let (requests, made) = cold(&servers, |client| {
            client.mkdir_by_path(caller, path, MODE_OF_DIR)
        });
        (requests, made.map(|node| node.is_some()))
    };
    assert_eq!(mkdir(&ROOT, &at("file")), (1, fs(FsError::Exists)));
    assert_eq!(mkdir(&other, &at("file")), (1, fs(FsError::Exists)));
    assert_eq!(mkdir(&other, &at("new")), (1, fs(FsError::Access)));
    let unlink = |caller: &Credentials, path: &[u8]| {
        cold(&servers, |client| client.unlink_by_path(caller, path))
    };
    assert_eq!(unlink(&ROOT, &at("none")), (1, fs(FsError::NotFound)));
    assert_eq!(unlink(&other, &at("file")), (1, fs(FsError::Access)));
    let rmdir = cold(&servers, |client| client.rmdir_by_path(&ROOT, &at("file")));
    assert_eq!(rmdir, (1, fs(FsError::NotDir)));
    let open = |caller: &Credentials, access| {
        let opened = cold(&servers, |client| {
            client.open_by_path(caller, &at("file"), access)
        });
        (opened.0, opened.1.map(|node| node.is_some()))
    };
    assert_eq!(open(&other, 4), (1, Ok(true)));
    assert_eq!(open(&other, 2), (1, fs(FsError::Access)));
    // A caller that may not search a directory above may do nothing, and hears so from the same shard.
    let top = client.resolve(&ROOT, b"/level-0").unwrap().ino;
    let set = SetAttr {
        mode: Some(0o700),
        ..SetAttr::default()
    };
    client.setattr(&ROOT, top, set).unwrap();
    let (requests, made) = mkdir(&ROOT, &at("found-again"));
    assert_eq!(made, Ok(true));
    assert!(requests > 1, "{requests}");
    assert_eq!(mkdir(&other, &at("file")), (1, fs(FsError::Access)));
    assert_eq!(unlink(&other, &at("none")), (1, fs(FsError::Access)));
    assert_eq!(open(&other, 4), (1, fs(FsError::Access)));
    // Through what is no directory, and where nothing is, a path leads to no record.
    for (path, error) in [
        (at("file/new"), FsError::NotDir),
        (at("none/new"), FsError::NotFound),
    ] {
        assert_eq!(mkdir(&ROOT, &path).1, fs(error));
        assert_eq!(unlink(&ROOT, &path).1, fs(error));
    }
    // Through a symbolic link it is to be walked.
    client
        .symlink(&ROOT, Ino::ROOT, &name("link"), dir.as_bytes())
        .unwrap();
    assert_eq!(mkdir(&ROOT, b"/link/new").1, Ok(false));
}

#[test]
fn a_rename_is_one_request_within_a_shard_and_two_across() {
    let servers = Servers::new();
    let client = servers.client();
    let dir = deep(&client, 3);
    let shard_of = |path: &str| servers.map.path_shard(path.as_bytes()).unwrap();
    // Not so many that the directory splits.
    let others = (0..1_000).map(|number| format!("{dir}/other-{number}"));
    let (within, across): (Vec<String>, Vec<String>) =
        others.partition(|other| shard_of(&dir) == shard_of(other));
    for new_dir in within[..3].iter().chain(&across[..3]) {
        let made = client.mkdir_by_path(&ROOT, new_dir.as_bytes(), MODE_OF_DIR);
        assert!(made.unwrap().is_some());
        let from = format!("{dir}/file");
        let to = format!("{new_dir}/file");
        let rename = |from: &str, to: &str| {
            cold(&servers, |client| {
                client.rename_by_path(&ROOT, from.as_bytes(), to.as_bytes(), RenameHow::default())
            })
        };
        let is_within = shard_of(&dir) == shard_of(new_dir);
        for (from, to) in [(&from, &to), (&to, &from)] {
            let (requests, moved) = rename(from, to);
            assert!(moved.unwrap().is_some());
            assert_eq!(requests, if is_within { 1 } else { 2 }, "{from} to {to}");
            assert!(client.resolve(&ROOT, to.as_bytes()).is_ok());
        }
    }
    // To the root and out of it.
    let (requests, moved) = cold(&servers, |client| {
        let from = format!("{dir}/file");
        client.rename_by_path(&ROOT, from.as_bytes(), b"/file", RenameHow::default())
    });
    assert!(moved.unwrap().is_some());
    assert_eq!(requests, 1);
}

#[test]
fn names_of_large_directories_are_asked_for_by_number_where_they_are() {
    let servers = Servers::new();
    let client = servers.client();
    let dir = deep(&client, 3);
    let at = |number: u32| format!("{dir}/file-{number}").into_bytes();
    let make = |number| {
        cold(&servers, |client| {
            client.mknod_by_path(&ROOT, &at(number), NewNode::File, MODE)
        })
    };
    for number in 0..200 {
        let (_, made) = make(number);
        assert!(made.unwrap().is_some(), "{number}");
    }
    // When the directory's home has heard of all its partitions.
    let most = || {
        let requests = (0..200).map(|number| {
            let (requests, made) = make(number);
            assert_eq!(made, fs(FsError::Exists));
            requests
        });
        requests.max()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while most() != Some(2) {
        assert!(Instant::now() < deadline, "{:?}", most());
    }
    for number in 0..200 {
        let (_, gone) = cold(&servers, |client| client.unlink_by_path(&ROOT, &at(number)));
        assert!(gone.unwrap().is_some(), "{number}");
    }
    let (_, listed) = cold(&servers, |client| {
        let listed = client.list_by_path(&ROOT, dir.as_bytes(), false, 100);
        listed.unwrap().unwrap().1
    });
    assert_eq!(listed.entries.len(), 1);
}

#[test]
fn where_paths_lead_to_no_shard_they_are_to_be_walked() {
    let servers = Servers::of(pandofs_placement::DirPolicy::Random);
    let client = servers.client();
    let dir = deep(&client, 2);
    let before = client.counters().requests;
    let path = format!("{dir}/new").into_bytes();
    let made = client.mkdir_by_path(&ROOT, &path, MODE_OF_DIR);
    assert!(made.unwrap().is_none());
    assert_eq!(client.counters().requests, before);
}
