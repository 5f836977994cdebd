//! Addresses, and connections over real sockets.

// Helpers stand outside of test functions, where clippy does not know them for tests.
#![allow(clippy::unwrap_used)]

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use pandofs_types::{Epoch, FsId, ServerId};
use pandofs_wire::address::{Address, AddressError, Listener, Stream, connect, connect_while};
use pandofs_wire::buffer::{Progress, ReadBuffer, WriteBuffer};
use pandofs_wire::hello::{Hello, HelloAnswer, HelloRefusal, Machine, Peer};
use proptest::prelude::*;
use rustix::net::{self, AddressFamily, SocketType};
use std::cell::RefCell;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn loopback() -> Address {
    Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port: 0,
    }
}

fn socket_in(folder: &Path) -> Address {
    Address::Unix(folder.join("s"))
}

#[test]
fn addresses_in_text() {
    for (text, host, port) in [
        ("tcp:127.0.0.1:7400", "127.0.0.1", 7400),
        ("tcp:[::1]:0", "::1", 0),
        ("tcp:node-3.example.org:65535", "node-3.example.org", 65535),
    ] {
        let address: Address = text.parse().unwrap();
        assert_eq!(
            address,
            Address::Tcp {
                host: host.to_owned(),
                port
            }
        );
        assert_eq!(address.to_string(), text);
    }
    let address: Address = "unix:/run/pando fs/0.sock".parse().unwrap();
    assert_eq!(
        address,
        Address::Unix(PathBuf::from("/run/pando fs/0.sock"))
    );
    assert_eq!(address.to_string(), "unix:/run/pando fs/0.sock");
}

#[test]
fn what_is_no_address_says_what_to_write_instead() {
    for text in [
        "",
        "localhost:7400",
        "TCP:localhost:7400",
        "udp:localhost:7400",
        "/run/x",
    ] {
        let error = text.parse::<Address>().unwrap_err();
        assert_eq!(error, AddressError::UnknownKind(text.to_owned()));
        assert!(
            error
                .to_string()
                .contains("write tcp:HOST:PORT or unix:/PATH")
        );
    }
    for text in [
        "tcp:",
        "tcp:localhost",
        "tcp::7400",
        "tcp:localhost:",
        "tcp:localhost:65536",
        "tcp:localhost:http",
        "tcp:::1:7400",
        "tcp:[::1:7400",
        "tcp:[localhost]:7400",
        "tcp:local host:7400",
        "tcp://localhost:7400",
    ] {
        assert_eq!(
            text.parse::<Address>(),
            Err(AddressError::BadTcp(text.to_owned()))
        );
    }
    for path in ["", "relative/path", "/nul\0"] {
        let text = format!("unix:{path}");
        assert_eq!(
            text.parse::<Address>(),
            Err(AddressError::BadPath(path.to_owned()))
        );
    }
    let path = format!("/{}", "x".repeat(106));
    assert!(format!("unix:{path}").parse::<Address>().is_ok());
    let path = path + "x";
    let error = format!("unix:{path}").parse::<Address>().unwrap_err();
    assert_eq!(error, AddressError::LongPath { path, bytes: 108 });
}

proptest! {
    #[test]
    fn an_address_survives_its_text(ip in any::<IpAddr>(), port in any::<u16>()) {
        let address = Address::Tcp { host: ip.to_string(), port };
        prop_assert_eq!(address.to_string().parse(), Ok(address));
    }

    #[test]
    fn any_text_is_an_address_or_an_error(text in "(tcp:|unix:)?.{0,40}") {
        if let Ok(address) = text.parse::<Address>() {
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }
    }
}

