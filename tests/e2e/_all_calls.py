#!/usr/bin/env python3
"""Makes calls of every kind on a mount and compares all that they answer with what it knows.

_all_calls.py FOLDER NUMBER SEED REPORT STOP [SOFT]

Works in FOLDER, in directories of its own (when they are made REPORT.ready is there), until the file STOP is
there, and then writes to REPORT which kinds of calls were made, how often, and how often each was held up for long, as one is whose server is started again. Of the
kinds in NUMBER's share it prefers those that were not held up yet. An error is a failure; with SOFT, seconds, an
error that says that a server is away is none if it came within twice that time and a bit, and what the call was
about is left alone then.
"""

import errno
import fcntl
import json
import os
import random
import struct
import sys
import time

HELD_UP = 0.06
WORKERS = 6


class Away(Exception):
    """A server was away for too long."""


class Wrong(Exception):
    """Not what was to be there."""


class Calls:
    def __init__(self, soft):
        self.soft = soft
        self.made = {}
        self.held_up = {}
        self.longest = 0.0
        self.refused = 0

    def __call__(self, kind, call, *arguments, **options):
        began = time.monotonic()
        try:
            return call(*arguments, **options)
        except OSError as error:
            is_away = error.errno in (errno.EIO, errno.ETIMEDOUT)
            if self.soft is None or not is_away:
                raise Wrong(f"{kind}{arguments}: {error}") from error
            self.refused += 1
            raise Away from error
        finally:
            took = time.monotonic() - began
            self.longest = max(self.longest, took)
            self.made[kind] = self.made.get(kind, 0) + 1
            if took > HELD_UP:
                self.held_up[kind] = self.held_up.get(kind, 0) + 1
            if self.soft is not None and took > 2 * self.soft + 4:
                raise Wrong(f"{kind}{arguments} took {took} s")


def expect(what, found, wanted):
    if found != wanted:
        raise Wrong(f"{what}: found {found!r:.200}, wanted {wanted!r:.200}")


