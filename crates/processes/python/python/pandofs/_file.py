"""File objects that behave as Python's own: raw, buffered and text."""

from __future__ import annotations

import errno
import io
import os
from typing import IO, Any, List, Optional, Tuple, Union

from pandofs._pandofs import File
from pandofs._types import BLOCK_BYTES, StrOrBytesPath, stat_result


def flags_of(mode: str) -> Tuple[int, bool, bool, bool, str]:
    """What `open()` makes of a mode: flags of open(2), whether it reads, writes, is binary, and the mode of the raw file."""
    if not isinstance(mode, str):
        raise TypeError(f"invalid mode: {mode!r}")
    kinds = [letter for letter in mode if letter in "rwax"]
    if set(mode) - set("rwax+bt") or len(mode) != len(set(mode)):
        raise ValueError(f"invalid mode: {mode!r}")
    if "b" in mode and "t" in mode:
        raise ValueError("can't have text and binary mode at once")
    if len(kinds) != 1:
        raise ValueError("must have exactly one of create/read/write/append mode")
    kind, plus = kinds[0], "+" in mode
    flags = {
        "r": 0,
        "w": os.O_CREAT | os.O_TRUNC,
        "a": os.O_CREAT | os.O_APPEND,
        "x": os.O_CREAT | os.O_EXCL,
    }[kind]
    flags |= os.O_RDWR if plus else os.O_RDONLY if kind == "r" else os.O_WRONLY
    raw = {"r": "rb", "w": "wb", "a": "ab", "x": "xb"}[kind] + ("+" if plus else "")
    return flags, kind == "r" or plus, kind != "r" or plus, "b" in mode, raw


def bytes_of(data: Any) -> bytes:
    """The bytes of an object that has some in one piece."""
    with memoryview(data) as view:
        if not view.c_contiguous:
            raise BufferError("memoryview: underlying buffer is not C-contiguous")
        return view.tobytes()


class RawFile(io.RawIOBase):
    """An open file without a buffer, as `io.FileIO`; it has no descriptor that the kernel knows."""

    def __init__(self, handle: File, name: StrOrBytesPath, flags: int, mode: str) -> None:
        self._handle = handle
        self.name = name
        self.mode = mode
        access = flags & os.O_ACCMODE
        self._reads = access != os.O_WRONLY
        self._writes = access != os.O_RDONLY
        self._appends = bool(flags & os.O_APPEND)
        self._process = os.getpid()
        self._position = 0
        if self._appends:
            self.seek(0, os.SEEK_END)

    def __repr__(self) -> str:
        state = "closed " if self.closed else ""
        return f"<{state}pandofs file name={self.name!r} mode={self.mode!r}>"

    def __getstate__(self) -> Any:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object: give the other process the client and the path")

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file.")

    def _check_readable(self) -> None:
        self._check_open()
        if not self._reads:
            raise io.UnsupportedOperation("File not open for reading")

    def _check_writable(self) -> None:
        self._check_open()
        if not self._writes:
            raise io.UnsupportedOperation("File not open for writing")

    def readable(self) -> bool:
        self._check_open()
        return self._reads

    def writable(self) -> bool:
        self._check_open()
        return self._writes

    def seekable(self) -> bool:
        self._check_open()
        return True

    def read(self, size: Optional[int] = -1) -> bytes:
        self._check_readable()
        if size is None or size < 0:
            return self.readall()
        data = self._handle.pread(size, self._position)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        self._check_readable()
        # As many as there seem to be and one more, so that one call finds the end.
        size = max(self._handle.stat()[5] - self._position, 0) + 1
        pieces: List[bytes] = []
        while True:
            data = self.read(size)
            if not data:
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.append(data)
            if len(data) < size:
                size = 1

    def readinto(self, buffer: Any) -> int:
        self._check_readable()
        view = memoryview(buffer).cast("B")
        data = self._handle.pread(len(view), self._position)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def write(self, data: Any) -> int:
        if not isinstance(data, (bytes, bytearray)):
            data = bytes_of(data)
        self._check_writable()
        if self._appends:
            self._position = self._handle.append(data) + len(data)
            return len(data)
        written = self._handle.pwrite(data, self._position)
        self._position += written
        return written

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check_open()
        if whence == os.SEEK_SET:
            position = offset
        elif whence == os.SEEK_CUR:
            position = self._position + offset
        elif whence == os.SEEK_END:
            position = self._handle.stat()[5] + offset
        else:
            position = -1
        if position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = position
        return position

    def tell(self) -> int:
        self._check_open()
        return self._position

    def truncate(self, size: Optional[int] = None) -> int:
        self._check_writable()
        if size is None:
            size = self._position
        if size < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._handle.truncate(size)
        return size

    def flush(self) -> None:
        """Has others see what was written."""
        self._check_open()
        if self._writes:
            self._handle.flush()

    def sync(self) -> None:
        """Has what was written on disk."""
        self._check_open()
        self._handle.sync()

    def stat(self) -> os.stat_result:
        """Attributes, as `os.fstat()`."""
        self._check_open()
        return stat_result(self._handle.stat())

    def close(self) -> None:
        if self.closed:
            return
        is_inherited = self._process != os.getpid()
        if is_inherited:
            # It is the parent's, of which nothing is to be seen to here.
            self._writes = False
        try:
            super().close()
        finally:
            if not is_inherited:
                self._handle.close()