/// Sends `count` numbers to the listener on `address` and checks that each comes back.
fn echo(listener: &Listener, address: &Address, count: u64) {
    let stream = connect(address, PATIENCE).unwrap();
    thread::scope(move |scope| {
        scope.spawn(|| {
            let mut stream = listener.accept().unwrap();
            let (mut received, mut answers) = (ReadBuffer::new(), WriteBuffer::new());
            while received.fill_from(&mut stream).unwrap() > 0 {
                while let Some(body) = received.next_frame().unwrap() {
                    let number: u64 = pandofs_wire::frame::decode(body).unwrap();
                    answers.push(&number).unwrap();
                }
                assert_eq!(answers.write_to(&mut stream).unwrap(), Progress::Done);
            }
        });
        // Moved in here, so that the server sees it closed before the scope waits for it.
        let mut stream = stream;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut received, mut requests) = (ReadBuffer::new(), WriteBuffer::new());
        for number in 0..count {
            requests.push(&number).unwrap();
        }
        assert_eq!(requests.write_to(&mut stream).unwrap(), Progress::Done);
        let mut expected = 0;
        while expected < count {
            while let Some(body) = received.next_frame().unwrap() {
                assert_eq!(pandofs_wire::frame::decode::<u64>(body), Ok(expected));
                expected += 1;
            }
            if expected < count {
                assert!(received.fill_from(&mut stream).unwrap() > 0);
            }
        }
    });
}

#[test]
fn frames_over_tcp() {
    let listener = Listener::bind(&loopback()).unwrap();
    let address = listener.local_address().unwrap();
    assert!(matches!(&address, Address::Tcp { host, port } if host == "127.0.0.1" && *port != 0));
    echo(&listener, &address, 1_000);
    let Address::Tcp { port, .. } = address else {
        panic!("asked for TCP, got {address}")
    };
    // By name: it may stand for [::1] first, where no process listens.
    echo(
        &listener,
        &Address::Tcp {
            host: "localhost".to_owned(),
            port,
        },
        10,
    );
}

#[test]
fn frames_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let address = socket_in(folder.path());
    let listener = Listener::bind(&address).unwrap();
    assert_eq!(listener.local_address().unwrap(), address);
    echo(&listener, &address, 1_000);
}

#[test]
fn a_handshake() {
    let fs = FsId(77);
    let listener = Listener::bind(&loopback()).unwrap();
    let address = listener.local_address().unwrap();
    let welcome = HelloAnswer::Welcome {
        server: ServerId(2),
        boot: 99,
        epoch: Epoch(5),
        machine: Machine(1),
        known_since: 0,
    };
    let greet = |ours: FsId| {
        let mut stream = connect(&address, PATIENCE).unwrap();
        let mut accepted = listener.accept().unwrap();
        let (mut sending, mut received) = (WriteBuffer::new(), ReadBuffer::new());
        sending
            .push(&Hello {
                fs: ours,
                peer: Peer::Admin,
            })
            .unwrap();
        assert_eq!(sending.write_to(&mut stream).unwrap(), Progress::Done);

        received.fill_from(&mut accepted).unwrap();
        let answer = match Hello::decode(received.next_frame().unwrap().unwrap(), fs) {
            Ok(Hello {
                peer: Peer::Admin, ..
            }) => welcome,
            Ok(hello) => panic!("understood as {hello:?}"),
            Err(refusal) => HelloAnswer::Refused(refusal),
        };
        sending.push(&answer).unwrap();
        assert_eq!(sending.write_to(&mut accepted).unwrap(), Progress::Done);

        received.fill_from(&mut stream).unwrap();
        HelloAnswer::decode(received.next_frame().unwrap().unwrap()).unwrap()
    };
    assert_eq!(greet(fs), welcome);
    let refusal = HelloRefusal::WrongFileSystem {
        ours: fs,
        theirs: FsId(78),
    };
    assert_eq!(greet(FsId(78)), HelloAnswer::Refused(refusal));
}

#[test]
fn tcp_connections_send_at_once() {
    let listener = Listener::bind(&loopback()).unwrap();
    let ours = connect(&listener.local_address().unwrap(), PATIENCE).unwrap();
    let theirs = listener.accept().unwrap();
    for stream in [&ours, &theirs] {
        let Stream::Tcp(tcp) = stream else {
            panic!("not TCP: {stream:?}")
        };
        assert!(tcp.nodelay().unwrap());
        stream.set_nodelay(false).unwrap();
        assert!(!tcp.nodelay().unwrap());
    }
}

