/* A disk that fails or is slow, for the programs that are started with this in LD_PRELOAD: what they read, write and
 * force goes through here. The folder $DISK_FAULTS says how, from one call to the next:
 *
 *   eio    a part of a path, or with a '$' its end: reading or opening that file ends with EIO
 *   write  the same of writing to it
 *   sync   the same of forcing it
 *   read   microseconds that each read of a file below $DISK_SLOW takes longer
 *   force  microseconds that each force of one does
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int say(const char *name, char *text, size_t size)
{
    static int (*real_open)(const char *, int, ...);
    static ssize_t (*real_read)(int, void *, size_t);
    const char *folder = getenv("DISK_FAULTS");
    char path[4096];
    if (!folder)
        return 0;
    if (!real_open)
        real_open = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    if (!real_read)
        real_read = (ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = real_open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = real_read(fd, text, size - 1);
    close(fd);
    if (length <= 0)
        return 0;
    text[length] = 0;
    text[strcspn(text, "\n")] = 0;
    return text[0] != 0;
}

static int path_of(int fd, char *path, size_t size)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return path[0] == '/';
}

static int is_meant(const char *path, char *part)
{
    size_t length = strlen(part);
    if (part[length - 1] != '$')
        return strstr(path, part) != 0;
    part[length - 1] = 0;
    size_t whole = strlen(path);
    return length - 1 <= whole && !strcmp(path + whole - (length - 1), part);
}

static int fails(int fd, const char *what)
{
    int before = errno;
    char part[4096], path[4096];
    int result = say(what, part, sizeof part) && path_of(fd, path, sizeof path) && is_meant(path, part);
    errno = result ? EIO : before;
    return result;
}

static void delay(int fd, const char *what)
{
    int before = errno;
    char text[64], path[4096];
    const char *below = getenv("DISK_SLOW");
    if (below && say(what, text, sizeof text) && path_of(fd, path, sizeof path) && strstr(path, below))
        usleep((useconds_t)atoi(text));
    errno = before;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name);

/* Some reads are calls of the system that no library sees: there, the file cannot be opened. */
int open64(const char *path, int flags, ...)
{
    REAL(open64)
    char part[4096];
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if (say("eio", part, sizeof part) && is_meant(path, part)) {
        errno = EIO;
        return -1;
    }
    return real(path, flags, mode);
}

ssize_t pread64(int fd, void *buffer, size_t size, off64_t offset)
{
    REAL(pread64)
    if (fails(fd, "eio"))
        return -1;
    delay(fd, "read");
    return real(fd, buffer, size, offset);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
    return pread64(fd, buffer, size, offset);
}

ssize_t read(int fd, void *buffer, size_t size)
{
    REAL(read)
    if (fails(fd, "eio"))
        return -1;
    return real(fd, buffer, size);
}

ssize_t pwrite64(int fd, const void *buffer, size_t size, off64_t offset)
{
    REAL(pwrite64)
    if (fails(fd, "write"))
        return -1;
    return real(fd, buffer, size, offset);
}

ssize_t pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
    return pwrite64(fd, buffer, size, offset);
}

ssize_t write(int fd, const void *buffer, size_t size)
{
    REAL(write)
    if (fails(fd, "write"))
        return -1;
    return real(fd, buffer, size);
}

int fdatasync(int fd)
{
    REAL(fdatasync)
    if (fails(fd, "sync"))
        return -1;
    delay(fd, "force");
    return real(fd);
}

int fsync(int fd)
{
    REAL(fsync)
    if (fails(fd, "sync"))
        return -1;
    delay(fd, "force");
    return real(fd);
}
