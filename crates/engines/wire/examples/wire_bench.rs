//! Round trips a second between two threads, by the number of requests in flight.
//!
//! Over one connection, on loopback TCP and on a Unix socket; and the rate of large answers.
//!
//! ```text
//! cargo run --release -p pandofs-wire --example wire_bench -- --rounds 7 --seconds 0.5
//! ```
//!
//! The client keeps its number of requests in flight: it takes all answers that have arrived and sends
//! as many new requests with one write. The server answers all that has arrived with one write. Rounds
//! of all cases are interleaved, so that what disturbs the machine for a while disturbs them alike.

use bytes::Bytes;
use pandofs_types::{
    Attr, Credentials, Epoch, FileKind, Ino, Name, SessionId, ShardId, SlotId, Time,
};
use pandofs_wire::address::{Address, Listener, Stream, connect};
use pandofs_wire::buffer::{Progress, ReadBuffer, WriteBuffer};
use pandofs_wire::frame::{self, FrameError, HEADER_BYTES};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::hint::black_box;
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

type AnyResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that is silent for so long is gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
const LARGE_ANSWER_BYTES: usize = 1 << 20;

/// A request about as large as a create.
#[derive(Clone, Serialize, Deserialize)]
struct Request {
    number: u64,
    session: SessionId,
    slot: SlotId,
    shard: ShardId,
    epoch: Epoch,
    dir: Ino,
    name: Name,
    mode: u16,
    credentials: Credentials,
    now: Time,
    /// Bytes of data wanted with the answer.
    data_bytes: u32,
}

/// An answer about as large as a create's.
#[derive(Serialize, Deserialize)]
struct Answer {
    number: u64,
    epoch: Epoch,
    attr: Attr,
    data: Bytes,
}

fn sample_request(data_bytes: u32) -> AnyResult<Request> {
    Ok(Request {
        number: 1 << 40,
        session: SessionId(0x0123_4567_89ab_cdef),
        slot: SlotId(1_000),
        shard: ShardId(63),
        epoch: Epoch(17),
        dir: Ino::new(ShardId(63), 1 << 40),
        name: Name::new(b"a-file-name-of-thirty-six-bytes.0001")?,
        mode: 0o644,
        credentials: Credentials::user(1_000, 1_000, vec![4, 24, 27, 100, 1_000]),
        now: Time(1_700_000_000_000_000_000),
        data_bytes,
    })
}

fn sample_answer(request: &Request, data: Bytes) -> Answer {
    let attr = Attr {
        ino: request.dir,
        kind: FileKind::File,
        mode: request.mode,
        nlink: 1,
        uid: request.credentials.uid,
        gid: request.credentials.gid,
        rdev: 0,
        size: 1 << 40,
        blocks: 1 << 31,
        atime: request.now,
        mtime: request.now,
        ctime: request.now,
        btime: request.now,
        has_xattrs: false,
    };
    Answer {
        number: request.number,
        epoch: request.epoch,
        attr,
        data,
    }
}

/// Answers what arrives until the client is gone.
fn serve(mut stream: Stream) -> AnyResult<()> {
    let (mut received, mut answers) = (ReadBuffer::new(), WriteBuffer::new());
    let data = Bytes::from(vec![0x5a; LARGE_ANSWER_BYTES]);
    loop {
        stream.await_input(SILENCE_LIMIT)?;
        if received.fill_from(&mut stream)? == 0 {
            return Ok(());
        }
        while let Some(body) = received.next_frame()? {
            let request: Request = frame::decode(body)?;
            let data = data.slice(..request.data_bytes as usize);
            answers.push(&sample_answer(&request, data))?;
        }
        write_all(&mut answers, &mut stream)?;
    }
}

fn write_all(buffer: &mut WriteBuffer, stream: &mut Stream) -> AnyResult<()> {
    match buffer.write_to(stream)? {
        Progress::Done => Ok(()),
        Progress::Blocked => Err("a blocking socket said that it would block".into()),
    }
}

/// Keeps `in_flight` requests on the way for `length`, and gives the round trips a second.
fn ask(
    stream: &mut Stream,
    mut request: Request,
    in_flight: usize,
    length: Duration,
) -> AnyResult<f64> {
    let (mut received, mut requests) = (ReadBuffer::new(), WriteBuffer::new());
    let first = request.number;
    let begin = Instant::now();
    for _ in 0..in_flight {
        requests.push(&request)?;
        request.number += 1;
    }
    let mut answered = first;
    while answered < request.number {
        write_all(&mut requests, stream)?;
        stream.await_input(SILENCE_LIMIT)?;
        if received.fill_from(stream)? == 0 {
            return Err("the server closed the connection".into());
        }
        let goes_on = begin.elapsed() < length;
        while let Some(body) = received.next_frame()? {
            let answer: Answer = frame::decode(body)?;
            if answer.number != answered || answer.data.len() != request.data_bytes as usize {
                return Err(format!("{} is answered as {}", answered, answer.number).into());
            }
            answered += 1;
            if goes_on {
                requests.push(&request)?;
                request.number += 1;
            }
        }
    }
    Ok((answered - first) as f64 / begin.elapsed().as_secs_f64())
}

fn round(address: &Address, case: &Case, length: Duration) -> AnyResult<f64> {
    let listener = Listener::bind(address)?;
    let address = listener.local_address()?;
    let request = sample_request(case.data_bytes)?;
    thread::scope(|scope| {
        let mut stream = connect(&address, CONNECT_TIMEOUT)?;
        let accepted = listener.accept()?;
        let server = scope.spawn(|| serve(accepted));
        let rate = ask(&mut stream, request, case.in_flight, length);
        // After an error, too, the server's thread has to end before the scope can.
        stream.shutdown(Shutdown::Both)?;
        match server.join() {
            Ok(served) => served.and(rate),
            Err(_) => Err("the server's thread panicked".into()),
        }
    })
}

