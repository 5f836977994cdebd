//! Questions to one server about its state.

use pandofs_api::{AdminReply, AdminRequest, ScrubOrder, ScrubReport, ServerStatus, ShardStatus};
use pandofs_placement::{ClusterMap, ServerInfo};
use pandofs_types::FsId;
use pandofs_wire::address::{self, Address, AddressError, Stream};
use pandofs_wire::buffer::{Progress, ReadBuffer, WriteBuffer};
use pandofs_wire::frame;
use pandofs_wire::hello::{Hello, HelloAnswer, HelloRefusal, Peer};
use pandofs_wire::message::{AnswerBody, AnswerFrame, RequestBody, RequestFrame};
use std::io;
use std::time::Duration;

/// How long a server may take for one answer before it counts as away.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may take to accept a connection before it counts as away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Why a server did not answer a question.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    #[error("it has no address in the cluster map")]
    NoAddress,
    #[error(transparent)]
    BadAddress(#[from] AddressError),
    /// It does not run, or the network does not lead to it.
    #[error("{0}")]
    Away(io::Error),
    #[error("it refused the connection: {0}")]
    Refused(HelloRefusal),
    #[error("it broke the protocol: {0}")]
    Protocol(String),
    #[error("it could not do it: {0}")]
    Failed(String),
}

/// A connection to one server, one question at a time.
pub(crate) struct AdminConnection {
    stream: Stream,
    received: ReadBuffer,
    next_id: u64,
    /// How long the server may take for one answer.
    limit: Duration,
}

impl AdminConnection {
    /// Connects to the first of the server's addresses that answers.
    ///
    /// # Errors
    /// That of the last address tried.
    pub(crate) fn open(fs: FsId, server: &ServerInfo) -> Result<AdminConnection, AdminError> {
        AdminConnection::open_within(fs, server, ANSWER_TIMEOUT)
    }

    /// The same, of a server that may take this long for one answer.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_within(
        fs: FsId,
        server: &ServerInfo,
        limit: Duration,
    ) -> Result<AdminConnection, AdminError> {
        let mut error = AdminError::NoAddress;
        for text in &server.addresses {
            match text
                .parse()
                .map_err(AdminError::from)
                .and_then(|address| connect(fs, &address, limit))
            {
                Ok(connection) => return Ok(connection),
                Err(other) => error = other,
            }
        }
        Err(error)
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// `Away` when none comes in time; `Failed` with the server's words; `Protocol`.
    pub(crate) fn ask(&mut self, request: AdminRequest) -> Result<AdminReply, AdminError> {
        let id = self.next_id;
        self.next_id += 1;
        send(
            &mut self.stream,
            &RequestFrame {
                id,
                body: RequestBody::Admin(request),
            },
            self.limit,
        )?;
        let (stream, received) = (&mut self.stream, &mut self.received);
        let answer: AnswerFrame = receive(stream, received, self.limit, |body| {
            frame::decode(body).map_err(|error| AdminError::Protocol(error.to_string()))
        })?;
        match answer.body {
            _ if answer.id != id => Err(AdminError::Protocol(format!(
                "it answered question {} instead of {id}",
                answer.id
            ))),
            AnswerBody::Admin(AdminReply::Failed(why)) => Err(AdminError::Failed(why)),
            AnswerBody::Admin(reply) => Ok(reply),
            AnswerBody::Shard(_)
            | AnswerBody::Data(_)
            | AnswerBody::Done
            | AnswerBody::Leased { .. }
            | AnswerBody::Recalls { .. } => Err(AdminError::Protocol(
                "it answered another kind of question".into(),
            )),
        }
    }

    /// The server's status.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub(crate) fn status(&mut self) -> Result<ServerStatus, AdminError> {
        match self.ask(AdminRequest::Status)? {
            AdminReply::Status(status) => Ok(*status),
            other => Err(unexpected("Status", &other)),
        }
    }

    /// How the server's scrubbing goes, after the order.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub(crate) fn scrub(&mut self, order: ScrubOrder) -> Result<ScrubReport, AdminError> {
        match self.ask(AdminRequest::Scrub(order))? {
            AdminReply::Scrub(report) => Ok(*report),
            other => Err(unexpected("Scrub", &other)),
        }
    }
}

/// Error for an answer of another kind than asked for.
pub(crate) fn unexpected(asked: &str, got: &AdminReply) -> AdminError {
    let kind = match got {
        AdminReply::Done => "Done",
        AdminReply::Status(_) => "Status",
        AdminReply::Map(_) => "Map",
        AdminReply::Pairs { .. } => "Pairs",
        AdminReply::Objects { .. } => "Objects",
        AdminReply::Failed(_) => "Failed",
        AdminReply::Scrub(_) => "Scrub",
        AdminReply::Activity(_) => "Activity",
    };
    AdminError::Protocol(format!("it answered {asked} with {kind}"))
}

