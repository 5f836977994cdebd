//! Early operations: each that was answered is done by its shard in the order of its queue, or told to be lost, once. The
//! order is looked at with each answer to a batch and syncs with each of them (`crate::early`), the rest at the end.

use super::Finding;
use crate::client::Client;
use crate::history::History;

/// All was answered, and every queue is empty.
pub(crate) fn check(clients: &mut [Client], history: &mut History) -> Result<(), Finding> {
    for client in clients {
        let session = client.session;
        if let Some(left) = history.left_early(session) {
            let what = format!(
                "session {session} was answered {left:?}, which is neither done nor told to be lost"
            );
            return Err(Finding::new("early", what));
        }
        let told = client.tell_losses(history);
        told.map_err(|what| Finding::new("early", what))?;
    }
    Ok(())
}
