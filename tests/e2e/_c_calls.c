/* Calls every function of libpandofs and looks at what it does, in a new directory below the root:
 * _c_calls CLUSTER DIRECTORY. Prints how many checks there were, and
 * fails at the first that does not hold. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pandofs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static int checks;

static void equal(int line, const char *what, int64_t found, int64_t wanted)
{
    checks++;
    if (found == wanted)
        return;
    printf("line %d: %s is %" PRId64 ", not %" PRId64 " (%s)\n", line, what, found, wanted, pandofs_strerror_last());
    exit(1);
}

#define EQUAL(found, wanted) equal(__LINE__, #found, (int64_t)(found), (int64_t)(wanted))
#define OK(call) EQUAL(call, 0)

static pandofs_fs_t fs;
static const char *directory;

/* A path from the root. */
static const char *whole(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "/%s/%s", directory, name);
    return path;
}

static pandofs_file_t opened(const char *path, int flags)
{
    pandofs_file_t file;

    OK(pandofs_open(fs, path, flags, 0640, &file));
    return file;
}

static void attributes(void)
{
    pandofs_file_t file = opened("attributes", O_RDWR | O_CREAT | O_EXCL);
    pandofs_stat_t stat, other;
    pandofs_fs_t user, member;
    uint32_t group = 77;

    OK(pandofs_fstat(file, &stat));
    EQUAL(stat.mode, S_IFREG | 0640);
    EQUAL(stat.nlink, 1);
    OK(pandofs_stat(fs, whole("attributes"), &other));
    EQUAL(other.ino, stat.ino);
    OK(pandofs_fchmod(file, 0600));
    OK(pandofs_chmod(fs, "attributes", 0604));
    OK(pandofs_chown(fs, "attributes", 1234, PANDOFS_OWN));
    OK(pandofs_fchown(file, PANDOFS_OWN, 77));
    OK(pandofs_utimens(fs, "attributes", 1000000000000000007, PANDOFS_TIME_OMIT));
    OK(pandofs_futimens(file, PANDOFS_TIME_OMIT, -5));
    OK(pandofs_stat(fs, "attributes", &stat));
    EQUAL(stat.mode, S_IFREG | 0604);
    EQUAL(stat.uid, 1234);
    EQUAL(stat.gid, 77);
    EQUAL(stat.atime_ns, 1000000000000000007);
    EQUAL(stat.mtime_ns, -5);
    OK(pandofs_futimens(file, PANDOFS_TIME_NOW, PANDOFS_TIME_NOW));
    OK(pandofs_fstat(file, &stat));
    EQUAL(stat.mtime_ns > 1000000000000000007, 1);
    OK(pandofs_close(file));

    /* Neither owner nor group; then by a group. */
    OK(pandofs_chmod(fs, "attributes", 0640));
    OK(pandofs_as(fs, 4321, 4321, NULL, 0, &user));
    OK(pandofs_as(fs, 4321, 4321, &group, 1, &member));
    EQUAL(pandofs_access(user, "attributes", F_OK), 0);
    EQUAL(pandofs_access(user, "attributes", R_OK), -EACCES);
    OK(pandofs_access(member, "attributes", R_OK));
    EQUAL(pandofs_access(member, "attributes", R_OK | W_OK), -EACCES);
    EQUAL(pandofs_open(user, "attributes", O_RDONLY, 0, &file), -EACCES);
    EQUAL(pandofs_chmod(member, "attributes", 0777), -EPERM);
    EQUAL(pandofs_truncate(member, "attributes", 0), -EACCES);
    OK(pandofs_open(member, "attributes", O_RDONLY, 0, &file));
    OK(pandofs_close(file));
    OK(pandofs_disconnect(user));
    OK(pandofs_disconnect(member));
}