fn connect(fs: FsId, address: &Address, limit: Duration) -> Result<AdminConnection, AdminError> {
    let mut stream =
        address::connect(address, CONNECT_TIMEOUT.min(limit)).map_err(AdminError::Away)?;
    stream
        .set_read_timeout(Some(limit))
        .map_err(AdminError::Away)?;
    stream
        .set_write_timeout(Some(limit))
        .map_err(AdminError::Away)?;
    send(
        &mut stream,
        &Hello {
            fs,
            peer: Peer::Admin,
        },
        limit,
    )?;
    let mut received = ReadBuffer::new();
    let answer = receive(&mut stream, &mut received, limit, |body| {
        HelloAnswer::decode(body).map_err(AdminError::Refused)
    })?;
    match answer {
        HelloAnswer::Welcome { .. } => Ok(AdminConnection {
            stream,
            received,
            next_id: 1,
            limit,
        }),
        HelloAnswer::Refused(refusal) => Err(AdminError::Refused(refusal)),
    }
}

fn send(
    stream: &mut Stream,
    value: &impl serde::Serialize,
    limit: Duration,
) -> Result<(), AdminError> {
    let mut out = WriteBuffer::new();
    out.push(value)
        .map_err(|error| AdminError::Protocol(error.to_string()))?;
    // A blocking socket is only "blocked" when its time limit is over.
    match out.write_to(stream).map_err(AdminError::Away)? {
        Progress::Blocked => Err(AdminError::Away(no_answer(limit))),
        _ => Ok(()),
    }
}

fn receive<T>(
    stream: &mut Stream,
    received: &mut ReadBuffer,
    limit: Duration,
    decode: impl FnOnce(&[u8]) -> Result<T, AdminError>,
) -> Result<T, AdminError> {
    loop {
        let next = received
            .next_frame()
            .map_err(|e| AdminError::Protocol(e.to_string()))?;
        if let Some(body) = next {
            return decode(body);
        }
        match received.fill_from(stream) {
            Ok(0) => {
                let closed = io::Error::new(
                    io::ErrorKind::ConnectionReset,
                    "the server closed the connection",
                );
                return Err(AdminError::Away(closed));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(AdminError::Away(no_answer(limit)));
            }
            Err(error) => return Err(AdminError::Away(error)),
        }
    }
}

fn no_answer(limit: Duration) -> io::Error {
    let seconds = (limit.as_secs_f64() * 10.0).ceil() / 10.0;
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!("no answer within {seconds} s"),
    )
}

/// State of one server, as far as it is known.
#[derive(Debug)]
pub(crate) struct ServerView {
    pub info: ServerInfo,
    pub status: Result<ServerStatus, AdminError>,
    /// Missing while it is away.
    pub scrub: Option<ScrubReport>,
}

impl ServerView {
    /// The sum over its shards; 0 while it is away.
    pub(crate) fn sum(&self, of: impl Fn(&ShardStatus) -> u64) -> u64 {
        self.status
            .as_ref()
            .map_or(0, |status| status.shards.iter().map(of).sum())
    }
}

/// Asks all servers at once for their status.
pub(crate) fn ask_all(map: &ClusterMap) -> Vec<ServerView> {
    ask_all_within(map, ANSWER_TIMEOUT)
}

/// The same, of servers of which each may take this long for one answer.
pub(crate) fn ask_all_within(map: &ClusterMap, limit: Duration) -> Vec<ServerView> {
    std::thread::scope(|scope| {
        let questions: Vec<_> = map
            .servers
            .iter()
            .map(|info| {
                scope.spawn(move || {
                    let mut server = AdminConnection::open_within(map.fs, info, limit)?;
                    let status = server.status()?;
                    Ok((status, server.scrub(ScrubOrder::Look)?))
                })
            })
            .collect();
        let servers = map.servers.iter().zip(questions);
        servers
            .map(|(info, question)| {
                let answer = question.join().unwrap_or_else(|_| {
                    Err(AdminError::Protocol(
                        "the thread that asked it panicked".into(),
                    ))
                });
                let (status, scrub) = match answer {
                    Ok((status, scrub)) => (Ok(status), Some(scrub)),
                    Err(error) => (Err(error), None),
                };
                ServerView {
                    info: info.clone(),
                    status,
                    scrub,
                }
            })
            .collect()
    })
}
