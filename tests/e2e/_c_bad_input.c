/* Gives libpandofs what it must not be given, which has to be an error each time and never a crash.
 *
 * _c_bad_input CLUSTER: all but the next.
 * _c_bad_input CLUSTER vanish: prints "ready", and goes on until its server, which somebody has to kill, is missed. */
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
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int checks;

static void equal(int line, const char *what, int64_t found, int64_t wanted)
{
    checks++;
    if (found == wanted)
        return;
    printf("line %d: %s is %" PRId64 ", not %" PRId64 " (%s)\n", line, what, found, wanted, pandofs_strerror_last());
    fflush(stdout);
    _exit(1);
}

#define EQUAL(found, wanted) equal(__LINE__, #found, (int64_t)(found), (int64_t)(wanted))
#define OK(call) EQUAL(call, 0)

static pandofs_fs_t fs;
static pandofs_file_t file;
static pandofs_dir_t dir;

/* Room for whatever is answered. */
static char room[64];
static pandofs_stat_t stat;
static pandofs_dirent_t entry;
static pandofs_statvfs_t space;
static pandofs_lock_t lock = {.kind = F_RDLCK};
static pandofs_fs_t other;
static pandofs_file_t no_file;
static pandofs_dir_t no_dir;
static pandofs_item_t item = {.path = "x", .data = room, .size = sizeof room};

/* Every call that takes a connection, with this one. */
static void all_of_fs(pandofs_fs_t fs, int wanted)
{
    EQUAL(pandofs_as(fs, 1, 1, NULL, 0, &other), wanted);
    EQUAL(pandofs_at(fs, "/", &other), wanted);
    EQUAL(pandofs_statvfs(fs, &space), wanted);
    EQUAL(pandofs_stat(fs, "/", &stat), wanted);
    EQUAL(pandofs_lstat(fs, "/", &stat), wanted);
    EQUAL(pandofs_access(fs, "/", R_OK), wanted);
    EQUAL(pandofs_chmod(fs, "/", 0755), wanted);
    EQUAL(pandofs_chown(fs, "/", 0, 0), wanted);
    EQUAL(pandofs_lchown(fs, "/", 0, 0), wanted);
    EQUAL(pandofs_utimens(fs, "/", 0, 0), wanted);
    EQUAL(pandofs_lutimens(fs, "/", 0, 0), wanted);
    EQUAL(pandofs_truncate(fs, "x", 0), wanted);
    EQUAL(pandofs_mkdir(fs, "x", 0755), wanted);
    EQUAL(pandofs_rmdir(fs, "x"), wanted);
    EQUAL(pandofs_unlink(fs, "x"), wanted);
    EQUAL(pandofs_rename(fs, "x", fs, "y", 0), wanted);
    EQUAL(pandofs_link(fs, "x", fs, "y"), wanted);
    EQUAL(pandofs_symlink("x", fs, "y"), wanted);
    EQUAL(pandofs_readlink(fs, "x", room, sizeof room), wanted);
    EQUAL(pandofs_open(fs, "x", O_RDONLY, 0, &no_file), wanted);
    EQUAL(pandofs_opendir(fs, "/", 0, &no_dir), wanted);
    EQUAL(pandofs_getxattr(fs, "x", "user.x", room, sizeof room), wanted);
    EQUAL(pandofs_lgetxattr(fs, "x", "user.x", room, sizeof room), wanted);
    EQUAL(pandofs_listxattr(fs, "x", room, sizeof room), wanted);
    EQUAL(pandofs_llistxattr(fs, "x", room, sizeof room), wanted);
    EQUAL(pandofs_setxattr(fs, "x", "user.x", room, 1, 0), wanted);
    EQUAL(pandofs_lsetxattr(fs, "x", "user.x", room, 1, 0), wanted);
    EQUAL(pandofs_removexattr(fs, "x", "user.x"), wanted);
    EQUAL(pandofs_lremovexattr(fs, "x", "user.x"), wanted);
    EQUAL(pandofs_stat_many(fs, &item, 1, &stat), wanted);
    EQUAL(pandofs_read_many(fs, &item, 1), wanted);
    EQUAL(pandofs_create_many(fs, &item, 1, 0644), wanted);
    EQUAL(pandofs_unlink_many(fs, &item, 1), wanted);
    EQUAL(pandofs_disconnect(fs), wanted);
}

