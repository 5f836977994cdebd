//! PandoFS's client library for C: `libpandofs.so`, `libpandofs.a` and `pandofs.h`.
//!
//! Each function of C is one of [`pandofs_client::Client`], or a few. In between are a table of handles, paths,
//! open flags and error numbers. The header is made from this source by cbindgen.
//!
//! Invariant: whatever C gives (a null pointer, a path without an end, a handle that is closed, a handle of the process
//! that this one was forked from) and whatever goes wrong within, a function returns, with a number that `pandofs.h`
//! explains; no panic gets across.
//!
//! # What C has to keep to
//!
//! Pointers that are not null lead to what the header says, for as long as the call lasts: to that many bytes, or to
//! text that ends within [`abi::PANDOFS_PATH_MAX`] bytes or is at least so long. All that is `unsafe` in this crate
//! rests on this, and on nobody else's having symbols that begin with `pandofs_`.
//!
//! | file | job |
//! | --- | --- |
//! | `abi` | structures and numbers that C sees |
//! | `call`, `pointers`, `failure`, `last_error` | the border: arguments in, error numbers out |
//! | `table` | handles, which lead to what `pandofs_handles` has |
//! | `session`, `attributes`, `names`, `files`, `dirs`, `xattrs`, `locks`, `many` | the functions |

#![allow(
    clippy::missing_safety_doc,
    reason = "all functions for C have the same rules, which the header above says"
)]

pub mod abi;
pub mod attributes;
mod call;
pub mod dirs;
mod failure;
pub mod files;
mod last_error;
pub mod locks;
pub mod many;
pub mod names;
mod pointers;
pub mod session;
mod table;
pub mod xattrs;
