#!/usr/bin/env python3
"""Makes calls of every kind on a mount and compares all that they answer with what it knows.

_all_calls.py FOLDER NUMBER SEED REPORT STOP [SOFT]
_all_calls.py --kinds

Works in FOLDER, in directories of its own (when they are made REPORT.ready is there), until the file STOP is
there, and then writes to REPORT which kinds of calls were made and how often. To REPORT.calls it writes a line
about each call that took long enough for a server to be killed and back meanwhile: its kind, when it began and when
it ended. Of the kinds in the file `missing` beside REPORT, one a line, it makes one until that is no longer there; the
file `kills` there has a line for each server that was killed and is back. An error is a failure; with SOFT, seconds,
an error that says that a server is away is none if it came within twice that time and a bit, and what the call was
about is left alone then.

With --kinds it prints the kinds of calls that there are.
"""

import fcntl
import json
import mmap
import os
import random
import stat
import struct
import sys
import time

from _calls import (
    KEEP_SIZE,
    PUNCH_HOLE,
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    ZERO_RANGE,
    Away,
    Calls,
    Wrong,
    access,
    acl,
    expect,
    fallocate,
    makes,
    renameat2,
)

# After as many further kills, one after the other, each of the four servers was killed: the first of them may have
# been under way before.
ROUND_OF_KILLS = 5
# So often at most is a call made while its kind is missing, and then something else.
MOST = 2000


