//! Limits of a session's grants.

use pandofs_types::limits::LEASE;
use std::time::Duration;

/// Bytes of keys and values of one image. With more its grants are given back.
pub const MAX_IMAGE_BYTES: usize = 32 << 20;
/// Bytes of files that are kept inline, of one image. With more it lets go of all of them, and what is read of them is
/// asked of the shard.
pub const MAX_IMAGE_DATA_BYTES: usize = 16 << 20;
/// Operations that are queued for one shard. A further one waits.
pub const MAX_QUEUED_OPERATIONS: usize = 4_096;
/// Bytes that are queued for one shard, about.
pub const MAX_QUEUED_BYTES: usize = 8 << 20;
/// Operations at the end of a queue among which one is looked for that the next can be merged into.
pub const MAX_MERGE_LOOK: usize = 32;
/// Inode numbers that are asked for at once.
pub const NUMBERS_PER_BLOCK: u32 = 4_096;
/// With fewer left the next block is asked for.
pub const FEW_NUMBERS: u64 = 1_024;
/// Changes within [`WISH_TERM`] after which a grant of a directory is asked for.
pub const CHANGES_PER_WISH: u32 = 2;
/// How long changes of a directory count.
pub const WISH_TERM: Duration = LEASE;
/// Directories of which it is known that they change.
pub const MAX_WISHES: usize = 1_024;
/// After a grant was refused, or recalled, none is asked for as long; twice as long with each time.
pub const MIN_WISH_PAUSE: Duration = Duration::from_millis(250);
/// The longest such pause.
pub const MAX_WISH_PAUSE: Duration = Duration::from_secs(30);
/// Grants are renewed when they end in less than this.
pub const RENEW_BEFORE: Duration = Duration::from_secs(6);
/// Wait of an operation that was answered under a grant for others to be sent with it.
pub const BATCH_DELAY: Duration = Duration::from_millis(16);
/// Operations with which a batch does not wait any longer.
pub const SOON_QUEUED: usize = 512;
/// Inodes of which it is remembered that something is lost that was answered.
pub const MAX_LOST_INODES: usize = 16_384;