static void all_of_file(pandofs_file_t file, int wanted)
{
    EQUAL(pandofs_fstat(file, &stat), wanted);
    EQUAL(pandofs_fchmod(file, 0644), wanted);
    EQUAL(pandofs_fchown(file, 0, 0), wanted);
    EQUAL(pandofs_futimens(file, 0, 0), wanted);
    EQUAL(pandofs_ftruncate(file, 0), wanted);
    EQUAL(pandofs_pread(file, room, 1, 0), wanted);
    EQUAL(pandofs_pwrite(file, room, 1, 0), wanted);
    EQUAL(pandofs_append(file, room, 1, NULL), wanted);
    EQUAL(pandofs_flush(file), wanted);
    EQUAL(pandofs_fsync(file), wanted);
    EQUAL(pandofs_fallocate(file, 0, 0, 1), wanted);
    EQUAL(pandofs_seek(file, 0, SEEK_DATA), wanted);
    EQUAL(pandofs_fgetxattr(file, "user.x", room, sizeof room), wanted);
    EQUAL(pandofs_flistxattr(file, room, sizeof room), wanted);
    EQUAL(pandofs_fsetxattr(file, "user.x", room, 1, 0), wanted);
    EQUAL(pandofs_fremovexattr(file, "user.x"), wanted);
    EQUAL(pandofs_flock(file, LOCK_SH), wanted);
    EQUAL(pandofs_lock(file, F_RDLCK, 0, 0, 1), wanted);
    EQUAL(pandofs_getlock(file, &lock), wanted);
    EQUAL(pandofs_close(file), wanted);
}

static void all_of_dir(pandofs_dir_t dir, int wanted)
{
    EQUAL(pandofs_readdir(dir, &entry), wanted);
    EQUAL(pandofs_seekdir(dir, 0), wanted);
    EQUAL(pandofs_fsyncdir(dir), wanted);
    EQUAL(pandofs_closedir(dir), wanted);
}

