//! Properties of frames: whatever the pieces they arrive in, and whatever arrives.

// Helpers stand outside of test functions, where clippy does not know them for tests.
#![allow(clippy::unwrap_used)]

use pandofs_types::{Attr, Credentials, FileKind, FsId, Ino, Name, SetAttr, Time};
use pandofs_wire::buffer::{ReadBuffer, WriteBuffer};
use pandofs_wire::frame::{self, FrameError, HEADER_BYTES};
use pandofs_wire::hello::{Hello, HelloAnswer};
use proptest::collection::vec;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};

/// A message with something of everything: lengths, variants, options, checked names, byte strings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Sample {
    Nothing,
    Numbers(u8, u16, u32, u64, i64, u128),
    Named { name: Option<Name>, ino: Ino },
    Data(bytes::Bytes),
    Many(Vec<Sample>),
}

fn sample() -> impl Strategy<Value = Sample> {
    let leaf = prop_oneof![
        Just(Sample::Nothing),
        any::<(u8, u16, u32, u64, i64, u128)>()
            .prop_map(|(a, b, c, d, e, f)| Sample::Numbers(a, b, c, d, e, f)),
        (vec(any::<u8>(), 0..300), any::<u64>()).prop_map(|(name, ino)| Sample::Named {
            name: Name::new(&name).ok(),
            ino: Ino(ino)
        }),
        vec(any::<u8>(), 0..2_000).prop_map(|data| Sample::Data(data.into())),
    ];
    leaf.prop_recursive(3, 30, 8, |inner| vec(inner, 0..8).prop_map(Sample::Many))
}

fn stream_of<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Vec<u8> {
    let mut out = WriteBuffer::new();
    for sample in samples {
        out.push(sample).unwrap();
    }
    let mut stream = Vec::new();
    let _ = out.write_to(&mut stream).unwrap();
    stream
}

/// Gives the stream in pieces of these lengths, over and over.
struct Pieces<'a> {
    stream: &'a [u8],
    lengths: &'a [usize],
    turn: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.lengths[self.turn % self.lengths.len()].min(room.len());
        self.turn += 1;
        self.stream.read(&mut room[..count])
    }
}

/// All that can be decoded from `stream` given in pieces, the error that ended it, and the bytes left.
fn receive(stream: &[u8], lengths: &[usize]) -> (Vec<Sample>, Option<FrameError>, usize) {
    let mut reader = Pieces {
        stream,
        lengths,
        turn: 0,
    };
    let mut buffer = ReadBuffer::new();
    let mut samples = Vec::new();
    while buffer.fill_from(&mut reader).unwrap() > 0 {
        loop {
            match buffer.next_frame() {
                Ok(None) => break,
                Ok(Some(body)) => match frame::decode(body) {
                    Ok(sample) => samples.push(sample),
                    Err(error) => return (samples, Some(error), buffer.unread()),
                },
                Err(error) => return (samples, Some(error), buffer.unread()),
            }
        }
    }
    (samples, None, buffer.unread())
}

