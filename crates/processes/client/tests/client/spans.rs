//! Requests that are followed tell the server so, and others send no byte more.

use crate::common::*;
use pandofs_api::{Refusal, Reply};
use pandofs_client::spans::{Asked, OpenSpan, SpanMaker, follow};
use pandofs_types::{FileKind, FsError, Ino, ServerId, ShardId, TraceContext};
use pandofs_wire::message::RequestBody;
use std::sync::{Arc, Mutex};

const OF_CALLER: TraceContext = TraceContext {
    trace: [1; 16],
    span: [2; 8],
};

/// Begun and ended spans.
#[derive(Clone, Debug, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

#[derive(Debug)]
struct Open(Spans, u8);

impl Spans {
    fn say(&self, text: String) -> u8 {
        let mut said = self.0.lock().unwrap();
        said.push(text);
        u8::try_from(said.len()).unwrap()
    }
}

fn of_request(number: u8) -> TraceContext {
    TraceContext {
        span: [number; 8],
        ..OF_CALLER
    }
}

impl SpanMaker for Spans {
    fn begin(&self, parent: Option<TraceContext>, asked: &Asked) -> Option<Box<dyn OpenSpan>> {
        assert_eq!(parent, Some(OF_CALLER));
        assert_eq!(asked.server, ServerId(0));
        assert_eq!(asked.shard, Some(ShardId(0)));
        let number = self.say(format!("begin {}", asked.name));
        Some(Box::new(Open(self.clone(), number)))
    }
}

impl OpenSpan for Open {
    fn context(&self) -> TraceContext {
        of_request(self.1)
    }

    fn end(self: Box<Self>, outcome: &str) {
        self.0.say(format!("end: {outcome}"));
    }
}

#[test]
fn a_request_that_is_followed_is_announced_and_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let server = Fake::start(&map, 0, |request| match request {
        RequestBody::Trace(_) => Reaction::Silence,
        RequestBody::Shard(asked) => match asked.request.operation().answers_name() {
            Some((_, wanted)) if *wanted == name("there") => ok(entry(file(Ino(50)), asked.shard)),
            Some(_) => refuse(Refusal::Fs(FsError::NotFound)),
            None => ok(Reply::Done),
        },
        other => unexpected(other),
    });
    let client = client(&map);
    let spans = Spans::default();
    let look = |text: &str| client.lookup(&ME, Ino::ROOT, &name(text));
    let announced = || -> Vec<TraceContext> {
        let seen = server.seen();
        for pair in seen.windows(2) {
            let is_request = matches!(&pair[1], RequestBody::Shard(_));
            assert!(
                !matches!(pair[0], RequestBody::Trace(_)) || is_request,
                "{seen:?}"
            );
        }
        let context = |body| match body {
            RequestBody::Trace(context) => Some(context),
            _ => None,
        };
        seen.into_iter().filter_map(context).collect()
    };
    // Nobody makes spans; then somebody does, and this thread's requests are part of none.
    follow(Some(OF_CALLER));
    assert_eq!(look("there").unwrap().kind, FileKind::File);
    follow(None);
    client.make_spans(Arc::new(spans.clone())).unwrap();
    look("there").unwrap();
    assert_eq!(announced(), []);
    follow(Some(OF_CALLER));
    look("there").unwrap();
    look("absent").unwrap_err();
    follow(None);
    look("there").unwrap();
    assert_eq!(announced(), [of_request(1), of_request(3)]);
    let said = spans.0.lock().unwrap().clone();
    let not_found = format!("end: {}", FsError::NotFound);
    assert_eq!(
        said,
        ["begin lookup", "end: done", "begin lookup", &not_found]
    );
    let twice = Spans::default();
    assert!(client.make_spans(Arc::new(twice)).is_err());
}
