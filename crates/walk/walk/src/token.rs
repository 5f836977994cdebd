//! Termination detection by a token that goes around the ring of ranks.
//!
//! The paper takes Dijkstra's algorithm (EWD 840): the idle root sends a white token to rank 1; a
//! rank hands it on when it is idle; a rank that sent work to a *lower* one turns black, and a
//! black rank blackens the token and turns white; a white token that comes back to a white root
//! says that all is done. That holds where a message arrives at the moment it is sent. Here
//! messages take time and overtake one another, and the rule is early:
//!
//! 1. Ranks 0, 2 and 3 are idle, rank 1 works. The token, white, waits at rank 1.
//! 2. Rank 3 asks rank 1, which sends it work. 3 is higher than 1, so 1 stays white. The message is slow.
//! 3. Rank 1 becomes idle and hands the white token on; it passes rank 2 and the still idle rank 3 and
//!    comes back to rank 0, white. Rank 0 ends the walk, with work under way.
//!
//! So ranks count as well, which is Safra's version (EWD 998): each keeps the number of messages
//! *with work* that it sent, less those it received; the token adds the counts up; and a rank that
//! *receives* work turns black. Rank 0 decides that all is done when a token comes back to it, it
//! is idle, it and the token are white, and the token's sum and its own count make 0.
//!
//! *Never early.* Let `c(i)` be rank i's count, `q` the token's sum, R the ranks that the token has left in
//! this round, and B the number of messages with work that are under way; B is the sum of all
//! `c(i)`. While a token goes around, one of these holds:
//!
//! - P1: all of R are idle, and the sum of `c` over R is `q`;
//! - P2: `q` plus the sum of `c` over the others is more than 0;
//! - P3: some rank outside of R is black;
//! - P4: the token is black.
//!
//! At the start R is empty and P1 holds. A rank outside of R that receives work turns black: P3. A
//! rank of R that receives work may end P1; but if P1 held, then B = `q` + the others' sum, and B
//! was at least 1 before the message came, so P2 holds, and reception inside of R does not change
//! it. A rank of R that sends work was active, so P1 did not hold, and nothing else depends on it;
//! one outside of R that sends raises the sum of P2. An idle rank that hands the token on moves its
//! count from one side of P2 to the other, keeps P1 if it held, and turns P3 into P4 if it was the
//! black one. When rank 0 is idle and has the token back, R is all the others. If token and rank 0
//! are white and `q` + `c(0)` is 0, then P2, P3 and P4 are false, so P1 holds: all are idle, and B
//! = `q` + `c(0)` = 0. In the example the sum at rank 0 is 1.
//!
//! *Never missing.* Once all ranks are idle and no work is under way no rank turns black any more and the
//! counts sum up to 0. The token goes on since all are idle; the round that is under way whitens
//! all ranks, and the next comes back white with sum 0.
//!
//! Only work is counted. Requests and refusals make no rank active.

use crate::message::{Colour, Token};

/// State of the detection at one rank.
#[derive(Debug)]
pub(crate) struct Detector {
    colour: Colour,
    /// Messages with work sent, less those received.
    count: i64,
    /// The token, while it is here.
    held: Option<Token>,
    /// Rank 0: a token is on its way or here.
    round: bool,
}

impl Detector {
    pub(crate) fn new() -> Detector {
        Detector {
            colour: Colour::White,
            count: 0,
            held: None,
            round: false,
        }
    }

    pub(crate) fn work_sent(&mut self) {
        self.count += 1;
    }

    pub(crate) fn work_received(&mut self) {
        self.count -= 1;
        self.colour = Colour::Black;
    }

    /// # Panics
    /// When there is one here already: there is one token.
    pub(crate) fn token_arrived(&mut self, token: Token) {
        assert!(self.held.is_none(), "there is one token");
        self.held = Some(token);
    }

    /// A rank other than 0 is idle: the token to hand on, if it is here.
    pub(crate) fn hand_on(&mut self) -> Option<Token> {
        let token = self.held.take()?;
        let handed = Token {
            colour: match self.colour {
                Colour::Black => Colour::Black,
                Colour::White => token.colour,
            },
            in_flight: token.in_flight + self.count,
        };
        self.colour = Colour::White;
        Some(handed)
    }

    /// Rank 0 is idle, and there are others.
    pub(crate) fn judge(&mut self) -> Verdict {
        let held = self.held.take();
        match held {
            None if self.round => return Verdict::Wait,
            Some(token)
                if token.colour == Colour::White
                    && self.colour == Colour::White
                    && token.in_flight + self.count == 0 =>
            {
                return Verdict::AllDone;
            }
            None | Some(_) => {}
        }
        self.round = true;
        self.colour = Colour::White;
        Verdict::Send(Token {
            colour: Colour::White,
            in_flight: 0,
        })
    }
}

/// Conclusion of rank 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The token is elsewhere.
    Wait,
    /// Send this one around.
    Send(Token),
    AllDone,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: Token = Token {
        colour: Colour::White,
        in_flight: 0,
    };

    #[test]
    fn a_white_token_with_nothing_in_flight_ends_it() {
        let (mut root, mut other) = (Detector::new(), Detector::new());
        assert_eq!(root.judge(), Verdict::Send(FRESH));
        assert_eq!(root.judge(), Verdict::Wait);
        other.token_arrived(FRESH);
        root.token_arrived(other.hand_on().unwrap());
        assert_eq!(root.judge(), Verdict::AllDone);
    }

    /// The interleaving of the header: the token overtakes work that goes up.
    #[test]
    fn a_token_that_overtakes_work_does_not_end_it() {
        let mut ranks: Vec<Detector> = (0..4).map(|_| Detector::new()).collect();
        assert_eq!(ranks[0].judge(), Verdict::Send(FRESH));
        ranks[1].token_arrived(FRESH);
        ranks[1].work_sent();
        let mut token = ranks[1].hand_on().unwrap();
        for rank in [2, 3] {
            ranks[rank].token_arrived(token);
            token = ranks[rank].hand_on().unwrap();
        }
        assert_eq!(
            token,
            Token {
                colour: Colour::White,
                in_flight: 1
            }
        );
        ranks[0].token_arrived(token);
        assert_eq!(ranks[0].judge(), Verdict::Send(FRESH));

        // The work arrives; one round finds rank 3 black, the next ends it.
        ranks[3].work_received();
        let round = |ranks: &mut [Detector]| {
            let mut token = FRESH;
            for rank in &mut ranks[1..] {
                rank.token_arrived(token);
                token = rank.hand_on().unwrap();
            }
            ranks[0].token_arrived(token);
            ranks[0].judge()
        };
        assert_eq!(round(&mut ranks), Verdict::Send(FRESH));
        assert_eq!(round(&mut ranks), Verdict::AllDone);
    }
}
