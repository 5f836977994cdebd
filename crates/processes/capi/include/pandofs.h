/* The client library of PandoFS, a parallel file system: docs/c-library.md has a guide.
 *
 * Each function answers 0 or a count, or a negative error number of <errno.h>; pandofs_strerror_last() has more words
 * for it. Structures that are filled in are left alone when a function fails. Handles are numbers: one that is closed,
 * or never was one, is -EBADF wherever it is given. All functions may be called by several threads at once, with the
 * same handles, too. In a child process that was forked without exec, the parent's handles are -ESTALE.
 *
 * Paths begin at the file system's root, those without a leading slash at the directory of their handle, and are not
 * longer than PANDOFS_PATH_MAX bytes with the NUL. Flags and modes are those of <fcntl.h>, <sys/stat.h>, <unistd.h>,
 * <sys/file.h> and <sys/xattr.h>.
 *
 * Made by cbindgen from crates/processes/capi/src; do not edit. */

#ifndef PANDOFS_H
#define PANDOFS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// The library's version, as pandofs_version_number() has it: major * 1000000 + minor * 1000 + patch. A program that was
// compiled with one runs with every library of the same major and minor number, and the same or a later patch.
#define PANDOFS_VERSION 1000

// Bytes of the longest path, with its NUL.
#define PANDOFS_PATH_MAX 4096

// Bytes of the longest name in a directory, without its NUL.
#define PANDOFS_NAME_MAX 255

// In options: the user and groups of this process.
#define PANDOFS_OWN 4294967295

// For pandofs_opendir(): each entry comes with its attributes.
#define PANDOFS_DIR_STAT 1

// A time for pandofs_utimens(): now, by the servers' clocks.
#define PANDOFS_TIME_NOW -9223372036854775807

// A time for pandofs_utimens(): leave it as it is.
#define PANDOFS_TIME_OMIT -9223372036854775806

// Options of a connection. To be filled in by pandofs_options_init() first: later versions have more fields.
typedef struct pandofs_options_t {
  // Bytes of this structure.
  uint32_t size;
  // Milliseconds for which a call waits for a server that does not answer, before it is -EIO; 0 for ever. At first
  // 30000.
  uint32_t timeout_ms;
  // The caller's user; 0 may do everything. At first PANDOFS_OWN.
  uint32_t uid;
  // The caller's group; PANDOFS_OWN if, and only if, uid is. At first PANDOFS_OWN.
  uint32_t gid;
  // Taken off the modes of what is made. At first 0.
  uint32_t umask;
  // Further groups of the caller. Only if uid is not PANDOFS_OWN.
  uint32_t group_count;
  // So many of them.
  const uint32_t *groups;
  // The most memory that names and attributes are remembered in, under leases: they are never out of date. 0: servers
  // are asked each time. At first 16 MiB.
  uint64_t cache_bytes;
} pandofs_options_t;

// A connection to a file system, a caller, and the directory where relative paths begin.
typedef struct pandofs_fs_t {
  // 0 is none.
  uint64_t id;
} pandofs_fs_t;

// Room.
typedef struct pandofs_statvfs_t {
  // Bytes on all servers.
  uint64_t total_bytes;
  // Of these free.
  uint64_t free_bytes;
  // Of these for users other than 0.
  uint64_t available_bytes;
  // Inodes in use; there is no limit.
  uint64_t inodes;
} pandofs_statvfs_t;

// Attributes.
typedef struct pandofs_stat_t {
  // The inode's number.
  uint64_t ino;
  // Bytes; of a directory its entries.
  uint64_t size;
  // Units of 512 bytes that are taken.
  uint64_t blocks;
  // Kind (S_IFMT) and permission bits.
  uint32_t mode;
  // Names.
  uint32_t nlink;
  // The owner.
  uint32_t uid;
  // The group.
  uint32_t gid;
  // The number of a device.
  uint32_t rdev;
  // 0.
  uint32_t reserved;
  // Nanoseconds since 1970 UTC: last read.
  int64_t atime_ns;
  // Last written to.
  int64_t mtime_ns;
  // Last changed.
  int64_t ctime_ns;
  // Made.
  int64_t btime_ns;
} pandofs_stat_t;

// An open file.
typedef struct pandofs_file_t {
  // 0 is none.
  uint64_t id;
} pandofs_file_t;

// A directory that is being listed.
typedef struct pandofs_dir_t {
  // 0 is none.
  uint64_t id;
} pandofs_dir_t;

