//! Parallel tree walk as a step machine for each rank: events go in, commands come out.
//!
//! The algorithms are those of LaFon, Misra and Bringhurst, "On Distributed File Tree Walk of
//! Parallel File Systems" (SC 2012): the centralized walk that they measure against, and their
//! distributed queue splitting ([`Algorithm`]). A [`Rank`] knows neither how messages travel nor
//! what an item of work is; a *transport* carries out its [`Command`]s and tells it of [`Event`]s.
//! Several workers may share the queue of one rank, which is the paper's hybrid.
//!
//! Differences from the paper, and their reasons:
//!
//! - **A rank answers at any time**, not between two callbacks: a message is an event as any other, and
//!   the transport delivers it while work is under way. A slow item does not make thieves wait.
//! - **A rank gives away its oldest items**, which are nearest to the root and so have the most below
//!   them, and goes on with its newest, which keeps the queue short.
//! - **Items can be parts of a directory.** A worker tells of children while it still works
//!   ([`Event::Found`]), so one huge directory is shared before it has been read.
//! - **A queue too long for memory is spilled** ([`Command::Spill`]), the oldest items first, and a rank that asks then gets the
//!   piece that was spilled first, which this machine never sees again ([`Command::GiveSpilled`]).
//! - **Idle ranks pause**, longer each time, instead of asking without end.
//! - **Termination counts messages** (see `token.rs`): the paper's rule alone can be early.
//! - **The hybrid's threads take items as they become free**; the paper's master hands one to each and
//!   waits for all of them.
//!
//! Invariant: no I/O, clock, randomness, threads or async: a seed is an argument. Each item that a
//! rank was given or has heard of is handed to a worker or sent to one other rank exactly once, and
//! no rank finishes while there is an item anywhere, under way included.

mod algorithm;
mod central;
mod command;
pub mod limits;
mod message;
mod order;
mod queue;
mod rank;
mod rng;
mod share;
mod token;
mod topology;

pub use algorithm::{Algorithm, Split, UnknownAlgorithm};
pub use command::{Command, Event, Failure};
pub use message::{Colour, Message, Token};
pub use rank::{Config, Rank};
pub use rng::Rng;
pub use topology::{RankId, Topology};
