//! Simulated tree walks ([`sim`]), from which the program beside this library draws the paper's figures.
//!
//! Invariant: one seed gives one run, to the nanosecond, on every machine; the simulation has no I/O,
//! clock or threads.

pub mod sim;
