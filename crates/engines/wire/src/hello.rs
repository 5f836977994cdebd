//! The handshake: the first frame in either direction of each connection.
//!
//! ```text
//! hello  := "PNDO" | version u16 LE | fs, peer        (postcard)
//! answer := "PNDO" | version u16 LE | HelloAnswer     (postcard)
//! ```
//!
//! The frame around them, the magic and the version are the same in every version of the protocol, so
//! that either side can tell a peer of another version from one that is no PandoFS at all. The bytes
//! after the version may change with it.

use pandofs_types::{Epoch, FsId, ServerId, SessionId};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Serialize, Serializer};

/// First bytes of the first frame in either direction.
pub const MAGIC: [u8; 4] = *b"PNDO";
/// The version of the protocol that this crate speaks; the only one.
pub const PROTOCOL_VERSION: u16 = 1;
/// Bytes of magic and version.
const PREAMBLE_BYTES: usize = 6;

/// The peer that connects, and its file system. Encoded with magic and version before it; decoded
/// with [`Hello::decode`] alone, which checks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Another one than the server's is refused.
    pub fs: FsId,
    /// Decides which messages it may send.
    pub peer: Peer,
}

/// The peer that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Peer {
    /// A mount or an open library handle. `generation` grows when it gives up a connection to this server over which it
    /// asked for a change of a data object and has no answer: connections of smaller ones are done with. (A writes and the
    /// network dies; A writes again over another connection, and then something newer; were the first one still read when
    /// the network delivers what it was given, the old bytes would stand in place of the new ones.)
    Client {
        /// Drawn by the client; the same on all servers.
        session: SessionId,
        /// Smaller ones than the largest that was seen are refused.
        generation: u64,
    },
    /// Another server of the cluster.
    Server {
        /// Its number in the cluster map.
        id: ServerId,
    },
    /// A tool that asks for the state of the server and opens no files.
    Admin,
}

/// Answer of the server to a [`Hello`]. After a refusal it closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloAnswer {
    /// The connection is taken; messages may follow.
    Welcome {
        /// Its number in the cluster map.
        server: ServerId,
        /// Drawn at random when the server's process starts: another value than last time tells
        /// the peer that the server was restarted.
        boot: u64,
        /// Of the cluster map that the server goes by.
        epoch: Epoch,
        /// Another one than last time: what it acknowledged and had not synced may be lost.
        machine: Machine,
        /// Since when this process of the server knows the session that says hello: a number drawn when it first heard
        /// of it. Another one than last time tells the client that the server has let go of all that the session had
        /// open. 0 where no session says hello.
        known_since: u64,
    },
    /// The connection is not taken.
    Refused(HelloRefusal),
}

/// In which start of its machine a server runs: another value than last time means that what it
/// acknowledged before and has not synced may be lost. A server that is killed and started again
/// has the same one, and has lost nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Machine(pub u64);

/// Why a server does not take a connection. `ours` is the server's and `theirs` the connecting peer's,
/// whichever side reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum HelloRefusal {
    /// The first bytes are not the protocol's.
    #[error(
        "the other side does not speak PandoFS's protocol: check that the address and port are \
         those of a pandofs server"
    )]
    WrongMagic,
    /// Both speak the protocol, in versions that do not understand each other.
    #[error(
        "the server speaks version {ours} of the protocol and this peer version {theirs}: install \
         the same release of pandofs on both"
    )]
    WrongVersion {
        /// The number in the hello.
        ours: u16,
        /// The number in the hello.
        theirs: u16,
    },
    /// The peer looks for another cluster.
    #[error(
        "the server belongs to the file system {ours}, not to {theirs}: check that the cluster file \
         is this cluster's and that its addresses are right"
    )]
    WrongFileSystem {
        /// The server's, by its data directory.
        ours: FsId,
        /// By the peer's cluster file.
        theirs: FsId,
    },
    /// There is no room for one more.
    #[error("the server has all the {limit} connections it takes: close some, or try again later")]
    TooManyConnections {
        /// The server's setting.
        limit: u32,
    },
    /// The log is still being replayed.
    #[error("the server is still starting up: try again in a moment")]
    NotReady,
    /// The hello cannot be decoded.
    #[error(
        "the first message has the right version but cannot be read ({bytes} bytes): one side's \
         pandofs is damaged or was built from changed sources; reinstall it"
    )]
    Malformed {
        /// Of the hello.
        bytes: u32,
    },
    /// A connection of a later generation was welcomed.
    #[error("the client has opened newer connections since, which take the place of this one")]
    Superseded,
}

impl HelloRefusal {
    /// Whether the same hello may be welcome later.
    pub fn is_temporary(self) -> bool {
        match self {
            HelloRefusal::TooManyConnections { .. }
            | HelloRefusal::NotReady
            | HelloRefusal::Superseded => true,
            HelloRefusal::WrongMagic
            | HelloRefusal::WrongVersion { .. }
            | HelloRefusal::WrongFileSystem { .. }
            | HelloRefusal::Malformed { .. } => false,
        }
    }
}

