//! Endpoint as its readers find it: over TCP.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use pandofs_metrics::limits::{MAX_CONNECTIONS, MAX_REQUEST_BYTES};
use pandofs_metrics::{Address, Endpoint, Family, Listening, Source, Unread};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The longest that anything here may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Tells how often it was read.
#[derive(Default)]
struct Reads(AtomicU64);

impl Source for Reads {
    fn read(&self) -> Result<Vec<Family>, Unread> {
        let reads = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(vec![Family::counter("reads", "Times it was read.", reads)])
    }
}

struct Away;

impl Source for Away {
    fn read(&self) -> Result<Vec<Family>, Unread> {
        Err(Unread("nobody is there".to_owned()))
    }
}

/// Is busy until it is told not to be.
struct Busy(Mutex<Receiver<()>>);

impl Source for Busy {
    fn read(&self) -> Result<Vec<Family>, Unread> {
        let _ = self.0.lock().unwrap().recv();
        Ok(Vec::new())
    }
}

fn serve(source: impl Source) -> Endpoint {
    let any: Address = "0".parse().unwrap();
    Listening::on(any).unwrap().serve(Arc::new(source)).unwrap()
}

fn connect(endpoint: &Endpoint) -> TcpStream {
    let stream = TcpStream::connect(endpoint.address().0).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Everything that comes until the other side closes.
fn answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        // It was closed with something of the request unread.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}"),
    }
    String::from_utf8(answer).unwrap()
}

fn ask(endpoint: &Endpoint, request: &str) -> String {
    let mut stream = connect(endpoint);
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut stream)
}

fn get(endpoint: &Endpoint, path: &str, headers: &str) -> String {
    ask(
        endpoint,
        &format!("GET {path} HTTP/1.1\r\nHost: here\r\n{headers}\r\n"),
    )
}

#[test]
fn figures_are_given_in_the_format_that_is_asked_for() {
    let endpoint = serve(Reads::default());
    let plain = get(&endpoint, "/metrics", "");
    assert!(plain.starts_with("HTTP/1.1 200 OK\r\n"), "{plain}");
    assert!(
        plain.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{plain}"
    );
    assert!(plain.contains("\r\nconnection: close\r\n"), "{plain}");
    assert!(
        plain.ends_with("# TYPE reads_total counter\nreads_total 1\n"),
        "{plain}"
    );
    let wants = "Accept: application/openmetrics-text; version=1.0.0\r\n";
    let open = get(&endpoint, "/metrics?a=b", wants);
    assert!(
        open.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{open}"
    );
    assert!(open.ends_with("\n# EOF\n"), "{open}");
    let head = ask(&endpoint, "HEAD /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn other_requests_are_refused() {
    let endpoint = serve(Reads::default());
    for path in ["/", "/metrics/", "/../metrics", "*"] {
        let answer = get(&endpoint, path, "");
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
        assert!(answer.contains("/metrics"), "{answer}");
    }
    let posted = "POST /metrics HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\nabc";
    let answer = ask(&endpoint, posted);
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
    for wrong in ["\r\n\r\nabc\r\n\r\n", "GET /metrics HTTP/9.9\r\n\r\n"] {
        let answer = ask(&endpoint, wrong);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    let long = format!("Long: {}\r\n", "a".repeat(MAX_REQUEST_BYTES));
    let answer = get(&endpoint, "/metrics", &long);
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let many: String = (0..100).map(|at| format!("H{at}: a\r\n")).collect();
    let answer = get(&endpoint, "/metrics", &many);
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // It goes on after all that.
    let answer = get(&endpoint, "/metrics", "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn who_reads_at_once_is_given_the_same() {
    let endpoint = serve(Reads::default());
    let read = || {
        let answer = get(&endpoint, "/metrics", "");
        let figure = answer.rsplit(' ').next().unwrap().trim();
        figure.parse::<u64>().unwrap()
    };
    const READERS: u64 = 200;
    let begun = std::time::Instant::now();
    let last = (0..READERS).map(|_| read()).max().unwrap();
    // One each tenth of a second.
    let most = begun.elapsed().as_millis() as u64 / 100 + 1;
    assert!(last <= most, "{last} of {most}");
}

#[test]
fn no_figures_are_an_error_with_its_reason() {
    let endpoint = serve(Away);
    let answer = get(&endpoint, "/metrics", "");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.ends_with("nobody is there\n"), "{answer}");
}

#[test]
fn a_busy_process_is_an_error_in_time_and_keeps_nobody() {
    let (go_on, waits) = mpsc::channel();
    let endpoint = serve(Busy(Mutex::new(waits)));
    let mut slow = connect(&endpoint);
    slow.write_all(b"GET /metrics HT").unwrap();
    let answers: Vec<String> = std::thread::scope(|scope| {
        let two = [(); 2].map(|()| scope.spawn(|| get(&endpoint, "/metrics", "")));
        two.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for answered in answers {
        assert!(answered.starts_with("HTTP/1.1 503 "), "{answered}");
        assert!(answered.ends_with("too busy\n"), "{answered}");
    }
    // Meanwhile the one that did not say what it wants was let go.
    let said = answer(&mut slow);
    assert!(!said.contains(" 200 "), "{said}");
    // A source that is still busy does not keep the endpoint from ending.
    drop(endpoint);
    // It was still reading.
    go_on.send(()).unwrap();
}

#[test]
fn others_wait_while_there_are_too_many() {
    let endpoint = serve(Reads::default());
    let mut idle: Vec<TcpStream> = (0..MAX_CONNECTIONS).map(|_| connect(&endpoint)).collect();
    for stream in &mut idle {
        stream.write_all(b"GET /metrics ").unwrap();
    }
    let mut next = connect(&endpoint);
    next.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        .unwrap();
    next.set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let error = next.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    idle.pop().unwrap().shutdown(Shutdown::Both).unwrap();
    next.set_read_timeout(Some(DEADLINE)).unwrap();
    let answered = answer(&mut next);
    assert!(answered.starts_with("HTTP/1.1 200 "), "{answered}");
}

#[test]
fn an_endpoint_that_is_dropped_gives_its_address_back() {
    let endpoint = serve(Reads::default());
    let address = endpoint.address();
    assert_eq!(
        Listening::on(address).unwrap_err().kind(),
        ErrorKind::AddrInUse
    );
    drop(endpoint);
    let again = Listening::on(address).unwrap();
    assert_eq!(again.address(), address);
}