static void null_pointers(const char *cluster)
{
    EQUAL(pandofs_options_init(NULL, sizeof(pandofs_options_t)), -EFAULT);
    EQUAL(pandofs_connect(NULL, NULL, &other), -EFAULT);
    EQUAL(pandofs_connect(cluster, NULL, NULL), -EFAULT);
    EQUAL(pandofs_as(fs, 1, 1, NULL, 1, &other), -EFAULT);
    EQUAL(pandofs_as(fs, 1, 1, NULL, 0, NULL), -EFAULT);
    EQUAL(pandofs_at(fs, NULL, &other), -EFAULT);
    EQUAL(pandofs_at(fs, "/", NULL), -EFAULT);
    EQUAL(pandofs_statvfs(fs, NULL), -EFAULT);
    EQUAL(pandofs_stat(fs, NULL, &stat), -EFAULT);
    EQUAL(pandofs_stat(fs, "/", NULL), -EFAULT);
    EQUAL(strcmp(pandofs_strerror_last(), "pandofs_stat(/): 'stat' is a null pointer"), 0);
    EQUAL(pandofs_lstat(fs, NULL, &stat), -EFAULT);
    EQUAL(pandofs_lstat(fs, "/", NULL), -EFAULT);
    EQUAL(pandofs_fstat(file, NULL), -EFAULT);
    EQUAL(pandofs_access(fs, NULL, R_OK), -EFAULT);
    EQUAL(pandofs_chmod(fs, NULL, 0755), -EFAULT);
    EQUAL(pandofs_chown(fs, NULL, 0, 0), -EFAULT);
    EQUAL(pandofs_lchown(fs, NULL, 0, 0), -EFAULT);
    EQUAL(pandofs_utimens(fs, NULL, 0, 0), -EFAULT);
    EQUAL(pandofs_lutimens(fs, NULL, 0, 0), -EFAULT);
    EQUAL(pandofs_truncate(fs, NULL, 0), -EFAULT);
    EQUAL(pandofs_mkdir(fs, NULL, 0755), -EFAULT);
    EQUAL(pandofs_rmdir(fs, NULL), -EFAULT);
    EQUAL(pandofs_unlink(fs, NULL), -EFAULT);
    EQUAL(pandofs_rename(fs, NULL, fs, "y", 0), -EFAULT);
    EQUAL(pandofs_rename(fs, "x", fs, NULL, 0), -EFAULT);
    EQUAL(pandofs_link(fs, NULL, fs, "y"), -EFAULT);
    EQUAL(pandofs_link(fs, "x", fs, NULL), -EFAULT);
    EQUAL(pandofs_symlink(NULL, fs, "y"), -EFAULT);
    EQUAL(pandofs_symlink("x", fs, NULL), -EFAULT);
    EQUAL(pandofs_readlink(fs, NULL, room, sizeof room), -EFAULT);
    EQUAL(pandofs_readlink(fs, "x", NULL, 1), -EFAULT);
    EQUAL(pandofs_open(fs, NULL, O_RDONLY, 0, &no_file), -EFAULT);
    EQUAL(pandofs_open(fs, "x", O_RDONLY, 0, NULL), -EFAULT);
    EQUAL(pandofs_pread(file, NULL, 1, 0), -EFAULT);
    EQUAL(pandofs_pwrite(file, NULL, 1, 0), -EFAULT);
    EQUAL(pandofs_append(file, NULL, 1, NULL), -EFAULT);
    EQUAL(pandofs_pread(file, NULL, 0, 0), 0);
    EQUAL(pandofs_pwrite(file, NULL, 0, 0), 0);
    EQUAL(pandofs_pwrite(file, room, SIZE_MAX, 0), -EINVAL);
    EQUAL(pandofs_getlock(file, NULL), -EFAULT);
    EQUAL(pandofs_opendir(fs, NULL, 0, &no_dir), -EFAULT);
    EQUAL(pandofs_opendir(fs, "/", 0, NULL), -EFAULT);
    EQUAL(pandofs_opendir(fs, "/", 99, &no_dir), -EINVAL);
    EQUAL(pandofs_readdir(dir, NULL), -EFAULT);
    EQUAL(pandofs_getxattr(fs, NULL, "user.x", room, sizeof room), -EFAULT);
    EQUAL(pandofs_getxattr(fs, "x", NULL, room, sizeof room), -EFAULT);
    EQUAL(pandofs_getxattr(fs, "x", "user.x", NULL, 1), -EFAULT);
    EQUAL(pandofs_lgetxattr(fs, "x", NULL, room, sizeof room), -EFAULT);
    EQUAL(pandofs_fgetxattr(file, NULL, room, sizeof room), -EFAULT);
    EQUAL(pandofs_listxattr(fs, "x", NULL, 1), -EFAULT);
    EQUAL(pandofs_llistxattr(fs, NULL, room, 1), -EFAULT);
    EQUAL(pandofs_flistxattr(file, NULL, 1), -EFAULT);
    EQUAL(pandofs_setxattr(fs, "x", "user.x", NULL, 1, 0), -EFAULT);
    EQUAL(pandofs_lsetxattr(fs, "x", NULL, room, 1, 0), -EFAULT);
    EQUAL(pandofs_fsetxattr(file, NULL, room, 1, 0), -EFAULT);
    EQUAL(pandofs_setxattr(fs, "x", "", room, 1, 0), -EINVAL);
    EQUAL(pandofs_removexattr(fs, "x", NULL), -EFAULT);
    EQUAL(pandofs_lremovexattr(fs, NULL, "user.x"), -EFAULT);
    EQUAL(pandofs_fremovexattr(file, NULL), -EFAULT);
    EQUAL(pandofs_stat_many(fs, NULL, 1, &stat), -EFAULT);
    EQUAL(pandofs_stat_many(fs, &item, 1, NULL), -EFAULT);
    EQUAL(pandofs_read_many(fs, NULL, 1), -EFAULT);
    EQUAL(pandofs_create_many(fs, NULL, 1, 0644), -EFAULT);
    EQUAL(pandofs_unlink_many(fs, NULL, 1), -EFAULT);
    EQUAL(pandofs_unlink_many(fs, NULL, 0), 0);
}

