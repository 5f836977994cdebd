/* Walks a tree, without putting paths together: each directory is a handle, and names are relative to it.
 *
 * walk CLUSTER [DIRECTORY]: prints kind, size and path of all below it, and in the end how many there were. */
#include <inttypes.h>
#include <pandofs.h>
#include <stdio.h>
#include <sys/stat.h>

struct totals {
    uint64_t entries;
    uint64_t bytes;
};

static int explain(const char *what)
{
    fprintf(stderr, "walk: %s: %s\n", what, pandofs_strerror_last());
    return -1;
}

/* The handle is the directory's, and path says for people where that is. */
static int walk(pandofs_fs_t fs, const char *path, struct totals *totals)
{
    pandofs_dirent_t entry;
    pandofs_dir_t dir;
    int found;

    if (pandofs_opendir(fs, ".", PANDOFS_DIR_STAT, &dir) < 0)
        return explain(path);
    while ((found = pandofs_readdir(dir, &entry)) > 0) {
        char below[PANDOFS_PATH_MAX];

        if (snprintf(below, sizeof below, "%s/%s", path, entry.name) >= (int)sizeof below) {
            fprintf(stderr, "walk: %s/%s is too deep to be shown\n", path, entry.name);
            continue;
        }
        totals->entries++;
        totals->bytes += S_ISREG(entry.kind) ? entry.stat.size : 0;
        printf("%c %10" PRIu64 " %s\n", S_ISDIR(entry.kind) ? 'd' : S_ISLNK(entry.kind) ? 'l' : '-',
               entry.stat.size, below);
        if (S_ISDIR(entry.kind)) {
            pandofs_fs_t child;

            if (pandofs_at(fs, entry.name, &child) < 0) {
                explain(below); /* Somebody may just have removed it. */
                continue;
            }
            walk(child, below, totals);
            pandofs_disconnect(child);
        }
    }
    if (found < 0)
        explain(path);
    pandofs_closedir(dir);
    return found;
}

int main(int argc, char **argv)
{
    struct totals totals = {0, 0};
    pandofs_fs_t fs, top;
    int failed;

    if (argc < 2) {
        fprintf(stderr, "Usage: walk CLUSTER [DIRECTORY]\n");
        return 2;
    }
    if (pandofs_connect(argv[1], NULL, &fs) < 0) {
        explain("no file system");
        return 1;
    }
    failed = pandofs_at(fs, argc > 2 ? argv[2] : "/", &top);
    if (failed) {
        explain("no directory");
    } else {
        failed = walk(top, argc > 2 ? argv[2] : "", &totals);
        pandofs_disconnect(top);
        printf("%" PRIu64 " entries, %" PRIu64 " bytes\n", totals.entries, totals.bytes);
    }
    if (pandofs_disconnect(fs) < 0)
        failed = explain("disconnect");
    return failed ? 1 : 0;
}
