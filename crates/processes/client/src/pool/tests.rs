//! Connections to servers that answer, refuse or hang.

use super::*;
use pandofs_wire::buffer::Progress;
use pandofs_wire::hello::HelloRefusal;
use pandofs_wire::message::AnswerBody;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

fn info(addresses: &[&str]) -> ServerInfo {
    ServerInfo {
        id: ServerId(3),
        addresses: addresses.iter().map(|&text| text.to_owned()).collect(),
        weight: ServerInfo::WEIGHT_ONE,
        domain: "rack".to_owned(),
    }
}

#[test]
fn the_unix_socket_is_tried_first() {
    let server = Server::new(&info(&["tcp:127.0.0.1:7400", "unix:/run/pandofs/3"])).unwrap();
    assert_eq!(server.addresses[0].to_string(), "unix:/run/pandofs/3");
}

#[test]
fn a_server_without_address_is_an_error() {
    let error = Server::new(&info(&[])).unwrap_err();
    assert_eq!(error, "the cluster map has no address of server 3");
    assert!(Server::new(&info(&["tcp:nowhere"])).is_err());
}

#[test]
fn who_looked_before_it_came_back_does_not_say_that_it_is_away() {
    let server = Server::new(&info(&["unix:/run/pandofs/3"])).unwrap();
    let before = server.times_seen();
    server.note_away(before, "refused");
    assert!(server.is_away() && !server.was_reached());
    server.note_back();
    server.note_away(before, "refused");
    assert!(!server.is_away() && server.was_reached());
    server.note_away(server.times_seen(), "refused");
    assert!(server.is_away());
}

/// More than any socket takes.
const MUCH: usize = 64 << 20;

/// A connection that is not read, and its other end.
fn unread(patience: Duration) -> (Connection, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    let connection = Connection::on(Stream::Unix(near), patience, 1).unwrap();
    (connection, far)
}

/// Its hello could not be sent, and that was what it told of.
#[test]
fn who_is_turned_away_before_it_has_said_who_it_is_says_why() {
    let (connection, mut far) = unread(ANSWER_TIMEOUT);
    let refused = HelloAnswer::Refused(HelloRefusal::TooManyConnections { limit: 22 });
    let mut answer = WriteBuffer::default();
    answer.push(&refused).unwrap();
    let written = answer.write_to(&mut far).unwrap();
    assert_eq!(written, Progress::Done);
    drop(far);
    let who = Identity {
        fs: FsId(1),
        session: SessionId(2),
        timeouts: Timeouts::within(None),
    };
    let address: Address = "unix:/run/pandofs/3".parse().unwrap();
    match connection.greet(&address, ServerId(3), &who) {
        Err(ConnectError::Unreachable(why)) => assert_eq!(
            why,
            "the server has all the 22 connections it takes: close some, or try again later"
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn connections_that_were_used_last_keep_their_buffers() {
    let server = Server::new(&info(&["unix:/run/pandofs/3"])).unwrap();
    server.keep_buffers(2);
    for _ in 0..4 {
        let (mut connection, _far) = unread(ANSWER_TIMEOUT);
        // It makes room before it finds that there is nothing to read.
        connection.incoming.fill_from(&mut &[][..]).unwrap();
        server.put_back(connection);
    }
    let idle = server.idle();
    let kept = idle
        .iter()
        .map(|connection| connection.incoming.memory() > 0);
    assert_eq!(kept.collect::<Vec<_>>(), [false, false, true, true]);
}

fn set_cancellation(is_killed: fn() -> bool) {
    crate::set_cancellation(Some(crate::cancellation::of_killed(is_killed)));
}

#[test]
fn who_is_killed_does_not_wait_until_a_server_takes_what_is_sent() {
    let (mut connection, _far) = unread(ANSWER_TIMEOUT);
    set_cancellation(|| true);
    let sent = connection.send_with(&[&[7; MUCH]]);
    crate::set_cancellation(None);
    assert!(matches!(sent, Err(Unsent::Abandoned)), "{sent:?}");
}

#[test]
fn a_server_that_takes_nothing_is_given_up_in_the_end() {
    let (mut connection, _far) = unread(CANCELLATION_INTERVAL / 4);
    let sent = connection.send_with(&[&[7; MUCH]]);
    let Err(Unsent::Connection(error)) = sent else {
        panic!("{sent:?}");
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[test]
fn who_is_asked_meanwhile_goes_on_where_it_was() {
    static IS_ASKED: AtomicBool = AtomicBool::new(false);
    let (mut connection, mut far) = unread(ANSWER_TIMEOUT);
    let data: Vec<u8> = (0..MUCH).map(|place| (place % 251) as u8).collect();
    std::thread::scope(|scope| {
        let reads = scope.spawn(move || {
            while !IS_ASKED.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let mut read = Vec::new();
            far.read_to_end(&mut read).unwrap();
            read
        });
        set_cancellation(|| {
            IS_ASKED.store(true, Ordering::SeqCst);
            false
        });
        let (first, rest) = data.split_at(MUCH / 3);
        connection.send_with(&[first, rest]).unwrap();
        crate::set_cancellation(None);
        drop(connection);
        assert!(
            reads.join().unwrap() == data,
            "other bytes came than were sent"
        );
    });
}

/// Counts the waits that it hears of.
#[derive(Default)]
struct Waits(AtomicUsize);

impl crate::Caller for Waits {
    fn about_to_wait(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn may_wait(&self) -> bool {
        true
    }

    fn on_abandoned(&self) {}
}

#[test]
fn who_is_about_to_wait_for_a_server_says_so() {
    let waits = Arc::new(Waits::default());
    crate::set_cancellation(Some(crate::Cancellation {
        id: 0,
        caller: Arc::<Waits>::clone(&waits),
    }));
    let heard = || waits.0.load(Ordering::SeqCst);
    let (mut connection, mut far) = unread(ANSWER_TIMEOUT);
    connection.send_with(&[&[7; 1_024]]).unwrap();
    assert_eq!(heard(), 0, "the system takes it at once");
    connection
        .send_with(&[&[7; MUCH_TO_SEND_BYTES / 2], &[7; MUCH_TO_SEND_BYTES / 2]])
        .unwrap();
    assert_eq!(heard(), 1);
    let mut answers = WriteBuffer::default();
    for id in 0..2 {
        let body = AnswerBody::Done;
        answers.push(&AnswerFrame { id, body }).unwrap();
    }
    assert_eq!(answers.write_to(&mut far).unwrap(), Progress::Done);
    assert_eq!(connection.receive().unwrap().id, 0);
    assert_eq!(heard(), 2);
    // It came with the first.
    assert_eq!(connection.receive().unwrap().id, 1);
    assert_eq!(heard(), 2);
    crate::set_cancellation(None);
}

#[test]
fn a_soft_limit_bounds_each_attempt() {
    let soft = Timeouts::within(Some(Duration::from_secs(1)));
    assert_eq!(
        (soft.connect, soft.answer),
        (Duration::from_secs(1), Duration::from_secs(1))
    );
    let hard = Timeouts::within(None);
    assert_eq!(
        (hard.connect, hard.answer),
        (CONNECT_TIMEOUT, ANSWER_TIMEOUT)
    );
    assert!(!Timeouts::within(Some(Duration::ZERO)).answer.is_zero());
}