static void names(void)
{
    pandofs_fs_t sub, other;
    pandofs_file_t file;
    pandofs_stat_t stat;
    char target[64];

    OK(pandofs_mkdir(fs, "sub/", 01755));
    EQUAL(pandofs_mkdir(fs, "sub", 0755), -EEXIST);
    OK(pandofs_stat(fs, "sub", &stat));
    EQUAL(stat.mode, S_IFDIR | 01755);
    OK(pandofs_at(fs, "sub", &sub));
    OK(pandofs_open(sub, "file", O_WRONLY | O_CREAT, 0644, &file));
    OK(pandofs_close(file));
    EQUAL(pandofs_rmdir(fs, "sub"), -ENOTEMPTY);
    EQUAL(pandofs_unlink(fs, "sub"), -EISDIR);
    EQUAL(pandofs_unlink(sub, "file/"), -ENOTDIR);
    EQUAL(pandofs_rmdir(sub, "file"), -ENOTDIR);
    EQUAL(pandofs_rmdir(sub, "."), -EBUSY);
    EQUAL(pandofs_stat(sub, "file/below", &stat), -ENOTDIR);
    EQUAL(pandofs_stat(sub, "", &stat), -ENOENT);

    OK(pandofs_link(sub, "file", fs, "second"));
    OK(pandofs_stat(sub, "../second", &stat));
    EQUAL(stat.nlink, 2);
    EQUAL(pandofs_link(sub, "file", fs, "second"), -EEXIST);
    EQUAL(pandofs_link(fs, "sub", fs, "third"), -EPERM);

    OK(pandofs_symlink("sub/file", fs, "link"));
    OK(pandofs_lstat(fs, "link", &stat));
    EQUAL(stat.mode & S_IFMT, S_IFLNK);
    EQUAL(pandofs_readlink(fs, "link", NULL, 0), 8);
    EQUAL(pandofs_readlink(fs, "link", target, 7), -ERANGE);
    EQUAL(pandofs_readlink(fs, "link", target, sizeof target), 8);
    EQUAL(memcmp(target, "sub/file", 8), 0);
    EQUAL(pandofs_readlink(fs, "sub", target, sizeof target), -EINVAL);
    OK(pandofs_stat(fs, "link", &stat));
    EQUAL(stat.mode & S_IFMT, S_IFREG);
    OK(pandofs_lchown(fs, "link", 9, 9));
    OK(pandofs_lutimens(fs, "link", 5, 6));
    OK(pandofs_lstat(fs, "link", &stat));
    EQUAL(stat.uid, 9);
    EQUAL(stat.mtime_ns, 6);
    EQUAL(pandofs_open(fs, "link", O_RDONLY | O_NOFOLLOW, 0, &file), -ELOOP);
    EQUAL(pandofs_open(fs, "link", O_RDWR | O_CREAT | O_EXCL, 0644, &file), -EEXIST);
    /* A link to nothing is where the file is made. */
    OK(pandofs_symlink("sub/made", fs, "dangling"));
    file = opened("dangling", O_RDWR | O_CREAT);
    OK(pandofs_close(file));
    OK(pandofs_unlink(sub, "made"));
    OK(pandofs_symlink(whole("circle"), fs, "circle"));
    EQUAL(pandofs_stat(fs, "circle", &stat), -ELOOP);
    EQUAL(pandofs_stat(fs, "circle/x", &stat), -ELOOP);
    EQUAL(pandofs_open(fs, "circle", O_RDWR | O_CREAT, 0644, &file), -ELOOP);

    EQUAL(pandofs_rename(fs, "second", sub, "file", RENAME_NOREPLACE), -EEXIST);
    OK(pandofs_rename(fs, "link", sub, "file", RENAME_EXCHANGE));
    OK(pandofs_lstat(sub, "file", &stat));
    EQUAL(stat.mode & S_IFMT, S_IFLNK);
    OK(pandofs_rename(fs, "second", sub, "file", 0));
    EQUAL(pandofs_stat(fs, "second", &stat), -ENOENT);
    EQUAL(pandofs_rename(fs, "sub", sub, "itself", 0), -EINVAL);
    EQUAL(pandofs_rename(fs, "sub", fs, "/", 0), -EBUSY);
    EQUAL(pandofs_rename(sub, "file", fs, "name/", 0), -ENOTDIR);
    EQUAL(pandofs_rename(sub, "file", fs, "name", 99), -EINVAL);
    OK(pandofs_rename(fs, "sub/", fs, "moved/", 0));
    /* The handle is the directory's, whatever it is called. */
    OK(pandofs_stat(sub, "../moved/file", &stat));
    OK(pandofs_unlink(sub, "file"));
    OK(pandofs_rmdir(fs, "moved"));
    EQUAL(pandofs_stat(sub, "file", &stat) < 0, 1);
    OK(pandofs_disconnect(sub));
    EQUAL(pandofs_at(fs, "dangling", &other), -ENOENT);
    EQUAL(pandofs_at(fs, "attributes", &other), -ENOTDIR);
}

