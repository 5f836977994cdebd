//! Shards without a network: the test carries every message.

mod distributed;
mod splits;
mod support;
