//! The protocol between PandoFS's processes: sockets, framing, handshake and messages.
//!
//! `docs/protocol.md` gives it byte by byte.
//!
//! Invariant: bytes that came from a peer give a value or an error, never a panic, and no peer makes
//! this crate keep more memory than one read's worth and a small multiple of what it sent. Nothing in
//! here knows what a message does.

pub mod address;
pub mod buffer;
pub mod frame;
pub mod hello;
pub mod message;
