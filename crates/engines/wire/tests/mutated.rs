//! Messages that are almost right: bytes of real ones, changed, cut and put together anew.
//!
//! Each is a value or an error, and a value that was understood can be said again.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use pandofs_formats::samples;
use pandofs_wire::frame;
use pandofs_wire::message::{AnswerBody, AnswerFrame, PeerFrame, RequestBody, RequestFrame};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::LazyLock;

static REQUESTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(requests);
static ANSWERS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(answers);
static PEERS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(peers);

/// Bytes of the frame's body.
fn body(value: &impl Serialize) -> Vec<u8> {
    let mut framed = Vec::new();
    frame::encode_into(&mut framed, value).unwrap();
    framed.split_off(frame::HEADER_BYTES)
}

fn requests() -> Vec<Vec<u8>> {
    let shard = samples::requests().into_iter();
    let shard = shard.map(|(_, request)| RequestBody::Shard(samples::shard_request(request)));
    let data = samples::data_requests().into_iter();
    let data = data.map(|(_, request)| RequestBody::Data(request));
    let admin = samples::admin_requests().into_iter();
    let admin = admin.map(|(_, request)| RequestBody::Admin(request));
    let all = shard.chain(data).chain(admin);
    all.map(|of| body(&RequestFrame { id: 7, body: of }))
        .collect()
}

fn answers() -> Vec<Vec<u8>> {
    let replies = samples::replies().into_iter();
    let replies = replies.map(|(_, reply)| AnswerBody::Shard(Ok(reply)));
    let refusals = samples::refusals().into_iter();
    let refusals = refusals.map(|(_, refusal)| AnswerBody::Shard(Err(refusal)));
    let data = samples::data_replies().into_iter();
    let data = data.map(|(_, reply)| AnswerBody::Data(reply));
    let admin = samples::admin_replies().into_iter();
    let admin = admin.map(|(_, reply)| AnswerBody::Admin(reply));
    let all = replies.chain(refusals).chain(data).chain(admin);
    all.map(|of| body(&AnswerFrame { id: 7, body: of }))
        .collect()
}

fn peers() -> Vec<Vec<u8>> {
    let all = samples::peer_messages().into_iter();
    all.map(|(_, message)| {
        body(&PeerFrame {
            messages: vec![message],
        })
    })
    .collect()
}

#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Flip(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    /// The rest is another sample's.
    Splice(Index, Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        (
            at(),
            prop_oneof![Just(0), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()]
        )
            .prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        at().prop_map(Change::Cut),
        (at(), vec(any::<u8>(), 1..12)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (at(), at(), at()).prop_map(|(at, other, from)| Change::Splice(at, other, from)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change, all: &[Vec<u8>]) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match change {
        Change::Set(at, byte) => bytes[at.index(length)] = *byte,
        Change::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
        Change::Cut(at) => bytes.truncate(at.index(length)),
        Change::Insert(at, more) => {
            let at = at.index(length);
            bytes.splice(at..at, more.iter().copied());
        }
        Change::Splice(at, other, from) => {
            let other = &all[other.index(all.len())];
            bytes.truncate(at.index(length));
            bytes.extend_from_slice(&other[from.index(other.len())..]);
        }
    }
}

fn check<T: DeserializeOwned + Serialize + PartialEq + Debug>(
    all: &[Vec<u8>],
    sample: Index,
    changes: &[Change],
) {
    let mut bytes = all[sample.index(all.len())].clone();
    assert!(frame::decode::<T>(&bytes).is_ok(), "a sample is understood");
    for change in changes {
        apply(&mut bytes, change, all);
    }
    if let Ok(value) = frame::decode::<T>(&bytes) {
        let again = body(&value);
        let understood = frame::decode::<T>(&again).unwrap();
        // Compared as bytes: a figure that is no number equals nothing.
        assert_eq!(body(&understood), again);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn requests_are_understood_or_refused(sample in any::<Index>(), changes in vec(change(), 1..6)) {
        check::<RequestFrame>(&REQUESTS, sample, &changes);
    }

    #[test]
    fn answers_are_understood_or_refused(sample in any::<Index>(), changes in vec(change(), 1..6)) {
        check::<AnswerFrame>(&ANSWERS, sample, &changes);
    }

    #[test]
    fn messages_of_servers_are_understood_or_refused(
        sample in any::<Index>(),
        changes in vec(change(), 1..6),
    ) {
        check::<PeerFrame>(&PEERS, sample, &changes);
    }
}