static void data(void)
{
    enum { LARGE = 40 << 20 };
    pandofs_file_t file = opened("data", O_RDWR | O_CREAT), again;
    unsigned char *large = malloc(LARGE), *back = malloc(LARGE + 1);
    pandofs_stat_t stat;
    uint64_t offset;
    char text[64];

    EQUAL(pandofs_pread(file, text, sizeof text, 0), 0);
    EQUAL(pandofs_pwrite(file, "pando", 5, 3), 5);
    EQUAL(pandofs_pread(file, text, sizeof text, 0), 8);
    EQUAL(memcmp(text, "\0\0\0pando", 8), 0);
    EQUAL(pandofs_append(file, "!", 1, &offset), 1);
    EQUAL(offset, 8);
    EQUAL(pandofs_append(file, "?", 1, NULL), 1);
    OK(pandofs_flush(file));
    OK(pandofs_fsync(file));
    OK(pandofs_ftruncate(file, 4));
    EQUAL(pandofs_pread(file, text, sizeof text, 0), 4);
    OK(pandofs_truncate(fs, "data", 6));
    EQUAL(pandofs_pread(file, text, sizeof text, 0), 6);
    EQUAL(memcmp(text, "\0\0\0p\0\0", 6), 0);
    EQUAL(pandofs_pwrite(file, text, 1, UINT64_MAX), -EFBIG);
    EQUAL(pandofs_pread(file, text, 1, UINT64_MAX), 0);

    /* What goes on at the end, whatever the offset. */
    again = opened("data", O_WRONLY | O_APPEND | O_SYNC);
    EQUAL(pandofs_pwrite(again, "end", 3, 0), 3);
    EQUAL(pandofs_pread(again, text, 1, 0), -EBADF);
    OK(pandofs_close(again));
    EQUAL(pandofs_pread(file, text, sizeof text, 6), 3);
    EQUAL(memcmp(text, "end", 3), 0);
    again = opened("data", O_RDONLY);
    EQUAL(pandofs_pwrite(again, "x", 1, 0), -EBADF);
    EQUAL(pandofs_ftruncate(again, 0), -EBADF);
    EQUAL(pandofs_fallocate(again, 0, 0, 1), -EBADF);
    OK(pandofs_close(again));
    again = opened("data", O_RDWR | O_CREAT | O_TRUNC);
    OK(pandofs_fstat(file, &stat));
    EQUAL(stat.size, 0);
    OK(pandofs_close(again));

    /* More than one request carries, over all servers. */
    for (size_t at = 0; at < LARGE; at++)
        large[at] = (unsigned char)(at * 7 + at / 4096);
    EQUAL(pandofs_pwrite(file, large, LARGE, 1000), LARGE);
    EQUAL(pandofs_pread(file, back, LARGE + 1, 1000), LARGE);
    EQUAL(memcmp(large, back, LARGE), 0);
    OK(pandofs_fstat(file, &stat));
    EQUAL(stat.size, LARGE + 1000);
    OK(pandofs_fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 8 << 20));
    EQUAL(pandofs_pread(file, back, 1, 10000), 1);
    EQUAL(back[0], 0);
    EQUAL(pandofs_fallocate(file, 1 << 20, 0, 1), -EOPNOTSUPP);
    EQUAL(pandofs_seek(file, 0, SEEK_HOLE) <= 4096 + (1 << 20), 1);
    EQUAL(pandofs_seek(file, LARGE + 1000, SEEK_DATA), -ENXIO);
    EQUAL(pandofs_seek(file, 0, SEEK_SET), -EINVAL);
    /* It is there for as long as it is open. */
    OK(pandofs_unlink(fs, "data"));
    EQUAL(pandofs_pread(file, back, 1, LARGE), 1);
    OK(pandofs_fstat(file, &stat));
    EQUAL(stat.nlink, 0);
    OK(pandofs_close(file));
    EQUAL(pandofs_stat(fs, "data", &stat), -ENOENT);
    free(large);
    free(back);
}

