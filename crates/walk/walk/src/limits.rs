//! Limits of the walk of one rank, with their units.

use std::time::Duration;

/// Items of work that one rank of a tree walk keeps in memory; above, the oldest are spilled.
pub const SPILL_ABOVE_ITEMS: usize = 65_536;
/// Items that a rank of a tree walk spills as one piece.
pub const SPILL_CHUNK_ITEMS: usize = 16_384;
/// Items that a rank of a tree walk gives away in one message.
pub const GIVEN_ITEMS: usize = 16_384;
/// Items per worker in a rank's queue, below which a worker parts a large directory for others.
pub const READY_ITEMS_PER_WORKER: usize = 2;
/// Items in a rank's queue, below which a worker parts a large directory, while other ranks ask for
/// work. One that asks gets some of them and does not ask again at once, so there have to be many.
pub const READY_ITEMS_FOR_OTHERS: usize = 64;
/// Items that a rank's own workers take after which another rank's request is forgotten.
pub const ITEMS_BETWEEN_ASKERS: usize = 64;
/// Refusals in a row after which an idle rank of a tree walk pauses.
pub const DENIALS_BEFORE_PAUSE: u32 = 8;
/// Its first pause; each further time twice as long.
pub const SHORTEST_PAUSE: Duration = Duration::from_micros(50);
/// The longest it pauses.
pub const LONGEST_PAUSE: Duration = Duration::from_millis(10);

const _: () = {
    assert!(SPILL_CHUNK_ITEMS <= SPILL_ABOVE_ITEMS);
    // A spilled piece is given away as it is.
    assert!(SPILL_CHUNK_ITEMS <= GIVEN_ITEMS);
    assert!(SHORTEST_PAUSE.as_nanos() <= LONGEST_PAUSE.as_nanos());
};
