/* nfs_client URL: a client of an NFS server that is no kernel's. It does what lines on its standard input say, one after
 * the other on one connection, and answers each with a line that begins with 'ok' or 'error':
 *
 *   open PATH         opens a file; it is named by its number, from 0 on, and stays open
 *   read NUMBER       what is in it from its start on, up to a line
 *   write NUMBER TEXT writes over its start, and forces it
 *   put FROM PATH     copies a local file; 'get PATH TO' copies it back
 *   mkdir PATH, rmdir PATH, unlink PATH, rename PATH NEW
 *   list PATH         how many names there are besides '.' and '..', and how many different ones
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <nfsc/libnfs.h>

#define MOST_OPEN 8
#define MOST_NAMES 100000
#define PIECE (256 * 1024)

static struct nfs_context *nfs;
static struct nfsfh *files[MOST_OPEN];
static int opened;

static void answer(int failed, const char *text)
{
    printf("%s %s\n", failed ? "error" : "ok", failed ? nfs_get_error(nfs) : text);
    fflush(stdout);
}

static int copy(const char *from, const char *to, int put)
{
    static char piece[PIECE];
    struct nfsfh *remote;
    int failed = put ? nfs_creat(nfs, to, 0644, &remote) : nfs_open(nfs, from, O_RDONLY, &remote);
    if (failed)
        return failed;
    int local = put ? open(from, O_RDONLY) : open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (local < 0)
        return -1;
    int length;
    while ((length = put ? (int)read(local, piece, PIECE) : nfs_read(nfs, remote, PIECE, piece)) > 0)
        for (int done = 0, more; done < length; done += more) {
            more = put ? nfs_write(nfs, remote, (uint64_t)(length - done), piece + done)
                       : (int)write(local, piece + done, (size_t)(length - done));
            if (more <= 0)
                return -1;
        }
    close(local);
    failed = put && nfs_fsync(nfs, remote);
    return nfs_close(nfs, remote) || failed || length < 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list(const char *path, char *text, size_t size)
{
    static char *names[MOST_NAMES];
    struct nfsdir *dir;
    struct nfsdirent *entry;
    size_t count = 0, different = 0;
    int failed = nfs_opendir(nfs, path, &dir);
    if (failed)
        return failed;
    while ((entry = nfs_readdir(nfs, dir)) && count < MOST_NAMES)
        if (strcmp(entry->name, ".") && strcmp(entry->name, ".."))
            names[count++] = strdup(entry->name);
    nfs_closedir(nfs, dir);
    qsort(names, count, sizeof *names, by_text);
    for (size_t at = 0; at < count; at++)
        different += at == 0 || strcmp(names[at - 1], names[at]);
    for (size_t at = 0; at < count; at++)
        free(names[at]);
    snprintf(text, size, "%zu %zu", count, different);
    return 0;
}

static void perform(char *line)
{
    char text[4096] = "";
    char *what = strtok(line, " "), *path = strtok(0, " "), *rest = strtok(0, "");
    int failed, number = path ? atoi(path) : 0;
    if (!what || !path || number < 0 || number >= MOST_OPEN || opened == MOST_OPEN) {
        puts("error not understood");
        fflush(stdout);
        return;
    }
    if (!strcmp(what, "open")) {
        failed = nfs_open(nfs, path, O_RDWR, &files[opened]);
        snprintf(text, sizeof text, "%d", opened);
        opened += !failed;
    } else if (!strcmp(what, "read")) {
        int length = nfs_pread(nfs, files[number], 0, sizeof text - 1, text);
        failed = length < 0;
        text[strcspn(text, "\n")] = 0;
    } else if (!strcmp(what, "write") && rest) {
        failed = nfs_pwrite(nfs, files[number], 0, strlen(rest), rest) != (int)strlen(rest);
        failed = failed || nfs_fsync(nfs, files[number]);
    } else if ((!strcmp(what, "put") || !strcmp(what, "get")) && rest) {
        failed = copy(path, rest, *what == 'p');
    } else if (!strcmp(what, "rename") && rest) {
        failed = nfs_rename(nfs, path, rest);
    } else if (!strcmp(what, "mkdir")) {
        failed = nfs_mkdir(nfs, path);
    } else if (!strcmp(what, "rmdir")) {
        failed = nfs_rmdir(nfs, path);
    } else if (!strcmp(what, "unlink")) {
        failed = nfs_unlink(nfs, path);
    } else if (!strcmp(what, "list")) {
        failed = list(path, text, sizeof text);
    } else {
        puts("error not understood");
        fflush(stdout);
        return;
    }
    answer(failed, text);
}

int main(int count, char **arguments)
{
    char line[4096];
    nfs = nfs_init_context();
    struct nfs_url *url = count == 2 ? nfs_parse_url_dir(nfs, arguments[1]) : 0;
    if (!url || nfs_mount(nfs, url->server, url->path)) {
        fprintf(stderr, "cannot mount: %s\n", nfs_get_error(nfs));
        return 1;
    }
    /* For ever. */
    nfs_set_autoreconnect(nfs, -1);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        perform(line);
    }
    return 0;
}
