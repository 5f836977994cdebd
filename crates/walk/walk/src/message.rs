//! Messages between ranks.

use crate::RankId;

/// A message between two ranks. Messages may overtake one another, also between the same two ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<T> {
    /// "I am idle." To a rank that splits its queue, or to the master of a centralized walk.
    Ask,
    /// Items for the one who asked: never empty.
    Work {
        /// At least one; they are the receiver's from now on.
        items: Vec<T>,
    },
    /// "I have none to give."
    Deny,
    /// Termination detection, around the ring of ranks.
    Token(Token),
    /// All is done. Handed on along a binary tree of the ranks; a master tells its slaves itself.
    Finish,
    /// A rank has died, so the walk cannot be complete.
    Abort {
        /// The one that died.
        dead: RankId,
    },
    /// From a slave to the master: children found while its task goes on.
    Found {
        /// At least one.
        items: Vec<T>,
    },
    /// From a slave to the master: the task is done, with these last children, after so many
    /// [`Message::Found`]. It asks for the next one.
    Results {
        /// May be empty.
        items: Vec<T>,
        /// So that the master knows when it has all of them.
        found_messages: u64,
    },
}

/// Colour of a rank and of the token, see `token.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// The rank has received no work since the token was here.
    White,
    /// Work was received since the token was here: what the token says may be out of date.
    Black,
}

/// The token that goes around the ring to find out whether all is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Black if it is out of date.
    pub colour: Colour,
    /// Messages with work that the ranks so far have sent, less those they have received.
    pub in_flight: i64,
}
