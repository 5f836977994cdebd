//! Paths through the client library on a file system that places directories by them, with real servers: what requests by
//! path find is what a walk from the root finds, in as many requests as are promised.

mod operations;

use pandofs_client::{Client, ClientError, NewNode, Node, Options, XattrMode};
use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_server::{Server, ServerHandle};
use pandofs_storage::log::MemoryLog;
use pandofs_storage::store::MemoryStore;
use pandofs_testkit::rng::Rng;
use pandofs_types::acl::ACCESS_ACL;
use pandofs_types::{
    Acl, AclEntry, Credentials, FileKind, FsError, FsId, HashKey, Ino, Name, ServerId, SetAttr,
};
use std::sync::Arc;

const ROOT: Credentials = Credentials::ROOT;

struct Servers {
    map: ClusterMap,
    _running: Vec<ServerHandle>,
    _folder: tempfile::TempDir,
}

impl Servers {
    fn new() -> Servers {
        Servers::of(DirPolicy::CrushPath)
    }

    fn of(policy: DirPolicy) -> Servers {
        let folder = tempfile::tempdir().unwrap();
        let info = |id| ServerInfo {
            id: ServerId(id),
            addresses: vec![format!("unix:{}/{id}.sock", folder.path().display())],
            weight: ServerInfo::WEIGHT_ONE,
            domain: format!("host-{id}"),
        };
        let map = ClusterMap::create(
            FsId(7),
            "test".to_owned(),
            HashKey(1, 2),
            8,
            (0..2).map(info).collect(),
            policy,
            Settings {
                split_threshold: 16,
                max_partitions: Some(8),
                ..Settings::default()
            },
        )
        .unwrap();
        let start = |id| {
            let (store, log) = (Arc::new(MemoryStore::new()), Arc::new(MemoryLog::new()));
            Server::format_store(&map, id, &*store).unwrap();
            let data = folder.path().join(format!("data-{id}"));
            std::fs::create_dir(&data).unwrap();
            Server::start_on(map.clone(), id, store, log, &data).unwrap()
        };
        let running = (0..2).map(|id| start(ServerId(id))).collect();
        Servers {
            map,
            _running: running,
            _folder: folder,
        }
    }

