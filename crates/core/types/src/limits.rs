//! Limits that formats, POSIX or several crates need, with their units and relations.
//!
//! A limit of one crate alone is in the `limits` module there.

use std::time::Duration;

/// Bytes of one name in a directory (POSIX `NAME_MAX` on Linux).
pub const MAX_NAME_BYTES: usize = 255;
/// Bytes of a symbolic link's target (`PATH_MAX` without its NUL).
pub const MAX_SYMLINK_BYTES: usize = 4_095;
/// Bytes of an extended attribute's name, its prefix included (Linux `XATTR_NAME_MAX`).
pub const MAX_XATTR_NAME_BYTES: usize = 255;
/// Bytes of one extended attribute's value (Linux `XATTR_SIZE_MAX`).
pub const MAX_XATTR_VALUE_BYTES: usize = 65_536;
/// Bytes of names and values of one inode's extended attributes: they travel in one message when the
/// inode moves.
pub const MAX_XATTR_BYTES_PER_INODE: u32 = 128 << 10;
/// Extended attributes of one inode.
pub const MAX_XATTRS_PER_INODE: usize = 256;
/// Entries of one access control list. A directory's lists are read with every request for a name in it.
pub const MAX_ACL_ENTRIES: usize = 512;
/// Supplementary groups of one caller (Linux `NGROUPS_MAX`).
pub const MAX_GROUPS: usize = 65_536;
/// Names of one file.
pub const MAX_LINKS: u32 = 65_000;
/// Bytes of the largest file: what a signed 64-bit offset addresses, less one stripe row of slack.
pub const MAX_FILE_BYTES: u64 = 1 << 62;

/// Shards of a file system.
pub const MAX_SHARDS: u16 = 32_768;
/// Shards of a file system, unless told.
pub const DEFAULT_SHARDS: u16 = 64;
/// Servers of a cluster. Its map goes in one frame.
pub const MAX_SERVERS: usize = 10_240;
/// The largest weight that somebody may give a server; an ordinary one has 1.
pub const MAX_SERVER_WEIGHT: u32 = 10_000;
/// Steps of weight to 1: the smallest that somebody may give, and how finely weights are told apart. A power of ten, as
/// weights are written with decimals.
pub const SERVER_WEIGHT_STEPS: u32 = 1_000;
/// Bytes of the name of a failure domain that somebody may give. Each server's is in the map, which goes in one frame.
pub const MAX_DOMAIN_BYTES: usize = 64;

/// Entries of a partition before it splits, unless told.
pub const DEFAULT_SPLIT_THRESHOLD: u32 = 8_000;
/// Entries: the smallest threshold that may be set; below it a split costs more than it spreads.
pub const MIN_SPLIT_THRESHOLD: u32 = 4;
/// Partitions of one directory.
pub const MAX_PARTITIONS: usize = 1_024;
/// A partition with one in so many of the entries at which it would split is emptied: it is merged into
/// the one it was split from.
pub const MERGE_FRACTION: u64 = 16;
/// The merged partition has no more than one in so many of the entries at which it splits again.
pub const MERGED_FRACTION: u64 = 4;
/// Splits a partition can go through: log2 of `MAX_PARTITIONS`.
pub const MAX_PARTITION_DEPTH: u8 = 10;
/// Per cent of the mean by which the most loaded server's part of a fully split directory may be
/// over it; decides how many partitions a directory has per server, unless told.
pub const MAX_SERVER_OVERLOAD_PERCENT: usize = 10;
/// Names of one directory that may share one hash; the directory position tells this many apart.
pub const MAX_NAMES_PER_HASH: usize = 127;
/// Entries that a split copies in one message.
pub const SPLIT_CHUNK_ENTRIES: usize = 256;
/// Entries that changed since they were copied, above which they are copied once more before a split's
/// last step, which holds up requests.
pub const SPLIT_DELTA_ENTRIES: usize = 64;
/// For how long a shard keeps to the rate at which it was told to spread a directory. A home that wants it kept tells it again.
pub const SPREAD_TERM: Duration = Duration::from_secs(10);
/// Directories that each shard may have been told rates for at once.
pub const MAX_SPREAD_DIRS: usize = 1_024;
/// Bytes after which a chunk of a split takes no further entry.
pub const SPLIT_CHUNK_BYTES: usize = 1 << 20;

