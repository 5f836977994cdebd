//! Inputs that need what is not in memory.
//!
//! A lane does not wait for the disk because of one request. Where it would have to, the key is read on a helper
//! thread and the input submitted again, as often as it needs keys. Nothing keeps a key in memory until then: with
//! little memory, or with filters that take up all of the store's cache, the first key may be gone when the second has
//! come, and an input would be warmed for ever. So where a key is cold that was read for the same input before, the
//! lane reads for that input itself.

use crate::port::{Environment, Input, Output};
use crate::shard::Shard;
use pandofs_api::Cause;
use pandofs_namespace::Stop;
use pandofs_storage::store::Overlay;

impl Shard {
    /// Whether the input at hand is to go by what is in memory, and be [warmed](Shard::warm) where that is not enough.
    pub(crate) fn goes_by_memory(&self) -> bool {
        match self.commands.warmed.split_last() {
            None => true,
            Some((last, before)) => !before.contains(last),
        }
    }

    /// Has the key read and the input, which is the one at hand, submitted again.
    pub(crate) fn warm(&mut self, key: Vec<u8>, input: Input) {
        assert!(self.goes_by_memory(), "a key is cold that was waited for");
        let mut keys = std::mem::take(&mut self.commands.warmed);
        keys.push(key);
        if let Input::Request { ticket, .. } = &input {
            self.commands.waits(*ticket, Cause::Store);
        }
        self.push_output(Output::Warm { keys, input });
    }

    /// The input again, after these keys were read.
    pub(crate) fn submit_warmed(
        &mut self,
        overlay: &Overlay<'_>,
        env: &mut Environment<'_>,
        input: Input,
        keys: Vec<Vec<u8>>,
    ) -> Result<(), Stop> {
        self.commands.warmed = keys;
        let done = match input {
            Input::Request { ticket, request } => {
                self.commands.goes_on(ticket);
                self.request(overlay, env, ticket, request)
            }
            Input::Peer(message) => self.peer(overlay, env, message),
            other => unreachable!("{other:?} needs no key"),
        };
        self.commands.warmed = Vec::new();
        done
    }
}
