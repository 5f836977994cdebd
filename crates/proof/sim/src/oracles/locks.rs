//! No lock without an undecided operation: what a shard has locked belongs to an operation that it coordinates and that
//! is open, or that it is prepared for.

use super::Finding;
use crate::server::Server;

pub(super) fn check(server: &Server) -> Result<(), Finding> {
    let Some(process) = &server.process else {
        return Ok(());
    };
    for config in server.configs() {
        let left = process.shards().shard(config.shard).forgotten_locks();
        if !left.is_empty() {
            return Err(Finding::new(
                "locks",
                format!(
                    "shard {} keeps locks of the operations {left:?}, which have ended",
                    config.shard
                ),
            ));
        }
    }
    Ok(())
}
