//! PandoFS's client library for Python, as far as it has to be in Rust: `pandofs._pandofs`.
//!
//! The package `pandofs`, beside it in `python/`, makes of this what Python has for files: see `docs/python.md`.
//!
//! Invariant: whatever Python gives, a call returns a value or raises; none waits for a server with the interpreter's lock
//! held; nothing of the process that this one was forked from is used.
//!
//! | file | job |
//! | --- | --- |
//! | `path`, `error` | the border: paths in, exceptions out |
//! | `held` | what is open, until it is closed or the process is another one |
//! | `session`, `file`, `listing` | the classes |
//! | `batch` | many calls at once, on threads |

mod batch;
mod error;
mod file;
mod held;
mod listing;
mod path;
mod session;

/// The classes that the package `pandofs` is made of.
#[pyo3::pymodule]
mod _pandofs {
    #[pymodule_export]
    use crate::file::File;
    #[pymodule_export]
    use crate::listing::Listing;
    #[pymodule_export]
    use crate::session::Session;

    /// Threads that one batch of calls has at most.
    #[pymodule_export]
    const MAX_THREADS: usize = crate::batch::MAX_THREADS;
    /// The version of the library.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