// An entry of a directory.
typedef struct pandofs_dirent_t {
  // The inode's number.
  uint64_t ino;
  // For pandofs_seekdir(): a listing goes on behind this entry.
  int64_t offset;
  // The kind, as in a mode: for S_ISDIR() and its like.
  uint32_t kind;
  // Whether there are attributes.
  uint32_t has_stat;
  // Attributes, if asked for and the inode was still there.
  struct pandofs_stat_t stat;
  // With a NUL.
  char name[256];
} pandofs_dirent_t;

// A lock.
typedef struct pandofs_lock_t {
  // The first byte.
  uint64_t start;
  // Bytes; 0 for all that follow, whatever the file's size becomes.
  uint64_t length;
  // F_RDLCK, F_WRLCK or F_UNLCK.
  int32_t kind;
  // Of who has it, by its own account; another machine's, perhaps.
  uint32_t pid;
} pandofs_lock_t;

// One file of a batch, for the functions that end in _many.
typedef struct pandofs_item_t {
  // Its path.
  const char *path;
  // Bytes to write, or room for those that are read.
  void *data;
  // So many of them.
  uint64_t size;
  // Its result, filled in: 0, the bytes that were read, or a negative error number.
  int64_t result;
} pandofs_item_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The library's version, as PANDOFS_VERSION has the header's.
uint32_t pandofs_version_number(void);

// Words about the last call of this thread that failed: which function, which path, what is wrong and, where one is
// to blame, which server. Never null, and empty before the first. It lasts until the next call of this thread that
// fails, or the thread's end.
const char *pandofs_strerror_last(void);

// Fills in the options as they are at first. `size` is sizeof(pandofs_options_t).
int pandofs_options_init(struct pandofs_options_t *options, size_t size);

// Connects to a file system. `cluster` is the path of its cluster map, or the addresses of some of its servers
// ("unix:/PATH" or "tcp:HOST:PORT") with commas in between; options may be null. At least one server has to answer.
int pandofs_connect(const char *cluster,
                    const struct pandofs_options_t *options,
                    struct pandofs_fs_t *fs);

// Another handle of the same connection, for another caller; with the same directory. User 0 may do everything.
int pandofs_as(struct pandofs_fs_t fs,
               uint32_t uid,
               uint32_t gid,
               const uint32_t *groups,
               size_t group_count,
               struct pandofs_fs_t *other);

// Another handle of the same connection and caller, whose relative paths begin in that directory: what dirfd is to
// openat(2).
int pandofs_at(struct pandofs_fs_t fs,
               const char *path,
               struct pandofs_fs_t *other);

// Closes the handle. With the last one of its connection the connection ends, and files and directories that are open
// are closed; the first error of that is answered, and all is closed all the same. Calls that other threads are in
// go on until they are done.
int pandofs_disconnect(struct pandofs_fs_t fs);

// Room in the file system.
int pandofs_statvfs(struct pandofs_fs_t fs, struct pandofs_statvfs_t *room);

// As stat(2).
int pandofs_stat(struct pandofs_fs_t fs, const char *path, struct pandofs_stat_t *stat);

// As lstat(2): of a symbolic link itself.
int pandofs_lstat(struct pandofs_fs_t fs, const char *path, struct pandofs_stat_t *stat);

// As fstat(2).
int pandofs_fstat(struct pandofs_file_t file, struct pandofs_stat_t *stat);

// As access(2), by the caller of the handle: any of R_OK, W_OK and X_OK, or F_OK.
int pandofs_access(struct pandofs_fs_t fs, const char *path, int rights);

// As chmod(2).
int pandofs_chmod(struct pandofs_fs_t fs, const char *path, uint32_t mode);

// As fchmod(2).
int pandofs_fchmod(struct pandofs_file_t file, uint32_t mode);

// As chown(2); PANDOFS_OWN leaves the user or the group as it is.
int pandofs_chown(struct pandofs_fs_t fs, const char *path, uint32_t uid, uint32_t gid);

// As lchown(2): of a symbolic link itself.
int pandofs_lchown(struct pandofs_fs_t fs, const char *path, uint32_t uid, uint32_t gid);

// As fchown(2).
int pandofs_fchown(struct pandofs_file_t file, uint32_t uid, uint32_t gid);

// As utimensat(2): the times of access and of modification in nanoseconds since 1970 UTC, PANDOFS_TIME_NOW or
// PANDOFS_TIME_OMIT.
int pandofs_utimens(struct pandofs_fs_t fs,
                    const char *path,
                    int64_t atime_ns,
                    int64_t mtime_ns);

// As pandofs_utimens(), of a symbolic link itself.
int pandofs_lutimens(struct pandofs_fs_t fs, const char *path, int64_t atime_ns, int64_t mtime_ns);

