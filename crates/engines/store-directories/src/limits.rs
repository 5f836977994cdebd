//! Limits of this store, with their units.

/// Bytes of one name that a local file system holds (`NAME_MAX` of ext4, xfs and btrfs).
pub(crate) const MAX_COMPONENT_BYTES: usize = 255;
/// Bytes of a value that is kept in an extended attribute, its checksum not counted; a larger one is in a file's
/// contents without the attribute being tried. All attributes of a file are in one block of ext4, of 4 KiB as a rule,
/// beside a block for each large value of some; xfs holds 64 KiB of each, btrfs a node of its tree, 16 KiB, less its header.
pub(crate) const MAX_ATTRIBUTE_BYTES: usize = 2_048;
/// Bytes of the name of an inode's own extended attribute that becomes one of its file: 255, which Linux allows, less
/// those of `user.pandofs.` before it.
pub(crate) const MAX_ATTRIBUTE_NAME_BYTES: usize = 255 - crate::place::NAMED_ATTRIBUTE.len();
/// Bytes of a checksum before a value.
pub(crate) const SUM_BYTES: usize = 4;
/// Bytes that a pair in memory takes besides its key and its value, about.
pub(crate) const PAIR_BYTES: usize = 96;
/// Bytes that a name in the list of a folder takes besides itself, about.
pub(crate) const LISTED_BYTES: usize = 64;
/// Keys that a scan reads from files before it shows them.
pub(crate) const CHUNK_KEYS: usize = 128;
/// Bytes of values after which a scan reads no further one before it shows them.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of the list of a file's attributes: what Linux gives at most (`XATTR_LIST_MAX`).
pub(crate) const MAX_LIST_BYTES: usize = 64 << 10;

const _: () = assert!(MAX_ATTRIBUTE_BYTES + SUM_BYTES < 4_096 - 512);
const _: () = assert!(MAX_ATTRIBUTE_NAME_BYTES == 242);