proptest! {
    #[test]
    fn frames_in_any_pieces_are_the_same_frames(
        samples in vec(sample(), 0..40),
        lengths in vec(prop_oneof![1..20_usize, 1..5_000_usize], 1..20),
    ) {
        let stream = stream_of(&samples);
        prop_assert_eq!(receive(&stream, &lengths), (samples, None, 0));
    }

    #[test]
    fn random_bytes_give_errors_and_no_panic(bytes in vec(any::<u8>(), 0..3_000), piece in 1..100_usize) {
        let (samples, _, _) = receive(&bytes, &[piece]);
        // An empty body is the only one whose checksum chance may hit; it is no sample.
        prop_assert_eq!(samples, vec![]);
    }

    /// Frames that only a peer with the right checksum can send.
    #[test]
    fn random_bodies_give_values_or_errors(body in vec(any::<u8>(), 0..300)) {
        if let Ok(sample) = frame::decode::<Sample>(&body) {
            let again = stream_of([&sample]);
            prop_assert_eq!(receive(&again, &[1_000]), (vec![sample], None, 0));
        }
        let _ = frame::decode::<Attr>(&body);
        let _ = frame::decode::<SetAttr>(&body);
        let _ = frame::decode::<Credentials>(&body);
        let _ = frame::decode::<Name>(&body);
        let _ = frame::decode::<&str>(&body);
        let _ = HelloAnswer::decode(&body);
        let hello = [b"PNDO\x01\x00", &body[..]].concat();
        let _ = HelloAnswer::decode(&hello);
        if let Ok(hello) = Hello::decode(&hello, FsId(0)) {
            prop_assert_eq!(hello.fs, FsId(0));
        }
    }

    #[test]
    fn a_body_cut_or_continued_is_refused(sample in sample(), more in vec(any::<u8>(), 1..20)) {
        let stream = stream_of([&sample]);
        let body = &stream[HEADER_BYTES..];
        for cut in 0..body.len() {
            prop_assert!(frame::decode::<Sample>(&body[..cut]).is_err());
        }
        let longer = [body, &more].concat();
        prop_assert_eq!(
            frame::decode::<Sample>(&longer),
            Err(FrameError::TrailingBytes { bytes: longer.len(), unread: more.len() })
        );
    }
}

proptest! {
    // Each case has a stream of 4 MiB.
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_flipped_bit_never_passes(
        before in sample(),
        hit in sample(),
        place in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let mut stream = stream_of([&before]);
        let intact = stream.len();
        stream.extend(stream_of([&hit]));
        let place = intact + place.index(stream.len() - intact);
        stream[place] ^= 1 << bit;
        // Enough behind it that a length grown by the flip is either over the limit or complete.
        stream.resize(intact + HEADER_BYTES + pandofs_types::limits::MAX_FRAME_BYTES, 0x55);
        let (samples, error, _) = receive(&stream, &[1 << 20]);
        prop_assert_eq!(samples, vec![before]);
        prop_assert!(
            matches!(error, Some(FrameError::WrongChecksum { .. } | FrameError::TooLong { .. })),
            "{:?}", error
        );
    }
}

#[test]
fn a_stream_cut_at_every_byte_gives_the_frames_before_the_cut() {
    let attr = Attr {
        ino: Ino(77),
        kind: FileKind::File,
        mode: 0o644,
        nlink: 1,
        uid: 1000,
        gid: 1000,
        rdev: 0,
        size: 1 << 40,
        blocks: 1 << 31,
        atime: Time(-1),
        mtime: Time(i64::MAX),
        ctime: Time(i64::MIN),
        btime: Time(0),
        has_xattrs: false,
    };
    let mut stream = Vec::new();
    let mut ends = Vec::new();
    for _ in 0..5 {
        frame::encode_into(&mut stream, &attr).unwrap();
        ends.push(stream.len());
    }
    for cut in 0..=stream.len() {
        let (mut head, mut tail) = stream.split_at(cut);
        let mut buffer = ReadBuffer::new();
        let mut count = |reader: &mut &[u8]| {
            let mut frames = 0;
            while buffer.fill_from(reader).unwrap() > 0 {
                while let Some(body) = buffer.next_frame().unwrap() {
                    assert_eq!(frame::decode::<Attr>(body).as_ref(), Ok(&attr));
                    frames += 1;
                }
            }
            frames
        };
        let complete = ends.iter().filter(|&&end| end <= cut).count();
        assert_eq!(count(&mut head), complete);
        assert_eq!(count(&mut tail), 5 - complete);
        assert_eq!(buffer.unread(), 0);
    }
}

#[test]
fn every_single_flipped_bit_of_a_frame_is_found() {
    let sample = Sample::Numbers(1, 2, 3, 4, -5, 6);
    let frame = stream_of([&sample]);
    for bit in 0..8 * frame.len() {
        let mut damaged = frame.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        damaged.resize(HEADER_BYTES + pandofs_types::limits::MAX_FRAME_BYTES, 0);
        let (samples, error, _) = receive(&damaged, &[usize::MAX]);
        assert_eq!(samples, [], "bit {bit}");
        assert!(error.is_some(), "bit {bit}");
    }
}