/* Of a batch each item fails by itself. */
static void bad_items(void)
{
    pandofs_item_t items[3] = {{.path = NULL}, {.path = "there-is-none", .data = NULL, .size = 1}, {.path = ""}};
    pandofs_stat_t stats[3];

    EQUAL(pandofs_stat_many(fs, items, 3, stats), 3);
    EQUAL(items[0].result, -EFAULT);
    EQUAL(items[1].result, -ENOENT);
    EQUAL(items[2].result, -ENOENT);
    EQUAL(strcmp(pandofs_strerror_last(), "pandofs_stat_many(): 'path' is a null pointer"), 0);
    EQUAL(pandofs_read_many(fs, items + 1, 1), 1);
    EQUAL(items[1].result, -EFAULT);
    EQUAL(pandofs_create_many(fs, items + 1, 1, 0644), 1);
    EQUAL(items[1].result, -EFAULT);
    items[1].size = UINT64_MAX;
    items[1].data = room;
    EQUAL(pandofs_create_many(fs, items + 1, 1, 0644), 1);
    EQUAL(items[1].result, -EINVAL);
    EQUAL(pandofs_unlink_many(fs, items, 3), 3);
    EQUAL(items[1].result, -ENOENT);
    EQUAL(strcmp(pandofs_strerror_last(), "pandofs_unlink_many(): 'path' is a null pointer"), 0);
}

/* Paths that end where memory does, and others that are too long. */
static void long_paths(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = PANDOFS_PATH_MAX > page ? PANDOFS_PATH_MAX : page;
    char *memory = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *path = memory + size - PANDOFS_PATH_MAX;

    OK(mprotect(memory + size, page, PROT_NONE));
    memset(memory, 'x', size);
    EQUAL(pandofs_stat(fs, path, &stat), -ENAMETOOLONG);
    EQUAL(pandofs_symlink(path, fs, "y"), -ENAMETOOLONG);
    EQUAL(pandofs_connect(path, NULL, &other), -ENAMETOOLONG);
    EQUAL(pandofs_getxattr(fs, "x", path, room, sizeof room), -EINVAL);
    /* It has an end, but a name is too long. */
    path[PANDOFS_PATH_MAX - 1] = 0;
    EQUAL(pandofs_stat(fs, path, &stat), -ENAMETOOLONG);
    EQUAL(pandofs_mkdir(fs, path, 0755), -ENAMETOOLONG);
    path[PANDOFS_NAME_MAX] = 0;
    EQUAL(pandofs_stat(fs, path, &stat), -ENOENT);
    munmap(memory, size + page);
}

static void wrong_options(const char *cluster)
{
    struct {
        pandofs_options_t known;
        uint64_t later;
    } options;
    char bytes[sizeof(pandofs_options_t)] = {0};
    pandofs_options_t own;

    EQUAL(pandofs_options_init(&own, 3), -EINVAL);
    EQUAL(pandofs_connect(cluster, (pandofs_options_t *)bytes, &other), -EINVAL);
    /* A program of a later version, which wants nothing that this one lacks, and then does. */
    OK(pandofs_options_init(&options.known, sizeof options));
    EQUAL(options.later, 0);
    OK(pandofs_connect(cluster, &options.known, &other));
    OK(pandofs_disconnect(other));
    options.later = 1;
    EQUAL(pandofs_connect(cluster, &options.known, &other), -E2BIG);
    OK(pandofs_options_init(&own, sizeof own));
    own.umask = 07777;
    EQUAL(pandofs_connect(cluster, &own, &other), -EINVAL);
    OK(pandofs_options_init(&own, sizeof own));
    own.uid = 5;
    EQUAL(pandofs_connect(cluster, &own, &other), -EINVAL);
    own.gid = 5;
    own.group_count = 2;
    EQUAL(pandofs_connect(cluster, &own, &other), -EFAULT);
}