#[test]
fn nobody_there_is_an_error_that_names_the_address() {
    let folder = tempfile::tempdir().unwrap();
    let unix = socket_in(folder.path());
    let error = connect(&unix, PATIENCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(&unix.to_string()), "{error}");

    // Bound and not listening: no other process can get the port meanwhile.
    let reserved = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::bind(&reserved, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = SocketAddrV4::try_from(net::getsockname(&reserved).unwrap())
        .unwrap()
        .port();
    let gone = Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port,
    };
    let error = connect(&gone, PATIENCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert!(error.to_string().contains(&gone.to_string()), "{error}");

    let error = connect(&gone, Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[test]
fn who_waits_to_be_accepted_is_asked_now_and_then_whether_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let unix = socket_in(folder.path());
    for address in [unix, loopback()] {
        let listener = Listener::bind(&address).unwrap();
        net::listen(&listener, 0).unwrap();
        let address = listener.local_address().unwrap();
        let interval = Duration::from_millis(10);
        let mut taken = Vec::new();
        loop {
            let asked = RefCell::new(Vec::new());
            let connected = connect_while(&address, PATIENCE, interval, &|waited| {
                asked.borrow_mut().push(waited);
                asked.borrow().len() < 3
            });
            match connected {
                Ok(stream) => taken.push(stream),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Interrupted);
                    let asked = asked.into_inner();
                    assert_eq!(asked.len(), 3);
                    assert!(
                        asked[0] >= interval / 2 && asked[2] >= 2 * interval,
                        "{asked:?}"
                    );
                    break;
                }
            }
            assert!(taken.len() < 10, "the queue of length 0 never fills");
        }
    }
}

#[test]
fn a_server_that_does_not_accept_times_out() {
    let folder = tempfile::tempdir().unwrap();
    let address = socket_in(folder.path());
    let listener = Listener::bind(&address).unwrap();
    net::listen(&listener, 0).unwrap();
    let begin = Instant::now();
    let limit = Duration::from_millis(50);
    let mut taken = Vec::new();
    let error = loop {
        match connect(&address, limit) {
            Ok(stream) => taken.push(stream),
            Err(error) => break error,
        }
        assert!(taken.len() < 10, "the queue of length 0 never fills");
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(begin.elapsed() >= limit && begin.elapsed() < PATIENCE);
    // Those that got through are not left with the time limit.
    let Stream::Unix(stream) = &taken[0] else {
        panic!("not a Unix socket")
    };
    assert_eq!(stream.write_timeout().unwrap(), None);
}

/// All clients of a server that was restarted come back at once, faster than it takes them.
#[test]
fn many_can_wait_to_be_accepted() {
    let allowed = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let count = allowed.trim().parse::<usize>().unwrap().min(300);
    let folder = tempfile::tempdir().unwrap();
    for address in [loopback(), socket_in(folder.path())] {
        let listener = Listener::bind(&address).unwrap();
        let address = listener.local_address().unwrap();
        let waiting: Vec<Stream> = (0..count)
            .map(|_| connect(&address, PATIENCE).unwrap())
            .collect();
        assert_eq!(waiting.len(), count);
        for _ in 0..count {
            listener.accept().unwrap();
        }
    }
}

#[test]
fn a_socket_left_behind_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let address = socket_in(folder.path());
    for _ in 0..3 {
        let listener = Listener::bind(&address).unwrap();
        echo(&listener, &address, 3);
        drop(listener);
        assert_eq!(
            connect(&address, PATIENCE).unwrap_err().kind(),
            ErrorKind::ConnectionRefused
        );
    }
}

