use super::*;
use crate::message::{RequestBody, RequestFrame};
use bytes::Bytes;
use pandofs_api::{DataRequest, FIRST_TRUNCATIONS};
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
        truncations: FIRST_TRUNCATIONS,
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
    // A reader that has taken all reads again, and finds nothing.
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

#[test]
fn memory_is_given_back_when_nothing_is_in_it() {
    let sent = frame_of(&7_u32);
    let mut received = ReadBuffer::new();
    for _ in 0..2 {
        received.fill_from(&mut sent.as_slice()).unwrap();
        received.give_back();
        assert!(received.memory() >= sent.len());
        let body = received.next_frame().unwrap().unwrap();
        assert_eq!(frame::decode::<u32>(body).unwrap(), 7);
        received.give_back();
        assert_eq!(received.memory(), 0);
    }
}
