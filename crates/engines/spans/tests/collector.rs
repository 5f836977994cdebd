//! Spans to collectors that are well, away, deaf and unwilling.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use pandofs_spans::limits::{LAST_TIME, MAX_QUEUED_SPANS};
use pandofs_spans::{Config, Kind, Spans};
use pandofs_types::TraceContext;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A collector that answers each request with this status; what was sent to it.
fn collector(status: &'static str) -> (SocketAddr, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, taken) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head.push_str(&line);
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
            if sender.send((head, body)).is_err() {
                return;
            }
        }
    });
    (address, taken)
}

fn start(address: SocketAddr, ratio: f64) -> Spans {
    let endpoint = format!("http://{address}");
    let config = Config::find(Some(&endpoint), Some(ratio)).unwrap().unwrap();
    Spans::start(&config, "tested", vec![("pandofs.server", 3_u16.into())]).unwrap()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn has(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

#[test]
fn spans_come_with_their_ids_names_and_attributes() {
    let (address, taken) = collector("200 OK");
    let spans = start(address, 1.0);
    let root = spans.begin(None, Kind::Inside, "mkdir").unwrap();
    let parent = root.context();
    let mut part = spans
        .begin(Some(parent), Kind::Asks, "request mkdir".to_owned())
        .unwrap();
    part.set("pandofs.name", "a directory");
    part.set("pandofs.server", 7_u16);
    let context = part.context();
    assert_eq!(context.trace, parent.trace);
    assert_ne!(context.span, parent.span);
    drop((part, root));
    spans.flush();
    let (head, body) = taken.recv_timeout(PATIENCE).unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("application/x-protobuf"), "{head}");
    for wanted in [
        &parent.trace[..],
        &parent.span,
        &context.span,
        b"request mkdir",
        b"a directory",
        b"tested",
        b"pandofs.server",
    ] {
        assert!(has(&body, wanted), "{wanted:?} is not in {body:?}");
    }
    wait_until("the answer to be counted", || spans.counts().sent == 2);
    assert_eq!(spans.counts().dropped + spans.counts().failed, 0);
}

#[test]
fn a_ratio_is_of_traces_that_begin_here_and_parts_follow_their_whole() {
    let (address, _taken) = collector("200 OK");
    let spans = start(address, 0.25);
    let begun = (0..4_000).filter(|_| spans.begin(None, Kind::Inside, "stat").is_some());
    let begun = begun.count();
    assert!((700..1_300).contains(&begun), "{begun} of 4000");
    let none = start(address, 0.0);
    assert!(none.begin(None, Kind::Inside, "stat").is_none());
    let elsewhere = TraceContext {
        trace: [0xff; 16],
        span: [7; 8],
    };
    assert!(none.begin(Some(elsewhere), Kind::Answers, "stat").is_some());
}

#[test]
fn a_collector_that_is_away_costs_spans_and_no_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let spans = start(address, 1.0);
    drop(spans.begin(None, Kind::Inside, "stat").unwrap());
    wait_until("the span to be lost", || spans.counts().failed == 1);
    assert_eq!(spans.counts().sent, 0);
}

#[test]
fn what_is_refused_is_lost() {
    let (address, taken) = collector("400 Bad Request");
    let spans = start(address, 1.0);
    drop(spans.begin(None, Kind::Inside, "stat").unwrap());
    spans.flush();
    taken.recv_timeout(PATIENCE).unwrap();
    wait_until("the span to be lost", || spans.counts().failed == 1);
}

#[test]
fn with_a_collector_that_is_deaf_the_queue_has_an_end_and_so_has_the_process() {
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let spans = start(deaf.local_addr().unwrap(), 1.0);
    let made = 4 * MAX_QUEUED_SPANS as u64;
    for _ in 0..made {
        drop(spans.begin(None, Kind::Inside, "stat").unwrap());
    }
    let counts = spans.counts();
    assert!(
        counts.dropped >= made - 2 * MAX_QUEUED_SPANS as u64,
        "{counts:?}"
    );
    assert_eq!(counts.sent, 0);
    let began = Instant::now();
    spans.flush();
    assert!(began.elapsed() < 10 * LAST_TIME, "{:?}", began.elapsed());
}
