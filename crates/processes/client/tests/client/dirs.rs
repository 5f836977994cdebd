//! Directories on several shards: listings through splits, gathered attributes.

use crate::common::*;
use pandofs_api::{
    DirEntry, DirPart, DirSettings, EntriesReply, EntryReply, InodeReply, Refusal, Reply, Request,
    op,
};
use pandofs_client::ClientError;
use pandofs_placement::DirMap;
use pandofs_types::{Attr, FileKind, FsError, Ino, Name, Position, ShardId, Time};
use pandofs_wire::message::RequestBody;
use std::sync::{Arc, Mutex};

/// A directory with these names, as all its shards together keep it.
struct Stored {
    map: DirMap,
    names: Vec<(Position, Name)>,
    /// Entries of one answer.
    page: usize,
}

impl Stored {
    fn new(names: usize, page: usize) -> Stored {
        let mut names: Vec<(Position, Name)> = (0..names)
            .map(|number| name(&format!("file {number}")))
            .map(|name| (position(&name), name))
            .collect();
        names.sort();
        Stored {
            map: DirMap::single(ShardId(0)),
            names,
            page,
        }
    }

    /// As a shard does it: its partitions from `from` on that follow one another without a gap.
    fn read_dir(&mut self, shard: ShardId, from: Position, plus: bool) -> Reaction {
        if self.map.shard_of(from) != shard {
            let known = self.map.has_slots().then(|| self.map.clone());
            return refuse(Refusal::Misdirected(known));
        }
        let mut end = self.map.range_of(self.map.partition_of(from)).1;
        while end < Position::END && self.map.shard_of(end) == shard {
            end = self.map.range_of(self.map.partition_of(end)).1;
        }
        let mut next = end;
        let mut entries = Vec::new();
        for (number, (position, name)) in self.names.iter().enumerate() {
            if (from..end).contains(position) {
                if entries.len() == self.page {
                    next = *position;
                    break;
                }
                let ino = Ino(100 + number as u64);
                let inode = plus.then(|| file(ino));
                let (name, position, kind) = (name.clone(), *position, FileKind::File);
                entries.push(DirEntry {
                    name,
                    position,
                    ino,
                    kind,
                    shard,
                    inode,
                });
            }
        }
        ok(Reply::Entries(EntriesReply {
            entries,
            next,
            map: self.map.clone(),
            parent: None,
            dir: Ino::ROOT,
        }))
    }

    fn answer(&mut self, request: &RequestBody) -> Reaction {
        let RequestBody::Shard(asked) = request else {
            return unexpected(request);
        };
        match &asked.request {
            Request::ReadDir(op::ReadDir { from, plus, .. }) => {
                self.read_dir(asked.shard, *from, *plus)
            }
            Request::GetAttr(op::GetAttr { ino }) if *ino == Ino::ROOT => {
                ok(Reply::Inode(dir(Ino::ROOT, self.map.clone())))
            }
            _ => unexpected(request),
        }
    }
}

#[test]
fn a_listing_returns_every_name_once_while_partitions_split() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 4, 8);
    let stored = Arc::new(Mutex::new(Stored::new(2_000, 37)));
    let _servers = [0, 1, 2, 3].map(|id| {
        let stored = Arc::clone(&stored);
        Fake::start(&map, id, move |request| {
            stored.lock().unwrap().answer(request)
        })
    });
    let slots: Vec<ShardId> = [0, 5, 2, 7, 1, 6, 3, 4].map(ShardId).to_vec();
    for plus in [false, true] {
        let client = client(&map);
        stored.lock().unwrap().map = DirMap::single(ShardId(0));
        let mut from = Position::FIRST;
        let mut listed = Vec::new();
        let mut pages = 0;
        while from < Position::END {
            let page = client.readdir(&ME, Ino::ROOT, from, plus, 37).unwrap();
            assert!(
                page.entries
                    .iter()
                    .all(|entry| entry.attr.is_some() == plus)
            );
            listed.extend(page.entries.into_iter().map(|entry| entry.name));
            from = page.next;
            pages += 1;
            // Another partition after every seventh page, up to eight.
            let active = (1 + pages / 7).min(8);
            if active > 1 {
                stored.lock().unwrap().map = DirMap::with_slots(slots.clone(), active as u32);
            }
        }
        let expected: Vec<Name> = stored
            .lock()
            .unwrap()
            .names
            .iter()
            .map(|(_, name)| name.clone())
            .collect();
        assert_eq!(listed, expected);
        assert!(pages >= 54, "{pages} pages");

        // Once the map is known nothing is asked in vain.
        let redirects = client.counters().redirects;
        assert!(redirects <= 8, "{redirects} redirects for 7 splits");
        assert_eq!(client.list(&ME, Ino::ROOT).count(), 2_000);
        assert_eq!(client.counters().redirects, redirects);
    }
}

