//! The parallel tree walk over MPI (Open MPI or MPICH): `mpirun -n 20 pandofs walk /scratch`.
//!
//! Without the feature `mpi` this crate is empty and needs no MPI to build. The command
//! `pandofs-mpi` is apart from `pandofs` because a program that is linked to MPI does not start
//! where MPI is not installed; `pandofs` runs it in its place when it was started by `mpirun`.
//!
//! Invariant: nothing here waits in MPI while a walk goes on: sends and receives are begun and
//! looked after. Counts have 31 bits in MPI: no message is longer than a piece, and what all tell
//! all before a walk is a few hundred bytes of each, or of the first a part of a list.

pub mod limits;
#[cfg(feature = "mpi")]
mod link;
#[cfg(feature = "mpi")]
mod pulse;
#[cfg(feature = "mpi")]
mod standard;
#[cfg(feature = "mpi")]
mod watch;

#[cfg(feature = "mpi")]
pub use link::{MpiLink, Sent, Traffic};
#[cfg(feature = "mpi")]
pub use pulse::Pulse;
#[cfg(feature = "mpi")]
pub use standard::write_to_launchers;
