//! Links to the other servers.
//!
//! Each server opens a connection to each other one that it has something to say to, when it first
//! has; what is said back comes over the other's own. A link may lose messages, when it breaks or when
//! too many wait for a server that is away: their shards send them again.

use crate::connection::ConnectionKey;
use crate::limits::{LINK_TIMEOUT, MAX_LINK_BACKLOG_BYTES, MAX_LINK_PAUSE, MIN_LINK_PAUSE};
use pandofs_api::{AdminReply, AdminRequest, PeerMessage};
use pandofs_placement::ClusterMap;
use pandofs_types::{Epoch, FsId, ServerId};
use pandofs_wire::address::{self, Address, Stream};
use pandofs_wire::buffer::{Progress, ReadBuffer, WriteBuffer};
use pandofs_wire::frame::{self, FrameError};
use pandofs_wire::hello::{Hello, HelloAnswer, Peer};
use pandofs_wire::message::{AnswerBody, AnswerFrame, PeerFrame, RequestBody, RequestFrame};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;
use std::io;
use std::time::{Duration, Instant};

/// State of the links, without their sockets.
#[derive(Debug)]
pub(crate) struct Peers {
    links: BTreeMap<ServerId, Link>,
    /// Links with new messages.
    touched: BTreeSet<ServerId>,
}

#[derive(Debug)]
struct Link {
    state: State,
    /// How long to wait after the next failure.
    pause: Duration,
    /// Messages since the last [`Peers::take_ready`].
    new: Vec<PeerMessage>,
    /// Messages from before, with their encoded bytes, while the link is not open.
    backlog: VecDeque<(usize, PeerMessage)>,
    backlog_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed { retry_at: Instant },
    Opening,
    Open(ConnectionKey),
}

impl Peers {
    /// Links to `servers`, none of them open.
    pub(crate) fn new(servers: impl Iterator<Item = ServerId>, now: Instant) -> Peers {
        let link = || Link {
            state: State::Closed { retry_at: now },
            pause: MIN_LINK_PAUSE,
            new: Vec::new(),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
        };
        Peers {
            links: servers.map(|id| (id, link())).collect(),
            touched: BTreeSet::new(),
        }
    }

    /// Adds those of `servers` that are new.
    pub(crate) fn join(&mut self, servers: impl Iterator<Item = ServerId>, now: Instant) {
        let Peers { links, .. } = Peers::new(servers, now);
        for (server, link) in links {
            self.links.entry(server).or_insert(link);
        }
    }

    fn link(&mut self, server: ServerId) -> &mut Link {
        self.links
            .get_mut(&server)
            .unwrap_or_else(|| panic!("no link to server {server}"))
    }

    /// Whether there is another server of this number.
    pub(crate) fn knows(&self, server: ServerId) -> bool {
        self.links.contains_key(&server)
    }

    /// Takes a message for `server`.
    ///
    /// # Panics
    /// When [`Peers::knows`] would deny it.
    pub(crate) fn send(&mut self, server: ServerId, message: PeerMessage) {
        let link = self.link(server);
        if is_load(&message) {
            // To a server that is away they would be many, and push out what it is to hear.
            link.forget(is_load);
        }
        link.new.push(message);
        self.touched.insert(server);
    }

    /// New messages of open links, to be written to their connections. Those of other links are kept,
    /// up to a bound.
    pub(crate) fn take_ready(&mut self) -> Vec<(ConnectionKey, Vec<PeerMessage>)> {
        let mut ready = Vec::new();
        for server in std::mem::take(&mut self.touched) {
            let link = self.link(server);
            let messages = std::mem::take(&mut link.new);
            match link.state {
                State::Open(connection) => ready.push((connection, messages)),
                State::Closed { .. } | State::Opening => link.keep(messages),
            }
        }
        ready
    }

