//! Output of `pandofs status --branch-points`.

use crate::admin::ServerView;
use crate::dump;
use crate::source::Cluster;
use crate::table::{Align, Table};
use crate::units;
use anyhow::Result;
use pandofs_check::Branches;
use pandofs_types::ServerId;
use serde::Serialize;
use std::collections::BTreeMap;

/// Names whose inode is on another shard, by the server that has the name.
pub(crate) struct BranchPoints(BTreeMap<ServerId, Branches>);

/// One server's, in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct BranchReport {
    server: u16,
    directories: u64,
    files: u64,
    /// Of both, with an inode on another server.
    on_other_servers: u64,
}

impl BranchPoints {
    /// Reads all that the servers have stored.
    ///
    /// # Errors
    /// When a server is away, or cannot read its store.
    pub(crate) fn count(cluster: &Cluster) -> Result<BranchPoints> {
        // Its faults are fsck's to tell.
        let picture = dump::online(&cluster.map, &mut |_| {})?;
        Ok(BranchPoints(Branches::by_server(&picture.tables)))
    }

    pub(crate) fn report(&self) -> Vec<BranchReport> {
        let all = self.0.iter();
        all.map(|(server, branches)| BranchReport {
            server: server.0,
            directories: branches.directories,
            files: branches.files,
            on_other_servers: branches.on_other_servers,
        })
        .collect()
    }

    /// Beside what they lead to.
    pub(crate) fn table(&self, views: &[ServerView]) -> Table {
        let mut table = Table::new(&[
            ("server", Align::Left),
            ("branch directories", Align::Right),
            ("branch files", Align::Right),
            ("on other servers", Align::Right),
            ("distributed", Align::Right),
            ("messages to servers", Align::Right),
        ]);
        for view in views {
            let branches = self.0.get(&view.info.id).copied().unwrap_or_default();
            let status = view.status.as_ref().ok();
            let count = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), units::count);
            table.row(vec![
                view.info.id.to_string(),
                units::count(branches.directories),
                units::count(branches.files),
                units::count(branches.on_other_servers),
                count(status.map(|status| status.distributed)),
                count(status.map(|status| status.peer_messages)),
            ]);
        }
        table
    }
}
