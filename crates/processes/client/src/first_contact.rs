//! First contact: the cluster map, asked of a server of which only the address is known.
//!
//! A server tells whoever looks for another file system which one it has. With that its map can be asked for.

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