/// Opens (an inode and a session that has it open) that move with one split: a partition with more waits
/// with its split until some are closed.
pub const MAX_MOVED_OPENS: usize = 65_536;

/// Bytes of a file that may be kept beside its inode, and no more than its stripe unit; a larger file is striped over data
/// objects.
pub const MAX_INLINE_BYTES: usize = 64 << 10;
/// Bytes up to which a file is kept so, unless told.
pub const DEFAULT_INLINE_BYTES: u32 = 16 << 10;
/// Bytes of the smallest stripe unit: a page.
pub const MIN_STRIPE_UNIT_BYTES: u32 = 4_096;
/// Bytes of the largest stripe unit that a layout may be given.
pub const MAX_STRIPE_UNIT_BYTES: u32 = 1 << 30;
/// Bytes of one stripe unit, unless told.
pub const DEFAULT_STRIPE_UNIT_BYTES: u32 = 1 << 20;

/// Bytes of one frame on the wire, header excluded.
pub const MAX_FRAME_BYTES: usize = 4 << 20;
/// Bytes of file data in one message.
pub const MAX_IO_BYTES: usize = 1 << 20;
/// Entries in one answer to a directory listing.
pub const MAX_READDIR_ENTRIES: usize = 1_024;
/// Bytes of names and attributes in one answer to a directory listing.
pub const MAX_READDIR_BYTES: usize = 256 << 10;
/// Notices of closed files in one message.
pub const MAX_RELEASES_PER_MESSAGE: usize = 1_024;

/// Inodes in one notice of what a client has read. A shard looks at all of them at once: 1 ms of its lane.
pub const MAX_ACCESSES_PER_MESSAGE: usize = 256;

/// Inodes in one notice of moved ones between shards.
pub const MAX_INOS_PER_NOTICE: usize = 65_536;

/// Requests of one session in flight at once.
pub const MAX_SLOTS: u16 = 1_024;
/// Requests of one shard that wait for a locked key; more are told to try again.
pub const MAX_WAITING_REQUESTS: usize = 65_536;
/// Directories of which a server counts how often they are asked for: those that are asked for most are among them.
pub const MAX_HOT_DIRS: usize = 32;
/// Operations of one kind (slow, waiting) that a server tells of at once.
pub const MAX_OPERATIONS_TOLD: usize = 32;
/// Things that one operation has waited for, of which a server tells; what more there is counts with the last.
pub const MAX_PARTS_TOLD: usize = 8;
/// Requests a lane takes up between two answers.
pub const MAX_LANE_BATCH: usize = 1_024;
/// Bytes of a data object that one checksum is for: a page, which Linux keeps in memory whole.
pub const CHECKSUM_BLOCK_BYTES: usize = 4_096;
/// Bytes a second that a server reads when it scrubs by itself, unless told.
pub const DEFAULT_SCRUB_RATE: u64 = 16 << 20;
/// A server or a mount logs operations that take longer, unless it is set otherwise.
pub const DEFAULT_SLOW: Duration = Duration::from_secs(1);
/// How long after the end of a scrub a server begins the next one by itself, unless told.
pub const DEFAULT_SCRUB_INTERVAL: Duration = Duration::from_secs(14 * 24 * 3_600);
/// Tables that a lane's store keeps open, if the system lets it.
pub const MAX_OPEN_TABLES: usize = 4_096;
/// Tables that it keeps open whatever the system says.
pub const MIN_OPEN_TABLES: usize = 64;
/// Files that a server or a mount needs besides what it counts.
pub const OTHER_OPEN_FILES: usize = 64;
/// Bytes of stored pairs in one answer to an administrator's dump; one pair may exceed it.
pub const MAX_DUMP_BYTES: usize = 1 << 20;
/// Sub-operations of one distributed operation, its coordinator's own included: every shard once
/// for the ancestors of a moved directory, and the few that change something.
pub const MAX_PARTICIPANTS: usize = MAX_SHARDS as usize + 8;
/// Bytes of a path that is kept with a directory, or asked for by path: `PATH_MAX` without its end.
pub const MAX_PATH_BYTES: usize = 4_095;
/// Directories above one that is found by its path.
pub const MAX_PATH_ANCESTORS: usize = 256;
/// Different conditions on which the directories above one may be searched, if it is to be found by its path.
pub const MAX_PATH_CONDITIONS: usize = 16;
/// Lines of a shard's path log: changes of directories that share one are not told apart.
pub const PATH_LINES: u16 = 4_096;
/// Pointers from paths to directories that were placed by other ones, of a shard.
pub const PATH_POINTERS: u16 = 32_768;
/// Directories between the root and the deepest one that may be moved.
pub const MAX_DIRECTORY_DEPTH: usize = 65_536;
/// Serials of inode numbers that a shard leaves out when its server starts: more than it can have given out between two
/// syncs of the log, since records that were not synced may be lost, and with them that their numbers were given out.
pub const SERIALS_SKIPPED_AT_START: u64 = 1 << 24;
/// Distributed operations of one shard that are undecided at once.
pub const MAX_UNDECIDED: usize = 16_384;
/// Distributed operations that a coordinator begins after one that has not ended before that one is named as a straggler,
/// which no longer has participants keep tombstones of all that came after it.
pub const STRAGGLES_AFTER: u64 = 1_024;
/// Stragglers that a coordinator names with each message, the oldest; the next one has tombstones kept.
pub const MAX_STRAGGLERS: usize = 256;
/// Votes of two-phase commit that a shard keeps although their steps are still to come.
pub const MAX_EARLY_VOTES: usize = 16_384;
/// Times a client is sent to another shard for one request before it gives up.
pub const MAX_REDIRECTS: usize = 64;

