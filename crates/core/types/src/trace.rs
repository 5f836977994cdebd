//! Context of a trace: which span of which trace something is done for.

use serde::{Deserialize, Serialize};

/// W3C's `traceparent` of a span that is recorded. Code that has it carries it along, and looks into it no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceContext {
    /// The trace, over all processes.
    pub trace: [u8; 16],
    /// The span in it of which further ones are parts.
    pub span: [u8; 8],
}
