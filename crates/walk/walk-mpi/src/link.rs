//! MPI as the carrier of messages between processes.

use crate::limits::MESSAGE_BYTES;
use mpi::Count;
use mpi::datatype::PartitionMut;
use mpi::request::{Request, StaticScope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, MatchedReceiveVec, Source};
use pandofs_walk_fs::Link;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The last piece of a message.
const LAST: i32 = 0;
/// A piece after which more come.
const MORE: i32 = 1;

/// All processes that were started together.
pub struct MpiLink {
    world: SimpleCommunicator,
    sending: Vec<Sending>,
    /// Pieces of messages whose last piece has not come, by sender.
    begun: HashMap<i32, Vec<u8>>,
    traffic: Traffic,
}

/// Messages that this process has sent to each, by rank.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Rc<RefCell<Vec<Sent>>>);

/// Traffic to one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Messages of a walk, however many pieces they went in.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
}

impl Traffic {
    /// So far.
    pub fn sent(&self) -> Vec<Sent> {
        self.0.borrow().clone()
    }

    fn count(&self, to: u32, bytes: usize) {
        let sent = &mut self.0.borrow_mut()[to as usize];
        sent.messages += 1;
        sent.bytes += bytes as u64;
    }
}

/// A piece under way. MPI reads it until the request is done.
struct Sending {
    piece: *mut [u8],
    request: Option<Request<'static, [u8], StaticScope>>,
    counted: bool,
}

impl MpiLink {
    /// Over all processes of `world`; nothing is sent yet.
    pub fn new(world: SimpleCommunicator) -> MpiLink {
        let ranks = world.size() as usize;
        MpiLink {
            world,
            sending: Vec::new(),
            begun: HashMap::new(),
            traffic: Traffic(Rc::new(RefCell::new(vec![Sent::default(); ranks]))),
        }
    }

    /// Returns the counter of sent messages, which goes on when the link has another owner.
    pub fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }

    fn begin(&mut self, to: u32, bytes: Vec<u8>, counted: bool) {
        self.traffic.count(to, bytes.len());
        let mut rest = bytes;
        while rest.len() > MESSAGE_BYTES {
            let after = rest.split_off(MESSAGE_BYTES);
            self.begin_piece(to, rest, MORE, false);
            rest = after;
        }
        self.begin_piece(to, rest, LAST, counted);
        self.look_after();
    }

    fn begin_piece(&mut self, to: u32, piece: Vec<u8>, tag: i32, counted: bool) {
        let piece = Box::into_raw(piece.into_boxed_slice());
        // SAFETY: it was made above, and is let go only by `look_after`, once the request is done
        // and with it the last use of this reference.
        let bytes: &'static [u8] = unsafe { &*piece };
        let process = self.world.process_at_rank(to as i32);
        let request = if counted {
            process.immediate_synchronous_send_with_tag(StaticScope, bytes, tag)
        } else {
            process.immediate_send_with_tag(StaticScope, bytes, tag)
        };
        self.sending.push(Sending {
            piece,
            request: Some(request),
            counted,
        });
    }

    /// Lets go of what has been sent.
    fn look_after(&mut self) {
        self.sending.retain_mut(|sending| {
            let Some(request) = sending.request.take() else {
                return false;
            };
            match request.test() {
                Ok(_) => {
                    // SAFETY: from `Box::into_raw` in `begin_piece`; MPI is done with it, and the
                    // request that held the only reference is gone.
                    drop(unsafe { Box::from_raw(sending.piece) });
                    false
                }
                Err(request) => {
                    sending.request = Some(request);
                    true
                }
            }
        });
    }
}

impl Link for MpiLink {
    fn rank(&self) -> u32 {
        self.world.rank() as u32
    }

    fn ranks(&self) -> u32 {
        self.world.size() as u32
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        // Never nothing: the address of an empty vector is what Open MPI calls MPI_IN_PLACE.
        let mut mine = bytes.to_vec();
        mine.push(0);
        let mut lengths = vec![0 as Count; self.world.size() as usize];
        self.world
            .all_gather_into(&(mine.len() as Count), &mut lengths[..]);
        let mut end: Count = 0;
        let mut starts = Vec::with_capacity(lengths.len());
        for length in &lengths {
            starts.push(end);
            // A count that wrapped around would have MPI write anywhere.
            end = match end.checked_add(*length) {
                Some(end) => end,
                None => unreachable!("what all processes tell is short"),
            };
        }
        let mut all = vec![0_u8; end as usize];
        let mut parts = PartitionMut::new(&mut all[..], &lengths[..], &starts[..]);
        self.world.all_gather_varcount_into(&mine[..], &mut parts);
        let parts = starts.iter().zip(&lengths);
        parts
            .map(|(start, length)| all[*start as usize..(start + length - 1) as usize].to_vec())
            .collect()
    }

    fn send(&mut self, to: u32, bytes: Vec<u8>) {
        self.begin(to, bytes, false);
    }

    fn send_counted(&mut self, to: u32, bytes: Vec<u8>) {
        self.begin(to, bytes, true);
    }

    fn unreceived(&mut self) -> usize {
        self.look_after();
        self.sending.iter().filter(|it| it.counted).count()
    }

    fn is_sent(&mut self) -> bool {
        self.look_after();
        self.sending.is_empty()
    }

    fn receive(&mut self) -> Option<(u32, Vec<u8>)> {
        loop {
            let found = self.world.any_process().immediate_matched_probe()?;
            let (piece, status) = found.matched_receive_vec::<u8>();
            let from = status.source_rank();
            // Pieces of one sender come in order, so that no others of it are between them.
            let whole = match self.begun.remove(&from) {
                None => piece,
                Some(mut begun) => {
                    begun.extend_from_slice(&piece);
                    begun
                }
            };
            if status.tag() == LAST {
                return Some((from as u32, whole));
            }
            self.begun.insert(from, whole);
        }
    }
}