def acl(user, group, other, uid, rights):
    """As Linux keeps an access control list: version 2, then tag, rights and id of each entry."""
    nobody = 0xFFFFFFFF
    entries = [(1, user, nobody), (2, rights, uid), (4, group, nobody), (0x10, 7, nobody), (0x20, other, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


class Worker:
    def __init__(self, folder, number, seed, soft):
        self.random = random.Random(seed * 1000 + number)
        self.call = Calls(soft)
        self.count = 0
        self.base = os.path.join(folder, str(number))
        self.dirs = [os.path.join(self.base, str(place)) for place in range(8)]
        os.mkdir(self.base)
        for directory in self.dirs:
            os.mkdir(directory)

    def name(self, directory=None):
        self.count += 1
        return os.path.join(directory or self.random.choice(self.dirs), f"name-{self.count}")

    def bytes(self, most):
        return self.random.randbytes(self.random.randrange(1, most))

    def file(self, content=b""):
        """A new file, closed."""
        name = self.name()
        fd = self.call("create", os.open, name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
        self.write_all(fd, content)
        self.close(fd)
        return name

    def write_all(self, fd, content):
        while content:
            content = content[self.call("write", os.write, fd, content) :]

    def close(self, fd):
        self.call("close", os.close, fd)

    def content(self, name):
        fd = self.call("open", os.open, name, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        found = b""
        while piece := self.call("read", os.read, fd, 1 << 20):
            found += piece
        self.close(fd)
        return found

    def remove(self, name):
        self.call("unlink", os.unlink, name)
        expect(f"{name}, removed", os.path.exists(name), False)

    def do_create(self):
        self.remove(self.file())

    def do_unlink(self):
        name = self.file(self.bytes(20_000))
        listed = os.path.basename(name) in os.listdir(os.path.dirname(name))
        expect(f"{name} in its directory", listed, True)
        self.remove(name)

    def do_mkdir(self):
        name = self.name()
        self.call("mkdir", os.mkdir, name)
        expect(f"entries of {name}", self.call("readdir", os.listdir, name), [])
        self.call("rmdir", os.rmdir, name)
        expect(f"{name}, removed", os.path.exists(name), False)

    do_rmdir = do_mkdir

    def do_rename(self):
        content = self.bytes(9_000)
        name, other = self.file(content), self.name()
        self.call("rename", os.rename, name, other)
        expect(other, self.content(other), content)
        expect(f"{name}, renamed", os.path.exists(name), False)
        third = self.file(b"in the way")
        self.call("rename", os.rename, other, third)
        expect(third, self.content(third), content)
        self.remove(third)

    def do_rename_dir(self):
        name, other = self.name(), self.name()
        self.call("mkdir", os.mkdir, name)
        inner = os.path.join(name, "inner")
        self.call("mkdir", os.mkdir, inner)
        self.call("rename_dir", os.rename, name, other)
        expect(f"entries of {other}", os.listdir(other), ["inner"])
        self.call("rmdir", os.rmdir, os.path.join(other, "inner"))
        self.call("rmdir", os.rmdir, other)

    def do_link(self):
        content = self.bytes(9_000)
        name, other = self.file(content), self.name()
        self.call("link", os.link, name, other)
        expect(f"links of {name}", self.call("stat", os.stat, name).st_nlink, 2)
        self.remove(name)
        expect(other, self.content(other), content)
        self.remove(other)

    def do_symlink(self):
        name = self.name()
        self.call("symlink", os.symlink, "somewhere", name)
        expect(name, self.call("readlink", os.readlink, name), "somewhere")
        self.call("unlink", os.unlink, name)

    def do_setattr(self):
        name = self.file()
        self.call("chmod", os.chmod, name, 0o640)
        self.call("chown", os.chown, name, 12, 34)
        self.call("utime", os.utime, name, ns=(5, 7_000_000_001))
        found = self.call("stat", os.stat, name)
        expect(name, (found.st_mode & 0o777, found.st_uid, found.st_gid), (0o640, 12, 34))
        expect(f"the time of {name}", found.st_mtime_ns, 7_000_000_001)
        self.remove(name)

    do_chmod = do_chown = do_utime = do_stat = do_setattr

    def do_truncate(self):
        content = self.bytes(200_000)
        name = self.file(content)
        cut = self.random.randrange(len(content))
        self.call("truncate", os.truncate, name, cut)
        expect(name, self.content(name), content[:cut])
        self.call("truncate", os.truncate, name, cut + 5_000)
        expect(name, self.content(name), content[:cut] + bytes(5_000))
        self.remove(name)

    def do_write(self):
        content = bytearray(self.bytes(400_000))
        name = self.file(bytes(content))
        fd = self.call("open", os.open, name, os.O_RDWR)
        for _ in range(10):
            at, piece = self.random.randrange(len(content)), self.bytes(5_000)
            expect("written", self.call("write", os.pwrite, fd, piece, at), len(piece))
            content[at : at + len(piece)] = piece
        self.call("fsync", os.fsync, fd)
        self.close(fd)
        expect(name, self.content(name), bytes(content))
        self.remove(name)

    do_read = do_open = do_close = do_fsync = do_write

    def do_readdir(self):
        directory = self.name()
        self.call("mkdir", os.mkdir, directory)
        names = sorted(f"entry-{number}" for number in range(20))
        for name in names:
            self.call("symlink", os.symlink, "x", os.path.join(directory, name))
        for _ in range(3):
            expect(f"entries of {directory}", sorted(self.call("readdir", os.listdir, directory)), names)
        for name in names:
            self.call("unlink", os.unlink, os.path.join(directory, name))
        self.call("rmdir", os.rmdir, directory)

    def do_setxattr(self):
        name, value = self.file(), self.bytes(2_000)
        self.call("setxattr", os.setxattr, name, "user.a", value)
        expect(f"user.a of {name}", self.call("getxattr", os.getxattr, name, "user.a"), value)
        expect(f"attributes of {name}", self.call("listxattr", os.listxattr, name), ["user.a"])
        self.call("removexattr", os.removexattr, name, "user.a")
        expect(f"attributes of {name}", self.call("listxattr", os.listxattr, name), [])
        self.remove(name)

    do_getxattr = do_listxattr = do_removexattr = do_setxattr

    def do_acl(self):
        name = self.file()
        self.call("acl", os.setxattr, name, "system.posix_acl_access", acl(6, 4, 0, 99, 5))
        found = self.call("getxattr", os.getxattr, name, "system.posix_acl_access")
        expect(f"the list of {name}", found, acl(6, 4, 0, 99, 5))
        self.remove(name)

    def do_lock(self):
        name = self.file(b"0" * 100)
        fd = self.call("open", os.open, name, os.O_RDWR)
        for _ in range(3):
            start = self.random.randrange(50)
            self.call("lock", fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, start)
            self.call("unlock", fcntl.lockf, fd, fcntl.LOCK_UN, 10, start)
        self.call("flock", fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.call("unlock", fcntl.flock, fd, fcntl.LOCK_UN)
        self.close(fd)
        self.remove(name)

    do_unlock = do_flock = do_lock

    def do_fallocate(self):
        name = self.file(b"begin")
        fd = self.call("open", os.open, name, os.O_RDWR)
        for size in (100_000, 200_000):
            self.call("fallocate", os.posix_fallocate, fd, 0, size)
        self.close(fd)
        expect(name, self.content(name), b"begin" + bytes(200_000 - 5))
        self.remove(name)

    def do_append(self):
        name, wanted = self.file(), b""
        fd = self.call("open", os.open, name, os.O_WRONLY | os.O_APPEND)
        for _ in range(15):
            piece = self.bytes(2_000)
            expect("appended", self.call("append", os.write, fd, piece), len(piece))
            wanted += piece
        self.close(fd)
        expect(name, self.content(name), wanted)
        self.remove(name)

    def do_unlinked(self):
        content = self.bytes(30_000)
        name = self.file(content)
        fd = self.call("open", os.open, name, os.O_RDWR)
        self.remove(name)
        self.call("write_unlinked", os.pwrite, fd, b"end", len(content))
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        found = self.call("read_unlinked", os.pread, fd, 40_000, 0)
        expect("a file without a name", found, content + b"end")
        self.call("close_unlinked", os.close, fd)

    do_read_unlinked = do_write_unlinked = do_unlinked

    def do_unnamed(self):
        directory = self.random.choice(self.dirs)
        fd = self.call("tmpfile", os.open, directory, os.O_TMPFILE | os.O_RDWR, 0o600)
        self.write_all(fd, b"content")
        name = self.name(directory)
        # A directory, though of no use, makes it linkat() with AT_SYMLINK_FOLLOW.
        self.call("link", os.link, f"/proc/self/fd/{fd}", name, src_dir_fd=fd, follow_symlinks=True)
        self.close(fd)
        expect(name, self.content(name), b"content")
        self.remove(name)

    do_tmpfile = do_unnamed

    def run(self, number, stop):
        kinds = sorted(kind[3:] for kind in dir(self) if kind.startswith("do_"))
        mine = kinds[number::WORKERS]
        while not os.path.exists(stop):
            wanted = [kind for kind in mine if kind not in self.call.held_up] or kinds
            try:
                getattr(self, "do_" + self.random.choice(wanted))()
            except Away:
                pass


def main():
    folder, number, seed, report, stop = sys.argv[1:6]
    soft = float(sys.argv[6]) if len(sys.argv) > 6 else None
    worker = Worker(folder, int(number), int(seed), soft)
    with open(report + ".ready", "w", encoding="ascii"):
        pass
    try:
        worker.run(int(number), stop)
    except (Wrong, OSError) as error:
        sys.exit(f"worker {number}: {error}")
    call = worker.call
    with open(report, "w", encoding="ascii") as file:
        json.dump(
            {"made": call.made, "held_up": call.held_up, "longest": call.longest, "refused": call.refused}, file
        )


main()