static void xattrs(void)
{
    pandofs_file_t file = opened("xattrs", O_RDWR | O_CREAT);
    char value[64], names[128];
    int64_t size;

    OK(pandofs_symlink("xattrs", fs, "xattrs-link"));
    OK(pandofs_setxattr(fs, "xattrs-link", "user.one", "1", 1, XATTR_CREATE));
    EQUAL(pandofs_setxattr(fs, "xattrs", "user.one", "2", 1, XATTR_CREATE), -EEXIST);
    EQUAL(pandofs_fsetxattr(file, "user.two", "2", 1, XATTR_REPLACE), -ENODATA);
    OK(pandofs_fsetxattr(file, "user.two", "", 0, 0));
    EQUAL(pandofs_getxattr(fs, "xattrs-link", "user.one", value, sizeof value), 1);
    EQUAL(value[0], '1');
    EQUAL(pandofs_getxattr(fs, "xattrs", "user.one", NULL, 0), 1);
    EQUAL(pandofs_fgetxattr(file, "user.two", value, sizeof value), 0);
    EQUAL(pandofs_fgetxattr(file, "user.three", value, sizeof value), -ENODATA);
    size = pandofs_listxattr(fs, "xattrs-link", names, sizeof names);
    EQUAL(size, 18);
    EQUAL(pandofs_flistxattr(file, names, 3), -ERANGE);
    EQUAL(pandofs_flistxattr(file, NULL, 0), 18);
    /* Of the link itself there are none that users may have. */
    EQUAL(pandofs_llistxattr(fs, "xattrs-link", names, sizeof names), 0);
    OK(pandofs_lsetxattr(fs, "xattrs-link", "trusted.mark", "yes", 3, 0));
    EQUAL(pandofs_lgetxattr(fs, "xattrs-link", "trusted.mark", value, 2), -ERANGE);
    EQUAL(pandofs_lgetxattr(fs, "xattrs-link", "trusted.mark", value, sizeof value), 3);
    OK(pandofs_lremovexattr(fs, "xattrs-link", "trusted.mark"));
    OK(pandofs_removexattr(fs, "xattrs", "user.one"));
    OK(pandofs_fremovexattr(file, "user.two"));
    EQUAL(pandofs_removexattr(fs, "xattrs", "user.one"), -ENODATA);
    EQUAL(pandofs_listxattr(fs, "xattrs", NULL, 0), 0);
    /* How it is striped. */
    OK(pandofs_setxattr(fs, "xattrs", "user.pandofs.layout", "unit=65536 count=1", 18, 0));
    EQUAL(pandofs_getxattr(fs, "xattrs", "user.pandofs.layout", value, sizeof value) >= 18, 1);
    EQUAL(strncmp(value, "unit=65536 count=1", 18), 0);
    OK(pandofs_close(file));
}

static void directories(void)
{
    enum { ENTRIES = 300 };
    unsigned char seen[ENTRIES] = {0};
    pandofs_dirent_t entry;
    int64_t offset = 0;
    pandofs_fs_t dir;
    pandofs_dir_t list;
    char name[32];
    int found;

    OK(pandofs_mkdir(fs, "directories", 0755));
    OK(pandofs_at(fs, "directories", &dir));
    for (int n = 0; n < ENTRIES; n++) {
        pandofs_file_t file;

        snprintf(name, sizeof name, "%d", n);
        OK(pandofs_open(dir, name, O_WRONLY | O_CREAT, 0644, &file));
        EQUAL(pandofs_pwrite(file, name, strlen(name), 0), strlen(name));
        OK(pandofs_close(file));
    }
    OK(pandofs_opendir(dir, ".", PANDOFS_DIR_STAT, &list));
    found = 0;
    while (pandofs_readdir(list, &entry) == 1) {
        EQUAL(entry.has_stat, 1);
        EQUAL(entry.stat.size, strlen(entry.name));
        EQUAL(S_ISREG(entry.kind) && entry.ino == entry.stat.ino, 1);
        seen[atoi(entry.name)]++;
        if (++found == 100)
            offset = entry.offset;
    }
    EQUAL(found, ENTRIES);
    for (int n = 0; n < ENTRIES; n++)
        EQUAL(seen[n], 1);
    EQUAL(pandofs_readdir(list, &entry), 0);
    OK(pandofs_seekdir(list, offset));
    for (found = 0; pandofs_readdir(list, &entry) == 1; found++)
        continue;
    EQUAL(found, ENTRIES - 100);
    OK(pandofs_seekdir(list, 0));
    EQUAL(pandofs_readdir(list, &entry), 1);
    EQUAL(pandofs_seekdir(list, -1), -EINVAL);
    OK(pandofs_fsyncdir(list));
    OK(pandofs_closedir(list));
    OK(pandofs_opendir(fs, "directories", 0, &list));
    EQUAL(pandofs_readdir(list, &entry), 1);
    EQUAL(entry.has_stat, 0);
    EQUAL(S_ISREG(entry.kind), 1);
    OK(pandofs_closedir(list));
    EQUAL(pandofs_opendir(fs, "attributes", 0, &list), -ENOTDIR);
    EQUAL(pandofs_opendir(fs, "nowhere", 0, &list), -ENOENT);
    OK(pandofs_disconnect(dir));
}