/// Time for which records of ordinary operations may stay unsynced, unless set otherwise.
pub const DEFAULT_FLUSH_INTERVAL: Duration = Duration::from_secs(5);
/// Removed files whose data objects one shard is dealing with at once.
pub const MAX_RECLAIMS_IN_FLIGHT: usize = 256;
/// How long a shard remembers the last answers of a silent session: a client that was cut off for
/// longer may repeat a request that was executed.
pub const SLOT_RETENTION: Duration = Duration::from_secs(24 * 3_600);
/// How long a split keeps others from taking locks in the half that is to move, if those that are there do not go, and how
/// long it then lets them.
pub const GATE_PATIENCE: Duration = Duration::from_secs(15);
/// How long copied entries are kept at the target of a split that makes no progress.
pub const STAGING_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client may be silent before its opens are let go.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the kernel may believe an entry or attributes, unless told.
pub const DEFAULT_CACHE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a message of a distributed operation may go unanswered before it is sent again.
pub const RESEND_INTERVAL: Duration = Duration::from_millis(500);
/// How often a lane tells its shards that time has passed.
pub const TICK_INTERVAL: Duration = Duration::from_millis(10);
/// How often a server that places by what all have asks the others: with a thousand servers each has some thousand
/// messages a second of it, which is little, and a thousand new directories in between are few for what they are placed
/// by.
pub const LOADS_INTERVAL: Duration = Duration::from_millis(500);

/// Directories whose maps a client keeps, beyond those that were never split (which need none).
pub const MAX_CACHED_DIR_MAPS: usize = 65_536;
/// Requests that one call of a client has under way at once.
pub const MAX_PIPELINED_REQUESTS: usize = 64;
/// Bytes of the smallest write that is answered before the servers have it.
pub const MIN_WRITE_BEHIND_BYTES: usize = 32 << 10;
/// Slots of a session set aside for requests made in the course of another one, so that a client
/// whose ordinary slots all wait for such a request goes on.
pub const INNER_SLOTS: u16 = 16;
/// Slots of a session set aside for what it tells servers of itself (opens and closes).
pub const SERVICE_SLOTS: u16 = 8;

