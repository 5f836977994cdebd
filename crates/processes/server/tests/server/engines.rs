//! A server in its own directory, with the engines it ships with.

use crate::common::{Connection, FS, ID, map};
use pandofs_api::{AdminReply, AdminRequest, DataReply, DataRequest, FIRST_TRUNCATIONS};
use pandofs_server::{Options, Pairs, Server, ServerHandle, StartError, stored};
use pandofs_storage::log::LogError;
use pandofs_types::{FsId, Ino, ServerId, ShardId};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn options(dir: &Path) -> Options {
    Options {
        memory_bytes: 96 << 20,
        ..Options::new(dir.join("server"), map(dir, 1, 3_600_000), ID)
    }
}

fn start(dir: &Path) -> ServerHandle {
    Server::start(options(dir)).unwrap()
}

fn refused(options: Options) -> StartError {
    match Server::start(options) {
        Ok(_) => panic!("it started"),
        Err(error) => error,
    }
}

#[test]
fn it_comes_back_with_its_data() {
    let dir = TempDir::new().unwrap();
    Server::format(&dir.path().join("server"), &options(dir.path()).map, ID).unwrap();
    for round in 0..4 {
        let server = start(dir.path());
        let mut client = Connection::client(server.address(), 100 + round);
        for earlier in 0..round {
            client.lookup(&format!("file-{earlier}")).unwrap();
        }
        client.create(&format!("file-{round}")).unwrap();
        let write = DataRequest::Write {
            truncations: FIRST_TRUNCATIONS,
            ino: Ino(5),
            offset: round,
            data: vec![round as u8],
        };
        assert_eq!(client.data(write), DataReply::Done);
        let read = DataRequest::Read {
            ino: Ino(5),
            offset: 0,
            length: 10,
        };
        let expected: Vec<u8> = (0..=round as u8).collect();
        assert_eq!(client.data(read), DataReply::Data(expected));
        if round == 1 {
            let flush = Connection::admin(server.address()).administer(AdminRequest::Flush);
            assert_eq!(flush, AdminReply::Done);
        }
        // Every second time as if it were killed.
        if round % 2 == 0 {
            server.abandon()
        } else {
            server.stop()
        }
        server.join().unwrap();
    }
    let server = start(dir.path());
    assert_eq!(server.replayed().records, 0, "the last one was stopped");
}

/// Shards with what they have stored, and data objects with their bytes.
type Stored = (Vec<(ShardId, Pairs)>, Vec<(Ino, u64)>);

#[test]
fn what_a_stopped_server_has_stored_can_be_read_with_what_only_its_log_has() {
    let dir = TempDir::new().unwrap();
    let options = options(dir.path());
    Server::format(&options.dir, &options.map, ID).unwrap();
    let read = || {
        let mut shards = Vec::new();
        let mut take = |shard, pairs| shards.push((shard, pairs));
        let objects = stored(&options.dir, &options.map, ID, &mut take)?;
        Ok((shards, objects))
    };
    let keys = |(shards, _): &Stored| shards[0].1.iter().map(|pair| pair.0.clone()).collect();
    let before: BTreeSet<Vec<u8>> = keys(&read().unwrap());

    let server = start(dir.path());
    let error: StartError = read().unwrap_err();
    assert!(matches!(error, StartError::InUse { .. }), "{error}");
    let mut client = Connection::client(server.address(), 1);
    client.create("a").unwrap();
    let data = vec![1; 3];
    let write = DataRequest::Write {
        truncations: FIRST_TRUNCATIONS,
        ino: Ino(5),
        offset: 0,
        data,
    };
    assert_eq!(client.data(write), DataReply::Done);
    server.abandon();
    server.join().unwrap();

    for _ in 0..2 {
        let stored = read().unwrap();
        assert_eq!(stored.0.len(), 8);
        assert_eq!(stored.1, [(Ino(5), 3)]);
        let after = keys(&stored);
        assert!(after.len() > before.len() && after.is_superset(&before));
    }
    let server = start(dir.path());
    assert!(
        server.replayed().records > 0,
        "reading applied nothing for good"
    );
    Connection::client(server.address(), 2).lookup("a").unwrap();
}

#[test]
fn a_directory_is_formatted_once_and_served_by_one() {
    let dir = TempDir::new().unwrap();
    let own = dir.path().join("server");
    let map = options(dir.path()).map;
    let error = refused(options(dir.path()));
    assert!(matches!(error, StartError::NotAServer { .. }), "{error}");
    Server::format(&own, &map, ID).unwrap();
    let error = Server::format(&own, &map, ID).unwrap_err();
    assert!(matches!(error, StartError::NotEmpty { .. }), "{error}");
    let error = Server::format(&dir.path().join("else"), &map, ServerId(9)).unwrap_err();
    assert!(
        matches!(error, StartError::UnknownServer(ServerId(9))),
        "{error}"
    );

    let server = start(dir.path());
    let error = refused(options(dir.path()));
    assert!(matches!(error, StartError::InUse { .. }), "{error}");
    Connection::client(server.address(), 1).create("a").unwrap();
}

#[test]
fn another_file_systems_directory_is_refused() {
    let dir = TempDir::new().unwrap();
    let mut options = options(dir.path());
    Server::format(&options.dir, &options.map, ID).unwrap();
    options.map.fs = FsId(9);
    let error = refused(options);
    assert!(
        matches!(
            error,
            StartError::WrongFileSystem {
                found: FS,
                expected: FsId(9),
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_store_or_log_of_another_format_is_refused() {
    let dir = TempDir::new().unwrap();
    let options = options(dir.path());
    Server::format(&options.dir, &options.map, ID).unwrap();
    let marker = options.dir.join("log/FORMAT");
    let format = fs::read(&marker).unwrap();
    fs::write(&marker, "pandofs-log 99\n").unwrap();
    let error = refused(options.clone());
    assert!(
        matches!(error, StartError::Log(LogError::WrongFormat { .. })),
        "{error}"
    );
    fs::write(&marker, format).unwrap();
    start(dir.path());
}

#[test]
fn an_address_in_use_is_an_error() {
    let dir = TempDir::new().unwrap();
    let options = options(dir.path());
    Server::format(&options.dir, &options.map, ID).unwrap();
    let taken: pandofs_wire::address::Address =
        options.map.servers[0].addresses[0].parse().unwrap();
    let _listener = pandofs_wire::address::Listener::bind(&taken).unwrap();
    let error = refused(options);
    assert!(matches!(error, StartError::Listen(_)), "{error}");
}
