//! A server goes away and comes back: calls wait and go on, and the log says so, once each.

use crate::common::*;
use pandofs_api::Reply;
use pandofs_types::Ino;
use pandofs_wire::message::RequestBody;
use std::io::Write;
use std::sync::{Arc, Mutex};

/// Takes what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn count(&self, part: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap())
            .matches(part)
            .count()
    }
}

#[test]
fn a_server_that_is_away_is_waited_for() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .init();

    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let answer = |request: &RequestBody| match request {
        RequestBody::Shard(_) => ok(Reply::Removed { ino: Ino(77) }),
        other => unexpected(other),
    };
    let server = Fake::start(&map, 0, answer);
    let client = client(&map);
    client.unlink(&ME, Ino::ROOT, &name("a")).unwrap();
    drop(server);

    let unlink = |client: &pandofs_client::Client| client.unlink(&ME, Ino::ROOT, &name("a"));
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| unlink(&client))).collect();
        eventually("it is noticed", || log.count("server 0 at unix:") > 0);
        eventually("all four wait", || {
            let levels = client.levels();
            (levels.requests_under_way, levels.servers_away) == (4, 1)
        });
        let _server = Fake::start(&map, 0, answer);
        for unlinked in waiting {
            assert_eq!(unlinked.join().unwrap(), Ok(Ino(77)));
        }
    });
    assert_eq!(
        log.count("does not answer: waiting, will go on when it is back"),
        1
    );
    assert_eq!(log.count("answers again"), 1);
    assert_eq!(client.levels(), pandofs_client::Levels::default());
}