class Writer(io.BufferedWriter):
    """Flushing ends at those who read the file, as with a local one: not in the client library."""

    def flush(self) -> None:
        super().flush()
        self.raw.flush()


class _Both(io.BufferedRandom):
    def flush(self) -> None:
        super().flush()
        self.raw.flush()


def opened(
    raw: RawFile,
    binary: bool,
    buffering: int,
    encoding: Optional[str],
    errors: Optional[str],
    newline: Optional[str],
) -> IO[Any]:
    """What `open()` makes of a raw file."""
    if buffering == 0:
        if binary:
            return raw  # type: ignore[return-value]
        raise ValueError("can't have unbuffered text I/O")
    by_lines = buffering == 1 and not binary
    size = BLOCK_BYTES if buffering in (-1, 1) else buffering
    buffer: Union[io.BufferedReader, io.BufferedWriter, io.BufferedRandom]
    if raw.readable() and raw.writable():
        buffer = _Both(raw, size)
    elif raw.writable():
        buffer = Writer(raw, size)
    else:
        buffer = io.BufferedReader(raw, size)
    if binary:
        return buffer
    text = io.TextIOWrapper(buffer, encoding, errors, newline, by_lines)
    text.mode = raw.mode.replace("b", "")  # type: ignore[misc]
    return text


def check_text(binary: bool, buffering: int, encoding: Any, errors: Any, newline: Any) -> None:
    """What `open()` says of arguments before it opens anything."""
    if not isinstance(buffering, int):
        raise TypeError(f"invalid buffering: {buffering!r}")
    if buffering < -1:
        raise ValueError("invalid buffering size")
    if binary and encoding is not None:
        raise ValueError("binary mode doesn't take an encoding argument")
    if binary and errors is not None:
        raise ValueError("binary mode doesn't take an errors argument")
    if binary and newline is not None:
        raise ValueError("binary mode doesn't take a newline argument")
    if not binary and buffering == 0:
        raise ValueError("can't have unbuffered text I/O")


def fsync(file: Any) -> None:
    """As `os.fsync()`, of a file that a `Client` opened: what was written through it is on disk."""
    file.flush()
    # A text file has a buffered one, and that a raw one.
    buffered = file.buffer if isinstance(file, io.TextIOWrapper) else file
    raw = buffered if isinstance(buffered, RawFile) else buffered.raw
    raw.sync()


