"""The connection to a file system, and the functions of `os` and `open()` on it."""

from __future__ import annotations

import atexit
import errno
import os
import stat
import sys
import threading
import weakref
from typing import (
    IO,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from pandofs._directory import Scandir, walk
from pandofs._file import RawFile, bytes_of, check_text, flags_of, opened
from pandofs._pandofs import MAX_THREADS, Session
from pandofs._types import BLOCK_BYTES, StrOrBytesPath, stat_result

_T = TypeVar("_T")

#: Threads of a batch, and with them requests under way, unless somebody says otherwise.
DEFAULT_THREADS = 16
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_MAX_TIMEOUT_MS = 2**32 - 1

#: The process, if it is one of multiprocessing that ends its connections.
_worker = 0
#: All that are not collected yet.
_clients: weakref.WeakSet[Client] = weakref.WeakSet()


class Client:
    """A connection to a file system. Threads share it; processes that are forked or given it pickled make their own.

    `cluster` is the path of a cluster map, the folder that `pandofs up --data` has it in, or addresses of servers
    (`unix:/PATH` or `tcp:HOST:PORT`) with commas in between. `timeout` is the time in seconds for which a call waits for a
    server that does not answer; None is for ever. `cache_bytes` is memory for names and attributes. Without `uid` and `gid`
    the process's own user and groups ask, and without `umask` it is the process's own.

    Paths begin at the root, with or without a `/`. Errors are `OSError`, with a number and a path.
    """

    def __init__(
        self,
        cluster: StrOrBytesPath,
        *,
        timeout: Optional[float] = 30.0,
        cache_bytes: int = 16 << 20,
        uid: Optional[int] = None,
        gid: Optional[int] = None,
        groups: Sequence[int] = (),
        umask: Optional[int] = None,
    ) -> None:
        if timeout is not None and not 0 < timeout <= _MAX_TIMEOUT_MS / 1000:
            raise ValueError("timeout: a positive number of seconds, or None")
        if umask is not None and not 0 <= umask <= 0o777:
            raise ValueError("umask: of 0o777")
        place: Any = os.fspath(cluster)
        if not _is_address(place):
            # So that it means the same in a process with another working directory.
            place = os.path.abspath(place)
            if os.path.isdir(place):
                place = os.path.join(place, b"cluster.json" if isinstance(place, bytes) else "cluster.json")
        #: What `connect` and a process that is given this connect with.
        self._options: Dict[str, Any] = {
            "cluster": place,
            "timeout": timeout,
            "cache_bytes": cache_bytes,
            "uid": uid,
            "gid": gid,
            "groups": tuple(groups),
            "umask": umask,
        }
        self._closed = False
        self._forget()
        self._connect()
        _clients.add(self)

    def _forget(self) -> None:
        """Has neither a connection nor files, as a new process does."""
        self._lock = threading.Lock()
        self._session: Optional[Session] = None
        self._files: weakref.WeakSet[Any] = weakref.WeakSet()

    def _connect(self) -> Session:
        with self._lock:
            if self._closed:
                raise OSError(errno.EBADF, "the client is closed", self._options["cluster"])
            if self._session is None:
                options = self._options
                timeout, umask = options["timeout"], options["umask"]
                self._session = Session(
                    options["cluster"],
                    0 if timeout is None else max(round(timeout * 1000), 1),
                    options["cache_bytes"],
                    options["uid"],
                    options["gid"],
                    options["groups"],
                    _own_umask() if umask is None else umask,
                )
                _close_with_worker()
            return self._session

    @property
    def _now(self) -> Session:
        session = self._session
        return self._connect() if session is None else session

    @property
    def cluster(self) -> Union[str, bytes]:
        """The cluster that it is connected to, as absolute path or addresses."""
        return self._options["cluster"]  # type: ignore[no-any-return]

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closed

    def __repr__(self) -> str:
        return f"<pandofs.Client {'closed ' if self._closed else ''}cluster={self.cluster!r}>"

    def __reduce__(self) -> Tuple[Any, ...]:
        if self._closed:
            raise ValueError("a closed client cannot be pickled")
        return _made, (self._options,)

    def __enter__(self) -> Client:
        self._connect()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Any, trace: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes its files and ends the connection. The first error of that is raised, and all is closed all the same."""
        with self._lock:
            session, self._session = self._session, None
            self._closed = True
        failed: Optional[BaseException] = None
        for file in list(self._files):
            try:
                file.close()
            except (OSError, ValueError) as error:
                failed = failed or error
        if session is not None:
            # Who has waited as long as it wanted need not wait again.
            session.close(wait=getattr(failed, "errno", None) != errno.EIO)
        if failed is not None:
            raise failed

    # Files.

    def open(
        self,
        path: StrOrBytesPath,
        mode: str = "r",
        buffering: int = -1,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
        *,
        permissions: int = 0o666,
    ) -> IO[Any]:
        """As `open()`: a text file, a buffered one (`b`), or a raw one (`b`, and `buffering=0`)."""
        flags, _, _, binary, raw_mode = flags_of(mode)
        check_text(binary, buffering, encoding, errors, newline)
        raw = RawFile(self._now.open(path, flags, permissions), path, flags, raw_mode)
        try:
            file = opened(raw, binary, buffering, encoding, errors, newline)
        except BaseException:
            raw.close()
            raise
        self._files.add(file)
        return file

    def truncate(self, path: StrOrBytesPath, length: int) -> None:
        """As `os.truncate()`."""
        self._now.truncate(path, length)

    # Names.

    def mkdir(self, path: StrOrBytesPath, mode: int = 0o777) -> None:
        """As `os.mkdir()`."""
        self._now.mkdir(path, mode)

    def makedirs(self, path: StrOrBytesPath, mode: int = 0o777, exist_ok: bool = False) -> None:
        """As `os.makedirs()`."""
        try:
            self._now.mkdir(path, mode)
        except FileExistsError:
            if not exist_ok or not self.isdir(path):
                raise
        except FileNotFoundError:
            text = os.fspath(path)
            parent = os.path.dirname(text.rstrip(b"/") if isinstance(text, bytes) else text.rstrip("/"))
            if not parent or parent == text:
                raise
            self.makedirs(parent, exist_ok=True)
            self.makedirs(path, mode, exist_ok)

    def rmdir(self, path: StrOrBytesPath) -> None:
        """As `os.rmdir()`."""
        self._now.rmdir(path)

    def remove(self, path: StrOrBytesPath) -> None:
        """As `os.remove()`."""
        self._now.unlink(path)

    unlink = remove

    def rmtree(self, path: StrOrBytesPath) -> None:
        """Removes a directory with all that is in it; of symbolic links the links. The first error is raised."""
        if self.islink(path):
            raise OSError(errno.ENOTDIR, "a symbolic link is no tree to be removed", path)
        for directory, directories, others in self.walk(path, topdown=False, onerror=_raise):
            for name in others:
                self.remove(os.path.join(directory, name))
            for name in directories:
                if self.islink(os.path.join(directory, name)):
                    self.remove(os.path.join(directory, name))
            self.rmdir(directory)

    def rename(
        self, path: StrOrBytesPath, new_path: StrOrBytesPath, *, replace: bool = True, exchange: bool = False
    ) -> None:
        """As `os.rename()`, which takes the place of what has the new name: not if `replace` is false, and with `exchange` the
        two change places."""
        flags = _RENAME_EXCHANGE if exchange else 0 if replace else _RENAME_NOREPLACE
        self._now.rename(path, new_path, flags)

    def replace(self, path: StrOrBytesPath, new_path: StrOrBytesPath) -> None:
        """As `os.replace()`."""
        self._now.rename(path, new_path, 0)

    def link(self, path: StrOrBytesPath, new_path: StrOrBytesPath) -> None:
        """As `os.link()`."""
        self._now.link(path, new_path)

    def symlink(self, target: StrOrBytesPath, path: StrOrBytesPath) -> None:
        """As `os.symlink()`."""
        self._now.symlink(target, path)

    def readlink(self, path: StrOrBytesPath) -> Any:
        """As `os.readlink()`."""
        target = self._now.readlink(path)
        return target if isinstance(os.fspath(path), bytes) else os.fsdecode(target)

    # Directories.

    def scandir(self, path: StrOrBytesPath = "/") -> Scandir:
        """As `os.scandir()`; attributes come along with the names."""
        return Scandir(self, self._now.scan(path), path)

    def listdir(self, path: StrOrBytesPath = "/") -> List[Any]:
        """As `os.listdir()`."""
        return [entry.name for entry in self.scandir(path)]

    def walk(
        self,
        top: StrOrBytesPath = "/",
        topdown: bool = True,
        onerror: Optional[Callable[[OSError], object]] = None,
        followlinks: bool = False,
    ) -> Iterator[Tuple[Any, List[Any], List[Any]]]:
        """As `os.walk()`."""
        return walk(self, top, topdown, onerror, followlinks)

    # Attributes.

    def stat(self, path: StrOrBytesPath, *, follow_symlinks: bool = True) -> os.stat_result:
        """As `os.stat()`."""
        return stat_result(self._now.stat(path, follow_symlinks))

    def lstat(self, path: StrOrBytesPath) -> os.stat_result:
        """As `os.lstat()`."""
        return stat_result(self._now.stat(path, False))

    def _mode(self, path: StrOrBytesPath, follow_symlinks: bool = True) -> int:
        """Kind and permissions; 0 if there is nothing."""
        try:
            return self._now.stat(path, follow_symlinks)[0]
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError as error:
            if error.errno == errno.ELOOP:
                return 0
            raise

    def exists(self, path: StrOrBytesPath) -> bool:
        """As `os.path.exists()`, but an error that says nothing of that is raised."""
        return self._mode(path) != 0

    def isdir(self, path: StrOrBytesPath) -> bool:
        """As `os.path.isdir()`, with errors as `exists()`."""
        return stat.S_ISDIR(self._mode(path))

    def isfile(self, path: StrOrBytesPath) -> bool:
        """As `os.path.isfile()`, with errors as `exists()`."""
        return stat.S_ISREG(self._mode(path))

    def islink(self, path: StrOrBytesPath) -> bool:
        """As `os.path.islink()`, with errors as `exists()`."""
        return stat.S_ISLNK(self._mode(path, False))

    def access(self, path: StrOrBytesPath, mode: int) -> bool:
        """As `os.access()`, with errors as `exists()`."""
        try:
            self._now.access(path, mode)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return False
            raise
        return True

    def chmod(self, path: StrOrBytesPath, mode: int, *, follow_symlinks: bool = True) -> None:
        """As `os.chmod()`."""
        self._now.chmod(path, mode, follow_symlinks)

    def chown(self, path: StrOrBytesPath, uid: int, gid: int, *, follow_symlinks: bool = True) -> None:
        """As `os.chown()`: -1 leaves it as it is."""
        self._now.chown(path, None if uid == -1 else uid, None if gid == -1 else gid, follow_symlinks)

    def utime(
        self,
        path: StrOrBytesPath,
        times: Optional[Tuple[float, float]] = None,
        *,
        ns: Optional[Tuple[int, int]] = None,
        follow_symlinks: bool = True,
    ) -> None:
        """As `os.utime()`."""
        if times is not None:
            if ns is not None:
                raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
            ns = (int(times[0] * 1e9), int(times[1] * 1e9))
        self._now.utime(path, ns, follow_symlinks)

    def getxattr(self, path: StrOrBytesPath, attribute: Any, *, follow_symlinks: bool = True) -> bytes:
        """As `os.getxattr()`."""
        return self._now.getxattr(path, attribute, follow_symlinks)

    def listxattr(self, path: StrOrBytesPath, *, follow_symlinks: bool = True) -> List[str]:
        """As `os.listxattr()`."""
        return [os.fsdecode(name) for name in self._now.listxattr(path, follow_symlinks)]

    def setxattr(
        self, path: StrOrBytesPath, attribute: Any, value: bytes, flags: int = 0, *, follow_symlinks: bool = True
    ) -> None:
        """As `os.setxattr()`."""
        self._now.setxattr(path, attribute, value, flags, follow_symlinks)

    def removexattr(self, path: StrOrBytesPath, attribute: Any, *, follow_symlinks: bool = True) -> None:
        """As `os.removexattr()`."""
        self._now.removexattr(path, attribute, follow_symlinks)

    def statvfs(self) -> os.statvfs_result:
        """As `os.statvfs()`, of the whole file system. There is no limit to inodes."""
        total, free, available, _ = self._now.statvfs()
        blocks = (total // 4096, free // 4096, available // 4096)
        return os.statvfs_result((BLOCK_BYTES, 4096, *blocks, 0, 0, 0, 0, 255))

    # Batches.

    def read_many(
        self, paths: Iterable[StrOrBytesPath], *, threads: int = DEFAULT_THREADS, return_errors: bool = False
    ) -> List[Any]:
        """The bytes of each file, in their order, by so many threads, while other threads of Python go on.

        The first error of the list is raised; with `return_errors` each is in the place of what could not be read.
        """
        return _answers(self._now.read_many(list(paths), _count(threads)), return_errors)

    def stat_many(
        self,
        paths: Iterable[StrOrBytesPath],
        *,
        follow_symlinks: bool = True,
        threads: int = DEFAULT_THREADS,
        return_errors: bool = False,
    ) -> List[Any]:
        """`stat()` of each path, as `read_many()` reads."""
        found = self._now.stat_many(list(paths), follow_symlinks, _count(threads))
        return [stat_result(one) if isinstance(one, tuple) else one for one in _answers(found, return_errors)]

    def create_many(
        self,
        files: Union[Dict[Any, bytes], Iterable[Tuple[StrOrBytesPath, bytes]]],
        *,
        overwrite: bool = False,
        permissions: int = 0o666,
        threads: int = DEFAULT_THREADS,
        return_errors: bool = False,
    ) -> List[Any]:
        """Makes files of these paths with these bytes, as `read_many()` reads: None for each.

        One that is there is an error, unless `overwrite`. After an error the others are made all the same.
        """
        pairs = list(files.items() if isinstance(files, dict) else files)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if overwrite else os.O_EXCL)
        contents = [data if isinstance(data, (bytes, bytearray)) else bytes_of(data) for _, data in pairs]
        made = self._now.create_many([path for path, _ in pairs], contents, flags, permissions, _count(threads))
        return _answers(made, return_errors)


def _answers(answers: List[_T], return_errors: bool) -> List[_T]:
    if not return_errors:
        for answer in answers:
            if isinstance(answer, OSError):
                raise answer
    return answers


def _count(threads: int) -> int:
    if not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"threads: 1 to {MAX_THREADS}")
    return threads


def _raise(error: OSError) -> None:
    raise error


def _is_address(cluster: Union[str, bytes]) -> bool:
    prefixes = (b"unix:", b"tcp:") if isinstance(cluster, bytes) else ("unix:", "tcp:")
    return cluster.startswith(prefixes)  # type: ignore[arg-type]


def _own_umask() -> int:
    """The process's, which only the kernel tells without changing it."""
    try:
        with open("/proc/self/status", "rb") as lines:
            for line in lines:
                if line.startswith(b"Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    return 0o022


def _made(options: Dict[str, Any]) -> Client:
    """A client that was pickled."""
    return Client(**options)


def _close_all() -> None:
    """At the end of the program, since what is not closed may not be seen by others."""
    for client in list(_clients):
        try:
            client.close()
        except (OSError, ValueError):
            # Nobody is left to be told.
            pass


def _close_with_worker() -> None:
    """Has a process of multiprocessing end its connections: it does not get to what is registered with atexit. Others would
    wait for it then as for one that was killed."""
    global _worker
    process = os.getpid()
    if _worker != process and "multiprocessing.process" in sys.modules:
        from multiprocessing import process as processes, util

        if processes.parent_process() is not None:
            _worker = process
            util.Finalize(None, _close_all, exitpriority=0)


def _in_child() -> None:
    """After a fork nothing of the parent's is used: a client connects anew when it is used."""
    for client in list(_clients):
        client._forget()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_in_child)