static pandofs_file_t waits_for;

static void *wait_for_lock(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)pandofs_lock(waits_for, F_WRLCK, 0, 10, 1);
}

static void locks(void)
{
    pandofs_file_t one = opened("locks", O_RDWR | O_CREAT), two = opened("locks", O_RDWR);
    pandofs_lock_t lock = {.start = 5, .length = 1, .kind = F_RDLCK};
    pthread_t thread;
    void *answer;

    OK(pandofs_lock(one, F_WRLCK, 0, 10, 0));
    EQUAL(pandofs_lock(two, F_RDLCK, 9, 0, 0), -EAGAIN);
    OK(pandofs_lock(two, F_WRLCK, 10, 0, 0));
    OK(pandofs_getlock(two, &lock));
    EQUAL(lock.kind, F_WRLCK);
    EQUAL(lock.start, 0);
    EQUAL(lock.length, 10);
    EQUAL(lock.pid, getpid());
    OK(pandofs_lock(one, F_UNLCK, 2, 2, 0));
    lock = (pandofs_lock_t){.start = 2, .length = 2, .kind = F_WRLCK};
    OK(pandofs_getlock(two, &lock));
    EQUAL(lock.kind, F_UNLCK);
    EQUAL(pandofs_lock(one, F_WRLCK, UINT64_MAX, 2, 0), -EINVAL);
    EQUAL(pandofs_lock(one, 99, 0, 0, 0), -EINVAL);

    /* Who waits is let in by an unlock. */
    waits_for = two;
    pthread_create(&thread, NULL, wait_for_lock, NULL);
    OK(pandofs_lock(one, F_UNLCK, 0, 0, 0));
    pthread_join(thread, &answer);
    EQUAL((intptr_t)answer, 0);
    /* And by a close. */
    OK(pandofs_lock(two, F_UNLCK, 0, 0, 0));
    OK(pandofs_lock(one, F_WRLCK, 0, 0, 0));
    pthread_create(&thread, NULL, wait_for_lock, NULL);
    OK(pandofs_close(one));
    pthread_join(thread, &answer);
    EQUAL((intptr_t)answer, 0);

    /* Those of flock() are for the whole file and do not see the others. */
    one = opened("locks", O_RDONLY);
    OK(pandofs_flock(one, LOCK_EX | LOCK_NB));
    EQUAL(pandofs_flock(two, LOCK_SH | LOCK_NB), -EAGAIN);
    OK(pandofs_flock(one, LOCK_SH));
    OK(pandofs_flock(two, LOCK_SH | LOCK_NB));
    OK(pandofs_flock(two, LOCK_UN));
    EQUAL(pandofs_flock(two, 77), -EINVAL);
    EQUAL(pandofs_lock(one, F_WRLCK, 0, 1, 0), -EBADF);
    OK(pandofs_close(two));

    /* A wait ends when its file is closed. */
    two = opened("locks", O_RDWR);
    one = opened("locks", O_RDWR);
    OK(pandofs_lock(one, F_WRLCK, 0, 0, 0));
    waits_for = two;
    pthread_create(&thread, NULL, wait_for_lock, NULL);
    usleep(200000); /* It may still be before its wait: either way it ends. */
    OK(pandofs_close(two));
    pthread_join(thread, &answer);
    EQUAL((intptr_t)answer == -EINTR || (intptr_t)answer == -EBADF, 1);
    OK(pandofs_close(one));
}