// As pandofs_utimens(), of an open file.
int pandofs_futimens(struct pandofs_file_t file, int64_t atime_ns, int64_t mtime_ns);

// As truncate(2).
int pandofs_truncate(struct pandofs_fs_t fs, const char *path, uint64_t size);

// As ftruncate(2).
int pandofs_ftruncate(struct pandofs_file_t file, uint64_t size);

// As mkdir(2).
int pandofs_mkdir(struct pandofs_fs_t fs, const char *path, uint32_t mode);

// As rmdir(2).
int pandofs_rmdir(struct pandofs_fs_t fs, const char *path);

// As unlink(2).
int pandofs_unlink(struct pandofs_fs_t fs, const char *path);

// As renameat2(2). Each path has a handle of its own, of one connection; the caller is the first one's. Flags: 0,
// RENAME_NOREPLACE or RENAME_EXCHANGE.
int pandofs_rename(struct pandofs_fs_t fs,
                   const char *path,
                   struct pandofs_fs_t new_fs,
                   const char *new_path,
                   uint32_t flags);

// As link(2): another name for a file, or for a symbolic link. Handles as for pandofs_rename().
int pandofs_link(struct pandofs_fs_t fs,
                 const char *path,
                 struct pandofs_fs_t new_fs,
                 const char *new_path);

// As symlink(2).
int pandofs_symlink(const char *target, struct pandofs_fs_t fs, const char *path);

// The target of a symbolic link, without a NUL, and its length. Unlike readlink(2) it is -ERANGE if it does not fit; with
// size 0 the length alone is answered.
int64_t pandofs_readlink(struct pandofs_fs_t fs,
                         const char *path,
                         char *target,
                         size_t size);

// As open(2), for regular files: O_RDONLY, O_WRONLY or O_RDWR, and any of O_CREAT, O_EXCL, O_TRUNC, O_APPEND,
// O_NOFOLLOW, O_SYNC and O_DSYNC. Flags that are about the kernel alone mean nothing; others are -EOPNOTSUPP. mode
// counts with O_CREAT.
int pandofs_open(struct pandofs_fs_t fs,
                 const char *path,
                 int flags,
                 uint32_t mode,
                 struct pandofs_file_t *file);

// As close(2): waits until others see what was written, and answers an error of an earlier write that is not known
// yet. It is closed whatever is answered. Waits for locks through it end with -EINTR.
int pandofs_close(struct pandofs_file_t file);

// As pread(2): fewer bytes only where the file ends.
int64_t pandofs_pread(struct pandofs_file_t file, void *buffer, size_t size, uint64_t offset);

// As pwrite(2): all of it, or fewer bytes if an error came in between. With O_APPEND it goes to the end of the file, as in
// Linux. The servers have it then; other clients see a new length after pandofs_flush().
int64_t pandofs_pwrite(struct pandofs_file_t file,
                       const void *buffer,
                       size_t size,
                       uint64_t offset);

// Writes all of it at the end of the file in one piece, whoever else appends, and says where that was; offset may be null.
int64_t pandofs_append(struct pandofs_file_t file,
                       const void *buffer,
                       size_t size,
                       uint64_t *offset);

// Has other clients see what was written, as closing does.
int pandofs_flush(struct pandofs_file_t file);

// As fsync(2). Through each open file, an error of an earlier write is answered once.
int pandofs_fsync(struct pandofs_file_t file);

// As fallocate(2): mode 0, FALLOC_FL_PUNCH_HOLE or FALLOC_FL_ZERO_RANGE, with FALLOC_FL_KEEP_SIZE or not.
int pandofs_fallocate(struct pandofs_file_t file,
                      int mode,
                      uint64_t offset,
                      uint64_t length);

// The first byte from offset on that holds data (whence SEEK_DATA) or is in a hole (SEEK_HOLE); -ENXIO if there is none.
int64_t pandofs_seek(struct pandofs_file_t file,
                     uint64_t offset,
                     int whence);

// As opendir(3). Flags: 0, or PANDOFS_DIR_STAT for attributes with each entry, which is faster than to ask for each.
int pandofs_opendir(struct pandofs_fs_t fs,
                    const char *path,
                    int flags,
                    struct pandofs_dir_t *dir);

// The next entry: 1, or 0 at the end. Without . and .. Threads that share a listing get different entries.
int pandofs_readdir(struct pandofs_dir_t dir,
                    struct pandofs_dirent_t *entry);

// Goes on behind the entry that had this offset; from the start with 0.
int pandofs_seekdir(struct pandofs_dir_t dir, int64_t offset);

// As fsync(2) of a directory: its entries are on disk.
int pandofs_fsyncdir(struct pandofs_dir_t dir);

