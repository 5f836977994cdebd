//! Programs killed while they wait: cancelled calls, and changes that are made to their end.

use crate::common::*;
use pandofs_api::{DataReply, DataRequest, FileBody, InodeReply, Reply, Request, op};
use pandofs_client::{Cancellation, Client, ClientError, set_cancellation};
use pandofs_placement::ClusterMap;
use pandofs_types::{Attr, Ino, ServerId, ShardId};
use pandofs_wire::address::{Address, Listener};
use pandofs_wire::message::RequestBody;
use std::cell::RefCell;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const FILE: Ino = Ino(77);

/// A server that stands still, until it is noticed that what a killed program began goes on.
#[derive(Clone, Default)]
struct Stopped {
    is_over: Arc<AtomicBool>,
}

thread_local! {
    static STOPPED: RefCell<Stopped> = RefCell::default();
}

impl Stopped {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// It answers nothing but what `at_once` lets through.
    fn start(&self, map: &ClusterMap, at_once: fn(&RequestBody) -> bool) -> Fake {
        let stopped = self.clone();
        Fake::start(map, 0, move |request| {
            if !at_once(request) {
                eventually("the server goes on", || stopped.is_over());
            }
            match request {
                RequestBody::Shard(asked) => match &asked.request {
                    Request::Unlink(_) => ok(Reply::Removed { ino: FILE }),
                    Request::Create(_) => ok(entry(striped(), ShardId(0))),
                    Request::Release(_) => ok(Reply::Done),
                    _ => ok(Reply::Inode(striped())),
                },
                RequestBody::Data(DataRequest::Write { .. }) => data(DataReply::Done),
                other => unexpected(other),
            }
        })
    }

    /// Does something for a program that is killed meanwhile.
    fn killed<T>(&self, work: impl FnOnce() -> T) -> T {
        STOPPED.set(self.clone());
        set_cancellation(Some(Cancellation {
            id: 0,
            caller: Arc::new((|| false, || STOPPED.with_borrow(Stopped::end))),
        }));
        let done = work();
        set_cancellation(None);
        done
    }
}

fn striped() -> InodeReply {
    InodeReply {
        attr: Attr {
            size: 20_000,
            ..file(FILE).attr
        },
        body: FileBody::Striped(layout(1)),
        ..file(FILE)
    }
}

/// The result of `work` for a killed program, and all requests to the server, once it has gone on.
fn while_stopped<T>(
    at_once: fn(&RequestBody) -> bool,
    work: impl Fn(&Client, &Stopped) -> T,
) -> (T, Vec<RequestBody>) {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let stopped = Stopped::default();
    let server = stopped.start(&map, at_once);
    let client = client(&map);
    let done = work(&client, &stopped);
    stopped.end();
    drop(client);
    (done, server.seen())
}

fn asked(seen: &[RequestBody], is_it: fn(&Request) -> bool) -> usize {
    let matches =
        |body: &&RequestBody| matches!(body, RequestBody::Shard(asked) if is_it(&asked.request));
    seen.iter().filter(matches).count()
}

#[test]
fn what_only_asks_is_given_up() {
    let (asked, _) = while_stopped(
        |_| false,
        |client, stopped| {
            let asked = stopped.killed(|| client.getattr(&ME, FILE));
            assert!(!stopped.is_over());
            asked
        },
    );
    assert_eq!(asked, Err(ClientError::Abandoned));
}

/// The server takes the request from the connection whenever it goes on, and others have made the
/// name anew by then.
#[test]
fn what_changes_something_is_done_to_its_end() {
    let (removed, seen) = while_stopped(
        |_| false,
        |client, stopped| {
            stopped.killed(|| {
                let removed = client.unlink(&ME, Ino::ROOT, &name("a"));
                // The same operation: this belongs to it.
                (removed, client.getattr(&ME, FILE).map(|attr| attr.ino))
            })
        },
    );
    assert_eq!(removed, (Ok(FILE), Ok(FILE)));
    assert_eq!(asked(&seen, |r| matches!(r, Request::Unlink(_))), 1);
}

#[test]
fn what_was_opened_for_nobody_can_be_closed() {
    let (_, seen) = while_stopped(
        |_| false,
        |client, stopped| {
            let opened = stopped.killed(|| client.open_node(&ME, FILE, 4, false));
            assert_eq!(opened.map(|attr| attr.ino), Ok(FILE));
            assert!(client.is_open(FILE));
            client.release(FILE).unwrap();
        },
    );
    assert_eq!(asked(&seen, |r| matches!(r, Request::Open(_))), 1);
}

/// An old copy's beginning would come over the new copy.
#[test]
fn what_may_have_been_written_is_written_and_reported() {
    let is_about_the_file = |body: &RequestBody| matches!(body, RequestBody::Shard(_));
    let (_, seen) = while_stopped(is_about_the_file, |client, stopped| {
        client.open_node(&ME, FILE, 2, false).unwrap();
        let written = stopped.killed(|| client.write(&ME, FILE, 20_000, &[7; 100]));
        assert_eq!(written, Ok(()));
        client.release(FILE).unwrap();
    });
    let reported = |r: &Request| matches!(r, Request::WroteData(op::WroteData { end: 20_100, .. }));
    assert_eq!(asked(&seen, reported), 1);
}

#[test]
fn what_reached_no_server_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let client = client(&map);
    let stopped = Stopped::default();
    let unlinked = stopped.killed(|| client.unlink(&ME, Ino::ROOT, &name("a")));
    assert_eq!(unlinked, Err(ClientError::Abandoned));
    assert!(!stopped.is_over());
}

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

/// It may only be slow to welcome whoever comes.
#[test]
fn a_server_whose_welcome_is_not_waited_for_is_not_said_to_be_away() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let address: Address = map.server(ServerId(0)).unwrap().addresses[0]
        .parse()
        .unwrap();
    let _listener = Listener::bind(&address).unwrap();
    let client = client(&map);
    let log = Log::default();
    let writer = log.clone();
    let logging = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    let asked = tracing::subscriber::with_default(logging, || {
        tracing::warn!("the log is taken");
        Stopped::default().killed(|| client.getattr(&ME, FILE))
    });
    assert_eq!(asked, Err(ClientError::Abandoned));
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("the log is taken"));
    assert!(!log.contains("does not answer"), "{log}");
}
