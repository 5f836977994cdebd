//! Tracing of a session: each operation once, at its end, and nothing that is asked on the way.

use crate::common::*;
use pandofs_api::{Reply, Request, op};
use pandofs_client::trace::{Event, Outcome, Tracer, again, untraced};
use pandofs_client::{Cancellation, OpenHow, set_cancellation};
use pandofs_types::{FileKind, FsError, Ino, ShardId};
use pandofs_wire::message::RequestBody;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const FILE: Ino = Ino(50);

#[derive(Debug, Default)]
struct Notes {
    lines: Mutex<Vec<String>>,
    ends: Mutex<Vec<(Instant, Instant)>>,
}

impl Tracer for Notes {
    fn record(&self, event: &Event<'_>) {
        let op = format!("{:?}", event.op);
        let op = op.split(' ').next().unwrap_or_default();
        let outcome = match &event.outcome {
            Ok(Outcome::Node(node)) => format!("{:?} {}", node.kind, node.ino.0),
            Ok(Outcome::Found(node)) => format!("found {}", node.ino.0),
            Ok(Outcome::Page(page)) => format!("{} entries", page.entries.len()),
            Ok(other) => format!("{other:?}"),
            Err(errno) => format!("error {errno}"),
        };
        let again = if event.again { " again" } else { "" };
        let line = format!("{:?} {op}: {outcome}{again}", event.caller);
        self.lines.lock().unwrap().push(line);
        self.ends.lock().unwrap().push((event.begun, event.ended));
    }
}

impl Notes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

#[test]
fn each_operation_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let _server = Fake::start(&map, 0, |request| {
        let RequestBody::Shard(asked) = request else {
            return unexpected(request);
        };
        match &asked.request {
            Request::Lookup(op::Lookup { name, .. }) if name.as_bytes() == b"there" => {
                ok(entry(file(FILE), ShardId(0)))
            }
            Request::Lookup(_) => refuse(FsError::NotFound),
            Request::Create(_) => refuse(FsError::Exists),
            Request::Open(_) | Request::GetAttr(_) => ok(Reply::Inode(file(FILE))),
            Request::SetAttr(_) => refuse(FsError::NotPermitted),
            Request::Release(_) => ok(Reply::Done),
            _ => unexpected(request),
        }
    });
    let client = client(&map);
    let notes = Arc::new(Notes::default());
    let there = name("there");
    client.lookup(&ME, Ino::ROOT, &there).unwrap();
    client.trace(notes.clone()).unwrap();
    assert!(client.trace(notes.clone()).is_err(), "it has one");
    assert!(notes.take().is_empty(), "what was before is told");

    let begun = Instant::now();
    client.lookup(&ME, Ino::ROOT, &there).unwrap();
    let ended = Instant::now();
    assert_eq!(notes.take(), ["None Lookup: File 50"]);
    let (from, to) = notes.ends.lock().unwrap()[0];
    assert!(begun <= from && from <= to && to <= ended);

    set_cancellation(Some(Cancellation {
        id: 77,
        caller: Arc::new((|| true, || {})),
    }));
    client.lookup(&ME, Ino::ROOT, &name("missing")).unwrap_err();
    assert_eq!(notes.take(), ["Some(77) Lookup: error 2"]);

    // It asks for the entry and opens it on the way.
    let how = OpenHow::default();
    let found = client.create(&ME, Ino::ROOT, &there, 0o644, how).unwrap();
    assert!(!found.created && found.node.kind == FileKind::File);
    client.getattr(&ME, FILE).unwrap();
    assert_eq!(
        notes.take(),
        ["Some(77) Create: found 50", "Some(77) Getattr: Done"]
    );

    untraced(|| client.lookup(&ME, Ino::ROOT, &there)).unwrap();
    let set = || client.setattr(&ME, FILE, Default::default()).unwrap_err();
    set();
    again(set);
    assert_eq!(
        notes.take(),
        [
            "Some(77) Setattr: error 1",
            "Some(77) Setattr: error 1 again"
        ]
    );
    client.release(FILE).unwrap();
    set_cancellation(None);
}