    /// The servers to connect to now; they count as being connected to from here on.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<ServerId> {
        let mut due = Vec::new();
        for (&server, link) in &mut self.links {
            if link.wants_opening().is_some_and(|retry_at| retry_at <= now) {
                link.state = State::Opening;
                due.push(server);
            }
        }
        due
    }

    /// When [`Peers::take_due`] will have something to say.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.links.values().filter_map(Link::wants_opening).min()
    }

    /// The attempt has succeeded: gives what has been waiting for it.
    pub(crate) fn opened(
        &mut self,
        server: ServerId,
        connection: ConnectionKey,
    ) -> Vec<PeerMessage> {
        let link = self.link(server);
        assert_eq!(
            link.state,
            State::Opening,
            "a link to {server} nobody asked for"
        );
        link.state = State::Open(connection);
        link.pause = MIN_LINK_PAUSE;
        link.backlog_bytes = 0;
        link.backlog.drain(..).map(|(_, message)| message).collect()
    }

    /// The attempt has failed, or the link has broken. Answers whether that is news.
    pub(crate) fn closed(&mut self, server: ServerId, now: Instant) -> bool {
        let link = self.link(server);
        let is_news = link.pause == MIN_LINK_PAUSE;
        link.state = State::Closed {
            retry_at: now + link.pause,
        };
        link.pause = (link.pause * 2).min(MAX_LINK_PAUSE);
        is_news
    }

    /// The server has sent something: there is no need to wait.
    pub(crate) fn is_up(&mut self, server: ServerId, now: Instant) {
        let link = self.link(server);
        if let State::Closed { retry_at } = &mut link.state {
            *retry_at = now;
            link.pause = MIN_LINK_PAUSE;
        }
    }

    /// Drops a data request that waits to be sent again, now that its answer is there.
    pub(crate) fn forget_data(&mut self, server: ServerId, number: u64) {
        let is_it = |message: &PeerMessage| matches!(message, PeerMessage::Data { ticket, .. } if *ticket == number);
        self.link(server).forget(is_it);
    }
}

/// Whether the next message of its kind says all that this one does.
fn is_load(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Load { wanted: true, .. })
}

impl Link {
    /// Drops messages that have not left.
    fn forget(&mut self, is_it: impl Fn(&PeerMessage) -> bool) {
        self.new.retain(|message| !is_it(message));
        self.backlog.retain(|(_, message)| !is_it(message));
        self.backlog_bytes = self.backlog.iter().map(|(bytes, _)| bytes).sum();
    }

    /// When to connect, if the link is closed and has something to say.
    fn wants_opening(&self) -> Option<Instant> {
        match self.state {
            State::Closed { retry_at } if !self.backlog.is_empty() => Some(retry_at),
            _ => None,
        }
    }

    fn keep(&mut self, messages: Vec<PeerMessage>) {
        let mut scratch = Vec::new();
        for message in messages {
            scratch.clear();
            if let Err(error) = frame::encode_into(&mut scratch, &message) {
                tracing::error!("a message to another server cannot be sent: {error}");
                continue;
            }
            self.backlog_bytes += scratch.len();
            self.backlog.push_back((scratch.len(), message));
        }
        while self.backlog_bytes > MAX_LINK_BACKLOG_BYTES
            && let Some((bytes, _)) = self.backlog.pop_front()
        {
            self.backlog_bytes -= bytes;
        }
    }
}

/// Encodes messages into as few frames as they fit.
pub(crate) fn push_frames(unsent: &mut WriteBuffer, messages: Vec<PeerMessage>) {
    let mut parts = vec![messages];
    while let Some(messages) = parts.pop() {
        let mut frame = PeerFrame { messages };
        match unsent.push(&frame) {
            Ok(()) => {}
            Err(FrameError::TooLong { .. }) if frame.messages.len() > 1 => {
                let second = frame.messages.split_off(frame.messages.len() / 2);
                parts.push(second);
                parts.push(frame.messages);
            }
            // Messages are bounded where they are made: this is a defect.
            Err(error) => tracing::error!("a message to another server cannot be sent: {error}"),
        }
    }
}

/// A connection to another server that has welcomed us.
#[derive(Debug)]
pub(crate) struct Opened {
    pub stream: Stream,
    /// Of the cluster map that it goes by.
    pub epoch: Epoch,
}

