//! Exchange between walks: rank 0 collects from each process and broadcasts to all.
//!
//! It takes from one process after the other, in pieces, of which a few at most are under way: so
//! neither its memory nor the number of its files grows with that of processes. All output that a
//! process handed over before has been written then, as it was sent before, to the same one. Those
//! that wait sleep, as in a walk.

use crate::dir::Unreadable;
use crate::limits::{CHECKPOINT_PIECE_BYTES, LONGEST_POLL, SHORTEST_POLL, UNRECEIVED_PIECES};
use crate::message::{self, Body, Envelope};
use crate::meter::Meter;
use crate::processes::Processes;
use crate::threads::WalkError;
use std::fs::File;
use std::io::{Read, Seek, Write};

/// Bytes that come from one process.
#[derive(Debug)]
pub(crate) struct Arriving {
    from: u32,
    file: File,
    is_whole: bool,
}

impl Processes<'_> {
    /// Rank 0 takes what the others give, each as a file, which `take` gets at its beginning with
    /// its rank, in their order. `file` is where it is until then; of the other processes it is
    /// what they give, from where it is to its end. All processes call it, after a walk.
    ///
    /// # Errors
    /// When the file cannot be read or written, `take` fails, or another process sent what makes no
    /// sense.
    pub fn collect<E: From<WalkError>>(
        &mut self,
        file: File,
        meter: &Meter,
        mut take: impl FnMut(u32, &mut File) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.rank() != 0 {
            return Ok(self.give(file, meter)?);
        }
        let mut file = file;
        for from in 1..self.ranks() {
            file = self.fetch(from, file, meter)?;
            file.rewind().map_err(WalkError::Checkpoint)?;
            take(from, &mut file)?;
        }
        // Output that was handed over here has to be written as well.
        self.send_outputs()?;
        Ok(())
    }

    /// Broadcasts what rank 0 says. All processes call it after a walk, the others with anything.
    ///
    /// # Errors
    /// When another process sent what makes no sense.
    pub fn broadcast(&mut self, said: &[u8], meter: &Meter) -> Result<Vec<u8>, WalkError> {
        if self.rank() == 0 {
            self.send_to_others(Body::Broadcast(said));
            return Ok(said.to_vec());
        }
        let mut received = None;
        self.until(meter, |processes| {
            received = processes.broadcasts.pop_front();
            Ok(received.is_some())
        })?;
        received.ok_or(WalkError::Unreadable(Unreadable))
    }

    fn fetch(&mut self, from: u32, file: File, meter: &Meter) -> Result<File, WalkError> {
        let mut file = file;
        file.set_len(0)
            .and_then(|()| file.rewind())
            .map_err(WalkError::Checkpoint)?;
        self.arriving = Some(Arriving {
            from,
            file,
            is_whole: false,
        });
        self.send(from, Body::Fetch);
        self.until(meter, |processes| {
            Ok(processes.arriving.as_ref().is_none_or(|it| it.is_whole))
        })?;
        let arrived = self.arriving.take();
        Ok(arrived.ok_or(WalkError::Unreadable(Unreadable))?.file)
    }

    /// A piece has come.
    pub(crate) fn arrived(&mut self, from: u32, last: bool, bytes: &[u8]) -> Result<(), WalkError> {
        let arriving = self.arriving.as_mut();
        let arriving = arriving
            .filter(|it| it.from == from && !it.is_whole)
            .filter(|_| bytes.len() <= CHECKPOINT_PIECE_BYTES)
            .ok_or(WalkError::Unreadable(Unreadable))?;
        arriving
            .file
            .write_all(bytes)
            .map_err(WalkError::Checkpoint)?;
        arriving.is_whole = last;
        Ok(())
    }

    fn give(&mut self, mut file: File, meter: &Meter) -> Result<(), WalkError> {
        self.until(meter, |processes| {
            Ok(processes.is_fetched && processes.has_sent_outputs())
        })?;
        self.is_fetched = false;
        self.until(meter, |processes| {
            while processes.link.unreceived() < UNRECEIVED_PIECES {
                let mut bytes = Vec::new();
                let most = CHECKPOINT_PIECE_BYTES as u64;
                Read::by_ref(&mut file)
                    .take(most)
                    .read_to_end(&mut bytes)
                    .map_err(WalkError::Checkpoint)?;
                let last = bytes.len() < CHECKPOINT_PIECE_BYTES;
                let envelope = message::write(&Envelope {
                    walk: processes.walk,
                    body: Body::Piece {
                        last,
                        bytes: &bytes,
                    },
                });
                processes.link.send_counted(0, envelope);
                if last {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// Answers others and sends output until something is so.
    fn until(
        &mut self,
        meter: &Meter,
        mut is_so: impl FnMut(&mut Self) -> Result<bool, WalkError>,
    ) -> Result<(), WalkError> {
        let mut pause = SHORTEST_POLL;
        loop {
            let mut moved = self.send_outputs()?;
            moved |= self.receive_all(meter)?;
            if is_so(self)? {
                return Ok(());
            }
            if moved {
                pause = SHORTEST_POLL;
            } else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_POLL);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use std::collections::VecDeque;

    /// Two processes, of which the other one has sent this.
    struct Said(u32, VecDeque<Vec<u8>>);

    impl Link for Said {
        fn rank(&self) -> u32 {
            self.0
        }
        fn ranks(&self) -> u32 {
            2
        }
        fn all_gather(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
            vec![bytes.to_vec(); 2]
        }
        fn send(&mut self, _to: u32, _bytes: Vec<u8>) {}
        fn send_counted(&mut self, _to: u32, _bytes: Vec<u8>) {}
        fn unreceived(&mut self) -> usize {
            0
        }
        fn is_sent(&mut self) -> bool {
            true
        }
        fn receive(&mut self) -> Option<(u32, Vec<u8>)> {
            Some((1 - self.0, self.1.pop_front()?))
        }
    }

    fn piece(last: bool, length: usize) -> Vec<u8> {
        let bytes = &vec![7; length];
        message::write(&Envelope {
            walk: 0,
            body: Body::Piece { last, bytes },
        })
    }

    /// The result at the first process, if the other one sends this.
    fn collected(messages: &[Vec<u8>]) -> Result<u64, WalkError> {
        let mut link = Said(0, messages.iter().cloned().collect());
        let mut processes = Processes::new(&mut link, "host", "v1", |_| Ok(())).unwrap();
        let mut length = 0;
        let file = tempfile::tempfile().unwrap();
        let take = |_: u32, file: &mut File| -> Result<(), WalkError> {
            length = file.metadata().unwrap().len();
            Ok(())
        };
        processes.collect(file, &Meter::default(), take)?;
        // Nothing more was asked for.
        processes.receive_all(&Meter::default())?;
        Ok(length)
    }

    #[test]
    fn pieces_that_nobody_asked_for_are_refused() {
        let most = CHECKPOINT_PIECE_BYTES;
        let good = [piece(false, most), piece(true, 5)];
        assert_eq!(collected(&good).unwrap(), most as u64 + 5);
        assert!(collected(&[piece(true, most + 1)]).is_err(), "too long");
        let more = [piece(true, 5), piece(true, 5)];
        assert!(collected(&more).is_err(), "after the last");
        // All but the first take none.
        let mut link = Said(1, [piece(true, 5)].into());
        let mut processes = Processes::new(&mut link, "host", "v1", |_| Ok(())).unwrap();
        assert!(processes.receive_all(&Meter::default()).is_err());
    }
}
