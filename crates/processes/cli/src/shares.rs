//! Shares of the servers in the whole, beside the part that its weight gives each.

use crate::admin::ServerView;
use crate::table::{Align, Table};
use crate::weights::{Weight, is_set};
use pandofs_placement::{ClusterMap, ServerInfo};
use pandofs_types::ServerId;
use serde::Serialize;
use std::collections::HashMap;

/// Parts of the whole, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Share {
    /// Of all weights.
    pub weight: f64,
    /// Of all shards: where a shard is drawn at random, this is how likely it is the server's.
    pub shards: f64,
    /// Of all inodes; unknown while some server is away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes: Option<f64>,
}

/// The share of each server, in the order of the views.
pub(crate) fn of_each(map: &ClusterMap, views: &[ServerView]) -> Vec<Share> {
    let weights: u64 = map.servers.iter().map(|s| u64::from(s.weight)).sum();
    let inodes = |view: &ServerView| view.sum(|shard| shard.inodes);
    let all_inodes: u64 = views.iter().map(inodes).sum();
    let all_there = views.iter().all(|view| view.status.is_ok());
    let mut led: HashMap<ServerId, u64> = HashMap::new();
    for &server in &map.shards {
        *led.entry(server).or_default() += 1;
    }
    let share = |view: &ServerView| Share {
        weight: part(u64::from(view.info.weight), weights),
        shards: part(
            led.get(&view.info.id).copied().unwrap_or(0),
            u64::from(map.shard_count()),
        ),
        inodes: all_there.then(|| part(inodes(view), all_inodes)),
    };
    views.iter().map(share).collect()
}

/// In millionths, so that it reads well.
fn part(own: u64, whole: u64) -> f64 {
    const GRAIN: f64 = 1e6;
    match whole {
        0 => 0.0,
        _ => (own as f64 / whole as f64 * GRAIN).round() / GRAIN,
    }
}

/// Weights, domains and shares, if some server has another weight or domain than it has by itself. Else they say
/// nothing that the other tables do not.
pub(crate) fn table(map: &ClusterMap, views: &[ServerView]) -> Option<Table> {
    if !map.servers.iter().any(is_set) {
        return None;
    }
    let mut table = Table::new(&[
        ("server", Align::Left),
        ("domain", Align::Left),
        ("weight", Align::Right),
        ("of all weight", Align::Right),
        ("of all shards", Align::Right),
        ("of all inodes", Align::Right),
    ]);
    for (view, share) in views.iter().zip(of_each(map, views)) {
        let ServerInfo {
            id, domain, weight, ..
        } = &view.info;
        table.row(vec![
            id.to_string(),
            domain.clone(),
            Weight(*weight).to_string(),
            per_cent(share.weight),
            per_cent(share.shards),
            share.inodes.map_or("-".into(), per_cent),
        ]);
    }
    Some(table)
}

fn per_cent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::AdminError;
    use crate::new_cluster::tests::options;

    fn away(map: &ClusterMap) -> Vec<ServerView> {
        let view = |info: &ServerInfo| ServerView {
            info: info.clone(),
            status: Err(AdminError::NoAddress),
            scrub: None,
        };
        map.servers.iter().map(view).collect()
    }

    #[test]
    fn shares_are_of_the_map_while_servers_are_away() {
        let mut options = options();
        options.weights = vec!["1".parse().unwrap(), "3".parse().unwrap()];
        options.domains = vec!["left".parse().unwrap(), "right".parse().unwrap()];
        let map = options
            .create_map(vec!["unix:/a".into(), "unix:/b".into()])
            .unwrap();
        let shares = of_each(&map, &away(&map));
        assert_eq!([shares[0].weight, shares[1].weight], [0.25, 0.75]);
        let led = map.shards_of(map.servers[0].id).len() as f64;
        assert_eq!(shares[0].shards, (led / 64.0 * 1e6).round() / 1e6);
        assert_eq!(shares[1].inodes, None);
        let text = table(&map, &away(&map)).unwrap().to_string();
        let row = text.lines().last().unwrap();
        let cells: Vec<&str> = row.split_whitespace().take(5).collect();
        assert_eq!(cells, ["1", "right", "3", "75.0", "%"], "{text}");
        assert!(row.ends_with('-'), "{text}");
    }

    #[test]
    fn ordinary_servers_have_no_such_table() {
        let map = options().create_map(vec!["unix:/a".into()]).unwrap();
        assert!(table(&map, &away(&map)).is_none());
        assert_eq!(part(0, 0), 0.0);
    }
}
