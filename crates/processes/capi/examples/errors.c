/* What goes wrong, and what is said about it.
 *
 * errors CLUSTER: makes mistakes, and prints for each the number and the words. */
#include <errno.h>
#include <fcntl.h>
#include <pandofs.h>
#include <stdio.h>
#include <string.h>

static void show(int64_t result)
{
    printf("%-16s %s\n", strerror((int)-result), pandofs_strerror_last());
}

int main(int argc, char **argv)
{
    pandofs_fs_t fs, nobody;
    pandofs_file_t file;
    pandofs_stat_t stat;

    if (argc != 2) {
        fprintf(stderr, "Usage: errors CLUSTER\n");
        return 2;
    }
    show(pandofs_connect("unix:/there/is/none", NULL, &fs));
    if (pandofs_connect(argv[1], NULL, &fs) < 0) {
        fprintf(stderr, "errors: %s\n", pandofs_strerror_last());
        return 1;
    }
    show(pandofs_stat(fs, "/not/there", &stat));
    show(pandofs_mkdir(fs, "/", 0755));
    show(pandofs_open(fs, "/", O_RDONLY, 0, &file));
    if (pandofs_as(fs, 65534, 65534, NULL, 0, &nobody) == 0) {
        pandofs_mkdir(fs, "/private", 0700);
        show(pandofs_open(nobody, "/private/file", O_WRONLY | O_CREAT, 0644, &file));
        pandofs_rmdir(fs, "/private");
        pandofs_disconnect(nobody);
    }
    show(pandofs_stat(fs, NULL, &stat));
    pandofs_disconnect(fs);
    show(pandofs_stat(fs, "/", &stat));
    return 0;
}