static void batches(void)
{
    static unsigned char large[200000], room[4][300000];
    pandofs_item_t items[4] = {
        {.path = "batch-small", .data = "one tree", .size = 8},
        {.path = "batch-large", .data = large, .size = sizeof large},
        {.path = "batch-none", .size = 0},
        {.path = "nowhere/batch", .size = 0},
    };
    pandofs_stat_t stats[4];

    memset(large, 7, sizeof large);
    EQUAL(pandofs_create_many(fs, items, 4, 0640), 1);
    for (int n = 0; n < 3; n++)
        OK(items[n].result);
    EQUAL(items[3].result, -ENOENT);
    EQUAL(strncmp(pandofs_strerror_last(), "pandofs_create_many(nowhere/batch): ", 36), 0);
    EQUAL(pandofs_create_many(fs, items, 1, 0640), 1);
    EQUAL(items[0].result, -EEXIST);
    OK(pandofs_symlink("batch-small", fs, "batch-link"));
    items[3].path = "batch-link";
    EQUAL(pandofs_stat_many(fs, items, 4, stats), 0);
    EQUAL(stats[0].size, 8);
    EQUAL(stats[1].size, sizeof large);
    EQUAL(stats[2].mode, S_IFREG | 0640);
    EQUAL(stats[3].ino, stats[0].ino);
    for (int n = 0; n < 4; n++) {
        items[n].data = room[n];
        items[n].size = sizeof room[n];
    }
    items[0].size = 3;
    EQUAL(pandofs_read_many(fs, items, 4), 0);
    EQUAL(items[0].result, 3);
    EQUAL(items[1].result, sizeof large);
    EQUAL(items[2].result, 0);
    EQUAL(items[3].result, 8);
    EQUAL(memcmp(room[3], "one tree", 8), 0);
    EQUAL(memcmp(room[1], large, sizeof large), 0);
    EQUAL(pandofs_unlink_many(fs, items, 4), 0);
    EQUAL(pandofs_unlink_many(fs, items, 4), 4);
    EQUAL(items[2].result, -ENOENT);
    items[0].path = "/";
    EQUAL(pandofs_read_many(fs, items, 1), 1);
    EQUAL(items[0].result, -EISDIR);
    EQUAL(pandofs_unlink_many(fs, items, 1), 1);
    EQUAL(items[0].result, -EISDIR);
    OK(pandofs_stat_many(fs, items, 1, stats));
    EQUAL(S_ISDIR(stats[0].mode), 1);
}

int main(int argc, char **argv)
{
    pandofs_options_t options;
    pandofs_statvfs_t room;
    pandofs_file_t file;
    pandofs_stat_t stat;
    pandofs_fs_t root;

    if (argc != 3)
        return 2;
    directory = argv[2];
    EQUAL(pandofs_version_number(), PANDOFS_VERSION);
    EQUAL(pandofs_strerror_last()[0], 0);
    OK(pandofs_options_init(&options, sizeof options));
    EQUAL(options.size, sizeof options);
    OK(pandofs_connect(argv[1], &options, &root));
    OK(pandofs_statvfs(root, &room));
    EQUAL(room.total_bytes > 0 && room.free_bytes <= room.total_bytes && room.inodes > 0, 1);
    OK(pandofs_mkdir(root, directory, 0755));
    OK(pandofs_at(root, directory, &fs));
    attributes();
    names();
    data();
    xattrs();
    directories();
    locks();
    batches();

    /* With the umask, and what an end leaves open is closed by it. */
    options.umask = 027;
    options.cache_bytes = 0;
    OK(pandofs_disconnect(fs));
    OK(pandofs_disconnect(root));
    EQUAL(pandofs_stat(root, "/", &stat), -EBADF);
    OK(pandofs_connect(argv[1], &options, &fs));
    OK(pandofs_mkdir(fs, whole("masked"), 0777));
    OK(pandofs_stat(fs, whole("masked"), &stat));
    EQUAL(stat.mode, S_IFDIR | 0750);
    OK(pandofs_open(fs, whole("left-open"), O_RDWR | O_CREAT, 0666, &file));
    EQUAL(pandofs_pwrite(file, "left", 4, 0), 4);
    OK(pandofs_disconnect(fs));
    EQUAL(pandofs_pread(file, &options, 1, 0), -EBADF);
    printf("%d checks hold\n", checks);
    return 0;
}
