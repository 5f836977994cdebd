//! First contact: the cluster map, asked of a server of which only the address is known.
//!
//! A server tells a client that looks for another file system which one it has. With that its map can be asked for.

use crate::error::{ClientError, Result};
use pandofs_api::{AdminReply, AdminRequest};
use pandofs_placement::ClusterMap;
use pandofs_types::FsId;
use pandofs_wire::address::{self, Address, Stream};
use pandofs_wire::buffer::{ReadBuffer, WriteBuffer};
use pandofs_wire::hello::{Hello, HelloAnswer, HelloRefusal, Peer};
use pandofs_wire::message::{AnswerBody, AnswerFrame, RequestBody, RequestFrame};
use std::io::{self, ErrorKind};
use std::time::Duration;

/// The map of the first of these servers that answers within `patience`.
///
/// # Errors
/// `Protocol`, with what each of them said.
pub(crate) fn map_of_any<'a>(
    addresses: impl IntoIterator<Item = &'a Address>,
    patience: Duration,
) -> Result<ClusterMap> {
    let mut causes = Vec::new();
    for address in addresses {
        match map_of(address, patience) {
            Ok(map) => return Ok(map),
            Err(cause) => causes.push(cause),
        }
    }
    if causes.is_empty() {
        causes.push("no address of a server is given".to_owned());
    }
    Err(ClientError::Protocol(causes.join("; ")))
}

fn map_of(address: &Address, patience: Duration) -> std::result::Result<ClusterMap, String> {
    let about = |cause: &dyn std::fmt::Display| format!("the server at {address}: {cause}");
    let fs = match Contact::begin(address, FsId(0), patience)? {
        (_, HelloAnswer::Refused(HelloRefusal::WrongFileSystem { ours, .. })) => ours,
        (_, HelloAnswer::Welcome { .. }) => FsId(0),
        (_, HelloAnswer::Refused(refusal)) => return Err(about(&refusal)),
    };
    let mut contact = match Contact::begin(address, fs, patience)? {
        (contact, HelloAnswer::Welcome { .. }) => contact,
        (_, HelloAnswer::Refused(refusal)) => return Err(about(&refusal)),
    };
    let body = RequestBody::Admin(AdminRequest::Map);
    let answer = contact.ask(&RequestFrame { id: 0, body });
    match answer.map_err(|error| about(&error))?.body {
        AnswerBody::Admin(AdminReply::Map(text)) => {
            ClusterMap::from_json(&text).map_err(|error| about(&error))
        }
        other => Err(about(&format!("it answered {other:?}"))),
    }
}

/// A connection for one question.
struct Contact {
    stream: Stream,
    incoming: ReadBuffer,
}

impl Contact {
    fn begin(
        address: &Address,
        fs: FsId,
        patience: Duration,
    ) -> std::result::Result<(Contact, HelloAnswer), String> {
        // It names the address.
        let stream = address::connect(address, patience).map_err(|error| error.to_string())?;
        let mut contact = Contact {
            incoming: ReadBuffer::of(&stream),
            stream,
        };
        let answer = contact.greet(fs, patience);
        match answer.map_err(|error| format!("the server at {address}: {error}"))? {
            Ok(answer) => Ok((contact, answer)),
            Err(refusal) => Err(format!("the server at {address}: {refusal}")),
        }
    }

    fn greet(
        &mut self,
        fs: FsId,
        patience: Duration,
    ) -> io::Result<std::result::Result<HelloAnswer, HelloRefusal>> {
        self.stream.set_read_timeout(Some(patience))?;
        self.stream.set_write_timeout(Some(patience))?;
        let peer = Peer::Admin;
        self.send(&Hello { fs, peer })?;
        loop {
            let frame = self.incoming.next_frame().map_err(io::Error::other)?;
            if let Some(body) = frame {
                return Ok(HelloAnswer::decode(body));
            }
            self.fill()?;
        }
    }

    fn ask(&mut self, request: &RequestFrame) -> io::Result<AnswerFrame> {
        self.send(request)?;
        loop {
            let answer = self.incoming.next_message().map_err(io::Error::other)?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
            self.fill()?;
        }
    }

    fn send(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        let mut outgoing = WriteBuffer::of(&self.stream);
        outgoing.push(value).map_err(io::Error::other)?;
        outgoing.write_to(&mut self.stream).map(drop)?;
        match outgoing.pending() {
            0 => Ok(()),
            _ => Err(ErrorKind::TimedOut.into()),
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        match self.incoming.fill_from_stream(&mut self.stream) {
            Ok(0) => Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                "it closed the connection",
            )),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(io::Error::new(
                ErrorKind::TimedOut,
                "it sent no answer in time",
            )),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Clusters, Source};
    use pandofs_placement::{DirPolicy, ServerInfo, Settings};
    use pandofs_types::{Epoch, HashKey, ServerId};
    use pandofs_wire::address::Listener;
    use pandofs_wire::hello::Machine;
    use std::thread::{self, JoinHandle};