/// Nanoseconds to encode a request as a frame, and to decode its body.
fn codec_costs(length: Duration) -> AnyResult<(f64, f64)> {
    let request = sample_request(0)?;
    let mut out = Vec::new();
    let encode = nanoseconds_each(length, || {
        out.clear();
        frame::encode_into(&mut out, black_box(&request))
    })?;
    let decode = nanoseconds_each(length, || {
        let request: Request = frame::decode(black_box(&out[HEADER_BYTES..]))?;
        black_box(request);
        Ok(())
    })?;
    Ok((encode, decode))
}

fn nanoseconds_each(
    length: Duration,
    mut action: impl FnMut() -> Result<(), FrameError>,
) -> AnyResult<f64> {
    let begin = Instant::now();
    let mut count = 0_u32;
    while begin.elapsed() < length {
        for _ in 0..1_000 {
            action()?;
        }
        count += 1_000;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e9 / f64::from(count))
}

#[derive(Clone, Copy)]
struct Case {
    in_flight: usize,
    data_bytes: u32,
}

const CASES: [Case; 6] = [
    Case {
        in_flight: 1,
        data_bytes: 0,
    },
    Case {
        in_flight: 8,
        data_bytes: 0,
    },
    Case {
        in_flight: 64,
        data_bytes: 0,
    },
    Case {
        in_flight: 256,
        data_bytes: 0,
    },
    Case {
        in_flight: 1,
        data_bytes: LARGE_ANSWER_BYTES as u32,
    },
    Case {
        in_flight: 8,
        data_bytes: LARGE_ANSWER_BYTES as u32,
    },
];

/// Runs everything and gives the lines of the table.
fn run(rounds: usize, length: Duration) -> AnyResult<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let addresses = [
        (
            "tcp",
            Address::Tcp {
                host: "127.0.0.1".to_owned(),
                port: 0,
            },
        ),
        ("unix", Address::Unix(folder.path().join("s"))),
    ];
    let cases: Vec<_> = addresses
        .iter()
        .flat_map(|(kind, address)| CASES.iter().map(move |case| (*kind, address, case)))
        .collect();
    let mut rates = vec![Vec::new(); cases.len()];
    let (mut encode, mut decode) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for ((_, address, case), rates) in cases.iter().zip(&mut rates) {
            rates.push(round(address, case, length)?);
        }
        let (encode_ns, decode_ns) = codec_costs(length / 4)?;
        encode.push(encode_ns);
        decode.push(decode_ns);
    }

    let request = sample_request(0)?;
    let (mut request_frame, mut answer_frame) = (Vec::new(), Vec::new());
    frame::encode_into(&mut request_frame, &request)?;
    frame::encode_into(&mut answer_frame, &sample_answer(&request, Bytes::new()))?;
    let mut lines = vec![
        format!(
            "request {} bytes, answer {} bytes, headers included; {rounds} rounds of {length:?}",
            request_frame.len(),
            answer_frame.len()
        ),
        format!(
            "encode {:.0} ns, decode {:.0} ns (median)",
            median(encode),
            median(decode)
        ),
        format!(
            "{:<6}{:>10}{:>12}{:>14}{:>14}{:>14}{:>12}",
            "socket", "in flight", "data bytes", "median /s", "lowest /s", "highest /s", "us each"
        ),
    ];
    for ((kind, _, case), rates) in cases.iter().zip(rates) {
        let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = rates.iter().copied().fold(0.0, f64::max);
        let median = median(rates);
        lines.push(format!(
            "{kind:<6}{:>10}{:>12}{median:>14.0}{lowest:>14.0}{highest:>14.0}{:>12.2}",
            case.in_flight,
            case.data_bytes,
            1e6 / median
        ));
    }
    Ok(lines)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

const USAGE: &str = "usage: wire_bench [--rounds COUNT] [--seconds LENGTH_OF_A_ROUND]";

fn parse(mut arguments: impl Iterator<Item = String>) -> AnyResult<(usize, Duration)> {
    let (mut rounds, mut seconds) = (7, 0.5);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--rounds" => rounds = value.parse().map_err(|_| USAGE)?,
            "--seconds" => seconds = value.parse().map_err(|_| USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    let length = Duration::try_from_secs_f64(seconds).map_err(|_| USAGE)?;
    if rounds == 0 || length.is_zero() {
        return Err(USAGE.into());
    }
    Ok((rounds, length))
}

fn main() -> AnyResult<()> {
    let (rounds, length) = parse(std::env::args().skip(1))?;
    for line in run(rounds, length)? {
        println!("{line}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_measures_every_case() {
        let lines = run(1, Duration::from_millis(5)).unwrap();
        assert_eq!(lines.len(), 3 + 2 * CASES.len());
        for line in &lines[3..] {
            let median: f64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
            assert!(median > 0.0, "{line}");
        }
    }

    #[test]
    fn arguments() {
        let parsed = |text: &str| parse(text.split_whitespace().map(str::to_owned));
        assert_eq!(parsed("").unwrap(), (7, Duration::from_millis(500)));
        assert_eq!(
            parsed("--seconds 2 --rounds 3").unwrap(),
            (3, Duration::from_secs(2))
        );
        for wrong in [
            "--rounds",
            "--rounds 0",
            "--seconds 0",
            "--seconds -1",
            "--help me",
        ] {
            assert_eq!(parsed(wrong).unwrap_err().to_string(), USAGE, "{wrong}");
        }
    }
}
