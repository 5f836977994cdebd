/* Writes and reads many files by several threads that share one connection.
 *
 * many_files CLUSTER DIRECTORY FILES THREADS: makes the directory, writes that many files, reads them back, compares, and
 * says how many there are. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pandofs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64, MOST_BYTES = 20000 };

struct work {
    pandofs_fs_t dir;
    int first, step, files;
    int failures;
};

/* File number n has n % MOST_BYTES + 1 bytes that follow from n. */
static size_t contents(int n, unsigned char *bytes)
{
    size_t size = (size_t)n * 37 % MOST_BYTES + 1;

    for (size_t at = 0; at < size; at++)
        bytes[at] = (unsigned char)(n * 31 + (int)at);
    return size;
}

static void explain(struct work *work, const char *what)
{
    work->failures++;
    fprintf(stderr, "many_files: %s: %s\n", what, pandofs_strerror_last());
}

static void write_one(struct work *work, int n)
{
    unsigned char bytes[MOST_BYTES];
    size_t size = contents(n, bytes);
    pandofs_file_t file;
    char name[32];

    snprintf(name, sizeof name, "file-%d", n);
    if (pandofs_open(work->dir, name, O_WRONLY | O_CREAT | O_EXCL, 0644, &file) < 0) {
        explain(work, "open");
        return;
    }
    if (pandofs_pwrite(file, bytes, size, 0) != (int64_t)size)
        explain(work, "pwrite");
    if (pandofs_close(file) < 0)
        explain(work, "close");
}

static void read_one(struct work *work, int n)
{
    unsigned char wanted[MOST_BYTES], found[MOST_BYTES + 1];
    size_t size = contents(n, wanted);
    pandofs_file_t file;
    char name[32];

    snprintf(name, sizeof name, "file-%d", n);
    if (pandofs_open(work->dir, name, O_RDONLY, 0, &file) < 0) {
        explain(work, "open");
        return;
    }
    if (pandofs_pread(file, found, sizeof found, 0) != (int64_t)size)
        explain(work, "pread");
    else if (memcmp(wanted, found, size) != 0) {
        work->failures++;
        fprintf(stderr, "many_files: %s has other bytes\n", name);
    }
    if (pandofs_close(file) < 0)
        explain(work, "close");
}

static void *write_files(void *argument)
{
    struct work *work = argument;

    for (int n = work->first; n < work->files; n += work->step)
        write_one(work, n);
    return NULL;
}

static void *read_files(void *argument)
{
    struct work *work = argument;

    /* What another thread wrote. */
    for (int n = (work->first + 1) % work->step; n < work->files; n += work->step)
        read_one(work, n);
    return NULL;
}

static int by_threads(void *(*run)(void *), struct work *works, int threads)
{
    pthread_t ids[MOST_THREADS];
    int failures = 0;

    for (int t = 0; t < threads; t++) {
        if (pthread_create(&ids[t], NULL, run, &works[t]) != 0)
            abort();
    }
    for (int t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        failures += works[t].failures;
    }
    return failures;
}

int main(int argc, char **argv)
{
    struct work works[MOST_THREADS];
    pandofs_options_t options;
    pandofs_fs_t fs, dir;
    pandofs_stat_t stat;
    int files, threads, failures;

    if (argc != 5) {
        fprintf(stderr, "Usage: many_files CLUSTER DIRECTORY FILES THREADS\n");
        return 2;
    }
    files = atoi(argv[3]);
    threads = atoi(argv[4]);
    if (files < 1 || threads < 1 || threads > MOST_THREADS)
        return 2;
    pandofs_options_init(&options, sizeof options);
    options.timeout_ms = 60000;
    if (pandofs_connect(argv[1], &options, &fs) < 0 ||
        pandofs_mkdir(fs, argv[2], 0755) < 0 ||
        pandofs_at(fs, argv[2], &dir) < 0) {
        fprintf(stderr, "many_files: %s\n", pandofs_strerror_last());
        return 1;
    }
    for (int t = 0; t < threads; t++)
        works[t] = (struct work){.dir = dir, .first = t, .step = threads, .files = files};
    failures = by_threads(write_files, works, threads);
    if (failures == 0)
        failures = by_threads(read_files, works, threads);
    /* Of a directory the size is the number of its entries. */
    if (pandofs_stat(dir, ".", &stat) < 0 || stat.size != (uint64_t)files)
        failures++;
    printf("%d files written and read by %d threads, %d failures\n", files, threads, failures);
    /* The last handle of the connection: whatever is open still is closed. */
    if (pandofs_disconnect(dir) < 0 || pandofs_disconnect(fs) < 0)
        failures++;
    return failures ? 1 : 0;
}
