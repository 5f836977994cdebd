//! Buffers between a socket and frames: many frames for one read, many for one write.
//!
//! Both work with blocking and with non-blocking sockets. Both keep their memory from one message of
//! file data to the next: taking it anew each time costs more than half of the throughput of messages
//! of 1 MiB. The memory that a still larger frame made them take goes back as soon as they are empty,
//! and `trim`, called now and then, gives back what lies idle.

use crate::address::Stream;
use crate::frame::MIN_TAIL_BYTES;
use crate::frame::{self, Covered, FrameError, HEADER_BYTES, Header};
use crate::message::Tailed;
use pandofs_types::limits::MAX_IO_BYTES;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem;

/// Bytes asked of one read, at least: some six hundred small requests.
pub const READ_BYTES: usize = 64 << 10;
/// Bytes that an empty buffer may keep for its next use: a message full of file data, and what is read
/// along with it.
pub const KEPT_BYTES: usize = MAX_IO_BYTES + READ_BYTES;
/// `trim` leaves a buffer alone that used at least one part in so many of its memory.
const TRIM_SLACK: usize = 4;
/// Pieces given to one write: more than are there as a rule, and far less than the system takes.
const MAX_PARTS: usize = 64;
/// How many times the bytes that have arrived a buffer may grow to at once. A peer that announces a
/// large frame makes this side reserve for what it has sent, not for what it promises.
const GROWTH: usize = 4;

const _: () = assert!(READ_BYTES <= KEPT_BYTES && READ_BYTES > HEADER_BYTES);

/// Bytes of a body in which its tail's length is, if it has one: more than the rest of such a message takes.
const START_BYTES: usize = 256;

/// A message whose tail is being received.
#[derive(Debug)]
struct Begun {
    header: Header,
    /// The body without its tail.
    head: Vec<u8>,
    /// With room for all of it.
    tail: Vec<u8>,
    tail_bytes: usize,
}

/// Bytes received and not yet taken as frames.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use pandofs_wire::{buffer::ReadBuffer, frame};
/// # let mut sent = Vec::new();
/// # frame::encode_into(&mut sent, &7_u32)?;
/// # let mut socket = sent.as_slice();
/// let mut received = ReadBuffer::new();
/// while received.fill_from(&mut socket)? > 0 {
///     while let Some(body) = received.next_frame()? {
///         let request: u32 = frame::decode(body)?;
///         assert_eq!(request, 7);
///     }
/// }
/// assert_eq!(received.unread(), 0, "the peer closed the connection within a frame");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct ReadBuffer {
    /// All of it initialized, so that reads need no `unsafe`; `start..end` is unread.
    storage: Vec<u8>,
    start: usize,
    end: usize,
    /// The most unread bytes at once since the last `trim`.
    peak: usize,
    /// Message that comes before all others.
    begun: Option<Begun>,
    covered: Covered,
}

impl ReadBuffer {
    /// An empty buffer, which reserves nothing until it is filled, for frames that are covered whole.
    pub fn new() -> ReadBuffer {
        ReadBuffer::default()
    }

    /// The same for what comes from such a socket.
    pub fn of(stream: &Stream) -> ReadBuffer {
        ReadBuffer {
            covered: stream.covered(),
            ..ReadBuffer::default()
        }
    }

