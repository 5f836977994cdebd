//! Acknowledged operations survive what they were promised to survive: a server that starts again has every record
//! after which something was said that had waited for the disk, and after a mere kill every record that it wrote.

use super::Finding;
use crate::server::Server;

pub(super) fn check(server: &Server) -> Result<(), Finding> {
    let Some(process) = &server.process else {
        return Ok(());
    };
    for (&shard, &promised) in &server.promised {
        let applied = process.shards().shard(shard).applied();
        if applied < promised {
            return Err(Finding::new(
                "survives",
                format!("shard {shard} is at record {applied}, and had promised {promised}"),
            ));
        }
    }
    Ok(())
}