// As closedir(3).
int pandofs_closedir(struct pandofs_dir_t dir);

// As getxattr(2): the value and its length; with size 0 the length alone.
int64_t pandofs_getxattr(struct pandofs_fs_t fs,
                         const char *path,
                         const char *name,
                         void *value,
                         size_t size);

// As pandofs_getxattr(), of a symbolic link itself.
int64_t pandofs_lgetxattr(struct pandofs_fs_t fs,
                          const char *path,
                          const char *name,
                          void *value,
                          size_t size);

// As pandofs_getxattr(), of an open file.
int64_t pandofs_fgetxattr(struct pandofs_file_t file, const char *name, void *value, size_t size);

// As listxattr(2): the names, each with a NUL behind it, and their length; with size 0 the length alone.
int64_t pandofs_listxattr(struct pandofs_fs_t fs,
                          const char *path,
                          char *names,
                          size_t size);

// As pandofs_listxattr(), of a symbolic link itself.
int64_t pandofs_llistxattr(struct pandofs_fs_t fs, const char *path, char *names, size_t size);

// As pandofs_listxattr(), of an open file.
int64_t pandofs_flistxattr(struct pandofs_file_t file, char *names, size_t size);

// As setxattr(2). Flags: 0, XATTR_CREATE or XATTR_REPLACE. "user.pandofs.layout" chooses how a file is striped.
int pandofs_setxattr(struct pandofs_fs_t fs,
                     const char *path,
                     const char *name,
                     const void *value,
                     size_t size,
                     int flags);

// As pandofs_setxattr(), of a symbolic link itself.
int pandofs_lsetxattr(struct pandofs_fs_t fs,
                      const char *path,
                      const char *name,
                      const void *value,
                      size_t size,
                      int flags);

// As pandofs_setxattr(), of an open file.
int pandofs_fsetxattr(struct pandofs_file_t file,
                      const char *name,
                      const void *value,
                      size_t size,
                      int flags);

// As removexattr(2).
int pandofs_removexattr(struct pandofs_fs_t fs, const char *path, const char *name);

// As pandofs_removexattr(), of a symbolic link itself.
int pandofs_lremovexattr(struct pandofs_fs_t fs, const char *path, const char *name);

// As pandofs_removexattr(), of an open file.
int pandofs_fremovexattr(struct pandofs_file_t file, const char *name);

// As flock(2): LOCK_SH, LOCK_EX or LOCK_UN, with LOCK_NB or not.
int pandofs_flock(struct pandofs_file_t file, int operation);

// Locks or unlocks bytes, as fcntl(2) with F_OFD_SETLK (wait 0) or F_OFD_SETLKW: kind is F_RDLCK, F_WRLCK or F_UNLCK, and
// length 0 is all that follows. -EAGAIN: somebody else has a lock that is in the way.
int pandofs_lock(struct pandofs_file_t file,
                 int kind,
                 uint64_t start,
                 uint64_t length,
                 int wait);

// The holder who is in the way of a lock, as fcntl(2) with F_OFD_GETLK: kind becomes F_UNLCK if nobody is.
int pandofs_getlock(struct pandofs_file_t file,
                    struct pandofs_lock_t *lock);

// As stat(2) of many paths, with as many requests under way at once as may be. The attributes of items[n] are in stats[n] if
// its result is 0; its data and size mean nothing. Answers how many items have failed, each with its error as result;
// pandofs_strerror_last() has words for the first of them. An error of the call itself leaves all results alone.
int64_t pandofs_stat_many(struct pandofs_fs_t fs,
                          struct pandofs_item_t *items,
                          size_t item_count,
                          struct pandofs_stat_t *stats);

// Reads the first bytes of many regular files, as many as each item has room for, as pandofs_stat_many() looks at them; the
// result is how many they are. Nothing is left open. Rooms do not overlap.
int64_t pandofs_read_many(struct pandofs_fs_t fs,
                          struct pandofs_item_t *items,
                          size_t item_count);

// Makes many files with their bytes, and leaves them closed, as pandofs_stat_many() looks at them. One that is there is
// -EEXIST; one that could not be given all of its bytes is there all the same, unless somebody else has removed it.
int64_t pandofs_create_many(struct pandofs_fs_t fs,
                            struct pandofs_item_t *items,
                            size_t item_count,
                            uint32_t mode);

// As unlink(2) of many paths, as pandofs_stat_many() looks at them.
int64_t pandofs_unlink_many(struct pandofs_fs_t fs,
                            struct pandofs_item_t *items,
                            size_t item_count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PANDOFS_H */
