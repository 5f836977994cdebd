//! Two-phase and three-phase commit between shards: what differs from S2PC-MP.

use crate::support::{Cluster, name, receiver, sent};
use pandofs_api::{PeerMessage, Request};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::Input;
use pandofs_types::CommitProtocol::TwoPhase;
use pandofs_types::{CommitProtocol, Ino, ShardId};

/// The second random number drawn leads to shard 1 of two.
fn cluster(commit_protocol: CommitProtocol) -> Cluster {
    let settings = Settings {
        commit_protocol,
        ..Settings::default()
    };
    Cluster::new(2, DirPolicy::Random, settings)
}

/// The messages by which shard 0 has shard 1 take part.
fn begun(cluster: &mut Cluster) -> Vec<PeerMessage> {
    let request = Request::Mkdir {
        dir: Ino::ROOT,
        name: name("a"),
        mode: 0o755,
        umask: 0,
    };
    let request = cluster.request(0, request);
    let messages = sent(&cluster.input(0, request).outputs);
    assert_eq!(messages.len(), 2, "a step and a vote: {messages:?}");
    messages
}

#[test]
fn a_vote_is_taken_once_whether_it_comes_before_its_step_or_with_it_or_after_it() {
    let orders: [&[&[usize]]; 4] = [&[&[0, 1]], &[&[1, 0]], &[&[1], &[0]], &[&[0], &[1]]];
    for order in orders {
        let mut cluster = cluster(TwoPhase);
        let messages = begun(&mut cluster);
        let mut voted = Vec::new();
        for batch in order {
            let inputs = batch.iter().map(|&at| Input::Peer(messages[at].clone()));
            let outputs = cluster.batch(1, inputs.collect()).outputs;
            voted.extend(sent(&outputs));
        }
        assert_eq!(voted.len(), 1, "{order:?}: {voted:?}");
        assert_eq!(receiver(&voted[0]), ShardId(0));
    }
}

#[test]
fn a_step_without_a_vote_is_not_answered() {
    let mut cluster = cluster(TwoPhase);
    let messages = begun(&mut cluster);
    let outputs = cluster.input(1, Input::Peer(messages[0].clone())).outputs;
    assert_eq!(sent(&outputs), []);
}