/// How long a client tries to connect to a server and waits for its welcome.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client waits for an answer before it takes the connection for lost and asks again over
/// another one.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a call waits between two looks at whether somebody still wants its answer; and from when on it
/// waits for long.
pub const CANCELLATION_INTERVAL: Duration = Duration::from_secs(1);
/// How long a client waits before it asks a server again that it could not reach, the first time;
/// each further time twice as long.
pub const MIN_RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// The longest it waits.
pub const MAX_RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// How long a client waits before it repeats a request that it was told to try again, the first time;
/// each further time twice as long.
pub const MIN_RETRY_PAUSE: Duration = Duration::from_millis(1);
/// The longest it waits; also the longest pause before an operation that gave way to an older one starts
/// again.
pub const MAX_RETRY_PAUSE: Duration = Duration::from_millis(20);
/// How long the notice that a file was closed may wait for others to go with.
pub const RELEASE_DELAY: Duration = Duration::from_millis(50);
/// Time for which a file stays that is held for a program that has looked its name up, and how long a program's thread
/// that was told `ESTALE` is taken to be looking again.
pub const HOLD: Duration = Duration::from_secs(1);
/// Files that one client holds so.
pub const MAX_HELD: usize = 1_024;
/// How long a client may have nothing to say to a server before it says that it lives.
pub const PING_INTERVAL: Duration = Duration::from_secs(15);
/// How often a client looks whether there is something to say.
pub const CLIENT_TICK: Duration = Duration::from_secs(1);

/// Threads of one mount that take requests from the kernel.
pub const MAX_MOUNT_THREADS: usize = 64;
/// Threads that a mount has beside those at most, each in place of one whose request waits for long: so many
/// programs may wait for servers that are away before others wait for them.
pub const MAX_SPARE_MOUNT_THREADS: usize = 256;
/// Threads of one mount, unless told.
pub const DEFAULT_MOUNT_THREADS: usize = 16;
/// Bytes of memory that a mount takes at most, unless told.
pub const DEFAULT_MOUNT_MEMORY_BYTES: u64 = 1 << 30;
/// Bytes that all takes that a mount and its client remember, with names of some 100 bytes.
pub const MAX_CACHE_BYTES: usize = 160 << 20;

/// Bytes of log a lane keeps before it flushes its store and drops what the store holds.
pub const MAX_LOG_BYTES: u64 = 50 << 20;
/// Bytes of one log file, unless told: the grain in which the space of pruned records comes back,
/// and the most that the switch to the next file has to sync at once.
pub const LOG_FILE_BYTES: u64 = 8 << 20;
/// Bytes of the records in one append to the log.
pub const MAX_LOG_APPEND_BYTES: usize = 64 << 20;
/// Bytes of records that reading the log keeps in memory at once, unless one record is larger.
pub const LOG_READ_CHUNK_BYTES: usize = 1 << 20;
/// Bytes of a lane's store that are kept in memory to be read again, unless told.
pub const DEFAULT_BLOCK_CACHE_BYTES: usize = 256 << 20;
/// Bytes a lane's store takes up in memory before it writes them to its files by itself, unless
/// told.
pub const DEFAULT_WRITE_BUFFER_BYTES: usize = 64 << 20;

/// Writes of a lane's store that are in memory at once, each in a buffer of its own: one is filled while others
/// are written to files.
pub const STORE_WRITE_BUFFERS: usize = 4;
/// Bytes of memory that a server takes for what can take as much as it is given, unless told: twelve times a
/// write buffer, of which four are a third of it.
pub const DEFAULT_SERVER_MEMORY_BYTES: u64 = 768 << 20;
/// The least.
pub const MIN_SERVER_MEMORY_BYTES: u64 = 96 << 20;