static void wrong_addresses(const char *cluster)
{
    pandofs_options_t options;

    OK(pandofs_options_init(&options, sizeof options));
    options.timeout_ms = 500;
    EQUAL(pandofs_connect("", &options, &other), -ENOENT);
    EQUAL(pandofs_connect("/there/is/none.json", &options, &other), -EIO);
    EQUAL(strstr(pandofs_strerror_last(), "/there/is/none.json") != NULL, 1);
    EQUAL(pandofs_connect("/proc/self/exe", &options, &other), -EIO);
    EQUAL(pandofs_connect("/", &options, &other), -EIO);
    EQUAL(pandofs_connect("unix:/there/is/none,tcp:127.0.0.1:1", &options, &other), -EIO);
    EQUAL(strstr(pandofs_strerror_last(), "tcp:127.0.0.1:1") != NULL, 1);
    EQUAL(pandofs_connect("tcp:nothing", &options, &other), -EIO);
    EQUAL(pandofs_connect("unix:", &options, &other), -EIO);
    EQUAL(pandofs_connect("unix:\xff", &options, &other), -EINVAL);
    OK(pandofs_connect(cluster, &options, &other));
    OK(pandofs_disconnect(other));
}

static volatile int is_over;

static void *be_busy(void *unused)
{
    (void)unused;
    while (!is_over) {
        pandofs_stat(fs, "/", &(pandofs_stat_t){0});
        pandofs_pwrite(file, "busy", 4, 0);
    }
    return NULL;
}

/* A child that was forked while threads are in calls: its parent's handles are errors, and it can have its own. */
static void fork_child(const char *cluster)
{
    pthread_t threads[4];
    int status;

    for (int t = 0; t < 4; t++)
        pthread_create(&threads[t], NULL, be_busy, NULL);
    for (int n = 0; n < 20; n++) {
        pid_t child = fork();

        if (child == 0) {
            pandofs_fs_t own;

            alarm(60); /* Nothing hangs. */
            all_of_fs(fs, -ESTALE);
            all_of_file(file, -ESTALE);
            all_of_dir(dir, -ESTALE);
            EQUAL(strstr(pandofs_strerror_last(), "forked") != NULL, 1);
            OK(pandofs_connect(cluster, NULL, &own));
            EQUAL(own.id == fs.id, 0);
            all_of_fs(fs, -ESTALE);
            OK(pandofs_stat(own, "/", &stat));
            if (n == 0) {
                /* A grandchild has neither. */
                child = fork();
                if (child == 0) {
                    all_of_fs(fs, -ESTALE);
                    all_of_fs(own, -ESTALE);
                    _exit(0);
                }
                EQUAL(waitpid(child, &status, 0), child);
                EQUAL(status, 0);
            }
            OK(pandofs_disconnect(own));
            all_of_fs(own, -EBADF);
            _exit(0);
        }
        EQUAL(waitpid(child, &status, 0), child);
        EQUAL(status, 0);
    }
    is_over = 1;
    for (int t = 0; t < 4; t++)
        pthread_join(threads[t], NULL);
    OK(pandofs_stat(fs, "/", &stat));
}

/* Two threads close what the others use. */
static void *open_and_close(void *handles)
{
    pandofs_file_t *shared = handles;

    for (int n = 0; n < 300; n++) {
        pandofs_file_t opened, before;
        int64_t found;

        if (pandofs_open(fs, "/shared", O_RDWR | O_CREAT, 0644, &opened) < 0)
            return (void *)1;
        before.id = __atomic_exchange_n(&shared->id, opened.id, __ATOMIC_SEQ_CST);
        found = pandofs_pwrite((pandofs_file_t){__atomic_load_n(&shared->id, __ATOMIC_SEQ_CST)}, "x", 1, 0);
        if (found != 1 && found != -EBADF)
            return (void *)2;
        found = pandofs_close(before);
        if (found != 0 && found != -EBADF)
            return (void *)3;
    }
    return NULL;
}

