//! Frames: the bounds of messages on a stream of bytes.
//!
//! ```text
//! frame := length u32 LE | checksum u32 LE | body
//! ```
//!
//! `length` counts the bytes of the body and is at most [`MAX_FRAME_BYTES`]; `checksum` is the
//! CRC-32C of the body; the body is one value in postcard's encoding and nothing after it.
//!
//! A message that carries much file data ends with it: the data is its *tail* ([`crate::message::Tailed`]). It
//! is sent from where it is and received to where it stays; and over a Unix socket, where nothing between two
//! processes of one machine could damage it, the checksum need not count it ([`Covered`]).

use crate::message::Tailed;
use pandofs_types::limits::{MAX_FRAME_BYTES, MAX_IO_BYTES};
use postcard::{de_flavors, ser_flavors};
use serde::{Deserialize, Serialize};

/// Bytes of file data at the end of a message that are worth being sent from where they are and received to
/// where they stay.
pub(crate) const MIN_TAIL_BYTES: usize = 16 << 10;

/// Bytes before the body: length and checksum.
pub const HEADER_BYTES: usize = 8;

const _: () = assert!(
    MAX_FRAME_BYTES <= u32::MAX as usize,
    "a frame's length has 32 bits"
);

/// Why bytes are no frame, or a value cannot be made one. After an error in what was received,
/// where the next frame begins is unknown: the connection is to be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// `bytes` counts the body, announced or encoded.
    #[error("a frame of {bytes} bytes is over the limit of {MAX_FRAME_BYTES}")]
    TooLong {
        /// Over `MAX_FRAME_BYTES`.
        bytes: usize,
    },
    /// The covered bytes are not those that the checksum was taken of.
    #[error(
        "a frame of {bytes} bytes has the checksum {computed:#010x}, but {announced:#010x} was \
         announced: it was damaged on its way, or the peer speaks another protocol"
    )]
    WrongChecksum {
        /// Of the body.
        bytes: usize,
        /// The checksum in the frame's head.
        announced: u32,
        /// The checksum of what came.
        computed: u32,
    },
    /// The checksum fits, so the peer encoded another type than the one decoded here.
    #[error("a frame of {bytes} bytes ends before its message does")]
    Truncated {
        /// Of the body.
        bytes: usize,
    },
    /// The checksum fits, so the peer encoded another type than the one decoded here.
    #[error("a frame of {bytes} bytes has {unread} left over after its message")]
    TrailingBytes {
        /// Of the body.
        bytes: usize,
        /// Of the body, after the message.
        unread: usize,
    },
    /// The checksum fits, so the peer encoded another type than the one decoded here, or a value
    /// that the type's own checks refuse.
    #[error("a frame of {bytes} bytes holds no such message: {cause}")]
    Malformed {
        /// Of the body.
        bytes: usize,
        /// The decoder's reason.
        cause: postcard::Error,
    },
    /// The value has a part that the encoding cannot write, or no memory is left.
    #[error("this value has no encoding: {cause}")]
    Unencodable {
        /// The encoder's reason.
        cause: postcard::Error,
    },
}

/// Appends `value` as one frame to `out`, encoding straight into it.
///
/// # Errors
/// `TooLong` with the exact length when the body is over [`MAX_FRAME_BYTES`], `Unencodable` when
/// `value`'s `Serialize` fails. `out` then has the contents it had before.
pub fn encode_into<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), FrameError> {
    let header_at = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let encoded = postcard::serialize_with_flavor(value, BoundedBody { out, bytes: 0 });
    let bytes = match encoded {
        Ok(bytes) if bytes <= MAX_FRAME_BYTES => bytes,
        Ok(bytes) => {
            out.truncate(header_at);
            return Err(FrameError::TooLong { bytes });
        }
        Err(cause) => {
            out.truncate(header_at);
            return Err(FrameError::Unencodable { cause });
        }
    };
    let (header, body) = out[header_at..].split_at_mut(HEADER_BYTES);
    assert_eq!(body.len(), bytes);
    header[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
    header[4..].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
    Ok(())
}

/// Part of a frame's body that its checksum covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Covered {
    /// Any damage is found here.
    #[default]
    All,
    /// All but a tail of [`MIN_TAIL_BYTES`] to [`MAX_IO_BYTES`].
    AllButTail,
}