/// Ranges of one inode that are locked; a lock that would make it more is refused (`ENOLCK`).
pub const MAX_LOCKS_PER_INODE: usize = 4_096;
/// Ranges that are locked on one shard.
pub const MAX_LOCKS_PER_SHARD: usize = 262_144;
/// Requests for locks that wait on one shard.
pub const MAX_WAITING_LOCKS: usize = 65_536;
/// Owners that are looked at to find a circle of owners that wait for one another; a longer one is not
/// found.
pub const MAX_DEADLOCK_OWNERS: usize = 1_024;
/// Locked ranges that move with one split: a partition with more waits with its split until some are
/// unlocked.
pub const MAX_MOVED_LOCKS: usize = 16_384;
/// Locks in one message of a client that tells again which it has.
pub const MAX_LOCKS_PER_MESSAGE: usize = 4_096;
/// How long a shard keeps a request for a lock that is taken, before it says that it is not granted yet
/// and the client asks again. A client with less patience says so.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);
/// How long a place in the queue for a lock is kept for a client that is to ask again.
pub const LOCK_PLACE_KEPT: Duration = Duration::from_secs(5);
/// Time for which a request for a lock that does not want to wait is kept all the same, while the owner of
/// the lock may have closed the file and its mount may be about to unlock it.
pub const CLOSING_WAIT: Duration = Duration::from_secs(1);
/// Slots of a session set aside for requests that wait for a lock, so that waiting for one keeps no other
/// request from being made, least of all the one that unlocks: this is also how many wait at once.
pub const LOCK_SLOTS: u16 = 512;
/// How long a shard keeps its word that it asks before it changes what it has leased, from when it got the
/// request. A change waits that long for a client that does not answer.
pub const LEASE: Duration = Duration::from_secs(10);
/// How much sooner a client, which counts from when it sent the request, takes a lease to be over: clocks do
/// not run equally fast.
pub const LEASE_MARGIN: Duration = Duration::from_millis(500);
/// The same of a lease that is given while many are: longer than what a mount without leases caches, which is 1 s.
pub const SHORT_LEASE: Duration = Duration::from_secs(2);
/// As [`LEASE_MARGIN`], of a short lease.
pub const SHORT_LEASE_MARGIN: Duration = Duration::from_millis(100);
/// The same of a lease that is given while still more are: long enough to look at what was just listed, and short enough that a
/// shard that lists 60,000 entries a second has room for all of it.
pub const BRIEF_LEASE: Duration = Duration::from_millis(250);
/// As [`LEASE_MARGIN`], of a brief lease.
pub const BRIEF_LEASE_MARGIN: Duration = Duration::from_millis(50);
/// Leases of one shard, ones that were given again counted again; beyond, none is given.
pub const MAX_LEASES_PER_SHARD: usize = 57_344;
/// With as many, all but those of directories are short: a client that makes or reads many files once would
/// else keep everybody, and itself, from getting any for as long as a lease lasts.
pub const MANY_LEASES_PER_SHARD: usize = 24_576;
/// With as many, all but those of directories are brief.
pub const VERY_MANY_LEASES_PER_SHARD: usize = 36_864;
/// Keys in one recall of leases.
pub const MAX_KEYS_PER_RECALL: usize = 4_096;
/// How long a server keeps the request by which a client waits for recalls, before it answers that there
/// are none and the client asks again.
pub const RECALL_WAIT: Duration = Duration::from_secs(5);
/// How long a directory has to be left alone by others until its times and numbers of entries are leased: it
/// would cost them a recall for each name that they make.
pub const LEASE_QUIET: Duration = Duration::from_millis(100);
/// Bytes that a new file is given in one request together with what its inode becomes by them.
pub const MAX_NEW_FILE_BYTES: usize = 128 << 10;
/// Operations in a batch of what was executed under grants.
pub const MAX_BATCH_OPERATIONS: usize = 512;
/// Bytes of such a batch, about.
pub const MAX_BATCH_BYTES: usize = 1 << 20;
/// Entries of a directory that is granted.
pub const MAX_GRANTED_ENTRIES: u64 = 1_024;
/// A partition of which the directory is granted splits when it has so many times the entries at which it would split else: its
/// holder alone adds to it, in batches, and a directory that has split is granted to nobody.
pub const GRANTED_SPLIT_FACTOR: u64 = 4;
/// Bytes of a granted directory's keys and values.
pub const MAX_GRANTED_BYTES: usize = 512 << 10;
/// Directories of a shard that are granted.
pub const MAX_GRANTS_PER_SHARD: usize = 16_384;
/// For how long a session may renew its grants while it does not give up one that was recalled: a queue of operations is
/// sent in far less, and a client that answers no recall keeps others out no longer.
pub const MAX_GRANT_RECALL: Duration = Duration::from_secs(60);
/// For how long a directory whose grant was recalled is granted to nobody, at most: it begins with [`LEASE_QUIET`] and
/// doubles with each recall that comes within [`GRANT_RECALLS_TERM`] of the one before.
pub const MAX_GRANT_QUIET: Duration = Duration::from_secs(10);
/// For how long a shard remembers that it has recalled the grant of a directory.
pub const GRANT_RECALLS_TERM: Duration = Duration::from_secs(60);
/// Inode numbers that a session takes at once.
pub const MAX_NUMBERS_PER_BLOCK: u32 = 65_536;
/// Blocks of inode numbers of a shard that a session has; a further one takes the place of the oldest.
pub const MAX_BLOCKS_PER_SESSION: usize = 4;
/// Inode numbers that a session takes at once to use them in any order.
pub const MAX_UNORDERED_NUMBERS: u32 = 64;
/// Such numbers of a shard that a session has; further ones take the places of the oldest.
pub const MAX_UNORDERED_PER_SESSION: usize = 2 * MAX_UNORDERED_NUMBERS as usize;
/// How far the time of an operation may be ahead of the server's clock: that of a client which has gone by an answer of
/// the server is hardly ahead at all.
pub const MAX_TIME_AHEAD: Duration = Duration::from_secs(10);
/// Entries that one client caches at once, and as many attributes; more are not cached. The index of as many
/// has 65,536 places, and with one more would take twice the memory.
pub const MAX_CACHED_LEASES: usize = 65_536 / 8 * 7;

