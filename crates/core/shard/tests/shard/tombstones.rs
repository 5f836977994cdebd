//! Retention of others' operations that have ended.

use crate::support::{Cluster, name, receiver, sent};
use pandofs_api::{PeerMessage, Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::limits::{MAX_STRAGGLERS, STRAGGLES_AFTER};
use pandofs_types::{Ino, ShardId};

/// Of four shards the last is away.
const AWAY: ShardId = ShardId(3);

/// Shard 0 is asked for a directory. Messages to the shard that is away are lost; the answer, if there is one.
fn mkdir(cluster: &mut Cluster, number: u64) -> Option<Reply> {
    let request = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name(&format!("d{number}")),
        mode: 0o755,
        umask: 0,
    });
    let asked = cluster.request_by(1_000 + number, 0, request);
    let mut outputs = cluster.input(0, asked).outputs;
    let mut answer = None;
    while !outputs.is_empty() {
        for output in &outputs {
            if let Output::Answer { result, .. } = output {
                answer = Some(result.clone().expect("it is made"));
            }
        }
        let there = |message: &PeerMessage| receiver(message) != AWAY;
        let messages: Vec<_> = sent(&outputs).into_iter().filter(there).collect();
        outputs = Vec::new();
        for message in messages {
            let to = receiver(&message);
            outputs.extend(cluster.input(to.0, Input::Peer(message)).outputs);
        }
    }
    answer
}

/// A server is away, and operations with it cannot end. The others go on, and keep no more for that.
#[test]
fn what_cannot_end_has_others_keep_nothing_but_itself() {
    let settings = Settings {
        split_threshold: 1 << 20,
        ..Settings::default()
    };
    let mut cluster = Cluster::new(4, DirPolicy::Random, settings);
    let (mut stuck, mut ended, mut most) = (0, 0, (0, 0));
    for number in 0..4 * STRAGGLES_AFTER {
        // They take turns. When some are stuck the rest is left to those that can end.
        let shards = if stuck < 40 { 4 } else { 3 };
        cluster.draw_until(|drawn| drawn % 4 == number % shards);
        match mkdir(&mut cluster, number) {
            Some(_) => ended += 1,
            None => stuck += 1,
        }
        let kept = cluster.nodes[1].shard.kept_steps();
        most = (most.0.max(kept.0), most.1.max(kept.1));
    }
    assert!((40..MAX_STRAGGLERS).contains(&stuck), "{stuck} are stuck");
    assert!(ended > 2 * STRAGGLES_AFTER, "{ended} have ended");
    let (kept, active) = most;
    assert!(kept as u64 <= STRAGGLES_AFTER, "{kept} steps are kept");
    assert!(active <= 2, "a tick looks at {active} steps");
}