    /// Reads once from `reader`: [`READ_BYTES`] or as much as the next frame still lacks, whichever
    /// is more. To be called when [`next_frame`](Self::next_frame) has answered `None`; what is not
    /// taken makes the buffer grow. An interrupted read is repeated.
    ///
    /// `Ok(0)` is the end of the stream; it came within a frame if [`unread`](Self::unread) is not 0.
    ///
    /// # Errors
    /// The reader's, `WouldBlock` among them.
    pub fn fill_from(&mut self, reader: &mut impl Read) -> io::Result<usize> {
        if self.begun.is_some() {
            return self.fill_tail_from(reader);
        }
        self.make_room();
        let room = &mut self.storage[self.end..];
        assert!(
            !room.is_empty(),
            "a read into nothing would look like the end of the stream"
        );
        loop {
            match reader.read(room) {
                Ok(count) => {
                    assert!(
                        count <= room.len(),
                        "a reader claimed more bytes than it was lent"
                    );
                    self.end += count;
                    self.peak = self.peak.max(self.unread());
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// As [`fill_from`](Self::fill_from); what belongs to a tail goes to where it stays.
    ///
    /// # Errors
    /// The socket's, `WouldBlock` among them.
    pub fn fill_from_stream(&mut self, stream: &mut Stream) -> io::Result<usize> {
        let Some(begun) = &mut self.begun else {
            return self.fill_from(stream);
        };
        assert!(
            begun.tail.len() < begun.tail_bytes,
            "a message that is there is not taken"
        );
        // The allocator may have given more room than was asked for.
        if begun.tail.capacity() > begun.tail_bytes {
            return self.fill_tail_from(stream);
        }
        loop {
            match stream.read_onto(&mut begun.tail) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn fill_tail_from(&mut self, reader: &mut impl Read) -> io::Result<usize> {
        let Some(begun) = &mut self.begun else {
            return Ok(0);
        };
        let has = begun.tail.len();
        begun.tail.resize(begun.tail_bytes, 0);
        loop {
            let read = reader.read(&mut begun.tail[has..]);
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => {
                    begun
                        .tail
                        .truncate(has + read.as_ref().copied().unwrap_or(0));
                    return read;
                }
            }
        }
    }

    /// The next message, checked, or `None` until more has arrived. A long tail has been received to where
    /// it is in the message.
    ///
    /// # Errors
    /// As [`next_frame`](Self::next_frame); and when the body is not such a message.
    pub fn next_message<T: Tailed>(&mut self) -> Result<Option<T>, FrameError> {
        if self.begun.is_none() {
            let unread = &self.storage[self.start..self.end];
            let Some(header) = Header::peek(unread)? else {
                return Ok(None);
            };
            let body = &unread[HEADER_BYTES..header.frame_bytes().min(unread.len())];
            let is_enough = body.len() >= START_BYTES.min(header.body_bytes);
            if header.body_bytes < MIN_TAIL_BYTES || is_enough && !self.begin::<T>(header) {
                return match self.next_frame()? {
                    Some(body) => frame::decode(body).map(Some),
                    None => Ok(None),
                };
            }
        }
        let is_there = |begun: &mut Begun| begun.tail.len() == begun.tail_bytes;
        let Some(begun) = self.begun.take_if(is_there) else {
            return Ok(None);
        };
        // The sender may have counted the tail all the same.
        let is_bare = self.covered == Covered::AllButTail
            && begun.header.check_parts(&begun.head, &[]).is_ok();
        if !is_bare {
            begun.header.check_parts(&begun.head, &begun.tail)?;
        }
        let bytes = begun.header.body_bytes;
        let Some((mut value, _)) = frame::decode_start::<T>(&begun.head, bytes) else {
            return Err(FrameError::Truncated { bytes });
        };
        if let Some(tail) = value.tail() {
            *tail = begun.tail;
        }
        Ok(Some(value))
    }

    /// Begins to receive a tail, if the frame whose start is there has one.
    fn begin<T: Tailed>(&mut self, header: Header) -> bool {
        let end = self.end.min(self.start + header.frame_bytes());
        let start = &self.storage[self.start + HEADER_BYTES..end];
        let Some((_, tail_bytes)) = frame::decode_start::<T>(start, header.body_bytes) else {
            return false;
        };
        let head_bytes = header.body_bytes - tail_bytes;
        let (head, arrived) = start.split_at(head_bytes);
        let mut tail = Vec::with_capacity(tail_bytes);
        tail.extend_from_slice(arrived);
        self.begun = Some(Begun {
            header,
            head: head.to_vec(),
            tail,
            tail_bytes,
        });
        self.start = end;
        true
    }

    /// The checked body of the next frame, or `None` until more has arrived.
    ///
    /// # Errors
    /// `TooLong` or `WrongChecksum`. Nothing is consumed then: the same error comes again, because
    /// there is no way to find the next frame.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let unread = &self.storage[self.start..self.end];
        let Some(header) = Header::peek(unread)? else {
            return Ok(None);
        };
        let Some(body) = unread.get(HEADER_BYTES..header.frame_bytes()) else {
            return Ok(None);
        };
        header.check(body)?;
        self.start += header.frame_bytes();
        Ok(Some(body))
    }

    /// Bytes received and not yet taken as frames.
    pub fn unread(&self) -> usize {
        let begun = self.begun.as_ref();
        let begun = begun.map_or(0, |begun| {
            HEADER_BYTES + begun.head.len() + begun.tail.len()
        });
        self.end - self.start + begun
    }

    /// Gives back the memory if it is empty and less than a quarter of it was used since the last call.
    /// To be called every few seconds by an owner of many connections.
    pub fn trim(&mut self) {
        let unread = self.unread();
        let used = mem::replace(&mut self.peak, unread);
        if unread == 0 && self.storage.len() > TRIM_SLACK * used {
            self.storage = Vec::new();
            (self.start, self.end) = (0, 0);
        }
    }

    /// Bytes of memory that it has for what arrives next.
    pub fn memory(&self) -> usize {
        self.storage.len()
    }

    /// Gives back the memory if it is empty.
    pub fn give_back(&mut self) {
        if self.unread() == 0 {
            self.storage = Vec::new();
            (self.start, self.end) = (0, 0);
        }
    }

    /// Leaves room for one read behind the unread bytes.
    fn make_room(&mut self) {
        let unread = self.unread();
        if unread == 0 {
            self.start = 0;
            self.end = 0;
            if self.storage.len() > KEPT_BYTES {
                self.storage = Vec::new();
            }
        }
        let wanted = self.lacking().min(READ_BYTES.max((GROWTH - 1) * unread));
        let needed = READ_BYTES.max(unread + wanted);
        if self.storage.len() < needed {
            // Fresh zeroed pages rather than `resize`: the system supplies them when they are
            // written, and the bytes already taken are not copied along.
            let mut larger = vec![0; needed];
            larger[..unread].copy_from_slice(&self.storage[self.start..self.end]);
            self.storage = larger;
        } else if self.storage.len() - self.end < wanted.max(READ_BYTES / 2) {
            self.storage.copy_within(self.start..self.end, 0);
        } else {
            return;
        }
        self.start = 0;
        self.end = unread;
    }

    /// Bytes that the next frame still lacks; a read's worth when a frame is complete, or broken
    /// (then `next_frame` says so and the caller does not read on).
    fn lacking(&self) -> usize {
        let unread = &self.storage[self.start..self.end];
        let frame_bytes = match Header::peek(unread) {
            Ok(Some(header)) => header.frame_bytes(),
            Ok(None) => HEADER_BYTES,
            Err(_) => 0,
        };
        match frame_bytes.checked_sub(unread.len()) {
            None | Some(0) => READ_BYTES,
            Some(lacking) => lacking,
        }
    }
}

/// Progress of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Nothing.
    Done,
    /// The peer does not read fast enough; write again when the socket is writable.
    Blocked,
}

/// Frames encoded and not yet written.
#[derive(Debug, Default)]
pub struct WriteBuffer {
    /// First part: frames and the bytes at their ends, each whole.
    front: VecDeque<Vec<u8>>,
    /// Second part.
    bytes: Vec<u8>,
    /// Of the first of all these, those that the socket has taken.
    written: usize,
    /// Bytes in `front`.
    front_bytes: usize,
    /// The most bytes at once since the last `trim`.
    peak: usize,
    covered: Covered,
}

impl WriteBuffer {
    /// An empty buffer, which reserves nothing until something is pushed, for frames that are covered whole.
    pub fn new() -> WriteBuffer {
        WriteBuffer::default()
    }

    /// The same for what goes to such a socket.
    pub fn of(stream: &Stream) -> WriteBuffer {
        WriteBuffer {
            covered: stream.covered(),
            ..WriteBuffer::default()
        }
    }

    /// Encodes `value` as a frame behind what is there.
    ///
    /// # Errors
    /// As [`frame::encode_into`]; the buffer is then as it was.
    pub fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), FrameError> {
        frame::encode_into(&mut self.bytes, value)
    }

    /// The same for a value that ends with the byte string `tail`, in whose place it has an empty one: the
    /// bytes are kept as they are, and not copied unless they are few.
    ///
    /// # Errors
    /// As [`frame::encode_head_into`]; the buffer is then as it was.
    pub fn push_with_tail<T: Serialize + ?Sized>(
        &mut self,
        value: &T,
        tail: Vec<u8>,
    ) -> Result<(), FrameError> {
        frame::encode_head_into(&mut self.bytes, value, &[&tail], self.covered)?;
        if tail.len() < MIN_TAIL_BYTES {
            self.bytes.extend_from_slice(&tail);
            return Ok(());
        }
        let head = mem::take(&mut self.bytes);
        self.front_bytes += head.len() + tail.len();
        self.front.extend([head, tail]);
        Ok(())
    }

    /// Encodes `value` as a frame behind what is there, but for the bytes of `tail`, which belong to its end
    /// and have to be [written](Self::write_with_tail) next.
    ///
    /// # Errors
    /// As [`frame::encode_head_into`]; the buffer is then as it was.
    pub fn push_head<T: Serialize + ?Sized>(
        &mut self,
        value: &T,
        tail: &[&[u8]],
    ) -> Result<(), FrameError> {
        frame::encode_head_into(&mut self.bytes, value, tail, self.covered)
    }

    /// Writes as much as `writer` takes, in as few writes as it allows: one, usually. An interrupted
    /// write is repeated.
    ///
    /// # Errors
    /// The writer's, but for `WouldBlock`, which is [`Progress::Blocked`]; `WriteZero` when the writer
    /// takes nothing. Bytes written before the error are not written again.
    pub fn write_to(&mut self, writer: &mut impl Write) -> io::Result<Progress> {
        self.peak = self.peak.max(self.front_bytes + self.bytes.len());
        while self.pending() > 0 {
            let taken = if self.front.is_empty() {
                writer.write(&self.bytes[self.written..])
            } else {
                let all = self.front.iter().chain([&self.bytes]);
                let mut parts: Vec<IoSlice<'_>> =
                    all.take(MAX_PARTS).map(|part| IoSlice::new(part)).collect();
                let mut left = parts.as_mut_slice();
                IoSlice::advance_slices(&mut left, self.written);
                writer.write_vectored(left)
            };
            match taken {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    assert!(
                        count <= self.pending(),
                        "a writer claimed more than it was given"
                    );
                    self.advance(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.forget_written();
                    return Ok(Progress::Blocked);
                }
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.written = 0;
        Ok(Progress::Done)
    }

    /// Writes all there is and `tail` behind it. For a writer that waits: there is no going on from where it
    /// stopped.
    ///
    /// # Errors
    /// The writer's, `WouldBlock` among them; `WriteZero` when it takes nothing.
    pub fn write_with_tail(&mut self, writer: &mut impl Write, tail: &[&[u8]]) -> io::Result<()> {
        assert!(
            self.front.is_empty() && self.written == 0,
            "a tail behind something else than its head"
        );
        self.peak = self.peak.max(self.bytes.len());
        let mut parts: Vec<IoSlice<'_>> = [self.bytes.as_slice()]
            .iter()
            .chain(tail)
            .map(|part| IoSlice::new(part))
            .collect();
        let mut left = parts.as_mut_slice();
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match writer.write_vectored(&left[..left.len().min(MAX_PARTS)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut left, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        Ok(())
    }

    /// As [`ReadBuffer::trim`].
    pub fn trim(&mut self) {
        let used = mem::replace(&mut self.peak, self.front_bytes + self.bytes.len());
        if self.pending() == 0 && self.bytes.capacity() > TRIM_SLACK * used {
            self.bytes = Vec::new();
        }
    }

    /// As [`ReadBuffer::give_back`].
    pub fn give_back(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }

    /// Bytes not yet written.
    pub fn pending(&self) -> usize {
        self.front_bytes + self.bytes.len() - self.written
    }

    /// So many more bytes were written.
    fn advance(&mut self, count: usize) {
        self.written += count;
        while let Some(first) = self.front.front() {
            if self.written < first.len() {
                return;
            }
            self.written -= first.len();
            self.front_bytes -= first.len();
            self.front.pop_front();
        }
    }

    /// Drops written bytes once they are half of all: each byte is then moved once for every byte
    /// written, at most, however slowly the peer reads.
    fn forget_written(&mut self) {
        if self.front.is_empty() && self.written >= self.bytes.len() / 2 {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests;