#[test]
fn an_empty_shard_does_not_end_a_listing() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 4);
    let mut stored = Stored::new(300, 1_000);
    stored.map = DirMap::with_slots((0..4).map(ShardId).collect(), 4);
    // Nothing in the first half.
    stored
        .names
        .retain(|(position, _)| position.radix_index(1) == 1);
    let expected = stored.names.len();
    let stored = Arc::new(Mutex::new(stored));
    let _server = Fake::start(&map, 0, {
        let stored = Arc::clone(&stored);
        move |request| stored.lock().unwrap().answer(request)
    });
    let client = client(&map);
    let page = client
        .readdir(&ME, Ino::ROOT, Position::FIRST, false, 10)
        .unwrap();
    assert!(!page.entries.is_empty());
    assert_eq!(client.list(&ME, Ino::ROOT).count(), expected);
    let end = client
        .readdir(&ME, Ino::ROOT, Position::END, false, 10)
        .unwrap();
    assert_eq!((end.entries.len(), end.next), (0, Position::END));
}

#[test]
fn a_listing_that_would_never_end_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let _server = Fake::start(&map, 0, |request| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::ReadDir(op::ReadDir { from, .. }) => ok(Reply::Entries(EntriesReply {
                entries: Vec::new(),
                next: *from,
                map: DirMap::single(ShardId(0)),
                parent: None,
                dir: Ino::ROOT,
            })),
            _ => unexpected(request),
        },
        other => unexpected(other),
    });
    let mut listing = client(&map).list(&ME, Ino::ROOT);
    assert!(matches!(
        listing.next(),
        Some(Err(ClientError::Protocol(_)))
    ));
    assert!(listing.next().is_none());
}

const DIR: Ino = Ino(9);

/// The home knows two partitions and the second shard knows a third.
fn part_of(shard: ShardId) -> DirPart {
    let active = if shard == ShardId(0) { 2 } else { 3 };
    DirPart {
        entries: 100 + u64::from(shard.0),
        subdirs: 3,
        mtime: Time(10 * i64::from(shard.0)),
        ctime: Time(20 - i64::from(shard.0)),
        map: DirMap::with_slots((0..4).map(ShardId).collect(), active),
    }
}

fn home() -> InodeReply {
    let mut home = dir(DIR, part_of(ShardId(0)).map);
    let part = part_of(ShardId(0));
    home.attr = Attr {
        nlink: 2 + part.subdirs,
        size: part.entries,
        mtime: part.mtime,
        ctime: part.ctime,
        ..home.attr
    };
    home
}

fn distributed(request: &RequestBody) -> Reaction {
    let RequestBody::Shard(asked) = request else {
        return unexpected(request);
    };
    match &asked.request {
        Request::GetAttr(op::GetAttr { ino: DIR }) | Request::SetDirSettings(_) => {
            ok(Reply::Inode(home()))
        }
        Request::Lookup(_) => ok(Reply::Entry(EntryReply {
            ino: DIR,
            kind: FileKind::Dir,
            shard: ShardId(0),
            inode: None,
        })),
        Request::DirPart(op::DirPart { dir: DIR }) if asked.shard.0 < 3 => {
            ok(Reply::Part(part_of(asked.shard)))
        }
        Request::DirPart(_) => refuse(Refusal::Misdirected(None)),
        Request::Sync(op::Sync) => ok(Reply::Done),
        _ => unexpected(request),
    }
}

