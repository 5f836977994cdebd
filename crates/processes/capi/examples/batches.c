/* Makes, reads and removes many files from one thread, with many requests under way at once.
 *
 * batches CLUSTER DIRECTORY FILES: makes the directory and that many files in it, reads them and one that is not there, compares,
 * removes them, and says how it went. */
#include <errno.h>
#include <pandofs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 32 };

static int explain(const char *what)
{
    fprintf(stderr, "batches: %s: %s\n", what, pandofs_strerror_last());
    return 1;
}

int main(int argc, char **argv)
{
    char (*names)[ROOM], (*read)[ROOM];
    pandofs_item_t *items;
    pandofs_fs_t fs, dir;
    int files, missing;

    if (argc != 4 || (files = atoi(argv[3])) < 1) {
        fprintf(stderr, "Usage: batches CLUSTER DIRECTORY FILES\n");
        return 2;
    }
    names = calloc((size_t)files + 1, ROOM);
    read = calloc((size_t)files + 1, ROOM);
    items = calloc((size_t)files + 1, sizeof *items);
    if (names == NULL || read == NULL || items == NULL)
        return 1;
    if (pandofs_connect(argv[1], NULL, &fs) < 0 ||
        pandofs_mkdir(fs, argv[2], 0755) < 0 ||
        pandofs_at(fs, argv[2], &dir) < 0)
        return explain("beginning");
    /* Each file has its name as its contents. */
    for (int n = 0; n <= files; n++) {
        snprintf(names[n], ROOM, "file-%d", n);
        items[n] = (pandofs_item_t){.path = names[n], .data = names[n], .size = strlen(names[n])};
    }
    if (pandofs_create_many(dir, items, (size_t)files, 0644) != 0)
        return explain("making");
    for (int n = 0; n <= files; n++) {
        items[n].data = read[n];
        items[n].size = ROOM;
    }
    /* One more than there are: it fails by itself. */
    missing = (int)pandofs_read_many(dir, items, (size_t)files + 1);
    if (missing != 1 || items[files].result != -ENOENT)
        return explain("reading");
    for (int n = 0; n < files; n++) {
        if (items[n].result != (int64_t)strlen(names[n]) || strcmp(names[n], read[n]) != 0) {
            fprintf(stderr, "batches: %s has other bytes\n", names[n]);
            return 1;
        }
    }
    if (pandofs_unlink_many(dir, items, (size_t)files) != 0)
        return explain("removing");
    printf("%d files made, read and removed; %d was not there\n", files, missing);
    free(names);
    free(read);
    free(items);
    return pandofs_disconnect(dir) < 0 || pandofs_disconnect(fs) < 0;
}
