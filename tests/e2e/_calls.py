"""What _all_calls.py makes its calls with: each is timed, and an error of it judged; and calls that Python has not."""

import ctypes
import errno
import os
import reprlib
import struct
import sys
import time

# Seconds; no server is back in less.
LONG = 0.01
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 0x10
AT_FDCWD = -100
LIBC = ctypes.CDLL(None, use_errno=True)


def renameat2(name, other, flags):
    checked(LIBC.renameat2(AT_FDCWD, os.fsencode(name), AT_FDCWD, os.fsencode(other), flags))


def fallocate(fd, mode, start, length):
    checked(LIBC.fallocate(fd, mode, ctypes.c_longlong(start), ctypes.c_longlong(length)))


def access(name, mode):
    """Unlike Python's own it tells what the error was."""
    checked(LIBC.access(os.fsencode(name), mode))


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def makes(*kinds):
    """What a function of the worker is for: these kinds of calls."""

    def mark(function):
        function.makes = kinds
        return function

    return mark


class Away(Exception):
    """A server was away for too long."""


class Wrong(Exception):
    """Not what was to be there."""


class Calls:
    def __init__(self, soft, long):
        self.soft = soft
        self.long = long
        self.made = {}
        self.longest = 0.0
        self.refused = 0

    def __call__(self, kind, call, *arguments, **options):
        began, clock = time.monotonic(), time.time()
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
            if took > LONG:
                print(kind, f"{clock:.6f}", f"{clock + took:.6f}", file=self.long, flush=True)
            if self.soft is not None and took > 2 * self.soft + 4:
                raise Wrong(f"{kind}{reprlib.repr(arguments)} took {took} s")


def expect(what, found, wanted):
    if found != wanted:
        if isinstance(found, bytes) and isinstance(wanted, bytes):
            same = next((at for at, (one, other) in enumerate(zip(found, wanted)) if one != other), "all that both have")
            what += f" ({len(found)} bytes of {len(wanted)}, the same up to {same})"
        raise Wrong(f"{what}: found {found!r:.200}, wanted {wanted!r:.200}")


def acl(user, group, other, uid, rights):
    """As Linux keeps an access control list: version 2, then tag, rights and id of each entry."""
    nobody = 0xFFFFFFFF
    entries = [(1, user, nobody), (2, rights, uid), (4, group, nobody), (0x10, 7, nobody), (0x20, other, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
