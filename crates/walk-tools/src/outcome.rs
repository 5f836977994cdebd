//! How a tool ended.

/// How a tool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Some of it was not done: standard error says what.
    Incomplete,
    /// Ctrl-C.
    Interrupted,
}

impl Outcome {
    /// The exit code: 0, 1, and what shells give for an interrupt, 130.
    pub fn code(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::Incomplete => 1,
            Outcome::Interrupted => 130,
        }
    }
}