    const PATIENCE: Duration = Duration::from_secs(20);

    fn map(address: &Address) -> ClusterMap {
        let server = ServerInfo {
            id: ServerId(0),
            addresses: vec![address.to_string()],
            weight: ServerInfo::WEIGHT_ONE,
            domain: "rack".to_owned(),
        };
        let (fs, key, policy) = (FsId(9), HashKey(1, 2), DirPolicy::default());
        let name = "grove".to_owned();
        ClusterMap::create(fs, name, key, 2, vec![server], policy, Settings::default()).unwrap()
    }

    /// The map with another server.
    fn next(map: &ClusterMap) -> ClusterMap {
        let mut more = map.servers[0].clone();
        more.id = ServerId(1);
        more.addresses[0].push('1');
        map.with_servers(vec![more]).unwrap()
    }

    /// A server that takes so many connections and tells its map.
    fn serve(listener: Listener, map: ClusterMap, connections: usize) -> JoinHandle<()> {
        thread::spawn(move || {
            for _ in 0..connections {
                let mut stream = listener.accept().unwrap();
                let mut incoming = ReadBuffer::of(&stream);
                let hello = loop {
                    if let Some(body) = incoming.next_frame().unwrap() {
                        break Hello::decode(body, map.fs);
                    }
                    incoming.fill_from_stream(&mut stream).unwrap();
                };
                let mut outgoing = WriteBuffer::of(&stream);
                let Ok(hello) = hello else {
                    let refused = HelloAnswer::Refused(hello.unwrap_err());
                    outgoing.push(&refused).unwrap();
                    outgoing.write_to(&mut stream).map(drop).unwrap();
                    continue;
                };
                assert_eq!(hello.peer, Peer::Admin);
                let welcome = HelloAnswer::Welcome {
                    server: ServerId(0),
                    boot: 1,
                    epoch: map.epoch,
                    machine: Machine(1),
                    known_since: 0,
                };
                outgoing.push(&welcome).unwrap();
                outgoing.write_to(&mut stream).map(drop).unwrap();
                let request: RequestFrame = loop {
                    if let Some(request) = incoming.next_message().unwrap() {
                        break request;
                    }
                    incoming.fill_from_stream(&mut stream).unwrap();
                };
                assert_eq!(request.body, RequestBody::Admin(AdminRequest::Map));
                let body = AnswerBody::Admin(AdminReply::Map(map.to_json()));
                let answer = AnswerFrame {
                    id: request.id,
                    body,
                };
                outgoing.push(&answer).unwrap();
                outgoing.write_to(&mut stream).map(drop).unwrap();
            }
        })
    }

    #[test]
    fn any_server_has_the_map_and_newer_ones() {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::Unix(folder.path().join("server"));
        let nobody = Address::Unix(folder.path().join("nobody"));
        let first = map(&address);
        let server = serve(Listener::bind(&address).unwrap(), first.clone(), 2);
        assert_eq!(map_of_any([&nobody, &address], PATIENCE), Ok(first.clone()));
        server.join().unwrap();

        let clusters = Clusters::new(first.clone(), Source::Servers, 8).unwrap();
        assert!(!clusters.reread(), "nobody answers");
        std::fs::remove_file(folder.path().join("server")).unwrap();
        let server = serve(Listener::bind(&address).unwrap(), next(&first), 2);
        assert!(clusters.reread());
        assert_eq!(clusters.current().map.epoch, Epoch(2));
        server.join().unwrap();
    }

    #[test]
    fn each_that_did_not_answer_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name| Address::Unix(folder.path().join(name));
        let error = map_of_any([&at("one"), &at("two")], PATIENCE).unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("/one: ") && words.contains("/two: "),
            "{words}"
        );
        let none = map_of_any([], PATIENCE).unwrap_err().to_string();
        assert_eq!(none, "no address of a server is given");
    }

    /// Something else listens there.
    #[test]
    fn another_protocol_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::Unix(folder.path().join("server"));
        let listener = Listener::bind(&address).unwrap();
        let other = thread::spawn(move || {
            let mut stream = listener.accept().unwrap();
            io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n").unwrap();
        });
        let error = map_of_any([&address], PATIENCE).unwrap_err();
        assert!(error.to_string().contains("the server at unix:"), "{error}");
        other.join().unwrap();
    }
}
