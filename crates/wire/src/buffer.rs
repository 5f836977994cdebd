//! Buffers between a socket and frames: many frames for one read, many for one write.
//!
//! Both work with blocking and with non-blocking sockets. Both keep their memory from one message of
//! file data to the next: taking it anew each time costs more than half of the throughput of messages
//! of 1 MiB. What a still larger frame made them take goes back as soon as they are empty, and
//! `trim`, called now and then, gives back what lies idle.

use crate::address::Stream;
use crate::frame::{self, Covered, FrameError, HEADER_BYTES, Header};
use crate::message::Tailed;
use pandofs_types::limits::{MAX_IO_BYTES, MIN_TAIL_BYTES};
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
    /// What comes before all else.
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
        // Whoever sent it may have counted the tail all the same.
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
    /// To be called every few seconds by whoever owns many connections.
    pub fn trim(&mut self) {
        let unread = self.unread();
        let used = mem::replace(&mut self.peak, unread);
        if unread == 0 && self.storage.len() > TRIM_SLACK * used {
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
    /// (then `next_frame` says so and nobody reads on).
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

/// What is left after a write.
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
    /// What comes first: frames and the bytes at their ends, each whole.
    front: VecDeque<Vec<u8>>,
    /// What comes after.
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
    /// takes nothing. What was written before the error is not written again.
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
mod tests {
    use super::*;
    use crate::message::{RequestBody, RequestFrame};
    use bytes::Bytes;
    use pandofs_api::DataRequest;
    use pandofs_types::Ino;
    use pandofs_types::limits::MAX_FRAME_BYTES;

    fn frame_of<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
        let mut out = Vec::new();
        frame::encode_into(&mut out, value).unwrap();
        out
    }

    /// Gives at most `limit` bytes a read, counts reads and notes the largest room it was offered.
    struct Counting<'a> {
        left: &'a [u8],
        limit: usize,
        reads: usize,
        largest_room: usize,
    }

    impl<'a> Counting<'a> {
        fn new(left: &'a [u8], limit: usize) -> Self {
            Counting {
                left,
                limit,
                reads: 0,
                largest_room: 0,
            }
        }
    }

    impl Read for Counting<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            self.largest_room = self.largest_room.max(room.len());
            let count = self.limit.min(room.len());
            self.left.read(&mut room[..count])
        }
    }

    #[test]
    fn one_read_takes_all_that_has_arrived() {
        let stream = frame_of(&[7_u8; 91][..]).repeat(600);
        let mut reader = Counting::new(&stream, usize::MAX);
        let mut buffer = ReadBuffer::new();
        assert_eq!(buffer.fill_from(&mut reader).unwrap(), 60_000);
        for _ in 0..600 {
            let body = buffer.next_frame().unwrap().unwrap();
            assert_eq!(frame::decode::<&[u8]>(body), Ok(&[7; 91][..]));
        }
        assert_eq!(buffer.next_frame().unwrap(), None);
        assert_eq!(reader.reads, 1);
    }

    #[test]
    fn small_frames_never_make_the_buffer_grow() {
        let stream = frame_of(&[7_u8; 90][..]).repeat(20_000);
        let mut reader = Counting::new(&stream, usize::MAX);
        let mut buffer = ReadBuffer::new();
        let mut frames = 0;
        while buffer.fill_from(&mut reader).unwrap() > 0 {
            while buffer.next_frame().unwrap().is_some() {
                frames += 1;
            }
        }
        assert_eq!(frames, 20_000);
        assert_eq!(buffer.storage.len(), READ_BYTES);
        // The rest of a frame that a read cut is moved to the front: reads stay long.
        assert!(
            reader.reads <= stream.len() / (READ_BYTES / 2) + 2,
            "{} reads",
            reader.reads
        );
    }

    #[test]
    fn a_promise_reserves_little_and_a_long_frame_arrives_in_few_reads() {
        let stream = frame_of(&Bytes::from(vec![3; MAX_FRAME_BYTES - 4]));
        let mut buffer = ReadBuffer::new();
        let mut reader = Counting::new(&stream, HEADER_BYTES);
        buffer.fill_from(&mut reader).unwrap();
        buffer.fill_from(&mut reader).unwrap();
        assert!(
            buffer.storage.len() <= 2 * READ_BYTES,
            "{}",
            buffer.storage.len()
        );

        let mut reader = Counting::new(reader.left, usize::MAX);
        while buffer.next_frame().unwrap().is_none() {
            assert!(buffer.fill_from(&mut reader).unwrap() > 0);
            assert!(buffer.storage.len() <= READ_BYTES.max(GROWTH * buffer.unread()));
        }
        assert!(reader.reads <= 5, "{} reads", reader.reads);
        assert!(reader.left.is_empty());
    }

    /// Takes at most `limit` bytes a write, and then nothing once.
    struct Narrow {
        taken: Vec<u8>,
        limit: usize,
        is_full: bool,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.is_full = !self.is_full;
            if !self.is_full {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(self.limit);
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
            let all: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            self.write(&all)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn tails_are_written_in_their_places_however_little_is_taken() {
        #[derive(Serialize)]
        struct Message(u64, #[serde(with = "serde_bytes")] Vec<u8>);
        for limit in [1_000, MIN_TAIL_BYTES, MIN_TAIL_BYTES + 13, usize::MAX] {
            let mut buffer = WriteBuffer::new();
            let mut expected = Vec::new();
            for (number, length) in [0, 100, MIN_TAIL_BYTES, 5, 70_000, 100_000]
                .into_iter()
                .enumerate()
            {
                let tail = vec![number as u8; length];
                buffer
                    .push_with_tail(&Message(number as u64, Vec::new()), tail.clone())
                    .unwrap();
                expected.extend(frame_of(&Message(number as u64, tail)));
                buffer.push(&number).unwrap();
                expected.extend(frame_of(&number));
            }
            assert_eq!(buffer.pending(), expected.len());
            let mut narrow = Narrow {
                taken: Vec::new(),
                limit,
                is_full: false,
            };
            while buffer.write_to(&mut narrow).unwrap() == Progress::Blocked {
                assert_eq!(buffer.pending(), expected.len() - narrow.taken.len());
            }
            assert!(narrow.taken == expected, "{limit}");
            assert_eq!(buffer.pending(), 0);
        }
        let (mut buffer, mut stream) = (WriteBuffer::new(), Vec::new());
        buffer.push(&7_u8).unwrap();
        let parts: [&[u8]; 3] = [&[1; 300], &[], &[2; 5]];
        buffer.push_head(&Message(9, Vec::new()), &parts).unwrap();
        buffer.write_with_tail(&mut stream, &parts).unwrap();
        let whole = [vec![1; 300], vec![2; 5]].concat();
        assert_eq!(
            stream,
            [frame_of(&7_u8), frame_of(&Message(9, whole))].concat()
        );
    }

    fn write_frame(id: u64, data: Vec<u8>) -> RequestFrame {
        let request = DataRequest::Write {
            ino: Ino(7),
            offset: 9,
            data,
        };
        RequestFrame {
            id,
            body: RequestBody::Data(request),
        }
    }

    fn ping(id: u64) -> RequestFrame {
        let body = RequestBody::Ping;
        RequestFrame { id, body }
    }

    #[test]
    fn tails_are_received_however_they_arrive() {
        let lengths = [0, 5, MIN_TAIL_BYTES - 1, MIN_TAIL_BYTES, 40_000];
        let messages: Vec<RequestFrame> = (0_u64..)
            .zip(lengths)
            .flat_map(|(id, length)| [write_frame(id << 40, vec![id as u8; length]), ping(id)])
            .collect();
        let pairs = [
            (Covered::All, Covered::All),
            (Covered::AllButTail, Covered::AllButTail),
            (Covered::All, Covered::AllButTail),
        ];
        for (sent, covered) in pairs {
            let mut stream = Vec::new();
            let mut buffer = WriteBuffer {
                covered: sent,
                ..WriteBuffer::default()
            };
            for message in &messages {
                let mut head = message.clone();
                match head.tail().map(mem::take) {
                    Some(tail) => buffer.push_with_tail(&head, tail).unwrap(),
                    None => buffer.push(message).unwrap(),
                }
            }
            assert_eq!(buffer.write_to(&mut stream).unwrap(), Progress::Done);
            for limit in [7, 1_000, READ_BYTES, usize::MAX] {
                let mut reader = Counting::new(&stream, limit);
                let mut received = ReadBuffer {
                    covered,
                    ..ReadBuffer::default()
                };
                let mut seen = Vec::new();
                while received.fill_from(&mut reader).unwrap() > 0 {
                    while let Some(message) = received.next_message::<RequestFrame>().unwrap() {
                        seen.push(message);
                    }
                }
                assert!(seen == messages, "{limit}");
                assert_eq!(received.unread(), 0);
            }
        }
    }

    #[test]
    fn a_damaged_tail_is_an_error_where_it_is_covered_and_a_damaged_head_always() {
        for (covered, at, is_wrong) in [
            (Covered::All, 20_000, true),
            (Covered::All, 10, true),
            (Covered::AllButTail, 20_000, false),
            (Covered::AllButTail, 10, true),
        ] {
            let mut buffer = WriteBuffer {
                covered,
                ..WriteBuffer::default()
            };
            let mut stream = Vec::new();
            let head = write_frame(1, Vec::new());
            buffer.push_with_tail(&head, vec![3; 50_000]).unwrap();
            assert_eq!(buffer.write_to(&mut stream).unwrap(), Progress::Done);
            stream[at] ^= 1;
            let mut received = ReadBuffer {
                covered,
                ..ReadBuffer::default()
            };
            let mut reader = stream.as_slice();
            let result = loop {
                assert!(received.fill_from(&mut reader).unwrap() > 0);
                match received.next_message::<RequestFrame>() {
                    Ok(None) => {}
                    result => break result,
                }
            };
            assert_eq!(result.is_err(), is_wrong, "{covered:?} {at}");
        }
    }

    #[test]
    fn a_broken_message_that_announces_a_tail_is_an_error() {
        // As long as a write with a tail, and of the same kind, and nothing of the sort.
        let mut body = vec![0xff_u8; 60_000];
        body[..2].copy_from_slice(&[5, 1]);
        let mut stream = (body.len() as u32).to_le_bytes().to_vec();
        stream.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        stream.extend_from_slice(&body);
        let mut received = ReadBuffer::new();
        let mut reader = stream.as_slice();
        while received.fill_from(&mut reader).unwrap() > 0 {
            if let Err(error) = received.next_message::<RequestFrame>() {
                assert!(matches!(error, FrameError::Malformed { .. }), "{error}");
                return;
            }
        }
        panic!("it was taken");
    }

    /// Passes a frame of about `bytes` through both buffers.
    fn pass(outgoing: &mut WriteBuffer, incoming: &mut ReadBuffer, bytes: usize) {
        outgoing.push(&Bytes::from(vec![3; bytes])).unwrap();
        let mut stream = Vec::new();
        assert_eq!(outgoing.write_to(&mut stream).unwrap(), Progress::Done);
        let mut reader = stream.as_slice();
        while incoming.next_frame().unwrap().is_none() {
            assert!(incoming.fill_from(&mut reader).unwrap() > 0);
        }
        // Whoever has taken all reads again, and finds nothing.
        assert_eq!(incoming.fill_from(&mut reader).unwrap(), 0);
    }

    #[test]
    fn memory_is_kept_for_file_data_and_given_back_after_larger_frames() {
        let (mut outgoing, mut incoming) = (WriteBuffer::new(), ReadBuffer::new());
        pass(&mut outgoing, &mut incoming, MAX_IO_BYTES + 1_000);
        let kept = (outgoing.bytes.as_ptr(), incoming.storage.as_ptr());
        assert!((MAX_IO_BYTES..=KEPT_BYTES).contains(&outgoing.bytes.capacity()));
        assert!((MAX_IO_BYTES..=KEPT_BYTES).contains(&incoming.storage.len()));
        for _ in 0..3 {
            pass(&mut outgoing, &mut incoming, MAX_IO_BYTES);
            assert_eq!((outgoing.bytes.as_ptr(), incoming.storage.as_ptr()), kept);
        }
        pass(&mut outgoing, &mut incoming, MAX_FRAME_BYTES - 1_000);
        assert!(outgoing.bytes.capacity() <= KEPT_BYTES);
        assert!(incoming.storage.len() <= KEPT_BYTES);
    }

    #[test]
    fn what_lies_idle_is_given_back() {
        let (mut outgoing, mut incoming) = (WriteBuffer::new(), ReadBuffer::new());
        pass(&mut outgoing, &mut incoming, MAX_IO_BYTES);
        outgoing.trim();
        incoming.trim();
        assert!(
            outgoing.bytes.capacity() >= MAX_IO_BYTES,
            "it was just used"
        );
        assert!(incoming.storage.len() >= MAX_IO_BYTES, "it was just used");
        // Small frames do not need so much.
        pass(&mut outgoing, &mut incoming, 20_000);
        outgoing.trim();
        incoming.trim();
        assert_eq!((outgoing.bytes.capacity(), incoming.storage.len()), (0, 0));
        pass(&mut outgoing, &mut incoming, 20_000);
        outgoing.trim();
        incoming.trim();
        assert!(outgoing.bytes.capacity() >= 20_000 && incoming.storage.len() == READ_BYTES);
        // And none at all is needed at rest.
        outgoing.trim();
        incoming.trim();
        assert_eq!((outgoing.bytes.capacity(), incoming.storage.len()), (0, 0));
    }

    #[test]
    fn trim_loses_nothing() {
        let (mut outgoing, mut incoming) = (WriteBuffer::new(), ReadBuffer::new());
        outgoing.push(&7_u8).unwrap();
        let stream = frame_of(&7_u8);
        incoming.fill_from(&mut &stream[..5]).unwrap();
        for _ in 0..3 {
            outgoing.trim();
            incoming.trim();
        }
        let mut taken = Vec::new();
        assert_eq!(outgoing.write_to(&mut taken).unwrap(), Progress::Done);
        assert_eq!(taken, stream);
        incoming.fill_from(&mut &stream[5..]).unwrap();
        assert_eq!(incoming.next_frame(), Ok(Some(&[7][..])));
    }

    #[test]
    fn what_is_not_taken_is_not_lost() {
        let stream = frame_of(&Bytes::from(vec![5; 50_000])).repeat(10);
        let mut buffer = ReadBuffer::new();
        let mut reader = stream.as_slice();
        while buffer.fill_from(&mut reader).unwrap() > 0 {}
        assert_eq!(buffer.unread(), stream.len());
        let mut frames = 0;
        while buffer.next_frame().unwrap().is_some() {
            frames += 1;
        }
        assert_eq!((frames, buffer.unread()), (10, 0));
    }

    #[test]
    fn a_broken_frame_is_reported_again_and_again() {
        let mut stream = frame_of(&1_u8);
        stream.extend(frame_of(&2_u8));
        stream[HEADER_BYTES + 1 + 4] ^= 0x80;
        let mut buffer = ReadBuffer::new();
        buffer.fill_from(&mut stream.as_slice()).unwrap();
        assert_eq!(buffer.next_frame(), Ok(Some(&[1][..])));
        let error = buffer.next_frame().unwrap_err();
        assert!(
            matches!(error, FrameError::WrongChecksum { bytes: 1, .. }),
            "{error}"
        );
        assert_eq!(buffer.next_frame(), Err(error));
    }

    #[test]
    fn the_end_of_the_stream_within_a_frame_can_be_told() {
        let stream = frame_of(&1_u64);
        let mut reader = &stream[..stream.len() - 1];
        let mut buffer = ReadBuffer::new();
        while buffer.fill_from(&mut reader).unwrap() > 0 {}
        assert_eq!(buffer.next_frame(), Ok(None));
        assert_eq!(buffer.unread(), stream.len() - 1);
    }

    /// A reader and writer that is interrupted, then blocks, then goes on for `limit` bytes, in turn.
    struct Moody {
        turn: usize,
        limit: usize,
        taken: Vec<u8>,
    }

    impl Write for Moody {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.turn += 1;
            match self.turn % 3 {
                1 => Err(ErrorKind::Interrupted.into()),
                2 => Err(ErrorKind::WouldBlock.into()),
                _ => {
                    let count = self.limit.min(bytes.len());
                    self.taken.extend_from_slice(&bytes[..count]);
                    Ok(count)
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn partial_writes_lose_and_repeat_nothing() {
        let mut outgoing = WriteBuffer::new();
        let mut writer = Moody {
            turn: 0,
            limit: 37,
            taken: Vec::new(),
        };
        let mut expected = Vec::new();
        for number in 0..500_u64 {
            outgoing.push(&(number, "some name")).unwrap();
            expected.extend(frame_of(&(number, "some name")));
            if number % 3 == 0 {
                let _ = outgoing.write_to(&mut writer).unwrap();
            }
            assert_eq!(outgoing.pending() + writer.taken.len(), expected.len());
            assert!(outgoing.bytes.len() <= 2 * outgoing.pending() + 64);
        }
        while outgoing.write_to(&mut writer).unwrap() == Progress::Blocked {}
        assert_eq!(outgoing.pending(), 0);
        assert_eq!(writer.taken, expected);
    }

    #[test]
    fn a_writer_that_takes_nothing_is_an_error() {
        let mut outgoing = WriteBuffer::new();
        let mut full: &mut [u8] = &mut [];
        assert_eq!(outgoing.write_to(&mut full).unwrap(), Progress::Done);
        outgoing.push(&1_u8).unwrap();
        let error = outgoing.write_to(&mut full).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WriteZero);
        assert_eq!(outgoing.pending(), HEADER_BYTES + 1);
    }

    #[test]
    fn a_failed_push_leaves_the_rest_to_be_sent() {
        let mut outgoing = WriteBuffer::new();
        outgoing.push(&1_u8).unwrap();
        let error = outgoing
            .push(&Bytes::from(vec![0; MAX_FRAME_BYTES]))
            .unwrap_err();
        assert_eq!(
            error,
            FrameError::TooLong {
                bytes: MAX_FRAME_BYTES + 4
            }
        );
        let mut taken = Vec::new();
        assert_eq!(outgoing.write_to(&mut taken).unwrap(), Progress::Done);
        assert_eq!(taken, frame_of(&1_u8));
    }

    #[test]
    fn an_interrupted_read_is_repeated_and_a_blocked_one_is_reported() {
        struct Scripted(Vec<io::Result<u8>>);
        impl Read for Scripted {
            fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
                room[0] = self.0.remove(0)?;
                Ok(1)
            }
        }
        let mut reader = Scripted(vec![
            Err(ErrorKind::Interrupted.into()),
            Ok(9),
            Err(ErrorKind::WouldBlock.into()),
        ]);
        let mut buffer = ReadBuffer::new();
        assert_eq!(buffer.fill_from(&mut reader).unwrap(), 1);
        let error = buffer.fill_from(&mut reader).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert_eq!(buffer.unread(), 1);
    }
}
