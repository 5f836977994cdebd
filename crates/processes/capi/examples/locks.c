/* Counts in one file, by several processes at once, each under a lock.
 *
 * locks CLUSTER FILE PROCESSES TIMES: each process adds 1 so many times; prints the count in the end. */
#include <errno.h>
#include <fcntl.h>
#include <pandofs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int64_t result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "locks: %s: %s\n", what, pandofs_strerror_last());
    exit(1);
}

/* Each process connects by itself: what its parent has connected is not for it. */
static int count(const char *cluster, const char *path, int times)
{
    pandofs_file_t file;
    pandofs_fs_t fs;
    char text[32];

    check(pandofs_connect(cluster, NULL, &fs), "connect");
    check(pandofs_open(fs, path, O_RDWR | O_CREAT, 0644, &file), "open");
    for (int n = 0; n < times; n++) {
        int64_t size;
        int error;

        /* Without waiting first, to show what that says. */
        error = pandofs_lock(file, F_WRLCK, 0, 0, 0);
        if (error == -EAGAIN)
            error = pandofs_lock(file, F_WRLCK, 0, 0, 1);
        check(error, "lock");
        size = pandofs_pread(file, text, sizeof text - 1, 0);
        check(size, "pread");
        text[size] = 0;
        size = snprintf(text, sizeof text, "%d", atoi(text) + 1);
        check(pandofs_pwrite(file, text, (size_t)size, 0), "pwrite");
        check(pandofs_lock(file, F_UNLCK, 0, 0, 0), "unlock");
    }
    check(pandofs_close(file), "close");
    check(pandofs_disconnect(fs), "disconnect");
    return 0;
}

int main(int argc, char **argv)
{
    int processes, times, failed = 0, status;
    pandofs_file_t file;
    pandofs_fs_t fs;
    char text[32] = "";

    if (argc != 5) {
        fprintf(stderr, "Usage: locks CLUSTER FILE PROCESSES TIMES\n");
        return 2;
    }
    processes = atoi(argv[3]);
    times = atoi(argv[4]);
    for (int n = 0; n < processes; n++) {
        pid_t child = fork();

        if (child == 0)
            _exit(count(argv[1], argv[2], times));
        if (child < 0)
            return 1;
    }
    while (wait(&status) > 0)
        failed |= status;
    check(pandofs_connect(argv[1], NULL, &fs), "connect");
    check(pandofs_open(fs, argv[2], O_RDONLY, 0, &file), "open");
    check(pandofs_pread(file, text, sizeof text - 1, 0), "pread");
    check(pandofs_close(file), "close");
    check(pandofs_disconnect(fs), "disconnect");
    printf("counted to %s\n", text);
    return failed || atoi(text) != processes * times;
}
