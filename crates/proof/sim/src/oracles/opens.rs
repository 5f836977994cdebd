//! A file that a client has open is there, whatever becomes of its names: from when the client was told that it is open
//! until it begins to close it. One that a server lost with what it had not synced is nobody's fault.

use super::Finding;
use crate::client::Client;
use crate::history::History;
use pandofs_check::Tables;
use pandofs_types::Ino;
use std::collections::BTreeSet;

pub(super) fn check(tables: &Tables, clients: &[Client], history: &History) -> Result<(), Finding> {
    if clients.iter().all(|client| client.held().is_empty()) {
        return Ok(());
    }
    let stored: BTreeSet<Ino> = tables.inodes.keys().map(|(_, ino)| *ino).collect();
    for client in clients {
        for ino in client.held() {
            let may_be_gone = client.lapsed.contains(ino) || history.may_be_lost(*ino);
            if !stored.contains(ino) && !may_be_gone {
                return Err(Finding::new(
                    "opens",
                    format!("session {} has {ino} open, which is gone", client.session),
                ));
            }
        }
    }
    Ok(())
}