impl Hello {
    /// Decodes and checks the body of a connection's first frame, at the server of file system `ours`.
    ///
    /// # Errors
    /// The refusal that the server is to answer: `WrongMagic`, `WrongVersion`, `Malformed` or `WrongFileSystem`.
    pub fn decode(body: &[u8], ours: FsId) -> Result<Hello, HelloRefusal> {
        let (version, rest) = split_preamble(body)?;
        if version != PROTOCOL_VERSION {
            return Err(HelloRefusal::WrongVersion {
                ours: PROTOCOL_VERSION,
                theirs: version,
            });
        }
        let (fs, peer) = decode_rest(body, rest)?;
        if fs != ours {
            return Err(HelloRefusal::WrongFileSystem { ours, theirs: fs });
        }
        Ok(Hello { fs, peer })
    }
}

impl HelloAnswer {
    /// Decodes the body of the first frame that a server sent, at the peer that connected to it.
    ///
    /// # Errors
    /// `WrongMagic`, `WrongVersion` or `Malformed`, when the answer itself cannot be read.
    pub fn decode(body: &[u8]) -> Result<HelloAnswer, HelloRefusal> {
        let (version, rest) = split_preamble(body)?;
        if version != PROTOCOL_VERSION {
            return Err(HelloRefusal::WrongVersion {
                ours: version,
                theirs: PROTOCOL_VERSION,
            });
        }
        Ok(match decode_rest(body, rest)? {
            AnswerRest::Welcome {
                server,
                boot,
                epoch,
                machine,
                known_since,
            } => HelloAnswer::Welcome {
                server,
                boot,
                epoch,
                machine,
                known_since,
            },
            AnswerRest::Refused(refusal) => HelloAnswer::Refused(refusal),
        })
    }
}

/// Contents of an answer after the preamble in version 1.
#[derive(Serialize, Deserialize)]
enum AnswerRest {
    Welcome {
        server: ServerId,
        boot: u64,
        epoch: Epoch,
        machine: Machine,
        known_since: u64,
    },
    Refused(HelloRefusal),
}

impl Serialize for Hello {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_with_preamble(serializer, &(self.fs, self.peer))
    }
}

impl Serialize for HelloAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rest = match *self {
            HelloAnswer::Welcome {
                server,
                boot,
                epoch,
                machine,
                known_since,
            } => AnswerRest::Welcome {
                server,
                boot,
                epoch,
                machine,
                known_since,
            },
            HelloAnswer::Refused(refusal) => AnswerRest::Refused(refusal),
        };
        serialize_with_preamble(serializer, &rest)
    }
}

/// Writes magic and version byte by byte: postcard would make a varint of a `u16`, and the six bytes
/// have to outlive postcard.
fn serialize_with_preamble<S: Serializer>(
    serializer: S,
    rest: &impl Serialize,
) -> Result<S::Ok, S::Error> {
    let mut tuple = serializer.serialize_tuple(PREAMBLE_BYTES + 1)?;
    for byte in MAGIC.into_iter().chain(PROTOCOL_VERSION.to_le_bytes()) {
        tuple.serialize_element(&byte)?;
    }
    tuple.serialize_element(rest)?;
    tuple.end()
}

/// The version in `body`, and what follows it.
fn split_preamble(body: &[u8]) -> Result<(u16, &[u8]), HelloRefusal> {
    match body.split_first_chunk::<PREAMBLE_BYTES>() {
        Some((&[a, b, c, d, low, high], rest)) if [a, b, c, d] == MAGIC => {
            Ok((u16::from_le_bytes([low, high]), rest))
        }
        _ => Err(HelloRefusal::WrongMagic),
    }
}

