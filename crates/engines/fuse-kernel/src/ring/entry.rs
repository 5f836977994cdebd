//! RingEntry of a ring: the memory by which the kernel hands over one request and takes its answer.
//!
//! The kernel has two addresses of it, for headers (`struct fuse_uring_req_header`) and for what
//! follows them, the payload. Both are in one buffer:
//!
//! ```text
//! 0                            4,096
//! ├ headers ─┤      ├ header ─ op ┼ payload ─────── … ┤
//! ```
//!
//! A request that came in pieces is put together in front of its payload, which stays where it is,
//! so that it is decoded as one that was read from `/dev/fuse`.

use crate::buffer::Buffer;
use crate::limits::{KEPT_BUFFER_BYTES, MIN_REQUEST_BYTES, REQUEST_HEAD_BYTES};
use crate::request::Malformed;
use std::io;
use std::ops::Range;

/// Bytes of the part of the headers that has `struct fuse_in_header`, or `fuse_out_header` of the
/// answer.
const IN_OUT_BYTES: usize = 128;
/// Bytes of the part that has the arguments of the operation which are of one size.
const OP_IN_BYTES: usize = 128;
/// The third part, `struct fuse_uring_ent_in_out`.
const COMMIT_ID: Range<usize> = at(IN_OUT_BYTES + OP_IN_BYTES + 8, 8);
const PAYLOAD_SIZE: Range<usize> = at(IN_OUT_BYTES + OP_IN_BYTES + 16, 4);
/// All three.
pub(super) const HEADERS_BYTES: usize = IN_OUT_BYTES + OP_IN_BYTES + 32;
/// `struct fuse_in_header`, and two of its fields.
const IN_HEADER_BYTES: usize = 40;
const LENGTH: Range<usize> = at(0, 4);
const NODE: Range<usize> = at(16, 8);
/// The payload begins here.
const PAYLOAD: usize = REQUEST_HEAD_BYTES;

const _: () = assert!(HEADERS_BYTES + IN_HEADER_BYTES + OP_IN_BYTES <= PAYLOAD);

const fn at(start: usize, size: usize) -> Range<usize> {
    start..start + size
}

/// One entry. The owner of the value has the memory: it is given to the kernel with a command, and
/// is back when that has completed.
#[derive(Debug)]
pub(crate) struct RingEntry {
    memory: Buffer,
    /// The two addresses with their lengths, as readv(2) has them; in a place that stays.
    vector: Box<[usize; 4]>,
    /// The kernel's name of the request that is in it.
    commit_id: u64,
    /// Bytes of the memory that were written to since it was given back.
    used: usize,
}

impl RingEntry {
    /// For requests and answers of no more than so many bytes beside their headers.
    pub(crate) fn of_payload(bytes: usize) -> io::Result<RingEntry> {
        let mut memory = Buffer::of_size(PAYLOAD + bytes.max(MIN_REQUEST_BYTES))?;
        let start = memory.bytes().as_mut_ptr() as usize;
        let payload = memory.bytes().len() - PAYLOAD;
        Ok(RingEntry {
            memory,
            vector: Box::new([start, HEADERS_BYTES, start + PAYLOAD, payload]),
            commit_id: 0,
            used: 0,
        })
    }

    /// Where the kernel finds both addresses, while it takes the command that registers them.
    pub(super) fn vector(&self) -> &[usize; 4] {
        &self.vector
    }

    pub(super) fn commit_id(&self) -> u64 {
        self.commit_id
    }

    /// The inode that the request is about which the kernel has put in.
    pub(super) fn node(&mut self) -> u64 {
        u64::from_ne_bytes(field(self.memory.bytes(), NODE))
    }

    /// Puts the request together that the kernel has put in. Returns where it is.
    ///
    /// # Errors
    /// When the lengths in it contradict one another.
    pub(crate) fn take_request(&mut self) -> Result<Range<usize>, Malformed> {
        let bytes = self.memory.bytes();
        self.commit_id = u64::from_ne_bytes(field(bytes, COMMIT_ID));
        let length = u32::from_ne_bytes(field(bytes, LENGTH)) as usize;
        let payload = u32::from_ne_bytes(field(bytes, PAYLOAD_SIZE)) as usize;
        let arguments = length
            .checked_sub(IN_HEADER_BYTES + payload)
            .filter(|&size| size <= OP_IN_BYTES)
            .ok_or(Malformed::WrongLength)?;
        if PAYLOAD + payload > bytes.len() {
            return Err(Malformed::WrongLength);
        }
        let start = PAYLOAD - arguments - IN_HEADER_BYTES;
        bytes.copy_within(..IN_HEADER_BYTES, start);
        bytes.copy_within(at(IN_OUT_BYTES, arguments), start + IN_HEADER_BYTES);
        self.used = self.used.max(PAYLOAD + payload);
        Ok(start..PAYLOAD + payload)
    }

