//! Records alone say what is stored: all of them, applied once more to an empty store, give what a server has, byte by byte.
//! Anything that a server goes by and no record has would have another server, or this one after a crash, come to another
//! state.

use super::Finding;
use crate::server::Server;
use pandofs_storage::store::KvRead;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

pub(super) fn check(servers: &[Server]) -> Result<(), Finding> {
    for server in servers {
        let again = server
            .replayed()
            .map_err(|error| Finding::new("replayed", format!("server {}: {error}", server.id)))?;
        let (live, again) = (pairs(server.stored()), pairs(&again));
        let keys = live.keys().chain(again.keys());
        if let Some(key) = keys.min_by_key(|key| (live.get(*key) == again.get(*key), *key))
            && live.get(key) != again.get(key)
        {
            let what = format!(
                "server {}: key {key:02x?} is {:02x?}, and {:02x?} by the records",
                server.id,
                live.get(key),
                again.get(key)
            );
            return Err(Finding::new("replayed", what));
        }
    }
    Ok(())
}

fn pairs(store: &dyn KvRead) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut pairs = BTreeMap::new();
    store
        .scan(&[], &[0xff; 64], &mut |key, value| {
            pairs.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })
        .expect("memory can be read");
    pairs
}
