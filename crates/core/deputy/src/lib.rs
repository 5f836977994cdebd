//! Deputy: a client's images of granted directories, and the queue of what it has executed on them.
//!
//! A session that was granted a directory has a copy of it, the *image*, and nobody else reads or changes the directory
//! meanwhile. The deputy executes the session's operations on the image with the code that shards run (`namespace`),
//! answers them at once, and queues them. Batches of the queue go to the shard, which executes the same operations with
//! the same choices (time, inode number, random number) and so comes to the same state.
//!
//! Order. Each shard has one queue, and one request of it is under way at a time. All directories of an image are on that
//! shard, so an operation and those that it needs (the directory that it is in, the name that it takes) are in one queue,
//! in order; a crash of the client or the server leaves a prefix. The exception is a directory that is made on another shard
//! than its name: its mkdir is in the queue of the name's shard, and what is done in it, in its own shard's queue, is not
//! sent before that has ended; nor is its rmdir, in the queue of the name's shard, before all that was queued of its own. Each
//! waits for what was queued earlier, so no circle closes. Any other request that may depend on a queued operation, because it
//! is about one of its directories or inodes, waits until the queue is empty and then goes to the server itself, as if there
//! were no grants; what it may change is dropped from the image before it is sent.
//!
//! Authority. A shard grants a directory to one session, with all its names. Exclusive are the directory's own attributes, its
//! names, and the files that the session has made in it under the grant, as nobody else knows their numbers. Of other
//! inodes the image has copies that say what a name leads to, and nothing is answered or executed from their attributes.
//!
//! Invariant: no I/O, clock, randomness or threads. Nothing is answered from an image whose grants are over, recalled or
//! lost, and nothing is let go of, or said to be, before the queue that it is in is empty.
//!
//! | file | job |
//! | --- | --- |
//! | `deputy` | all images of the session: what is done with a request |
//! | `away` | directories that are made or removed on another shard than their names' |
//! | `keeping` | grants as they come and go, batches, inode numbers |
//! | `of_shard` | image, queue and grants of one shard |
//! | `image` | the records of one shard, and which of them are known |
//! | `covers` | requests that an image decides |
//! | `execute` | a request on an image |
//! | `queue` | what was executed and not sent, or not answered yet |
//! | `errands` | requests for the grants' sake: which, when, and what their answers mean |
//! | `wishes` | directories to ask grants of |
//! | `limits` | limits of all that |

mod away;
mod covers;
mod deputy;
mod errands;
mod execute;
mod image;
mod keeping;
pub mod limits;
mod merge;
mod of_shard;
mod queue;
mod wishes;

pub use crate::deputy::{Asked, Deputy, Offer, Opened, Recalled, Taken};
pub use crate::errands::{About, Ended, Errand, Errands, Next};
pub use crate::queue::{Lost, ToSend};
