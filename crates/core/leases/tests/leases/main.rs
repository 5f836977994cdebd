//! Tables of leases and of file locks: beside naive models, and call by call.

mod file_locks;
mod grants;
mod lock_calls;
mod model;
mod waits;