/// Connects to the server `other` at the first of its addresses that answers and says hello; for a
/// thread that may wait, up to twice [`LINK_TIMEOUT`] for each address. The connection does not block.
///
/// # Errors
/// Why it does not work, for people.
pub(crate) fn open(
    addresses: &[Address],
    fs: FsId,
    own: ServerId,
    other: ServerId,
) -> Result<Opened, String> {
    let mut why = "it has no address".to_owned();
    for address in addresses {
        match open_at(address, fs, own, other) {
            Ok(opened) => return Ok(opened),
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn open_at(address: &Address, fs: FsId, own: ServerId, other: ServerId) -> Result<Opened, String> {
    let peer = Peer::Server { id: own };
    let (stream, _, (server, epoch)) = greet(address, Hello { fs, peer })?;
    if server != other {
        return Err(format!(
            "{address}: server {server} is there, not server {other}"
        ));
    }
    stream
        .set_nonblocking(true)
        .map_err(|error| format!("{address}: {error}"))?;
    Ok(Opened { stream, epoch })
}

/// Asks the server at the first of the addresses that answers for its cluster map; for a thread that may wait.
///
/// # Errors
/// Why there is none, for people.
pub(crate) fn ask_map(addresses: &[Address], fs: FsId) -> Result<ClusterMap, String> {
    let mut why = "it has no address".to_owned();
    for address in addresses {
        match ask_map_at(address, fs) {
            Ok(map) => return Ok(map),
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn ask_map_at(address: &Address, fs: FsId) -> Result<ClusterMap, String> {
    let peer = Peer::Admin;
    let (mut stream, mut received, _) = greet(address, Hello { fs, peer })?;
    let failed = |error: &dyn Display| format!("{address}: {error}");
    let request = RequestFrame {
        id: 0,
        body: RequestBody::Admin(AdminRequest::Map),
    };
    push(&mut stream, &request, address)?;
    let answer: AnswerFrame = pull(&mut stream, &mut received, address, |body| {
        frame::decode(body)
    })?;
    match answer.body {
        AnswerBody::Admin(AdminReply::Map(text)) => {
            ClusterMap::from_json(&text).map_err(|error| failed(&error))
        }
        _ => Err(failed(&"the server answered another question")),
    }
}

/// Connects and says hello: the connection, what was received beyond the welcome, and who welcomes us, with the
/// epoch of its cluster map.
fn greet(
    address: &Address,
    hello: Hello,
) -> Result<(Stream, ReadBuffer, (ServerId, Epoch)), String> {
    let failed = |error: io::Error| format!("{address}: {error}");
    let mut stream = address::connect(address, LINK_TIMEOUT).map_err(|error| error.to_string())?;
    stream
        .set_read_timeout(Some(LINK_TIMEOUT))
        .map_err(failed)?;
    stream
        .set_write_timeout(Some(LINK_TIMEOUT))
        .map_err(failed)?;
    push(&mut stream, &hello, address)?;
    let mut received = ReadBuffer::new();
    let answer = pull(&mut stream, &mut received, address, HelloAnswer::decode)?;
    match answer {
        HelloAnswer::Refused(refusal) => Err(format!("{address}: {refusal}")),
        HelloAnswer::Welcome { server, epoch, .. } => Ok((stream, received, (server, epoch))),
    }
}

fn push(stream: &mut Stream, frame: &impl Serialize, address: &Address) -> Result<(), String> {
    let mut unsent = WriteBuffer::new();
    unsent.push(frame).map_err(|error| error.to_string())?;
    match unsent
        .write_to(stream)
        .map_err(|error| format!("{address}: {error}"))?
    {
        Progress::Done => Ok(()),
        Progress::Blocked => Err(format!("{address}: the server does not read")),
    }
}

fn pull<T, E: Display>(
    stream: &mut Stream,
    received: &mut ReadBuffer,
    address: &Address,
    decode: impl FnOnce(&[u8]) -> Result<T, E>,
) -> Result<T, String> {
    let failed = |error: &dyn Display| format!("{address}: {error}");
    loop {
        if let Some(body) = received.next_frame().map_err(|error| failed(&error))? {
            return decode(body).map_err(|error| failed(&error));
        }
        if received.fill_from(stream).map_err(|error| failed(&error))? == 0 {
            return Err(failed(&"the server closed the connection"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_api::{DataReply, DataRequest, FIRST_TRUNCATIONS};
    use pandofs_placement::ServerLoad;
    use pandofs_types::Ino;
    use pandofs_types::limits::MAX_IO_BYTES;
    use slotmap::SlotMap;

    const OTHER: ServerId = ServerId(1);

    fn done(ticket: u64) -> PeerMessage {
        PeerMessage::DataDone {
            ticket,
            reply: DataReply::Done,
        }
    }

    fn large(ticket: u64) -> PeerMessage {
        let data = vec![7; MAX_IO_BYTES];
        PeerMessage::Data {
            ticket,
            request: DataRequest::Write {
                truncations: FIRST_TRUNCATIONS,
                ino: Ino(1),
                offset: 0,
                data,
            },
        }
    }

    fn key() -> ConnectionKey {
        SlotMap::<ConnectionKey, ()>::with_key().insert(())
    }

    #[test]
    fn a_link_is_opened_when_there_is_something_to_say() {
        let now = Instant::now();
        let mut peers = Peers::new([OTHER].into_iter(), now);
        assert_eq!(peers.next_due(), None);
        assert!(peers.take_due(now).is_empty());
        peers.send(OTHER, done(1));
        assert!(peers.take_ready().is_empty());
        assert_eq!(peers.take_due(now), [OTHER]);
        assert!(peers.take_due(now).is_empty(), "it is being opened");
        peers.send(OTHER, done(2));
        assert!(peers.take_ready().is_empty());
        assert_eq!(peers.opened(OTHER, key()), [done(1), done(2)]);
        peers.send(OTHER, done(3));
        assert_eq!(peers.take_ready(), [(key(), vec![done(3)])]);
        assert!(peers.take_ready().is_empty());
    }

    #[test]
    fn a_link_that_failed_is_tried_again_later_and_later() {
        let mut now = Instant::now();
        let mut peers = Peers::new([OTHER].into_iter(), now);
        peers.send(OTHER, done(1));
        assert!(peers.take_ready().is_empty());
        let mut pause = MIN_LINK_PAUSE;
        for attempt in 0..10 {
            assert_eq!(peers.take_due(now), [OTHER]);
            assert_eq!(peers.closed(OTHER, now), attempt == 0);
            assert_eq!(peers.next_due(), Some(now + pause));
            assert!(
                peers
                    .take_due(now + pause - Duration::from_millis(1))
                    .is_empty()
            );
            now += pause;
            pause = (pause * 2).min(MAX_LINK_PAUSE);
        }
        assert_eq!(pause, MAX_LINK_PAUSE);
        assert_eq!(peers.take_due(now), [OTHER]);
        peers.closed(OTHER, now);
        peers.is_up(OTHER, now);
        assert_eq!(peers.take_due(now), [OTHER]);
        assert_eq!(peers.opened(OTHER, key()), [done(1)]);
    }

    #[test]
    fn what_waits_is_bounded_and_the_oldest_goes() {
        let now = Instant::now();
        let mut peers = Peers::new([OTHER].into_iter(), now);
        for ticket in 0..20 {
            peers.send(OTHER, large(ticket));
            assert!(peers.take_ready().is_empty());
        }
        peers.forget_data(OTHER, 19);
        assert_eq!(peers.take_due(now), [OTHER]);
        let kept = peers.opened(OTHER, key());
        let tickets: Vec<_> = kept
            .iter()
            .map(|message| match message {
                PeerMessage::Data { ticket, .. } => *ticket,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(tickets, [13, 14, 15, 16, 17, 18]);
    }

    #[test]
    fn of_loads_only_the_last_waits() {
        let now = Instant::now();
        let mut peers = Peers::new([OTHER].into_iter(), now);
        let load = |objects| PeerMessage::Load {
            load: ServerLoad {
                objects,
                requests: 1,
            },
            wanted: true,
        };
        peers.send(OTHER, done(1));
        for objects in 0..5 {
            peers.send(OTHER, load(objects));
            assert!(peers.take_ready().is_empty());
        }
        assert_eq!(peers.take_due(now), [OTHER]);
        assert_eq!(peers.opened(OTHER, key()), [done(1), load(4)]);
    }

    #[test]
    fn messages_go_out_in_as_many_frames_as_they_need_and_in_order() {
        let messages: Vec<_> = (0..10).map(large).chain((10..15).map(done)).collect();
        let mut unsent = WriteBuffer::new();
        push_frames(&mut unsent, messages.clone());
        let mut wire = Vec::new();
        assert_eq!(unsent.write_to(&mut wire).unwrap(), Progress::Done);
        let (mut received, mut socket) = (ReadBuffer::new(), wire.as_slice());
        let (mut seen, mut frames) = (Vec::new(), 0);
        while received.fill_from(&mut socket).unwrap() > 0 {
            while let Some(body) = received.next_frame().unwrap() {
                let frame: PeerFrame = frame::decode(body).unwrap();
                seen.extend(frame.messages);
                frames += 1;
            }
        }
        assert!(seen == messages, "{} messages", seen.len());
        assert!((3..=8).contains(&frames), "{frames} frames");
    }
}