    fn client(&self) -> Client {
        Client::connect(self.map.clone(), Options::default()).unwrap()
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Requests of a new client for this path, and what it found.
fn cold(servers: &Servers, caller: &Credentials, path: &str) -> (u64, Result<Node, ClientError>) {
    let client = servers.client();
    let before = client.counters().requests;
    let found = client.resolve(caller, path.as_bytes());
    (client.counters().requests - before, found)
}

/// The node found by a walk that asks one directory after the other, and its requests.
fn walk(servers: &Servers, caller: &Credentials, path: &str) -> (u64, Result<Node, ClientError>) {
    let client = servers.client();
    let before = client.counters().requests;
    let mut parts: Vec<Name> = path.split('/').skip(1).map(name).collect();
    let last = parts.pop().unwrap();
    let mut at = Ino::ROOT;
    let mut found = Ok(());
    for part in parts {
        match client.lookup(caller, at, &part) {
            Ok(node) if node.kind == FileKind::Dir => at = node.ino,
            Ok(_) => found = Err(FsError::NotDir.into()),
            Err(error) => found = Err(error),
        }
        if found.is_err() {
            break;
        }
    }
    let found = found.and_then(|()| client.lookup(caller, at, &last));
    (client.counters().requests - before, found)
}

fn same(servers: &Servers, caller: &Credentials, path: &str) {
    let (_, expected) = walk(servers, caller, path);
    for _ in 0..2 {
        let (_, found) = cold(servers, caller, path);
        assert_eq!(found, expected, "{path} of {}", caller.uid);
    }
}

/// Directories in one another, with a file in the deepest.
fn deep(client: &Client, depth: usize) -> String {
    let (mut at, mut path) = (Ino::ROOT, String::new());
    for level in 0..depth {
        let new = format!("level-{level}");
        at = client.mkdir(&ROOT, at, &name(&new), 0o755).unwrap().ino;
        path = format!("{path}/{new}");
    }
    client
        .mknod(&ROOT, at, &name("file"), NewNode::File, 0o644)
        .unwrap();
    path
}

#[test]
fn a_name_ten_levels_deep_is_one_request_where_a_walk_takes_eleven() {
    let servers = Servers::new();
    let client = servers.client();
    let path = format!("{}/file", deep(&client, 10));
    let caller = Credentials::user(7, 7, vec![]);
    let walked = Servers::of(DirPolicy::Random);
    assert_eq!(format!("{}/file", deep(&walked.client(), 10)), path);
    let (requests, found) = cold(&walked, &caller, &path);
    assert!(found.is_ok());
    assert_eq!(requests, 11);
    let (_, by_steps) = walk(&servers, &caller, &path);
    let (requests, found) = cold(&servers, &caller, &path);
    assert_eq!((requests, found), (1, by_steps));
    // The parent of what is to be made or removed.
    let parent = servers.client();
    let before = parent.counters().requests;
    let (dir, last) = parent.resolve_parent(&ROOT, path.as_bytes()).unwrap();
    assert_eq!(parent.counters().requests - before, 1);
    parent.unlink(&ROOT, dir, &last).unwrap();
    assert_eq!(parent.counters().requests - before, 2);
    let (requests, found) = cold(&servers, &caller, &path);
    assert_eq!((requests, found), (1, Err(FsError::NotFound.into())));
    let missing = path.replace("/file", "/none");
    let (requests, found) = cold(&servers, &caller, &missing);
    assert_eq!((requests, found), (1, Err(FsError::NotFound.into())));
    // Another name of the path is a directory, whose home is another shard than its name's.
    let (requests, _) = cold(&servers, &caller, path.trim_end_matches("/file"));
    assert!(requests <= 2, "{requests}");
}

#[test]
fn what_changes_above_is_respected_at_once_and_found_again_with_one_request() {
    let servers = Servers::new();
    let client = servers.client();
    let path = format!("{}/file", deep(&client, 6));
    let caller = Credentials::user(7, 7, vec![3]);
    let above = client.resolve(&ROOT, b"/level-0/level-1").unwrap().ino;
    let set = |set: SetAttr| client.setattr(&ROOT, above, set).unwrap();
    let mode = |mode| SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    };
    let denied = Err(FsError::Access.into());
    set(mode(0o700));
    assert_eq!(cold(&servers, &caller, &path).1, denied);
    // A caller that may go through has it kept.
    let (_, found) = cold(&servers, &ROOT, &path);
    assert!(found.is_ok());
    assert_eq!(cold(&servers, &ROOT, &path).0, 1);
    assert_eq!(cold(&servers, &caller, &path), (1, denied.clone()));
    set(SetAttr {
        uid: Some(7),
        ..SetAttr::default()
    });
    assert!(cold(&servers, &caller, &path).1.is_ok());
    assert_eq!(cold(&servers, &caller, &path).0, 1);
    let acl = Acl {
        owner: 0,
        group: 0,
        other: 0,
        mask: Some(1),
        users: vec![AclEntry { id: 9, rights: 1 }],
        groups: vec![],
    };
    let value = acl.to_xattr();
    client
        .setxattr(&ROOT, above, ACCESS_ACL, &value, XattrMode::Either)
        .unwrap();
    assert_eq!(cold(&servers, &caller, &path).1, denied);
    let named = Credentials::user(9, 9, vec![]);
    assert!(cold(&servers, &named, &path).1.is_ok());
    assert_eq!(cold(&servers, &named, &path).0, 1);
    assert_eq!(cold(&servers, &caller, &path), (1, denied));
    // Write permission opens no way and closes none: nothing is forgotten.
    let deepest = client
        .resolve(&ROOT, b"/level-0/level-1/level-2")
        .unwrap()
        .ino;
    client.setattr(&ROOT, deepest, mode(0o555)).unwrap();
    assert_eq!(cold(&servers, &named, &path).0, 1);
}

#[test]
fn renamed_directories_are_found_by_their_new_paths_and_not_by_the_old_ones() {
    let servers = Servers::new();
    let client = servers.client();
    let old = format!("{}/file", deep(&client, 5));
    let dir = client.resolve(&ROOT, b"/level-0/level-1").unwrap().ino;
    let top = client.resolve(&ROOT, b"/level-0").unwrap().ino;
    client
        .rename(&ROOT, top, &name("level-1"), Ino::ROOT, &name("new"), true)
        .unwrap();
    let new = old.replace("/level-0/level-1", "/new");
    let gone = Err(FsError::NotFound.into());
    assert_eq!(cold(&servers, &ROOT, &old).1, gone);
    let (_, found) = cold(&servers, &ROOT, &new);
    let file = found.unwrap();
    // A pointer leads to where the directory has stayed.
    let (requests, again) = cold(&servers, &ROOT, &new);
    assert!(requests <= 2, "{requests}");
    assert_eq!(again, Ok(file.clone()));
    // Another directory takes the old place, and then the first one comes back.
    let other = client.mkdir(&ROOT, top, &name("level-1"), 0o755).unwrap();
    assert_ne!(other.ino, dir);
    assert_eq!(cold(&servers, &ROOT, &old).1, gone);
    assert_eq!(cold(&servers, &ROOT, &new).1, Ok(file.clone()));
    client
        .exchange(&ROOT, top, &name("level-1"), Ino::ROOT, &name("new"))
        .unwrap();
    assert_eq!(cold(&servers, &ROOT, &new).1, gone);
    assert_eq!(cold(&servers, &ROOT, &old).1, Ok(file.clone()));
    assert_eq!(cold(&servers, &ROOT, &old), (1, Ok(file)));
}

#[test]
fn symbolic_links_lead_where_a_walk_goes() {
    let servers = Servers::new();
    let client = servers.client();
    let path = deep(&client, 4);
    let file = client
        .resolve(&ROOT, format!("{path}/file").as_bytes())
        .unwrap();
    client
        .symlink(&ROOT, Ino::ROOT, &name("link"), b"level-0/level-1")
        .unwrap();
    let by_link = "/link/level-2/level-3/file";
    for _ in 0..2 {
        assert_eq!(cold(&servers, &ROOT, by_link).1, Ok(file.clone()));
    }
    // The link at the end of a path is not followed, and one request.
    let top = client.resolve(&ROOT, path.as_bytes()).unwrap().ino;
    client.symlink(&ROOT, top, &name("last"), b"file").unwrap();
    let last = format!("{path}/last");
    let (requests, found) = cold(&servers, &ROOT, &last);
    assert_eq!((requests, found.unwrap().kind), (1, FileKind::Symlink));
    let followed = client.resolve_at(&ROOT, Ino::ROOT, last.as_bytes(), true);
    assert_eq!(followed, Ok(file));
    client.unlink(&ROOT, Ino::ROOT, &name("link")).unwrap();
    client
        .symlink(&ROOT, Ino::ROOT, &name("link"), b"link")
        .unwrap();
    assert_eq!(cold(&servers, &ROOT, by_link).1, Err(ClientError::Loop));
}

#[test]
fn large_directories_are_found_wherever_their_parts_are() {
    let servers = Servers::new();
    let client = servers.client();
    let path = deep(&client, 3);
    let dir = client.resolve(&ROOT, path.as_bytes()).unwrap().ino;
    for file in 0..200 {
        let new = name(&format!("file-{file}"));
        client
            .mknod(&ROOT, dir, &new, NewNode::File, 0o644)
            .unwrap();
    }
    for file in [0, 57, 199] {
        same(&servers, &ROOT, &format!("{path}/file-{file}"));
    }
    same(&servers, &ROOT, &format!("{path}/file-200"));
}

/// A tree that changes at random, and after each change paths that are there or were.
#[test]
fn paths_find_what_a_walk_finds_whatever_has_changed() {
    let servers = Servers::new();
    let client = servers.client();
    let mut rng = Rng::new(11);
    let names = ["a", "b", "c"];
    let callers = [
        ROOT,
        Credentials::user(1, 1, vec![]),
        Credentials::user(2, 2, vec![1]),
    ];
    let path = |rng: &mut Rng| {
        let depth = 1 + rng.below(5);
        (0..depth)
            .map(|_| format!("/{}", rng.pick(&names)))
            .collect::<String>()
    };
    let (mut changes, mut found) = (0, 0);
    for _ in 0..600 {
        let (one, other) = (path(&mut rng), path(&mut rng));
        let parent = |path: &str| client.resolve_parent(&ROOT, path.as_bytes());
        let changed = match rng.below(8) {
            0..=3 => {
                parent(&one).and_then(|(dir, new)| client.mkdir(&ROOT, dir, &new, 0o755).map(drop))
            }
            4 => parent(&one).and_then(|(dir, new)| {
                let (to, to_name) = parent(&other)?;
                client
                    .rename(&ROOT, dir, &new, to, &to_name, false)
                    .map(drop)
            }),
            5 => parent(&one).and_then(|(dir, old)| client.rmdir(&ROOT, dir, &old).map(drop)),
            _ => client.resolve(&ROOT, one.as_bytes()).and_then(|node| {
                let set = SetAttr {
                    mode: Some(*rng.pick(&[0o755, 0o700, 0o711, 0o770])),
                    uid: Some(rng.below(3) as u32),
                    ..SetAttr::default()
                };
                client.setattr(&ROOT, node.ino, set).map(drop)
            }),
        };
        changes += u32::from(changed.is_ok());
        let looked = path(&mut rng);
        let caller = rng.pick(&callers);
        let (_, expected) = walk(&servers, caller, &looked);
        let (_, answer) = cold(&servers, caller, &looked);
        let ino = |node: Result<Node, ClientError>| node.map(|node| (node.ino, node.attr));
        found += u32::from(expected.is_ok());
        assert_eq!(ino(answer), ino(expected), "{looked} of {}", caller.uid);
    }
    assert!(changes > 100 && found > 100, "{changes} {found}");
}