/// As [`encode_into`] for a value that ends with a byte string which is not in it: `value` has an empty one in
/// its place, and `out` gets all of the frame but the bytes of `tail`, which are to be sent right behind.
/// So they need not be copied.
///
/// # Errors
/// As [`encode_into`].
///
/// # Panics
/// When `value` does not end with an empty byte string.
pub fn encode_head_into<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    value: &T,
    tail: &[&[u8]],
    covered: Covered,
) -> Result<(), FrameError> {
    let header_at = out.len();
    encode_into(out, value)?;
    // The length of the empty string, in postcard's encoding of numbers.
    assert!(
        out.len() > header_at + HEADER_BYTES && out.pop() == Some(0),
        "a value with a tail ends with an empty byte string"
    );
    let mut length: usize = tail.iter().map(|part| part.len()).sum();
    let tail_bytes = length;
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    let (header, head) = out[header_at..].split_at_mut(HEADER_BYTES);
    let bytes = head.len() + tail_bytes;
    if bytes > MAX_FRAME_BYTES {
        out.truncate(header_at);
        return Err(FrameError::TooLong { bytes });
    }
    let mut checksum = crc32c::crc32c(head);
    let is_tail = (MIN_TAIL_BYTES..=MAX_IO_BYTES).contains(&tail_bytes);
    if covered == Covered::All || !is_tail {
        for part in tail {
            checksum = crc32c::crc32c_append(checksum, part);
        }
    }
    header[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
    header[4..].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// Decodes the body of a frame; the value may borrow from it.
///
/// # Errors
/// `Truncated`, `TrailingBytes` or `Malformed`.
pub fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, FrameError> {
    let bytes = body.len();
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(FrameError::TrailingBytes {
            bytes,
            unread: rest.len(),
        }),
        Err(postcard::Error::DeserializeUnexpectedEnd) => Err(FrameError::Truncated { bytes }),
        Err(cause) => Err(FrameError::Malformed { bytes, cause }),
    }
}

/// Decodes the beginning of a body of `body_bytes` bytes whose tail has not been looked at: the
/// value without its tail, and how many bytes that has; `None` if `start` ends before that is
/// known, or there is no tail that is worth it.
pub(crate) fn decode_start<T: Tailed>(start: &[u8], body_bytes: usize) -> Option<(T, usize)> {
    if !T::may_have_tail(start) {
        return None;
    }
    let start = Start {
        bytes: start,
        taken: 0,
        body_bytes,
        tail: None,
    };
    let mut decoder = postcard::Deserializer::from_flavor(start);
    let mut value = T::deserialize(&mut decoder).ok()?;
    let tail = decoder.finalize().ok()??;
    // Another message that happens to end with many bytes.
    value.tail().is_some().then_some((value, tail))
}

/// Gives the bytes of a body from its start on, and none of a byte string of many bytes at its end.
struct Start<'a> {
    bytes: &'a [u8],
    taken: usize,
    body_bytes: usize,
    /// Bytes of the tail, once it has been come to.
    tail: Option<usize>,
}

impl<'a> de_flavors::Flavor<'a> for Start<'a> {
    type Remainder = Option<usize>;
    type Source = &'a [u8];

    fn pop(&mut self) -> postcard::Result<u8> {
        let byte = self.bytes.get(self.taken);
        self.taken += 1;
        byte.copied()
            .ok_or(postcard::Error::DeserializeUnexpectedEnd)
    }

    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'a [u8]> {
        let end = self
            .taken
            .checked_add(count)
            .ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        // Room is made for all of it: no more than messages carry.
        let is_many = (MIN_TAIL_BYTES..=MAX_IO_BYTES).contains(&count);
        if is_many && end == self.body_bytes {
            self.tail = Some(count);
            self.taken = end;
            return Ok(&[]);
        }
        let bytes = self.bytes.get(self.taken..end);
        self.taken = end;
        bytes.ok_or(postcard::Error::DeserializeUnexpectedEnd)
    }

    fn finalize(self) -> postcard::Result<Option<usize>> {
        Ok(self.tail)
    }
}