#[test]
fn a_directorys_attributes_are_gathered_from_all_its_shards() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 4);
    let _servers = [0, 1].map(|id| Fake::start(&map, id, distributed));
    let client = client(&map);
    for attr in [
        client.getattr(&ME, DIR).unwrap(),
        client.lookup(&ME, Ino::ROOT, &name("d")).unwrap().attr,
    ] {
        assert_eq!(attr.size, 100 + 101 + 102);
        assert_eq!(attr.nlink, 2 + 3 * 3);
        assert_eq!((attr.mtime, attr.ctime), (Time(20), Time(20)));
    }
    let info = client.dir_info(&ME, DIR).unwrap();
    assert_eq!(
        info.parts,
        [0, 1, 2].map(ShardId).map(|shard| (shard, part_of(shard)))
    );
    assert_eq!(info.map.active_count(), 3);
    assert_eq!(info.parent, Ino::ROOT);
}

#[test]
fn fsync_of_a_directory_reaches_all_its_shards() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 4);
    let server = Fake::start(&map, 0, distributed);
    let client = client(&map);
    client.fsyncdir(&ME, DIR).unwrap();
    let mut synced: Vec<ShardId> = server
        .asked()
        .into_iter()
        .filter(|asked| asked.request == Request::Sync(op::Sync))
        .map(|asked| asked.shard)
        .collect();
    synced.sort_by_key(|shard| shard.0);
    assert_eq!(synced, [ShardId(0), ShardId(1)]);
}

#[test]
fn settings_are_sent_to_the_home() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 4);
    let server = Fake::start(&map, 0, distributed);
    let settings = DirSettings {
        threshold: Some(100),
        ..DirSettings::default()
    };
    client(&map)
        .set_dir_settings(&ME, DIR, settings.clone())
        .unwrap();
    let asked = server.asked().remove(0);
    assert_eq!(asked.shard, ShardId(0));
    assert_eq!(
        asked.request,
        Request::SetDirSettings(op::SetDirSettings { dir: DIR, settings })
    );
}

/// Entries whose inodes are elsewhere: asked for together; what has gone stays without attributes,
/// and a directory on several shards gets them all.
#[test]
fn a_listing_with_attributes_asks_other_shards_for_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 4);
    let gone = Ino::new(ShardId(3), 5);
    let linked = Ino::new(ShardId(1), 6);
    let answer = move |request: &RequestBody| {
        let RequestBody::Shard(asked) = request else {
            return unexpected(request);
        };
        match &asked.request {
            Request::ReadDir(op::ReadDir { plus: true, .. }) => {
                let entry = |place: u64, ino: Ino, kind, shard| DirEntry {
                    name: name(&format!("{place}")),
                    position: Position::from_hash(place),
                    ino,
                    kind,
                    shard: ShardId(shard),
                    inode: None,
                };
                ok(Reply::Entries(EntriesReply {
                    entries: vec![
                        entry(1, gone, FileKind::File, 3),
                        entry(2, DIR, FileKind::Dir, 0),
                        entry(3, linked, FileKind::File, 2),
                    ],
                    next: Position::END,
                    map: DirMap::single(ShardId(0)),
                    parent: None,
                    dir: Ino::ROOT,
                }))
            }
            Request::GetAttr(op::GetAttr { ino }) if *ino == gone => refuse(FsError::Stale),
            Request::GetAttr(op::GetAttr { ino })
                if *ino == linked && asked.shard == ShardId(2) =>
            {
                ok(Reply::Inode(file(linked)))
            }
            _ => distributed(request),
        }
    };
    let _servers = [0, 1].map(|id| Fake::start(&map, id, answer));
    let client = client(&map);
    let page = client
        .readdir(&ME, Ino::ROOT, Position::FIRST, true, 10)
        .unwrap();
    let sizes: Vec<Option<u64>> = page
        .entries
        .iter()
        .map(|entry| entry.attr.as_ref().map(|attr| attr.size))
        .collect();
    assert_eq!(sizes, [None, Some(303), Some(0)]);
    assert_eq!(client.counters().redirects, 0);
}