#[test]
fn a_socket_in_use_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let address = socket_in(folder.path());
    let first = Listener::bind(&address).unwrap();
    let error = Listener::bind(&address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(
        error.to_string().contains("another process listens there"),
        "{error}"
    );
    // The test for a listener was a connection of its own.
    assert_eq!(first.accept().unwrap().read(&mut [0]).unwrap(), 0);
    echo(&first, &address, 3);

    // Also one of a server that does not accept.
    net::listen(&first, 0).unwrap();
    let _waiting = connect(&address, PATIENCE).unwrap();
    assert_eq!(
        Listener::bind(&address).unwrap_err().kind(),
        ErrorKind::AddrInUse
    );
    assert!(folder.path().join("s").exists());
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let address = socket_in(folder.path());
    let path = folder.path().join("s");
    fs::write(&path, "precious").unwrap();
    let error = Listener::bind(&address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn of_many_that_find_a_stale_socket_one_gets_the_address() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let address = socket_in(folder.path());
        drop(UnixListener::bind(folder.path().join("s")).unwrap());
        let barrier = Barrier::new(8);
        let results: Vec<io::Result<Listener>> = thread::scope(|scope| {
            let racers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        Listener::bind(&address)
                    })
                })
                .collect();
            racers
                .into_iter()
                .map(|racer| racer.join().unwrap())
                .collect()
        });
        let winners: Vec<&Listener> = results.iter().flatten().collect();
        assert_eq!(winners.len(), 1);
        // The losers' questions come first; all have been asked.
        winners[0].set_nonblocking(true).unwrap();
        for _ in 0..7 {
            assert_eq!(winners[0].accept().unwrap().read(&mut [0]).unwrap(), 0);
        }
        winners[0].set_nonblocking(false).unwrap();
        echo(winners[0], &address, 1);
    }
}

#[test]
fn shutdown_ends_a_read_in_another_thread() {
    let listener = Listener::bind(&loopback()).unwrap();
    let ours = connect(&listener.local_address().unwrap(), PATIENCE).unwrap();
    let _theirs = listener.accept().unwrap();
    let mut reading = ours.try_clone().unwrap();
    reading.set_read_timeout(Some(PATIENCE)).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(move || reading.read(&mut [0]));
        ours.shutdown(Shutdown::Both).unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), 0);
    });
}

#[test]
fn what_comes_and_the_end_are_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let listener = Listener::bind(&socket_in(folder.path())).unwrap();
    let mut ours = connect(&listener.local_address().unwrap(), PATIENCE).unwrap();
    let mut theirs = listener.accept().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| theirs.write_all(&[7]).unwrap());
        // The longest limit there is overflows nothing.
        ours.await_input(Duration::MAX).unwrap();
    });
    let mut byte = [0];
    assert_eq!((ours.read(&mut byte).unwrap(), byte), (1, [7]));
    drop(theirs);
    ours.await_input(PATIENCE).unwrap();
    assert_eq!(ours.read(&mut byte).unwrap(), 0);
}

/// Why there is [`Stream::await_input`].
#[test]
fn who_waits_for_input_sleeps_while_the_peer_takes_what_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let listener = Listener::bind(&socket_in(folder.path())).unwrap();
    let mut ours = connect(&listener.local_address().unwrap(), PATIENCE).unwrap();
    let mut theirs = listener.accept().unwrap();
    const ROUNDS: i64 = 200;
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..ROUNDS {
                theirs.read_exact(&mut [0]).unwrap();
                // So that a woken thread is seen to have run.
                thread::sleep(Duration::from_micros(200));
                theirs.write_all(&[0]).unwrap();
            }
        });
        let before = switches();
        for _ in 0..ROUNDS {
            ours.write_all(&[0]).unwrap();
            ours.await_input(PATIENCE).unwrap();
            ours.read_exact(&mut [0]).unwrap();
        }
        let each = (switches() - before) as f64 / ROUNDS as f64;
        assert!(each < 1.5, "{each} switches for each answer");
    });
}

