"""A file system for fsspec, `pandofs://`: what pandas, pyarrow, zarr, dask and others open.

    fsspec.filesystem("pandofs", cluster="/var/tmp/pando/cluster.json")
    fsspec.open("pandofs:///results/first", cluster="/var/tmp/pando/cluster.json")
    fsspec.open("pandofs://server:7400/results/first")

The cluster is an option, or servers are in the URL, with commas in between, or it is in the environment, as `PANDOFS_CLUSTER`.
"""

from __future__ import annotations

import datetime
import errno
import os
import shutil
import stat
import uuid
from typing import IO, Any, Callable, Dict, List, Optional, TypeVar, Union

from fsspec import AbstractFileSystem
from fsspec.utils import stringify_path

from pandofs._client import Client
from pandofs._file import RawFile, Writer, flags_of
from pandofs._types import BLOCK_BYTES, Attributes

_T = TypeVar("_T")
_PREFIX = "pandofs://"
#: Bytes that are copied at once.
_COPY_BYTES = 4 << 20


class DeferredFile(Writer):
    """A file of a transaction: it has another name beside its own until that is committed."""

    def __init__(self, client: Client, path: str, exclusive: bool, size: int) -> None:
        directory, name = os.path.split(path)
        self._temporary = os.path.join(directory, f".{name[:180]}.{uuid.uuid4().hex}")
        self._client = client
        self._exclusive = exclusive
        self.path = path
        flags, _, _, _, mode = flags_of("xb")
        super().__init__(RawFile(client._now.open(self._temporary, flags, 0o666), path, flags, mode), size)

    def commit(self) -> None:
        """Gives it its name, in place of what has that."""
        self.close()
        self._client.rename(self._temporary, self.path, replace=not self._exclusive)

    def discard(self) -> None:
        """Removes it."""
        self.close()
        self._client.remove(self._temporary)


class PandoFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """PandoFS by its client library.

    `cluster`, `timeout`, `cache_bytes`, `uid`, `gid`, `groups` and `umask` are those of `pandofs.Client`. With `auto_mkdir`
    directories are made for files that are opened to be written.
    """

    protocol = "pandofs"
    root_marker = "/"
    # Servers are asked each time, or have leased what they said: nothing else is to be kept.
    cachable = True

    def __init__(self, cluster: Optional[str] = None, auto_mkdir: bool = False, **options: Any) -> None:
        ours = {"timeout", "cache_bytes", "uid", "gid", "groups", "umask"}
        given = {name: options.pop(name) for name in list(options) if name in ours}
        super().__init__(cluster=cluster, auto_mkdir=auto_mkdir, **given, **options)
        cluster = cluster or os.environ.get("PANDOFS_CLUSTER")
        if not cluster:
            raise ValueError("pandofs: give cluster=..., servers in the URL, or PANDOFS_CLUSTER in the environment")
        self.auto_mkdir = auto_mkdir
        #: The connection.
        self.client = Client(cluster, **given)

    @property
    def fsid(self) -> str:
        return f"pandofs:{os.fsdecode(self.client.cluster)}"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> Dict[str, Any]:
        if not path.startswith(_PREFIX):
            return {}
        servers = path[len(_PREFIX) :].partition("/")[0]
        if not servers:
            return {}
        return {"cluster": ",".join(f"tcp:{server}" for server in servers.split(","))}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = stringify_path(path)
        if text.startswith(_PREFIX):
            text = text[len(_PREFIX) :].partition("/")[2]
        return "/" + text.strip("/") if not text.startswith("/") else text.rstrip("/") or "/"

    # Files.

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Optional[int] = None,
        autocommit: bool = True,
        cache_options: Optional[Dict[str, Any]] = None,
        **kwargs: Any,
    ) -> IO[bytes]:
        path = self._strip_protocol(path)
        size = block_size if block_size and block_size > 1 else BLOCK_BYTES
        if not autocommit and mode[0] != "r":
            if mode not in ("wb", "xb"):
                raise ValueError(f"a transaction has new files, and none of mode {mode!r}")
            return self._in_parent(path, lambda: DeferredFile(self.client, path, mode == "xb", size))
        file = self._in_parent(path if mode[0] != "r" else None, lambda: self.client.open(path, mode, size))
        file.path = path  # type: ignore[attr-defined]
        if mode == "rb":
            file.size = file.raw.stat().st_size  # type: ignore[attr-defined]
        return file

    def _in_parent(self, path: Optional[str], work: Callable[[], _T]) -> _T:
        """Does something that needs the folder of a path, which is made if that is wanted and it is not there."""
        try:
            return work()
        except FileNotFoundError:
            if path is None or not self.auto_mkdir:
                raise
            self.client.makedirs(self._parent(path), exist_ok=True)
            return work()

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **kwargs: Any) -> bytes:
        path = self._strip_protocol(path)
        if start is None and end is None:
            return self.client.read_many([path], threads=1)[0]  # type: ignore[no-any-return]
        raw: Any = self.client.open(path, "rb", 0)
        with raw as file:
            size = file.stat().st_size if (start or 0) < 0 or (end or 0) < 0 else 0
            first = max(start + size, 0) if start is not None and start < 0 else start or 0
            file.seek(first)
            if end is None:
                return file.read()  # type: ignore[no-any-return]
            last = end + size if end < 0 else end
            return file.read(max(last - first, 0))  # type: ignore[no-any-return]

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        """As fsspec has it, of many files at once."""
        if kwargs:
            return super().cat(path, recursive=recursive, on_error=on_error, **kwargs)
        paths = self.expand_path(path, recursive=recursive)
        if len(paths) == 1 and not isinstance(path, list) and paths[0] == self._strip_protocol(path):
            return self.cat_file(paths[0])
        if recursive:
            paths = [one for one in paths if not self.isdir(one)]
        contents = self.client.read_many(paths, return_errors=on_error != "raise")
        pairs = zip(paths, contents)
        return {path: data for path, data in pairs if on_error == "return" or not isinstance(data, OSError)}

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        if self._intrans:
            super().pipe_file(path, value, mode=mode, **kwargs)
            return
        path = self._strip_protocol(path)
        file = [(path, value)]
        self._in_parent(path, lambda: self.client.create_many(file, overwrite=mode == "overwrite", threads=1))

    def pipe(self, path: Any, value: Optional[bytes] = None, **kwargs: Any) -> None:
        """As fsspec has it, many files at once."""
        if not isinstance(path, dict) or self._intrans:
            super().pipe(path, value, **kwargs)
            return
        files = {self._strip_protocol(one): data for one, data in path.items()}
        if self.auto_mkdir:
            for parent in {self._parent(one) for one in files}:
                self.client.makedirs(parent, exist_ok=True)
        self.client.create_many(files, overwrite=kwargs.get("mode", "overwrite") == "overwrite")

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        self._in_parent(path, lambda: self.client.open(path, "ab")).close()
        self.client.utime(path)
        if truncate:
            self.client.truncate(path, 0)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.client.isdir(path1):
            self.client.makedirs(path2, exist_ok=True)
            return
        with self.client.open(path1, "rb", 0) as source:
            with self._in_parent(path2, lambda: self.client.open(path2, "wb", 0)) as target:
                shutil.copyfileobj(source, target, _COPY_BYTES)

    # Names.

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        if create_parents:
            self.client.makedirs(path, **kwargs)
        else:
            self.client.mkdir(path, **kwargs)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.client.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self.client.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        self.client.remove(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path: Union[str, List[str]], recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        if maxdepth is not None:
            raise NotImplementedError("pandofs: rm() with maxdepth")
        for one in self.expand_path(path):
            if not self.client.isdir(one) or self.client.islink(one):
                self.client.remove(one)
            elif recursive:
                self.client.rmtree(one)
            else:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), one)

    def mv(self, path1: str, path2: str, recursive: bool = True, maxdepth: Optional[int] = None, **kwargs: Any) -> None:
        """At one moment, and directories with all that is in them. Into a directory that is there, as `mv`."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.client.isdir(path2) and path1 != path2:
            path2 = os.path.join(path2, os.path.basename(path1))
        self._in_parent(path2, lambda: self.client.rename(path1, path2))

    def link(self, src: str, dst: str, **kwargs: Any) -> None:
        """A further name for a file."""
        self.client.link(self._strip_protocol(src), self._strip_protocol(dst))

    def symlink(self, src: str, dst: str, **kwargs: Any) -> None:
        """A symbolic link."""
        self.client.symlink(src, self._strip_protocol(dst))

    # Attributes.

    def _info(self, name: str, attributes: Attributes, own: Optional[Attributes] = None) -> Dict[str, Any]:
        """Attributes of what a name leads to; `own` are those of a symbolic link that it is."""
        mode, number, links, user, group, size, _, mtime, _, _, _, made = attributes
        info = {
            "name": name,
            "size": size,
            "type": "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other",
            "created": made / 1e9,
            "islink": own is not None,
            "mode": mode,
            "uid": user,
            "gid": group,
            "mtime": mtime / 1e9,
            "mtime_ns": mtime,
            "ino": number,
            "nlink": links,
        }
        if own is not None:
            info["destination"] = self.client.readlink(name)
        return info

    def info(self, path: str, **kwargs: Any) -> Dict[str, Any]:
        path = self._strip_protocol(path)
        own = self.client._now.stat(path, False)
        if not stat.S_ISLNK(own[0]):
            return self._info(path, own)
        try:
            target = self.client._now.stat(path, True)
        except FileNotFoundError:
            # It leads nowhere, but is there.
            target = own
        return self._info(path, target, own)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> List[Any]:
        path = self._strip_protocol(path)
        try:
            entries = self.client.scandir(path)
        except NotADirectoryError:
            return [self.info(path)] if detail else [path]
        with entries:
            if not detail:
                return sorted(entry.path for entry in entries)
            found = []
            for entry in entries:
                if entry._attributes is not None and not entry.is_symlink():
                    found.append(self._info(entry.path, entry._attributes))
                    continue
                try:
                    found.append(self.info(entry.path))
                except FileNotFoundError:
                    # It is gone since.
                    pass
            return sorted(found, key=lambda info: info["name"])

    def exists(self, path: str, **kwargs: Any) -> bool:
        return self.client.exists(self._strip_protocol(path))

    def lexists(self, path: str, **kwargs: Any) -> bool:
        return self.client._mode(self._strip_protocol(path), False) != 0

    def isdir(self, path: str) -> bool:
        return self.client.isdir(self._strip_protocol(path))

    def isfile(self, path: str) -> bool:
        return self.client.isfile(self._strip_protocol(path))

    def islink(self, path: str) -> bool:
        """Whether it is a symbolic link."""
        return self.client.islink(self._strip_protocol(path))

    def chmod(self, path: str, mode: int) -> None:
        """Sets permissions."""
        self.client.chmod(self._strip_protocol(path), mode)

    def created(self, path: str) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.info(path)["created"], tz=datetime.timezone.utc)

    def modified(self, path: str) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    def ukey(self, path: str) -> str:
        info = self.info(path)
        return f"{info['ino']}-{info['size']}-{info['mtime_ns']}"

    def _isfilestore(self) -> bool:
        # It has directories, which dask wants to know.
        return True