    /// The request that [`Self::take_request`] has found.
    pub(crate) fn request(&mut self, place: Range<usize>) -> &[u8] {
        &self.memory.bytes()[place]
    }

    /// Puts an answer in: an error's number, and what follows the header. Too long a one becomes an
    /// error. The request is gone.
    pub(super) fn answer(
        &mut self,
        unique: u64,
        error: i32,
        parts: &[&[u8]],
    ) -> Result<(), TooLong> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = self.memory.bytes();
        if PAYLOAD + length > bytes.len() {
            return Err(TooLong);
        }
        let mut start = PAYLOAD;
        for part in parts {
            bytes[at(start, part.len())].copy_from_slice(part);
            start += part.len();
        }
        bytes[..16].copy_from_slice(&crate::reply::header(unique, error, parts).as_bytes()[..16]);
        bytes[PAYLOAD_SIZE].copy_from_slice(&(length as u32).to_ne_bytes());
        self.used = self.used.max(PAYLOAD + length);
        Ok(())
    }

    /// Returns whether it holds memory that can be given back.
    pub(super) fn uses_much(&self) -> bool {
        self.used > KEPT_BUFFER_BYTES
    }

    /// Gives back most of its memory. Its contents are lost.
    pub(super) fn give_back(&mut self) {
        self.memory.give_back(std::mem::take(&mut self.used));
    }
}

/// There is no room for an answer.
#[derive(Debug)]
pub(super) struct TooLong;

fn field<const N: usize>(bytes: &[u8], place: Range<usize>) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[place]);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel puts a request in.
    fn put(entry: &mut RingEntry, length: u32, arguments: &[u8], payload: &[u8]) {
        let bytes = entry.memory.bytes();
        bytes[..IN_HEADER_BYTES].fill(1);
        bytes[LENGTH].copy_from_slice(&length.to_ne_bytes());
        bytes[at(IN_OUT_BYTES, arguments.len())].copy_from_slice(arguments);
        bytes[at(PAYLOAD, payload.len())].copy_from_slice(payload);
        bytes[COMMIT_ID].copy_from_slice(&77_u64.to_ne_bytes());
        bytes[PAYLOAD_SIZE].copy_from_slice(&(payload.len() as u32).to_ne_bytes());
    }

    #[test]
    fn a_request_is_put_together_and_an_answer_put_in() {
        let mut entry = RingEntry::of_payload(1 << 16).unwrap();
        put(&mut entry, 40 + 8 + 5, &[2; 8], b"name\0");
        let place = entry.take_request().unwrap();
        assert_eq!(
            (entry.commit_id(), entry.node()),
            (77, 0x0101_0101_0101_0101)
        );
        let request = entry.request(place);
        assert_eq!(request.len(), 53);
        assert_eq!(request[..4], 53_u32.to_ne_bytes());
        assert!(request[4..40].iter().all(|&byte| byte == 1));
        assert_eq!(
            (&request[40..48], &request[48..]),
            (&[2; 8][..], &b"name\0"[..])
        );
        entry.answer(9, -2, &[b"ab", b"cde"]).unwrap();
        let bytes = entry.memory.bytes();
        assert_eq!(bytes[..4], 21_u32.to_ne_bytes());
        assert_eq!(bytes[4..8], (-2_i32).to_ne_bytes());
        assert_eq!(bytes[8..16], 9_u64.to_ne_bytes());
        assert_eq!(bytes[PAYLOAD_SIZE], 5_u32.to_ne_bytes());
        assert_eq!(&bytes[at(PAYLOAD, 5)], b"abcde");
        let long = vec![0; (1 << 16) + 1];
        entry.answer(9, 0, &[&long]).unwrap_err();
    }

    #[test]
    fn lengths_that_contradict_one_another_are_found() {
        let mut entry = RingEntry::of_payload(0).unwrap();
        for length in [0, 39, 44, 40 + 5 + 129, u32::MAX] {
            put(&mut entry, length, &[], b"name\0");
            entry.take_request().unwrap_err();
        }
        put(&mut entry, 45, &[], b"name\0");
        entry.take_request().unwrap();
        let more = (MIN_REQUEST_BYTES + 1) as u32;
        put(&mut entry, 40 + more, &[], &[]);
        entry.memory.bytes()[PAYLOAD_SIZE].copy_from_slice(&more.to_ne_bytes());
        entry.take_request().unwrap_err();
    }
}
