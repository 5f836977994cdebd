//! Decoders of the bytes that clients and servers send.

use crate::samples;
use pandofs_placement::{ClusterMap, DirMap, PartitionIndex};
use pandofs_types::{FsId, ShardId};
use pandofs_wire::buffer::ReadBuffer;
use pandofs_wire::frame;
use pandofs_wire::hello::{Hello, HelloAnswer};
use pandofs_wire::message::{
    AnswerBody, AnswerFrame, PeerFrame, RequestBody, RequestFrame, Tailed,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The file system of the golden hellos.
const GOLDEN_FS: FsId = FsId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

/// Decodes the body of a frame. A decoded body is encoded again, and decoded as the same; it is compared as
/// bytes, since a figure that is no number equals nothing.
fn body<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> bool {
    let Ok(value) = frame::decode::<T>(bytes) else {
        return false;
    };
    let said = |value: &T| {
        let mut framed = Vec::new();
        // Longer than it came it may be too long to be sent.
        frame::encode_into(&mut framed, value).ok()?;
        Some(framed.split_off(frame::HEADER_BYTES))
    };
    let Some(again) = said(&value) else {
        return true;
    };
    let understood = frame::decode::<T>(&again);
    let Ok(understood) = understood else {
        panic!("what was understood is not when it is said again");
    };
    assert_eq!(said(&understood).as_ref(), Some(&again));
    true
}

pub(super) fn request(bytes: &[u8]) -> bool {
    body::<RequestFrame>(bytes)
}

pub(super) fn answer(bytes: &[u8]) -> bool {
    body::<AnswerFrame>(bytes)
}

pub(super) fn peer_frame(bytes: &[u8]) -> bool {
    body::<PeerFrame>(bytes)
}

pub(super) fn commit_message(bytes: &[u8]) -> bool {
    body::<pandofs_api::CommitMessage>(bytes)
}

pub(super) fn step(bytes: &[u8]) -> bool {
    body::<pandofs_api::Step>(bytes)
}

pub(super) fn cluster_map(bytes: &[u8]) -> bool {
    let Ok(map) = postcard::from_bytes::<ClusterMap>(bytes) else {
        return false;
    };
    // Decoding refuses a map that is not valid.
    assert_eq!(map.validate(), Ok(()));
    body::<ClusterMap>(bytes);
    true
}

pub(super) fn dir_map(bytes: &[u8]) -> bool {
    body::<DirMap>(bytes)
}

/// Frames as they arrive, one behind the other.
pub(super) fn frames(bytes: &[u8]) -> bool {
    let mut buffer = filled(bytes);
    let mut found = false;
    while let Ok(Some(_)) = buffer.next_frame() {
        found = true;
    }
    found
}

pub(super) fn request_stream(bytes: &[u8]) -> bool {
    stream::<RequestFrame>(bytes)
}

pub(super) fn answer_stream(bytes: &[u8]) -> bool {
    stream::<AnswerFrame>(bytes)
}

/// Messages as they arrive, those with long data included.
fn stream<T: Tailed>(bytes: &[u8]) -> bool {
    let mut buffer = filled(bytes);
    let mut rest = bytes;
    let mut found = false;
    loop {
        match buffer.next_message::<T>() {
            Ok(Some(_)) => found = true,
            Ok(None) => {
                // A tail goes to where it is in the message, and not through the buffer.
                match buffer.fill_from(&mut rest) {
                    Ok(0) | Err(_) => return found,
                    Ok(_) => {}
                }
            }
            Err(_) => return found,
        }
    }
}

/// A buffer to which all of it has come.
fn filled(mut bytes: &[u8]) -> ReadBuffer {
    let mut buffer = ReadBuffer::new();
    while buffer.fill_from(&mut bytes).is_ok_and(|count| count > 0) {}
    buffer
}

pub(super) fn hello(bytes: &[u8]) -> bool {
    Hello::decode(bytes, GOLDEN_FS).is_ok()
}

pub(super) fn hello_answer(bytes: &[u8]) -> bool {
    HelloAnswer::decode(bytes).is_ok()
}

fn framed(value: &impl Serialize) -> Option<Vec<u8>> {
    let mut framed = Vec::new();
    frame::encode_into(&mut framed, value).ok()?;
    Some(framed)
}

pub(super) fn requests_with_tails() -> Vec<Vec<u8>> {
    let requests = samples::data_requests().into_iter();
    requests
        .filter_map(|(_, request)| {
            framed(&RequestFrame {
                id: 7,
                body: RequestBody::Data(request),
            })
        })
        .collect()
}

pub(super) fn answers_with_tails() -> Vec<Vec<u8>> {
    let replies = samples::data_replies().into_iter();
    replies
        .filter_map(|(_, reply)| {
            framed(&AnswerFrame {
                id: 7,
                body: AnswerBody::Data(reply),
            })
        })
        .collect()
}

pub(super) fn cluster_maps() -> Vec<Vec<u8>> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../core/placement/tests/golden/cluster-map-1.json"
    );
    let map = std::fs::read_to_string(path)
        .ok()
        .and_then(|text| ClusterMap::from_json(&text).ok());
    map.and_then(|map| postcard::to_stdvec(&map).ok())
        .into_iter()
        .collect()
}

pub(super) fn dir_maps() -> Vec<Vec<u8>> {
    let mut split = DirMap::with_slots((0..4).map(ShardId).collect(), 1);
    for index in [1, 2, 3] {
        split.activate(PartitionIndex(index));
    }
    [DirMap::single(ShardId(3)), split]
        .iter()
        .filter_map(|map| postcard::to_stdvec(map).ok())
        .collect()
}
