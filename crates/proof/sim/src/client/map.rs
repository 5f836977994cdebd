//! Cluster map of a client: what it goes by, and where it finds a newer one.

use super::{Client, TELLERS, Todo};
use crate::history::History;
use crate::scenario::{MILLISECOND, Moment};
use crate::server::Asker;
use pandofs_placement::ClusterMap;
use pandofs_session::Event;
use pandofs_types::{Epoch, ShardId};
use std::sync::Arc;

/// Pause before a server is asked again for the map with a shard that no map has so far.
const ASK_PAUSE: Moment = 50 * MILLISECOND;

/// Reason why a worker asks for the cluster map.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AsksMap {
    /// The server has a newer one, by which it refused the worker's call.
    ForCall,
    /// No server of the map has the shard that the call is for.
    ForShard,
}

impl Client {
    pub(crate) fn epoch(&self) -> Epoch {
        self.map.epoch
    }

    /// Newer maps that it took up.
    pub(crate) fn maps_learnt(&self) -> u64 {
        self.maps_learnt
    }

    /// When it asked a server for something last: by that it hears of a newer map.
    pub(crate) fn last_asked(&self) -> Moment {
        self.last_asked
    }

    /// Servers on its map.
    pub(crate) fn servers(&self) -> usize {
        self.map.servers.len()
    }

    /// The shard's server; `None` if its map has no such shard.
    pub(super) fn server_of(&self, shard: ShardId) -> Option<usize> {
        server_of(&self.map, shard)
    }

    pub(super) fn shards_of(&self, server: usize) -> Vec<ShardId> {
        let shards = (0..self.map.shard_count()).map(ShardId);
        let is_led = |shard: &ShardId| self.server_of(*shard) == Some(server);
        shards.filter(is_led).collect()
    }

    /// Reads the file again; whether it held a newer map.
    pub(super) fn reread(&mut self, todo: &mut Vec<Todo>) -> bool {
        let file = Arc::clone(&self.file);
        self.take_map(&file, todo)
    }

    /// Takes up a map if it is newer.
    fn take_map(&mut self, map: &Arc<ClusterMap>, todo: &mut Vec<Todo>) -> bool {
        if map.epoch <= self.map.epoch {
            return false;
        }
        if let Err(why) = self.map.check_successor(map) {
            todo.push(Todo::Broken(format!("a map does not follow: {why}")));
            return false;
        }
        let known = self.servers();
        self.map = Arc::clone(map);
        self.maps_learnt += 1;
        if self.takes_leases {
            let listen = |server| Todo::Listen { server, pause: 0 };
            todo.extend((known..self.servers()).map(listen));
        }
        true
    }

    /// Has a server asked for its map in the course of the worker's call.
    pub(super) fn ask_map(
        &mut self,
        worker: usize,
        server: usize,
        why: AsksMap,
        todo: &mut Vec<Todo>,
    ) {
        let state = &mut self.workers[worker];
        state.attempt += 1;
        state.asks_map = Some(why);
        let asker = Asker {
            client: self.number,
            session: self.session,
            worker,
            attempt: state.attempt,
        };
        todo.push(Todo::AskMap { server, asker });
    }

    /// As [`Client::ask_map`], for a shard that the map does not have: the server that spoke of it may not be there.
    pub(super) fn ask_any_for_map(&mut self, worker: usize, todo: &mut Vec<Todo>) {
        let server = self.random.below(self.servers() as u64) as usize;
        self.ask_map(worker, server, AsksMap::ForShard, todo);
    }

    /// Looks for a newer map as long as something is open: it may have moved to a server that joined.
    pub(super) fn look_for_map(&mut self, todo: &mut Vec<Todo>) {
        if self.reread(todo) {
            return;
        }
        let server = self.random.below(self.servers() as u64) as usize;
        let asker = Asker {
            client: self.number,
            session: self.session,
            worker: TELLERS,
            attempt: 0,
        };
        todo.push(Todo::AskMap { server, asker });
    }

    /// A server has told its map.
    pub(crate) fn map_told(
        &mut self,
        history: &mut History,
        asker: Asker,
        map: &Arc<ClusterMap>,
    ) -> Vec<Todo> {
        let mut todo = Vec::new();
        let is_newer = self.take_map(map, &mut todo);
        if asker.worker != TELLERS && self.workers[asker.worker].attempt == asker.attempt {
            self.map_looked_for(history, asker.worker, is_newer, &mut todo);
        }
        todo
    }

    /// The worker's search for a newer map has come to its end.
    pub(super) fn map_looked_for(
        &mut self,
        history: &mut History,
        worker: usize,
        is_newer: bool,
        todo: &mut Vec<Todo>,
    ) {
        let state = &mut self.workers[worker];
        state.attempt += 1;
        match state.asks_map.take() {
            None => {}
            Some(AsksMap::ForShard) => {
                let pause = if is_newer { 0 } else { ASK_PAUSE };
                todo.push(Todo::Send { worker, pause });
            }
            Some(AsksMap::ForCall) => {
                if let Some(call) = state.calls.pop() {
                    // Another worker may have taken it up meanwhile.
                    let is_newer = is_newer || self.map.epoch > call.asked.epoch;
                    let event = Event::MapLookedFor { is_newer };
                    self.react(history, worker, call, event, todo);
                }
            }
        }
    }
}

/// The shard's server, if the map has that shard.
pub(super) fn server_of(map: &ClusterMap, shard: ShardId) -> Option<usize> {
    map.has_shard(shard)
        .then(|| usize::from(map.server_of(shard).0))
}
