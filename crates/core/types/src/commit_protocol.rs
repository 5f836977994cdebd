//! Commit protocols of operations over several shards.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A commit protocol. All of them keep operations atomic through the same crashes here; they differ in what that
/// costs when nothing fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CommitProtocol {
    /// Xiong et al., figure 3(a): with two shards the participant decides, and the request is the
    /// coordinator's vote.
    #[default]
    #[serde(rename = "s2pc-mp")]
    S2pcMp,
    /// Two-phase commit beside the operation, figure 3(b): performed first, voted on after.
    #[serde(rename = "2pc")]
    TwoPhase,
    /// Three-phase commit, as FPFS uses it (Avilés-González et al., section III-E): all are told that all are
    /// prepared before anybody commits.
    #[serde(rename = "3pc")]
    ThreePhase,
}

impl CommitProtocol {
    /// In the order of their numbers in the formats.
    pub const ALL: [CommitProtocol; 3] = [
        CommitProtocol::S2pcMp,
        CommitProtocol::TwoPhase,
        CommitProtocol::ThreePhase,
    ];
}

impl fmt::Display for CommitProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CommitProtocol::S2pcMp => "s2pc-mp",
            CommitProtocol::TwoPhase => "2pc",
            CommitProtocol::ThreePhase => "3pc",
        })
    }
}

impl FromStr for CommitProtocol {
    type Err = String;

    fn from_str(text: &str) -> Result<CommitProtocol, String> {
        let named = CommitProtocol::ALL
            .into_iter()
            .find(|protocol| protocol.to_string() == text);
        named.ok_or_else(|| format!("'{text}' is no commit protocol: write s2pc-mp, 2pc or 3pc"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for protocol in CommitProtocol::ALL {
            assert_eq!(protocol.to_string().parse(), Ok(protocol));
        }
        assert!("paxos".parse::<CommitProtocol>().is_err());
    }
}