/// Contents of a frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Bytes of the body, at most [`MAX_FRAME_BYTES`].
    pub body_bytes: usize,
    checksum: u32,
}

impl Header {
    /// The header that `bytes` begin with, or `None` while there are too few of them.
    ///
    /// # Errors
    /// `TooLong`.
    pub(crate) fn peek(bytes: &[u8]) -> Result<Option<Header>, FrameError> {
        let Some((&[a, b, c, d, e, f, g, h], _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let body_bytes = u32::from_le_bytes([a, b, c, d]) as usize;
        if body_bytes > MAX_FRAME_BYTES {
            return Err(FrameError::TooLong { bytes: body_bytes });
        }
        Ok(Some(Header {
            body_bytes,
            checksum: u32::from_le_bytes([e, f, g, h]),
        }))
    }

    /// Bytes of the whole frame.
    pub(crate) fn frame_bytes(self) -> usize {
        HEADER_BYTES + self.body_bytes
    }

    /// Checks the body that came with this header.
    ///
    /// # Errors
    /// `WrongChecksum`.
    pub(crate) fn check(self, body: &[u8]) -> Result<(), FrameError> {
        assert_eq!(body.len(), self.body_bytes);
        self.check_parts(body, &[])
    }

    /// The same of a body in two parts, or of what is covered of it.
    ///
    /// # Errors
    /// `WrongChecksum`.
    pub(crate) fn check_parts(self, head: &[u8], tail: &[u8]) -> Result<(), FrameError> {
        let computed = crc32c::crc32c_append(crc32c::crc32c(head), tail);
        if computed == self.checksum {
            return Ok(());
        }
        Err(FrameError::WrongChecksum {
            bytes: self.body_bytes,
            announced: self.checksum,
            computed,
        })
    }
}

/// Where postcard puts a body: appended to `out` up to the limit, only counted beyond it, so that
/// a value far too large costs no memory and its length is still known.
struct BoundedBody<'a> {
    out: &'a mut Vec<u8>,
    /// Of the body so far, those only counted included.
    bytes: usize,
}

impl ser_flavors::Flavor for BoundedBody<'_> {
    type Output = usize;