static void close_what_is_used(void)
{
    pandofs_file_t shared = {0};
    pthread_t threads[4];

    for (int t = 0; t < 4; t++)
        pthread_create(&threads[t], NULL, open_and_close, &shared);
    for (int t = 0; t < 4; t++) {
        void *result;

        pthread_join(threads[t], &result);
        EQUAL((intptr_t)result, 0);
    }
    OK(pandofs_close(shared));
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *until_missed(void *unused)
{
    char text[8192] = "text";
    int64_t result;

    (void)unused;
    /* Larger than what is kept inline, so that data objects are written to, too. */
    for (uint64_t n = 0; (result = pandofs_pwrite(file, text, sizeof text, n % 64 * sizeof text)) > 0; n++)
        continue;
    return (void *)(intptr_t)result;
}

static int vanish(const char *cluster)
{
    static char text[8192] = "text";
    pandofs_options_t options;
    pthread_t thread;
    int64_t begun;
    void *result;

    OK(pandofs_options_init(&options, sizeof options));
    options.timeout_ms = 1500;
    OK(pandofs_connect(cluster, &options, &fs));
    OK(pandofs_open(fs, "/vanish", O_RDWR | O_CREAT, 0644, &file));
    OK(pandofs_opendir(fs, "/", 0, &dir));
    /* So that there is something to be told when it is closed, however soon the server is gone. */
    EQUAL(pandofs_pwrite(file, text, sizeof text, 0), sizeof text);
    pthread_create(&thread, NULL, until_missed, NULL);
    printf("ready\n");
    fflush(stdout);
    pthread_join(thread, &result);
    EQUAL((intptr_t)result, -EIO);
    begun = now_ms();
    EQUAL(pandofs_mkdir(fs, "/more", 0755), -EIO);
    EQUAL(strstr(pandofs_strerror_last(), "server 0") != NULL, 1);
    EQUAL(strstr(pandofs_strerror_last(), "/more") != NULL, 1);
    EQUAL(pandofs_fsync(file), -EIO);
    EQUAL(pandofs_connect(cluster, &options, &other), -EIO);
    EQUAL(pandofs_disconnect(fs), -EIO);
    all_of_file(file, -EBADF);
    all_of_dir(dir, -EBADF);
    /* Each of the four waits as long as it may, and some of them for an attempt more. */
    EQUAL(now_ms() - begun < 60000, 1);
    printf("%d checks hold\n", checks);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return vanish(argv[1]);
    all_of_fs((pandofs_fs_t){0}, -EBADF);
    all_of_file((pandofs_file_t){0}, -EBADF);
    OK(pandofs_connect(argv[1], NULL, &fs));
    OK(pandofs_open(fs, "/bad", O_RDWR | O_CREAT, 0644, &file));
    OK(pandofs_opendir(fs, "/", 0, &dir));
    for (int n = 0; n < 64; n++) {
        all_of_fs((pandofs_fs_t){UINT64_C(1) << n}, -EBADF);
        all_of_file((pandofs_file_t){UINT64_C(1) << n}, -EBADF);
        all_of_dir((pandofs_dir_t){dir.id ^ UINT64_C(1) << n}, -EBADF);
    }
    /* Handles of other kinds. */
    all_of_fs((pandofs_fs_t){file.id}, -EBADF);
    all_of_fs((pandofs_fs_t){dir.id}, -EBADF);
    all_of_file((pandofs_file_t){fs.id}, -EBADF);
    all_of_dir((pandofs_dir_t){file.id}, -EBADF);
    null_pointers(argv[1]);
    bad_items();
    long_paths();
    wrong_options(argv[1]);
    wrong_addresses(argv[1]);
    fork_child(argv[1]);
    close_what_is_used();
    OK(pandofs_close(file));
    all_of_file(file, -EBADF);
    OK(pandofs_closedir(dir));
    all_of_dir(dir, -EBADF);
    OK(pandofs_disconnect(fs));
    all_of_fs(fs, -EBADF);
    printf("%d checks hold\n", checks);
    return 0;
}