#[test]
fn paths_are_walked_through_links_and_parents() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let sub = Ino(10);
    let answer = move |request: &RequestBody| {
        let RequestBody::Shard(asked) = request else {
            return unexpected(request);
        };
        let here = |inode| ok(entry(inode, ShardId(0)));
        let link = |number| {
            let mut inode = file(Ino(number));
            inode.attr.kind = FileKind::Symlink;
            inode
        };
        let sub_dir = || dir(sub, DirMap::single(ShardId(0)));
        match &asked.request {
            Request::Lookup(op::Lookup { dir, name }) => match (*dir, name.as_bytes()) {
                (Ino::ROOT, b"sub") => here(sub_dir()),
                (Ino::ROOT, b"link") => here(link(20)),
                (Ino::ROOT, b"circle") => here(link(21)),
                (dir, b"file") if dir == sub => here(file(Ino(50))),
                _ => refuse(FsError::NotFound),
            },
            Request::ReadLink(op::ReadLink { ino: Ino(20) }) => ok(Reply::Link(b"./sub".to_vec())),
            Request::ReadLink(op::ReadLink { ino: Ino(21) }) => {
                ok(Reply::Link(b"/circle".to_vec()))
            }
            Request::GetAttr(op::GetAttr { ino }) if *ino == sub => ok(Reply::Inode(sub_dir())),
            Request::GetAttr(op::GetAttr { ino: Ino::ROOT }) => {
                ok(Reply::Inode(dir(Ino::ROOT, DirMap::single(ShardId(0)))))
            }
            _ => unexpected(request),
        }
    };
    let _server = Fake::start(&map, 0, answer);
    let client = client(&map);
    let resolve = |path: &str| client.resolve(&ME, path.as_bytes()).map(|node| node.ino);
    assert_eq!(resolve("/"), Ok(Ino::ROOT));
    assert_eq!(resolve("/sub/file"), Ok(Ino(50)));
    assert_eq!(resolve("//link/../sub/./file"), Ok(Ino(50)));
    assert_eq!(resolve("/link"), Ok(Ino(20)));
    assert_eq!(resolve("/link/"), Ok(sub));
    assert_eq!(resolve("/sub/.."), Ok(Ino::ROOT));
    assert_eq!(resolve("/sub/file/more"), Err(FsError::NotDir.into()));
    assert_eq!(resolve("/sub/none"), Err(FsError::NotFound.into()));
    assert_eq!(resolve("/circle/x"), Err(ClientError::Loop));
    assert_eq!(resolve("/circle/x").unwrap_err().errno(), 40);
    let from_sub = |path: &str, follow| {
        let node = client.resolve_at(&ME, sub, path.as_bytes(), follow);
        node.map(|node| node.ino)
    };
    assert_eq!(from_sub("file", false), Ok(Ino(50)));
    assert_eq!(from_sub(".", false), Ok(sub));
    assert_eq!(from_sub("/sub", false), Ok(sub));
    assert_eq!(from_sub("../link", false), Ok(Ino(20)));
    assert_eq!(from_sub("../link", true), Ok(sub));
    assert_eq!(from_sub("../circle", false), Ok(Ino(21)));
    assert_eq!(from_sub("../circle", true), Err(ClientError::Loop));
    let parent = client.resolve_parent_at(&ME, sub, b"../link/new");
    assert_eq!(parent, Ok((sub, name("new"))));
    let parent = |path: &str| client.resolve_parent(&ME, path.as_bytes());
    assert_eq!(parent("/sub/new"), Ok((sub, name("new"))));
    assert_eq!(parent("/sub/new/"), Ok((sub, name("new"))));
    assert_eq!(parent("/"), Err(FsError::Invalid.into()));
}