fn decode_rest<'a, T: Deserialize<'a>>(body: &[u8], rest: &'a [u8]) -> Result<T, HelloRefusal> {
    // Why it cannot be read does not help without the bytes; how many there were may.
    let bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
    crate::frame::decode(rest).map_err(|_| HelloRefusal::Malformed { bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

    const FS: FsId = FsId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

    fn body_of(value: &impl Serialize) -> Vec<u8> {
        let mut out = Vec::new();
        frame::encode_into(&mut out, value).unwrap();
        out.split_off(frame::HEADER_BYTES)
    }

    #[test]
    fn the_bytes_of_a_hello_are_pinned() {
        let fs = FsId(300);
        assert_eq!(
            body_of(&Hello {
                fs,
                peer: Peer::Client {
                    session: SessionId(5),
                    generation: 6,
                }
            }),
            [b'P', b'N', b'D', b'O', 1, 0, 0xac, 0x02, 0, 5, 6]
        );
        assert_eq!(
            body_of(&Hello {
                fs,
                peer: Peer::Server { id: ServerId(3) }
            }),
            [b'P', b'N', b'D', b'O', 1, 0, 0xac, 0x02, 1, 3]
        );
        assert_eq!(
            body_of(&Hello {
                fs,
                peer: Peer::Admin
            }),
            [b'P', b'N', b'D', b'O', 1, 0, 0xac, 0x02, 2]
        );
    }

    #[test]
    fn the_bytes_of_an_answer_are_pinned() {
        let answer = HelloAnswer::Welcome {
            server: ServerId(3),
            boot: 300,
            epoch: Epoch(7),
            machine: Machine(301),
            known_since: 302,
        };
        assert_eq!(
            body_of(&answer),
            [
                b'P', b'N', b'D', b'O', 1, 0, 0, 3, 0xac, 0x02, 7, 0xad, 0x02, 0xae, 0x02
            ]
        );

        let refusals: [(HelloRefusal, &[u8]); 7] = [
            (HelloRefusal::WrongMagic, &[0]),
            (
                HelloRefusal::WrongVersion { ours: 1, theirs: 2 },
                &[1, 1, 2],
            ),
            (
                HelloRefusal::WrongFileSystem {
                    ours: FsId(8),
                    theirs: FsId(9),
                },
                &[2, 8, 9],
            ),
            (
                HelloRefusal::TooManyConnections { limit: 300 },
                &[3, 0xac, 0x02],
            ),
            (HelloRefusal::NotReady, &[4]),
            (HelloRefusal::Malformed { bytes: 10 }, &[5, 10]),
            (HelloRefusal::Superseded, &[6]),
        ];
        for (refusal, rest) in refusals {
            let body = body_of(&HelloAnswer::Refused(refusal));
            assert_eq!(
                body,
                [&[b'P', b'N', b'D', b'O', 1, 0, 1], rest].concat(),
                "{refusal:?}"
            );
            assert_eq!(
                HelloAnswer::decode(&body),
                Ok(HelloAnswer::Refused(refusal))
            );
        }
    }

    #[test]
    fn what_was_said_is_understood() {
        for peer in [
            Peer::Client {
                session: SessionId(u64::MAX),
                generation: u64::MAX,
            },
            Peer::Server {
                id: ServerId(u16::MAX),
            },
            Peer::Admin,
        ] {
            let hello = Hello { fs: FS, peer };
            assert_eq!(Hello::decode(&body_of(&hello), FS), Ok(hello));
        }
        let answer = HelloAnswer::Welcome {
            server: ServerId(9),
            boot: u64::MAX,
            epoch: Epoch(u64::MAX),
            machine: Machine(u64::MAX),
            known_since: u64::MAX,
        };
        assert_eq!(HelloAnswer::decode(&body_of(&answer)), Ok(answer));
    }

    #[test]
    fn another_version_is_told_from_garbage_whatever_follows() {
        for rest in [&b""[..], b"anything at all", &[0xff; 40]] {
            let body = [&b"PNDO\x02\x00"[..], rest].concat();
            assert_eq!(
                Hello::decode(&body, FS),
                Err(HelloRefusal::WrongVersion { ours: 1, theirs: 2 })
            );
            assert_eq!(
                HelloAnswer::decode(&body),
                Err(HelloRefusal::WrongVersion { ours: 2, theirs: 1 })
            );
        }
        for garbage in [
            &b""[..],
            b"PND",
            b"PNDO",
            b"PNDO\x01",
            b"GET / HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(Hello::decode(garbage, FS), Err(HelloRefusal::WrongMagic));
            assert_eq!(HelloAnswer::decode(garbage), Err(HelloRefusal::WrongMagic));
        }
    }

    #[test]
    fn a_hello_that_is_cut_or_goes_on_is_malformed() {
        let body = body_of(&Hello {
            fs: FS,
            peer: Peer::Server { id: ServerId(3) },
        });
        for cut in PREAMBLE_BYTES..body.len() {
            assert_eq!(
                Hello::decode(&body[..cut], FS),
                Err(HelloRefusal::Malformed { bytes: cut as u32 })
            );
        }
        let longer = [&body[..], &[0]].concat();
        let bytes = longer.len() as u32;
        assert_eq!(
            Hello::decode(&longer, FS),
            Err(HelloRefusal::Malformed { bytes })
        );
    }

    #[test]
    fn another_file_system_is_refused() {
        let body = body_of(&Hello {
            fs: FsId(1),
            peer: Peer::Admin,
        });
        let refusal = Hello::decode(&body, FS).unwrap_err();
        assert_eq!(
            refusal,
            HelloRefusal::WrongFileSystem {
                ours: FS,
                theirs: FsId(1)
            }
        );
        assert_eq!(
            refusal.to_string(),
            "the server belongs to the file system 0123456789abcdef0011223344556677, not to \
             00000000000000000000000000000001: check that the cluster file is this cluster's and \
             that its addresses are right"
        );
    }

    #[test]
    fn only_what_passes_by_itself_is_temporary() {
        assert!(HelloRefusal::NotReady.is_temporary());
        assert!(HelloRefusal::Superseded.is_temporary());
        assert!(HelloRefusal::TooManyConnections { limit: 1 }.is_temporary());
        assert!(!HelloRefusal::WrongVersion { ours: 1, theirs: 2 }.is_temporary());
    }
}