/// How long a client remembers, of files that are not open, that a change was acknowledged which no sync has covered.
/// Servers sync their logs, and data objects that are left alone, much sooner.
pub const UNSYNCED_TERM: Duration = Duration::from_secs(180);

/// Bytes of a recording of a mount that wait to be written; as many more are being written. Programs wait when it
/// is full.
pub const MAX_TRACE_WAITING_BYTES: usize = 8 << 20;

const _: () = {
    assert!(UNSYNCED_TERM.as_millis() >= DEFAULT_FLUSH_INTERVAL.as_millis() * 2);
    assert!(LEASE_MARGIN.as_millis() * 4 < LEASE.as_millis());
    assert!(LEASE_QUIET.as_millis() < MAX_GRANT_QUIET.as_millis());
    assert!(MAX_GRANT_QUIET.as_millis() < GRANT_RECALLS_TERM.as_millis());
    assert!(MAX_GRANT_RECALL.as_millis() > LEASE.as_millis() * 2);
    // The last step of a split waits for leases, too.
    assert!(GATE_PATIENCE.as_millis() > LEASE.as_millis());
    assert!(
        SHORT_LEASE_MARGIN.as_millis() * LEASE.as_millis()
            >= LEASE_MARGIN.as_millis() * SHORT_LEASE.as_millis()
    );
    assert!(
        BRIEF_LEASE_MARGIN.as_millis() * LEASE.as_millis()
            >= LEASE_MARGIN.as_millis() * BRIEF_LEASE.as_millis()
    );
    assert!(SHORT_LEASE.as_millis() < LEASE.as_millis());
    assert!(BRIEF_LEASE.as_millis() < SHORT_LEASE.as_millis());
    assert!(BRIEF_LEASE_MARGIN.as_millis() < BRIEF_LEASE.as_millis());
    assert!(MANY_LEASES_PER_SHARD < VERY_MANY_LEASES_PER_SHARD);
    assert!(VERY_MANY_LEASES_PER_SHARD < MAX_LEASES_PER_SHARD);
    assert!(RECALL_WAIT.as_millis() * 3 <= ANSWER_TIMEOUT.as_millis());
    assert!(MAX_KEYS_PER_RECALL * 32 <= MAX_FRAME_BYTES);
    assert!(LOCK_WAIT.as_millis() * 2 <= ANSWER_TIMEOUT.as_millis());
    assert!(CLOSING_WAIT.as_millis() <= LOCK_WAIT.as_millis());
    assert!(MAX_LOCKS_PER_INODE <= MAX_MOVED_LOCKS);
    assert!(MAX_LOCKS_PER_MESSAGE * 64 <= MAX_FRAME_BYTES);
    assert!(1 << MAX_PARTITION_DEPTH == MAX_PARTITIONS);
    // A weight of the map is in units of 1/65,536 in 32 bits, fine enough for the steps to be told apart.
    assert!(MAX_SERVER_WEIGHT < 1 << 16 && SERVER_WEIGHT_STEPS * 2 < 1 << 16);
    assert!(10_u32.pow(SERVER_WEIGHT_STEPS.ilog10()) == SERVER_WEIGHT_STEPS);
    assert!(MAX_SERVERS <= MAX_SHARDS as usize);
    // A map as JSON: a server with a long address, and a line for each shard.
    assert!(MAX_SERVERS * 256 + MAX_SHARDS as usize * 12 <= MAX_FRAME_BYTES);
    assert!(MAX_PARTICIPANTS <= u16::MAX as usize);
    assert!(
        MAX_PIPELINED_REQUESTS + MAX_MOUNT_THREADS + MAX_SPARE_MOUNT_THREADS
            < (MAX_SLOTS - INNER_SLOTS - SERVICE_SLOTS - LOCK_SLOTS) as usize
    );
    assert!(PING_INTERVAL.as_millis() * 4 <= SESSION_TIMEOUT.as_millis());
    assert!(DEFAULT_MOUNT_THREADS <= MAX_MOUNT_THREADS);
    assert!(MAX_IO_BYTES + 4_096 <= MAX_FRAME_BYTES);
    assert!(MAX_READDIR_BYTES + (64 << 10) <= MAX_FRAME_BYTES);
    assert!(MAX_SYMLINK_BYTES <= MAX_INLINE_BYTES);
    assert!(DEFAULT_INLINE_BYTES as usize <= MAX_INLINE_BYTES);
    assert!(DEFAULT_INLINE_BYTES <= DEFAULT_STRIPE_UNIT_BYTES);
    // One pair of a dump, or staged entry, may go beyond its limit.
    assert!(MAX_INLINE_BYTES <= MAX_XATTR_VALUE_BYTES);
    // The entry that reaches the limit can be large by its attributes.
    assert!(
        SPLIT_CHUNK_BYTES + MAX_INLINE_BYTES + MAX_XATTR_BYTES_PER_INODE as usize + 4_096
            <= MAX_FRAME_BYTES
    );
    // The last step of a split brings as much as a chunk, three numbers for each open, and eight for each
    // lock.
    assert!(
        SPLIT_CHUNK_BYTES
            + MAX_INLINE_BYTES
            + MAX_XATTR_BYTES_PER_INODE as usize
            + MAX_MOVED_OPENS * 25
            + MAX_MOVED_LOCKS * 60
            + SPLIT_DELTA_ENTRIES * MAX_NAME_BYTES
            + MAX_PARTITIONS * 4
            <= MAX_FRAME_BYTES
    );
    assert!(MAX_NAMES_PER_HASH < 1 << crate::position::ORDINAL_BITS);
    assert!(MAX_XATTR_VALUE_BYTES + 4_096 <= MAX_FRAME_BYTES);
    assert!(LOG_FILE_BYTES * 4 <= MAX_LOG_BYTES);
    assert!(DEFAULT_BLOCK_CACHE_BYTES as u64 * 3 == DEFAULT_SERVER_MEMORY_BYTES);
    assert!(
        (DEFAULT_WRITE_BUFFER_BYTES * STORE_WRITE_BUFFERS) as u64 * 3
            == DEFAULT_SERVER_MEMORY_BYTES
    );
    assert!(MIN_SERVER_MEMORY_BYTES / 6 >= MAX_IO_BYTES as u64 * 2);
    assert!(MAX_DUMP_BYTES + MAX_XATTR_VALUE_BYTES + (64 << 10) <= MAX_FRAME_BYTES);
    assert!(MAX_DUMP_BYTES + MAX_NEW_FILE_BYTES + (64 << 10) <= MAX_FRAME_BYTES);
    assert!(MAX_INLINE_BYTES <= MAX_NEW_FILE_BYTES && MAX_NEW_FILE_BYTES <= MAX_IO_BYTES);
    assert!(MAX_FRAME_BYTES <= MAX_LOG_APPEND_BYTES);
};
