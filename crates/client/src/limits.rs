//! Limits of the client library that nothing else uses.

use pandofs_types::limits::{PING_INTERVAL, SESSION_TIMEOUT};
use std::time::Duration;

/// Silence after which a server may have let go of what the session has open.
pub(crate) const DOUBTFUL_SILENCE: Duration = SESSION_TIMEOUT.saturating_sub(PING_INTERVAL);