/// Times this thread went to sleep.
fn switches() -> i64 {
    let text = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn time_limits_end_reads_and_writes() {
    let folder = tempfile::tempdir().unwrap();
    for address in [loopback(), socket_in(folder.path())] {
        let listener = Listener::bind(&address).unwrap();
        let mut ours = connect(&listener.local_address().unwrap(), PATIENCE).unwrap();
        let _theirs = listener.accept().unwrap();
        ours.set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        assert_eq!(
            ours.read(&mut [0]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        let unix = matches!(ours, Stream::Unix(_));
        let waited = ours.await_input(Duration::from_millis(1));
        assert_eq!(
            waited.is_err_and(|e| e.kind() == ErrorKind::WouldBlock),
            unix
        );
        ours.set_write_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        let error = loop {
            match ours.write(&[0; 1 << 16]) {
                Ok(count) => assert!(count > 0),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}

/// A peer that does not read for a while: nothing is lost, nothing waits, and all arrives when it does.
#[test]
fn non_blocking_sockets_are_driven_by_readiness() {
    let folder = tempfile::tempdir().unwrap();
    for address in [loopback(), socket_in(folder.path())] {
        let listener = Listener::bind(&address).unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);

        let mut poll = Poll::new().unwrap();
        let mut events = Events::with_capacity(8);
        poll.registry()
            .register(
                &mut SourceFd(&listener.as_raw_fd()),
                Token(0),
                Interest::READABLE,
            )
            .unwrap();
        let mut ours = connect(&listener.local_address().unwrap(), PATIENCE).unwrap();
        poll.poll(&mut events, Some(PATIENCE)).unwrap();
        assert_eq!(
            events.iter().next().map(|event| event.token()),
            Some(Token(0))
        );
        let mut theirs = listener.accept().unwrap();

        for stream in [&ours, &theirs] {
            stream.set_nonblocking(true).unwrap();
        }
        let (mut sending, mut received) = (WriteBuffer::new(), ReadBuffer::new());
        let mut sent = 0_u64;
        let both = Interest::READABLE | Interest::WRITABLE;
        while sending.write_to(&mut ours).unwrap() == Progress::Done {
            for _ in 0..1_000 {
                sending
                    .push(&(sent, "as much as the sockets hold"))
                    .unwrap();
                sent += 1;
            }
        }
        assert!(sending.pending() > 0);

        poll.registry()
            .register(&mut SourceFd(&ours.as_raw_fd()), Token(1), both)
            .unwrap();
        poll.registry()
            .register(&mut SourceFd(&theirs.as_raw_fd()), Token(2), both)
            .unwrap();
        let begin = Instant::now();
        let mut expected = 0_u64;
        while expected < sent {
            assert!(begin.elapsed() < PATIENCE);
            poll.poll(&mut events, Some(PATIENCE)).unwrap();
            for event in &events {
                if event.token() == Token(1) && event.is_writable() {
                    let _ = sending.write_to(&mut ours).unwrap();
                }
            }
            loop {
                match received.fill_from(&mut theirs) {
                    Ok(count) => assert!(count > 0),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        break;
                    }
                }
                while let Some(body) = received.next_frame().unwrap() {
                    let (number, _): (u64, &str) = pandofs_wire::frame::decode(body).unwrap();
                    assert_eq!(number, expected);
                    expected += 1;
                }
            }
        }
        assert_eq!((sending.pending(), received.unread()), (0, 0));
    }
}

/// The umask of the test's process gives all users all rights that it can.
#[test]
fn a_unix_socket_is_for_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let address = Address::Unix(path.clone());
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let listener = Listener::bind(&address).unwrap();
    assert_eq!(mode(), 0o600);
    drop(listener);
    // One that replaces what is left of another, too.
    let listener = Listener::bind(&address).unwrap();
    assert_eq!(mode(), 0o600);
    rustix::process::umask(before);
    let _connected = connect(&address, PATIENCE).unwrap();
    let accepted = listener.accept().unwrap();
    let user = rustix::process::geteuid().as_raw();
    assert_eq!(accepted.peer_user().unwrap(), Some(user));
    assert_eq!(accepted.peer_ip(), None);
}