    #[inline(always)]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.bytes += 1;
        if self.bytes <= MAX_FRAME_BYTES {
            self.out.push(byte);
        }
        Ok(())
    }

    #[inline(always)]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.bytes += bytes.len();
        if self.bytes <= MAX_FRAME_BYTES {
            self.out.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn finalize(self) -> postcard::Result<usize> {
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::ser::Error as _;

    fn frame_of<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
        let mut out = Vec::new();
        encode_into(&mut out, value).unwrap();
        out
    }

    #[test]
    fn the_bytes_of_a_frame_are_pinned() {
        let frame = frame_of(&(1_u8, 300_u32, "pando"));
        // The checksum was computed independently, with the table-free bitwise algorithm.
        assert_eq!(
            frame,
            [
                9, 0, 0, 0, // length
                0x22, 0xc9, 0x20, 0xa4, // checksum
                1, 0xac, 0x02, 5, b'p', b'a', b'n', b'd', b'o',
            ]
        );
        assert_eq!(frame_of(&()), [0; HEADER_BYTES]);
    }

    #[test]
    fn a_frame_is_the_same_with_its_tail_apart() {
        #[derive(Serialize)]
        struct Message {
            id: u64,
            #[serde(with = "serde_bytes")]
            data: Vec<u8>,
        }
        let message = |data| Message { id: 300, data };
        for length in [0, 1, 127, 128, 300, 16_383, 16_384, 1 << 20] {
            let data: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (start, end) = data.split_at(length / 3);
            let mut out = b"before".to_vec();
            let parts = [start, &[], end];
            encode_head_into(&mut out, &message(Vec::new()), &parts, Covered::All).unwrap();
            out.extend_from_slice(&data);
            assert_eq!(out[6..], frame_of(&message(data)), "{length}");
        }
        let mut out = vec![1];
        let tail = vec![0; MAX_FRAME_BYTES];
        let error =
            encode_head_into(&mut out, &message(Vec::new()), &[&tail], Covered::All).unwrap_err();
        assert!(matches!(error, FrameError::TooLong { .. }), "{error}");
        assert_eq!(out, [1]);
    }

    #[test]
    fn frames_are_appended() {
        let mut out = b"before".to_vec();
        encode_into(&mut out, &7_u8).unwrap();
        assert_eq!(out[..6], *b"before");
        assert_eq!(out[6..], frame_of(&7_u8));
    }

    #[test]
    fn the_longest_body_is_taken_and_one_byte_more_is_not() {
        // An array has no length prefix: its body is as long as itself.
        let value = serde_bytes_like(MAX_FRAME_BYTES);
        let frame = frame_of(&value);
        assert_eq!(frame.len(), HEADER_BYTES + MAX_FRAME_BYTES);

        let mut out = vec![9];
        let value = serde_bytes_like(MAX_FRAME_BYTES + 1);
        let error = encode_into(&mut out, &value).unwrap_err();
        assert_eq!(
            error,
            FrameError::TooLong {
                bytes: MAX_FRAME_BYTES + 1
            }
        );
        assert_eq!(
            error.to_string(),
            "a frame of 4194305 bytes is over the limit of 4194304"
        );
        assert_eq!(out, [9]);

        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&(MAX_FRAME_BYTES as u32 + 1).to_le_bytes());
        assert_eq!(Header::peek(&header).unwrap_err(), error);
    }

    /// A value whose body has exactly `bytes` bytes: four of length prefix and the rest.
    fn serde_bytes_like(bytes: usize) -> bytes::Bytes {
        bytes::Bytes::from(vec![0xaa; bytes - 4])
    }

    #[test]
    fn a_value_that_cannot_be_encoded_leaves_nothing_behind() {
        struct Unwilling;
        impl Serialize for Unwilling {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(S::Error::custom("no"))
            }
        }
        let mut out = vec![1, 2];
        let error = encode_into(&mut out, &(0_u64, Unwilling)).unwrap_err();
        assert_eq!(
            error,
            FrameError::Unencodable {
                cause: postcard::Error::SerdeSerCustom
            }
        );
        assert_eq!(out, [1, 2]);
    }

    #[test]
    fn a_body_must_be_exactly_one_value() {
        assert_eq!(decode::<(u8, u8)>(&[1, 2]), Ok((1, 2)));
        assert_eq!(
            decode::<(u8, u8)>(&[1]),
            Err(FrameError::Truncated { bytes: 1 })
        );
        assert_eq!(
            decode::<(u8, u8)>(&[1, 2, 3]),
            Err(FrameError::TrailingBytes {
                bytes: 3,
                unread: 1
            })
        );
        assert_eq!(
            decode::<bool>(&[2]),
            Err(FrameError::Malformed {
                bytes: 1,
                cause: postcard::Error::DeserializeBadBool
            })
        );
        assert_eq!(decode::<&str>(&[2, b'h', b'i']), Ok("hi"));
    }

    #[test]
    fn a_name_is_checked_while_it_is_decoded() {
        let frame = frame_of("a/b");
        let error = decode::<pandofs_types::Name>(&frame[HEADER_BYTES..]).unwrap_err();
        assert!(
            matches!(error, FrameError::Malformed { bytes: 4, .. }),
            "{error}"
        );
    }

    #[test]
    fn the_checksum_error_gives_its_figures() {
        let mut frame = frame_of(&(1_u8, 300_u32, "pando"));
        frame[4] ^= 1;
        let header = Header::peek(&frame).unwrap().unwrap();
        let error = header.check(&frame[HEADER_BYTES..]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("a frame of 9 bytes has the checksum 0x"),
            "{error}"
        );
    }
}