class Worker:
    def __init__(self, folder, number, seed, soft, report, stop):
        self.random = random.Random(seed * 1000 + number)
        self.call = Calls(soft, open(report + ".calls", "w", encoding="ascii"))
        self.beside = os.path.dirname(report)
        self.stop = stop
        self.wanted = None
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

    def file(self, content=b"", directory=None):
        """A new file, closed."""
        name = self.name(directory)
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

    def open(self, name, flags=os.O_RDWR):
        return self.call("open", os.open, name, flags)

    def often(self, kind):
        """Once, or while the kind of call is the wanted one and still missing."""
        yield
        for _ in range(MOST):
            if kind != self.wanted or kind not in self.missing() or os.path.exists(self.stop):
                break
            yield

    def some(self, content=b""):
        """New files in all directories, and so on all servers."""
        return [self.file(content, directory) for directory in self.dirs]

    def remove_all(self, names):
        for name in names:
            self.remove(name)

    @makes("create", "unlink")
    def do_create(self):
        name = self.file(self.bytes(20_000))
        listed = os.path.basename(name) in self.call("readdir", os.listdir, os.path.dirname(name))
        expect(f"{name} in its directory", listed, True)
        self.remove(name)

    @makes("mknod", "mkfifo")
    def do_mknod(self):
        for kind, node in (("mknod", stat.S_IFREG), ("mkfifo", stat.S_IFIFO)):
            for _ in self.often(kind):
                name = self.name()
                self.call(kind, os.mknod, name, node | 0o600)
                expect(f"kind of {name}", stat.S_IFMT(self.call("stat", os.stat, name).st_mode), node)
                self.remove(name)

    @makes("mkdir", "rmdir")
    def do_mkdir(self):
        name = self.name()
        self.call("mkdir", os.mkdir, name)
        expect(f"entries of {name}", self.call("readdir", os.listdir, name), [])
        self.call("rmdir", os.rmdir, name)
        expect(f"{name}, removed", os.path.exists(name), False)

    @makes("rename")
    def do_rename(self):
        content = self.bytes(9_000)
        name = self.file(content)
        for _ in self.often("rename"):
            other = self.name()
            self.call("rename", os.rename, name, other)
            expect(f"{name}, renamed", os.path.exists(name), False)
            name = other
        expect(name, self.content(name), content)
        third = self.file(b"in the way")
        self.call("rename", os.rename, name, third)
        expect(third, self.content(third), content)
        self.remove(third)

    @makes("rename_dir")
    def do_rename_dir(self):
        name = self.name()
        self.call("mkdir", os.mkdir, name)
        self.call("mkdir", os.mkdir, os.path.join(name, "inner"))
        for _ in self.often("rename_dir"):
            other = self.name()
            self.call("rename_dir", os.rename, name, other)
            name = other
        expect(f"entries of {name}", self.call("readdir", os.listdir, name), ["inner"])
        self.call("rmdir", os.rmdir, os.path.join(name, "inner"))
        self.call("rmdir", os.rmdir, name)

    @makes("rename_noreplace", "rename_exchange")
    def do_rename_flags(self):
        names, contents = [self.file(b"one"), self.file(b"two")], [b"one", b"two"]
        for _ in self.often("rename_noreplace"):
            other = self.name()
            self.call("rename_noreplace", renameat2, names[0], other, RENAME_NOREPLACE)
            expect(f"{names[0]}, renamed", os.path.exists(names[0]), False)
            names[0] = other
        for _ in self.often("rename_exchange"):
            self.call("rename_exchange", renameat2, *names, RENAME_EXCHANGE)
            contents.reverse()
            expect("what was exchanged", [self.content(name) for name in names], contents)
        self.remove_all(names)

    @makes("link")
    def do_link(self):
        content = self.bytes(9_000)
        names = [self.file(content)]
        for _ in self.often("link"):
            names.append(self.name())
            self.call("link", os.link, names[0], names[-1])
        expect(f"links of {names[0]}", self.call("stat", os.stat, names[0]).st_nlink, len(names))
        self.remove(names.pop(0))
        for name in names:
            expect(name, self.content(name), content)
            self.remove(name)

    @makes("symlink", "readlink")
    def do_symlink(self):
        names = []
        for _ in self.often("symlink"):
            names.append(self.name())
            self.call("symlink", os.symlink, "somewhere", names[-1])
        for _ in self.often("readlink"):
            name = self.random.choice(names)
            expect(name, self.call("readlink", os.readlink, name), "somewhere")
        for name in names:
            self.call("unlink", os.unlink, name)

    @makes("chmod", "chown", "utime", "stat", "access")
    def do_setattr(self):
        names = self.some()
        for name in names:
            self.call("chmod", os.chmod, name, 0o640)
            self.call("chown", os.chown, name, 12, 34)
            self.call("utime", os.utime, name, ns=(5, 7_000_000_001))
        for _ in self.often("chmod"):
            self.call("chmod", os.chmod, self.random.choice(names), 0o640)
        for _ in self.often("chown"):
            self.call("chown", os.chown, self.random.choice(names), 12, 34)
        for _ in self.often("utime"):
            self.call("utime", os.utime, self.random.choice(names), ns=(5, 7_000_000_001))
        for _ in self.often("access"):
            self.call("access", access, self.random.choice(names), os.R_OK)
        for _ in self.often("stat"):
            name = self.random.choice(names)
            found = self.call("stat", os.stat, name)
            expect(name, (found.st_mode & 0o777, found.st_uid, found.st_gid), (0o640, 12, 34))
            expect(f"the time of {name}", found.st_mtime_ns, 7_000_000_001)
        self.remove_all(names)

    @makes("truncate", "open_truncate")
    def do_truncate(self):
        content = self.bytes(200_000)
        name = self.file(content)
        for _ in self.often("truncate"):
            cut = self.random.randrange(len(content))
            self.call("truncate", os.truncate, name, cut)
            expect(name, self.content(name), content[:cut])
            self.call("truncate", os.truncate, name, cut + 5_000)
            content = content[:cut] + bytes(5_000)
            expect(name, self.content(name), content)
        for _ in self.often("open_truncate"):
            self.call("truncate", os.truncate, name, self.random.randrange(200_000))
            fd = self.call("open_truncate", os.open, name, os.O_RDWR | os.O_TRUNC)
            self.write_all(fd, b"anew")
            self.close(fd)
            expect(name, self.content(name), b"anew")
        self.remove(name)

    @makes("write", "fsync", "fdatasync", "open", "read")
    def do_write(self):
        content = bytearray(self.random.randbytes(400_000))
        name = self.file(bytes(content))
        fd = self.open(name)

        def write():
            at, piece = self.random.randrange(len(content)), self.bytes(5_000)
            expect("written", self.call("write", os.pwrite, fd, piece, at), len(piece))
            content[at : at + len(piece)] = piece

        for _ in self.often("write"):
            write()
        for kind, force in (("fsync", os.fsync), ("fdatasync", os.fdatasync)):
            for _ in self.often(kind):
                write()
                self.call(kind, force, fd)
        self.close(fd)
        for _ in self.often("open"):
            self.close(self.open(name))
        for _ in self.often("read"):
            expect(name, self.content(name), bytes(content))
        self.remove(name)

    @makes("close")
    def do_close(self):
        """What is written is answered early: who closes the file waits for it."""
        content = self.random.randbytes(100_000)
        name = self.file()
        for _ in self.often("close"):
            fd = self.open(name)
            self.call("write", os.pwrite, fd, content, 0)
            self.close(fd)
        expect(name, self.content(name), content)
        self.remove(name)

    @makes("write_sync", "write_direct", "read_direct")
    def do_past_the_cache(self):
        size = 1 << 18
        content, name = bytearray(size), self.file(bytes(size))
        # Memory that begins with a page, as direct access has it.
        with mmap.mmap(-1, 1 << 14) as piece:

            def write(kind):
                at = self.random.randrange(0, size - len(piece), 4096)
                piece[:] = content[at : at + len(piece)] = self.random.randbytes(len(piece))
                expect("written", self.call(kind, os.pwritev, fd, [piece], at), len(piece))

            fd = self.open(name, os.O_RDWR | os.O_SYNC)
            for _ in self.often("write_sync"):
                write("write_sync")
            self.close(fd)
            fd = self.open(name, os.O_RDWR | os.O_DIRECT)
            for _ in self.often("write_direct"):
                write("write_direct")
            for _ in self.often("read_direct"):
                at = self.random.randrange(0, size - len(piece), 4096)
                expect("read", self.call("read_direct", os.preadv, fd, [piece], at), len(piece))
                expect("what was read", piece[:], bytes(content[at : at + len(piece)]))
            self.close(fd)
        expect(name, self.content(name), bytes(content))
        self.remove(name)

    @makes("map_read", "map_write", "msync")
    def do_map(self):
        if self.call.soft is not None:
            # An error would be a signal.
            return
        size = 1 << 18
        content = bytearray(self.random.randbytes(size))
        name = self.file(bytes(content))
        fd = self.open(name)

        def map_anew():
            """Of pages that are to be read first."""
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            view = mmap.mmap(fd, size)
            view.madvise(mmap.MADV_RANDOM)
            return view

        for _ in self.often("map_read"):
            with map_anew() as view:
                at = self.random.randrange(size)
                expect(f"byte {at} of {name}", self.call("map_read", view.__getitem__, at), content[at])
        for _ in self.often("map_write"):
            with map_anew() as view:
                at = self.random.randrange(size)
                content[at] = self.random.randrange(256)
                self.call("map_write", view.__setitem__, at, content[at])
        with map_anew() as view:
            for _ in self.often("msync"):
                at = self.random.randrange(size)
                content[at] = view[at] = self.random.randrange(256)
                self.call("msync", view.flush)
        self.close(fd)
        expect(name, self.content(name), bytes(content))
        self.remove(name)

    @makes("copy_file_range")
    def do_copy(self):
        content = self.random.randbytes(200_000)
        names = [self.file(content), self.file()]
        source, target = (self.open(name) for name in names)
        for _ in self.often("copy_file_range"):
            at = 0
            while at < len(content):
                at += self.call("copy_file_range", os.copy_file_range, source, target, len(content) - at, at, at)
        self.close(source)
        self.close(target)
        for name in names:
            expect(name, self.content(name), content)
            self.remove(name)

    @makes("readdir")
    def do_readdir(self):
        directory = self.name()
        self.call("mkdir", os.mkdir, directory)
        names = sorted(f"entry-{number}" for number in range(20))
        for name in names:
            self.call("symlink", os.symlink, "x", os.path.join(directory, name))
        for _ in self.often("readdir"):
            expect(f"entries of {directory}", sorted(self.call("readdir", os.listdir, directory)), names)
        for name in names:
            self.call("unlink", os.unlink, os.path.join(directory, name))
        self.call("rmdir", os.rmdir, directory)

    @makes("fsync_dir", "statfs")
    def do_directory(self):
        for _ in self.often("fsync_dir"):
            fd = self.open(self.random.choice(self.dirs), os.O_RDONLY | os.O_DIRECTORY)
            self.call("fsync_dir", os.fsync, fd)
            self.close(fd)
        for _ in self.often("statfs"):
            found = self.call("statfs", os.statvfs, self.base)
            expect("longest name", found.f_namemax, 255)
            expect("more free than there is", found.f_bavail > found.f_blocks, False)

    @makes("setxattr", "getxattr", "listxattr", "removexattr")
    def do_setxattr(self):
        names, value = self.some(), self.bytes(2_000)
        for name in names:
            self.call("setxattr", os.setxattr, name, "user.a", value)
        for _ in self.often("setxattr"):
            self.call("setxattr", os.setxattr, self.random.choice(names), "user.a", value)
        for _ in self.often("getxattr"):
            name = self.random.choice(names)
            expect(f"user.a of {name}", self.call("getxattr", os.getxattr, name, "user.a"), value)
        for _ in self.often("listxattr"):
            name = self.random.choice(names)
            expect(f"attributes of {name}", self.call("listxattr", os.listxattr, name), ["user.a"])
        for _ in self.often("removexattr"):
            name = self.random.choice(names)
            self.call("removexattr", os.removexattr, name, "user.a")
            expect(f"attributes of {name}", self.call("listxattr", os.listxattr, name), [])
            self.call("setxattr", os.setxattr, name, "user.a", value)
        self.remove_all(names)

    @makes("acl")
    def do_acl(self):
        names = self.some()
        for _ in self.often("acl"):
            name, rights = self.random.choice(names), self.random.randrange(8)
            self.call("acl", os.setxattr, name, "system.posix_acl_access", acl(6, 4, 0, 99, rights))
            found = self.call("getxattr", os.getxattr, name, "system.posix_acl_access")
            expect(f"the list of {name}", found, acl(6, 4, 0, 99, rights))
        self.remove_all(names)

    @makes("lock", "unlock", "test_lock", "flock")
    def do_lock(self):
        name = self.file(b"0" * 100)
        fd = self.open(name)
        nobodys = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        for kind in ("lock", "unlock"):
            for _ in self.often(kind):
                start = self.random.randrange(50)
                self.call("lock", fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, start)
                self.call("unlock", fcntl.lockf, fd, fcntl.LOCK_UN, 10, start)
        for _ in self.often("test_lock"):
            found = self.call("test_lock", fcntl.fcntl, fd, fcntl.F_GETLK, nobodys)
            expect("another's lock", struct.unpack("hhqqi", found)[0], fcntl.F_UNLCK)
        for _ in self.often("flock"):
            self.call("flock", fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.call("unlock", fcntl.flock, fd, fcntl.LOCK_UN)
        self.close(fd)
        self.remove(name)

    @makes("lock_waiting", "flock_waiting")
    def do_wait_for_lock(self):
        """Another process holds it until each server was killed: also the one that keeps the lock."""
        if self.call.soft is not None:
            # There nobody is told of kills.
            return
        name = self.file(b"0" * 100)
        kinds = {"lock_waiting": fcntl.lockf, "flock_waiting": fcntl.flock}
        kind = self.wanted if self.wanted in kinds else "lock_waiting"
        has_it, tell = os.pipe()
        worker = os.getpid()
        holder = os.fork()
        if holder == 0:
            self.hold(name, kinds[kind], tell, worker)
        os.close(tell)
        os.read(has_it, 1)
        os.close(has_it)
        fd = self.open(name)
        self.call(kind, kinds[kind], fd, fcntl.LOCK_EX)
        expect("how the holder ended", os.waitpid(holder, 0)[1], 0)
        self.close(fd)
        self.remove(name)

    def hold(self, name, lock, tell, worker):
        """A process of its own, which ends here."""
        try:
            fd = os.open(name, os.O_RDWR)
            lock(fd, fcntl.LOCK_EX)
            enough = self.kills() + ROUND_OF_KILLS
            os.write(tell, b"1")
            while self.kills() < enough and not os.path.exists(self.stop) and os.getppid() == worker:
                time.sleep(0.05)
            lock(fd, fcntl.LOCK_UN)
            os._exit(0)
        finally:
            os._exit(1)

    def kills(self):
        with open(os.path.join(self.beside, "kills"), encoding="ascii") as kills:
            return len(kills.readlines())

    @makes("punch_hole", "seek_hole", "seek_data", "zero_range", "fallocate")
    def do_space(self):
        """Of a file whose hole is a whole stripe."""
        stripe = 1 << 16
        content = bytearray(self.random.randbytes(4 * stripe))
        name = self.file(bytes(content))
        fd = self.open(name)
        content[stripe : 2 * stripe] = bytes(stripe)
        for _ in self.often("punch_hole"):
            self.call("punch_hole", fallocate, fd, PUNCH_HOLE | KEEP_SIZE, stripe, stripe)
        for _ in self.often("seek_hole"):
            expect("a hole", self.call("seek_hole", os.lseek, fd, 0, os.SEEK_HOLE), stripe)
        for _ in self.often("seek_data"):
            expect("data", self.call("seek_data", os.lseek, fd, stripe, os.SEEK_DATA), 2 * stripe)
        for _ in self.often("zero_range"):
            start = self.random.randrange(2 * stripe, 3 * stripe)
            self.call("zero_range", fallocate, fd, ZERO_RANGE, start, 20_000)
            content[start : start + 20_000] = bytes(20_000)
        for _ in self.often("fallocate"):
            content += bytes(5_000)
            self.call("fallocate", fallocate, fd, 0, 0, len(content))
        self.close(fd)
        expect(name, self.content(name), bytes(content))
        self.remove(name)

    @makes("append")
    def do_append(self):
        name, wanted = self.file(), b""
        fd = self.open(name, os.O_WRONLY | os.O_APPEND)
        for _ in self.often("append"):
            for _ in range(15):
                piece = self.bytes(2_000)
                expect("appended", self.call("append", os.write, fd, piece), len(piece))
                wanted += piece
        self.close(fd)
        expect(name, self.content(name), wanted)
        self.remove(name)

    @makes("read_unlinked", "write_unlinked", "close_unlinked")
    def do_unlinked(self):
        content = self.random.randbytes(200_000)
        name = self.file(content)
        fd = self.open(name)
        self.remove(name)
        for _ in self.often("read_unlinked"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            # On a soft mount what was read before a server was missed is the answer, and the next read fails.
            found = b""
            while piece := self.call("read_unlinked", os.pread, fd, 300_000, len(found)):
                found += piece
            expect("a file without a name", found, content)
        for _ in self.often("write_unlinked"):
            # Few bytes are not answered early.
            piece, at = self.random.randbytes(5_000), self.random.randrange(190_000)
            self.call("write_unlinked", os.pwrite, fd, piece, at)
        for _ in self.often("close_unlinked"):
            self.call("write_unlinked", os.pwrite, fd, content, 0)
            self.call("close_unlinked", os.close, os.dup(fd))
        self.call("close_unlinked", os.close, fd)

    @makes("tmpfile")
    def do_unnamed(self):
        for _ in self.often("tmpfile"):
            directory = self.random.choice(self.dirs)
            fd = self.call("tmpfile", os.open, directory, os.O_TMPFILE | os.O_RDWR, 0o600)
            self.write_all(fd, b"content")
            name = self.name(directory)
            # A directory, though of no use, makes it linkat() with AT_SYMLINK_FOLLOW.
            self.call("link", os.link, f"/proc/self/fd/{fd}", name, src_dir_fd=fd, follow_symlinks=True)
            self.close(fd)
            expect(name, self.content(name), b"content")
            self.remove(name)

    def missing(self):
        """The kinds of which nobody has seen a call that a kill came into; none when nobody tells."""
        try:
            with open(os.path.join(self.beside, "missing"), encoding="ascii") as missing:
                return missing.read().split()
        except FileNotFoundError:
            return []

    def run(self):
        kinds = kinds_and_functions()
        while not os.path.exists(self.stop):
            self.wanted = self.random.choice(self.missing() or sorted(kinds))
            try:
                getattr(self, kinds[self.wanted])()
            except Away:
                pass


def kinds_and_functions():
    functions = {name: getattr(Worker, name) for name in dir(Worker) if name.startswith("do_")}
    return {kind: name for name, function in functions.items() for kind in function.makes}


def main():
    if sys.argv[1] == "--kinds":
        print(*sorted(kinds_and_functions()), sep="\n")
        return
    folder, number, seed, report, stop = sys.argv[1:6]
    soft = float(sys.argv[6]) if len(sys.argv) > 6 else None
    worker = Worker(folder, int(number), int(seed), soft, report, stop)
    with open(report + ".ready", "w", encoding="ascii"):
        pass
    try:
        worker.run()
    except (Wrong, OSError) as error:
        sys.exit(f"worker {number}: {error}")
    call = worker.call
    with open(report, "w", encoding="ascii") as file:
        json.dump({"made": call.made, "longest": call.longest, "refused": call.refused}, file)


main()
